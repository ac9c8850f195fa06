//! HTTP/1.1 in any pieces: each side understands what the other sends, and garbage is only an error.
// Test helpers may panic, like the tests themselves.
#![allow(clippy::unwrap_used)]

use std::sync::Arc;

use proptest::prelude::*;
use squall_base::Bytes;
use squall_base::plan::{BodyFraming, Http1Settings};
use squall_http::{
    Body, ClientEvent, Engine, Inbox, InboxOptions, Request, Response, Scheme, ServerEvent,
    StreamId, StreamIo, h1,
};

/// A body, and whether it is provided whole, or streamed with or without its length.
#[derive(Clone, Debug)]
struct Content {
    bytes: Vec<u8>,
    kind: Kind,
}

#[derive(Clone, Copy, Debug)]
enum Kind {
    Whole,
    Streamed,
    StreamedWithLength,
}

impl Content {
    fn body(&self) -> Body {
        match self.kind {
            Kind::Whole => self.bytes.clone().into(),
            Kind::Streamed => Body::Streamed { length: None },
            Kind::StreamedWithLength => Body::Streamed {
                length: Some(self.bytes.len() as u64),
            },
        }
    }
}

fn content() -> impl Strategy<Value = Content> {
    let len = prop_oneof![0usize..40, 0usize..3_000, Just(16_385), Just(70_000)];
    let kind = prop_oneof![
        Just(Kind::Whole),
        Just(Kind::Streamed),
        Just(Kind::StreamedWithLength)
    ];
    (len, kind).prop_map(|(len, kind)| Content {
        bytes: (0..len).map(|i| (i * 7) as u8).collect(),
        kind,
    })
}

fn settings() -> impl Strategy<Value = Http1Settings> {
    let framing = prop_oneof![
        Just(BodyFraming::Length),
        (1u64..50).prop_map(|n| BodyFraming::Chunked(Bytes::new(n))),
        (1u64..50_000).prop_map(|n| BodyFraming::Chunked(Bytes::new(n))),
    ];
    framing.prop_map(|framing| Http1Settings {
        framing,
        requests_per_connection: None,
    })
}

const ALL: InboxOptions = InboxOptions {
    fields: true,
    bodies: true,
    frames: false,
};

/// Both ends, and how many bytes of their bodies were provided.
struct Pair {
    client: h1::Client,
    server: h1::Server,
    at_client: Inbox<ClientEvent>,
    at_server: Inbox<ServerEvent>,
    upload: usize,
    download: usize,
    answered: u64,
    /// Bytes moved, up and down.
    moved: [u64; 2],
}

