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
    /// What the client sends. One queue of bytes: a client that sends them one by one must not cost memory for each.
    Echo {
        waiting: VecDeque<u8>,
        has_ended: bool,
    },
}

impl Source {
    /// Whether all of it was taken.
    pub(super) fn has_ended(&self) -> bool {
        match self {
            Source::Pattern { sent, length, .. } => sent == length,
            Source::File { left, piece, .. } => *left == 0 && piece.is_empty(),
            Source::Echo { waiting, has_ended } => *has_ended && waiting.is_empty(),
        }
    }

    /// The next bytes, at most `room`, which is at least 1; empty if there are none now. Returns the same until some of
    /// them are taken.
    pub(super) fn piece(&mut self, room: usize) -> io::Result<&[u8]> {
        let piece = match self {
            Source::Pattern {
                pattern,
                sent,
                length,
            } => {
                let at = (*sent % pattern.len() as u64) as usize;
                let left = usize::try_from(*length - *sent).unwrap_or(usize::MAX);
                let piece = &pattern[at..];
                &piece[..piece.len().min(left)]
            }
            Source::File { file, left, piece } => {
                if piece.is_empty() {
                    read_piece(file, left, piece, room)?;
                }
                &piece[..]
            }
            Source::Echo { waiting, .. } => waiting.as_slices().0,
        };
        Ok(&piece[..piece.len().min(room)])
    }

    /// Takes the first `n` bytes of the piece, which the connection accepted.
    pub(super) fn advance(&mut self, n: usize) {
        match self {
            Source::Pattern { sent, .. } => *sent += n as u64,
            Source::File { piece, .. } => {
                piece.drain(..n);
                if piece.is_empty() {
                    // A body that waits keeps no memory.
                    *piece = Vec::new();
                }
            }
            Source::Echo { waiting, .. } => {
                waiting.drain(..n);
                if waiting.is_empty() {
                    *waiting = VecDeque::new();
                }
            }
        }
    }
}

/// Reads the next piece of a file, for which there is `room`.
fn read_piece(file: &mut File, left: &mut u64, piece: &mut Vec<u8>, room: usize) -> io::Result<()> {
    let want = (*left).min(PIECE_BYTES.min(room) as u64);
    piece.reserve_exact(want as usize);
    let read = file.take(want).read_to_end(piece)? as u64;
    if read < want {
        let said = "the file became shorter while it was sent";
        return Err(io::Error::new(io::ErrorKind::UnexpectedEof, said));
    }
    *left -= read;
    Ok(())
}

#[cfg(test)]
mod tests {
    use std::io::{Seek, Write};

    use super::*;

    #[test]
    fn file_is_read_only_as_far_as_there_is_room() {
        let mut file = tempfile::tempfile().unwrap();
        file.write_all(b"0123456789").unwrap();
        file.rewind().unwrap();
        let mut source = Source::File {
            file,
            left: 10,
            piece: Vec::new(),
        };
        assert_eq!(source.piece(4).unwrap(), b"0123");
        assert_eq!(source.piece(2).unwrap(), b"01");
        source.advance(4);
        let Source::File { left, piece, .. } = &source else {
            panic!("it is a file");
        };
        assert_eq!((*left, piece.capacity()), (6, 0));
        assert_eq!(source.piece(100).unwrap(), b"456789");
        source.advance(6);
        assert!(source.has_ended());
    }

    #[test]
    fn echo_of_single_bytes_is_one_queue() {
        let mut source = Source::Echo {
            waiting: VecDeque::new(),
            has_ended: false,
        };
        assert_eq!(source.piece(1).unwrap(), b"");
        if let Source::Echo { waiting, has_ended } = &mut source {
            for byte in b"abc" {
                waiting.push_back(*byte);
            }
            *has_ended = true;
        }
        assert_eq!(source.piece(9).unwrap(), b"abc");
        source.advance(3);
        assert!(source.has_ended());
    }
}
