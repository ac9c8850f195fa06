//! A request to send: one of a load, sent many times from one serialised form, or one that a proxy relays.
//!
//! Its content is checked here and in `fields`. When a request is sent, and on which connection, is decided elsewhere.
//! `response` is its counterpart, `wire` the serialised form for HTTP/1.1.

use std::sync::{Arc, OnceLock};

use squall_base::plan::message::{
    MAX_HEADERS, MAX_HEADERS_BYTES, MAX_METHOD_LEN_BYTES, MAX_TARGET_LEN_BYTES, is_method,
    is_target,
};
use squall_base::traceparent::{self, TRACEPARENT};
use squall_nghttp2::HeaderBlock;

use super::fields;
use super::{Body, Wire};
use crate::error::MessageError;
use crate::event::Field;
use crate::h1::{MAX_FIELDS, MAX_HEAD_BYTES};
use crate::section;
use crate::values::grpc;

/// The longest authority: a host name of 253 characters (RFC 1035, section 2.3.4, without its final dot) and a port.
const MAX_AUTHORITY_LEN_BYTES: usize = 259;

// Every request that passes the checks fits our own HTTP/1.1 server, and nghttp2, whose limit is also 64 KiB. The extra
// kilobyte covers the names of pseudo-header fields, the content-length, and the 12 bytes that nghttp2 counts for each
// field we add.
const _: () = assert!(
    MAX_HEADERS + 2 <= MAX_FIELDS
        && MAX_HEADERS_BYTES
            + MAX_METHOD_LEN_BYTES
            + MAX_TARGET_LEN_BYTES
            + MAX_AUTHORITY_LEN_BYTES
            + 1024
            <= MAX_HEAD_BYTES
);

/// Upper bound on the length of a head without the variable parts of its request line and its fields: ` HTTP/1.1`,
/// `host`, `connection: te`, `transfer-encoding: chunked` and line ends.
const MOST_FIXED_BYTES: usize = 80;

squall_base::words! {
    /// How a request's target is reached (RFC 9110, section 4.2); HTTP/2 and HTTP/3 send it as `:scheme`.
    #[derive(Clone, Copy, Debug, PartialEq, Eq)]
    pub enum Scheme {
        /// Cleartext.
        Http = "http",
        /// Over TLS.
        Https = "https",
    }
}

/// A validated request, serialised on demand for each protocol. Share it with `Arc`.
#[derive(Debug)]
pub struct Request {
    body: Body,
    method: String,
    scheme: Scheme,
    authority: String,
    target: String,
    fields: Vec<Field>,
    /// Whether the last field is a content-length added here.
    has_length: bool,
    /// Whether the request is relayed, or otherwise carries ids that no other request has.
    is_relayed: bool,
    h1: OnceLock<Arc<Wire>>,
    h2: OnceLock<HeaderBlock>,
}

/// The request line of a relayed request.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RequestLine {
    /// The method.
    pub method: String,
    /// How the target is reached.
    pub scheme: Scheme,
    /// The host that the request is for, with its port.
    pub authority: String,
    /// The path and query, or `*` for OPTIONS.
    pub target: String,
}

impl Request {
    /// A request of `method` for `target` (a path and query, or `*` for OPTIONS) at `authority`. Names of `headers` must
    /// be in lower case. They must not include `host`, `content-length` or hop-by-hop fields, which are added here; only
    /// `te: trailers` is allowed. [`squall_base::plan::message`] documents what a message may contain.
    ///
    /// A content-length is sent with every body and with every POST, PUT and PATCH (RFC 9110, section 8.6).
    pub fn new(
        method: &str,
        scheme: Scheme,
        authority: &str,
        target: &str,
        headers: &[(String, String)],
        body: impl Into<Body>,
    ) -> Result<Request, MessageError> {
        fields::check_request(headers)?;
        let line = RequestLine {
            method: method.to_owned(),
            scheme,
            authority: authority.to_owned(),
            target: target.to_owned(),
        };
        Request::of(line, fields::owned_fields(headers), body.into())
    }

