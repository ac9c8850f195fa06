//! Errors, grouped by which side caused them.
//!
//! [`ConnectionError`] is the peer's fault and ends the connection. [`MessageError`], [`CreateError`], [`SubmitError`]
//! and [`RespondError`] are the caller's. A failed stream is reported as an event, not as an error.

use squall_base::plan::message::{
    MAX_HEADERS, MAX_HEADERS_BYTES, MAX_METHOD_LEN_BYTES, MAX_TARGET_LEN_BYTES, Reservation,
};
use squall_base::text::excerpt;
use thiserror::Error;

use crate::event::StreamId;

/// The peer broke the protocol or disconnected: the connection is over.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum ConnectionError {
    /// The byte stream ended inside an exchange.
    #[error("the peer closed the connection inside an exchange")]
    UnexpectedEnd,
    /// The peer sent bytes that belong to no exchange.
    #[error("the peer sent bytes that belong to no exchange")]
    UnexpectedBytes,
    /// An HTTP/1.1 head could not be parsed.
    #[error("malformed HTTP/1.1 head: {0}")]
    Head(httparse::Error),
    /// An HTTP/1.1 head is longer than [`crate::h1::MAX_HEAD_BYTES`].
    #[error("an HTTP/1.1 head of more than 64 KiB")]
    HeadTooLong,
    /// A line of an HTTP/1.1 head ends with a bare LF, which some implementations accept as the end of a line and
    /// others do not.
    #[error("a line of an HTTP/1.1 head does not end with CRLF")]
    BareLineFeed,
    /// A request's Host field is missing, repeated or not a valid host (RFC 9112, section 3.2).
    #[error("the host of a request is missing, ambiguous or malformed")]
    Host,
    /// A request's target does not have any of the forms of RFC 9112, section 3.2.
    #[error("malformed request target")]
    Target,
    /// The client requested a tunnel.
    #[error("the method CONNECT is not supported")]
    Connect,
    /// A request's body has a transfer coding other than chunked.
    #[error("a request has a transfer coding other than chunked")]
    TransferCoding,
    /// The length of an HTTP/1.1 body is ambiguous or invalid (RFC 9112, section 6.3).
    #[error("the content-length or transfer-encoding is invalid or ambiguous")]
    BodyLength,
    /// A chunked body is malformed.
    #[error("malformed chunked body: {0}")]
    Chunk(#[from] ChunkError),
    /// The server switched to a protocol that was not requested.
    #[error("the server switched protocols without being asked (status 101)")]
    UnexpectedUpgrade,
    /// More interim responses to one request than [`crate::h1::MAX_INTERIM_RESPONSES`].
    #[error("more than 100 interim responses to one request")]
    TooManyInterim,
    /// Not the peer's fault: this side reset an HTTP/1.1 exchange, or ended a body before its announced length.
    #[error("this side gave up the connection")]
    GivenUp,
    /// The client pipelined more requests than [`crate::h1::MAX_PIPELINED`].
    #[error("more than 1,024 requests are waiting for their responses")]
    TooManyPipelined,
    /// An HTTP/2 connection error (RFC 9113, section 5.4.1), which we answer with GOAWAY.
    #[error("HTTP/2 connection error {code}: {reason}")]
    Http2 {
        /// The error code of our GOAWAY (RFC 9113, section 7).
        code: u32,
        /// The peer's fault, as nghttp2 describes it.
        reason: String,
    },
    /// HTTP/2: the session failed.
    #[error(transparent)]
    Session(#[from] squall_nghttp2::Error),
    /// TLS: the handshake failed, or a record could not be decrypted.
    #[error("TLS: {0}")]
    Tls(#[from] crate::tls::TlsError),
    /// HTTP/3: the QUIC connection is over.
    #[error(transparent)]
    Quic(#[from] crate::h3::CloseReason),
    /// ALPN selected a protocol that is not HTTP over TCP.
    #[error("TLS selected the application protocol {0:?}, which was not offered")]
    Alpn(String),
    /// The engine for the negotiated protocol could not be created.
    #[error("cannot set up the negotiated protocol: {0}")]
    Create(#[from] CreateError),
}

impl ConnectionError {
    /// Whether the input is not HTTP/1 at all: it does not even begin with a start line.
    pub fn is_no_message(&self) -> bool {
        use httparse::Error::{NewLine, Token, Version};
        matches!(self, ConnectionError::Head(NewLine | Token | Version))
    }
}

/// A malformed chunked body (RFC 9112, section 7.1).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
pub enum ChunkError {
    /// A hexadecimal chunk size is missing.
    #[error("a chunk does not begin with its size")]
    Size,
    /// A chunk of 2^64 bytes or more.
    #[error("a chunk size beyond 64 bits")]
    TooLong,
    /// The data of a chunk or a line is not followed by CRLF.
    #[error("a line or chunk does not end with CRLF")]
    LineEnd,
    /// A chunk extension or trailer field contains an invalid character.
    #[error("a malformed chunk extension or trailer field")]
    Character,
    /// Too many chunk extensions or trailers.
    #[error("more than 64 KiB of chunk extensions or trailers beyond the data")]
    Overhead,
}

/// A request or response that cannot be sent.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum MessageError {
    /// The method is not a token (RFC 9110, section 9.1), or is too long.
    #[error(
        "{:?} is not a method: expected a token of at most {MAX_METHOD_LEN_BYTES} characters",
        excerpt(.0)
    )]
    Method(String),
    /// CONNECT opens a tunnel, which is not supported.
    #[error("the method CONNECT is not supported")]
    Connect,
    /// The authority is empty, too long, or contains invalid bytes.
    #[error("{:?} is not an authority, such as \"server:8080\"", excerpt(.0))]
    Authority(String),
    /// The target is neither a path nor `*`.
    #[error(
        "{:?} is not a target: it must begin with \"/\" and be visible ASCII characters",
        excerpt(.0)
    )]
    Target(String),
    /// The target has this many bytes, more than common servers accept.
    #[error(
        "the path and query of a URL have {0} bytes: expected at most {MAX_TARGET_LEN_BYTES}; servers commonly refuse \
         longer ones"
    )]
    TargetTooLong(usize),
    /// A header name is not a token in lower case.
    #[error("{0:?} is not a header name in lower case")]
    HeaderName(String),
    /// A header that a message must not contain, such as one that the protocol itself sends, or a hop-by-hop header.
    #[error("the header {name:?} {reservation}")]
    ReservedHeader {
        /// The header's name.
        name: String,
        /// Why a message must not contain it.
        reservation: Reservation,
    },
    /// A header value contains characters other than visible ASCII, or has blanks at either end.
    #[error("the value of the header {0:?} is not visible ASCII with blanks only inside")]
    HeaderValue(String),
    /// More header fields than every engine accepts.
    #[error("{0} header fields: expected at most {MAX_HEADERS}")]
    TooManyHeaders(usize),
    /// Header fields whose total length, as [`squall_base::plan::message::header_bytes`] counts it, exceeds what every
    /// engine accepts.
    #[error("header fields of {0} bytes: expected at most {MAX_HEADERS_BYTES}")]
    HeadersTooLong(usize),
    /// Not the status of a final response.
    #[error("{0} is not the status of a final response: expected 200 to 599")]
    Status(u16),
    /// A body was given with a status that forbids one (RFC 9110, section 6.4.1).
    #[error("a response with status {0} has no body")]
    BodyForbidden(u16),
}

