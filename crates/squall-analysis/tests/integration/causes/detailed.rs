//! Requests with their connections in full: lost and repeated packets, acknowledgements, blocked windows, frames.

use squall_analysis::causes::{PathInputs, PathShape};
use squall_analysis::detail::{ChosenRequests, DetailBuilder, TrialDetail};
use squall_base::Duration;
use squall_base::plan::Protocol;
use squall_base::record::{Cause, FrameFacts, Side, SocketRecord, SocketSample, TrialRecord, Way};

use super::explained::{blocked, hop};
use super::world::{
    ConnectionStream, DELAY, Delivered, Down, LossDrop, MSS, READ, Times, Up, World, clear, frame,
    time,
};
use crate::support;

const AT: u64 = 1_000_000;
/// When the server begins to answer.
const ANSWER: u64 = AT + DELAY + READ;

/// The details of these requests.
fn detailed(world: &World, requests: &[u64]) -> TrialDetail {
    let mut inputs = PathInputs::new(PathShape::direct(&hop()));
    world
        .requests
        .iter()
        .for_each(|row| inputs.add_request(row));
    world
        .exchanges
        .iter()
        .for_each(|row| inputs.add_exchange(row));
    world.frames.iter().for_each(|row| inputs.add_frame(row));
    world.packets.iter().for_each(|row| inputs.add_packet(row));
    world.sockets.iter().for_each(|row| inputs.add_socket(row));
    let reason = |request: &u64| (*request, vec!["a test asked for it".to_owned()]);
    let chosen: ChosenRequests = requests.iter().map(reason).collect();
    let record: TrialRecord = support::record(&support::plan(1).trials[0]);
    let mut builder = DetailBuilder::new(&record, &world.requests, inputs, &chosen);
    world.frames.iter().for_each(|row| builder.add_frame(row));
    world.sockets.iter().for_each(|row| builder.add_socket(row));
    builder.finish()
}

/// A response of three segments. The second is lost, and retransmitted 100 ms later.
fn with_a_loss() -> World {
    with_a_loss_on(0, AT)
}

/// Like [`with_a_loss`], on a connection that was opened at this time, for a request that was due at that time.
fn with_a_loss_on(opened: u64, due: u64) -> World {
    let mut world = World::default();
    world.handshake(0, opened);
    world.request(due, ConnectionStream(0, 1));
    world.bytes(Up, 0, AT, (0, 100), Delivered);
    world.bytes(Down, 0, ANSWER, (0, MSS), Delivered);
    world.bytes(Down, 0, ANSWER + 100, (MSS, 2 * MSS), LossDrop);
    world.bytes(Down, 0, ANSWER + 200, (2 * MSS, 3 * MSS), Delivered);
    world.ack(Up, 0, ANSWER + DELAY, MSS);
    let again = ANSWER + 100_000;
    world.bytes(Down, 0, again, (MSS, 2 * MSS), Delivered);
    world.ack(Up, 0, again + DELAY, 3 * MSS);
    let times = Times {
        written: AT,
        received: ANSWER,
        answered: ANSWER,
        answered_last: ANSWER,
        end: again + DELAY + READ,
    };
    world.exchange(Protocol::H2c, times, clear(0, 100), clear(0, 3 * MSS));
    world
}

#[test]
fn lost_segment_is_shown_as_a_lost_packet_and_a_repeated_one() {
    let detail = detailed(&with_a_loss(), &[0]);
    let [connection] = detail.connections.as_slice() else {
        panic!("{:?}", detail.connections);
    };
    let trace = &connection.trace;
    assert_eq!((trace.hop, trace.connection, trace.server), (1, 0, Some(0)));
    let [window] = trace.windows.as_slice() else {
        panic!("{:?}", trace.windows);
    };
    assert!(window.from < time(AT) && window.to > time(ANSWER + 100_000 + DELAY + READ));
    assert_eq!(window.requests[0].request, 0);
    let down = &window.directions[1];
    let packets: Vec<(u64, bool, bool)> = (down.packets.kept.iter())
        .map(|it| (it.start, it.is_lost, it.is_again))
        .collect();
    assert_eq!(
        packets,
        [
            (0, false, false),
            (MSS, true, false),
            (2 * MSS, false, false),
            (MSS, false, true)
        ]
    );
    assert!(down.packets.kept.iter().all(|it| it.request == Some(0)));
    assert_eq!((down.packets.all, down.lost, down.repeated), (4, 1, 1));
    let acks: Vec<u64> = down.acks.kept.iter().map(|ack| ack.to).collect();
    // The last one came after the request's end.
    assert_eq!(acks, [0, MSS]);
    let most = down.in_flight.kept.iter().map(|it| it.bytes).max();
    assert_eq!(most, Some(3 * MSS));
    assert_eq!(down.delivered.iter().sum::<u64>(), 3 * MSS);
    assert!(
        down.held.iter().any(|it| it.cause == Cause::Loss),
        "{:?}",
        down.held
    );
}

