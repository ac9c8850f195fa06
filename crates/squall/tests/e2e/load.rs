//! `squall load` against `squall serve`: every request gets a response, and the tables agree.

use std::collections::BTreeMap;
use std::fs;
use std::process::Stdio;

use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use squall_base::Time;
use squall_base::plan::Protocol;
use squall_base::record::{
    ExchangeRecord, Extent, FrameLayer, FrameRecord, RequestRecord, Side, SocketRecord,
    SocketSample, TcpInfo, Way, frame_name,
};
use squall_record::{parts_of, read_exchanges, read_frames, read_requests, read_sockets};
use tempfile::TempDir;

use crate::served::{EVERY_PROTOCOL, Serving, ask, speaking, write_body};
use crate::support::{seat, squall, stderr, stdout, wait_for};

const REQUESTS: usize = 2_000;
/// The client's connection preface, which precedes all of its frames (RFC 9113, section 3.4).
const PREFACE_BYTES: u64 = 24;
/// The header of each HTTP/2 frame (RFC 9113, section 4.1).
const FRAME_HEADER_BYTES: u64 = 9;
/// The body size in these tests: several packets, one frame and one record.
const BODY_BYTES: usize = 10_000;

/// The tables of a load.
struct Tables {
    protocol: Protocol,
    requests: Vec<RequestRecord>,
    exchanges: Vec<ExchangeRecord>,
    frames: Vec<FrameRecord>,
    sockets: Vec<SocketRecord>,
}

impl Tables {
    /// The extents of the requests or responses of one connection.
    fn extents(&self, connection: u32, of: fn(&ExchangeRecord) -> Option<Extent>) -> Vec<Extent> {
        self.exchanges
            .iter()
            .filter(|exchange| exchange.connection == connection)
            .map(|exchange| of(exchange).expect("a whole exchange"))
            .collect()
    }

    fn connections(&self) -> u32 {
        self.exchanges
            .iter()
            .map(|exchange| exchange.connection + 1)
            .max()
            .unwrap_or(0)
    }

    /// The frames that one connection sent or received, in order.
    fn frames(&self, connection: u32, way: Way) -> impl Iterator<Item = &FrameRecord> {
        self.frames
            .iter()
            .filter(move |row| row.connection == connection && row.frame.way == way)
    }

    /// The last sample of each connection.
    fn last_samples(&self) -> BTreeMap<u32, &SocketSample> {
        self.sockets
            .iter()
            .filter(|row| row.is_last)
            .map(|row| (row.connection, &row.sample))
            .collect()
    }
}

fn request_extent(exchange: &ExchangeRecord) -> Option<Extent> {
    exchange.request_extent
}

fn response_extent(exchange: &ExchangeRecord) -> Option<Extent> {
    exchange.response_extent
}

/// 2,000 POSTs of 10,000 bytes over four connections, with up to 16 requests in flight.
fn load(protocol: Protocol) -> Tables {
    let home = TempDir::new().expect("a temporary folder");
    write_body(home.path(), "body.bin", BODY_BYTES);
    let server = Serving::start(
        home.path(),
        &[&EVERY_PROTOCOL[..], &["--body", "3000"]].concat(),
    );
    let arguments = [
        "-n",
        "2000",
        "-c",
        "4",
        "-m",
        "16",
        "-d",
        "body.bin",
        "--output",
        "requests.parquet",
        "--exchanges-to",
        "exchanges",
        "--frames-to",
        "frames",
        "--sockets-to",
        "sockets",
        "--sample-every",
        "20ms",
    ];
    let output = server.ask(home.path(), "load", protocol, &arguments);
    let shown = stdout(&output);
    assert!(output.status.success(), "{protocol}: {}", stderr(&output));
    assert!(shown.contains("\n2,000 succeeded (100 %)\n"), "{shown}");
    assert!(
        shown.contains(&format!("\nspoken {protocol} (4)\n")),
        "{shown}"
    );
    let (_, said) = server.end();
    let total = "4 connections, 2000 responses\n";
    assert!(said.starts_with(total), "{protocol}: {said}");
    let path = |name: &str| home.path().join(name);
    let tables = Tables {
        protocol,
        requests: read_requests(path("requests.parquet")).expect("the requests"),
        exchanges: read_exchanges(path("exchanges")).expect("the exchanges"),
        frames: read_frames(path("frames")).expect("the frames"),
        sockets: read_sockets(path("sockets")).expect("the samples"),
    };
    check_one_exchange_a_request(&tables);
    tables
}

