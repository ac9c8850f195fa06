//! The page of a load in a real Chromium: whether axe-core accepts it, and whether it fits on a phone.
//!
//! Its content is tested beside the code that makes it (`html/load.rs`).

// In tests, a panic reports the failure.
#![allow(clippy::unwrap_used)]

use std::collections::BTreeMap;
use std::path::PathBuf;

use squall_analysis::load::{
    Generator, IntervalFigures, LoadTotals, MeasuredPhase, Round, SendLimits, VariantRounds,
};
use squall_base::record::{Outcome, RequestRecord, SideCounts};
use squall_base::{Duration, Time};
use squall_report::load::{CheckedThreshold, FinishedLoad, LoadPage, LoadPageVariant, load_page};

use crate::support::axe::{self, check};
use crate::support::chromium;
use crate::support::overlay::NAMES;
use crate::support::run::{Size, run, spoil};

fn totals(requests: &[RequestRecord]) -> LoadTotals {
    let mut totals = LoadTotals::new(MeasuredPhase::default());
    requests.iter().for_each(|request| totals.add(request));
    totals
}

/// The page of a load of this number of variants, each with the requests of a trial: some fail, and some are unfinished.
fn page(variants: usize) -> String {
    let mut run = run(&NAMES[..variants], Size::SMALL);
    let (counts, causes, errors) = (
        SideCounts::default(),
        SendLimits::default(),
        BTreeMap::new(),
    );
    let end = Time::ZERO + Duration::from_secs(12);
    let mut loads = Vec::new();
    for (record, requests) in run.records.iter_mut().take(variants) {
        spoil(requests, 100, 40, Outcome::Censored);
        spoil(requests, 101, 30, Outcome::StreamReset);
        loads.push((record.trial.variant.name.clone(), totals(requests)));
    }
    let interval = IntervalFigures {
        length: Duration::from_secs(1),
        succeeded: 190,
        failed: 10,
        p50: Some(Duration::from_millis(50)),
        ..IntervalFigures::default()
    };
    let variants = loads.iter().map(|(name, totals)| LoadPageVariant {
        rounds: VariantRounds {
            name: name.clone(),
            rounds: vec![Round::of(totals, end); 2],
        },
        last: FinishedLoad {
            end,
            totals,
            counts: &counts,
            machine_errors: &errors,
            causes: &causes,
            pages: None,
            generator: Generator::default(),
        },
        intervals: vec![interval; 10],
    });
    load_page(&LoadPage {
        ended_unix_ns: 1_763_760_301_000_000_000,
        addresses: vec![
            "https://a-server-with-a-long-name.example.com:8443/a/long/path/to/a/resource.html"
                .to_owned(),
        ],
        variants: variants.collect(),
        thresholds: vec![CheckedThreshold {
            sentence: "p(99)<1: FAILED, 50.7 ms".to_owned(),
            holds: false,
        }],
    })
}

#[test]
fn axe_core_finds_no_violation_on_the_page_of_a_load_and_nothing_is_cut_off_on_a_phone() {
    let Some(axe) = axe::script() else {
        return;
    };
    for (name, markup) in [("load-one", page(1)), ("load-three", page(3))] {
        let file = PathBuf::from(env!("CARGO_TARGET_TMPDIR")).join(format!("{name}.html"));
        std::fs::write(&file, markup).unwrap();
        let Some(mut page) = chromium::empty(1_280, 900) else {
            return;
        };
        page.visit(&format!("file://{}", file.display()));
        page.wait_for("document.readyState === 'complete'");
        page.eval(&format!("{axe}; 0"));
        page.eval("document.querySelectorAll('details').forEach((it) => { it.open = true; }); 0");
        for (scheme, width) in [("light", 1_280), ("light", 390), ("dark", 1_280)] {
            page.prefer(scheme);
            page.resize(width, 900);
            page.wait_for(&format!("innerWidth === {width}"));
            check(&mut page, &format!("{name}, {scheme}, {width} px"));
            let is_wide = page.eval("document.documentElement.scrollWidth > innerWidth");
            assert_eq!(is_wide, false, "{name} at {width} px");
        }
    }
}
