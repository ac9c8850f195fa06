//! Several exchanges on one HTTP/2 connection: head-of-line blocking, records, windows, the send queue of the socket.

use squall_base::plan::Protocol;
use squall_base::record::{Cause, Extent, FrameFacts, Repair, Side, Way};

use super::world::{
    ConnectionStream, DELAY, Delivered, Down, LossDrop, READ, Times, Up, World, clear, frame, time,
};

const AT: u64 = 1_000_000;
const DATA: u64 = 0x0;
const HEADERS: u64 = 0x1;
const WINDOW_UPDATE: u64 = 0x8;

/// A request of one packet, sent at `at`; returns when the server has read it.
fn ask(world: &mut World, stream: u64, at: u64, request: (u64, u64)) -> u64 {
    world.request(at, ConnectionStream(0, stream));
    world.bytes(Up, 0, at, request, Delivered);
    at + DELAY + READ
}

fn times(written: u64, end: u64) -> Times {
    let received = written + DELAY + READ;
    Times {
        written,
        received,
        answered: received,
        answered_last: received,
        end,
    }
}

// The first response is lost; the second, which follows it, arrives and has to wait.
#[test]
fn loss_of_another_response_is_head_of_line_blocking() {
    let mut world = World::default();
    world.handshake(0, 0);
    let first = ask(&mut world, 1, AT, (0, 100));
    let again = first + 90_000;
    let lost = world.bytes(Down, 0, first, (0, 900), LossDrop);
    let end = again + DELAY + READ;
    world.exchange(Protocol::H2c, times(AT, end), clear(0, 100), clear(0, 900));
    let second = ask(&mut world, 3, AT + 10_000, (100, 200));
    world.bytes(Down, 0, second, (900, 1_800), Delivered);
    world.ack(Up, 0, second + DELAY, 0);
    world.bytes(Down, 0, again, (0, 900), Delivered);
    world.exchange(
        Protocol::H2c,
        times(AT + 10_000, end),
        clear(100, 200),
        clear(900, 1_800),
    );
    let found = world.attribute();
    assert_eq!(
        found.spans(0),
        [
            (Cause::Distance, 2 * DELAY),
            (Cause::Loss, 90_000),
            (Cause::Host, 2 * READ),
        ]
    );
    assert_eq!(
        found.spans(1),
        [
            (Cause::Distance, 2 * DELAY),
            (Cause::Hol, 80_000),
            (Cause::Host, 2 * READ),
        ]
    );
    assert_eq!(
        found.victims(lost),
        [(0, Cause::Loss, 90_000), (1, Cause::Hol, 80_000)]
    );
    assert_eq!(found.drop(lost).carried, [0]);
    assert_eq!(found.drop(lost).repair, Repair::Rack);
    assert_eq!(found.row(1).responsible, Some(lost));
}

// Frames of two responses alternate on the connection. If a lost packet has bytes of only one of them, the other one's
// wait is head-of-line blocking, although the packet lies between that one's first and last byte.
#[test]
fn frames_show_which_response_lost_bytes() {
    let mut world = World::default();
    world.handshake(0, 0);
    let at = ask(&mut world, 1, AT, (0, 100));
    let parts = [(1, 0), (3, 1_000), (1, 2_000), (3, 3_000)];
    let again = at + 60_000;
    let mut lost = None;
    for (n, (stream, start)) in (0..).zip(parts) {
        let kind = if start < 2_000 { HEADERS } else { DATA };
        world.http2(Side::Server, 0, at, frame(kind, stream, start, 991));
        let fate = if start == 1_000 { LossDrop } else { Delivered };
        let packet = world.bytes(Down, 0, at + n, (start, start + 1_000), fate);
        if fate == LossDrop {
            lost = Some(packet);
        }
    }
    world.bytes(Down, 0, again, (1_000, 2_000), Delivered);
    let end = again + DELAY + READ;
    world.exchange(
        Protocol::H2c,
        times(AT, end),
        clear(0, 100),
        clear(0, 3_000),
    );
    ask(&mut world, 3, AT, (100, 200));
    world.exchange(
        Protocol::H2c,
        times(AT, end),
        clear(100, 200),
        clear(1_000, 4_000),
    );
    let found = world.attribute();
    let lost = lost.expect("one was lost");
    assert_eq!(found.drop(lost).carried, [1]);
    let (hol, loss) = (found.row(0).spans, found.row(1).spans);
    assert!(hol[Cause::Loss].is_zero() && !hol[Cause::Hol].is_zero());
    assert!(!loss[Cause::Loss].is_zero() && loss[Cause::Hol].is_zero());
    assert_eq!(found.victims(lost)[1], (1, Cause::Loss, 60_000 - 1));
}