/// Checks that each request has one exchange, on the same connection and stream, with the same times.
fn check_one_exchange_a_request(tables: &Tables) {
    assert_eq!(tables.requests.len(), REQUESTS);
    assert_eq!(tables.exchanges.len(), REQUESTS);
    let by_request: BTreeMap<u64, &ExchangeRecord> = tables
        .exchanges
        .iter()
        .map(|exchange| (exchange.request.expect("a client knows"), exchange))
        .collect();
    assert_eq!(by_request.len(), REQUESTS, "each request once");
    for request in &tables.requests {
        let exchange = by_request[&request.request];
        let said = format!("{request:?}\n{exchange:?}");
        assert!(request.succeeded(), "{said}");
        assert_eq!(exchange.side, Side::Client);
        assert_eq!(exchange.protocol, tables.protocol);
        assert_eq!(Some(exchange.connection), request.connection, "{said}");
        assert_eq!(Some(exchange.stream), request.stream, "{said}");
        assert_eq!(exchange.status, request.status, "{said}");
        assert_eq!(exchange.request_first, request.written_first, "{said}");
        assert_eq!(exchange.request_last, request.written_last, "{said}");
        assert_eq!(exchange.response_first, request.answered_first, "{said}");
        assert_eq!(exchange.response_last, Some(request.end), "{said}");
        assert_eq!(exchange.request_body_bytes, BODY_BYTES as u64, "{said}");
        assert_eq!(exchange.response_body_bytes, 3_000, "{said}");
        assert_eq!(exchange.reset, None, "{said}");
        let order = [
            Some(request.intended),
            Some(request.taken_up),
            request.slot,
            request.written_first,
            request.answered_first,
            request.headers,
            Some(request.end),
        ];
        assert!(
            order.iter().all(Option::is_some) && order.is_sorted(),
            "{said}"
        );
        assert!(request.written_first <= request.written_last, "{said}");
        assert_eq!(
            request.secured.is_some(),
            tables.protocol.is_secure(),
            "{said}"
        );
        assert!(request.connected <= request.slot, "{said}");
    }
    let used: Vec<u32> = (0..tables.connections()).collect();
    assert_eq!(used, [0, 1, 2, 3], "all four connections have work");
    check_looks_at_the_clock(tables);
}

/// Up to 16 due requests share a clock reading (docs/METHOD.md). At the start all requests are due, but a thread with a
/// single HTTP/1.1 connection starts only one of them.
fn check_looks_at_the_clock(tables: &Tables) {
    let mut looks: BTreeMap<Time, usize> = BTreeMap::new();
    for request in &tables.requests {
        *looks.entry(request.taken_up).or_default() += 1;
    }
    let has_streams = !matches!(tables.protocol, Protocol::H1 | Protocol::H1s);
    let least = if has_streams { 2 } else { 1 };
    let most = looks.values().max();
    assert!(
        most.is_some_and(|most| (least..=16).contains(most)),
        "{most:?}"
    );
}

/// Checks that in cleartext offsets in HTTP equal those in the TCP payload.
fn check_clear(extents: &[Extent]) {
    for extent in extents {
        assert_eq!(extent.wire_start, Some(extent.start), "{extent:?}");
        assert_eq!(extent.wire_end, Some(extent.end), "{extent:?}");
        assert_eq!((extent.record_first, extent.record_last), (None, None));
    }
}

