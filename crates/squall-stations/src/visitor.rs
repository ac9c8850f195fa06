//! An HTTP/3 client for tests, driven by hand: a socket, an engine and its events. `quic`, `server` and `proxy` serve
//! it.

use std::net::{SocketAddr, UdpSocket};
use std::sync::Arc;

use squall_base::Duration;
use squall_base::plan::{SideSettings, TlsSettings};
use squall_http::tls::{Identity, Trust, Validity};
use squall_http::{Body, ClientEvent, Inbox, InboxOptions, Request, Scheme, h3};
use squall_linux::clock;

/// How long a turn waits for a datagram.
const WAIT: std::time::Duration = std::time::Duration::from_millis(5);

/// More than the congestion window allows at first, about ten packets, and less than the server's limit for a head.
const LONG_HEAD_BYTES: usize = 40_000;

/// The identity of test servers: "server".
pub(crate) fn identity() -> Identity {
    let validity = Validity {
        not_before_unix_s: 1_700_000_000,
        days: 36_500,
    };
    Identity::self_signed(&["server"], validity).unwrap()
}

/// A context for clients that trust only this identity.
pub(crate) fn context(identity: &Identity) -> h3::ClientContext {
    let trust = Trust::Pem(identity.chain_pem().unwrap());
    let (settings, tls) = (SideSettings::default(), TlsSettings::default());
    h3::ClientContext::new(&settings.http3, &tls, &trust, 2).unwrap()
}

pub(crate) struct Visitor {
    pub(crate) engine: h3::Client,
    socket: UdpSocket,
    inbox: Inbox<ClientEvent>,
}

impl Visitor {
    pub(crate) fn new(context: &mut h3::ClientContext, server: SocketAddr) -> Visitor {
        let socket = UdpSocket::bind("127.0.0.1:0").unwrap();
        socket.connect(server).unwrap();
        socket.set_read_timeout(Some(WAIT)).unwrap();
        let local = socket.local_addr().unwrap();
        Visitor {
            engine: h3::Client::new(context, "server", local, server).unwrap(),
            socket,
            inbox: Inbox::new(InboxOptions::default()),
        }
    }

    /// Takes turns until the condition holds, for at most ten seconds.
    pub(crate) fn turn_until(&mut self, is_so: impl Fn(&Visitor) -> bool) {
        let give_up = clock::now() + Duration::from_secs(10);
        while !is_so(self) {
            assert!(clock::now() < give_up, "{:?}", self.engine.closing());
            self.turn();
        }
    }

    /// Reads until nothing has arrived for 5 ms, then sends.
    pub(crate) fn turn(&mut self) {
        let (local, server) = (self.socket.local_addr(), self.socket.peer_addr());
        let (local, server) = (local.unwrap(), server.unwrap());
        let mut datagram = [0; 2_000];
        while let Ok(count) = self.socket.recv(&mut datagram) {
            let bytes = &mut datagram[..count];
            // An error ends the connection, and `closing` shows it.
            let _ = self.engine.receive(bytes, server, local, &mut self.inbox);
        }
        let now = clock::instant_of(clock::now());
        // A timer's error shows in `closing` too.
        let _ = self.engine.on_timeout(now);
        let mut batch = h3::Batch::new();
        while self.engine.output(now, &mut batch, &mut self.inbox) {
            for datagram in batch.datagrams() {
                self.socket.send(datagram).unwrap();
            }
        }
    }

    /// Sends the first part of a request's head, within one HEADERS frame. The rest follows only in further turns, once the
    /// server has acknowledged what it has received.
    pub(crate) fn begin_head(&mut self) {
        // An X takes eight bits in the Huffman code, too (RFC 7541, appendix B).
        let fields = [("x-long".to_owned(), "X".repeat(LONG_HEAD_BYTES))];
        let get = Request::new("GET", Scheme::Https, "server", "/", &fields, Body::EMPTY).unwrap();
        self.engine.submit(&Arc::new(get)).unwrap();
        self.turn();
        let mut events = self.inbox.events.iter();
        assert!(!events.any(|event| matches!(event, ClientEvent::RequestWritten { .. })));
    }

    /// The code with which the server has reset a request.
    pub(crate) fn reset_code(&self) -> Option<u64> {
        self.inbox.events.iter().find_map(|event| match event {
            ClientEvent::StreamReset { code, .. } => Some(*code),
            _ => None,
        })
    }

    pub(crate) fn has_answer(&self) -> bool {
        let mut events = self.inbox.events.iter();
        events.any(|event| matches!(event, ClientEvent::ResponseEnd { .. }))
    }
}
