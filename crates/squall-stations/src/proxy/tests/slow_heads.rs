//! A request whose head arrives steadily but takes too long, over each version.
//!
//! No test waits: each sets the proxy's time and has it check its timeouts.

use std::collections::BTreeMap;
use std::io::{Read, Write};
use std::net::SocketAddr;
use std::sync::Arc;

use squall_base::plan::Version;
use squall_base::{Duration, Time};
use squall_http::{Body, Request, Scheme, h3};
use squall_linux::clock;

use super::memory::{SteppedProxy, connect};
use super::{
    Balance, Failure, ListenerProtocol, Proxy, ProxySettings, StopSignal, server, settings,
};
use crate::accept::HEAD_TIMEOUT;
use crate::visitor::{Visitor, context, identity};

/// Settings of a proxy for clients of this protocol, whose connections may be idle for longer than a head may take. No request
/// gets as far as its upstream.
fn settings_for(protocol: ListenerProtocol) -> ProxySettings {
    let upstreams = [SocketAddr::from(([127, 0, 0, 1], 1))];
    let mut settings = settings(&upstreams, Balance::RoundRobin, Default::default());
    settings.listeners[0].protocol = protocol;
    settings.timeouts.idle = Some(Duration::from_secs(600));
    settings
}

fn only_the_client_was_slow(proxy: &SteppedProxy) -> bool {
    let failures = &proxy.0.connections.relay.report.failures;
    *failures == BTreeMap::from([(Failure::ClientIdle, 1)])
}

fn sweep(proxy: &mut SteppedProxy, now: Time) {
    proxy.0.connections.relay.now = now;
    proxy.0.connections.sweep();
}

fn open(proxy: &Proxy) -> usize {
    proxy.connections.relay.exchanges.iter().count()
}

#[test]
fn slow_head_is_answered_with_408_and_ends_the_connection() {
    let stop = StopSignal::new().unwrap();
    let server = server(&stop);
    let mut proxy = SteppedProxy::before(server.addresses().unwrap()[0], &stop);
    let began = clock::now();
    let mut client = connect(proxy.address());
    client.write_all(b"GET / HTTP/1.1\r\n").unwrap();
    proxy.turn_until("read", |proxy| open(proxy) == 1);
    sweep(&mut proxy, began + (HEAD_TIMEOUT - Duration::from_secs(5)));
    assert_eq!(open(&proxy.0), 1);
    client.write_all(b"host: a\r\n").unwrap();
    proxy.turn_until("read", |proxy| {
        let front = proxy.connections.relay.fronts.tcp[0].as_deref();
        front.is_some_and(|front| front.tcp.engine.buffered_bytes() == 25)
    });
    // The limit counts from the head's first byte, not from its last one.
    sweep(&mut proxy, clock::now() + HEAD_TIMEOUT);
    proxy.turn_until("answered", |proxy| open(proxy) == 0);
    let mut answer = Vec::new();
    client.read_to_end(&mut answer).unwrap();
    assert!(answer.starts_with(b"HTTP/1.1 408 "), "{answer:?}");
    let failures = &proxy.0.connections.relay.report.failures;
    assert_eq!(failures, &BTreeMap::from([(Failure::ClientIdle, 1)]));
}

#[test]
fn connection_with_a_slow_head_over_http2_is_closed() {
    let stop = StopSignal::new().unwrap();
    let settings = settings_for(ListenerProtocol::Plain(Version::Http2));
    let mut proxy = SteppedProxy(Proxy::listen(settings, stop).unwrap());
    let began = clock::now();
    let mut client = connect(proxy.address());
    let mut bytes = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n".to_vec();
    // SETTINGS, and HEADERS of stream 1 without END_HEADERS: ":method: GET".
    bytes.extend([0, 0, 0, 4, 0, 0, 0, 0, 0]);
    bytes.extend([0, 0, 1, 1, 1, 0, 0, 0, 1, 0x82]);
    client.write_all(&bytes).unwrap();
    proxy.turn_until("read", |proxy| open(proxy) == 1);
    let read = clock::now();
    sweep(&mut proxy, began + (HEAD_TIMEOUT - Duration::from_secs(5)));
    assert_eq!(open(&proxy.0), 1);
    // CONTINUATION without END_HEADERS: ":scheme: http".
    client
        .write_all(&[0, 0, 1, 9, 0, 0, 0, 0, 1, 0x86])
        .unwrap();
    for _ in 0..3 {
        let wake = clock::now() + Duration::from_millis(10);
        proxy.0.turn(Some(wake)).unwrap();
    }
    // The limit counts from the head's first byte, not from its last one.
    sweep(&mut proxy, read + HEAD_TIMEOUT);
    assert_eq!(open(&proxy.0), 0);
    assert!(only_the_client_was_slow(&proxy));
    // The connection ends with GOAWAY.
    let mut answer = Vec::new();
    client.read_to_end(&mut answer).unwrap();
    let is_goaway = |frame: &[u8]| frame == [7, 0, 0, 0, 0, 0];
    assert!(answer.windows(6).any(is_goaway), "{answer:?}");
}

#[test]
fn stream_with_a_slow_head_over_http3_is_reset_and_others_are_served() {
    let stop = StopSignal::new().unwrap();
    let identity = identity();
    let settings = settings_for(ListenerProtocol::Quic(identity.clone()));
    let mut proxy = SteppedProxy(Proxy::listen(settings, stop).unwrap());
    let mut context = context(&identity);
    let mut client = Visitor::new(&mut context, proxy.address());
    proxy.turn_with(&mut client, |_, client| client.engine.is_ready());
    let began = clock::now();
    client.begin_head();
    proxy.turn_until("read", |proxy| open(proxy) == 1);
    sweep(&mut proxy, began + (HEAD_TIMEOUT - Duration::from_secs(5)));
    assert_eq!(open(&proxy.0), 1);
    sweep(&mut proxy, clock::now() + HEAD_TIMEOUT);
    assert_eq!(open(&proxy.0), 0);
    assert!(only_the_client_was_slow(&proxy));
    proxy.turn_with(&mut client, |_, client| client.reset_code().is_some());
    assert_eq!(client.reset_code(), Some(h3::code::REQUEST_REJECTED));

    // The proxy itself responds.
    let fields = [("max-forwards".to_owned(), "0".to_owned())];
    let options = Request::new(
        "OPTIONS",
        Scheme::Https,
        "server",
        "/",
        &fields,
        Body::EMPTY,
    );
    client.engine.submit(&Arc::new(options.unwrap())).unwrap();
    proxy.turn_with(&mut client, |_, client| client.has_answer());
}
