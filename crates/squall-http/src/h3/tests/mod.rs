//! A client and a server whose datagrams are carried by hand, on quiche's real clock.

mod adversity;
mod given_up;
mod hostile;
mod settings;

use crate::tls::{Identity, Trust, Validity};
use std::collections::{BTreeMap, BTreeSet};
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Instant;

use bytes::Bytes;
use proptest::prelude::*;
use squall_base::plan::{Http3Settings, QuicCongestionControl, TlsSettings};
use squall_base::record::{FrameFacts, FrameLayer, Way};

use super::*;
use crate::engine::StreamIo;
use crate::error::ConnectionError;
use crate::event::{ClientEvent, Field, ServerEvent, StreamId};
use crate::inbox::{Inbox, InboxOptions};
use crate::message::{Body, Request, Response, Scheme, Trailers};

const CLIENT: &str = "10.0.0.1:4000";
const SERVER: &str = "10.0.0.2:443";

const MESSAGES: InboxOptions = InboxOptions {
    fields: true,
    bodies: true,
    frames: false,
};

const FRAMES: InboxOptions = InboxOptions {
    frames: true,
    ..MESSAGES
};

#[expect(
    clippy::disallowed_methods,
    reason = "quiche itself runs on the real clock"
)]
fn now() -> Instant {
    Instant::now()
}

#[expect(
    clippy::disallowed_methods,
    reason = "quiche itself runs on the real clock"
)]
fn wait(time: std::time::Duration) {
    std::thread::sleep(time);
}

/// A certificate for "server".
fn identity() -> Identity {
    let validity = Validity {
        not_before_unix_s: 1_700_000_000,
        days: 36_500,
    };
    Identity::self_signed(&["server"], validity).unwrap()
}

/// Trust in a single identity.
fn trust_in(identity: &Identity) -> Trust {
    Trust::Pem(identity.chain_pem().unwrap())
}

fn request(method: &str, body: impl Into<Body>) -> Arc<Request> {
    Arc::new(Request::new(method, Scheme::Https, "server", "/path?q", &[], body).unwrap())
}

fn response(body: impl Into<Body>) -> Arc<Response> {
    let headers = [("x-answer".to_owned(), "yes".to_owned())];
    Arc::new(Response::new(200, &headers, body).unwrap())
}

fn megabyte() -> Bytes {
    (0..1_000_000_u32).map(|i| (i >> 3) as u8).collect()
}

/// Both ends, and everything that they reported.
struct Pair {
    context: ClientContext,
    client: Client,
    server: Server,
    batch: Batch,
    to_client: Inbox<ClientEvent>,
    to_server: Inbox<ServerEvent>,
    /// Server connections that are over.
    ended: Vec<(u32, CloseReason)>,
    /// Counts datagrams sent; `lose` decides by this number which are lost.
    sent: usize,
    /// The longest datagram of either side.
    longest: usize,
    lose: fn(usize) -> bool,
    /// Minimum one-way delay. A pacer spreads packets over the round trip, so it reliably holds some back only if the
    /// round trip takes longer than building the packets.
    flight_time: std::time::Duration,
    /// How far the clock given to both sides is ahead of the real one. A paced batch is carried immediately, and its
    /// delay is added here instead of waiting.
    ahead: std::time::Duration,
    failure: Option<String>,
}

impl Pair {
    fn new() -> Pair {
        Pair::with(&Http3Settings::default(), InboxOptions::default())
    }

    fn with(settings: &Http3Settings, wants: InboxOptions) -> Pair {
        let tls = TlsSettings::default();
        Pair::secured_by(settings, (&tls, &tls), wants)
    }

