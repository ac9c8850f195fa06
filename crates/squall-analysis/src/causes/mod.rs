//! What each request's response time was spent on, and which dropped packets are responsible.
//!
//! Takes the records of a trial and produces the rows of causes.parquet and drops.parquet. For each request, the time from
//! when it was due to its end is walked once and cut into spans, each with one cause, so that they add up exactly. What
//! cannot be known is `unknown`, never guessed, and what hosts add is `host`. docs/METHOD.md says what each cause means and
//! how far it can be trusted. Nothing here judges a cause, compares variants, or reads a file.
//!
//! - Intake: `columns` says which columns are read. `intake` takes the rows and keeps them packed, by connection, until the
//!   connection is processed, so that only one connection at a time is unpacked in memory.
//! - A connection: `tcp` and `quic` make connections from the link's packets, `stream` knows when each of their bytes
//!   arrived, `connection` brings client, server and link together, `path` works out when a lost packet would have left the
//!   queue and arrived.
//! - Waits: `message` says which bytes belong to which message, `windows` when flow control held them back, `sending` what
//!   held a sender back, `queue` what the requests ahead in a queue waited for.
//! - A request: `request_marks` are its times as both sides recorded them; `timeline` walks through all of it and `transfer`
//!   through the passage of one message, both with `walk`; `search` finds rows by time.
//! - Lost packets: `drops` and `repair`.
//! - Paths of several hops: `hops` does all this hop by hop.
//! - One request of a long trial: `near` needs only the records near that request, and what `beginnings` has read of all
//!   connections.
//! - For people to read: `course` is one request in full, for `explain`; `trace` is its connection meanwhile, for `detail`;
//!   `shares` adds up whole runs, for reports.
//!
//! ```
//! use squall_analysis::causes::{Inputs, attribute};
//!
//! let attribution = attribute(Inputs::new());
//! assert!(attribution.causes.is_empty() && attribution.drops.is_empty());
//! ```

mod beginnings;
mod columns;
mod connection;
mod course;
mod drops;
mod exchanges;
mod frames;
mod hops;
mod intake;
mod message;
mod near;
mod numbered;
pub(crate) mod packed;
mod path;
mod queue;
pub(crate) mod quic;
mod repair;
mod request_marks;
mod requests;
mod rows;
mod search;
mod sending;
mod shares;
mod stream;
pub(crate) mod tcp;
mod timeline;
mod trace;
mod transfer;
mod walk;
mod windows;
pub(crate) mod words;

use std::collections::{BTreeMap, BTreeSet};

use squall_base::record::{Cause, CausesRecord, Direction, DropRecord, Extent};

pub use beginnings::PathBeginnings;
pub use columns::{ExchangeCells, FirstFrameCells, PacketCells, RequestCells, SocketCells};
use connection::{Carrier, Connection, Connections};
pub(crate) use course::spans_of;
pub use course::{
    CauseTime, Course, Detail, HopCourse, MessagePacket, Passage, RequestAhead, SendQueue,
    ServerTimes, Stage,
};
pub(crate) use drops::bare_drop;
use drops::{MessageIndex, RequestIndex, Victims};
use exchanges::{ConnectionExchanges, Extents, ServerRow};
use frames::SideRecords;
pub use hops::{PathInputs, PathShape, attribute_path, follow_path};
pub use intake::Inputs;
use message::{Bytes, Message, WireMapping};
pub use near::PathConnections;
use queue::{Occupancy, Slices};
use request_marks::{RequestMarks, ServerMarks};
use requests::IndexedRequest;
pub use rows::CauseRows;
use rows::CauseRowsBuilder;
pub(crate) use rows::without_roots;
pub use shares::{BANDS, Band, BandTime, CellBandTimes, RunBandTimes, TrialBandTimes};
use timeline::RequestContext;
pub use trace::{
    ConnectionTrace, DirectionTrace, InFlight, TraceAck, TracePacket, TraceWindow, TracedRequest,
    window_margin,
};
use transfer::MessageContext;
use walk::Span;

/// The results of attribution.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Attribution {
    /// One row for each request, covering all its time, in the order in which the requests were added.
    pub causes: CauseRows,
    /// On a path of several hops, one row for each request on each hop, sorted by hop.
    pub hops: Vec<CausesRecord>,
    /// One row for each packet that was dropped or damaged, in the order of their arrival at the link.
    pub drops: Vec<DropRecord>,
    /// The connections of the requests in [`Detail::ConnectionsOf`], sorted by hop; empty for less detail.
    pub traces: Vec<ConnectionTrace>,
}

/// Attributes all of a trial's response times to causes.
///
/// The spans of each row add up to the request's `end - intended` exactly. Time and memory grow with the records.
pub fn attribute(inputs: Inputs) -> Attribution {
    follow(inputs, &BTreeSet::new(), Detail::Stages).0
}

