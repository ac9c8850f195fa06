//! The page of a load in a real Chromium: whether each plot is drawn, whether its files can be saved, whether axe-core accepts
//! it, and whether it fits on a phone.
//!
//! Its content is tested beside the code that makes it (`html/load.rs`).

// In tests, a panic reports the failure.
#![allow(clippy::unwrap_used)]

use std::collections::BTreeMap;
use std::sync::OnceLock;

use serde_json::{Value, json};
use squall_analysis::load::{
    Generator, IntervalFigures, LoadPicture, LoadTotals, MeasuredPhase, Round, SendLimits,
    VariantRounds,
};
use squall_base::record::{Outcome, RequestRecord, SideCounts, TrialRecord};
use squall_base::{Duration, Time};
use squall_report::load::{
    CheckedThreshold, FinishedLoad, LoadPage, LoadPageVariant, LoadSeries, load_page_in,
};
use squall_report::{Language, Method, html};

use crate::support::axe::{self, check};
use crate::support::chromium::{self, Page};
use crate::support::overlay::NAMES;
use crate::support::run::{Size, run, spoil};

/// A variant: its name, the sums of its requests, and what is drawn of them.
type Load = (String, LoadTotals, LoadPicture);

/// The load that has the requests of a trial.
fn load(record: &TrialRecord, requests: &[RequestRecord]) -> Load {
    let start = Time::ZERO + record.load_start;
    let phase = MeasuredPhase {
        from: start + record.trial.load.warmup,
        to: Some(start + record.trial.load.warmup + record.trial.load.duration),
    };
    let mut totals = LoadTotals::new(phase);
    let mut picture = LoadPicture::new(start, phase);
    for request in requests {
        totals.add(request);
        picture.add(request);
    }
    (record.trial.variant.name.clone(), totals, picture)
}

/// The page of a load of this number of variants, each with the requests of a trial: some fail, and some are unfinished. Each
/// page is made once.
fn page(variants: usize) -> &'static str {
    static PAGES: [OnceLock<String>; NAMES.len() + 1] =
        [const { OnceLock::new() }; NAMES.len() + 1];
    PAGES[variants].get_or_init(|| made(variants))
}

