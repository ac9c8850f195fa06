//! One request's time in full: what it waited for and when, where its bytes were, whose bytes went before them.
//!
//! The same walk that makes its row of causes.parquet, with nothing added up. It is made only of the requests that
//! somebody asks for, because it takes many times the space; what a reader is told of it is `explain`'s.

use std::collections::BTreeSet;

use serde::Serialize;
use squall_base::record::{Cause, Direction, Fate};
use squall_base::{Duration, Time};

use super::connection::{Carrier, Connection};
use super::drops::Aboard;
use super::message::Message;
use super::stream::{Stream, Tx};
use super::timeline::{Known, Way};
use super::transfer::AT_ONCE;
use super::walk::{NEVER, Stage as Walked};

/// How much is to be told of a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Detail<'a> {
    /// Its stages.
    Stages,
    /// Its stages, and of these requests their ways with all of their packets.
    WaysOf(&'a BTreeSet<u64>),
}

impl Detail<'_> {
    fn has_ways(self, request: u64) -> bool {
        match self {
            Detail::Stages => false,
            Detail::WaysOf(requests) => requests.contains(&request),
        }
    }
}

/// A request's time, from when it was wanted to its end.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Course {
    /// The request, by its place in the schedule.
    pub request: u64,
    /// What it was spent on, in order and without gaps.
    pub stages: Vec<Stage>,
    /// What the server recorded; `None` if it is not known which exchange of the server's it was.
    pub server: Option<ServerTimes>,
    /// The way of the request, if its bytes are known and it was asked for.
    pub up: Option<Passage>,
    /// The way of the response.
    pub down: Option<Passage>,
    /// On a path of several hops each of them, from the client on; the ways are then those of the hop across the link.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub hops: Vec<HopCourse>,
}

/// A request on one of several hops.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct HopCourse {
    /// The hop, from 1 at the client.
    pub hop: u8,
    /// Whether its exchange was seen there. Of one that was not, the time is how long the hop before waited for it.
    pub is_joined: bool,
    /// Which connection of its client side.
    pub connection: Option<u32>,
    /// The stream; HTTP/1.1: which exchange on its connection.
    pub stream: Option<u64>,
    /// What its server side recorded.
    pub server: Option<ServerTimes>,
    /// What its time was spent on, in order and without gaps; none if it had none. What is `server` here is what the next
    /// hop was doing.
    pub stages: Vec<Stage>,
}

/// A span with its cause.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub struct Stage {
    /// From when, in nanoseconds from the trial's epoch.
    #[serde(rename = "from_ns")]
    pub from: Time,
    /// Until when.
    #[serde(rename = "to_ns")]
    pub to: Time,
    /// What it was spent on.
    #[serde(serialize_with = "crate::causes::words::cause")]
    pub cause: Cause,
}

/// When the server had the request and gave its answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub struct ServerTimes {
    /// Which connection of the server's.
    pub connection: Option<u32>,
    /// It had read the request's last byte.
    #[serde(rename = "request_last_ns")]
    pub request_last: Option<Time>,
    /// Its socket had taken the answer's first byte.
    #[serde(rename = "response_first_ns")]
    pub response_first: Option<Time>,
    /// Its socket had taken the answer's last byte.
    #[serde(rename = "response_last_ns")]
    pub response_last: Option<Time>,
}

/// A message's way over the link.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Passage {
    /// Its own bytes, as `[start, end)` of its direction's TCP payload or of its QUIC stream.
    pub own: Vec<(u64, u64)>,
    /// After the last byte that must be there before its last one can be read: the end of its TLS record.
    pub needed: u64,
    /// More of it was to come when the record ended.
    pub is_open: bool,
    /// The packets with bytes of its own, in the order of sending.
    pub packets: Vec<Passing>,
    /// When flow control held it or its connection within the request's time.
    pub held: Vec<Stage>,
    /// What it met in its sender's send queue, if it waited there.
    pub send_queue: Option<SendQueue>,
    /// The requests whose bytes were sent between its being offered and the last of its own, with how many packets.
    pub behind: Vec<Ahead>,
}

