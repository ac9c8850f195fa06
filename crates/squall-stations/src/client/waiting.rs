//! Until when a client sleeps that has something to do at a time, if it watches the clock for the last part.
//!
//! Only the decision, on times that it is given; `mod` waits. Sockets are served all the time: who watches the clock asks
//! for what is ready again and again.

use squall_base::{Duration, Time};

use super::Spin;

/// A real-time thread that never sleeps is stopped by the kernel for 50 ms of each second (sched_rt_runtime_us). After so
/// long without sleep the next wait is slept through.
const AWAKE_AT_MOST: Duration = Duration::from_millis(2);

/// Sparing: what is due so many times the spin after the last that was spun for is spun for.
const SPARING_TIMES: u64 = 10;

/// Reading goes on for so long although a request is due: less than a millisecond with what is written then, and enough
/// that answers get read however many requests come.
const READING_AT_MOST: Duration = Duration::from_micros(100);

/// Whether something is due at `now`.
pub(super) fn is_due(now: Time, due: Option<Time>) -> bool {
    due.is_some_and(|due| due <= now)
}

/// Whether one who has read since `began` stops at `now`, because a request is `due`.
pub(super) fn gives_way(began: Time, now: Time, due: Option<Time>) -> bool {
    is_due(now, due) && now.since(began) >= READING_AT_MOST
}

/// What a client's wait needs to know.
#[derive(Clone, Copy, Debug)]
pub(super) struct Waiting {
    spin: Spin,
    last_sleep: Time,
    /// The last time that was spun for.
    spun_for: Option<Time>,
}

impl Waiting {
    /// Of a client that was asleep until `now`.
    pub(super) fn new(spin: Spin, now: Time) -> Waiting {
        Waiting {
            spin,
            last_sleep: now,
            spun_for: None,
        }
    }

    /// How long before `due` the clock is watched.
    fn spin_for(&mut self, due: Time) -> Duration {
        let time = self.spin.time;
        let pause_nanos = SPARING_TIMES * time.as_nanos();
        let is_soon = |last: Time| due > last && due.as_nanos() < last.as_nanos() + pause_nanos;
        if self.spin.is_sparing && self.spun_for.is_some_and(is_soon) {
            return Duration::ZERO;
        }
        self.spun_for = Some(due);
        time
    }

    /// Until when to sleep at `now` if something is `due`; a time that has passed means not at all.
    pub(super) fn sleep_until(&mut self, now: Time, due: Option<Time>) -> Option<Time> {
        let is_tired = now.since(self.last_sleep) >= AWAKE_AT_MOST;
        let until = due.map(|due| {
            let spin = match is_tired {
                true => Duration::ZERO,
                false => self.spin_for(due),
            };
            Time::from_nanos(due.as_nanos().saturating_sub(spin.as_nanos()))
        });
        if until.is_none_or(|until| now < until) {
            // It sleeps, or is woken by something else, which is as good to the kernel's guard: it has blocked.
            self.last_sleep = until.unwrap_or(now).max(now);
        }
        until
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SPIN: Spin = Spin::always(Duration::from_micros(60));

    fn at(micros: u64) -> Time {
        Time::from_nanos(micros * 1_000)
    }

    #[test]
    fn without_spinning_it_sleeps_until_it_is_due() {
        let mut waiting = Waiting::new(Spin::default(), at(0));
        assert_eq!(waiting.sleep_until(at(0), Some(at(500))), Some(at(500)));
        assert_eq!(
            waiting.sleep_until(at(9_000), Some(at(9_001))),
            Some(at(9_001))
        );
        assert_eq!(waiting.sleep_until(at(9_500), None), None);
    }

    #[test]
    fn it_watches_the_clock_for_the_last_part_only() {
        let mut waiting = Waiting::new(SPIN, at(0));
        let due = Some(at(1_000));
        assert_eq!(
            waiting.sleep_until(at(0), due),
            Some(at(940)),
            "first it sleeps"
        );
        // Awake: a time that has passed, until it is due.
        for now in [940, 970, 999] {
            assert_eq!(waiting.sleep_until(at(now), due), Some(at(940)));
        }
        assert_eq!(
            Waiting::new(SPIN, at(0)).sleep_until(at(5), Some(at(20))),
            Some(Time::ZERO)
        );
    }

    #[test]
    fn who_would_never_sleep_sleeps_now_and_then() {
        let mut waiting = Waiting::new(SPIN, at(0));
        // Due every 50 us: always within the last 60 us before the next.
        let (mut now, mut slept) = (0, Vec::new());
        while now < 6_500 {
            let due = (now / 50 + 1) * 50;
            let until = waiting.sleep_until(at(now), Some(at(due))).unwrap();
            match at(now) < until {
                true => {
                    slept.push(now);
                    now = until.as_nanos() / 1_000;
                }
                false => now += 10,
            }
        }
        assert_eq!(slept.len(), 3, "{slept:?}");
        assert!(
            slept.windows(2).all(|pair| pair[1] - pair[0] <= 2_100),
            "{slept:?}"
        );
    }

    #[test]
    fn who_is_sparing_spins_for_few_of_many() {
        let sparing = Spin::sparing(SPIN.time);
        for (gap, spun) in [(1_000, 100), (600, 100), (599, 50), (50, 9)] {
            let mut waiting = Waiting::new(sparing, at(0));
            let mut count = 0;
            for due in (1..=100).map(|n| n * gap) {
                let before = at(due - gap);
                let until = waiting.sleep_until(before, Some(at(due))).unwrap();
                count += u32::from(until < at(due));
                // The same is due: it is as it was.
                assert_eq!(waiting.sleep_until(before, Some(at(due))), Some(until));
            }
            assert_eq!(count, spun, "every {gap} us");
        }
    }

    #[test]
    fn reading_gives_way_to_what_is_due_but_gets_on() {
        assert!(!gives_way(at(0), at(9_000), None), "nothing is due");
        assert!(!gives_way(at(0), at(9_000), Some(at(9_001))));
        assert!(gives_way(at(0), at(9_000), Some(at(9_000))));
        assert!(!gives_way(at(8_901), at(9_000), Some(at(1))), "just begun");
        assert!(gives_way(at(8_900), at(9_000), Some(at(1))));
    }

    #[test]
    fn waiting_for_sockets_alone_is_sleep() {
        let mut waiting = Waiting::new(SPIN, at(0));
        assert_eq!(waiting.sleep_until(at(5_000), None), None);
        assert_eq!(
            waiting.sleep_until(at(5_010), Some(at(5_060))),
            Some(at(5_000))
        );
    }
}
