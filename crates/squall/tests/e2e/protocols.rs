//! One trial of each protocol over a lossless link: its counts, and that all of its tables agree.

use std::collections::BTreeMap;

use squall_base::plan::{Protocol, Version};
use squall_base::record::{
    ExchangeRecord, Extent, FrameLayer, FrameRecord, RequestRecord, Side, SocketRecord,
    SocketSample, TrialRecord, Way,
};
use squall_base::{Duration, Time};
use squall_record::{
    RunFolder, TrialFolder, read_exchanges, read_frames, read_requests, read_sockets,
};

use crate::support::{alone_if_it_fails, recipe, run_recipe, seat};

/// 60 requests a second for two seconds: two HTTP/1.1 connections can carry 100 a second.
const REQUESTS: u64 = 120;
const CONNECTIONS: u64 = 2;
/// One-way delay.
const DELAY: Duration = Duration::from_millis(10);

/// The files of a trial.
struct Trial {
    protocol: Protocol,
    record: TrialRecord,
    requests: Vec<RequestRecord>,
    exchanges: Vec<ExchangeRecord>,
    frames: Vec<FrameRecord>,
    sockets: Vec<SocketRecord>,
    keys: Option<String>,
}

impl Trial {
    fn read(folder: &TrialFolder) -> Trial {
        let record = folder.read_record().expect("trial.json");
        Trial {
            protocol: record.trial.variant.first_hop().protocol,
            record,
            requests: read_requests(folder.requests()).expect("requests.parquet"),
            exchanges: read_exchanges(folder.exchanges()).expect("exchanges.parquet"),
            frames: read_frames(folder.frames()).expect("frames.parquet"),
            sockets: read_sockets(folder.sockets()).expect("sockets.parquet"),
            keys: std::fs::read_to_string(folder.keylog()).ok(),
        }
    }

    fn exchanges(&self, side: Side) -> impl Iterator<Item = &ExchangeRecord> {
        self.exchanges.iter().filter(move |row| row.side == side)
    }
}

#[test]
fn tables_of_a_trial_agree_for_every_protocol() {
    alone_if_it_fails(seat(), || {
        let variants: Vec<String> = Protocol::ALL
            .iter()
            .map(|protocol| {
                format!(
                    "[[variant]]\nname = \"{protocol}\"\npath = \"client ~{protocol}~> server\"\n\
                 connections = {CONNECTIONS}\n"
                )
            })
            .collect();
        let variants: Vec<&str> = variants.iter().map(String::as_str).collect();
        let text = recipe(
            "60/s",
            "delay = \"10ms\"",
            &variants,
            "warmup = \"0s\"\nduration = \"2s\"\ndrain = \"2s\"",
        );
        let run = run_recipe(&text, &[]);
        let folder = RunFolder::open(&run.folder).expect("the run");
        let folders = folder.complete_trials().expect("its trials");
        assert_eq!(folders.len(), Protocol::ALL.len());
        for trial in folders.iter().map(Trial::read) {
            eprintln!("{}", trial.protocol);
            assert_eq!(trial.record.requests, REQUESTS);
            assert!(trial.requests.iter().all(RequestRecord::succeeded));
            check_counts(&trial);
            check_sides_agree(&trial);
            check_times(&trial);
            check_frames(&trial);
            check_sockets(&trial);
            check_keys(&trial);
        }
    });
}

