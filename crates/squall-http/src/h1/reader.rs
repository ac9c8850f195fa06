//! Follows one direction of an HTTP/1.1 connection: where each message begins and ends, and the relevant parts of its
//! head.
//!
//! It sends nothing and keeps only the head being received. It refuses what our own server and client refuse, because
//! what is ambiguous to them is ambiguous to an observer. The caller decides which response belongs to which request.

use super::body::Body;
use super::head::{AnsweredMethod, HeadBuffer, parse_request, parse_response};
use crate::error::ConnectionError;
use crate::event::traced_request;
use crate::inbox::InboxOptions;

/// A part of a request, in order of arrival. Offsets count the bytes of the direction.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum RequestPart {
    /// The request's first byte is at this offset.
    Begins(u64),
    /// The request's head is complete.
    Head {
        /// Whether the method is HEAD: the response then has no body.
        is_head: bool,
        /// The scheduled request that its `traceparent` names.
        request: Option<u64>,
    },
    /// This many bytes of the request's body, without framing.
    Body(u64),
    /// The request is complete and ends at this offset.
    Ends(u64),
}

/// A part of a response.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ResponsePart {
    /// The first byte of the response, or of its first interim (1xx) response, is at this offset.
    Begins(u64),
    /// The head of an interim response is complete.
    Interim(u16),
    /// Status 101: from this offset on, the bytes are no longer HTTP/1.1.
    Switches {
        /// The offset.
        end: u64,
        /// Whether the connection continues as HTTP/2 (RFC 7540, section 3.2).
        to_h2c: bool,
    },
    /// The head of the final response is complete.
    Head(u16),
    /// This many bytes of the response's body, without framing.
    Body(u64),
    /// The response is complete and ends at this offset.
    Ends(u64),
}

/// The requests of a connection.
#[derive(Debug, Default)]
pub struct RequestReader {
    state: ReaderState,
}

/// The responses of a connection.
#[derive(Debug, Default)]
pub struct ResponseReader {
    state: ReaderState,
}

#[derive(Debug, Default)]
struct ReaderState {
    /// Offset of the next byte.
    offset: u64,
    head: HeadBuffer,
    has_begun: bool,
    body: Option<Body>,
}

impl ReaderState {
    fn at(offset: u64) -> ReaderState {
        ReaderState {
            offset,
            ..ReaderState::default()
        }
    }

    /// Skips empty lines, then reports once where a message begins.
    fn begin(&mut self, bytes: &[u8]) -> MessageStart {
        let skipped = self.head.skip_empty_lines(bytes);
        if skipped > 0 {
            self.offset += skipped as u64;
            return MessageStart::Skipped(skipped);
        }
        if std::mem::replace(&mut self.has_begun, true) {
            MessageStart::Earlier
        } else {
            MessageStart::At(self.offset - self.head.len())
        }
    }

    /// Takes the bytes that belong to the current body. Returns how many, how many of them are data, and whether the
    /// body is complete.
    fn take_body(&mut self, bytes: &[u8]) -> Result<(usize, u64, bool), ConnectionError> {
        let mut data_bytes = 0;
        let Some(body) = &mut self.body else {
            return Ok((0, 0, true));
        };
        let taken = body.take(bytes, |data| data_bytes += data.len() as u64)?;
        self.offset += taken.used as u64;
        if taken.is_done {
            self.end();
        }
        Ok((taken.used, data_bytes, taken.is_done))
    }

    fn end(&mut self) {
        self.body = None;
        self.has_begun = false;
    }
}

enum MessageStart {
    Skipped(usize),
    At(u64),
    Earlier,
}

impl RequestReader {
    /// A reader for input that begins at this offset.
    pub fn at(offset: u64) -> RequestReader {
        RequestReader {
            state: ReaderState::at(offset),
        }
    }

    /// Offset of the next byte.
    pub fn offset(&self) -> u64 {
        self.state.offset
    }

    /// Whether a request has begun and is not complete.
    pub fn is_within(&self) -> bool {
        self.state.has_begun
    }

