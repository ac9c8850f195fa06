//! What a rule sees, and what it returns: the data that the rules of `detect` and `detect_windows` share.
//!
//! Nothing is judged here. `fault` has the fix for each fault.

use squall_base::Duration;
use squall_base::plan::Unit;

use super::endpoint::Endpoint;
use super::fault::{Fault, Matters};
use super::observed::Observations;
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
    pub(super) matters: Matters,
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

pub(super) fn times(span: Duration, factor: f64) -> Duration {
    Duration::from_nanos((span.as_nanos() as f64 * factor).round() as u64)
}

pub(super) fn rate(bytes_per_s: f64) -> String {
    format_value(bytes_per_s, Unit::BytesPerSecond)
}