fn check_counts(trial: &Trial) {
    let protocol = trial.protocol;
    let (tcp, quic) = match protocol.version() {
        Version::Http3 => (0, CONNECTIONS),
        Version::Http1 | Version::Http2 => (CONNECTIONS, 0),
    };
    let hop = &trial.record.hops[0];
    let (Some(client), Some(server)) = (&hop.client, &hop.server) else {
        panic!("both sides are our own: {hop:?}");
    };
    for counts in [client, server] {
        assert_eq!(
            (counts.tcp_connections, counts.quic_connections),
            (tcp, quic)
        );
        let spoken = BTreeMap::from([(protocol.name().to_owned(), CONNECTIONS)]);
        assert_eq!(counts.protocols, spoken);
        let handshakes = if protocol.is_secure() { CONNECTIONS } else { 0 };
        assert_eq!(
            counts.tls_full + counts.tls_resumed,
            handshakes,
            "{counts:?}"
        );
        let agreed = (protocol.is_secure()).then(|| (protocol.alpn().to_owned(), CONNECTIONS));
        assert_eq!(counts.alpn, agreed.into_iter().collect());
        let settings: u64 = counts.settings_sent.values().sum();
        let expected = if protocol.version() == Version::Http1 {
            0
        } else {
            CONNECTIONS
        };
        assert_eq!(settings, expected, "{counts:?}");
        let has_frames = protocol.version() != Version::Http1;
        assert_eq!(
            counts.frames_sent.get("HEADERS"),
            has_frames.then_some(&REQUESTS)
        );
        assert_eq!(
            counts.frames_received.get("HEADERS"),
            has_frames.then_some(&REQUESTS)
        );
    }
    assert_eq!(client.settings_sent, server.settings_received);
    assert_eq!(server.settings_sent, client.settings_received);
    assert_eq!(client.tls_resumed, server.tls_resumed);
}

/// Checks that both sides have every exchange, with the same byte positions. The server numbers connections in the order of
/// acceptance, which may differ from the client's.
fn check_sides_agree(trial: &Trial) {
    let client: Vec<_> = trial.exchanges(Side::Client).collect();
    let server: Vec<_> = trial.exchanges(Side::Server).collect();
    assert_eq!(
        (client.len(), server.len()),
        (REQUESTS as usize, REQUESTS as usize)
    );
    let pair = |accepted: &BTreeMap<u32, u32>| -> Result<(), String> {
        let theirs: BTreeMap<(u32, u64), &ExchangeRecord> = server
            .iter()
            .map(|exchange| ((exchange.connection, exchange.stream), *exchange))
            .collect();
        for ours in &client {
            let key = (accepted[&ours.connection], ours.stream);
            let Some(theirs) = theirs.get(&key) else {
                return Err(format!("{key:?} is missing"));
            };
            same_bytes(ours, theirs)?;
        }
        Ok(())
    };
    // Two connections can be accepted in two orders; one of the orders must fit every exchange.
    let orders = [
        BTreeMap::from([(0, 0), (1, 1)]),
        BTreeMap::from([(0, 1), (1, 0)]),
    ];
    let tried: Vec<_> = orders.iter().map(pair).collect();
    assert!(tried.iter().any(Result::is_ok), "{tried:?}");
}

fn same_bytes(ours: &ExchangeRecord, theirs: &ExchangeRecord) -> Result<(), String> {
    let said = || format!("{ours:?}\n{theirs:?}");
    let bodies =
        |row: &ExchangeRecord| (row.request_body_bytes, row.response_body_bytes, row.status);
    let extents = |row: &ExchangeRecord| (row.request_extent, row.response_extent);
    let plain = |extent: Option<Extent>| extent.map(|extent| (extent.start, extent.end));
    let is_same = bodies(ours) == bodies(theirs)
        && bodies(ours) == (1_024, 1_024, Some(200))
        && extents(ours) == extents(theirs)
        && plain(ours.request_extent).is_some_and(|(start, end)| end - start > 1_024)
        && plain(ours.response_extent).is_some_and(|(start, end)| end - start > 1_024)
        && ours.request.is_some()
        && theirs.request.is_none();
    // A byte is read at least a link delay after it was written. The write time is taken after the write and is late if
    // the machine is busy, but by less than the delay.
    let passes =
        |from: Option<Time>, to: Option<Time>| from.zip(to).is_some_and(|(from, to)| to >= from);
    let is_ordered = passes(ours.request_first, theirs.request_first)
        && passes(ours.request_last, theirs.request_last)
        && passes(theirs.response_first, ours.response_first)
        && passes(theirs.response_last, ours.response_last)
        && passes(ours.request_first, theirs.response_first);
    if is_same && is_ordered {
        Ok(())
    } else {
        Err(said())
    }
}