fn made(variants: usize) -> String {
    let mut run = run(&NAMES[..variants], Size::SMALL);
    let (counts, causes, errors) = (
        SideCounts::default(),
        SendLimits::default(),
        BTreeMap::new(),
    );
    let end = Time::ZERO + run.records[0].0.load_start + Duration::from_secs(10);
    let mut loads = Vec::new();
    for (record, requests) in run.records.iter_mut().take(variants) {
        spoil(requests, 100, 40, Outcome::Censored);
        spoil(requests, 101, 30, Outcome::StreamReset);
        loads.push(load(record, requests));
    }
    let interval = IntervalFigures {
        length: Duration::from_secs(1),
        succeeded: 190,
        failed: 10,
        p50: Some(Duration::from_millis(50)),
        ..IntervalFigures::default()
    };
    let series = loads.iter().map(|(name, totals, picture)| LoadSeries {
        name: name.clone(),
        rounds: vec![totals; 2],
        picture,
        end,
    });
    let variants = loads.iter().map(|(name, totals, _)| LoadPageVariant {
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
    let command = "squall load --http 1.1,2,3 --rate 200 -D 8s https://a-server-with-a-long-name.example.com:8443/a/long/path/to/a.html";
    let machine = vec![("kernel", "6.1.0".to_owned())];
    let page = LoadPage {
        ended_unix_ns: 1_763_760_301_000_000_000,
        addresses: vec![
            "https://a-server-with-a-long-name.example.com:8443/a/long/path/to/a/resource.html"
                .to_owned(),
        ],
        series: series.collect(),
        urls_together: Some(3),
        variants: variants.collect(),
        thresholds: vec![CheckedThreshold {
            sentence: "p(99)<1: FAILED, 50.7 ms".to_owned(),
            holds: false,
        }],
        method: Method::new(Some(command.to_owned()), None, machine),
    };
    load_page_in(Language::En, &page)
}

/// The page, opened from a file of this name; `None` without Chromium.
fn open(name: &str, markup: &str) -> Option<Page> {
    chromium::open_markup(name, markup, 1_280, 900)
}

/// Scrolls to a plot of single requests and waits until it is drawn.
fn show(page: &mut Page, plot: &str) {
    page.wait_for("document.querySelectorAll('#load .plot').length > 0");
    page.middle_of(plot);
    page.wait_for(&format!(
        "document.querySelector({plot:?}).dataset.x !== undefined && document.querySelector({plot:?}).dataset.points > 0"
    ));
}

/// How many pixels of a plot have the colour of the first variant on a light background.
fn pixels(page: &mut Page, plot: &str) -> Option<u64> {
    // #0072b2; red comes first in memory.
    let pixels = format!(
        "(() => {{ const canvas = document.querySelector({plot:?} + ' canvas'); const pixels = canvas.getContext('2d')\
         .getImageData(0, 0, canvas.width, canvas.height).data; \
         return new Uint32Array(pixels.buffer).filter((it) => it === 0xffb27200).length; }})()"
    );
    page.eval(&pixels).as_u64()
}

#[test]
fn page_of_a_load_passes_axe_core_and_is_not_cut_off_on_a_phone() {
    let Some(axe) = axe::script() else {
        return;
    };
    for (name, markup) in [("load-one", page(1)), ("load-three", page(3))] {
        let Some(mut page) = open(name, markup) else {
            return;
        };
        show(&mut page, "#load .overlay .plot");
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

#[test]
fn every_request_of_a_load_is_drawn_and_nothing_is_logged() {
    let Some(mut page) = open("load-drawn", page(3)) else {
        return;
    };
    page.prefer("light");
    for (plot, requests) in [
        ("#load .overlay .plot", 2 * Size::SMALL.requests()),
        ("#load .multiple .plot", Size::SMALL.requests()),
    ] {
        show(&mut page, plot);
        let points = page.text(&format!("document.querySelector({plot:?}).dataset.points"));
        assert_eq!(points, requests.to_string(), "{plot}");
        assert!(pixels(&mut page, plot) > Some(100), "{plot} is empty");
    }
    // The drawings in the markup have shapes.
    for shape in [
        ".bars .bar-value",
        ".bars .dot",
        ".shapes .curve",
        ".shapes .box-body, .shapes .at-least",
        ".heat-maps .heat",
        ".courses .area",
        ".courses .due",
    ] {
        let drawn = format!(
            "[...document.querySelectorAll({shape:?})].some((it) => it.checkVisibility() && it.getBBox().width > 0)"
        );
        assert_eq!(page.eval(&drawn), json!(true), "{shape}");
    }
    // There is no link that drops packets, and no repetition.
    let hint = page.text("document.querySelector('#load .overlay .hint').textContent");
    assert!(hint.contains("Cross at the top: failed.") && !hint.contains("packet"));
    let labels = "[...document.querySelectorAll('#load .controls label')].map((it) => it.textContent.trim())";
    assert_eq!(page.eval(labels), json!(["Logarithmic latency"]));
    for event in ["Runtime.exceptionThrown", "Log.entryAdded"] {
        assert_eq!(page.events(event), Vec::<Value>::new());
    }
}

#[test]
fn tables_and_plots_of_a_load_are_offered_as_files() {
    let Some(mut page) = open("load-files", page(3)) else {
        return;
    };
    show(&mut page, "#load .overlay .plot");
    let tables = page.eval("document.querySelectorAll('table[data-name]').length");
    let buttons = "[...document.querySelectorAll('button.save')].filter((it) => it.textContent === 'CSV').length";
    assert_eq!(page.eval(buttons), tables);
    let names = page.eval("squall.allPlotNames()");
    let names: Vec<&str> = names
        .as_array()
        .unwrap()
        .iter()
        .filter_map(Value::as_str)
        .collect();
    for name in [
        "response-time-p99",
        "load-percentiles",
        "load-boxes",
        "load-heat-map-h1",
        "load-requests-in-flight-h1",
        "load-requests",
        "load-requests-h1",
        "variant-0-requests-per-second",
    ] {
        assert!(names.contains(&name), "no {name} among {names:?}");
        let svg = page.text(&format!("squall.plotAs({name:?}, 'svg')"));
        assert!(
            svg.starts_with("<svg") && svg.contains("<path"),
            "{name}: {svg}"
        );
    }
}

#[test]
fn page_of_a_load_has_the_scripts_and_the_policy_of_a_run() {
    let (run, of_load) = (run(&NAMES[..1], Size::SMALL), page(1));
    let of_run = html(&run.summary(), &run.plots(), &[], &[]);
    let policy = |page: &str| {
        let (_, behind) = page
            .split_once("Content-Security-Policy\" content=\"")
            .unwrap();
        behind.split('"').next().unwrap().to_owned()
    };
    assert_eq!(policy(of_load), policy(&of_run));
    let script = |page: &str| {
        let (_, script) = page.split_once("<script type=\"module\">").unwrap();
        script.to_owned()
    };
    assert_eq!(script(of_load), script(&of_run));
}
