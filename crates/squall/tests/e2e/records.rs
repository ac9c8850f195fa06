//! TLS records on the wire, as seen by tshark: exactly the configured size, for the client's and the server's records.
//!
//! Over HTTP/2 a record may be short only where a frame ends, because each encryption call covers whole frames. How many frames
//! that is depends on the free space in the send buffer, so no test here counts short records over HTTP/2: tshark decrypts the
//! capture and reports where the frames end. squall-http (`tls/sizes.rs`) tests how the sizes are chosen.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::{Path, PathBuf};

use squall_base::Side;
use squall_base::plan::{Protocol, RecordSizes, find_preset};
use tempfile::TempDir;

use crate::capture::{Capture, tls_fields};
use crate::served::{Serving, ask, write_body};
use crate::support::{alone_if_it_fails, have, is_root, seat, stderr};

/// The inner content type and the tag of AES-GCM (RFC 8446, section 5.2).
const TLS13_BYTES: u64 = 1 + 16;
/// The explicit nonce and the tag of AES-GCM (RFC 5288, section 3).
const TLS12_BYTES: u64 = 8 + 16;
/// Application data (RFC 8446, section 5.1).
const APPLICATION_DATA: &str = "23";
/// The client's connection preface (RFC 9113, section 3.4).
const PREFACE_BYTES: u64 = 24;
/// The header of a frame (RFC 9113, section 4.1).
const FRAME_HEADER_BYTES: u64 = 9;
const KIB: u64 = 1024;
/// Size of the body in each direction.
const BODY_BYTES: u64 = 3 * KIB * KIB;
/// Size of a large upload.
const UPLOAD_BYTES: u64 = 65_000_000;

/// Where the client writes its secrets.
const KEY_LOG: &str = "keys.log";

/// One fetch that uploads and downloads 3 MiB, with these settings on both sides.
fn transfer(protocol: Protocol, settings: &[&str]) -> Traffic {
    let arguments = ["-o", "answer.bin"];
    capture(
        "fetch",
        protocol,
        settings,
        BODY_BYTES,
        &arguments,
        "size=3MiB",
    )
}

/// Captures a client command with these settings on both sides. The windows are large enough that no sender has to stop
/// within a record.
fn capture(
    command: &str,
    protocol: Protocol,
    settings: &[&str],
    body_bytes: u64,
    arguments: &[&str],
    query: &str,
) -> Traffic {
    let home = TempDir::new().expect("a temporary folder");
    write_body(home.path(), "body.bin", body_bytes as usize);
    let windows = ["http2.stream_window=16MiB", "http2.connection_window=16MiB"];
    let windows = windows.iter().filter(|_| protocol == Protocol::H2);
    let sets: Vec<&str> = settings
        .iter()
        .chain(windows)
        .flat_map(|setting| ["--set", setting])
        .collect();
    let sink = [&["--sink"], &sets[..]].concat();
    let server = Serving::of(home.path(), protocol, &sink);
    let port = server.address(protocol.name()).port();
    let capture = Capture::start(home.path(), &format!("tcp port {port}"));
    let url = format!("{}/?{query}", server.url(protocol));
    let own = ["-d", "body.bin", "--key-log", KEY_LOG];
    let arguments = [&sets[..], &own, arguments].concat();
    let output = ask(home.path(), command, protocol, &arguments, &url);
    assert!(output.status.success(), "{}", stderr(&output));
    Traffic {
        file: capture.end(port),
        port,
        home,
    }
}

/// A captured connection, with its secrets.
struct Traffic {
    home: TempDir,
    file: PathBuf,
    port: u16,
}

impl Traffic {
    fn records(&self, overhead: u64) -> Records {
        Records::read(&self.file, self.port, overhead)
    }

    /// What the client and the server sent over HTTP/2 and TLS 1.3.
    fn http2(&self) -> [Http2Sent; 2] {
        let names = [
            "tcp.srcport",
            "tls.record.content_type",
            "tls.record.length",
            "http2.magic",
            "http2.length",
        ];
        let keys = self.home.path().join(KEY_LOG);
        let rows = tls_fields(&self.file, Some(&keys), self.port, "tls.record", &names);
        let mut sent = [Http2Sent::default(), Http2Sent::default()];
        for row in rows {
            let is_server = row[0] == self.port.to_string();
            sent[usize::from(is_server)].add(&row[1..]);
        }
        sent
    }
}

