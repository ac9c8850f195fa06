//! What a rule sees, and what it returns: the data that the rules of `detect`, `detect_slow` and `detect_windows` share, and
//! how they word evidence.
//!
//! Nothing is judged here. `fault` has the fix for each fault.

use squall_base::Duration;
use squall_base::plan::Unit;

use super::endpoint::Endpoint;
use super::fault::{Fault, Relevance};
use super::observed::Observations;
use super::quic::QuicFacts;
use crate::figure;
use crate::value::format_value;

/// Below this round trip, a difference of one round trip cannot be told from the time that programs take.
const ROUND_TRIP_AT_LEAST: Duration = Duration::from_millis(5);

/// What the rules see.
pub(super) struct Case<'a> {
    pub(super) seen: &'a Observations,
    pub(super) endpoint: &'a Endpoint,
}

/// A fault with its evidence; its fix is looked up later.
pub(super) struct Signs {
    pub(super) fault: Fault,
    pub(super) matters: Relevance,
    pub(super) sentence: String,
    pub(super) evidence: Vec<String>,
    pub(super) lost: Option<Duration>,
    pub(super) per: &'static str,
}

impl Case<'_> {
    /// The round trip, if it is long enough for differences of one round trip to be seen.
    pub(super) fn long_round_trip(&self) -> Option<Duration> {
        let round_trip = self.endpoint.round_trip;
        round_trip.filter(|rtt| *rtt >= ROUND_TRIP_AT_LEAST)
    }
}

pub(super) fn rate(bytes_per_s: f64) -> String {
    format_value(bytes_per_s, Unit::BytesPerSecond)
}

/// `part` as a share of the total `of`; 0 if both are 0.
pub(super) fn share(part: u64, of: u64) -> f64 {
    part as f64 / of.max(1) as f64
}

/// Evidence of a loss with its share: `sent again: 30 of 1,000 segments with data (3.0 %)`.
pub(super) fn lost_of(what: &str, part: u64, of: u64, unit: &str) -> String {
    format!(
        "{what}: {} of {} {unit} ({:.1} %)",
        figure::count(part),
        figure::count(of),
        share(part, of) * 100.0
    )
}

/// What QUIC lost, as evidence.
pub(super) fn quic_losses(quic: &QuicFacts) -> Vec<String> {
    let mut evidence = vec![
        lost_of("lost over QUIC", quic.lost, quic.sent, "packets sent"),
        lost_of(
            "the server's data that came late over QUIC",
            quic.late_frames,
            quic.stream_frames,
            "STREAM frames",
        ),
    ];
    if quic.dropped_here > 0 {
        evidence.push(format!(
            "this machine dropped {}, because its receive buffer was full",
            figure::counted(quic.dropped_here, "datagram", "datagrams")
        ));
    }
    evidence
}