/// A connection that cannot be created.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum CreateError {
    /// A window that HTTP/2 cannot express or that would never let a byte through.
    #[error("an HTTP/2 window of {0} bytes: expected 1 to 2^31 - 1")]
    Window(u64),
    /// The HTTP/2 session could not be created.
    #[error(transparent)]
    Session(#[from] squall_nghttp2::Error),
    /// The TLS session could not be created.
    #[error("cannot set up TLS: {0}")]
    Tls(String),
    /// The header that requests HTTP/2 could not be built.
    #[error(transparent)]
    Upgrade(#[from] MessageError),
    /// HTTP/3 was requested over TCP.
    #[error("HTTP/3 does not run over TCP")]
    NotOverTcp,
}

impl From<crate::tls::SetupError> for CreateError {
    fn from(error: crate::tls::SetupError) -> CreateError {
        // BoringSSL's own errors can be neither compared nor copied.
        CreateError::Tls(error.to_string())
    }
}

/// A request that the connection cannot take.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
pub enum SubmitError {
    /// Not now: see [`crate::ClientConnection::is_ready`].
    #[error("the connection cannot take a request now")]
    NotReady,
    /// Never again: see [`crate::ClientConnection::is_open`].
    #[error("the connection takes no more requests")]
    Closed,
    /// HTTP/2: the session refused it.
    #[error(transparent)]
    Session(#[from] squall_nghttp2::Error),
}

/// A response that the connection cannot take.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
pub enum RespondError {
    /// No request on this stream is waiting for a response: it never arrived, was reset, or was already answered.
    #[error("no request waits for a response on stream {}", (.0).0)]
    NotWaiting(StreamId),
    /// HTTP/2: the session refused it.
    #[error(transparent)]
    Session(#[from] squall_nghttp2::Error),
}
