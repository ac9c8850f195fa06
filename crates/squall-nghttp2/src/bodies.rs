//! The message bodies being sent, by stream.
//!
//! A body is either whole: shared, and not copied until a session asks for its bytes; or streamed: passed in pieces that
//! wait here until the session may send them, at most [`STREAMED_BUFFER_BYTES`] or one DATA frame of them. This module does
//! not know about windows: the owner adds no more than they allow.

use std::collections::VecDeque;

use bytes::Bytes;

use crate::headers::HeaderBlock;

/// How much of a streamed body is buffered at most, unless a DATA frame may be larger: four frames of the size that every
/// peer accepts (RFC 9113, section 4.2), so that a frame is always ready while the owner fetches the next piece.
pub const STREAMED_BUFFER_BYTES: usize = 64 * 1024;

/// The body of a submitted message.
#[derive(Clone, Copy, Debug)]
pub enum Body<'a> {
    /// These bytes; if empty, the message has no body.
    Whole(&'a Bytes),
    /// Bytes that will be passed to [`crate::Http2Session::send_body`].
    Streamed,
}

impl Body<'_> {
    /// Whether the message has no body.
    pub fn is_empty(self) -> bool {
        matches!(self, Body::Whole(bytes) if bytes.is_empty())
    }
}

/// All bodies, sorted by stream: a new request has the largest id, and responses are mostly submitted in order.
pub struct Bodies {
    open: VecDeque<(u32, Source)>,
    /// How much of each streamed body is buffered at most.
    waiting_bytes: usize,
    /// How much of all streamed bodies is buffered now.
    buffered_bytes: usize,
}

/// Where the bytes of a body come from.
enum Source {
    Whole { bytes: Bytes, sent: usize },
    Streamed(StreamedBody),
}

#[derive(Default)]
struct StreamedBody {
    waiting: VecDeque<u8>,
    has_ended: bool,
    /// The trailers that follow the body.
    trailers: Option<HeaderBlock>,
    /// The session asked for bytes when there were none, and must be notified of more.
    is_deferred: bool,
}

/// The result of a session asking for the next bytes of a body.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum BodyRead {
    /// This many bytes were copied; more follow.
    Some(usize),
    /// This many bytes were copied, and they were the last.
    Last(usize),
    /// This many bytes were copied, the last before trailers, which [`Bodies::take_trailers`] returns.
    LastBeforeTrailers(usize),
    /// No bytes are available now.
    Later,
}

impl Bodies {
    /// An empty store, for sessions whose DATA frames carry at most `data_bytes`.
    pub fn new(data_bytes: u32) -> Bodies {
        Bodies {
            open: VecDeque::new(),
            waiting_bytes: STREAMED_BUFFER_BYTES.max(data_bytes as usize),
            buffered_bytes: 0,
        }
    }

    /// Stores the body of a stream.
    pub fn insert(&mut self, stream: u32, body: Body<'_>) {
        let source = match body {
            Body::Whole(bytes) => Source::Whole {
                bytes: bytes.clone(),
                sent: 0,
            },
            Body::Streamed => Source::Streamed(StreamedBody::default()),
        };
        match self.index(stream) {
            Ok(index) => {
                self.buffered_bytes -= self.open[index].1.waiting_bytes();
                self.open[index].1 = source;
            }
            Err(index) => self.open.insert(index, (stream, source)),
        }
    }

    /// Removes the body of a stream, if it has one.
    pub fn remove(&mut self, stream: u32) {
        if let Ok(index) = self.index(stream)
            && let Some((_, source)) = self.open.remove(index)
        {
            self.buffered_bytes -= source.waiting_bytes();
        }
    }

    /// How many bytes of the stream's body wait, if it is streamed.
    pub fn waiting(&self, stream: u32) -> usize {
        self.index(stream)
            .map_or(0, |index| self.open[index].1.waiting_bytes())
    }

    /// How many bytes of all streamed bodies wait. Whole bodies are shared, so they do not count.
    pub fn buffered_bytes(&self) -> usize {
        self.buffered_bytes
    }

    /// Whether bytes of the stream's body, or its end, are still to be sent.
    pub fn has(&self, stream: u32) -> bool {
        self.index(stream).is_ok()
    }

