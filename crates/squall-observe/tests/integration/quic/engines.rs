//! Squall's own client and server: the observer's frames of each end match those that the engine at that end wrote.
//!
//! quiche without our engines is in `raw.rs`, hand-made packets in `sealed.rs`.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Instant;

use squall_base::plan::{Http3Settings, TlsSettings};
use squall_base::record::{Direction, FrameFacts, FrameLayer, Side, Way};
use squall_http::h3::{Batch, Client, ClientContext, Server};
use squall_http::tls::{Identity, Trust, Validity};
use squall_http::{
    Body, Bytes, ClientEvent, Inbox, InboxOptions, Request, Response, Scheme, ServerEvent,
};
use squall_observe::OpaqueReason;

use super::link::{self, CLIENT, Link, SERVER};

const STREAM: std::ops::RangeInclusive<u64> = 0x08..=0x0f;

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
fn wait() {
    std::thread::sleep(std::time::Duration::from_micros(300));
}

/// A conversation over a link, with the rows the engines wrote.
struct Conversation {
    client: Client,
    server: Server,
    batch: Batch,
    to_client: Inbox<ClientEvent>,
    to_server: Inbox<ServerEvent>,
    link: Link,
    lose: fn(usize) -> bool,
    /// How far the engines' clock is ahead of the real one. Advancing it lets paced packets go out immediately.
    ahead: std::time::Duration,
    key_log: Vec<String>,
}

impl Conversation {
    fn new(lose: fn(usize) -> bool) -> Conversation {
        let validity = Validity {
            not_before_unix_s: 1_700_000_000,
            days: 36_500,
        };
        let identity = Identity::self_signed(&["server"], validity).unwrap();
        let (settings, tls) = (Http3Settings::default(), TlsSettings::default());
        let mut context = ClientContext::new(&settings, &tls, &Trust::Anyone, 1).unwrap();
        let ends = (CLIENT.parse().unwrap(), SERVER.parse().unwrap());
        let wants = InboxOptions {
            frames: true,
            ..InboxOptions::default()
        };
        Conversation {
            client: Client::new(&mut context, "server", ends.0, ends.1).unwrap(),
            server: Server::new(&settings, &tls, &identity, 2).unwrap(),
            batch: Batch::new(),
            to_client: Inbox::new(wants),
            to_server: Inbox::new(wants),
            link: Link::default(),
            lose,
            ahead: std::time::Duration::ZERO,
            key_log: Vec::new(),
        }
    }

    /// Carries one batch from each side. Returns false if there was none.
    fn step(&mut self) -> bool {
        let mut has_sent = false;
        for direction in Direction::ALL {
            let now = now() + self.ahead;
            let is_some = match direction {
                Direction::Up => self
                    .client
                    .output(now, &mut self.batch, &mut self.to_client),
                Direction::Down => {
                    let sender = self
                        .server
                        .output(now, &mut self.batch, &mut self.to_server);
                    sender.is_some()
                }
            };
            if !is_some {
                continue;
            }
            has_sent = true;
            self.ahead += self.batch.delay().into();
            let ends = (self.batch.from(), self.batch.to());
            for datagram in self.batch.datagrams() {
                let is_lost = (self.lose)(self.link.packets.len());
                self.link.carry(direction, ends, datagram, is_lost);
                if is_lost {
                    continue;
                }
                let mut bytes = datagram.to_vec();
                match direction {
                    Direction::Up => {
                        self.server
                            .receive(&mut bytes, ends.0, ends.1, &mut self.to_server);
                    }
                    Direction::Down => self
                        .client
                        .receive(&mut bytes, ends.0, ends.1, &mut self.to_client)
                        .unwrap(),
                }
            }
        }
        has_sent
    }

    fn run_until(&mut self, is_over: impl Fn(&Conversation) -> bool) {
        for _ in 0..50_000 {
            while self.step() {}
            if is_over(self) {
                return;
            }
            wait();
            let now = now() + self.ahead;
            if self
                .client
                .timeout(now)
                .is_some_and(|left| left.as_nanos() == 0)
            {
                self.client.on_timeout(now).unwrap();
            }
            while self.server.on_timeout(now).is_some() {}
        }
        panic!("the conversation does not end");
    }

