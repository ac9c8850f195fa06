//! The schedule of an open-loop load: the n-th request's time in closed form.
//!
//! Nothing that happens to earlier requests moves a later one, and no rounding adds up: the time of
//! request n is start + floor(n * period / events).

use squall_base::Time;
use squall_base::plan::Load;
use squall_base::record::Phase;

/// One request of the schedule.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Arrival {
    /// Its number, from 0.
    pub request: u64,
    /// When it shall be sent.
    pub intended: Time,
    /// The part of the load.
    pub phase: Phase,
}

/// Constant arrivals of a load that starts at a given time.
#[derive(Clone, Debug)]
pub struct Schedule {
    load: Load,
    start: Time,
    next: u64,
    total: u64,
}

impl Schedule {
    /// The schedule of `load`, with its first request due at `start`.
    pub fn new(load: Load, start: Time) -> Schedule {
        let total = load.rate.events_in(load.warmup + load.duration);
        Schedule {
            load,
            start,
            next: 0,
            total,
        }
    }

    /// Requests in all, warm-up included.
    pub fn total(&self) -> u64 {
        self.total
    }

    /// When the next request is due; `None` after the last.
    pub fn next_due(&self) -> Option<Time> {
        (self.next < self.total).then(|| self.intended(self.next))
    }

    /// The next request, if it is due at `now`.
    pub fn take_due(&mut self, now: Time) -> Option<Arrival> {
        let intended = self.next_due().filter(|due| *due <= now)?;
        let in_warmup = intended.since(self.start) < self.load.warmup;
        let arrival = Arrival {
            request: self.next,
            intended,
            phase: if in_warmup {
                Phase::Warmup
            } else {
                Phase::Measure
            },
        };
        self.next += 1;
        Some(arrival)
    }

    /// When the load gives up on what is unfinished.
    pub fn deadline(&self) -> Time {
        self.start + self.load.warmup + self.load.duration + self.load.drain
    }

    fn intended(&self, request: u64) -> Time {
        self.start + self.load.rate.offset_of(request)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use squall_base::{Duration, Rate};

    fn load(rate: &str, warmup_ms: u64, duration_ms: u64) -> Load {
        Load {
            rate: rate.parse::<Rate>().unwrap(),
            warmup: Duration::from_millis(warmup_ms),
            duration: Duration::from_millis(duration_ms),
            drain: Duration::from_secs(1),
        }
    }

    #[test]
    fn requests_are_due_at_their_times_and_not_before() {
        let start = Time::from_nanos(5_000);
        let mut schedule = Schedule::new(load("1000/s", 1, 2), start);
        assert_eq!(schedule.total(), 3);
        assert_eq!(schedule.take_due(Time::from_nanos(4_999)), None);
        let first = schedule.take_due(start).unwrap();
        assert_eq!((first.request, first.phase), (0, Phase::Warmup));
        assert_eq!(schedule.take_due(start), None);
        let late = start + Duration::from_secs(1);
        let second = schedule.take_due(late).unwrap();
        assert_eq!(
            (second.intended, second.phase),
            (start + Duration::from_millis(1), Phase::Measure)
        );
        assert!(schedule.take_due(late).is_some());
        assert_eq!((schedule.take_due(late), schedule.next_due()), (None, None));
    }

    proptest! {
        /// However irregularly it is asked, every request comes exactly once, in order, at its own time.
        #[test]
        fn lateness_moves_no_request(
            events in 1_u64..5_000, duration_ms in 1_u64..3_000, steps in proptest::collection::vec(1_u64..300_000_000, 1..50)
        ) {
            let mut schedule = Schedule::new(load(&format!("{events}/s"), 0, duration_ms), Time::ZERO);
            let rate = Rate::new(events, Duration::from_secs(1)).unwrap();
            let (mut now, mut seen) = (Time::ZERO, 0);
            for step in steps.into_iter().chain([u64::from(u32::MAX)]) {
                now += Duration::from_nanos(step);
                while let Some(arrival) = schedule.take_due(now) {
                    prop_assert_eq!(arrival.request, seen);
                    prop_assert_eq!(arrival.intended, Time::ZERO + rate.offset_of(seen));
                    prop_assert!(arrival.intended <= now);
                    seen += 1;
                }
            }
            prop_assert_eq!(seen, schedule.total());
        }
    }
}
