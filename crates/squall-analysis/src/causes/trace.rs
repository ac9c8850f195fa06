//! What a connection did while certain requests were on it, and over its whole life: what each side sent, what was
//! acknowledged, what was in flight, and what held the sender back.
//!
//! Traces come from the same data as attribution, with more detail in the time of those requests than in the rest. Long
//! lists are thinned (`thinned`). Nothing is judged here. The frames and the sockets' samples themselves are added by
//! `detail`.

use squall_base::record::{Cause, Direction};
use squall_base::{Duration, Time};

use super::connection::{Carrier, Connection};
use super::course::Stage;
use super::drops::RequestIndex;
use super::request_marks::RequestMarks;
use super::sending::{Departure, SenderEvidence, SenderState};
use super::stream::Stream;
use super::walk::{NEVER, Span, WalkStage};
use crate::thinned::Thinned;

/// How much detail is kept of a window of time.
#[derive(Clone, Copy, Debug)]
struct Scale {
    /// The most entries that each list of a direction keeps.
    kept: usize,
    /// The number of intervals in which delivered bytes are summed up.
    intervals: u64,
    /// Two waits for the same cause are joined if the gap between them is at most the window's length divided by this: about
    /// a pixel.
    joined_within: u64,
}

/// For windows around requests.
const REQUEST_SCALE: Scale = Scale {
    kept: 1_500,
    intervals: 120,
    joined_within: 1_000,
};
/// For a connection's whole life, with less detail, because a page shows the lives of many connections.
const LIFE_SCALE: Scale = Scale {
    kept: 400,
    intervals: 240,
    joined_within: 500,
};

/// A window begins before its request and ends after it, by the request's response time divided by this.
const MARGIN: u64 = 20;

/// A connection while certain requests were on it, and over its whole life.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ConnectionTrace {
    /// The hop of the path, from 1 at the client.
    pub hop: u8,
    /// The number that the hop's client gave it.
    pub connection: u32,
    /// The number that the hop's server gave it; `None` if it never reached the server.
    pub server: Option<u32>,
    /// Whether it is QUIC. If so, the offsets of a packet are within its stream, and acknowledgements are of packet numbers.
    pub is_quic: bool,
    /// When its first packet reached the link.
    pub opened: Time,
    /// The times of the requests, in order; overlapping ones are joined.
    pub windows: Vec<TraceWindow>,
    /// The time from its first packet to its last, without requests. `None` if the windows cover nearly all of it, or if
    /// not all of the connection's records were read.
    pub life: Option<TraceWindow>,
}

/// A part of a connection's time. All lists are in the order of time.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TraceWindow {
    /// From when.
    pub from: Time,
    /// Until when.
    pub to: Time,
    /// The requests that it is shown for; empty for a whole life.
    pub requests: Vec<TracedRequest>,
    /// What the client sent, and what the server sent.
    pub directions: [DirectionTrace; 2],
}

/// A request on the connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TracedRequest {
    /// The request, by its position in the schedule.
    pub request: u64,
    /// Its stream; for HTTP/1.1, the number of the exchange on the connection.
    pub stream: Option<u64>,
    /// When it was due.
    pub from: Time,
    /// When it ended.
    pub to: Time,
}

/// One direction of a connection.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct DirectionTrace {
    /// The packets with payload; QUIC: those with stream bytes, once for each stream. Thinning keeps up to half
    /// of the places for lost and repeated ones.
    pub packets: Thinned<TracePacket>,
    /// How many of all packets were lost.
    pub lost: u64,
    /// How many of all packets had bytes that had been sent before.
    pub repeated: u64,
    /// QUIC: the packets by number; each ranges from its number to the next. Empty for TCP.
    pub numbers: Thinned<TracePacket>,
    /// The acknowledgements that its sender read.
    pub acks: Thinned<TraceAck>,
    /// What was in flight after each packet and each acknowledgement.
    pub in_flight: Thinned<InFlight>,
    /// When its sender had to wait, and for what: windows, the congestion window, pacing, the send buffer. `loss` is the
    /// repair of a loss. Stream windows are those of the requests shown; for a whole life, those of all streams.
    pub held: Vec<Stage>,
    /// The length of each interval in `delivered`.
    pub interval: Duration,
    /// Bytes of payload that arrived, by interval.
    pub delivered: Vec<u64>,
}

