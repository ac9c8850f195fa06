//! What requests and moments belong to, as far as the wording depends on it: a trial or an imported capture.
//!
//! It knows the origin of printed times and the names of stations. It keeps no record.

use squall_analysis::causes::{Course, Passage};
use squall_base::record::{Direction, TrialRecord};
use squall_base::{Duration, Time};

/// A trial or a capture.
#[derive(Clone, Debug)]
pub struct ExplanationContext {
    /// The origin of printed times, counted from the epoch.
    origin: Duration,
    /// Names of the stations, starting at the client.
    stations: Vec<String>,
    /// The numbers of the hops across links, from 1; at least one.
    links: Vec<u8>,
    /// Whether it is a capture, which does not show what requests waited for before they were sent.
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
            links: variant.link_hops().map(|(hop, _)| hop).collect(),
            is_capture: false,
        }
    }

    /// A capture. Times count from its first packet, which was seen `origin` after the epoch.
    pub fn of_capture(origin: Duration) -> ExplanationContext {
        ExplanationContext {
            origin,
            stations: vec!["client".to_owned(), "server".to_owned()],
            links: vec![1],
            is_capture: true,
        }
    }

    pub(super) fn is_capture(&self) -> bool {
        self.is_capture
    }

    /// ` of hop 2`, if the path has several links that could be meant; otherwise empty.
    pub(crate) fn of_hop(&self, hop: u8) -> String {
        match self.links.len() {
            0 | 1 => String::new(),
            _ => format!(" of hop {hop}"),
        }
    }

    /// A request's passages, each with its hop and direction.
    pub(crate) fn passages<'c>(&self, course: &'c Course) -> Vec<(u8, Direction, &'c Passage)> {
        let first = self.links.first().copied().unwrap_or(1);
        let further = course.hops.iter();
        let further = further.map(|hop| (hop.hop, &hop.up, &hop.down));
        let all = std::iter::once((first, &course.up, &course.down)).chain(further);
        let passages = all.flat_map(|(hop, up, down)| {
            let both = [(Direction::Up, up), (Direction::Down, down)];
            both.map(|(direction, passage)| Some((hop, direction, passage.as_ref()?)))
        });
        passages.flatten().collect()
    }

    /// The name of the station at an index of the path.
    pub(super) fn station(&self, place: usize) -> Option<&str> {
        self.stations.get(place).map(String::as_str)
    }

    /// A time in seconds from the origin of printed times.
    pub(crate) fn time(&self, time: Time) -> String {
        let (origin, time) = (self.origin.as_nanos(), time.as_nanos());
        let sign = if time < origin { "-" } else { "" };
        format!("{sign}{:.6} s", time.abs_diff(origin) as f64 / 1e9)
    }
}
