//! `squall serve` on free ports, as a process that must stay healthy whatever is done to it.

use std::fs::{self, File};
use std::io::{Read, Write};
use std::net::{Shutdown, SocketAddr, TcpStream};
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use tempfile::TempDir;

use crate::support::{self, squall};

/// Longer than a start takes on a busy machine.
const PATIENCE: Duration = Duration::from_secs(20);

/// The time within which other clients get a response, whatever one client does.
const SOON: Duration = Duration::from_secs(2);

/// Killed on drop.
pub(crate) struct Serving {
    child: Child,
    folder: TempDir,
    listeners: Vec<(String, SocketAddr)>,
}

impl Serving {
    /// Starts `squall serve` with a listener of each kind (such as `"h1"`) on free ports, and these arguments.
    pub(crate) fn start(kinds: &[&str], arguments: &[&str]) -> Serving {
        Serving::of("serve", kinds, arguments)
    }

    /// Like [`Serving::start`], for any squall command that listens.
    pub(crate) fn of(word: &str, kinds: &[&str], arguments: &[&str]) -> Serving {
        let folder = TempDir::new().expect("a temporary folder");
        let log = File::create(folder.path().join("log")).expect("a log");
        let mut command = squall(folder.path());
        command.arg(word);
        for kind in kinds {
            command.args([&format!("--{kind}"), "0"]);
        }
        let child = command
            .args(arguments)
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(log)
            .spawn()
            .expect("squall starts");
        let mut serving = Serving {
            child,
            folder,
            listeners: Vec::new(),
        };
        let give_up = Instant::now() + PATIENCE;
        while serving.listeners.len() < kinds.len() {
            assert!(Instant::now() < give_up, "{}", serving.log());
            thread::sleep(Duration::from_millis(5));
            // "listening h1 on 127.0.0.1:8080"
            let log = serving.log();
            let listeners = log.lines().filter_map(|line| {
                let (kind, address) = line.strip_prefix("listening ")?.split_once(" on ")?;
                Some((kind.to_owned(), address.parse().ok()?))
            });
            serving.listeners = listeners.collect();
        }
        serving
    }

    pub(crate) fn address(&self, kind: &str) -> SocketAddr {
        let found = self.listeners.iter().find(|(found, _)| found == kind);
        found.expect("it listens").1
    }

    pub(crate) fn pid(&self) -> i32 {
        self.child.id().cast_signed()
    }

    /// Everything that it printed.
    pub(crate) fn log(&self) -> String {
        fs::read_to_string(self.folder.path().join("log")).expect("a log")
    }

    /// Allows it to open this many more files.
    pub(crate) fn allow_more_files(&self, more: u64) {
        let pid = self.child.id();
        let is_open = |number: &u64| Path::new(&format!("/proc/{pid}/fd/{number}")).exists();
        // The limit applies to the numbers of files, and the kernel gives out the lowest free one. It also has those that
        // it inherited, which may be high.
        let free = (0..)
            .find(|number| !is_open(number))
            .expect("a free number");
        let status = Command::new("prlimit")
            .arg(format!("--pid={pid}"))
            // Only the soft limit changes.
            .arg(format!("--nofile={}:", free + more))
            .status();
        assert!(status.expect("prlimit of util-linux").success());
    }

    /// The peak memory use so far, in KiB.
    pub(crate) fn peak_kib(&self) -> u64 {
        support::peak_kib(&self.child).expect("it still runs")
    }

    /// The memory that it takes now, in KiB, without the pages of its program.
    pub(crate) fn resident_kib(&self) -> u64 {
        support::memory_kib(&self.child, "RssAnon:").expect("it still runs")
    }

    /// Checks that a new HTTP/1.1 client gets a prompt response.
    pub(crate) fn check_answers(&self) {
        let began = Instant::now();
        let mut stream = connect(self.address("h1"));
        let request = b"GET /?size=5 HTTP/1.1\r\nhost: a\r\nconnection: close\r\n\r\n";
        stream.write_all(request).expect("it reads");
        let answer = read_to_end(&mut stream);
        assert!(answer.starts_with(b"HTTP/1.1 200 OK\r\n"), "{answer:?}");
        assert!(answer.ends_with(b"abcde"), "{answer:?}");
        assert!(began.elapsed() < SOON, "{:?}", began.elapsed());
    }

    /// Stops it as Ctrl-C does, and checks that it reports no errors.
    pub(crate) fn check_ends_well(self) {
        self.end_well();
    }

    /// Like [`Serving::check_ends_well`], and returns what it printed.
    pub(crate) fn end_well(mut self) -> String {
        let pid = Pid::from_raw(self.pid());
        kill(pid, Signal::SIGINT).expect("it still runs");
        let give_up = Instant::now() + PATIENCE;
        let status = loop {
            if let Some(status) = self.child.try_wait().expect("it can be waited for") {
                break status;
            }
            assert!(Instant::now() < give_up, "it does not end");
            thread::sleep(Duration::from_millis(5));
        };
        let log = self.log();
        assert!(status.success(), "{status}: {log}");
        // Indented lines are additional counts.
        let is_told_besides =
            |line: &&str| line.starts_with("listening ") || line.starts_with("  ");
        let rest = log.lines().filter(|line| !is_told_besides(line));
        let rest: Vec<_> = rest.collect();
        assert!(
            matches!(rest[..], [total] if total.contains(" connections, ")),
            "{log}"
        );
        log
    }
}

impl Drop for Serving {
    fn drop(&mut self) {
        // It may have exited already.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// Connects with read and write timeouts of some seconds.
pub(crate) fn connect(address: SocketAddr) -> TcpStream {
    let stream = TcpStream::connect(address).expect("it listens");
    let timeout = Some(Duration::from_secs(8));
    stream.set_read_timeout(timeout).expect("a timeout");
    stream.set_write_timeout(timeout).expect("a timeout");
    stream
}

/// Reads until the other side closes, which it must do without a reset.
pub(crate) fn read_to_end(stream: &mut TcpStream) -> Vec<u8> {
    let mut bytes = Vec::new();
    if let Err(error) = stream.read_to_end(&mut bytes) {
        panic!("{error}, behind {:?}", String::from_utf8_lossy(&bytes));
    }
    let _ = stream.shutdown(Shutdown::Both);
    bytes
}