/// Like [`attribute`]; also returns the courses of some of the requests, in the order in which the requests were added.
pub fn follow(
    mut inputs: Inputs,
    requests: &BTreeSet<u64>,
    detail: Detail<'_>,
) -> (Attribution, Vec<Course>) {
    inputs.sort();
    let mut connections = Connections::new(&mut inputs);
    let mut builder = AttributionBuilder::new(inputs.requests.count(), requests, detail);
    let queued_within = inputs.requests.queued_within();
    builder.occupancy = queued_within.map(|span| Occupancy::new(Slices::of(span)));
    let mut connections_by_flow: BTreeMap<u32, Vec<(u64, u32)>> = BTreeMap::new();
    for (place, marks) in inputs.requests.find_owners(connections.opened()) {
        builder.add_unconnected(place, &marks);
    }
    for number in connections.numbers() {
        let Some(connection) = connections.take(number, &mut inputs) else {
            continue;
        };
        let opened = connection.handshake.opened;
        connections_by_flow
            .entry(connection.flow)
            .or_default()
            .push((opened, number));
        let placed = inputs.requests.take(number);
        let exchanges = inputs.exchanges.take(number, connection.server);
        let requests =
            ConnectionRequests::new(&placed, &exchanges, &connection, inputs.is_observed);
        let index = requests.request_index(number);
        requests.attribute(&index, &mut builder);
        builder.traces.extend(requests.trace(&index, detail));
        builder.drops.extend(drops::connection_drops(
            &connection,
            &index,
            &mut builder.victims,
        ));
    }
    // Requests of connections that the link never saw.
    for (place, marks) in inputs.requests.take_rest() {
        builder.add_unconnected(place, &marks);
    }
    builder.drops.extend(inputs.bare_drops.iter().map(|drop| {
        let of_flow = connections_by_flow.get(&drop.flow);
        let connection = of_flow.and_then(|numbers| {
            let mut before = numbers.iter().rev();
            before.find(|(opened, _)| *opened <= drop.arrived.as_nanos())
        });
        let number = connection.map(|(_, number)| *number);
        bare_drop(drop.packet, drop.arrived, drop.fate, number)
    }));
    builder.finish()
}

/// The results so far.
struct AttributionBuilder<'a> {
    rows: CauseRowsBuilder,
    drops: Vec<DropRecord>,
    traces: Vec<ConnectionTrace>,
    victims: Victims,
    followed: &'a BTreeSet<u64>,
    detail: Detail<'a>,
    courses: BTreeMap<usize, Course>,
    /// What requests with a connection or stream spent their time on; `None` if no request waited for one.
    occupancy: Option<Occupancy>,
    /// The waits for a connection or stream, by place.
    queued: Vec<(usize, Span)>,
}

impl<'a> AttributionBuilder<'a> {
    fn new(
        requests: usize,
        followed: &'a BTreeSet<u64>,
        detail: Detail<'a>,
    ) -> AttributionBuilder<'a> {
        AttributionBuilder {
            rows: CauseRowsBuilder::new(requests),
            drops: Vec::new(),
            traces: Vec::new(),
            victims: Victims::default(),
            followed,
            detail,
            courses: BTreeMap::new(),
            occupancy: None,
            queued: Vec::new(),
        }
    }

    fn add_unconnected(&mut self, place: usize, marks: &RequestMarks) {
        let context = RequestContext {
            marks,
            handshake: None,
            request: None,
            response: None,
            server: None,
            is_followed: self.is_followed(marks.request),
        };
        self.add(place, &context, None);
    }

    fn add(
        &mut self,
        place: usize,
        context: &RequestContext<'_>,
        on: Option<(&Connection, &RequestIndex<'_>)>,
    ) {
        let result = timeline::attribute(context);
        let request = context.marks.request;
        let mut row = CausesRecord {
            request,
            hop: CausesRecord::IN_TOTAL,
            spans: result.spans,
            queue_roots: rows::without_roots(&result.spans),
            responsible: self.victims.add(request, &result.blames),
        };
        self.rows.put(place, &mut row);
        self.occupy(place, context.marks, &result.stages);
        if self.followed.contains(&request) {
            let course = course::of(context, result.stages, on, self.detail);
            self.courses.insert(place, course);
        }
    }

    fn is_followed(&self, request: u64) -> bool {
        self.occupancy.is_some() || self.followed.contains(&request)
    }

    /// Records a request's wait in the queue, and what it did once it had a connection or stream.
    fn occupy(&mut self, place: usize, marks: &RequestMarks, stages: &[walk::WalkStage]) {
        let Some(occupancy) = &mut self.occupancy else {
            return;
        };
        self.queued.extend(marks.queued().map(|span| (place, span)));
        let Some(slot) = marks.slot else {
            return;
        };
        for stage in stages.iter().filter(|stage| stage.span.to > slot) {
            let from = stage.span.from.max(slot);
            occupancy.add(Span { from, ..stage.span }, stage.cause);
        }
    }

    /// Works out what each wait in the queue waited for.
    fn resolve_queues(&mut self) {
        let Some(occupancy) = self.occupancy.take() else {
            return;
        };
        let shares = occupancy.shares(None);
        for (place, wait) in std::mem::take(&mut self.queued) {
            self.rows.amend(place, |row| {
                let queue = row.spans[Cause::Queue].as_nanos();
                let to = wait.from.saturating_add(queue);
                row.queue_roots = shares.of(Span { to, ..wait });
            });
        }
    }

    fn finish(mut self) -> (Attribution, Vec<Course>) {
        self.resolve_queues();
        self.drops.sort_by_key(|row| (row.dropped_at, row.packet));
        let attribution = Attribution {
            causes: self.rows.finish(),
            hops: Vec::new(),
            drops: self.drops,
            traces: self.traces,
        };
        (attribution, self.courses.into_values().collect())
    }
}

