//! One request: its marks, its stages, its packets, the drops that cost it time, and whom it waited for.
//!
//! Everything is taken from `causes`; what is added here is only looked up in the other rows of the trial.

use std::collections::BTreeSet;

use serde::Serialize;
use squall_base::record::{
    Cause, CauseSpans, CausesRecord, DropRecord, Outcome, Phase, RequestRecord, Victim,
};
use squall_base::{Duration, Time};

use super::{Drop, PacketName, Share, Tables};
use crate::causes::{Ahead, Course, Detail, HopCourse, PathShape, follow_path};

/// A request gets the slot of one that ended in the same call: within this time.
const AT_ONCE: Duration = Duration::from_millis(1);

/// All that is known of a request. Times count from the trial's epoch.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Explanation {
    /// The request, by its place in the schedule.
    pub request: u64,
    /// The part of the load.
    pub phase: Phase,
    /// What became of it.
    pub outcome: Outcome,
    /// Why it failed.
    pub error: Option<String>,
    /// The status of the response.
    pub status: Option<u16>,
    /// Which connection of the client.
    pub connection: Option<u32>,
    /// Which connection of the server that is.
    pub server_connection: Option<u32>,
    /// The stream; HTTP/1.1: which exchange on its connection.
    pub stream: Option<u64>,
    /// Whether its connection was opened for it.
    pub opened_connection: bool,
    /// Body bytes that the request has.
    pub request_body_bytes: u64,
    /// Body bytes of the response that arrived.
    pub response_body_bytes: u64,
    /// When the schedule wanted it.
    #[serde(rename = "intended_ns")]
    pub intended: Time,
    /// When it was over.
    #[serde(rename = "end_ns")]
    pub end: Time,
    /// Its response time: what the causes add up to.
    #[serde(rename = "latency_ns")]
    pub latency: Duration,
    /// Its causes that are not empty, the largest first.
    pub causes: Vec<Share>,
    /// Its time in queues, by what those in front of it waited for, the largest first; what is `queue` here is not known.
    pub queue_behind: Vec<Share>,
    /// On a path of several hops the time of each that had any.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub hops: Vec<HopTime>,
    /// The dropped packet that cost it most.
    pub responsible: Option<PacketName>,
    /// Its moments, in order.
    pub marks: Vec<Mark>,
    /// Its stages, and the ways of its bytes.
    pub course: Course,
    /// The dropped packets that cost it time or carried bytes of its own, in the order in which they were dropped.
    pub drops: Vec<Hurt>,
    /// The requests that it waited for.
    pub waited_for: Vec<WaitedFor>,
}

/// A moment of a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub struct Mark {
    /// When, in nanoseconds from the trial's epoch.
    #[serde(rename = "at_ns")]
    pub at: Time,
    /// What happened: a column of requests.parquet, or `server_` and a column of exchanges.parquet.
    pub name: &'static str,
}

/// A dropped packet and what it cost one request.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Hurt {
    /// The packet.
    #[serde(flatten)]
    pub drop: Drop,
    /// Whether it carried bytes of the request or its response.
    pub is_own: bool,
    /// What it cost the request, by cause.
    pub cost: Vec<Share>,
}

/// A request that another one waited for.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct WaitedFor {
    /// The cause under which the wait stands.
    #[serde(serialize_with = "crate::causes::words::cause")]
    pub cause: Cause,
    /// The request that held it up.
    pub request: u64,
    /// `hol`: the lost packet with its bytes.
    pub packet: Option<PacketName>,
    /// `cwnd`, `window_connection`: how many packets of its bytes went first.
    pub packets: Option<u64>,
}

/// The part of a request's time that one of several hops had.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct HopTime {
    /// The hop, from 1 at the client.
    pub hop: u8,
    /// Whether its exchange was seen there; of one that was not, the time is how long the hop before waited for it.
    pub is_joined: bool,
    /// From when its client side had the exchange to begin.
    #[serde(rename = "from_ns")]
    pub from: Time,
    /// Until it was over.
    #[serde(rename = "to_ns")]
    pub to: Time,
    /// Its causes that are not empty, the largest first: what is `server` here is what the next hop was doing.
    pub causes: Vec<Share>,
}

impl HopTime {
    fn of(course: &HopCourse) -> Option<HopTime> {
        let (first, last) = (course.stages.first()?, course.stages.last()?);
        let mut spans = CauseSpans::default();
        for stage in &course.stages {
            spans[stage.cause] = spans[stage.cause] + stage.to.since(stage.from);
        }
        Some(HopTime {
            hop: course.hop,
            is_joined: course.is_joined,
            from: first.from,
            to: last.to,
            causes: Share::of(&spans),
        })
    }
}

/// Explains `requests` of a trial over this path; those that it does not have are left out.
pub fn explain(
    tables: &Tables<'_>,
    path: &PathShape,
    requests: &BTreeSet<u64>,
) -> Vec<Explanation> {
    let (found, courses) = follow_path(tables.inputs(path), requests, Detail::WaysOf(requests));
    let chosen = tables.requests.iter();
    let chosen = chosen.filter(|row| requests.contains(&row.request));
    let both = chosen.zip(found.causes.iter()).zip(courses);
    both.map(|((row, causes), course)| explanation(tables, row, causes, course, &found.drops))
        .collect()
}

