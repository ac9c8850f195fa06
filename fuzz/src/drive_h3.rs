//! Drives HTTP/3 after its handshake: the peer speaks correct QUIC (quiche's own), and sends what the input contains on
//! its streams. `drive_secure` covers bytes sent to the handshake itself.
//!
//! The first byte of an input decides how the connection is prepared. Then come steps: a byte that selects what is done
//! and where, a length, and that many bytes. Every handshake is a real one, which is most of what an input costs.

use std::net::{Ipv4Addr, SocketAddr};
use std::sync::{Arc, OnceLock};
use std::time::Instant;

use boring::ssl::{SslContext, SslMethod};
use quiche::{ConnectionId, RecvInfo, Shutdown};
use squall_base::Bytes;
use squall_base::plan::{Http3Settings, TlsSettings};
use squall_http::h3::{self, Batch};
use squall_http::tls::{Identity, Trust, Validity};
use squall_http::{
    Body, ClientEvent, Field, Inbox, InboxOptions, Interim, Request, Response, Scheme, ServerEvent,
    StreamId, StreamIo, Trailers,
};

use crate::laws;

const CLIENT: SocketAddr = SocketAddr::new(std::net::IpAddr::V4(Ipv4Addr::LOCALHOST), 1);
const SERVER: SocketAddr = SocketAddr::new(std::net::IpAddr::V4(Ipv4Addr::LOCALHOST), 2);

/// A control stream with empty SETTINGS.
const OPENING: [u8; 3] = [0, 4, 0];

/// In QPACK: `:status: 200`, and a request for `/`.
const RESPONSE_HEAD: [u8; 3] = [0, 0, 0xd9];
const REQUEST_HEAD: [u8; 8] = [0, 0, 0xd1, 0xd7, 0xc1, 0x50, 1, b'a'];

/// More datagrams than one step causes.
const MAX_TURNS: usize = 2_000;

/// More requests than an input triggers.
const MAX_REQUESTS: usize = 12;

fn identity() -> &'static Identity {
    static IDENTITY: OnceLock<Identity> = OnceLock::new();
    IDENTITY.get_or_init(|| {
        let validity = Validity {
            not_before_unix_s: 1_700_000_000,
            days: 36_500,
        };
        Identity::self_signed(&["server"], validity).expect("this name is valid")
    })
}

/// How our side is prepared.
struct Choices {
    /// The peer begins with a control stream, as it must.
    is_polite: bool,
    /// Bodies are consumed by hand.
    is_manual: bool,
    /// The peer reads what we send.
    is_reading: bool,
    wants: InboxOptions,
    settings: Http3Settings,
}

impl Choices {
    fn of(first: u8) -> Choices {
        let is = |bit: u8| first & (1 << bit) != 0;
        let window = if is(3) {
            Bytes::new(1_000)
        } else {
            Http3Settings::default().stream_window
        };
        Choices {
            is_polite: !is(0),
            is_manual: is(1),
            is_reading: !is(4),
            wants: InboxOptions {
                fields: true,
                bodies: !is(5),
                // quiche's log takes longer than everything else.
                frames: is(2),
            },
            settings: Http3Settings {
                stream_window: window,
                ..Http3Settings::default()
            },
        }
    }
}

/// One step of an input.
struct Step<'a> {
    how: u8,
    bytes: &'a [u8],
}

fn steps(mut rest: &[u8]) -> impl Iterator<Item = Step<'_>> {
    std::iter::from_fn(move || {
        let [how, length, more @ ..] = rest else {
            return None;
        };
        let (bytes, after) = more.split_at(more.len().min(usize::from(*length)));
        rest = after;
        Some(Step { how: *how, bytes })
    })
}

impl Step<'_> {
    /// Which of four streams it concerns.
    fn place(&self) -> u64 {
        u64::from(self.how >> 3) & 3
    }

    fn is_last(&self) -> bool {
        self.how & 0x20 != 0
    }

    /// Whether datagrams are exchanged before the next step.
    fn is_carried(&self) -> bool {
        self.how & 0x40 == 0
    }
}

/// The other end, and the time that both are given, which is ahead of real time so that paced packets are exchanged
/// immediately.
struct Peer {
    conn: quiche::Connection,
    /// The first of its unidirectional streams.
    first_uni: u64,
    head: &'static [u8],
    ahead: std::time::Duration,
    is_reading: bool,
}

