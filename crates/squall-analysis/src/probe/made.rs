//! Made observations for the tests of probes: endpoints without a fault, to which each test adds one.
//!
//! Only the rows that the rules read are realistic.

use squall_base::plan::{Protocol, Version};
use squall_base::record::{
    ExchangeRecord, Extent, FrameFacts, FrameLayer, FrameRecord, Outcome, RequestRecord, Side,
    SideCounts, SocketRecord, SocketSample, Way,
};
use squall_base::{Duration, Time};

use super::observed::{Head, Observations, Piece, Step, StepKind, TransportParameters};
use crate::load::requests::answered;
use crate::wire::http2::{DATA, WINDOW_UPDATE};

pub(super) const fn ms(millis: u64) -> Duration {
    Duration::from_millis(millis)
}

pub(super) fn at_us(micros: u64) -> Time {
    Time::ZERO + Duration::from_micros(micros)
}

pub(super) fn step(kind: StepKind, version: Version) -> Step {
    Step {
        kind,
        version,
        round: 1,
        requests: Vec::new(),
        exchanges: Vec::new(),
        frames: Vec::new(),
        sockets: Vec::new(),
        pieces: Vec::new(),
        settings: Vec::new(),
        counts: SideCounts::default(),
        was_cut: false,
        was_connected: false,
        lacks_tls: false,
        handshake: None,
        ended: Vec::new(),
        largest_datagram: 0,
        records: Vec::new(),
    }
}

pub(super) fn head(version: Version, fields: &[(&str, &str)]) -> Head {
    let fields = fields.iter();
    Head {
        version,
        status: 200,
        fields: fields
            .map(|(name, value)| ((*name).to_owned(), (*value).to_owned()))
            .collect(),
    }
}

/// What a server announces for QUIC.
pub(super) fn parameters() -> TransportParameters {
    TransportParameters {
        max_idle_timeout: ms(30_000),
        initial_max_data_bytes: 10_000_000,
        initial_max_stream_data_bytes: 1_000_000,
        initial_max_streams_bidi: 100,
        max_udp_payload_bytes: 1_500,
        ack_delay_exponent: 3,
        max_ack_delay: ms(25),
        active_connection_id_limit: 2,
        disables_active_migration: true,
        used_retry: false,
    }
}

/// Request `what` of a step, sent at `sent_us` and answered `took_us` later.
pub(super) fn request(what: u32, sent_us: u64, took_us: u64) -> RequestRecord {
    RequestRecord {
        what,
        request: u64::from(what),
        ..answered(sent_us, took_us)
    }
}

/// Small requests on one connection: the first one opens it in two round trips and a half.
pub(super) fn small_requests(version: Version, round_trip: Duration) -> Step {
    let rtt = round_trip.as_nanos() / 1_000;
    let mut made = step(StepKind::Small, version);
    let begun = 1_000;
    made.requests.push(RequestRecord {
        slot: Some(at_us(begun)),
        connected: Some(at_us(begun + rtt)),
        secured: Some(at_us(begun + 2 * rtt)),
        opened_connection: true,
        ..request(0, begun + 2 * rtt, rtt)
    });
    for n in 1..8 {
        made.requests.push(request(0, begun + 4 * n * rtt, rtt));
    }
    made
}

/// A download of `bytes` in `took`, in ten pieces.
pub(super) fn download(kind: StepKind, version: Version, bytes: u64, took: Duration) -> Step {
    let mut made = step(kind, version);
    let took_us = took.as_nanos() / 1_000;
    let mut row = request(0, 1_000, took_us);
    row.response_body_bytes = bytes;
    made.requests.push(row);
    for n in 1..=10 {
        made.pieces.push(Piece {
            time: at_us(1_000 + took_us * n / 10),
            connection: 0,
            stream: 0,
            bytes: bytes / 10,
        });
    }
    made
}

/// An endpoint at this round trip, without a fault: HTTP/1.1 and HTTP/2 over TLS 1.3.
pub(super) fn healthy(round_trip: Duration) -> Observations {
    let mut seen = Observations {
        url: "https://server/".to_owned(),
        address: "192.0.2.1:443".to_owned(),
        is_secure: true,
        connects_idle: vec![round_trip; 3],
        connects_loaded: vec![round_trip; 5],
        ..Observations::default()
    };
    for version in [Version::Http1, Version::Http2] {
        seen.heads.push(head(version, &[("server", "made")]));
        let mut small = small_requests(version, round_trip);
        let cipher = "1.3 TLS_AES_128_GCM_SHA256".to_owned();
        small.counts.ciphers.insert(cipher, 1);
        small.exchanges.push(exchange(4_000));
        seen.steps.push(small);
        for _ in 0..3 {
            let took = times(round_trip, 20);
            seen.steps
                .push(download(StepKind::Download, version, 4_000_000, took));
        }
    }
    seen
}

