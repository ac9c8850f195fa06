//! TCP connections, made of the link's packets: both byte streams, the acknowledgements, the handshake.
//!
//! Sequence numbers become offsets of TCP's payload (RFC 9293, section 3.4: the first byte follows the SYN). A flow whose
//! ports are used again is several connections, each from its SYN on.

use squall_base::Time;
use squall_base::record::{Direction, Fate, PacketRecord, PacketRef};

use super::path::Path;
use super::stream::{Stream, Tx};
use super::walk::{NEVER, Span};

const SYN: u8 = 0x02;
const ACK: u8 = 0x10;

/// A packet that may carry bytes, as it was read.
#[derive(Clone, Copy, Debug)]
struct Segment {
    packet: PacketRef,
    arrived: u64,
    queueing: u64,
    due: u64,
    released: u64,
    seq: u32,
    payload: u16,
    flags: u8,
    fate: Fate,
}

/// An acknowledgement that got through.
#[derive(Clone, Copy, Debug)]
struct RawAck {
    sent: u64,
    arrived: u64,
    ack: u32,
}

/// An acknowledgement, as an offset of the stream that it acknowledges.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Ack {
    /// When its packet reached the link.
    pub(super) sent: u64,
    /// When it reached the sender of the bytes.
    pub(super) arrived: u64,
    /// All bytes before this one are acknowledged.
    pub(super) to: u64,
}

/// The packets of one flow.
#[derive(Debug, Default)]
pub(super) struct Flow {
    segments: [Vec<Segment>; 2],
    acks: [Vec<RawAck>; 2],
}

/// Where a connection begins in its flow.
#[derive(Clone, Copy, Debug)]
pub(super) struct Opening {
    /// From when its first SYN reached the link to when the next one's did.
    pub(super) within: Span,
    /// The client's initial sequence number.
    isn: u32,
    /// When the server had the end of TCP's handshake; [`NEVER`].
    pub(super) accepted: u64,
}

/// One connection.
#[derive(Debug, Default)]
pub(super) struct TcpConnection {
    /// When a SYN-ACK first reached the client; [`NEVER`].
    pub(super) answered: u64,
    /// By direction.
    pub(super) streams: [Stream; 2],
    /// Acknowledgements of the stream of each direction, by arrival.
    pub(super) acks: [Vec<Ack>; 2],
    /// SYN and SYN-ACK that were lost, with when they would have arrived.
    pub(super) lost_syns: Vec<Tx>,
    /// When nothing that was sent waited for an acknowledgement, by direction.
    pub(super) idle: [Vec<Span>; 2],
}

impl Flow {
    pub(super) fn add(&mut self, packet: &PacketRecord) {
        let direction = packet.direction;
        let arrived = packet.arrived.as_nanos();
        let released = match packet.is_corrupted {
            // The checksum fails: TCP never sees it.
            true => NEVER,
            false => packet.released.map_or(NEVER, Time::as_nanos),
        };
        if packet.tcp_flags & ACK != 0 && released != NEVER {
            self.acks[direction as usize].push(RawAck {
                sent: arrived,
                arrived: released,
                ack: packet.ack,
            });
        }
        if packet.payload_len > 0 || packet.tcp_flags & SYN != 0 {
            self.segments[direction as usize].push(Segment {
                packet: PacketRef {
                    direction,
                    index: packet.index,
                },
                arrived,
                queueing: packet.queueing.as_nanos(),
                due: packet.planned.map_or(NEVER, Time::as_nanos),
                released,
                seq: packet.seq,
                payload: packet.payload_len,
                flags: packet.tcp_flags,
                fate: packet.fate,
            });
        }
    }

    /// The connections of the flow, in the order of opening. Packets before the first SYN belong to none.
    pub(super) fn openings(&mut self) -> Vec<Opening> {
        for direction in Direction::ALL {
            self.segments[direction as usize].sort_by_key(|s| s.packet.index);
            self.acks[direction as usize].sort_by_key(|ack| (ack.arrived, ack.sent));
        }
        let mut openings: Vec<(u64, u32)> = Vec::new();
        for segment in &self.segments[Direction::Up as usize] {
            let is_syn = segment.flags & (SYN | ACK) == SYN;
            if is_syn && openings.last().is_none_or(|last| last.1 != segment.seq) {
                openings.push((segment.arrived, segment.seq));
            }
        }
        let numbers = 0..openings.len();
        let opening = |n: usize| {
            let (from, isn) = openings[n];
            let to = openings.get(n + 1).map_or(NEVER, |next| next.0);
            let mut acks = self.acks[Direction::Up as usize].iter();
            let first = acks.find(|ack| (from..to).contains(&ack.sent));
            Opening {
                within: Span { from, to },
                isn,
                accepted: first.map_or(NEVER, |ack| ack.arrived),
            }
        };
        numbers.map(opening).collect()
    }

