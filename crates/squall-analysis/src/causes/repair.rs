//! How lost bytes came to be sent again, by the rules of the senders' timers.
//!
//! The link sees no SACK blocks and no timers. It sees what arrived and was acknowledged before bytes went again, how
//! long the sender had been silent, which bytes it chose and what it did next; the sockets' samples count its
//! retransmission timeouts. That tells the kinds of Linux's TCP (RFC 6675, RFC 8985, RFC 6298) and of QUIC (RFC 9002)
//! apart in most cases; METHOD.md has the rules. Where two kinds remain, the answer is a name that is true of both
//! (`Timeout`), or `Unknown`.

use squall_base::record::Repair;

use super::quic::QuicAck;
use super::search::up_to;
use super::stream::Stream;
use super::tcp::Ack;

/// A sender that reacts to an acknowledgement does so in the same system call or interrupt: within this time.
const AT_ONCE: u64 = 1_000_000;
/// What arrived at a host so long before its acknowledgement left is surely in it; of what arrived later the
/// acknowledgement may have been made before.
const MOMENT: u64 = 200_000;
/// Linux's least retransmission timeout above the round-trip time (net/ipv4/tcp.h, TCP_RTO_MIN).
const RTO_MIN: u64 = 200_000_000;
/// What the kernel's timer wheel and a rounded sample may be off by: two ticks of 4 ms.
const TICKS: u64 = 8_000_000;
/// Segments beyond a gap that make it a loss at once (RFC 6675, DupThresh).
const DUP_THRESHOLD: usize = 3;
/// QUIC's kPacketThreshold (RFC 9002, section 6.1.1).
const PACKET_THRESHOLD: u64 = 3;

/// How many transmissions are looked back over: more than are under way at once.
const FLIGHT: usize = 1_024;

/// How many retransmission timeouts a socket had had when (`tcpi_total_rto`, Linux 6.7): the samples' times from the first
/// to the last with each count.
#[derive(Clone, Debug, Default)]
pub(super) struct Timeouts(Vec<Counted>);

#[derive(Clone, Copy, Debug)]
struct Counted {
    from: u64,
    to: u64,
    total: u64,
}

impl Timeouts {
    /// A sample; they come in the order of time.
    pub(super) fn add(&mut self, time: u64, total: u64) {
        match self.0.last_mut() {
            Some(last) if last.total == total => last.to = time,
            _ => self.0.push(Counted {
                from: time,
                to: time,
                total,
            }),
        }
    }

    /// Whether what left at `sent` may have been one: `None` without a sample after it.
    fn may_be(&self, sent: u64) -> Option<bool> {
        let after = self.0.partition_point(|counted| counted.to < sent);
        let counted = self.0.get(after)?;
        // The count is raised just before the packet leaves.
        let is_same_before = counted.from.saturating_add(AT_ONCE) <= sent;
        Some(counted.total > 0 && !is_same_before)
    }

    /// The span between two samples around `sent`, if one timeout more was counted after it than before.
    fn one_within(&self, sent: u64) -> Option<(u64, u64)> {
        let after = self.0.partition_point(|counted| counted.from <= sent);
        let (before, after) = (self.0.get(after.checked_sub(1)?)?, self.0.get(after)?);
        let is_one = after.total == before.total + 1 && before.to <= sent;
        is_one.then_some((before.to, after.from))
    }
}

/// A TCP sender's view.
pub(super) struct Tcp<'a> {
    pub(super) stream: &'a Stream,
    pub(super) acks: &'a [Ack],
    /// The least retransmission timeout that the kernel told of.
    pub(super) least_rto: Option<u64>,
    /// The timeouts that it counted.
    pub(super) timeouts: Option<&'a Timeouts>,
}