/// DATA of a stream whose window is then exhausted, and the WINDOW_UPDATE that reopens it.
fn with_a_blocked_window() -> World {
    let mut world = with_a_loss();
    let data = FrameFacts {
        stream_window: Some(0),
        connection_window: Some(50_000),
        ..frame(0x0, 1, 0, 2 * MSS)
    };
    world.http2(Side::Server, 0, ANSWER, data);
    let update = FrameFacts {
        way: Way::Received,
        offset: None,
        value: Some(10_000),
        stream_window: Some(10_000),
        ..frame(0x8, 1, 0, 4)
    };
    world.http2(Side::Server, 0, ANSWER + 60_000, update);
    let rest = FrameFacts {
        flags: 0x1,
        stream_window: Some(8_000),
        connection_window: Some(48_000),
        ..frame(0x0, 1, 2 * MSS, MSS)
    };
    world.http2(Side::Server, 0, ANSWER + 60_000, rest);
    world
}

#[test]
fn blocked_window_is_shown_as_an_interval_with_levels_around_it() {
    let detail = detailed(&with_a_blocked_window(), &[0]);
    let connection = &detail.connections[0];
    let held = &connection.trace.windows[0].directions[1].held;
    let blocked = held.iter().find(|it| it.cause == Cause::WindowStream);
    let blocked = blocked.expect("it was blocked");
    assert_eq!(
        (blocked.from, blocked.to),
        (time(ANSWER), time(ANSWER + 60_000))
    );
    let [up, down] = &connection.senders[0];
    assert_eq!(up.levels.all, 0);
    let levels: Vec<(Option<u64>, i64)> = (down.levels.kept.iter())
        .map(|it| (it.stream, it.bytes))
        .collect();
    assert_eq!(
        levels,
        [
            (None, 50_000),
            (Some(1), 0),
            (Some(1), 10_000),
            (None, 48_000),
            (Some(1), 8_000)
        ]
    );
    let [request] = detail.requests.as_slice() else {
        panic!("{:?}", detail.requests);
    };
    let frames: Vec<(Side, Way, u64)> = (request.frames.kept.iter())
        .map(|it| (it.side, it.way, it.kind))
        .collect();
    assert_eq!(
        frames,
        [
            (Side::Server, Way::Sent, 0x0),
            (Side::Server, Way::Received, 0x8),
            (Side::Server, Way::Sent, 0x0)
        ]
    );
}

/// What the server's socket reported when it answered.
fn server_sample(fields: &[(&str, u64)]) -> SocketRecord {
    let sample = SocketSample::Tcp(squall_made::tcp_info(fields));
    squall_made::socket(time(ANSWER), Side::Server, sample)
}

#[test]
fn sampled_congestion_windows_are_converted_to_bytes() {
    let mut world = with_a_loss();
    let sample = server_sample(&[
        ("tcpi_snd_cwnd", 10),
        ("tcpi_snd_mss", MSS),
        ("tcpi_rtt", 50_030),
    ]);
    world.sockets.extend([
        sample,
        // A sample from before the request.
        SocketRecord {
            time: time(AT / 2),
            ..sample
        },
        // A sample of another connection.
        SocketRecord {
            connection: 1,
            ..sample
        },
    ]);
    let detail = detailed(&world, &[0]);
    let [_, down] = &detail.connections[0].senders[0];
    let [only] = down.samples.kept.as_slice() else {
        panic!("{:?}", down.samples);
    };
    assert_eq!(only.cwnd_bytes, Some(10 * MSS));
    assert_eq!(only.rtt, Some(Duration::from_micros(50_030)));
}

/// Adds a request on the same connection, one second after the first.
fn with_a_later_request(mut world: World) -> World {
    let later = AT + 1_000_000;
    world.request(later, ConnectionStream(0, 3));
    world.bytes(Up, 0, later, (100, 200), Delivered);
    let answer = later + DELAY + READ;
    world.bytes(Down, 0, answer, (3 * MSS, 4 * MSS), Delivered);
    let times = Times {
        written: later,
        received: answer,
        answered: answer,
        answered_last: answer,
        end: answer + DELAY + READ,
    };
    let (up, down) = (clear(100, 200), clear(3 * MSS, 4 * MSS));
    world.exchange(Protocol::H2c, times, up, down);
    world
}

#[test]
fn life_of_a_connection_has_what_other_requests_did_on_it() {
    let detail = detailed(&with_a_later_request(with_a_loss()), &[1]);
    let trace = &detail.connections[0].trace;
    let [window] = trace.windows.as_slice() else {
        panic!("{:?}", trace.windows);
    };
    let down = &window.directions[1];
    assert_eq!((down.packets.all, down.lost), (1, 0), "of the request");
    let life = trace.life.as_ref().expect("the window is a part of it");
    assert!(life.requests.is_empty());
    assert_eq!(life.from, trace.opened);
    assert!(life.to > time(AT + 1_000_000 + 2 * DELAY));
    let down = &life.directions[1];
    assert_eq!((down.packets.all, down.lost, down.repeated), (5, 1, 1));
    let of_requests: Vec<Option<u64>> = down.packets.kept.iter().map(|it| it.request).collect();
    assert_eq!(of_requests, [Some(0), Some(0), Some(0), Some(0), Some(1)]);
    assert_eq!(down.delivered.iter().sum::<u64>(), 4 * MSS);
    assert!(down.held.iter().any(|it| it.cause == Cause::Loss));
}

