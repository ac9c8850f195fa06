//! How results look on this terminal: whether they may have colours and move the cursor, and how wide they are.
//!
//! The only place that asks for NO_COLOR, TERM and the terminal's size. squall-report makes the texts.

use std::io::IsTerminal;

use clap::ValueEnum;
use squall_linux::process;
use squall_report::{Colour, Language};

/// Width of output with tables, if there is no terminal.
const PLAIN_WIDTH: usize = 100;
/// Width of text without tables, if there is no terminal.
const NARROW_WIDTH: usize = 80;
/// Rows of a terminal that does not report its size.
const PLAIN_ROWS: usize = 24;

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, ValueEnum)]
pub(crate) enum ColourChoice {
    /// On a terminal, unless NO_COLOR is set or TERM is dumb
    #[default]
    Auto,
    /// Always
    Always,
    /// Never
    Never,
}

/// The language of a report. LANG does not change it, so that a command prints the same everywhere.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, ValueEnum)]
pub(crate) enum LanguageChoice {
    /// English
    #[default]
    En,
    /// Simplified Chinese
    Zh,
}

impl From<LanguageChoice> for Language {
    fn from(choice: LanguageChoice) -> Language {
        match choice {
            LanguageChoice::En => Language::En,
            LanguageChoice::Zh => Language::Zh,
        }
    }
}

/// What determines colours, apart from the user's choice.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Surroundings {
    is_terminal: bool,
    /// NO_COLOR is set to something (no-color.org).
    is_no_color: bool,
    /// The terminal does not support escape sequences.
    is_dumb: bool,
}

impl Surroundings {
    fn of(is_terminal: bool) -> Surroundings {
        Surroundings {
            is_terminal,
            is_no_color: std::env::var_os("NO_COLOR").is_some_and(|value| !value.is_empty()),
            is_dumb: std::env::var_os("TERM").is_some_and(|value| value == "dumb"),
        }
    }
}

impl ColourChoice {
    fn within(self, surroundings: Surroundings) -> Colour {
        let Surroundings {
            is_terminal,
            is_no_color,
            is_dumb,
        } = surroundings;
        let wants_colour = match self {
            ColourChoice::Auto => is_terminal && !is_no_color && !is_dumb,
            ColourChoice::Always => true,
            ColourChoice::Never => false,
        };
        if wants_colour {
            Colour::Ansi
        } else {
            Colour::Plain
        }
    }

    /// Whether to use colours, on a terminal or elsewhere.
    pub(crate) fn for_stream(self, is_terminal: bool) -> Colour {
        self.within(Surroundings::of(is_terminal))
    }
}

/// Whether stderr is a terminal on which lines can be redrawn.
pub(crate) fn can_redraw() -> bool {
    let surroundings = Surroundings::of(std::io::stderr().is_terminal());
    surroundings.is_terminal && !surroundings.is_dumb
}

/// Columns of the results on stdout.
pub(crate) fn width() -> usize {
    process::terminal_width().unwrap_or(PLAIN_WIDTH)
}

/// Columns of sentences and lists on stdout.
pub(crate) fn narrow_width() -> usize {
    process::terminal_width().unwrap_or(NARROW_WIDTH)
}

/// Columns and rows of the terminal on stderr, where lines are redrawn.
pub(crate) fn redraw_size() -> (usize, usize) {
    match process::error_terminal_size() {
        // Some terminals do not report their rows.
        Some((columns, 0)) => (columns, PLAIN_ROWS),
        Some(size) => size,
        None => (PLAIN_WIDTH, PLAIN_ROWS),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn colours_need_a_terminal_that_supports_them_and_a_user_who_wants_them() {
        let usual = Surroundings {
            is_terminal: true,
            is_no_color: false,
            is_dumb: false,
        };
        let others = [
            Surroundings {
                is_terminal: false,
                ..usual
            },
            Surroundings {
                is_no_color: true,
                ..usual
            },
            Surroundings {
                is_dumb: true,
                ..usual
            },
        ];
        assert_eq!(ColourChoice::Auto.within(usual), Colour::Ansi);
        for other in others {
            assert_eq!(ColourChoice::Auto.within(other), Colour::Plain, "{other:?}");
            assert_eq!(ColourChoice::Always.within(other), Colour::Ansi);
        }
        assert_eq!(ColourChoice::Never.within(usual), Colour::Plain);
    }
}
