//! What `squall load` shows while it runs and at its end, as text and as JSON.
//!
//! Strings out of figures in: it reads no clock, moves no cursor, asks no terminal for its size and computes no
//! statistic (squall-analysis's `load` does). All foreign text, such as the words of failures, loses what a terminal
//! would obey.
//!
//! `live` is the screen and the line of a load that runs, `summary` the text of one that is over (with `chart`, its
//! histogram), `json` the same figures for programs, `comparison` the table of several variants; `text` is how all of
//! them write, wrap and align.

mod chart;
mod comparison;
mod json;
mod live;
#[cfg(test)]
mod samples;
mod summary;
mod text;

use std::collections::BTreeMap;

use squall_analysis::load::{Causes, Generator, LoadTotals, PageTotals};
use squall_base::Time;
use squall_base::record::SideCounts;

pub use comparison::comparison;
pub use json::{
    BucketJson, ComparisonJson, ConnectionsJson, FailureJson, GeneratorJson, LatenciesJson,
    LatenessJson, LoadJson, LongestLagJson, OfAllJson, PagesJson, PartJson, PunctualityJson,
    RatesJson, RequestsJson,
};
pub use live::{Live, line, screen};
pub use summary::{counts, summary};
pub use text::{Glyphs, Look};

/// A load that is over.
#[derive(Clone, Copy, Debug)]
pub struct Finished<'a> {
    /// When it was over, counted from its start as its requests' times are: the end of the last request of a load of so
    /// many, or the moment of an interruption. What is beyond the window of the totals is left out of every rate.
    pub end: Time,
    /// Its requests.
    pub totals: &'a LoadTotals,
    /// What the client's side counted: connections, handshakes, settings.
    pub counts: &'a SideCounts,
    /// Connections that this machine could not even begin, by what its kernel said.
    pub machine_errors: &'a BTreeMap<String, u64>,
    /// What held up what it sent.
    pub causes: &'a Causes,
    /// Its pages, if it is a load of pages.
    pub pages: Option<&'a PageTotals>,
    /// What its generator was asked and took.
    pub generator: Generator,
}
