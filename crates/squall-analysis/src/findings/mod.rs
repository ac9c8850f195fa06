//! What is wrong in a trial: known pathologies, each with its evidence, its cost and the setting that ends it.
//!
//! Each finding has a file with one detector, which takes records and returns evidence or nothing: `detector` and `finding`
//! say what that is. `records` takes the rows of a trial once and keeps what detectors read, in memory linear in the
//! requests and packets; `frames`, `sockets` and `flows` are its parts. `case` is the trial as detectors see it, `costs`
//! sums what a pathology costs, `knob` has the names of settings in programs, `changes` those in recipes, `aggregate`
//! combines the findings of a run's trials, `merged` lists each of them once for the whole run, and `proposals` says which
//! of their fixes to try. If the records do not show something, such as the far side of a third-party program, the detector
//! is silent: a finding is never guessed, and a healthy trial has none. Nothing here reads a file or compares variants;
//! docs/METHOD.md has every threshold with its origin.

mod aggregate;
mod case;
mod changes;
mod costs;
mod detector;
mod finding;
mod flows;
mod frames;
mod knob;
mod merged;
mod proposals;
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

use squall_base::record::TrialRecord;

#[cfg(test)]
pub(crate) use made::{packet as made_packet, trial as made_trial};

pub use aggregate::{CellFindings, RunFinding, RunFindings, TrialFindings, aggregate};
pub use finding::{CostShare, Evidence, Finding, Fix, Number, Severity, Whole};
pub use merged::{FindingPlace, MergedFinding, merged};
pub use proposals::{FixProposal, RefusedFix, choose, proposals};
pub use records::Records;

use crate::causes::Attribution;
use case::Case;
use detector::{Detector, Scope};

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

/// Whether a finding explains time that attribution assigns to this cause, by the cause's name in the record.
pub fn explains(finding: &Finding, cause: &str) -> bool {
    let detector = DETECTORS.iter().find(|it| it.name == finding.name);
    detector.is_some_and(|detector| detector.causes.iter().any(|own| own.name() == cause))
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
                severity: Severity::of(detection.part),
                share: CostShare {
                    part: detection.part,
                    of: detection.of,
                },
                evidence: Evidence {
                    numbers: detection.numbers,
                    requests: detection.requests,
                },
                explanation: detector.explanation.to_owned(),
                fixes: detection.fixes,
                hop: *link,
            }));
        }
    }
    findings.sort_by(Finding::worst_first);
    findings
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
