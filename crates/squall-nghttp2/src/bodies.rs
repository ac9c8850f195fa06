//! The bodies that are being sent, by stream.
//!
//! A body is whole, shared and never copied before a session asks for its bytes, or streamed: given in pieces that
//! wait here, [`STREAMED_BUFFER_BYTES`] or a DATA frame of them at most, until the session may send them. It knows no
//! windows.

use std::collections::VecDeque;

use bytes::Bytes;

use crate::headers::HeaderBlock;

/// How much of a streamed body waits at most, unless a DATA frame may be larger: four of those that everybody takes (RFC
/// 9113, section 4.2), so that a frame is always ready while the owner fetches the next piece.
pub const STREAMED_BUFFER_BYTES: usize = 64 * 1024;

/// The body of a message that is submitted.
#[derive(Clone, Copy, Debug)]
pub enum Body<'a> {
    /// These bytes; none make a message without a body.
    Whole(&'a Bytes),
    /// Bytes that will be given to [`crate::Session::send_body`].
    Streamed,
}

impl Body<'_> {
    /// Whether there is nothing to ask for.
    pub fn is_empty(self) -> bool {
        matches!(self, Body::Whole(bytes) if bytes.is_empty())
    }
}

/// All bodies, sorted by their streams: a request's id is the largest, and responses are mostly given in order.
pub struct Bodies {
    open: VecDeque<(u32, Source)>,
    /// How much of each streamed one waits at most.
    waiting_bytes: usize,
}

/// Where the bytes of a body come from.
enum Source {
    Whole { bytes: Bytes, sent: usize },
    Streamed(Streamed),
}

#[derive(Default)]
struct Streamed {
    waiting: VecDeque<u8>,
    has_ended: bool,
    /// What follows the body.
    trailers: Option<HeaderBlock>,
    /// The session asked in vain and has to be told of more.
    is_deferred: bool,
}

/// What a session gets when it asks for the next bytes of a body.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Piece {
    /// So many bytes were copied, and others follow.
    Some(usize),
    /// So many bytes were copied: the last ones.
    Last(usize),
    /// So many bytes were copied: the last ones before trailers, which [`Bodies::take_trailers`] gives.
    LastBeforeTrailers(usize),
    /// There are none now.
    Later,
}

impl Bodies {
    /// None, of which a DATA frame has so many bytes at most.
    pub fn new(data_bytes: u32) -> Bodies {
        Bodies {
            open: VecDeque::new(),
            waiting_bytes: STREAMED_BUFFER_BYTES.max(data_bytes as usize),
        }
    }

    /// Keeps the body of a stream.
    pub fn insert(&mut self, stream: u32, body: Body<'_>) {
        let source = match body {
            Body::Whole(bytes) => Source::Whole {
                bytes: bytes.clone(),
                sent: 0,
            },
            Body::Streamed => Source::Streamed(Streamed::default()),
        };
        match self.index(stream) {
            Ok(index) => self.open[index].1 = source,
            Err(index) => self.open.insert(index, (stream, source)),
        }
    }

    /// Forgets the body of a stream, if it has one.
    pub fn remove(&mut self, stream: u32) {
        if let Ok(index) = self.index(stream) {
            self.open.remove(index);
        }
    }

    /// Whether bytes of the stream's body are to be sent, or its end.
    pub fn has(&self, stream: u32) -> bool {
        self.index(stream).is_ok()
    }

    fn index(&self, stream: u32) -> Result<usize, usize> {
        self.open.binary_search_by_key(&stream, |(id, _)| *id)
    }

    fn streamed(&mut self, stream: u32) -> Option<&mut Streamed> {
        let index = self.index(stream).ok()?;
        match &mut self.open[index].1 {
            Source::Streamed(streamed) if !streamed.has_ended => Some(streamed),
            _ => None,
        }
    }

    /// Whether more of a streamed body may be given.
    pub fn is_streamed(&self, stream: u32) -> bool {
        self.index(stream).is_ok_and(|index| {
            matches!(&self.open[index].1, Source::Streamed(streamed) if !streamed.has_ended)
        })
    }

    /// How many bytes [`Bodies::add`] would take.
    pub fn room(&self, stream: u32) -> usize {
        match self.index(stream).map(|index| &self.open[index].1) {
            Ok(Source::Streamed(streamed)) if !streamed.has_ended => {
                self.waiting_bytes.saturating_sub(streamed.waiting.len())
            }
            _ => 0,
        }
    }

