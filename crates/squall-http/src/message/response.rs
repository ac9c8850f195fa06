//! A response to send: one of a site, sent many times from one serialised form, or one that a proxy relays.
//!
//! It does not know which request it answers. `request` is its counterpart, `wire` the serialised form for HTTP/1.1,
//! `interim` a response with a status below 200.

use std::sync::{Arc, OnceLock};

use squall_nghttp2::HeaderBlock;

use super::fields;
use super::{Body, Wire};
use crate::error::MessageError;
use crate::event::Field;

/// Upper bound on the length of a head without its fields: the status line, `transfer-encoding: chunked` and line ends.
const MOST_FIXED_BYTES: usize = 80;

/// A validated response, serialised on demand for each protocol. Share it with `Arc`.
#[derive(Debug)]
pub struct Response {
    body: Body,
    status: u16,
    /// The status in digits.
    code: String,
    fields: Vec<Field>,
    /// Whether the last field is a content-length added here.
    has_length: bool,
    /// Built on first use, because it copies the first bytes of the body.
    h1: OnceLock<Arc<Wire>>,
    h2: OnceLock<HeaderBlock>,
}

impl Response {
    /// A final response. Names of `headers` must be in lower case. `content-length` is added here, except for status
    /// 204, which must not have it, and 304, where it would be the length of another response (RFC 9110, section 8.6).
    /// [`squall_base::plan::message`] documents what a message may contain.
    pub fn new(
        status: u16,
        headers: &[(String, String)],
        body: impl Into<Body>,
    ) -> Result<Response, MessageError> {
        fields::check_response(headers)?;
        Response::of(status, fields::owned_fields(headers), body.into())
    }

    /// A response that an intermediary relays. `fields` are the message's fields without hop-by-hop ones (RFC 9110,
    /// section 7.6.1) and without `content-length`, which is added here as in [`Response::new`]. Their number is not
    /// limited.
    pub fn relayed(status: u16, fields: Vec<Field>, body: Body) -> Result<Response, MessageError> {
        fields::check_relayed(&fields)?;
        Response::of(status, fields, body)
    }

    fn of(status: u16, mut fields: Vec<Field>, body: Body) -> Result<Response, MessageError> {
        if !(200..=599).contains(&status) {
            return Err(MessageError::Status(status));
        }
        if matches!(status, 204 | 304) && !body.is_empty() {
            return Err(MessageError::BodyForbidden(status));
        }
        let states_length = !matches!(status, 204 | 304);
        let length = body.length().filter(|_| states_length);
        fields.extend(length.map(fields::content_length));
        Ok(Response {
            body,
            status,
            code: status.to_string(),
            fields,
            has_length: length.is_some(),
            h1: OnceLock::new(),
            h2: OnceLock::new(),
        })
    }

    /// The body.
    pub fn body(&self) -> &Body {
        &self.body
    }

    /// The status code.
    pub fn status(&self) -> u16 {
        self.status
    }

    /// All fields, `:status` first, as HTTP/2 and HTTP/3 send them.
    pub(crate) fn pairs(&self) -> impl Iterator<Item = (&[u8], &[u8])> + Clone {
        let status = (&b":status"[..], self.code.as_bytes());
        std::iter::once(status).chain(fields::pairs(&self.fields))
    }

    pub(crate) fn h1(&self) -> &Arc<Wire> {
        self.h1.get_or_init(|| {
            let len = fields::lines_len(&self.fields) + MOST_FIXED_BYTES;
            let mut start = Vec::with_capacity(Wire::room_for(len, &self.body));
            for part in ["HTTP/1.1 ", &self.code, " ", reason(self.status), "\r\n"] {
                start.extend_from_slice(part.as_bytes());
            }
            let (length, others) = match self.fields.split_last() {
                Some((length, others)) if self.has_length => (Some(length), others),
                _ => (None, self.fields.as_slice()),
            };
            fields::write_lines(&mut start, others);
            let framing_at = start.len();
            fields::write_framing(&mut start, length, &self.body);
            Arc::new(Wire::new(start, framing_at, &self.body))
        })
    }

    pub(crate) fn h2(&self) -> &HeaderBlock {
        self.h2.get_or_init(|| fields::block(self.pairs()))
    }
}

/// The usual reason phrase of the statuses that a test server sends; an empty one works just as well (RFC 9112, section
/// 4).
pub(super) fn reason(status: u16) -> &'static str {
    match status {
        100 => "Continue",
        103 => "Early Hints",
        200 => "OK",
        201 => "Created",
        202 => "Accepted",
        204 => "No Content",
        304 => "Not Modified",
        400 => "Bad Request",
        404 => "Not Found",
        429 => "Too Many Requests",
        500 => "Internal Server Error",
        502 => "Bad Gateway",
        503 => "Service Unavailable",
        504 => "Gateway Timeout",
        _ => "",
    }
}

#[cfg(test)]
mod tests {
    use squall_base::plan::message::MAX_HEADERS;

    use super::*;

    fn head(status: u16, body: &[u8]) -> String {
        let response = Response::new(status, &[], body.to_vec()).unwrap();
        String::from_utf8_lossy(response.h1().piece_from(0)).into_owned()
    }

    #[test]
    fn heads_have_a_status_line_and_a_length_unless_204_or_304() {
        assert_eq!(
            head(200, b"hi"),
            "HTTP/1.1 200 OK\r\ncontent-length: 2\r\n\r\nhi"
        );
        assert_eq!(head(204, b""), "HTTP/1.1 204 No Content\r\n\r\n");
        assert_eq!(head(304, b""), "HTTP/1.1 304 Not Modified\r\n\r\n");
        assert_eq!(head(299, b""), "HTTP/1.1 299 \r\ncontent-length: 0\r\n\r\n");
    }

    #[test]
    fn impossible_responses_are_refused() {
        let body = b"x".to_vec();
        for status in [0, 100, 101, 199, 204, 304, 600] {
            assert!(
                Response::new(status, &[], body.clone()).is_err(),
                "{status}"
            );
        }
        let te = [("te".to_owned(), "trailers".to_owned())];
        assert!(
            Response::new(200, &te, Body::EMPTY).is_err(),
            "te is a field of requests"
        );
        let many = vec![("x".to_owned(), String::new()); MAX_HEADERS + 1];
        assert_eq!(
            Response::new(200, &many, Body::EMPTY).unwrap_err(),
            MessageError::TooManyHeaders(MAX_HEADERS + 1)
        );
    }
}
