//! Header sections on their way through: hop-by-hop fields are removed (RFC 9110, section 7.6.1), the intermediary's
//! own field is added (`via`, RFC 9110, section 7.6.3), and fields that identify requests are kept or begun
//! (`x-request-id`; `traceparent`, W3C Trace Context, section 3.2).
//!
//! It decides on fields and nothing else. What a field may contain is checked where messages are built
//! (`squall_http::Request::relayed`).

use squall_base::plan::Version;
use squall_base::splitmix::splitmix64;
use squall_http::{Bytes, Field};

/// The length of a `traceparent` of version 00: `00-`, 32 digits, `-`, 16 digits, `-`, 2 digits.
const TRACEPARENT_BYTES: usize = 55;
/// The length of an id that is drawn here.
const REQUEST_ID_BYTES: usize = 32;

/// A request's header section as the proxy passes it on.
#[derive(Debug, Default)]
pub(super) struct RequestFields {
    /// The fields to pass on.
    pub(super) fields: Vec<Field>,
    /// The authority that the request names, if any.
    pub(super) authority: Option<String>,
    /// The stated length of the body.
    pub(super) length: Option<u64>,
    /// The client sends the body after `100 (Continue)`, or after a while.
    pub(super) expects_continue: bool,
}

/// A response's header section as the proxy passes it on.
#[derive(Debug, Default)]
pub(super) struct ResponseFields {
    /// The fields to pass on.
    pub(super) fields: Vec<Field>,
    /// The stated length of the body.
    pub(super) length: Option<u64>,
    /// The body has a transfer coding other than chunked. The proxy did not ask for it (RFC 9110, section 10.1.4), and
    /// without the coding's name the body would have another meaning.
    pub(super) is_coded: bool,
}

/// The request names two hosts, or one that is not a valid host.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct AmbiguousHost;

/// Draws the ids of requests and traces.
#[derive(Debug)]
pub(super) struct IdGenerator {
    seed: u64,
    drawn: u64,
}

impl IdGenerator {
    pub(super) fn new(seed: u64) -> IdGenerator {
        IdGenerator { seed, drawn: 0 }
    }

    /// Adds 16 hexadecimal digits, not all of them 0.
    fn add_word(&mut self, text: &mut Vec<u8>) {
        const DIGITS: &[u8; 16] = b"0123456789abcdef";
        self.drawn += 1;
        let word = splitmix64(self.seed, self.drawn).max(1);
        let digits: [u8; 16] =
            std::array::from_fn(|at| DIGITS[(word >> (60 - 4 * at)) as usize & 0xf]);
        text.extend_from_slice(&digits);
    }

    fn request_id(&mut self) -> Bytes {
        let mut text = Vec::with_capacity(REQUEST_ID_BYTES);
        self.add_word(&mut text);
        self.add_word(&mut text);
        text.into()
    }

    /// A trace that begins here. Its flags do not claim that anything records it.
    fn traceparent(&mut self) -> Bytes {
        let mut text = Vec::with_capacity(TRACEPARENT_BYTES);
        text.extend_from_slice(b"00-");
        self.add_word(&mut text);
        self.add_word(&mut text);
        text.push(b'-');
        self.add_word(&mut text);
        text.extend_from_slice(b"-00");
        text.into()
    }
}

/// Turns the fields of a request that arrived over `version` into those that are passed on.
pub(super) fn of_request(
    mut fields: Vec<Field>,
    version: Version,
    ids: &mut IdGenerator,
) -> Result<RequestFields, AmbiguousHost> {
    let nominated = nominated(&fields);
    let mut host: Option<Bytes> = None;
    let mut is_ambiguous = false;
    let (mut length, mut expects_continue) = (None, false);
    let (mut has_id, mut traces, mut has_trace, mut cookies) = (false, 0, false, 0);
    fields.retain_mut(|field| match &*field.name {
        b"host" => {
            let value = std::mem::take(&mut field.value);
            is_ambiguous |= host.as_ref().is_some_and(|host| *host != value);
            host = Some(value);
            false
        }
        b"content-length" => {
            length = number(&field.value);
            false
        }
        // The client side sends 100 (Continue) to clients that ask; the body is passed on without waiting.
        b"expect" => {
            expects_continue |= field.value.eq_ignore_ascii_case(b"100-continue");
            false
        }
        // `te: trailers` is passed on (RFC 9110, section 10.1.4); transfer codings are hop-by-hop.
        b"te" => reduce_te(&mut field.value),
        name if is_of_one_hop(name) || is_among(name, &nominated) => false,
        b"x-request-id" => {
            has_id = true;
            true
        }
        b"traceparent" => {
            traces += 1;
            has_trace = is_traceparent(&field.value);
            has_trace
        }
        b"cookie" => {
            cookies += 1;
            true
        }
        _ => true,
    });
    if is_ambiguous {
        return Err(AmbiguousHost);
    }
    if cookies > 1 {
        join_cookies(&mut fields);
    }
    fields.push(via(version));
    if !has_id {
        fields.push(field(b"x-request-id", ids.request_id()));
    }
    // A `traceparent` that is invalid or occurs twice is replaced by a new one (W3C Trace Context, section 3.2.2).
    if !has_trace || traces > 1 {
        fields.retain(|field| !matches!(&*field.name, b"traceparent" | b"tracestate"));
        fields.push(field(b"traceparent", ids.traceparent()));
    }
    Ok(RequestFields {
        fields,
        authority: host.map_or(Ok(None), |host| authority(&host))?,
        length,
        expects_continue,
    })
}