struct ConnectionRequests<'a> {
    placed: &'a [IndexedRequest],
    exchanges: &'a ConnectionExchanges,
    connection: &'a Connection,
    /// By direction, the message of each request.
    messages: [Vec<Option<Message>>; 2],
    servers: Vec<Option<ServerMarks>>,
    /// QUIC: the request of each stream.
    streams: BTreeMap<u64, u64>,
    /// The sides whose rows were derived from packets.
    is_observed: [bool; 2],
}

impl<'a> ConnectionRequests<'a> {
    fn new(
        placed: &'a [IndexedRequest],
        exchanges: &'a ConnectionExchanges,
        connection: &'a Connection,
        is_observed: [bool; 2],
    ) -> Self {
        let mut of = ConnectionRequests {
            placed,
            exchanges,
            connection,
            messages: Default::default(),
            servers: Vec::with_capacity(placed.len()),
            streams: BTreeMap::new(),
            is_observed,
        };
        let rows: Vec<ExchangeRows<'_>> = (0..).zip(of.marks()).map(|it| of.rows(it)).collect();
        for direction in Direction::ALL {
            let wire = wire_mapping(&rows, direction);
            let messages = (0..).zip(of.marks()).zip(&rows).map(|(placed, rows)| {
                let extent = rows.extent(direction);
                of.message(&wire, placed, extent, direction)
            });
            of.messages[direction as usize] = messages.collect();
        }
        for (marks, rows) in of.marks().zip(&rows) {
            let server = rows.server.map(|row| row.marks);
            of.servers.push(server.filter(|server| fits(marks, server)));
        }
        if connection.is_quic() {
            let streams = of.marks();
            of.streams
                .extend(streams.filter_map(|marks| Some((marks.stream?, marks.request))));
        }
        of
    }

    fn marks(&self) -> impl Iterator<Item = &'a RequestMarks> + use<'a> {
        self.placed.iter().map(|(_, marks)| marks)
    }