/// A wait between being ready to be sent and leaving.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub struct SendQueue {
    /// From when the sender had it.
    #[serde(rename = "from_ns")]
    pub from: Time,
    /// Until its last byte left.
    #[serde(rename = "to_ns")]
    pub to: Time,
    /// Packets with new bytes that left meanwhile, its own included.
    pub packets: u64,
    /// The fewest and the most packets that were in flight when one left: what the congestion window allowed.
    pub in_flight: (u64, u64),
    /// Packets that left meanwhile and were lost.
    pub losses: u64,
}

/// A packet with bytes of a message.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub struct Passing {
    /// Its number among all packets of its direction.
    pub index: u64,
    /// The bytes that it carried: of TCP's payload, or of the QUIC stream.
    pub start: u64,
    /// After the last of them.
    pub end: u64,
    /// Some of them had been sent before.
    pub is_again: bool,
    /// When it reached the link.
    #[serde(rename = "sent_ns")]
    pub sent: Time,
    /// How long the link's queue and rate held it.
    #[serde(rename = "queueing_ns")]
    pub queueing: Duration,
    /// When it was delivered undamaged.
    #[serde(rename = "arrived_ns")]
    pub arrived: Option<Time>,
    /// What became of it.
    pub fate: Fate,
}

/// A request whose bytes went before another's.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub struct Ahead {
    /// The request, by its place in the schedule.
    pub request: u64,
    /// Packets with its bytes.
    pub packets: u64,
}

/// Of a request whose walk went through `stages`.
pub(super) fn of(
    known: &Known<'_>,
    stages: Vec<Walked>,
    place: Option<(&Connection, &Aboard<'_>)>,
    detail: Detail<'_>,
) -> Course {
    let passage = |direction: Direction, way: Option<&Way<'_>>| {
        let (connection, aboard) = place.filter(|_| detail.has_ways(known.marks.request))?;
        Some(passage(known, direction, way?, connection, aboard))
    };
    Course {
        request: known.marks.request,
        stages: stages.into_iter().map(stage).collect(),
        server: known.server.map(|server| ServerTimes {
            connection: place.and_then(|(connection, _)| connection.server),
            request_last: server.request_last.map(Time::from_nanos),
            response_first: server.response_first.map(Time::from_nanos),
            response_last: server.response_last.map(Time::from_nanos),
        }),
        up: passage(Direction::Up, known.request.as_ref()),
        down: passage(Direction::Down, known.response.as_ref()),
        hops: Vec::new(),
    }
}

pub(super) fn stage(walked: Walked) -> Stage {
    Stage {
        from: Time::from_nanos(walked.span.from),
        to: Time::from_nanos(walked.span.to),
        cause: walked.cause,
    }
}

fn passage(
    known: &Known<'_>,
    direction: Direction,
    way: &Way<'_>,
    connection: &Connection,
    aboard: &Aboard<'_>,
) -> Passage {
    let marks = known.marks;
    let (begin, end) = (marks.intended.as_nanos(), marks.end.as_nanos());
    let message = way.message;
    let own = message.own.iter().map(|bytes| (bytes.from, bytes.to));
    let offered = match direction {
        Direction::Up => marks.slot,
        Direction::Down if way.is_observed => marks
            .relayed
            .map(|(first, _)| first)
            .or(known.server.and_then(|server| server.request_last)),
        Direction::Down => known.server.and_then(|server| server.response_first),
    };
    let last_sent = last_sent(way.stream, message).unwrap_or(end).min(end);
    Passage {
        own: own.collect(),
        needed: message.needed,
        is_open: message.is_open,
        packets: packets(way.stream, message, end),
        held: held(way, begin, end),
        send_queue: offered
            .and_then(|offered| send_queue(connection, direction, offered, last_sent)),
        behind: offered.map_or_else(Vec::new, |offered| {
            ahead(
                connection,
                aboard,
                direction,
                marks.request,
                (offered, last_sent),
            )
        }),
    }
}

