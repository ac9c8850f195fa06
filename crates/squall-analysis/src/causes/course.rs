//! One request's time in full: what it waited for and when, where its bytes were, whose bytes went ahead of them.
//!
//! A course is the same walk that makes the request's row of causes.parquet, before its spans are added up. It takes many
//! times the space of the row, so only chosen requests keep theirs. `explain` prepares courses for a reader. Both modules
//! also show times that are added up by cause, each as a `CauseTime`.

use std::cmp::Reverse;
use std::collections::BTreeSet;

use serde::{Deserialize, Serialize};
use squall_base::record::{Cause, CauseSpans, Direction, Fate};
use squall_base::{Duration, Time};

use super::connection::{Carrier, Connection};
use super::drops::RequestIndex;
use super::message::Message;
use super::request_marks::ServerMarks;
use super::stream::{Stream, Transmission};
use super::timeline::RequestContext;
use super::transfer::{AT_ONCE, MessageContext};
use super::walk::{NEVER, Span, WalkStage};

/// How much to report of a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Detail<'a> {
    /// Its stages.
    Stages,
    /// Its stages and, for these requests, the passages of their messages with all packets.
    PassagesOf(&'a BTreeSet<u64>),
    /// The same as [`Detail::PassagesOf`], and also what the connections of these requests did meanwhile.
    ConnectionsOf(&'a BTreeSet<u64>),
}

impl Detail<'_> {
    fn has_passages(self, request: u64) -> bool {
        match self {
            Detail::Stages => false,
            Detail::PassagesOf(requests) | Detail::ConnectionsOf(requests) => {
                requests.contains(&request)
            }
        }
    }
}

/// A request's time, from when it was due to its end.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Course {
    /// The request, by its position in the schedule.
    pub request: u64,
    /// What its time was spent on, in order and without gaps.
    pub stages: Vec<Stage>,
    /// What the server recorded; `None` if it is not known which of the server's exchanges it was.
    pub server: Option<ServerTimes>,
    /// The passage of the request; `None` if its bytes are not known, or if [`Detail`] leaves it out.
    pub up: Option<Passage>,
    /// The passage of the response.
    pub down: Option<Passage>,
    /// On a path of several hops: the request on each hop, beginning at the client. `up` and `down` are then its passages
    /// on the hop across the first link.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub hops: Vec<HopCourse>,
}

/// A request on one of several hops.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct HopCourse {
    /// The hop, from 1 at the client.
    pub hop: u8,
    /// Whether the request's exchange was seen on this hop. If not, its time is how long the previous hop waited for it.
    pub is_joined: bool,
    /// The connection of its client side.
    pub connection: Option<u32>,
    /// The stream; for HTTP/1.1, the number of the exchange on its connection.
    pub stream: Option<u64>,
    /// What its server side recorded.
    pub server: Option<ServerTimes>,
    /// What its time was spent on, in order and without gaps; empty if it had no time. `server` here is what the next hop
    /// was doing.
    pub stages: Vec<Stage>,
    /// The passage of the request over this hop's link, if the path crosses another link before it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub up: Option<Passage>,
    /// The passage of the response over that link.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub down: Option<Passage>,
}

impl Course {
    /// The passages over all links.
    pub fn passages(&self) -> impl Iterator<Item = &Passage> {
        let further = self.hops.iter().flat_map(|hop| [&hop.up, &hop.down]);
        [&self.up, &self.down].into_iter().chain(further).flatten()
    }
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

impl From<WalkStage> for Stage {
    fn from(WalkStage { span, cause }: WalkStage) -> Stage {
        Stage {
            from: Time::from_nanos(span.from),
            to: Time::from_nanos(span.to),
            cause,
        }
    }
}

/// The time of these stages by cause.
pub(crate) fn spans_of(stages: &[Stage]) -> CauseSpans {
    let mut spans = CauseSpans::default();
    for stage in stages {
        spans[stage.cause] = spans[stage.cause] + stage.to.since(stage.from);
    }
    spans
}

/// The time spent on one cause.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct CauseTime {
    /// The cause.
    #[serde(
        serialize_with = "crate::causes::words::cause",
        deserialize_with = "crate::causes::words::read_cause"
    )]
    pub cause: Cause,
    /// The time, in nanoseconds.
    #[serde(rename = "ns")]
    pub time: Duration,
}