/// Checks that HTTP/1.1 messages follow each other without gaps. Returns the end of the last message.
fn check_end_to_end(extents: &[Extent]) -> u64 {
    extents.iter().fold(0, |end, extent| {
        assert_eq!(extent.start, end, "a gap or an overlap before {extent:?}");
        assert!(extent.end > extent.start, "{extent:?}");
        extent.end
    })
}

/// The number of payload bytes that TCP has sent, without retransmissions.
fn bytes_sent(info: &TcpInfo) -> u64 {
    assert_eq!(info.get("tcpi_notsent_bytes"), Some(0));
    let count = |name| info.get(name).expect("the kernel counts bytes");
    count("tcpi_bytes_sent") - count("tcpi_bytes_retrans")
}

/// Asserts that TCP's counters at the end of the connection match the payload sent and received.
fn check_tcp_counts(sample: &SocketSample, sent: u64, received: u64) {
    let SocketSample::Tcp(info) = sample else {
        panic!("a sample of TCP: {sample:?}");
    };
    assert_eq!(bytes_sent(info), sent);
    assert_eq!(info.get("tcpi_bytes_received"), Some(received));
    // The peer may not have acknowledged the last bytes yet, but never acknowledges more; the SYN counts as one.
    let acked = info.get("tcpi_bytes_acked");
    assert!(
        acked.is_some_and(|acked| acked <= sent + 1),
        "{acked:?} of {sent}"
    );
}

#[test]
fn http1_messages_fill_the_tcp_payload_without_gaps() {
    let _seat = seat();
    let tables = load(Protocol::H1);
    assert!(tables.frames.is_empty(), "HTTP/1.1 has no frames");
    let samples = tables.last_samples();
    for connection in 0..4 {
        let requests = tables.extents(connection, request_extent);
        let responses = tables.extents(connection, response_extent);
        check_clear(&requests);
        check_clear(&responses);
        let (sent, received) = (check_end_to_end(&requests), check_end_to_end(&responses));
        check_tcp_counts(samples[&connection], sent, received);
    }
}

/// Checks that HTTP/2 frames follow each other without gaps from `start` on. Returns the end of the last frame.
fn check_frames_end_to_end(tables: &Tables, connection: u32, way: Way, start: u64) -> u64 {
    tables.frames(connection, way).fold(start, |end, row| {
        assert_eq!(row.frame.layer, FrameLayer::Http2);
        assert_eq!(row.frame.offset, Some(end), "a gap before {row:?}");
        end + FRAME_HEADER_BYTES + row.frame.length
    })
}

/// Checks that each range begins and ends with a frame of its stream, and includes all of the stream's frames except
/// WINDOW_UPDATE and RST_STREAM.
fn check_ranges_are_frames(tables: &Tables) {
    type Key = (u32, u64);
    for (way, of) in [
        (
            Way::Sent,
            request_extent as fn(&ExchangeRecord) -> Option<Extent>,
        ),
        (Way::Received, response_extent),
    ] {
        let mut messages: BTreeMap<Key, (u64, u64)> = BTreeMap::new();
        for row in &tables.frames {
            let frame = &row.frame;
            let is_message = ["HEADERS", "DATA", "CONTINUATION"]
                .contains(&frame_name(frame.layer, frame.kind).unwrap_or(""));
            if frame.way == way && is_message {
                let start = frame.offset.expect("a frame of HTTP/2 has a place");
                let end = start + FRAME_HEADER_BYTES + frame.length;
                let stream = frame.stream.expect("a frame of HTTP/2 has a stream");
                let range = messages
                    .entry((row.connection, stream))
                    .or_insert((start, end));
                *range = (range.0.min(start), range.1.max(end));
            }
        }
        assert_eq!(messages.len(), REQUESTS);
        for exchange in &tables.exchanges {
            let extent = of(exchange).expect("a whole exchange");
            let range = messages[&(exchange.connection, exchange.stream)];
            assert_eq!((extent.start, extent.end), range, "{way:?} {exchange:?}");
        }
    }
}