impl Peer {
    fn of_client(choices: &Choices) -> Peer {
        let id = ConnectionId::from_ref(&[7; 16]);
        let mut config = config(Some(identity()));
        let conn = quiche::accept(&id, None, SERVER, CLIENT, &mut config);
        Peer {
            conn: conn.expect("this configuration is valid"),
            first_uni: 3,
            head: &RESPONSE_HEAD,
            ahead: std::time::Duration::ZERO,
            is_reading: choices.is_reading,
        }
    }

    fn of_server(choices: &Choices) -> Peer {
        let id = ConnectionId::from_ref(&[7; 16]);
        let conn = quiche::connect(Some("server"), &id, CLIENT, SERVER, &mut config(None));
        Peer {
            conn: conn.expect("this configuration is valid"),
            first_uni: 2,
            head: &REQUEST_HEAD,
            ahead: std::time::Duration::ZERO,
            is_reading: choices.is_reading,
        }
    }

    #[allow(
        clippy::disallowed_methods,
        reason = "quiche itself runs on the real clock"
    )]
    fn now(&self) -> Instant {
        Instant::now() + self.ahead
    }

    fn begin(&mut self, choices: &Choices) {
        if choices.is_polite {
            self.say(self.first_uni, &OPENING, false);
        }
    }

    /// Sends, except for what quiche does not allow.
    fn say(&mut self, stream: u64, bytes: &[u8], is_last: bool) {
        let _ = self.conn.stream_send(stream, bytes, is_last);
    }

    /// Performs a step, except for what our own side is to do.
    fn take(&mut self, step: &Step<'_>) {
        let (request, uni) = (step.place() * 4, self.first_uni + step.place() * 4);
        let bytes = step.bytes;
        match step.how & 7 {
            0 => self.say(request, bytes, step.is_last()),
            1 => self.say(uni, bytes, step.is_last()),
            2 => {
                let head = frame(1, &[self.head, bytes].concat());
                self.say(request, &head, step.is_last());
            }
            3 => self.say(request, &frame(1, bytes), step.is_last()),
            4 => self.say(request, &frame(0, bytes), step.is_last()),
            5 => {
                let (kind, payload) = bytes.split_first().unwrap_or((&0x21, &[]));
                self.say(uni, &frame(*kind & 0x3f, payload), step.is_last());
            }
            _ => {
                let direction = if step.is_last() {
                    Shutdown::Read
                } else {
                    Shutdown::Write
                };
                let code = bytes.len() as u64 + 0x100;
                let _ = self.conn.stream_shutdown(request, direction, code);
            }
        }
    }

    fn receive(&mut self, datagram: &[u8], from: SocketAddr, to: SocketAddr) {
        let _ = self
            .conn
            .recv(&mut datagram.to_vec(), RecvInfo { from, to });
        let mut sink = [0; 4096];
        while self.is_reading
            && let Some(id) = self.conn.readable().next()
        {
            while let Ok((_, false)) = self.conn.stream_recv(id, &mut sink) {}
        }
    }

    /// Its next datagram.
    fn send<'a>(&mut self, into: &'a mut [u8; 1500]) -> Option<&'a mut [u8]> {
        let (len, _) = self.conn.send(into).ok()?;
        Some(&mut into[..len])
    }
}

fn config(identity: Option<&Identity>) -> quiche::Config {
    let mut builder = SslContext::builder(SslMethod::tls()).expect("TLS can be set up");
    match identity {
        Some(identity) => identity.install(&mut builder).expect("it is valid"),
        None => Trust::Anyone.install(&mut builder).expect("it is valid"),
    }
    let config = quiche::Config::with_boring_ssl_ctx_builder(quiche::PROTOCOL_VERSION, builder);
    let mut config = config.expect("this version is known");
    let protocols = config.set_application_protos(quiche::h3::APPLICATION_PROTOCOL);
    protocols.expect("these names are valid");
    config.set_max_idle_timeout(30_000);
    config.set_initial_max_data(100_000);
    config.set_initial_max_stream_data_bidi_local(50_000);
    config.set_initial_max_stream_data_bidi_remote(50_000);
    config.set_initial_max_stream_data_uni(50_000);
    config.set_initial_max_streams_bidi(4);
    config.set_initial_max_streams_uni(4);
    config
}

/// A frame whose type is less than 64.
fn frame(kind: u8, payload: &[u8]) -> Vec<u8> {
    let length = (payload.len() as u16 | 0x4000).to_be_bytes();
    [&[kind][..], &length, payload].concat()
}

fn requests() -> [Arc<Request>; 3] {
    let bodies = [
        ("GET", Body::EMPTY),
        ("POST", vec![b'x'; 40_000].into()),
        ("POST", Body::Streamed { length: None }),
    ];
    bodies.map(|(method, body)| {
        let request = Request::new(method, Scheme::Https, "server", "/", &[], body);
        Arc::new(request.expect("this request is valid"))
    })
}