/// A packet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TracePacket {
    /// When it reached the link.
    pub sent: Time,
    /// When it arrived undamaged.
    pub arrived: Option<Time>,
    /// The first byte: of TCP's payload, or of the stream.
    pub start: u64,
    /// One past the last byte.
    pub end: u64,
    /// QUIC: the stream.
    pub stream: Option<u64>,
    /// The request that the bytes belong to; if several, the first.
    pub request: Option<u64>,
    /// Whether some of the bytes had been sent before.
    pub is_again: bool,
    /// Whether it was lost.
    pub is_lost: bool,
}

/// An acknowledgement.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TraceAck {
    /// When it reached the sender of the data.
    pub at: Time,
    /// Everything before this byte is acknowledged; QUIC: one past the largest packet number that is.
    pub to: u64,
}

/// What was in flight.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct InFlight {
    /// From when.
    pub at: Time,
    /// Bytes that were sent and not acknowledged; QUIC: those of packets above the largest acknowledged number.
    pub bytes: u64,
}

/// Traces the connection during these requests, and over its whole life; `None` without requests.
pub(super) fn of<'a>(
    connection: &Connection,
    index: &RequestIndex<'_>,
    requests: impl Iterator<Item = &'a RequestMarks>,
) -> Option<ConnectionTrace> {
    let windows: Vec<TraceWindow> = requested_spans(requests)
        .into_iter()
        .map(|(span, requests)| window(connection, index, span, requests, REQUEST_SCALE))
        .collect();
    (!windows.is_empty()).then(|| ConnectionTrace {
        hop: 1,
        connection: index.number,
        server: connection.server,
        is_quic: connection.is_quic(),
        opened: Time::from_nanos(connection.handshake.opened),
        life: life(connection, index, &windows),
        windows,
    })
}

fn window(
    connection: &Connection,
    index: &RequestIndex<'_>,
    span: Span,
    requests: Vec<TracedRequest>,
    scale: Scale,
) -> TraceWindow {
    TraceWindow {
        from: Time::from_nanos(span.from),
        to: Time::from_nanos(span.to),
        directions: Direction::ALL
            .map(|direction| direction_trace(connection, index, direction, span, &requests, scale)),
        requests,
    }
}

/// The whole life, unless the windows cover at least nine tenths of it.
fn life(
    connection: &Connection,
    index: &RequestIndex<'_>,
    windows: &[TraceWindow],
) -> Option<TraceWindow> {
    let span = lifetime(connection);
    let shown = windows.iter().map(|it| it.to.since(it.from).as_nanos());
    let is_shown = shown.sum::<u64>() >= (span.to - span.from) / 10 * 9;
    (!is_shown).then(|| window(connection, index, span, Vec::new(), LIFE_SCALE))
}

/// From a connection's first packet until the last of its bytes or acknowledgements arrived, or was sent and lost.
fn lifetime(connection: &Connection) -> Span {
    let opened = connection.handshake.opened;
    let is_known = |time: &u64| *time != NEVER;
    let (sent, acknowledged) = match &connection.carrier {
        Carrier::Tcp(tcp) => {
            let acks = tcp.acks.iter().flatten().map(|ack| ack.arrived);
            (last_of(tcp.streams.iter()), acks.filter(is_known).max())
        }
        Carrier::Quic(quic) => {
            let acks = quic.acks.iter().flatten().map(|ack| ack.time);
            let streams = quic.streams.values().flatten();
            (last_of(streams), acks.filter(is_known).max())
        }
    };
    let last = sent.max(acknowledged).unwrap_or(opened);
    Span::new(opened, last.max(opened).saturating_add(1))
}

