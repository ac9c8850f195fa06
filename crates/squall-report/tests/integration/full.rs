//! A run whose page has every part that a page can have: an answer with its reason, doubts, thresholds, findings, tried
//! fixes, causes, drops, deliveries, requests in full, and the method.
//!
//! It is for the tests of the page as a whole, such as on a phone and by axe-core, and checks only that no part is missing.

// In tests, a panic reports the failure.
#![allow(clippy::unwrap_used)]

use std::sync::OnceLock;

use squall_analysis::findings::CellFindings;
use squall_analysis::{RunSummary, Threshold, TrialReadings, TrialSource};
use squall_base::Duration;
use squall_base::record::{
    CausesRecord, DropRecord, Outcome, RequestRecord, TrialRecord, Validity,
};
use squall_report::{Method, TrialPoints, html_with_method};

use crate::causes;
use crate::deliveries::deliveries;
use crate::details::{REQUEST, detailed, found};
use crate::fixes::add_fixes;
use crate::page::drop_at;
use crate::support::chromium::{self, Page};
use crate::support::overlay::NAMES;
use crate::support::run::{Run, Size, run, spoil};

/// Why the answer is what it is.
pub(crate) const REASON: &str = "Bytes of these requests had arrived, but TCP held them back because bytes of other requests \
                                 before them were missing.";

/// Selectors of what only a page with everything has.
pub(crate) const PARTS: [&str; 14] = [
    ".overview .reason",
    ".overview .warnings li",
    "section[aria-label='Thresholds'] li",
    "section[aria-label='What is wrong'] .finding",
    "section[aria-label='Tried fixes'] li",
    ".comparison .bars svg",
    ".grid-of-winners td",
    "#details tbody tr",
    "table.causes .bar span",
    ".shapes svg",
    ".courses svg",
    ".deliveries svg",
    ".plots .colouring",
    "#method .command",
];

/// The run, with unfinished and failed requests in the trial whose points are shown first, and an invalid trial.
fn made() -> Run {
    let mut run = run(&NAMES, Size::SMALL);
    let (record, requests) = &mut run.records[6];
    assert_eq!(record.trial.index, 6);
    spoil(requests, 100, 400, Outcome::Censored);
    spoil(requests, 300, 400, Outcome::StreamReset);
    run.records[5].0.health.validity = Validity::Invalid {
        reasons: vec!["the link was up to 3 ms late".to_owned()],
    };
    run
}

/// Adds the reason to the answer.
pub(crate) fn add_reason(summary: &mut RunSummary) {
    let answer = summary.answer.as_mut().unwrap();
    answer.reason = Some(REASON.to_owned());
    answer.why = Some(format!("hol leads where they differ. {REASON}"));
}

fn summary(run: &Run) -> RunSummary {
    let mut summary = causes::summary(run, &NAMES);
    add_reason(&mut summary);
    add_fixes(&mut summary, NAMES[1]);
    let threshold: Threshold = "p(99)<100".parse().unwrap();
    let readings = run.records.iter().map(|(record, requests)| TrialReadings {
        folder: record.trial.folder(),
        readings: vec![threshold.measure.read(&TrialSource::of(record, requests))],
    });
    let readings: Vec<TrialReadings> = readings.collect();
    summary.check_thresholds(&[threshold], &readings);
    summary
}

/// The points of a trial, with the causes of its requests and a drop in each half second.
fn marked(points: TrialPoints, record: &TrialRecord, requests: &[RequestRecord]) -> TrialPoints {
    let drops = (0..20).map(|n| drop_at(record, Duration::from_millis(500 * n)));
    let drops: Vec<DropRecord> = drops.collect();
    let causes: Vec<CausesRecord> = causes::causes(requests);
    points.with_causes(&causes).with_drops(record, &drops)
}

fn method(run: &Run) -> Method {
    let command =
        "squall run ./a-recipe-with-a-long-name.toml --profile quick --seed 7 --stations embedded";
    let recipe = "name = \"mine\"\nquestion = \"What does packet loss do to HTTP/2, compared with HTTP/1.1?\"\n";
    let machine = vec![("processor", "A Chip".to_owned())];
    let mut method = Method::new(Some(command.to_owned()), Some(recipe.to_owned()), machine);
    for (record, _) in &run.records {
        method.add_trial(record);
    }
    method
}

fn page() -> String {
    let run = made();
    let cells: [CellFindings; 1] = [found(&run, vec![REQUEST])];
    let plots = detailed(&run, |_| {}).into_iter().zip(&run.records);
    let plots: Vec<TrialPoints> = plots
        .map(|(points, (record, requests))| marked(points, record, requests))
        .collect();
    html_with_method(
        &summary(&run),
        &plots,
        &cells,
        &deliveries(&run),
        &method(&run),
    )
}

/// The page, opened from a file of this name in a window of this width; `None` without Chromium. No part is missing.
pub(crate) fn open(name: &str, width: u32) -> Option<Page> {
    static PAGE: OnceLock<String> = OnceLock::new();
    let mut page = chromium::open_markup(name, PAGE.get_or_init(page), width, 900)?;
    for part in PARTS {
        let count = format!("document.querySelectorAll({part:?}).length");
        assert!(page.eval(&count).as_u64() > Some(0), "no {part}");
    }
    Some(page)
}
