//! Which names carry secrets, and how to remove these from the texts and requests that people share.
//!
//! A secret is recognised by its place: the value of a header field or of a query parameter with such a name, and the part
//! of a URL before the host. Bodies are not searched, nor values under other names. What is written where, and who may read
//! it, is up to the callers.

use std::borrow::Cow;
use std::ops::Range;

use crate::plan::message::BROWSER_HEADERS;
use crate::plan::{Plan, RequestTemplate};

/// The replacement for a secret. It can be sent as the value of a field, or as part of a target.
pub const REDACTED: &str = "[redacted]";

/// Names of fields and parameters that carry credentials or cookies (RFC 9110, section 11; RFC 6265).
const NAMES: [&str; 5] = [
    "authorization",
    "cookie",
    "cookie2",
    "proxy-authorization",
    "set-cookie",
];

/// Endings of further such names, which no standard lists; `_` counts as `-`.
const ENDINGS: [&str; 14] = [
    "-authorization",
    "-jwt",
    "-key",
    "-signature",
    "accesskey",
    "apikey",
    "passphrase",
    "passwd",
    "password",
    "secret",
    "sessid",
    "session-id",
    "sessionid",
    "token",
];

/// Endings of names that match `ENDINGS` but carry no secret: their values say where a list continues, or which of
/// several things is meant.
const HARMLESS_ENDINGS: [&str; 11] = [
    "cache-key",
    "continuation-token",
    "idempotency-key",
    "page-token",
    "pagetoken",
    "partition-key",
    "primary-key",
    "public-key",
    "sort-key",
    "surrogate-key",
    "websocket-key",
];

/// Further names of query parameters.
const PARAMETERS: [&str; 5] = ["auth", "jwt", "pwd", "sig", "signature"];

/// Whether the value of a header field of that name, in any case, is a secret (`x-goog-api-key`, `x-amz-security-token`).
pub fn is_secret_name(name: &str) -> bool {
    let name = name.to_ascii_lowercase().replace('_', "-");
    let ends_like = |endings: &[&str]| endings.iter().any(|ending| name.ends_with(ending));
    NAMES.contains(&name.as_str()) || (ends_like(&ENDINGS) && !ends_like(&HARMLESS_ENDINGS))
}

/// Whether the value of a parameter of that name, in a query or a form, is a secret.
pub fn is_secret_parameter(name: &str) -> bool {
    is_secret_name(name) || PARAMETERS.contains(&name.to_ascii_lowercase().as_str())
}

/// Whether a header field contains a secret. The made-up cookie of [`BROWSER_HEADERS`] does not count.
fn is_secret_field(name: &str, value: &str) -> bool {
    is_secret_name(name) && value != REDACTED && !BROWSER_HEADERS.contains(&(name, value))
}

/// Whether one of these header fields contains a secret.
pub fn has_credentials(headers: &[(String, String)]) -> bool {
    let mut all = headers.iter();
    all.any(|(name, value)| is_secret_field(name, value))
}

/// Takes the secrets out of a request's header fields and of its URL or target.
pub fn redact(headers: &mut [(String, String)], url: &mut String) {
    for (name, value) in headers {
        if is_secret_field(name, value) {
            REDACTED.clone_into(value);
        }
    }
    let shown = redacted_text(url).into_owned();
    *url = shown;
}

/// Whether a secret was taken out of these header fields or this URL.
pub fn is_redacted(headers: &[(String, String)], url: &str) -> bool {
    url.contains(REDACTED) || headers.iter().any(|(_, value)| value == REDACTED)
}

/// A text of any kind without the secrets in it: the part of each URL before its host, the values of query parameters, and the
/// values of header fields that are written as `name: value`, up to a quote or the end of the line.
pub fn redacted_text(text: &str) -> Cow<'_, str> {
    let secrets: Vec<Range<usize>> = users(text)
        .chain(parameters(text))
        .chain(fields(text))
        .filter(|range| !range.is_empty() && text[range.clone()] != *REDACTED)
        .collect();
    if secrets.is_empty() {
        return Cow::Borrowed(text);
    }
    Cow::Owned(replaced(text, secrets, REDACTED))
}

/// `text` with each of these ranges replaced. One may contain another.
pub fn replaced(text: &str, mut ranges: Vec<Range<usize>>, replacement: &str) -> String {
    ranges.sort_by_key(|range| range.start);
    let mut shown = String::with_capacity(text.len());
    let mut end = 0;
    for range in ranges {
        if range.start >= end {
            shown.push_str(&text[end..range.start]);
            shown.push_str(replacement);
            end = range.end;
        }
    }
    shown.push_str(&text[end..]);
    shown
}

/// The position of the next character of this kind from `start` on, or the end of the text.
fn next(text: &str, start: usize, is_end: impl Fn(char) -> bool) -> usize {
    text[start..]
        .find(is_end)
        .map_or(text.len(), |at| start + at)
}

/// What ends a URL in a text.
fn ends_url(c: char) -> bool {
    c.is_whitespace() || matches!(c, '"' | '\'' | '<' | '>' | '`')
}

