//! The integral of a rate over time, and its inverse: when the count of requests reaches a number, to the nanosecond.
//!
//! Counts are in ticks. A request has one tick for each nanosecond in two common periods of the rates
//! (`Stages::period`). Every stage, including a ramp, then begins and ends at a whole number of ticks, so that nothing
//! is rounded from stage to stage. An event at `ticks` is due in the one nanosecond t with
//! count(t) <= ticks < count(t + 1). At a constant rate that is floor(ticks / rate). In a ramp it is the floor of a root,
//! which is guessed in floating point and then settled with 192-bit integers: the guess decides how long this takes, never
//! the result.

use squall_base::Duration;
use squall_base::plan::Stages;

/// An integrated rate, walked from start to end.
#[derive(Clone, Debug)]
pub(super) struct Profile {
    segments: Vec<Segment>,
    ticks_per_request: u128,
    /// Ticks in the whole profile.
    total: u128,
    /// The segment that the last call found.
    current: usize,
}

/// A stage that has requests.
#[derive(Clone, Copy, Debug)]
struct Segment {
    /// Nanoseconds before this stage.
    begin: u64,
    /// Ticks before this stage and up to its end.
    before: u128,
    end: u128,
    /// Half of the ticks per nanosecond at its beginning and at its end.
    from: u64,
    to: u64,
    /// Length in nanoseconds.
    length: u64,
}

impl Profile {
    pub(super) fn new(stages: &Stages) -> Profile {
        let (mut begin, mut before) = (0, 0);
        let mut segments = Vec::new();
        for stage in stages.as_slice() {
            let length = stage.duration.as_nanos();
            let (from, to) = (
                stages.requests_per_period(stage.from),
                stages.requests_per_period(stage.to),
            );
            // `Stages` has checked that none of this overflows.
            let end = before + (u128::from(from) + u128::from(to)) * u128::from(length);
            if end > before {
                segments.push(Segment {
                    begin,
                    before,
                    end,
                    from,
                    to,
                    length,
                });
            }
            begin += length;
            before = end;
        }
        Profile {
            segments,
            ticks_per_request: 2 * u128::from(stages.period().as_nanos()),
            total: before,
            current: 0,
        }
    }

    pub(super) fn ticks_per_request(&self) -> u128 {
        self.ticks_per_request
    }

    /// The number of requests, if request n is due at n times [`Profile::ticks_per_request`].
    pub(super) fn requests(&self) -> u64 {
        // `Stages` has checked that it fits.
        self.total.div_ceil(self.ticks_per_request) as u64
    }

    /// When an event at `ticks` is due, counted from the start; `None` if that is not before the end. Ticks must not
    /// decrease from call to call.
    pub(super) fn time_at(&mut self, ticks: u128) -> Option<Duration> {
        while self.segments.get(self.current)?.end <= ticks {
            self.current += 1;
        }
        let segment = &self.segments[self.current];
        let offset = segment.offset(ticks - segment.before);
        Some(Duration::from_nanos(segment.begin + offset))
    }
}

impl Segment {
    /// The nanosecond at which the segment's count reaches `ticks`; both count from the segment's beginning, and `ticks`
    /// lies below its end.
    fn offset(&self, ticks: u128) -> u64 {
        let length = self.length;
        if self.from == self.to {
            return (ticks / (2 * u128::from(self.from))) as u64;
        }
        if self.from < self.to {
            let growth = Growth::new(self.from, self.to, length);
            return growth.last_within(Wide::product(length, ticks), ticks);
        }
        // Seen from its end, a falling ramp rises. The last nanosecond whose count is within `ticks` is, counted from the
        // end, the first one by which all remaining ticks have been counted.
        let remaining = self.end - self.before - ticks;
        let growth = Growth::new(self.to, self.from, length);
        let below = Wide::product(length, remaining).less_one();
        length - 1 - growth.last_within(below, remaining)
    }
}

/// A rising ramp. After x nanoseconds, its count of ticks times its length is x (2 low length + (high - low) x).
struct Growth {
    low: u64,
    rise: u64,
    twice_low_length: u128,
    length: u64,
}

impl Growth {
    fn new(low: u64, high: u64, length: u64) -> Growth {
        Growth {
            low,
            rise: high - low,
            // Rates are at most 2^62 (`Stages`), so neither this nor the sum in `count` reaches 2^128.
            twice_low_length: 2 * u128::from(low) * u128::from(length),
            length,
        }
    }

    fn count(&self, x: u64) -> Wide {
        let factor = self.twice_low_length + u128::from(self.rise) * u128::from(x);
        Wide::product(x, factor)
    }

