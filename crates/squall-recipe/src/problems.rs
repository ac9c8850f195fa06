//! Collects the problems of one text, so that its author sees all of them together.
//!
//! Deciding what is a mistake is left to the readers. `ReportedProblem` proves that a problem was recorded: a reader
//! returns either a value or a `ReportedProblem`, so a recipe cannot fail silently.

use std::cell::RefCell;
use std::ops::Range;

use crate::error::{Mistake, Problem, RecipeError};

/// A text with more problems is not a recipe, and more messages would only scroll the first ones off the screen.
const MAX_PROBLEMS: usize = 100;

/// The problems of one text, so far.
pub(crate) struct Problems<'t> {
    text: &'t str,
    problems: RefCell<Vec<Problem>>,
}

/// Proof that a problem was recorded. Only [`Problems::report`] creates one.
#[derive(Clone, Copy, Debug)]
pub(crate) struct ReportedProblem(());

impl<'t> Problems<'t> {
    pub(crate) fn new(text: &'t str) -> Problems<'t> {
        Problems {
            text,
            problems: RefCell::new(Vec::new()),
        }
    }

    /// The text that all spans refer to.
    pub(crate) fn text(&self) -> &'t str {
        self.text
    }

    /// Records a problem at the bytes `span`.
    pub(crate) fn report(
        &self,
        span: Range<usize>,
        mistake: Mistake,
        expected: impl Into<String>,
        hint: Option<String>,
    ) -> ReportedProblem {
        let mut problems = self.problems.borrow_mut();
        // Settings for both sides are checked once for each, so a mistake in them may be reported twice.
        let is_known = problems
            .iter()
            .any(|known| known.span == span && known.mistake == mistake);
        if problems.len() < MAX_PROBLEMS && !is_known {
            let (line, column) = position(self.text, span.start);
            problems.push(Problem {
                mistake,
                span,
                line,
                column,
                expected: expected.into(),
                hint,
            });
        }
        ReportedProblem(())
    }

    /// The line of the byte `offset`, from 1.
    pub(crate) fn line_of(&self, offset: usize) -> usize {
        position(self.text, offset).0
    }

    /// Returns `value` if no problem was recorded.
    pub(crate) fn finish<T>(self, value: Result<T, ReportedProblem>) -> Result<T, RecipeError> {
        let problems = self.problems.into_inner();
        match value {
            Ok(value) if problems.is_empty() => Ok(value),
            _ => Err(RecipeError::new(problems)),
        }
    }
}

/// The values of all readings. Every one is made, even if one before it fails, so that all mistakes are reported.
pub(crate) fn collect_all<T>(
    readings: impl IntoIterator<Item = Result<T, ReportedProblem>>,
) -> Result<Vec<T>, ReportedProblem> {
    let all: Vec<_> = readings.into_iter().collect();
    all.into_iter().collect()
}

/// Line and column of the byte `offset`, both from 1. The column counts characters.
fn position(text: &str, offset: usize) -> (usize, usize) {
    let mut end = offset.min(text.len());
    while !text.is_char_boundary(end) {
        end -= 1;
    }
    let before = &text[..end];
    let line_start = before.rfind('\n').map_or(0, |i| i + 1);
    (
        before.matches('\n').count() + 1,
        before[line_start..].chars().count() + 1,
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn positions_count_characters_from_one() {
        assert_eq!(position("", 0), (1, 1));
        assert_eq!(position("ab\ncd", 4), (2, 2));
        assert_eq!(position("äöü = 1", "äö".len()), (1, 3));
        assert_eq!(position("ä", 1), (1, 1), "inside a character");
        assert_eq!(position("a\n", 99), (2, 1), "past the end");
    }
}
