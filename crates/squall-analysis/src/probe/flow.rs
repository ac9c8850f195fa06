//! How much flow control lets an upload send in a round trip, given its windows and when the receiver opens them again.
//!
//! The model assumes an infinitely fast path. The upload then goes in flights: the sender sends what the windows allow at
//! once, and the receiver's updates for it arrive one round trip later. So positions in the body matter, and times do not.
//! Many receivers send an update only once they owe a certain number of bytes. They keep up to that number to themselves,
//! and the next flight is smaller by what they keep. If they give back halves, a flight is between half a window and a
//! whole one, depending on the pieces in which they read the body.
//!
//! `Replay` repeats the updates that an upload got. `Rule` simulates a receiver, for uploads that hardly waited: their
//! updates came while the next bytes were already on the way. Nothing here reads frames: `windows` and `limits` do.

/// About the body bytes in one packet: a receiver that reads packets as they come takes at least this many at a time.
const PIECE_AT_LEAST: u64 = 1_200;

/// One opening of a window.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Update {
    /// By how many bytes.
    pub(super) bytes: u64,
    /// How many bytes of the upload had been sent by then.
    pub(super) sent: u64,
}

/// One window during an upload.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Ledger {
    /// How many bytes could be sent at first.
    pub(super) first: u64,
    /// How many bytes of earlier requests the receiver had not given back yet.
    pub(super) owed: u64,
    /// Its updates, in their order.
    pub(super) updates: Vec<Update>,
}

impl Ledger {
    /// The position in the upload up to which each update gives back.
    fn positions(&self) -> impl Iterator<Item = u64> {
        let mut given = 0_u64;
        self.updates.iter().map(move |update| {
            given = given.saturating_add(update.bytes);
            given.saturating_sub(self.owed)
        })
    }
}

/// A receiver that sends the updates that an upload got. Each is sent once the bytes that it gives back have arrived; if it
/// gives back more than had been sent, once everything that was sent has.
#[derive(Debug)]
pub(super) struct Replay<'a> {
    ledger: &'a Ledger,
    next: usize,
    given: u64,
}

impl Replay<'_> {
    pub(super) fn of(ledger: &Ledger) -> Replay<'_> {
        Replay {
            ledger,
            next: 0,
            given: 0,
        }
    }

    /// The position up to which the sender may send once everything before `position` was received.
    pub(super) fn received(&mut self, position: u64) -> u64 {
        while let Some(update) = self.ledger.updates.get(self.next) {
            let given = self.given.saturating_add(update.bytes);
            if given.saturating_sub(self.ledger.owed).min(update.sent) > position {
                break;
            }
            self.given = given;
            self.next += 1;
        }
        self.ledger.first.saturating_add(self.given)
    }
}

/// A receiver that reads a body in pieces, and gives everything back once it owes enough.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Rule {
    /// The least number of bytes that it gives back at a time.
    threshold: u64,
    /// Bytes of a full DATA frame; each flight begins with a new frame.
    frame: u64,
    /// Bytes of a piece; each frame begins with a new piece.
    piece: u64,
    owed: u64,
    received: u64,
    limit: u64,
}

impl Rule {
    /// A receiver with the window of `ledger`.
    pub(super) fn new(ledger: &Ledger, threshold: u64, frame: u64, piece: u64) -> Rule {
        Rule {
            threshold,
            frame: frame.max(1),
            piece: piece.max(1),
            owed: ledger.owed,
            received: 0,
            limit: ledger.first,
        }
    }

    /// Infers the receiver from the updates that it sent. Its window has `window` bytes; the upload's DATA frames ended at
    /// the positions `ends` and had at most `frame` bytes each. Without updates, the receiver gives back at once, because a
    /// window that was never used up limits nothing.
    pub(super) fn seen(ledger: &Ledger, window: u64, ends: &[u64], frame: u64) -> Rule {
        let mut sizes: Vec<u64> = ledger.updates.iter().map(|update| update.bytes).collect();
        sizes.sort_unstable();
        let at = |tenths: usize| sizes.get(sizes.len() * tenths / 10).copied();
        // Some updates give back more than usual because the receiver was busy, and the last ones give back less.
        let (Some(small), Some(large)) = (at(1), at(9)) else {
            return Rule::new(ledger, 1, frame, frame);
        };
        let is_each_frame = sizes.len() * 10 >= ends.len() * 8;
        if is_each_frame {
            return Rule::new(ledger, 1, frame, frame);
        }
        let is_half = (0.4..0.7).contains(&(small as f64 / window.max(1) as f64));
        let threshold = if is_half {
            small.min(window / 2)
        } else {
            small
        };
        let whole = ledger
            .positions()
            .filter(|position| ends.binary_search(position).is_ok())
            .count();
        let piece = if whole * 10 >= sizes.len() * 9 {
            frame
        } else {
            // Smaller pieces make no difference that can be measured.
            let least = PIECE_AT_LEAST.max(window / 4_096).min(frame);
            (large - threshold + 1).clamp(least, frame)
        };
        Rule::new(ledger, threshold, frame, piece)
    }

