//! Printing that outlives its reader: `squall report RUN | head` and a terminal that is gone are no errors.

use std::fmt::Display;
use std::io::{ErrorKind, Write};

use anyhow::{Context, Result};

/// Prints results to stdout. A reader that has seen enough ends it quietly.
pub(crate) fn print(text: impl Display) -> Result<()> {
    let mut stdout = std::io::stdout().lock();
    match write!(stdout, "{text}").and_then(|()| stdout.flush()) {
        Err(error) if error.kind() != ErrorKind::BrokenPipe => {
            Err(error).context("cannot write to stdout")
        }
        _ => Ok(()),
    }
}

/// Says something on stderr, if there is still anybody to hear it.
pub(crate) fn talk(text: impl Display) {
    let mut stderr = std::io::stderr().lock();
    let _ = write!(stderr, "{text}").and_then(|()| stderr.flush());
}

/// An error with its causes, outermost first. Many libraries put the cause into their own text too; it is
/// told once.
pub(crate) fn told_once(error: &anyhow::Error) -> String {
    let mut told = String::new();
    for cause in error.chain() {
        let said = cause.to_string();
        if !told.contains(&said) {
            if !told.is_empty() {
                told.push_str(": ");
            }
            told.push_str(&said);
        }
    }
    told
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_cause_is_told_once() {
        let error = anyhow::anyhow!("disk full")
            .context("cannot write a: disk full")
            .context("trial 3");
        assert_eq!(told_once(&error), "trial 3: cannot write a: disk full");
    }
}
