//! Runs `squall serve` during a test, on free ports of 127.0.0.1, and clients against it.
//!
//! A server that a failed test leaves behind is killed.

use std::fs;
use std::io::{BufRead, BufReader, Read};
use std::net::SocketAddr;
use std::path::Path;
use std::process::{Child, ChildStderr, ExitStatus, Output, Stdio};

use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use squall_base::plan::Protocol;

use crate::support::squall;

/// Where a server writes its certificate, within the test's folder.
pub(crate) const CERTIFICATE: &str = "cert.pem";

/// Listeners for every protocol.
pub(crate) const EVERY_PROTOCOL: [&str; 10] = [
    "--h1", "0", "--h1s", "0", "--h2c", "0", "--h2", "0", "--h3", "0",
];

/// A running server.
pub(crate) struct Serving {
    child: Child,
    talk: BufReader<ChildStderr>,
    /// Kind and address of each listener.
    listeners: Vec<(String, SocketAddr)>,
}

impl Serving {
    /// Starts a server with these arguments and waits until it listens.
    pub(crate) fn start(home: &Path, arguments: &[&str]) -> Serving {
        let expected = arguments
            .iter()
            .filter(|argument| {
                ["--h1", "--h1s", "--h2c", "--h2", "--https", "--h3"].contains(argument)
            })
            .count();
        let mut child = squall(home)
            .args(["serve", "--write-cert", CERTIFICATE])
            .args(arguments)
            .stdin(Stdio::null())
            .stderr(Stdio::piped())
            .spawn()
            .expect("squall starts");
        let mut talk = BufReader::new(child.stderr.take().expect("stderr is a pipe"));
        let listeners = (0..expected).map(|_| listener(&mut talk)).collect();
        Serving {
            child,
            talk,
            listeners,
        }
    }

    /// Starts a server of this protocol alone, with these further arguments.
    pub(crate) fn of(home: &Path, protocol: Protocol, arguments: &[&str]) -> Serving {
        let listener = format!("--{protocol}");
        Serving::start(home, &[&[&listener, "0"], arguments].concat())
    }

    /// The address of the listener of that kind, for example `https`.
    pub(crate) fn address(&self, kind: &str) -> SocketAddr {
        let found = self.listeners.iter().find(|(name, _)| name == kind);
        found.expect("the server has such a listener").1
    }

    /// The URL of the listener for this protocol, without a path.
    pub(crate) fn url(&self, protocol: Protocol) -> String {
        let scheme = if protocol.is_secure() {
            "https"
        } else {
            "http"
        };
        format!("{scheme}://{}", self.address(protocol.name()))
    }

    /// Runs a client command with the URL of the listener for this protocol, as [`ask`] does.
    pub(crate) fn ask(
        &self,
        home: &Path,
        command: &str,
        protocol: Protocol,
        arguments: &[&str],
    ) -> Output {
        ask(home, command, protocol, arguments, &self.url(protocol))
    }

    pub(crate) fn pid(&self) -> i32 {
        self.child.id() as i32
    }

    /// Stops the server as Ctrl-C does. Returns its exit status, and what it printed after it started listening.
    pub(crate) fn end(mut self) -> (ExitStatus, String) {
        kill(Pid::from_raw(self.pid()), Signal::SIGINT).expect("the server is there");
        let mut said = String::new();
        self.talk
            .read_to_string(&mut said)
            .expect("it talks in UTF-8");
        let status = self.child.wait().expect("it can be waited for");
        (status, said)
    }
}

impl Drop for Serving {
    fn drop(&mut self) {
        // It has exited already, unless the test failed.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// Parses `listening h1 on 127.0.0.1:8080`.
fn listener(talk: &mut impl BufRead) -> (String, SocketAddr) {
    let mut line = String::new();
    talk.read_line(&mut line).expect("the server talks");
    let words: Vec<&str> = line.split_whitespace().collect();
    match words[..] {
        ["listening", kind, "on", address] => {
            (kind.to_owned(), address.parse().expect("an address"))
        }
        _ => panic!("no listener: {line}"),
    }
}

/// The flags that make a client speak this protocol to a squall server.
pub(crate) fn speaking(protocol: Protocol) -> Vec<&'static str> {
    let version = match protocol {
        Protocol::H1 | Protocol::H1s => "1.1",
        Protocol::H2c | Protocol::H2 => "2",
        Protocol::H3 => "3",
    };
    let mut flags = vec!["--http", version];
    if protocol.is_secure() {
        flags.extend(["--cacert", CERTIFICATE]);
    }
    flags
}

/// Runs a client command (`fetch`, `load`) over this protocol until it exits.
pub(crate) fn ask(
    home: &Path,
    command: &str,
    protocol: Protocol,
    arguments: &[&str],
    url: &str,
) -> Output {
    squall(home)
        .arg(command)
        .args(speaking(protocol))
        .args(arguments)
        .arg(url)
        .stdin(Stdio::null())
        .output()
        .expect("squall starts")
}

/// Writes a file of `length` bytes that do not repeat within a record, a frame or a packet.
pub(crate) fn write_body(home: &Path, name: &str, length: usize) -> Vec<u8> {
    // Knuth's multiplicative hashing of the position: bytes look random but are always the same.
    let bytes: Vec<u8> = (0..length as u32)
        .map(|place| (place.wrapping_mul(2_654_435_761) >> 24) as u8)
        .collect();
    fs::write(home.join(name), &bytes).expect("a file");
    bytes
}