fn trailers() -> Trailers {
    Trailers::relayed(vec![Field::new("x-end", "1")]).expect("these trailers are valid")
}

/// Our client, its requests and its events.
struct OurClient {
    client: h3::Client,
    requests: [Arc<Request>; 3],
    inbox: Inbox<ClientEvent>,
    batch: Batch,
    submitted: usize,
}

/// What a server sends on its streams, received by an HTTP/3 client.
pub fn h3_client_streams(input: &[u8]) {
    let [first, rest @ ..] = input else { return };
    let choices = Choices::of(*first);
    let mut ours = OurClient::new(&choices);
    let mut peer = Peer::of_client(&choices);
    ours.carry(&mut peer);
    assert!(ours.client.is_ready(), "the handshake is a right one");
    for _ in 0..ours.requests.len() {
        ours.submit();
    }
    peer.begin(&choices);
    ours.carry(&mut peer);
    for step in steps(rest) {
        match step.how & 7 {
            7 => ours.act(&step),
            _ => peer.take(&step),
        }
        if step.is_carried() {
            ours.carry(&mut peer);
        }
    }
    ours.carry(&mut peer);
    let over = laws::ended(&ours.inbox.events);
    assert_eq!(
        over + ours.client.in_flight(),
        ours.submitted,
        "every request has one end: {:?}",
        ours.inbox.events
    );
}

impl OurClient {
    fn new(choices: &Choices) -> OurClient {
        let context = h3::ClientContext::new(
            &choices.settings,
            &TlsSettings::default(),
            &Trust::Anyone,
            3,
        );
        let mut context = context.expect("these settings are valid");
        let client = h3::Client::new(&mut context, "server", CLIENT, SERVER);
        let mut client = client.expect("this name is valid");
        if choices.is_manual {
            client.set_manual_consumption();
        }
        OurClient {
            client,
            requests: requests(),
            inbox: Inbox::new(choices.wants),
            batch: Batch::new(),
            submitted: 0,
        }
    }

    fn submit(&mut self) {
        if self.submitted < MAX_REQUESTS && self.client.is_ready() {
            let request = &self.requests[self.submitted % self.requests.len()];
            self.client.submit(request).expect("it is ready");
            self.submitted += 1;
        }
    }

    /// What a client's owner may do meanwhile.
    fn act(&mut self, step: &Step<'_>) {
        let stream = StreamId(u64::from(step.bytes.first().copied().unwrap_or(0) & 0xf) * 4);
        match (step.place(), step.is_last()) {
            (0, false) => self.submit(),
            (0, true) => {
                let before = self.client.in_flight();
                self.client.reset(stream, h3::code::REQUEST_CANCELLED);
                // No more events may follow for an exchange that we reset.
                if self.client.in_flight() < before {
                    let code = h3::code::REQUEST_CANCELLED;
                    self.inbox
                        .events
                        .push(ClientEvent::StreamReset { stream, code });
                }
            }
            (1, is_large) => {
                let n = step.bytes.len() as u64 * if is_large { 1_000 } else { 1 };
                self.client.consume(stream, n);
            }
            (2, false) => {
                let room = self.client.body_room(stream);
                let bytes = vec![b'y'; room.min(20_000)];
                assert!(self.client.send_body(stream, &bytes) <= room);
            }
            (2, true) => self.client.end_body(stream),
            (_, false) => self.client.end_body_with(stream, &trailers()),
            (_, true) => self.client.close(step.bytes.len() as u64 + 0x100),
        }
    }

    /// Exchanges datagrams in both directions until there are no more.
    fn carry(&mut self, peer: &mut Peer) {
        let mut buffer = [0; 1500];
        for _ in 0..MAX_TURNS {
            let mut is_quiet = true;
            let now = peer.now();
            if self.client.output(now, &mut self.batch, &mut self.inbox) {
                is_quiet = false;
                peer.ahead += self.batch.delay().into();
                self.batch
                    .datagrams()
                    .for_each(|datagram| peer.receive(datagram, CLIENT, SERVER));
            }
            while let Some(datagram) = peer.send(&mut buffer) {
                is_quiet = false;
                let result = self
                    .client
                    .receive(datagram, SERVER, CLIENT, &mut self.inbox);
                assert!(result.is_ok() || !self.client.is_open());
            }
            if is_quiet {
                return;
            }
        }
        panic!("endless talk: {:?}", self.client.path());
    }
}