fn explanation(
    tables: &Tables<'_>,
    row: &RequestRecord,
    causes: CausesRecord,
    course: Course,
    drops: &[DropRecord],
) -> Explanation {
    let drops = hurts(row.request, drops);
    Explanation {
        request: row.request,
        phase: row.phase,
        outcome: row.outcome,
        error: row.error.clone(),
        status: row.status,
        connection: row.connection,
        server_connection: course.server.and_then(|server| server.connection),
        stream: row.stream,
        opened_connection: row.opened_connection,
        request_body_bytes: row.request_body_bytes,
        response_body_bytes: row.response_body_bytes,
        intended: row.intended,
        end: row.end,
        latency: row.response_time(),
        causes: Share::of(&causes.spans),
        queue_behind: Share::of(&causes.queue_roots),
        hops: course.hops.iter().filter_map(HopTime::of).collect(),
        responsible: causes.responsible.map(PacketName::from),
        marks: marks(row, &course),
        waited_for: waited_for(tables.requests, row, &causes, &course, &drops),
        drops,
        course,
    }
}

fn marks(row: &RequestRecord, course: &Course) -> Vec<Mark> {
    let server = course.server.as_ref();
    let all = [
        (Some(row.intended), "intended"),
        (Some(row.taken_up), "taken_up"),
        (row.slot, "slot"),
        (row.connected, "connected"),
        (row.secured, "secured"),
        (row.written_first, "written_first"),
        (row.written_last, "written_last"),
        (server.and_then(|it| it.request_last), "server_request_last"),
        (
            server.and_then(|it| it.response_first),
            "server_response_first",
        ),
        (
            server.and_then(|it| it.response_last),
            "server_response_last",
        ),
        (row.answered_first, "answered_first"),
        (row.headers, "headers"),
        (Some(row.end), "end"),
    ];
    let known = all
        .into_iter()
        .filter_map(|(at, name)| Some(Mark { at: at?, name }));
    // Handshakes of a connection that was there before are not the request's.
    let mut marks: Vec<Mark> = known.filter(|mark| mark.at >= row.intended).collect();
    marks.sort_by_key(|mark| mark.at);
    marks
}

fn hurts(request: u64, drops: &[DropRecord]) -> Vec<Hurt> {
    let mut hurts = Vec::new();
    for row in drops {
        let own: Vec<&Victim> = row
            .victims
            .iter()
            .filter(|it| it.request == request)
            .collect();
        let is_own = row.carried.contains(&request);
        if own.is_empty() && !is_own {
            continue;
        }
        let cost = own.iter().map(|victim| Share {
            cause: victim.cause,
            time: victim.delay,
        });
        hurts.push(Hurt {
            drop: Drop::of(row),
            is_own,
            cost: cost.collect(),
        });
    }
    hurts
}

fn waited_for(
    requests: &[RequestRecord],
    row: &RequestRecord,
    causes: &CausesRecord,
    course: &Course,
    drops: &[Hurt],
) -> Vec<WaitedFor> {
    let mut found = Vec::new();
    if !causes.spans[Cause::Queue].is_zero() {
        found.extend(whose_slot(requests, row).map(|request| WaitedFor {
            cause: Cause::Queue,
            request,
            packet: None,
            packets: None,
        }));
    }
    for hurt in drops {
        if !hurt.cost.iter().any(|share| share.cause == Cause::Hol) {
            continue;
        }
        let others = hurt.drop.carried.iter().filter(|it| **it != row.request);
        found.extend(others.map(|&request| WaitedFor {
            cause: Cause::Hol,
            request,
            packet: Some(hurt.drop.packet),
            packets: None,
        }));
    }
    for cause in [Cause::Cwnd, Cause::WindowConnection] {
        if causes.spans[cause].is_zero() {
            continue;
        }
        let ways = [course.up.as_ref(), course.down.as_ref()];
        let mut behind: Vec<&Ahead> = ways
            .into_iter()
            .flatten()
            .flat_map(|way| &way.behind)
            .collect();
        behind.sort_by_key(|ahead| std::cmp::Reverse(ahead.packets));
        found.extend(behind.into_iter().map(|ahead| WaitedFor {
            cause,
            request: ahead.request,
            packet: None,
            packets: Some(ahead.packets),
        }));
    }
    found
}

/// The request that ended on the same connection just when this one got its slot.
fn whose_slot(requests: &[RequestRecord], row: &RequestRecord) -> Option<u64> {
    let (slot, connection) = (row.slot?, row.connection?);
    let on_it = requests.iter().filter(|other| {
        other.connection == Some(connection) && other.request != row.request && other.end <= slot
    });
    let last = on_it.max_by_key(|other| other.end)?;
    (slot.since(last.end) <= AT_ONCE).then_some(last.request)
}