    fn index(&self, stream: u32) -> Result<usize, usize> {
        self.open.binary_search_by_key(&stream, |(id, _)| *id)
    }

    fn streamed(&mut self, stream: u32) -> Option<&mut StreamedBody> {
        let index = self.index(stream).ok()?;
        match &mut self.open[index].1 {
            Source::Streamed(streamed) if !streamed.has_ended => Some(streamed),
            _ => None,
        }
    }

    /// Whether the stream has a streamed body that has not ended.
    pub fn is_streamed(&self, stream: u32) -> bool {
        self.index(stream).is_ok_and(|index| {
            matches!(&self.open[index].1, Source::Streamed(streamed) if !streamed.has_ended)
        })
    }

    /// How many bytes [`Bodies::add`] would accept.
    pub fn room(&self, stream: u32) -> usize {
        match self.index(stream).map(|index| &self.open[index].1) {
            Ok(Source::Streamed(streamed)) if !streamed.has_ended => {
                self.waiting_bytes.saturating_sub(streamed.waiting.len())
            }
            _ => 0,
        }
    }

    /// Accepts bytes of a streamed body. Returns how many, and whether the session must be notified.
    pub fn add(&mut self, stream: u32, bytes: &[u8]) -> (usize, bool) {
        let room = self.room(stream);
        let Some(streamed) = self.streamed(stream) else {
            return (0, false);
        };
        let accepted = bytes.len().min(room);
        streamed.waiting.extend(&bytes[..accepted]);
        let must_resume = accepted > 0 && std::mem::take(&mut streamed.is_deferred);
        self.buffered_bytes += accepted;
        (accepted, must_resume)
    }

    /// Ends a streamed body after the bytes added so far, with these trailers. Returns whether the session must be
    /// notified.
    pub fn end(&mut self, stream: u32, trailers: Option<HeaderBlock>) -> bool {
        self.streamed(stream).is_some_and(|streamed| {
            streamed.has_ended = true;
            streamed.trailers = trailers;
            std::mem::take(&mut streamed.is_deferred)
        })
    }

    /// Removes a body that was read to its end, and returns its trailers.
    pub fn take_trailers(&mut self, stream: u32) -> Option<HeaderBlock> {
        let index = self.index(stream).ok()?;
        match self.open.remove(index)?.1 {
            Source::Streamed(streamed) => streamed.trailers,
            Source::Whole { .. } => None,
        }
    }

    /// Passes the next bytes of the stream's body to `copy`, in one or two calls. Returns `None` if the stream has no body.
    pub fn read(
        &mut self,
        stream: u32,
        at_most: usize,
        copy: impl FnMut(&[u8]),
    ) -> Option<BodyRead> {
        let index = self.index(stream).ok()?;
        let source = &mut self.open[index].1;
        let before = source.waiting_bytes();
        let piece = match source {
            Source::Whole { bytes, sent } => read_whole(bytes, sent, at_most, copy),
            Source::Streamed(streamed) => streamed.read(at_most, copy),
        };
        self.buffered_bytes -= before - source.waiting_bytes();
        if matches!(piece, BodyRead::Last(_)) {
            self.open.remove(index);
        }
        Some(piece)
    }
}

impl Source {
    /// The number of buffered bytes of this body.
    fn waiting_bytes(&self) -> usize {
        match self {
            Source::Whole { .. } => 0,
            Source::Streamed(streamed) => streamed.waiting.len(),
        }
    }
}

fn read_whole(
    bytes: &Bytes,
    sent: &mut usize,
    at_most: usize,
    mut copy: impl FnMut(&[u8]),
) -> BodyRead {
    let rest = &bytes[*sent..];
    let len = rest.len().min(at_most);
    copy(&rest[..len]);
    *sent += len;
    if len == rest.len() {
        BodyRead::Last(len)
    } else {
        BodyRead::Some(len)
    }
}

