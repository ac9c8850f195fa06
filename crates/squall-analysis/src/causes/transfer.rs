//! One message's way from the sender's application to the receiver's, cut into causes.
//!
//! The way is that of the own byte that arrived last: it waited to be sent, then for the link's queue, then the delay
//! passed; if it was lost, until it arrived after all; then for the bytes of others before it, then for the rest of its
//! TLS record, then for the receiver to read it. What happened to the other bytes meanwhile was not what the message
//! waited for, with one exception: while the last byte was held back and own bytes before it were missing, they are the
//! cause, because a sender that misses acknowledgements sends no more.
//! What held the sender back otherwise is asked of its connection (`sending`).

use squall_base::record::Cause;

use super::message::Message;
use super::sending::State;
use super::stream::Piece;
use super::timeline::Way;
use super::walk::{NEVER, Span, Walk};

/// What is sent within a millisecond, and without an acknowledgement meanwhile, nothing held back: the system call and
/// the link's thread took that time.
pub(super) const AT_ONCE: u64 = 1_000_000;

/// So many spans have their edges sorted on the stack.
const FEW_SPANS: usize = 6;

/// A message on its way.
pub(super) struct Transfer<'a> {
    /// The direction that it goes.
    pub(super) way: &'a Way<'a>,
    pub(super) message: &'a Message,
    /// When the sender had its first byte to send: of a station that made it, when the socket took it.
    pub(super) offered_first: Option<u64>,
    /// When the sender had its last byte to send.
    pub(super) offered_last: Option<u64>,
    /// When the socket had all of it; `None` of a sender that was seen from outside.
    pub(super) taken: Option<u64>,
    /// Spans in which flow control held it, by cause; the first of several that hold at once counts.
    pub(super) held: Vec<(Span, Cause)>,
    /// What the sender's application is doing when nothing holds it back and it has not offered everything.
    pub(super) offering: Cause,
    /// When the receiver's application had all of it.
    pub(super) received: Option<u64>,
}

/// The own piece that the message waited for.
#[derive(Clone, Copy)]
enum Critical<'a> {
    /// It arrived last, or never.
    Piece(&'a Piece),
    /// It was never sent.
    Unsent,
}

