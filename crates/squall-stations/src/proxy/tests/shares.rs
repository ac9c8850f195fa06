//! What counts as a client's share of an upstream: its requests there, from when they get a connection until they leave.
//!
//! What follows from the counts is tested in `queue`.

use std::io::Write;
use std::net::TcpListener;
use std::thread;

use super::memory::{GET, SteppedProxy, connect};
use super::{StopSignal, server};
use crate::proxy::Proxy;
use crate::proxy::exchange::BackState;
use crate::proxy::queue::ClientHost;

/// How many requests count as being at the upstream.
fn at_upstream(proxy: &mut SteppedProxy) -> u32 {
    let pools = &mut proxy.0.connections.relay.backs.pools;
    pools.get_mut(0).waiting.taken_of_all()
}

/// The clients whose requests have a connection.
fn clients(proxy: &Proxy) -> Vec<ClientHost> {
    let exchanges = proxy.connections.relay.exchanges.iter();
    let is_sent = |state| matches!(state, BackState::Sent { .. });
    exchanges
        .filter(|(_, exchange)| is_sent(exchange.back))
        .map(|(_, exchange)| exchange.client)
        .collect()
}

#[test]
fn requests_count_until_they_leave_the_upstream() {
    let stop = StopSignal::new().unwrap();
    let server = server(&stop);
    let mut proxy = SteppedProxy::before(server.addresses().unwrap()[0], &stop);
    let serving = thread::spawn(move || server.run().unwrap());
    for _ in 0..3 {
        let (line, _) = proxy.ask(GET);
        assert!(line.starts_with("HTTP/1.1 200"), "{line}");
        assert_eq!(at_upstream(&mut proxy), 0);
    }

    // A request that its client abandons.
    let mut client = connect(proxy.address());
    let post = b"POST / HTTP/1.1\r\nhost: a\r\ncontent-length: 10\r\n\r\na";
    client.write_all(post).unwrap();
    proxy.turn_until("passed on", |proxy| !clients(proxy).is_empty());
    let of = ClientHost::of(client.local_addr().unwrap());
    assert_eq!(clients(&proxy.0), [of]);
    assert_eq!(at_upstream(&mut proxy), 1);
    drop(client);
    proxy.turn_until("abandoned", |proxy| clients(proxy).is_empty());
    assert_eq!(at_upstream(&mut proxy), 0);
    stop.request().unwrap();
    serving.join().unwrap();
}

#[test]
fn requests_that_reach_no_upstream_do_not_count() {
    let stop = StopSignal::new().unwrap();
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let gone = listener.local_addr().unwrap();
    drop(listener);
    let mut proxy = SteppedProxy::before(gone, &stop);
    for _ in 0..2 {
        let (line, _) = proxy.ask(GET);
        assert!(line.starts_with("HTTP/1.1 502"), "{line}");
        assert_eq!(at_upstream(&mut proxy), 0);
    }
}
