//! What requests and moments belong to, as far as the wording depends on it: a trial or an imported capture.
//!
//! It knows the origin of printed times and the names of stations. It keeps no record.

use squall_base::record::TrialRecord;
use squall_base::{Duration, Time};

/// A trial or a capture.
#[derive(Clone, Debug)]
pub struct ExplanationContext {
    /// The origin of printed times, counted from the epoch.
    origin: Duration,
    /// Names of the stations, starting at the client.
    stations: Vec<String>,
    /// Index of the hop across the link, which is also the index of its client.
    link: usize,
    /// A capture does not show what requests waited for before they were sent.
    is_capture: bool,
}

impl ExplanationContext {
    /// A trial. Times count from the first arrival of its load.
    pub fn of_trial(record: &TrialRecord) -> ExplanationContext {
        let variant = &record.trial.variant;
        let names = variant.stations.iter();
        ExplanationContext {
            origin: record.load_start,
            stations: names.map(|station| station.name.clone()).collect(),
            link: usize::from(variant.link_hop().0) - 1,
            is_capture: false,
        }
    }

    /// A capture. Times count from its first packet, which was seen `origin` after the epoch.
    pub fn of_capture(origin: Duration) -> ExplanationContext {
        ExplanationContext {
            origin,
            stations: vec!["client".to_owned(), "server".to_owned()],
            link: 0,
            is_capture: true,
        }
    }

    pub(super) fn is_capture(&self) -> bool {
        self.is_capture
    }

    pub(super) fn link(&self) -> usize {
        self.link
    }

    /// The name of the station at an index of the path.
    pub(super) fn station(&self, place: usize) -> Option<&str> {
        self.stations.get(place).map(String::as_str)
    }

    /// A time in seconds from the origin of printed times.
    pub(super) fn time(&self, time: Time) -> String {
        let (origin, time) = (self.origin.as_nanos(), time.as_nanos());
        let sign = if time < origin { "-" } else { "" };
        format!("{sign}{:.6} s", time.abs_diff(origin) as f64 / 1e9)
    }
}
