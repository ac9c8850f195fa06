//! Rows of a trial's tables, on hop 1, connection 0 and flow 0.
//!
//! squall-base makes rows about which nothing is known except that they exist: `RequestRecord::due`,
//! `ExchangeRecord::unseen`, `FrameFacts::new`.

use squall_base::record::{
    CauseSpans, CausesRecord, Direction, DropRecord, Extent, Fate, FrameFacts, FrameRecord,
    Outcome, PacketClass, PacketRecord, PacketRef, Repair, RequestRecord, Side, SocketRecord,
    SocketSample, TcpInfo,
};
use squall_base::{Duration, Time};

/// A request that was sent when it was due, over an open connection. 1,024 bytes with status 200 came at once after `took`.
pub fn answered(number: u64, intended: Time, took: Duration) -> RequestRecord {
    let end = intended + took;
    RequestRecord {
        slot: Some(intended),
        written_first: Some(intended),
        written_last: Some(intended),
        answered_first: Some(end),
        headers: Some(end),
        end,
        status: Some(200),
        connection: Some(0),
        stream: Some(0),
        response_body_bytes: 1_024,
        outcome: Outcome::Answered,
        ..RequestRecord::due(number, intended)
    }
}

/// The first packet of this direction of a TCP connection: no payload, and no time in the link.
pub fn packet(arrived: Time, direction: Direction) -> PacketRecord {
    PacketRecord {
        hop: 1,
        index: 0,
        direction,
        flow: 0,
        client_port: 40_000,
        class: PacketClass::Data,
        class_index: 0,
        length: 52,
        protocol: 6,
        seq: 0,
        ack: 0,
        payload_len: 0,
        tcp_flags: 0x10,
        window_bytes: 1 << 20,
        arrived,
        queue_bytes: 0,
        queueing: Duration::ZERO,
        served: None,
        planned: Some(arrived),
        released: Some(arrived),
        fate: Fate::Delivered,
        dropped_in: 0,
        is_marked: false,
        is_corrupted: false,
        is_copy: false,
    }
}

/// The packet with this number in its direction.
pub fn packet_ref(direction: Direction, index: u64) -> PacketRef {
    PacketRef {
        hop: 1,
        direction,
        index,
    }
}

/// A lost packet about which nothing else is known.
pub fn dropped(packet: PacketRef, dropped_at: Time) -> DropRecord {
    DropRecord {
        packet,
        dropped_at,
        fate: Fate::LossDrop,
        connection: None,
        stream: None,
        start: None,
        end: None,
        carried: Vec::new(),
        repair: Repair::Unknown,
        repaired_at: None,
        repaired_by: None,
        victims: Vec::new(),
    }
}

/// The causes of a request in total, none of which is `queue` or a known drop.
pub fn causes(request: u64, spans: CauseSpans) -> CausesRecord {
    CausesRecord {
        request,
        hop: CausesRecord::IN_TOTAL,
        spans,
        queue_roots: CauseSpans::NONE,
        responsible: None,
    }
}

/// The bytes `[start, end)` of a connection without TLS.
pub fn in_cleartext(start: u64, end: u64) -> Extent {
    Extent {
        start,
        end,
        wire_start: Some(start),
        wire_end: Some(end),
        record_first: None,
        record_last: None,
    }
}

/// A frame as one side saw it.
pub fn frame(time: Time, side: Side, frame: FrameFacts) -> FrameRecord {
    FrameRecord {
        time,
        hop: 1,
        side,
        connection: 0,
        frame,
    }
}

/// A sample that one side took while the connection was open.
pub fn socket(time: Time, side: Side, sample: SocketSample) -> SocketRecord {
    SocketRecord {
        time,
        hop: 1,
        side,
        connection: 0,
        is_last: false,
        sample,
    }
}

/// What the kernel reported about a TCP socket: these fields, by their names in `struct tcp_info`.
///
/// # Panics
/// If a field does not exist.
pub fn tcp_info(fields: &[(&str, u64)]) -> TcpInfo {
    let mut info = TcpInfo::UNKNOWN;
    for (name, value) in fields {
        info.set(TcpInfo::index_of(name), Some(*value));
    }
    info
}
