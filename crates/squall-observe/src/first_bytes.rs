//! Recognizes how a cleartext connection begins: with a request line of HTTP/1, the client preface of HTTP/2, or the SETTINGS
//! frame with which its server begins.
//!
//! It stores no bytes: `plain` collects them. `tls` recognizes a ClientHello.

use squall_base::plan::message::MAX_METHOD_LEN_BYTES;
use squall_http::frames::CLIENT_PREFACE;

use crate::connection_record::OpaqueReason;

/// The longest request line that is waited for: twice the length that everyone should support (RFC 9112, section 3).
pub(crate) const MAX_LINE_BYTES: usize = 16 * 1024;

/// The part of the preface that no HTTP/1 request begins with: the method PRI is reserved (RFC 9113, section 3.4).
const PREFACE_METHOD: &[u8] = b"PRI ";

/// What a client's first bytes look like.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum ProtocolGuess {
    Http1,
    Http2,
    Unclear,
}

/// Guesses the protocol from a client's first bytes, of which at most [`MAX_LINE_BYTES`] count.
///
/// # Errors
/// They are not HTTP.
pub(crate) fn guess_protocol(first: &[u8]) -> Result<ProtocolGuess, OpaqueReason> {
    if first.starts_with(CLIENT_PREFACE) {
        return Ok(ProtocolGuess::Http2);
    }
    if CLIENT_PREFACE.starts_with(first) {
        return Ok(ProtocolGuess::Unclear);
    }
    match request_line(first) {
        RequestLine::Whole => Ok(ProtocolGuess::Http1),
        // The HTTP/1 parser refuses a request line this long.
        RequestLine::Partial if first.len() >= MAX_LINE_BYTES => Ok(ProtocolGuess::Http1),
        RequestLine::Partial => Ok(ProtocolGuess::Unclear),
        RequestLine::Wrong => Err(OpaqueReason::NotHttp),
    }
}

/// Whether these bytes begin with a complete HTTP/1 request line.
pub(crate) fn begins_request(bytes: &[u8]) -> bool {
    request_line(bytes) == RequestLine::Whole
}

/// Whether these bytes begin HTTP/2's client preface; the rest of it may follow them.
pub(crate) fn starts_preface(bytes: &[u8]) -> bool {
    let length = bytes.len().min(CLIENT_PREFACE.len());
    bytes.starts_with(PREFACE_METHOD) && bytes[..length] == CLIENT_PREFACE[..length]
}

