//! A byte stream on the link: every transmission of its bytes, and when each byte first arrived.
//!
//! It is one direction of a TCP connection or of a QUIC stream; here both are bytes that were sent once or several times.
//! It does not know whose bytes they are (`message`) nor why they were retransmitted (`repair`).

use squall_base::record::{Fate, PacketRef};

use super::walk::{NEVER, Span};

/// A packet on the link that carried bytes of the stream.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Transmission {
    pub(super) packet: PacketRef,
    /// The bytes.
    pub(super) start: u64,
    pub(super) end: u64,
    /// When the link read the packet.
    pub(super) sent: u64,
    /// Time in queues and at rates; for a lost packet, what it would have been.
    pub(super) queueing: u64,
    /// When it was due to arrive; for a lost packet, when it would have arrived.
    pub(super) due: u64,
    /// When it arrived undamaged, or [`NEVER`].
    pub(super) arrived: u64,
    pub(super) fate: Fate,
}

impl Transmission {
    pub(super) fn is_lost(&self) -> bool {
        self.arrived == NEVER && self.fate != Fate::InFlight
    }
}

/// Bytes that share their first transmission and their fate.
#[derive(Clone, Debug)]
pub(super) struct Piece {
    pub(super) start: u64,
    pub(super) end: u64,
    /// Their first transmission, by position in the stream's list.
    pub(super) first: u32,
    /// The transmission that delivered them; the first one if none did.
    pub(super) delivered_by: u32,
    /// When they first arrived, or [`NEVER`].
    pub(super) arrived: u64,
    /// Transmissions of them that were lost before they arrived, in order; usually empty.
    lost: Vec<u32>,
}

impl Piece {
    pub(super) fn lost(&self) -> &[u32] {
        &self.lost
    }
}

#[derive(Clone, Debug, Default)]
pub(super) struct Stream {
    /// In the order of sending.
    pub(super) txs: Vec<Transmission>,
    /// In the order of bytes, without gaps between them from the first byte on.
    pub(super) pieces: Vec<Piece>,
    /// When each piece had arrived together with everything before it.
    in_order: Vec<u64>,
    /// One past the last byte that had been sent, up to and including each transmission.
    sent_end: Vec<u64>,
    index: PieceIndex,
}

/// Which piece has the first byte of each `1 << shift` bytes; empty if there are few pieces.
#[derive(Clone, Debug, Default)]
struct PieceIndex {
    shift: u32,
    places: Vec<u32>,
}

/// A message usually has fewer pieces than this, and counting them is faster than looking up the end.
const NEAR_PIECES: usize = 4;
/// Up to this number of pieces, a search is as fast as a lookup.
const FEW_PIECES: usize = 16;

impl PieceIndex {
    /// For pieces without gaps; it has no more entries than there are pieces.
    fn of(pieces: &[Piece]) -> PieceIndex {
        let Some(last) = pieces.last().filter(|_| pieces.len() > FEW_PIECES) else {
            return PieceIndex::default();
        };
        let shift = u64::BITS - (last.end / pieces.len() as u64).leading_zeros();
        let mut places = Vec::with_capacity((last.end >> shift) as usize + 1);
        let mut place = 0;
        for entry in 0..=last.end >> shift {
            while pieces
                .get(place)
                .is_some_and(|piece| piece.end <= entry << shift)
            {
                place += 1;
            }
            places.push(place as u32);
        }
        PieceIndex { shift, places }
    }

    /// The range of `pieces` in which the one with byte `at` is.
    fn near(&self, at: u64, pieces: usize) -> std::ops::Range<usize> {
        let entry = (at >> self.shift) as usize;
        match self.places.get(entry..) {
            Some([from, to, ..]) => *from as usize..(*to as usize + 1).min(pieces),
            Some([from]) => *from as usize..pieces,
            _ => 0..pieces,
        }
    }
}

impl Stream {
    /// From these transmissions, in the order of sending.
    pub(super) fn new(txs: Vec<Transmission>) -> Stream {
        Stream::after(Vec::with_capacity(txs.len()), txs)
    }

    /// From these transmissions, which followed others. All bytes before their first byte count as a single piece, which
    /// had arrived when the first of them was sent.
    pub(super) fn resumed(txs: Vec<Transmission>) -> Stream {
        let mut before = Vec::with_capacity(txs.len() + 1);
        before.extend(
            txs.first()
                .filter(|first| first.start > 0)
                .map(|first| Piece {
                    start: 0,
                    end: first.start,
                    first: 0,
                    delivered_by: 0,
                    arrived: first.sent,
                    lost: Vec::new(),
                }),
        );
        Stream::after(before, txs)
    }

