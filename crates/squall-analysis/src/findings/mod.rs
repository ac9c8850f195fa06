//! What is wrong in a trial: known pathologies, each with its evidence, its cost and the setting that ends it.
//!
//! Each finding has a file with one detector, which takes records and returns evidence or nothing. `records` takes the rows
//! of a trial once and keeps what detectors read, in memory linear in the requests and packets; `frames`, `sockets` and
//! `flows` are its parts. `costs` sums what a pathology costs, `knob` knows what a setting is called in which program, and
//! `aggregate` combines the findings of a run's trials. If the records do not show something, such as the far side of a
//! third-party program, the detector is silent: a finding is never guessed, and a healthy trial has none. Nothing here
//! reads a file or compares variants; docs/METHOD.md has every threshold with its origin.

mod aggregate;
mod case;
mod costs;
mod flows;
mod frames;
mod knob;
mod records;
mod sockets;

mod bufferbloat;
mod burst_loss;
mod connection_window;
mod full_handshakes;
mod generator_late;
mod goaway_churn;
mod handshake_per_request;
mod head_of_line;
mod hpack_eviction;
mod late_window_updates;
mod loss_based_control;
mod max_streams;
mod nagle;
mod own_loss;
mod pool_exhaustion;
mod port_exhaustion;
mod read_stall;
mod receive_window;
mod record_wait;
mod refused_streams;
mod send_buffer;
mod single_connection;
mod slow_start;
mod slow_start_after_idle;
mod small_records;
mod spurious_retransmits;
mod stream_window;
mod syn_loss;
mod timeout_repair;
mod tiny_data_frames;
mod udp_drops;
mod update_per_data;
mod zero_initial_window;

#[cfg(test)]
mod made;

use serde::{Deserialize, Serialize};
use squall_base::record::{Cause, TrialRecord};

#[cfg(test)]
pub(crate) use made::trial as made_trial;

pub use aggregate::{CellFindings, RunFinding, TrialFindings, aggregate};
pub use records::Records;

use crate::causes::Attribution;
use case::Case;

/// How much a finding matters, by the share that it costs.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Severity {
    /// Less than [`Severity::SERIOUS_FROM`].
    Minor,
    /// Less than [`Severity::GRAVE_FROM`].
    Serious,
    /// At least that much, or the trial is not evidence at all.
    Grave,
}

impl Severity {
    /// A twentieth: what a verdict between variants can distinguish from noise with a few pairs. A judgement.
    pub const SERIOUS_FROM: f64 = 0.05;
    /// A fifth: too much to leave it that way. A judgement.
    pub const GRAVE_FROM: f64 = 0.2;

    /// The severity of what costs `share` of the whole.
    pub fn of(share: f64) -> Severity {
        match share {
            share if share >= Severity::GRAVE_FROM => Severity::Grave,
            share if share >= Severity::SERIOUS_FROM => Severity::Serious,
            _ => Severity::Minor,
        }
    }

    /// Its name.
    pub const fn name(self) -> &'static str {
        match self {
            Severity::Minor => "minor",
            Severity::Serious => "serious",
            Severity::Grave => "grave",
        }
    }
}

/// What a share is relative to.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Whole {
    /// The response times of all measured requests together.
    ResponseTime,
    /// The requests.
    Requests,
    /// The time in which connections had something to send or to be acknowledged (tcpi_busy_time).
    SendingTime,
    /// The packets with data.
    Packets,
    /// The frames of HTTP/2.
    Frames,
}

impl Whole {
    /// In words, for a sentence.
    pub const fn words(self) -> &'static str {
        match self {
            Whole::ResponseTime => "of the response time",
            Whole::Requests => "of the requests",
            Whole::SendingTime => "of the sending time",
            Whole::Packets => "of the packets with data",
            Whole::Frames => "of the frames",
        }
    }
}

/// What a finding costs.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct CostShare {
    /// From 0 to 1.
    pub part: f64,
    /// What it is a share of.
    pub of: Whole,
}

/// One number of the evidence.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Number {
    /// What was counted or measured.
    pub what: String,
    /// Its value.
    pub value: f64,
    /// Its unit; empty for counts.
    pub unit: String,
}

/// What a finding is based on.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Evidence {
    /// The numbers.
    pub numbers: Vec<Number>,
    /// Requests to look at, those that it cost most first; empty if the records do not show which they are.
    pub requests: Vec<u64>,
}

/// What to set, and where.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub struct Fix {
    /// The station, as the path names it.
    pub station: String,
    /// The setting, by its name in the program that runs there.
    pub setting: String,
}

/// A pathology that a trial shows.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Finding {
    /// Its identifier, such as `stream_window`.
    pub name: String,
    /// Its name for people.
    pub title: String,
    /// How much it matters.
    pub severity: Severity,
    /// What it costs.
    pub share: CostShare,
    /// What it is based on.
    pub evidence: Evidence,
    /// What happens, and why, in two sentences.
    pub explanation: String,
    /// What fixes it.
    pub fixes: Vec<Fix>,
    /// On a path of several links: the hop whose link it is about.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub hop: Option<u8>,
}

impl Finding {
    /// The first sentence of the explanation: what happens. The second says why.
    pub fn what_happens(&self) -> &str {
        match self.explanation.find(". ") {
            Some(end) => &self.explanation[..=end],
            None => &self.explanation,
        }
    }

    /// Whether it explains time that attribution assigns to this cause, by the cause's name in the record.
    pub fn explains(&self, cause: &str) -> bool {
        let detector = DETECTORS.iter().find(|detector| detector.name == self.name);
        detector.is_some_and(|detector| detector.causes.iter().any(|own| own.name() == cause))
    }
}

/// What a detector has found.
#[derive(Debug)]
struct Detection {
    share: CostShare,
    evidence: Evidence,
    fixes: Vec<Fix>,
}

