//! Every policy of window updates: which WINDOW_UPDATE frames a client sends for the DATA that it gets. A client's session
//! is our own; what a server sends, whose session is nghttp2's, is in `window_policies`.
// The helpers of these tests stop at the first surprise, as the tests themselves do.
#![allow(clippy::unwrap_used)]

mod common;

use common::h2::{ALL, H2Pair, frame, streamed_response};
use common::{request, response};
use squall_base::Bytes;
use squall_base::plan::{Http2Settings, WindowUpdates};
use squall_base::record::{FrameFacts, Way};
use squall_http::h2::Client;
use squall_http::{ClientEvent, Inbox, StreamId};

const CANCEL: u64 = 8;

fn settings(window_updates: WindowUpdates) -> Http2Settings {
    Http2Settings {
        window_updates,
        ..Http2Settings::default()
    }
}

fn pair(policy: WindowUpdates) -> H2Pair {
    let mut pair = H2Pair::new(&settings(policy), &Http2Settings::default());
    pair.settle();
    pair
}

/// A request whose answer has begun.
fn ask(pair: &mut H2Pair) -> StreamId {
    let stream = pair.submit(&request("GET", 0));
    pair.settle();
    let answer = streamed_response(None);
    pair.server.respond(stream, &answer).unwrap();
    pair.settle();
    stream
}

/// The answer to a request, whole.
fn get(pair: &mut H2Pair, len: usize) -> StreamId {
    let stream = pair.submit(&request("GET", 0));
    pair.settle();
    pair.server.respond(stream, &response(200, len)).unwrap();
    pair.settle();
    stream
}

/// The updates for DATA frames of these sizes on one stream.
fn updates(policy: WindowUpdates, sizes: &[usize]) -> Vec<(u64, u64)> {
    let mut pair = pair(policy);
    let stream = ask(&mut pair);
    for size in sizes {
        assert_eq!(pair.server.send_body(stream, &vec![0; *size]), *size);
        pair.settle();
    }
    pair.updates_of_client()
}

