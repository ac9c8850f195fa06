//! How lost bytes came to be sent again, by the rules of the senders' timers.
//!
//! The link sees no SACK blocks and no timers. It sees what arrived and was acknowledged before bytes went again, and
//! how long the sender had been silent: enough to tell the kinds of Linux's TCP (RFC 6675, RFC 8985, RFC 6298) and of
//! QUIC (RFC 9002) apart in most cases. Where it is not enough, the answer is `Unknown`.

use squall_base::record::Repair;

use super::quic::QuicAck;
use super::stream::Stream;
use super::tcp::Ack;

/// A sender that reacts to an acknowledgement does so in the same system call or interrupt: within this time.
const AT_ONCE: u64 = 1_000_000;
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

/// A TCP sender's view.
pub(super) struct Tcp<'a> {
    pub(super) stream: &'a Stream,
    pub(super) acks: &'a [Ack],
    /// The least retransmission timeout that the kernel told of.
    pub(super) least_rto: Option<u64>,
}

impl Tcp<'_> {
    /// How the bytes of transmission `lost` went again as transmission `again`.
    pub(super) fn repair(&self, lost: u32, again: u32) -> Repair {
        let (lost, again) = (lost as usize, again as usize);
        let txs = &self.stream.txs;
        let sent = txs[again].sent;
        let known = self.acks.partition_point(|ack| ack.arrived <= sent);
        let heard = self.acks[..known].last();
        let silent = self.silent_before(again);
        let beyond = heard.map_or(0, |heard| {
            let from = again.saturating_sub(FLIGHT).max(lost + 1).min(again);
            let later = txs[from..again].iter();
            later.filter(|tx| tx.arrived <= heard.sent).count()
        });
        let is_at_once = heard.is_some_and(|ack| sent - ack.arrived <= AT_ONCE);
        let timeout = self.timeout();
        if beyond >= DUP_THRESHOLD && is_at_once {
            return Repair::FastRetransmit;
        }
        if beyond > 0 && silent < timeout {
            return Repair::Rack;
        }
        if self.is_in_the_wake_of_a_timeout(lost, again) {
            return Repair::Rto;
        }
        if is_at_once {
            // Nothing beyond it was acknowledged, and no timer has run.
            return Repair::Unknown;
        }
        let acknowledged = self.acknowledged(sent);
        let is_last = self.stream.sent_before(again) <= txs[again].end;
        let probes = self.timer_sends(again, acknowledged);
        if is_last && !probes {
            return Repair::Tlp;
        }
        let is_first = txs[again].start <= acknowledged;
        match is_first && silent >= timeout {
            true => Repair::Rto,
            false => Repair::Unknown,
        }
    }

    fn timeout(&self) -> u64 {
        self.least_rto
            .map_or(RTO_MIN, |rto| rto.min(RTO_MIN))
            .saturating_sub(TICKS)
    }

    fn acknowledged(&self, time: u64) -> u64 {
        let known = self.acks.partition_point(|ack| ack.arrived <= time);
        // Acknowledgements may overtake each other, by a few.
        let latest = self.acks[..known].iter().rev().take(64);
        latest.map(|ack| ack.to).max().unwrap_or(0)
    }

    /// How long the sender had neither sent nor heard anything when it sent transmission `place`.
    fn silent_before(&self, place: usize) -> u64 {
        let txs = &self.stream.txs;
        let sent = txs[place].sent;
        let before = place.checked_sub(1).map_or(0, |before| txs[before].sent);
        let known = self.acks.partition_point(|ack| ack.arrived <= sent);
        let heard = self.acks[..known].last().map_or(0, |ack| ack.arrived);
        sent.saturating_sub(before.max(heard))
    }

    /// Whether bytes were sent again before `place` since the last progress, which only timers do in a silence.
    fn timer_sends(&self, place: usize, acknowledged: u64) -> bool {
        let txs = &self.stream.txs;
        (place.saturating_sub(FLIGHT)..place).any(|before| {
            let tx = &txs[before];
            tx.start < self.stream.sent_before(before) && tx.end > acknowledged
        })
    }

    /// Whether a timeout's retransmission went between the two: all that was under way then counts as lost.
    fn is_in_the_wake_of_a_timeout(&self, lost: usize, again: usize) -> bool {
        let txs = &self.stream.txs;
        (again.saturating_sub(FLIGHT).max(lost + 1)..again).any(|place| {
            let tx = &txs[place];
            let is_again = tx.start < txs[lost].end;
            is_again
                && self.silent_before(place) >= self.timeout()
                && tx.start <= self.acknowledged(tx.sent)
        })
    }
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
