//! Where the bytes of a streamed response come from: a pattern, a file, or the request itself.
//!
//! Memory is bounded: nothing is read before the connection has room for it.

use std::collections::VecDeque;
use std::fs::File;
use std::io::{self, Read};

use squall_http::Bytes;

/// Bytes that are read from a file in one go.
const PIECE_BYTES: usize = 64 * 1024;

/// The source of one body.
pub(super) enum Source {
    /// A number of bytes of the pattern.
    Pattern {
        pattern: Bytes,
        sent: u64,
        length: u64,
    },
    /// A number of bytes of a file, from its current position.
    File {
        file: File,
        left: u64,
        piece: Vec<u8>,
    },
    /// What the client sends.
    Echo {
        pieces: VecDeque<Bytes>,
        has_ended: bool,
    },
}

/// What a source has now.
pub(super) enum Piece<'a> {
    /// These bytes, at least one.
    Bytes(&'a [u8]),
    /// Nothing for now.
    Pending,
    /// The end.
    End,
}

impl Source {
    /// The next bytes. Returns the same until some of them are taken.
    pub(super) fn piece(&mut self) -> io::Result<Piece<'_>> {
        Ok(match self {
            Source::Pattern { sent, length, .. } if sent == length => Piece::End,
            Source::Pattern {
                pattern,
                sent,
                length,
            } => {
                let at = (*sent % pattern.len() as u64) as usize;
                let piece = &pattern[at..];
                let left = usize::try_from(*length - *sent).unwrap_or(usize::MAX);
                Piece::Bytes(&piece[..piece.len().min(left)])
            }
            Source::File { left: 0, piece, .. } if piece.is_empty() => Piece::End,
            Source::File { file, left, piece } => {
                if piece.is_empty() {
                    let want = (*left).min(PIECE_BYTES as u64);
                    let read = file.by_ref().take(want).read_to_end(piece)? as u64;
                    if read < want {
                        let said = "the file became shorter while it was sent";
                        return Err(io::Error::new(io::ErrorKind::UnexpectedEof, said));
                    }
                    *left -= read;
                }
                Piece::Bytes(piece)
            }
            Source::Echo { pieces, has_ended } => match pieces.front() {
                Some(piece) => Piece::Bytes(piece),
                None if *has_ended => Piece::End,
                None => Piece::Pending,
            },
        })
    }

    /// Takes the first `n` bytes of the piece, which the connection accepted.
    pub(super) fn advance(&mut self, n: usize) {
        match self {
            Source::Pattern { sent, .. } => *sent += n as u64,
            Source::File { piece, .. } => {
                piece.drain(..n);
            }
            Source::Echo { pieces, .. } => {
                if let Some(front) = pieces.front_mut() {
                    let _ = front.split_to(n);
                    if front.is_empty() {
                        pieces.pop_front();
                    }
                }
            }
        }
    }
}
