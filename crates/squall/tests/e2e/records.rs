//! TLS records on the wire, as tshark sees them: exactly as large as was asked, of the client's and the server's.

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;

use squall_base::Side;
use squall_base::plan::{Protocol, RecordSizes, find_preset};
use tempfile::TempDir;

use crate::capture::{Capture, tls_fields};
use crate::served::{Serving, ask, write_body};
use crate::support::{bench, have, is_root, stderr};

/// The inner content type and the tag of AES-GCM (RFC 8446, section 5.2).
const TLS13_BYTES: u64 = 1 + 16;
/// The explicit nonce and the tag of AES-GCM (RFC 5288, section 3).
const TLS12_BYTES: u64 = 8 + 16;
/// Application data (RFC 8446, section 5.1).
const APPLICATION_DATA: &str = "23";
const KIB: u64 = 1024;
/// What is sent each way.
const BODY_BYTES: u64 = 3 * KIB * KIB;
/// What is sent up, where that shall be much.
const UPLOAD_BYTES: u64 = 65_000_000;

/// One fetch that sends and gets 3 MiB, with these settings on both sides.
fn transfer(protocol: Protocol, settings: &[&str], overhead: u64) -> Records {
    let arguments = ["-o", "answer.bin"];
    capture(
        "fetch",
        protocol,
        settings,
        overhead,
        BODY_BYTES,
        &arguments,
        "size=3MiB",
    )
}

/// Captures what a client's command does with these settings on both sides. Windows are so large that no sender has to
/// stop within a record.
fn capture(
    command: &str,
    protocol: Protocol,
    settings: &[&str],
    overhead: u64,
    body_bytes: u64,
    arguments: &[&str],
    query: &str,
) -> Records {
    let home = TempDir::new().expect("a temporary folder");
    write_body(home.path(), "body.bin", body_bytes as usize);
    let windows = ["http2.stream_window=16MiB", "http2.connection_window=16MiB"];
    let windows = windows.iter().filter(|_| protocol == Protocol::H2);
    let sets: Vec<&str> = settings
        .iter()
        .chain(windows)
        .flat_map(|setting| ["--set", setting])
        .collect();
    let kind = format!("--{protocol}");
    let server = Serving::start(home.path(), &[&[&kind, "0", "--sink"], &sets[..]].concat());
    let port = server.address(protocol.name()).port();
    let capture = Capture::start(home.path(), &format!("tcp port {port}"));
    let url = format!("{}/?{query}", server.url(protocol));
    let arguments = [&sets[..], &["-d", "body.bin"], arguments].concat();
    let output = ask(home.path(), command, protocol, &arguments, &url);
    assert!(output.status.success(), "{}", stderr(&output));
    let file = capture.end(port);
    Records::read(&file, port, overhead)
}

/// What the records with application data hold that each side sent, in their order.
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
            // Records of TLS 1.3 that are encrypted have an opaque type, the others of the segment a content type.
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
            // Where both kinds are in one segment, the plain ones are handshake's and come first.
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

/// All records are of this size but `cut` of them at most.
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

/// The same of what carries a whole body.
fn check_whole(records: &[u64], size: u64, cut: usize) {
    check_sizes(records, size, cut);
    assert!(
        records.iter().sum::<u64>() >= BODY_BYTES,
        "{size}: {records:?}"
    );
}

/// Captures an upload of 65 MB that a client's command makes over HTTP/2, with these records on both sides: what was sent,
/// and the access log.
fn upload(command: &str, arguments: &[&str], records: &str) -> (Records, String) {
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
    let arguments = [&sets[..], &["-d", "body.bin"], arguments].concat();
    let url = server.url(Protocol::H2) + "/upload";
    let output = ask(home.path(), command, Protocol::H2, &arguments, &url);
    assert!(output.status.success(), "{}", stderr(&output));
    let file = capture.end(port);
    let (status, said) = server.end();
    assert!(status.success(), "{said}");
    let log = fs::read_to_string(home.path().join("access.log")).expect("the access log");
    (Records::read(&file, port, TLS13_BYTES), log)
}