    /// One of the connections.
    pub(super) fn connection(&self, opening: Opening, path: &Path) -> TcpConnection {
        let Opening { within, isn, .. } = opening;
        let is_within = |time: u64| within.from <= time && time < within.to;
        let of = |direction: Direction| {
            self.segments[direction as usize]
                .iter()
                .filter(|segment| is_within(segment.arrived))
        };
        let mut connection = TcpConnection {
            answered: NEVER,
            ..TcpConnection::default()
        };
        let down_syn = of(Direction::Down).find(|s| s.flags & SYN != 0);
        let isns = [Some(isn), down_syn.map(|segment| segment.seq)];
        for direction in Direction::ALL {
            let place = direction as usize;
            let Some(isn) = isns[place] else { continue };
            let acks = self.acks[direction.opposite() as usize].iter();
            connection.acks[place] = offsets(acks.filter(|ack| is_within(ack.sent)), isn);
            connection.streams[place] = stream(of(direction), isn, path);
            connection.idle[place] = idle(&connection.streams[place], &connection.acks[place]);
        }
        let syns = Direction::ALL.into_iter().flat_map(of);
        let syns = syns.filter(|segment| segment.flags & SYN != 0);
        for tx in syns.map(|segment| transmission(segment, 0, path)) {
            if tx.is_lost() {
                connection.lost_syns.push(tx);
            } else if tx.packet.direction == Direction::Down {
                connection.answered = connection.answered.min(tx.arrived);
            }
        }
        connection.lost_syns.sort_by_key(|tx| tx.sent);
        connection
    }
}

fn transmission(segment: &Segment, start: u64, path: &Path) -> Tx {
    let mut tx = Tx {
        packet: segment.packet,
        start,
        end: start.saturating_add(u64::from(segment.payload)),
        sent: segment.arrived,
        queueing: segment.queueing,
        due: segment.due,
        arrived: segment.released,
        fate: segment.fate,
    };
    if segment.due == NEVER {
        let expected = path.expected(segment.packet.direction, segment.arrived);
        tx.queueing = expected.queueing;
        tx.due = expected.due;
    }
    tx
}

/// Sequence numbers as offsets, which may go round (RFC 9293, section 3.4).
struct Offsets {
    isn: u32,
    latest: u64,
}

impl Offsets {
    fn offset(&mut self, seq: u32) -> u64 {
        // Modulo 2^32, as sequence numbers are.
        let latest_seq = (self.latest as u32).wrapping_add(self.isn).wrapping_add(1);
        let ahead = i64::from(seq.wrapping_sub(latest_seq).cast_signed());
        let offset = self.latest.saturating_add_signed(ahead);
        self.latest = self.latest.max(offset);
        offset
    }
}

fn stream<'a>(segments: impl Iterator<Item = &'a Segment>, isn: u32, path: &Path) -> Stream {
    let mut offsets = Offsets { isn, latest: 0 };
    let with_payload = segments.filter(|segment| segment.payload > 0);
    let txs = with_payload.map(|segment| {
        // A SYN takes the number before the first byte.
        let seq = match segment.flags & SYN {
            0 => segment.seq,
            _ => segment.seq.wrapping_add(1),
        };
        transmission(segment, offsets.offset(seq), path)
    });
    Stream::new(txs.collect())
}

fn offsets<'a>(acks: impl Iterator<Item = &'a RawAck>, isn: u32) -> Vec<Ack> {
    let mut offsets = Offsets { isn, latest: 0 };
    acks.map(|ack| Ack {
        sent: ack.sent,
        arrived: ack.arrived,
        to: offsets.offset(ack.ack),
    })
    .collect()
}

/// When all that had been sent was acknowledged: nothing in the network holds back what the application gives.
fn idle(stream: &Stream, acks: &[Ack]) -> Vec<Span> {
    let mut spans = Vec::new();
    let mut acks = acks.iter().peekable();
    let (mut sent, mut acknowledged, mut since) = (0, 0, Some(0));
    for tx in &stream.txs {
        while let Some(ack) = acks.next_if(|ack| ack.arrived <= tx.sent) {
            acknowledged = acknowledged.max(ack.to);
            if acknowledged >= sent && since.is_none() {
                since = Some(ack.arrived);
            }
        }
        if tx.end > acknowledged {
            let to = tx.sent;
            spans.extend(since.take().map(|from| Span { from, to }));
        }
        sent = sent.max(tx.end);
    }
    for ack in acks {
        acknowledged = acknowledged.max(ack.to);
        if acknowledged >= sent && since.is_none() {
            since = Some(ack.arrived);
        }
    }
    spans.extend(since.map(|from| Span { from, to: NEVER }));
    spans
}
