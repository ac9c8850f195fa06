//! Printing to stdout and stderr that tolerates a closed reader: `squall report RUN | head` and a closed terminal are not
//! errors. Results and messages may quote foreign text, so its control characters must not reach a terminal.
//!
//! squall-report makes most texts for stdout, and escapes the foreign text in them wherever it is printed. Everything else is
//! escaped on a terminal only; files and pipes get it unchanged.

use std::fmt::Display;
use std::io::{ErrorKind, IsTerminal, Write};

use anyhow::{Context, Result};
use serde::Serialize;
use squall_base::text::escape_controls;

/// The styles of squall-report's texts and of clap's messages (ECMA-48, SGR).
const STYLES: [&str; 7] = [
    "\x1b[0m", "\x1b[1m", "\x1b[2m", "\x1b[4m", "\x1b[31m", "\x1b[32m", "\x1b[33m",
];

/// Prints results to stdout. If that is a terminal, control characters are escaped, except newlines, tabs and styles. If the
/// reader has closed the pipe, nothing happens.
pub(crate) fn print(text: impl Display) -> Result<()> {
    let mut stdout = std::io::stdout().lock();
    let written = if stdout.is_terminal() {
        stdout.write_all(for_terminal(&text.to_string()).as_bytes())
    } else {
        write!(stdout, "{text}")
    };
    match written.and_then(|()| stdout.flush()) {
        Err(error) if error.kind() != ErrorKind::BrokenPipe => {
            Err(error).context("cannot write to stdout")
        }
        _ => Ok(()),
    }
}

/// `text` with its control characters escaped, except newlines, tabs and styles.
pub(crate) fn for_terminal(text: &str) -> String {
    let mut shown = String::with_capacity(text.len());
    let mut rest = text;
    while let Some(escape) = rest.find('\x1b') {
        let (before, sequence) = rest.split_at(escape);
        shown.push_str(&escape_controls(before));
        rest = match STYLES.iter().find(|style| sequence.starts_with(**style)) {
            Some(style) => {
                shown.push_str(style);
                &sequence[style.len()..]
            }
            None => {
                let (character, after) = sequence.split_at(1);
                shown.push_str(&escape_controls(character));
                after
            }
        };
    }
    shown.push_str(&escape_controls(rest));
    shown
}

/// Prints a value to stdout as JSON, indented for people. `what` is its name in error messages.
pub(crate) fn print_json(value: &(impl Serialize + ?Sized), what: &str) -> Result<()> {
    let json = serde_json::to_string_pretty(value)
        .with_context(|| format!("cannot write the {what} as JSON"))?;
    print(format_args!("{json}\n"))
}

/// Prints a message to stderr. Its control characters are escaped, except newlines and tabs. Errors are ignored, because
/// there is no other place to report them.
pub(crate) fn eprint(text: impl Display) {
    draw(escape_controls(&text.to_string()));
}

/// Prints text with squall's own control sequences to stderr. Foreign text in it must already be escaped.
pub(crate) fn draw(text: impl Display) {
    let mut stderr = std::io::stderr().lock();
    let _ = write!(stderr, "{text}").and_then(|()| stderr.flush());
}

/// An error with its causes, outermost first. Many libraries repeat the cause in their own message; a repeated cause is
/// left out.
pub(crate) fn error_chain(error: &anyhow::Error) -> String {
    let mut text = String::new();
    for cause in error.chain() {
        let message = cause.to_string();
        if !text.contains(&message) {
            if !text.is_empty() {
                text.push_str(": ");
            }
            text.push_str(&message);
        }
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn terminal_gets_the_styles_of_results_but_no_other_control_characters() {
        for (text, expected) in [
            ("plain\t\u{e9}\n", "plain\t\u{e9}\n"),
            ("\x1b[1mbold\x1b[0m\n", "\x1b[1mbold\x1b[0m\n"),
            ("\x1b[2Ja\x1b", "\\u{1b}[2Ja\\u{1b}"),
            ("\x1b]0;title\x07", "\\u{1b}]0;title\\u{7}"),
            ("\u{9b}31m\u{202e}", "\\u{9b}31m\\u{202e}"),
            ("", ""),
        ] {
            assert_eq!(for_terminal(text), expected);
        }
    }

    #[test]
    fn repeated_cause_is_printed_once() {
        let error = anyhow::anyhow!("disk full")
            .context("cannot write a: disk full")
            .context("trial 3");
        assert_eq!(error_chain(&error), "trial 3: cannot write a: disk full");
    }
}
