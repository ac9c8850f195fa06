//! What requests and moments are of, as far as words depend on it: a trial, or a capture that was imported.
//!
//! It knows where times begin and what stations are called, and reads no record.

use squall_base::record::TrialRecord;
use squall_base::{Duration, Time};

/// A trial or a capture.
#[derive(Clone, Debug)]
pub struct Scene {
    /// What printed times count from, from the epoch.
    origin: Duration,
    /// Names of stations, from the client on.
    stations: Vec<String>,
    /// Place of the hop across the link, which is that of its client.
    link: usize,
    /// Nobody has written down what requests waited for before they were seen.
    is_capture: bool,
}

impl Scene {
    /// Of a trial: times count from the first arrival of its load.
    pub fn of_trial(record: &TrialRecord) -> Scene {
        let variant = &record.trial.variant;
        let names = variant.stations.iter();
        Scene {
            origin: record.load_start,
            stations: names.map(|station| station.name.clone()).collect(),
            link: usize::from(variant.link_hop().0) - 1,
            is_capture: false,
        }
    }

    /// Of a capture: times count from its first packet, which was seen `origin` after the epoch.
    pub fn of_capture(origin: Duration) -> Scene {
        Scene {
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

    /// The name of the station at a place of the path.
    pub(super) fn station(&self, place: usize) -> Option<&str> {
        self.stations.get(place).map(String::as_str)
    }

    /// A time as people look it up, in seconds from where printed times begin.
    pub(super) fn time(&self, time: Time) -> String {
        let (origin, time) = (self.origin.as_nanos(), time.as_nanos());
        let sign = if time < origin { "-" } else { "" };
        format!("{sign}{:.6} s", time.abs_diff(origin) as f64 / 1e9)
    }
}
