//! Every policy of window updates: which WINDOW_UPDATE frames a server sends for the DATA that it gets.
// The helpers of these tests stop at the first surprise, as the tests themselves do.
#![allow(clippy::unwrap_used)]

mod common;

use common::h2::{ALL, H2Pair, frame, streamed_request};
use common::request;
use squall_base::Bytes;
use squall_base::Side;
use squall_base::plan::{Http2Settings, WindowUpdates, find_preset};
use squall_base::record::{FrameFacts, Way};
use squall_http::frames::CLIENT_PREFACE;
use squall_http::h2::Server;
use squall_http::{Inbox, ServerEvent, StreamId};

fn settings(window_updates: WindowUpdates) -> Http2Settings {
    Http2Settings {
        window_updates,
        ..Http2Settings::default()
    }
}

fn pair(policy: WindowUpdates) -> H2Pair {
    let mut pair = H2Pair::new(&Http2Settings::default(), &settings(policy));
    pair.settle();
    pair
}

/// The updates for DATA frames of these sizes on one stream.
fn updates(policy: WindowUpdates, sizes: &[usize]) -> Vec<(u64, u64)> {
    let mut pair = pair(policy);
    let stream = pair.submit(&streamed_request(None));
    for size in sizes {
        assert_eq!(pair.client.send_body(stream, &vec![0; *size]), *size);
        pair.settle();
    }
    pair.updates_of_server()
}

#[test]
fn half_gives_back_what_was_used_when_half_a_window_is() {
    let sizes = [16_000, 16_000, 1_000, 10_000, 16_000, 10_000];
    assert_eq!(
        updates(WindowUpdates::Half, &sizes),
        [(0, 33_000), (1, 33_000), (0, 36_000), (1, 36_000)]
    );
}

#[test]
fn every_gives_back_round_amounts() {
    let every = WindowUpdates::Every(Bytes::new(5_000));
    let expected = [(0, 5_000), (1, 5_000), (0, 10_000), (1, 10_000)];
    let sizes = [4_999, 1, 12_000, 3_000];
    assert_eq!(
        updates(every, &sizes),
        [&expected[..], &expected[..2]].concat()
    );
}

#[test]
fn each_data_frame_gets_the_same_whatever_its_size() {
    let each = WindowUpdates::EachData(Bytes::new(1_000));
    let expected = [(0, 1_000), (1, 1_000), (0, 1_000), (1, 1_000)];
    assert_eq!(updates(each, &[1, 16_000]), expected);
}

#[test]
fn a_grant_comes_with_the_first_data_and_when_it_is_used_up() {
    let grant = WindowUpdates::Grant(Bytes::new(20_000));
    let expected = [(0, 20_000), (1, 20_000), (0, 20_000), (1, 20_000)];
    assert_eq!(updates(grant, &[1, 16_000, 3_999, 1]), expected);
}

/// The updates of a server with a program's preset, as [`updates`].
fn of_preset(name: &str, sizes: &[usize]) -> Vec<(u64, u64)> {
    let preset = find_preset(name, Side::Server).unwrap().http2;
    let mut pair = H2Pair::new(&Http2Settings::default(), &preset);
    pair.settle();
    let opening = pair.updates_of_server().len();
    let stream = pair.submit(&streamed_request(None));
    for size in sizes {
        assert_eq!(pair.client.send_body(stream, &vec![0; *size]), *size);
        pair.settle();
    }
    pair.updates_of_server().split_off(opening)
}

/// What docs/RECIPES.md says of the programs whose policy is not nghttp2's own. Sizes are of DATA frames.
#[test]
fn presets_update_windows_as_their_programs_do() {
    let sizes = [1_000, 16_000, 100];
    // HAProxy gives each frame back behind it.
    let each = [1_000, 1_000, 16_000, 16_000, 100, 100];
    // Both for the connection and the stream, the connection first.
    let both = |increments: &[u64]| -> Vec<(u64, u64)> {
        let numbered = increments.iter().enumerate();
        numbered.map(|(n, by)| (n as u64 % 2, *by)).collect()
    };
    assert_eq!(of_preset("haproxy", &sizes), both(&each));
    // Cowboy grants what its handler asks for, long before the first window is used up.
    let granted = both(&[8_000_000; 2]);
    assert_eq!(of_preset("cowboy", &sizes), granted);
    let much = [16_000; 499];
    assert_eq!(of_preset("cowboy", &much), granted);
    // Behind 8,000,000 bytes it does so again.
    let more = [16_000; 501];
    assert_eq!(of_preset("cowboy", &more), both(&[8_000_000; 4]));
    // The balancer gives 16,375 for each frame; Go's and Tomcat's amounts come in whole multiples.
    assert_eq!(of_preset("alb", &sizes), both(&[16_375; 6]));
    assert_eq!(of_preset("go", &sizes), both(&[4 * 4_096; 2]));
    assert_eq!(of_preset("tomcat", &sizes), both(&[16 * 1_025; 2]));
    // nginx and h2o raise the stream's window once, as far as they go.
    let nginx = (1, (1 << 31) - 1 - 65_536);
    assert!(of_preset("nginx", &sizes).contains(&nginx));
    let h2o = (1, 16 * 1_024 * 1_024 - 65_535);
    assert!(of_preset("h2o", &sizes).contains(&h2o));
}

