//! HAR 1.2: the format in which browsers' developer tools and k6 studio save
//! (<http://www.softwareishard.com/blog/har-12-spec/>).
//!
//! Only each entry's request and its time are used; a script has no use for recorded responses and their times. An
//! entry that was never sent, or that cannot be sent again, is left out and counted; only input that is not a HAR file at all
//! is an error. `entry` knows what was sent, `sendable` cleans the request headers, and `media` recognizes media segments.

use std::ops::RangeInclusive;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use serde::Deserialize;
use serde::de::IgnoredAny;
use serde_json::Value;
use squall_base::Bytes;
use squall_base::civil::parse_rfc3339;
use squall_base::plan::message::is_header_value;
use squall_base::plan::{Script, ScriptBody, ScriptRequest};
use squall_base::text::bytes_without_bom;
use url::Url;

use super::entry::{Entry, NamedValue, PostData, RecordedEntry, Request};
use super::error::{ImportError, UrlFault};
use super::gather::{Origin, ScriptBuilder};
use super::omission::{OmissionReason, Tally};
use super::place::{Format, Location};
use super::result::Import;
use super::{check_size, media, sendable};

/// Which entries of a HAR file to keep. The default is everything that can be sent again.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct HarOptions {
    /// Keep only media segments: entries of type `video/*`, `audio/*` or `application/mp4`, and those whose type does
    /// not reveal the content and whose path ends in `.m4s .mp4 .ts .webm .m4a .m4v .aac .cmfv .cmfa`. Manifests
    /// (`.mpd`, `.m3u8`, and their types) are not segments.
    pub media_only: bool,
    /// Leave out the header field `cookie`.
    pub drop_cookies: bool,
}

/// Converts a HAR file to a script. Times count from the earliest entry that is kept; entries are sorted by time.
///
/// Entries that no browser sent over HTTP are left out and counted: those that a cache, a service worker or the browser itself
/// answered, those that were blocked or failed, WebSockets, CORS preflights, and URLs other than `http` and `https`. So are
/// entries that cannot be sent again: those without a time in 1970 or later, those with a time more than a year from that of
/// most others, and those that exceed the limits of [`squall_base::plan::message`]. Some header fields are removed silently:
/// pseudo-header fields, hop-by-hop fields, `content-length` and `host`.
pub fn parse_har(bytes: &[u8], options: &HarOptions) -> Result<Import<Script>, ImportError> {
    const FORMAT: Format = Format::Har;
    check_size(FORMAT, bytes)?;
    let har: Result<Har, serde_json::Error> = serde_json::from_slice(bytes_without_bom(bytes));
    let har = har.map_err(|source| ImportError::Json {
        format: FORMAT,
        source,
    })?;
    let is_from_firefox = har.log.is_from_firefox();
    let mut tally = Tally::default();
    let mut timed = Vec::new();
    for (recorded, location) in har.log.entries.into_iter().zip((0..).map(Location::Entry)) {
        let entry = match recorded {
            RecordedEntry::Valid(entry) => entry,
            RecordedEntry::Invalid(IgnoredAny) => {
                tally.add(OmissionReason::Malformed, location);
                continue;
            }
        };
        let request = match entry.why_unsent(is_from_firefox) {
            Some(reason) if is_http(&entry.request.url) => Err(reason),
            _ => entry.script_request(options, location, &mut tally),
        };
        match request {
            Ok((at_ns, request)) => timed.push((at_ns, location, request)),
            Err(reason) => tally.add(reason, location),
        }
    }
    let plausible = plausible_times(timed.iter().map(|(at_ns, ..)| *at_ns).collect());
    let mut builder = ScriptBuilder::default();
    for (at_ns, location, request) in timed {
        if plausible.contains(&at_ns) {
            builder.add(at_ns, location, request);
        } else {
            tally.add(OmissionReason::FarTime, location);
        }
    }
    let script = builder.finish(FORMAT, Origin::Earliest)?;
    tally.finish(FORMAT, script, |script| script.steps.is_empty())
}

/// The span of at most a year that contains the most entries; of several such spans, the last. Times outside, such as in 1970,
/// are wrong.
fn plausible_times(mut times: Vec<u128>) -> RangeInclusive<u128> {
    const YEAR_NS: u128 = 366 * 86_400 * 1_000_000_000;
    times.sort_unstable();
    let mut plausible = 0..=0;
    let (mut first, mut most_others) = (0, 0);
    for (last, latest) in times.iter().enumerate() {
        while latest - times[first] > YEAR_NS {
            first += 1;
        }
        if last - first >= most_others {
            most_others = last - first;
            plausible = times[first]..=*latest;
        }
    }
    plausible
}

/// Whether a URL's scheme is http or https. The rest need not be valid: URLs with other schemes are left out in any case.
fn is_http(url: &str) -> bool {
    let scheme = url.split(':').next().unwrap_or_default().trim();
    scheme.eq_ignore_ascii_case("http") || scheme.eq_ignore_ascii_case("https")
}

/// A URL without name and password: a browser sends these as a header field, which is recorded, too.
fn without_credentials(url: String) -> String {
    match Url::parse(&url) {
        Ok(mut parsed) if !parsed.username().is_empty() || parsed.password().is_some() => {
            // Only a URL without a host refuses this, and http always has one.
            let _ = parsed.set_username("");
            let _ = parsed.set_password(None);
            parsed.into()
        }
        _ => url,
    }
}

#[derive(Deserialize)]
#[serde(expecting = "an object with `log`")]
struct Har {
    log: HarLog,
}

#[derive(Deserialize)]
#[serde(expecting = "an object with `entries`")]
struct HarLog {
    creator: Option<Value>,
    entries: Vec<RecordedEntry>,
}

