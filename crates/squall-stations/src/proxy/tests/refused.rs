//! Connections that the kernel does not let the proxy watch (epoll_ctl(2)): each is closed, and everything else goes on.
//!
//! The kernel refuses to watch a file twice (EEXIST), so the tests watch it first. What the proxy does without file
//! descriptors is tested end to end.

use std::io::Read;
use std::thread;

use super::memory::{GET, SteppedProxy, connect};
use super::{Proxy, StopSignal, server};
use crate::accept::tests::{accept_soon, check_one_unwatched};
use crate::proxy::BoundListener;
use crate::proxy::keys::BackKey;

/// A token that the proxy ignores.
const UNUSED: u64 = 0;

fn check_errors(proxy: &Proxy) {
    check_one_unwatched(&proxy.connections.relay.report.machine_errors);
}

#[test]
fn unwatchable_client_connection_is_closed_and_others_are_served() {
    let stop = StopSignal::new().unwrap();
    let server = server(&stop);
    let mut proxy = SteppedProxy::before(server.addresses().unwrap()[0], &stop);
    let serving = thread::spawn(move || server.run().unwrap());
    let mut client = connect(proxy.address());
    let Some(BoundListener::Tcp(acceptor)) = proxy.0.listeners.first() else {
        panic!("it has no listener for TCP");
    };
    let tcp = accept_soon(acceptor, proxy.0.connections.front_inbox.wants());
    proxy.0.reactor.add(tcp.socket(), UNUSED).unwrap();
    proxy.0.admit(tcp);
    assert_eq!(client.read(&mut [0; 1]).unwrap(), 0);
    check_errors(&proxy.0);

    let (line, _) = proxy.ask(GET);
    assert!(line.starts_with("HTTP/1.1 200"), "{line}");
    check_errors(&proxy.0);
    stop.request().unwrap();
    serving.join().unwrap();
}

#[test]
fn unwatchable_upstream_connection_is_closed_and_another_is_opened() {
    let stop = StopSignal::new().unwrap();
    let server = server(&stop);
    let mut proxy = SteppedProxy::before(server.addresses().unwrap()[0], &stop);
    let serving = thread::spawn(move || server.run().unwrap());
    let (line, _) = proxy.ask(GET);
    assert!(line.starts_with("HTTP/1.1 200"), "{line}");
    let Proxy {
        connections,
        reactor,
        ..
    } = &mut proxy.0;
    connections.watch_back(BackKey::FIRST, reactor);
    assert_eq!(connections.relay.backs.pools.open(), 0);
    check_errors(&proxy.0);

    let (line, _) = proxy.ask(GET);
    assert!(line.starts_with("HTTP/1.1 200"), "{line}");
    assert_eq!(proxy.0.connections.relay.backs.pools.added(), 2);
    check_errors(&proxy.0);
    stop.request().unwrap();
    assert_eq!(serving.join().unwrap().responses_written, 2);
}
