//! The output of `squall load` while it runs and at its end, as text and as JSON.
//!
//! Figures in, strings out: it reads no clock, moves no cursor, does not query the terminal's size and computes no
//! statistic (squall-analysis's `load` does). Control characters are replaced in all foreign text, such as error messages.
//!
//! `live` has the screen and the line of a running load, `summary` the text of a finished one (with `chart` for its
//! histogram), `json` the figures for programs, `comparison` the table of several variants; `text` has their common
//! formatting. The page of a load is in `html::load`.

mod chart;
#[cfg(test)]
mod chinese;
mod comparison;
mod json;
mod live;
#[cfg(test)]
pub(crate) mod samples;
mod summary;
mod text;

use std::collections::BTreeMap;

use squall_analysis::load::{Generator, LoadTotals, PageTotals, SendLimits};
use squall_base::Time;
use squall_base::record::SideCounts;

pub use crate::html::load::{LoadPage, LoadPageVariant, LoadSeries, load_page_in};
pub use comparison::comparison;
pub(crate) use comparison::{quantile, sentences};
pub use json::{
    AnswerJson, BucketJson, ComparisonJson, ConnectionsJson, FailureJson, GeneratorJson,
    LatenciesJson, LatenessJson, LoadJson, LongestLagJson, OverallQuantilesJson, PagesJson,
    PartJson, PunctualityJson, RatesJson, RequestsJson,
};
pub use live::{CheckedThreshold, LiveLoad, line, screen};
pub(crate) use summary::{Overview, PERCENTILES, foreign, summary as summary_text};
pub use summary::{counts, summary};
pub(crate) use text::span as plain_span;
pub use text::{Glyphs, TextFormat};
pub(crate) use text::{known, percent};

/// A finished load.
#[derive(Clone, Copy, Debug)]
pub struct FinishedLoad<'a> {
    /// When it ended, on the clock of its requests' times, which starts with the load: the end of the last request if the
    /// number of requests is limited, or the time of an interruption. Rates do not cover time outside the window of the
    /// totals.
    pub end: Time,
    /// Its requests.
    pub totals: &'a LoadTotals,
    /// What the client counted: connections, handshakes, settings.
    pub counts: &'a SideCounts,
    /// Connections that this machine could not even begin, by the kernel's error.
    pub machine_errors: &'a BTreeMap<String, u64>,
    /// What held up its sending.
    pub causes: &'a SendLimits,
    /// Its pages, if it is a load of pages.
    pub pages: Option<&'a PageTotals>,
    /// The rate asked of its generator, and the generator's own health.
    pub generator: Generator,
}
