//! What the link delivered over time: on the page of a run with large bodies, and in a browser.
//!
//! The deliveries are made up; squall-analysis tests how they are summed up.

// In tests, a panic reports the failure.
#![allow(clippy::unwrap_used)]

use serde_json::{Value, json};
use squall_analysis::{Delivery, PacketSample};
use squall_base::Duration;
use squall_base::record::Direction;
use squall_report::html;

use crate::support::chromium;
use crate::support::run::{Run, Size, run};

/// A delivery of 150 intervals for the first trial of each variant under the last condition: a band without gaps, then
/// one in which every other interval is empty.
pub(crate) fn deliveries(run: &Run) -> Vec<Delivery> {
    let condition = run.plan.conditions.last().unwrap();
    let first_trials = (run.records.iter())
        .map(|(record, _)| &record.trial)
        .filter(|trial| trial.repetition == 0 && trial.condition == *condition);
    let delivery = |(variant, trial): (u64, &squall_base::plan::Trial)| {
        let is_idle = |place: u64| variant == 1 && place % 2 == 1;
        let at = |place: u64, packet: u64| Duration::from_millis(20 * place + 5 * packet);
        let busy = (0..150).filter(|place| !is_idle(*place));
        Delivery {
            folder: trial.folder(),
            variant: trial.variant.name.clone(),
            condition: trial.condition.clone(),
            hop: 1,
            direction: Direction::Up,
            span: Duration::from_millis(3_000),
            interval: Duration::from_millis(20),
            bytes: (0..150)
                .map(|place| if is_idle(place) { 0 } else { 65_535 })
                .collect(),
            packets: 7_000,
            samples: busy
                .flat_map(|place| (0..4).map(move |packet| (place, packet)))
                .map(|(place, packet)| PacketSample {
                    at: at(place, packet),
                    payload_bytes: if packet == 3 { 375 } else { 1_448 },
                })
                .collect(),
        }
    };
    (0..).zip(first_trials).map(delivery).collect()
}

#[test]
fn only_conditions_with_deliveries_have_their_graphs() {
    let run = run(&["h1", "<b>h2c"], Size::SMALL);
    let page = html(&run.summary(), &run.plots(), &[], &deliveries(&run));
    assert_eq!(
        page.matches("<div class=\"multiples deliveries\">").count(),
        1
    );
    let (_, section) = page.split_once("id=\"condition-2\"").unwrap();
    let (_, graphs) = section
        .split_once("<div class=\"multiples deliveries\">")
        .unwrap();
    assert_eq!(graphs.matches("<svg viewBox").count(), 4);
    assert!(!page.contains("<b>h2c"), "names are text");
    assert!(section.contains("nothing in 75 of 150 intervals"));
    let without = html(&run.summary(), &run.plots(), &[], &[]);
    assert!(!without.contains("<div class=\"multiples deliveries\">"));
}

/// Twice 150 intervals, with 600 and 300 packets, take less than 40 kB.
#[test]
fn graphs_take_little_space_in_the_page() {
    let run = run(&["h1", "h2c x1"], Size::SMALL);
    let without = html(&run.summary(), &[], &[], &[]);
    let page = html(&run.summary(), &[], &[], &deliveries(&run));
    let more = page.len() - without.len();
    assert!(more < 40_000, "{more} bytes");
}

#[test]
fn graphs_are_drawn_in_the_colours_of_their_variants() {
    let run = run(&["h1", "h2c x1"], Size::SMALL);
    let page = html(&run.summary(), &run.plots(), &[], &deliveries(&run));
    let Some(mut page) = chromium::open_markup("deliveries", &page, 1400, 900) else {
        return;
    };
    page.prefer("light");
    page.middle_of("#condition-2 .deliveries figure");
    // The colours in style.css for the first two variants.
    let colours = page.eval(
        "[...document.querySelectorAll('#condition-2 .deliveries .dots')].map((it) => getComputedStyle(it).stroke)",
    );
    assert_eq!(colours, json!(["rgb(0, 114, 178)", "rgb(230, 159, 0)"]));
    // The first variant's throughput fills the width; none of the shapes leaves its graph.
    let fits = page.eval(
        "[...document.querySelectorAll('#condition-2 .deliveries svg')].map((svg) => { \
         const all = svg.getBoundingClientRect(); \
         const of = svg.querySelector('.area, .dots').getBoundingClientRect(); \
         return of.width > all.width / 2 && of.left >= all.left && of.right <= all.right \
         && of.top >= all.top && of.bottom <= all.bottom; })",
    );
    assert_eq!(fits, json!([true, true, true, true]));
    assert_eq!(page.events("Runtime.exceptionThrown"), Vec::<Value>::new());
    assert_eq!(page.events("Log.entryAdded"), Vec::<Value>::new());
}
