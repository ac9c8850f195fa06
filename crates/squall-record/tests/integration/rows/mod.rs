//! Helper for the tests in the parent folder: strategies for arbitrary requests, packets, frames, exchanges and socket
//! samples. Not a test itself.

use proptest::collection::vec;
use proptest::prelude::*;
use proptest::strategy::ValueTree as _;
use proptest::test_runner::TestRunner;
use squall_base::plan::Protocol;
use squall_base::record::{
    Beginning, BodyArrivals, Direction, ExchangeRecord, Extent, Fate, FrameFacts, FrameLayer,
    FrameRecord, Gap, Outcome, PacketClass, PacketRecord, Phase, QuicPath, RequestRecord, Side,
    SocketRecord, SocketSample, TcpInfo, Way,
};
use squall_base::{Duration, Time};

/// Any number that a signed column can hold.
fn number() -> impl Strategy<Value = u64> {
    0..=i64::MAX as u64
}

fn maybe() -> impl Strategy<Value = Option<u64>> {
    proptest::option::of(number())
}

fn side() -> impl Strategy<Value = Side> {
    proptest::sample::select(Side::ALL.to_vec())
}

prop_compose! {
    /// Any packet.
    pub(crate) fn packet()(
        index in 0..=i64::MAX as u64,
        direction in proptest::sample::select(Direction::ALL.to_vec()),
        class in proptest::sample::select(PacketClass::ALL.to_vec()),
        fate in proptest::sample::select(Fate::ALL.to_vec()),
        wide in any::<(u32, u32, u32, u32, u32, u32)>(),
        narrow in any::<(u16, u16, u16, u8, u8, u8)>(),
        queueing in 0..=i64::MAX as u64,
        yes_or_no in any::<(bool, bool, bool)>(),
        arrived in number().prop_map(Time::from_nanos),
        served in maybe().prop_map(|time| time.map(Time::from_nanos)),
        planned in maybe().prop_map(|time| time.map(Time::from_nanos)),
        released in maybe().prop_map(|time| time.map(Time::from_nanos)),
    ) -> PacketRecord {
        PacketRecord {
            hop: narrow.4 % 4,
            index,
            direction,
            flow: wide.0,
            client_port: narrow.0,
            class,
            class_index: wide.1,
            length: narrow.1,
            protocol: narrow.4,
            seq: wide.2,
            ack: wide.3,
            payload_len: narrow.2,
            tcp_flags: narrow.3,
            window_bytes: wide.5,
            arrived,
            queue_bytes: wide.4,
            queueing: Duration::from_nanos(queueing),
            served,
            planned,
            released,
            fate,
            dropped_in: narrow.5,
            is_marked: yes_or_no.0,
            is_corrupted: yes_or_no.1,
            is_copy: yes_or_no.2,
        }
    }
}

prop_compose! {
    /// Any request.
    pub(crate) fn request()(
        counts in vec(number(), 3),
        phase in prop_oneof![Just(Phase::Warmup), Just(Phase::Measure)],
        times in vec(number(), 3),
        maybe in vec(maybe(), 6),
        stream in maybe(),
        numbers in any::<(Option<u16>, Option<u32>, bool)>(),
        outcome in proptest::sample::select(Outcome::ALL.to_vec()),
        wide in any::<(u32, u32)>(),
        error in any::<Option<String>>(),
    ) -> RequestRecord {
        let time = |place: usize| maybe[place].map(Time::from_nanos);
        RequestRecord {
            request: counts[0],
            phase,
            user: wide.0,
            what: wide.1,
            intended: Time::from_nanos(times[0]),
            taken_up: Time::from_nanos(times[1]),
            slot: time(0),
            connected: time(1),
            secured: time(2),
            written_first: time(2),
            written_last: time(3),
            answered_first: time(4),
            headers: time(5),
            end: Time::from_nanos(times[2]),
            status: numbers.0,
            connection: numbers.1,
            stream,
            opened_connection: numbers.2,
            request_body_bytes: counts[1],
            response_body_bytes: counts[2],
            arrivals: BodyArrivals {
                count: wide.1,
                first: time(1),
                last: time(2),
                longest_gap: time(3).map(|from| Gap {
                    from,
                    length: Duration::from_nanos(times[1]),
                }),
            },
            outcome,
            error,
        }
    }
}