#[test]
fn half_gives_back_what_was_used_when_half_a_window_is() {
    let sizes = [16_000, 16_000, 1_000, 10_000, 16_000, 10_000];
    assert_eq!(
        updates(WindowUpdates::Half, &sizes),
        [(0, 33_000), (1, 33_000), (0, 36_000), (1, 36_000)]
    );
    // One byte less than half a window of 65,535 is not half of it.
    assert_eq!(updates(WindowUpdates::Half, &[16_384, 16_382]), []);
    let half = [(0, 32_767), (1, 32_767)];
    assert_eq!(updates(WindowUpdates::Half, &[16_384, 16_383]), half);
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

#[test]
fn never_means_that_the_first_windows_are_all() {
    let mut pair = pair(WindowUpdates::Never);
    get(&mut pair, 100_000);
    assert_eq!(pair.client_inbox.bodies.len(), 65_535);
    assert_eq!(pair.updates_of_client(), []);
}

#[test]
fn a_stream_that_has_ended_gets_no_update_but_the_connection_does() {
    let mut pair = pair(WindowUpdates::EachData(Bytes::new(100)));
    get(&mut pair, 500);
    assert_eq!(pair.updates_of_client(), [(0, 100)]);
}

#[test]
fn no_window_exceeds_its_largest() {
    let max = (1u64 << 31) - 1;
    let mut pair = pair(WindowUpdates::EachData(Bytes::new(max)));
    let stream = ask(&mut pair);
    for _ in 0..3 {
        pair.server.send_body(stream, &[0; 1_000]);
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
    assert_eq!(pair.updates_of_client(), expected);
    let full = |frame: &FrameFacts| frame.connection_window == Some(max as i64);
    assert!(pair.frames_of_client(8).iter().any(full));
}

#[test]
fn a_smaller_connection_window_is_what_the_peer_is_left_with() {
    let client = Http2Settings {
        connection_window: Bytes::new(10_000),
        ..settings(WindowUpdates::Half)
    };
    let mut pair = H2Pair::new(&client, &Http2Settings::default());
    pair.settle();
    get(&mut pair, 400_000);
    let updates = pair.updates_of_client();
    let of_connection = updates.iter().filter(|(stream, _)| *stream == 0);
    let sum: u64 = of_connection.map(|(_, increment)| increment).sum();
    assert_eq!(pair.client_inbox.bodies.len(), 400_000);
    // 65,535 bytes came first, and at most 10,000 were ever allowed beyond what was given back.
    let window = 65_535 + sum as i64 - 400_000;
    assert!((5_000..=10_000).contains(&window), "{window}");
}

#[test]
fn a_larger_connection_window_is_announced_once() {
    let client = Http2Settings {
        connection_window: Bytes::new(1_000_000),
        ..settings(WindowUpdates::Never)
    };
    let mut pair = H2Pair::new(&client, &Http2Settings::default());
    pair.settle();
    assert_eq!(pair.updates_of_client(), [(0, 1_000_000 - 65_535)]);
}

#[test]
fn what_the_owner_has_not_consumed_is_not_given_back() {
    let mut pair = pair(WindowUpdates::Half);
    pair.client.set_manual_consumption();
    let stream = get(&mut pair, 200_000);
    assert_eq!(pair.client_inbox.bodies.len(), 65_535);
    assert_eq!(pair.updates_of_client(), []);
    pair.client.consume(stream, 32_766);
    pair.settle();
    assert_eq!(pair.updates_of_client(), []);
    pair.client.consume(stream, 1);
    pair.settle();
    assert_eq!(pair.updates_of_client(), [(0, 32_767), (1, 32_767)]);
    // More than came is never given back.
    pair.client.consume(stream, u64::MAX);
    pair.client.consume(stream, 1);
    pair.client.consume(StreamId(77), 1_000_000);
    pair.settle();
    assert_eq!(pair.client_inbox.bodies.len(), 65_535 + 32_767 + 65_535);
}

#[test]
fn what_a_reset_leaves_unconsumed_is_given_back_to_the_connection() {
    let mut pair = pair(WindowUpdates::Half);
    pair.client.set_manual_consumption();
    for _ in 0..5 {
        let stream = ask(&mut pair);
        pair.server.send_body(stream, &[0; 40_000]);
        pair.settle();
        pair.client.reset(stream, CANCEL);
        pair.settle();
    }
    assert_eq!(pair.client_inbox.bodies.len(), 200_000);
}

#[test]
fn an_ended_stream_can_still_be_consumed() {
    let mut pair = pair(WindowUpdates::Half);
    pair.client.set_manual_consumption();
    for _ in 0..5 {
        let stream = get(&mut pair, 40_000);
        pair.client.consume(stream, 40_000);
        pair.settle();
    }
    assert_eq!(pair.client_inbox.bodies.len(), 200_000);
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
                get(&mut pair, 10_000);
            }
            let updates = pair.updates_of_client();
            let of_connection = updates.iter().filter(|(stream, _)| *stream == 0);
            assert_eq!(of_connection.map(|(_, n)| n).sum::<u64>(), expected);
        }
    }
}

/// A client whose answer on stream 1 has begun, and its updates for what follows.
fn updates_for(policy: WindowUpdates, frames: &[Vec<u8>]) -> Vec<(u64, u64)> {
    let mut client = Client::new(&settings(policy)).unwrap();
    let mut inbox = Inbox::<ClientEvent>::new(ALL);
    client.submit(&request("GET", 0)).unwrap();
    let take = |client: &mut Client, inbox: &mut Inbox<ClientEvent>| {
        let len = client.output().len();
        client.advance_output(len, inbox);
    };
    take(&mut client, &mut inbox);
    // ":status: 200" of HPACK's static table.
    let opening = [frame(4, 0, 0, &[]), frame(1, 4, 1, &[0x88])].concat();
    client.receive(&opening, &mut inbox).unwrap();
    for bytes in frames {
        client.receive(bytes, &mut inbox).unwrap();
        take(&mut client, &mut inbox);
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
    // Half a window is full with the 128th frame.
    let frames = vec![padded(1, 0); 300];
    let expected = [(0, 32_768), (1, 32_768), (0, 32_768), (1, 32_768)];
    assert_eq!(updates_for(WindowUpdates::Half, &frames), expected);
}

#[test]
fn data_of_streams_that_are_gone_counts_for_the_connection_once() {
    let gone = frame(3, 0, 1, &[0, 0, 0, 8]);
    let data = vec![frame(0, 0, 1, &[0; 10_000]); 10];
    let updates = updates_for(WindowUpdates::Half, &[vec![gone], data].concat());
    assert_eq!(updates, [(0, 40_000), (0, 40_000)]);
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
