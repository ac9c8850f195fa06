//! The raw recipe: a TOML document whose every key and value knows its place in the text.
//!
//! It knows TOML and nothing of recipes; `section` gives its tables their keys, `read` their meaning.

use toml::Spanned;
use toml::de::DeTable;

use crate::error::Mistake;
use crate::problems::{Problems, Reported};
use crate::section::Section;
use crate::shapes::Shape;

/// A document that is valid TOML, and no more than that.
pub(crate) struct RawRecipe<'t> {
    document: Spanned<DeTable<'t>>,
}

impl<'t> RawRecipe<'t> {
    /// Parses the TOML syntax of `text`; a mistake goes to `problems`.
    pub(crate) fn parse(text: &'t str, problems: &Problems<'_>) -> Result<RawRecipe<'t>, Reported> {
        match DeTable::parse(text) {
            Ok(document) => Ok(RawRecipe { document }),
            Err(error) => {
                // The parser has one sentence for both parts, or says only what it did not expect.
                let (message, expected) = match error.message().split_once(", expected ") {
                    None if error.message() == "duplicate key" => {
                        (error.message(), "each key once in its table")
                    }
                    None => (error.message(), "valid TOML"),
                    Some((message, "nothing")) => (message, "valid TOML"),
                    Some(parts) => parts,
                };
                let mistake = Mistake::Syntax {
                    message: message.to_owned(),
                };
                Err(problems.report(error.span().unwrap_or(0..0), mistake, expected, None))
            }
        }
    }

    /// The top of the document, which has the keys of `shape`.
    pub(crate) fn root<'d>(&'d self, shape: &Shape, problems: &'d Problems<'d>) -> Section<'d> {
        Section::new(
            shape,
            shape.label.to_owned(),
            self.document.span(),
            self.document.get_ref(),
            problems,
        )
    }
}
