//! What a request of a script may contain: methods, URLs, header fields.
//!
//! Faults are reported, not corrected, except that the protocol's own header fields are silently removed from recordings. The
//! format decides whether a fault stops the import or the faulty part is left out.

use std::sync::LazyLock;

use squall_base::Bytes;
use squall_base::plan::message::{
    self, MAX_HEADERS, MAX_HEADERS_BYTES, MAX_TARGET_LEN_BYTES, fields_sent, header_bytes,
    is_header_value, reservation,
};
use squall_base::plan::{ScriptBody, ScriptRequest};
use url::{Position, Url};

use super::error::{UrlFault, excerpt};
use super::omission::{OmissionReason, Tally};
use super::place::Location;

/// Header fields that belong to the protocol: hop-by-hop fields (RFC 9110 section 7.6.1, RFC 9113 section 8.2.2), and
/// those that squall derives from the URL and the body.
const OWN_FIELDS: [&str; 13] = [
    "connection",
    "content-length",
    "host",
    "http2-settings",
    "keep-alive",
    "proxy-authenticate",
    "proxy-authorization",
    "proxy-connection",
    "te",
    "trailer",
    "trailers",
    "transfer-encoding",
    "upgrade",
];

/// The largest body that is generated in memory, for a recording that has only its size.
const MAX_BODY: Bytes = Bytes::new(1 << 30);

/// Stands for the server of URLs without one.
static SOME_SERVER: LazyLock<Url> =
    LazyLock::new(|| Url::parse("http://server/").expect("it is a URL"));

/// Normalizes a URL: absolute, or a path that begins with `/`, without its fragment, which is never sent.
pub(super) fn url(text: &str) -> Result<String, UrlFault> {
    let is_path = text.starts_with('/') && !text.starts_with("//");
    let parsed = if is_path {
        SOME_SERVER.join(text)
    } else {
        Url::parse(text)
    };
    let mut url = parsed.map_err(|source| UrlFault::NotUrl {
        url: excerpt(text),
        source,
    })?;
    url.set_fragment(None);
    match (url.scheme(), is_path) {
        // To a browser, a path such as `/\host/` is an absolute URL.
        ("http", true) if url.host_str() == SOME_SERVER.host_str() => {
            Ok(url[Position::BeforePath..].to_owned())
        }
        ("http" | "https", false) => Ok(url.into()),
        _ => Err(UrlFault::NotHttp(excerpt(text))),
    }
}

/// True if the path and query of a URL that [`url`] has returned are longer than squall sends.
pub(super) fn is_too_long(url: &str) -> bool {
    let target = match url.split_once("://") {
        Some((_, rest)) if !url.starts_with('/') => rest.find('/').map_or("", |at| &rest[at..]),
        _ => url,
    };
    target.len() > MAX_TARGET_LEN_BYTES
}

/// Which limit a request exceeds, if any: of the URL, of the header fields, or of a generated body.
pub(super) fn excess(request: &ScriptRequest) -> Option<OmissionReason> {
    let headers = &request.headers;
    let bytes: usize = (headers.iter())
        .map(|(name, value)| header_bytes(name, value))
        .sum();
    if is_too_long(&request.url) {
        Some(OmissionReason::UrlTooLong)
    } else if fields_sent(headers) > MAX_HEADERS || bytes > MAX_HEADERS_BYTES {
        Some(OmissionReason::HeadersTooLong)
    } else if matches!(request.body, ScriptBody::Size(size) if size > MAX_BODY) {
        Some(OmissionReason::BodyTooLong)
    } else {
        None
    }
}

/// True if `text` is a method that can be sent: a token other than CONNECT, which asks a proxy for a tunnel.
pub(super) fn is_method(text: &str) -> bool {
    message::is_method(text)
}

/// True if a request can have this field.
pub(super) fn is_field(name: &str, value: &str) -> bool {
    is_token(name) && !value.chars().any(|c| c.is_control() && c != '\t')
}

/// True if the field belongs to the protocol. `name` is in lower case.
pub(super) fn is_own(name: &str) -> bool {
    name.starts_with(':') || OWN_FIELDS.contains(&name)
}

/// The header fields of a recording in the form a script has them: names in lower case, without the protocol's own
/// fields.
pub(super) fn fields<'a>(
    recorded: impl Iterator<Item = (&'a str, &'a str)> + Clone,
    url: &str,
    location: Location,
    tally: &mut Tally,
) -> Vec<(String, String)> {
    let of_hop = named_by_connection(recorded.clone());
    let mut fields = Vec::new();
    for (name, value) in recorded {
        let (name, value) = (name.trim().to_ascii_lowercase(), value.trim());
        if name == "host" && !is_host_of(url, value) {
            tally.add(OmissionReason::OtherHost, location);
        }
        // `te: trailers` is allowed in every version of HTTP, although HTTP/1.1 also lists it in `connection`.
        let accepts_trailers = (name.as_str(), value) == ("te", "trailers");
        if !accepts_trailers && (is_own(&name) || of_hop.contains(&name)) {
            continue;
        }
        if is_field(&name, value) && is_header_value(value) {
            fields.push((name, value.to_owned()));
        } else {
            tally.add(OmissionReason::Field, location);
        }
    }
    fields
}