    /// A pair with these TLS settings of the client and of the server.
    fn secured_by(
        settings: &Http3Settings,
        (client, server): (&TlsSettings, &TlsSettings),
        wants: InboxOptions,
    ) -> Pair {
        let identity = identity();
        let mut context = ClientContext::new(settings, client, &trust_in(&identity), 1).unwrap();
        Pair {
            client: connect(&mut context, "server"),
            server: Server::new(settings, server, &identity, 2).unwrap(),
            context,
            batch: Batch::new(),
            to_client: Inbox::new(wants),
            to_server: Inbox::new(wants),
            ended: Vec::new(),
            sent: 0,
            longest: 0,
            lose: |_| false,
            flight_time: std::time::Duration::ZERO,
            ahead: std::time::Duration::ZERO,
            failure: None,
        }
    }

    /// An established pair with default settings.
    fn usual(wants: InboxOptions) -> Pair {
        Pair::established(&Http3Settings::default(), wants)
    }

    fn established(settings: &Http3Settings, wants: InboxOptions) -> Pair {
        let mut pair = Pair::with(settings, wants);
        pair.run();
        assert!(pair.client.is_ready(), "{:?}", pair.failure);
        pair
    }

    /// An established pair over a path whose round trips take at least 20 ms.
    fn established_at_distance(settings: &Http3Settings) -> Pair {
        let mut pair = Pair::with(settings, InboxOptions::default());
        pair.flight_time = std::time::Duration::from_millis(10);
        pair.run();
        pair
    }

    /// Carries one batch of each side, or everything they have if there is a delay; false if there was none.
    fn step(&mut self) -> bool {
        if self.flight_time.is_zero() {
            let has_sent = self.carry_up();
            return self.carry_down() || has_sent;
        }
        let before = self.sent;
        wait(self.flight_time);
        while self.carry_up() {}
        wait(self.flight_time);
        while self.carry_down() {}
        self.sent > before
    }

    /// Carries one batch of the client.
    fn carry_up(&mut self) -> bool {
        let now = now() + self.ahead;
        let has_sent = (self.client).output(now, &mut self.batch, &mut self.to_client);
        if has_sent {
            let (from, to) = (self.batch.from(), self.batch.to());
            for mut datagram in self.take_batch() {
                self.give_server(&mut datagram, from, to);
            }
        }
        has_sent
    }

    /// Carries one batch of the server.
    fn carry_down(&mut self) -> bool {
        let has_answered = self.server_output(now() + self.ahead).is_some();
        if has_answered {
            let (from, to) = (self.batch.from(), self.batch.to());
            for mut datagram in self.take_batch() {
                let result = (self.client).receive(&mut datagram, from, to, &mut self.to_client);
                self.note(result);
            }
        }
        while let Some(ended) = self.server.take_ended() {
            self.ended.push((ended.connection, ended.closing));
        }
        has_answered
    }

    /// The datagrams of the batch that are not lost.
    fn take_batch(&mut self) -> Vec<Vec<u8>> {
        self.ahead += self.batch.delay().into();
        let mut carried = Vec::new();
        for datagram in self.batch.datagrams() {
            self.sent += 1;
            self.longest = self.longest.max(datagram.len());
            if !(self.lose)(self.sent) {
                carried.push(datagram.to_vec());
            }
        }
        carried
    }

    /// Fills the batch with the server's output.
    fn server_output(&mut self, now: Instant) -> Option<BatchSource> {
        (self.server).output(now, &mut self.batch, &mut self.to_server)
    }

    /// Gives the server a datagram; returns its connection.
    fn give_server(
        &mut self,
        datagram: &mut [u8],
        from: SocketAddr,
        to: SocketAddr,
    ) -> Option<u32> {
        (self.server).receive(datagram, from, to, &mut self.to_server)
    }

    fn note(&mut self, result: Result<(), ConnectionError>) {
        if let Err(error) = result {
            self.failure.get_or_insert(error.to_string());
        }
    }

    /// Runs until the server has held a batch back.
    fn run_until_paced(&mut self) {
        for _ in 0..1_000 {
            if !self.ahead.is_zero() {
                return;
            }
            if !self.carry_down() {
                wait(self.flight_time);
                while self.carry_up() {}
                wait(self.flight_time);
            }
        }
        panic!("nothing is held back: {:?}", self.failure);
    }

