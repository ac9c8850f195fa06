//! Why a connection is over, in words.

use std::fmt;

use thiserror::Error;

use super::code;

/// Why a QUIC connection is over.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum CloseReason {
    /// The peer sent CONNECTION_CLOSE.
    #[error("the peer closed the connection: {0}")]
    ByPeer(CloseFrame),
    /// We sent CONNECTION_CLOSE: the peer broke a protocol, its certificate was refused, or the owner closed.
    #[error("we closed the connection: {0}")]
    ByUs(CloseFrame),
    /// Nothing arrived for [`super::IDLE_TIMEOUT`], or the handshake did not complete within that time.
    #[error("nothing came from the peer for 30 s")]
    Idle,
    /// The peer has forgotten the connection (RFC 9000, section 10.3).
    #[error("the peer reset the connection (stateless reset)")]
    StatelessReset,
}

impl CloseReason {
    /// Whether the connection ended without a fault.
    pub fn is_clean(&self) -> bool {
        match self {
            CloseReason::ByPeer(reason) | CloseReason::ByUs(reason) => reason.is_no_error(),
            CloseReason::Idle | CloseReason::StatelessReset => false,
        }
    }

    /// The reason that quiche reports for a connection that is over or about to be.
    pub(super) fn of<F: quiche::BufFactory>(conn: &quiche::Connection<F>) -> Option<CloseReason> {
        if let Some(error) = conn.peer_error() {
            return Some(CloseReason::ByPeer(CloseFrame::of(error)));
        }
        if let Some(error) = conn.local_error() {
            return Some(CloseReason::ByUs(CloseFrame::of(error)));
        }
        if conn.is_timed_out() {
            return Some(CloseReason::Idle);
        }
        conn.is_closed().then_some(CloseReason::StatelessReset)
    }
}

/// The content of a CONNECTION_CLOSE.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CloseFrame {
    /// The space of the error code.
    pub space: ErrorSpace,
    /// The error code.
    pub code: u64,
    /// The reason phrase, often empty.
    pub text: String,
}

/// The protocol that defines an error code.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ErrorSpace {
    /// QUIC's (RFC 9000, section 20.1), including TLS alerts from 0x100 on.
    Transport,
    /// HTTP/3's (RFC 9114, section 8.1).
    Application,
}

impl CloseFrame {
    fn of(error: &quiche::ConnectionError) -> CloseFrame {
        CloseFrame {
            space: if error.is_app {
                ErrorSpace::Application
            } else {
                ErrorSpace::Transport
            },
            code: error.error_code,
            text: String::from_utf8_lossy(&error.reason).into_owned(),
        }
    }

    fn is_no_error(&self) -> bool {
        match self.space {
            ErrorSpace::Transport => self.code == 0,
            ErrorSpace::Application => self.code == code::NO_ERROR,
        }
    }
}

impl fmt::Display for CloseFrame {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let words = match self.space {
            ErrorSpace::Transport => transport_words(self.code),
            ErrorSpace::Application => application_words(self.code),
        };
        let layer = match self.space {
            ErrorSpace::Transport => "QUIC",
            ErrorSpace::Application => "HTTP/3",
        };
        write!(f, "{words} ({layer} error {:#x})", self.code)?;
        if !self.text.is_empty() {
            write!(f, ": {}", self.text)?;
        }
        Ok(())
    }
}

fn transport_words(code: u64) -> &'static str {
    match code {
        0x0 => "no error",
        0x1 => "internal error",
        0x2 => "the connection was refused",
        0x3 => "more was sent than flow control allows",
        0x4 => "more streams were opened than allowed",
        0x5 => "a frame came that its stream's state forbids",
        0x6 => "a stream's final size changed",
        0x7 => "a frame is malformed",
        0x8 => "the transport parameters are invalid",
        0x9 => "too many connection ids",
        0xa => "a QUIC rule was broken",
        0xb => "the token is invalid",
        0xc => "closed before the handshake was complete",
        0xd => "too much TLS data",
        0xe => "a key update went wrong",
        0xf => "too many packets with one key",
        0x10 => "no path works",
        0x100..=0x1ff => alert_words(code - 0x100),
        _ => "an unknown error",
    }
}

/// TLS alerts (RFC 8446, section 6).
fn alert_words(alert: u64) -> &'static str {
    match alert {
        40 => "no common TLS parameters",
        42 => "the certificate was refused: broken, or for another name",
        43 => "the certificate is of an unsupported kind",
        44 => "the certificate was revoked",
        45 => "the certificate has expired or is not yet valid",
        46 => "the certificate was refused for an unnamed reason",
        48 => "the certificate is not trusted: no known authority signed it",
        70 => "the TLS version is not supported",
        80 => "TLS had an internal error",
        112 => "the server does not know this name",
        116 => "a client certificate is required",
        120 => "no common application protocol: the peer does not speak HTTP/3 (ALPN \"h3\")",
        _ => "the TLS handshake failed",
    }
}

/// The meaning of an HTTP/3 error code.
pub fn application_words(code: u64) -> &'static str {
    match code {
        code::NO_ERROR => "no error",
        code::GENERAL_PROTOCOL_ERROR => "an HTTP/3 rule was broken",
        code::INTERNAL_ERROR => "internal error",
        code::STREAM_CREATION_ERROR => "a stream was opened that is not allowed",
        code::CLOSED_CRITICAL_STREAM => "a stream was closed that must stay open",
        code::FRAME_UNEXPECTED => "a frame came where it is not allowed",
        code::FRAME_ERROR => "a frame is malformed",
        code::EXCESSIVE_LOAD => "the peer causes too much load",
        code::ID_ERROR => "an id was used incorrectly",
        code::SETTINGS_ERROR => "the SETTINGS are invalid",
        code::MISSING_SETTINGS => "the control stream did not begin with SETTINGS",
        code::REQUEST_REJECTED => "the request was rejected",
        code::REQUEST_CANCELLED => "the request was cancelled",
        code::REQUEST_INCOMPLETE => "the request ended early",
        code::MESSAGE_ERROR => "a message is malformed",
        code::CONNECT_ERROR => "the tunnel broke",
        code::VERSION_FALLBACK => "HTTP/1.1 is required",
        code::QPACK_DECOMPRESSION_FAILED => "a header section cannot be decoded",
        code::QPACK_ENCODER_STREAM_ERROR => "QPACK's encoder stream is malformed",
        code::QPACK_DECODER_STREAM_ERROR => "QPACK's decoder stream is malformed",
        _ => "an unknown error",
    }
}