impl Tcp<'_> {
    /// How the bytes of transmission `lost` went again as transmission `again`.
    pub(super) fn repair(&self, lost: u32, again: u32) -> Repair {
        let (lost, again) = (lost as usize, again as usize);
        let txs = &self.stream.txs;
        let sent = txs[again].sent;
        let heard = self.heard(sent).last();
        let silent = self.silent_before(again);
        let is_at_once = heard.is_some_and(|ack| sent - ack.arrived <= AT_ONCE);
        if is_at_once && self.is_beyond_threshold(lost, again) {
            return Repair::FastRetransmit;
        }
        if self.is_in_the_wake_of_a_timeout(lost, again) {
            return Repair::Rto;
        }
        let is_later_there = heard.is_some_and(|heard| {
            let mut later = txs[since(lost, again)..again].iter();
            later.any(|tx| tx.arrived <= heard.sent)
        });
        if is_later_there && silent < self.timeout() {
            return Repair::Rack;
        }
        if is_at_once {
            // Nothing sent after it was acknowledged, and no timer has run.
            return Repair::Unknown;
        }
        let acknowledged = self.acknowledged(sent);
        let is_last = self.stream.sent_before(again) <= txs[again].end;
        let is_first = txs[again].start <= acknowledged;
        if is_last && !self.has_sent_by_timer(again, acknowledged) {
            return match is_first {
                true => self.of_a_lone_segment(again),
                // A timeout would have begun with the first.
                false => Repair::Tlp,
            };
        }
        match is_first && silent >= self.timeout() {
            true => Repair::Rto,
            false => Repair::Unknown,
        }
    }

    /// By a timer, all that was under way: a probe sends the last segment, a timeout the first, and here it is both. Linux
    /// arms the probe wherever it may (tcp_schedule_loss_probe), no later than the timeout, so that their times fall
    /// together; what is left is what the socket counted and how long it waited next.
    fn of_a_lone_segment(&self, again: usize) -> Repair {
        let sent = self.stream.txs[again].sent;
        if let Some(timeouts) = self.timeouts {
            if timeouts.may_be(sent) == Some(false) {
                return Repair::Tlp;
            }
            if let Some((from, to)) = timeouts.one_within(sent)
                && self.is_only_timer_within(again, from, to)
            {
                return Repair::Rto;
            }
        }
        match self.is_followed_without_backoff(again) {
            true => Repair::Tlp,
            false => Repair::Timeout,
        }
    }

    /// Whether no other bytes went again between `from` and `to`: one more timeout can have been no other.
    fn is_only_timer_within(&self, again: usize, from: u64, to: u64) -> bool {
        let txs = &self.stream.txs;
        let near = again.saturating_sub(FLIGHT)..txs.len().min(again + FLIGHT);
        near.filter(|&place| place != again).all(|place| {
            let tx = &txs[place];
            !(from..=to).contains(&tx.sent) || tx.start >= self.stream.sent_before(place)
        })
    }

    /// Whether the same bytes went once more, nothing having been heard, after less than one and a half of the time: a
    /// timeout doubles the next one (RFC 6298, section 5.5), a probe does not.
    fn is_followed_without_backoff(&self, again: usize) -> bool {
        let txs = &self.stream.txs;
        let (tx, waited) = (&txs[again], self.silent_before(again));
        let Some(next) = txs.get(again + 1) else {
            return false;
        };
        let is_unheard = self.heard(next.sent).len() == self.heard(tx.sent).len();
        let is_same = next.start == tx.start && next.end == tx.end;
        is_unheard && is_same && next.sent - tx.sent < waited / 2 * 3
    }

    /// Whether three segments of the bytes above those of `lost` had been acknowledged when `again` left: sent once, and
    /// each either told of by an acknowledgement of its own, or there long before the last one.
    fn is_beyond_threshold(&self, lost: usize, again: usize) -> bool {
        let txs = &self.stream.txs;
        if txs[lost].start < self.stream.sent_before(lost) {
            // Sent again before: RFC 6675 does not find out about it, RACK does.
            return false;
        }
        let acks = self.heard(txs[again].sent);
        let Some(heard) = acks.last() else {
            return false;
        };
        let above: Vec<u64> = (since(lost, again)..again)
            .filter(|&place| {
                let tx = &txs[place];
                tx.start >= txs[lost].end.max(self.stream.sent_before(place))
            })
            .map(|place| txs[place].arrived)
            .filter(|arrived| *arrived <= heard.sent)
            .collect();
        let Some(first) = above.iter().min() else {
            return false;
        };
        // What arrives out of order is acknowledged at once, the first three each by a packet (tcp_input.c,
        // __tcp_ack_snd_check).
        let told = acks.iter().rev().take_while(|ack| ack.sent >= *first);
        let sure = above
            .iter()
            .filter(|arrived| arrived.saturating_add(MOMENT) <= heard.sent);
        above.len() >= DUP_THRESHOLD
            && (told.take(DUP_THRESHOLD).count() == DUP_THRESHOLD || sure.count() >= DUP_THRESHOLD)
    }

    fn timeout(&self) -> u64 {
        self.least_rto
            .map_or(RTO_MIN, |rto| rto.min(RTO_MIN))
            .saturating_sub(TICKS)
    }

    /// The acknowledgements that had reached the sender.
    fn heard(&self, time: u64) -> &[Ack] {
        &self.acks[..up_to(self.acks, time, |ack| ack.arrived)]
    }

    fn acknowledged(&self, time: u64) -> u64 {
        // Acknowledgements may overtake each other, by a few.
        let latest = self.heard(time).iter().rev().take(64);
        latest.map(|ack| ack.to).max().unwrap_or(0)
    }

    /// How long the sender had neither sent nor heard anything when it sent transmission `place`.
    fn silent_before(&self, place: usize) -> u64 {
        let txs = &self.stream.txs;
        let sent = txs[place].sent;
        let before = place.checked_sub(1).map_or(0, |before| txs[before].sent);
        let heard = self.heard(sent).last().map_or(0, |ack| ack.arrived);
        sent.saturating_sub(before.max(heard))
    }

    /// Whether bytes were sent again before `place` since the last progress, which only timers do in a silence.
    fn has_sent_by_timer(&self, place: usize, acknowledged: u64) -> bool {
        let txs = &self.stream.txs;
        (place.saturating_sub(FLIGHT)..place).any(|before| {
            let tx = &txs[before];
            tx.start < self.stream.sent_before(before) && tx.end > acknowledged
        })
    }

    /// Whether a timeout's retransmission went between the two: all that was under way then counts as lost
    /// (tcp_timeout_mark_lost).
    fn is_in_the_wake_of_a_timeout(&self, lost: usize, again: usize) -> bool {
        let txs = &self.stream.txs;
        (since(lost, again)..again).any(|place| {
            let tx = &txs[place];
            // Below the lost bytes, so that it is not the last of what is under way, which a probe would have sent.
            let is_again = tx.start < txs[lost].start;
            is_again
                && self.silent_before(place) >= self.timeout()
                && tx.start <= self.acknowledged(tx.sent)
        })
    }
}

/// The first transmission after `lost` that is looked at.
fn since(lost: usize, again: usize) -> usize {
    again.saturating_sub(FLIGHT).max(lost + 1).min(again)
}

/// How the bytes of QUIC's packet `lost` came to go again at `sent`: by the largest number that was acknowledged then.
pub(super) fn quic(lost: u64, sent: u64, acks: &[QuicAck]) -> Repair {
    let known = acks.partition_point(|ack| ack.time <= sent);
    let largest = acks[..known].iter().map(|ack| ack.largest).max();
    match largest {
        Some(largest) if largest >= lost + PACKET_THRESHOLD => Repair::PacketThreshold,
        Some(largest) if largest > lost => Repair::TimeThreshold,
        _ => Repair::ProbeTimeout,
    }
}
