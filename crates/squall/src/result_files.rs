//! The flags for results in the formats of other tools, and the writing of these files.
//!
//! squall-report (`export`) makes the texts; `run`, `report`, `load` and `compare` say which.

use std::fs::OpenOptions;
use std::io::Write as _;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result};
use squall_report::export::{Benchmarks, Check, junit};

use crate::outcome::BadInput;

/// Results in the formats of other tools.
#[derive(Clone, Debug, Default, clap::Args)]
pub(crate) struct ExportFlags {
    /// Write the checks, such as thresholds, as JUnit XML to this file
    #[arg(long, value_name = "FILE")]
    junit: Option<PathBuf>,
    /// Write the result as Markdown to this file ($GITHUB_STEP_SUMMARY is appended to); without a value, print Markdown to
    /// stdout instead of text
    #[arg(
        long, value_name = "FILE", num_args = 0..=1, require_equals = true, default_missing_value = "-"
    )]
    markdown: Option<PathBuf>,
}

/// The file for Bencher.
#[derive(Clone, Debug, Default, clap::Args)]
pub(crate) struct MetricFlags {
    /// Write the figures in Bencher's metric format (JSON) to this file
    #[arg(long, value_name = "FILE")]
    bmf: Option<PathBuf>,
}

impl ExportFlags {
    /// Whether stdout gets Markdown instead of the text.
    pub(crate) fn is_markdown_on_stdout(&self) -> bool {
        self.markdown.as_deref() == Some(Path::new("-"))
    }

    /// Refuses a flag about the text on stdout if Markdown is printed instead of that text. Each flag comes with whether it
    /// was given.
    pub(crate) fn check_beside_markdown(&self, flags: &[(&str, bool)]) -> Result<(), BadInput> {
        let given = flags.iter().find(|(_, is_given)| *is_given);
        match given {
            Some((flag, _)) if self.is_markdown_on_stdout() => Err(BadInput::new(format!(
                "--markdown without a file and {flag} do not go together, because both say what is printed: name a file, \
                 as in --markdown=report.md, or leave one of them out"
            ))),
            _ => Ok(()),
        }
    }

    /// Writes the files that were asked for. `markdown` is only called if it is needed.
    ///
    /// # Errors
    /// If a file cannot be written.
    pub(crate) fn write(
        &self,
        suite: &str,
        checks: &[Check],
        markdown: impl FnOnce() -> String,
    ) -> Result<()> {
        if let Some(path) = &self.junit {
            write_file(path, &junit(suite, checks))?;
        }
        match &self.markdown {
            Some(path) if !self.is_markdown_on_stdout() => write_markdown(path, &markdown()),
            _ => Ok(()),
        }
    }
}

impl MetricFlags {
    /// Writes the file if it was asked for.
    ///
    /// # Errors
    /// If it cannot be written.
    pub(crate) fn write(&self, benchmarks: impl FnOnce() -> Benchmarks) -> Result<()> {
        let Some(path) = &self.bmf else {
            return Ok(());
        };
        write_file(path, &(serde_json::to_string_pretty(&benchmarks())? + "\n"))
    }
}

fn write_file(path: &Path, text: &str) -> Result<()> {
    std::fs::write(path, text).with_context(|| format!("cannot write {}", path.display()))
}

/// Writes Markdown to a file. A job's summary is appended to, because other commands of the job write to it, too.
fn write_markdown(path: &Path, text: &str) -> Result<()> {
    let summary = std::env::var_os("GITHUB_STEP_SUMMARY");
    if summary.is_none_or(|summary| Path::new(&summary) != path) {
        return write_file(path, text);
    }
    OpenOptions::new()
        .append(true)
        .create(true)
        .open(path)
        .and_then(|mut file| file.write_all(text.as_bytes()))
        .with_context(|| format!("cannot write {}", path.display()))
}
