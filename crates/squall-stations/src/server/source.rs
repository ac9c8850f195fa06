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
    /// A piece again and again, each time when it is due.
    Paced(Paced),
    /// What the client sends.
    Echo {
        pieces: VecDeque<Bytes>,
        has_ended: bool,
    },
}

/// The same bytes several times, with pauses. Each piece is due at a time that follows from the first one's, so a late
/// server moves none.
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

    fn piece(&self) -> Piece<'_> {
        if self.sent < self.released {
            let at = (self.sent % self.piece.len() as u64) as usize;
            Piece::Bytes(&self.piece[at..])
        } else if self.pieces == self.count {
            Piece::End
        } else {
            Piece::Pending
        }
    }
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
            Source::Paced(paced) => paced.piece(),
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
            Source::Paced(paced) => paced.sent += n as u64,
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

#[cfg(test)]
mod tests {
    use squall_base::Duration;

    use super::*;

    /// What is sent of it now, in the pieces in which it is offered.
    fn offered(source: &mut Source) -> Vec<String> {
        let mut all = Vec::new();
        while let Ok(Piece::Bytes(piece)) = source.piece() {
            let piece = String::from_utf8(piece.to_vec()).expect("text");
            source.advance(piece.len());
            all.push(piece);
        }
        all
    }

    #[test]
    fn pieces_are_offered_when_they_are_due_however_late_the_server_is() {
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
        assert!(matches!(source.piece(), Ok(Piece::Pending)));
        // Nothing is due yet.
        assert_eq!(release(&mut source, at(119)), Some(at(120)));
        assert!(offered(&mut source).is_empty());
        // Late for two of them: the third is due when it would have been anyway.
        assert_eq!(release(&mut source, at(145)), Some(at(160)));
        source.advance(1);
        assert_eq!(offered(&mut source), ["b", "ab"]);
        assert_eq!(release(&mut source, at(160)), None);
        assert_eq!(offered(&mut source), ["ab"]);
        assert!(matches!(source.piece(), Ok(Piece::End)));
    }

    #[test]
    fn pieces_without_pauses_are_due_at_once_and_very_many_in_several_calls() {
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