    /// Exchanges requests and responses with these body lengths, one after the other.
    fn exchange(&mut self, bodies: &[(usize, usize)]) {
        self.run_until(|conversation| conversation.client.is_ready());
        for (up, down) in bodies {
            let body: Bytes = vec![b'q'; *up].into();
            let request =
                Request::new("POST", Scheme::Https, "server", "/", &[], Body::from(body)).unwrap();
            let stream = self.client.submit(&Arc::new(request)).unwrap();
            let is_end = move |event: &ServerEvent| matches!(event, ServerEvent::RequestEnd { stream: of, .. } if *of == stream);
            self.run_until(|conversation| conversation.to_server.events.iter().any(is_end));
            let body: Bytes = vec![b'a'; *down].into();
            let response = Response::new(200, &[], Body::from(body)).unwrap();
            let _ = self.server.streams(0).respond(stream, &Arc::new(response));
            self.run_until(|conversation| conversation.client.in_flight() == 0);
        }
        self.client.close(0x100);
        while self.step() {}
        self.key_log = self.client.take_key_log();
    }
}

/// The part of a frame that both rows record. quiche reports neither how a STREAM frame was encoded nor the length of
/// frames without data; the observer does not record the packet that ended an HTTP/3 frame.
fn comparable(frame: &FrameFacts) -> FrameFacts {
    if frame.layer == FrameLayer::Http3 {
        return FrameFacts {
            packet: None,
            ..*frame
        };
    }
    let is_stream = STREAM.contains(&frame.kind);
    let has_data = is_stream || matches!(frame.kind, 0x00 | 0x06 | 0x30 | 0x31);
    FrameFacts {
        kind: if is_stream {
            frame.kind | 0x06
        } else {
            frame.kind
        },
        offset: frame.offset.or(is_stream.then_some(0)),
        length: if has_data { frame.length } else { 0 },
        ..*frame
    }
}

fn of_layer(frames: &[FrameFacts], layer: FrameLayer) -> Vec<FrameFacts> {
    let frames = frames.iter().filter(|frame| frame.layer == layer);
    frames.map(comparable).collect()
}

/// An engine that has confirmed the handshake has dropped the keys of Handshake packets (RFC 9001, section 4.9.2), so it
/// ignores those that arrive late. The observer reads them.
fn without_late_handshake(observed: Vec<FrameFacts>, engine: &[FrameFacts]) -> Vec<FrameFacts> {
    let known: BTreeSet<_> = engine.iter().map(|frame| frame.packet).collect();
    let last = known.last().copied().flatten();
    let is_handshake = |frame: &FrameFacts| matches!(frame.kind, 0x00 | 0x01 | 0x02 | 0x06);
    let is_late = |frame: &FrameFacts| {
        frame.packet < last && !known.contains(&frame.packet) && is_handshake(frame)
    };
    observed
        .into_iter()
        .filter(|frame| !is_late(frame))
        .collect()
}

fn check_against_engines(conversation: &Conversation) {
    let rows = link::observe(&conversation.link, &conversation.key_log.join("\n"), true);
    for (side, engine) in [
        (Side::Client, &conversation.to_client.frames),
        (Side::Server, &conversation.to_server.frames),
    ] {
        for way in Way::ALL {
            let of_way = |frames: Vec<FrameFacts>| -> Vec<FrameFacts> {
                let frames = frames.into_iter().filter(|frame| frame.way == way);
                frames.map(|frame| comparable(&frame)).collect()
            };
            let expected = of_way(of_layer(engine, FrameLayer::Quic));
            let quic = of_way(link::frames(&rows, side, FrameLayer::Quic));
            let quic = without_late_handshake(quic, &expected);
            // Frames after the end of the connection need not match.
            let common = quic.len().min(expected.len());
            assert!(
                common > 10 && expected.len() <= quic.len() + 3,
                "{side:?} {way:?}"
            );
            assert_eq!(quic[..common], expected[..common], "{side:?} {way:?}");
            let mut http3 = of_way(link::frames(&rows, side, FrameLayer::Http3));
            let mut expected = of_way(of_layer(engine, FrameLayer::Http3));
            let key = |frame: &FrameFacts| (frame.stream, frame.offset);
            http3.sort_by_key(key);
            expected.sort_by_key(key);
            // An application of quiche does not know the stream IDs of quiche's own control frames.
            for frame in http3.iter_mut().chain(&mut expected) {
                frame.stream = frame.stream.filter(|stream| stream % 4 == 0);
            }
            assert_eq!(http3, expected, "{side:?} {way:?}");
        }
    }
}

