//! A message on its way to the socket, however its body is framed (RFC 9112, section 6).
//!
//! [`Outgoing::Stored`] is the usual case and costs only a reference to shared memory and a counter. The other cases
//! are bodies that arrive while they are sent, and complete bodies sent in chunks. The two sides decide on the order of
//! messages and on the names of their marks.

use std::sync::Arc;

use bytes::{Buf, Bytes};
use squall_base::plan::BodyFraming;

use super::CHUNKED_LINE;
use super::head::AnsweredMethod;
use super::staged::{GATHERED_BYTES, StagedOutput};
use super::version::Version;
use crate::message::{Body, Wire};

/// How much of a streamed body is buffered for the socket, not counting the framing of the last piece.
pub(super) const STREAM_BUFFER_BYTES: usize = 64 * 1024;

/// How a connection sends one message.
#[derive(Clone, Copy, Debug)]
pub(super) struct SendOptions<'a> {
    pub(super) framing: BodyFraming,
    /// The recipient's version: an HTTP/1.0 peer does not support chunks.
    pub(super) peer_version: Version,
    /// What it answers: the response to HEAD is sent without its body.
    pub(super) answered: AnsweredMethod,
    /// Additional lines of the head.
    pub(super) extra: &'a str,
}

/// A message that the socket has not completely taken. Kept small, because every request creates and moves one.
#[derive(Debug)]
pub(super) enum Outgoing {
    /// Sent as stored.
    Stored {
        wire: Arc<Wire>,
        len: usize,
        written: usize,
    },
    /// A complete body in chunks.
    Chunked(Box<WholeInChunks>),
    /// A body that arrives piece by piece.
    Streamed(Box<Stream>),
}

/// The effect of written bytes on their message.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Advance {
    /// The written bytes included the message's first byte.
    pub(super) is_first: bool,
    /// Nothing of the message is left to send.
    pub(super) is_done: bool,
}

/// The owner ended a streamed body before its announced length.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct IncompleteBody;

