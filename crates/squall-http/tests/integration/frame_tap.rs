//! The tap's windows match nghttp2's, and its offsets are those of the byte stream.
// Test helpers may panic, like the tests themselves.
#![allow(clippy::unwrap_used)]

use std::collections::BTreeSet;
use std::sync::Arc;

use proptest::prelude::*;
use squall_base::plan::Http2Settings;
use squall_base::record::{FrameFacts, FrameLayer, Way};
use squall_http::frames::{CLIENT_PREFACE, Frame, FrameKind, FrameTap, FrameWalker};
use squall_http::{ClientEvent, Request, Response, Scheme, ServerEvent, StreamId, StreamIo};
use squall_nghttp2::{Body, Handler, HeaderBlock, Http2Session, Options, Session, Setting};

use crate::common::h2::{
    ACK, DATA, END, H2Pair, HEADERS, POST, RST_STREAM, SETTINGS, WHOLE, WINDOW_UPDATE,
    client_opening, frame, setting, streamed_request,
};
use crate::common::{bytes, request, response};

#[derive(Default)]
struct Silent;
impl Handler for Silent {}

/// A bare session and its tap.
struct Tapped {
    session: Session<Silent>,
    tap: FrameTap,
    facts: Vec<FrameFacts>,
}

impl Tapped {
    fn take(&mut self) -> Vec<u8> {
        let mut out = Vec::new();
        while self.session.send(&mut out).unwrap() > 0 {}
        self.tap.walk(Way::Sent, &out, Some(&mut self.facts));
        out
    }

    fn give(&mut self, bytes: &[u8], cut: usize) {
        for piece in bytes.chunks(cut) {
            self.tap.walk(Way::Received, piece, Some(&mut self.facts));
            self.session.receive(piece).unwrap();
        }
    }

    /// A client's DATA of at most `len` bytes, as far as the windows allow.
    fn data_within_windows(&mut self, stream: u32, len: usize, ends: bool) -> Vec<u8> {
        let window = self.tap.stream_window(Way::Received, stream).unwrap_or(0);
        let window = window.min(self.tap.connection_window(Way::Received));
        let most = usize::try_from(window).unwrap_or(0);
        let flags = if ends { END } else { 0 };
        frame(DATA, flags, stream, &bytes(len.min(most)))
    }

    /// Checks that the tap and nghttp2 agree on the windows of the connection and of some streams.
    fn check(&mut self) {
        let session = &mut self.session;
        let (to_send, to_receive) = (session.window_to_send(0), session.window_to_receive(0));
        assert_eq!(self.tap.connection_window(Way::Sent), i64::from(to_send));
        assert_eq!(
            self.tap.connection_window(Way::Received),
            i64::from(to_receive)
        );
        for stream in (1..40).step_by(2) {
            let sent = self.tap.stream_window(Way::Sent, stream);
            let received = self.tap.stream_window(Way::Received, stream);
            let known = session.window_to_send(stream);
            assert_eq!(sent.is_some(), known >= 0, "stream {stream} is open");
            // nghttp2 reports negative windows as 0.
            let floor = |window: Option<i64>| window.map_or(0, |window| window.max(0));
            assert_eq!(floor(sent), i64::from(known.max(0)), "stream {stream}");
            let known = session.window_to_receive(stream);
            assert_eq!(floor(received), i64::from(known), "stream {stream}");
        }
    }
}

/// What happens next; `bool` says whether the client does it.
#[derive(Clone, Debug)]
enum Act {
    Request,
    /// Up to this many bytes of a request's body, and whether they are the last.
    Upload(u32, usize, bool),
    Respond(u32, usize),
    Reset(bool, u32),
    Settings(bool, u32),
    Update(bool, u32, u32),
}

