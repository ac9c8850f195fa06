//! Every window update policy: which WINDOW_UPDATE frames each side sends for the DATA it receives. The client's
//! session is our own, the server's is nghttp2's; the tests mark where they may differ.
// Test helpers may panic, like the tests themselves.
#![allow(clippy::unwrap_used)]

use squall_base::plan::{Http2Settings, WindowUpdates, find_preset};
use squall_base::record::{FrameFacts, Way};
use squall_base::{Bytes, Side};
use squall_http::h2::{Client, Server};
use squall_http::{ClientEvent, Engine, Inbox, ServerEvent, StreamId, StreamIo};

use crate::common::h2::{
    ALL, H2Pair, POST, client_opening, frame, streamed_request, streamed_response,
};
use crate::common::{request, response, take_output};

const CANCEL: u64 = 8;

fn settings(window_updates: WindowUpdates) -> Http2Settings {
    Http2Settings {
        window_updates,
        ..Http2Settings::default()
    }
}

/// A pair in which `side` receives DATA: a client receives responses, a server receives requests.
struct Getter {
    side: Side,
    pair: H2Pair,
}

impl Getter {
    fn new(side: Side, settings: &Http2Settings) -> Getter {
        let other = Http2Settings::default();
        let mut pair = match side {
            Side::Client => H2Pair::new(settings, &other),
            Side::Server => H2Pair::new(&other, settings),
        };
        pair.settle();
        Getter { side, pair }
    }

    /// Opens a stream whose body is sent piece by piece.
    fn open(&mut self) -> StreamId {
        let stream = match self.side {
            Side::Client => {
                let stream = self.pair.submit(&request("GET", 0));
                self.pair.settle();
                let answer = streamed_response(None);
                self.pair.respond(stream, &answer);
                stream
            }
            Side::Server => self.pair.submit(&streamed_request(None)),
        };
        self.pair.settle();
        stream
    }

    /// Sends `len` bytes of an open stream's body at once.
    fn send(&mut self, stream: StreamId, len: usize) {
        let body = vec![0; len];
        let taken = match self.side {
            Side::Client => self.pair.server.send_body(stream, &body),
            Side::Server => self.pair.client.send_body(stream, &body),
        };
        assert_eq!(taken, len);
        self.pair.settle();
    }

    /// Sends a complete message with a body, as far as the windows allow.
    fn get(&mut self, len: usize) -> StreamId {
        let stream = match self.side {
            Side::Client => self.pair.submit(&request("GET", 0)),
            Side::Server => self.pair.submit(&request("POST", len)),
        };
        self.pair.settle();
        if self.side == Side::Client {
            self.answer(stream, len);
        }
        stream
    }

    /// Sends a complete message with a body, and ends the exchange.
    fn get_and_end(&mut self, len: usize) -> StreamId {
        let stream = self.get(len);
        if self.side == Side::Server {
            self.answer(stream, 0);
        }
        stream
    }

    fn answer(&mut self, stream: StreamId, len: usize) {
        let answer = response(200, len);
        self.pair.respond(stream, &answer);
        self.pair.settle();
    }

    fn set_manual_consumption(&mut self) {
        match self.side {
            Side::Client => self.pair.client.set_manual_consumption(),
            Side::Server => self.pair.server.set_manual_consumption(),
        }
    }

    fn consume(&mut self, stream: StreamId, bytes: u64) {
        match self.side {
            Side::Client => self.pair.client.consume(stream, bytes),
            Side::Server => self.pair.server.consume(stream, bytes),
        }
        self.pair.settle();
    }

    /// How many body bytes were received on all streams.
    fn got(&self) -> usize {
        match self.side {
            Side::Client => self.pair.client_inbox.bodies.len(),
            Side::Server => self.pair.server_inbox.bodies.len(),
        }
    }

    /// Streams and increments, in the order they were sent.
    fn updates(&self) -> Vec<(u64, u64)> {
        match self.side {
            Side::Client => self.pair.updates_of_client(),
            Side::Server => self.pair.updates_of_server(),
        }
    }

    fn update_frames(&self) -> Vec<FrameFacts> {
        match self.side {
            Side::Client => self.pair.frames_of_client(8),
            Side::Server => self.pair.frames_of_server(8),
        }
    }
}

/// The sum of the increments for a stream, or for the connection.
fn sum(updates: &[(u64, u64)], of: u64) -> u64 {
    let of_it = updates.iter().filter(|(stream, _)| *stream == of);
    of_it.map(|(_, increment)| increment).sum()
}