#[test]
fn never_means_that_the_first_windows_are_all() {
    let mut pair = pair(WindowUpdates::Never);
    pair.submit(&request("POST", 100_000));
    pair.settle();
    assert_eq!(pair.server_inbox.bodies.len(), 65_535);
    assert_eq!(pair.updates_of_server(), []);
}

#[test]
fn a_stream_that_has_ended_gets_no_update_but_the_connection_does() {
    let mut pair = pair(WindowUpdates::EachData(Bytes::new(100)));
    pair.submit(&request("POST", 500));
    pair.settle();
    assert_eq!(pair.updates_of_server(), [(0, 100)]);
}

#[test]
fn no_window_exceeds_its_largest() {
    let max = (1u64 << 31) - 1;
    let mut pair = pair(WindowUpdates::EachData(Bytes::new(max)));
    let stream = pair.submit(&streamed_request(None));
    for _ in 0..3 {
        pair.client.send_body(stream, &[0; 1_000]);
        pair.settle();
    }
    let first = max - 65_535 + 1_000;
    let expected = [
        (0, first),
        (1, first),
        (0, 1_000),
        (1, 1_000),
        (0, 1_000),
        (1, 1_000),
    ];
    assert_eq!(pair.updates_of_server(), expected);
    let full = |frame: &FrameFacts| frame.connection_window == Some(max as i64);
    assert!(pair.frames_of_server(8).iter().any(full));
}

#[test]
fn a_smaller_connection_window_is_what_the_peer_is_left_with() {
    let server = Http2Settings {
        connection_window: Bytes::new(10_000),
        ..settings(WindowUpdates::Half)
    };
    let mut pair = H2Pair::new(&Http2Settings::default(), &server);
    pair.settle();
    pair.submit(&request("POST", 400_000));
    pair.settle();
    let updates = pair.updates_of_server();
    let of_connection = updates.iter().filter(|(stream, _)| *stream == 0);
    let sum: u64 = of_connection.map(|(_, increment)| increment).sum();
    assert_eq!(pair.server_inbox.bodies.len(), 400_000);
    // 65,535 bytes came first, and at most 10,000 were ever allowed beyond what was given back.
    let window = 65_535 + sum as i64 - 400_000;
    assert!((5_000..=10_000).contains(&window), "{window}");
}

#[test]
fn a_larger_connection_window_is_announced_once() {
    let server = Http2Settings {
        connection_window: Bytes::new(1_000_000),
        ..settings(WindowUpdates::Never)
    };
    let mut pair = H2Pair::new(&Http2Settings::default(), &server);
    pair.settle();
    assert_eq!(pair.updates_of_server(), [(0, 1_000_000 - 65_535)]);
}

#[test]
fn what_the_owner_has_not_consumed_is_not_given_back() {
    let mut pair = pair(WindowUpdates::Half);
    pair.server.set_manual_consumption();
    let stream = pair.submit(&request("POST", 200_000));
    pair.settle();
    assert_eq!(pair.server_inbox.bodies.len(), 65_535);
    assert_eq!(pair.updates_of_server(), []);
    pair.server.consume(stream, 32_766);
    pair.settle();
    assert_eq!(pair.updates_of_server(), []);
    pair.server.consume(stream, 1);
    pair.settle();
    assert_eq!(pair.updates_of_server(), [(0, 32_767), (1, 32_767)]);
    // More than came is never given back.
    pair.server.consume(stream, u64::MAX);
    pair.server.consume(stream, 1);
    pair.server.consume(StreamId(77), 1_000_000);
    pair.settle();
    assert_eq!(pair.server_inbox.bodies.len(), 65_535 + 32_767 + 65_535);
}

#[test]
fn what_a_reset_leaves_unconsumed_is_given_back_to_the_connection() {
    let mut pair = pair(WindowUpdates::Half);
    pair.server.set_manual_consumption();
    for _ in 0..5 {
        let stream = pair.submit(&streamed_request(None));
        pair.client.send_body(stream, &[0; 40_000]);
        pair.settle();
        pair.client.reset(stream, 8);
        pair.settle();
    }
    assert_eq!(pair.server_inbox.bodies.len(), 200_000);
}

