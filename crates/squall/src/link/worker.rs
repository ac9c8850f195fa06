//! The first process of the PID namespace: hosts, link, programs, and the sum at the end.

use std::io;
use std::os::fd::AsFd;
use std::path::PathBuf;
use std::process::Command;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail};
use nix::poll::{PollFd, PollFlags, PollTimeout, poll};
use nix::sys::signal::Signal;
use squall_linux::host::Host;
use squall_linux::link_thread::{Ends, LinkThread};
use squall_linux::program::{self, Asked, Ended, Identity, Signals};
use squall_linux::stop::StopSignal;
use squall_linux::tun::Tun;
use squall_linux::{clock, forward, listening, process};

use super::outputs::Outputs;
use super::summary::Summary;
use super::{CLIENT_ADDRESS, DEVICE, NAMES, PREFIX_LEN, Plan, SERVER_ADDRESS, Starter};
use crate::Ending;
use crate::output::talk;

/// How long the far host's program may take until it listens.
const LISTENS_WITHIN: Duration = Duration::from_secs(10);
/// How long programs may take to end when they are asked to, before they are killed.
const GRACE: Duration = Duration::from_secs(2);
/// How often to look where nothing can be waited for.
const POLL: Duration = Duration::from_millis(20);

/// Runs the link and its programs.
pub(crate) fn run(plan: &Plan, starter: &Starter) -> Result<Ending> {
    if !process::die_with_starter(starter.starter)? {
        bail!(
            "the process {} that started this one is gone",
            starter.starter
        );
    }
    // Before there is another thread: they inherit what is blocked.
    let signals = Signals::gather()?;
    let identity = match (starter.uid, starter.gid) {
        (Some(uid), Some(gid)) => Identity::Person { uid, gid },
        _ => Identity::Own,
    };
    let (client, server) = (Host::create()?, Host::create()?);
    let end = |host: &Host, address| {
        host.run(|| {
            let device = Tun::create(DEVICE, address, PREFIX_LEN, plan.offload)?;
            device.use_congestion_control(&plan.congestion_control)?;
            Ok(device)
        })
    };
    let ends = Ends {
        client: end(&client, CLIENT_ADDRESS)?,
        server: end(&server, SERVER_ADDRESS)?,
    };
    let failed = StopSignal::new()?;
    // Here, because the schedule counts from the link's start.
    let epoch = clock::now();
    let (sinks, outputs) = Outputs::start(plan, epoch)?;
    let link = LinkThread::start(&plan.settings, ends, sinks, failed.clone())?;
    let mut programs = Programs {
        signals,
        failed,
        identity,
        key_log: plan.key_log.clone(),
        server: None,
        ended: None,
    };
    let result = programs.run(plan, &client, &server);
    programs.end_all();
    let result = match result {
        Ok(ended) => Ok(Ending::Code(u8::try_from(ended.shell_code()).unwrap_or(1))),
        Err(error) => as_shells_do(error),
    };
    let report = link.stop()?;
    let totals = outputs.finish(plan)?;
    let counters = (client.counters(DEVICE)?, server.counters(DEVICE)?);
    let summary = Summary::new(plan, &totals, counters, &report, clock::now().since(epoch));
    if !plan.is_quiet {
        talk(summary.text());
    }
    if let Some(path) = &plan.json {
        squall_record::write_json(path.clone(), &summary)?;
    }
    result
}

/// What ends a link early and yet is no failure of it: a command that cannot be run, a person who wants to end.
fn as_shells_do(error: anyhow::Error) -> Result<Ending> {
    if let Some(cannot_start) = error.downcast_ref::<CannotStart>() {
        talk(format_args!("squall: {cannot_start}\n"));
        return Ok(Ending::Code(cannot_start.code));
    }
    match error.downcast_ref::<Asking>() {
        Some(Asking(signal)) => Ok(Ending::Code(128 + *signal as u8)),
        None => Err(error),
    }
}

/// The programs behind the link, and what is heard of them.
struct Programs {
    signals: Signals,
    /// Given if the link's thread fails.
    failed: StopSignal,
    identity: Identity,
    /// Where they write TLS secrets.
    key_log: Option<PathBuf>,
    /// The far host's program.
    server: Option<u32>,
    /// The near program and how it ended.
    ended: Option<(u32, Ended)>,
}

