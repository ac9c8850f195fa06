//! What made a sender retransmit lost bytes, inferred from the rules of the senders' timers.
//!
//! The link sees no SACK blocks and no timers. It sees what had arrived and been acknowledged before a retransmission,
//! how long the sender had been silent, which bytes it chose and what it did next; the sockets' samples count its
//! retransmission timeouts. In most cases that distinguishes the kinds of repair of Linux's TCP (RFC 6675, RFC 8985, RFC
//! 6298) and of QUIC (RFC 9002); METHOD.md has the rules. If two kinds remain, the result is a name that is true of both
//! (`Timeout`), or `Unknown`.

use squall_base::record::Repair;

use super::quic::QuicAck;
use super::search::up_to;
use super::stream::Stream;
use super::tcp::Ack;

/// A sender that reacts to an acknowledgement does so in the same system call or interrupt, that is, within this time.
const AT_ONCE: u64 = 1_000_000;
/// What arrived at a host this long before an acknowledgement left is certainly covered by it. The acknowledgement may have
/// been made before anything that arrived later.
const MOMENT: u64 = 200_000;
/// Linux's minimum retransmission timeout above the round-trip time (net/ipv4/tcp.h, TCP_RTO_MIN).
const RTO_MIN: u64 = 200_000_000;
/// How far the kernel's timer wheel and a rounded sample may be off: two ticks of 4 ms.
const TICKS: u64 = 8_000_000;
/// Segments beyond a gap that make it count as a loss immediately (RFC 6675, DupThresh).
const DUP_THRESHOLD: usize = 3;
/// QUIC's kPacketThreshold (RFC 9002, section 6.1.1).
const PACKET_THRESHOLD: u64 = 3;

/// How many transmissions a search goes back: more than are in flight at once.
const FLIGHT: usize = 1_024;

/// How many retransmission timeouts a socket has counted, and when (`tcpi_total_rto`, Linux 6.7): for each count, the times of
/// the first and the last sample with it.
#[derive(Clone, Debug, Default)]
pub(super) struct Timeouts(Vec<TimeoutCount>);

#[derive(Clone, Copy, Debug)]
struct TimeoutCount {
    from: u64,
    to: u64,
    total: u64,
}

impl Timeouts {
    /// Adds a sample; they come in the order of time.
    pub(super) fn add(&mut self, time: u64, total: u64) {
        match self.0.last_mut() {
            Some(last) if last.total == total => last.to = time,
            _ => self.0.push(TimeoutCount {
                from: time,
                to: time,
                total,
            }),
        }
    }

    /// Whether what left at `sent` may have been a timeout's retransmission; `None` without a later sample.
    fn may_be_timeout(&self, sent: u64) -> Option<bool> {
        let after = self.0.partition_point(|count| count.to < sent);
        let count = self.0.get(after)?;
        // The count is raised just before the packet leaves.
        let is_same_before = count.from.saturating_add(AT_ONCE) <= sent;
        Some(count.total > 0 && !is_same_before)
    }

    /// The span between two samples around `sent`, if the later one counts exactly one more timeout.
    fn single_timeout_around(&self, sent: u64) -> Option<(u64, u64)> {
        let after = self.0.partition_point(|count| count.from <= sent);
        let (before, after) = (self.0.get(after.checked_sub(1)?)?, self.0.get(after)?);
        let is_one = after.total == before.total + 1 && before.to <= sent;
        is_one.then_some((before.to, after.from))
    }
}

/// A TCP sender's view.
pub(super) struct TcpSender<'a> {
    pub(super) stream: &'a Stream,
    pub(super) acks: &'a [Ack],
    /// The smallest retransmission timeout that the kernel reported.
    pub(super) least_rto: Option<u64>,
    /// The timeouts that the kernel counted.
    pub(super) timeouts: Option<&'a Timeouts>,
}

