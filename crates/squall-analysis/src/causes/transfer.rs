//! One message's passage from the sender's application to the receiver's, cut into causes.
//!
//! It follows the message's own byte that arrived last. That byte waited to be sent, then in the link's queue, then the
//! delay passed; if it was lost, its repair took more time. Then it waited for other messages' bytes before it, then for the
//! rest of its TLS record, then for the receiver to read it. What happened to the other bytes meanwhile was not what the
//! message waited for, with one exception: while the last byte was held back and own bytes before it were missing, those are
//! the cause, because a sender that misses acknowledgements stops sending. For everything else that held the sender back,
//! its connection is consulted (`sending`).

use squall_base::record::{Cause, Direction};

use super::connection::Connection;
use super::message::Message;
use super::quic::QuicConnection;
use super::sending::{SenderState, SenderTimeline};
use super::stream::{Piece, Stream};
use super::walk::{NEVER, Span, Walk};
use super::windows::Windows;

/// If a message is sent within a millisecond, and without an acknowledgement in between, nothing held it back: the system
/// call and the link's thread took that time.
pub(super) const AT_ONCE: u64 = 1_000_000;

/// Up to this many spans have their edges sorted on the stack.
const FEW_SPANS: usize = 6;

/// What is known of a message in one direction of a connection.
pub(super) struct MessageContext<'a> {
    pub(super) stream: &'a Stream,
    pub(super) message: &'a Message,
    pub(super) connection: &'a Connection,
    pub(super) direction: Direction,
    /// Flow control of the sender, if it has any, and the stream's id.
    pub(super) windows: Option<(&'a Windows, u64)>,
    /// Set for QUIC, whose engine holds bytes until their packet may leave; a TCP socket takes them before that.
    pub(super) quic: Option<&'a QuicConnection>,
    /// Whether its sender's rows were derived from packets.
    pub(super) is_observed: bool,
}

impl<'a> MessageContext<'a> {
    /// What held its sender back.
    pub(super) fn timeline(&self) -> &'a SenderTimeline {
        self.connection.timeline(self.direction)
    }

    pub(super) fn acknowledged_after(&self, time: u64) -> Option<u64> {
        self.connection.acknowledged_after(self.direction, time)
    }

    /// When the message's first byte first reached the link.
    pub(super) fn first_sent(&self) -> Option<u64> {
        let start = self.message.start();
        let place = self.stream.places(start, start + 1).next()?;
        let piece = &self.stream.pieces[place];
        Some(self.stream.txs[piece.first as usize].sent)
    }
}

/// A message on its way.
pub(super) struct Transfer<'a> {
    /// Its direction of the connection.
    pub(super) context: &'a MessageContext<'a>,
    pub(super) message: &'a Message,
    /// When the sender had the message's first byte to send; if the sender itself made it, when the socket took that
    /// byte.
    pub(super) offered_first: Option<u64>,
    /// When the sender had the message's last byte to send.
    pub(super) offered_last: Option<u64>,
    /// When the socket had all of it; `None` for a sender whose rows were derived from packets.
    pub(super) buffered_at: Option<u64>,
    /// Spans in which flow control held it back, by cause; if several hold at the same time, the first counts.
    pub(super) held: Vec<(Span, Cause)>,
    /// What the sender's application is doing while nothing holds it back and it has not offered everything.
    pub(super) offering: Cause,
    /// When the receiver's application had all of the message.
    pub(super) received: Option<u64>,
}