    /// Takes bytes up to the end of the head or body that they are in, and calls `on_part`. Returns how many, at least
    /// 1 if there were any.
    ///
    /// # Errors
    /// The input is not a request, or is ambiguous. What follows it cannot be interpreted.
    pub fn step(
        &mut self,
        bytes: &[u8],
        mut on_part: impl FnMut(RequestPart),
    ) -> Result<usize, ConnectionError> {
        let state = &mut self.state;
        if state.body.is_some() {
            let (used, data_bytes, is_done) = state.take_body(bytes)?;
            if data_bytes > 0 {
                on_part(RequestPart::Body(data_bytes));
            }
            if is_done {
                on_part(RequestPart::Ends(state.offset));
            }
            return Ok(used);
        }
        match state.begin(bytes) {
            MessageStart::Skipped(skipped) => return Ok(skipped),
            MessageStart::At(offset) => on_part(RequestPart::Begins(offset)),
            MessageStart::Earlier => {}
        }
        let wants = InboxOptions {
            fields: true,
            ..InboxOptions::default()
        };
        let parse = |bytes: &[u8]| parse_request(bytes, wants);
        let (used, head) = state.head.take(bytes, parse)?;
        state.offset += used as u64;
        if let Some(head) = head {
            let is_head = head.method == "HEAD";
            let request = traced_request(&head.fields);
            on_part(RequestPart::Head { is_head, request });
            state.body = head.body;
            if state.body.is_none() {
                state.end();
                on_part(RequestPart::Ends(state.offset));
            }
        }
        Ok(used)
    }
}

impl ResponseReader {
    /// A reader for input that begins at this offset.
    pub fn at(offset: u64) -> ResponseReader {
        ResponseReader {
            state: ReaderState::at(offset),
        }
    }

    /// Offset of the next byte.
    pub fn offset(&self) -> u64 {
        self.state.offset
    }

    /// Whether a response has begun and is not complete.
    pub fn is_within(&self) -> bool {
        self.state.has_begun
    }

    /// Takes bytes up to the end of the head or body that they are in, and calls `on_part`. Returns how many, at least
    /// 1 if there were any. `answered` only matters when a head is read.
    ///
    /// # Errors
    /// The input is not a response, or is ambiguous. What follows it cannot be interpreted.
    pub fn step(
        &mut self,
        bytes: &[u8],
        answered: AnsweredMethod,
        mut on_part: impl FnMut(ResponsePart),
    ) -> Result<usize, ConnectionError> {
        let state = &mut self.state;
        if state.body.is_some() {
            let (used, data_bytes, is_done) = state.take_body(bytes)?;
            if data_bytes > 0 {
                on_part(ResponsePart::Body(data_bytes));
            }
            if is_done {
                on_part(ResponsePart::Ends(state.offset));
            }
            return Ok(used);
        }
        match state.begin(bytes) {
            MessageStart::Skipped(skipped) => return Ok(skipped),
            MessageStart::At(offset) => on_part(ResponsePart::Begins(offset)),
            MessageStart::Earlier => {}
        }
        let parse = |bytes: &[u8]| parse_response(bytes, answered, InboxOptions::default());
        let (used, head) = state.head.take(bytes, parse)?;
        state.offset += used as u64;
        let Some(head) = head else {
            return Ok(used);
        };
        match head.status {
            101 => on_part(ResponsePart::Switches {
                end: state.offset,
                to_h2c: head.upgrades_to_h2c,
            }),
            status @ ..200 => on_part(ResponsePart::Interim(status)),
            status => {
                on_part(ResponsePart::Head(status));
                state.body = head.body;
                if state.body.is_none() {
                    state.end();
                    on_part(ResponsePart::Ends(state.offset));
                }
            }
        }
        Ok(used)
    }