#[test]
fn cleartext_http2_frames_fill_the_tcp_payload_without_gaps() {
    let _seat = seat();
    let tables = load(Protocol::H2c);
    check_ranges_are_frames(&tables);
    let samples = tables.last_samples();
    for connection in 0..4 {
        let requests = tables.extents(connection, request_extent);
        check_clear(&requests);
        check_clear(&tables.extents(connection, response_extent));
        assert!(requests.iter().all(|extent| extent.start >= PREFACE_BYTES));
        let sent = check_frames_end_to_end(&tables, connection, Way::Sent, PREFACE_BYTES);
        let received = check_frames_end_to_end(&tables, connection, Way::Received, 0);
        check_tcp_counts(samples[&connection], sent, received);
    }
}

#[test]
fn tls_records_carry_every_byte_in_order() {
    let _seat = seat();
    for protocol in [Protocol::H1s, Protocol::H2] {
        let tables = load(protocol);
        let samples = tables.last_samples();
        if protocol == Protocol::H2 {
            check_ranges_are_frames(&tables);
        }
        for connection in 0..4 {
            let SocketSample::Tcp(info) = samples[&connection] else {
                panic!("TLS is over TCP");
            };
            for (way, of, on_wire) in [
                (
                    Way::Sent,
                    request_extent as fn(&ExchangeRecord) -> Option<Extent>,
                    bytes_sent(info),
                ),
                (
                    Way::Received,
                    response_extent,
                    info.get("tcpi_bytes_received")
                        .expect("the kernel counts bytes"),
                ),
            ] {
                let extents = tables.extents(connection, of);
                match protocol {
                    Protocol::H1s => {
                        check_end_to_end(&extents);
                    }
                    _ => {
                        let start = if way == Way::Sent { PREFACE_BYTES } else { 0 };
                        check_frames_end_to_end(&tables, connection, way, start);
                    }
                }
                check_records(&extents, on_wire);
            }
        }
    }
}

/// Checks that records carry the ranges: on the wire a byte is never before its position in the plaintext, later bytes are
/// never in earlier records, and nothing lies beyond what TCP sent.
fn check_records(extents: &[Extent], on_wire: u64) {
    let mut by_start = extents.to_vec();
    by_start.sort_by_key(|extent| extent.start);
    for extent in &by_start {
        let (first, last) = (
            extent.record_first.expect("a record"),
            extent.record_last.expect("a record"),
        );
        let (start, end) = (
            extent.wire_start.expect("a place"),
            extent.wire_end.expect("a place"),
        );
        assert!(
            first <= last && start < end && end <= on_wire,
            "{extent:?}, {on_wire}"
        );
        // Each record has a header of 5 bytes, an inner type and a tag of 16 bytes (RFC 8446, section 5.2), so a range
        // on the wire is longer than in plaintext by at least 22 bytes per record.
        let records = last - first + 1;
        assert!(
            end - start >= extent.end - extent.start + 22 * records,
            "{extent:?}"
        );
        // A record may begin with bytes of other messages, so its start proves nothing; but its end lies after
        // everything that precedes it.
        assert!(end >= extent.end + 22 * (last + 1), "{extent:?}");
        // Records hold 16 KiB, unless the writer has less, so a range has at least this many.
        let needed = (extent.end - extent.start).div_ceil(16_384);
        assert!(records >= needed, "{extent:?}");
    }
    for pair in by_start.windows(2) {
        assert!(pair[0].record_first <= pair[1].record_first, "{pair:?}");
        assert!(pair[0].wire_start <= pair[1].wire_start, "{pair:?}");
    }
}

