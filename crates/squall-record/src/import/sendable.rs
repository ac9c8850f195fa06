//! What a request of a script may contain: methods, URLs, header fields.
//!
//! Faults are reported, not corrected; only header fields that belong to the protocol are removed silently. The format
//! decides whether a fault stops the import or is left out of it.

use std::sync::LazyLock;

use url::{Position, Url};

use super::error::{Location, UrlFault, excerpt};
use super::omission::{OmissionReason, Tally};

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

/// The server of URLs that name none.
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
        _ => Err(UrlFault::NotHttp { url: excerpt(text) }),
    }
}

/// True if `text` is a method that can be sent: a token other than CONNECT, which asks a proxy for a tunnel.
pub(super) fn is_method(text: &str) -> bool {
    is_token(text) && text != "CONNECT"
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
        if is_own(&name) || of_hop.contains(&name) {
            continue;
        }
        if is_field(&name, value) {
            fields.push((name, value.to_owned()));
        } else {
            tally.add(OmissionReason::Field, location);
        }
    }
    fields
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
            ("Connection", "close, X-Hop"),
            ("x-hop", "1"),
            ("Cookie", " a=b "),
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
        assert_eq!(fields, [("cookie".to_owned(), "a=b".to_owned())]);
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
