//! What each request's response time was spent on, and which dropped packets answer for it.
//!
//! Records of a trial in, rows of causes.parquet and drops.parquet out. For each request the time from when it was
//! wanted to its end is walked once and cut into spans, each with one cause, so that they add up exactly; what cannot be
//! known is `unknown`, never guessed, and what hosts add is `host`. docs/METHOD.md says what each cause means and how far
//! it can be trusted. Nothing here judges a cause, compares variants, or reads a file.
//!
//! `intake` takes the records, `tcp` and `quic` make connections of the link's packets, `stream` knows when each of their
//! bytes arrived, `connection` brings client, server and link together, `message` says whose bytes are whose, `windows`
//! when flow control held them, `path` what a lost packet would have met. `timeline` walks one request and `transfer` one
//! message's way, over `walk`; `drops` and `repair` are about the packets that were lost. `course` is one request in
//! full, for `explain`; `shares` adds up whole runs, for reports.
//!
//! ```
//! use squall_analysis::causes::{Inputs, attribute};
//!
//! let attribution = attribute(Inputs::new());
//! assert!(attribution.causes.is_empty() && attribution.drops.is_empty());
//! ```

mod connection;
mod course;
mod drops;
mod intake;
mod message;
mod path;
mod quic;
mod repair;
mod shares;
mod stream;
mod tcp;
mod timeline;
mod transfer;
mod walk;
mod windows;
pub(crate) mod words;

use std::collections::{BTreeMap, BTreeSet};

use squall_base::record::{CausesRecord, Direction, DropRecord, Extent};

use connection::{Carrier, Connection, Connections, sender};
pub use course::{Ahead, Course, Detail, Passage, Passing, ServerTimes, Stage};
use drops::{Aboard, Messages, Victims};
pub use intake::Inputs;
use intake::{Marks, ServerRow, SideLog};
use message::{Bytes, Message, Wire};
pub use shares::{BANDS, Band, BandTime, CellCauses, RunCauses, TrialCauses};
use timeline::{Known, ServerMarks, Way};

/// How soon a SYN follows the moment in which a request was given its own connection: both are one call's.
const OPENING: u64 = 10_000_000;

/// What attribution has found.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Attribution {
    /// One row for every request, in the order in which they were given.
    pub causes: Vec<CausesRecord>,
    /// One row for every packet that was dropped or damaged, in the order of their arrival at the link.
    pub drops: Vec<DropRecord>,
}

/// Attributes all of a trial's response times to causes.
///
/// The spans of each row add up to the request's `end - intended` exactly. Time and memory grow with the records.
pub fn attribute(inputs: Inputs) -> Attribution {
    follow(inputs, &BTreeSet::new(), Detail::Stages).0
}

/// The same, with the courses of some of the requests, in the order in which they were given.
pub fn follow(
    mut inputs: Inputs,
    requests: &BTreeSet<u64>,
    detail: Detail,
) -> (Attribution, Vec<Course>) {
    inputs.sort();
    let mut connections = Connections::new(&mut inputs);
    let mut by_connection: BTreeMap<Option<u32>, Vec<usize>> = BTreeMap::new();
    let owners = owners(&inputs, connections.opened());
    for (place, owner) in owners.into_iter().enumerate() {
        by_connection.entry(owner).or_default().push(place);
    }
    let mut answer = Answer::new(inputs.requests.len(), requests, detail);
    let mut idlers: BTreeMap<u32, Vec<(u64, u32)>> = BTreeMap::new();
    for place in by_connection.remove(&None).unwrap_or_default() {
        answer.alone(place, &inputs.requests[place]);
    }
    for number in 0..connections.opened().len() as u32 {
        let Some(connection) = connections.take(number, &mut inputs) else {
            continue;
        };
        let opened = connection.handshake.opened;
        idlers
            .entry(connection.flow)
            .or_default()
            .push((opened, number));
        let places = by_connection.remove(&Some(number)).unwrap_or_default();
        let requests = OfConnection::new(&inputs, &connection, &places);
        let aboard = requests.aboard(number);
        requests.attribute(&aboard, &mut answer);
        answer.drops.extend(drops::of_connection(
            &connection,
            &aboard,
            &mut answer.victims,
        ));
    }
    // Requests of connections that the link never saw.
    for place in by_connection.into_values().flatten() {
        answer.alone(place, &inputs.requests[place]);
    }
    answer.drops.extend(inputs.idlers.iter().map(|idler| {
        let of_flow = idlers.get(&idler.flow);
        let connection = of_flow.and_then(|numbers| {
            let mut before = numbers.iter().rev();
            before.find(|(opened, _)| *opened <= idler.arrived)
        });
        let number = connection.map(|(_, number)| *number);
        drops::bare(idler.packet, idler.arrived, idler.fate, number)
    }));
    answer.finish()
}

