//! One request: its marks, its stages, its packets, the drops that cost it time, and the requests that it waited for.
//!
//! Everything comes from `causes`; what is added here is only looked up in the other rows of the trial.

use std::collections::BTreeSet;

use serde::Serialize;
use squall_base::record::{
    Cause, CauseSpans, CausesRecord, DropRecord, Gap, Outcome, Phase, RequestRecord, Victim,
};
use squall_base::{Duration, Time};

use super::{CauseTime, DroppedPacket, PacketName, Tables};
use crate::causes::{
    Attribution, Course, Detail, HopCourse, PathInputs, PathShape, RequestAhead, ServerTimes,
    Stage, follow_path, spans_of,
};

/// A request gets the slot of one that ended in the same call, that is, within this time.
const AT_ONCE: Duration = Duration::from_millis(1);

/// All that is known about a request. Times count from the trial's epoch.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Explanation {
    /// The request, by its position in the schedule.
    pub request: u64,
    /// The part of the load.
    pub phase: Phase,
    /// Its outcome.
    pub outcome: Outcome,
    /// Why it failed.
    pub error: Option<String>,
    /// The status of the response.
    pub status: Option<u16>,
    /// The client's connection.
    pub connection: Option<u32>,
    /// The same connection by the server's number.
    pub server_connection: Option<u32>,
    /// The stream; for HTTP/1.1, the number of the exchange on its connection.
    pub stream: Option<u64>,
    /// Whether its connection was opened for it.
    pub opened_connection: bool,
    /// Body bytes of the request.
    pub request_body_bytes: u64,
    /// Body bytes of the response that arrived.
    pub response_body_bytes: u64,
    /// When it was due.
    #[serde(rename = "intended_ns")]
    pub intended: Time,
    /// When it ended.
    #[serde(rename = "end_ns")]
    pub end: Time,
    /// Its response time, which is the sum of its causes.
    #[serde(rename = "latency_ns")]
    pub latency: Duration,
    /// Its non-empty causes, the largest first.
    pub causes: Vec<CauseTime>,
    /// The longest gap in which no byte of its response's body arrived; `None` if the body arrived in one piece, or its
    /// arrival was not recorded.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub longest_gap: Option<GapCauses>,
    /// Its time in queues, by what the requests ahead of it waited for, the largest first; `queue` here means unknown.
    pub queue_behind: Vec<CauseTime>,
    /// On a path of several hops, the time of each hop that had any.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub hops: Vec<HopTime>,
    /// The dropped packet that cost it most.
    pub responsible: Option<PacketName>,
    /// Its marks, in order.
    pub marks: Vec<Mark>,
    /// Its stages, and what happened to its bytes in each direction.
    pub course: Course,
    /// The dropped packets that cost it time or carried bytes of its own, in the order in which they were dropped.
    pub drops: Vec<DropImpact>,
    /// The requests that it waited for.
    pub waited_for: Vec<Blocker>,
}

/// A mark: a moment in the course of a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub struct Mark {
    /// When, in nanoseconds from the trial's epoch.
    #[serde(rename = "at_ns")]
    pub at: Time,
    /// What happened: a column of requests.parquet, or `server_` and a column of exchanges.parquet.
    pub name: &'static str,
}

/// A time without a byte of a response's body, and what the request waited for meanwhile.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct GapCauses {
    /// When the bytes before it were read, in nanoseconds from the trial's epoch.
    #[serde(rename = "from_ns")]
    pub from: Time,
    /// How long it lasted.
    #[serde(rename = "length_ns")]
    pub length: Duration,
    /// The causes of the request's time within it, the largest first.
    pub causes: Vec<CauseTime>,
}

impl GapCauses {
    fn of(gap: Gap, stages: &[Stage]) -> GapCauses {
        let mut spans = CauseSpans::default();
        for stage in stages {
            let (from, to) = (stage.from.max(gap.from), stage.to.min(gap.to()));
            spans[stage.cause] = spans[stage.cause] + to.since(from);
        }
        GapCauses {
            from: gap.from,
            length: gap.length,
            causes: CauseTime::of(&spans),
        }
    }
}

