//! Decides until when a client with something due sleeps, and whether it polls the clock for the last part of the wait.
//!
//! Only the decision, from the times it is passed; `turn` waits. Sockets are served all the time: a client that polls
//! the clock also polls for ready sockets.

use squall_base::{Duration, Time};

use super::Spin;

/// If a real-time thread never sleeps, the kernel stops it for 50 ms in each second (sched_rt_runtime_us). So after this
/// long without sleep, the next wait is slept through.
const AWAKE_AT_MOST: Duration = Duration::from_millis(2);

/// With [`Spin::is_sparing`], a client only spins for a request that is due at least this many spin times after the one
/// that it last spun for.
const SPARING_TIMES: u64 = 10;

/// Reading continues for this long although a request is due: less than a millisecond together with the writes that
/// follow, and enough that responses get read however many requests arrive.
const READING_AT_MOST: Duration = Duration::from_micros(100);

/// Whether something is due at `now`.
pub(super) fn is_due(now: Time, due: Option<Time>) -> bool {
    due.is_some_and(|due| due <= now)
}

/// Whether a client that has been reading since `began` stops at `now`, because a request is `due`.
pub(super) fn must_yield(began: Time, now: Time, due: Option<Time>) -> bool {
    is_due(now, due) && now.since(began) >= READING_AT_MOST
}

/// The state behind a client's waits.
#[derive(Clone, Copy, Debug)]
pub(super) struct SleepPolicy {
    spin: Spin,
    last_sleep: Time,
    /// The last due time that was spun for.
    spun_for: Option<Time>,
}

impl SleepPolicy {
    /// The policy of a client that was asleep until `now`.
    pub(super) fn new(spin: Spin, now: Time) -> SleepPolicy {
        SleepPolicy {
            spin,
            last_sleep: now,
            spun_for: None,
        }
    }

    /// How long before `due` to poll the clock.
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

    /// Until when to sleep at `now` if something is `due`; a time in the past means that the client must not sleep.
    pub(super) fn sleep_until(&mut self, now: Time, due: Option<Time>) -> Option<Time> {
        let must_sleep = now.since(self.last_sleep) >= AWAKE_AT_MOST;
        let until = due.map(|due| {
            let spin = if must_sleep {
                Duration::ZERO
            } else {
                self.spin_for(due)
            };
            Time::from_nanos(due.as_nanos().saturating_sub(spin.as_nanos()))
        });
        if until.is_none_or(|until| now < until) {
            // The client sleeps until then, or something else wakes it. The kernel's guard accepts either: the thread has
            // blocked.
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
    fn without_spinning_the_client_sleeps_until_the_request_is_due() {
        let mut policy = SleepPolicy::new(Spin::default(), at(0));
        assert_eq!(policy.sleep_until(at(0), Some(at(500))), Some(at(500)));
        assert_eq!(
            policy.sleep_until(at(9_000), Some(at(9_001))),
            Some(at(9_001))
        );
        assert_eq!(policy.sleep_until(at(9_500), None), None);
    }

    #[test]
    fn client_spins_only_for_the_last_part_of_the_wait() {
        let mut policy = SleepPolicy::new(SPIN, at(0));
        let due = Some(at(1_000));
        assert_eq!(
            policy.sleep_until(at(0), due),
            Some(at(940)),
            "first it sleeps"
        );
        // Awake: returns a time in the past, until the request is due.
        for now in [940, 970, 999] {
            assert_eq!(policy.sleep_until(at(now), due), Some(at(940)));
        }
        assert_eq!(
            SleepPolicy::new(SPIN, at(0)).sleep_until(at(5), Some(at(20))),
            Some(Time::ZERO)
        );
    }

    #[test]
    fn client_that_would_always_spin_still_sleeps_now_and_then() {
        let mut policy = SleepPolicy::new(SPIN, at(0));
        // Due every 50 us: the next request is always less than 60 us away.
        let (mut now, mut slept) = (0, Vec::new());
        while now < 6_500 {
            let due = (now / 50 + 1) * 50;
            let until = policy.sleep_until(at(now), Some(at(due))).unwrap();
            if at(now) < until {
                slept.push(now);
                now = until.as_nanos() / 1_000;
            } else {
                now += 10;
            }
        }
        assert_eq!(slept.len(), 3, "{slept:?}");
        assert!(
            slept.windows(2).all(|pair| pair[1] - pair[0] <= 2_100),
            "{slept:?}"
        );
    }

    #[test]
    fn sparing_spin_skips_closely_spaced_requests() {
        let sparing = Spin::sparing(SPIN.time);
        for (gap, spun) in [(1_000, 100), (600, 100), (599, 50), (50, 9)] {
            let mut policy = SleepPolicy::new(sparing, at(0));
            let mut count = 0;
            for due in (1..=100).map(|n| n * gap) {
                let before = at(due - gap);
                let until = policy.sleep_until(before, Some(at(due))).unwrap();
                count += u32::from(until < at(due));
                // Asking again about the same request changes nothing.
                assert_eq!(policy.sleep_until(before, Some(at(due))), Some(until));
            }
            assert_eq!(count, spun, "every {gap} us");
        }
    }

    #[test]
    fn reading_yields_to_due_requests_after_a_minimum_time() {
        assert!(!must_yield(at(0), at(9_000), None), "nothing is due");
        assert!(!must_yield(at(0), at(9_000), Some(at(9_001))));
        assert!(must_yield(at(0), at(9_000), Some(at(9_000))));
        assert!(!must_yield(at(8_901), at(9_000), Some(at(1))), "just begun");
        assert!(must_yield(at(8_900), at(9_000), Some(at(1))));
    }

    #[test]
    fn waiting_for_sockets_counts_as_sleep() {
        let mut policy = SleepPolicy::new(SPIN, at(0));
        assert_eq!(policy.sleep_until(at(5_000), None), None);
        assert_eq!(
            policy.sleep_until(at(5_010), Some(at(5_060))),
            Some(at(5_000))
        );
    }
}