/// What a detector looks at.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Scope {
    /// The whole path.
    Path,
    /// One link: of several, one after the other.
    Link,
}

/// One pathology: what it is, and how to detect it.
struct Detector {
    name: &'static str,
    title: &'static str,
    /// Two sentences.
    explanation: &'static str,
    scope: Scope,
    /// The causes of response time that it explains; empty if its cost is not a time, or no cause of its own.
    causes: &'static [Cause],
    /// Evidence, or nothing.
    detect: fn(&Case<'_>) -> Option<Detection>,
}

/// Every pathology: first squall's own machinery, then the application's protocols, the transport, the path.
const DETECTORS: [&Detector; 33] = [
    &generator_late::DETECTOR,
    &port_exhaustion::DETECTOR,
    &pool_exhaustion::DETECTOR,
    &max_streams::DETECTOR,
    &refused_streams::DETECTOR,
    &goaway_churn::DETECTOR,
    &handshake_per_request::DETECTOR,
    &full_handshakes::DETECTOR,
    &stream_window::DETECTOR,
    &connection_window::DETECTOR,
    &late_window_updates::DETECTOR,
    &zero_initial_window::DETECTOR,
    &read_stall::DETECTOR,
    &update_per_data::DETECTOR,
    &tiny_data_frames::DETECTOR,
    &hpack_eviction::DETECTOR,
    &small_records::DETECTOR,
    &record_wait::DETECTOR,
    &nagle::DETECTOR,
    &receive_window::DETECTOR,
    &send_buffer::DETECTOR,
    &slow_start::DETECTOR,
    &slow_start_after_idle::DETECTOR,
    &single_connection::DETECTOR,
    &loss_based_control::DETECTOR,
    &burst_loss::DETECTOR,
    &bufferbloat::DETECTOR,
    &head_of_line::DETECTOR,
    &own_loss::DETECTOR,
    &timeout_repair::DETECTOR,
    &syn_loss::DETECTOR,
    &spurious_retransmits::DETECTOR,
    &udp_drops::DETECTOR,
];

/// The names of all pathologies that can be found.
pub fn names() -> impl Iterator<Item = &'static str> {
    DETECTORS.iter().map(|detector| detector.name)
}

/// Everything that is wrong in a trial, the worst first. `attribution` is `None` if causes are not known; findings that
/// need them are then silent.
pub fn find(
    records: Records,
    attribution: Option<&Attribution>,
    trial: &TrialRecord,
) -> Vec<Finding> {
    let mut case = Case::new(records, attribution, trial);
    let variant = &trial.trial.variant;
    let links: Vec<Option<u8>> = match variant.links() {
        0 | 1 => vec![None],
        _ => variant.link_hops().map(|(hop, _)| Some(hop)).collect(),
    };
    let mut findings = Vec::new();
    for detector in DETECTORS {
        let looks = match detector.scope {
            Scope::Path => &[None][..],
            Scope::Link => &links,
        };
        for link in looks {
            case.look_at(*link);
            let detection = (detector.detect)(&case);
            findings.extend(detection.map(|detection| Finding {
                name: detector.name.to_owned(),
                title: detector.title.to_owned(),
                severity: severity(detector, &detection),
                share: detection.share,
                evidence: detection.evidence,
                explanation: detector.explanation.to_owned(),
                fixes: detection.fixes,
                hop: *link,
            }));
        }
    }
    findings.sort_by(|a, b| {
        let by_severity = b.severity.cmp(&a.severity);
        by_severity.then(b.share.part.total_cmp(&a.share.part))
    });
    findings
}

/// A late generator invalidates the trial, whatever its share.
fn severity(detector: &Detector, detection: &Detection) -> Severity {
    if detector.name == generator_late::DETECTOR.name {
        Severity::Grave
    } else {
        Severity::of(detection.share.part)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_finding_has_a_unique_name_and_two_sentences() {
        let mut names: Vec<&str> = names().collect();
        names.sort_unstable();
        names.dedup();
        assert_eq!(names.len(), DETECTORS.len());
        for detector in DETECTORS {
            let ends = detector.explanation.matches(". ").count();
            assert!(detector.explanation.ends_with('.'), "{}", detector.name);
            assert_eq!(ends, 1, "{}: {}", detector.name, detector.explanation);
        }
    }

    #[test]
    fn severity_follows_from_the_share() {
        let severities = [0.0, 0.049, 0.05, 0.19, 0.2, 1.0].map(Severity::of);
        use Severity::{Grave, Minor, Serious};
        assert_eq!(severities, [Minor, Minor, Serious, Serious, Grave, Grave]);
    }

    #[test]
    fn finding_about_one_of_two_links_names_its_hop() {
        use squall_base::plan::Protocol;
        use squall_base::record::{Cause, Repair};
        let mut made = made::TestTrial::healthy(Protocol::H1);
        made.lose(50, Cause::Loss, made::ms(500), Repair::Rack);
        let alone = made.finding("own_loss").expect("it is found");
        made.put_behind_another_link();
        let found = made.findings();
        let mut own = found.iter().filter(|it| it.name == "own_loss");
        let behind = own.next().expect("it is found");
        assert_eq!((alone.hop, behind.hop, own.next()), (None, Some(2), None));
        assert_eq!(behind.share, alone.share);
        assert!(behind.fixes[0].station.contains("hop 2"), "{behind:?}");
    }

    #[test]
    fn an_empty_trial_has_no_findings() {
        let trial = made::trial(squall_base::plan::Protocol::H2);
        assert_eq!(find(Records::new(), None, &trial), []);
        let attribution = Attribution::default();
        assert_eq!(find(Records::new(), Some(&attribution), &trial), []);
    }
}