/// When the last bytes of these streams arrived, or were sent and lost.
fn last_of<'a>(streams: impl Iterator<Item = &'a Stream>) -> Option<u64> {
    let txs = streams.flat_map(|stream| &stream.txs);
    let times = txs.flat_map(|tx| [tx.sent, tx.arrived]);
    times.filter(|time| *time != NEVER).max()
}

/// How long before a request the window of its connection begins, and how long after it the window ends.
pub fn window_margin(request: Duration) -> Duration {
    Duration::from_nanos(request.as_nanos() / MARGIN)
}

/// The times of requests with a margin, joined where they overlap, each with its requests.
fn requested_spans<'a>(
    requests: impl Iterator<Item = &'a RequestMarks>,
) -> Vec<(Span, Vec<TracedRequest>)> {
    let mut all: Vec<TracedRequest> = requests
        .map(|marks| TracedRequest {
            request: marks.request,
            stream: marks.stream,
            from: marks.intended,
            to: marks.end.max(marks.intended),
        })
        .collect();
    all.sort_by_key(|it| (it.from, it.request));
    let mut spans: Vec<(Span, Vec<TracedRequest>)> = Vec::new();
    for request in all {
        let (from, to) = (request.from.as_nanos(), request.to.as_nanos());
        let margin = window_margin(request.to.since(request.from)).as_nanos();
        let own = Span::new(
            from.saturating_sub(margin),
            to.saturating_add(margin.max(1)),
        );
        match spans.last_mut() {
            Some((last, requests)) if own.from <= last.to => {
                last.from = last.from.min(own.from);
                last.to = last.to.max(own.to);
                requests.push(request);
            }
            _ => spans.push((own, vec![request])),
        }
    }
    spans
}

fn direction_trace(
    connection: &Connection,
    index: &RequestIndex<'_>,
    direction: Direction,
    span: Span,
    requests: &[TracedRequest],
    scale: Scale,
) -> DirectionTrace {
    let evidence = match &connection.carrier {
        Carrier::Tcp(tcp) => tcp.evidence(direction, Vec::new()),
        Carrier::Quic(quic) => quic.evidence(direction),
    };
    let is_quic = connection.is_quic();
    let packets = packets(connection, direction, span);
    let count =
        |is_it: fn(&TracePacket) -> bool| packets.iter().filter(|it| is_it(it)).count() as u64;
    let (lost, repeated) = (count(|it| it.is_lost), count(|it| it.is_again));
    let interval = (span.to - span.from).div_ceil(scale.intervals).max(1);
    let acks = evidence.acknowledgements.iter();
    let acks = acks.filter(|it| is_within(span, it.time));
    let acks = acks.map(|it| TraceAck {
        at: Time::from_nanos(it.time),
        to: it.to,
    });
    let delivered = delivered(&packets, span, interval);
    let mut packets = Thinned::of(packets, scale.kept, |it| it.is_lost || it.is_again);
    for packet in &mut packets.kept {
        packet.request = request_of(index, direction, packet);
    }
    let in_flight = in_flight(&evidence, first_byte(connection, direction), span);
    DirectionTrace {
        delivered,
        lost,
        repeated,
        interval: Duration::from_nanos(interval),
        packets,
        numbers: if is_quic {
            Thinned::of(numbers(&evidence, span), scale.kept, |it| it.is_lost)
        } else {
            Thinned::default()
        },
        acks: Thinned::of(acks.collect(), scale.kept, |_| false),
        in_flight: Thinned::peaks(in_flight, scale.kept, |it| it.bytes),
        held: joined(
            &held(connection, direction, span, requests),
            span,
            scale.joined_within,
        ),
    }
}

fn is_within(span: Span, time: u64) -> bool {
    (span.from..=span.to).contains(&time)
}

/// The packets of a direction, without their requests.
fn packets(connection: &Connection, direction: Direction, span: Span) -> Vec<TracePacket> {
    let place = direction as usize;
    match &connection.carrier {
        Carrier::Tcp(tcp) => stream_packets(&tcp.streams[place], span).collect(),
        Carrier::Quic(quic) => {
            let mut all = Vec::new();
            for (stream, directions) in &quic.streams {
                let own = stream_packets(&directions[place], span);
                all.extend(own.map(|packet| TracePacket {
                    stream: Some(*stream),
                    ..packet
                }));
            }
            all.sort_by_key(|packet| (packet.sent, packet.stream));
            all
        }
    }
}