/// Checks that a request's times equal those of its exchange, and none is shorter than the round trip.
fn check_times(trial: &Trial) {
    let by_request: BTreeMap<u64, &ExchangeRecord> = trial
        .exchanges(Side::Client)
        .filter_map(|row| Some((row.request?, row)))
        .collect();
    for request in &trial.requests {
        let exchange = by_request[&request.request];
        assert_eq!(exchange.request_first, request.written_first);
        assert_eq!(exchange.request_last, request.written_last);
        assert_eq!(exchange.response_first, request.answered_first);
        assert_eq!(exchange.response_last, Some(request.end));
        assert_eq!(
            (Some(exchange.connection), Some(exchange.stream)),
            (request.connection, request.stream)
        );
        // Not from `written_first`, which is taken after the write: the machine may have done other work in between.
        let slot = request.slot.expect("it had a connection");
        assert!(request.end.since(slot) >= DELAY + DELAY, "{request:?}");
    }
}

/// Checks that what one side sent, the other received later, in the same bytes, and that frames lie within the times of their
/// exchange.
fn check_frames(trial: &Trial) {
    if trial.protocol.version() == Version::Http1 {
        assert!(trial.frames.is_empty());
        return;
    }
    let of = |side: Side, way: Way, layer: FrameLayer| -> Vec<&FrameRecord> {
        trial
            .frames
            .iter()
            .filter(|row| row.side == side && row.frame.way == way && row.frame.layer == layer)
            .collect()
    };
    for (from, to) in [(Side::Client, Side::Server), (Side::Server, Side::Client)] {
        let layer = match trial.protocol.version() {
            Version::Http3 => FrameLayer::Http3,
            Version::Http1 | Version::Http2 => FrameLayer::Http2,
        };
        // Messages only: shutdown frames may still be in flight when the trial ends.
        let messages = |rows: Vec<&FrameRecord>| -> Vec<(u64, Option<u64>, u64)> {
            let mut facts: Vec<_> = rows
                .iter()
                .filter(|row| row.frame.kind <= 1)
                .map(|row| (row.frame.kind, row.frame.stream, row.frame.length))
                .collect();
            facts.sort_unstable();
            facts
        };
        let (sent, received) = (
            messages(of(from, Way::Sent, layer)),
            messages(of(to, Way::Received, layer)),
        );
        assert!(sent.len() as u64 >= 2 * REQUESTS);
        assert_eq!(sent, received, "{from:?} to {to:?}");
    }
    if trial.protocol == Protocol::H3 {
        let packets = of(Side::Client, Way::Sent, FrameLayer::Quic);
        assert!(packets.iter().all(|row| row.frame.packet.is_some()));
    }
}

fn check_sockets(trial: &Trial) {
    for side in [Side::Client, Side::Server] {
        for connection in 0..CONNECTIONS as u32 {
            let rows: Vec<&SocketRecord> = trial
                .sockets
                .iter()
                .filter(|row| row.side == side && row.connection == connection)
                .collect();
            // One sample per 100 ms for two seconds, and a final one.
            assert!(rows.len() >= 8, "{side:?} {connection}: {}", rows.len());
            assert!(rows.is_sorted_by_key(|row| row.time));
            assert_eq!(rows.iter().filter(|row| row.is_last).count(), 1);
            for row in rows {
                let is_quic = matches!(row.sample, SocketSample::Quic(_));
                assert_eq!(is_quic, trial.protocol == Protocol::H3);
            }
        }
    }
}

fn check_keys(trial: &Trial) {
    let count = |label: &str| {
        let text = trial.keys.as_deref().unwrap_or_default();
        text.lines().filter(|line| line.starts_with(label)).count() as u64
    };
    assert_eq!(trial.keys.is_some(), trial.protocol.is_secure());
    // The secrets of either side suffice; both sides agree on TLS 1.3.
    let connections = if trial.protocol.is_secure() {
        CONNECTIONS
    } else {
        0
    };
    let found = count("CLIENT_TRAFFIC_SECRET_0 ");
    assert!(found >= connections && found % CONNECTIONS == 0, "{found}");
}
