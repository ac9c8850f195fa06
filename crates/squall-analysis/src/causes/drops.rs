//! What happened to the bytes that dropped packets carried, and which requests they delayed.
//!
//! There is one row for each packet that a connection lost; victims come from the requests' timelines.

use std::collections::BTreeMap;

use squall_base::record::{Direction, DropRecord, Fate, PacketRef, Repair, Victim};
use squall_base::{Duration, Time};

use super::connection::{Carrier, Connection};
use super::message::Message;
use super::quic::{JoinedPacket, QuicConnection};
use super::repair;
use super::search::sort_nearly_sorted;
use super::stream::{Piece, Stream, Transmission};
use super::tcp::TcpConnection;
use super::walk::{Blame, NEVER};

#[derive(Debug, Default)]
pub(super) struct Victims(BTreeMap<PacketRef, Vec<Victim>>);

impl Victims {
    /// Adds what a request's walk found; returns the packet that cost it the most.
    pub(super) fn add(&mut self, request: u64, blames: &[Blame]) -> Option<PacketRef> {
        let mut costs: BTreeMap<PacketRef, u64> = BTreeMap::new();
        for blame in blames {
            let cost = costs.entry(blame.packet).or_default();
            *cost = cost.saturating_add(blame.delay);
            let victims = self.0.entry(blame.packet).or_default();
            let same = victims
                .iter_mut()
                .rev()
                .take_while(|victim| victim.request == request)
                .find(|victim| victim.cause == blame.cause);
            match same {
                Some(victim) => {
                    let delay = victim.delay.as_nanos().saturating_add(blame.delay);
                    victim.delay = Duration::from_nanos(delay);
                }
                None => victims.push(Victim {
                    request,
                    cause: blame.cause,
                    delay: Duration::from_nanos(blame.delay),
                }),
            }
        }
        let most = costs.values().copied().max()?;
        let costliest = costs.into_iter().find(|(_, cost)| *cost == most);
        costliest.map(|(packet, _)| packet)
    }

    fn take(&mut self, packet: PacketRef) -> Vec<Victim> {
        self.0.remove(&packet).unwrap_or_default()
    }
}

/// The messages of one direction of a connection, searchable by their bytes.
#[derive(Debug, Default)]
pub(super) struct MessageIndex<'a> {
    /// Start, request and message, sorted by start and request. For each entry, `reaches` has the largest `needed` among
    /// the messages up to it.
    messages: Vec<(u64, u64, &'a Message)>,
    reaches: Vec<u64>,
}

