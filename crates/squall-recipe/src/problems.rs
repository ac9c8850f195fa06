//! Collects the problems of one text, so that a person sees all of them at once.
//!
//! It does not decide what is a mistake. `Reported` is the proof that a problem was recorded: whoever has
//! no value has one of these, so a recipe cannot fail in silence.

use std::cell::RefCell;
use std::ops::Range;

use crate::error::{Mistake, Problem, RecipeError};

/// More than this is no recipe; the rest would only scroll the first ones away.
const MAX_PROBLEMS: usize = 100;

/// The problems of one text, so far.
pub(crate) struct Problems<'t> {
    text: &'t str,
    found: RefCell<Vec<Problem>>,
}

/// A problem was recorded. Only [`Problems::report`] makes one.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Reported(());

impl<'t> Problems<'t> {
    pub(crate) fn new(text: &'t str) -> Problems<'t> {
        Problems {
            text,
            found: RefCell::new(Vec::new()),
        }
    }

    /// The text that all spans are of.
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
    ) -> Reported {
        let mut found = self.found.borrow_mut();
        // What is said for both sides can be wrong on both.
        let is_known = found
            .iter()
            .any(|known| known.span == span && known.mistake == mistake);
        if found.len() < MAX_PROBLEMS && !is_known {
            let (line, column) = position(self.text, span.start);
            found.push(Problem {
                mistake,
                span,
                line,
                column,
                expected: expected.into(),
                hint,
            });
        }
        Reported(())
    }

    /// The line of the byte `offset`, from 1.
    pub(crate) fn line_of(&self, offset: usize) -> usize {
        position(self.text, offset).0
    }

    /// `value`, unless anything at all was wrong.
    pub(crate) fn finish<T>(self, value: Result<T, Reported>) -> Result<T, RecipeError> {
        let found = self.found.into_inner();
        match value {
            Ok(value) if found.is_empty() => Ok(value),
            _ => Err(RecipeError::new(found)),
        }
    }
}

/// Line and column of the byte `offset`, from 1; the column counts characters.
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

/// `did you mean ...?` with the candidate nearest to `word`, if one is near.
pub(crate) fn did_you_mean<'a>(
    word: &str,
    candidates: impl IntoIterator<Item = &'a str>,
) -> Option<String> {
    // A third of the letters may be wrong, but always one: `h2` for `h2c`, `dleay` for `delay`.
    let tolerance = (word.chars().count() / 3).clamp(1, 4);
    candidates
        .into_iter()
        .filter(|candidate| candidate.len().abs_diff(word.len()) <= tolerance)
        .map(|candidate| (strsim::damerau_levenshtein(word, candidate), candidate))
        .filter(|(distance, _)| *distance <= tolerance)
        // Of two that are equally near, the one that begins as the word does: `h2` for `h2s`, not `h1s`.
        .min_by_key(|(distance, candidate)| {
            let begins_alike = candidate.starts_with(word) || word.starts_with(candidate);
            (*distance, !begins_alike)
        })
        .map(|(_, candidate)| format!("did you mean `{candidate}`?"))
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

    #[test]
    fn only_near_words_are_suggested() {
        let keys = ["delay", "loss"];
        assert_eq!(
            did_you_mean("dleay", keys).as_deref(),
            Some("did you mean `delay`?")
        );
        assert_eq!(
            did_you_mean("los", keys).as_deref(),
            Some("did you mean `loss`?")
        );
        assert_eq!(
            did_you_mean("h2", ["h1", "h2c"]).as_deref(),
            Some("did you mean `h2c`?")
        );
        assert_eq!(
            did_you_mean("h2s", ["h1s", "h2"]).as_deref(),
            Some("did you mean `h2`?")
        );
        assert_eq!(did_you_mean("jitter", keys), None);
        assert_eq!(did_you_mean(&"x".repeat(100_000), keys), None);
    }
}