impl StreamedBody {
    fn read(&mut self, at_most: usize, mut copy: impl FnMut(&[u8])) -> BodyRead {
        let len = self.waiting.len().min(at_most);
        if len == 0 && !self.has_ended {
            self.is_deferred = true;
            return BodyRead::Later;
        }
        let (front, back) = self.waiting.as_slices();
        let from_front = front.len().min(len);
        copy(&front[..from_front]);
        copy(&back[..len - from_front]);
        self.waiting.drain(..len);
        if self.waiting.is_empty() {
            // A stream that waits for its windows keeps no memory.
            self.waiting = VecDeque::new();
        }
        if self.waiting.is_empty() && self.has_ended {
            match self.trailers {
                Some(_) => BodyRead::LastBeforeTrailers(len),
                None => BodyRead::Last(len),
            }
        } else {
            BodyRead::Some(len)
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(bodies: &mut Bodies, stream: u32, at_most: usize) -> Option<(String, BodyRead)> {
        let mut out = Vec::new();
        let piece = bodies.read(stream, at_most, |bytes| out.extend_from_slice(bytes))?;
        Some((String::from_utf8_lossy(&out).into_owned(), piece))
    }

    #[test]
    fn a_whole_body_is_read_in_pieces_and_then_forgotten() {
        let mut bodies = Bodies::new(16_384);
        bodies.insert(3, Body::Whole(&Bytes::from_static(b"x")));
        bodies.insert(1, Body::Whole(&Bytes::from_static(b"hello")));
        let mut read = |stream, at_most| read(&mut bodies, stream, at_most);
        assert_eq!(read(1, 3), Some(("hel".to_owned(), BodyRead::Some(3))));
        assert_eq!(read(1, 3), Some(("lo".to_owned(), BodyRead::Last(2))));
        assert_eq!(read(1, 3), None);
        assert_eq!(read(3, 1), Some(("x".to_owned(), BodyRead::Last(1))));
    }

    #[test]
    fn a_streamed_body_waits_for_its_bytes_and_its_end() {
        let mut bodies = Bodies::new(16_384);
        bodies.insert(1, Body::Streamed);
        assert_eq!(bodies.add(1, b"abc"), (3, false), "nobody has asked yet");
        assert_eq!(
            read(&mut bodies, 1, 2),
            Some(("ab".to_owned(), BodyRead::Some(2)))
        );
        assert_eq!(
            read(&mut bodies, 1, 2),
            Some(("c".to_owned(), BodyRead::Some(1)))
        );
        assert_eq!(
            read(&mut bodies, 1, 2),
            Some((String::new(), BodyRead::Later))
        );
        assert_eq!(bodies.add(1, b""), (0, false));
        assert_eq!(bodies.add(1, b"de"), (2, true), "the session waits");
        assert!(!bodies.end(1, None), "and was told");
        assert_eq!(bodies.add(1, b"f"), (0, false), "nothing after the end");
        assert_eq!(
            read(&mut bodies, 1, 9),
            Some(("de".to_owned(), BodyRead::Last(2)))
        );
        assert_eq!((bodies.room(1), bodies.end(1, None)), (0, false));
    }

    #[test]
    fn a_streamed_body_takes_no_more_than_its_buffer() {
        let mut bodies = Bodies::new(16_384);
        bodies.insert(1, Body::Streamed);
        let much = vec![0; STREAMED_BUFFER_BYTES + 1];
        assert_eq!(bodies.add(1, &much), (STREAMED_BUFFER_BYTES, false));
        assert_eq!((bodies.room(1), bodies.add(1, b"x")), (0, (0, false)));
        read(&mut bodies, 1, 10);
        assert_eq!(bodies.room(1), 10);
    }

    #[test]
    fn bytes_that_wait_are_counted_until_they_are_read_or_dropped() {
        let mut bodies = Bodies::new(16_384);
        bodies.insert(1, Body::Whole(&Bytes::from_static(b"shared")));
        for stream in [3, 5, 7] {
            bodies.insert(stream, Body::Streamed);
            bodies.add(stream, &[0; 100]);
        }
        assert_eq!((bodies.waiting(3), bodies.buffered_bytes()), (100, 300));
        read(&mut bodies, 3, 30);
        assert_eq!((bodies.waiting(3), bodies.buffered_bytes()), (70, 270));
        bodies.remove(5);
        assert_eq!((bodies.waiting(5), bodies.buffered_bytes()), (0, 170));
        bodies.insert(7, Body::Streamed);
        assert_eq!((bodies.waiting(7), bodies.buffered_bytes()), (0, 70));
        bodies.end(3, None);
        read(&mut bodies, 3, 100);
        assert_eq!(bodies.buffered_bytes(), 0);
    }
}
