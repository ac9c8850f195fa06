//! A connection that the kernel does not let the server watch (epoll_ctl(2)) is closed, and the server goes on.
//!
//! The kernel refuses to watch a file twice (EEXIST), so the test watches it first.

use std::io::{Read, Write};
use std::net::TcpStream;
use std::thread;
use std::time::Duration as StdDuration;

use squall_base::plan::Version;

use super::*;
use crate::accept::tests::{accept_soon, check_one_unwatched};

fn connect(address: SocketAddr) -> TcpStream {
    let client = TcpStream::connect(address).unwrap();
    let patience = Some(StdDuration::from_secs(20));
    client.set_read_timeout(patience).unwrap();
    client
}

#[test]
fn unwatchable_connection_is_closed_and_others_are_served() {
    let stop = StopSignal::new().unwrap();
    let settings = ServerSettings::for_test(ListenerProtocol::Plain(Version::Http1), 5);
    let mut server = Server::listen(settings, stop.clone()).unwrap();
    let address = server.addresses().unwrap()[0];
    let mut refused = connect(address);
    let BoundListener::Tcp(acceptor) = &server.listeners[0] else {
        panic!("it has no listener for TCP");
    };
    let tcp = accept_soon(acceptor, server.wants);
    server.reactor.add(tcp.socket(), STOP).unwrap();
    server.admit(tcp);
    assert_eq!(refused.read(&mut [0; 1]).unwrap(), 0);

    let serving = thread::spawn(move || server.run().unwrap());
    let mut client = connect(address);
    let get = b"GET / HTTP/1.1\r\nhost: a\r\nconnection: close\r\n\r\n";
    client.write_all(get).unwrap();
    let mut answer = Vec::new();
    client.read_to_end(&mut answer).unwrap();
    assert!(answer.starts_with(b"HTTP/1.1 200"), "{answer:?}");
    stop.request().unwrap();
    check_one_unwatched(&serving.join().unwrap().machine_errors);
}