    fn run(&mut self) {
        let before = self.sent;
        while self.step() {
            assert!(
                self.sent < before + 20_000,
                "endless talk: {:?}",
                self.client.path()
            );
        }
    }

    /// Runs through timeouts until `is_over`, for at most five seconds.
    fn run_until(&mut self, is_over: impl Fn(&Pair) -> bool) {
        let start = now();
        while !is_over(self) {
            assert!(
                start.elapsed().as_secs() < 5,
                "too slow: {:?}",
                self.failure
            );
            if self.step() {
                continue;
            }
            wait(std::time::Duration::from_micros(200));
            let now = now();
            if self.client.timeout(now) == Some(Duration::ZERO) {
                let result = self.client.on_timeout(now);
                self.note(result);
            }
            while self.server.on_timeout(now).is_some() {}
        }
    }

    fn submit(&mut self, request: &Arc<Request>) -> StreamId {
        self.client.submit(request).unwrap()
    }

    /// Submits a POST whose body is streamed.
    fn submit_streamed(&mut self) -> StreamId {
        self.submit(&request("POST", Body::Streamed { length: None }))
    }

    fn respond(&mut self, stream: StreamId, response: &Arc<Response>) {
        (self.server.streams(0)).respond(stream, response).unwrap();
    }

    /// Whether the last thing that the server reported is the end of a request.
    fn has_ended(&self) -> bool {
        let last = self.to_server.events.last();
        matches!(last, Some(ServerEvent::RequestEnd { .. }))
    }

    /// How many bytes of bodies the server has reported.
    fn arrived_bytes(&self) -> u64 {
        let len = |event: &ServerEvent| match event {
            ServerEvent::RequestBody { len, .. } => *len,
            _ => 0,
        };
        self.to_server.events.iter().map(len).sum()
    }

    /// Answers every request that is complete and not answered.
    fn answer(&mut self, response: &Arc<Response>) {
        let ended = |event: &ServerEvent| match event {
            ServerEvent::RequestEnd { stream, .. } => Some(*stream),
            _ => None,
        };
        for stream in self.to_server.events.iter().filter_map(ended) {
            let _ = self.server.streams(0).respond(stream, response);
        }
    }

    fn answers(&self) -> usize {
        let is_end = |event: &&ClientEvent| matches!(event, ClientEvent::ResponseEnd { .. });
        self.to_client.events.iter().filter(is_end).count()
    }
}

fn connect(context: &mut ClientContext, name: &str) -> Client {
    Client::new(
        context,
        name,
        CLIENT.parse().unwrap(),
        SERVER.parse().unwrap(),
    )
    .unwrap()
}

#[test]
fn a_request_and_its_response_report_all_events_in_order() {
    let mut pair = Pair::usual(MESSAGES);
    let stream = pair.submit(&request("GET", Body::EMPTY));
    assert_eq!(pair.client.in_flight(), 1);
    pair.run();
    let request_end = match pair.to_server.events.as_slice() {
        [
            ServerEvent::RequestFirstByte { offset: 0, .. },
            ServerEvent::RequestHead {
                method,
                target,
                fields,
                ..
            },
            ServerEvent::RequestEnd { end, .. },
        ] => {
            assert_eq!((method.as_str(), target.as_str()), ("GET", "/path?q"));
            let names: Vec<&[u8]> = fields.iter().map(|field| &*field.name).collect();
            assert_eq!(names, [b"host"], "it stands for :authority");
            *end
        }
        other => panic!("{other:?}"),
    };
    pair.to_server.clear();
    pair.respond(stream, &response(b"hello".to_vec()));
    let twice = (pair.server.streams(0)).respond(stream, &response(Body::EMPTY));
    assert!(twice.is_err());
    pair.run();
    let [
        ServerEvent::ResponseFirstByteWritten { offset: 0, .. },
        ServerEvent::ResponseWritten {
            end: response_end, ..
        },
    ] = pair.to_server.events.as_slice()
    else {
        panic!("{:?}", pair.to_server.events)
    };
    let [
        ClientEvent::RequestFirstByteWritten { offset: 0, .. },
        ClientEvent::RequestWritten { end, .. },
        ClientEvent::ResponseFirstByte { offset: 0, .. },
        ClientEvent::ResponseHeaders {
            status: 200,
            fields,
            ..
        },
        ClientEvent::ResponseBody { len: 5, .. },
        ClientEvent::ResponseEnd {
            end: answer_end, ..
        },
    ] = pair.to_client.events.as_slice()
    else {
        panic!("{:?}", pair.to_client.events)
    };
    assert_eq!((*end, *answer_end), (request_end, *response_end));
    assert_eq!(fields.len(), 2);
    assert_eq!(pair.to_client.bodies, b"hello");
    assert_eq!(pair.client.in_flight(), 0);
}