impl Outgoing {
    pub(super) fn new(wire: &Arc<Wire>, options: SendOptions<'_>) -> Outgoing {
        let (body, extra) = (wire.body(), options.extra);
        match body {
            _ if body.is_empty() => Outgoing::stored(wire, wire.head().len(), extra),
            Body::Whole(_) if options.answered == AnsweredMethod::Head => {
                Outgoing::stored(wire, wire.head().len(), extra)
            }
            Body::Whole(body) => match chunk_limit(options) {
                None => Outgoing::stored(wire, wire.len(), extra),
                Some(max) => {
                    let head = wire.head_with(CHUNKED_LINE, extra);
                    Outgoing::Chunked(Box::new(WholeInChunks::new(head, body.clone(), max)))
                }
            },
            Body::Streamed { length } => {
                Outgoing::Streamed(Box::new(Stream::new(wire, *length, options)))
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

    /// Whether the socket took the message's first byte.
    pub(super) fn has_begun(&self) -> bool {
        match self {
            Outgoing::Stored { written, .. } => *written > 0,
            Outgoing::Chunked(body) => body.has_begun,
            Outgoing::Streamed(stream) => stream.has_begun,
        }
    }

    /// Whether the whole message was written.
    pub(super) fn is_done(&self) -> bool {
        match self {
            Outgoing::Stored { len, written, .. } => written == len,
            Outgoing::Chunked(body) => body.is_done(),
            Outgoing::Streamed(stream) => stream.is_done(),
        }
    }

    /// Whether the message has begun and only the end of the connection delimits its body.
    pub(super) fn is_delimited_by_close(&self) -> bool {
        match self {
            Outgoing::Streamed(stream) => {
                stream.has_begun && stream.framing == StreamFraming::UntilEnd
            }
            Outgoing::Stored { .. } | Outgoing::Chunked(_) => false,
        }
    }

    /// The bytes that can be written now.
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

    /// Records that the first `n` pending bytes were written; `n` is at least 1.
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

    /// How many bytes wait in a buffer of the message's own: framing, and a body that is not shared.
    pub(super) fn buffered_bytes(&self) -> usize {
        match self {
            Outgoing::Stored { .. } => 0,
            Outgoing::Chunked(body) => body.staged.pending().len(),
            Outgoing::Streamed(stream) => stream.staged.pending().len(),
        }
    }

    /// How many bytes of a streamed body could be taken now.
    pub(super) fn room(&self) -> usize {
        match self {
            Outgoing::Streamed(stream) => stream.room(),
            Outgoing::Stored { .. } | Outgoing::Chunked(_) => 0,
        }
    }

    /// The streamed body, if it has one.
    pub(super) fn stream(&mut self) -> Option<&mut Stream> {
        match self {
            Outgoing::Streamed(stream) => Some(stream),
            Outgoing::Stored { .. } | Outgoing::Chunked(_) => None,
        }
    }
}

/// The maximum chunk length, if the message should be chunked although its length is known.
fn chunk_limit(options: SendOptions<'_>) -> Option<usize> {
    match (options.framing, options.peer_version) {
        (BodyFraming::Chunked(max), Version::Http11) => {
            Some(usize::try_from(max.get()).unwrap_or(usize::MAX).max(1))
        }
        _ => None,
    }
}

/// A complete body in chunks: small chunks are gathered, the data of large ones is sent without a copy.
#[derive(Debug)]
pub(super) struct WholeInChunks {
    has_begun: bool,
    staged: StagedOutput,
    /// The rest of a large chunk's data, whose size line is staged.
    data: Bytes,
    /// The body after that chunk, until the last chunk is staged.
    rest: Option<Bytes>,
    max: usize,
}

impl WholeInChunks {
    fn new(head: Vec<u8>, body: Bytes, max: usize) -> WholeInChunks {
        let mut new = WholeInChunks {
            has_begun: false,
            staged: StagedOutput::new(head),
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

    /// Gathers chunks until there is enough to write, or until a large one.
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

/// A body that arrives piece by piece.
#[derive(Debug)]
pub(super) struct Stream {
    has_begun: bool,
    staged: StagedOutput,
    /// How many bytes are still missing, if the length was announced.
    left: Option<u64>,
    framing: StreamFraming,
    has_ended: bool,
    /// Trailer lines.
    trailers: Vec<u8>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum StreamFraming {
    Length,
    Chunks { max: usize },
    UntilEnd,
}

impl Stream {
    fn new(wire: &Wire, length: Option<u64>, options: SendOptions<'_>) -> Stream {
        let extra = options.extra;
        let (framing, head) = match (chunk_limit(options), length, options.peer_version) {
            (None, Some(_), _) => (StreamFraming::Length, wire.with_fields(extra).head().into()),
            (None, None, Version::Http10) => (StreamFraming::UntilEnd, wire.head_with("", extra)),
            (max, _, _) => {
                let max = max.unwrap_or(usize::MAX);
                let head = wire.head_with(CHUNKED_LINE, extra);
                (StreamFraming::Chunks { max }, head)
            }
        };
        let is_bare = options.answered == AnsweredMethod::Head;
        Stream {
            has_begun: false,
            staged: StagedOutput::new(head),
            left: length.filter(|_| !is_bare),
            framing,
            has_ended: is_bare,
            trailers: Vec::new(),
        }
    }

    /// A body with an announced length is complete once all its bytes have arrived, even if the owner has not ended it.
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

    /// Takes as many bytes as there is room for.
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

    /// Sets the trailers, which are sent only if the body is chunked.
    pub(super) fn set_trailers(&mut self, lines: Vec<u8>) {
        self.trailers = lines;
    }

    /// Ends the body.
    pub(super) fn end(&mut self) -> Result<(), IncompleteBody> {
        if self.left.is_some_and(|left| left > 0) {
            return Err(IncompleteBody);
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