/// A dropped packet and what it cost one request.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct DropImpact {
    /// The packet.
    #[serde(flatten)]
    pub drop: DroppedPacket,
    /// Whether it carried bytes of the request or its response.
    pub is_own: bool,
    /// What it cost the request, by cause.
    pub cost: Vec<CauseTime>,
}

/// A request that another one waited for.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Blocker {
    /// The cause that the wait is counted under.
    #[serde(serialize_with = "crate::causes::words::cause")]
    pub cause: Cause,
    /// The request that held it up.
    pub request: u64,
    /// `hol`: the lost packet that carried its bytes.
    pub packet: Option<PacketName>,
    /// `cwnd`, `window_connection`: how many packets of its bytes went ahead.
    pub packets: Option<u64>,
}

/// The part of a request's time that was spent on one of several hops.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct HopTime {
    /// The hop, from 1 at the client.
    pub hop: u8,
    /// Whether the request's exchange was seen on this hop. If not, its time is how long the previous hop waited for it.
    pub is_joined: bool,
    /// When its client side could begin the exchange.
    #[serde(rename = "from_ns")]
    pub from: Time,
    /// When it ended.
    #[serde(rename = "to_ns")]
    pub to: Time,
    /// Its non-empty causes, the largest first. `server` here is what the next hop was doing.
    pub causes: Vec<CauseTime>,
}

impl HopTime {
    fn of(course: &HopCourse) -> Option<HopTime> {
        let (first, last) = (course.stages.first()?, course.stages.last()?);
        Some(HopTime {
            hop: course.hop,
            is_joined: course.is_joined,
            from: first.from,
            to: last.to,
            causes: CauseTime::of(&spans_of(&course.stages)),
        })
    }
}

/// Explains `requests` of a trial over this path; requests that the trial does not have are left out.
pub fn explain(
    tables: &Tables<'_>,
    path: &PathShape,
    requests: &BTreeSet<u64>,
) -> Vec<Explanation> {
    let detail = Detail::PassagesOf(requests);
    follow_requests(tables.requests, tables.inputs(path), requests, detail).0
}

/// Explains some of the requests `rows`, which are among the inputs. Also returns the rest of the attribution, with the
/// causes of only these requests.
pub(crate) fn follow_requests(
    rows: &[RequestRecord],
    inputs: PathInputs,
    requests: &BTreeSet<u64>,
    detail: Detail<'_>,
) -> (Vec<Explanation>, Attribution) {
    let (attribution, courses) = follow_path(inputs, requests, detail);
    let chosen = rows.iter();
    let chosen = chosen.filter(|row| requests.contains(&row.request));
    let both = chosen.zip(attribution.causes.iter()).zip(courses);
    let explanations = both
        .map(|((row, causes), course)| explanation(rows, row, causes, course, &attribution.drops))
        .collect();
    (explanations, attribution)
}

pub(super) fn explanation(
    rows: &[RequestRecord],
    row: &RequestRecord,
    causes: CausesRecord,
    course: Course,
    drops: &[DropRecord],
) -> Explanation {
    let drops = drop_impacts(row.request, drops);
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
        causes: CauseTime::of(&causes.spans),
        longest_gap: (row.arrivals.longest_gap).map(|gap| GapCauses::of(gap, &course.stages)),
        queue_behind: CauseTime::of(&causes.queue_roots),
        hops: course.hops.iter().filter_map(HopTime::of).collect(),
        responsible: causes.responsible,
        marks: marks(row, &course),
        waited_for: blockers(rows, row, &causes, &course, &drops),
        drops,
        course,
    }
}