/// What one side sent over HTTP/2.
#[derive(Default)]
struct Http2Sent {
    /// The HTTP bytes in each record, without records of the handshake and of alerts.
    records: Vec<u64>,
    /// Offsets at which frames end, counted from the first byte of HTTP.
    frame_ends: BTreeSet<u64>,
    end: u64,
}

impl Http2Sent {
    /// Processes a segment: the inner types of its records, their lengths, and the lengths of the frames that end in
    /// it.
    fn add(&mut self, fields: &[String]) {
        let numbers = |field: &str| -> Vec<u64> {
            let words = field.split(',').filter(|word| !word.is_empty());
            words.map(|word| word.parse().expect("a number")).collect()
        };
        let [types, lengths, preface, frames] = fields else {
            panic!("four fields: {fields:?}");
        };
        let lengths = numbers(lengths);
        let types: Vec<&str> = types.split(',').collect();
        assert_eq!(types.len(), lengths.len(), "{fields:?}");
        for (kind, length) in types.into_iter().zip(lengths) {
            if kind == APPLICATION_DATA {
                self.records.push(length - TLS13_BYTES);
            }
        }
        if !preface.is_empty() {
            self.end += PREFACE_BYTES;
        }
        for length in numbers(frames) {
            self.end += FRAME_HEADER_BYTES + length;
            self.frame_ends.insert(self.end);
        }
    }

    /// Checks that every record has `size` bytes, except those cut short by the end of a frame, and that together they hold
    /// everything that was sent.
    fn check(&self, size: u64) {
        let mut end = 0;
        for length in &self.records {
            end += length;
            let is_full = *length == size;
            let is_cut = *length < size && self.frame_ends.contains(&end);
            assert!(is_full || is_cut, "{size}: {length} bytes up to {end}");
        }
        assert_eq!(end, self.end, "{size}");
    }
}

/// The payload sizes of each side's application data records, in order.
#[derive(Debug)]
struct Records {
    client: Vec<u64>,
    server: Vec<u64>,
}

impl Records {
    fn read(file: &Path, port: u16, overhead: u64) -> Records {
        let fields = [
            "tcp.srcport",
            "tls.record.content_type",
            "tls.record.opaque_type",
            "tls.record.length",
        ];
        let rows = tls_fields(file, None, port, "tls.record", &fields);
        let mut by_sender: BTreeMap<bool, Vec<u64>> = BTreeMap::new();
        for row in rows {
            let is_server = row[0] == port.to_string();
            // Encrypted TLS 1.3 records have an opaque type, the other records of the segment a content type.
            let types: Vec<&str> = row[1..3]
                .iter()
                .flat_map(|field| field.split(','))
                .filter(|word| !word.is_empty())
                .collect();
            let lengths: Vec<u64> = row[3]
                .split(',')
                .map(|length| length.parse().expect("a length"))
                .collect();
            assert_eq!(types.len(), lengths.len(), "{row:?}");
            // If a segment has both kinds, the plaintext ones belong to the handshake and come first.
            for (kind, length) in types.iter().zip(lengths) {
                if *kind == APPLICATION_DATA {
                    by_sender
                        .entry(is_server)
                        .or_default()
                        .push(length - overhead);
                }
            }
        }
        Records {
            client: by_sender.remove(&false).unwrap_or_default(),
            server: by_sender.remove(&true).unwrap_or_default(),
        }
    }
}

fn have_tools() -> bool {
    is_root() && have(&["dumpcap", "tshark"])
}

/// Checks that all records are of this size, except at most `cut` of them.
fn check_sizes(records: &[u64], size: u64, cut: usize) {
    let others: Vec<u64> = records
        .iter()
        .copied()
        .filter(|length| *length != size)
        .collect();
    assert!(
        others.iter().all(|length| *length < size),
        "{size}: {others:?}"
    );
    assert!(others.len() <= cut, "{size}: {others:?}");
}

