//! How people write what a link does: one grammar for command-line flags, lists, schedule files and recipes.
//!
//! A setting is its name and a few words:
//!
//! ```text
//! delay 25ms
//! jitter 5ms              | jitter normal 5ms correlation 25% reordering | jitter pareto 5ms | jitter none
//! reorder 1% by 5ms       | reorder none
//! loss 3%                 | loss 3% bursts of 5 | loss none
//! loss gilbert-elliott 1% 20%                 good to bad, bad to good; then [loss in bad [loss in good]]
//! loss weather good 2s bad 200ms 100% 0%      mean lengths; then [loss in bad [loss in good]]
//! drop 5                  | drop data 3 | drop ack 2 of flow 1 | drop syn 1 and data 3
//! drop every 100          | drop every 100 data | drop seq 1-1448 times 2 of flow 0
//! blackout 2s at 10s      | blackout 2s at 10s every 30s
//! duplicate 1%
//! corrupt 0.1%
//! rate 20mbit             | rate 20mbit bucket 32kB | rate unlimited
//! trace FILE
//! overhead 38
//! queue 64KiB             | queue 100 packets | queue drop-head 64KiB 100 packets
//! queue red 30KiB 90KiB 10%
//! queue codel             | queue codel target 5ms interval 100ms
//! queue pie               | queue pie target 15ms update 15ms
//! queue fq-codel          | queue fq-codel target 5ms interval 100ms quantum 1514 64KiB ecn
//! ```
//!
//! Settings in a list stand between commas. A schedule has one change on a line, `at 10s: loss 3%` or
//! `at 10s: link 2 down rate 2mbit, delay 80ms`, in the order of time; `#` begins a comment.
//!
//! The meaning of the words is in `settings`. `Display` of a setting prints words that read back as the same value
//! (`write`). Bounds without which a model would be unsound are checked here (`read`, `queue`); the caller reads files.

mod error;
mod queue;
mod read;
mod schedule;
mod words;
mod write;

use std::sync::Arc;

use crate::settings::{Change, Setting};
use crate::trace::Trace;

pub use error::{Mistake, TextError};
use words::Words;

/// Returns the trace with this name, or the reason why it cannot be read. Give the trace that name, so that settings
/// print as they were read.
pub type Traces<'a> = dyn FnMut(&str) -> Result<Arc<Trace>, String> + 'a;

/// Reads one setting, which is several values if it names several drops.
///
/// ```
/// use squall_base::Duration;
/// use squall_link::settings::Setting;
/// use squall_link::text;
///
/// let mut no_traces = |_: &str| Err("there are none here".to_owned());
/// let settings = text::setting("delay 25ms", &mut no_traces).unwrap();
/// assert_eq!(settings, [Setting::Delay(Duration::from_millis(25))]);
/// assert_eq!(settings[0].to_string(), "delay 25ms");
/// let error = text::setting("loss 130%", &mut no_traces).unwrap_err();
/// assert_eq!(error.to_string(), r#"column 6: "loss 130%": out of range: expected 0% to 100%"#);
/// ```
pub fn setting(text: &str, traces: &mut Traces<'_>) -> Result<Vec<Setting>, TextError> {
    if let Some(comma) = text.find(',') {
        return Err(TextError {
            line: None,
            column: text[..comma].chars().count() + 1,
            words: text[..=comma].trim_start().to_owned(),
            mistake: Mistake::Unexpected,
            expected: "one setting, without commas".to_owned(),
            meant: None,
        });
    }
    read::setting(Words::new(text, None, 0, read::EXAMPLE), traces)
}

/// Reads a list of settings with commas between them; a blank text is an empty list.
pub fn settings(text: &str, traces: &mut Traces<'_>) -> Result<Vec<Setting>, TextError> {
    if text.trim().is_empty() {
        Ok(Vec::new())
    } else {
        list(text, None, 0, traces)
    }
}

/// Reads a schedule: one change, or several at one time, per line.
pub fn schedule(text: &str, traces: &mut Traces<'_>) -> Result<Vec<Change>, TextError> {
    schedule::read(text, traces)
}

/// Reads a list of at least one setting, with `indent` characters before it in its line.
fn list(
    text: &str,
    line: Option<usize>,
    mut indent: usize,
    traces: &mut Traces<'_>,
) -> Result<Vec<Setting>, TextError> {
    let mut settings = Vec::new();
    for piece in text.split(',') {
        let words = Words::new(piece, line, indent, read::EXAMPLE);
        settings.extend(read::setting(words, traces)?);
        indent += piece.chars().count() + 1;
    }
    Ok(settings)
}