/// Users and passwords in URLs (RFC 3986, section 3.2.1).
fn users(text: &str) -> impl Iterator<Item = Range<usize>> {
    text.match_indices("://").filter_map(move |(at, mark)| {
        let start = at + mark.len();
        let end = next(text, start, |c| ends_url(c) || matches!(c, '/' | '?' | '#'));
        let length = text[start..end].rfind('@')?;
        Some(start..start + length)
    })
}

/// Values of query parameters.
fn parameters(text: &str) -> impl Iterator<Item = Range<usize>> {
    text.match_indices(['?', '&', ';'])
        .filter_map(move |(at, mark)| {
            let start = at + mark.len();
            let equals = next(text, start, |c| !is_name(c));
            let is_secret =
                text[equals..].starts_with('=') && is_secret_parameter(&text[start..equals]);
            let value = equals + 1;
            is_secret
                .then(|| value..next(text, value, |c| ends_url(c) || matches!(c, '&' | ';' | '#')))
        })
}

/// Values of header fields.
fn fields(text: &str) -> impl Iterator<Item = Range<usize>> {
    text.match_indices(':').filter_map(move |(colon, _)| {
        let start = text[..colon].trim_end_matches(is_name).len();
        if !is_secret_name(&text[start..colon]) {
            return None;
        }
        let value = next(text, colon + 1, |c| c != ' ' && c != '\t');
        Some(value..next(text, value, |c| matches!(c, '\r' | '\n' | '"' | '\'')))
    })
}

fn is_name(c: char) -> bool {
    c.is_ascii_alphanumeric() || matches!(c, '-' | '_' | '.')
}

impl RequestTemplate {
    /// Whether the request's header fields or target have a secret.
    pub fn has_secrets(&self) -> bool {
        has_credentials(&self.headers) || matches!(redacted_text(&self.target), Cow::Owned(_))
    }
}

impl Plan {
    /// Whether any request of the plan has a secret.
    pub fn has_secrets(&self) -> bool {
        self.requests.iter().any(RequestTemplate::has_secrets)
    }

    /// The same plan without the secrets of its requests.
    pub fn redacted(&self) -> Plan {
        let mut plan = self.clone();
        for request in &mut plan.requests {
            redact(&mut request.headers, &mut request.target);
        }
        plan
    }

    /// Whether secrets were taken out of the plan, so that it cannot run.
    pub fn is_redacted(&self) -> bool {
        let mut requests = self.requests.iter();
        requests.any(|request| is_redacted(&request.headers, &request.target))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn secrets_are_recognised_by_the_name_of_their_field() {
        let has = |name: &str| has_credentials(&[(name.to_owned(), "1234".to_owned())]);
        for name in [
            "authorization",
            "Proxy-Authorization",
            "cookie",
            "set-cookie",
            "x-api-key",
            "X_API_KEY",
            "x-goog-api-key",
            "x-rapidapi-key",
            "ocp-apim-subscription-key",
            "Fastly-Key",
            "x-session-id",
            "password",
            "private-token",
            "x-amz-security-token",
            "cf-access-client-secret",
        ] {
            assert!(has(name), "{name}");
        }
        for name in [
            "accept",
            "content-type",
            "user-agent",
            "traceparent",
            "te",
            "x-next-page-token",
            "idempotency-key",
            "sec-websocket-key",
            "key",
        ] {
            assert!(!has(name), "{name}");
        }
        let browser = BROWSER_HEADERS.map(|(name, value)| (name.to_owned(), value.to_owned()));
        assert!(!has_credentials(&browser), "its cookie is made up");
        assert!(!has_credentials(&[(
            "cookie".to_owned(),
            REDACTED.to_owned()
        )]));
    }

    #[test]
    fn texts_lose_their_secrets_and_nothing_else() {
        for (text, expected) in [
            (
                "https://me:word@server:8443/a",
                "https://[redacted]@server:8443/a",
            ),
            ("http://a@b@server/", "http://[redacted]@server/"),
            (
                "/a?access_token=x%20y&size=1",
                "/a?access_token=[redacted]&size=1",
            ),
            ("/a?size=1;sig=abc#top", "/a?size=1;sig=[redacted]#top"),
            (
                "/a;jsessionid=9F2?auth_key=1&passwd=2&sort_key=3",
                "/a;jsessionid=[redacted]&passwd=[redacted]&sort_key=3",
            ),
            (
                "curl -H 'Authorization: Bearer a b' -H \"x-api-key:k\" u",
                "curl -H 'Authorization: [redacted]' -H \"x-api-key:[redacted]\" u",
            ),
            (
                "Cookie: a=1; token=2\r\nAccept: */*",
                "Cookie: [redacted]\r\nAccept: */*",
            ),
            ("\u{e9}token: 5 \u{e9}\n", "\u{e9}token: [redacted]\n"),
        ] {
            assert_eq!(redacted_text(text), expected);
            assert_eq!(redacted_text(expected), expected, "what is redacted stays");
        }
        for text in [
            "",
            ":",
            "::",
            "http://server/@a?b=c:d",
            "/a?next_page_token=5&token=&x",
            "client -h2c-> proxy ~h1~> server: it holds",
            "\u{e9}: \u{e9}://\u{e9}",
        ] {
            assert!(matches!(redacted_text(text), Cow::Borrowed(_)), "{text}");
        }
    }
}