    /// Takes bytes of a streamed body; returns how many, and whether the session has to be told.
    pub fn add(&mut self, stream: u32, bytes: &[u8]) -> (usize, bool) {
        let room = self.room(stream);
        let Some(streamed) = self.streamed(stream) else {
            return (0, false);
        };
        let taken = bytes.len().min(room);
        streamed.waiting.extend(&bytes[..taken]);
        let is_news = taken > 0 && std::mem::take(&mut streamed.is_deferred);
        (taken, is_news)
    }

    /// Nothing but these trailers follows what was added; returns whether the session has to be told.
    pub fn end(&mut self, stream: u32, trailers: Option<HeaderBlock>) -> bool {
        self.streamed(stream).is_some_and(|streamed| {
            streamed.has_ended = true;
            streamed.trailers = trailers;
            std::mem::take(&mut streamed.is_deferred)
        })
    }

    /// The trailers of a body that was read to its end, which is then forgotten.
    pub fn take_trailers(&mut self, stream: u32) -> Option<HeaderBlock> {
        let index = self.index(stream).ok()?;
        match self.open.remove(index)?.1 {
            Source::Streamed(streamed) => streamed.trailers,
            Source::Whole { .. } => None,
        }
    }

    /// Hands the next bytes of the stream's body to `copy`, in one or two calls; `None` if it has no body.
    pub fn read(&mut self, stream: u32, at_most: usize, copy: impl FnMut(&[u8])) -> Option<Piece> {
        let index = self.index(stream).ok()?;
        let piece = match &mut self.open[index].1 {
            Source::Whole { bytes, sent } => read_whole(bytes, sent, at_most, copy),
            Source::Streamed(streamed) => streamed.read(at_most, copy),
        };
        if matches!(piece, Piece::Last(_)) {
            self.open.remove(index);
        }
        Some(piece)
    }
}

fn read_whole(
    bytes: &Bytes,
    sent: &mut usize,
    at_most: usize,
    mut copy: impl FnMut(&[u8]),
) -> Piece {
    let rest = &bytes[*sent..];
    let len = rest.len().min(at_most);
    copy(&rest[..len]);
    *sent += len;
    if len == rest.len() {
        Piece::Last(len)
    } else {
        Piece::Some(len)
    }
}

impl Streamed {
    fn read(&mut self, at_most: usize, mut copy: impl FnMut(&[u8])) -> Piece {
        let len = self.waiting.len().min(at_most);
        if len == 0 && !self.has_ended {
            self.is_deferred = true;
            return Piece::Later;
        }
        let (front, back) = self.waiting.as_slices();
        let from_front = front.len().min(len);
        copy(&front[..from_front]);
        copy(&back[..len - from_front]);
        self.waiting.drain(..len);
        if self.waiting.is_empty() && self.has_ended {
            match self.trailers {
                Some(_) => Piece::LastBeforeTrailers(len),
                None => Piece::Last(len),
            }
        } else {
            Piece::Some(len)
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(bodies: &mut Bodies, stream: u32, at_most: usize) -> Option<(String, Piece)> {
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
        assert_eq!(read(1, 3), Some(("hel".to_owned(), Piece::Some(3))));
        assert_eq!(read(1, 3), Some(("lo".to_owned(), Piece::Last(2))));
        assert_eq!(read(1, 3), None);
        assert_eq!(read(3, 1), Some(("x".to_owned(), Piece::Last(1))));
    }

    #[test]
    fn a_streamed_body_waits_for_its_bytes_and_its_end() {
        let mut bodies = Bodies::new(16_384);
        bodies.insert(1, Body::Streamed);
        assert_eq!(bodies.add(1, b"abc"), (3, false), "nobody has asked yet");
        assert_eq!(
            read(&mut bodies, 1, 2),
            Some(("ab".to_owned(), Piece::Some(2)))
        );
        assert_eq!(
            read(&mut bodies, 1, 2),
            Some(("c".to_owned(), Piece::Some(1)))
        );
        assert_eq!(read(&mut bodies, 1, 2), Some((String::new(), Piece::Later)));
        assert_eq!(bodies.add(1, b""), (0, false));
        assert_eq!(bodies.add(1, b"de"), (2, true), "the session waits");
        assert!(!bodies.end(1, None), "and was told");
        assert_eq!(bodies.add(1, b"f"), (0, false), "nothing after the end");
        assert_eq!(
            read(&mut bodies, 1, 9),
            Some(("de".to_owned(), Piece::Last(2)))
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
}