/// Like [`check_sizes`], for records that carry a whole body.
fn check_whole(records: &[u64], size: u64, cut: usize) {
    check_sizes(records, size, cut);
    assert!(
        records.iter().sum::<u64>() >= BODY_BYTES,
        "{size}: {records:?}"
    );
}

/// Captures an upload of 65 MB that a client command makes over HTTP/2, with these record settings on both sides.
/// Returns the traffic and the access log.
fn upload(command: &str, arguments: &[&str], records: &str) -> (Traffic, String) {
    let home = TempDir::new().expect("a temporary folder");
    write_body(home.path(), "body.bin", UPLOAD_BYTES as usize);
    let sets = [
        "http2.stream_window=128MiB",
        "http2.connection_window=128MiB",
        records,
    ]
    .map(|setting| ["--set", setting])
    .concat();
    let listens = ["--h2", "0", "--sink", "--access-log", "access.log"];
    let server = Serving::start(home.path(), &[&listens[..], &sets].concat());
    let port = server.address("h2").port();
    let capture = Capture::start(home.path(), &format!("tcp port {port}"));
    let own = ["-d", "body.bin", "--key-log", KEY_LOG];
    let arguments = [&sets[..], &own, arguments].concat();
    let url = server.url(Protocol::H2) + "/upload";
    let output = ask(home.path(), command, Protocol::H2, &arguments, &url);
    assert!(output.status.success(), "{}", stderr(&output));
    let file = capture.end(port);
    let (status, said) = server.end();
    assert!(status.success(), "{said}");
    let log = fs::read_to_string(home.path().join("access.log")).expect("the access log");
    (Traffic { home, file, port }, log)
}

#[test]
fn upload_of_65_mb_keeps_the_configured_record_size() {
    const FETCH: (&str, &[&str]) = ("fetch", &["-o", "answer.bin"]);
    const LOAD: (&str, &[&str]) = ("load", &["-n", "1"]);
    if !have_tools() {
        return;
    }
    let _seat = seat();
    for (size, setting, (command, arguments)) in [
        (16 * KIB, "tls.records=16KiB", FETCH),
        (4 * KIB, "tls.records=4KiB", LOAD),
        (1_300, "tls.records=1300", FETCH),
    ] {
        let (traffic, log) = upload(command, arguments, setting);
        let line = format!(" h2 \"POST /upload\" 200 {UPLOAD_BYTES} ");
        assert!(log.contains(&line), "{log}");
        let [client, _] = traffic.http2();
        client.check(size);
        assert!(client.end >= UPLOAD_BYTES, "{size}: {}", client.end);
    }
}

/// Records that are not full: handshake messages (tickets, certificates, Finished), the head with what follows it, and
/// the end of the body.
const CUT_ONCE: usize = 8;

#[test]
fn data_records_have_exactly_the_configured_size() {
    if !have_tools() {
        return;
    }
    let _seat = seat();
    for (size, setting) in [
        (16 * KIB, "tls.records=16KiB"),
        (4 * KIB, "tls.records=4KiB"),
        (1_300, "tls.records=1300"),
    ] {
        let records = transfer(Protocol::H1s, &[setting]).records(TLS13_BYTES);
        check_whole(&records.client, size, CUT_ONCE);
        check_whole(&records.server, size, CUT_ONCE);
        for side in transfer(Protocol::H2, &[setting]).http2() {
            side.check(size);
            assert!(side.end >= BODY_BYTES, "{size}: {}", side.end);
        }
    }
}

#[test]
fn tls12_records_have_the_configured_size() {
    if !have_tools() {
        return;
    }
    let _seat = seat();
    let settings = [
        "tls.records=4KiB",
        "tls.max_version=1.2",
        "tls.ciphers=ECDHE-ECDSA-AES128-GCM-SHA256:ECDHE-RSA-AES128-GCM-SHA256",
    ];
    let records = transfer(Protocol::H1s, &settings).records(TLS12_BYTES);
    check_whole(&records.client, 4 * KIB, CUT_ONCE);
    check_whole(&records.server, 4 * KIB, CUT_ONCE);
}

