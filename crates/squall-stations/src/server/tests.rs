//! What a server writes down of connections of QUIC that end before it does.

use std::net::UdpSocket;
use std::time::Duration as StdDuration;
use std::{sync::Arc, thread};

use squall_base::plan::TlsSettings;
use squall_base::record::SocketRecord;
use squall_base::{Bytes, Duration};
use squall_http::tls::{Identity, Trust, Validity};
use squall_http::{Body, ClientEvent, Inbox, Request, Scheme, h3};

use super::*;
use crate::LogSinks;
use crate::rows::{self, Capacity, RowReceiver};

const VALIDITY: Validity = Validity {
    not_before_unix_s: 1_700_000_000,
    days: 36_500,
};

fn quic_server(
    identity: &Identity,
    stop: &StopSignal,
    idle_timeout: Option<Duration>,
) -> (Server, RowReceiver<SocketRecord>) {
    let (sender, rows) = rows::queue(Capacity::Unbounded);
    let settings = ServerSettings {
        listeners: vec![Listener {
            address: SocketAddr::from(([127, 0, 0, 1], 0)),
            speaks: Spoken::Quic(identity.clone()),
        }],
        side: SideSettings::default(),
        site: Site::sized(Bytes::new(100)).unwrap(),
        log: LogSinks {
            sockets: Some(sender),
            ..LogSinks::default()
        },
        access: None,
        sample_every: Duration::from_secs(60),
        idle_timeout,
        seed: 0,
        is_realtime: false,
    };
    (Server::listen(settings, stop.clone()).unwrap(), rows)
}

/// A client of one request.
struct Visitor {
    engine: h3::Client,
    socket: UdpSocket,
    inbox: Inbox<ClientEvent>,
}

impl Visitor {
    fn new(context: &mut h3::ClientContext, server: SocketAddr) -> Visitor {
        let socket = UdpSocket::bind("127.0.0.1:0").unwrap();
        socket.connect(server).unwrap();
        let wait = StdDuration::from_millis(5);
        socket.set_read_timeout(Some(wait)).unwrap();
        let local = socket.local_addr().unwrap();
        Visitor {
            engine: h3::Client::new(context, "server", local, server).unwrap(),
            socket,
            inbox: Inbox::new(Wants::default()),
        }
    }

    /// Sends, and reads what comes within 5 ms.
    fn turn(&mut self) {
        let mut batch = h3::Batch::new();
        let now = clock::instant_of(clock::now());
        while self.engine.output(now, &mut batch, &mut self.inbox) {
            for datagram in batch.datagrams() {
                self.socket.send(datagram).unwrap();
            }
        }
        let (local, server) = (self.socket.local_addr(), self.socket.peer_addr());
        let mut datagram = [0; 2_000];
        if let Ok(count) = self.socket.recv(&mut datagram) {
            let bytes = &mut datagram[..count];
            let (from, to) = (server.unwrap(), local.unwrap());
            // An error is an end, and stands in `closing`.
            let _ = self.engine.receive(bytes, from, to, &mut self.inbox);
        } else {
            let _ = self.engine.on_timeout(clock::instant_of(clock::now()));
        }
    }

    /// Turns until it is so, for at most ten seconds.
    fn turn_until(&mut self, is_so: impl Fn(&Visitor) -> bool) {
        let give_up = clock::now() + Duration::from_secs(10);
        while !is_so(self) {
            assert!(clock::now() < give_up, "{:?}", self.engine.closing());
            self.turn();
        }
    }

    fn ask(&mut self) {
        self.turn_until(|visitor| visitor.engine.is_ready());
        let get = Request::new("GET", Scheme::Https, "server", "/", &[], Body::EMPTY).unwrap();
        self.engine.submit(&Arc::new(get)).unwrap();
        let is_answered = |event: &ClientEvent| matches!(event, ClientEvent::ResponseEnd { .. });
        self.turn_until(|visitor| visitor.inbox.events.iter().any(is_answered));
    }
}

fn context(identity: &Identity) -> h3::ClientContext {
    let trust = Trust::Pem(identity.chain_pem().unwrap());
    let (settings, tls) = (SideSettings::default(), TlsSettings::default());
    h3::ClientContext::new(&settings.http3, &tls, &trust, 2).unwrap()
}

#[test]
fn quic_that_its_client_ends_has_its_last_sample_then() {
    let identity = Identity::self_made(&["server"], VALIDITY).unwrap();
    let stop = StopSignal::new().unwrap();
    let (server, rows) = quic_server(&identity, &stop, None);
    let address = server.addresses().unwrap()[0];
    let serving = thread::spawn(move || server.run().unwrap());
    let mut context = context(&identity);
    let mut first = Visitor::new(&mut context, address);
    first.ask();
    first.engine.close(h3::code::NO_ERROR);
    first.turn_until(|visitor| visitor.engine.is_closed());
    // It drains for three timeouts of a probe, of which the client knows as much as the server.
    thread::sleep(StdDuration::from_secs(1));
    let mut second = Visitor::new(&mut context, address);
    second.ask();
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

/// By the server's time, which is far below QUIC's own.
#[test]
fn quic_on_which_nothing_gets_on_is_ended() {
    let identity = Identity::self_made(&["server"], VALIDITY).unwrap();
    let stop = StopSignal::new().unwrap();
    let timeout = Duration::from_secs(2);
    let (server, _rows) = quic_server(&identity, &stop, Some(timeout));
    let address = server.addresses().unwrap()[0];
    let serving = thread::spawn(move || server.run().unwrap());
    let mut context = context(&identity);
    let mut visitor = Visitor::new(&mut context, address);
    let asked = clock::now();
    visitor.ask();
    visitor.turn_until(|visitor| visitor.engine.closing().is_some());
    let closing = visitor.engine.closing().unwrap();
    assert!(closing.is_clean(), "{closing}");
    let kept = clock::now().since(asked);
    assert!(kept >= timeout, "{kept}");
    stop.request().unwrap();
    serving.join().unwrap();
}