fn marks(row: &RequestRecord, course: &Course) -> Vec<Mark> {
    let server = |mark: fn(&ServerTimes) -> Option<Time>| course.server.as_ref().and_then(mark);
    let all = [
        (Some(row.intended), "intended"),
        (Some(row.taken_up), "taken_up"),
        (row.slot, "slot"),
        (row.connected, "connected"),
        (row.secured, "secured"),
        (row.written_first, "written_first"),
        (row.written_last, "written_last"),
        (server(|it| it.request_last), "server_request_last"),
        (server(|it| it.response_first), "server_response_first"),
        (server(|it| it.response_last), "server_response_last"),
        (row.answered_first, "answered_first"),
        (row.headers, "headers"),
        (Some(row.end), "end"),
    ];
    let known = all
        .into_iter()
        .filter_map(|(at, name)| Some(Mark { at: at?, name }));
    // Handshakes of a connection that existed before are not the request's.
    let mut marks: Vec<Mark> = known.filter(|mark| mark.at >= row.intended).collect();
    marks.sort_by_key(|mark| mark.at);
    marks
}

fn drop_impacts(request: u64, drops: &[DropRecord]) -> Vec<DropImpact> {
    let mut impacts = Vec::new();
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
        let cost = own.iter().map(|victim| CauseTime {
            cause: victim.cause,
            time: victim.delay,
        });
        impacts.push(DropImpact {
            drop: DroppedPacket::of(row),
            is_own,
            cost: cost.collect(),
        });
    }
    impacts
}

fn blockers(
    requests: &[RequestRecord],
    row: &RequestRecord,
    causes: &CausesRecord,
    course: &Course,
    drops: &[DropImpact],
) -> Vec<Blocker> {
    let blocker = |cause, request| Blocker {
        cause,
        request,
        packet: None,
        packets: None,
    };
    let mut blockers = Vec::new();
    if !causes.spans[Cause::Queue].is_zero() {
        let holder = previous_slot_holder(requests, row);
        blockers.extend(holder.map(|request| blocker(Cause::Queue, request)));
    }
    for impact in drops {
        if !impact.cost.iter().any(|time| time.cause == Cause::Hol) {
            continue;
        }
        let others = impact.drop.carried.iter().filter(|it| **it != row.request);
        blockers.extend(others.map(|&request| Blocker {
            packet: Some(impact.drop.packet),
            ..blocker(Cause::Hol, request)
        }));
    }
    for cause in [Cause::Cwnd, Cause::WindowConnection] {
        if causes.spans[cause].is_zero() {
            continue;
        }
        let mut behind: Vec<&RequestAhead> = course
            .passages()
            .flat_map(|passage| &passage.behind)
            .collect();
        behind.sort_by_key(|ahead| std::cmp::Reverse(ahead.packets));
        blockers.extend(behind.into_iter().map(|ahead| Blocker {
            packets: Some(ahead.packets),
            ..blocker(cause, ahead.request)
        }));
    }
    blockers
}

/// The request that ended on the same connection just when this one got its slot.
fn previous_slot_holder(requests: &[RequestRecord], row: &RequestRecord) -> Option<u64> {
    let (slot, connection) = (row.slot?, row.connection?);
    let on_connection = requests.iter().filter(|other| {
        other.connection == Some(connection) && other.request != row.request && other.end <= slot
    });
    let last = on_connection.max_by_key(|other| other.end)?;
    (slot.since(last.end) <= AT_ONCE).then_some(last.request)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn gap_has_the_causes_of_the_time_that_it_covers() {
        let at = |ms: u64| Time::from_nanos(ms * 1_000_000);
        let ms = Duration::from_millis;
        let stage = |from, to, cause| Stage {
            from: at(from),
            to: at(to),
            cause,
        };
        let stages = [
            stage(0, 50, Cause::Distance),
            stage(50, 110, Cause::Server),
            stage(110, 310, Cause::Hol),
            stage(310, 400, Cause::Server),
        ];
        let gap = Gap {
            from: at(100),
            length: ms(212),
        };
        let found = GapCauses::of(gap, &stages);
        let causes: Vec<(Cause, Duration)> = (found.causes.iter())
            .map(|share| (share.cause, share.time))
            .collect();
        assert_eq!(causes, [(Cause::Hol, ms(200)), (Cause::Server, ms(12))]);
        assert_eq!((found.from, found.length), (at(100), ms(212)));
    }
}
