//! The page without a mouse, in a real Chromium: Tab reaches everything a person needs, Enter opens it, and Escape closes it.
//!
//! Keys come from the browser, not from scripts, so that its own rules of focus apply.

// In tests, a panic reports the failure.
#![allow(clippy::unwrap_used)]

use std::sync::OnceLock;

use serde_json::{Value, json};
use squall_report::{Method, html_with_method};

use crate::details::{REQUEST, detailed, found};
use crate::support::chromium::{self, Page};
use crate::support::overlay::NAMES;
use crate::support::run::{Size, run};

/// More presses than the page has places at which Tab stops.
const PRESSES: usize = 800;

/// A page with a finding, and a request in full.
fn page() -> String {
    let run = run(&NAMES, Size::SMALL);
    let recipe = Some("name = \"mine\"\n".to_owned());
    let mut method = Method::new(None, recipe, Vec::new());
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
    let mut page = chromium::open_markup(name, PAGE.get_or_init(page), 1_280, 800)?;
    page.wait_for("document.querySelectorAll('.plot').length > 0");
    Some(page)
}

/// Presses Tab until an element that matches has the focus.
fn tab_to(page: &mut Page, selector: &str) {
    let has_focus = format!("document.activeElement.matches({selector:?})");
    for _ in 0..PRESSES {
        page.press("Tab");
        if page.eval(&has_focus) == json!(true) {
            return;
        }
    }
    panic!("Tab does not reach {selector}");
}

fn check_silent(page: &mut Page) {
    assert_eq!(page.events("Runtime.exceptionThrown"), Vec::<Value>::new());
}

#[test]
fn tab_reaches_every_element_that_a_task_needs() {
    let Some(mut page) = open("keyboard-places") else {
        return;
    };
    for selector in [
        ".facts a[href='#method']",
        ".more > summary",
        ".bars select",
        ".comparison .numbers a",
        ".grid-of-winners td a",
        ".finding > summary",
        "#details .slowest",
        "#details > details > summary",
        "#details th a",
        "#condition-0 .verdicts .term",
        "#condition-0 .scroll",
        "#condition-0 .plots .log",
        "#condition-0 .plot",
        "#condition-2 .plot",
        "#method details > summary",
    ] {
        tab_to(&mut page, selector);
    }
    check_silent(&mut page);
}

#[test]
fn finding_opens_with_enter_and_its_request_closes_with_escape() {
    let Some(mut page) = open("keyboard-finding") else {
        return;
    };
    tab_to(&mut page, ".finding > summary");
    page.press("Enter");
    page.wait_for("document.querySelector('.finding').open");
    tab_to(&mut page, ".finding a");
    page.press("Enter");
    page.wait_for("document.getElementById('detail').open");
    page.wait_for("document.activeElement === document.querySelector('#detail h2')");
    // The dialog keeps the focus: its links and its button, and nothing behind it.
    for _ in 0..30 {
        page.press("Tab");
        // Between its last place and its first one, the browser's own controls have the focus, and the page's body.
        let is_inside = page.eval("document.activeElement.matches('body, #detail, #detail *')");
        assert_eq!(is_inside, json!(true));
    }
    page.press("Escape");
    // The finding stays unfolded, which the address keeps.
    let address = "location.hash === '#findings=head_of_line'";
    page.wait_for(&format!(
        "!document.getElementById('detail').open && {address}"
    ));
    let is_back = page.eval("document.activeElement.matches('.finding a')");
    assert_eq!(is_back, json!(true), "the focus returns to the link");
    check_silent(&mut page);
}

#[test]
fn requests_and_connections_of_the_list_close_with_escape() {
    let Some(mut page) = open("keyboard-list") else {
        return;
    };
    for link in [
        "#details .slowest",
        "#details th a",
        "#details a[href='#connection-6-1-0']",
    ] {
        tab_to(&mut page, link);
        page.press("Enter");
        page.wait_for("document.getElementById('detail').open");
        page.press("Escape");
        page.wait_for("!document.getElementById('detail').open");
        let is_back = page.eval(&format!("document.activeElement.matches({link:?})"));
        assert_eq!(is_back, json!(true), "the focus returns to {link}");
    }
    check_silent(&mut page);
}

#[test]
fn explanation_of_a_term_closes_with_escape() {
    let Some(mut page) = open("keyboard-term") else {
        return;
    };
    tab_to(&mut page, ".verdicts .term");
    page.press("Enter");
    page.wait_for("document.querySelector('[popover]:popover-open') !== null");
    page.press("Escape");
    page.wait_for("document.querySelector('[popover]:popover-open') === null");
    let is_back = page.eval("document.activeElement.matches('.term')");
    assert_eq!(is_back, json!(true), "the focus stays at the term");
    check_silent(&mut page);
}