    /// The pieces that were sent before, and then these transmissions.
    fn after(pieces: Vec<Piece>, txs: Vec<Transmission>) -> Stream {
        let mut stream = Stream {
            pieces,
            in_order: Vec::new(),
            sent_end: Vec::with_capacity(txs.len()),
            index: PieceIndex::default(),
            txs,
        };
        for place in 0..stream.txs.len() {
            stream.send(place as u32);
            stream.sent_end.push(stream.end());
        }
        stream.forget_harmless_losses();
        stream.in_order = stream
            .pieces
            .iter()
            .scan(0, |latest: &mut u64, piece| {
                *latest = (*latest).max(piece.arrived);
                Some(*latest)
            })
            .collect();
        stream.index = PieceIndex::of(&stream.pieces);
        stream
    }

    /// One past the last byte that was ever sent.
    pub(super) fn end(&self) -> u64 {
        self.pieces.last().map_or(0, |piece| piece.end)
    }

    /// One past the last byte that had been sent before transmission `place`.
    pub(super) fn sent_before(&self, place: usize) -> u64 {
        place
            .checked_sub(1)
            .map_or(0, |before| self.sent_end[before])
    }

    /// The next transmission of bytes of `piece` after `lost`: one that was lost too, or the one that delivered them.
    pub(super) fn sent_again(&self, piece: &Piece, lost: u32) -> Option<u32> {
        let next = piece.lost().iter().find(|&&tx| tx > lost);
        let arrived =
            (piece.arrived != NEVER && piece.delivered_by > lost).then_some(piece.delivered_by);
        next.copied().or(arrived)
    }

    fn send(&mut self, place: u32) {
        let tx = self.txs[place as usize];
        let sent_before = self.end();
        if tx.start < sent_before {
            self.send_again(place, tx, tx.end.min(sent_before));
        }
        if tx.end > sent_before {
            // A gap means bytes that the record does not have; they count as bytes of this packet.
            self.pieces.push(Piece {
                start: sent_before,
                end: tx.end,
                first: place,
                delivered_by: place,
                arrived: tx.arrived,
                lost: if tx.is_lost() {
                    vec![place]
                } else {
                    Vec::new()
                },
            });
        }
    }

    /// Notes that bytes up to `end`, which had been sent before, were retransmitted.
    fn send_again(&mut self, place: u32, tx: Transmission, end: u64) {
        self.split(tx.start);
        self.split(end);
        let from = self.pieces.partition_point(|piece| piece.start < tx.start);
        for piece in &mut self.pieces[from..] {
            if piece.start >= end {
                break;
            }
            if tx.is_lost() {
                piece.lost.push(place);
            } else if tx.arrived < piece.arrived {
                piece.arrived = tx.arrived;
                piece.delivered_by = place;
            }
        }
    }

    /// Makes a piece begin at `at`, if it is within one.
    fn split(&mut self, at: u64) {
        let place = self.pieces.partition_point(|piece| piece.start < at);
        if place == 0 || self.pieces[place - 1].end <= at {
            return;
        }
        let mut tail = self.pieces[place - 1].clone();
        tail.start = at;
        self.pieces[place - 1].end = at;
        self.pieces.insert(place, tail);
    }

    /// Forgets lost transmissions that were sent after the bytes had arrived otherwise: they cost nothing.
    fn forget_harmless_losses(&mut self) {
        let txs = &self.txs;
        for piece in &mut self.pieces {
            let arrived = piece.arrived;
            piece.lost.retain(|&tx| txs[tx as usize].sent < arrived);
        }
    }

    /// The positions of the pieces with bytes of `[start, end)`.
    pub(super) fn places(&self, start: u64, end: u64) -> std::ops::Range<usize> {
        let from = self.place_of(start);
        let near = self.pieces[from..].iter().take(NEAR_PIECES);
        let within = near.take_while(|piece| piece.start < end).count();
        match within {
            NEAR_PIECES => from..self.pieces_before(end).max(from),
            few => from..from + few,
        }
    }

    /// The position of the piece with byte `at`; one past the last piece if it was never sent.
    pub(super) fn place_of(&self, at: u64) -> usize {
        let near = self.index.near(at, self.pieces.len());
        near.start + self.pieces[near].partition_point(|piece| piece.end <= at)
    }

    /// How many pieces have bytes before `end`: since there are no gaps, all up to the one with the byte before it.
    pub(super) fn pieces_before(&self, end: u64) -> usize {
        match end.checked_sub(1) {
            Some(last) => (self.place_of(last) + 1).min(self.pieces.len()),
            None => 0,
        }
    }

    /// When all bytes before `end` had arrived, so that TCP hands them to the application; [`NEVER`] if they never did.
    pub(super) fn delivered(&self, end: u64) -> u64 {
        if end > self.end() {
            return NEVER;
        }
        match self.pieces_before(end) {
            0 => 0,
            pieces => self.in_order[pieces - 1],
        }
    }

    /// When piece `place` and everything before it had arrived.
    pub(super) fn in_order(&self, place: usize) -> u64 {
        self.in_order[place]
    }