#[test]
fn observed_frames_match_those_of_the_engines() {
    let mut conversation = Conversation::new(|_| false);
    conversation.exchange(&[(0, 10), (50_000, 200_000), (0, 0)]);
    check_against_engines(&conversation);
}

#[test]
fn observed_frames_match_those_of_the_engines_with_loss() {
    let mut conversation = Conversation::new(|number| number % 13 == 5);
    conversation.exchange(&[(0, 10), (50_000, 200_000), (3, 70_000)]);
    check_against_engines(&conversation);
}

#[test]
fn exchanges_have_their_bodies_extents_and_times_with_and_without_loss() {
    for (lose, is_early) in [
        ((|_| false) as fn(usize) -> bool, true),
        (|number| number % 11 == 7, false),
    ] {
        let mut conversation = Conversation::new(lose);
        conversation.exchange(&[(0, 10), (5_000, 100_000)]);
        let rows = link::observe(
            &conversation.link,
            &conversation.key_log.join("\n"),
            is_early,
        );
        let sides = Side::ALL.map(|side| link::exchanges(&rows, side));
        for exchanges in &sides {
            let short: Vec<_> = exchanges
                .iter()
                .map(|row| {
                    (
                        row.stream,
                        row.request_body_bytes,
                        row.response_body_bytes,
                        row.status,
                        row.reset,
                    )
                })
                .collect();
            assert_eq!(
                short,
                [
                    (0, 0, 10, Some(200), None),
                    (4, 5_000, 100_000, Some(200), None)
                ]
            );
        }
        for (client, server) in sides[0].iter().zip(&sides[1]) {
            assert_eq!(client.request_extent, server.request_extent);
            assert_eq!(client.response_extent, server.response_extent);
            assert!(client.response_extent.unwrap().end > client.response_body_bytes);
            assert!(client.request_first < server.request_first);
            assert!(client.request_last < server.request_last);
            assert!(server.request_last < server.response_first);
            assert!(server.response_first < client.response_first);
            assert!(server.response_last < client.response_last);
            assert!(client.beginning.secured.is_some());
        }
        for side in Side::ALL {
            let connection = link::connection(&rows, side);
            assert_eq!(connection.opaque, None, "{connection:?}");
            let tls = connection.tls.unwrap();
            assert_eq!(tls.alpn.as_deref(), Some("h3"));
            assert!(tls.done.is_some() && tls.deciphered);
        }
    }
}

#[test]
fn hellos_are_read_without_secrets() {
    let mut conversation = Conversation::new(|_| false);
    conversation.exchange(&[(0, 10)]);
    let rows = link::observe(&conversation.link, "", true);
    assert!(rows.exchanges.is_empty());
    let connection = link::connection(&rows, Side::Client);
    assert_eq!(connection.opaque, Some(OpaqueReason::NoKeys));
    let tls = connection.tls.unwrap();
    assert_eq!(
        (tls.offered, tls.deciphered),
        (vec!["h3".to_owned()], false)
    );
    assert!(tls.server_hello.is_some() && tls.done.is_none());
    let initial = link::frames(&rows, Side::Client, FrameLayer::Quic);
    assert!(initial.iter().any(|frame| frame.kind == 0x06));
}

#[test]
fn wrong_secrets_leave_the_connection_undeciphered() {
    let mut conversation = Conversation::new(|_| false);
    conversation.exchange(&[(0, 10)]);
    let wrong: Vec<String> = conversation
        .key_log
        .iter()
        .map(|line| {
            let (rest, secret) = line.rsplit_once(' ').unwrap();
            let secret: String = secret.chars().rev().collect();
            format!("{rest} {secret}")
        })
        .collect();
    let rows = link::observe(&conversation.link, &wrong.join("\n"), true);
    assert!(rows.exchanges.is_empty());
    let connection = link::connection(&rows, Side::Client);
    assert_eq!(connection.opaque, Some(OpaqueReason::Undeciphered));
}

#[test]
fn capture_that_began_midway_has_no_exchanges() {
    let mut conversation = Conversation::new(|_| false);
    conversation.exchange(&[(0, 10), (0, 10)]);
    conversation.link.packets.drain(..8);
    let rows = link::observe(&conversation.link, &conversation.key_log.join("\n"), true);
    assert!(rows.exchanges.is_empty());
}
