//! A cell as the reports show it: if none of its trials is valid, with the figures of its other trials.
//!
//! It computes no figure. `terminal` and `html::section` mark the figures that are doubtful, or limits.

use std::borrow::Cow;

use squall_analysis::{CellSummary, ConditionSummary};

/// A cell, and whether its figures are to be doubted.
pub(crate) struct ShownCell<'a> {
    /// The cell with the figures to show.
    pub(crate) figures: Cow<'a, CellSummary>,
    /// Why the first trial is invalid or doubtful, or what its link carried, if the figures are those of such trials.
    pub(crate) doubt: Option<&'a str>,
    /// Whether the figures are limits: the link itself was the bottleneck.
    pub(crate) is_limit: bool,
    /// Whether the figures are those of doubtful trials.
    pub(crate) is_doubtful: bool,
}

impl<'a> ShownCell<'a> {
    /// The cells of a condition.
    pub(crate) fn all_of(condition: &'a ConditionSummary) -> Vec<ShownCell<'a>> {
        condition.cells.iter().map(ShownCell::of).collect()
    }

    fn of(cell: &'a CellSummary) -> ShownCell<'a> {
        match cell.as_if_valid() {
            Some(figures) => ShownCell {
                figures: Cow::Owned(figures),
                doubt: Some(cell.first_doubt().unwrap_or("no reason is recorded")),
                is_limit: cell.is_limited(),
                is_doubtful: cell.is_doubtful(),
            },
            None => ShownCell {
                figures: Cow::Borrowed(cell),
                doubt: None,
                is_limit: false,
                is_doubtful: false,
            },
        }
    }
}