#[test]
fn http3_lies_in_stream_frames_with_increasing_packet_numbers() {
    let _seat = seat();
    let tables = load(Protocol::H3);
    for (connection, sample) in tables.last_samples() {
        assert!(
            matches!(sample, SocketSample::Quic(path) if path.sent > 0),
            "{connection}"
        );
    }
    check_packets_grow(&tables);
    let covered = |way: Way| -> BTreeMap<(u32, u64), Vec<(u64, u64)>> {
        let mut found: BTreeMap<_, Vec<_>> = BTreeMap::new();
        for row in &tables.frames {
            let frame = &row.frame;
            if frame.way == way
                && frame.layer == FrameLayer::Quic
                && (0x08..=0x0f).contains(&frame.kind)
            {
                let stream = frame.stream.expect("STREAM has a stream");
                let offset = frame.offset.expect("STREAM has a place");
                found
                    .entry((row.connection, stream))
                    .or_default()
                    .push((offset, offset + frame.length));
            }
        }
        found
    };
    for (way, of) in [
        (
            Way::Sent,
            request_extent as fn(&ExchangeRecord) -> Option<Extent>,
        ),
        (Way::Received, response_extent),
    ] {
        let pieces = covered(way);
        for exchange in &tables.exchanges {
            let extent = of(exchange).expect("a whole exchange");
            assert_eq!(
                (extent.start, extent.wire_start, extent.record_first),
                (0, None, None)
            );
            let mut pieces = pieces[&(exchange.connection, exchange.stream)].clone();
            pieces.sort_unstable();
            let end = pieces.iter().fold(0, |end, (from, to)| {
                assert!(*from <= end, "a gap at {end} before {from}: {exchange:?}");
                end.max(*to)
            });
            assert_eq!(end, extent.end, "{way:?} {exchange:?}");
        }
    }
}

/// Checks that a side never repeats or decreases packet numbers (RFC 9000, section 12.3); HTTP/3 frames lie in streams.
fn check_packets_grow(tables: &Tables) {
    for connection in 0..4 {
        let sent: Vec<u64> = tables
            .frames(connection, Way::Sent)
            .filter(|row| row.frame.layer == FrameLayer::Quic)
            .map(|row| row.frame.packet.expect("QUIC's frames are in packets"))
            .collect();
        assert!(sent.is_sorted(), "connection {connection}");
        let headers = tables
            .frames(connection, Way::Sent)
            .filter(|row| row.frame.layer == FrameLayer::Http3)
            .filter(|row| frame_name(row.frame.layer, row.frame.kind) == Some("HEADERS"));
        for row in headers {
            assert_eq!(
                row.frame.offset,
                Some(0),
                "a request's head is first: {row:?}"
            );
        }
    }
}

#[test]
fn times_of_frames_and_samples_are_in_order_and_within_the_load() {
    let _seat = seat();
    for protocol in [Protocol::H2c, Protocol::H3] {
        let tables = load(protocol);
        let end = tables.requests.iter().map(|request| request.end).max();
        for connection in 0..4 {
            for way in Way::ALL {
                let times: Vec<_> = tables.frames(connection, way).map(|row| row.time).collect();
                assert!(
                    !times.is_empty() && times.is_sorted(),
                    "{protocol} {connection}"
                );
            }
            let samples: Vec<_> = tables
                .sockets
                .iter()
                .filter(|row| row.connection == connection)
                .collect();
            assert!(samples.is_sorted_by_key(|row| row.time));
            assert!(samples.iter().rev().skip(1).all(|row| !row.is_last));
            assert!(
                samples
                    .last()
                    .is_some_and(|row| row.is_last && Some(row.time) >= end)
            );
        }
    }
}