/// What has been found so far.
struct Answer<'a> {
    /// By the place of the request.
    rows: Vec<Option<CausesRecord>>,
    drops: Vec<DropRecord>,
    victims: Victims,
    watched: &'a BTreeSet<u64>,
    detail: Detail,
    courses: BTreeMap<usize, Course>,
}

impl<'a> Answer<'a> {
    fn new(requests: usize, watched: &'a BTreeSet<u64>, detail: Detail) -> Answer<'a> {
        Answer {
            rows: vec![None; requests],
            drops: Vec::new(),
            victims: Victims::default(),
            watched,
            detail,
            courses: BTreeMap::new(),
        }
    }

    /// A request on no connection.
    fn alone(&mut self, place: usize, marks: &Marks) {
        let known = Known {
            marks,
            handshake: None,
            request: None,
            response: None,
            server: None,
            is_watched: self.watched.contains(&marks.request),
        };
        self.add(place, &known, None);
    }

    fn add(&mut self, place: usize, known: &Known<'_>, on: Option<(&Connection, &Aboard<'_>)>) {
        let walked = timeline::attribute(known);
        let request = known.marks.request;
        self.rows[place] = Some(CausesRecord {
            request,
            spans: walked.spans,
            responsible: self.victims.add(request, &walked.blames),
        });
        if known.is_watched {
            let course = course::of(known, walked.stages, on, self.detail);
            self.courses.insert(place, course);
        }
    }

    fn finish(mut self) -> (Attribution, Vec<Course>) {
        self.drops.sort_by_key(|row| (row.dropped_at, row.packet));
        let attribution = Attribution {
            causes: self.rows.into_iter().flatten().collect(),
            drops: self.drops,
        };
        (attribution, self.courses.into_values().collect())
    }
}

/// The connection of each request. One whose own connection never became ready does not name it: it is the one whose
/// first packet followed the request's slot, among those that no request names.
fn owners(inputs: &Inputs, opened: &[u64]) -> Vec<Option<u32>> {
    let mut is_named = vec![false; opened.len()];
    for number in inputs.requests.iter().filter_map(|marks| marks.connection) {
        if let Some(named) = is_named.get_mut(number as usize) {
            *named = true;
        }
    }
    let mut unnamed: BTreeMap<u64, u32> = (0..)
        .zip(opened)
        .zip(is_named)
        .filter(|(_, is_named)| !is_named)
        .map(|((number, opened), _)| (*opened, number))
        .collect();
    let mut owner = |marks: &Marks| {
        let is_waiting = marks.connection.is_none() && marks.connected.is_none();
        let slot = marks.slot.filter(|_| is_waiting);
        marks.connection.or_else(|| {
            let slot = slot?;
            let (&opened, _) = unnamed.range(slot..slot.saturating_add(OPENING)).next()?;
            unnamed.remove(&opened)
        })
    };
    inputs.requests.iter().map(&mut owner).collect()
}

/// The requests of one connection.
struct OfConnection<'a> {
    inputs: &'a Inputs,
    connection: &'a Connection,
    places: &'a [usize],
    /// By direction, for each request.
    messages: [Vec<Option<Message>>; 2],
    servers: Vec<Option<ServerMarks>>,
    streams: BTreeMap<u64, u64>,
}

impl<'a> OfConnection<'a> {
    fn new(inputs: &'a Inputs, connection: &'a Connection, places: &'a [usize]) -> Self {
        let mut of = OfConnection {
            inputs,
            connection,
            places,
            messages: Default::default(),
            servers: Vec::with_capacity(places.len()),
            streams: BTreeMap::new(),
        };
        for direction in Direction::ALL {
            let extents: Vec<Option<Extent>> = places
                .iter()
                .map(|&place| of.extent(place, direction))
                .collect();
            let known: Vec<Extent> = extents.iter().flatten().copied().collect();
            let wire = Wire::of(&known);
            let messages = places.iter().zip(extents).map(|(&place, extent)| {
                of.message(&wire, &inputs.requests[place], extent, direction)
            });
            of.messages[direction as usize] = messages.collect();
        }
        for &place in places {
            let marks = &inputs.requests[place];
            of.streams
                .extend(marks.stream.map(|stream| (stream, marks.request)));
            let server = of.server_row(marks).map(|row| row.marks);
            of.servers.push(server.filter(|server| fits(marks, server)));
        }
        of
    }

