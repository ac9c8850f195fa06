//! What `squall explain` says, as text: one request with its timeline, or one moment of a trial.
//!
//! It finds nothing out (squall-analysis `explain` does) and reads no file. `request` is a request, `moment` a moment,
//! `words` what both say of packets and times. Names are foreign text: control characters in them never get out.

mod moment;
mod request;
mod words;

use squall_base::Time;
use squall_base::record::TrialRecord;

pub use moment::moment;
pub use request::request;

use crate::terminal::{Colour, printable};

/// Which trial it is, in one line: variant, condition, repetition, folder.
pub fn heading(record: &TrialRecord, colour: Colour) -> String {
    let trial = &record.trial;
    let line = format!(
        "{}, {}, repetition {} ({})",
        trial.variant.name,
        trial.condition,
        trial.repetition + 1,
        trial.folder(),
    );
    words::bold(colour, &printable(&line))
}

/// A time of a trial as its report's plots have it: from the first arrival of the load, in seconds.
fn since_first_arrival(record: &TrialRecord, time: Time) -> String {
    let (start, time) = (record.load_start.as_nanos(), time.as_nanos());
    let sign = if time < start { "-" } else { "" };
    format!("{sign}{:.6} s", time.abs_diff(start) as f64 / 1e9)
}