    /// A request that an intermediary relays. `fields` are the message's fields without hop-by-hop ones (RFC 9110,
    /// section 7.6.1), and without `host` and `content-length`, which are added here as in [`Request::new`]. `te:
    /// trailers` is allowed. The number of fields is not limited.
    pub fn relayed(
        line: RequestLine,
        fields: Vec<Field>,
        body: Body,
    ) -> Result<Request, MessageError> {
        fields::check_relayed(&fields)?;
        Ok(Request {
            is_relayed: true,
            ..Request::of(line, fields, body)?
        })
    }

    /// A copy of this request with a `traceparent` that identifies it by its position in the schedule. `None` if it
    /// already has one, or no room for another field. Each copy is serialised separately, because its field is unique.
    pub fn traced(&self, request: u64) -> Option<Request> {
        let has_one = |field: &Field| *field.name == *TRACEPARENT.as_bytes();
        // `host` is a field too, and so is the `connection` that accompanies `te`.
        let has_room = self.fields.len() + 2 + usize::from(self.has_te()) <= MAX_FIELDS;
        if !has_room || self.fields.iter().any(has_one) {
            return None;
        }
        let mut fields = self.fields.clone();
        let before_length = fields.len() - usize::from(self.has_length);
        fields.insert(
            before_length,
            Field::new(TRACEPARENT, traceparent::traceparent(request)),
        );
        Some(Request {
            body: self.body.clone(),
            method: self.method.clone(),
            scheme: self.scheme,
            authority: self.authority.clone(),
            target: self.target.clone(),
            fields,
            has_length: self.has_length,
            is_relayed: true,
            h1: OnceLock::new(),
            h2: OnceLock::new(),
        })
    }

    fn of(line: RequestLine, mut fields: Vec<Field>, body: Body) -> Result<Request, MessageError> {
        let RequestLine {
            method,
            scheme,
            authority,
            target,
        } = line;
        if method == "CONNECT" {
            return Err(MessageError::Connect);
        }
        if !is_method(&method) {
            return Err(MessageError::Method(method));
        }
        if !is_authority(&authority) {
            return Err(MessageError::Authority(authority));
        }
        if target.len() > MAX_TARGET_LEN_BYTES {
            return Err(MessageError::TargetTooLong(target.len()));
        }
        if !is_target(&target) && (method.as_str(), target.as_str()) != ("OPTIONS", "*") {
            return Err(MessageError::Target(target));
        }
        let states_length = !body.is_empty() || matches!(method.as_str(), "POST" | "PUT" | "PATCH");
        let length = body.length().filter(|_| states_length);
        fields.extend(length.map(fields::content_length));
        Ok(Request {
            body,
            method,
            scheme,
            authority,
            target,
            fields,
            has_length: length.is_some(),
            is_relayed: false,
            h1: OnceLock::new(),
            h2: OnceLock::new(),
        })
    }

    /// The body.
    pub fn body(&self) -> &Body {
        &self.body
    }

    /// The method.
    pub fn method(&self) -> &str {
        &self.method
    }

    /// Whether the response has no body regardless of its header fields.
    pub(crate) fn is_head(&self) -> bool {
        self.method == "HEAD"
    }

    /// Whether the request is a gRPC call, by its content type.
    pub fn is_grpc(&self) -> bool {
        grpc::has_grpc_type(&self.fields)
    }

    /// Whether the server is asked for a 100 (Continue) before the body is sent (RFC 9110, section 10.1.1).
    pub fn expects_continue(&self) -> bool {
        self.fields.iter().any(|field| {
            *field.name == *b"expect" && field.value.eq_ignore_ascii_case(b"100-continue")
        })
    }

    fn has_te(&self) -> bool {
        self.fields.iter().any(|field| *field.name == *b"te")
    }

    /// All fields, pseudo-header fields first, as HTTP/2 and HTTP/3 send them.
    pub(crate) fn pairs(&self) -> impl Iterator<Item = (&[u8], &[u8])> + Clone {
        let pseudo = [
            (":method", self.method.as_str()),
            (":scheme", self.scheme.name()),
            (":authority", &self.authority),
            (":path", &self.target),
        ];
        let pseudo = pseudo.map(|(name, value)| (name.as_bytes(), value.as_bytes()));
        pseudo.into_iter().chain(fields::pairs(&self.fields))
    }

