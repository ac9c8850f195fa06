//! A request that a client sends, many times.

use std::sync::Arc;

use squall_base::plan::message::{
    MAX_HEADERS, MAX_HEADERS_BYTES, MAX_METHOD_LEN_BYTES, MAX_TARGET_LEN_BYTES, is_method,
    is_target,
};
use squall_nghttp2::HeaderBlock;

use super::fields;
use super::{Body, Wire};
use crate::error::MessageError;
use crate::event::Field;
use crate::h1::{MAX_FIELDS, MAX_HEAD_BYTES};

/// The longest authority: a host name of 253 characters (RFC 1035, section 2.3.4, without its final dot)
/// and a port.
const MAX_AUTHORITY_LEN_BYTES: usize = 259;

// What is not refused fits our own HTTP/1.1 side, and nghttp2, whose limit is 64 KiB as well. A kilobyte is
// for the names of the pseudo-header fields, the content-length, and the 12 bytes that nghttp2 counts for
// each field that we add.
const _: () = assert!(
    MAX_HEADERS + 2 <= MAX_FIELDS
        && MAX_HEADERS_BYTES
            + MAX_METHOD_LEN_BYTES
            + MAX_TARGET_LEN_BYTES
            + MAX_AUTHORITY_LEN_BYTES
            + 1024
            <= MAX_HEAD_BYTES
);

/// How a request's target is reached (RFC 9110, section 4.2): what HTTP/2 and HTTP/3 state as `:scheme`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Scheme {
    /// In the clear.
    Http,
    /// Over TLS.
    Https,
}

impl Scheme {
    /// Its word.
    pub const fn name(self) -> &'static str {
        match self {
            Scheme::Http => "http",
            Scheme::Https => "https",
        }
    }
}

/// A request, checked and serialised for every protocol. Share it by `Arc`.
#[derive(Debug)]
pub struct Request {
    body: Body,
    is_head: bool,
    fields: Vec<(String, String)>,
    h1: Arc<Wire>,
    h2: HeaderBlock,
}

impl Request {
    /// A request of `method` for `target` (a path and query, or `*` for OPTIONS) at `authority`. Names of `headers`
    /// are in lower case; `host`, `content-length` and the fields of one hop are set here. What a message
    /// may hold is in [`squall_base::plan::message`].
    ///
    /// A content-length is sent with every body and with every POST, PUT and PATCH (RFC 9110,
    /// section 8.6).
    pub fn new(
        method: &str,
        scheme: Scheme,
        authority: &str,
        target: &str,
        headers: &[(String, String)],
        body: impl Into<Body>,
    ) -> Result<Request, MessageError> {
        let body = body.into();
        if method == "CONNECT" {
            return Err(MessageError::Connect);
        }
        if !is_method(method) {
            return Err(MessageError::Method(method.to_owned()));
        }
        if !is_authority(authority) {
            return Err(MessageError::Authority(authority.to_owned()));
        }
        if !is_target(target) && (method, target) != ("OPTIONS", "*") {
            return Err(MessageError::Target(target.to_owned()));
        }
        fields::check(headers)?;

        let states_length = !body.is_empty() || matches!(method, "POST" | "PUT" | "PATCH");
        let length = body.length().filter(|_| states_length);
        let length = length.map(|length| length.to_string());
        let length = length.as_deref().map(|length| ("content-length", length));

        let mut start = format!("{method} {target} HTTP/1.1\r\nhost: {authority}\r\n");
        fields::write_lines(&mut start, headers);

        let pseudo = [
            (":method", method),
            (":scheme", scheme.name()),
            (":authority", authority),
            (":path", target),
        ];
        let fields: Vec<(String, String)> = pseudo
            .into_iter()
            .chain(fields::as_pairs(headers))
            .chain(length)
            .map(|(name, value)| (name.to_owned(), value.to_owned()))
            .collect();
        Ok(Request {
            is_head: method == "HEAD",
            h1: Arc::new(Wire::new(
                &start,
                &fields::framing_line(length, &body),
                &body,
            )),
            h2: fields::block(fields::as_pairs(&fields)),
            fields,
            body,
        })
    }

    /// The body.
    pub fn body(&self) -> &Body {
        &self.body
    }

    /// Whether its response has no body whatever its header fields say.
    pub(crate) fn is_head(&self) -> bool {
        self.is_head
    }

    /// All fields, pseudo-header fields first, as HTTP/2 and HTTP/3 send them.
    pub(crate) fn fields(&self) -> &[(String, String)] {
        &self.fields
    }

    /// All fields, pseudo-header fields first, for those who show what was sent.
    pub fn sent_fields(&self) -> Vec<Field> {
        let field = |(name, value): &(String, String)| Field {
            name: name.as_bytes().into(),
            value: value.as_bytes().into(),
        };
        self.fields.iter().map(field).collect()
    }

    pub(crate) fn h1(&self) -> &Arc<Wire> {
        &self.h1
    }

    pub(crate) fn h2(&self) -> &HeaderBlock {
        &self.h2
    }
}

/// Visible ASCII characters that cannot begin another part of a URI.
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
    fn the_head_is_what_one_would_write() {
        let request = request("POST", "server:80", "/a?b", ("accept", "*/*")).unwrap();
        let text = String::from_utf8_lossy(request.h1().piece_from(0)).into_owned();
        assert_eq!(
            text,
            "POST /a?b HTTP/1.1\r\nhost: server:80\r\naccept: */*\r\ncontent-length: 2\r\n\r\nhi"
        );
        assert_eq!(request.h2().len(), 6);
    }

    #[test]
    fn what_could_smuggle_is_refused() {
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
            MessageError::HeadersTooLong {
                bytes: MAX_HEADERS_BYTES + 33
            }
        );
    }
}