/// Whether these bytes begin the way an HTTP/2 server does: with a SETTINGS frame that acknowledges nothing (RFC 9113, sections
/// 3.4 and 6.5).
pub(crate) fn begins_settings(bytes: &[u8]) -> bool {
    const SETTINGS: u8 = 4;
    const ACK: u8 = 1;
    match bytes {
        [0, high, low, SETTINGS, flags, 0, 0, 0, 0, ..] => {
            flags & ACK == 0 && u16::from_be_bytes([*high, *low]).is_multiple_of(6)
        }
        _ => false,
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum RequestLine {
    Whole,
    /// The line is incomplete, and may be one.
    Partial,
    Wrong,
}

/// Judges whether bytes begin with a request line: a method, a target and the version (RFC 9112, section 3). Empty lines
/// may precede it (section 2.2).
fn request_line(bytes: &[u8]) -> RequestLine {
    let line_ends = bytes
        .iter()
        .take_while(|byte| matches!(**byte, b'\r' | b'\n'));
    let bytes = &bytes[line_ends.count()..];
    let end = bytes.iter().position(|byte| *byte == b'\n');
    let line = &bytes[..end.unwrap_or(bytes.len())];
    let mut words = line.split(|byte| *byte == b' ');
    let method = words.next().unwrap_or(&[]);
    if method.len() > MAX_METHOD_LEN_BYTES || !method.iter().all(is_token) {
        return RequestLine::Wrong;
    }
    if end.is_none() {
        return RequestLine::Partial;
    }
    let is_target = |target: &[u8]| !target.is_empty() && !target.iter().any(u8::is_ascii_control);
    match (words.next(), words.next(), words.next()) {
        (Some(target), Some(version), None)
            if !method.is_empty() && is_target(target) && is_version(version) =>
        {
            RequestLine::Whole
        }
        _ => RequestLine::Wrong,
    }
}

/// Whether a word is an HTTP/1 version, with or without the CR of the line's end.
fn is_version(word: &[u8]) -> bool {
    matches!(
        word.strip_suffix(b"\r").unwrap_or(word),
        [b'H', b'T', b'T', b'P', b'/', b'1', b'.', b'0'..=b'9']
    )
}

/// Whether a byte may be part of a token (RFC 9110, section 5.6.2).
fn is_token(byte: &u8) -> bool {
    byte.is_ascii_alphanumeric()
        || matches!(
            byte,
            b'!' | b'#'..=b'\'' | b'*' | b'+' | b'-' | b'.' | b'^'..=b'`' | b'|' | b'~'
        )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_a_request_line_or_the_preface_begins_http() {
        for line in [
            "GET / HTTP/1.1\r\n",
            "\r\nOPTIONS * HTTP/1.0\r\nhost: a",
            "M-SEARCH http://a/ HTTP/1.1\r\n",
            "custom /a?b HTTP/1.1\n",
        ] {
            let first = line.as_bytes();
            assert_eq!(guess_protocol(first), Ok(ProtocolGuess::Http1), "{line:?}");
            assert!(begins_request(first), "{line:?}");
        }
        for line in [
            "get key1\r\n",
            "NICK squall\r\n",
            "USER a 0 * :b\r\n",
            "SSH-2.0-OpenSSH_9.2\r\n",
            "OPTIONS rtsp://a/ RTSP/1.0\r\n",
            "REGISTER sip:a SIP/2.0\r\n",
            "GET /\r\n",
            "GET  / HTTP/1.1\r\n",
            "GET / HTTP/1.1 \r\n",
            "GET / HTTP/2.0\r\n",
            "GET / HTTP/1.1.1\r\n",
            " / HTTP/1.1\r\n",
            "G(T / HTTP/1.1\r\n",
            "ZBXD\u{1}",
            "{\"a\":1}",
            "\u{0}\u{0}\u{4}",
        ] {
            let first = line.as_bytes();
            let judged = guess_protocol(first);
            assert_eq!(judged, Err(OpaqueReason::NotHttp), "{line:?}");
            assert!(!begins_request(first), "{line:?}");
        }
        for part in [
            "",
            "\r",
            "G",
            "GET / HTTP/1.1",
            "GET / x",
            "P",
            "PRI * HTTP/2.0",
        ] {
            let first = part.as_bytes();
            let judged = guess_protocol(first);
            assert_eq!(judged, Ok(ProtocolGuess::Unclear), "{part:?}");
        }
        assert_eq!(guess_protocol(CLIENT_PREFACE), Ok(ProtocolGuess::Http2));
    }

    #[test]
    fn first_line_without_an_end_is_not_awaited_forever() {
        let long = [b"GET /", &[b'a'; MAX_LINE_BYTES][..]].concat();
        let judged = guess_protocol(&long[..MAX_LINE_BYTES]);
        assert_eq!(judged, Ok(ProtocolGuess::Http1));
        let method = [b'A'; MAX_METHOD_LEN_BYTES + 1];
        assert_eq!(guess_protocol(&method), Err(OpaqueReason::NotHttp));
    }

    #[test]
    fn http2_is_recognized_by_its_first_bytes() {
        assert!(starts_preface(b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n\0\0"));
        assert!(starts_preface(b"PRI * HT"));
        assert!(!starts_preface(b"PRI * HTTP/1.1\r\n"));
        assert!(!starts_preface(b"PR"));
        assert!(begins_settings(b"\0\0\0\x04\0\0\0\0\0"));
        assert!(begins_settings(b"\0\0\x06\x04\0\0\0\0\0\0\x03"));
        assert!(!begins_settings(b"\0\0\0\x04\x01\0\0\0\0"));
        assert!(!begins_settings(b"\0\0\x05\x04\0\0\0\0\0"));
        assert!(!begins_settings(b"\0\0\0\x04\0\0\0\0"));
    }
}
