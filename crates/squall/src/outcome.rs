//! How a command ends: its outcome or bad input of the user, and the exit codes that scripts rely on.
//!
//! Only the types and numbers. Each command decides how it ends; `main` turns that into the exit code of the process.

pub(crate) const FAILED: u8 = 1;
pub(crate) const BAD_INPUT: u8 = 2;
pub(crate) const INVALID: u8 = 3;
/// A missed threshold; the same code as k6.
pub(crate) const THRESHOLD_FAILED: u8 = 99;
pub(crate) const INTERRUPTED: u8 = 130;

/// How a command that did not fail ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum CommandOutcome {
    Success,
    Invalid,
    Interrupted,
    /// The exit code of a program that was run for the user.
    Code(u8),
}

/// The user's input is invalid; nothing has been started.
#[derive(Debug)]
pub(crate) struct BadInput {
    message: String,
}

impl BadInput {
    /// An error in one sentence.
    pub(crate) fn new(sentence: impl std::fmt::Display) -> BadInput {
        BadInput {
            message: format!("squall: {sentence}"),
        }
    }

    /// Errors in a file, with their positions.
    pub(crate) fn in_file(rendered: &str) -> BadInput {
        BadInput {
            message: rendered.trim_end().to_owned(),
        }
    }
}

impl std::fmt::Display for BadInput {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(&self.message)
    }
}

impl std::error::Error for BadInput {}
