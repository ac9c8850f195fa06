//! The parts of the report's page that several tests use: a usual page, and the overlay of its last condition.
//!
//! It checks nothing; that is left to the tests.

use std::sync::OnceLock;

use squall_report::html;

use super::chromium::{self, Page};
use super::run::{Run, Size, run};

/// Variants of most runs here.
pub const NAMES: [&str; 3] = ["h1", "h2c x1", "h2c x8"];

fn page_of(run: &Run) -> String {
    html(&run.summary(), &run.plots(), &[], &[])
}

/// The page of a small run of these variants. Many tests use it, so it is made once.
pub fn usual_page() -> &'static str {
    static PAGE: OnceLock<String> = OnceLock::new();
    PAGE.get_or_init(|| page_of(&run(&NAMES, Size::SMALL)))
}

/// Writes the run's page to a file of this name and opens it; `None` without Chromium.
pub fn open(name: &str, run: &Run) -> Option<Page> {
    chromium::open_markup(name, &page_of(run), 1400, 900)
}

/// The same for [`usual_page`].
pub fn open_usual(name: &str) -> Option<Page> {
    chromium::open_markup(name, usual_page(), 1400, 900)
}

/// Scrolls to the overlay of the last condition, waits until it is drawn and returns its middle.
pub fn show_overlay(page: &mut Page) -> (f64, f64) {
    page.wait_for("document.querySelectorAll('#condition-2 .plot').length > 0");
    page.middle_of("#condition-2 .overlay .plot");
    page.wait_for("document.querySelector('#condition-2 .overlay .plot').dataset.points > 0");
    page.wait_for("document.querySelector('#condition-2 .overlay .plot').dataset.x !== undefined");
    page.middle_of("#condition-2 .overlay .u-over")
}

pub fn overlay_data(page: &mut Page, key: &str) -> String {
    page.text(&format!(
        "document.querySelector('#condition-2 .overlay .plot').dataset.{key}"
    ))
}

/// The range of one of the overlay's axes, `x` or `y`.
pub fn overlay_range(page: &mut Page, axis: &str) -> Vec<f64> {
    overlay_data(page, axis)
        .split(' ')
        .map(|n| n.parse().unwrap())
        .collect()
}