impl CauseTime {
    /// The non-empty times, the largest first.
    pub(crate) fn of(spans: &CauseSpans) -> Vec<CauseTime> {
        let all = Cause::ALL.into_iter().map(|cause| CauseTime {
            cause,
            time: spans[cause],
        });
        let mut times: Vec<CauseTime> = all
            .filter(|cause_time| !cause_time.time.is_zero())
            .collect();
        times.sort_by_key(|cause_time| Reverse(cause_time.time));
        times
    }

    /// The spans that `times` were made from.
    pub(crate) fn spans(times: &[CauseTime]) -> CauseSpans {
        let mut spans = CauseSpans::NONE;
        for cause_time in times {
            spans[cause_time.cause] = cause_time.time;
        }
        spans
    }
}

/// When the server had the request and sent its response.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub struct ServerTimes {
    /// The server's connection.
    pub connection: Option<u32>,
    /// When it had read the request's last byte.
    #[serde(rename = "request_last_ns")]
    pub request_last: Option<Time>,
    /// When its socket had taken the response's first byte.
    #[serde(rename = "response_first_ns")]
    pub response_first: Option<Time>,
    /// When its socket had taken the response's last byte.
    #[serde(rename = "response_last_ns")]
    pub response_last: Option<Time>,
}

impl ServerTimes {
    /// The times that a server recorded, on its connection of that number.
    pub(super) fn of(marks: &ServerMarks, connection: Option<u32>) -> ServerTimes {
        ServerTimes {
            connection,
            request_last: marks.request_last.map(Time::from_nanos),
            response_first: marks.response_first.map(Time::from_nanos),
            response_last: marks.response_last.map(Time::from_nanos),
        }
    }
}

/// A message's passage over the link.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Passage {
    /// Its own bytes, as `[start, end)` of its direction's TCP payload or of its QUIC stream.
    pub own: Vec<(u64, u64)>,
    /// One past the last byte that must arrive before the message's last byte can be read: the end of its TLS record.
    pub needed: u64,
    /// Whether more of the message was still to come when the records ended.
    pub is_open: bool,
    /// The packets that carried bytes of the message, in the order of sending.
    pub packets: Vec<MessagePacket>,
    /// When flow control held back the message or its connection, within the request's time.
    pub held: Vec<Stage>,
    /// Its wait in the sender's send queue, if it waited there.
    pub send_queue: Option<SendQueue>,
    /// The requests whose bytes were sent after this message was offered and before its last byte left, with the number of
    /// packets.
    pub behind: Vec<RequestAhead>,
}

/// A wait from when a message was ready to be sent until it left.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub struct SendQueue {
    /// When the sender had the message.
    #[serde(rename = "from_ns")]
    pub from: Time,
    /// When its last byte left.
    #[serde(rename = "to_ns")]
    pub to: Time,
    /// Packets with new bytes that left in that time, its own included.
    pub packets: u64,
    /// The fewest and the most packets in flight when one of these packets left: what the congestion window allowed.
    pub in_flight: (u64, u64),
    /// Packets that left in that time and were lost.
    pub losses: u64,
}

/// A packet that carried bytes of a message.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub struct MessagePacket {
    /// Its number among all packets of its direction.
    pub index: u64,
    /// The first byte that it carried: of TCP's payload, or of the QUIC stream.
    pub start: u64,
    /// One past the last byte.
    pub end: u64,
    /// Whether some of these bytes had been sent before.
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
    /// What happened to it.
    pub fate: Fate,
}

/// A request whose bytes went ahead of another's.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub struct RequestAhead {
    /// The request, by its position in the schedule.
    pub request: u64,
    /// Packets with its bytes.
    pub packets: u64,
}

/// The course of a request whose walk went through `stages`.
pub(super) fn of(
    context: &RequestContext<'_>,
    stages: Vec<WalkStage>,
    place: Option<(&Connection, &RequestIndex<'_>)>,
    detail: Detail<'_>,
) -> Course {
    let passage = |direction: Direction, message_context: Option<&MessageContext<'_>>| {
        let (connection, index) = place.filter(|_| detail.has_passages(context.marks.request))?;
        Some(passage(
            context,
            direction,
            message_context?,
            connection,
            index,
        ))
    };
    let connection = place.and_then(|(connection, _)| connection.server);
    let times = |server| ServerTimes::of(server, connection);
    Course {
        request: context.marks.request,
        stages: stages.into_iter().map(Stage::from).collect(),
        server: context.server.map(times),
        up: passage(Direction::Up, context.request.as_ref()),
        down: passage(Direction::Down, context.response.as_ref()),
        hops: Vec::new(),
    }
}

