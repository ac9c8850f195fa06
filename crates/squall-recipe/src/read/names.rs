//! Names and lines of prose in a recipe: what they may contain, and that no name or value occurs twice.
//!
//! What they name is decided elsewhere: variants in `variant`, profiles in `profile`, programs in `station`.

use std::fmt::Display;

use crate::error::Mistake;
use crate::problems::{Problems, ReportedProblem};
use crate::section::{Field, SpannedValue};

/// The profile that runs by default, if the recipe has one of this name.
pub(super) const USUAL_PROFILE: &str = "standard";

/// What [`is_slug`] accepts.
pub(super) const SLUG: &str =
    "1 to 40 of the characters a-z, 0-9, - and _, a letter or digit first";

/// A name that can be used in folder names and commands as it is.
pub(super) fn slug(field: &Field<'_>) -> Result<String, ReportedProblem> {
    field.text_that("a name", SLUG, is_slug)
}

/// Whether a text can be used in folder names and commands as it is.
pub(super) fn is_slug(text: &str) -> bool {
    (1..=40).contains(&text.len())
        && text.starts_with(|c: char| c.is_ascii_lowercase() || c.is_ascii_digit())
        && text
            .chars()
            .all(|c| matches!(c, 'a'..='z' | '0'..='9' | '-' | '_'))
}

/// One line of prose.
pub(super) fn sentence(field: &Field<'_>) -> Result<String, ReportedProblem> {
    let text = field.text_that("a sentence", "one line that is not blank", |text| {
        !text.trim().is_empty() && !text.chars().any(char::is_control)
    })?;
    Ok(text.trim().to_owned())
}

/// Refuses duplicate values.
pub(super) fn distinct<T: PartialEq + Display>(
    problems: &Problems<'_>,
    what: &'static str,
    values: &[SpannedValue<T>],
) -> Result<(), ReportedProblem> {
    let mut outcome = Ok(());
    for (i, later) in values.iter().enumerate() {
        if let Some(first) = values[..i].iter().find(|first| first.value == later.value) {
            let first_line = problems.line_of(first.span.start);
            let mistake = Mistake::Duplicate {
                what,
                name: later.value.to_string(),
                first_line,
            };
            let expected = format!("each {what} once");
            outcome = Err(problems.report(later.span.clone(), mistake, expected, None));
        }
    }
    outcome
}
