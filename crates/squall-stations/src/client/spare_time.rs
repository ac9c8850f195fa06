//! What a client does in time that it would otherwise sleep, and how much of that time it uses.
//!
//! Falling asleep and waking up costs more than polling for responses between two small steps of work. This module only
//! decides, from the times it is passed; `turn` polls and works. It stays within what the kernel allows a real-time
//! thread (`waiting`).

use std::sync::Arc;

use squall_base::{Duration, Time};

use crate::rows::SpareTime;

/// No step begins this close to something due: ten times as long as most steps take, and longer than all but a few
/// (docs/METHOD.md, "writes in time to spare").
const BEFORE_DUE: Duration = Duration::from_micros(100);

/// How long to wait before asking for work again after there was none.
const RETRY_AFTER: Duration = Duration::from_micros(500);

/// A real-time thread may run for 950 ms of each second (sched_rt_runtime_us); this ratio allows 889 ms.
const AWAKE_FOR_EACH_SLEPT: i64 = 8;

/// The most that a client can be ahead or behind with its sleep, in time awake: well below the kernel's second.
const REMEMBERED_NS: i64 = 20_000_000;

/// A client's spare-time work.
pub(super) struct SpareTimeBudget {
    work: Option<Arc<dyn SpareTime>>,
    /// How long the client may still stay awake, in nanoseconds, as of `accounted_until`.
    awake_ns: i64,
    accounted_until: Time,
    not_before: Time,
    /// How much of the client's time the work has taken.
    pub(super) spent: Duration,
}

impl SpareTimeBudget {
    pub(super) fn new(work: Option<Arc<dyn SpareTime>>) -> SpareTimeBudget {
        SpareTimeBudget {
            work,
            awake_ns: REMEMBERED_NS,
            accounted_until: Time::ZERO,
            not_before: Time::ZERO,
            spent: Duration::ZERO,
        }
    }

    /// Whether a step may begin at `now` if something else is `due`.
    pub(super) fn may_begin(&mut self, now: Time, due: Option<Time>) -> bool {
        let has_work = (self.work.as_ref()).is_some_and(|work| work.has_work());
        if !has_work || now < self.not_before || due.is_some_and(|due| due < now + BEFORE_DUE) {
            return false;
        }
        self.record_awake(now);
        self.awake_ns > 0
    }

    /// Whether a step must begin at `now` although there may be responses to read: a backlog that only this thread can
    /// handle has piled up, and nothing else is `due`. Leaving it would only mean waiting for room later, so the step
    /// does not count against the time the thread must sleep.
    pub(super) fn must_begin(&self, now: Time, due: Option<Time>) -> bool {
        let is_urgent = (self.work.as_ref()).is_some_and(|work| work.is_urgent());
        is_urgent && now >= self.not_before && due.is_none_or(|due| due >= now + BEFORE_DUE)
    }

    /// Does a step, if there is work. Returns whether there was.
    pub(super) fn step(&mut self, now: Time) -> bool {
        let has_worked = self.work.as_ref().is_some_and(|work| work.work());
        if !has_worked {
            self.not_before = now + RETRY_AFTER;
        }
        has_worked
    }

    /// Records a sleep.
    pub(super) fn record_sleep(&mut self, from: Time, to: Time) {
        if self.work.is_some() {
            self.record_awake(from);
            let slept_ns = to.since(from).as_nanos().min(REMEMBERED_NS as u64) as i64;
            self.awake_ns = (self.awake_ns + AWAKE_FOR_EACH_SLEPT * slept_ns).min(REMEMBERED_NS);
            self.accounted_until = to;
        }
    }

    fn record_awake(&mut self, now: Time) {
        let awake_ns = now
            .since(self.accounted_until)
            .as_nanos()
            .min(REMEMBERED_NS as u64) as i64;
        self.awake_ns = (self.awake_ns - awake_ns).max(-REMEMBERED_NS);
        self.accounted_until = now;
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicBool, Ordering};

    use super::*;

    /// Work that never runs out while the flag is set.
    struct Endless(AtomicBool);

    impl SpareTime for Endless {
        fn has_work(&self) -> bool {
            true
        }

        fn work(&self) -> bool {
            self.0.load(Ordering::Relaxed)
        }

        fn is_urgent(&self) -> bool {
            self.work()
        }
    }

    fn at(micros: u64) -> Time {
        Time::from_nanos(micros * 1_000)
    }

    fn endless() -> SpareTimeBudget {
        let mut budget = SpareTimeBudget::new(Some(Arc::new(Endless(AtomicBool::new(true)))));
        budget.record_sleep(at(0), at(1_000_000));
        budget
    }

    #[test]
    fn nothing_begins_shortly_before_something_is_due() {
        let mut budget = endless();
        let now = 1_000_000;
        assert!(budget.may_begin(at(now), None));
        assert!(budget.may_begin(at(now), Some(at(now + 100))));
        assert!(!budget.may_begin(at(now), Some(at(now + 99))));
        assert!(!SpareTimeBudget::new(None).may_begin(at(now), None));
    }

    #[test]
    fn endless_work_still_sleeps_a_ninth_of_the_time() {
        let mut budget = endless();
        let (mut now, mut slept) = (1_000_000, 0);
        while now < 2_000_000 {
            if budget.may_begin(at(now), None) {
                assert!(budget.step(at(now)));
            } else {
                budget.record_sleep(at(now), at(now + 10));
                slept += 10;
            }
            now += 10;
        }
        assert!(
            (100_000..120_000).contains(&slept),
            "{slept} us of a second"
        );
    }

    #[test]
    fn backlog_is_handled_without_sleep_but_not_shortly_before_a_due_time() {
        let mut budget = endless();
        let now = at(1_000_000);
        while budget.may_begin(now, None) {
            budget.awake_ns -= 1_000_000;
        }
        assert!(budget.must_begin(now, None));
        assert!(!budget.must_begin(now, Some(at(1_000_099))));
        assert!(!SpareTimeBudget::new(None).must_begin(now, None));
        let mut idle = SpareTimeBudget::new(Some(Arc::new(Endless(AtomicBool::new(false)))));
        assert!(!idle.must_begin(now, None) && !idle.step(now));
    }

    #[test]
    fn finding_no_work_delays_the_next_attempt() {
        let mut budget = SpareTimeBudget::new(Some(Arc::new(Endless(AtomicBool::new(false)))));
        assert!(budget.may_begin(at(10), None));
        assert!(!budget.step(at(10)));
        assert!(!budget.may_begin(at(509), None));
        assert!(budget.may_begin(at(510), None));
    }
}
