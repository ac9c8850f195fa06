//! What the messages of a plan may contain, so that the engine of every protocol can send and receive them.
//!
//! These rules are defined only here: squall-recipe refuses a text that breaks them and reports its position,
//! squall-http refuses any message that breaks them. A load that HTTP/2 carries and HTTP/1.1 refuses could not be
//! compared, so the limits are those of the strictest engine.

use std::fmt;

/// The longest method; the longest registered one has 17 characters.
pub const MAX_METHOD_LEN_BYTES: usize = 40;

/// The longest target; common servers refuse longer ones (RFC 9110, section 4.1, recommends 8000 octets).
pub const MAX_TARGET_LEN_BYTES: usize = 8_000;

/// The most header fields in addition to those that the engines write: our HTTP/1.1 engines accept 128, and write at
/// most two themselves. With `te`, they write a third; see [`fields_sent`].
pub const MAX_HEADERS: usize = 126;

/// The most bytes that these fields may have together, each counted by [`header_bytes`]. The engines accept 64 KiB for
/// everything; the rest is for the target and for what the engines write.
pub const MAX_HEADERS_BYTES: usize = 48 * 1024;

/// What Chromium sends with a navigation, plus a cookie of typical length: about 1 KiB. All values are made up.
pub const BROWSER_HEADERS: [(&str, &str); 13] = [
    (
        "sec-ch-ua",
        "\"Chromium\";v=\"140\", \"Not=A?Brand\";v=\"24\"",
    ),
    ("sec-ch-ua-mobile", "?0"),
    ("sec-ch-ua-platform", "\"Linux\""),
    ("upgrade-insecure-requests", "1"),
    (
        "user-agent",
        "Mozilla/5.0 (X11; Linux x86_64) AppleWebKit/537.36 (KHTML, like Gecko) Chrome/140.0.0.0 Safari/537.36",
    ),
    (
        "accept",
        "text/html,application/xhtml+xml,application/xml;q=0.9,image/avif,image/webp,image/apng,*/*;q=0.8",
    ),
    ("sec-fetch-site", "none"),
    ("sec-fetch-mode", "navigate"),
    ("sec-fetch-user", "?1"),
    ("sec-fetch-dest", "document"),
    ("accept-encoding", "gzip, deflate, br, zstd"),
    ("accept-language", "en-GB,en;q=0.9,de;q=0.8"),
    (
        "cookie",
        "session=9f1c2a7be04d4c6f8a35d1e27b90c4f6a1d3e58b7c20f94e; _ga=GA1.2.1837465920.1712345678; _gid=GA1.2.564738291.1719876543; \
         consent=eyJhbmFseXRpY3MiOnRydWUsImFkcyI6ZmFsc2UsInByZWZlcmVuY2VzIjp0cnVlfQ; theme=dark; \
         csrf=kJ8sV2xQ0bTfYw4NzE7hR1mLpA6uDcGi; region=eu-west-1; ab=variant-b.17; seen=1,4,9,16,25,36,49",
    ),
];

/// Adds a header field if no field has that name.
pub fn add_missing(headers: &mut Vec<(String, String)>, name: &str, value: &str) {
    if !headers.iter().any(|(known, _)| known == name) {
        headers.push((name.to_owned(), value.to_owned()));
    }
}

/// Why a message must not contain a header field.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Reservation {
    /// The engines set it, from the target's host, the body's size and the body's framing.
    Engine,
    /// It announces trailers (RFC 9110, section 6.6.2), which a plan's messages do not have.
    Trailers,
    /// It concerns a single connection (RFC 9110, section 7.6.1), and is malformed in HTTP/2 (RFC 9113, section 8.2.2).
    Connection,
    /// It asks for transfer codings. HTTP/2 and HTTP/3 have none: there, `te` can only be `trailers` (RFC 9113, section
    /// 8.2.2; RFC 9114, section 4.2).
    TransferCodings,
}

impl fmt::Display for Reservation {
    /// The rest of a sentence that begins with the name of the field.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Reservation::Engine => "is set by the protocol, not by the message: leave it out",
            Reservation::Trailers => "announces trailers, and squall sends none: leave it out",
            Reservation::Connection => {
                "concerns a single connection, and HTTP/2 and HTTP/3 forbid it: leave it out"
            }
            Reservation::TransferCodings => {
                "can only be \"trailers\", because HTTP/2 and HTTP/3 forbid every other value"
            }
        })
    }
}

const ENGINE: [&str; 3] = ["content-length", "host", "transfer-encoding"];
const CONNECTION: [&str; 5] = [
    "connection",
    "http2-settings",
    "keep-alive",
    "proxy-connection",
    "upgrade",
];

/// The only value of `te` that every protocol can carry.
const TE_VALUE: &str = "trailers";

/// Whether `text` is a method that a load can have. CONNECT is not: it has another form of target and makes a tunnel
/// (RFC 9110, section 9.3.6).
pub fn is_method(text: &str) -> bool {
    is_token(text) && text.len() <= MAX_METHOD_LEN_BYTES && text != "CONNECT"
}