/// The request that a packet's bytes belong to; if several, the first.
fn request_of(index: &RequestIndex<'_>, direction: Direction, packet: &TracePacket) -> Option<u64> {
    match packet.stream {
        Some(stream) => index.streams.get(&stream).copied(),
        None => {
            let messages = &index.messages[direction as usize];
            messages.within(packet.start, packet.end).first().copied()
        }
    }
}

fn stream_packets(stream: &Stream, span: Span) -> impl Iterator<Item = TracePacket> + '_ {
    let first = stream.txs.partition_point(|tx| tx.sent < span.from);
    let during = stream.txs.iter().enumerate().skip(first);
    let during = during.take_while(move |(_, tx)| tx.sent <= span.to);
    during.map(|(place, tx)| TracePacket {
        sent: Time::from_nanos(tx.sent),
        arrived: (tx.arrived != NEVER).then(|| Time::from_nanos(tx.arrived)),
        start: tx.start,
        end: tx.end,
        stream: None,
        request: None,
        is_again: tx.start < stream.sent_before(place),
        is_lost: tx.is_lost(),
    })
}

/// QUIC's packets with stream bytes, by number.
fn numbers(evidence: &SenderEvidence, span: Span) -> Vec<TracePacket> {
    let mut lost: Vec<u64> = evidence.repairs.iter().map(|it| it.bytes.from).collect();
    lost.sort_unstable();
    let departures = evidence.departures.iter();
    let during = departures.filter(|it| is_within(span, it.time));
    during
        .map(|it| {
            let number = it.end.saturating_sub(1);
            TracePacket {
                sent: Time::from_nanos(it.time),
                arrived: None,
                start: number,
                end: it.end,
                stream: None,
                request: None,
                is_again: false,
                is_lost: lost.binary_search(&number).is_ok(),
            }
        })
        .collect()
}

/// TCP: the first byte of a direction in the records. It is not the stream's first byte if the records begin in the middle
/// of the connection.
fn first_byte(connection: &Connection, direction: Direction) -> Option<u64> {
    match &connection.carrier {
        Carrier::Tcp(tcp) => {
            let first = tcp.streams[direction as usize].txs.first();
            Some(first.map_or(0, |tx| tx.start))
        }
        Carrier::Quic(_) => None,
    }
}

/// What was in flight within `span`. For TCP, `first_byte` is the first byte in the records: everything before it counts as
/// acknowledged until an acknowledgement shows otherwise. For QUIC it is `None`.
fn in_flight(evidence: &SenderEvidence, first_byte: Option<u64>, span: Span) -> Vec<InFlight> {
    let is_quic = first_byte.is_none();
    // Bytes that were sent up to and including a departure, and bytes that an acknowledgement covers.
    let sent = |it: &Departure| if is_quic { it.weight } else { it.end };
    let covered = |to: u64| {
        if !is_quic {
            return to;
        }
        let count = evidence.departures.partition_point(|it| it.end <= to);
        let last = count.checked_sub(1);
        last.map_or(0, |place| evidence.departures[place].weight)
    };
    let departures = evidence.departures.iter();
    let departures = departures.map(|it| (it.time, sent(it), None));
    let acks = evidence.acknowledgements.iter();
    let acks = acks.map(|it| (it.time, 0, Some(covered(it.to))));
    let mut events: Vec<(u64, u64, Option<u64>)> = departures.chain(acks).collect();
    events.sort_by_key(|(time, ..)| *time);
    let begin = first_byte.unwrap_or(0);
    let (mut sent_to, mut acked_to) = (begin, None);
    let mut all = Vec::new();
    for (time, sent, acked) in events {
        sent_to = sent.max(sent_to);
        acked_to = acked.max(acked_to);
        if is_within(span, time) {
            all.push(InFlight {
                at: Time::from_nanos(time),
                bytes: sent_to.saturating_sub(acked_to.unwrap_or(begin)),
            });
        }
    }
    all
}

