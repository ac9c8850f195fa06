//! What small requests show: how long the first and later ones take, whether short responses come in pieces with a pause
//! between them, and whether the server keeps connections open.
//!
//! It judges no pause; `detect` has the rules.

use std::collections::BTreeMap;

use serde::Serialize;
use squall_base::plan::Version;
use squall_base::record::{Outcome, RequestRecord};
use squall_base::{Duration, Time};

use super::observed::{Observations, Step, StepKind, version_name};
use super::spans::median_span;

/// The longest response whose bytes a sender may always send at once: ten segments are 14 kB.
const SHORT_RESPONSE: u64 = 10_000;

/// Times of small requests over one version.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct SmallRequestTimes {
    /// From the beginning of the connection to the first byte of the first response; the middle one of the rounds.
    #[serde(rename = "first_ns")]
    pub first: Option<Duration>,
    /// From writing a later request to the first byte of its response; the middle one.
    #[serde(rename = "later_ns")]
    pub later: Option<Duration>,
    /// The handshake of TLS or QUIC.
    #[serde(rename = "handshake_ns")]
    pub handshake: Option<Duration>,
}

impl SmallRequestTimes {
    /// The times over this version.
    pub(super) fn of(seen: &Observations, version: Version) -> SmallRequestTimes {
        let mut first = Vec::new();
        let mut later = Vec::new();
        let mut handshakes = Vec::new();
        for step in seen.steps_of(StepKind::Small, version) {
            for row in step.answered() {
                if row.opened_connection {
                    first.extend(between(row.slot, row.answered_first));
                    // QUIC has one handshake for both: `connected` is when it began.
                    handshakes.extend(between(row.connected, row.secured));
                } else {
                    later.extend(between(row.written_last, row.answered_first));
                }
            }
        }
        SmallRequestTimes {
            first: median_span(first),
            later: median_span(later),
            handshake: median_span(handshakes),
        }
    }
}

/// The span between two times, if both are known.
pub(super) fn between(from: Option<Time>, to: Option<Time>) -> Option<Duration> {
    Some(to?.since(from?))
}

/// Pauses within short responses on connections that were in use already.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Pauses {
    /// From the first byte of a response to its last one, for each response.
    pub(super) spans: Vec<Duration>,
}

impl Pauses {
    /// The pauses in responses to the small requests over one version.
    pub(super) fn of(seen: &Observations, version: Version) -> Pauses {
        let steps = seen.steps_of(StepKind::Small, version);
        let spans = steps.flat_map(|step| {
            let later = step.answered().filter(|row| !row.opened_connection);
            let short = later.filter(|row| row.response_body_bytes <= SHORT_RESPONSE);
            short.filter_map(|row| Some(row.end.since(row.answered_first?)))
        });
        Pauses {
            spans: spans.collect(),
        }
    }

    /// How many lie within a range, and the middle one of these.
    pub(super) fn within(&self, from: Duration, to: Duration) -> (usize, Option<Duration>) {
        let inside = || (self.spans.iter()).filter(move |span| (from..=to).contains(*span));
        (inside().count(), median_span(inside().copied()))
    }
}

/// Connections that the server ended although the client wanted to go on using them.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub struct ShortConnection {
    /// Requests on the busiest connection that was ended.
    pub requests: u64,
    /// Whether a GOAWAY announced it.
    pub with_goaway: bool,
}

/// The requests that connections carried before the server ended them; `None` if one connection carried all, or if some were
/// answered with errors, after which servers end connections.
pub(super) fn short_connection(step: &Step) -> Option<ShortConnection> {
    let is_error = |row: &RequestRecord| row.status.is_some_and(|status| status >= 400);
    if step.answered().any(is_error) {
        return None;
    }
    let carried = carried(step);
    // The last connection was not necessarily ended: it could have carried more requests.
    let ended = carried.len().checked_sub(1).filter(|ended| *ended > 0)?;
    let requests = carried.values().take(ended).copied().max()?;
    Some(ShortConnection {
        requests,
        with_goaway: step.counts.endings.goaways_received > 0,
    })
}

/// The requests with a complete response on each connection of a step.
fn carried(step: &Step) -> BTreeMap<u32, u64> {
    let mut carried: BTreeMap<u32, u64> = BTreeMap::new();
    for connection in step.answered().filter_map(|row| row.connection) {
        *carried.entry(connection).or_default() += 1;
    }
    carried
}