impl Programs {
    /// Runs the near program to its end; the far one, if there is one, around it.
    fn run(&mut self, plan: &Plan, client: &Host, server: &Host) -> Result<Ended> {
        if let Some(line) = &plan.serve {
            let mut shell = Command::new("/bin/sh");
            shell.arg("-c").arg(line);
            // The terminal is the near program's.
            shell.stdin(std::process::Stdio::null());
            self.server = Some(self.start(server, shell)?);
            self.wait_until_it_listens(server, line)?;
        }
        // After the wait, or the forwarder would pass for the far host's program.
        for port in &plan.forward {
            forward::start(server, SERVER_ADDRESS, *port)
                .with_context(|| format!("cannot forward port {port}"))?;
        }
        let near = self.start(client, near_command(&plan.command))?;
        loop {
            self.wait(None)?;
            match self.ended.take() {
                Some((process, ended)) if process == near => return Ok(ended),
                Some((process, ended)) if Some(process) == self.server => {
                    self.server = None;
                    if ended != Ended::Code(0) {
                        talk(format_args!(
                            "squall: the far host's program ended with {ended}\n"
                        ));
                    }
                }
                _ => {}
            }
        }
    }

    fn start(&self, host: &Host, mut command: Command) -> Result<u32> {
        if let Some(file) = &self.key_log {
            command.env("SSLKEYLOGFILE", file);
        }
        let name = command.get_program().to_string_lossy().into_owned();
        let child = program::start(host, &NAMES, self.identity, command)?.map_err(|error| {
            let code = if error.kind() == io::ErrorKind::NotFound {
                127
            } else {
                126
            };
            anyhow::Error::new(CannotStart { name, code, error })
        })?;
        Ok(child.id())
    }

    fn wait_until_it_listens(&mut self, server: &Host, line: &str) -> Result<()> {
        let give_up = Instant::now() + LISTENS_WITHIN;
        while !listening::somebody_listens(server)? {
            self.wait(Some(POLL))?;
            if let Some((_, ended)) = self
                .ended
                .take_if(|(process, _)| Some(*process) == self.server)
                && ended != Ended::Code(0)
            {
                bail!("the far host's program ended with {ended} before it listened: {line}");
            }
            if Instant::now() > give_up {
                talk(format_args!(
                    "squall: nothing listens in the far host after {} s; going on\n",
                    LISTENS_WITHIN.as_secs()
                ));
                break;
            }
        }
        Ok(())
    }

    /// Waits until a program has ended, or for so long; deals with signals meanwhile.
    fn wait(&mut self, at_most: Option<Duration>) -> Result<()> {
        let timeout = at_most.map_or(PollTimeout::NONE, |span| {
            PollTimeout::try_from(span).unwrap_or(PollTimeout::MAX)
        });
        let mut waiting = [
            PollFd::new(self.signals.as_fd(), PollFlags::POLLIN),
            PollFd::new(self.failed.as_fd(), PollFlags::POLLIN),
        ];
        match poll(&mut waiting, timeout) {
            Ok(_) | Err(nix::errno::Errno::EINTR) => {}
            Err(error) => return Err(error).context("cannot wait for the programs"),
        }
        while let Some(asked) = self.signals.next() {
            if let Asked::End(signal) = asked {
                return Err(Asking(signal).into());
            }
        }
        if self.failed.is_requested() {
            bail!("the link failed");
        }
        if self.ended.is_none() {
            self.ended = program::reap();
        }
        Ok(())
    }

    /// Ends every program that is left, orphans and daemons included.
    fn end_all(&mut self) {
        program::signal_all_others(Signal::SIGTERM);
        let give_up = Instant::now() + GRACE;
        while program::has_children() {
            while program::reap().is_some() {}
            if Instant::now() > give_up {
                program::signal_all_others(Signal::SIGKILL);
            }
            std::thread::sleep(POLL / 4);
        }
    }
}

/// The person's command, or their shell.
fn near_command(words: &[String]) -> Command {
    match words.split_first() {
        Some((program, arguments)) => {
            let mut command = Command::new(program);
            command.args(arguments);
            command
        }
        None => {
            talk(
                "squall: a shell on the near side of the link; the far host is `server`; leave with `exit`\n",
            );
            Command::new(std::env::var_os("SHELL").unwrap_or_else(|| "/bin/sh".into()))
        }
    }
}

/// A program that is not there or cannot be run.
#[derive(Debug, thiserror::Error)]
#[error("cannot start {name}: {error}")]
struct CannotStart {
    name: String,
    /// As shells have it: 127 for not found, 126 for not executable.
    code: u8,
    error: io::Error,
}

/// Somebody wants the link to end.
#[derive(Debug, thiserror::Error)]
#[error("ended by {0}")]
struct Asking(Signal);
