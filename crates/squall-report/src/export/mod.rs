//! Results in the formats of other tools: JUnit XML for CI, Markdown for a job's summary or a comment, and Bencher's metrics.
//!
//! It computes no statistic and writes no file. Names are foreign text, and are escaped for each format. `junit` has what
//! passed or failed, `markdown` what people read, `bmf` the figures that are tracked over time.

mod bmf;
mod junit;
mod markdown;

use squall_analysis::RunSummary;

pub use bmf::{Benchmarks, Metric, benchmarks_of_load, benchmarks_of_run};
pub use junit::junit;
pub use markdown::{markdown_of_changes, markdown_of_load, markdown_of_run};

/// Something that passed or failed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Check {
    /// What was checked: a variant and its condition, or a URL.
    pub of: String,
    /// The condition, such as `p(99)<50`.
    pub name: String,
    /// What was found, in a sentence.
    pub found: String,
    /// Whether it passed.
    pub holds: bool,
}

/// The checks of a run: that each cell with trials has a valid one, and its thresholds.
pub fn checks_of_run(summary: &RunSummary) -> Vec<Check> {
    let cells = summary.conditions.iter().flat_map(|it| &it.cells);
    let tried = cells.filter(|cell| !cell.trials.is_empty());
    let validity = tried.map(|cell| {
        let (valid, all) = (cell.valid_trials().count(), cell.trials.len());
        let found = match cell.first_doubt() {
            Some(doubt) => format!("{valid} of {all} trials are valid; {doubt}"),
            None => format!("{valid} of {all} trials are valid"),
        };
        Check {
            of: format!("{}, {}", cell.variant, cell.condition),
            name: "has a valid trial".to_owned(),
            found,
            holds: valid > 0,
        }
    });
    let thresholds = summary.thresholds.iter().map(|threshold| Check {
        of: format!("{}, {}", threshold.variant, threshold.condition),
        name: threshold.threshold.clone(),
        found: threshold.sentence.clone(),
        holds: threshold.holds,
    });
    validity.chain(thresholds).collect()
}