    /// The last whole x before the end with `count(x) <= limit`, where `limit` is about `ticks` times the length.
    fn last_within(&self, limit: Wide, ticks: u128) -> u64 {
        let (low, ticks) = (self.low as f64, ticks as f64);
        // The root of the quadratic, in the form without cancellation.
        let slope = self.rise as f64 / self.length as f64;
        let guess = ticks / (low + (low * low + slope * ticks).sqrt());
        let mut within = (guess as u64).min(self.length - 1);
        let (mut above, mut step) = (self.length, 1_u64);
        while self.count(within) > limit {
            above = within;
            within = within.saturating_sub(step);
            step = step.saturating_mul(2);
        }
        step = 1;
        while above - within > 1 {
            let probe = within + step.min((above - within) / 2);
            if self.count(probe) <= limit {
                within = probe;
                step = step.saturating_mul(2);
            } else {
                above = probe;
            }
        }
        within
    }
}

/// A 192-bit integer: the high 128 bits and the low 64.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
struct Wide(u128, u64);

impl Wide {
    fn product(a: u64, b: u128) -> Wide {
        let a = u128::from(a);
        let low = a * u128::from(b as u64);
        // (2^64 - 1)^2 + 2^64 - 1 < 2^128.
        let high = a * (b >> 64) + (low >> 64);
        Wide(high, low as u64)
    }

    /// One less. The number must not be 0.
    fn less_one(self) -> Wide {
        match self.1 {
            0 => Wide(self.0 - 1, u64::MAX),
            low => Wide(self.0, low - 1),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use squall_base::Rate;
    use squall_base::plan::Stage;

    /// Ticks times the length after `x` nanoseconds of a stage, straight from the definition of the integral.
    fn slow_count(from: u64, to: u64, length: u64, x: u64) -> i128 {
        let [from, to, length, x] = [from, to, length, x].map(i128::from);
        2 * from * length * x + (to - from) * x * x
    }

    fn segment(from: u64, to: u64, length: u64) -> Segment {
        Segment {
            begin: 0,
            before: 0,
            end: (u128::from(from) + u128::from(to)) * u128::from(length),
            from,
            to,
            length,
        }
    }

    proptest! {
        /// count(t) <= ticks < count(t + 1), wherever the ticks are.
        #[test]
        fn an_event_is_due_in_the_nanosecond_in_which_the_count_passes_its_ticks(
            from in 0_u64..1 << 36, to in 0_u64..1 << 36, length in 1_u64..1 << 44, at in any::<u64>()
        ) {
            let segment = segment(from, to, length);
            prop_assume!(segment.end > 0);
            let ticks = (u128::from(at) * (segment.end >> 20)) >> 44;
            let t = segment.offset(ticks);
            let exact = ticks as i128 * i128::from(length);
            prop_assert!(slow_count(from, to, length, t) <= exact);
            prop_assert!(slow_count(from, to, length, t + 1) > exact);
        }

        /// Small cases, checked against a linear search of every nanosecond, and at both ends.
        #[test]
        fn due_times_equal_those_of_a_linear_search(from in 0_u64..50, to in 0_u64..50, length in 1_u64..200) {
            let segment = segment(from, to, length);
            for ticks in 0..segment.end {
                let exact = ticks as i128 * i128::from(length);
                let slow = (0..length).rev().find(|x| slow_count(from, to, length, *x) <= exact);
                prop_assert_eq!(Some(segment.offset(ticks)), slow, "at {}", ticks);
            }
        }

        #[test]
        fn wide_products_are_correct(a in any::<u64>(), b in 0_u128..1 << 64) {
            let Wide(high, low) = Wide::product(a, b);
            prop_assert_eq!((high << 64) + u128::from(low), u128::from(a) * b);
        }
    }

    #[test]
    fn the_largest_numbers_neither_wrap_nor_take_forever() {
        let most = 1_u64 << 62;
        for (from, to) in [(0, most), (most, 0), (most - 1, most), (1, most), (most, 1)] {
            let segment = segment(from, to, u64::MAX);
            for ticks in [0, 1, segment.end / 3, segment.end - 1] {
                assert!(segment.offset(ticks) < u64::MAX);
            }
            // A ramp down to a rate of zero needs two nanoseconds for its last tick.
            assert!(segment.offset(segment.end - 1) >= u64::MAX - 2);
            assert_eq!(segment.offset(0), 0);
        }
    }

    #[test]
    fn stages_without_requests_only_take_time() {
        let second = Duration::from_secs(1);
        let ten: Rate = "10/s".parse().unwrap();
        let stages = Stages::new(vec![
            Stage::pause(second),
            Stage::constant(ten, second),
            Stage::constant(ten, Duration::ZERO),
            Stage::pause(second),
            Stage::ramp(Some(ten), None, second),
            Stage::pause(second),
        ]);
        let mut profile = Profile::new(&stages.unwrap());
        assert_eq!(profile.requests(), 15);
        let request = profile.ticks_per_request();
        let mut millis = |n: u128| Some(profile.time_at(n * request)?.as_nanos() / 1_000_000);
        assert_eq!(millis(0), Some(1_000));
        assert_eq!(millis(9), Some(1_900));
        assert_eq!(millis(10), Some(3_000), "the pause has none");
        // 10 t - 5 t^2 = 1 at t = 1 - sqrt(0.8).
        assert_eq!(millis(11), Some(3_105));
        // ... = 4.
        assert_eq!(millis(14), Some(3_552));
        assert_eq!(millis(15), None);
    }
}