/// Reduces a `te` field to `trailers`. Returns whether it had that element; otherwise nothing of it is passed on.
fn reduce_te(value: &mut Bytes) -> bool {
    let accepts = has_element(value, b"trailers");
    if accepts {
        *value = Bytes::from_static(b"trailers");
    }
    accepts
}

/// The authority of a request, from its `host`.
fn authority(host: &[u8]) -> Result<Option<String>, AmbiguousHost> {
    let host = std::str::from_utf8(host).map_err(|_| AmbiguousHost)?;
    Ok((!host.is_empty()).then(|| host.to_owned()))
}

/// Turns the fields of a response that arrived over `version` into those that are passed on.
pub(super) fn of_response(mut fields: Vec<Field>, version: Version) -> ResponseFields {
    let nominated = nominated(&fields);
    let (mut length, mut is_coded) = (None, false);
    fields.retain(|field| match &*field.name {
        b"content-length" => {
            length = number(&field.value);
            false
        }
        b"transfer-encoding" => {
            let is_chunked = |coding: &[u8]| coding.eq_ignore_ascii_case(b"chunked");
            is_coded |= !elements(&field.value).all(is_chunked);
            false
        }
        b"te" => false,
        name => !is_of_one_hop(name) && !is_among(name, &nominated),
    });
    fields.push(via(version));
    ResponseFields {
        fields,
        length,
        is_coded,
    }
}

/// Counts a hop of an OPTIONS or TRACE request in its `max-forwards` (RFC 9110, section 7.6.2). Returns whether it may be
/// passed on; otherwise the proxy is its final recipient. Malformed values are left alone.
pub(super) fn count_hop(method: &str, fields: &mut [Field]) -> bool {
    if !matches!(method, "OPTIONS" | "TRACE") {
        return true;
    }
    for field in fields {
        let is_number = !field.value.is_empty() && field.value.iter().all(u8::is_ascii_digit);
        if *field.name != *b"max-forwards" || !is_number {
            continue;
        }
        // Numbers beyond 64 bits become the largest that we count.
        let left = number(&field.value).unwrap_or(u64::MAX);
        let Some(left) = left.checked_sub(1) else {
            return false;
        };
        field.value = Bytes::from(left.to_string());
    }
    true
}

/// The trailers to pass on: none that affect framing, routing or the connection (RFC 9110, section 6.5.1).
pub(super) fn of_trailers(mut fields: Vec<Field>) -> Vec<Field> {
    fields.retain(|field| {
        !matches!(
            &*field.name,
            b"host" | b"content-length" | b"te" | b"trailer" | b"expect"
        ) && !is_of_one_hop(&field.name)
    });
    fields
}

fn field(name: &'static [u8], value: impl Into<Bytes>) -> Field {
    Field {
        name: Bytes::from_static(name),
        value: value.into(),
    }
}

/// The `via` field: the version over which the message arrived (HTTP may omit the protocol's name), and ourselves.
fn via(version: Version) -> Field {
    let value = match version {
        Version::Http1 => "1.1 squall",
        Version::Http2 => "2 squall",
        Version::Http3 => "3 squall",
    };
    field(b"via", value)
}

/// Whether a field is hop-by-hop by its name (RFC 9110, section 7.6.1; RFC 7540, section 3.2.1).
fn is_of_one_hop(name: &[u8]) -> bool {
    matches!(
        name,
        b"connection"
            | b"keep-alive"
            | b"proxy-connection"
            | b"transfer-encoding"
            | b"upgrade"
            | b"http2-settings"
    )
}

