//! What a server records of QUIC connections that end before the server does, that it counts what they hold, and that none of
//! them keeps the others waiting.

use std::net::UdpSocket;
use std::time::Duration as StdDuration;
use std::{sync::Arc, thread};

use squall_base::record::SocketRecord;
use squall_base::{Bytes, Duration};
use squall_http::tls::Identity;
use squall_http::{Body, Request, Scheme, h3};

use super::*;
use crate::LogSinks;
use crate::memory::MAX_BYTES;
use crate::rows::{self, Capacity, RowReceiver};
use crate::visitor::{Visitor, context, identity};

impl ServerSettings {
    /// One listener at a free port of loopback, and responses of this many bytes. Idle connections stay open.
    pub(crate) fn for_test(protocol: ListenerProtocol, body_bytes: u64) -> ServerSettings {
        ServerSettings {
            listeners: vec![Listener {
                address: SocketAddr::from(([127, 0, 0, 1], 0)),
                protocol,
            }],
            side: SideSettings::default(),
            site: Site::sized(Bytes::new(body_bytes)).unwrap(),
            log: LogSinks::default(),
            access: None,
            sample_every: Duration::from_secs(60),
            idle_timeout: None,
            seed: 0,
            is_realtime: false,
        }
    }
}

fn quic_server(
    identity: &Identity,
    stop: &StopSignal,
    idle_timeout: Option<Duration>,
) -> (Server, RowReceiver<SocketRecord>) {
    let (sender, rows) = rows::queue(Capacity::Unbounded);
    let settings = ServerSettings {
        log: LogSinks {
            sockets: Some(sender),
            ..LogSinks::default()
        },
        idle_timeout,
        ..ServerSettings::for_test(ListenerProtocol::Quic(identity.clone()), 100)
    };
    (Server::listen(settings, stop.clone()).unwrap(), rows)
}

/// Sends a request, and waits for the response.
fn ask(visitor: &mut Visitor) {
    visitor.turn_until(|visitor| visitor.engine.is_ready());
    let get = Request::new("GET", Scheme::Https, "server", "/", &[], Body::EMPTY).unwrap();
    visitor.engine.submit(&Arc::new(get)).unwrap();
    visitor.turn_until(Visitor::has_answer);
}

#[test]
fn last_sample_of_a_quic_connection_is_taken_when_its_client_closes_it() {
    let identity = identity();
    let stop = StopSignal::new().unwrap();
    let (server, rows) = quic_server(&identity, &stop, None);
    let address = server.addresses().unwrap()[0];
    let serving = thread::spawn(move || server.run().unwrap());
    let mut context = context(&identity);
    let mut first = Visitor::new(&mut context, address);
    ask(&mut first);
    first.engine.close(h3::code::NO_ERROR);
    first.turn_until(|visitor| visitor.engine.is_closed());
    // The connection drains for three probe timeouts. On a busy machine they are longer, because round trips are.
    thread::sleep(StdDuration::from_secs(3));
    let mut second = Visitor::new(&mut context, address);
    ask(&mut second);
    let stopped = clock::now();
    stop.request().unwrap();
    let counts = serving.join().unwrap().counts;
    assert_eq!(counts.quic_connections, 2);
    assert_eq!(counts.settings_sent.values().sum::<u64>(), 2, "{counts:?}");
    assert_eq!(
        counts.settings_received.values().sum::<u64>(),
        2,
        "{counts:?}"
    );
    let rows: Vec<SocketRecord> = rows
        .flat_map(|mut chunk| std::mem::take(&mut *chunk))
        .collect();
    let last = |connection| {
        let mut rows = rows.iter().filter(|row| row.connection == connection);
        let last = rows.find(|row| row.is_last).expect("a last sample");
        assert!(rows.all(|row| !row.is_last), "one is the last");
        last.time
    };
    assert!(last(0) < stopped, "it was gone before the server was");
    assert!(last(1) >= stopped, "it was open to the end");
}

