//! A message on its way to the socket, whichever way its body is framed (RFC 9112, section 6).
//!
//! What a message costs most often, a shared piece of memory and a count, is [`Outgoing::Stored`]; the others are
//! bodies that come while they are sent, and whole bodies in chunks. Whose turn it is, and what the marks of a message
//! are called, is up to the two sides.

use std::sync::Arc;

use bytes::{Buf, Bytes};
use squall_base::plan::BodyFraming;

use super::CHUNKED_LINE;
use super::head::ToHead;
use super::staged::{GATHERED_BYTES, Staged};
use super::version::Version;
use crate::message::{Body, Wire};

/// How much of a streamed body is kept for the socket, beyond the last piece's framing.
pub(super) const STREAM_BUFFER_BYTES: usize = 64 * 1024;

/// How a connection sends one message.
#[derive(Clone, Copy, Debug)]
pub(super) struct Manner<'a> {
    pub(super) framing: BodyFraming,
    /// Who will read it: an HTTP/1.0 peer knows no chunks.
    pub(super) reader: Version,
    /// Whether it goes without its body.
    pub(super) to_head: ToHead,
    /// Further lines of the head.
    pub(super) extra: &'a str,
}

/// A message of which something was not yet taken by the socket. Small, as each request makes and moves one.
#[derive(Debug)]
pub(super) enum Outgoing {
    /// As it is stored.
    Stored {
        wire: Arc<Wire>,
        len: usize,
        written: usize,
    },
    /// A whole body in chunks.
    Chunked(Box<WholeInChunks>),
    /// A body that comes piece by piece.
    Streamed(Box<Stream>),
}

/// What the socket's taking of some bytes meant for their message.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Advance {
    /// The first byte was among them.
    pub(super) is_first: bool,
    /// Nothing more will come.
    pub(super) is_done: bool,
}

/// The owner ended a streamed body before its announced length.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct CutShort;

impl Outgoing {
    pub(super) fn new(wire: &Arc<Wire>, manner: Manner<'_>) -> Outgoing {
        let (body, extra) = (wire.body(), manner.extra);
        match body {
            _ if body.is_empty() => Outgoing::stored(wire, wire.head().len(), extra),
            Body::Whole(_) if manner.to_head == ToHead::Yes => {
                Outgoing::stored(wire, wire.head().len(), extra)
            }
            Body::Whole(body) => match chunk_limit(manner) {
                None => Outgoing::stored(wire, wire.len(), extra),
                Some(max) => {
                    let head = wire.head_with(CHUNKED_LINE, extra);
                    Outgoing::Chunked(Box::new(WholeInChunks::new(head, body.clone(), max)))
                }
            },
            Body::Streamed { length } => {
                Outgoing::Streamed(Box::new(Stream::new(wire, *length, manner)))
            }
        }
    }

    fn stored(wire: &Arc<Wire>, len: usize, extra: &str) -> Outgoing {
        let wire = if extra.is_empty() {
            Arc::clone(wire)
        } else {
            Arc::new(wire.with_fields(extra))
        };
        Outgoing::Stored {
            len: len + extra.len(),
            wire,
            written: 0,
        }
    }

    /// Whether the socket took its first byte.
    pub(super) fn has_begun(&self) -> bool {
        match self {
            Outgoing::Stored { written, .. } => *written > 0,
            Outgoing::Chunked(body) => body.has_begun,
            Outgoing::Streamed(stream) => stream.has_begun,
        }
    }

    /// Whether everything was written.
    pub(super) fn is_done(&self) -> bool {
        match self {
            Outgoing::Stored { len, written, .. } => written == len,
            Outgoing::Chunked(body) => body.is_done(),
            Outgoing::Streamed(stream) => stream.is_done(),
        }
    }

    /// Whether it has begun, and its body is as long as the connection lasts.
    pub(super) fn goes_to_the_end(&self) -> bool {
        match self {
            Outgoing::Streamed(stream) => {
                stream.has_begun && stream.framing == StreamFraming::UntilEnd
            }
            Outgoing::Stored { .. } | Outgoing::Chunked(_) => false,
        }
    }

    /// What can be written now.
    pub(super) fn pending(&self) -> &[u8] {
        match self {
            Outgoing::Stored { wire, len, written } => {
                let piece = wire.piece_from(*written);
                &piece[..piece.len().min(len - written)]
            }
            Outgoing::Chunked(body) => body.pending(),
            Outgoing::Streamed(stream) => stream.staged.pending(),
        }
    }

    /// Counts the first `n` bytes of what is pending, more than none.
    pub(super) fn advance(&mut self, n: usize) -> Advance {
        let is_first = !self.has_begun();
        match self {
            Outgoing::Stored { written, .. } => *written += n,
            Outgoing::Chunked(body) => body.advance(n),
            Outgoing::Streamed(stream) => stream.advance(n),
        }
        Advance {
            is_first,
            is_done: self.is_done(),
        }
    }

    /// How many bytes of a streamed body would be taken now.
    pub(super) fn room(&self) -> usize {
        match self {
            Outgoing::Streamed(stream) => stream.room(),
            Outgoing::Stored { .. } | Outgoing::Chunked(_) => 0,
        }
    }

    /// The streamed body, if that is what it has.
    pub(super) fn stream(&mut self) -> Option<&mut Stream> {
        match self {
            Outgoing::Streamed(stream) => Some(stream),
            Outgoing::Stored { .. } | Outgoing::Chunked(_) => None,
        }
    }
}

