//! The page of a run with a million requests: small enough to send, and quick to open.

// In tests, a panic reports the failure.
#![allow(clippy::unwrap_used)]

use std::path::PathBuf;

use squall_report::html;

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

/// Nearly incompressible response times are the worst case: all points would take more than 5 MB.
#[test]
fn page_of_a_million_requests_has_less_than_5_mb_and_opens_within_a_second() {
    let (summary, plots) = large(&NAMES, MILLION, scatter);
    let requests = plots.len() as u64 * MILLION.requests();
    assert!(requests >= 1_000_000, "{requests}");
    let page = html(&summary, &plots, &[], &[]);
    assert!(page.len() < 5_000_000, "{} bytes", page.len());
    // Every trial has given up some points, and most are left.
    assert_eq!(
        page.matches(" of 40,000 requests: the slowest ").count(),
        27
    );
    assert!(page.len() > 4_000_000, "{} bytes", page.len());
    let file = PathBuf::from(env!("CARGO_TARGET_TMPDIR")).join("million.html");
    std::fs::write(&file, page).unwrap();
    let Some(mut page) = chromium::open(&file, 1_280, 800) else {
        return;
    };
    // Other work on the machine delays the browser, but takes none of its processor time.
    let seconds = page.processor_time_s();
    println!("processor time until the page could be used: {seconds} s");
    assert!(seconds < 1.0, "{seconds} s");
    page.middle_of("#condition-2 .overlay .plot");
    page.wait_for("document.querySelector('#condition-2 .overlay .plot').dataset.points > 0");
}