impl<'a> MessageIndex<'a> {
    pub(super) fn new(messages: impl Iterator<Item = (&'a Message, u64)>) -> MessageIndex<'a> {
        let placed = messages.map(|(message, request)| (message.start(), request, message));
        let mut messages: Vec<(u64, u64, &Message)> = placed.collect();
        sort_nearly_sorted(&mut messages, |(start, request, _)| (*start, *request));
        let reaches = messages
            .iter()
            .scan(0, |reach: &mut u64, (_, _, message)| {
                *reach = (*reach).max(message.needed);
                Some(*reach)
            })
            .collect();
        MessageIndex { messages, reaches }
    }

    /// The requests with bytes of their own in `[start, end)`.
    pub(super) fn within(&self, start: u64, end: u64) -> Vec<u64> {
        let to = self.messages.partition_point(|(from, ..)| *from < end);
        let from = self.reaches.partition_point(|reach| *reach <= start);
        let near = self.messages[from.min(to)..to].iter();
        let mut found: Vec<u64> = near
            .filter(|(_, _, message)| message.owns_any(start, end))
            .map(|(_, request, _)| *request)
            .collect();
        found.sort_unstable();
        found
    }
}

/// The requests on a connection.
pub(super) struct RequestIndex<'a> {
    pub(super) number: u32,
    /// Over TCP, the messages by direction.
    pub(super) messages: [MessageIndex<'a>; 2],
    /// Over QUIC, the request of each stream.
    pub(super) streams: &'a BTreeMap<u64, u64>,
}

pub(super) fn connection_drops(
    connection: &Connection,
    index: &RequestIndex<'_>,
    victims: &mut Victims,
) -> Vec<DropRecord> {
    let mut rows = match &connection.carrier {
        Carrier::Tcp(tcp) => tcp_drops(connection, tcp, index),
        Carrier::Quic(quic) => quic_drops(quic, index),
    };
    for row in &mut rows {
        row.victims = victims.take(row.packet);
    }
    rows
}

/// A row for a packet of which only the drop is known.
pub(crate) fn bare_drop(
    packet: PacketRef,
    dropped_at: Time,
    fate: Fate,
    connection: Option<u32>,
) -> DropRecord {
    DropRecord {
        packet,
        dropped_at,
        fate,
        connection,
        stream: None,
        start: None,
        end: None,
        carried: Vec::new(),
        repair: Repair::NotNeeded,
        repaired_at: None,
        repaired_by: None,
        victims: Vec::new(),
    }
}

fn lost(tx: &Transmission, index: &RequestIndex<'_>) -> DropRecord {
    bare_drop(
        tx.packet,
        Time::from_nanos(tx.sent),
        tx.fate,
        Some(index.number),
    )
}

fn tcp_drops(
    connection: &Connection,
    tcp: &TcpConnection,
    index: &RequestIndex<'_>,
) -> Vec<DropRecord> {
    let mut rows = Vec::new();
    for tx in &tcp.lost_syns {
        let mut row = lost(tx, index);
        row.repair = Repair::SynTimer;
        if tcp.answered == NEVER {
            row.repair = Repair::Never;
        } else {
            // Whether SYN or SYN-ACK was lost, the client had a SYN-ACK at this time.
            row.repaired_at = Some(Time::from_nanos(tcp.answered));
        }
        rows.push(row);
    }
    for direction in Direction::ALL {
        let place = direction as usize;
        let stream = &tcp.streams[place];
        let side = connection.sides[direction.sender() as usize].as_ref();
        let view = repair::TcpSender {
            stream,
            acks: &tcp.acks[place],
            least_rto: side.and_then(|side| side.least_rto),
            timeouts: side.map(|side| &side.timeouts),
        };
        for (place_of_tx, tx) in (0..).zip(&stream.txs) {
            if !tx.is_lost() {
                continue;
            }
            let mut row = lost(tx, index);
            (row.start, row.end) = (Some(tx.start), Some(tx.end));
            row.carried = index.messages[place].within(tx.start, tx.end);
            fill_repair(&mut row, stream, tx, place_of_tx, |again| {
                view.repair(place_of_tx, again)
            });
            rows.push(row);
        }
    }
    rows
}

fn quic_drops(quic: &QuicConnection, index: &RequestIndex<'_>) -> Vec<DropRecord> {
    let mut rows = Vec::new();
    for direction in Direction::ALL {
        for tx in &quic.lost[direction as usize] {
            let mut row = lost(tx, index);
            match quic.lost_packets.get(&tx.packet) {
                None => row.repair = Repair::Unknown,
                Some(joined) => fill_packet_drop(&mut row, quic, joined, direction, index),
            }
            rows.push(row);
        }
    }
    rows
}

fn fill_packet_drop(
    row: &mut DropRecord,
    quic: &QuicConnection,
    joined: &JoinedPacket,
    direction: Direction,
    index: &RequestIndex<'_>,
) {
    if joined.has_crypto {
        // When the bytes of the handshake arrived after all is not tracked.
        row.repair = Repair::Unknown;
    }
    for chunk in &joined.chunks {
        row.carried.extend(index.streams.get(&chunk.stream));
        let Some(directions) = quic.streams.get(&chunk.stream) else {
            continue;
        };
        let stream = &directions[direction as usize];
        let place = stream.txs.iter().position(|tx| {
            tx.packet == row.packet && tx.start == chunk.start && tx.end == chunk.end
        });
        let Some(place) = place else { continue };
        if row.stream.is_none() {
            row.stream = Some(chunk.stream);
            (row.start, row.end) = (Some(chunk.start), Some(chunk.end));
        }
        let acks = &quic.acks[direction as usize];
        fill_repair(row, stream, &stream.txs[place], place as u32, |again| {
            let sent = stream.txs[again as usize].sent;
            repair::quic(joined.number, sent, acks)
        });
    }
    row.carried.sort_unstable();
    row.carried.dedup();
}

/// Fills in how the bytes of a lost transmission arrived in the end, up to the last of them. The kind of repair is that
/// of the bytes retransmitted first, which is what the sender decided; the others may follow in a separate packet.
fn fill_repair(
    row: &mut DropRecord,
    stream: &Stream,
    tx: &Transmission,
    place: u32,
    kind: impl Fn(u32) -> Repair,
) {
    let pieces = &stream.pieces[stream.places(tx.start, tx.end)];
    let lost_pieces: Vec<&Piece> = pieces
        .iter()
        .filter(|piece| piece.lost().contains(&place))
        .collect();
    let Some(last) = lost_pieces.iter().max_by_key(|piece| piece.arrived) else {
        return;
    };
    let again = lost_pieces
        .iter()
        .filter_map(|piece| stream.sent_again(piece, place));
    if let Some(first) = again.min() {
        row.repair = kind(first);
    }
    if last.arrived == NEVER {
        row.repair = Repair::Never;
        row.repaired_at = None;
        row.repaired_by = None;
    } else if row
        .repaired_at
        .is_none_or(|at| at.as_nanos() < last.arrived)
        && row.repair != Repair::Never
    {
        row.repaired_at = Some(Time::from_nanos(last.arrived));
        row.repaired_by = Some(stream.txs[last.delivered_by as usize].packet.index);
    }
}