fn acts() -> impl Strategy<Value = Vec<Act>> {
    let stream = || (0u32..8).prop_map(|n| 2 * n + 1);
    let act = prop_oneof![
        4 => Just(Act::Request),
        6 => (stream(), 0usize..16_384, any::<bool>()).prop_map(|(s, n, ends)| Act::Upload(s, n, ends)),
        4 => (stream(), 0usize..60_000).prop_map(|(s, n)| Act::Respond(s, n)),
        1 => (any::<bool>(), stream()).prop_map(|(c, s)| Act::Reset(c, s)),
        1 => (any::<bool>(), 0u32..200_000).prop_map(|(c, n)| Act::Settings(c, n)),
        2 => (any::<bool>(), 0u32..8, 1u32..100_000)
            .prop_map(|(c, s, n)| Act::Update(c, (2 * s).saturating_sub(1), n)),
    ];
    prop::collection::vec(act, 1..60)
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(500))]

    #[test]
    fn the_taps_windows_match_nghttp2(acts in acts(), cut in 1usize..3000) {
        let mut server = Tapped {
            session: Session::server(Silent, &Options::default()).unwrap(),
            tap: FrameTap::new(Way::Received),
            facts: Vec::new(),
        };
        server.session.submit_settings(&[Setting::MaxConcurrentStreams(100)]).unwrap();
        let response = HeaderBlock::new([(":status", "200")]).unwrap();
        let (mut uploaded, mut answered) = (BTreeSet::new(), BTreeSet::new());
        let mut up = client_opening();
        let mut next = 1;
        for act in acts {
            let mut is_open = |stream| server.tap.stream_window(Way::Received, stream).is_some();
            match act {
                Act::Request => {
                    up.extend(frame(HEADERS, WHOLE, next, POST));
                    next += 2;
                }
                Act::Upload(stream, len, ends) => {
                    if is_open(stream) && !uploaded.contains(&stream) {
                        up.extend(server.data_within_windows(stream, len, ends));
                        if ends {
                            uploaded.insert(stream);
                        }
                    }
                }
                Act::Respond(stream, len) => {
                    let body = bytes(len);
                    if is_open(stream) && answered.insert(stream) {
                        server.session.submit_response(stream, &response, Body::Whole(&body)).unwrap();
                    }
                }
                Act::Reset(by_client, stream) => match (is_open(stream), by_client) {
                    (true, true) => up.extend(frame(RST_STREAM, 0, stream, &[0, 0, 0, 8])),
                    (true, false) => server.session.submit_reset(stream, 8).unwrap(),
                    (false, _) => {}
                },
                Act::Settings(true, window) => up.extend(setting(4, window)),
                Act::Settings(false, window) => {
                    let settings = [Setting::InitialWindowBytes(window)];
                    server.session.submit_settings(&settings).unwrap();
                }
                Act::Update(true, stream, increment) => {
                    if stream == 0 || is_open(stream) {
                        up.extend(frame(WINDOW_UPDATE, 0, stream, &increment.to_be_bytes()));
                    }
                }
                Act::Update(false, stream, increment) => {
                    let _ = server.session.submit_window_update(stream, increment);
                }
            }
            server.give(&up, cut);
            // nghttp2's windows include queued frames, which the tap sees only once they are sent.
            let down = server.take();
            server.check();
            server.give(&acknowledgements(&down), cut);
            up.clear();
        }
        prop_assert!(!server.facts.is_empty());
    }

    /// Facts do not depend on how the input is split, and their frames are contiguous.
    #[test]
    fn facts_do_not_depend_on_pieces(
        kinds in prop::collection::vec((0u8..12, any::<u8>(), 0u32..6, prop::collection::vec(any::<u8>(), 0..30)), 0..40),
        cuts in prop::collection::vec(1usize..50, 1..10),
    ) {
        let mut stream = CLIENT_PREFACE.to_vec();
        for (kind, flags, id, payload) in &kinds {
            stream.extend(frame(*kind, *flags, *id, payload));
        }
        for way in Way::ALL {
            let (mut whole, mut cut) = (FrameTap::new(way), FrameTap::new(way));
            let (mut at_once, mut piecemeal) = (Vec::new(), Vec::new());
            whole.walk(way, &stream, Some(&mut at_once));
            let mut rest = &stream[..];
            for len in cuts.iter().cycle() {
                if rest.is_empty() {
                    break;
                }
                let (piece, behind) = rest.split_at(rest.len().min(*len));
                cut.walk(way, piece, Some(&mut piecemeal));
                rest = behind;
            }
            prop_assert_eq!(at_once.len(), kinds.len());
            prop_assert_eq!(&at_once, &piecemeal);
            prop_assert_eq!(whole.settings_sent(), cut.settings_sent());
            let mut at = 24;
            for facts in &at_once {
                prop_assert_eq!(facts.offset, Some(at));
                at += 9 + facts.length;
            }
        }
    }
}

fn walk(walker: FrameWalker, bytes: &[u8]) -> Vec<Frame> {
    let (mut walker, mut frames) = (walker, Vec::new());
    walker.walk(bytes, |frame| frames.push(frame));
    frames
}