/// The updates for DATA frames of these sizes on one stream, without those at the start of the connection.
fn updates(side: Side, settings: &Http2Settings, sizes: &[usize]) -> Vec<(u64, u64)> {
    let mut getter = Getter::new(side, settings);
    let opening = getter.updates().len();
    let stream = getter.open();
    for size in sizes {
        getter.send(stream, *size);
    }
    getter.updates().split_off(opening)
}

/// Checks the updates on either side.
fn check_updates(policy: WindowUpdates, sizes: &[usize], expected: &[(u64, u64)]) {
    for side in Side::ALL {
        let found = updates(side, &settings(policy), sizes);
        assert_eq!(found, expected, "{side:?}");
    }
}

/// Each increment for the connection and for the stream, the connection first.
fn both(increments: &[u64]) -> Vec<(u64, u64)> {
    let each = increments.iter().flat_map(|by| [(0, *by), (1, *by)]);
    each.collect()
}

#[test]
fn policy_named_half_returns_used_bytes_once_half_the_window_is_used() {
    let sizes = [16_000, 16_000, 1_000, 10_000, 16_000, 10_000];
    check_updates(WindowUpdates::Half, &sizes, &both(&[33_000, 36_000]));
    // One byte less than half a window of 65,535 does not trigger an update.
    check_updates(WindowUpdates::Half, &[16_384, 16_382], &[]);
    check_updates(WindowUpdates::Half, &[16_384, 16_383], &both(&[32_767]));
}

#[test]
fn policy_named_every_returns_multiples_of_its_amount() {
    let every = WindowUpdates::Every(Bytes::new(5_000));
    let expected = both(&[5_000, 10_000, 5_000]);
    check_updates(every, &[4_999, 1, 12_000, 3_000], &expected);
}

#[test]
fn policy_named_each_data_returns_a_fixed_amount_per_frame() {
    let each = WindowUpdates::EachData(Bytes::new(1_000));
    check_updates(each, &[1, 16_000], &both(&[1_000; 2]));
}

#[test]
fn a_grant_is_sent_with_the_first_data_and_when_used_up() {
    let grant = WindowUpdates::Grant(Bytes::new(20_000));
    check_updates(grant, &[1, 16_000, 3_999, 1], &both(&[20_000; 2]));
}

/// The behaviour that docs/RECIPES.md states for programs whose policy is not nghttp2's. Sizes are those of DATA
/// frames.
#[test]
fn presets_update_windows_as_their_programs_do() {
    let of_preset = |name, sizes: &[usize]| {
        let preset = find_preset(name, Side::Server).unwrap().http2;
        updates(Side::Server, &preset, sizes)
    };
    let sizes = [1_000, 16_000, 100];
    // HAProxy returns each frame's bytes right after it.
    assert_eq!(of_preset("haproxy", &sizes), both(&[1_000, 16_000, 100]));
    // Cowboy grants the amount its handler requests, long before the initial window is used up.
    let granted = both(&[8_000_000]);
    assert_eq!(of_preset("cowboy", &sizes), granted);
    assert_eq!(of_preset("cowboy", &[16_000; 499]), granted);
    // After 8,000,000 bytes it does so again.
    let more = [16_000; 501];
    assert_eq!(of_preset("cowboy", &more), both(&[8_000_000; 2]));
    // The load balancer returns 16,375 for each frame; Go and Tomcat return whole multiples of their amounts.
    assert_eq!(of_preset("alb", &sizes), both(&[16_375; 3]));
    assert_eq!(of_preset("go", &sizes), both(&[4 * 4_096]));
    assert_eq!(of_preset("tomcat", &sizes), both(&[16 * 1_025]));
    // nginx and h2o raise the stream's window once, to their maximum.
    let nginx = (1, (1 << 31) - 1 - 65_536);
    assert!(of_preset("nginx", &sizes).contains(&nginx));
    let h2o = (1, 16 * 1_024 * 1_024 - 65_535);
    assert!(of_preset("h2o", &sizes).contains(&h2o));
}

#[test]
fn policy_named_never_allows_only_the_initial_windows() {
    for side in Side::ALL {
        let mut getter = Getter::new(side, &settings(WindowUpdates::Never));
        getter.get(100_000);
        assert_eq!(getter.got(), 65_535, "{side:?}");
        assert_eq!(getter.updates(), [], "{side:?}");
    }
}

