//! `squall link` whose process is killed: what can be read of its files afterwards.

use std::fs;
use std::path::Path;
use std::process::Stdio;
use std::thread;
use std::time::{Duration, Instant};

use squall_base::record::{Direction, PacketRecord};
use squall_record::{parts_of, read_packets};
use tempfile::TempDir;

use crate::support::{have, seat, squall, stderr};

/// Far more than a busy machine needs to set the link up and to save its first seconds.
const SAVED_WITHIN: Duration = Duration::from_secs(30);

/// Sends a datagram every 20 ms: so few that a chunk of records would take 10 s to fill.
const DATAGRAMS: &str = "import socket,time\n\
    s=socket.socket(socket.AF_INET,socket.SOCK_DGRAM)\n\
    while True:\n s.sendto(b'x',('server',9))\n time.sleep(0.02)";

/// The packets in the parts of the table `log`.
fn saved(log: &Path) -> Vec<PacketRecord> {
    let parts = parts_of(log).expect("its parts");
    let packets = parts
        .iter()
        .map(|part| read_packets(part).expect("a whole table"));
    packets.flatten().collect()
}

#[test]
fn killed_link_leaves_packets_that_can_be_read_and_that_the_next_link_replaces() {
    if !have(&["python3"]) {
        return;
    }
    let _seat = seat();
    let home = TempDir::new().expect("a temporary folder");
    let log = home.path().join("log.parquet");
    let mut link = squall(home.path())
        .args(["link", "--quiet", "--log", "log.parquet", "--"])
        .args(["python3", "-c", DATAGRAMS])
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .spawn()
        .expect("squall starts");
    let began = Instant::now();
    while saved(&log).len() < 10 && began.elapsed() < SAVED_WITHIN {
        thread::sleep(Duration::from_millis(20));
    }
    link.kill().expect("SIGKILL");
    link.wait().expect("it ends");

    let packets = saved(&log);
    assert!(packets.len() >= 10, "{} packets", packets.len());
    assert!((packets.iter()).any(|packet| packet.direction == Direction::Up));
    assert!(read_packets(&log).is_err(), "the table has no footer");

    let again = squall(home.path())
        .args(["link", "--quiet", "--log", "log.parquet", "--", "true"])
        .output()
        .expect("squall starts");
    assert!(again.status.success(), "{}", stderr(&again));
    assert!(!fs::exists(home.path().join("log.parquet.parts")).expect("a folder"));
    assert!(read_packets(&log).expect("the table").len() < packets.len());
}
