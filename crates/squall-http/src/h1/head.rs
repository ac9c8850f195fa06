//! Reads the head of a message: the start line and the few fields that say where it ends.
//!
//! httparse knows the syntax; here are its limits, the buffering of heads that come in pieces, and the
//! rules for the length of a body (RFC 9112, section 6.3). All other fields are ignored.

use std::mem::MaybeUninit;

use httparse::{Header, ParserConfig, Status};

use super::body::Framing;
use crate::error::ConnectionError;

/// The longest head that is accepted, as long as nghttp2's limit for HTTP/2.
pub const MAX_HEAD_BYTES: usize = 64 * 1024;

/// The most header fields that are accepted.
pub const MAX_FIELDS: usize = 128;

/// The head of a request.
#[derive(Debug)]
pub(super) struct RequestHead {
    pub(super) method: String,
    pub(super) target: String,
    pub(super) framing: Framing,
    pub(super) keeps_alive: bool,
    pub(super) expects_continue: bool,
}

/// The head of a response.
#[derive(Clone, Copy, Debug)]
pub(super) struct ResponseHead {
    pub(super) status: u16,
    pub(super) framing: Framing,
    pub(super) keeps_alive: bool,
}

/// Keeps the part of a head that has come so far.
#[derive(Debug, Default)]
pub(super) struct HeadBuffer {
    partial: Vec<u8>,
}

/// A head and its length in bytes, or `None` if there is more to come.
type Parsed<T> = Result<Option<(usize, T)>, ConnectionError>;

impl HeadBuffer {
    /// Whether a head has begun.
    pub(super) fn is_empty(&self) -> bool {
        self.partial.is_empty()
    }

    /// Takes bytes until they or the head end: how many, and the head if it is complete.
    pub(super) fn take<T>(
        &mut self,
        bytes: &[u8],
        parse: impl Fn(&[u8]) -> Parsed<T>,
    ) -> Result<(usize, Option<T>), ConnectionError> {
        let before = self.partial.len();
        let parsed = if before == 0 {
            // The usual case: the whole head is here, and nothing is copied.
            parse(bytes)?
        } else {
            let room = (MAX_HEAD_BYTES + 1).saturating_sub(before);
            let more = &bytes[..bytes.len().min(room)];
            self.partial.extend_from_slice(more);
            // Only a line's end can complete a head: no parsing again for every byte of a slow peer.
            if more.contains(&b'\n') {
                parse(&self.partial)?
            } else {
                None
            }
        };
        match parsed {
            Some((len, _)) if len > MAX_HEAD_BYTES => Err(ConnectionError::HeadTooLong),
            Some((len, head)) => {
                self.partial.clear();
                Ok((len.saturating_sub(before), Some(head)))
            }
            None if before + bytes.len() > MAX_HEAD_BYTES => Err(ConnectionError::HeadTooLong),
            None => {
                if before == 0 {
                    self.partial.extend_from_slice(bytes);
                }
                Ok((bytes.len(), None))
            }
        }
    }
}

/// Parses the head of a request.
pub(super) fn parse_request(bytes: &[u8]) -> Parsed<RequestHead> {
    let mut headers = [const { MaybeUninit::uninit() }; MAX_FIELDS];
    let mut request = httparse::Request::new(&mut []);
    let status = request.parse_with_uninit_headers(bytes, &mut headers);
    let Status::Complete(len) = status.map_err(ConnectionError::Head)? else {
        return Ok(None);
    };
    let fields = Fields::of(request.headers)?;
    let is_1_1 = request.version == Some(1);
    let head = RequestHead {
        method: request.method.unwrap_or_default().to_owned(),
        target: request.path.unwrap_or_default().to_owned(),
        framing: fields.request_framing(is_1_1)?,
        // HTTP/1.0 connections are not kept alive here, also if the client would like to.
        keeps_alive: is_1_1 && !fields.closes,
        expects_continue: is_1_1 && fields.expects_continue,
    };
    Ok(Some((len, head)))
}