    /// The piece's lost transmissions, each with the span that it is responsible for: from when it would have arrived until
    /// the next one would have, or until the bytes did.
    pub(super) fn losses<'a>(&'a self, piece: &'a Piece) -> impl Iterator<Item = (u32, Span)> + 'a {
        let lost = piece.lost();
        lost.iter().enumerate().map(move |(n, &tx)| {
            let from = self.txs[tx as usize].due;
            let next = lost.get(n + 1).map_or(piece.arrived, |&next| {
                self.txs[next as usize].due.min(piece.arrived)
            });
            (tx, Span { from, to: next })
        })
    }

    /// From when to when bytes of the piece were missing because of a lost packet.
    pub(super) fn missing(&self, piece: &Piece) -> Option<Span> {
        let first = piece.lost().first()?;
        let from = self.txs[*first as usize].due;
        (from < piece.arrived).then_some(Span::new(from, piece.arrived))
    }
}

#[cfg(test)]
pub(super) mod tests {
    use squall_base::record::Direction;

    use super::*;

    /// The transmission of `[start, end)` at `sent`, arriving after 100; lost if `fate` is a drop.
    pub(in crate::causes) fn tx(
        index: u64,
        (start, end): (u64, u64),
        sent: u64,
        fate: Fate,
    ) -> Transmission {
        Transmission {
            packet: PacketRef {
                hop: 1,
                direction: Direction::Down,
                index,
            },
            start,
            end,
            sent,
            queueing: 0,
            due: sent + 100,
            arrived: if fate == Fate::Delivered {
                sent + 100
            } else {
                NEVER
            },
            fate,
        }
    }

    #[test]
    fn bytes_are_delivered_only_after_those_before_them() {
        let stream = Stream::new(vec![
            tx(0, (0, 10), 0, Fate::Delivered),
            tx(1, (10, 20), 1, Fate::LossDrop),
            tx(2, (20, 30), 2, Fate::Delivered),
            tx(3, (10, 20), 200, Fate::Delivered),
        ]);
        assert_eq!(stream.delivered(10), 100);
        assert_eq!(stream.delivered(11), 300);
        assert_eq!(stream.delivered(30), 300);
        assert_eq!(stream.delivered(31), NEVER);
        let lost = &stream.pieces[1];
        assert_eq!(lost.lost(), [1]);
        assert_eq!(stream.missing(lost), Some(Span { from: 101, to: 300 }));
    }

    #[test]
    fn retransmissions_with_other_boundaries_split_pieces() {
        let stream = Stream::new(vec![
            tx(0, (0, 20), 0, Fate::LossDrop),
            tx(1, (0, 10), 150, Fate::LossDrop),
            tx(2, (5, 30), 400, Fate::Delivered),
            tx(3, (0, 5), 500, Fate::Delivered),
        ]);
        let shapes: Vec<_> = stream
            .pieces
            .iter()
            .map(|p| (p.start, p.end, p.arrived, p.lost().to_vec()))
            .collect();
        assert_eq!(
            shapes,
            [
                (0, 5, 600, vec![0, 1]),
                (5, 10, 500, vec![0, 1]),
                (10, 20, 500, vec![0]),
                (20, 30, 500, vec![]),
            ]
        );
        let spans: Vec<_> = stream.losses(&stream.pieces[1]).collect();
        assert_eq!(
            spans,
            [
                (0, Span { from: 100, to: 250 }),
                (1, Span { from: 250, to: 500 })
            ]
        );
    }

    #[test]
    fn bytes_are_found_among_many_pieces_of_any_size() {
        let mut ends = vec![0];
        for n in 0..400_u64 {
            let length = match n % 7 {
                0 => 1,
                3 => 5_000 * (n % 5 + 1),
                _ => 1 + n * 37 % 90,
            };
            ends.push(ends[n as usize] + length);
        }
        for few in [1, 2, FEW_PIECES, FEW_PIECES + 1, 400] {
            let pieces = ends.windows(2).take(few).zip(0..);
            let txs = pieces.map(|(it, n)| tx(n, (it[0], it[1]), n, Fate::Delivered));
            let stream = Stream::new(txs.collect());
            let end = stream.end();
            for at in (0..end + 3).filter(|at| at % 11 == 0 || ends.contains(at)) {
                let pieces = &stream.pieces;
                let from = pieces.partition_point(|piece| piece.end <= at);
                for length in [0, 1, 2, 100, 40_000] {
                    let to = pieces.partition_point(|piece| piece.start < at + length);
                    assert_eq!(stream.places(at, at + length), from..to.max(from));
                }
            }
        }
    }

    #[test]
    fn a_copy_lost_after_the_bytes_arrived_is_harmless() {
        let stream = Stream::new(vec![
            tx(0, (0, 10), 0, Fate::Delivered),
            tx(1, (0, 10), 150, Fate::LossDrop),
        ]);
        assert!(stream.pieces[0].lost().is_empty());
    }
}