/// How long chunks may be, if the message is to be sent in chunks although its length is known.
fn chunk_limit(manner: Manner<'_>) -> Option<usize> {
    match (manner.framing, manner.reader) {
        (BodyFraming::Chunked(max), Version::Http11) => {
            Some(usize::try_from(max.get()).unwrap_or(usize::MAX).max(1))
        }
        _ => None,
    }
}

/// A whole body in chunks: small chunks are gathered, the data of large ones is sent where it lies.
#[derive(Debug)]
pub(super) struct WholeInChunks {
    has_begun: bool,
    staged: Staged,
    /// What is left of the data of a large chunk, whose size is staged.
    data: Bytes,
    /// What follows that chunk, until the last chunk is staged.
    rest: Option<Bytes>,
    max: usize,
}

impl WholeInChunks {
    fn new(head: Vec<u8>, body: Bytes, max: usize) -> WholeInChunks {
        let mut new = WholeInChunks {
            has_begun: false,
            staged: Staged::new(head),
            data: Bytes::new(),
            rest: Some(body),
            max,
        };
        new.stage();
        new
    }

    fn is_done(&self) -> bool {
        self.staged.is_empty() && self.data.is_empty() && self.rest.is_none()
    }

    fn pending(&self) -> &[u8] {
        match self.staged.pending() {
            [] => &self.data,
            staged => staged,
        }
    }

    fn advance(&mut self, n: usize) {
        self.has_begun = true;
        if !self.staged.is_empty() {
            self.staged.take(n);
        } else {
            self.data.advance(n);
            if self.data.is_empty() {
                self.staged.push_chunk_end();
            }
        }
        if self.data.is_empty() {
            self.stage();
        }
    }

    /// Gathers chunks until there is enough to write, or a large one.
    fn stage(&mut self) {
        while self.staged.pending().len() < GATHERED_BYTES
            && let Some(rest) = &mut self.rest
        {
            let chunk = rest.split_to(rest.len().min(self.max));
            if chunk.is_empty() {
                self.staged.push_last_chunk(&[]);
                self.rest = None;
            } else if chunk.len() <= GATHERED_BYTES {
                self.staged.push_chunk(&chunk);
            } else {
                self.staged.push_chunk_size(chunk.len());
                self.data = chunk;
                break;
            }
        }
    }
}

/// A body that comes piece by piece.
#[derive(Debug)]
pub(super) struct Stream {
    has_begun: bool,
    staged: Staged,
    /// How much must still come, if its length was announced.
    left: Option<u64>,
    framing: StreamFraming,
    has_ended: bool,
    /// Lines of trailers.
    trailers: Vec<u8>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum StreamFraming {
    Length,
    Chunks { max: usize },
    UntilEnd,
}

impl Stream {
    fn new(wire: &Wire, length: Option<u64>, manner: Manner<'_>) -> Stream {
        let extra = manner.extra;
        let (framing, head) = match (chunk_limit(manner), length, manner.reader) {
            (None, Some(_), _) => (StreamFraming::Length, wire.with_fields(extra).head().into()),
            (None, None, Version::Http10) => (StreamFraming::UntilEnd, wire.head_with("", extra)),
            (max, _, _) => {
                let max = max.unwrap_or(usize::MAX);
                let head = wire.head_with(CHUNKED_LINE, extra);
                (StreamFraming::Chunks { max }, head)
            }
        };
        let is_bare = manner.to_head == ToHead::Yes;
        Stream {
            has_begun: false,
            staged: Staged::new(head),
            left: length.filter(|_| !is_bare),
            framing,
            has_ended: is_bare,
            trailers: Vec::new(),
        }
    }

    /// A body of stated length is complete when that has come, whether or not the owner has said so.
    fn is_done(&self) -> bool {
        let is_all =
            self.has_ended || self.framing == StreamFraming::Length && self.left == Some(0);
        is_all && self.staged.is_empty()
    }

    fn advance(&mut self, n: usize) {
        self.has_begun = true;
        self.staged.take(n);
    }

    fn room(&self) -> usize {
        if self.has_ended {
            return 0;
        }
        let room = STREAM_BUFFER_BYTES.saturating_sub(self.staged.pending().len());
        let left = self.left.and_then(|left| usize::try_from(left).ok());
        left.map_or(room, |left| left.min(room))
    }

    /// Takes as many as there is room for.
    pub(super) fn send(&mut self, bytes: &[u8]) -> usize {
        let bytes = &bytes[..bytes.len().min(self.room())];
        match self.framing {
            StreamFraming::Length | StreamFraming::UntilEnd => self.staged.push(bytes),
            StreamFraming::Chunks { max } => {
                for chunk in bytes.chunks(max) {
                    self.staged.push_chunk(chunk);
                }
            }
        }
        if let Some(left) = &mut self.left {
            *left -= bytes.len() as u64;
        }
        bytes.len()
    }

    /// What follows the body, if that is sent in chunks.
    pub(super) fn set_trailers(&mut self, lines: Vec<u8>) {
        self.trailers = lines;
    }

    /// No more will come.
    pub(super) fn end(&mut self) -> Result<(), CutShort> {
        if self.left.is_some_and(|left| left > 0) {
            return Err(CutShort);
        }
        if let StreamFraming::Chunks { .. } = self.framing
            && !self.has_ended
        {
            self.staged.push_last_chunk(&self.trailers);
        }
        self.has_ended = true;
        Ok(())
    }
}
