//! The first process of the PID namespace: creates hosts and link, runs the programs, and prints the summary at the
//! end.

use std::io;
use std::net::Ipv4Addr;
use std::os::fd::AsFd;
use std::path::PathBuf;
use std::process::Command;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail};
use nix::poll::{PollFd, PollFlags, PollTimeout, poll};
use nix::sys::signal::Signal;
use squall_linux::forward::Forwarder;
use squall_linux::host::Host;
use squall_linux::link_thread::LinkThread;
use squall_linux::privileges::{self, Rights};
use squall_linux::program::{self, Identity, ProgramExit, SignalRequest, Signals};
use squall_linux::stop::StopSignal;
use squall_linux::{clock, listening, process};

use super::front::code_of;
use super::hosts::{self, CLIENT_ADDRESS, DEVICE, SERVER_ADDRESS};
use super::outputs::Outputs;
use super::plan::{Plan, Starter};
use super::summary::{Measured, Summary};
use crate::outcome::CommandOutcome;
use crate::output::eprint;

/// Host names for programs.
const NAMES: [(Ipv4Addr, &str); 2] = [(SERVER_ADDRESS, "server"), (CLIENT_ADDRESS, "client")];
/// How long to wait for the far host's program to listen.
const LISTENS_WITHIN: Duration = Duration::from_secs(10);
/// How long programs may take to end after SIGTERM before they are killed.
const GRACE: Duration = Duration::from_secs(2);
/// Polling interval where no event can be waited for.
const POLL: Duration = Duration::from_millis(20);

/// Runs the link and its programs.
pub(super) fn run(plan: &Plan, starter: &Starter) -> Result<CommandOutcome> {
    if !process::die_with_starter(starter.starter)? {
        bail!(
            "the process {} that started this one is gone",
            starter.starter
        );
    }
    // The programs are the user's own choice: they get the rights that they would have without squall.
    privileges::lower_to(Rights::HOSTS.and(Rights::MAP_USERS))?;
    // Before any other thread starts, because threads inherit blocked signals.
    let signals = Signals::block()?;
    let identity = match (starter.uid, starter.gid) {
        (Some(uid), Some(gid)) => Identity::Person { uid, gid },
        _ => Identity::Own,
    };
    let ([client, server], devices) = hosts::make(&plan.congestion_control, plan.offload)?;
    let failed = StopSignal::new()?;
    // The times of the schedule and those of the outputs count from here.
    let epoch = clock::now();
    let (sinks, outputs) = Outputs::start(plan, epoch)?;
    let link = LinkThread::start_from(&plan.settings, devices, sinks, failed.clone(), epoch)?;
    let mut programs = Programs {
        signals,
        failed,
        identity,
        key_log: plan.key_log.clone(),
        server: None,
        ended: None,
        forwarders: Vec::new(),
    };
    let result = programs.run(plan, &client, &server);
    let forward_drops = programs.forward_drops(&server)?;
    programs.end_all();
    let result = match result {
        Ok(ended) => Ok(CommandOutcome::Code(code_of(ended))),
        Err(error) => shell_outcome(error),
    };
    let report = link.stop()?;
    let totals = outputs.finish(plan)?;
    let measured = Measured {
        totals: &totals,
        counters: (client.counters(DEVICE)?, server.counters(DEVICE)?),
        report: &report,
        lasted: clock::now().since(epoch),
        forward_drops,
    };
    let summary = Summary::new(plan, &measured);
    if !plan.is_quiet {
        eprint(summary.text());
    } else if let Some(said) = summary.forward_drops_sentence() {
        // These drops look like loss on the link, so `--quiet` does not hide them.
        eprint(format_args!("squall link: {said}\n"));
    }
    if let Some(path) = &plan.json {
        squall_record::write_json(path.clone(), &summary)?;
    }
    result
}

/// Turns an early end that is not a failure of the link into the exit code that a shell would give: a command that cannot be
/// started, or a signal. Returns any other error.
fn shell_outcome(error: anyhow::Error) -> Result<CommandOutcome> {
    if let Some(start_error) = error.downcast_ref::<ProgramStartError>() {
        eprint(format_args!("squall: {start_error}\n"));
        return Ok(CommandOutcome::Code(start_error.code));
    }
    match error.downcast_ref::<EndedBySignal>() {
        Some(EndedBySignal(signal)) => Ok(CommandOutcome::Code(128 + *signal as u8)),
        None => Err(error),
    }
}