/// Idle by the server's own timeout, which is far below QUIC's.
#[test]
fn idle_quic_connection_is_closed() {
    let identity = identity();
    let stop = StopSignal::new().unwrap();
    let timeout = Duration::from_secs(2);
    let (server, _rows) = quic_server(&identity, &stop, Some(timeout));
    let address = server.addresses().unwrap()[0];
    let serving = thread::spawn(move || server.run().unwrap());
    let mut context = context(&identity);
    let mut visitor = Visitor::new(&mut context, address);
    let asked = clock::now();
    ask(&mut visitor);
    visitor.turn_until(|visitor| visitor.engine.closing().is_some());
    let closing = visitor.engine.closing().unwrap();
    assert!(closing.is_clean(), "{closing}");
    let kept = clock::now().since(asked);
    assert!(kept >= timeout, "{kept}");
    stop.request().unwrap();
    serving.join().unwrap();
}

/// The test adds what other clients would hold to the server's own count, so it tests the real limit without taking that much
/// memory.
#[test]
fn quic_client_that_holds_the_most_is_closed_when_all_hold_too_much() {
    let identity = identity();
    let stop = StopSignal::new().unwrap();
    let (mut server, _rows) = quic_server(&identity, &stop, Some(Duration::from_secs(600)));
    let mut context = context(&identity);
    let mut visitor = Visitor::new(&mut context, server.addresses().unwrap()[0]);
    let give_up = clock::now() + Duration::from_secs(20);
    while !visitor.engine.is_ready() {
        assert!(clock::now() < give_up, "{:?}", visitor.engine.closing());
        visitor.turn();
        server.turn().unwrap();
    }
    let target = "/?size=64MiB";
    let get = Request::new("GET", Scheme::Https, "server", target, &[], Body::EMPTY).unwrap();
    visitor.engine.submit(&Arc::new(get)).unwrap();
    visitor.turn();
    let held = |server: &Server| match &server.listeners[0] {
        BoundListener::Quic(quic) => quic.largest().map_or(0, |(_, bytes)| bytes),
        BoundListener::Tcp(_) => 0,
    };
    // The visitor reads nothing meanwhile.
    while held(&server) < 10_000 {
        assert!(clock::now() < give_up, "{} bytes", held(&server));
        server.turn().unwrap();
    }
    assert!(server.report.machine_errors.is_empty());

    let mut others = 0;
    (server.service.memory).update(&mut others, MAX_BYTES - 1_000);
    server.save_memory();
    assert_eq!(held(&server), 0);
    assert!(!server.service.memory.is_exceeded());
    let closed = server.report.machine_errors.get(memory::CLOSED);
    assert_eq!(closed, Some(&1));
    let serving = thread::spawn(move || server.run().unwrap());
    visitor.turn_until(|visitor| visitor.engine.closing().is_some());
    stop.request().unwrap();
    serving.join().unwrap();
}

/// However fast datagrams arrive, a turn ends, so that other clients get theirs. Over HTTP/2 see `beside_abuse`.
#[test]
fn turn_ends_although_datagrams_are_left() {
    const FLOOD: usize = 200;
    let identity = identity();
    let stop = StopSignal::new().unwrap();
    let (mut server, _rows) = quic_server(&identity, &stop, Some(Duration::from_secs(600)));
    let address = server.addresses().unwrap()[0];
    let abusive = UdpSocket::bind("127.0.0.1:0").unwrap();
    let has_unread = |server: &Server| match &server.listeners[0] {
        BoundListener::Quic(quic) => quic.has_unread(),
        BoundListener::Tcp(_) => false,
    };
    let give_up = clock::now() + Duration::from_secs(20);
    // The kernel may deliver some of them late.
    while !has_unread(&server) {
        assert!(clock::now() < give_up, "a turn reads everything");
        for _ in 0..FLOOD {
            abusive.send_to(&[0], address).unwrap();
        }
        server.turn().unwrap();
    }
    // The rest is read although the kernel reports nothing new.
    while has_unread(&server) {
        assert!(clock::now() < give_up, "something is left");
        server.turn().unwrap();
    }
    let serving = thread::spawn(move || server.run().unwrap());
    let mut context = context(&identity);
    ask(&mut Visitor::new(&mut context, address));
    stop.request().unwrap();
    assert_eq!(serving.join().unwrap().responses_written, 1);
}
