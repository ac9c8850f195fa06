//! What can be wrong with the text of a setting, and how it is shown: the place, the words, the reason, and what is
//! expected.
//!
//! It does not find mistakes: `words` and its callers do.

use std::borrow::Cow;
use std::fmt;

use squall_base::ParseQuantityError;
use thiserror::Error;

/// At most this much of a text is repeated in a message.
const MAX_WORDS_CHARS: usize = 80;

/// A mistake and its place.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub struct TextError {
    /// The line, from 1; only schedules have lines.
    pub line: Option<usize>,
    /// Where the wrong word begins, or where one is missing: the character in its line, from 1.
    pub column: usize,
    /// The setting up to the wrong word.
    pub words: String,
    /// What is wrong with it.
    pub mistake: Mistake,
    /// What is expected instead.
    pub expected: String,
    /// The name that was probably meant.
    pub meant: Option<&'static str>,
}

/// A kind of mistake.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum Mistake {
    /// The text ends too soon.
    #[error("incomplete")]
    Incomplete,
    /// There is no setting, queue or class of that name.
    #[error("unknown name")]
    UnknownName,
    /// A word that has no place here.
    #[error("unexpected word")]
    Unexpected,
    /// A plain number is expected here.
    #[error("not a number")]
    NotANumber,
    /// Two numbers with a hyphen between them are expected here.
    #[error("not a range")]
    NotARange,
    /// A number that needs a unit.
    #[error("no unit")]
    NoUnit,
    /// A number with a unit of a different quantity.
    #[error("unknown unit {unit:?}")]
    UnknownUnit {
        /// The unit.
        unit: String,
    },
    /// A value of the right kind that is not possible.
    #[error("out of range")]
    OutOfRange,
    /// A change that is earlier than the one before it.
    #[error("back in time")]
    BackInTime,
    /// The caller could not provide the trace.
    #[error("the trace cannot be used: {why}")]
    Trace {
        /// The caller's reason.
        why: String,
    },
}

impl fmt::Display for TextError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if let Some(line) = self.line {
            write!(f, "line {line}, ")?;
        }
        write!(f, "column {}: ", self.column)?;
        if self.words.chars().count() > MAX_WORDS_CHARS {
            let start: String = self.words.chars().take(MAX_WORDS_CHARS).collect();
            write!(f, "\"{}...\": ", start.escape_debug())?;
        } else if !self.words.is_empty() {
            write!(f, "{:?}: ", self.words)?;
        }
        write!(f, "{}: expected {}", self.mistake, self.expected)?;
        match self.meant {
            Some(name) => write!(f, "; did you mean `{name}`?"),
            None => Ok(()),
        }
    }
}

impl Mistake {
    /// What is wrong with a quantity, and what is expected instead.
    pub(super) fn of(error: ParseQuantityError) -> (Mistake, Cow<'static, str>) {
        match error {
            ParseQuantityError::NotANumber { expected, .. } => {
                (Mistake::NotANumber, expected.into())
            }
            ParseQuantityError::NoUnit { expected, .. } => (Mistake::NoUnit, expected.into()),
            ParseQuantityError::Unit { unit, expected, .. } => {
                (Mistake::UnknownUnit { unit }, expected.into())
            }
            ParseQuantityError::Range { expected, .. } => (Mistake::OutOfRange, expected.into()),
        }
    }
}

/// The candidate nearest to `word`, if one is near.
pub(super) fn nearest(word: &str, candidates: &[&'static str]) -> Option<&'static str> {
    // A third of the letters may be wrong, but always one, as in recipes.
    let tolerance = (word.chars().count() / 3).clamp(1, 4);
    candidates
        .iter()
        .filter(|candidate| candidate.len().abs_diff(word.len()) <= tolerance)
        .map(|candidate| (strsim::damerau_levenshtein(word, candidate), *candidate))
        .filter(|(distance, _)| *distance <= tolerance)
        .min_by_key(|(distance, _)| *distance)
        .map(|(_, candidate)| candidate)
}
