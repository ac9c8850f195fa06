//! A response that a server sends, many times.

use std::fmt::Write as _;
use std::sync::Arc;

use squall_nghttp2::HeaderBlock;

use super::Wire;
use super::fields;
use crate::error::MessageError;

/// A response, checked and serialised for both protocols. Share it by `Arc`.
#[derive(Debug)]
pub struct Response {
    body: Arc<[u8]>,
    /// For a connection that goes on, and for one that ends with this response.
    h1_keep: Wire,
    h1_close: Wire,
    h2: HeaderBlock,
}

impl Response {
    /// A final response. Names of `headers` are in lower case; `content-length` is set here, always but
    /// for status 204, which must not have it (RFC 9110, section 8.6). What a message may hold is in
    /// [`squall_base::plan::message`].
    pub fn new(
        status: u16,
        headers: &[(String, String)],
        body: Arc<[u8]>,
    ) -> Result<Response, MessageError> {
        if !(200..=599).contains(&status) {
            return Err(MessageError::Status(status));
        }
        if matches!(status, 204 | 304) && !body.is_empty() {
            return Err(MessageError::BodyForbidden(status));
        }
        fields::check(headers)?;

        let length = (status != 204).then(|| body.len().to_string());
        let length = length.as_deref().map(|length| ("content-length", length));
        let head = |extra: &str| {
            let mut head = format!("HTTP/1.1 {status} {}\r\n", reason(status));
            for (name, value) in fields::as_pairs(headers).chain(length) {
                let _ = write!(head, "{name}: {value}\r\n");
            }
            head + extra + "\r\n"
        };
        let (keep, close) = (head(""), head("connection: close\r\n"));

        let status = status.to_string();
        let pseudo = (":status", status.as_str());
        let block = [pseudo]
            .into_iter()
            .chain(fields::as_pairs(headers))
            .chain(length);
        Ok(Response {
            h1_keep: Wire::new(&keep, &body),
            h1_close: Wire::new(&close, &body),
            h2: fields::block(block),
            body,
        })
    }

    /// The body.
    pub fn body(&self) -> &Arc<[u8]> {
        &self.body
    }

    pub(crate) fn h1_keep(&self) -> &Wire {
        &self.h1_keep
    }

    pub(crate) fn h1_close(&self) -> &Wire {
        &self.h1_close
    }

    pub(crate) fn h2(&self) -> &HeaderBlock {
        &self.h2
    }
}

/// The usual phrase of the statuses that a test server sends; empty is as good (RFC 9112, section 4).
fn reason(status: u16) -> &'static str {
    match status {
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
        let response = Response::new(status, &[], Arc::from(body)).unwrap();
        String::from_utf8_lossy(response.h1_keep().piece_from(0)).into_owned()
    }

    #[test]
    fn heads_are_what_one_would_write() {
        assert_eq!(
            head(200, b"hi"),
            "HTTP/1.1 200 OK\r\ncontent-length: 2\r\n\r\nhi"
        );
        assert_eq!(head(204, b""), "HTTP/1.1 204 No Content\r\n\r\n");
        assert_eq!(head(299, b""), "HTTP/1.1 299 \r\ncontent-length: 0\r\n\r\n");
    }

    #[test]
    fn impossible_responses_are_refused() {
        let body: Arc<[u8]> = Arc::from(&b"x"[..]);
        for status in [0, 100, 101, 199, 204, 304, 600] {
            assert!(
                Response::new(status, &[], Arc::clone(&body)).is_err(),
                "{status}"
            );
        }
        let many = vec![("x".to_owned(), String::new()); MAX_HEADERS + 1];
        assert_eq!(
            Response::new(200, &many, Arc::from([])).unwrap_err(),
            MessageError::TooManyHeaders(MAX_HEADERS + 1)
        );
    }
}