#[test]
fn records_of_65_mb_have_that_size_to_the_end() {
    const FETCH: (&str, &[&str]) = ("fetch", &["-o", "answer.bin"]);
    const LOAD: (&str, &[&str]) = ("load", &["-n", "1"]);
    if !have_tools() {
        return;
    }
    let _bench = bench();
    for (size, setting, (command, arguments)) in [
        (16 * KIB, "tls.records=16KiB", FETCH),
        (4 * KIB, "tls.records=4KiB", LOAD),
        (1_300, "tls.records=1300", FETCH),
    ] {
        let (records, log) = upload(command, arguments, setting);
        let line = format!(" h2 \"POST /upload\" 200 {UPLOAD_BYTES} ");
        assert!(log.contains(&line), "{log}");
        // Where the socket is full a write may hold a frame alone, which has 12 whole records of 1,300 bytes in it, or 4 of
        // 4 KiB, or one of 16 KiB: 95 % of what is sent, and a short one behind them.
        let frames = (UPLOAD_BYTES / (16 * KIB)) as usize;
        check_sizes(&records.client, size, CUT_ONCE + frames);
        let full = records.client.iter().filter(|length| **length == size);
        let full_bytes = full.sum::<u64>();
        assert!(full_bytes > UPLOAD_BYTES / 100 * 95, "{size}: {full_bytes}");
        let sum: u64 = records.client.iter().sum();
        assert!(sum >= UPLOAD_BYTES, "{size}: {sum}");
    }
}

/// Records that are not full: messages of the handshake (tickets, certificates, Finished), the head with what follows
/// it, and the end of the body.
const CUT_ONCE: usize = 8;
/// HTTP/2 also ends a record with each write, which holds three frames of 16 KiB.
const CUT_BY_WRITES: usize = CUT_ONCE + (BODY_BYTES / (3 * 16 * KIB)) as usize;

#[test]
fn data_records_have_exactly_the_size_that_was_asked() {
    if !have_tools() {
        return;
    }
    let _bench = bench();
    for (protocol, cut) in [(Protocol::H1s, CUT_ONCE), (Protocol::H2, CUT_BY_WRITES)] {
        for (size, setting) in [
            (16 * KIB, "tls.records=16KiB"),
            (4 * KIB, "tls.records=4KiB"),
            (1_300, "tls.records=1300"),
        ] {
            let records = transfer(protocol, &[setting], TLS13_BYTES);
            check_whole(&records.client, size, cut);
            check_whole(&records.server, size, cut);
        }
    }
}

#[test]
fn records_of_tls12_have_that_size_too() {
    if !have_tools() {
        return;
    }
    let _bench = bench();
    let settings = [
        "tls.records=4KiB",
        "tls.max_version=1.2",
        "tls.ciphers=ECDHE-ECDSA-AES128-GCM-SHA256:ECDHE-RSA-AES128-GCM-SHA256",
    ];
    let records = transfer(Protocol::H1s, &settings, TLS12_BYTES);
    check_whole(&records.client, 4 * KIB, CUT_ONCE);
    check_whole(&records.server, 4 * KIB, CUT_ONCE);
}

/// Small for 64 KiB, then large; anew after 200 ms.
const DYNAMIC: &str = "tls.records={ small = \"1300\", warmup = \"64KiB\", idle = \"200ms\" }";
/// Small records that hold 64 KiB: 51, of which a head and a write's end may cut two short.
const WARMUP_RECORDS: std::ops::RangeInclusive<usize> = 49..=51;

#[test]
fn dynamic_records_grow_once() {
    if !have_tools() {
        return;
    }
    let _bench = bench();
    for protocol in [Protocol::H1s, Protocol::H2] {
        let records = transfer(protocol, &[DYNAMIC], TLS13_BYTES);
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
            // The handshake's messages are in these sums: at most 4 KiB with a chain of one certificate.
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
fn dynamic_records_begin_anew_after_idle_time() {
    if !have_tools() {
        return;
    }
    let _bench = bench();
    // The server's delay lets both sides fall idle between two exchanges of one connection.
    for (delay, warmups) in [("0ms", 1), ("600ms", 2)] {
        let query = format!("size=300KiB&delay={delay}");
        let records = capture(
            "load",
            Protocol::H1s,
            &[DYNAMIC],
            TLS13_BYTES,
            300 * KIB,
            &["-n", "2"],
            &query,
        );
        for side in [&records.client, &records.server] {
            let small = side.iter().filter(|length| **length == 1_300).count();
            let expected = WARMUP_RECORDS.start() * warmups..=WARMUP_RECORDS.end() * warmups;
            assert!(
                expected.contains(&small),
                "delay {delay}: {small}: {side:?}"
            );
        }
    }
}

/// What `--preset` says of records holds as what `--set` says: so many small ones, and then large ones.
#[test]
fn records_of_presets_are_the_programs() {
    if !have_tools() {
        return;
    }
    let _bench = bench();
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
                // The handshake's messages are in this sum: at most 4 KiB with a chain of one certificate.
                let expected = warmup..warmup + 4 * KIB;
                assert!(expected.contains(&before), "{preset}: {before} of {warmup}");
                check_sizes(large, 16 * KIB, CUT_ONCE);
            }
        }
    }
}
