//! The command lines that probe a service on this machine behind a link, and the wait for their processes.
//!
//! Nothing is started here: `behind` does so for one probe, `sweep` for several.

use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus};
use std::thread;

use anyhow::{Context, Result};
use nix::sys::signal::Signal;
use squall_base::{Duration, Time};
use squall_linux::{clock, program};

use crate::client::HttpUrl;
use crate::interrupt;
use crate::outcome::BadInput;

/// The flag of a capture. Behind a link, it is the link that captures.
pub(super) const PCAP: &str = "--pcap";
/// What the far host is called on the near side of a link.
const FAR_HOST: &str = "server";
/// How often to check whether a running probe has ended.
const LOOK_EVERY: std::time::Duration = std::time::Duration::from_millis(20);

/// A service on this machine, to be probed behind links.
pub(super) struct Service {
    squall: PathBuf,
    port: u16,
}

/// A capture that a link makes, and the file from which the link takes the TLS secrets.
pub(super) struct LinkCaptureFiles<'a> {
    pub(super) path: &'a Path,
    pub(super) keys: Option<&'a Path>,
}

impl Service {
    /// The service at a URL of localhost.
    pub(super) fn of(url: &str) -> Result<Service> {
        let Some(port) = HttpUrl::parse(url)?.local_port() else {
            let said = format!(
                "--behind is for a service on this machine, because there is no internet behind the link: expected a URL of \
                 localhost instead of {url}"
            );
            return Err(BadInput::new(said).into());
        };
        let squall = std::env::current_exe().context("cannot find squall's own executable")?;
        Ok(Service { squall, port })
    }

    /// The command that runs squall with these arguments behind a link.
    pub(super) fn probe(&self, link: &str, own: Vec<OsString>) -> Command {
        self.command(link, None, own)
    }

    /// Like `probe`, but the link can also make a capture.
    pub(super) fn command(
        &self,
        link: &str,
        capture: Option<&LinkCaptureFiles<'_>>,
        own: Vec<OsString>,
    ) -> Command {
        let port = self.port;
        let mut command = Command::new(&self.squall);
        command.args(["link", "--quiet", "--up", link, "--down", link]);
        if let Some(capture) = capture {
            command.arg(PCAP).arg(capture.path);
            if let Some(keys) = capture.keys {
                command.arg("--key-log").arg(keys);
            }
        }
        command
            .args(["--forward", &port.to_string(), "--"])
            .arg(&self.squall)
            .args(own)
            .args(["--forwarded", link])
            .args(["--connect-to", &format!("{FAR_HOST}:{port}")]);
        command
    }
}

/// Waits for a process. Ends it after `at_most`, or when this process is interrupted. Returns `None` if it took longer than
/// `at_most`.
pub(super) fn wait(child: &mut Child, at_most: Option<Duration>) -> Result<Option<ExitStatus>> {
    let deadline: Option<Time> = at_most.map(|at_most| clock::now() + at_most);
    let mut is_ending = false;
    let mut is_late = false;
    loop {
        if let Some(status) = child.try_wait().context("cannot wait for squall link")? {
            return Ok((!is_late).then_some(status));
        }
        is_late |= !is_ending && deadline.is_some_and(|deadline| clock::now() > deadline);
        if !is_ending && (is_late || interrupt::is_requested()) {
            is_ending = true;
            program::signal(child.id(), Signal::SIGTERM);
        }
        thread::sleep(LOOK_EVERY);
    }
}

/// The arguments without these flags and their values, and without these switches.
pub(super) fn without_flags(
    arguments: impl Iterator<Item = OsString>,
    flags: &[&str],
    switches: &[&str],
) -> Vec<OsString> {
    let mut kept = Vec::new();
    let mut arguments = arguments;
    while let Some(argument) = arguments.next() {
        if flags.iter().any(|flag| argument == *flag) {
            // Skips the flag's value.
            arguments.next();
            continue;
        }
        let is_joined = |flag: &&str| {
            let text = argument.to_string_lossy();
            let value = text.strip_prefix(*flag);
            value.is_some_and(|value| value.starts_with('='))
        };
        let is_switch = switches.iter().any(|switch| argument == *switch);
        if !is_switch && !flags.iter().any(is_joined) {
            kept.push(argument);
        }
    }
    kept
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn command_behind_the_link_has_all_other_arguments() {
        for flag in [vec!["--behind", "delay 30ms"], vec!["--behind=delay 30ms"]] {
            let mut all = vec!["probe", "-k", "--json"];
            all.extend(flag);
            all.push("https://localhost/");
            let all = all.into_iter().map(OsString::from);
            let kept = without_flags(all, &["--behind", PCAP], &["--json"]);
            assert_eq!(kept, ["probe", "-k", "https://localhost/"]);
        }
    }

    #[test]
    fn link_makes_the_capture_with_the_secrets_of_the_probe() {
        let service = Service {
            squall: PathBuf::from("/squall"),
            port: 8_443,
        };
        let capture = LinkCaptureFiles {
            path: Path::new("a.pcapng"),
            keys: Some(Path::new("a.keys")),
        };
        let own = vec!["probe".into()];
        let command = service.command("delay 30ms", Some(&capture), own);
        let words: Vec<&str> = command
            .get_args()
            .filter_map(std::ffi::OsStr::to_str)
            .collect();
        assert_eq!(
            words.join("|"),
            "link|--quiet|--up|delay 30ms|--down|delay 30ms|--pcap|a.pcapng|--key-log|a.keys|--forward|8443|--|/squall|probe|\
             --forwarded|delay 30ms|--connect-to|server:8443"
        );
    }
}
