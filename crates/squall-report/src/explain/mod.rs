//! The output of `squall explain` as text: one request with its timeline, or one moment of a trial.
//!
//! It analyses nothing (squall-analysis `explain` does) and reads no file. Names are foreign text, so control characters in
//! them are never printed.
//!
//! `layout` breaks lines, `request` prints a request, `moment` a moment, `scene` is the trial or capture of both, `words`
//! prints packets and times for both.

mod layout;
mod moment;
mod request;
mod scene;
mod words;

use squall_base::Duration;
use squall_base::record::TrialRecord;

pub use layout::{fitted, fitted_in, overview};
pub use moment::moment;
pub use request::request;
pub use scene::ExplanationContext;

use crate::text::{Colour, Style, printable};

/// The trial in one line: variant, condition, repetition, folder.
pub fn heading(record: &TrialRecord, colour: Colour) -> String {
    let trial = &record.trial;
    let line = format!(
        "{}, {}, repetition {} ({})",
        trial.variant.name,
        trial.condition,
        trial.repetition + 1,
        trial.folder(),
    );
    colour.styled(Style::Bold, &printable(&line))
}

/// The capture in one line.
pub fn capture_heading(capture: &str, colour: Colour) -> String {
    colour.styled(Style::Bold, &printable(capture))
}

/// What readers of a capture's explanations must know: what is estimated, and what cannot be distinguished.
pub const CAPTURE_NOTE: &str = "\
The capture has one point. Each end is assumed to be half of its shortest round trip away from it; any longer time on the
path beyond the point is not distinguished from the end's own time (`server`, `host`).\n";

/// How far the capture point is from the ends of a connection, in one line.
pub fn round_trips(connection: u32, client: Option<Duration>, server: Option<Duration>) -> String {
    let trip = |trip: Option<Duration>| match trip {
        Some(trip) => format!("{} ms", words::millis(trip)),
        None => "not known, taken as zero".to_owned(),
    };
    format!(
        "  connection {connection}: shortest round trip to the client {}, to the server {}\n",
        trip(client),
        trip(server),
    )
}
