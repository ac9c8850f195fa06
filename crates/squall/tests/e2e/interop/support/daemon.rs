//! A program that runs until it is dropped, and the ports that it listens on.
//!
//! Each peer is one process (no masters with workers), so killing its process id ends all of it.

use std::fs::File;
use std::net::{Ipv4Addr, SocketAddrV4, TcpListener, TcpStream, UdpSocket};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::atomic::{AtomicU16, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use super::program::PATIENCE;

/// A loopback port that must be bound before the daemon counts as started.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Port {
    Tcp(u16),
    Udp(u16),
}

impl Port {
    fn answers(self) -> bool {
        match self {
            Port::Tcp(port) => {
                let address = SocketAddrV4::new(Ipv4Addr::LOCALHOST, port);
                TcpStream::connect_timeout(&address.into(), Duration::from_secs(1)).is_ok()
            }
            Port::Udp(port) => ["/proc/net/udp", "/proc/net/udp6"].iter().any(|table| {
                let table = std::fs::read_to_string(table).unwrap_or_default();
                // "  sl  local_address ...": address and port in hexadecimal (proc_net_udp(5)).
                let ending = format!(":{port:04X}");
                let local = |line: &str| {
                    let local = line.split_whitespace().nth(1);
                    local.is_some_and(|local| local.ends_with(&ending))
                };
                table.lines().any(local)
            }),
        }
    }
}

/// A port that is currently free for both TCP and UDP, and that no other call returns.
///
/// It is below the kernel's ephemeral ports (32768 on, ip_local_port_range), so no client takes it before the server
/// does. Test processes that run concurrently start at different offsets.
pub(crate) fn free_port() -> u16 {
    const FIRST: u16 = 20_000;
    const COUNT: u16 = 12_000;
    static NEXT: AtomicU16 = AtomicU16::new(0);
    let begin = std::process::id() % u32::from(COUNT / 100) * 100;
    for _ in 0..COUNT {
        let offset = (begin + u32::from(NEXT.fetch_add(1, Ordering::Relaxed))) % u32::from(COUNT);
        let port = FIRST + u16::try_from(offset).expect("less than COUNT");
        let address = SocketAddrV4::new(Ipv4Addr::LOCALHOST, port);
        if TcpListener::bind(address).is_ok() && UdpSocket::bind(address).is_ok() {
            return port;
        }
    }
    panic!("no port is free");
}

/// Killed by its process id on drop; its log is printed if the test has failed.
pub(crate) struct Daemon {
    child: Child,
    log: PathBuf,
}

impl Daemon {
    /// Starts it in this folder and waits until it listens on all its ports. Its output goes to `log`.
    pub(crate) fn start(folder: &Path, log: &str, command: &mut Command, ports: &[Port]) -> Daemon {
        let log = folder.join(log);
        let out = File::create(&log).expect("a log");
        let child = command
            .current_dir(folder)
            .stdin(Stdio::null())
            .stdout(out.try_clone().expect("a second handle"))
            .stderr(out)
            .spawn()
            .unwrap_or_else(|error| panic!("{command:?}: {error}"));
        let mut daemon = Daemon { child, log };
        let give_up = Instant::now() + PATIENCE;
        for port in ports {
            while !port.answers() {
                let ended = daemon.child.try_wait().expect("it can be waited for");
                assert!(ended.is_none(), "{command:?} has ended: {ended:?}");
                assert!(
                    Instant::now() < give_up,
                    "{command:?}: no answer on {port:?}"
                );
                thread::sleep(Duration::from_millis(5));
            }
        }
        let ended = daemon.child.try_wait().expect("it can be waited for");
        assert!(ended.is_none(), "{command:?} has ended: {ended:?}");
        daemon
    }
}

impl Drop for Daemon {
    fn drop(&mut self) {
        // It may have exited already.
        let _ = self.child.kill();
        let _ = self.child.wait();
        if thread::panicking() {
            let log = std::fs::read(&self.log).unwrap_or_default();
            let end = &log[log.len().saturating_sub(8192)..];
            eprintln!("{}:\n{}", self.log.display(), String::from_utf8_lossy(end));
        }
    }
}
