//! vegeta's targets, as text and as lines of JSON (vegeta's README, "-format"; `lib/targets.go`). Text may also be a plain
//! list of URLs, as h2load (`-i`) and siege (`-f`) read it.
//!
//! A target's own fields are sent, `Host` included, because the user wrote them for this load; those that cannot be sent
//! are counted as left out. Targets have no times, so an import returns requests only. A target that is listed several
//! times is returned each time, in the order of the list: vegeta cycles through the targets. A body file is named, not
//! read. vegeta resolves relative paths from its working directory, a script from its own folder.

use std::collections::BTreeMap;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use serde::Deserialize;
use squall_base::plan::{ScriptBody, ScriptRequest};
use squall_base::text::bytes_without_bom;

use super::error::{Fault, ImportError, excerpt};
use super::omission::Tally;
use super::place::{Format, Location};
use super::result::Import;
use super::{check_size, sendable};

/// A target of the format `http` that may have further lines.
struct Target {
    method: String,
    url: String,
    fields: Vec<(String, String)>,
    body: ScriptBody,
    location: Location,
}

/// A line of the format `http`.
enum Line<'a> {
    Blank,
    Comment,
    BodyFile(&'a str),
    Target(&'a str, &'a str),
    Other(&'a str),
}

/// Reads targets of the format `http`: a line `METHOD URL`, lines of header fields, `@FILE` for the body, and a blank
/// line between two targets. A line that is only a URL is a GET. Lines that begin with `#` are comments.
pub fn parse_vegeta_targets(bytes: &[u8]) -> Result<Import<Vec<ScriptRequest>>, ImportError> {
    const FORMAT: Format = Format::VegetaHttp;
    check_size(FORMAT, bytes)?;
    let mut tally = Tally::default();
    let mut requests = Vec::new();
    let mut current = None;
    let bytes = bytes_without_bom(bytes);
    for (line, location) in bytes.split(|b| *b == b'\n').zip((1..).map(Location::Line)) {
        let ended = take_line(line, location, &mut current)
            .map_err(|fault| ImportError::at(FORMAT, location, fault))?;
        requests.extend(ended.map(|target| target.request(&mut tally)));
    }
    requests.extend(current.map(|target| target.request(&mut tally)));
    tally.finish(FORMAT, requests, Vec::is_empty)
}

/// Takes one more line. Returns the target that the line ends.
fn take_line(
    line: &[u8],
    location: Location,
    current: &mut Option<Target>,
) -> Result<Option<Target>, Fault> {
    let line = Line::read(str::from_utf8(line).map_err(|_| Fault::NotUtf8)?.trim());
    match (line, current.as_mut()) {
        (Line::Comment, _) => Ok(None),
        (Line::Blank, _) => Ok(current.take()),
        (Line::Target(method, url), None) => {
            *current = Some(Target::new(method, url, location)?);
            Ok(None)
        }
        // A target directly below another one needs no blank line.
        (Line::Target(method, url), Some(above)) if above.fields.is_empty() => {
            Ok(current.replace(Target::new(method, url, location)?))
        }
        (Line::BodyFile(""), Some(_)) => Err(Fault::NoFile),
        (Line::BodyFile(path), Some(target)) => {
            target.body = ScriptBody::File(path.into());
            Ok(current.take())
        }
        (Line::Other(text), Some(target)) => {
            target.fields.push(field(text)?);
            Ok(None)
        }
        (Line::Target(method, url), Some(_)) => {
            Err(Fault::Field(excerpt(&format!("{method} {url}"))))
        }
        (Line::BodyFile(text) | Line::Other(text), None) => Err(Fault::NoTarget(excerpt(text))),
    }
}

impl<'a> Line<'a> {
    fn read(line: &'a str) -> Line<'a> {
        let is_method =
            |word: &str| !word.is_empty() && word.bytes().all(|b| b.is_ascii_uppercase());
        match (line.chars().next(), line.split_once([' ', '\t'])) {
            (None, _) => Line::Blank,
            (Some('#'), _) => Line::Comment,
            (Some('@'), _) => Line::BodyFile(line[1..].trim()),
            (_, Some((method, url))) if is_method(method) => Line::Target(method, url.trim()),
            (_, None) if begins_as_url(line) => Line::Target("GET", line),
            _ => Line::Other(line),
        }
    }
}

/// Whether `line` begins as an absolute URL rather than as a header field named `http`.
fn begins_as_url(line: &str) -> bool {
    let scheme = line.split_once("://").map_or("", |(scheme, _)| scheme);
    scheme.eq_ignore_ascii_case("http") || scheme.eq_ignore_ascii_case("https")
}

fn field(line: &str) -> Result<(String, String), Fault> {
    let fault = || Fault::Field(excerpt(line));
    let (name, value) = line.split_once(':').ok_or_else(fault)?;
    let (name, value) = (name.trim(), value.trim());
    if sendable::is_target_field(name, value) && !begins_as_url(line) {
        Ok((name.to_owned(), value.to_owned()))
    } else {
        Err(fault())
    }
}

impl Target {
    fn new(method: &str, url: &str, location: Location) -> Result<Target, Fault> {
        Ok(Target {
            method: checked_method(method)?,
            url: sendable::url(url)?,
            fields: Vec::new(),
            body: ScriptBody::Empty,
            location,
        })
    }

    fn request(self, tally: &mut Tally) -> ScriptRequest {
        let fields = self
            .fields
            .iter()
            .map(|(name, value)| (name.as_str(), value.as_str()));
        let headers = sendable::target_fields(fields, self.location, tally);
        ScriptRequest {
            method: self.method,
            headers,
            url: self.url,
            body: self.body,
        }
    }
}

fn checked_method(method: &str) -> Result<String, Fault> {
    if sendable::is_method(method) {
        Ok(method.to_owned())
    } else {
        Err(Fault::Method(excerpt(method)))
    }
}

/// A line of the format `json`, as defined by vegeta's `lib/target.schema.json`.
#[derive(Deserialize)]
struct JsonTarget {
    method: String,
    url: String,
    header: Option<BTreeMap<String, Vec<String>>>,
    body: Option<String>,
}

/// Reads targets of the format `json`: one object per line, with `method`, `url`, `header` (lists of values by name)
/// and `body` (base64).
pub fn parse_vegeta_json(bytes: &[u8]) -> Result<Import<Vec<ScriptRequest>>, ImportError> {
    const FORMAT: Format = Format::VegetaJson;
    check_size(FORMAT, bytes)?;
    let mut tally = Tally::default();
    let mut requests = Vec::new();
    let bytes = bytes_without_bom(bytes);
    for (line, location) in bytes.split(|b| *b == b'\n').zip((1..).map(Location::Line)) {
        if line.trim_ascii().is_empty() {
            continue;
        }
        let request = json_target(line, location, &mut tally);
        requests.push(request.map_err(|fault| ImportError::at(FORMAT, location, fault))?);
    }
    tally.finish(FORMAT, requests, Vec::is_empty)
}

fn json_target(line: &[u8], location: Location, tally: &mut Tally) -> Result<ScriptRequest, Fault> {
    let target: JsonTarget = serde_json::from_slice(line)?;
    let url = sendable::url(&target.url)?;
    let header = target.header.unwrap_or_default();
    let fields = header.iter().flat_map(|(name, values)| {
        values
            .iter()
            .map(move |value| (name.as_str(), value.as_str()))
    });
    let body = STANDARD.decode(target.body.unwrap_or_default())?;
    Ok(ScriptRequest {
        method: checked_method(&target.method)?,
        headers: sendable::target_fields(fields, location, tally),
        body: match String::from_utf8(body) {
            Ok(text) if text.is_empty() => ScriptBody::Empty,
            Ok(text) => ScriptBody::Text(text),
            Err(binary) => ScriptBody::Binary(binary.into_bytes()),
        },
        url,
    })
}