/// Whether `text` is a path with an optional query: the origin form of RFC 9112, section 3.2.1, made of any visible
/// ASCII characters except `#`.
pub fn is_target(text: &str) -> bool {
    text.starts_with('/')
        && text.len() <= MAX_TARGET_LEN_BYTES
        && text.bytes().all(|b| b.is_ascii_graphic() && b != b'#')
}

/// Whether `text` is the name of a header field, in lower case: HTTP/2 allows no other (RFC 9113, section 8.2.1), and
/// HTTP/1.1 ignores case.
pub fn is_header_name(text: &str) -> bool {
    is_token(text) && !text.bytes().any(|b| b.is_ascii_uppercase())
}

/// Whether `text` is the value of a header field: RFC 9110, section 5.5, without obs-text. Blanks at either end would
/// be malformed in HTTP/2.
pub fn is_header_value(text: &str) -> bool {
    text.bytes()
        .all(|b| b.is_ascii_graphic() || b == b' ' || b == b'\t')
        && text.trim_matches([' ', '\t']).len() == text.len()
}

/// Why a request must not contain this field; `None` if it may. A response must not contain `te` at all, because it is a
/// request field.
pub fn reservation(name: &str, value: &str) -> Option<Reservation> {
    match name {
        "te" if value == TE_VALUE => None,
        "te" => Some(Reservation::TransferCodings),
        "trailer" => Some(Reservation::Trailers),
        _ if ENGINE.contains(&name) => Some(Reservation::Engine),
        _ if CONNECTION.contains(&name) => Some(Reservation::Connection),
        _ => None,
    }
}

/// How many fields count towards [`MAX_HEADERS`]: these, and the `connection` that accompanies `te` over HTTP/1.1 (RFC
/// 9110, section 10.1.4).
pub fn fields_sent(headers: &[(String, String)]) -> usize {
    headers.len() + usize::from(headers.iter().any(|(name, _)| name == "te"))
}

/// What a field counts against [`MAX_HEADERS_BYTES`]: its name, its value and 32 bytes, as in
/// SETTINGS_MAX_HEADER_LIST_SIZE (RFC 9113, section 6.5.2), which is more than any protocol adds.
pub fn header_bytes(name: &str, value: &str) -> usize {
    name.len() + value.len() + 32
}

/// A token (RFC 9110, section 5.6.2).
fn is_token(text: &str) -> bool {
    !text.is_empty()
        && text
            .bytes()
            .all(|b| b.is_ascii_alphanumeric() || b"!#$%&'*+-.^_`|~".contains(&b))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn texts_that_could_smuggle_requests_are_refused() {
        assert!(is_method("GET") && is_method("M-SEARCH"));
        for method in ["", "GET ", "G\u{e9}T", "CONNECT", &"A".repeat(41)] {
            assert!(!is_method(method), "{method:?}");
        }
        assert!(is_target("/") && is_target("/a?b={c}"));
        for target in ["", "*", "a", "/#", "/ HTTP/1.1", "/\r\n", "/\u{e9}"] {
            assert!(!is_target(target), "{target:?}");
        }
        assert!(is_header_name("x-a_b"));
        for name in ["", "Accept", ":path", "a b", "a:"] {
            assert!(!is_header_name(name), "{name:?}");
        }
        assert!(is_header_value("") && is_header_value("a\tb c"));
        for value in [" a", "a\t", "a\r\nb: c", "\0", "\u{7f}", "\u{e9}"] {
            assert!(!is_header_value(value), "{value:?}");
        }
    }

    #[test]
    fn fields_of_the_protocol_are_reserved() {
        for (name, reason) in [
            ("content-length", Reservation::Engine),
            ("host", Reservation::Engine),
            ("transfer-encoding", Reservation::Engine),
            ("trailer", Reservation::Trailers),
            ("connection", Reservation::Connection),
            ("http2-settings", Reservation::Connection),
            ("keep-alive", Reservation::Connection),
            ("proxy-connection", Reservation::Connection),
            ("upgrade", Reservation::Connection),
        ] {
            assert_eq!(reservation(name, "x"), Some(reason), "{name}");
        }
        for name in ["accept", "content-type", "grpc-timeout"] {
            assert_eq!(reservation(name, "x"), None, "{name}");
        }
    }

    /// HTTP/2 and HTTP/3 allow it (RFC 9113, section 8.2.2; RFC 9114, section 4.2), and gRPC requires it.
    #[test]
    fn te_may_only_be_trailers() {
        assert_eq!(reservation("te", "trailers"), None);
        for value in ["", "gzip", "trailers, gzip", "Trailers"] {
            let refused = Some(Reservation::TransferCodings);
            assert_eq!(reservation("te", value), refused, "{value:?}");
        }
    }

    #[test]
    fn te_counts_twice_because_http1_adds_a_connection_field() {
        let field = |name: &str| (name.to_owned(), "trailers".to_owned());
        assert_eq!(fields_sent(&[field("a"), field("b")]), 2);
        assert_eq!(fields_sent(&[field("te"), field("te")]), 3);
    }
}
