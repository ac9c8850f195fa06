//! The time of a hop inside a host, from the marks of both its sides and the windows that their frames show.
//!
//! Such a hop has no packets and no distance. Time that is neither a wait for a connection or a window nor the server's
//! is the host's own. What one side did not record is unknown.

use squall_base::record::{Cause, Outcome, Side};

use super::super::course::Stage;
use super::super::request_marks::ServerMarks;
use super::super::timeline::after_failure;
use super::super::walk::{NEVER, Span, Walk};
use super::join::{HopRows, Leg};

/// What the exchange's time on this hop was spent on.
pub(super) fn stages(leg: &Leg, hop: &HopRows) -> Vec<Stage> {
    let marks = &leg.marks;
    let mut walk = Walk::new(marks.intended, marks.end).with_stages();
    let rest = walk_through(leg, hop, &mut walk);
    let walked = walk.finish(rest);
    walked.stages.into_iter().map(Stage::from).collect()
}

/// Walks as far as the exchange is known; returns the cause of the rest.
fn walk_through(leg: &Leg, hop: &HopRows, walk: &mut Walk) -> Cause {
    let marks = &leg.marks;
    walk.to(marks.taken_up.as_nanos(), Cause::Host);
    let Some(slot) = marks.slot else {
        return Cause::Queue;
    };
    walk.to(slot, Cause::Queue);
    let Some(connected) = marks.connected else {
        return match marks.outcome {
            Outcome::ConnectFailed => Cause::Connect,
            _ => Cause::Unknown,
        };
    };
    walk.to(connected, Cause::Connect);
    if let Some(secured) = marks.secured {
        walk.to(secured, Cause::Tls);
    }
    let Some(written) = marks.written_first else {
        return after_failure(marks.outcome, Cause::Host);
    };
    let Some(server) = leg.server else {
        walk.to(written, Cause::Host);
        return Cause::Unknown;
    };
    exchange(leg, server, hop, walk)
}

/// Walks through request, server and response.
fn exchange(leg: &Leg, server: ServerMarks, hop: &HopRows, walk: &mut Walk) -> Cause {
    let outcome = leg.marks.outcome;
    let received = if server.is_early() {
        server.response_first
    } else {
        server.request_last
    };
    walk_to(leg, hop, Side::Client, received, Cause::Host, walk);
    if received.is_none() {
        return after_failure(outcome, Cause::Host);
    }
    let Some(first) = server.response_first else {
        return after_failure(outcome, Cause::Server);
    };
    walk.to(first, Cause::Server);
    let last = server.response_last;
    walk_to(leg, hop, Side::Server, last, Cause::Server, walk);
    match (last, outcome) {
        (Some(_), Outcome::Answered) => Cause::Host,
        (Some(_), _) => after_failure(outcome, Cause::Host),
        (None, _) => after_failure(outcome, Cause::Server),
    }
}

/// Walks to `until`; if that is `None`, to the end, provided the windows of `sender` are known. Time in which those
/// windows held the exchange back is assigned to them, other time to `otherwise`.
fn walk_to(
    leg: &Leg,
    hop: &HopRows,
    sender: Side,
    until: Option<u64>,
    otherwise: Cause,
    walk: &mut Walk,
) {
    let connection = match sender {
        Side::Client => leg.marks.connection,
        Side::Server => leg.server_connection,
    };
    let windows = connection.and_then(|connection| hop.windows(sender, connection));
    // If `until` never came, it is not known what a failed exchange waited for.
    let otherwise = match until {
        Some(_) => otherwise,
        None => after_failure(leg.marks.outcome, otherwise),
    };
    let (from, to) = (walk.at(), until.unwrap_or(NEVER).min(walk.end()));
    if let (Some(windows), Some(stream)) = (windows, leg.marks.stream)
        && from < to
    {
        let held: Vec<(Span, Cause)> = windows.waits(stream, from, to).collect();
        let edges = held.iter().flat_map(|(span, _)| [span.from, span.to]);
        let mut edges: Vec<u64> = edges.collect();
        edges.retain(|edge| from < *edge && *edge < to);
        edges.push(to);
        edges.sort_unstable();
        for edge in edges {
            let at = walk.at();
            let mut holding = held.iter();
            let found = holding.find(|(span, _)| span.from <= at && edge <= span.to);
            walk.to(edge, found.map_or(otherwise, |(_, cause)| *cause));
        }
    }
    if let Some(until) = until {
        walk.to(until, otherwise);
    }
}