#[test]
fn an_ended_stream_can_still_be_consumed() {
    let mut pair = pair(WindowUpdates::Half);
    pair.server.set_manual_consumption();
    for _ in 0..5 {
        let stream = pair.submit(&request("POST", 40_000));
        pair.settle();
        pair.server
            .respond(stream, &common::response(200, 0))
            .unwrap();
        pair.settle();
        pair.server.consume(stream, 40_000);
        pair.settle();
    }
    assert_eq!(pair.server_inbox.bodies.len(), 200_000);
}

#[test]
fn what_is_given_back_does_not_depend_on_how_bytes_come() {
    let (every, grant) = (Bytes::new(1), Bytes::new(1_000));
    for (policy, expected) in [
        (WindowUpdates::Every(every), 100_000),
        (WindowUpdates::Grant(grant), 101_000),
    ] {
        for steps in [vec![1], vec![5, 9, 1000], vec![usize::MAX]] {
            let mut pair = pair(policy);
            pair.steps = steps;
            for _ in 0..10 {
                let stream = pair.submit(&request("POST", 10_000));
                pair.settle();
                let answer = common::response(200, 0);
                pair.server.respond(stream, &answer).unwrap();
                pair.settle();
            }
            let updates = pair.updates_of_server();
            let of_connection = updates.iter().filter(|(stream, _)| *stream == 0);
            assert_eq!(of_connection.map(|(_, n)| n).sum::<u64>(), expected);
        }
    }
}

/// A server with an open POST on stream 1, and its updates for what follows.
fn updates_for(policy: WindowUpdates, frames: &[Vec<u8>]) -> Vec<(u64, u64)> {
    let mut server = Server::new(&settings(policy)).unwrap();
    let mut inbox = Inbox::<ServerEvent>::new(ALL);
    // ":method: POST, :scheme: http, :path: /" of HPACK's static table, and ":authority: a".
    let head = frame(1, 4, 1, &[0x83, 0x86, 0x84, 0x41, 1, b'a']);
    let opening = [&CLIENT_PREFACE[..], &frame(4, 0, 0, &[]), &head].concat();
    server.receive(&opening, &mut inbox).unwrap();
    for bytes in frames {
        server.receive(bytes, &mut inbox).unwrap();
        let len = server.output().len();
        server.advance_output(len, &mut inbox);
    }
    let updates = inbox
        .frames
        .iter()
        .filter(|f| f.way == Way::Sent && f.kind == 8);
    updates
        .map(|f| (f.stream.unwrap(), f.value.unwrap()))
        .collect()
}

/// DATA of `len` bytes and as many of padding as fit, 256 with their length.
fn padded(stream: u32, len: usize) -> Vec<u8> {
    let payload = [&[255][..], &vec![0; len + 255]].concat();
    frame(0, 8, stream, &payload)
}

#[test]
fn padding_counts() {
    let every = WindowUpdates::Every(Bytes::new(300));
    let frames = [padded(1, 44), padded(1, 0), padded(1, 44)];
    let expected = [(0, 300), (1, 300), (0, 300), (1, 300)];
    assert_eq!(updates_for(every, &frames), expected);
    // Of nothing but padding nghttp2 gives back half a window by itself: never twice.
    let frames = vec![padded(1, 0); 300];
    let updates = updates_for(WindowUpdates::Half, &frames);
    for stream in [0, 1] {
        let of_stream = updates.iter().filter(|(of, _)| *of == stream);
        let sum: u64 = of_stream.map(|(_, increment)| increment).sum();
        assert!((300 * 256 - 32_768..=300 * 256).contains(&sum), "{sum}");
    }
}

#[test]
fn data_of_streams_that_are_gone_counts_for_the_connection_once() {
    let gone = frame(3, 0, 1, &[0, 0, 0, 8]);
    let data = vec![frame(0, 0, 1, &[0; 10_000]); 10];
    let updates = updates_for(WindowUpdates::Half, &[vec![gone], data].concat());
    assert!(updates.iter().all(|(stream, _)| *stream == 0));
    let sum: u64 = updates.iter().map(|(_, increment)| increment).sum();
    assert!((100_000 - 32_768..=100_000).contains(&sum), "{sum}");
}

#[test]
fn a_crowd_of_data_frames_does_not_make_a_crowd_of_updates_at_once() {
    let each = WindowUpdates::EachData(Bytes::new(10));
    let tiny = frame(0, 0, 1, &[0]).repeat(6_000);
    let updates = updates_for(each, &[tiny, frame(0, 0, 1, &[0])]);
    assert!(updates.len() < 1_100, "{}", updates.len());
    for stream in [0, 1] {
        let of_stream = updates.iter().filter(|(of, _)| *of == stream);
        assert_eq!(of_stream.map(|(_, n)| n).sum::<u64>(), 60_010);
    }
}
