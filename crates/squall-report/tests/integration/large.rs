//! The page of a run with a million requests: small enough to send, and quick to open.

// In tests, a panic reports the failure.
#![allow(clippy::unwrap_used)]

use squall_analysis::RunSummary;
use squall_analysis::causes::{RunBandTimes, TrialBandTimes};
use squall_analysis::findings::CellFindings;
use squall_base::Duration;
use squall_base::record::{Cause, CauseSpans, CausesRecord, DropRecord, RequestRecord};
use squall_report::{TrialPoints, html};

use crate::details::{REQUEST, TRIAL, detail, found_in};
use crate::page::drop_at;
use crate::support::chromium;
use crate::support::overlay::NAMES;
use crate::support::run::{Size, large, scatter};

/// 27 trials, each with as many requests as a plot draws.
const MILLION: Size = Size {
    rate_per_s: 2_000,
    warmup_s: 2,
    duration_s: 18,
    repetitions: 3,
};

/// Dropped packets of a trial, more than are marked.
const DROPS: u64 = 6_000;

/// One cause for each request, in no order that a compression could use.
fn causes(requests: &[RequestRecord]) -> Vec<CausesRecord> {
    let row = |request: &RequestRecord| {
        // Knuth's multiplicative hashing of the number.
        let hash = request.request.wrapping_mul(2_654_435_761) >> 16;
        let cause = Cause::ALL[usize::try_from(hash).unwrap() % Cause::ALL.len()];
        let mut spans = CauseSpans::default();
        spans[cause] = request.response_time();
        squall_made::causes(request.request, spans)
    };
    requests.iter().map(row).collect()
}

/// A run with causes and drops in each trial, a request in full, and its finding.
fn made() -> (RunSummary, Vec<TrialPoints>, Vec<CellFindings>) {
    let (mut cells, mut band_times) = (Vec::new(), Vec::new());
    let (plan, mut summary, plots) = large(&NAMES, MILLION, scatter, |points, record, requests| {
        let causes = causes(requests);
        band_times.push(TrialBandTimes::of(record, requests, &causes));
        let drops = (0..DROPS).map(|n| drop_at(record, Duration::from_micros(3_331 * n)));
        let drops: Vec<DropRecord> = drops.collect();
        let mut points = points.with_causes(&causes).with_drops(record, &drops);
        if record.trial.index == TRIAL {
            points.add_detail(record, &detail(record));
            cells.push(found_in(record, vec![REQUEST]));
        }
        points
    });
    summary.causes = RunBandTimes::of(&plan, &band_times);
    (summary, plots, cells)
}

/// Nearly incompressible response times and causes are the worst case: all points would take more than 5 MB.
#[test]
fn page_of_a_million_requests_has_less_than_5_mb_and_opens_within_a_second() {
    let (summary, plots, cells) = made();
    let requests = plots.len() as u64 * MILLION.requests();
    assert!(requests >= 1_000_000, "{requests}");
    let page = html(&summary, &plots, &cells, &[]);
    assert!(page.len() < 5_000_000, "{} bytes", page.len());
    // Every trial leaves out some points, but draws most of them.
    assert_eq!(
        page.matches(" of 40,000 requests: the slowest ").count(),
        27
    );
    assert!(page.len() > 4_000_000, "{} bytes", page.len());
    // Everything apart from the points is there.
    assert_eq!(page.matches(", 6,000 packets dropped (").count(), 27);
    assert_eq!(page.matches("<table class=\"causes\" ").count(), 3);
    assert!(page.contains(&format!("request {REQUEST} in full</a>")));
    assert!(page.contains(&format!("id=\"detail-request-{TRIAL}-{REQUEST}\"")));
    let Some(mut page) = chromium::open_markup_in_new_window("million", &page, 1_280, 800) else {
        return;
    };
    // Other work on the machine adds to the browser's wall time, but not to its processor time.
    let seconds = page.processor_time_s();
    let wall_ms =
        page.eval("performance.getEntriesByType('navigation')[0].domContentLoadedEventEnd");
    println!(
        "until the page could be used: {seconds} s of processor time, {wall_ms} ms of wall time"
    );
    assert!(seconds < 1.0, "{seconds} s");
    page.middle_of("#condition-2 .overlay .plot");
    page.wait_for("document.querySelector('#condition-2 .overlay .plot').dataset.points > 0");
}
