//! The key log decrypts a capture: tshark finds in it the frames that squall has recorded.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::process::Command;

use squall_base::plan::Protocol;
use squall_base::record::{FrameLayer, FrameRecord, SocketSample, Way};
use squall_record::{read_frames, read_sockets};
use tempfile::TempDir;

use crate::capture::{Capture, fields, tls_fields};
use crate::served::{Serving, write_body};
use crate::support::{have, is_root, seat, stderr};

/// The DATA frame type (RFC 9113, section 6.1).
const DATA: u64 = 0x0;

/// Frames of one direction, by type.
type Counts = BTreeMap<u64, usize>;

/// A client's record and a capture of the same load.
struct Both {
    frames: Vec<FrameRecord>,
    home: TempDir,
    file: PathBuf,
    port: u16,
}

impl Both {
    /// The frames of this layer that the client recorded, by type.
    fn recorded(&self, way: Way, layer: FrameLayer) -> Counts {
        let mut counts = Counts::new();
        for row in &self.frames {
            if row.frame.way == way && row.frame.layer == layer {
                *counts.entry(row.frame.kind).or_default() += 1;
            }
        }
        counts
    }

    /// Datagrams that the kernel dropped because the client got no processor in time to read them.
    fn dropped(&self) -> u64 {
        let samples = read_sockets(self.home.path().join("sockets")).expect("the samples");
        let of = |sample| match sample {
            SocketSample::Quic(path) => path.socket_drops,
            SocketSample::Tcp(_) => 0,
        };
        let last = samples.into_iter().filter(|row| row.is_last);
        last.map(|row| of(row.sample)).sum()
    }

    fn keys(&self) -> PathBuf {
        self.home.path().join("keys.log")
    }
}

/// 20 uploads of 50,000 bytes over two connections, captured.
fn load(protocol: Protocol, sets: &[&str]) -> Both {
    let home = TempDir::new().expect("a temporary folder");
    write_body(home.path(), "body.bin", 50_000);
    let body = [&["--body", "40000"], sets].concat();
    let server = Serving::of(home.path(), protocol, &body);
    let port = server.address(protocol.name()).port();
    let capture = Capture::start(home.path(), &format!("port {port}"));
    let arguments = [
        "-n",
        "20",
        "-c",
        "2",
        "-m",
        "3",
        "-d",
        "body.bin",
        "--frames-to",
        "frames",
        "--sockets-to",
        "sockets",
        "--key-log",
        "keys.log",
    ];
    let arguments = [&arguments[..], sets].concat();
    let output = server.ask(home.path(), "load", protocol, &arguments);
    assert!(output.status.success(), "{}", stderr(&output));
    Both {
        frames: read_frames(home.path().join("frames")).expect("the frames"),
        file: capture.end(port),
        home,
        port,
    }
}

/// Counts types in rows of a source port and a comma-separated list of types: first those sent to `port`, then those
/// from it.
fn count(rows: &[Vec<String>], port: u16) -> [Counts; 2] {
    let mut counts = [Counts::new(), Counts::new()];
    for row in rows {
        let from_server = usize::from(row[0] == port.to_string());
        for kind in row[1].split(',').filter(|kind| !kind.is_empty()) {
            let kind = match kind.strip_prefix("0x") {
                Some(hex) => u64::from_str_radix(hex, 16),
                None => kind.parse(),
            };
            *counts[from_server]
                .entry(kind.expect("a type"))
                .or_default() += 1;
        }
    }
    counts
}

#[test]
fn tshark_decrypts_http2_and_finds_the_recorded_frames() {
    if !is_root() || !have(&["dumpcap", "tshark"]) {
        return;
    }
    let _seat = seat();
    let both = load(Protocol::H2, &[]);
    let (file, keys) = (&both.file, both.keys());
    let rows = tls_fields(
        file,
        Some(&keys),
        both.port,
        "http2",
        &["tcp.srcport", "http2.type"],
    );
    let [up, down] = count(&rows, both.port);
    let recorded = both.recorded(Way::Sent, FrameLayer::Http2);
    // 50,000 bytes need at least four frames.
    assert!(recorded[&DATA] >= 80, "{recorded:?}");
    assert_eq!(up, recorded);
    assert_eq!(down, both.recorded(Way::Received, FrameLayer::Http2));
}

/// STREAM frames of one direction, by connection and packet number.
type StreamFrames = BTreeMap<(u32, u64), usize>;