    /// What both sides recorded of the request at a place.
    fn rows(&self, (place, marks): (usize, &RequestMarks)) -> ExchangeRows<'a> {
        let stream = marks.stream;
        ExchangeRows {
            client: self.exchanges.client_row(marks.request, place),
            server: stream.and_then(|stream| self.exchanges.server_row(stream, place)),
        }
    }

    fn side(&self, direction: Direction) -> Option<&'a SideRecords> {
        self.connection.sides[direction.sender() as usize].as_ref()
    }

    fn message(
        &self,
        wire: &WireMapping,
        (place, marks): (usize, &RequestMarks),
        extent: Option<Extent>,
        direction: Direction,
    ) -> Option<Message> {
        let id = marks.stream?;
        if self.connection.is_quic() {
            return match extent {
                Some(extent) => Message::whole(0, extent.end),
                None => self.unfinished_message(marks, 0, direction),
            };
        }
        let frames: &[Bytes] = self
            .side(direction)
            .map_or(&[], |side| side.frames.of(id, place));
        match extent {
            Some(extent) => wire.message(&extent, frames),
            None if wire.is_bare() && marks.secured.is_some() => None,
            None if !frames.is_empty() => {
                let message = wire.unfinished(frames)?;
                Some(message.open_unless(is_all_offered(marks, direction)))
            }
            None => self.rest_of_http1(marks, direction),
        }
    }

    /// A message that never ended: as much of it as was sent.
    fn unfinished_message(
        &self,
        marks: &RequestMarks,
        from: u64,
        direction: Direction,
    ) -> Option<Message> {
        let id = marks.stream?;
        let message = Message::whole(from, self.connection.stream(direction, id)?.end())?;
        Some(message.open_unless(is_all_offered(marks, direction)))
    }

    /// HTTP/1.1: a message that never ended owns all bytes after the previous message, because nothing follows it.
    fn rest_of_http1(&self, marks: &RequestMarks, direction: Direction) -> Option<Message> {
        let side = self.side(direction);
        if side.is_some_and(|side| !side.frames.is_empty()) {
            return None;
        }
        let ordinal = marks.stream?;
        let from = match ordinal.checked_sub(1) {
            None if marks.secured.is_some() => return None,
            None => 0,
            Some(before) => {
                let mut all = self.marks();
                let before = all.position(|marks| marks.stream == Some(before))?;
                let rows = self.rows((before, &self.placed[before].1));
                rows.extent(direction)?.wire_end?
            }
        };
        self.unfinished_message(marks, from, direction)
    }

    fn message_context(&self, n: usize, direction: Direction) -> Option<MessageContext<'_>> {
        let message = self.messages[direction as usize][n].as_ref()?;
        let id = self.placed[n].1.stream?;
        let side = self.side(direction);
        Some(MessageContext {
            stream: self.connection.stream(direction, id)?,
            message,
            connection: self.connection,
            direction,
            windows: side.map(|side| (&side.windows, id)),
            quic: match &self.connection.carrier {
                Carrier::Quic(quic) => Some(quic),
                Carrier::Tcp(_) => None,
            },
            is_observed: self.is_observed[direction.sender() as usize],
        })
    }

    fn attribute(&self, index: &RequestIndex<'_>, builder: &mut AttributionBuilder<'_>) {
        for (n, (place, marks)) in self.placed.iter().enumerate() {
            let context = RequestContext {
                marks,
                handshake: Some(&self.connection.handshake),
                request: self.message_context(n, Direction::Up),
                response: self.message_context(n, Direction::Down),
                server: self.servers[n].as_ref(),
                is_followed: builder.is_followed(marks.request),
            };
            builder.add(*place, &context, Some((self.connection, index)));
        }
    }

    /// What the connection did while it carried requests in [`Detail::ConnectionsOf`]; `None` if it carried none of them.
    fn trace(&self, index: &RequestIndex<'_>, detail: Detail<'_>) -> Option<ConnectionTrace> {
        let Detail::ConnectionsOf(wanted) = detail else {
            return None;
        };
        let marks = self.marks().filter(|it| wanted.contains(&it.request));
        trace::of(self.connection, index, marks)
    }

    fn request_index(&self, number: u32) -> RequestIndex<'_> {
        let of = |direction: Direction| {
            let messages = self.messages[direction as usize].iter();
            let both = messages.zip(self.marks());
            MessageIndex::new(
                both.filter_map(|(message, marks)| Some((message.as_ref()?, marks.request))),
            )
        };
        RequestIndex {
            number,
            messages: Direction::ALL.map(of),
            streams: &self.streams,
        }
    }
}

/// What both sides recorded of a request.
struct ExchangeRows<'a> {
    client: Option<&'a Extents>,
    server: Option<&'a ServerRow>,
}

impl ExchangeRows<'_> {
    /// Where the message in `direction` lies, from whichever side knows.
    fn extent(&self, direction: Direction) -> Option<Extent> {
        let by_client = self.client.and_then(|extents| extents.of(direction));
        by_client.or_else(|| self.server?.extents.of(direction))
    }
}

/// How a direction's plaintext lies in TLS records, as these rows show it; without encryption there are no records.
fn wire_mapping(rows: &[ExchangeRows<'_>], direction: Direction) -> WireMapping {
    let extents = rows.iter().filter_map(|rows| rows.extent(direction));
    let is_clear = |extent: &Extent| extent.record_first.or(extent.record_last).is_none();
    if extents.clone().all(|extent| is_clear(&extent)) {
        WireMapping::default()
    } else {
        WireMapping::of(&extents.collect::<Vec<_>>())
    }
}

/// Whether the socket had the whole message, although no row says where it ends.
fn is_all_offered(marks: &RequestMarks, direction: Direction) -> bool {
    direction == Direction::Up && marks.written_last.is_some()
}

/// Whether what the server recorded can belong to this request. If not, the two sides' numbers do not match.
fn fits(marks: &RequestMarks, server: &ServerMarks) -> bool {
    let slot = marks.slot.unwrap_or(0);
    let times = [server.request_last, server.response_first];
    times.into_iter().flatten().all(|time| time >= slot)
}