impl Transfer<'_> {
    /// Walks from where `walk` is.
    pub(super) fn walk(&self, walk: &mut Walk) {
        let stream = self.way.stream;
        let (critical, has_losses) = self.critical();
        let sent = match critical {
            Critical::Piece(piece) => stream.txs[piece.first as usize].sent,
            Critical::Unsent => NEVER,
        };
        self.wait_to_be_sent(walk, sent, has_losses);
        let Critical::Piece(piece) = critical else {
            return;
        };
        let first = stream.txs[piece.first as usize];
        walk.to(first.sent.saturating_add(first.queueing), Cause::Link);
        walk.to(first.due, Cause::Distance);
        if !piece.lost().is_empty() {
            self.blame_losses(walk, piece, Cause::Loss, walk.at(), piece.arrived);
            walk.to(piece.arrived, Cause::Loss);
        }
        // What it came late by besides is the link's own lateness.
        walk.to(piece.arrived, Cause::Host);
        self.wait_for(walk, self.message.end(), Cause::Hol);
        if self.message.needed > self.message.end() {
            self.wait_for(walk, self.message.needed, Cause::Record);
        }
        if let Some(received) = self.received {
            walk.to(received, Cause::Host);
        }
    }

    /// Pieces with own bytes.
    fn own_pieces(&self) -> impl Iterator<Item = &Piece> {
        let own = self.message.own.iter();
        own.flat_map(|bytes| &self.way.stream.pieces[self.way.stream.places(bytes.from, bytes.to)])
    }

    /// And whether transmissions of own pieces were lost.
    fn critical(&self) -> (Critical<'_>, bool) {
        // Of several that never came, the one that was sent first holds up the others.
        let mut latest: Option<&Piece> = None;
        let mut has_losses = false;
        for piece in self.own_pieces() {
            has_losses |= !piece.lost().is_empty();
            let is_later = latest.is_none_or(|so_far| match (piece.arrived, so_far.arrived) {
                (NEVER, NEVER) => false,
                (piece, so_far) => piece >= so_far,
            });
            if is_later {
                latest = Some(piece);
            }
        }
        let critical = match latest {
            Some(piece) if !self.message.is_open && self.message.end() <= self.way.stream.end() => {
                Critical::Piece(piece)
            }
            _ => Critical::Unsent,
        };
        (critical, has_losses)
    }

    /// Whether something may have held the sender back from `from` to `until`: a congestion window opens with an
    /// acknowledgement, the time of a pacer or of a lost packet is longer than that of a system call.
    fn is_held_back(&self, from: u64, until: u64) -> bool {
        let is_acknowledged = || {
            let next = self.way.acknowledged_after(from);
            next.is_some_and(|next| next <= until)
        };
        until - from >= AT_ONCE || is_acknowledged()
    }

    /// From where the walk is until the critical piece is first sent.
    fn wait_to_be_sent(&self, walk: &mut Walk, sent: u64, has_losses: bool) {
        let until = sent.min(walk.end());
        // A packet may be on the link before the call that wrote it returns.
        let first = self.offered_first.unwrap_or(until).min(until);
        walk.to(first, self.offering);
        let from = walk.at();
        if from >= until {
            return;
        }
        let offered = self.offered_last.unwrap_or(NEVER);
        let missing = if has_losses {
            self.missing_before(sent, until)
        } else {
            Vec::new()
        };
        let last = Span {
            from: offered,
            to: until,
        };
        let taken = Span {
            from: self.taken.unwrap_or(NEVER),
            to: until,
        };
        let all = missing.iter().map(|(span, _)| span);
        let all = all.chain(self.held.iter().map(|(span, _)| span));
        let all = all.chain([&last, &taken]);
        // Mostly there are none but these two: then it takes no allocation.
        let count = missing.len() + self.held.len() + 2;
        let (mut few, mut many) = ([0; 2 * FEW_SPANS], Vec::new());
        let edges = if count <= FEW_SPANS {
            &mut few[..2 * count]
        } else {
            many.resize(2 * count, 0);
            &mut many[..]
        };
        for (edges, span) in edges.chunks_exact_mut(2).zip(all) {
            edges.copy_from_slice(&[span.from, span.to]);
        }
        edges.sort_unstable();
        let is_held_back = self.is_held_back(from, until);
        for edge in edges.iter().copied().filter(|edge| *edge <= until) {
            let at = walk.at();
            if edge <= at {
                continue;
            }
            let holds = |span: &Span| span.from <= at && edge <= span.to;
            let held = self.held.iter().find(|(span, _)| holds(span));
            if let Some((_, piece)) = missing.iter().find(|(span, _)| holds(span)) {
                self.blame_losses(walk, piece, Cause::Loss, at, edge);
                walk.to(edge, Cause::Loss);
            } else if let Some((_, cause)) = held {
                walk.to(edge, *cause);
            } else if is_held_back {
                self.wait_for_sender(walk, edge, offered, until - from < AT_ONCE);
            } else {
                walk.to(edge, self.unheld(at, offered));
            }
        }
    }

    /// Until `edge`, all of it before or after everything was offered: moment by moment what held the sender back.
    fn wait_for_sender(&self, walk: &mut Walk, edge: u64, offered: u64, is_short: bool) {
        let at = walk.at();
        let is_taken = self.taken.is_some_and(|taken| taken <= at);
        let backlog_until = self.backlog_until();
        let timeline = self.way.timeline();
        for (span, state) in timeline.within(at, edge) {
            let cause = match state {
                State::Held(cause) => cause,
                // Recovery lets some new data go; what went at once was not held.
                State::Repairing(_) if is_short => self.unheld(at, offered),
                State::Repairing(place) => {
                    let repair = timeline.repair(place);
                    let bytes = &repair.bytes;
                    let cause = if self.message.owns_any(bytes.from, bytes.to) {
                        Cause::Loss
                    } else {
                        Cause::Hol
                    };
                    walk.blame(repair.packet, cause, span, span.from);
                    cause
                }
                // The socket has it, or bytes before it, and nothing known holds it: no other reason is left.
                State::Open if is_taken => Cause::Cwnd,
                State::Open | State::Idle if span.from < backlog_until => Cause::Cwnd,
                State::Open | State::Idle => self.unheld(at, offered),
            };
            walk.to(span.to, cause);
        }
    }

    /// Until when a station of ours has had bytes in the socket that come before the message's: until the packet before its
    /// first. Bytes before it in that one, such as the header of its TLS record, may have been written with it.
    fn backlog_until(&self) -> u64 {
        if self.way.is_observed {
            return 0;
        }
        let stream = self.way.stream;
        let before = stream.place_of(self.message.start()).checked_sub(1);
        before.map_or(0, |place| {
            stream.txs[stream.pieces[place].first as usize].sent
        })
    }

    /// What bytes waited for at a moment when they could have been sent.
    fn unheld(&self, at: u64, offered: u64) -> Cause {
        if at < offered {
            self.offering
        } else {
            Cause::Host
        }
    }

    /// Own pieces that were missing before the critical one was sent.
    fn missing_before(&self, sent: u64, until: u64) -> Vec<(Span, &Piece)> {
        self.own_pieces()
            .filter(|piece| self.way.stream.txs[piece.first as usize].sent < sent)
            .filter_map(|piece| Some((self.way.stream.missing(piece)?, piece)))
            .filter(|(span, _)| span.from < until)
            .collect()
    }

    /// Until all bytes before `end` are there.
    fn wait_for(&self, walk: &mut Walk, end: u64, cause: Cause) {
        let from = walk.at();
        let until = self.way.stream.delivered(end);
        if until <= from {
            return;
        }
        // From the last byte that was missing backwards: who was still missing then answers for it.
        let mut to = until.min(walk.end());
        let mut late: Vec<&Piece> = self.late_pieces(end, from);
        late.sort_by_key(|piece| std::cmp::Reverse(piece.arrived));
        for piece in late {
            if let Some(span) = self.way.stream.missing(piece)
                && span.from < to
            {
                self.blame_losses(walk, piece, cause, from.max(span.from), to);
                to = span.from;
            }
            if to <= from {
                break;
            }
        }
        walk.to(until, cause);
    }

    /// Pieces before `end` that were lost and not there at `time`.
    fn late_pieces(&self, end: u64, time: u64) -> Vec<&Piece> {
        let mut late = Vec::new();
        for place in (0..self.way.stream.pieces_before(end)).rev() {
            if self.way.stream.in_order(place) <= time {
                break;
            }
            let piece = &self.way.stream.pieces[place];
            if piece.arrived > time && !piece.lost().is_empty() {
                late.push(piece);
            }
        }
        late
    }

    /// Says which lost transmissions of `piece` answer for `[from, to)`.
    fn blame_losses(&self, walk: &mut Walk, piece: &Piece, cause: Cause, from: u64, to: u64) {
        for (tx, span) in self.way.stream.losses(piece) {
            let span = Span {
                from: span.from,
                to: span.to.min(to),
            };
            walk.blame(self.way.stream.txs[tx as usize].packet, cause, span, from);
        }
    }
}

/// Those of ordered spans that reach into `[from, to)`.
pub(super) fn spans_within(spans: &[Span], from: u64, to: u64) -> &[Span] {
    let later = &spans[spans.partition_point(|span| span.to <= from)..];
    let within = later.iter().take_while(|span| span.from < to).count();
    &later[..within]
}