    /// All fields, pseudo-header fields first, for displaying what was sent.
    pub fn sent_fields(&self) -> Vec<Field> {
        section::build_section(self.pairs())
    }

    pub(crate) fn h1(&self) -> &Arc<Wire> {
        self.h1.get_or_init(|| {
            let (length, others) = match self.fields.split_last() {
                Some((length, others)) if self.has_length => (Some(length), others),
                _ => (None, self.fields.as_slice()),
            };
            let line = self.method.len() + self.target.len() + self.authority.len();
            let len = line + fields::lines_len(&self.fields) + MOST_FIXED_BYTES;
            let mut start = Vec::with_capacity(Wire::room_for(len, &self.body));
            for part in [
                &self.method,
                " ",
                &self.target,
                " HTTP/1.1\r\nhost: ",
                &self.authority,
            ] {
                start.extend_from_slice(part.as_bytes());
            }
            start.extend_from_slice(b"\r\n");
            fields::write_lines(&mut start, others);
            if self.has_te() {
                // RFC 9110, section 10.1.4.
                start.extend_from_slice(b"connection: te\r\n");
            }
            let framing_at = start.len();
            fields::write_framing(&mut start, length, &self.body);
            Arc::new(Wire::new(start, framing_at, &self.body))
        })
    }

    pub(crate) fn h2(&self) -> &HeaderBlock {
        self.h2.get_or_init(|| {
            if self.is_relayed {
                fields::relayed_block(self.pairs())
            } else {
                fields::block(self.pairs())
            }
        })
    }
}