/// Small for 64 KiB, then large; small again after 200 ms of idle time.
const DYNAMIC: &str = "tls.records={ small = \"1300\", warmup = \"64KiB\", idle = \"200ms\" }";
/// Small records in 64 KiB: 51, of which a head and the end of a write may cut two short.
const WARMUP_RECORDS: std::ops::RangeInclusive<usize> = 49..=51;

#[test]
fn dynamic_records_switch_to_large_ones_once() {
    if !have_tools() {
        return;
    }
    let _seat = seat();
    for protocol in [Protocol::H1s, Protocol::H2] {
        let records = transfer(protocol, &[DYNAMIC]).records(TLS13_BYTES);
        for side in [&records.client, &records.server] {
            let small = side.iter().filter(|length| **length == 1_300).count();
            assert!(
                WARMUP_RECORDS.contains(&small),
                "{protocol}: {small}: {side:?}"
            );
            let first_large = side
                .iter()
                .position(|length| *length > 1_300)
                .expect("they grow");
            let before: u64 = side[..first_large].iter().sum();
            // These sums include the handshake messages: at most 4 KiB with a chain of one certificate.
            assert!(
                (64 * KIB..68 * KIB).contains(&before),
                "{protocol}: {before}: {side:?}"
            );
            assert!(
                !side[first_large..].contains(&1_300),
                "{protocol}: {side:?}"
            );
            assert!(
                side.iter().all(|length| *length <= 16 * KIB),
                "{protocol}: {side:?}"
            );
        }
    }
}

#[test]
fn dynamic_records_start_small_again_after_idle_time() {
    if !have_tools() {
        return;
    }
    alone_if_it_fails(seat(), || {
        // The server's delay lets both sides go idle between two exchanges on one connection.
        for (delay, warmups) in [("0ms", 1), ("600ms", 2)] {
            let query = format!("size=300KiB&delay={delay}");
            let records = capture(
                "load",
                Protocol::H1s,
                &[DYNAMIC],
                300 * KIB,
                &["-n", "2"],
                &query,
            )
            .records(TLS13_BYTES);
            for side in [&records.client, &records.server] {
                let small = side.iter().filter(|length| **length == 1_300).count();
                let expected = WARMUP_RECORDS.start() * warmups..=WARMUP_RECORDS.end() * warmups;
                assert!(
                    expected.contains(&small),
                    "delay {delay}: {small}: {side:?}"
                );
            }
        }
    });
}

/// Record settings from `--preset` work like those from `--set`: the configured number of small ones, and then large
/// ones.
#[test]
fn presets_size_records_as_their_programs_do() {
    if !have_tools() {
        return;
    }
    let _seat = seat();
    for preset in ["nghttpx", "h2o", "go", "nginx"] {
        let records = find_preset(preset, Side::Server)
            .expect("it is one")
            .tls
            .records;
        let home = TempDir::new().expect("a temporary folder");
        let server = Serving::start(home.path(), &["--h1s", "0", "--preset", preset]);
        let port = server.address("h1s").port();
        let capture = Capture::start(home.path(), &format!("tcp port {port}"));
        let url = server.url(Protocol::H1s) + "/?size=3MiB";
        let output = ask(
            home.path(),
            "fetch",
            Protocol::H1s,
            &["-o", "answer.bin"],
            &url,
        );
        assert!(output.status.success(), "{}", stderr(&output));
        let file = capture.end(port);
        let sent = Records::read(&file, port, TLS13_BYTES).server;
        match records {
            RecordSizes::Fixed(size) => check_whole(&sent, size.get(), CUT_ONCE),
            RecordSizes::Dynamic { small, warmup, .. } => {
                let (small, warmup) = (small.get(), warmup.get());
                let first_large = sent.iter().position(|length| *length > small);
                let (warming, large) = sent.split_at(first_large.expect("they grow"));
                let before: u64 = warming.iter().sum();
                // This sum includes the handshake messages: at most 4 KiB with a chain of one certificate.
                let expected = warmup..warmup + 4 * KIB;
                assert!(expected.contains(&before), "{preset}: {before} of {warmup}");
                check_sizes(large, 16 * KIB, CUT_ONCE);
            }
        }
    }
}