/// The SETTINGS acknowledgements with which a client answers these frames of a server.
fn acknowledgements(bytes: &[u8]) -> Vec<u8> {
    let frames = walk(FrameWalker::of_server(0), bytes).into_iter();
    let settings = frames.filter(|frame| frame.kind == FrameKind::SETTINGS && frame.flags == 0);
    let acknowledgement = frame(SETTINGS, ACK, 0, &[]);
    settings.flat_map(|_| acknowledgement.clone()).collect()
}

/// The extent of a stream's message, whose head takes several frames.
fn span(frames: &[Frame], stream: u32) -> (u64, u64) {
    let kinds = [FrameKind::HEADERS, FrameKind::CONTINUATION, FrameKind::DATA];
    let mine = frames.iter().filter(|f| f.stream == stream);
    let mine: Vec<_> = mine.filter(|f| kinds.contains(&f.kind)).collect();
    let continuations = mine.iter().filter(|f| f.kind == FrameKind::CONTINUATION);
    assert!(continuations.count() > 1);
    (mine[0].offset, mine[mine.len() - 1].end())
}

#[test]
fn event_offsets_match_their_frames() {
    // A head of three frames each way, and steps that split everything.
    let long = vec![("long".to_owned(), "x".repeat(40_000))];
    let request = |method, body| {
        Arc::new(Request::new(method, Scheme::Http, "a", "/", &long, bytes(body)).unwrap())
    };
    for body in [50_000, 0] {
        let mut pair = H2Pair::new(&Http2Settings::default(), &Http2Settings::default());
        pair.steps = vec![1, 7, 1000, 3];
        for request in [request("POST", 40_000), request("GET", 0)] {
            let stream = pair.submit(&request);
            pair.settle();
            let response = Response::new(200, &long, bytes(body)).unwrap();
            pair.respond(stream, &Arc::new(response));
            pair.settle();
        }
        let up = walk(FrameWalker::of_client(0), &pair.up);
        let down = walk(FrameWalker::of_server(0), &pair.down);
        for id in [1, 3] {
            let (first_up, end_up) = span(&up, id);
            let (first_down, end_down) = span(&down, id);
            let stream = StreamId(u64::from(id));
            let (offset, end) = (first_up, end_up);
            let sent = [
                ClientEvent::RequestFirstByteWritten { stream, offset },
                ClientEvent::RequestWritten { stream, end },
            ];
            let received = [
                ServerEvent::RequestFirstByte { stream, offset },
                ServerEvent::RequestEnd { stream, end },
            ];
            let (offset, end) = (first_down, end_down);
            let answered = [
                ServerEvent::ResponseFirstByteWritten { stream, offset },
                ServerEvent::ResponseWritten { stream, end },
            ];
            let heard = [
                ClientEvent::ResponseFirstByte { stream, offset },
                ClientEvent::ResponseEnd { stream, end },
            ];
            for event in sent.iter().chain(&heard) {
                assert!(pair.client_inbox.events.contains(event), "{event:?}");
            }
            for event in received.iter().chain(&answered) {
                assert!(pair.server_inbox.events.contains(event), "{event:?}");
            }
        }
    }
}

#[test]
fn both_sides_record_the_same_frames() {
    let mut pair = H2Pair::new(&Http2Settings::default(), &Http2Settings::default());
    pair.steps = vec![100, 1, 5000];
    let stream = pair.submit(&request("POST", 80_000));
    let streamed = pair.submit(&streamed_request(None));
    pair.settle();
    pair.respond(stream, &response(200, 80_000));
    pair.client.reset(streamed, 8);
    pair.settle();
    let facts = |frames: &[FrameFacts], way| -> Vec<_> {
        let mine = frames.iter().filter(|frame| frame.way == way);
        mine.map(|f| (f.kind, f.flags, f.stream, f.offset, f.length, f.value))
            .collect()
    };
    let (client, server) = (&pair.client_inbox.frames, &pair.server_inbox.frames);
    for way in Way::ALL {
        assert_eq!(facts(client, way), facts(server, way.opposite()));
    }
    let ours = pair.client.announced().sent;
    assert_eq!(ours, [(2, 0), (4, 65_535), (6, 65_536)]);
    assert_eq!(pair.server.announced().received, ours);
    assert_eq!(pair.server.announced().recent_received, [ours]);
    assert_eq!(
        pair.client.announced().received,
        [(3, 100), (4, 65_535), (6, 65_536)]
    );
    let reset = pair
        .client_inbox
        .frames
        .iter()
        .find(|frame| frame.kind == 3)
        .unwrap();
    assert_eq!(
        (reset.layer, reset.value, reset.length),
        (FrameLayer::Http2, Some(8), 4)
    );
}
