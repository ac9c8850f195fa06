//! HAR 1.2: what browsers' developer tools and k6 studio save (<http://www.softwareishard.com/blog/har-12-spec/>).
//!
//! Of each entry only when it was asked and what: the recorded answers and their times are not a script's matter. An
//! entry that cannot be sent again is left out and counted; only a text that is no HAR at all is an error. The fields of
//! requests are cleaned by `sendable`; segments of media are told by `media`.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use serde::Deserialize;
use serde::de::IgnoredAny;
use squall_base::Bytes;
use squall_base::plan::{Script, ScriptBody, ScriptRequest};

use super::error::{Format, ImportError, Place, UrlFault};
use super::gather::{Gathering, Origin};
use super::omission::{Imported, Reason, Tally};
use super::{check_size, media, moment, sendable};

/// What to keep of a HAR file. By default everything that can be sent again.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct HarOptions {
    /// Keep only media segments: entries of type `video/*`, `audio/*` or `application/mp4`, and those whose type says
    /// nothing and whose path ends in `.m4s .mp4 .ts .webm .m4a .m4v .aac .cmfv .cmfa`. Manifests (`.mpd`, `.m3u8`, and
    /// their types) are no segments.
    pub media_only: bool,
    /// Leave out the field `cookie`.
    pub drop_cookies: bool,
}

/// Makes a script of a HAR file. Times count from the earliest entry that is kept; entries are sorted by time.
///
/// Left out and counted: other URLs than `http` and `https`, entries without a time of 1970 or later, entries that the
/// browser's cache answered (`_fromCache`). Of the header fields, silently: pseudo-fields, those of one hop,
/// `content-length` and `host`.
pub fn parse_har(bytes: &[u8], options: &HarOptions) -> Result<Imported<Script>, ImportError> {
    const FORMAT: Format = Format::Har;
    check_size(FORMAT, bytes)?;
    // Some exporters begin with a byte order mark, which RFC 8259 lets a reader ignore.
    let bytes = bytes.strip_prefix(b"\xef\xbb\xbf").unwrap_or(bytes);
    let har: Har = serde_json::from_slice(bytes).map_err(|source| ImportError::Json {
        format: FORMAT,
        source,
    })?;
    let mut tally = Tally::default();
    let mut gathering = Gathering::default();
    for (entry, place) in har.log.entries.into_iter().zip((0..).map(Place::Entry)) {
        match entry.asked(options, place, &mut tally) {
            Ok((at_ns, request)) => gathering.add(at_ns, place, request),
            Err(reason) => tally.add(reason, place),
        }
    }
    let script = gathering.finish(FORMAT, Origin::Earliest)?;
    tally.finish(FORMAT, script, |script| script.steps.is_empty())
}

#[derive(Deserialize)]
struct Har {
    log: Log,
}

#[derive(Deserialize)]
struct Log {
    entries: Vec<Entry>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Entry {
    started_date_time: Option<String>,
    request: Request,
    response: Option<Response>,
    /// Chromium's: which of its caches answered.
    #[serde(rename = "_fromCache")]
    from_cache: Option<IgnoredAny>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Request {
    method: String,
    url: String,
    headers: Option<Vec<Pair>>,
    post_data: Option<PostData>,
    /// -1 if it is not known.
    body_size: Option<f64>,
}

/// A header field or a form's field.
#[derive(Deserialize)]
struct Pair {
    name: String,
    value: Option<String>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct PostData {
    mime_type: Option<String>,
    text: Option<String>,
    params: Option<Vec<Pair>>,
    /// Not in HAR 1.2; those who write it mean `base64`, as in a response's content.
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
    /// What was asked when, in nanoseconds since 1970; or why that cannot be asked again.
    fn asked(
        self,
        options: &HarOptions,
        place: Place,
        tally: &mut Tally,
    ) -> Result<(u128, ScriptRequest), Reason> {
        let url = sendable::url(&self.request.url).map_err(|fault| match fault {
            UrlFault::NotHttp { .. } => Reason::NotHttp,
            UrlFault::NotUrl { .. } => Reason::NotUrl,
        })?;
        if self.from_cache.is_some() {
            return Err(Reason::FromCache);
        }
        let content = self.response.and_then(|response| response.content);
        let mime = content.and_then(|content| content.mime_type);
        if options.media_only && !media::is_segment(&url, mime.as_deref().unwrap_or_default()) {
            return Err(Reason::NotMedia);
        }
        if !sendable::is_method(&self.request.method) {
            return Err(Reason::Method);
        }
        let at = self
            .started_date_time
            .and_then(|text| moment::unix_ns(&text));
        let at_ns = at.ok_or(Reason::NoTime)?;
        Ok((at_ns, self.request.sendable(url, options, place, tally)))
    }
}

impl Request {
    fn sendable(
        self,
        url: String,
        options: &HarOptions,
        place: Place,
        tally: &mut Tally,
    ) -> ScriptRequest {
        let recorded = self.headers.as_deref().unwrap_or_default();
        let pairs = recorded.iter().map(|field| {
            (
                field.name.as_str(),
                field.value.as_deref().unwrap_or_default(),
            )
        });
        let mut headers = sendable::fields(pairs, &url, place, tally);
        if options.drop_cookies {
            headers.retain(|(name, _)| name != "cookie");
        }
        let mime = self
            .post_data
            .as_ref()
            .and_then(|data| data.mime_type.clone());
        let body = match body(self.post_data, self.body_size) {
            Recorded::Whole(body) => body,
            Recorded::OnlySize(bytes) => {
                tally.add(Reason::BodyContent, place);
                ScriptBody::Size(bytes)
            }
            Recorded::Lost => {
                tally.add(Reason::Body, place);
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

/// How much of a body a recording has.
enum Recorded {
    Whole(ScriptBody),
    OnlySize(Bytes),
    Lost,
}

fn body(data: Option<PostData>, size: Option<f64>) -> Recorded {
    // A size is a count, or -1; what a fraction or more than 1 PB would mean nobody knows.
    let known = size.filter(|size| (1.0..1e15).contains(size) && size.fract() == 0.0);
    let only_size = |otherwise| {
        known.map_or(otherwise, |size| {
            Recorded::OnlySize(Bytes::new(size as u64))
        })
    };
    let Some(data) = data else {
        return only_size(Recorded::Whole(ScriptBody::Empty));
    };
    match data.text.filter(|text| !text.is_empty()) {
        Some(text) if data.encoding.as_deref() == Some("base64") => {
            match STANDARD.decode(&text).map(String::from_utf8) {
                Ok(Ok(text)) => Recorded::Whole(ScriptBody::Text(text)),
                Ok(Err(binary)) => Recorded::OnlySize(Bytes::new(binary.as_bytes().len() as u64)),
                Err(_) => only_size(Recorded::Lost),
            }
        }
        // Where a browser had to make text of binary bytes, the text is neither them nor as long.
        Some(text) if text.contains(char::REPLACEMENT_CHARACTER) => only_size(Recorded::Lost),
        Some(text) => Recorded::Whole(ScriptBody::Text(text)),
        None => form(data.params, data.mime_type).unwrap_or_else(|| {
            let was_sent = size.is_none_or(|size| size != 0.0);
            only_size(if was_sent {
                Recorded::Lost
            } else {
                Recorded::Whole(ScriptBody::Empty)
            })
        }),
    }
}

/// The body of a form, of which some exporters have only the fields. A form of several parts cannot be made again: its
/// separator and its files are missing.
fn form(params: Option<Vec<Pair>>, mime: Option<String>) -> Option<Recorded> {
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
    Some(Recorded::Whole(ScriptBody::Text(text)))
}