/// The names that `connection` fields declare hop-by-hop; usually none.
fn nominated(fields: &[Field]) -> Vec<Vec<u8>> {
    let is_usual = |name: &[u8]| {
        name.is_empty()
            || [&b"close"[..], b"keep-alive"]
                .iter()
                .any(|n| name.eq_ignore_ascii_case(n))
    };
    fields
        .iter()
        .filter(|field| *field.name == *b"connection")
        .flat_map(|field| elements(&field.value))
        .filter(|name| !is_usual(name))
        .map(<[u8]>::to_ascii_lowercase)
        .collect()
}

fn is_among(name: &[u8], nominated: &[Vec<u8>]) -> bool {
    nominated.iter().any(|other| other == name)
}

/// The elements of a list (RFC 9110, section 5.6.1).
fn elements(value: &[u8]) -> impl Iterator<Item = &[u8]> {
    value.split(|b| *b == b',').map(<[u8]>::trim_ascii)
}

fn has_element(value: &[u8], element: &[u8]) -> bool {
    elements(value).any(|one| one.eq_ignore_ascii_case(element))
}

/// A length that the engine has already checked.
fn number(value: &[u8]) -> Option<u64> {
    std::str::from_utf8(value).ok()?.parse().ok()
}

/// Whether the value is a `traceparent` of version 00, or begins like one of a later version.
fn is_traceparent(value: &[u8]) -> bool {
    let is_hex = |range: std::ops::Range<usize>| {
        value[range]
            .iter()
            .all(|b| matches!(b, b'0'..=b'9' | b'a'..=b'f'))
    };
    let is_zero = |range: std::ops::Range<usize>| value[range].iter().all(|b| *b == b'0');
    if value.len() < TRACEPARENT_BYTES {
        return false;
    }
    let has_dashes = [2, 35, 52].iter().all(|at| value[*at] == b'-');
    let has_digits = is_hex(0..2) && is_hex(3..35) && is_hex(36..52) && is_hex(53..55);
    let has_its_length = match &value[..2] {
        b"00" => value.len() == TRACEPARENT_BYTES,
        b"ff" => false,
        _ => value.get(TRACEPARENT_BYTES).is_none_or(|b| *b == b'-'),
    };
    has_dashes && has_digits && has_its_length && !is_zero(3..35) && !is_zero(36..52)
}

/// Joins cookie fields that HTTP/2 or HTTP/3 has split (RFC 9113, section 8.2.3).
fn join_cookies(fields: &mut Vec<Field>) {
    let mut joined = Vec::new();
    fields.retain(|field| {
        let is_cookie = *field.name == *b"cookie";
        if is_cookie {
            if !joined.is_empty() {
                joined.extend_from_slice(b"; ");
            }
            joined.extend_from_slice(&field.value);
        }
        !is_cookie
    });
    fields.push(field(b"cookie", joined));
}

#[cfg(test)]
mod tests {
    use super::*;

    fn fields(pairs: &[(&str, &str)]) -> Vec<Field> {
        pairs
            .iter()
            .map(|(name, value)| Field::new(name, value))
            .collect()
    }

    fn pairs(fields: &[Field]) -> Vec<(String, String)> {
        let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
        fields
            .iter()
            .map(|field| (text(&field.name), text(&field.value)))
            .collect()
    }

    fn passed(given: &[(&str, &str)]) -> Vec<(String, String)> {
        let mut ids = IdGenerator::new(7);
        let fields = of_request(fields(given), Version::Http1, &mut ids).unwrap();
        pairs(&fields.fields)
    }

    fn has(passed: &[(String, String)], name: &str, value: &str) -> bool {
        passed.iter().any(|(n, v)| n == name && v == value)
    }

    #[test]
    fn hop_by_hop_fields_are_removed() {
        let passed = passed(&[
            ("host", "a:80"),
            ("connection", "close, X-Mine"),
            ("connection", "x-other"),
            ("x-mine", "1"),
            ("x-other", "2"),
            ("keep-alive", "timeout=5"),
            ("proxy-connection", "keep-alive"),
            ("transfer-encoding", "chunked"),
            ("upgrade", "h2c"),
            ("http2-settings", "AAM"),
            ("te", "gzip, Trailers"),
            ("expect", "100-continue"),
            ("content-length", "3"),
            ("accept", "*/*"),
        ]);
        let names: Vec<&str> = passed.iter().map(|(name, _)| name.as_str()).collect();
        assert_eq!(
            names,
            ["te", "accept", "via", "x-request-id", "traceparent"]
        );
        assert!(has(&passed, "te", "trailers") && has(&passed, "via", "1.1 squall"));
    }