/// Parses the head of a response to a HEAD request or to any other.
pub(super) fn parse_response(bytes: &[u8], to_head: ToHead) -> Parsed<ResponseHead> {
    let mut headers = [const { MaybeUninit::uninit() }; MAX_FIELDS];
    let mut response = httparse::Response::new(&mut []);
    let parsed = ParserConfig::default().parse_response_with_uninit_headers(
        &mut response,
        bytes,
        &mut headers,
    );
    let Status::Complete(len) = parsed.map_err(ConnectionError::Head)? else {
        return Ok(None);
    };
    let fields = Fields::of(response.headers)?;
    let is_1_1 = response.version == Some(1);
    let status = response.code.unwrap_or_default();
    let has_body = to_head == ToHead::No && !matches!(status, 100..=199 | 204 | 304);
    let framing = if has_body {
        fields.response_framing(is_1_1)?
    } else {
        Framing::Empty
    };
    let keeps_alive = if is_1_1 {
        !fields.closes
    } else {
        fields.keeps_alive
    };
    let head = ResponseHead {
        status,
        framing,
        keeps_alive: keeps_alive && framing != Framing::UntilEnd,
    };
    Ok(Some((len, head)))
}

/// Whether a response answers a HEAD request, and so has no body whatever its head says.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum ToHead {
    /// It does.
    Yes,
    /// It answers another method.
    No,
}

/// The last transfer coding of a message.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Coding {
    /// Chunked alone.
    Chunked,
    /// Others, and chunked as the last one.
    OthersThenChunked,
    /// Another one.
    Other,
}

/// What the fields say that matters here.
#[derive(Debug, Default)]
struct Fields {
    content_length: Option<u64>,
    coding: Option<Coding>,
    closes: bool,
    keeps_alive: bool,
    expects_continue: bool,
}

