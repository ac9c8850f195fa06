//! A request whose head arrives steadily but takes too long.
//!
//! No test waits: each sets the proxy's time and has it check its timeouts.

use std::collections::BTreeMap;
use std::io::{Read, Write};

use squall_base::{Duration, Time};
use squall_linux::clock;

use super::memory::{Turned, connect};
use super::{Failure, Proxy, StopSignal, server};
use crate::accept::HEAD_TIMEOUT;

fn sweep(proxy: &mut Turned, now: Time) {
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
    let mut proxy = Turned::before(server.addresses().unwrap()[0], &stop);
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
    // Only the first byte counts, not the last one.
    sweep(&mut proxy, clock::now() + HEAD_TIMEOUT);
    proxy.turn_until("answered", |proxy| open(proxy) == 0);
    let mut answer = Vec::new();
    client.read_to_end(&mut answer).unwrap();
    assert!(answer.starts_with(b"HTTP/1.1 408 "), "{answer:?}");
    let failures = &proxy.0.connections.relay.report.failures;
    assert_eq!(failures, &BTreeMap::from([(Failure::ClientIdle, 1)]));
}
