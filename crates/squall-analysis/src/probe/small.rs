//! What small requests show: how long the first and later ones take, whether short responses come in pieces with a pause
//! between them, and whether the server keeps connections open.
//!
//! It judges no pause; `detect` has the rules.

use std::collections::BTreeMap;

use serde::Serialize;
use squall_base::plan::Version;
use squall_base::record::{Outcome, RequestRecord};
use squall_base::{Duration, Time};

use super::observed::{Observations, Step, StepKind};
use super::transfer::median_span;

/// The longest response whose bytes a sender may always send at once: ten segments are 14 kB.
const SHORT_RESPONSE: u64 = 10_000;

/// Times of small requests over one version.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct Latency {
    /// From the beginning of the connection to the first byte of the first response; the middle one of the rounds.
    pub first: Option<Duration>,
    /// From writing a later request to the first byte of its response; the middle one.
    pub later: Option<Duration>,
    /// The handshake of TLS or QUIC.
    pub handshake: Option<Duration>,
}

impl Latency {
    /// The times over this version.
    pub(super) fn of(seen: &Observations, version: Version) -> Latency {
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
        Latency {
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
    /// Those of the small requests over one version.
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

/// Why a server ended a connection that the client wanted to go on using.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub struct ShortConnection {
    /// Requests on the busiest connection that was ended.
    pub requests: u64,
    /// Whether a GOAWAY announced it.
    pub with_goaway: bool,
}

/// The requests that connections carried before the server ended them; `None` if one connection carried all.
pub(super) fn short_connection(step: &Step) -> Option<ShortConnection> {
    let mut carried: BTreeMap<u32, u64> = BTreeMap::new();
    for row in step.answered() {
        *carried.entry(row.connection?).or_default() += 1;
    }
    // The last connection may have had more to come.
    let ended = carried.len().checked_sub(1).filter(|ended| *ended > 0)?;
    let requests = carried.values().take(ended).copied().max()?;
    Some(ShortConnection {
        requests,
        with_goaway: step.counts.endings.goaways_received > 0,
    })
}

/// Why the requests of a step failed, if the first one did; in words of the machine or the peer.
pub fn failure(step: &Step) -> Option<String> {
    let row = step.requests.first()?;
    match row.outcome {
        Outcome::Answered => None,
        Outcome::Censored if step.was_cut => None,
        outcome => Some(said(row, outcome)),
    }
}

/// A reason without the number that the system has for it.
pub(super) fn plain(reason: &str) -> &str {
    let end = reason.find(" (os error ").unwrap_or(reason.len());
    &reason[..end]
}

fn said(row: &RequestRecord, outcome: Outcome) -> String {
    let progress = match (row.connected, row.headers) {
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