#[test]
fn after_a_stream_ends_only_the_connection_is_updated() {
    for side in Side::ALL {
        let each = WindowUpdates::EachData(Bytes::new(100));
        let mut getter = Getter::new(side, &settings(each));
        getter.get(500);
        assert_eq!(getter.updates(), [(0, 100)], "{side:?}");
    }
}

#[test]
fn no_window_exceeds_the_maximum() {
    let max = (1u64 << 31) - 1;
    for side in Side::ALL {
        let each = WindowUpdates::EachData(Bytes::new(max));
        let mut getter = Getter::new(side, &settings(each));
        let stream = getter.open();
        for _ in 0..3 {
            getter.send(stream, 1_000);
        }
        let first = max - 65_535 + 1_000;
        let expected = both(&[first, 1_000, 1_000]);
        assert_eq!(getter.updates(), expected, "{side:?}");
        let full = |frame: &FrameFacts| frame.connection_window == Some(max as i64);
        assert!(getter.update_frames().iter().any(full), "{side:?}");
    }
}

#[test]
fn a_smaller_connection_window_limits_the_peer() {
    for side in Side::ALL {
        let small = Http2Settings {
            connection_window: Bytes::new(10_000),
            ..settings(WindowUpdates::Half)
        };
        let mut getter = Getter::new(side, &small);
        getter.get(400_000);
        assert_eq!(getter.got(), 400_000, "{side:?}");
        // The initial 65,535 bytes come first; after that the peer never has more than 10,000 bytes of window.
        let window = 65_535 + sum(&getter.updates(), 0) as i64 - 400_000;
        assert!((5_000..=10_000).contains(&window), "{side:?}: {window}");
    }
}

#[test]
fn a_larger_connection_window_is_announced_once() {
    for side in Side::ALL {
        let large = Http2Settings {
            connection_window: Bytes::new(1_000_000),
            ..settings(WindowUpdates::Never)
        };
        let getter = Getter::new(side, &large);
        assert_eq!(getter.updates(), [(0, 1_000_000 - 65_535)], "{side:?}");
    }
}

#[test]
fn unconsumed_bytes_are_not_returned() {
    for side in Side::ALL {
        let mut getter = Getter::new(side, &settings(WindowUpdates::Half));
        getter.set_manual_consumption();
        let stream = getter.get(200_000);
        assert_eq!(getter.got(), 65_535, "{side:?}");
        assert_eq!(getter.updates(), [], "{side:?}");
        getter.consume(stream, 32_766);
        assert_eq!(getter.updates(), [], "{side:?}");
        getter.consume(stream, 1);
        assert_eq!(getter.updates(), both(&[32_767]), "{side:?}");
        // Never returns more than was received.
        getter.consume(stream, u64::MAX);
        getter.consume(stream, 1);
        getter.consume(StreamId(77), 1_000_000);
        assert_eq!(getter.got(), 65_535 + 32_767 + 65_535, "{side:?}");
    }
}

#[test]
fn unconsumed_bytes_of_a_reset_stream_return_to_the_connection() {
    for side in Side::ALL {
        let mut getter = Getter::new(side, &settings(WindowUpdates::Half));
        getter.set_manual_consumption();
        for _ in 0..5 {
            let stream = getter.open();
            getter.send(stream, 40_000);
            getter.pair.client.reset(stream, CANCEL);
            getter.pair.settle();
        }
        assert_eq!(getter.got(), 200_000, "{side:?}");
    }
}

#[test]
fn bytes_of_an_ended_stream_can_still_be_consumed() {
    for side in Side::ALL {
        let mut getter = Getter::new(side, &settings(WindowUpdates::Half));
        getter.set_manual_consumption();
        for _ in 0..5 {
            let stream = getter.get_and_end(40_000);
            getter.consume(stream, 40_000);
        }
        assert_eq!(getter.got(), 200_000, "{side:?}");
    }
}

#[test]
fn returned_bytes_do_not_depend_on_input_pieces() {
    let (every, grant) = (Bytes::new(1), Bytes::new(1_000));
    for (policy, expected) in [
        (WindowUpdates::Every(every), 4_000),
        (WindowUpdates::Grant(grant), 5_000),
    ] {
        for steps in [vec![1], vec![5, 9, 1000], vec![usize::MAX]] {
            for side in Side::ALL {
                let mut getter = Getter::new(side, &settings(policy));
                getter.pair.steps = steps.clone();
                for _ in 0..10 {
                    getter.get_and_end(400);
                }
                assert_eq!(sum(&getter.updates(), 0), expected, "{side:?}");
            }
        }
    }
}

