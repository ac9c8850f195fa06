//! Where the bytes of a streamed response come from: a pattern, a file, or the request itself.
//!
//! Memory is bounded: nothing is read before the connection has room for it.

use std::collections::VecDeque;
use std::fs::File;
use std::io::{self, Read};

use squall_base::Time;
use squall_base::splitmix::splitmix64;
use squall_http::Bytes;

use super::query::Delay;

/// The most pieces that become due in one call; others get their turn before the next ones.
const PIECES_AT_ONCE: u32 = 1_000;

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
    /// The same piece repeatedly, each time when it is due.
    Paced(Paced),
    /// What the client sends. One queue of bytes: a client that sends them one by one must not cost memory for each.
    Echo {
        waiting: VecDeque<u8>,
        has_ended: bool,
    },
}

/// The same bytes several times, with pauses. The time at which each piece is due follows from the first piece's, so a
/// piece that is sent late does not delay the others.
pub(super) struct Paced {
    piece: Bytes,
    every: Delay,
    seed: u64,
    /// Bytes that were sent, and the bytes of all pieces that were due so far.
    sent: u64,
    released: u64,
    /// Pieces that were due so far, and all pieces.
    pieces: u32,
    count: u32,
    /// When the next piece is due; `None` before the first one.
    due: Option<Time>,
}

impl Paced {
    /// `count` times the bytes of `piece`, which are not empty. Pauses are drawn from `seed`.
    pub(super) fn new(piece: Bytes, count: u32, every: Delay, seed: u64) -> Paced {
        Paced {
            piece,
            every,
            seed,
            sent: 0,
            released: 0,
            pieces: 0,
            count,
            due: None,
        }
    }

    /// Releases the pieces that are due at `now`; the first one is due at the first call. Returns when the next one is due,
    /// which is in the past if these were too many for one call.
    pub(super) fn release(&mut self, now: Time) -> Option<Time> {
        let size = self.piece.len() as u64;
        if self.every.to.is_zero() {
            self.released = u64::from(self.count) * size;
            self.pieces = self.count;
            return None;
        }
        let mut due = self.due.unwrap_or(now);
        let last = self.count.min(self.pieces.saturating_add(PIECES_AT_ONCE));
        while due <= now && self.pieces < last {
            self.released += size;
            let pause = self
                .every
                .sample(splitmix64(self.seed, u64::from(self.pieces)));
            self.pieces += 1;
            due += pause;
        }
        self.due = Some(due);
        (self.pieces < self.count).then_some(due)
    }

    fn has_ended(&self) -> bool {
        self.pieces == self.count && self.sent == self.released
    }

    /// The rest of the piece that is being sent, if it is due; otherwise empty.
    fn piece(&self) -> &[u8] {
        if self.sent == self.released {
            return &[];
        }
        let at = (self.sent % self.piece.len() as u64) as usize;
        &self.piece[at..]
    }
}

impl Source {
    /// Whether the whole body was taken.
    pub(super) fn has_ended(&self) -> bool {
        match self {
            Source::Pattern { sent, length, .. } => sent == length,
            Source::File { left, piece, .. } => *left == 0 && piece.is_empty(),
            Source::Echo { waiting, has_ended } => *has_ended && waiting.is_empty(),
            Source::Paced(paced) => paced.has_ended(),
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
            Source::Paced(paced) => paced.piece(),
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
            Source::Paced(paced) => paced.sent += n as u64,
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

    use squall_base::Duration;

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
    fn single_bytes_of_an_echo_are_joined_into_one_queue() {
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

    fn next_piece(source: &mut Source) -> Option<String> {
        let piece = source.piece(usize::MAX).expect("a piece");
        (!piece.is_empty()).then(|| String::from_utf8(piece.to_vec()).expect("text"))
    }

    /// Takes everything that the source offers now, and returns the pieces.
    fn offered(source: &mut Source) -> Vec<String> {
        let mut all = Vec::new();
        while let Some(piece) = next_piece(source) {
            source.advance(piece.len());
            all.push(piece);
        }
        all
    }

    #[test]
    fn late_server_does_not_shift_when_pieces_are_due() {
        let at = |ms: u64| Time::from_nanos(ms * 1_000_000);
        let ms = Duration::from_millis;
        let every = Delay {
            from: ms(20),
            to: ms(20),
        };
        let mut source = Source::Paced(Paced::new(Bytes::from_static(b"ab"), 4, every, 0));
        let release = |source: &mut Source, now| match source {
            Source::Paced(paced) => paced.release(now),
            _ => None,
        };
        assert_eq!(release(&mut source, at(100)), Some(at(120)));
        assert_eq!(offered(&mut source), ["ab"]);
        assert!(!source.has_ended());
        // Nothing is due yet.
        assert_eq!(release(&mut source, at(119)), Some(at(120)));
        assert!(offered(&mut source).is_empty());
        // Two pieces are released late. The next one is due when it would have been anyway.
        assert_eq!(release(&mut source, at(145)), Some(at(160)));
        source.advance(1);
        assert_eq!(offered(&mut source), ["b", "ab"]);
        assert_eq!(release(&mut source, at(160)), None);
        assert_eq!(offered(&mut source), ["ab"]);
        assert!(source.has_ended());
    }

    #[test]
    fn pieces_without_pauses_are_all_due_and_very_many_take_several_calls() {
        let piece = Bytes::from_static(b"ab");
        let mut all = Paced::new(piece.clone(), u32::MAX, Delay::default(), 0);
        assert_eq!(all.release(Time::ZERO), None);
        assert_eq!(all.released, 2 * u64::from(u32::MAX));
        let ns = Duration::from_nanos(1);
        let mut many = Paced::new(piece, u32::MAX, Delay { from: ns, to: ns }, 0);
        many.release(Time::ZERO);
        let now = Time::from_nanos(1_000_000_000);
        let next = many.release(now).expect("more pieces");
        assert!(next < now);
        assert_eq!(many.pieces, 1 + PIECES_AT_ONCE);
    }

    #[test]
    fn pauses_follow_from_the_seed() {
        let ms = Duration::from_millis;
        let every = Delay {
            from: ms(10),
            to: ms(30),
        };
        let dues = |seed| {
            let mut paced = Paced::new(Bytes::from_static(b"a"), 50, every, seed);
            let mut now = Time::ZERO;
            let mut all = Vec::new();
            while let Some(due) = paced.release(now) {
                assert!((ms(10)..=ms(30)).contains(&due.since(now)), "{due:?}");
                now = due;
                all.push(due);
            }
            all
        };
        assert_eq!(dues(1).len(), 49);
        assert_eq!(dues(1), dues(1));
        assert_ne!(dues(1), dues(2));
    }
}
