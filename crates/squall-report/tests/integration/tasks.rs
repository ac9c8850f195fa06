//! What people open the page for, in a real Chromium: five questions, and how little it takes to answer each.
//!
//! The words of the answers are tested in squall-analysis, the markup in `page` and `details`.

// In tests, a panic reports the failure.
#![allow(clippy::unwrap_used)]

use std::sync::OnceLock;

use serde_json::json;
use squall_report::{Method, html_with_method};

use crate::details::{REQUEST, detailed, found};
use crate::support::chromium::{self, Page};
use crate::support::overlay::NAMES;
use crate::support::run::{Size, run};

const COMMAND: &str = "squall run ./mine.toml --profile quick --seed 7 --stations embedded";
const RECIPE: &str = "name = \"mine\"\n# <why> & what\nquestion = \"?\"\n";

/// Enough repetitions to prove a difference, a finding with its fix, and a request in full.
fn page() -> String {
    let size = Size {
        repetitions: 8,
        ..Size::SMALL
    };
    let run = run(&NAMES, size);
    let machine = vec![("processor", "A Chip".to_owned())];
    let mut method = Method::new(Some(COMMAND.to_owned()), Some(RECIPE.to_owned()), machine);
    for (record, _) in &run.records {
        method.add_trial(record);
    }
    let cells = [found(&run, vec![REQUEST])];
    let plots = detailed(&run, |_| {});
    html_with_method(&run.summary(), &plots, &cells, &[], &method)
}

/// Opens the page, which is made once, from a file of this name; `None` without Chromium.
fn open(name: &str) -> Option<Page> {
    static PAGE: OnceLock<String> = OnceLock::new();
    chromium::open_markup(name, PAGE.get_or_init(page), 1_280, 800)
}

/// The text of an element that must be visible without a click and without scrolling.
fn at_first_sight(page: &mut Page, selector: &str) -> String {
    let place = format!(
        "(() => {{ const e = document.querySelector({selector:?}); const b = e.getBoundingClientRect(); \
         return e.checkVisibility() && scrollY === 0 && b.top >= 0 && b.bottom <= innerHeight && b.right <= innerWidth; }})()"
    );
    assert_eq!(page.eval(&place), json!(true), "{selector}");
    page.text(&format!("document.querySelector({selector:?}).innerText"))
}

#[test]
fn which_variant_wins_and_how_sure_is_visible_at_first_sight() {
    let Some(mut page) = open("task-answer") else {
        return;
    };
    let answer = at_first_sight(&mut page, ".answer");
    assert!(answer.contains(" wins: its p99 is "), "{answer}");
    let certainty = at_first_sight(&mut page, ".answer .confidence");
    assert_eq!(certainty, "✓ proven");
}

#[test]
fn why_the_slowest_request_is_slow_takes_at_most_two_clicks() {
    let Some(mut page) = open("task-slowest") else {
        return;
    };
    page.click("#details .slowest");
    let shown =
        format!("document.getElementById('detail').dataset.shows === 'request-6-{REQUEST}'");
    page.wait_for(&shown);
    let dialog = page.text("document.getElementById('detail').innerText");
    assert!(dialog.contains("after 125.400 ms"), "{dialog}");
    assert!(dialog.contains("loss 64.8 ms"), "{dialog}");
    page.press("Escape");
    page.wait_for("!document.getElementById('detail').open");
    // From the findings it takes two clicks: on the finding, and on its evidence.
    page.click(".finding summary");
    page.click(".finding a");
    page.wait_for(&shown);
}

#[test]
fn what_to_change_is_visible_beside_the_finding() {
    let Some(mut page) = open("task-fix") else {
        return;
    };
    let visible = "document.querySelector('.finding summary .fix code').checkVisibility()";
    assert_eq!(page.eval(visible), json!(true));
    let line = page.text("document.querySelector('.finding summary').innerText");
    assert!(line.contains("TCP head-of-line blocking"), "{line}");
    assert!(line.contains("Fix: client: connections = 8"), "{line}");
}

#[test]
fn health_of_the_machine_is_visible_at_a_glance() {
    let Some(mut page) = open("task-health") else {
        return;
    };
    let health = at_first_sight(&mut page, ".health");
    assert_eq!(health, "sound: 72 of 72 trials valid");
}

#[test]
fn how_to_repeat_the_run_takes_one_click() {
    let Some(mut page) = open("task-repeat") else {
        return;
    };
    page.click(".facts a[href='#method']");
    page.wait_for("document.getElementById('method').getBoundingClientRect().top < innerHeight");
    let visible = "document.querySelector('#method .command').checkVisibility()";
    assert_eq!(page.eval(visible), json!(true));
    let command = page.text("document.querySelector('#method .command').textContent");
    assert_eq!(command, COMMAND);
    let recipe = page.text("document.querySelector('#method .recipe-text').textContent");
    assert_eq!(recipe, RECIPE);
    let section = page.text("document.getElementById('method').textContent");
    // Eight repetitions of three conditions; the seed of the first one.
    for words in [
        "docs/METHOD.md",
        "A Chip",
        "6.1.0-test",
        "24 seeds of the first link",
        &0x5eed_0000_0000_u64.to_string(),
    ] {
        assert!(section.contains(words), "{words} is not in {section}");
    }
}