/// The STREAM types of RFC 9000, section 19.8.
fn is_stream(kind: u64) -> bool {
    (0x08..=0x0f).contains(&kind)
}

/// The STREAM frames that tshark finds: sent to `port`, then from it. Connections are numbered by first appearance. A
/// packet with a short header is the last of its datagram (RFC 9000, section 12.2), so the last packet number is its
/// own.
fn stream_frames(rows: &[Vec<String>], port: u16) -> [StreamFrames; 2] {
    let mut clients: Vec<&str> = Vec::new();
    let mut frames = [StreamFrames::new(), StreamFrames::new()];
    for row in rows {
        let is_down = row[0] == port.to_string();
        let client = row[usize::from(is_down)].as_str();
        if !clients.contains(&client) {
            clients.push(client);
        }
        let connection = clients.iter().position(|&of| of == client);
        let kinds = row[3].split(',').filter_map(|kind| kind.parse().ok());
        let count = kinds.filter(|&kind| is_stream(kind)).count();
        if count > 0 {
            let last = row[2].rsplit(',').next().and_then(|it| it.parse().ok());
            let packet = (
                connection.expect("it was added") as u32,
                last.expect("a packet number"),
            );
            let before = frames[usize::from(is_down)].insert(packet, count);
            assert_eq!(before, None, "{packet:?} was seen twice");
        }
    }
    frames
}

#[test]
fn tshark_decrypts_quic_and_finds_the_recorded_frames() {
    if !is_root() || !have(&["dumpcap", "tshark"]) {
        return;
    }
    let _seat = seat();
    // With GSO the capture holds several datagrams as one, of which tshark reads only the first.
    let both = load(Protocol::H3, &["--set", "http3.gso=false"]);
    let more = ["-d", &format!("udp.port=={},quic", both.port)];
    let names = [
        "udp.srcport",
        "udp.dstport",
        "quic.packet_number",
        "quic.frame_type",
    ];
    let rows = fields(&both.file, Some(&both.keys()), "quic", &names, &more);
    let [up, mut down] = stream_frames(&rows, both.port);
    let recorded = |way: Way| {
        let mut frames = StreamFrames::new();
        for row in &both.frames {
            let frame = &row.frame;
            if frame.way == way && frame.layer == FrameLayer::Quic && is_stream(frame.kind) {
                let packet = frame.packet.expect("QUIC's frames have their packet");
                *frames.entry((row.connection, packet)).or_default() += 1;
            }
        }
        frames
    };
    // 50,000 bytes fill 37 packets.
    assert!(up.len() >= 20 * 37, "{}", up.len());
    assert_eq!(up, recorded(Way::Sent));
    // All responses were complete by then, so packets after the last one that the client read carry nothing new. A
    // server that waits long for an acknowledgement retransmits its last packets (RFC 9002, section 6.2).
    let heard = recorded(Way::Received);
    let last_heard = |connection| {
        let mut of = heard.keys().filter(|(whose, _)| *whose == connection);
        of.next_back().map_or(0, |(_, packet)| *packet)
    };
    down.retain(|(connection, packet), _| *packet <= last_heard(*connection));
    let seen = down.len();
    down.retain(|packet, _| heard.contains_key(packet));
    assert_eq!(down, heard);
    let missing = (seen - down.len()) as u64;
    assert!(
        missing <= both.dropped(),
        "{missing} packets were not heard, {} dropped by the kernel",
        both.dropped()
    );
}

#[test]
fn link_capture_includes_the_tls_secrets_of_its_programs() {
    if !is_root() || !have(&["curl", "tshark"]) {
        return;
    }
    let _seat = seat();
    let home = TempDir::new().expect("a temporary folder");
    let squall = env!("CARGO_BIN_EXE_squall");
    let serve = format!("{squall} serve --h2 198.18.0.2:8443 --body 3000");
    let output = Command::new(squall)
        .args(["link", "--delay", "5ms", "--pcap", "link.pcapng"])
        .args(["--key-log", "keys.log", "--serve", &serve, "--"])
        .args(["curl", "--insecure", "--silent", "https://server:8443/"])
        .current_dir(home.path())
        .output()
        .expect("squall starts");
    assert!(output.status.success(), "{}", stderr(&output));
    assert_eq!(output.stdout.len(), 3_000);
    let more = ["-d", "tcp.port==8443,tls"];
    let file = home.path().join("link.pcapng");
    let rows = fields(
        &file,
        None,
        "http2.headers.status",
        &["http2.headers.status"],
        &more,
    );
    assert_eq!(rows, [["200"]]);
}