/// The programs behind the link, and the events that concern them.
struct Programs {
    signals: Signals,
    /// Requested if the link's thread fails.
    failed: StopSignal,
    identity: Identity,
    /// The file that programs write TLS secrets to.
    key_log: Option<PathBuf>,
    /// The far host's program.
    server: Option<u32>,
    /// The near program and how it ended.
    ended: Option<(u32, ProgramExit)>,
    /// The forwarded ports.
    forwarders: Vec<Forwarder>,
}

impl Programs {
    /// Runs the near program to its end. The far one, if any, is started before it.
    fn run(&mut self, plan: &Plan, client: &Host, server: &Host) -> Result<ProgramExit> {
        if let Some(line) = &plan.serve {
            let mut shell = Command::new("/bin/sh");
            shell.arg("-c").arg(line);
            // The terminal belongs to the near program.
            shell.stdin(std::process::Stdio::null());
            self.server = Some(self.start(server, shell)?);
            self.wait_until_it_listens(server, line)?;
        }
        // After the wait; otherwise the forwarder would be mistaken for the far host's program.
        for port in &plan.forward {
            let forwarder = Forwarder::start(server, SERVER_ADDRESS, *port)
                .with_context(|| format!("cannot forward port {port}"))?;
            self.forwarders.push(forwarder);
        }
        let near = self.start(client, near_command(&plan.command))?;
        loop {
            self.wait(None)?;
            match self.ended.take() {
                Some((process, ended)) if process == near => return Ok(ended),
                Some((process, ended)) if Some(process) == self.server => {
                    self.server = None;
                    if ended != ProgramExit::Code(0) {
                        eprint(format_args!(
                            "squall: the far host's program ended with {ended}\n"
                        ));
                    }
                }
                _ => {}
            }
        }
    }

    /// How many datagrams squall itself dropped. Its sockets also count those that the link corrupted, which the kernel drops
    /// for their checksums.
    fn forward_drops(&self, server: &Host) -> Result<u64> {
        if self.forwarders.is_empty() {
            return Ok(0);
        }
        let corrupted = server.protocol_counters()?.count("UdpInCsumErrors");
        let dropped: u64 = self.forwarders.iter().map(Forwarder::dropped).sum();
        Ok(dropped.saturating_sub(corrupted))
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
            anyhow::Error::new(ProgramStartError { name, code, error })
        })?;
        Ok(child.id())
    }

    fn wait_until_it_listens(&mut self, server: &Host, line: &str) -> Result<()> {
        let give_up = Instant::now() + LISTENS_WITHIN;
        while !listening::has_listener(server)? {
            self.wait(Some(POLL))?;
            if let Some((_, ended)) = self
                .ended
                .take_if(|(process, _)| Some(*process) == self.server)
                && ended != ProgramExit::Code(0)
            {
                bail!("the far host's program ended with {ended} before it listened: {line}");
            }
            if Instant::now() > give_up {
                eprint(format_args!(
                    "squall: nothing listens in the far host after {} s; continuing\n",
                    LISTENS_WITHIN.as_secs()
                ));
                break;
            }
        }
        Ok(())
    }

    /// Waits until a program has ended or the timeout expires; handles signals meanwhile.
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
            if let SignalRequest::End(signal) = asked {
                return Err(EndedBySignal(signal).into());
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

    /// Ends every remaining program, including orphans and daemons.
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

/// The user's command, or their shell.
fn near_command(words: &[String]) -> Command {
    match words.split_first() {
        Some((program, arguments)) => {
            let mut command = Command::new(program);
            command.args(arguments);
            command
        }
        None => {
            eprint(
                "squall: a shell on the near side of the link; the far host is `server`; leave with `exit`\n",
            );
            Command::new(std::env::var_os("SHELL").unwrap_or_else(|| "/bin/sh".into()))
        }
    }
}

/// A program that does not exist or cannot be executed.
#[derive(Debug, thiserror::Error)]
#[error("cannot start {name}: {error}")]
struct ProgramStartError {
    name: String,
    /// Exit code as in shells: 127 for not found, 126 for not executable.
    code: u8,
    error: io::Error,
}

/// A signal asked the link to end.
#[derive(Debug, thiserror::Error)]
#[error("ended by {0}")]
struct EndedBySignal(Signal);
