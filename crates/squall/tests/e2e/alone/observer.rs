//! Compares what `squall import pcap` finds in a capture with the record of squall's own client, and with tshark.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

use squall_base::plan::Protocol;
use squall_base::record::{FrameLayer, FrameRecord, Way};
use tempfile::TempDir;

use crate::capture::{Capture, fields};
use crate::observed::{Imported, Rows, check_same, without_times};
use crate::scheduled::{Schedule, Watching};
use crate::served::{Serving, ask, write_body};
use crate::support::{have, is_root, quiet_seat, stderr};

/// A client's tables and an import of a capture of the same load.
struct Both {
    station: Rows,
    observed: Imported,
    schedule: Option<Schedule>,
    home: TempDir,
    capture: PathBuf,
    port: u16,
}

/// The bytes of an upload and of its response. Over TCP, where times are compared, both take two TLS records: with longer
/// bodies, twelve streams would receive so much at a time that an unoptimised client could be busy for a millisecond.
fn bodies(protocol: Protocol) -> (usize, usize) {
    match protocol {
        Protocol::H3 => (50_000, 40_000),
        _ => (20_000, 17_000),
    }
}

/// Uploads and their responses, captured and imported.
fn load(protocol: Protocol, sets: &[&str], more: &[&str]) -> Both {
    let home = TempDir::new().expect("a temporary folder");
    let (upload, response) = bodies(protocol);
    write_body(home.path(), "body.bin", upload);
    let response = response.to_string();
    let body = [&["--body", response.as_str()], sets].concat();
    let server = Serving::of(home.path(), protocol, &body);
    let port = server.address(protocol.name()).port();
    let capture = Capture::start(home.path(), &format!("port {port}"));
    let watching = Watching::start();
    let tables = [
        "-d",
        "body.bin",
        "--frames-to",
        "frames",
        "--exchanges-to",
        "exchanges",
        "--key-log",
        "keys.log",
    ];
    let arguments = [more, &tables[..], sets].concat();
    let output = ask(
        home.path(),
        "load",
        protocol,
        &arguments,
        &server.url(protocol),
    );
    assert!(output.status.success(), "{}", stderr(&output));
    let schedule = watching.and_then(Watching::end);
    let capture = capture.end(port);
    let keys = home.path().join("keys.log");
    let keys = protocol.is_secure().then_some(keys.as_path());
    Both {
        station: Rows::read(&home.path().join("exchanges"), &home.path().join("frames")),
        observed: Imported::of(home.path(), &capture, keys),
        schedule,
        home,
        capture,
        port,
    }
}

const SOME: [&str; 6] = ["-n", "60", "-c", "3", "-m", "4"];
/// For a client that opens connections under load: with one request at a time, no response has to wait while the client
/// computes another connection's handshake.
const ONE_AT_A_TIME: [&str; 6] = ["-n", "60", "-c", "1", "-m", "1"];

fn have_tools() -> bool {
    is_root() && have(&["dumpcap", "tshark"])
}

#[test]
fn import_of_http1_matches_the_clients_record() {
    if !have_tools() {
        return;
    }
    let _seat = quiet_seat();
    for protocol in [Protocol::H1, Protocol::H1s] {
        let both = load(protocol, &[], &SOME);
        assert_eq!(both.station.exchanges.len(), 60);
        check_same(&both.station, &both.observed, both.schedule.as_ref());
    }
}

#[test]
fn import_of_http2_matches_the_clients_record_and_tshark() {
    if !have_tools() {
        return;
    }
    let _seat = quiet_seat();
    for protocol in [Protocol::H2c, Protocol::H2] {
        let both = load(protocol, &[], &SOME);
        assert_eq!(both.station.exchanges.len(), 60);
        check_same(&both.station, &both.observed, both.schedule.as_ref());
        let keys = both.home.path().join("keys.log");
        let capture = (both.capture.as_path(), Some(keys.as_path()));
        check_tshark(capture, protocol, both.port, &both.observed.rows);
    }
}

/// Checks that tshark, given the keys, counts the same frames of each type in each direction of a capture, and the same
/// streams, as the observed rows have.
pub(crate) fn check_tshark(
    (capture, keys): (&Path, Option<&Path>),
    protocol: Protocol,
    port: u16,
    observed: &Rows,
) {
    let layer = if protocol.is_secure() { "tls" } else { "http2" };
    let names = ["tcp.srcport", "tcp.stream", "http2.type", "http2.streamid"];
    let more = ["-d", &format!("tcp.port=={port},{layer}")];
    let mut rows = fields(capture, keys, "http2", &names, &more);
    // A squall server sends SETTINGS immediately, even on the connection that only ends the capture and on which the client
    // sends nothing. The observer does not consider that HTTP/2; tshark decodes everything at this port as HTTP/2.
    let port = port.to_string();
    let spoken: BTreeSet<String> = rows
        .iter()
        .filter(|row| row[0] != port)
        .map(|row| row[1].clone())
        .collect();
    rows.retain(|row| spoken.contains(&row[1]));
    let mut streams = BTreeSet::new();
    for (way, is_down) in [(Way::Sent, false), (Way::Received, true)] {
        let mut kinds = std::collections::BTreeMap::new();
        for row in rows.iter().filter(|row| (row[0] == port) == is_down) {
            for kind in row[2]
                .split(',')
                .filter_map(|kind| kind.parse::<u64>().ok())
            {
                *kinds.entry(kind).or_default() += 1;
            }
            for stream in row[3].split(',').filter(|stream| !stream.is_empty()) {
                streams.insert((row[1].clone(), stream.to_owned()));
            }
        }
        assert_eq!(kinds, observed.kinds(way), "{protocol} {}", way.name());
    }
    assert_eq!(streams.len(), observed.streams().len());
}

