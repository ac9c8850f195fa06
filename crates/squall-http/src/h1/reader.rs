//! Reads along with one direction of an HTTP/1.1 connection: where each message begins and ends, and what of its head
//! says so.
//!
//! It answers nothing and keeps nothing but the head that is arriving. What our own server and client refuse is refused
//! here too, for what is not clear to them is not clear to somebody who looks on. Which response answers which request
//! is the caller's to say.

use super::body::Body;
use super::head::{HeadBuffer, ToHead, parse_request, parse_response};
use crate::error::ConnectionError;
use crate::event::traced_request;
use crate::inbox::Wants;

/// A part of a request, in the order in which they come. Offsets count the bytes of the direction.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum RequestPart {
    /// Its first byte is at this offset.
    Begins(u64),
    /// Its head is complete.
    Head {
        /// Whether it is HEAD, whose response has no body.
        is_head: bool,
        /// The request of the schedule that its `traceparent` names.
        request: Option<u64>,
    },
    /// So many bytes of its body, framing not counted.
    Body(u64),
    /// It is complete, up to this offset.
    Ends(u64),
}

/// A part of a response.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ResponsePart {
    /// Its first byte, or that of the first interim (1xx) response, is at this offset.
    Begins(u64),
    /// The head of an interim response is complete.
    Interim(u16),
    /// Status 101: what follows is no HTTP/1.1, from this offset.
    Switches {
        /// Where.
        end: u64,
        /// Whether it goes on as HTTP/2 (RFC 7540, section 3.2).
        to_h2c: bool,
    },
    /// The head of the final response is complete.
    Head(u16),
    /// So many bytes of its body, framing not counted.
    Body(u64),
    /// It is complete, up to this offset.
    Ends(u64),
}

/// What the next response answers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Answers {
    /// A HEAD request: it has no body.
    Head,
    /// Any other, or none that is known.
    Other,
}

/// The requests of a connection.
#[derive(Debug, Default)]
pub struct RequestReader {
    reading: Reading,
}

/// The responses of a connection.
#[derive(Debug, Default)]
pub struct ResponseReader {
    reading: Reading,
}

#[derive(Debug, Default)]
struct Reading {
    /// Offset of the next byte.
    offset: u64,
    head: HeadBuffer,
    has_begun: bool,
    body: Option<Body>,
}

impl Reading {
    fn at(offset: u64) -> Reading {
        Reading {
            offset,
            ..Reading::default()
        }
    }

    /// Steps over empty lines, then says where a message begins, once.
    fn begin(&mut self, bytes: &[u8]) -> Begun {
        let skipped = self.head.skip_empty_lines(bytes);
        if skipped > 0 {
            self.offset += skipped as u64;
            return Begun::Skipped(skipped);
        }
        if std::mem::replace(&mut self.has_begun, true) {
            Begun::Before
        } else {
            Begun::Now(self.offset - self.head.len())
        }
    }

    /// Takes what belongs to the body that is arriving: how many bytes, how many of them are data, and whether it is
    /// complete.
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

enum Begun {
    Skipped(usize),
    Now(u64),
    Before,
}

impl RequestReader {
    /// For what comes from this offset on.
    pub fn at(offset: u64) -> RequestReader {
        RequestReader {
            reading: Reading::at(offset),
        }
    }

    /// Offset of the next byte.
    pub fn offset(&self) -> u64 {
        self.reading.offset
    }

    /// Whether a request has begun and is not complete.
    pub fn is_within(&self) -> bool {
        self.reading.has_begun
    }

    /// Takes bytes up to the end of the head or body that they are in, and calls `on_part`: how many, at least 1 if
    /// there were any.
    ///
    /// # Errors
    /// What comes is no request, or one that can be understood in two ways; nothing can be said of what follows.
    pub fn step(
        &mut self,
        bytes: &[u8],
        mut on_part: impl FnMut(RequestPart),
    ) -> Result<usize, ConnectionError> {
        let reading = &mut self.reading;
        if reading.body.is_some() {
            let (used, data_bytes, is_done) = reading.take_body(bytes)?;
            if data_bytes > 0 {
                on_part(RequestPart::Body(data_bytes));
            }
            if is_done {
                on_part(RequestPart::Ends(reading.offset));
            }
            return Ok(used);
        }
        match reading.begin(bytes) {
            Begun::Skipped(skipped) => return Ok(skipped),
            Begun::Now(offset) => on_part(RequestPart::Begins(offset)),
            Begun::Before => {}
        }
        let wants = Wants {
            fields: true,
            ..Wants::default()
        };
        let parse = |bytes: &[u8]| parse_request(bytes, wants);
        let (used, head) = reading.head.take(bytes, parse)?;
        reading.offset += used as u64;
        if let Some(head) = head {
            let is_head = head.method == "HEAD";
            let request = traced_request(&head.fields);
            on_part(RequestPart::Head { is_head, request });
            reading.body = Body::of(head.framing);
            if reading.body.is_none() {
                reading.end();
                on_part(RequestPart::Ends(reading.offset));
            }
        }
        Ok(used)
    }
}

impl ResponseReader {
    /// For what comes from this offset on.
    pub fn at(offset: u64) -> ResponseReader {
        ResponseReader {
            reading: Reading::at(offset),
        }
    }