/// The header fields that the user wrote for a request, names in lower case. Unlike those of a recording, every field that a
/// request can have is kept, `host` included; the others are counted.
pub(super) fn target_fields<'a>(
    written: impl Iterator<Item = (&'a str, &'a str)>,
    location: Location,
    tally: &mut Tally,
) -> Vec<(String, String)> {
    let mut fields: Vec<(String, String)> = Vec::new();
    for (name, value) in written {
        let (name, value) = (name.trim().to_ascii_lowercase(), value.trim());
        let is_second_host = name == "host" && fields.iter().any(|(known, _)| *known == name);
        if !is_target_field(&name, value) || is_second_host {
            tally.add(OmissionReason::Field, location);
        } else if is_reserved(&name, value) {
            tally.add(OmissionReason::ProtocolField, location);
        } else {
            fields.push((name, value.to_owned()));
        }
    }
    fields
}

/// True if a target can have this field: as for [`is_field`], and `host` must be a host with an optional port.
pub(super) fn is_target_field(name: &str, value: &str) -> bool {
    is_field(name, value) && (!name.eq_ignore_ascii_case("host") || is_authority(value))
}

/// True if a script must not have this field, because squall or the connection sets it. `host` is allowed if it can be
/// the request's authority. `name` is in lower case.
pub(super) fn is_reserved(name: &str, value: &str) -> bool {
    match name {
        "host" => !is_authority(value),
        _ => reservation(name, value).is_some(),
    }
}

/// RFC 9110, section 7.2: a host and an optional port, of the length and the characters that squall-http sends.
fn is_authority(text: &str) -> bool {
    const MAX_LEN_BYTES: usize = 259;
    (1..=MAX_LEN_BYTES).contains(&text.len())
        && text
            .bytes()
            .all(|b| b.is_ascii_graphic() && !b"/?#@".contains(&b))
}

/// The field names listed by `Connection`, which are hop-by-hop too. The first few are enough: no browser lists more.
fn named_by_connection<'a>(recorded: impl Iterator<Item = (&'a str, &'a str)>) -> Vec<String> {
    const AT_MOST: usize = 16;
    recorded
        .filter(|(name, _)| name.trim().eq_ignore_ascii_case("connection"))
        .flat_map(|(_, value)| value.split(','))
        .take(AT_MOST)
        .map(|name| name.trim().to_ascii_lowercase())
        .collect()
}

fn is_host_of(url: &str, host: &str) -> bool {
    Url::parse(url).is_ok_and(|url| {
        let authority = &url[Position::BeforeHost..Position::AfterPort];
        let with_port = url.port_or_known_default().map(|port| {
            let name = url.host_str().unwrap_or_default();
            format!("{name}:{port}")
        });
        authority.eq_ignore_ascii_case(host)
            || with_port.is_some_and(|known| known.eq_ignore_ascii_case(host))
    })
}

/// RFC 9110 section 5.6.2.
fn is_token(text: &str) -> bool {
    let is_tchar = |b: u8| b.is_ascii_alphanumeric() || b"!#$%&'*+-.^_`|~".contains(&b);
    !text.is_empty() && text.bytes().all(is_tchar)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn urls_are_absolute_or_paths_and_have_no_fragment() {
        let asked = |text: &str| url(text).ok();
        let some = |text: &str| Some(text.to_owned());
        assert_eq!(asked("https://a.example"), some("https://a.example/"));
        assert_eq!(
            asked("http://a.example/x y#z"),
            some("http://a.example/x%20y")
        );
        assert_eq!(asked("/a/../b?c=d#e"), some("/b?c=d"));
        for text in [
            "",
            "a",
            "//a.example/",
            "/\\a.example/",
            "data:,x",
            "ws://a/",
            "http://",
            "http://[1/",
        ] {
            assert_eq!(asked(text), None, "{text:?}");
        }
    }

    #[test]
    fn only_fields_that_a_client_chooses_are_kept() {
        let recorded = [
            (":method", "GET"),
            ("Host", "A.example:443"),
            ("Connection", "close, X-Hop, TE"),
            ("x-hop", "1"),
            ("Cookie", " a=b "),
            ("TE", "trailers"),
            ("TE", "gzip"),
            ("bad name", "1"),
            ("bad", "line\nbreak"),
        ];
        let mut tally = Tally::default();
        let fields = fields(
            recorded.into_iter(),
            "https://a.example/",
            Location::Line(7),
            &mut tally,
        );
        let kept = [("cookie", "a=b"), ("te", "trailers")];
        assert_eq!(
            fields,
            kept.map(|(name, value)| (name.to_owned(), value.to_owned()))
        );
        let omissions = tally
            .finish(super::super::Format::Har, (), |()| false)
            .expect("some")
            .omissions;
        assert_eq!(omissions.len(), 1);
        assert_eq!(
            omissions[0].to_string(),
            "2 header fields left out: they cannot be sent (first: line 7)"
        );
    }
}
