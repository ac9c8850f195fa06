//! A client and a server whose datagrams are carried by hand, on quiche's real clock.

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
use crate::event::{ClientEvent, ServerEvent, StreamId};
use crate::inbox::{Inbox, Wants};
use crate::message::{Body, Request, Response, Scheme};

const CLIENT: &str = "10.0.0.1:4000";
const SERVER: &str = "10.0.0.2:443";

const FRAMES: Wants = Wants {
    fields: true,
    bodies: true,
    frames: true,
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
    Identity::self_made(&["server"], validity).unwrap()
}

/// Trust in one identity alone.
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

/// Both ends, and all that they told.
struct Pair {
    context: ClientContext,
    client: Client,
    server: Server,
    batch: Batch,
    to_client: Inbox<ClientEvent>,
    to_server: Inbox<ServerEvent>,
    /// Connections of the server that are over.
    ended: Vec<(u32, Closing)>,
    /// Datagrams that were sent, and which are lost on the way.
    sent: usize,
    lose: fn(usize) -> bool,
    failure: Option<String>,
}

impl Pair {
    fn new() -> Pair {
        Pair::with(&Http3Settings::default(), Wants::default())
    }

    fn with(settings: &Http3Settings, wants: Wants) -> Pair {
        let identity = identity();
        let tls = TlsSettings::default();
        let mut context = ClientContext::new(settings, &tls, &trust_in(&identity), 1).unwrap();
        Pair {
            client: connect(&mut context, "server"),
            server: Server::new(settings, &tls, &identity, 2).unwrap(),
            context,
            batch: Batch::new(),
            to_client: Inbox::new(wants),
            to_server: Inbox::new(wants),
            ended: Vec::new(),
            sent: 0,
            lose: |_| false,
            failure: None,
        }
    }

    fn established(settings: &Http3Settings, wants: Wants) -> Pair {
        let mut pair = Pair::with(settings, wants);
        pair.run();
        assert!(pair.client.is_ready(), "{:?}", pair.failure);
        pair
    }

    /// Carries one batch of each side; false if there was none.
    fn step(&mut self) -> bool {
        let now = now();
        let has_sent = self
            .client
            .output(now, &mut self.batch, &mut self.to_client);
        if has_sent {
            let (from, to) = (self.batch.from(), self.batch.to());
            for datagram in self.batch.datagrams() {
                self.sent += 1;
                if !(self.lose)(self.sent) {
                    let mut bytes = datagram.to_vec();
                    self.server
                        .receive(&mut bytes, from, to, &mut self.to_server);
                }
            }
        }
        let has_answered = self
            .server
            .output(now, &mut self.batch, &mut self.to_server)
            .is_some();
        if has_answered {
            let (from, to) = (self.batch.from(), self.batch.to());
            for datagram in self.batch.datagrams() {
                self.sent += 1;
                if !(self.lose)(self.sent) {
                    let mut bytes = datagram.to_vec();
                    let result = self
                        .client
                        .receive(&mut bytes, from, to, &mut self.to_client);
                    if let Err(error) = result {
                        self.failure.get_or_insert(error.to_string());
                    }
                }
            }
        }
        while let Some(ended) = self.server.take_ended() {
            self.ended.push(ended);
        }
        has_sent || has_answered
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
                if let Err(error) = result {
                    self.failure.get_or_insert(error.to_string());
                }
            }
            while self.server.on_timeout(now).is_some() {}
        }
    }

    /// Answers every request that is complete and not answered.
    fn answer(&mut self, response: &Arc<Response>) {
        let ends: Vec<StreamId> = self
            .to_server
            .events
            .iter()
            .filter_map(|event| match event {
                ServerEvent::RequestEnd { stream, .. } => Some(*stream),
                _ => None,
            })
            .collect();
        for stream in ends {
            let _ = self.server.respond(0, stream, response);
        }
    }

    fn answers(&self) -> usize {
        self.to_client
            .events
            .iter()
            .filter(|event| matches!(event, ClientEvent::ResponseEnd { .. }))
            .count()
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
fn a_request_and_its_response() {
    let mut pair = Pair::established(
        &Http3Settings::default(),
        Wants {
            frames: false,
            ..FRAMES
        },
    );
    let stream = pair.client.submit(&request("GET", Body::EMPTY)).unwrap();
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
            assert!(fields.is_empty());
            *end
        }
        other => panic!("{other:?}"),
    };
    pair.to_server.clear();
    pair.server
        .respond(0, stream, &response(b"hello".to_vec()))
        .unwrap();
    assert!(
        pair.server
            .respond(0, stream, &response(Body::EMPTY))
            .is_err()
    );
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
fn secrets_and_counts_can_be_had() {
    let mut pair = Pair::established(&Http3Settings::default(), Wants::default());
    assert!(pair.client.path().sent > 0);
    assert!(pair.server.path(0).is_some_and(|path| path.cwnd_bytes > 0));
    let keys = pair.client.take_key_log().join("\n");
    assert!(keys.contains("CLIENT_TRAFFIC_SECRET_0 "), "{keys}");
    assert!(pair.client.take_key_log().is_empty());
    assert!(!pair.server.take_key_log(0).is_empty());
}