/// Our server and its events.
struct OurServer {
    server: h3::Server,
    answers: [Arc<Response>; 2],
    inbox: Inbox<ServerEvent>,
    batch: Batch,
    /// How many events have been answered.
    seen: usize,
}

/// What a client sends on its streams, received by an HTTP/3 server.
pub fn h3_server_streams(input: &[u8]) {
    let [first, rest @ ..] = input else { return };
    let choices = Choices::of(*first);
    let mut ours = OurServer::new(&choices);
    let mut peer = Peer::of_server(&choices);
    ours.carry(&mut peer);
    assert!(
        ours.server.is_established(0),
        "the handshake is a right one"
    );
    peer.begin(&choices);
    for step in steps(rest) {
        match step.how & 7 {
            7 => ours.act(&step),
            _ => peer.take(&step),
        }
        if step.is_carried() {
            ours.carry(&mut peer);
        }
    }
    ours.carry(&mut peer);
    ours.check();
}

impl OurServer {
    fn new(choices: &Choices) -> OurServer {
        let tls = TlsSettings::default();
        let server = h3::Server::new(&choices.settings, &tls, identity(), 1);
        let mut server = server.expect("these settings are valid");
        if choices.is_manual {
            server.set_manual_consumption();
        }
        let bodies = [vec![b'x'; 40_000].into(), Body::Streamed { length: None }];
        OurServer {
            server,
            answers: bodies.map(|body| {
                let response = Response::new(200, &[], body);
                Arc::new(response.expect("this response is valid"))
            }),
            inbox: Inbox::new(choices.wants),
            batch: Batch::new(),
            seen: 0,
        }
    }

    /// What a server's owner may do meanwhile.
    fn act(&mut self, step: &Step<'_>) {
        let stream = StreamId(u64::from(step.bytes.first().copied().unwrap_or(0) & 0x3) * 4);
        let length = step.bytes.len() as u64;
        match (step.place(), step.is_last()) {
            (0, false) => {
                let interim = Interim::relayed(103, Vec::new()).expect("this answer is valid");
                self.server.streams(0).inform(stream, &interim);
            }
            (0, true) => {
                let code = h3::code::REQUEST_CANCELLED;
                self.server.streams(0).reset(stream, code);
            }
            (1, is_large) => {
                let n = length * if is_large { 1_000 } else { 1 };
                self.server.streams(0).consume(stream, n);
            }
            (2, false) => {
                let room = self.server.streams(0).body_room(stream);
                let bytes = vec![b'y'; room.min(20_000)];
                assert!(self.server.streams(0).send_body(stream, &bytes) <= room);
            }
            (2, true) => self.server.streams(0).end_body(stream),
            (_, false) => self.server.streams(0).end_body_with(stream, &trailers()),
            (_, true) if length > 100 => self.server.close(0, length + 0x100),
            (_, true) => self.server.go_away(0),
        }
    }

    /// Responds to requests, with a whole body or in pieces, depending on the stream.
    fn answer(&mut self) {
        for event in &self.inbox.events[self.seen..] {
            if let ServerEvent::RequestHead { stream, .. } = event {
                // The same datagram may have reset the stream.
                let answer = &self.answers[(stream.0 / 4 % 2) as usize];
                let _ = self.server.streams(0).respond(*stream, answer);
            }
        }
        self.seen = self.inbox.events.len();
    }

    fn carry(&mut self, peer: &mut Peer) {
        let mut buffer = [0; 1500];
        for _ in 0..MAX_TURNS {
            let mut is_quiet = true;
            while let Some(datagram) = peer.send(&mut buffer) {
                is_quiet = false;
                self.server
                    .receive(datagram, CLIENT, SERVER, &mut self.inbox);
            }
            self.answer();
            let now = peer.now();
            if (self.server.output(now, &mut self.batch, &mut self.inbox)).is_some() {
                is_quiet = false;
                peer.ahead += self.batch.delay().into();
                self.batch
                    .datagrams()
                    .for_each(|datagram| peer.receive(datagram, SERVER, CLIENT));
            }
            if is_quiet {
                return;
            }
        }
        panic!("endless talk: {:?}", self.server.path(0));
    }

    fn check(&mut self) {
        while self.server.take_ended().is_some() {}
        assert!(self.server.len() <= 1, "one client has one connection");
        let count =
            |is: fn(&ServerEvent) -> bool| self.inbox.events.iter().filter(|e| is(e)).count();
        let heads = count(|event| matches!(event, ServerEvent::RequestHead { .. }));
        assert!(count(|event| matches!(event, ServerEvent::RequestEnd { .. })) <= heads);
        assert!(count(|event| matches!(event, ServerEvent::ResponseWritten { .. })) <= heads);
    }
}