    /// The position up to which the sender may send once everything before `position` was received.
    pub(super) fn received(&mut self, position: u64) -> u64 {
        while self.received < position {
            let mut left = self.frame.min(position - self.received);
            self.received += left;
            while left > 0 {
                let piece = self.piece.min(left);
                left -= piece;
                self.owed += piece;
                if self.owed >= self.threshold {
                    self.limit = self.limit.saturating_add(self.owed);
                    self.owed = 0;
                }
            }
        }
        self.limit
    }
}

/// The mean flight of an upload of `total` bytes whose first flight has `first` bytes. `limit` is the position up to which
/// the sender may send once everything before a position was received. `None` if there are too few flights for a mean.
pub(super) fn mean_flight(
    total: u64,
    first: u64,
    mut limit: impl FnMut(u64) -> u64,
) -> Option<u64> {
    const FLIGHTS_AT_LEAST: u64 = 3;
    let (mut sent, mut before, mut flights) = (first, first, 0);
    while sent < total {
        let next = limit(sent);
        if next <= sent {
            break;
        }
        (before, sent) = (sent, next);
        flights += 1;
    }
    // The receiver does not give back the end of the body, so the last flight may be too small.
    let whole: u64 = flights - u64::from(flights > 0);
    (whole >= FLIGHTS_AT_LEAST).then(|| (before - first) / whole)
}

/// What flow control allows an endless upload in a round trip, given the rules for its stream and its connection.
pub(super) fn by_rules(mut stream: Rule, mut connection: Rule) -> Option<u64> {
    // The pattern of flights repeats after fewer flights.
    const FLIGHTS: u64 = 64;
    let first = stream.limit.min(connection.limit);
    let total = first.saturating_mul(FLIGHTS);
    mean_flight(total, first, |position| {
        stream.received(position).min(connection.received(position))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    const WINDOW: u64 = 65_535;

    fn ledger(first: u64, owed: u64, increments: &[u64]) -> Ledger {
        Ledger {
            first,
            owed,
            updates: increments
                .iter()
                .map(|bytes| Update {
                    bytes: *bytes,
                    sent: u64::MAX,
                })
                .collect(),
        }
    }

    /// What windows of 65,535 bytes for the stream and for the connection allow in a round trip; the receiver has not yet
    /// given back 1,000 bytes of an earlier request on the connection.
    fn flight(threshold: u64, piece: u64) -> u64 {
        let stream = Rule::new(&ledger(WINDOW, 0, &[]), threshold, 16_384, piece);
        let connection = Rule::new(
            &ledger(WINDOW - 1_000, 1_000, &[]),
            threshold,
            16_384,
            piece,
        );
        by_rules(stream, connection).expect("flights")
    }

    #[test]
    fn receiver_that_gives_back_at_once_allows_its_whole_window() {
        assert!(flight(1, 16_384) >= WINDOW - 1_000);
    }

    /// Flights of 33,768 and 48,151 bytes alternate.
    #[test]
    fn receiver_of_whole_frames_that_gives_back_halves_allows_five_eighths() {
        let mean = flight(WINDOW / 2, 16_384);
        assert!((40_500..41_500).contains(&mean), "{mean}");
    }

    /// The receiver reads into buffers of 8 KiB, which hold the frames' headers too.
    #[test]
    fn receiver_of_small_pieces_that_gives_back_halves_allows_little_more_than_half() {
        let mean = flight(WINDOW / 2, 8_183);
        assert!((36_500..37_200).contains(&mean), "{mean}");
    }

    #[test]
    fn flight_lies_between_the_window_and_what_the_threshold_leaves_of_it() {
        for threshold in [4_096, 16_384, WINDOW / 2, WINDOW * 3 / 4] {
            for piece in [1_000, 1_448, 8_183, 16_384] {
                let mean = flight(threshold, piece);
                let least = WINDOW - 1_000 - threshold;
                assert!(
                    (least..=WINDOW).contains(&mean),
                    "{threshold} {piece}: {mean}"
                );
            }
        }
    }

    #[test]
    fn replayed_updates_allow_what_they_give_and_no_more() {
        let halves = ledger(WINDOW, 0, &[32_768; 60]);
        let mut replay = Replay::of(&halves);
        let mean = mean_flight(1_900_000, WINDOW, |position| replay.received(position));
        // Two updates would give back 65,536 bytes, one more than the window.
        assert_eq!(mean, Some(32_768));
        let whole = ledger(WINDOW, 0, &[WINDOW; 30]);
        let mut replay = Replay::of(&whole);
        let mean = mean_flight(1_900_000, WINDOW, |position| replay.received(position));
        assert_eq!(mean, Some(WINDOW));
    }

    #[test]
    fn two_flights_are_too_few_for_a_mean() {
        let halves = ledger(WINDOW, 0, &[32_768; 2]);
        let mut replay = Replay::of(&halves);
        let mean = mean_flight(100_000, WINDOW, |position| replay.received(position));
        assert_eq!(mean, None);
    }
}
