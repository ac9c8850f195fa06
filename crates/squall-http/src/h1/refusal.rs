//! What a server says to a client whose request it does not take, before it ends the connection.

use httparse::Error;

use crate::error::ConnectionError;

/// A whole response of this status line.
macro_rules! refusal {
    ($status:literal) => {
        concat!(
            "HTTP/1.1 ",
            $status,
            "\r\ncontent-length: 0\r\nconnection: close\r\n\r\n"
        )
        .as_bytes()
    };
}

const BAD_REQUEST: &[u8] = refusal!("400 Bad Request");
const NOT_IMPLEMENTED: &[u8] = refusal!("501 Not Implemented");
const VERSION_NOT_SUPPORTED: &[u8] = refusal!("505 HTTP Version Not Supported");

/// The response to a request that is refused so; `None` if there is nobody to tell.
pub(super) fn last_word(error: &ConnectionError) -> Option<&'static [u8]> {
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