fn passage(
    context: &RequestContext<'_>,
    direction: Direction,
    message_context: &MessageContext<'_>,
    connection: &Connection,
    index: &RequestIndex<'_>,
) -> Passage {
    let marks = context.marks;
    let (begin, end) = (marks.intended.as_nanos(), marks.end.as_nanos());
    let message = message_context.message;
    let own = message.own.iter().map(|bytes| (bytes.from, bytes.to));
    let offered = match direction {
        Direction::Up => marks.slot,
        Direction::Down if message_context.is_observed => marks
            .relayed
            .map(|(first, _)| first)
            .or(context.server.and_then(|server| server.request_last)),
        Direction::Down => context.server.and_then(|server| server.response_first),
    };
    let last_sent = last_sent(message_context.stream, message)
        .unwrap_or(end)
        .min(end);
    Passage {
        own: own.collect(),
        needed: message.needed,
        is_open: message.is_open,
        packets: packets(message_context.stream, message, end),
        held: flow_control_waits(message_context, begin, end),
        send_queue: offered
            .and_then(|offered| send_queue(connection, direction, offered, last_sent)),
        behind: offered.map_or_else(Vec::new, |offered| {
            requests_ahead(
                connection,
                index,
                direction,
                marks.request,
                (offered, last_sent),
            )
        }),
    }
}

fn packets(stream: &Stream, message: &Message, end: u64) -> Vec<MessagePacket> {
    let Some(first) = stream.places(message.start(), message.end()).next() else {
        return Vec::new();
    };
    let first = stream.pieces[first].first as usize;
    let during = stream.txs.iter().enumerate().skip(first);
    during
        .take_while(|(_, tx)| tx.sent <= end)
        .filter(|(_, tx)| message.owns_any(tx.start, tx.end))
        .map(|(place, tx)| MessagePacket {
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

/// When the last of the message's bytes was first sent; `None` if not all of them were sent.
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

fn flow_control_waits(message_context: &MessageContext<'_>, begin: u64, end: u64) -> Vec<Stage> {
    let held = message_context.windows;
    let waits = held.map(|(windows, id)| windows.waits(id, begin, end));
    let stages = waits.into_iter().flatten().map(|(span, cause)| WalkStage {
        span: Span::new(span.from, span.to.min(end)),
        cause,
    });
    stages.map(Stage::from).collect()
}

/// What left while a message over TCP waited from `from` to `to`; `None` if it left immediately.
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

/// The requests whose bytes first reached the link between `from` and `to`.
fn requests_ahead(
    connection: &Connection,
    index: &RequestIndex<'_>,
    direction: Direction,
    own: u64,
    (from, to): (u64, u64),
) -> Vec<RequestAhead> {
    let place = direction as usize;
    let mut packets_by_request = std::collections::BTreeMap::<u64, u64>::new();
    match &connection.carrier {
        Carrier::Tcp(tcp) => {
            for tx in sent_within(&tcp.streams[place], from, to) {
                for request in index.messages[place].within(tx.start, tx.end) {
                    *packets_by_request.entry(request).or_default() += 1;
                }
            }
        }
        Carrier::Quic(quic) => {
            for (stream, directions) in &quic.streams {
                let count = sent_within(&directions[place], from, to).count() as u64;
                if count > 0
                    && let Some(request) = index.streams.get(stream)
                {
                    *packets_by_request.entry(*request).or_default() += count;
                }
            }
        }
    }
    packets_by_request.remove(&own);
    let ahead = packets_by_request.into_iter();
    ahead
        .map(|(request, packets)| RequestAhead { request, packets })
        .collect()
}

/// First transmissions between `from` and `to`.
fn sent_within(stream: &Stream, from: u64, to: u64) -> impl Iterator<Item = &Transmission> {
    let first = stream.txs.partition_point(|tx| tx.sent < from);
    let during = stream.txs.iter().enumerate().skip(first);
    let during = during.take_while(move |(_, tx)| tx.sent < to);
    during
        .filter(|(place, tx)| tx.end > stream.sent_before(*place))
        .map(|(_, tx)| tx)
}
