//! Recordings of other programs, as scripts: HAR files of browsers, h2load's timing scripts, vegeta's targets, and
//! squall's own script file.
//!
//! Pure: text in, a [`Script`] out, with a tally of what was left out and why. No file is read (a body file is only
//! named), nothing is sent, and no time is made up where a recording has none. All bytes are foreign: whatever they are,
//! the outcome is a script or an [`ImportError`] that says where they are wrong, and the memory is a small multiple of
//! their length. squall-load makes arrivals of a script. What each format is: docs/RECORD.md. Each format has its own
//! file here; `sendable` is what they share, the rules for what can be in a request.
//!
//! ```
//! use squall_record::import::parse_timing_script;
//!
//! let imported = parse_timing_script(b"0.0\thttps://example.org/\n12.5\thttps://example.org/a.css\n")?;
//! assert_eq!(imported.content.steps[1].at.to_string(), "12.5ms");
//! # Ok::<(), squall_record::import::ImportError>(())
//! ```

mod error;
mod gather;
mod har;
mod media;
mod moment;
mod omission;
mod own;
mod sendable;
mod timing_script;
mod vegeta;

pub use error::{Fault, Format, ImportError, Place, UrlFault};
pub use har::{HarOptions, parse_har};
pub use omission::{Imported, Omission, Reason};
pub use own::{parse_script, script_text};
pub use timing_script::parse_timing_script;
pub use vegeta::{parse_vegeta_json, parse_vegeta_targets};

#[cfg(doc)]
use squall_base::plan::Script;

/// The longest recording in nanoseconds, as the longest `Duration` that can be written: about 31.7 years.
const LONGEST_NS: u64 = 1_000_000_000_000_000_000;

/// Refuses what has more bytes than a step can count requests, each of which takes a byte at least.
fn check_size(format: Format, bytes: &[u8]) -> Result<(), ImportError> {
    match u32::try_from(bytes.len()) {
        Ok(_) => Ok(()),
        Err(_) => Err(ImportError::TooLarge {
            format,
            bytes: bytes.len() as u64,
        }),
    }
}
