//! squall itself, as the released binary: `squall serve` and `squall proxy` as peers, `squall fetch` and `squall load`
//! as clients.

use std::path::Path;
use std::process::{Command, Output};
use std::thread;
use std::time::{Duration, Instant};

use tempfile::TempDir;

use super::answer::Request;
use super::daemon::{Daemon, Port, free_port};
use super::program::{PATIENCE, attempt};
use super::{Http, Peer, Upstream, documents, folder};

/// `squall serve` with these flags, each HTTP version on a separate port. It writes an access log.
pub(crate) fn serve(flags: &[&str]) -> Peer {
    start("serve", &[], |_| {
        flags.iter().map(|&flag| flag.to_owned()).collect()
    })
}

/// `squall serve --dir` with these files.
pub(crate) fn serve_files(files: &[(&str, &[u8])]) -> Peer {
    start("serve", files, |documents| {
        vec!["--dir".to_owned(), documents.display().to_string()]
    })
}

/// `squall proxy` in front of this HTTP/1.1 upstream, each HTTP version on a separate port.
pub(crate) fn proxy(upstream: Upstream) -> Peer {
    assert_eq!(upstream.http, Http::H1, "what it is configured for here");
    start("proxy", &[], |_| {
        vec!["--to".to_owned(), format!("http://{}", upstream.address)]
    })
}

fn start(subcommand: &str, files: &[(&str, &[u8])], flags: impl Fn(&Path) -> Vec<String>) -> Peer {
    let (folder, certificate) = folder(files);
    let ports = Http::ALL.map(|http| (http, free_port()));
    let mut squall = command();
    squall.arg(subcommand);
    for (http, port) in ports {
        squall.arg(format!("--{}={port}", http.name()));
    }
    squall
        .args([Path::new("--cert"), &certificate.certificate])
        .args([Path::new("--key"), &certificate.key])
        .args(["--access-log", ACCESS_LOG])
        .args(flags(&documents(folder.path())));
    let answers = ports.map(|(http, port)| match http {
        Http::H3 => Port::Udp(port),
        _ => Port::Tcp(port),
    });
    let daemon = Daemon::start(folder.path(), "squall.log", &mut squall, &answers);
    Peer {
        name: "squall",
        certificate,
        ports: ports.to_vec(),
        _daemons: vec![daemon],
        folder,
    }
}

const ACCESS_LOG: &str = "access.log";

/// Waits until the server's access log contains `last`, and returns its lines. The server writes the log only when
/// idle, so the line may be late.
pub(crate) fn access_log_until(server: &Peer, last: &str) -> Vec<String> {
    let path = server.folder.path().join(ACCESS_LOG);
    let give_up = Instant::now() + PATIENCE;
    loop {
        let log = std::fs::read_to_string(&path).expect("squall has made it");
        if log.ends_with('\n') && log.contains(last) {
            return log.lines().map(str::to_owned).collect();
        }
        assert!(Instant::now() < give_up, "no {last} in {log}");
        thread::sleep(Duration::from_millis(5));
    }
}

/// The access log line that contains `what`.
pub(crate) fn access_line(server: &Peer, what: &str) -> String {
    let log = access_log_until(server, what);
    let line = log.into_iter().find(|line| line.contains(what));
    line.expect("it was waited for")
}

/// A squall command that has exited.
#[derive(Debug)]
pub(crate) struct CommandOutput {
    pub(crate) code: Option<i32>,
    pub(crate) stdout: Vec<u8>,
    pub(crate) stderr: String,
    /// The command line.
    command: String,
}

/// `squall fetch` with this HTTP version only, accepting any certificate.
pub(crate) fn fetch(http: Http, request: &Request, flags: &[&str]) -> CommandOutput {
    fetch_trusting(http, request, &[&["--insecure"], flags].concat())
}

/// `squall fetch` that offers `Upgrade: h2c` (RFC 7540 §3.2), with verbose output.
pub(crate) fn fetch_by_upgrade(request: &Request) -> CommandOutput {
    let mut squall = command();
    squall.args(["fetch", "--timeout=50s", "--upgrade", "-v"]);
    finish(squall.arg(request.url))
}

/// `squall fetch` with the HTTP version that the peer offers.
pub(crate) fn fetch_automatic(request: &Request) -> CommandOutput {
    let mut squall = command();
    squall.args(["fetch", "--timeout=50s", "--insecure", "--http", "auto"]);
    finish(squall.arg(request.url))
}

/// `squall fetch` that verifies the certificate, unless the flags say otherwise.
pub(crate) fn fetch_trusting(http: Http, request: &Request, flags: &[&str]) -> CommandOutput {
    let folder = TempDir::new().expect("a temporary folder");
    let mut squall = command();
    squall
        .args(["fetch", "--timeout=50s", "--http", http.name()])
        .args(["--method", request.method])
        .args(flags);
    if let Some(body) = request.body {
        let sent = folder.path().join("sent");
        std::fs::write(&sent, body).expect("the body is written");
        squall.arg("--data").arg(sent);
    }
    finish(squall.arg(request.url))
}

/// `squall load`: this number of GET requests over four connections, with up to 16 in flight on each over HTTP/2 and
/// HTTP/3.
pub(crate) fn load(http: Http, url: &str, requests: u32) -> CommandOutput {
    let mut squall = command();
    squall
        .args(["load", "--insecure", "--http", http.name()])
        .args(["-c", "4", "-m", "16", "-n"])
        .arg(requests.to_string());
    finish(squall.arg(url))
}

/// `squall load` with these flags, accepting any certificate.
pub(crate) fn load_with(flags: &[&str], url: &str) -> CommandOutput {
    finish(command().args(["load", "--insecure"]).args(flags).arg(url))
}

fn command() -> Command {
    let mut squall = Command::new(env!("CARGO_BIN_EXE_squall"));
    squall.env("NO_COLOR", "1");
    squall
}

fn finish(command: &mut Command) -> CommandOutput {
    let Output {
        status,
        stdout,
        stderr,
    } = attempt(command);
    CommandOutput {
        code: status.code(),
        stdout,
        stderr: String::from_utf8_lossy(&stderr).into_owned(),
        command: format!("{command:?}"),
    }
}

impl CommandOutput {
    /// Checks that the command received exactly this body.
    pub(crate) fn check(&self, body: &[u8]) {
        let CommandOutput {
            code,
            stdout,
            stderr,
            command,
        } = self;
        assert_eq!(*code, Some(0), "{command}: {stderr}");
        assert_eq!(
            stdout.len(),
            body.len(),
            "length of the body of {command}: {stderr}"
        );
        assert!(stdout == body, "another body of {command}");
    }

    /// Checks that the command failed and printed `message`.
    pub(crate) fn check_failed(&self, message: &str) {
        assert_eq!(self.code, Some(1), "{self:?}");
        assert!(self.stderr.contains(message), "no {message:?} in {self:?}");
    }

    /// Checks that all requests of a load succeeded over this HTTP version.
    pub(crate) fn check_load(&self, http: Http, requests: u32) {
        let printed = String::from_utf8_lossy(&self.stdout);
        let told = || format!("{}: {printed}{}", self.command, self.stderr);
        assert_eq!(self.code, Some(0), "{}", told());
        let line = format!("{requests} succeeded (100 %)");
        let is_said = |found: &str| found.replace(',', "") == line;
        assert!(printed.lines().any(is_said), "{}", told());
        let spoken = format!("spoken {} (", http.name());
        let only = |line: &str| line.starts_with(&spoken) && !line.contains(", ");
        assert!(printed.lines().any(only), "{}", told());
    }
}