    /// Offset of the next byte.
    pub fn offset(&self) -> u64 {
        self.reading.offset
    }

    /// Whether a response has begun and is not complete.
    pub fn is_within(&self) -> bool {
        self.reading.has_begun
    }

    /// Takes bytes up to the end of the head or body that they are in, and calls `on_part`: how many, at least 1 if
    /// there were any. `answers` is asked when a head is read.
    ///
    /// # Errors
    /// What comes is no response, or one that can be understood in two ways; nothing can be said of what follows.
    pub fn step(
        &mut self,
        bytes: &[u8],
        answers: Answers,
        mut on_part: impl FnMut(ResponsePart),
    ) -> Result<usize, ConnectionError> {
        let reading = &mut self.reading;
        if reading.body.is_some() {
            let (used, data_bytes, is_done) = reading.take_body(bytes)?;
            if data_bytes > 0 {
                on_part(ResponsePart::Body(data_bytes));
            }
            if is_done {
                on_part(ResponsePart::Ends(reading.offset));
            }
            return Ok(used);
        }
        match reading.begin(bytes) {
            Begun::Skipped(skipped) => return Ok(skipped),
            Begun::Now(offset) => on_part(ResponsePart::Begins(offset)),
            Begun::Before => {}
        }
        let to_head = match answers {
            Answers::Head => ToHead::Yes,
            Answers::Other => ToHead::No,
        };
        let parse = |bytes: &[u8]| parse_response(bytes, to_head, Wants::default());
        let (used, head) = reading.head.take(bytes, parse)?;
        reading.offset += used as u64;
        let Some(head) = head else {
            return Ok(used);
        };
        match head.status {
            101 => on_part(ResponsePart::Switches {
                end: reading.offset,
                to_h2c: head.upgrades_to_h2c,
            }),
            status @ ..200 => on_part(ResponsePart::Interim(status)),
            status => {
                on_part(ResponsePart::Head(status));
                reading.body = Body::of(head.framing);
                if reading.body.is_none() {
                    reading.end();
                    on_part(ResponsePart::Ends(reading.offset));
                }
            }
        }
        Ok(used)
    }

    /// The direction has ended: the offset at which a response ends that only this could end.
    pub fn end(&mut self) -> Option<u64> {
        let ends = matches!(self.reading.body, Some(Body::UntilEnd));
        if ends {
            self.reading.end();
        }
        ends.then_some(self.reading.offset)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The parts of requests that come in pieces; lengths of bodies that follow each other are summed.
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

    fn responses(text: &[u8], answers: Answers) -> Result<Vec<ResponsePart>, ConnectionError> {
        let mut reader = ResponseReader::default();
        let mut parts = Vec::new();
        let mut rest = text;
        while !rest.is_empty() {
            let used = reader.step(rest, answers, |part| parts.push(part))?;
            rest = &rest[used..];
        }
        parts.extend(reader.end().map(ResponsePart::Ends));
        Ok(parts)
    }

    #[test]
    fn requests_have_their_places_however_they_are_cut() {
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
    fn responses_end_as_their_heads_say() {
        let parts = |text: &str, answers| responses(text.as_bytes(), answers).unwrap();
        let with_length = "HTTP/1.1 200 OK\r\ncontent-length: 2\r\n\r\n";
        let length = with_length.len() as u64;
        assert_eq!(
            parts(&format!("{with_length}hi"), Answers::Other),
            [
                ResponsePart::Begins(0),
                ResponsePart::Head(200),
                ResponsePart::Body(2),
                ResponsePart::Ends(length + 2)
            ]
        );
        assert_eq!(
            parts(with_length, Answers::Head),
            [
                ResponsePart::Begins(0),
                ResponsePart::Head(200),
                ResponsePart::Ends(length)
            ]
        );
        assert_eq!(
            parts(
                "HTTP/1.1 100 \r\n\r\nHTTP/1.1 200 \r\n\r\nxyz",
                Answers::Other
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
            parts(switch, Answers::Other)[1],
            ResponsePart::Switches {
                end: switch.len() as u64,
                to_h2c: true
            }
        );
    }

    #[test]
    fn what_is_unclear_is_refused() {
        let smuggled =
            b"POST / HTTP/1.1\r\nhost: a\r\ncontent-length: 1\r\ntransfer-encoding: chunked\r\n\r\n";
        assert_eq!(requests(&[smuggled]), Err(ConnectionError::BodyLength));
        assert!(responses(b"220 smtp ready\r\n", Answers::Other).is_err());
    }
}