#[test]
fn key_log_and_path_statistics_are_available() {
    let mut pair = Pair::usual(InboxOptions::default());
    assert!(pair.client.path().sent > 0);
    assert!(pair.server.path(0).is_some_and(|path| path.cwnd_bytes > 0));
    let keys = pair.client.take_key_log().join("\n");
    assert!(keys.contains("CLIENT_TRAFFIC_SECRET_0 "), "{keys}");
    assert!(pair.client.take_key_log().is_empty());
    assert!(!pair.server.take_key_log(0).is_empty());
}

#[test]
fn a_megabyte_is_transferred_each_way() {
    let mut pair = Pair::usual(MESSAGES);
    pair.submit(&request("POST", megabyte()));
    pair.run();
    assert!(pair.to_server.bodies == megabyte());
    pair.answer(&response(megabyte()));
    pair.run();
    assert!(pair.to_client.bodies == megabyte());
    assert_eq!(pair.answers(), 1);
    let blocked = pair
        .client
        .connection
        .quic()
        .stats()
        .data_blocked_sent_count;
    assert!(blocked < 10, "{blocked} DATA_BLOCKED");
}

#[test]
fn small_windows_neither_grow_nor_stop_a_transfer() {
    let settings = Http3Settings {
        stream_window: squall_base::Bytes::new(10_000),
        connection_window: squall_base::Bytes::new(15_000),
        gso: false,
        ..Http3Settings::default()
    };
    let mut pair = Pair::established(&settings, FRAMES);
    for _ in 0..3 {
        pair.submit(&request("POST", megabyte()));
    }
    pair.run();
    assert_eq!(pair.to_server.bodies.len(), 3_000_000);
    // The windows are as configured, and do not grow.
    let limits = |kind| {
        pair.to_server
            .frames
            .iter()
            .filter(move |f| f.layer == FrameLayer::Quic && f.kind == kind && f.way == Way::Sent)
            .filter_map(|f| f.value)
    };
    assert!(limits(0x10).count() > 300);
    assert!(
        limits(0x10)
            .zip(limits(0x10).skip(1))
            .all(|(a, b)| b - a <= 15_000)
    );
}

#[test]
fn a_hundred_concurrent_requests_are_answered() {
    let mut pair = Pair::usual(InboxOptions::default());
    let get = request("GET", Body::EMPTY);
    for i in 0..100 {
        assert_eq!(pair.submit(&get), StreamId(4 * i));
    }
    assert!(!pair.client.is_ready());
    assert!(pair.client.submit(&get).is_err());
    pair.run();
    pair.answer(&response(vec![7; 10_000]));
    pair.run();
    assert_eq!((pair.answers(), pair.client.in_flight()), (100, 0));
    assert!(pair.client.is_ready());
}

#[test]
fn streamed_bodies_wait_for_room() {
    let mut pair = Pair::usual(MESSAGES);
    let stream = pair.submit_streamed();
    let body = megabyte();
    let mut sent = 0;
    while sent < body.len() {
        assert!(pair.client.body_room(stream) <= 64 * 1024);
        sent += pair.client.send_body(stream, &body[sent..]);
        pair.step();
    }
    pair.run();
    pair.client.end_body(stream);
    assert_eq!(pair.client.send_body(stream, b"more"), 0);
    pair.run();
    assert!(pair.to_server.bodies == body);
    assert!(pair.has_ended());
    assert!(matches!(
        pair.to_client.events.last(),
        Some(ClientEvent::RequestWritten { .. })
    ));
}

