//! A token bucket: a packet leaves as soon as there are tokens for all of its bytes.
//!
//! Tokens arrive at the rate, up to the depth; the bucket starts full. A packet larger than the bucket leaves when the
//! bucket is full, and takes the rest from future tokens (Linux's tbf would drop it, tc-tbf(8)). So within any span of time
//! at most the depth (or one larger packet) plus rate times span gets through.
//!
//! It is exact over any time: a token is a billionth of a bit, which is what 1 bit/s yields in 1 ns. Departures are rounded
//! up to whole nanoseconds, and the tokens of the remaining fraction of that nanosecond are kept.

use squall_base::{BitRate, Bytes, Time};

use super::{after, bits};

/// Tokens per bit.
const PER_BIT: i128 = 1_000_000_000;

/// A bucket of tokens; the unit is a billionth of a bit.
#[derive(Clone, Debug)]
pub(crate) struct TokenBucket {
    /// Tokens per nanosecond; more than 0.
    tokens_per_ns: i128,
    depth: i128,
    /// Tokens at `counted_at`; negative after a packet larger than the bucket.
    tokens: i128,
    counted_at: Time,
}

impl TokenBucket {
    /// A bucket that is full at `now`.
    pub(crate) fn new(now: Time, rate: BitRate, depth: Bytes) -> TokenBucket {
        let depth = tokens_for(depth.get());
        TokenBucket {
            tokens_per_ns: i128::from(rate.bits_per_s()),
            depth,
            tokens: depth,
            counted_at: now,
        }
    }

    /// When a packet of `len_bytes` that is ready at `ready` leaves.
    pub(crate) fn departure(&mut self, ready: Time, len_bytes: u64) -> Time {
        let idle_ns = i128::from(ready.since(self.counted_at).as_nanos());
        let arrived = self.tokens_per_ns.saturating_mul(idle_ns);
        self.tokens = self.tokens.saturating_add(arrived).min(self.depth);
        let cost = tokens_for(len_bytes);
        let missing = (cost.min(self.depth) - self.tokens).max(0);
        // Rounded up; neither is negative.
        let wait_ns = (missing + self.tokens_per_ns - 1) / self.tokens_per_ns;
        self.tokens += wait_ns * self.tokens_per_ns - cost;
        self.counted_at = after(ready, wait_ns.unsigned_abs());
        self.counted_at
    }
}