pub(super) fn times(span: Duration, factor: u64) -> Duration {
    Duration::from_nanos(span.as_nanos() * factor)
}

/// An exchange whose response begins after this many bytes of TCP.
pub(super) fn exchange(wire_start: u64) -> ExchangeRecord {
    ExchangeRecord {
        request: Some(0),
        response_extent: Some(Extent {
            start: 100,
            end: 1_100,
            wire_start: Some(wire_start),
            wire_end: Some(wire_start + 1_022),
            record_first: Some(3),
            record_last: Some(3),
        }),
        response_body_bytes: 1_000,
        status: Some(200),
        ..ExchangeRecord::unseen(Side::Client, 0, 1, Protocol::H2)
    }
}

/// A frame of the upload's stream, or of the connection.
pub(super) fn frame(time_us: u64, facts: FrameFacts) -> FrameRecord {
    squall_made::frame(at_us(time_us), Side::Client, facts)
}

pub(super) fn facts(way: Way, kind: u64, stream: u64) -> FrameFacts {
    FrameFacts {
        stream: Some(stream),
        ..FrameFacts::new(way, FrameLayer::Http2, kind, 0)
    }
}

/// How the server of a made upload behaves.
#[derive(Clone, Copy)]
pub(super) struct Windows {
    pub(super) stream: i64,
    pub(super) connection: i64,
    /// Once the upload has used this much, the server opens both windows by `increment`.
    pub(super) update_after: i64,
    pub(super) increment: i64,
}

/// An upload of `bytes` over HTTP/2 against these windows. If one is used up, the next updates come after a round trip.
pub(super) fn upload(bytes: i64, round_trip: Duration, windows: Windows) -> Step {
    const STREAM: u64 = 3;
    let rtt = round_trip.as_nanos() / 1_000;
    let mut made = step(StepKind::Upload, Version::Http2);
    let (mut stream, mut connection) = (windows.stream, windows.connection);
    let (mut left, mut used, mut now) = (bytes, 0, 10_000);
    while left > 0 {
        let length = left.min(16_384).min(stream).min(connection);
        if length <= 0 || used >= windows.update_after {
            if windows.increment == 0 {
                break;
            }
            if length <= 0 {
                now += rtt;
            }
            stream += windows.increment;
            connection += windows.increment;
            used = 0;
            made.frames
                .push(update(now, STREAM, stream, windows.increment));
            made.frames
                .push(update(now, 0, connection, windows.increment));
            continue;
        }
        (stream, connection) = (stream - length, connection - length);
        left -= length;
        used += length;
        now += 1;
        made.frames.push(frame(
            now,
            FrameFacts {
                flags: u8::from(left == 0),
                length: length.unsigned_abs(),
                stream_window: Some(stream),
                connection_window: Some(connection),
                ..facts(Way::Sent, DATA, STREAM)
            },
        ));
    }
    made.requests.push(request(0, 1_000, rtt));
    let mut row = request(1, 10_000, now + rtt - 10_000);
    row.stream = Some(STREAM);
    row.request_body_bytes = bytes.unsigned_abs();
    if left > 0 {
        row.outcome = Outcome::Censored;
        row.answered_first = None;
        row.headers = None;
        row.written_last = None;
        row.end = at_us(now + 3_000_000);
    }
    made.requests.push(row);
    made
}

pub(super) fn update(time_us: u64, stream: u64, window: i64, increment: i64) -> FrameRecord {
    let mut found = facts(Way::Received, WINDOW_UPDATE, stream);
    found.value = Some(increment.unsigned_abs());
    if stream == 0 {
        found.connection_window = Some(window);
    } else {
        found.stream_window = Some(window);
    }
    frame(time_us, found)
}

/// DATA frames of a download, each with a payload of `length` bytes.
pub(super) fn received_data(count: u64, length: u64) -> Vec<FrameRecord> {
    let received = FrameFacts {
        length,
        ..facts(Way::Received, DATA, 1)
    };
    (0..count).map(|n| frame(1_000 + n, received)).collect()
}

/// The last sample of a TCP connection with these fields.
pub(super) fn tcp(fields: &[(&str, u64)]) -> SocketRecord {
    tcp_at(2_000_000, fields)
}

/// A sample at this time.
pub(super) fn tcp_at(time_us: u64, fields: &[(&str, u64)]) -> SocketRecord {
    let sample = SocketSample::Tcp(squall_made::tcp_info(fields));
    SocketRecord {
        is_last: true,
        ..squall_made::socket(at_us(time_us), Side::Client, sample)
    }
}
