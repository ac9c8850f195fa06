//! Imports recordings of other programs as scripts: HAR files of browsers, h2load's timing scripts, vegeta's targets,
//! and squall's own script file.
//!
//! Pure: takes text and returns a [`Script`], with a tally of what was left out and why. It reads no file (a body file
//! is only named), sends nothing, and invents no times where a recording has none. Every byte is untrusted: the outcome
//! is a script or an [`ImportError`] that says where the fault is, and memory is a small multiple of the input's
//! length. squall-load turns a script into arrivals. docs/RECORD.md describes the formats. Each format has its own file
//! here; `sendable` has the rules they share for the content of a request.
//!
//! ```
//! use squall_record::import::parse_timing_script;
//!
//! let imported = parse_timing_script(b"0.0\thttps://example.org/\n12.5\thttps://example.org/a.css\n")?;
//! assert_eq!(imported.content.steps[1].at.to_string(), "12.5ms");
//! # Ok::<(), squall_record::import::ImportError>(())
//! ```

mod entry;
mod error;
mod gather;
mod har;
mod media;
mod omission;
mod own;
mod place;
mod redaction;
mod result;
mod sendable;
mod timing_script;
mod vegeta;

pub use error::{Fault, ImportError, UrlFault};
pub use har::{HarOptions, parse_har};
pub use omission::{Omission, OmissionReason};
pub use own::{parse_script, script_text};
pub use place::{Format, Location};
pub use redaction::redacted_recording;
pub use result::Import;
pub use timing_script::parse_timing_script;
pub use vegeta::{parse_vegeta_json, parse_vegeta_targets};

#[cfg(doc)]
use squall_base::plan::Script;

/// The longest recording in nanoseconds, which is also the longest `Duration` that can be written: about 31.7 years.
const LONGEST_NS: u64 = 1_000_000_000_000_000_000;

/// Refuses an input of more bytes than a step's `u32` can number. Every request takes at least one byte, so the number
/// of requests then fits too.
fn check_size(format: Format, bytes: &[u8]) -> Result<(), ImportError> {
    match u32::try_from(bytes.len()) {
        Ok(_) => Ok(()),
        Err(_) => Err(ImportError::TooLarge {
            format,
            bytes: bytes.len() as u64,
        }),
    }
}
