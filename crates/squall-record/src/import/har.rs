//! HAR 1.2: the format in which browsers' developer tools and k6 studio save
//! (<http://www.softwareishard.com/blog/har-12-spec/>).
//!
//! Only each entry's request and its time are used; a script has no use for recorded responses and their times. An
//! entry that cannot be sent again is left out and counted; only a text that is not a HAR at all is an error.
//! `sendable` cleans the request headers, and `media` recognizes media segments.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use serde::Deserialize;
use serde::de::IgnoredAny;
use squall_base::Bytes;
use squall_base::plan::{Script, ScriptBody, ScriptRequest};

use super::error::{Format, ImportError, Location, UrlFault};
use super::gather::{Origin, ScriptBuilder};
use super::omission::{Import, OmissionReason, Tally};
use super::{check_size, media, moment, sendable};

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
/// Left out and counted are URLs other than `http` and `https`, entries without a time in 1970 or later, and entries
/// answered from the browser's cache (`_fromCache`). Some header fields are removed silently: pseudo-header fields,
/// hop-by-hop fields, `content-length` and `host`.
pub fn parse_har(bytes: &[u8], options: &HarOptions) -> Result<Import<Script>, ImportError> {
    const FORMAT: Format = Format::Har;
    check_size(FORMAT, bytes)?;
    // Some exporters write a byte order mark, which RFC 8259 allows a reader to ignore.
    let bytes = bytes.strip_prefix(b"\xef\xbb\xbf").unwrap_or(bytes);
    let har: Har = serde_json::from_slice(bytes).map_err(|source| ImportError::Json {
        format: FORMAT,
        source,
    })?;
    let mut tally = Tally::default();
    let mut builder = ScriptBuilder::default();
    for (entry, location) in har.log.entries.into_iter().zip((0..).map(Location::Entry)) {
        match entry.script_request(options, location, &mut tally) {
            Ok((at_ns, request)) => builder.add(at_ns, location, request),
            Err(reason) => tally.add(reason, location),
        }
    }
    let script = builder.finish(FORMAT, Origin::Earliest)?;
    tally.finish(FORMAT, script, |script| script.steps.is_empty())
}

#[derive(Deserialize)]
struct Har {
    log: HarLog,
}

#[derive(Deserialize)]
struct HarLog {
    entries: Vec<Entry>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Entry {
    started_date_time: Option<String>,
    request: Request,
    response: Option<Response>,
    /// Chromium's extension: the cache that answered the request.
    #[serde(rename = "_fromCache")]
    from_cache: Option<IgnoredAny>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Request {
    method: String,
    url: String,
    headers: Option<Vec<NamedValue>>,
    post_data: Option<PostData>,
    /// -1 if unknown.
    body_size: Option<f64>,
}

/// A header field or a form field.
#[derive(Deserialize)]
struct NamedValue {
    name: String,
    value: Option<String>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct PostData {
    mime_type: Option<String>,
    text: Option<String>,
    params: Option<Vec<NamedValue>>,
    /// Not in HAR 1.2. Exporters that write it mean `base64`, as in a response's content.
    encoding: Option<String>,
}

#[derive(Deserialize)]
struct Response {
    content: Option<Content>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Content {
    mime_type: Option<String>,
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
        if self.from_cache.is_some() {
            return Err(OmissionReason::FromCache);
        }
        let content = self.response.and_then(|response| response.content);
        let mime = content.and_then(|content| content.mime_type);
        if options.media_only && !media::is_segment(&url, mime.as_deref().unwrap_or_default()) {
            return Err(OmissionReason::NotMedia);
        }
        if !sendable::is_method(&self.request.method) {
            return Err(OmissionReason::Method);
        }
        let at = self
            .started_date_time
            .and_then(|text| moment::unix_ns(&text));
        let at_ns = at.ok_or(OmissionReason::NoTime)?;
        Ok((at_ns, self.request.sendable(url, options, location, tally)))
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
        let body = match body(self.post_data, self.body_size) {
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

fn body(data: Option<PostData>, size: Option<f64>) -> RecordedBody {
    // A size is a count, or -1 if unknown. A fraction, or more than 1 PB, is meaningless.
    let known = size.filter(|size| (1.0..1e15).contains(size) && size.fract() == 0.0);
    let only_size = |otherwise| {
        known.map_or(otherwise, |size| {
            RecordedBody::OnlySize(Bytes::new(size as u64))
        })
    };
    let Some(data) = data else {
        return only_size(RecordedBody::Whole(ScriptBody::Empty));
    };
    match data.text.filter(|text| !text.is_empty()) {
        Some(text) if data.encoding.as_deref() == Some("base64") => {
            match STANDARD.decode(&text).map(String::from_utf8) {
                Ok(Ok(text)) => RecordedBody::Whole(ScriptBody::Text(text)),
                Ok(Err(binary)) => {
                    RecordedBody::OnlySize(Bytes::new(binary.as_bytes().len() as u64))
                }
                Err(_) => only_size(RecordedBody::Lost),
            }
        }
        // A browser that had to turn binary bytes into text recorded neither the bytes nor their length.
        Some(text) if text.contains(char::REPLACEMENT_CHARACTER) => only_size(RecordedBody::Lost),
        Some(text) => RecordedBody::Whole(ScriptBody::Text(text)),
        None => form(data.params, data.mime_type).unwrap_or_else(|| {
            let was_sent = size.is_none_or(|size| size != 0.0);
            only_size(if was_sent {
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