    fn server_row(&self, marks: &Marks) -> Option<&'a ServerRow> {
        self.inputs
            .server_row(self.connection.server?, marks.stream?)
    }

    /// Where a request or its response lies, by whichever side knows.
    fn extent(&self, place: usize, direction: Direction) -> Option<Extent> {
        let marks = &self.inputs.requests[place];
        let client = self.inputs.client_row(marks.request);
        let by_client = client.and_then(|extents| extents.of(direction));
        by_client.or_else(|| self.server_row(marks)?.extents.of(direction))
    }

    fn side(&self, direction: Direction) -> Option<&'a SideLog> {
        self.connection.sides[sender(direction) as usize].as_ref()
    }

    fn message(
        &self,
        wire: &Wire,
        marks: &Marks,
        extent: Option<Extent>,
        direction: Direction,
    ) -> Option<Message> {
        let id = marks.stream?;
        if self.connection.is_quic() {
            return match extent {
                Some(extent) => Message::whole(0, extent.end),
                None => self.so_far(marks, 0, direction),
            };
        }
        let frames: &[Bytes] = self
            .side(direction)
            .and_then(|side| side.frames.get(&id))
            .map_or(&[], Vec::as_slice);
        match extent {
            Some(extent) => wire.message(&extent, frames),
            None if wire.is_bare() && marks.secured.is_some() => None,
            None if !frames.is_empty() => {
                let message = wire.unfinished(frames)?;
                Some(match is_all_offered(marks, direction) {
                    true => message,
                    false => message.open(),
                })
            }
            None => self.rest_of_http1(marks, direction),
        }
    }

    /// A message that never ended: as much of it as was ever sent.
    fn so_far(&self, marks: &Marks, from: u64, direction: Direction) -> Option<Message> {
        let id = marks.stream?;
        let message = Message::whole(from, self.connection.stream(direction, id)?.end())?;
        Some(match is_all_offered(marks, direction) {
            true => message,
            false => message.open(),
        })
    }

    /// HTTP/1.1: a message that never ended has all bytes after the one before it, for nothing follows it.
    fn rest_of_http1(&self, marks: &Marks, direction: Direction) -> Option<Message> {
        let side = self.side(direction);
        if side.is_some_and(|side| !side.frames.is_empty()) {
            return None;
        }
        let ordinal = marks.stream?;
        let from = match ordinal.checked_sub(1) {
            None if marks.secured.is_some() => return None,
            None => 0,
            Some(before) => {
                let mut places = self.places.iter();
                let is_before =
                    |place: &&usize| self.inputs.requests[**place].stream == Some(before);
                let before = *places.find(is_before)?;
                self.extent(before, direction)?.wire_end?
            }
        };
        self.so_far(marks, from, direction)
    }

    fn way(&self, n: usize, direction: Direction) -> Option<Way<'_>> {
        let message = self.messages[direction as usize][n].clone()?;
        let id = self.inputs.requests[self.places[n]].stream?;
        let side = self.side(direction);
        Some(Way {
            stream: self.connection.stream(direction, id)?,
            message,
            idle: self.connection.idle(direction),
            heard: &self.connection.heard[direction as usize],
            windows: side.map(|side| (&side.windows, id)),
            quic: match &self.connection.carrier {
                Carrier::Quic(quic) => Some((quic, direction)),
                Carrier::Tcp(_) => None,
            },
        })
    }

    fn attribute(&self, aboard: &Aboard<'_>, answer: &mut Answer<'_>) {
        for (n, &place) in self.places.iter().enumerate() {
            let marks = &self.inputs.requests[place];
            let known = Known {
                marks,
                handshake: Some(&self.connection.handshake),
                request: self.way(n, Direction::Up),
                response: self.way(n, Direction::Down),
                server: self.servers[n],
                is_watched: answer.watched.contains(&marks.request),
            };
            answer.add(place, &known, Some((self.connection, aboard)));
        }
    }

    fn aboard(&self, number: u32) -> Aboard<'_> {
        let of = |direction: Direction| {
            let messages = self.messages[direction as usize].iter();
            let requests = self.places.iter();
            let both = messages.zip(requests).filter_map(|(message, &place)| {
                Some((message.clone()?, self.inputs.requests[place].request))
            });
            Messages::new(both.collect())
        };
        Aboard {
            number,
            messages: Direction::ALL.map(of),
            streams: &self.streams,
        }
    }
}

/// Whether the socket had the whole message, although nobody says where it ends.
fn is_all_offered(marks: &Marks, direction: Direction) -> bool {
    direction == Direction::Up && marks.written_last.is_some()
}

/// Whether what the server recorded can be of this request: else the two sides' numbers do not belong together.
fn fits(marks: &Marks, server: &ServerMarks) -> bool {
    let slot = marks.slot.unwrap_or(0);
    let times = [server.request_last, server.response_first];
    times.into_iter().flatten().all(|time| time >= slot)
}