impl Pair {
    /// Provides body bytes, moves at most `step` bytes up and down, and answers requests whose heads have arrived.
    fn turn(&mut self, step: usize, question: &Content, answer: &Content) -> usize {
        let stream = StreamId(self.answered.saturating_sub(1));
        let asked = self.client.in_flight() as u64;
        let asking = StreamId((self.answered + asked).saturating_sub(1).max(stream.0));
        let rest = &question.bytes[self.upload..];
        self.upload += self
            .client
            .send_body(asking, &rest[..rest.len().min(step * 3)]);
        if self.upload == question.bytes.len() {
            self.client.end_body(asking);
        }
        let piece = self.client.output();
        let up = piece[..piece.len().min(step)].to_vec();
        self.client.advance_output(up.len(), &mut self.at_client);
        self.server.receive(&up, &mut self.at_server).unwrap();
        self.moved[0] += up.len() as u64;
        let is_head = |event: &&ServerEvent| matches!(event, ServerEvent::RequestHead { .. });
        let heads = self.at_server.events.iter().filter(is_head).count() as u64;
        if heads > self.answered {
            let response = Response::new(200, &[], answer.body()).unwrap();
            let stream = StreamId(self.answered);
            self.server.respond(stream, &Arc::new(response)).unwrap();
            self.answered += 1;
        }
        let stream = StreamId(self.answered.saturating_sub(1));
        let rest = &answer.bytes[self.download..];
        self.download += self
            .server
            .send_body(stream, &rest[..rest.len().min(step * 2)]);
        if self.download == answer.bytes.len() {
            self.server.end_body(stream);
        }
        let piece = self.server.output();
        let down = piece[..piece.len().min(step)].to_vec();
        self.server.advance_output(down.len(), &mut self.at_server);
        self.client.receive(&down, &mut self.at_client).unwrap();
        self.moved[1] += down.len() as u64;
        up.len() + down.len()
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    #[test]
    fn each_side_understands_what_the_other_sends(
        of_client in settings(),
        of_server in settings(),
        question in content(),
        answer in content(),
        step in prop_oneof![1usize..40, 40usize..100_000],
    ) {
        let mut pair = Pair {
            client: h1::Client::new(&of_client).unwrap(),
            server: h1::Server::new(&of_server).unwrap(),
            at_client: Inbox::new(ALL),
            at_server: Inbox::new(ALL),
            upload: 0,
            download: 0,
            answered: 0,
            moved: [0, 0],
        };
        let request = Request::new("POST", Scheme::Http, "a", "/b", &[], question.body()).unwrap();
        let request = Arc::new(request);
        for round in 0..2u64 {
            (pair.upload, pair.download) = (0, 0);
            let start = pair.moved;
            let stream = StreamId(round);
            prop_assert_eq!(pair.client.submit(&request), Ok(stream));
            while pair.turn(step, &question, &answer) > 0 {}
            prop_assert!(pair.client.is_ready());
            let [up, down] = pair.moved;
            let heard = &pair.at_client.events;
            let marks = [
                ClientEvent::RequestFirstByteWritten { stream, offset: start[0] },
                ClientEvent::RequestWritten { stream, end: up },
                ClientEvent::ResponseFirstByte { stream, offset: start[1] },
                ClientEvent::ResponseEnd { stream, end: down },
            ];
            prop_assert!(marks.iter().all(|mark| heard.contains(mark)), "{marks:?} {heard:?}");
            let heard = &pair.at_server.events;
            let marks = [
                ServerEvent::RequestFirstByte { stream, offset: start[0] },
                ServerEvent::RequestEnd { stream, end: up },
                ServerEvent::ResponseFirstByteWritten { stream, offset: start[1] },
                ServerEvent::ResponseWritten { stream, end: down },
            ];
            prop_assert!(marks.iter().all(|mark| heard.contains(mark)), "{marks:?} {heard:?}");
        }
        prop_assert_eq!(&pair.at_server.bodies, &question.bytes.repeat(2));
        prop_assert_eq!(&pair.at_client.bodies, &answer.bytes.repeat(2));
    }
}

/// A server's reaction to these bytes: events with merged body pieces, bodies, output, and whether it failed.
fn served(bytes: &[u8], step: usize) -> (Vec<ServerEvent>, Vec<u8>, Vec<u8>, bool) {
    let mut server = h1::Server::new(&Http1Settings::default()).unwrap();
    let mut inbox = Inbox::new(ALL);
    let error = bytes
        .chunks(step)
        .find_map(|piece| server.receive(piece, &mut inbox).err());
    let output = server.output().to_vec();
    (inbox.events, inbox.bodies, output, error.is_some())
}

/// The reaction of a client that waits for a response to these bytes: events, bodies, and whether it failed.
fn understood(bytes: &[u8], step: usize) -> (Vec<ClientEvent>, Vec<u8>, bool) {
    let request = Request::new("GET", Scheme::Http, "a", "/", &[], Body::EMPTY).unwrap();
    let mut client = h1::Client::new(&Http1Settings::default()).unwrap();
    client.submit(&Arc::new(request)).unwrap();
    let mut inbox = Inbox::new(ALL);
    let len = client.output().len();
    client.advance_output(len, &mut inbox);
    let error = bytes
        .chunks(step)
        .find_map(|piece| client.receive(piece, &mut inbox).err());
    (inbox.events, inbox.bodies, error.is_some())
}

/// Parts of messages, valid and invalid, whose combinations lead deep into the parsers.
fn fragments() -> impl Strategy<Value = Vec<u8>> {
    let part = prop_oneof![
        Just(&b"GET /a HTTP/1.1\r\nhost: b\r\n"[..]),
        Just(&b"POST /a HTTP/1.1\r\nhost: b\r\n"[..]),
        Just(&b"HTTP/1.1 200 OK\r\n"[..]),
        Just(&b"HTTP/1.1 103\r\n"[..]),
        Just(&b"content-length: 3\r\n"[..]),
        Just(&b"transfer-encoding: chunked\r\n"[..]),
        Just(&b"expect: 100-continue\r\n"[..]),
        Just(&b"connection: close\r\n"[..]),
        Just(&b"\r\n"[..]),
        Just(&b"\n"[..]),
        Just(&b"\r"[..]),
        Just(&b"abc"[..]),
        Just(&b"3\r\nabc\r\n"[..]),
        Just(&b"0\r\n\r\n"[..]),
        Just(&b"fffffffffffffff;a=b\r\n"[..]),
        Just(&b"\0"[..]),
    ];
    proptest::collection::vec(part, 0..14).prop_map(|parts| parts.concat())
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(2_000))]

    /// After the end of a line everything that can be parsed has been parsed, however the bytes arrived.
    #[test]
    fn splitting_the_input_makes_no_difference(start in fragments(), step in 1usize..30) {
        let bytes = [&start[..], b"\r\n"].concat();
        prop_assert_eq!(served(&bytes, step), served(&bytes, usize::MAX));
        prop_assert_eq!(understood(&bytes, step), understood(&bytes, usize::MAX));
    }

    #[test]
    fn garbage_never_panics(bytes: Vec<u8>, step in 1usize..16) {
        served(&bytes, step);
        understood(&bytes, step);
    }
}