#[test]
fn life_of_a_connection_has_the_windows_and_samples_of_all_its_time() {
    let mut world = with_a_later_request(with_a_blocked_window());
    let fields = [("tcpi_snd_cwnd", 10), ("tcpi_snd_mss", MSS)];
    world.sockets.push(server_sample(&fields));
    let detail = detailed(&world, &[1]);
    let connection = &detail.connections[0];
    let life = connection.trace.life.as_ref().expect("it is longer");
    // The window of the other request's stream was shut.
    let held = &life.directions[1].held;
    let blocked = held.iter().find(|it| it.cause == Cause::WindowStream);
    let blocked = blocked.expect("it was blocked");
    assert_eq!(
        (blocked.from, blocked.to),
        (time(ANSWER), time(ANSWER + 60_000))
    );
    let [_, down] = &connection.senders[0];
    assert_eq!((down.levels.all, down.samples.all), (0, 0), "of its time");
    let [up, down] = &connection.life_senders;
    assert_eq!((up.levels.all, up.samples.all), (0, 0));
    let least = |stream: Option<u64>| {
        let own = down.levels.kept.iter().filter(|it| it.stream == stream);
        own.map(|it| it.bytes).min()
    };
    assert_eq!((least(None), least(Some(1))), (Some(48_000), Some(0)));
    assert_eq!(down.samples.kept[0].cwnd_bytes, Some(10 * MSS));
}

#[test]
fn life_is_not_shown_if_the_time_of_a_request_nearly_fills_it() {
    // The connection was opened for the request.
    let due = AT - 2 * DELAY;
    let detail = detailed(&with_a_loss_on(due, due), &[0]);
    let trace = &detail.connections[0].trace;
    assert_eq!(trace.windows.len(), 1);
    assert!(trace.life.is_none(), "{:?}", trace.life);
}

#[test]
fn connection_without_chosen_requests_is_left_out() {
    let mut world = with_a_loss();
    world.handshake(1, 500);
    world.request(AT, ConnectionStream(1, 1));
    assert_eq!(detailed(&world, &[0]).connections.len(), 1);
    let detail = detailed(&world, &[]);
    assert!(detail.requests.is_empty() && detail.connections.is_empty());
}

#[test]
fn quic_traces_have_packet_numbers_and_stream_offsets() {
    let mut world = World::default();
    world.request(AT, ConnectionStream(0, 0));
    world.quic(Up, 0, AT, 1, (0, 0, 100), Delivered);
    world.quic(Down, 0, ANSWER, 1, (0, 0, 1_000), Delivered);
    world.quic(Down, 0, ANSWER + 100, 2, (0, 1_000, 2_000), LossDrop);
    world.quic(Down, 0, ANSWER + 200, 3, (0, 2_000, 3_000), Delivered);
    world.quic_ack(Side::Server, 0, ANSWER + 60_000, 3);
    world.quic(Down, 0, ANSWER + 60_100, 4, (0, 1_000, 2_000), Delivered);
    let times = Times {
        written: AT,
        received: ANSWER,
        answered: ANSWER,
        answered_last: ANSWER,
        end: ANSWER + 60_100 + DELAY + READ,
    };
    world.exchange(Protocol::H3, times, clear(0, 100), clear(0, 3_000));
    let detail = detailed(&world, &[0]);
    let trace = &detail.connections[0].trace;
    assert!(trace.is_quic);
    let down = &trace.windows[0].directions[1];
    let numbers: Vec<(u64, bool)> = (down.numbers.kept.iter())
        .map(|it| (it.start, it.is_lost))
        .collect();
    assert_eq!(numbers, [(1, false), (2, true), (3, false), (4, false)]);
    let again: Vec<u64> = (down.packets.kept.iter())
        .filter(|it| it.is_again)
        .map(|it| it.start)
        .collect();
    assert_eq!(again, [1_000]);
    assert_eq!(down.acks.kept[0].to, 4);
}

#[test]
fn requests_that_the_same_loss_delayed_are_named() {
    let (world, _) = blocked();
    let detail = detailed(&world, &[1]);
    let [request] = detail.requests.as_slice() else {
        panic!("{:?}", detail.requests);
    };
    assert_eq!(request.explanation.request, 1);
    assert_eq!(request.delayed_with, [0]);
    assert_eq!(request.reasons, ["a test asked for it"]);
}