#[test]
fn ctrl_c_makes_load_report_its_measurements_and_serve_its_counts() {
    let _seat = seat();
    let home = TempDir::new().expect("a temporary folder");
    let server = Serving::start(home.path(), &["--h1", "0"]);
    let child = squall(home.path())
        .args([
            "load",
            "-D",
            "60s",
            "-c",
            "2",
            "--output",
            "requests.parquet",
        ])
        .args(speaking(Protocol::H1))
        .arg(server.url(Protocol::H1))
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .expect("squall starts");
    wait_for("the first save", || {
        let parts = parts_of(home.path().join("requests.parquet"));
        (!parts.expect("its parts").is_empty()).then_some(())
    });
    kill(Pid::from_raw(child.id() as i32), Signal::SIGINT).expect("the load is there");
    let output = child.wait_with_output().expect("it ends");
    assert_eq!(output.status.code(), Some(130), "{}", stderr(&output));
    let shown = stdout(&output);
    let succeeded: u64 = shown
        .lines()
        .find_map(|line| line.split_once(" succeeded ("))
        .and_then(|(count, _)| count.replace(',', "").parse().ok())
        .expect("what was measured");
    assert!(succeeded > 0 && shown.contains("response time"), "{shown}");
    let requests = read_requests(home.path().join("requests.parquet")).expect("the table is whole");
    let found = requests
        .iter()
        .filter(|request| request.succeeded())
        .count();
    assert_eq!(found as u64, succeeded);
    let (status, said) = server.end();
    assert!(status.success(), "{status}");
    let total = said.lines().next().unwrap_or_default();
    let words: Vec<&str> = total.split_whitespace().collect();
    assert_eq!(
        (words.len(), words[0], words[1], words[3]),
        (4, "2", "connections,", "responses"),
        "{said}"
    );
    let responses: u64 = words[2].parse().expect("a count");
    assert!(responses >= succeeded, "{said}");
}

#[test]
fn load_without_responses_stops_after_give_up() {
    let _seat = seat();
    let home = TempDir::new().expect("a temporary folder");
    let server = Serving::start(home.path(), &["--h1", "0", "--h2c", "0"]);
    for protocol in [Protocol::H1, Protocol::H2c] {
        let url = server.url(protocol) + "/?delay=1h";
        let flags = ["-n", "4", "-c", "2", "--give-up", "400ms"];
        let output = ask(home.path(), "load", protocol, &flags, &url);
        assert_eq!(output.status.code(), Some(1), "{}", stderr(&output));
        let shown = stdout(&output);
        assert!(
            shown.contains("2 unfinished") && shown.contains("\ngiven up: none "),
            "{shown}"
        );
    }
    let url = server.url(Protocol::H1);
    let never = ["-n", "1", "--give-up", "0s"];
    let output = ask(home.path(), "load", Protocol::H1, &never, &url);
    assert_eq!(output.status.code(), Some(2), "{}", stdout(&output));
    assert!(stderr(&output).contains("expected more than 0"));
}

#[test]
fn failures_are_counted_and_reported() {
    let _seat = seat();
    let home = TempDir::new().expect("a temporary folder");
    let server = Serving::start(home.path(), &["--h1", "0"]);
    let url = server.url(Protocol::H1) + "/?status=503";
    let output = ask(home.path(), "load", Protocol::H1, &["-n", "10"], &url);
    assert_eq!(output.status.code(), Some(1), "{}", stderr(&output));
    let shown = stdout(&output);
    assert!(
        shown.contains("0 succeeded (0 %), 10 with a status of 400 or more (100 %)\n"),
        "{shown}"
    );
    drop(server);
    let output = ask(
        home.path(),
        "load",
        Protocol::H1,
        &["-n", "10", "--output", "requests.parquet"],
        &url,
    );
    assert_eq!(output.status.code(), Some(1), "{}", stderr(&output));
    let shown = stdout(&output);
    assert!(
        shown.contains("10 without a connection") && shown.contains("refused"),
        "{shown}"
    );
    let left = fs::metadata(home.path().join("requests.parquet")).expect("the table is there");
    assert!(left.len() > 0);
}
