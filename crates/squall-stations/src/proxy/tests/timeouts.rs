//! Requests queued behind others, on their client's connection or at the upstream, and how the proxy's timeouts apply to
//! them.
//!
//! No test waits: each sets the proxy's time and has it check its timeouts. Heads that take too long are in `slow_heads`.

use std::collections::BTreeMap;
use std::io::{Read, Write};
use std::net::TcpListener;

use squall_base::{Duration, Time};
use squall_linux::clock;

use super::memory::{SteppedProxy, connect};
use super::{Balance, Failure, Proxy, StopSignal, settings};
use crate::proxy::exchange::BackState;

/// Longer than the timeout for an answer (60 s), shorter than the one for a client's next byte (75 s).
const NO_ANSWER: Duration = Duration::from_secs(61);
/// Longer than either timeout.
const NOTHING: Duration = Duration::from_secs(76);

/// A proxy that sends one request at a time to an upstream that never answers.
fn before_silence(upstream: &TcpListener) -> SteppedProxy {
    let upstreams = [upstream.local_addr().unwrap()];
    let mut settings = settings(&upstreams, Balance::RoundRobin, Default::default());
    settings.pool.streams_at_most = Some(1);
    settings.min_upload_rate = None;
    let mut proxy = SteppedProxy(Proxy::listen(settings, StopSignal::new().unwrap()).unwrap());
    proxy.0.open_in_advance().unwrap();
    proxy
}

/// Checks the timeouts at this time, and does what follows from them.
fn sweep(proxy: &mut SteppedProxy, now: Time) {
    let Proxy {
        connections,
        reactor,
        ..
    } = &mut proxy.0;
    connections.relay.now = now;
    connections.sweep();
    connections.settle_all(reactor).unwrap();
}

/// How many requests have arrived, at least in part, and are not over.
fn open(proxy: &Proxy) -> usize {
    proxy.connections.relay.exchanges.iter().count()
}

fn is_any_sent(proxy: &Proxy) -> bool {
    let mut exchanges = proxy.connections.relay.exchanges.iter();
    exchanges.any(|(_, exchange)| matches!(exchange.back, BackState::Sent { .. }))
}

/// Otherwise the upstream would wait forever for the rest of the body.
#[test]
fn pipelined_request_that_got_408_does_not_reach_the_upstream() {
    let upstream = TcpListener::bind("127.0.0.1:0").unwrap();
    let mut proxy = before_silence(&upstream);
    let mut client = connect(proxy.address());
    let get = b"GET / HTTP/1.1\r\nhost: a\r\n\r\n";
    let post = b"POST / HTTP/1.1\r\nhost: a\r\ncontent-length: 10\r\n\r\n";
    client.write_all(&[&get[..], post].concat()).unwrap();
    proxy.turn_until("read", |proxy| open(proxy) == 2 && is_any_sent(proxy));
    sweep(&mut proxy, clock::now() + NOTHING);
    assert_eq!(open(&proxy.0), 0);
    let mut answers = Vec::new();
    client.read_to_end(&mut answers).unwrap();
    let answers = String::from_utf8_lossy(&answers);
    assert!(answers.starts_with("HTTP/1.1 504 "), "{answers}");
    assert!(answers.contains("HTTP/1.1 408 "), "{answers}");
    let failures = &proxy.0.connections.relay.report.failures;
    let expected = [(Failure::AnswerTimeout, 1), (Failure::ClientIdle, 1)];
    assert_eq!(failures, &BTreeMap::from(expected));
}

/// A pipelined request may wait long for others of its own connection. Its wait for an upstream begins after that.
#[test]
fn answer_timeout_starts_when_a_request_begins_to_wait_for_a_connection() {
    let upstream = TcpListener::bind("127.0.0.1:0").unwrap();
    let mut proxy = before_silence(&upstream);
    let mut other = connect(proxy.address());
    // This request's body is awaited, so it keeps the upstream's only stream for longer than the answer timeout.
    let post = b"POST / HTTP/1.1\r\nhost: a\r\ncontent-length: 10\r\n\r\nb";
    other.write_all(post).unwrap();
    proxy.turn_until("sent", is_any_sent);
    let mut client = connect(proxy.address());
    let get = b"GET / HTTP/1.1\r\nhost: a\r\n\r\n";
    client.write_all(&get.repeat(2)).unwrap();
    proxy.turn_until("read", |proxy| open(proxy) == 3);
    let began = clock::now() + NO_ANSWER;
    sweep(&mut proxy, began);
    let timeouts = |proxy: &SteppedProxy| {
        let failures = &proxy.0.connections.relay.report.failures;
        failures.get(&Failure::AnswerTimeout).copied()
    };
    assert_eq!((timeouts(&proxy), open(&proxy.0)), (Some(1), 2));
    sweep(&mut proxy, began + Duration::from_secs(1));
    assert_eq!((timeouts(&proxy), open(&proxy.0)), (Some(1), 2));
    sweep(&mut proxy, began + NO_ANSWER);
    assert_eq!(timeouts(&proxy), Some(2));
}
