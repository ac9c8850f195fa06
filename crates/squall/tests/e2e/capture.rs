//! Captures the loopback device while a test runs, and reads the capture with tshark. Needs root, dumpcap and tshark.

use std::fs::File;
use std::io::{BufRead, BufReader, Read, Seek, SeekFrom};
use std::net::{Ipv4Addr, SocketAddrV4, TcpStream, UdpSocket};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;

/// A running dumpcap.
pub(crate) struct Capture {
    child: Child,
    file: PathBuf,
    /// The thread that reads dumpcap's output to its end.
    talk: Option<JoinHandle<String>>,
}

impl Capture {
    /// Captures what matches `filter` (libpcap syntax), from the moment this returns.
    pub(crate) fn start(home: &Path, filter: &str) -> Capture {
        let file = home.join("capture.pcapng");
        let mut child = Command::new("dumpcap")
            // 128 MiB of kernel buffer, twice the most that is sent: no packet may be missing.
            .args(["-q", "-i", "lo", "-B", "128", "-f", filter, "-w"])
            .arg(&file)
            .stdout(Stdio::null())
            .stderr(Stdio::piped())
            .spawn()
            .expect("dumpcap starts");
        // dumpcap prints `File: ...` once it captures.
        let mut talk = BufReader::new(child.stderr.take().expect("stderr is a pipe")).lines();
        let has_begun = talk.any(|line| line.is_ok_and(|line| line.starts_with("File: ")));
        assert!(has_begun, "dumpcap cannot capture");
        let talk = thread::spawn(move || {
            let lines: Vec<String> = talk.map_while(Result::ok).collect();
            lines.join("\n")
        });
        Capture {
            child,
            file,
            talk: Some(talk),
        }
    }

    /// Stops dumpcap once everything so far is in the file. dumpcap writes in order, so this sends a last packet to the
    /// captured port, which comes after everything else, and waits until it is in the file. That the file has stopped
    /// growing would prove nothing: a busy machine may delay dumpcap for seconds, and packets that it has not read are
    /// lost when it exits.
    pub(crate) fn end(mut self, port: u16) -> PathBuf {
        let last = last_packet(port);
        let give_up = Instant::now() + PATIENCE;
        while !has_at_end(&self.file, &last) {
            assert!(Instant::now() < give_up, "dumpcap does not keep up");
            thread::sleep(Duration::from_millis(20));
        }
        kill(Pid::from_raw(self.child.id() as i32), Signal::SIGINT).expect("dumpcap is there");
        self.child.wait().expect("it can be waited for");
        let talk = self.talk.take().expect("it is ended once");
        let said = talk.join().expect("nothing panics there");
        // `Packets received/dropped on interface 'Loopback: lo': 1673/0 (...)`
        assert!(said.contains("/0 (pcap:0/"), "packets are missing: {said}");
        self.file.clone()
    }
}

/// How long dumpcap may take to write what it has captured.
const PATIENCE: Duration = Duration::from_secs(60);
/// The last packet and the responses to it fit within this many bytes at the end.
const TAIL_BYTES: u64 = 64 * 1024;

/// Sends a packet to the port, over TCP if something listens there and otherwise over UDP. Returns bytes unique to it.
fn last_packet(port: u16) -> Vec<u8> {
    let server = SocketAddrV4::new(Ipv4Addr::LOCALHOST, port);
    if let Ok(stream) = TcpStream::connect(server) {
        // The addresses of the IPv4 header and the ports of the TCP header, which are adjacent if there are no options
        // (RFC 791, section 3.1; RFC 9293, section 3.1).
        let from = stream.local_addr().expect("it is connected").port();
        let address = Ipv4Addr::LOCALHOST.octets();
        return [
            &address[..],
            &address,
            &from.to_be_bytes(),
            &port.to_be_bytes(),
        ]
        .concat();
    }
    let socket = UdpSocket::bind((Ipv4Addr::LOCALHOST, 0)).expect("a socket");
    // Not a QUIC packet: the fixed bit is not set (RFC 9000, section 17).
    let payload = b"\0the last packet of a capture";
    let sent = socket.send_to(payload, server).expect("it is sent");
    assert_eq!(sent, payload.len());
    payload.to_vec()
}

/// Whether these bytes occur near the end of the file.
fn has_at_end(file: &Path, bytes: &[u8]) -> bool {
    let mut file = File::open(file).expect("the capture");
    let length = file.metadata().expect("its length").len();
    let from = SeekFrom::Start(length.saturating_sub(TAIL_BYTES));
    let mut tail = Vec::new();
    file.seek(from).expect("it is a file");
    file.read_to_end(&mut tail).expect("it can be read");
    tail.windows(bytes.len()).any(|window| window == bytes)
}

impl Drop for Capture {
    fn drop(&mut self) {
        // It has exited already, unless the test failed.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// The fields of every packet that matches a display filter; several values of one field are joined by commas.
pub(crate) fn fields(
    file: &Path,
    keys: Option<&Path>,
    filter: &str,
    fields: &[&str],
    more: &[&str],
) -> Vec<Vec<String>> {
    let mut command = Command::new("tshark");
    // Two processors may deliver the segments of one connection out of order, and tshark would skip what it cannot
    // reassemble.
    let in_order = ["-o", "tcp.reassemble_out_of_order:TRUE"];
    command.arg("-r").arg(file).args(in_order).args(more);
    if let Some(keys) = keys {
        command.args(["-o", &format!("tls.keylog_file:{}", keys.display())]);
    }
    command.args(["-Y", filter, "-T", "fields"]);
    for field in fields {
        command.args(["-e", field]);
    }
    let output = command.output().expect("tshark starts");
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{said}");
    String::from_utf8_lossy(&output.stdout)
        .lines()
        .map(|line| line.split('\t').map(str::to_owned).collect())
        .collect()
}

/// Like [`fields`], decoding everything at this TCP port as TLS.
pub(crate) fn tls_fields(
    file: &Path,
    keys: Option<&Path>,
    port: u16,
    filter: &str,
    names: &[&str],
) -> Vec<Vec<String>> {
    fields(
        file,
        keys,
        filter,
        names,
        &["-d", &format!("tcp.port=={port},tls")],
    )
}