/// When the sender of a direction had to wait, by cause and time. The stream windows are those of the requests; without
/// requests, those of all streams.
fn held(
    connection: &Connection,
    direction: Direction,
    span: Span,
    requests: &[TracedRequest],
) -> Vec<(Cause, Span)> {
    let mut all: Vec<(Cause, Span)> = Vec::new();
    if let Some(side) = &connection.sides[direction.sender() as usize] {
        let windows = &side.windows;
        let of_connection = windows.connection(span.from, span.to);
        all.extend(of_connection.map(|it| (Cause::WindowConnection, it)));
        if requests.is_empty() {
            let of_any = windows.any_stream(span.from, span.to);
            all.extend(of_any.map(|it| (Cause::WindowStream, it)));
        }
        for stream in requests.iter().filter_map(|it| it.stream) {
            let of_stream = windows.stream(stream, span.from, span.to);
            all.extend(of_stream.map(|it| (Cause::WindowStream, it)));
        }
    }
    let states = connection.timeline(direction).within(span.from, span.to);
    all.extend(states.filter_map(|(it, state)| match state {
        SenderState::Held(cause) => Some((cause, it)),
        SenderState::Repairing(_) => Some((Cause::Loss, it)),
        SenderState::Idle | SenderState::Open => None,
    }));
    all.sort_by_key(|(cause, it)| (*cause, it.from));
    all
}

/// Cuts waits to `span`, and joins those for the same cause if the gap between them is at most `span` divided by `part`.
fn joined(sorted: &[(Cause, Span)], span: Span, part: u64) -> Vec<Stage> {
    let near = (span.to - span.from) / part;
    let mut joined: Vec<(Cause, Span)> = Vec::new();
    for (cause, it) in sorted {
        let own = Span::new(it.from.max(span.from), it.to.min(span.to));
        match joined.last_mut() {
            Some((last_cause, last))
                if last_cause == cause && own.from <= last.to.saturating_add(near) =>
            {
                last.to = last.to.max(own.to);
            }
            _ => joined.push((*cause, own)),
        }
    }
    let stages = joined.into_iter();
    let stages = stages.map(|(cause, span)| Stage::from(WalkStage { span, cause }));
    stages.collect()
}

/// Bytes that arrived, by interval.
fn delivered(packets: &[TracePacket], span: Span, interval: u64) -> Vec<u64> {
    let count = (span.to - span.from).div_ceil(interval);
    let mut bytes = vec![0; count as usize];
    for packet in packets {
        let Some(arrived) = packet.arrived else {
            continue;
        };
        let place = arrived.as_nanos().saturating_sub(span.from) / interval;
        if let Some(sum) = bytes.get_mut(place as usize) {
            *sum += packet.end - packet.start;
        }
    }
    bytes
}

#[cfg(test)]
mod tests {
    use super::super::sending::Acknowledgement;
    use super::*;

    fn acknowledged(time: u64, to: u64) -> Acknowledgement {
        Acknowledgement {
            time,
            to,
            limit: NEVER,
        }
    }

    /// The records begin when bytes 1,000 to 2,000 are in flight.
    #[test]
    fn acknowledgement_shows_what_was_in_flight_before_the_records_begin() {
        let departures = [(100, 3_000), (110, 4_000)];
        let evidence = SenderEvidence {
            departures: departures
                .map(|(time, end)| Departure {
                    time,
                    end,
                    weight: 0,
                })
                .to_vec(),
            acknowledgements: [(105, 1_000), (120, 2_000), (130, 4_000)]
                .map(|(time, to)| acknowledged(time, to))
                .to_vec(),
            ..SenderEvidence::default()
        };
        let all = in_flight(&evidence, Some(2_000), Span::new(105, 200));
        let bytes: Vec<u64> = all.iter().map(|it| it.bytes).collect();
        assert_eq!(bytes, [2_000, 3_000, 2_000, 0]);
    }
}