#[test]
fn import_decrypts_tls12_and_resumed_sessions() {
    if !have_tools() {
        return;
    }
    let _seat = quiet_seat();
    for (cipher, number) in [
        ("ECDHE-ECDSA-AES128-GCM-SHA256", 0xc02b),
        ("ECDHE-ECDSA-AES256-GCM-SHA384", 0xc02c),
        ("ECDHE-ECDSA-CHACHA20-POLY1305", 0xcca9),
    ] {
        let ciphers = format!("tls.ciphers={cipher}");
        let sets = [
            "--set",
            "tls.max_version=1.2",
            "--set",
            &ciphers,
            "--set",
            "http1.requests_per_connection=5",
        ];
        let both = load(Protocol::H1s, &sets, &ONE_AT_A_TIME);
        check_same(&both.station, &both.observed, both.schedule.as_ref());
        for connection in both.observed.connections() {
            assert_eq!(connection["tls"]["version"], 0x0303, "{connection}");
            assert_eq!(connection["tls"]["cipher"], number, "{connection}");
            assert!(
                connection["tls"]["done_ns"].is_number() && connection["opaque"].is_null(),
                "{connection}"
            );
        }
    }
    let sets = ["--set", "http1.requests_per_connection=5"];
    let both = load(Protocol::H1s, &sets, &ONE_AT_A_TIME);
    check_same(&both.station, &both.observed, both.schedule.as_ref());
    assert!(
        both.observed.connections().len() >= 12,
        "{}",
        both.observed.summary
    );
}

#[test]
fn without_keys_an_import_has_only_the_hellos() {
    if !have_tools() {
        return;
    }
    let _seat = quiet_seat();
    let both = load(Protocol::H2, &[], &SOME);
    let again = TempDir::new().expect("a temporary folder");
    let observed = Imported::of(again.path(), &both.capture, None);
    assert!(observed.rows.exchanges.is_empty() && observed.rows.frames.is_empty());
    let connections = observed.connections();
    assert_eq!(connections.len(), 3);
    for connection in connections {
        assert_eq!(connection["opaque"]["why"], "no_keys", "{connection}");
        assert_eq!(connection["tls"]["offered"], serde_json::json!(["h2"]));
        assert_eq!(connection["tls"]["deciphered"], false);
        assert!(
            connection["tls"]["alpn"].is_null(),
            "TLS 1.3 encrypts it: {connection}"
        );
        let times = ["client_hello_ns", "server_hello_ns", "done_ns"]
            .map(|time| connection["tls"][time].as_u64().expect("a time"));
        assert!(times.is_sorted(), "{connection}");
        assert!(
            connection["from_client"]["bytes"]
                .as_u64()
                .expect("a count")
                > 50_000
        );
    }
}

/// The fields of a QUIC frame that both quiche's log and the packets contain. quiche logs neither the encoding of
/// STREAM (RFC 9000, section 19.8) nor the length of a frame without data.
type QuicFrame = (u32, Option<u64>, u64, Option<u64>, Option<u64>, u64);

fn quic_frames(rows: &Rows, way: Way) -> Vec<QuicFrame> {
    let of_quic = |row: &&FrameRecord| row.frame.layer == FrameLayer::Quic && row.frame.way == way;
    let mut frames: Vec<QuicFrame> = rows
        .frames
        .iter()
        .filter(of_quic)
        .map(|row| {
            let frame = &row.frame;
            let is_stream = (0x08..=0x0f).contains(&frame.kind);
            let has_data = is_stream || frame.kind == 0x06;
            (
                row.connection,
                frame.packet,
                frame.kind | if is_stream { 0x06 } else { 0 },
                frame.stream,
                frame.offset.or(is_stream.then_some(0)),
                if has_data { frame.length } else { 0 },
            )
        })
        .collect();
    frames.sort_unstable();
    frames
}

/// Both sides send several datagrams in one system call, and the capture records them as one (`http3.gso`).
#[test]
fn import_of_http3_matches_the_clients_record() {
    if !have_tools() {
        return;
    }
    let _seat = quiet_seat();
    for sets in [&[][..], &["--set", "http3.gso=false"]] {
        let both = load(Protocol::H3, sets, &SOME);
        for connection in both.observed.connections() {
            assert_eq!(connection["protocol"], "h3");
            assert_eq!(connection["opaque"], serde_json::Value::Null);
        }
        let [ours, theirs] = [&both.station, &both.observed.rows]
            .map(|rows| rows.exchanges.iter().map(without_times).collect::<Vec<_>>());
        assert_eq!(ours.len(), 60);
        assert_eq!(ours, theirs);
        let sent = quic_frames(&both.station, Way::Sent);
        assert!(sent.len() > 60 * 37, "37 packets carry a body");
        assert_eq!(sent, quic_frames(&both.observed.rows, Way::Sent));
        // The station has not read datagrams that the kernel dropped, nor those that arrived after it had everything.
        let received = quic_frames(&both.observed.rows, Way::Received);
        let heard = quic_frames(&both.station, Way::Received);
        assert!(heard.len() > 60 * 30);
        assert!(heard.iter().all(|row| received.binary_search(row).is_ok()));
    }
}