impl Fields {
    fn of(headers: &[Header<'_>]) -> Result<Fields, ConnectionError> {
        let mut fields = Fields::default();
        for header in headers {
            let is = |name: &str| header.name.eq_ignore_ascii_case(name);
            match header.name.len() {
                14 if is("content-length") => fields.add_length(header.value)?,
                17 if is("transfer-encoding") => fields.add_coding(header.value)?,
                10 if is("connection") => {
                    for option in tokens(header.value) {
                        fields.closes |= option.eq_ignore_ascii_case(b"close");
                        fields.keeps_alive |= option.eq_ignore_ascii_case(b"keep-alive");
                    }
                }
                6 if is("expect") => {
                    fields.expects_continue |= header.value.eq_ignore_ascii_case(b"100-continue");
                }
                _ => {}
            }
        }
        Ok(fields)
    }

    fn add_length(&mut self, value: &[u8]) -> Result<(), ConnectionError> {
        let is_number = !value.is_empty() && value.iter().all(u8::is_ascii_digit);
        let length = std::str::from_utf8(value).ok().filter(|_| is_number);
        let length = length.and_then(|text| text.parse::<u64>().ok());
        match (length, self.content_length) {
            (Some(new), None) => self.content_length = Some(new),
            (Some(new), Some(old)) if new == old => {}
            _ => return Err(ConnectionError::BodyLength),
        }
        Ok(())
    }

    fn add_coding(&mut self, value: &[u8]) -> Result<(), ConnectionError> {
        for coding in tokens(value) {
            let is_chunked = coding.eq_ignore_ascii_case(b"chunked");
            self.coding = Some(match self.coding {
                // Nothing may follow chunked (RFC 9112, section 6.1).
                Some(Coding::Chunked | Coding::OthersThenChunked) => {
                    return Err(ConnectionError::BodyLength);
                }
                None if is_chunked => Coding::Chunked,
                Some(Coding::Other) if is_chunked => Coding::OthersThenChunked,
                None | Some(Coding::Other) => Coding::Other,
            });
        }
        Ok(())
    }

    /// The framing that content-length alone states.
    fn length_framing(&self) -> Option<Framing> {
        self.content_length.map(|n| {
            if n == 0 {
                Framing::Empty
            } else {
                Framing::Length(n)
            }
        })
    }

    fn request_framing(&self, is_1_1: bool) -> Result<Framing, ConnectionError> {
        match (self.coding, self.content_length) {
            (None, _) => Ok(self.length_framing().unwrap_or(Framing::Empty)),
            (Some(Coding::Chunked), None) if is_1_1 => Ok(Framing::Chunked),
            // Both fields, codings that we cannot undo, HTTP/1.0: each could hide a request.
            _ => Err(ConnectionError::BodyLength),
        }
    }

    fn response_framing(&self, is_1_1: bool) -> Result<Framing, ConnectionError> {
        match (self.coding, self.content_length) {
            (None, _) => Ok(self.length_framing().unwrap_or(Framing::UntilEnd)),
            (Some(_), Some(_)) => Err(ConnectionError::BodyLength),
            (Some(_), None) if !is_1_1 => Err(ConnectionError::BodyLength),
            (Some(Coding::Other), None) => Ok(Framing::UntilEnd),
            (Some(Coding::Chunked | Coding::OthersThenChunked), None) => Ok(Framing::Chunked),
        }
    }
}

/// The elements of a comma-separated list (RFC 9110, section 5.6.1).
fn tokens(value: &[u8]) -> impl Iterator<Item = &[u8]> {
    value
        .split(|&b| b == b',')
        .map(<[u8]>::trim_ascii)
        .filter(|token| !token.is_empty())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn response(fields: &str) -> Result<(Framing, bool), ConnectionError> {
        let text = format!("HTTP/1.1 200\r\n{fields}\r\n");
        let parsed = parse_response(text.as_bytes(), ToHead::No)?;
        let (len, head) = parsed.expect("the head is complete");
        assert_eq!(len, text.len());
        Ok((head.framing, head.keeps_alive))
    }

    fn request(fields: &str) -> Result<Framing, ConnectionError> {
        let text = format!("POST / HTTP/1.1\r\n{fields}\r\n");
        let parsed = parse_request(text.as_bytes())?;
        Ok(parsed.expect("the head is complete").1.framing)
    }

    #[test]
    fn the_length_of_a_response_body() {
        assert_eq!(response(""), Ok((Framing::UntilEnd, false)));
        assert_eq!(
            response("Content-Length: 7\r\n"),
            Ok((Framing::Length(7), true))
        );
        assert_eq!(
            response("content-length: 0\r\n"),
            Ok((Framing::Empty, true))
        );
        assert_eq!(
            response("Transfer-Encoding: Chunked\r\n"),
            Ok((Framing::Chunked, true))
        );
        assert_eq!(
            response("transfer-encoding: gzip, chunked\r\n"),
            Ok((Framing::Chunked, true))
        );
        assert_eq!(
            response("content-length: 7\r\nconnection: Close\r\n"),
            Ok((Framing::Length(7), false))
        );
    }

    #[test]
    fn ambiguous_lengths_are_refused() {
        for fields in [
            "content-length: 7\r\ncontent-length: 8\r\n",
            "content-length: 7, 7\r\n",
            "content-length: +7\r\n",
            "content-length: \r\n",
            "content-length: 99999999999999999999\r\n",
            "content-length: 7\r\ntransfer-encoding: chunked\r\n",
            "transfer-encoding: chunked, chunked\r\n",
        ] {
            assert_eq!(
                response(fields),
                Err(ConnectionError::BodyLength),
                "{fields:?}"
            );
            assert_eq!(
                request(fields),
                Err(ConnectionError::BodyLength),
                "{fields:?}"
            );
        }
        assert_eq!(
            request("transfer-encoding: gzip, chunked\r\n"),
            Err(ConnectionError::BodyLength)
        );
        assert_eq!(request(""), Ok(Framing::Empty));
    }

    #[test]
    fn heads_have_a_longest() {
        let parse = |bytes: &[u8]| parse_response(bytes, ToHead::No);
        let start = format!("HTTP/1.1 200 OK\r\nx: {}\r\n", "y".repeat(MAX_HEAD_BYTES));
        for step in [1000, 65_536, start.len()] {
            let mut buffer = HeadBuffer::default();
            let mut results = start
                .as_bytes()
                .chunks(step)
                .map(|piece| buffer.take(piece, parse));
            let error = results.find_map(Result::err);
            assert_eq!(
                error,
                Some(ConnectionError::HeadTooLong),
                "in steps of {step}"
            );
        }
        let many = "x: y\r\n".repeat(MAX_FIELDS + 1);
        assert_eq!(
            response(&many),
            Err(ConnectionError::Head(httparse::Error::TooManyHeaders))
        );
    }
}
