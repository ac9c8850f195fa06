//! What `squall explain` says, as text: one request with its timeline, or one moment of a trial.
//!
//! It finds nothing out (squall-analysis `explain` does) and reads no file. `request` is a request, `moment` a moment,
//! `scene` what both are of, `words` what both say of packets and times. Names are foreign text: control characters in them never get out.

mod moment;
mod request;
mod scene;
mod words;

use squall_base::Duration;
use squall_base::record::TrialRecord;

pub use moment::moment;
pub use request::request;
pub use scene::Scene;

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

/// Which capture it is, in one line.
pub fn capture_heading(capture: &str, colour: Colour) -> String {
    words::bold(colour, &printable(capture))
}

/// What a reader of a capture's explanations has to know: what is estimated, and what that leaves open. In lines.
pub const CAPTURE_NOTE: &str = "\
The capture has one point. Each end is taken to be half of its least round trip away from it; what the ways beyond the
point took longer than that is not told apart from the end's own time (`server`, `host`).\n";

/// How far the capture's point is from the ends of a connection, in a line.
pub fn round_trips(connection: u32, client: Option<Duration>, server: Option<Duration>) -> String {
    let trip = |trip: Option<Duration>| match trip {
        Some(trip) => format!("{} ms", words::millis(trip)),
        None => "not known, taken for nothing".to_owned(),
    };
    format!(
        "  connection {connection}: least round trip to the client {}, to the server {}\n",
        trip(client),
        trip(server),
    )
}