/// The updates that a side sends for these frames, once the peer's message has begun on stream 1.
fn updates_for(side: Side, policy: WindowUpdates, frames: &[Vec<u8>]) -> Vec<(u64, u64)> {
    let sent = match side {
        Side::Client => frames_of_client(policy, frames),
        Side::Server => frames_of_server(policy, frames),
    };
    let updates = sent.iter().filter(|f| f.way == Way::Sent && f.kind == 8);
    updates
        .map(|f| (f.stream.unwrap(), f.value.unwrap()))
        .collect()
}

fn frames_of_client(policy: WindowUpdates, frames: &[Vec<u8>]) -> Vec<FrameFacts> {
    let mut client = Client::new(&settings(policy)).unwrap();
    let mut inbox = Inbox::<ClientEvent>::new(ALL);
    client.submit(&request("GET", 0)).unwrap();
    take_output(&mut client, &mut inbox);
    // ":status: 200" from HPACK's static table.
    let opening = [frame(4, 0, 0, &[]), frame(1, 4, 1, &[0x88])].concat();
    client.receive(&opening, &mut inbox).unwrap();
    for bytes in frames {
        client.receive(bytes, &mut inbox).unwrap();
        take_output(&mut client, &mut inbox);
    }
    inbox.frames
}

fn frames_of_server(policy: WindowUpdates, frames: &[Vec<u8>]) -> Vec<FrameFacts> {
    let mut server = Server::new(&settings(policy)).unwrap();
    let mut inbox = Inbox::<ServerEvent>::new(ALL);
    let opening = [client_opening(), frame(1, 4, 1, POST)].concat();
    server.receive(&opening, &mut inbox).unwrap();
    for bytes in frames {
        server.receive(bytes, &mut inbox).unwrap();
        take_output(&mut server, &mut inbox);
    }
    inbox.frames
}

/// Checks the `sum` of updates after `bytes` were received, if used bytes are returned whenever they fill half a
/// window: less than half a window may be missing.
fn check_given_back(side: Side, sum: u64, bytes: u64) {
    let half = 32_768;
    assert!((bytes - half..=bytes).contains(&sum), "{side:?}: {sum}");
}

/// DATA of `len` bytes with maximum padding: 256 bytes with its length.
fn padded(stream: u32, len: usize) -> Vec<u8> {
    let payload = [&[255][..], &vec![0; len + 255]].concat();
    frame(0, 8, stream, &payload)
}

#[test]
fn padding_counts_against_windows() {
    let every = WindowUpdates::Every(Bytes::new(300));
    let frames = [padded(1, 44), padded(1, 0), padded(1, 44)];
    for side in Side::ALL {
        let found = updates_for(side, every, &frames);
        assert_eq!(found, both(&[300; 2]), "{side:?}");
    }
    // For frames of nothing but padding nghttp2 returns bytes on its own, but never twice.
    let frames = vec![padded(1, 0); 300];
    for side in Side::ALL {
        let found = updates_for(side, WindowUpdates::Half, &frames);
        check_given_back(side, sum(&found, 0), 300 * 256);
        check_given_back(side, sum(&found, 1), 300 * 256);
    }
    // The 128th frame fills half a window.
    let found = updates_for(Side::Client, WindowUpdates::Half, &frames);
    assert_eq!(found, both(&[32_768; 2]));
}

#[test]
fn data_of_closed_streams_counts_once_for_the_connection() {
    let gone = frame(3, 0, 1, &[0, 0, 0, 8]);
    let data = vec![frame(0, 0, 1, &[0; 10_000]); 10];
    let frames = [vec![gone], data].concat();
    for side in Side::ALL {
        let found = updates_for(side, WindowUpdates::Half, &frames);
        assert_eq!(sum(&found, 1), 0, "{side:?}");
        check_given_back(side, sum(&found, 0), 100_000);
    }
    let found = updates_for(Side::Client, WindowUpdates::Half, &frames);
    assert_eq!(found, [(0, 40_000), (0, 40_000)]);
}

#[test]
fn a_flood_of_data_frames_causes_no_flood_of_updates() {
    let each = WindowUpdates::EachData(Bytes::new(10));
    let tiny = frame(0, 0, 1, &[0]).repeat(6_000);
    let frames = [tiny, frame(0, 0, 1, &[0])];
    for side in Side::ALL {
        let found = updates_for(side, each, &frames);
        assert!(found.len() < 1_100, "{side:?}: {}", found.len());
        for stream in [0, 1] {
            assert_eq!(sum(&found, stream), 60_010, "{side:?}");
        }
    }
}