/// By version, the most requests that one connection carried.
pub(super) fn most_carried(seen: &Observations) -> BTreeMap<&'static str, u64> {
    let mut most: BTreeMap<&'static str, u64> = BTreeMap::new();
    let steps = seen.steps.iter();
    let kinds = [StepKind::Small, StepKind::Lasting];
    for step in steps.filter(|step| kinds.contains(&step.kind)) {
        if let Some(requests) = carried(step).into_values().max() {
            let of_version = most.entry(version_name(step.version)).or_default();
            *of_version = requests.max(*of_version);
        }
    }
    most
}

/// Why the requests of a step failed, if the first one did; in words of the machine or the peer.
pub fn failure(step: &Step) -> Option<String> {
    let row = step.requests.first()?;
    match row.outcome {
        Outcome::Answered => None,
        Outcome::Censored if step.was_cut => None,
        outcome => Some(said(step, row, outcome)),
    }
}

/// A reason without the system's error number.
pub(super) fn plain(reason: &str) -> &str {
    let end = reason.find(" (os error ").unwrap_or(reason.len());
    &reason[..end]
}

fn said(step: &Step, row: &RequestRecord, outcome: Outcome) -> String {
    let progress = match (row.connected, row.headers) {
        // A request has a connection once it may be sent: after the handshakes, if the server allows another stream.
        (None, _) if step.lacks_tls => "connected, but no TLS handshake",
        (None, _) if step.was_connected => "connected, but no response",
        (None, _) => "no connection was established",
        (Some(_), None) => "connected, but no response",
        (Some(_), Some(_)) => "no complete response",
    };
    match (&row.error, outcome) {
        (Some(error), _) => error.clone(),
        (None, Outcome::Censored | Outcome::TimedOut) => format!("{progress} in time"),
        (None, outcome) => outcome.name().replace('_', " "),
    }
}

#[cfg(test)]
mod tests {
    use squall_base::record::EndingCounts;

    use super::super::made::{at_us, healthy, ms, request, step};
    use super::super::{DetectedFault, Diagnosis, Fault, Relevance};
    use super::*;

    /// Requests in a row; the server ends each connection after `on_each` of them.
    fn lasting(requests: u32, on_each: u32) -> Step {
        let mut made = step(StepKind::Lasting, Version::Http2);
        for n in 0..requests {
            let mut row = request(0, 1_000 + 4_000 * u64::from(n), 3_000);
            row.connection = Some(n / on_each);
            row.opened_connection = n % on_each == 0;
            made.requests.push(row);
        }
        made.counts.endings = EndingCounts {
            goaways_received: u64::from((requests - 1) / on_each),
            ..EndingCounts::default()
        };
        made
    }

    #[test]
    fn stalled_tls_handshake_is_told_from_a_connection_that_was_not_established() {
        let mut made = step(StepKind::Small, Version::Http2);
        made.requests.push(RequestRecord {
            outcome: Outcome::Censored,
            ..RequestRecord::due(0, at_us(1_000))
        });
        let said = |made: &Step| failure(made).expect("it was not answered");
        assert_eq!(said(&made), "no connection was established in time");
        made.was_connected = true;
        assert_eq!(said(&made), "connected, but no response in time");
        made.lacks_tls = true;
        assert_eq!(said(&made), "connected, but no TLS handshake in time");
    }

    fn found(made: Step) -> Option<DetectedFault> {
        let mut seen = healthy(ms(30));
        seen.steps.push(made);
        let faults = Diagnosis::of(&seen).faults;
        let mut faults = faults.into_iter();
        faults.find(|found| found.fault == Fault::ShortConnections)
    }

    #[test]
    fn connections_that_end_after_a_hundred_requests_are_found() {
        let found = found(lasting(120, 100)).expect("a finding");
        let said = &found.sentence;
        assert!(
            said.contains("after 100 requests (with a GOAWAY)"),
            "{said}"
        );
        assert_eq!(found.matters, Relevance::Overhead);
        let evidence = found.evidence.join("; ");
        assert!(evidence.contains("one request in 100"), "{evidence}");
    }

    /// By default, nginx ends a connection after 1,000 requests, which is more than a probe sends.
    #[test]
    fn connection_that_carries_all_requests_is_not_a_fault() {
        assert_eq!(found(lasting(120, 1_000)), None);
        let mut seen = healthy(ms(30));
        seen.steps.push(lasting(120, 1_000));
        let most = Diagnosis::of(&seen).endpoint.most_requests;
        assert_eq!(most.get("HTTP/2"), Some(&120));
    }

    /// A server that limits the rate of its clients answers with an error, and may end the connection.
    #[test]
    fn connections_that_end_after_errors_are_not_judged() {
        let mut made = lasting(120, 100);
        made.requests[99].status = Some(429);
        assert_eq!(found(made), None);
    }
}