/// A TLS 1.3 record of 2,000 bytes that is sent in two packets: 1,000 bytes of one response and 1,000 of another.
#[test]
fn waiting_for_the_rest_of_a_tls_record_is_record() {
    let mut world = World::default();
    world.handshake(0, 0);
    let at = ask(&mut world, 1, AT, (0, 122));
    let request = |start: u64, record: u64| Extent {
        start,
        end: start + 100,
        wire_start: Some(record * 122),
        wire_end: Some(record * 122 + 122),
        record_first: Some(record),
        record_last: Some(record),
    };
    // The handshake takes 500 bytes, the record 5 + 2,000 + 17.
    let response = |start: u64, end: u64| Extent {
        start,
        end,
        wire_start: Some(500),
        wire_end: Some(2_522),
        record_first: Some(0),
        record_last: Some(0),
    };
    world.bytes(Down, 0, 60_000, (0, 500), Delivered);
    world.ack(Up, 0, 60_000 + DELAY, 500);
    world.bytes(Down, 0, at, (500, 1_948), Delivered);
    let lost = world.bytes(Down, 0, at, (1_948, 2_522), LossDrop);
    let again = at + 70_000;
    world.bytes(Down, 0, again, (1_948, 2_522), Delivered);
    let end = again + DELAY + READ;
    world.exchange(
        Protocol::H2,
        times(AT, end),
        request(0, 0),
        response(0, 1_000),
    );
    ask(&mut world, 3, AT, (122, 244));
    world.exchange(
        Protocol::H2,
        times(AT, end),
        request(100, 1),
        response(1_000, 2_000),
    );
    let found = world.attribute();
    assert_eq!(
        found.spans(0),
        [
            (Cause::Distance, 2 * DELAY),
            (Cause::Record, 70_000),
            (Cause::Host, 2 * READ),
        ]
    );
    assert_eq!(found.spans(1)[1], (Cause::Loss, 70_000));
    assert_eq!(
        found.victims(lost),
        [(0, Cause::Record, 70_000), (1, Cause::Loss, 70_000)]
    );
}

fn update(stream: u64, value: u64, windows: (Option<i64>, Option<i64>)) -> FrameFacts {
    FrameFacts {
        way: Way::Received,
        value: Some(value),
        stream_window: windows.0,
        connection_window: windows.1,
        ..frame(WINDOW_UPDATE, stream, 0, 4)
    }
}

fn data(stream: u64, offset: u64, windows: (i64, i64), flags: u8) -> FrameFacts {
    FrameFacts {
        flags,
        stream_window: Some(windows.0),
        connection_window: Some(windows.1),
        ..frame(DATA, stream, offset, 991)
    }
}

/// A response of HEADERS and two DATA frames, the second one after a WINDOW_UPDATE a round trip later.
fn held(before: (i64, i64), reopened: FrameFacts) -> Vec<(Cause, u64)> {
    let mut world = World::default();
    world.handshake(0, 0);
    let at = ask(&mut world, 1, AT, (0, 100));
    world.http2(Side::Server, 0, at, frame(HEADERS, 1, 0, 91));
    world.http2(Side::Server, 0, at, data(1, 100, before, 0));
    world.bytes(Down, 0, at, (0, 1_100), Delivered);
    world.ack(Up, 0, at + DELAY, 1_100);
    let open = at + 2 * DELAY + 500;
    world.http2(Side::Server, 0, open, reopened);
    world.http2(Side::Server, 0, open, data(1, 1_100, (64, 64), 1));
    world.bytes(Down, 0, open, (1_100, 2_100), Delivered);
    let end = open + DELAY + READ;
    let times = Times {
        answered_last: open,
        ..times(AT, end)
    };
    world.exchange(Protocol::H2c, times, clear(0, 100), clear(0, 2_100));
    world.attribute().spans(0)
}