    /// Handles the end of the direction: returns the end offset of a response that lasts until the connection ends.
    pub fn end(&mut self) -> Option<u64> {
        let ends = matches!(self.state.body, Some(Body::UntilEnd));
        if ends {
            self.state.end();
        }
        ends.then_some(self.state.offset)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The parts of requests that arrive in pieces; consecutive body lengths are added up.
    fn requests(pieces: &[&[u8]]) -> Result<Vec<RequestPart>, ConnectionError> {
        let mut reader = RequestReader::default();
        let mut parts = Vec::new();
        for piece in pieces {
            let mut rest = *piece;
            while !rest.is_empty() {
                let used = reader.step(rest, |part| match (parts.last_mut(), part) {
                    (Some(RequestPart::Body(sum)), RequestPart::Body(more)) => *sum += more,
                    (_, part) => parts.push(part),
                })?;
                assert!(used > 0);
                rest = &rest[used..];
            }
        }
        Ok(parts)
    }

    fn responses(
        text: &[u8],
        answered: AnsweredMethod,
    ) -> Result<Vec<ResponsePart>, ConnectionError> {
        let mut reader = ResponseReader::default();
        let mut parts = Vec::new();
        let mut rest = text;
        while !rest.is_empty() {
            let used = reader.step(rest, answered, |part| parts.push(part))?;
            rest = &rest[used..];
        }
        parts.extend(reader.end().map(ResponsePart::Ends));
        Ok(parts)
    }

    #[test]
    fn requests_have_the_same_offsets_however_they_are_split() {
        let text = b"\r\nPOST / HTTP/1.1\r\nhost: a\r\ntransfer-encoding: chunked\r\n\r\n3\r\nabc\r\n0\r\n\r\n\
            HEAD / HTTP/1.1\r\nhost: a\r\n\r\n";
        let end_of_first = text.len() as u64 - 28;
        let expected = [
            RequestPart::Begins(2),
            RequestPart::Head {
                is_head: false,
                request: None,
            },
            RequestPart::Body(3),
            RequestPart::Ends(end_of_first),
            RequestPart::Begins(end_of_first),
            RequestPart::Head {
                is_head: true,
                request: None,
            },
            RequestPart::Ends(text.len() as u64),
        ];
        assert_eq!(requests(&[text]).unwrap(), expected);
        for at in 0..text.len() {
            let (left, right) = text.split_at(at);
            assert_eq!(requests(&[left, right]).unwrap(), expected, "cut at {at}");
        }
    }

    #[test]
    fn responses_end_as_their_heads_state() {
        let parts = |text: &str, answered| responses(text.as_bytes(), answered).unwrap();
        let with_length = "HTTP/1.1 200 OK\r\ncontent-length: 2\r\n\r\n";
        let length = with_length.len() as u64;
        assert_eq!(
            parts(&format!("{with_length}hi"), AnsweredMethod::Other),
            [
                ResponsePart::Begins(0),
                ResponsePart::Head(200),
                ResponsePart::Body(2),
                ResponsePart::Ends(length + 2)
            ]
        );
        assert_eq!(
            parts(with_length, AnsweredMethod::Head),
            [
                ResponsePart::Begins(0),
                ResponsePart::Head(200),
                ResponsePart::Ends(length)
            ]
        );
        assert_eq!(
            parts(
                "HTTP/1.1 100 \r\n\r\nHTTP/1.1 200 \r\n\r\nxyz",
                AnsweredMethod::Other
            ),
            [
                ResponsePart::Begins(0),
                ResponsePart::Interim(100),
                ResponsePart::Head(200),
                ResponsePart::Body(3),
                ResponsePart::Ends(37)
            ]
        );
        let switch = "HTTP/1.1 101 \r\nconnection: upgrade\r\nupgrade: h2c\r\n\r\n";
        assert_eq!(
            parts(switch, AnsweredMethod::Other)[1],
            ResponsePart::Switches {
                end: switch.len() as u64,
                to_h2c: true
            }
        );
    }

    #[test]
    fn ambiguous_messages_are_refused() {
        let smuggled =
            b"POST / HTTP/1.1\r\nhost: a\r\ncontent-length: 1\r\ntransfer-encoding: chunked\r\n\r\n";
        assert_eq!(requests(&[smuggled]), Err(ConnectionError::BodyLength));
        assert!(responses(b"220 smtp ready\r\n", AnsweredMethod::Other).is_err());
    }
}
