//! Spreads packets over the round trip (RFC 9002, section 7.7), for the congestion controls that quiche does not pace.
//!
//! quiche 0.30 paces only BBR2; with CUBIC and Reno it releases every packet immediately. This is a leaky bucket that
//! fills at 1.25 congestion windows per round trip and holds the burst that the RFC allows, ten packets.

use std::time::{Duration, Instant};

/// Packets that may be sent back to back after a pause (RFC 9002, section 7.7: the initial congestion window).
const BURST_PACKETS: u64 = 10;

/// The rate in congestion windows per round trip, as a ratio: 1.25 as the RFC suggests, so that small variations of the
/// round trip do not leave the window underused.
const NUMERATOR: u64 = 5;
const DENOMINATOR: u64 = 4;

/// The state of congestion control.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct CongestionState {
    pub(super) cwnd_bytes: u64,
    pub(super) rtt: Duration,
}

/// A leaky bucket of bytes.
#[derive(Clone, Debug)]
pub(super) struct Pacer {
    capacity_bytes: u64,
    tokens_bytes: u64,
    updated: Option<Instant>,
}

impl Pacer {
    /// A full bucket for packets of this size.
    pub(super) fn new(packet_bytes: u64) -> Pacer {
        let capacity_bytes = BURST_PACKETS * packet_bytes;
        Pacer {
            capacity_bytes,
            tokens_bytes: capacity_bytes,
            updated: None,
        }
    }

    /// When the next packet of up to `packet_bytes` may be sent, if that is later than `now`.
    pub(super) fn next(
        &mut self,
        now: Instant,
        packet_bytes: u64,
        congestion: CongestionState,
    ) -> Option<Instant> {
        self.refill(now, congestion);
        let missing = packet_bytes
            .min(self.capacity_bytes)
            .checked_sub(self.tokens_bytes)
            .filter(|missing| *missing > 0)?;
        Some(now + time_for(missing, congestion))
    }

    /// Records a sent packet.
    pub(super) fn sent(&mut self, bytes: u64) {
        self.tokens_bytes = self.tokens_bytes.saturating_sub(bytes);
    }

    fn refill(&mut self, now: Instant, congestion: CongestionState) {
        let since = self.updated.map_or(Duration::ZERO, |updated| {
            now.saturating_duration_since(updated)
        });
        let earned = bytes_in(since, congestion);
        // Time that has not yet earned a whole byte is kept for the next call.
        if earned > 0 || self.updated.is_none() {
            self.updated = Some(now);
        }
        self.tokens_bytes = (self.tokens_bytes + earned).min(self.capacity_bytes);
    }
}

/// How many bytes may be sent in a time, at most 2^63.
fn bytes_in(time: Duration, congestion: CongestionState) -> u64 {
    let per_rtt = u128::from(congestion.cwnd_bytes * NUMERATOR / DENOMINATOR);
    let rtt_ns = congestion.rtt.as_nanos().max(1);
    let bytes = per_rtt * time.as_nanos() / rtt_ns;
    u64::try_from(bytes)
        .unwrap_or(u64::MAX >> 1)
        .min(u64::MAX >> 1)
}

/// How long sending `bytes` takes at the pacer's rate.
fn time_for(bytes: u64, congestion: CongestionState) -> Duration {
    let per_rtt = u128::from((congestion.cwnd_bytes * NUMERATOR / DENOMINATOR).max(1));
    let nanos = u128::from(bytes) * congestion.rtt.as_nanos() / per_rtt;
    Duration::from_nanos(u64::try_from(nanos).unwrap_or(u64::MAX >> 1))
}

#[cfg(test)]
// Any instant will do: only differences matter.
#[allow(clippy::disallowed_methods)]
mod tests {
    use super::*;

    const PACKET: u64 = 1_000;
    const CONGESTION: CongestionState = CongestionState {
        cwnd_bytes: 100_000,
        rtt: Duration::from_millis(100),
    };

    #[test]
    fn packets_after_a_burst_are_spread_over_the_round_trip() {
        let start = Instant::now();
        let mut pacer = Pacer::new(PACKET);
        for _ in 0..BURST_PACKETS {
            assert_eq!(pacer.next(start, PACKET, CONGESTION), None);
            pacer.sent(PACKET);
        }
        // 125,000 bytes in 100 ms: a packet every 0.8 ms.
        let mut now = start;
        let mut sent = 0;
        while now < start + Duration::from_millis(100) {
            match pacer.next(now, PACKET, CONGESTION) {
                Some(later) => {
                    assert!(later - now <= Duration::from_micros(800));
                    now = later;
                }
                None => {
                    pacer.sent(PACKET);
                    sent += 1;
                }
            }
        }
        assert!((124..=125).contains(&sent), "{sent}");
    }

    #[test]
    fn a_pause_earns_no_more_than_a_burst() {
        let start = Instant::now();
        let mut pacer = Pacer::new(PACKET);
        let later = start + Duration::from_secs(60);
        assert_eq!(pacer.next(later, PACKET, CONGESTION), None);
        for _ in 0..BURST_PACKETS {
            assert_eq!(pacer.next(later, PACKET, CONGESTION), None);
            pacer.sent(PACKET);
        }
        assert!(pacer.next(later, PACKET, CONGESTION).is_some());
    }
}
