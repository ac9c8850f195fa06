//! h2load's timing script: one `<milliseconds>\t<URI>` per line (<https://nghttp2.org/documentation/h2load.1.html>,
//! `--timing-script-file`).
//!
//! Times count from the start of the load and are kept exactly. h2load itself waits for the difference between two
//! lines after it has sent the first of them, so its schedule drifts (nghttp2, `h2load.cc`). Lines need not be in
//! order. A URI that is only a path refers to the given server. Header fields and bodies do not exist in this format.

use squall_base::plan::{Script, ScriptBody, ScriptRequest};
use squall_base::text::bytes_without_bom;

use super::error::{Fault, ImportError, excerpt};
use super::gather::{Origin, ScriptBuilder};
use super::omission::{OmissionReason, Tally};
use super::place::{Format, Location};
use super::result::Import;
use super::{LONGEST_NS, check_size, sendable};

/// Converts a timing script to a script of GET requests without header fields. Empty lines and a byte order mark are
/// skipped; h2load skips only the former. URLs that are too long to be sent are left out and counted.
pub fn parse_timing_script(bytes: &[u8]) -> Result<Import<Script>, ImportError> {
    const FORMAT: Format = Format::TimingScript;
    check_size(FORMAT, bytes)?;
    let mut tally = Tally::default();
    let mut builder = ScriptBuilder::default();
    let bytes = bytes_without_bom(bytes);
    for (line, location) in bytes.split(|b| *b == b'\n').zip((1..).map(Location::Line)) {
        let line = line.strip_suffix(b"\r").unwrap_or(line);
        if line.is_empty() {
            continue;
        }
        let (at_ns, url) = step(line).map_err(|fault| ImportError::at(FORMAT, location, fault))?;
        if sendable::is_too_long(&url) {
            tally.add(OmissionReason::UrlTooLong, location);
            continue;
        }
        let request = ScriptRequest {
            method: "GET".to_owned(),
            url,
            headers: Vec::new(),
            body: ScriptBody::Empty,
        };
        builder.add(at_ns, location, request);
    }
    let script = builder.finish(FORMAT, Origin::Zero)?;
    tally.finish(FORMAT, script, |script| script.steps.is_empty())
}

fn step(line: &[u8]) -> Result<(u128, String), Fault> {
    let line = str::from_utf8(line).map_err(|_| Fault::NotUtf8)?;
    let (time, uri) = line.split_once('\t').ok_or(Fault::NoTab)?;
    let millis: Option<f64> = time.trim().parse().ok();
    // Rounded to the nanosecond; h2load's own resolution is a microsecond.
    let nanos = millis.map(|millis| (millis * 1e6).round());
    let nanos = nanos.filter(|nanos| (0.0..=LONGEST_NS as f64).contains(nanos));
    let at_ns = nanos.ok_or_else(|| Fault::Time(excerpt(time)))? as u128;
    Ok((at_ns, sendable::url(uri.trim())?))
}
