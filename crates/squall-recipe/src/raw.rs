//! The raw recipe: a TOML document in which every key and value has its span in the text.
//!
//! It knows TOML but nothing about recipes: `section` checks the keys of tables, `read` interprets the values.

use toml::Spanned;
use toml::de::DeTable;

use crate::error::Mistake;
use crate::problems::{Problems, ReportedProblem};
use crate::section::Section;
use crate::shapes::Shape;

/// A document that is valid TOML; nothing else has been checked.
pub(crate) struct RawRecipe<'t> {
    document: Spanned<DeTable<'t>>,
}

impl<'t> RawRecipe<'t> {
    /// Parses `text` as TOML; a syntax error goes to `problems`.
    pub(crate) fn parse(
        text: &'t str,
        problems: &Problems<'_>,
    ) -> Result<RawRecipe<'t>, ReportedProblem> {
        match DeTable::parse(text) {
            Ok(document) => Ok(RawRecipe { document }),
            Err(error) => {
                // The parser puts both parts into one sentence, or reports only what it did not expect.
                let (message, expected) = match error.message().split_once(", expected ") {
                    None if error.message() == "duplicate key" => {
                        (error.message(), "each key once in its table")
                    }
                    None => (error.message(), "valid TOML"),
                    Some((message, "nothing")) => (message, "valid TOML"),
                    Some(parts) => parts,
                };
                let mistake = Mistake::Syntax(message.to_owned());
                Err(problems.report(error.span().unwrap_or(0..0), mistake, expected, None))
            }
        }
    }

    /// The top-level table, which may have the keys of `shape`.
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
