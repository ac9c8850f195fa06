//! The parts of the report's page that several tests use: the overlay of the last condition.
//!
//! It checks nothing; that is left to the tests.

use squall_report::html;

use super::chromium::{self, Page};
use super::run::Run;

/// Variants of most runs here.
pub const NAMES: [&str; 3] = ["h1", "h2c x1", "h2c x8"];

/// Writes the run's page to a file of this name and opens it; `None` without Chromium.
pub fn open(name: &str, run: &Run) -> Option<Page> {
    let markup = html(&run.summary(), &run.plots(), &[], &[]);
    chromium::open_markup(name, &markup, 1400, 900)
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
