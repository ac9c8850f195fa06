//! The error response that a server sends for a request it rejects, before it ends the connection.

use httparse::Error;

use crate::error::ConnectionError;

/// A complete response, and how much of it has been written.
#[derive(Clone, Copy, Debug)]
pub(super) struct Refusal {
    pub(super) status: u16,
    text: &'static [u8],
    written: usize,
}

/// The error response with this status and reason.
macro_rules! refusal {
    ($status:literal, $reason:literal) => {
        Refusal {
            status: $status,
            text: concat!(
                "HTTP/1.1 ",
                $status,
                " ",
                $reason,
                "\r\ncontent-length: 0\r\nconnection: close\r\n\r\n"
            )
            .as_bytes(),
            written: 0,
        }
    };
}

const BAD_REQUEST: Refusal = refusal!(400, "Bad Request");
pub(super) const REQUEST_TIMEOUT: Refusal = refusal!(408, "Request Timeout");
const NOT_IMPLEMENTED: Refusal = refusal!(501, "Not Implemented");
const VERSION_NOT_SUPPORTED: Refusal = refusal!(505, "HTTP Version Not Supported");

impl Refusal {
    pub(super) fn pending(&self) -> &[u8] {
        &self.text[self.written..]
    }

    pub(super) fn has_begun(&self) -> bool {
        self.written > 0
    }

    /// Records that the first `n` pending bytes were written.
    pub(super) fn advance(&mut self, n: usize) {
        self.written += n;
    }
}

/// The response to a request rejected with this error; `None` if none can be sent.
pub(super) fn refusal_for(error: &ConnectionError) -> Option<Refusal> {
    match error {
        ConnectionError::Head(Error::Version) => Some(VERSION_NOT_SUPPORTED),
        ConnectionError::Connect | ConnectionError::TransferCoding => Some(NOT_IMPLEMENTED),
        // Also used for messages that are too large: "an appropriate 4xx" (RFC 9110, section 5.4), and nginx and
        // HAProxy send 400.
        ConnectionError::Head(_)
        | ConnectionError::HeadTooLong
        | ConnectionError::BareLineFeed
        | ConnectionError::Host
        | ConnectionError::Target
        | ConnectionError::BodyLength
        | ConnectionError::Chunk(_)
        | ConnectionError::TooManyPipelined => Some(BAD_REQUEST),
        ConnectionError::UnexpectedEnd
        | ConnectionError::UnexpectedBytes
        | ConnectionError::UnexpectedUpgrade
        | ConnectionError::TooManyInterim
        | ConnectionError::GivenUp
        | ConnectionError::Http2 { .. }
        | ConnectionError::Session(_)
        | ConnectionError::Tls(_)
        | ConnectionError::Quic(_)
        | ConnectionError::Alpn(_)
        | ConnectionError::Create(_) => None,
    }
}