#[test]
fn stream_and_connection_windows_are_distinguished() {
    let wait = 2 * DELAY + 500;
    let expected = |cause| {
        [
            (cause, wait),
            (Cause::Distance, 2 * DELAY),
            (Cause::Host, 2 * READ),
        ]
    };
    let stream = held((0, 500), update(1, 1_000, (Some(1_000), Some(500))));
    assert_eq!(stream, expected(Cause::WindowStream));
    let connection = held((500, 0), update(0, 1_000, (None, Some(1_000))));
    assert_eq!(connection, expected(Cause::WindowConnection));
    // With room in both windows it is neither.
    let neither = held((500, 500), update(0, 1_000, (None, Some(1_500))));
    assert!(
        neither
            .iter()
            .all(|(cause, _)| { !matches!(cause, Cause::WindowStream | Cause::WindowConnection) })
    );
}

// SETTINGS_INITIAL_WINDOW_SIZE is 0: HEADERS are sent, DATA waits for the first WINDOW_UPDATE.
#[test]
fn upload_without_a_window_is_window_stream() {
    let mut world = World::default();
    world.handshake(0, 0);
    world.request(AT, ConnectionStream(0, 1));
    world.http2(Side::Client, 0, AT, frame(HEADERS, 1, 0, 91));
    world.bytes(Up, 0, AT, (0, 100), Delivered);
    let open = AT + 2 * DELAY + 200;
    world.http2(
        Side::Client,
        0,
        open,
        update(1, 5_000, (Some(5_000), Some(65_535))),
    );
    world.http2(Side::Client, 0, open, data(1, 100, (4_000, 64_000), 1));
    world.bytes(Up, 0, open, (100, 1_100), Delivered);
    let received = open + DELAY + READ;
    world.bytes(Down, 0, received, (0, 100), Delivered);
    let times = Times {
        written: AT,
        received,
        answered: received,
        answered_last: received,
        end: received + DELAY + READ,
    };
    world.exchange(Protocol::H2c, times, clear(0, 1_100), clear(0, 100));
    world.requests[0].written_last = Some(time(open));
    assert_eq!(
        world.attribute().spans(0),
        [
            (Cause::WindowStream, 2 * DELAY + 200),
            (Cause::Distance, 2 * DELAY),
            (Cause::Host, 2 * READ),
        ]
    );
}

// Two requests are due at the same time, but the socket has unsent bytes ahead of the second, which has to wait.
#[test]
fn waiting_for_unsent_bytes_ahead_is_cwnd() {
    let mut world = World::default();
    world.handshake(0, 0);
    world.request(AT, ConnectionStream(0, 1));
    let late = AT + 30_000;
    world.bytes(Up, 0, late, (0, 100), Delivered);
    let received = late + DELAY + READ;
    world.bytes(Down, 0, received, (0, 100), Delivered);
    let end = received + DELAY + READ;
    let first = Times {
        written: AT,
        received,
        answered: received,
        answered_last: received,
        end,
    };
    world.exchange(Protocol::H2c, first, clear(0, 100), clear(0, 100));
    world.request(AT, ConnectionStream(0, 3));
    world.bytes(Up, 0, late, (100, 200), Delivered);
    world.bytes(Down, 0, received, (100, 200), Delivered);
    let second = Times {
        written: late,
        ..first
    };
    world.exchange(Protocol::H2c, second, clear(100, 200), clear(100, 200));
    assert_eq!(
        world.attribute().spans(1),
        [
            (Cause::Cwnd, 30_000),
            (Cause::Distance, 2 * DELAY),
            (Cause::Host, 2 * READ),
        ]
    );
}