impl Transfer<'_> {
    /// Walks through the transfer, from where `walk` is.
    pub(super) fn walk(&self, walk: &mut Walk) {
        let stream = self.context.stream;
        let (critical, has_losses) = self.critical();
        let sent = critical.map_or(NEVER, |piece| stream.txs[piece.first as usize].sent);
        self.wait_to_be_sent(walk, sent, has_losses);
        let Some(piece) = critical else {
            return;
        };
        let first = stream.txs[piece.first as usize];
        walk.to(first.sent.saturating_add(first.queueing), Cause::Link);
        walk.to(first.due, Cause::Distance);
        if !piece.lost().is_empty() {
            self.blame_losses(walk, piece, Cause::Loss, walk.at(), piece.arrived);
            walk.to(piece.arrived, Cause::Loss);
        }
        // Any further delay is the link's own lateness.
        walk.to(piece.arrived, Cause::Host);
        self.wait_for(walk, self.message.end(), Cause::Hol);
        if self.message.needed > self.message.end() {
            self.wait_for(walk, self.message.needed, Cause::Record);
        }
        if let Some(received) = self.received {
            walk.to(received, Cause::Host);
        }
    }

    fn own_pieces(&self) -> impl Iterator<Item = &Piece> {
        let own = self.message.own.iter();
        own.flat_map(|bytes| {
            &self.context.stream.pieces[self.context.stream.places(bytes.from, bytes.to)]
        })
    }

    /// The piece that the message waited for, because it arrived last or never, and whether any transmission of the
    /// message's pieces was lost. `None` if not all of the message was sent.
    fn critical(&self) -> (Option<&Piece>, bool) {
        // Among several that never arrived, the one that was sent first holds up the others.
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
        let is_sent = !self.message.is_open && self.message.end() <= self.context.stream.end();
        (latest.filter(|_| is_sent), has_losses)
    }

    /// Whether something may have held the sender back from `from` to `until`. A congestion window opens with an
    /// acknowledgement; a pacer or a lost packet takes longer than a system call.
    fn is_held_back(&self, from: u64, until: u64) -> bool {
        let is_acknowledged = || {
            let next = self.context.acknowledged_after(from);
            next.is_some_and(|next| next <= until)
        };
        until - from >= AT_ONCE || is_acknowledged()
    }

    /// Walks until the critical piece is first sent.
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
        let last = Span::new(offered, until);
        let buffered = Span::new(self.buffered_at.unwrap_or(NEVER), until);
        let all = missing.iter().map(|(span, _)| span);
        let all = all.chain(self.held.iter().map(|(span, _)| span));
        let all = all.chain([&last, &buffered]);
        // Usually there are only the last two spans, and then sorting their edges takes no allocation.
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
                walk.to(edge, self.unblocked_cause(at, offered));
            }
        }
    }

    /// Walks to `edge`, and assigns each moment to what held the sender back. Either everything had been offered before
    /// this span, or it was offered only after it.
    fn wait_for_sender(&self, walk: &mut Walk, edge: u64, offered: u64, is_short: bool) {
        let at = walk.at();
        let is_buffered = self
            .buffered_at
            .is_some_and(|buffered_at| buffered_at <= at);
        let backlog_until = self.backlog_until();
        let timeline = self.context.timeline();
        for (span, state) in timeline.within(at, edge) {
            let cause = match state {
                SenderState::Held(cause) => cause,
                // Recovery lets some new data go; what left immediately was not held back.
                SenderState::Repairing(_) if is_short => self.unblocked_cause(at, offered),
                SenderState::Repairing(place) => {
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
                // The socket has these bytes or earlier ones, and no known limit holds them back, so this is the only
                // remaining reason.
                SenderState::Open if is_buffered => Cause::Cwnd,
                SenderState::Open | SenderState::Idle if span.from < backlog_until => Cause::Cwnd,
                SenderState::Open | SenderState::Idle => self.unblocked_cause(at, offered),
            };
            walk.to(span.to, cause);
        }
    }

    /// Until when bytes that come before the message's waited in the socket of one of our stations: until the packet before
    /// the message's first one was sent. Bytes before it in its first packet, such as the header of its TLS record, may have
    /// been written with it.
    fn backlog_until(&self) -> u64 {
        if self.context.is_observed {
            return 0;
        }
        let stream = self.context.stream;
        let before = stream.place_of(self.message.start()).checked_sub(1);
        before.map_or(0, |place| {
            stream.txs[stream.pieces[place].first as usize].sent
        })
    }

    /// What bytes waited for at a moment when they could have been sent.
    fn unblocked_cause(&self, at: u64, offered: u64) -> Cause {
        if at < offered {
            self.offering
        } else {
            Cause::Host
        }
    }

    /// Own pieces that were missing before the critical one was sent.
    fn missing_before(&self, sent: u64, until: u64) -> Vec<(Span, &Piece)> {
        self.own_pieces()
            .filter(|piece| self.context.stream.txs[piece.first as usize].sent < sent)
            .filter_map(|piece| Some((self.context.stream.missing(piece)?, piece)))
            .filter(|(span, _)| span.from < until)
            .collect()
    }

    /// Walks until all bytes before `end` have arrived.
    fn wait_for(&self, walk: &mut Walk, end: u64, cause: Cause) {
        let from = walk.at();
        let until = self.context.stream.delivered(end);
        if until <= from {
            return;
        }
        // Backwards from the last byte that was missing: the piece that was still missing at a moment is responsible for it.
        let mut to = until.min(walk.end());
        let mut late: Vec<&Piece> = self.late_pieces(end, from);
        late.sort_by_key(|piece| std::cmp::Reverse(piece.arrived));
        for piece in late {
            if let Some(span) = self.context.stream.missing(piece)
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

    /// Pieces before `end` that were lost and had not arrived at `time`.
    fn late_pieces(&self, end: u64, time: u64) -> Vec<&Piece> {
        let mut late = Vec::new();
        for place in (0..self.context.stream.pieces_before(end)).rev() {
            if self.context.stream.in_order(place) <= time {
                break;
            }
            let piece = &self.context.stream.pieces[place];
            if piece.arrived > time && !piece.lost().is_empty() {
                late.push(piece);
            }
        }
        late
    }

    /// Makes the lost transmissions of `piece` responsible for `[from, to)`.
    fn blame_losses(&self, walk: &mut Walk, piece: &Piece, cause: Cause, from: u64, to: u64) {
        for (tx, span) in self.context.stream.losses(piece) {
            let packet = self.context.stream.txs[tx as usize].packet;
            let span = Span::new(span.from, span.to.min(to));
            walk.blame(packet, cause, span, from);
        }
    }
}

/// Of these sorted spans, those that overlap `[from, to)`.
pub(super) fn spans_within(spans: &[Span], from: u64, to: u64) -> &[Span] {
    let later = &spans[spans.partition_point(|span| span.to <= from)..];
    let within = later.iter().take_while(|span| span.from < to).count();
    &later[..within]
}
