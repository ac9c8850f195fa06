//! The answer of a probe: one sentence, its cause, and what fixes it.
//!
//! It chooses among the faults that `detect` found and says nothing that they do not say.

use serde::Serialize;

use super::endpoint::Endpoint;
use super::fault::{DetectedFault, Fault, Relevance};
use super::observed::{Observations, StepKind};
use crate::figure;

/// The answer.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct ProbeVerdict {
    /// Whether nothing is wrong.
    pub is_sound: bool,
    /// The answer in a few words: the name of the fault and what it costs, or that nothing is wrong.
    pub headline: String,
    /// What is wrong most, or that nothing is.
    pub sentence: String,
    /// Why, or what was examined.
    pub cause: String,
    /// What fixes it; empty if nothing needs to be fixed.
    pub fix: String,
}

impl ProbeVerdict {
    pub(super) fn of(
        seen: &Observations,
        endpoint: &Endpoint,
        faults: &[DetectedFault],
    ) -> ProbeVerdict {
        match faults.first() {
            None => sound(seen, endpoint),
            Some(first) => ProbeVerdict {
                is_sound: false,
                headline: headline(first),
                sentence: sentence(first),
                cause: cause(first),
                fix: first.fix.clone(),
            },
        }
    }
}

fn sentence(first: &DetectedFault) -> String {
    match first.matters {
        Relevance::Here | Relevance::FartherAway => first.sentence.clone(),
        Relevance::Overhead => format!("Nothing slows HTTP down here. {}", first.sentence),
    }
}

fn headline(first: &DetectedFault) -> String {
    let title = first.fault.title();
    match first.lost {
        Some(lost) if !first.per.is_empty() => {
            format!(
                "{title}: {} lost for each {}",
                figure::time(lost),
                first.per
            )
        }
        _ => title.to_owned(),
    }
}

/// The evidence in one sentence; empty if the fault speaks for itself.
fn cause(first: &DetectedFault) -> String {
    let mut cause = first.evidence.join("; ");
    if !cause.is_empty() {
        cause.push('.');
    }
    cause
}

fn sound(seen: &Observations, endpoint: &Endpoint) -> ProbeVerdict {
    let working = endpoint
        .versions
        .iter()
        .filter(|facts| facts.problem.is_none());
    let names: Vec<&str> = working.map(|facts| facts.version).collect();
    let has_upload = endpoint
        .versions
        .iter()
        .any(|facts| !facts.uploads.is_empty());
    // There are no downloads if robots.txt disallows them, and then mostly no uploads either.
    let has_download = (seen.steps.iter()).any(|step| step.kind == StepKind::Download);
    let transfers = match (has_download, has_upload) {
        (true, true) => "downloads and uploads",
        (true, false) => "downloads but no uploads (--upload SIZE sends some)",
        (false, true) => "uploads but no downloads",
        (false, false) => "but no downloads and no uploads",
    };
    ProbeVerdict {
        is_sound: true,
        headline: "Nothing is wrong".to_owned(),
        sentence: format!(
            "Nothing is wrong with the HTTP of {}, as seen from here.",
            seen.url
        ),
        cause: format!(
            "squall looked for {} faults over {}: small requests, {transfers}.",
            Fault::ALL.len(),
            names.join(", ")
        ),
        fix: String::new(),
    }
}
