//! Printing to stdout and stderr that tolerates a closed reader: `squall report RUN | head` and a closed terminal are
//! not errors. Messages on stderr may quote foreign text, so a terminal only shows their characters and obeys none.
//!
//! squall-report makes the texts for stdout, and escapes what is foreign in them.

use std::fmt::Display;
use std::io::{ErrorKind, Write};

use anyhow::{Context, Result};
use serde::Serialize;
use squall_base::text::escape_controls;

/// Prints results to stdout. If the reader has closed the pipe, nothing happens.
pub(crate) fn print(text: impl Display) -> Result<()> {
    let mut stdout = std::io::stdout().lock();
    match write!(stdout, "{text}").and_then(|()| stdout.flush()) {
        Err(error) if error.kind() != ErrorKind::BrokenPipe => {
            Err(error).context("cannot write to stdout")
        }
        _ => Ok(()),
    }
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

/// Prints a text to stderr that has control sequences of squall itself. What is foreign in it must be escaped already.
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
    fn repeated_cause_is_printed_once() {
        let error = anyhow::anyhow!("disk full")
            .context("cannot write a: disk full")
            .context("trial 3");
        assert_eq!(error_chain(&error), "trial 3: cannot write a: disk full");
    }
}
