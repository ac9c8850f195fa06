//! What a server says to a client whose request it does not take, before it ends the connection.

use httparse::Error;

use crate::error::ConnectionError;

/// A whole response, and how much of it is written.
#[derive(Clone, Copy, Debug)]
pub(super) struct Refusal {
    pub(super) status: u16,
    text: &'static [u8],
    written: usize,
}

/// The refusal with this status and reason.
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
const NOT_IMPLEMENTED: Refusal = refusal!(501, "Not Implemented");
const VERSION_NOT_SUPPORTED: Refusal = refusal!(505, "HTTP Version Not Supported");

impl Refusal {
    pub(super) fn pending(&self) -> &[u8] {
        &self.text[self.written..]
    }

    pub(super) fn has_begun(&self) -> bool {
        self.written > 0
    }

    /// Counts the first `n` bytes of what is pending.
    pub(super) fn advance(&mut self, n: usize) {
        self.written += n;
    }
}

/// The response to a request that is refused so; `None` if there is nobody to tell.
pub(super) fn last_word(error: &ConnectionError) -> Option<Refusal> {
    match error {
        ConnectionError::Head(Error::Version) => Some(VERSION_NOT_SUPPORTED),
        ConnectionError::Connect | ConnectionError::TransferCoding => Some(NOT_IMPLEMENTED),
        // What is too large as well: "an appropriate 4xx" (RFC 9110, section 5.4), and nginx and HAProxy say 400.
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
