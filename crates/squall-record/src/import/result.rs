//! The result of an import: its content, with what was left out of it.
//!
//! Nothing is read here. `omission` counts what is left out while a recording is read.

use super::error::ImportError;
use super::omission::{Omission, Tally};
use super::place::Format;

/// The result of an import.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Import<T> {
    /// The script or the requests.
    pub content: T,
    /// What was left out of the recording; one entry per reason.
    pub omissions: Vec<Omission>,
}

impl Tally {
    /// Finishes the import; an error if it is empty.
    pub(super) fn finish<T>(
        self,
        format: Format,
        content: T,
        is_empty: impl Fn(&T) -> bool,
    ) -> Result<Import<T>, ImportError> {
        if is_empty(&content) {
            let omissions = self.0;
            return Err(ImportError::Nothing { format, omissions });
        }
        Ok(Import {
            content,
            omissions: self.0,
        })
    }
}