impl HarLog {
    /// Firefox and the browsers made from it.
    fn is_from_firefox(&self) -> bool {
        let name = self.creator.as_ref().map(|creator| &creator["name"]);
        let name = name.and_then(Value::as_str).unwrap_or_default();
        name.to_ascii_lowercase().contains("fox")
    }
}

impl Entry {
    /// The request and its time in nanoseconds since 1970, or why it cannot be sent again.
    fn script_request(
        self,
        options: &HarOptions,
        location: Location,
        tally: &mut Tally,
    ) -> Result<(u128, ScriptRequest), OmissionReason> {
        let url = sendable::url(&self.request.url).map_err(|fault| match fault {
            UrlFault::NotHttp { .. } => OmissionReason::NotHttp,
            UrlFault::NotUrl { .. } => OmissionReason::NotUrl,
        })?;
        let url = without_credentials(url);
        if sendable::is_too_long(&url) {
            return Err(OmissionReason::UrlTooLong);
        }
        let content = self.response.and_then(|response| response.content);
        let mime = content.and_then(|content| content.mime_type);
        if options.media_only && !media::is_segment(&url, mime.as_deref().unwrap_or_default()) {
            return Err(OmissionReason::NotMedia);
        }
        if !sendable::is_method(&self.request.method) {
            return Err(OmissionReason::Method);
        }
        let at = self.started_date_time.and_then(|text| parse_rfc3339(&text));
        let at_ns = at.ok_or(OmissionReason::NoTime)?;
        let mut omitted_parts = Tally::default();
        let request = (self.request).sendable(url, options, location, &mut omitted_parts);
        if let Some(reason) = sendable::excess(&request) {
            return Err(reason);
        }
        tally.append(omitted_parts);
        Ok((at_ns, request))
    }
}

impl Request {
    fn sendable(
        self,
        url: String,
        options: &HarOptions,
        location: Location,
        tally: &mut Tally,
    ) -> ScriptRequest {
        let recorded = self.headers.as_deref().unwrap_or_default();
        let pairs = recorded.iter().map(|field| {
            (
                field.name.as_str(),
                field.value.as_deref().unwrap_or_default(),
            )
        });
        let mut headers = sendable::fields(pairs, &url, location, tally);
        if options.drop_cookies {
            headers.retain(|(name, _)| name != "cookie");
        }
        let mime = self
            .post_data
            .as_ref()
            .and_then(|data| data.mime_type.clone());
        let bytes = self.body_bytes();
        let body = match body(self.post_data, bytes) {
            RecordedBody::Whole(body) => body,
            RecordedBody::OnlySize(bytes) => {
                tally.add(OmissionReason::BodyContent, location);
                ScriptBody::Size(bytes)
            }
            RecordedBody::Lost => {
                tally.add(OmissionReason::Body, location);
                ScriptBody::Empty
            }
        };
        let has_type = headers.iter().any(|(name, _)| name == "content-type");
        if let (Some(mime), false, false) = (mime, has_type, body == ScriptBody::Empty)
            && !mime.is_empty()
            && sendable::is_field("content-type", &mime)
            && is_header_value(&mime)
        {
            headers.push(("content-type".to_owned(), mime));
        }
        ScriptRequest {
            method: self.method,
            url,
            headers,
            body,
        }
    }
}

/// How much of a body a recording contains.
enum RecordedBody {
    Whole(ScriptBody),
    OnlySize(Bytes),
    Lost,
}

/// `size` is the number of bytes that were sent, if it is known.
fn body(data: Option<PostData>, size: Option<u64>) -> RecordedBody {
    let only_size = |otherwise| match size {
        Some(bytes) if bytes > 0 => RecordedBody::OnlySize(Bytes::new(bytes)),
        _ => otherwise,
    };
    let Some(data) = data else {
        return only_size(RecordedBody::Whole(ScriptBody::Empty));
    };
    match data.text.filter(|text| !text.is_empty()) {
        Some(text) if data.encoding.as_deref() == Some("base64") => {
            match STANDARD.decode(&text).map(String::from_utf8) {
                Ok(Ok(text)) => RecordedBody::Whole(ScriptBody::Text(text)),
                Ok(Err(binary)) => RecordedBody::Whole(ScriptBody::Binary(binary.into_bytes())),
                Err(_) => only_size(RecordedBody::Lost),
            }
        }
        // A browser that had to turn binary bytes into text recorded neither the bytes nor their length.
        Some(text) if text.contains(char::REPLACEMENT_CHARACTER) => only_size(RecordedBody::Lost),
        Some(text) => RecordedBody::Whole(ScriptBody::Text(text)),
        None => form(data.params, data.mime_type).unwrap_or_else(|| {
            only_size(if size.is_none() {
                RecordedBody::Lost
            } else {
                RecordedBody::Whole(ScriptBody::Empty)
            })
        }),
    }
}

/// The body of a form, for exporters that record only its fields. A multipart form cannot be rebuilt: its boundary and
/// its files are missing.
fn form(params: Option<Vec<NamedValue>>, mime: Option<String>) -> Option<RecordedBody> {
    let params = params.filter(|params| !params.is_empty())?;
    if !mime?
        .trim_start()
        .to_ascii_lowercase()
        .starts_with("application/x-www-form-urlencoded")
    {
        return None;
    }
    let pairs = params
        .iter()
        .map(|pair| (&pair.name, pair.value.as_deref().unwrap_or_default()));
    let text = url::form_urlencoded::Serializer::new(String::new())
        .extend_pairs(pairs)
        .finish();
    Some(RecordedBody::Whole(ScriptBody::Text(text)))
}