#[test]
fn trailers_follow_a_body() {
    let mut pair = Pair::usual(MESSAGES);
    let streamed = Body::Streamed { length: None };
    let field = Field::new("x-sum", "1");
    let trailers = Trailers::relayed(vec![field]).unwrap();
    let stream = pair.submit(&request("POST", streamed.clone()));
    pair.client.send_body(stream, b"abc");
    pair.client.end_body_with(stream, &trailers);
    pair.run();
    assert_eq!(pair.to_server.bodies, b"abc");
    let heard = pair.to_server.take_trailers(stream);
    assert_eq!(heard.as_deref(), Some(trailers.fields()));
    pair.respond(stream, &response(streamed));
    pair.run();
    pair.server.streams(0).end_body_with(stream, &trailers);
    pair.run();
    let heard = pair.to_client.take_trailers(stream);
    assert_eq!(heard.as_deref(), Some(trailers.fields()));
    assert_eq!(pair.answers(), 1);
}

#[test]
fn unconsumed_bytes_are_not_returned_to_the_window() {
    let settings = Http3Settings {
        stream_window: squall_base::Bytes::new(20_000),
        ..Http3Settings::default()
    };
    let mut pair = Pair::with(&settings, InboxOptions::default());
    pair.server.set_manual_consumption();
    pair.run();
    let stream = pair.submit(&request("POST", megabyte()));
    pair.run();
    let most = pair.arrived_bytes();
    assert!((60_000..=65_536).contains(&most), "{most}");
    let mut consumed = 0;
    while pair.arrived_bytes() < 1_000_000 {
        let new = pair.arrived_bytes() - consumed;
        assert!(new > 0 && new <= 65_536);
        pair.server.streams(0).consume(stream, new);
        consumed += new;
        pair.run();
    }
    assert!(pair.has_ended());
}

#[test]
fn either_side_can_reset_a_stream() {
    let mut pair = Pair::usual(InboxOptions::default());
    let streamed = request("POST", Body::Streamed { length: None });
    let first = pair.submit(&streamed);
    let second = pair.submit(&streamed);
    pair.run();
    pair.to_server.clear();
    pair.client.reset(first, code::REQUEST_CANCELLED);
    pair.run();
    let reset = ServerEvent::StreamReset {
        stream: first,
        code: code::REQUEST_CANCELLED,
    };
    assert_eq!(pair.to_server.events, [reset]);
    let late = (pair.server.streams(0)).respond(first, &response(Body::EMPTY));
    assert!(late.is_err());
    pair.server.streams(0).reset(second, code::INTERNAL_ERROR);
    pair.run();
    let reset = ClientEvent::StreamReset {
        stream: second,
        code: code::INTERNAL_ERROR,
    };
    assert_eq!(pair.to_client.events.last(), Some(&reset));
    assert_eq!((pair.client.in_flight(), pair.client.is_ready()), (0, true));
    assert_eq!(pair.failure, None);
}

#[test]
fn a_client_can_cancel_before_and_during_a_response() {
    let mut pair = Pair::usual(InboxOptions::default());
    let get = request("GET", Body::EMPTY);
    let unanswered = pair.submit(&get);
    let answered = pair.submit(&get);
    pair.run();
    pair.respond(answered, &response(vec![0; 20_000_000]));
    for _ in 0..50 {
        pair.step();
    }
    pair.to_server.clear();
    for stream in [unanswered, answered] {
        pair.client.reset(stream, code::REQUEST_CANCELLED);
    }
    pair.run();
    let mut events = pair.to_server.events.clone();
    events.sort_by_key(|event| format!("{event:?}"));
    let reset = |stream| ServerEvent::StreamReset {
        stream,
        code: code::REQUEST_CANCELLED,
    };
    assert_eq!(events, [reset(unanswered), reset(answered)]);
    assert_eq!(pair.answers(), 0);
    pair.submit(&get);
    pair.run();
    pair.answer(&response(b"hi".to_vec()));
    pair.run();
    assert_eq!(pair.answers(), 1);
}

