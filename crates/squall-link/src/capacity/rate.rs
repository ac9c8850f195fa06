//! A constant rate: a packet takes its bits divided by the rate, and the next one starts when it is through.
//!
//! It is exact over any number of packets: times within a busy period are computed from its beginning, so rounding errors
//! do not add up; each time is rounded up to whole nanoseconds. A bucket that passes bursts at once is `token_bucket`.

use squall_base::{BitRate, Time};

use super::{after, bits};

/// Sends bits one after the other.
#[derive(Clone, Debug)]
pub(crate) struct Serialiser {
    rate: BitRate,
    /// When the current busy period began, advanced by its completed whole seconds.
    busy_since: Time,
    /// The bits sent since then; less than a second's, so that they never overflow.
    bits: u128,
    free_at: Time,
}

impl Serialiser {
    pub(crate) fn new(now: Time, rate: BitRate) -> Serialiser {
        Serialiser {
            rate,
            busy_since: now,
            bits: 0,
            free_at: now,
        }
    }

    /// When a packet of `len_bytes` that is ready at `ready` has been sent.
    pub(crate) fn departure(&mut self, ready: Time, len_bytes: u64) -> Time {
        const NANOS_PER_S: u128 = 1_000_000_000;
        if ready > self.free_at {
            self.busy_since = ready;
            self.bits = 0;
        }
        self.bits += bits(len_bytes);
        let bits_per_s = u128::from(self.rate.bits_per_s());
        self.busy_since = after(self.busy_since, self.bits / bits_per_s * NANOS_PER_S);
        self.bits %= bits_per_s;
        let rest_ns = (self.bits * NANOS_PER_S).div_ceil(bits_per_s);
        self.free_at = after(self.busy_since, rest_ns);
        self.free_at
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn a_busy_second_carries_exactly_its_rate() {
        let mut serialiser = Serialiser::new(Time::ZERO, BitRate::new(7_000_000).unwrap());
        let mut now = Time::ZERO;
        for _ in 0..7_000 {
            now = serialiser.departure(now, 125);
        }
        assert_eq!(now, Time::from_nanos(1_000_000_000));
        let later = Time::from_nanos(5_000_000_000);
        assert_eq!(
            serialiser.departure(later, 875),
            Time::from_nanos(5_001_000_000)
        );
    }

    #[test]
    fn packets_of_any_size_do_not_overflow() {
        for bits_per_s in [1, 1_000_000_000_000, u64::MAX] {
            let rate = BitRate::new(bits_per_s).unwrap();
            let mut serialiser = Serialiser::new(Time::ZERO, rate);
            let mut now = Time::ZERO;
            for _ in 0..10 {
                let next = serialiser.departure(now, u64::MAX);
                assert!(next >= now);
                now = next;
            }
        }
    }

    proptest! {
        /// Checked against the definition: a packet is through when all bits of its busy period are sent, rounded up.
        #[test]
        fn packets_leave_when_all_bits_of_their_busy_period_are_sent(
            bits_per_s in prop_oneof![1_u64..1_000_000, 1_u64..1_000_000_000_000],
            packets in proptest::collection::vec((0_u64..10_000_000, 0_u64..66_000), 1..60),
        ) {
            let mut serialiser = Serialiser::new(Time::ZERO, BitRate::new(bits_per_s).unwrap());
            let (mut arrival, mut free_at, mut since, mut bits) = (0_u64, 0_u64, 0_u64, 0_u64);
            for (gap_ns, len_bytes) in packets {
                arrival += gap_ns;
                if arrival > free_at {
                    (since, bits) = (arrival, 0);
                }
                bits += len_bytes * 8;
                let ready = Time::from_nanos(arrival.max(free_at));
                let span = u128::from(bits) * 1_000_000_000;
                free_at = since + span.div_ceil(u128::from(bits_per_s)) as u64;
                prop_assert_eq!(serialiser.departure(ready, len_bytes).as_nanos(), free_at);
            }
        }
    }
}