/// Whether this consists of visible ASCII characters that cannot begin another part of a URI.
fn is_authority(text: &str) -> bool {
    (1..=MAX_AUTHORITY_LEN_BYTES).contains(&text.len())
        && text
            .bytes()
            .all(|b| b.is_ascii_graphic() && !b"/?#@".contains(&b))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn request(
        method: &str,
        authority: &str,
        target: &str,
        header: (&str, &str),
    ) -> Result<Request, MessageError> {
        let headers = [(header.0.to_owned(), header.1.to_owned())];
        Request::new(
            method,
            Scheme::Http,
            authority,
            target,
            &headers,
            b"hi".to_vec(),
        )
    }

    #[test]
    fn a_request_head_has_host_fields_and_length() {
        let request = request("POST", "server:80", "/a?b", ("accept", "*/*")).unwrap();
        let text = String::from_utf8_lossy(request.h1().piece_from(0)).into_owned();
        assert_eq!(
            text,
            "POST /a?b HTTP/1.1\r\nhost: server:80\r\naccept: */*\r\ncontent-length: 2\r\n\r\nhi"
        );
        assert_eq!(request.h2().len(), 6);
    }

    /// RFC 9110, section 10.1.4; RFC 9113, section 8.2.2.
    #[test]
    fn te_trailers_is_sent_over_every_protocol() {
        let request = request("POST", "a", "/", ("te", "trailers")).unwrap();
        let text = String::from_utf8_lossy(request.h1().piece_from(0)).into_owned();
        assert_eq!(
            text,
            "POST / HTTP/1.1\r\nhost: a\r\nte: trailers\r\nconnection: te\r\ncontent-length: 2\r\n\r\nhi"
        );
        let mut fields = request.pairs();
        assert!(fields.any(|field| matches!(field, (b"te", b"trailers"))));
        assert!(!request.pairs().any(|(name, _)| *name == *b"connection"));
    }

    #[test]
    fn reserved_header_errors_state_the_reason() {
        for (name, reason) in [
            ("host", "is set by the protocol"),
            ("content-length", "is set by the protocol"),
            ("transfer-encoding", "is set by the protocol"),
            ("trailer", "announces trailers"),
            ("connection", "concerns a single connection"),
            ("upgrade", "concerns a single connection"),
            ("te", "can only be \"trailers\""),
        ] {
            let error = request("GET", "a", "/", (name, "x")).unwrap_err();
            let start = format!("the header {name:?} {reason}");
            assert!(error.to_string().starts_with(&start), "{error}");
        }
    }

    #[test]
    fn errors_about_long_texts_stay_short() {
        let long = |start: &str| start.to_owned() + &"x".repeat(8_000);
        let said = |method: &str, authority: &str, target: &str| {
            let error = request(method, authority, target, ("accept", "*/*")).unwrap_err();
            error.to_string()
        };
        let too_long = said("GET", "a", &long("/"));
        assert!(
            too_long.contains("8001 bytes: expected at most 8000"),
            "{too_long}"
        );
        let not_ascii = said("GET", "a", &("/\u{e9}".to_owned() + &"x".repeat(7_000)));
        assert!(not_ascii.contains("visible ASCII"), "{not_ascii}");
        for said in [
            too_long,
            not_ascii,
            said(&long("G"), "a", "/"),
            said("GET", &long("a"), "/"),
        ] {
            assert!(said.len() < 200, "{said}");
        }
    }

    /// Our HTTP/1.1 server would otherwise refuse a message that HTTP/2 carries.
    #[test]
    fn te_counts_as_two_headers() {
        let mut headers = vec![("x".to_owned(), String::new()); MAX_HEADERS - 2];
        headers.push(("te".to_owned(), "trailers".to_owned()));
        let new = |headers: &[(String, String)]| {
            Request::new("POST", Scheme::Http, "a", "/", headers, Body::EMPTY)
        };
        assert!(new(&headers).unwrap().traced(7).is_none());
        headers.push(("x".to_owned(), String::new()));
        assert_eq!(
            new(&headers).unwrap_err(),
            MessageError::TooManyHeaders(MAX_HEADERS + 1)
        );
    }

    #[test]
    fn tracing_a_request_only_adds_a_traceparent() {
        let request = request("POST", "a", "/", ("accept", "*/*")).unwrap();
        let traced = request.traced(7).unwrap();
        let text = String::from_utf8_lossy(traced.h1().piece_from(0)).into_owned();
        let value = traceparent::traceparent(7);
        assert_eq!(
            text,
            format!(
                "POST / HTTP/1.1\r\nhost: a\r\naccept: */*\r\ntraceparent: {value}\r\ncontent-length: 2\r\n\r\nhi"
            )
        );
        assert_eq!(traced.h2().len(), request.h2().len() + 1);
        assert!(traced.traced(8).is_none(), "it has one");
        assert_eq!(crate::traced_request(&traced.sent_fields()), Some(7));
        assert_eq!(crate::traced_request(&request.sent_fields()), None);
    }

    #[test]
    fn inputs_that_could_smuggle_a_request_are_refused() {
        let fine = ("accept", "*/*");
        for (method, authority, target, header) in [
            ("", "a", "/", fine),
            ("GET ", "a", "/", fine),
            ("CONNECT", "a", "/", fine),
            ("GET", "", "/", fine),
            ("GET", "a b", "/", fine),
            ("GET", "user@a", "/", fine),
            ("GET", "a", "", fine),
            ("GET", "a", "x", fine),
            ("GET", "a", "*", fine),
            ("GET", "a", "/ HTTP/1.1", fine),
            ("GET", "a", "/", ("Accept", "x")),
            ("GET", "a", "/", ("", "x")),
            ("GET", "a", "/", (":path", "x")),
            ("GET", "a", "/", ("host", "x")),
            ("GET", "a", "/", ("trailer", "x")),
            ("GET", "a", "/", ("http2-settings", "x")),
            ("GET", "a", "/", ("x", "a\r\nb: c")),
            ("GET", "a", "/", ("x", " a")),
        ] {
            let result = request(method, authority, target, header);
            assert!(
                result.is_err(),
                "{method:?} {authority:?} {target:?} {header:?}"
            );
        }
        let long = "x".repeat(MAX_HEADERS_BYTES);
        assert_eq!(
            request("GET", "a", "/", ("x", &long)).unwrap_err(),
            MessageError::HeadersTooLong(MAX_HEADERS_BYTES + 33)
        );
    }
}
