//! What holds for arbitrary records: spans add up, nothing panics, drops are blamed for no more than their victims waited.

use std::collections::BTreeMap;

use proptest::collection::vec;
use proptest::prelude::*;
use squall_base::plan::Protocol;
use squall_base::record::{
    ExchangeRecord, Extent, Fate, FrameFacts, FrameLayer, FrameRecord, Outcome, Side, Way,
};
use squall_base::{Duration, Time};

use super::world::{
    ConnectionStream, DELAY, Delivered, Down, LossDrop, READ, Times, Up, World, clear,
};

/// One exchange of a timeline: pauses, sizes, losses.
#[derive(Clone, Debug)]
struct Exchange {
    pause: u64,
    think: u64,
    request: u64,
    response: u64,
    /// How many times each segment of the response is lost.
    losses: Vec<u8>,
    repair: u64,
}

fn exchange() -> impl Strategy<Value = Exchange> {
    (
        0..80_000_u64,
        0..50_000_u64,
        1..3_000_u64,
        1..9_000_u64,
        vec(0..3_u8, 8),
        1_000..400_000_u64,
    )
        .prop_map(
            |(pause, think, request, response, losses, repair)| Exchange {
                pause,
                think,
                request,
                response,
                losses: losses.into_iter().map(|n| n.saturating_sub(1)).collect(),
                repair,
            },
        )
}

/// Exchanges that share an HTTP/2 connection, each as early as possible: a valid timeline.
fn timeline(exchanges: &[Exchange]) -> World {
    let mut world = World::default();
    world.handshake(0, 0);
    let (mut at, mut up, mut down) = (1_000_000, 0, 0);
    let mut in_order = 0;
    let mut busy = 0;
    for (n, exchange) in (0..).zip(exchanges) {
        at += exchange.pause;
        world.request(at, ConnectionStream(0, 2 * n + 1));
        for start in (0..exchange.request).step_by(1_448) {
            let end = exchange.request.min(start + 1_448);
            world.bytes(Up, 0, at, (up + start, up + end), Delivered);
        }
        let received = at + DELAY + READ;
        let answered = busy.max(received + exchange.think);
        busy = answered;
        for (start, losses) in (0..exchange.response).step_by(1_448).zip(&exchange.losses) {
            let bytes = (down + start, down + exchange.response.min(start + 1_448));
            let mut sent = answered;
            for _ in 0..*losses {
                world.bytes(Down, 0, sent, bytes, LossDrop);
                sent += exchange.repair;
            }
            world.bytes(Down, 0, sent, bytes, Delivered);
            in_order = in_order.max(sent + DELAY);
        }
        let times = Times {
            written: at,
            received,
            answered,
            answered_last: answered,
            end: in_order + READ,
        };
        let (request, response) = (exchange.request, exchange.response);
        world.exchange(
            Protocol::H2c,
            times,
            clear(up, up + request),
            clear(down, down + response),
        );
        up += request;
        down += response;
    }
    // The link numbers packets in order of arrival.
    world.packets.sort_by_key(|packet| packet.arrived);
    for direction in [Up, Down] {
        let of_direction = world
            .packets
            .iter_mut()
            .filter(|p| p.direction == direction);
        for (index, packet) in (0..).zip(of_direction) {
            packet.index = index;
        }
    }
    world
}

/// Any time, often one of a few.
pub(crate) fn any_time() -> impl Strategy<Value = Time> {
    prop_oneof![0..2_000_u64, any::<u64>()].prop_map(Time::from_nanos)
}

fn any_number() -> impl Strategy<Value = u64> {
    prop_oneof![0..3_000_u64, any::<u64>()]
}

pub(crate) fn any_extent() -> impl Strategy<Value = Option<Extent>> {
    let maybe = || proptest::option::of(any_number());
    let numbers = (
        any_number(),
        any_number(),
        maybe(),
        maybe(),
        maybe(),
        maybe(),
    );
    proptest::option::of(
        numbers.prop_map(|(start, end, wire_start, wire_end, first, last)| Extent {
            start,
            end,
            wire_start,
            wire_end,
            record_first: first,
            record_last: last,
        }),
    )
}