#[test]
fn a_megabyte_both_ways() {
    let mut pair = Pair::established(
        &Http3Settings::default(),
        Wants {
            frames: false,
            ..FRAMES
        },
    );
    pair.client.submit(&request("POST", megabyte())).unwrap();
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
fn small_windows_only_slow_down() {
    let settings = Http3Settings {
        stream_window: squall_base::Bytes::new(10_000),
        connection_window: squall_base::Bytes::new(15_000),
        gso: false,
        ..Http3Settings::default()
    };
    let mut pair = Pair::established(&settings, FRAMES);
    for _ in 0..3 {
        pair.client.submit(&request("POST", megabyte())).unwrap();
    }
    pair.run();
    assert_eq!(pair.to_server.bodies.len(), 3_000_000);
    // The windows are what was asked for, and do not grow.
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
fn a_hundred_streams_at_once() {
    let mut pair = Pair::established(&Http3Settings::default(), Wants::default());
    let get = request("GET", Body::EMPTY);
    for i in 0..100 {
        assert_eq!(pair.client.submit(&get).unwrap(), StreamId(4 * i));
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
    let mut pair = Pair::established(
        &Http3Settings::default(),
        Wants {
            frames: false,
            ..FRAMES
        },
    );
    let stream = pair
        .client
        .submit(&request("POST", Body::Streamed { length: None }))
        .unwrap();
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
    assert!(matches!(
        pair.to_server.events.last(),
        Some(ServerEvent::RequestEnd { .. })
    ));
    assert!(matches!(
        pair.to_client.events.last(),
        Some(ClientEvent::RequestWritten { .. })
    ));
}

#[test]
fn what_is_not_consumed_stays_in_the_window() {
    let settings = Http3Settings {
        stream_window: squall_base::Bytes::new(20_000),
        ..Http3Settings::default()
    };
    let mut pair = Pair::with(&settings, Wants::default());
    pair.server.set_manual_consumption();
    pair.run();
    let stream = pair.client.submit(&request("POST", megabyte())).unwrap();
    pair.run();
    let heard = |pair: &Pair| -> u64 {
        let events = pair.to_server.events.iter();
        events
            .map(|event| match event {
                ServerEvent::RequestBody { len, .. } => *len,
                _ => 0,
            })
            .sum()
    };
    let most = heard(&pair);
    assert!((60_000..=65_536).contains(&most), "{most}");
    let mut consumed = 0;
    while heard(&pair) < 1_000_000 {
        let new = heard(&pair) - consumed;
        assert!(new > 0 && new <= 65_536);
        pair.server.consume(0, stream, new);
        consumed += new;
        pair.run();
    }
    assert!(matches!(
        pair.to_server.events.last(),
        Some(ServerEvent::RequestEnd { .. })
    ));
}

#[test]
fn either_side_can_reset() {
    let mut pair = Pair::established(&Http3Settings::default(), Wants::default());
    let streamed = request("POST", Body::Streamed { length: None });
    let first = pair.client.submit(&streamed).unwrap();
    let second = pair.client.submit(&streamed).unwrap();
    pair.run();
    pair.to_server.clear();
    pair.client.reset(first, code::REQUEST_CANCELLED);
    pair.run();
    let reset = ServerEvent::StreamReset {
        stream: first,
        code: code::REQUEST_CANCELLED,
    };
    assert_eq!(pair.to_server.events, [reset]);
    assert!(
        pair.server
            .respond(0, first, &response(Body::EMPTY))
            .is_err()
    );
    pair.server.reset(0, second, code::INTERNAL_ERROR);
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
fn a_client_can_leave_a_response() {
    let mut pair = Pair::established(&Http3Settings::default(), Wants::default());
    let get = request("GET", Body::EMPTY);
    let unanswered = pair.client.submit(&get).unwrap();
    let answered = pair.client.submit(&get).unwrap();
    pair.run();
    pair.server
        .respond(0, answered, &response(vec![0; 20_000_000]))
        .unwrap();
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
    pair.client.submit(&get).unwrap();
    pair.run();
    pair.answer(&response(b"hi".to_vec()));
    pair.run();
    assert_eq!(pair.answers(), 1);
}

#[test]
fn goaway_ends_what_was_not_seen() {
    let mut pair = Pair::established(&Http3Settings::default(), Wants::default());
    let get = request("GET", Body::EMPTY);
    let first = pair.client.submit(&get).unwrap();
    pair.run();
    pair.server.go_away(0);
    let second = pair.client.submit(&get).unwrap();
    pair.run();
    assert!(!pair.client.is_open());
    assert!(pair.client.submit(&get).is_err());
    assert!(pair.to_client.events.contains(&ClientEvent::GoAway {
        last_stream: first,
        code: code::NO_ERROR
    }));
    assert!(pair.to_client.events.contains(&ClientEvent::StreamReset {
        stream: second,
        code: code::REQUEST_REJECTED
    }));
    pair.answer(&response(b"late".to_vec()));
    pair.run();
    assert_eq!((pair.answers(), pair.client.in_flight()), (1, 0));
    assert_eq!(pair.failure, None);
}

#[test]
fn a_clean_close_is_no_error() {
    let mut pair = Pair::established(&Http3Settings::default(), Wants::default());
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
    let mut pair = Pair::established(&Http3Settings::default(), Wants::default());
    pair.client.submit(&request("GET", Body::EMPTY)).unwrap();
    pair.run();
    pair.server.close(0, code::INTERNAL_ERROR);
    pair.run();
    assert_eq!(
        pair.failure.as_deref(),
        Some("the peer closed the connection: internal error (HTTP/3 error 0x102)")
    );
}

#[test]
fn lost_datagrams_come_again() {
    for congestion_control in QuicCongestionControl::ALL {
        let settings = Http3Settings {
            congestion_control,
            ..Http3Settings::default()
        };
        let mut pair = Pair::with(
            &settings,
            Wants {
                frames: false,
                ..FRAMES
            },
        );
        pair.run_until(|pair| pair.client.is_ready());
        pair.lose = |n| n.is_multiple_of(17);
        pair.client.submit(&request("POST", megabyte())).unwrap();
        pair.run_until(|pair| {
            let last = pair.to_server.events.last();
            matches!(last, Some(ServerEvent::RequestEnd { .. }))
        });
        assert!(pair.to_server.bodies == megabyte());
        assert!(pair.client.path().lost > 0);
        let marks = pair
            .to_client
            .events
            .iter()
            .filter(|event| matches!(event, ClientEvent::RequestWritten { .. }));
        assert_eq!(marks.count(), 1, "{congestion_control}");
    }
}

#[test]
fn a_stranger_is_not_trusted() {
    let mut pair = Pair::new();
    let other = identity();
    let (settings, tls) = (Http3Settings::default(), TlsSettings::default());
    let strict = ClientContext::new(&settings, &tls, &trust_in(&other), 3);
    pair.client = connect(&mut strict.unwrap(), "server");
    pair.run();
    let words = pair.failure.take().unwrap();
    assert!(words.contains("the certificate is not trusted"), "{words}");
    assert!(!pair.client.is_open());

    let mut pair = Pair::new();
    pair.client = connect(&mut pair.context, "another");
    pair.run();
    let words = pair.failure.take().unwrap();
    assert!(words.contains("certificate was refused"), "{words}");

    let easy = ClientContext::new(&settings, &tls, &Trust::Anyone, 3);
    pair.client = connect(&mut easy.unwrap(), "another");
    pair.run();
    assert!(pair.client.is_ready());
}

#[test]
fn another_application_protocol_is_refused() {
    let mut pair = Pair::new();
    pair.context
        .config
        .set_application_protos(&[b"hq-interop"])
        .unwrap();
    pair.client = connect(&mut pair.context, "server");
    pair.run();
    let words = pair.failure.unwrap();
    assert!(words.contains("does not speak HTTP/3"), "{words}");
}

#[test]
fn sessions_are_resumed() {
    let mut pair = Pair::established(&Http3Settings::default(), Wants::default());
    assert!(!pair.client.is_resumed());
    pair.client = connect(&mut pair.context, "server");
    pair.run();
    assert!(pair.client.is_ready() && pair.client.is_resumed());
    assert!(pair.server.is_resumed(1) && !pair.server.is_resumed(0));
}

/// Every mark must be of the call that sent the packet which quiche's own log says it is of.
#[test]
fn marks_are_of_the_packets_that_carry_the_bytes() {
    let mut pair = Pair::established(&Http3Settings::default(), FRAMES);
    for _ in 0..5 {
        pair.client
            .submit(&request("POST", megabyte().slice(..200_000)))
            .unwrap();
    }
    pair.client.submit(&request("GET", Body::EMPTY)).unwrap();
    pair.lose = |n| n.is_multiple_of(23);
    let mut sent: BTreeMap<u64, u64> = BTreeMap::new();
    let mut ended = BTreeSet::new();
    let start = now();
    while ended.len() < 6 {
        assert!(start.elapsed().as_secs() < 5);
        pair.to_client.clear();
        if !pair.step() {
            wait(std::time::Duration::from_millis(1));
            let _ = pair.client.on_timeout(now());
            while pair.server.on_timeout(now()).is_some() {}
        }
        let (mut begins, mut ends) = (BTreeSet::new(), BTreeSet::new());
        for frame in &pair.to_client.frames {
            let is_stream = frame.layer == FrameLayer::Quic && frame.kind & !0x7 == 0x8;
            if !is_stream || frame.way != Way::Sent || frame.stream.is_some_and(|id| id % 4 != 0) {
                continue;
            }
            let id = frame.stream.unwrap();
            if sent
                .insert(id, frame.offset.unwrap() + frame.length)
                .is_none()
            {
                begins.insert(id);
            }
            if frame.kind & 0x1 != 0 && ended.insert(id) {
                ends.insert(id);
            }
        }
        let mut marks = (BTreeSet::new(), BTreeSet::new());
        for event in &pair.to_client.events {
            match event {
                ClientEvent::RequestFirstByteWritten { stream, .. } => marks.0.insert(stream.0),
                ClientEvent::RequestWritten { stream, .. } => marks.1.insert(stream.0),
                _ => false,
            };
        }
        assert_eq!(marks, (begins, ends));
    }
}

#[test]
fn frames_of_both_layers_are_told() {
    let mut pair = Pair::established(&Http3Settings::default(), FRAMES);
    let stream = pair
        .client
        .submit(&request("POST", vec![1; 3_000]))
        .unwrap();
    pair.run();
    pair.answer(&response(b"hello".to_vec()));
    pair.run();
    let of = |frames: &[FrameFacts], way, layer| -> Vec<FrameFacts> {
        let frames = frames.iter().filter(|f| f.way == way && f.layer == layer);
        frames.copied().collect()
    };
    // Every frame of HTTP/3 that was sent was received, in the same place of its stream.
    for (sent, got) in [
        (&pair.to_client.frames, &pair.to_server.frames),
        (&pair.to_server.frames, &pair.to_client.frames),
    ] {
        let sent = of(sent, Way::Sent, FrameLayer::Http3);
        let got = of(got, Way::Received, FrameLayer::Http3);
        let place = |f: &FrameFacts| (f.stream, f.offset, f.kind, f.length);
        let mut sent_places: Vec<_> = sent.iter().map(place).collect();
        let mut got_places: Vec<_> = got.iter().map(place).collect();
        sent_places.sort_unstable();
        got_places.sort_unstable();
        assert_eq!(sent_places, got_places);
        assert!(sent.iter().all(|f| f.packet.is_some()));
    }
    let frames = of(&pair.to_client.frames, Way::Sent, FrameLayer::Http3);
    let of_request: Vec<_> = frames
        .iter()
        .filter(|f| f.stream == Some(stream.0))
        .collect();
    let [head, data] = of_request.as_slice() else {
        panic!("{of_request:?}")
    };
    assert_eq!(
        (head.kind, head.offset, data.kind, data.length),
        (1, Some(0), 0, 3_000)
    );
    assert_eq!(data.offset, Some(head.length + 2));
    // Every QUIC frame arrived too: nothing is lost here.
    let count = |frames: &[FrameFacts], way, kind: u64| {
        let frames = of(frames, way, FrameLayer::Quic);
        frames.iter().filter(|f| f.kind & !0x1 == kind).count()
    };
    for kind in [0x02, 0x06, 0x0e, 0x1e] {
        let sent = count(&pair.to_client.frames, Way::Sent, kind)
            + count(&pair.to_server.frames, Way::Sent, kind);
        let got = count(&pair.to_client.frames, Way::Received, kind)
            + count(&pair.to_server.frames, Way::Received, kind);
        assert!(
            sent > 0 && sent == got,
            "{kind:#x}: {sent} sent, {got} received"
        );
    }
}

#[test]
fn another_version_is_negotiated() {
    let mut pair = Pair::new();
    let mut datagram = vec![0; 1_200];
    // A long header of version 0x1a2a3a4a (RFC 9000, section 15) with ids of 8 bytes.
    datagram[..6].copy_from_slice(&[0xc0, 0x1a, 0x2a, 0x3a, 0x4a, 8]);
    datagram[14] = 8;
    let (from, to): (SocketAddr, SocketAddr) = (CLIENT.parse().unwrap(), SERVER.parse().unwrap());
    for _ in 0..100 {
        let owner = pair
            .server
            .receive(&mut datagram, from, to, &mut pair.to_server);
        assert_eq!(owner, None);
    }
    let mut answers = 0;
    while let Some(sender) = pair
        .server
        .output(now(), &mut pair.batch, &mut pair.to_server)
    {
        assert_eq!((sender, pair.batch.to()), (Sender::Endpoint, from));
        answers += 1;
    }
    assert_eq!((answers, pair.server.len()), (16, 0));
}

#[test]
fn short_first_packets_are_dropped() {
    let mut pair = Pair::new();
    pair.client
        .output(now(), &mut pair.batch, &mut pair.to_client);
    let (from, to) = (pair.batch.from(), pair.batch.to());
    let mut datagram = pair.batch.bytes()[..1_199].to_vec();
    let owner = pair
        .server
        .receive(&mut datagram, from, to, &mut pair.to_server);
    assert_eq!((owner, pair.server.len()), (None, 0));
}

#[test]
fn a_broken_stream_is_an_error_in_words() {
    let mut pair = Pair::established(&Http3Settings::default(), Wants::default());
    assert!(pair.client.connection.open(0));
    pair.client.connection.send(0, |out| {
        out.push(wire::frame(wire::SETTINGS, b""));
    });
    pair.run();
    assert_eq!(
        pair.failure.as_deref(),
        Some(
            "the peer closed the connection: a frame came where it must not (HTTP/3 error 0x105): \
             a frame of another stream in a message"
        )
    );
}

#[test]
fn a_thousand_connections() {
    let mut pair = Pair::new();
    let mut clients: Vec<Client> = (0..1_000)
        .map(|_| connect(&mut pair.context, "server"))
        .collect();
    // Each from a port of its own would be the same to the server: ids tell them apart.
    for client in &mut clients {
        std::mem::swap(&mut pair.client, client);
        pair.run();
        assert!(pair.client.is_ready());
        pair.client.submit(&request("GET", Body::EMPTY)).unwrap();
        pair.run();
        std::mem::swap(&mut pair.client, client);
    }
    assert_eq!(pair.server.len(), 1_000);
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(200))]

    #[test]
    fn garbage_never_panics(
        garbage in proptest::collection::vec(proptest::collection::vec(any::<u8>(), 0..1_400), 1..8),
        flips in proptest::collection::vec((any::<u16>(), any::<u8>()), 0..4),
    ) {
        let mut pair = Pair::new();
        let (client, server): (SocketAddr, SocketAddr) =
            (CLIENT.parse().unwrap(), SERVER.parse().unwrap());
        pair.client.output(now(), &mut pair.batch, &mut pair.to_client);
        let mut first = pair.batch.bytes().to_vec();
        for (at, mask) in flips {
            let at = usize::from(at) % first.len();
            first[at] ^= mask;
        }
        pair.server.receive(&mut first, client, server, &mut pair.to_server);
        for mut bytes in garbage {
            pair.server.receive(&mut bytes.clone(), client, server, &mut pair.to_server);
            let _ = pair.client.receive(&mut bytes, server, client, &mut pair.to_client);
        }
        pair.run();
    }

    #[test]
    fn garbage_in_streams_never_panics(
        pieces in proptest::collection::vec((0_u64..3, proptest::collection::vec(any::<u8>(), 1..80)), 1..20),
    ) {
        let mut pair = Pair::established(&Http3Settings::default(), FRAMES);
        for (lane, bytes) in pieces {
            // A request, the control stream, and one of no type yet.
            let id = [0, 2, 6][lane as usize];
            if id != 2 && pair.client.connection.body_room(id) == 0 {
                pair.client.connection.open(id);
            }
            pair.client.connection.send(id, |out| out.push(bytes.into()));
            pair.run();
        }
    }
}