/// At most 2^97: sums of these and of a nanosecond's tokens never overflow.
fn tokens_for(len_bytes: u64) -> i128 {
    bits(len_bytes) as i128 * PER_BIT
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn bucket(bits_per_s: u64, depth_bytes: u64) -> TokenBucket {
        let rate = BitRate::new(bits_per_s).unwrap();
        TokenBucket::new(Time::ZERO, rate, Bytes::new(depth_bytes))
    }

    #[test]
    fn exactly_a_burst_of_the_depth_leaves_at_once() {
        let mut bucket = bucket(8_000_000, 10_000);
        for _ in 0..10 {
            assert_eq!(bucket.departure(Time::ZERO, 1_000), Time::ZERO);
        }
        // 1 byte takes a microsecond.
        assert_eq!(bucket.departure(Time::ZERO, 1), Time::from_nanos(1_000));
        // After 20 ms of rest it is full again, not fuller.
        let rested = Time::from_nanos(20_001_000);
        assert_eq!(bucket.departure(rested, 10_000), rested);
        let next = bucket.departure(rested, 3);
        assert_eq!(next, Time::from_nanos(20_004_000));
    }

    #[test]
    fn a_packet_waits_for_all_of_its_tokens() {
        let mut bucket = bucket(8_000_000, 1_500);
        bucket.departure(Time::ZERO, 1_000);
        // 500 bytes of tokens are left, 700 at 200 us; the other 300 arrive by 500 us.
        let ready = Time::from_nanos(200_000);
        assert_eq!(bucket.departure(ready, 1_000), Time::from_nanos(500_000));
    }

    #[test]
    fn a_packet_larger_than_the_bucket_leaves_it_in_debt() {
        let mut bucket = bucket(8_000_000, 1_000);
        assert_eq!(bucket.departure(Time::ZERO, 3_000), Time::ZERO);
        // 2,000 of debt and 1 for the packet itself.
        assert_eq!(bucket.departure(Time::ZERO, 1), Time::from_nanos(2_001_000));
        let mut empty = self::bucket(8_000_000, 0);
        assert_eq!(empty.departure(Time::ZERO, 100), Time::ZERO);
        assert_eq!(empty.departure(Time::ZERO, 100), Time::from_nanos(100_000));
    }

    /// At 7 Mbit/s, 1,500 bytes do not take a whole number of nanoseconds, and the depth is just one packet: accumulating
    /// rounding errors would show. 70,000 packets take 120 s.
    #[test]
    fn rounding_errors_do_not_add_up() {
        let mut bucket = bucket(7_000_000, 1_500);
        let mut now = Time::ZERO;
        for _ in 0..=70_000 {
            now = bucket.departure(now, 1_500);
        }
        assert_eq!(now, Time::from_nanos(120_000_000_000));
    }

    #[test]
    fn packets_of_any_size_do_not_overflow() {
        for (bits_per_s, depth) in [(1, 0), (1, u64::MAX), (u64::MAX, 0), (u64::MAX, u64::MAX)] {
            let mut bucket = bucket(bits_per_s, depth);
            let mut now = Time::ZERO;
            for len_bytes in [0, u64::MAX, 1, u64::MAX, u64::MAX] {
                let next = bucket.departure(now, len_bytes);
                assert!(next >= now);
                now = next;
            }
            bucket.departure(Time::from_nanos(u64::MAX), u64::MAX);
        }
    }

    proptest! {
        /// Checked over every span of time that begins and ends with a packet; 1 ns is added because departures are rounded.
        #[test]
        fn no_span_of_time_carries_more_than_depth_plus_rate(
            bits_per_s in 1_000_u64..10_000_000_000,
            depth in 0_u64..20_000,
            packets in proptest::collection::vec((0_u64..3_000_000, 0_u64..3_000), 1..60),
        ) {
            let mut bucket = bucket(bits_per_s, depth);
            let (mut arrival, mut last) = (Time::ZERO, Time::ZERO);
            let mut left: Vec<(Time, u64)> = Vec::new();
            for (gap_ns, len_bytes) in packets {
                arrival = Time::from_nanos(arrival.as_nanos() + gap_ns);
                last = bucket.departure(arrival.max(last), len_bytes);
                left.push((last, len_bytes));
            }
            let burst = depth.max(left.iter().map(|(_, len_bytes)| *len_bytes).max().unwrap());
            for first in 0..left.len() {
                let mut sum_bits = 0_u128;
                for (at, len_bytes) in &left[first..] {
                    sum_bits += bits(*len_bytes);
                    let span_ns = at.since(left[first].0).as_nanos() + 1;
                    let arrived = u128::from(bits_per_s) * u128::from(span_ns);
                    prop_assert!(sum_bits * 1_000_000_000 <= bits(burst) * 1_000_000_000 + arrived);
                }
            }
        }

        /// A backlog gets no less than that, either: while packets wait, the tokens are used to the nanosecond.
        #[test]
        fn a_backlog_gets_exactly_the_rate(
            bits_per_s in 1_000_u64..10_000_000_000,
            depth in 3_000_u64..20_000,
            sizes in proptest::collection::vec(1_u64..3_000, 1..100),
        ) {
            let mut bucket = bucket(bits_per_s, depth);
            let (mut now, mut sum) = (Time::ZERO, 0);
            for len_bytes in sizes {
                now = bucket.departure(now, len_bytes);
                sum += len_bytes;
                let beyond = BitRate::new(bits_per_s).unwrap().time_for(sum.saturating_sub(depth) * 8);
                prop_assert_eq!(now, Time::ZERO + beyond);
            }
        }
    }
}