prop_compose! {
    fn any_frame()(
        time in any_time(),
        side in proptest::sample::select(Side::ALL.to_vec()),
        way in proptest::sample::select(Way::ALL.to_vec()),
        layer in proptest::sample::select(FrameLayer::ALL.to_vec()),
        connection in 0..3_u32,
        kind in 0..0x20_u64,
        flags in any::<u8>(),
        numbers in (any_number(), any_number(), any_number(), any_number()),
        windows in (any::<i64>(), any::<i64>()),
        stream in 0..6_u64,
    ) -> FrameRecord {
        let frame = FrameFacts {
            way,
            layer,
            kind,
            flags,
            stream: Some(stream),
            offset: Some(numbers.0),
            length: numbers.1,
            packet: Some(numbers.2),
            value: Some(numbers.3),
            stream_window: Some(windows.0),
            connection_window: Some(windows.1),
        };
        FrameRecord { time, hop: 1, side, connection, frame }
    }
}

prop_compose! {
    /// A world in which nothing fits together.
    pub(crate) fn garbage()(
        packets in vec(
            (0..3_u32, any::<bool>(), any_time(), any::<(u32, u32, u16, u16)>(), 0..0x20_u8,
                proptest::sample::select(Fate::ALL.to_vec()), (any_time(), any_time(), any::<bool>(), any::<bool>())),
            0..40,
        ),
        requests in vec(
            (vec(any_time(), 8), proptest::option::of(0..3_u32), proptest::option::of(0..6_u64), 0..7_usize,
                any::<u8>()),
            0..8,
        ),
        exchanges in vec(
            (any::<bool>(), 0..3_u32, 0..6_u64, 0..8_u64, vec(proptest::option::of(any_time()), 4), any_extent(),
                any_extent()),
            0..12,
        ),
        frames in vec(any_frame(), 0..40),
    ) -> World {
        let mut world = World { frames, ..World::default() };
        for (flow, is_up, arrived, numbers, flags, fate, (planned, released, is_udp, is_corrupted)) in packets {
            let packet = world.packet(if is_up { Up } else { Down }, flow, 0, fate);
            (packet.seq, packet.ack, packet.payload_len, packet.length) = numbers;
            packet.tcp_flags = flags;
            packet.protocol = if is_udp { 17 } else { 6 };
            packet.arrived = arrived;
            packet.is_corrupted = is_corrupted;
            packet.queueing = Duration::from_nanos(arrived.as_nanos() / 2);
            (packet.planned, packet.released) = (Some(planned), Some(released));
        }
        for (times, connection, stream, outcome, there) in requests {
            let request = world.request(0, ConnectionStream(0, 0));
            (request.intended, request.taken_up, request.end) = (times[0], times[1], times[2]);
            let some = |bit: u8, place: usize| (there >> bit & 1 == 1).then_some(times[place]);
            (request.slot, request.connected, request.secured) = (some(0, 3), some(1, 4), some(2, 5));
            (request.written_first, request.written_last) = (some(3, 6), some(4, 7));
            (request.connection, request.stream) = (connection, stream);
            request.outcome = Outcome::ALL[outcome];
        }
        for (is_client, connection, stream, request, times, sent, received) in exchanges {
            let side = if is_client { Side::Client } else { Side::Server };
            world.exchanges.push(ExchangeRecord {
                request: is_client.then_some(request),
                request_first: times[0],
                request_last: times[1],
                response_first: times[2],
                response_last: times[3],
                request_extent: sent,
                response_extent: received,
                ..ExchangeRecord::unseen(side, connection, stream, Protocol::H2)
            });
        }
        world
    }
}

proptest! {
    // `World::attribute` checks that all spans add up.
    #[test]
    fn valid_timeline_has_no_unknown_time(exchanges in vec(exchange(), 1..12)) {
        let found = timeline(&exchanges).attribute();
        let mut blamed: BTreeMap<(u64, usize), Duration> = BTreeMap::new();
        for victim in found.0.drops.iter().flat_map(|row| &row.victims) {
            let sum = blamed.entry((victim.request, victim.cause as usize)).or_default();
            *sum = *sum + victim.delay;
        }
        for row in found.0.causes.iter() {
            prop_assert!(row.spans[squall_base::record::Cause::Unknown].is_zero(), "{row:?}");
            for cause in squall_base::record::Cause::ALL {
                let blamed = blamed.get(&(row.request, cause as usize)).copied();
                prop_assert!(blamed.unwrap_or_default() <= row.spans[cause], "{cause:?} {row:?}");
            }
        }
    }

    #[test]
    fn spans_of_arbitrary_records_add_up(world in garbage()) {
        let found = world.attribute();
        // Requests are numbered by index, so every one is explained.
        super::explained::explained(&world);
        prop_assert_eq!(found.0.causes.len(), world.requests.len());
    }
}