prop_compose! {
    /// Any frame; about half of them have a known type.
    pub(crate) fn frame()(
        hop in 1_u8..,
        side in side(),
        connection in any::<u32>(),
        way in proptest::sample::select(Way::ALL.to_vec()),
        layer in proptest::sample::select(FrameLayer::ALL.to_vec()),
        kind in prop_oneof![0..0x40_u64, number()],
        flags in any::<u8>(),
        numbers in (number(), number()),
        maybe in (maybe(), maybe(), maybe(), maybe()),
        windows in any::<(Option<i64>, Option<i64>)>(),
    ) -> FrameRecord {
        FrameRecord {
            time: Time::from_nanos(numbers.0),
            hop,
            side,
            connection,
            frame: FrameFacts {
                way,
                layer,
                kind,
                flags,
                stream: maybe.0,
                offset: maybe.1,
                length: numbers.1,
                packet: maybe.2,
                value: maybe.3,
                stream_window: windows.0,
                connection_window: windows.1,
            },
        }
    }
}

prop_compose! {
    fn extent()(start in number(), end in number(), maybe in vec(maybe(), 4)) -> Extent {
        Extent {
            start,
            end,
            wire_start: maybe[0],
            wire_end: maybe[1],
            record_first: maybe[2],
            record_last: maybe[3],
        }
    }
}

prop_compose! {
    /// Any exchange.
    pub(crate) fn exchange()(
        hop in 1_u8..,
        side in side(),
        connection in any::<u32>(),
        protocol in proptest::sample::select(Protocol::ALL.to_vec()),
        numbers in vec(number(), 3),
        maybe in vec(maybe(), 11),
        extents in (proptest::option::of(extent()), proptest::option::of(extent())),
        status in any::<Option<u16>>(),
    ) -> ExchangeRecord {
        let time = |place: usize| maybe[place].map(Time::from_nanos);
        ExchangeRecord {
            hop,
            side,
            connection,
            stream: numbers[0],
            protocol,
            request: maybe[0],
            beginning: Beginning {
                offered: time(6),
                slot: time(7),
                opened: time(8),
                connected: time(9),
                secured: time(10),
            },
            request_first: time(1),
            request_last: time(2),
            response_first: time(3),
            response_last: time(4),
            request_extent: extents.0,
            response_extent: extents.1,
            request_body_bytes: numbers[1],
            response_body_bytes: numbers[2],
            status,
            reset: maybe[5],
        }
    }
}

prop_compose! {
    fn quic_path()(numbers in vec(number(), 15), maybe in vec(maybe(), 3)) -> QuicPath {
        QuicPath {
            recv: numbers[0],
            sent: numbers[1],
            lost: numbers[2],
            retrans: numbers[3],
            ptos: numbers[4],
            rtt: Duration::from_nanos(numbers[5]),
            min_rtt: maybe[0].map(Duration::from_nanos),
            max_rtt: maybe[1].map(Duration::from_nanos),
            rttvar: Duration::from_nanos(numbers[6]),
            cwnd_bytes: numbers[7],
            sent_bytes: numbers[8],
            recv_bytes: numbers[9],
            lost_bytes: numbers[10],
            stream_retrans_bytes: numbers[11],
            pmtu_bytes: numbers[12],
            delivery_rate_bytes_per_s: numbers[13],
            max_bandwidth_bytes_per_s: maybe[2],
            socket_drops: numbers[14],
        }
    }
}

/// The TCP info that random bytes of random length decode to, limited to numbers that a signed column can hold.
fn tcp_info() -> impl Strategy<Value = TcpInfo> {
    vec(any::<u8>(), 0..2 * TcpInfo::SIZE).prop_map(|bytes| {
        let read = TcpInfo::from_bytes(&bytes).values();
        TcpInfo::from_values(read.map(|value| value.map(|value| value & i64::MAX as u64)))
    })
}

prop_compose! {
    /// Any sample of a socket.
    pub(crate) fn socket()(
        time in number(),
        hop in 1_u8..,
        side in side(),
        connection in any::<u32>(),
        is_last in any::<bool>(),
        sample in prop_oneof![
            tcp_info().prop_map(SocketSample::Tcp),
            quic_path().prop_map(SocketSample::Quic),
        ],
    ) -> SocketRecord {
        SocketRecord { time: Time::from_nanos(time), hop, side, connection, is_last, sample }
    }
}

/// `count` rows, the same ones on every call.
pub(crate) fn some<R: std::fmt::Debug>(row: impl Strategy<Value = R>, count: usize) -> Vec<R> {
    vec(row, count)
        .new_tree(&mut TestRunner::deterministic())
        .expect("rows")
        .current()
}