    #[test]
    fn ids_are_kept_or_generated() {
        let trace = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0b9902b7-01";
        let passed_on = passed(&[
            ("x-request-id", "mine"),
            ("traceparent", trace),
            ("tracestate", "a=b"),
        ]);
        assert!(has(&passed_on, "x-request-id", "mine") && has(&passed_on, "traceparent", trace));
        assert!(has(&passed_on, "tracestate", "a=b"));
        assert_eq!(passed_on.len(), 4);
        for bad in [
            "",
            "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0b9902b7",
            "00-00000000000000000000000000000000-00f067aa0b9902b7-01",
            "00-4bf92f3577b34da6a3ce929d0e0e4736-0000000000000000-01",
            "ff-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0b9902b7-01",
            "00-4BF92f3577b34da6a3ce929d0e0e4736-00f067aa0b9902b7-01",
            "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0b9902b7-01-x",
        ] {
            let begun = passed(&[("traceparent", bad), ("tracestate", "a=b")]);
            let value = &begun
                .iter()
                .find(|(name, _)| name == "traceparent")
                .unwrap()
                .1;
            assert!(is_traceparent(value.as_bytes()) && value != bad, "{bad}");
            assert!(!begun.iter().any(|(name, _)| name == "tracestate"));
        }
        let twice = passed(&[("traceparent", trace), ("traceparent", trace)]);
        assert!(!has(&twice, "traceparent", trace));
    }

    #[test]
    fn hosts_must_agree_and_cookies_are_joined() {
        let mut ids = IdGenerator::new(0);
        let two = fields(&[("host", "a"), ("host", "b")]);
        assert_eq!(
            of_request(two, Version::Http2, &mut ids).unwrap_err(),
            AmbiguousHost
        );
        let same = fields(&[
            ("host", "a"),
            ("cookie", "x=1"),
            ("host", "a"),
            ("cookie", "y=2"),
        ]);
        let found = of_request(same, Version::Http2, &mut ids).unwrap();
        assert_eq!(found.authority.as_deref(), Some("a"));
        assert!(has(&pairs(&found.fields), "cookie", "x=1; y=2"));
        let none = of_request(fields(&[("host", "")]), Version::Http1, &mut ids).unwrap();
        assert_eq!(none.authority, None);
    }

    #[test]
    fn responses_lose_hop_by_hop_fields_too() {
        let given = fields(&[
            ("connection", "x-mine"),
            ("x-mine", "1"),
            ("content-length", "12"),
            ("trailer", "x-sum"),
            ("via", "1.0 other"),
        ]);
        let found = of_response(given, Version::Http3);
        assert_eq!(found.length, Some(12));
        let found = pairs(&found.fields);
        assert_eq!(found.len(), 3);
        assert!(has(&found, "via", "1.0 other") && has(&found, "via", "3 squall"));
        let trailers = of_trailers(fields(&[("content-length", "1"), ("x-sum", "2")]));
        assert_eq!(pairs(&trailers).len(), 1);
    }

    #[test]
    fn transfer_codings_other_than_chunked_are_noticed() {
        for (codings, is_coded) in [
            (&["chunked"][..], false),
            (&["Chunked"], false),
            (&["gzip, chunked"], true),
            (&["gzip", "chunked"], true),
            (&["gzip"], true),
        ] {
            let given: Vec<_> = codings.iter().map(|c| ("transfer-encoding", *c)).collect();
            let found = of_response(fields(&given), Version::Http1);
            assert_eq!(found.is_coded, is_coded, "{codings:?}");
            assert!(!has(&pairs(&found.fields), "transfer-encoding", codings[0]));
        }
        assert!(!of_response(Vec::new(), Version::Http2).is_coded);
    }

    #[test]
    fn hops_are_counted_in_max_forwards() {
        let counted = |method, value: &str| {
            let mut given = fields(&[("max-forwards", value)]);
            let may_pass = count_hop(method, &mut given);
            may_pass.then(|| String::from_utf8_lossy(&given[0].value).into_owned())
        };
        for method in ["OPTIONS", "TRACE"] {
            assert_eq!(counted(method, "0"), None);
            assert_eq!(counted(method, "000"), None);
            assert_eq!(counted(method, "1").as_deref(), Some("0"));
            assert_eq!(counted(method, "10").as_deref(), Some("9"));
            let most = (u64::MAX - 1).to_string();
            assert_eq!(counted(method, &"9".repeat(30)), Some(most));
            for malformed in ["", "-1", "x", "1, 0"] {
                assert_eq!(counted(method, malformed).as_deref(), Some(malformed));
            }
        }
        assert_eq!(counted("GET", "0").as_deref(), Some("0"));
        assert!(count_hop("OPTIONS", &mut []));
    }
}