fn packets(stream: &Stream, message: &Message, end: u64) -> Vec<Passing> {
    let Some(first) = stream.places(message.start(), message.end()).next() else {
        return Vec::new();
    };
    let first = stream.pieces[first].first as usize;
    let during = stream.txs.iter().enumerate().skip(first);
    during
        .take_while(|(_, tx)| tx.sent <= end)
        .filter(|(_, tx)| message.owns_any(tx.start, tx.end))
        .map(|(place, tx)| Passing {
            index: tx.packet.index,
            start: tx.start,
            end: tx.end,
            is_again: tx.start < stream.sent_before(place),
            sent: Time::from_nanos(tx.sent),
            queueing: Duration::from_nanos(tx.queueing),
            arrived: (tx.arrived != NEVER).then(|| Time::from_nanos(tx.arrived)),
            fate: tx.fate,
        })
        .collect()
}

/// When the own byte that went last was first sent; `None` if not all were.
fn last_sent(stream: &Stream, message: &Message) -> Option<u64> {
    if message.is_open || message.end() > stream.end() {
        return None;
    }
    let own = message.own.iter();
    let pieces = own.flat_map(|bytes| &stream.pieces[stream.places(bytes.from, bytes.to)]);
    pieces
        .map(|piece| stream.txs[piece.first as usize].sent)
        .max()
}

fn held(way: &Way<'_>, begin: u64, end: u64) -> Vec<Stage> {
    let Some((windows, id)) = way.windows else {
        return Vec::new();
    };
    let stage = |cause: Cause| {
        move |span: super::walk::Span| Stage {
            from: Time::from_nanos(span.from),
            to: Time::from_nanos(span.to.min(end)),
            cause,
        }
    };
    let stream = windows.stream(id, begin, end);
    let connection = windows.connection(begin, end);
    stream
        .map(stage(Cause::WindowStream))
        .chain(connection.map(stage(Cause::WindowConnection)))
        .collect()
}

/// What left while a message of TCP waited from `from` to `to`; `None` if it left at once.
fn send_queue(
    connection: &Connection,
    direction: Direction,
    from: u64,
    to: u64,
) -> Option<SendQueue> {
    let Carrier::Tcp(tcp) = &connection.carrier else {
        return None;
    };
    if to.saturating_sub(from) < AT_ONCE {
        return None;
    }
    let stream = &tcp.streams[direction as usize];
    let all = sent_within(stream, from, to);
    let counts: Vec<u64> = all.map(|tx| tcp.in_flight(direction, tx.sent)).collect();
    let first = stream.txs.partition_point(|tx| tx.sent < from);
    let during = stream.txs[first..].iter().take_while(|tx| tx.sent < to);
    Some(SendQueue {
        from: Time::from_nanos(from),
        to: Time::from_nanos(to),
        packets: counts.len() as u64,
        in_flight: (
            counts.iter().min().copied().unwrap_or(0),
            counts.iter().max().copied().unwrap_or(0),
        ),
        losses: during.filter(|tx| tx.is_lost()).count() as u64,
    })
}

/// Whose bytes first reached the link after `from` and before `to`.
fn ahead(
    connection: &Connection,
    aboard: &Aboard<'_>,
    direction: Direction,
    own: u64,
    (from, to): (u64, u64),
) -> Vec<Ahead> {
    let place = direction as usize;
    let mut found = std::collections::BTreeMap::<u64, u64>::new();
    match &connection.carrier {
        Carrier::Tcp(tcp) => {
            for tx in sent_within(&tcp.streams[place], from, to) {
                for request in aboard.messages[place].within(tx.start, tx.end) {
                    *found.entry(request).or_default() += 1;
                }
            }
        }
        Carrier::Quic(quic) => {
            for (stream, ways) in &quic.streams {
                let count = sent_within(&ways[place], from, to).count() as u64;
                if count > 0
                    && let Some(request) = aboard.streams.get(stream)
                {
                    *found.entry(*request).or_default() += count;
                }
            }
        }
    }
    found.remove(&own);
    let ahead = found.into_iter();
    ahead
        .map(|(request, packets)| Ahead { request, packets })
        .collect()
}

/// First transmissions between `from` and `to`.
fn sent_within(stream: &Stream, from: u64, to: u64) -> impl Iterator<Item = &Tx> {
    let first = stream.txs.partition_point(|tx| tx.sent < from);
    let during = stream.txs.iter().enumerate().skip(first);
    let during = during.take_while(move |(_, tx)| tx.sent < to);
    during
        .filter(|(place, tx)| tx.end > stream.sent_before(*place))
        .map(|(_, tx)| tx)
}