impl TcpSender<'_> {
    /// How the bytes of transmission `lost` came to be retransmitted as transmission `again`.
    pub(super) fn repair(&self, lost: u32, again: u32) -> Repair {
        let (lost, again) = (lost as usize, again as usize);
        let txs = &self.stream.txs;
        let sent = txs[again].sent;
        let last_ack = self.acks_received(sent).last();
        let silence = self.silence_before(again);
        let is_at_once = last_ack.is_some_and(|ack| sent - ack.arrived <= AT_ONCE);
        if is_at_once && self.is_beyond_threshold(lost, again) {
            return Repair::FastRetransmit;
        }
        if self.is_after_timeout(lost, again) {
            return Repair::Rto;
        }
        let is_later_there = last_ack.is_some_and(|last_ack| {
            let mut later = txs[first_examined(lost, again)..again].iter();
            later.any(|tx| tx.arrived <= last_ack.sent)
        });
        if is_later_there && silence < self.timeout() {
            return Repair::Rack;
        }
        if is_at_once {
            // No bytes sent later had been acknowledged, and no timer had expired.
            return Repair::Unknown;
        }
        let acknowledged = self.acknowledged(sent);
        let is_last = self.stream.sent_before(again) <= txs[again].end;
        let is_first = txs[again].start <= acknowledged;
        if is_last && !self.has_timer_retransmission(again, acknowledged) {
            // A timeout would have begun with the first segment.
            return if is_first {
                self.repair_of_lone_segment(again)
            } else {
                Repair::Tlp
            };
        }
        if is_first && silence >= self.timeout() {
            Repair::Rto
        } else {
            Repair::Unknown
        }
    }

    /// A timer resent all that was in flight, a single segment. A probe sends the last segment and a timeout the first, but
    /// here they are the same. Linux arms the probe wherever it may (tcp_schedule_loss_probe), no later than the timeout, so
    /// their times coincide. Only the socket's count and the length of its next wait can tell them apart.
    fn repair_of_lone_segment(&self, again: usize) -> Repair {
        let sent = self.stream.txs[again].sent;
        if let Some(timeouts) = self.timeouts {
            if timeouts.may_be_timeout(sent) == Some(false) {
                return Repair::Tlp;
            }
            if let Some((from, to)) = timeouts.single_timeout_around(sent)
                && self.is_only_timer_within(again, from, to)
            {
                return Repair::Rto;
            }
        }
        if self.is_followed_without_backoff(again) {
            Repair::Tlp
        } else {
            Repair::Timeout
        }
    }

    /// Whether no other bytes were retransmitted between `from` and `to`. If so, a single timeout counted in that time
    /// can only be the one that caused `again`.
    fn is_only_timer_within(&self, again: usize, from: u64, to: u64) -> bool {
        let txs = &self.stream.txs;
        let near = again.saturating_sub(FLIGHT)..txs.len().min(again + FLIGHT);
        near.filter(|&place| place != again).all(|place| {
            let tx = &txs[place];
            !(from..=to).contains(&tx.sent) || tx.start >= self.stream.sent_before(place)
        })
    }

    /// Whether the same bytes were sent once more, with nothing heard in between, and less than one and a half times the
    /// first wait later: a timeout doubles the next one (RFC 6298, section 5.5), a probe does not.
    fn is_followed_without_backoff(&self, again: usize) -> bool {
        let txs = &self.stream.txs;
        let (tx, waited) = (&txs[again], self.silence_before(again));
        let Some(next) = txs.get(again + 1) else {
            return false;
        };
        let is_unacknowledged =
            self.acks_received(next.sent).len() == self.acks_received(tx.sent).len();
        let is_same = next.start == tx.start && next.end == tx.end;
        is_unacknowledged && is_same && next.sent - tx.sent < waited / 2 * 3
    }

    /// Whether three segments above the bytes of `lost` had been acknowledged when `again` left. They must have been sent
    /// only once, and each must either be reported by a separate acknowledgement or have arrived long before the last one.
    fn is_beyond_threshold(&self, lost: usize, again: usize) -> bool {
        let txs = &self.stream.txs;
        if txs[lost].start < self.stream.sent_before(lost) {
            // The lost segment was itself a retransmission: RFC 6675 does not detect the loss of one, RACK does.
            return false;
        }
        let acks = self.acks_received(txs[again].sent);
        let Some(last_ack) = acks.last() else {
            return false;
        };
        let above: Vec<u64> = (first_examined(lost, again)..again)
            .filter(|&place| {
                let tx = &txs[place];
                tx.start >= txs[lost].end.max(self.stream.sent_before(place))
            })
            .map(|place| txs[place].arrived)
            .filter(|arrived| *arrived <= last_ack.sent)
            .collect();
        let Some(first) = above.iter().min() else {
            return false;
        };
        // What arrives out of order is acknowledged immediately, the first three segments with a packet each (tcp_input.c,
        // __tcp_ack_snd_check).
        let separate_acks = acks.iter().rev().take_while(|ack| ack.sent >= *first);
        let certain = above
            .iter()
            .filter(|arrived| arrived.saturating_add(MOMENT) <= last_ack.sent);
        above.len() >= DUP_THRESHOLD
            && (separate_acks.take(DUP_THRESHOLD).count() == DUP_THRESHOLD
                || certain.count() >= DUP_THRESHOLD)
    }

    fn timeout(&self) -> u64 {
        self.least_rto
            .map_or(RTO_MIN, |rto| rto.min(RTO_MIN))
            .saturating_sub(TICKS)
    }

    /// The acknowledgements that had reached the sender by `time`.
    fn acks_received(&self, time: u64) -> &[Ack] {
        &self.acks[..up_to(self.acks, time, |ack| ack.arrived)]
    }

    fn acknowledged(&self, time: u64) -> u64 {
        // Acknowledgements may overtake each other, but only by a few.
        let latest = self.acks_received(time).iter().rev().take(64);
        latest.map(|ack| ack.to).max().unwrap_or(0)
    }

    /// How long the sender had neither sent nor heard anything when it sent transmission `place`.
    fn silence_before(&self, place: usize) -> u64 {
        let txs = &self.stream.txs;
        let sent = txs[place].sent;
        let before = place.checked_sub(1).map_or(0, |before| txs[before].sent);
        let last_ack = self.acks_received(sent).last().map_or(0, |ack| ack.arrived);
        sent.saturating_sub(before.max(last_ack))
    }

    /// Whether bytes were retransmitted before `place` since the last progress. In a silence, only timers do that.
    fn has_timer_retransmission(&self, place: usize, acknowledged: u64) -> bool {
        let txs = &self.stream.txs;
        (place.saturating_sub(FLIGHT)..place).any(|before| {
            let tx = &txs[before];
            tx.start < self.stream.sent_before(before) && tx.end > acknowledged
        })
    }

    /// Whether a timeout's retransmission was sent between `lost` and `again`: then everything in flight counts as lost
    /// (tcp_timeout_mark_lost).
    fn is_after_timeout(&self, lost: usize, again: usize) -> bool {
        let txs = &self.stream.txs;
        (first_examined(lost, again)..again).any(|place| {
            let tx = &txs[place];
            // This transmission's bytes precede the lost ones, so they are not the last in flight, which a probe would
            // have sent.
            let is_again = tx.start < txs[lost].start;
            is_again
                && self.silence_before(place) >= self.timeout()
                && tx.start <= self.acknowledged(tx.sent)
        })
    }
}

/// The first transmission after `lost` that is examined.
fn first_examined(lost: usize, again: usize) -> usize {
    again.saturating_sub(FLIGHT).max(lost + 1).min(again)
}

/// How the bytes of QUIC packet `lost` came to be retransmitted at `sent`, from the largest number acknowledged by then.
pub(super) fn quic(lost: u64, sent: u64, acks: &[QuicAck]) -> Repair {
    let known = acks.partition_point(|ack| ack.time <= sent);
    let largest = acks[..known].iter().map(|ack| ack.largest).max();
    match largest {
        Some(largest) if largest >= lost + PACKET_THRESHOLD => Repair::PacketThreshold,
        Some(largest) if largest > lost => Repair::TimeThreshold,
        _ => Repair::ProbeTimeout,
    }
}