#[test]
fn goaway_rejects_requests_not_yet_seen() {
    let mut pair = Pair::usual(InboxOptions::default());
    let get = request("GET", Body::EMPTY);
    let first = pair.submit(&get);
    pair.run();
    pair.server.go_away(0);
    let second = pair.submit(&get);
    pair.run();
    assert!(!pair.client.is_open());
    assert!(pair.client.submit(&get).is_err());
    assert!(pair.to_client.events.contains(&ClientEvent::GoAway {
        last_stream: first,
        code: code::NO_ERROR
    }));
    // This server also resets requests that arrive after its GOAWAY.
    assert!(pair.to_client.events.contains(&ClientEvent::StreamReset {
        stream: second,
        code: code::REQUEST_REJECTED
    }));
    pair.answer(&response(b"late".to_vec()));
    pair.run();
    assert_eq!((pair.answers(), pair.client.in_flight()), (1, 0));
    assert_eq!(pair.failure, None);
    let (client, server) = (pair.client.announced(), pair.server.announced(0).unwrap());
    let (client, server) = (client.endings, server.endings);
    assert_eq!((server.goaways_sent, client.goaways_received), (1, 1));
    assert_eq!((client.goaways_sent, server.goaways_received), (0, 0));
}

#[test]
fn both_sides_report_the_same_settings_and_resets() {
    let mut pair = Pair::usual(InboxOptions::default());
    let (client, server) = (pair.client.announced(), pair.server.announced(0).unwrap());
    assert_eq!(client.endings, server.endings);
    assert_eq!(client.endings, squall_base::record::EndingCounts::default());
    assert_eq!(client.sent, [(0x6, 65_536)]);
    assert_eq!(
        (&client.sent, &client.received),
        (&server.received, &server.sent)
    );
    // A request that was sent completely, and one that is not complete.
    let whole = pair.submit(&request("GET", Body::EMPTY));
    let open = pair.submit_streamed();
    pair.run();
    pair.client.reset(whole, code::REQUEST_CANCELLED);
    pair.client.reset(open, code::REQUEST_CANCELLED);
    pair.run();
    let (client, server) = (pair.client.announced(), pair.server.announced(0).unwrap());
    let (client, server) = (client.endings, server.endings);
    // STOP_SENDING for both streams, RESET_STREAM for at least one, and the server's responses to both.
    assert!((3..=4).contains(&client.resets_sent), "{client:?}");
    assert_eq!(server.resets_received, client.resets_sent, "{server:?}");
    assert_eq!(client.resets_received, server.resets_sent, "{server:?}");
}

#[test]
fn a_clean_close_is_not_an_error() {
    let mut pair = Pair::usual(InboxOptions::default());
    pair.server.close(0, code::NO_ERROR);
    pair.run();
    assert_eq!(pair.failure, None);
    assert!(!pair.client.is_open());
    assert!(pair.client.closing().unwrap().is_clean());
    pair.run_until(|pair| pair.client.is_closed() && !pair.ended.is_empty());
    assert!(pair.server.is_empty());
    assert!(
        pair.ended[0].1.to_string().contains("no error"),
        "{:?}",
        pair.ended
    );
}

#[test]
fn a_close_with_exchanges_in_flight_is_an_error() {
    let mut pair = Pair::usual(InboxOptions::default());
    pair.submit(&request("GET", Body::EMPTY));
    pair.run();
    pair.server.close(0, code::INTERNAL_ERROR);
    pair.run();
    assert_eq!(
        pair.failure.as_deref(),
        Some("the peer closed the connection: internal error (HTTP/3 error 0x102)")
    );
}
