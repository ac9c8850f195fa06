//! What a client does in the time that it would sleep through, and how much of that time it takes.
//!
//! To fall asleep and be woken up costs more than to look for answers between two small steps of work. Only the decision,
//! on times that it is given; `turn` looks and works. It keeps to what the kernel allows a real-time thread (`waiting`).

use std::sync::Arc;

use squall_base::{Duration, Time};

use crate::rows::SpareTime;

/// So shortly before something is due no step begins: ten times as long as most take, and longer than all but a few
/// (docs/METHOD.md, "Writing in time to spare").
const BEFORE_DUE: Duration = Duration::from_micros(100);

/// How long nobody asks again where there was nothing that a client could do.
const AFTER_NOTHING: Duration = Duration::from_micros(500);

/// A real-time thread may be awake for 950 ms of each second (sched_rt_runtime_us): this is 889 of them.
const AWAKE_FOR_EACH_SLEPT: i64 = 8;

/// Sleep is remembered for so long: well below the kernel's second.
const REMEMBERED_NS: i64 = 20_000_000;

/// A client's work in its spare time.
pub(super) struct Meanwhile {
    work: Option<Arc<dyn SpareTime>>,
    /// How long it may still be awake, in nanoseconds, at `reckoned`.
    awake_ns: i64,
    reckoned: Time,
    not_before: Time,
    /// What it has taken of the client's time.
    pub(super) spent: Duration,
}

impl Meanwhile {
    pub(super) fn new(work: Option<Arc<dyn SpareTime>>) -> Meanwhile {
        Meanwhile {
            work,
            awake_ns: REMEMBERED_NS,
            reckoned: Time::ZERO,
            not_before: Time::ZERO,
            spent: Duration::ZERO,
        }
    }

    /// Whether a step begins at `now` if something else is `due`.
    pub(super) fn may_begin(&mut self, now: Time, due: Option<Time>) -> bool {
        let has_work = (self.work.as_ref()).is_some_and(|work| work.has_work());
        if !has_work || now < self.not_before || due.is_some_and(|due| due < now + BEFORE_DUE) {
            return false;
        }
        self.awake_until(now);
        self.awake_ns > 0
    }

    /// Whether a step begins at `now` although there may be answers to read, because work has piled up that is nobody
    /// else's, and nothing else is `due`. Who left it would wait for its room in the end, so no sleep is owed for it.
    pub(super) fn must_begin(&self, now: Time, due: Option<Time>) -> bool {
        let presses = (self.work.as_ref()).is_some_and(|work| work.presses());
        presses && now >= self.not_before && due.is_none_or(|due| due >= now + BEFORE_DUE)
    }

    /// Does a step. Gives whether there was one.
    pub(super) fn step(&mut self, now: Time) -> bool {
        let has_worked = self.work.as_ref().is_some_and(|work| work.work());
        if !has_worked {
            self.not_before = now + AFTER_NOTHING;
        }
        has_worked
    }

    /// It slept.
    pub(super) fn slept(&mut self, from: Time, to: Time) {
        if self.work.is_some() {
            self.awake_until(from);
            let slept_ns = to.since(from).as_nanos().min(REMEMBERED_NS as u64) as i64;
            self.awake_ns = (self.awake_ns + AWAKE_FOR_EACH_SLEPT * slept_ns).min(REMEMBERED_NS);
            self.reckoned = to;
        }
    }

    fn awake_until(&mut self, now: Time) {
        let awake_ns = now
            .since(self.reckoned)
            .as_nanos()
            .min(REMEMBERED_NS as u64) as i64;
        self.awake_ns = (self.awake_ns - awake_ns).max(-REMEMBERED_NS);
        self.reckoned = now;
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicBool, Ordering};

    use super::*;

    /// Work without an end, as long as it is there.
    struct Endless(AtomicBool);

    impl SpareTime for Endless {
        fn has_work(&self) -> bool {
            true
        }

        fn work(&self) -> bool {
            self.0.load(Ordering::Relaxed)
        }

        fn presses(&self) -> bool {
            self.work()
        }
    }

    fn at(micros: u64) -> Time {
        Time::from_nanos(micros * 1_000)
    }

    fn endless() -> Meanwhile {
        let mut meanwhile = Meanwhile::new(Some(Arc::new(Endless(AtomicBool::new(true)))));
        meanwhile.slept(at(0), at(1_000_000));
        meanwhile
    }

    #[test]
    fn nothing_begins_shortly_before_something_is_due() {
        let mut meanwhile = endless();
        let now = 1_000_000;
        assert!(meanwhile.may_begin(at(now), None));
        assert!(meanwhile.may_begin(at(now), Some(at(now + 100))));
        assert!(!meanwhile.may_begin(at(now), Some(at(now + 99))));
        assert!(!Meanwhile::new(None).may_begin(at(now), None));
    }

    #[test]
    fn who_always_has_work_sleeps_a_ninth_of_the_time() {
        let mut meanwhile = endless();
        let (mut now, mut slept) = (1_000_000, 0);
        while now < 2_000_000 {
            if meanwhile.may_begin(at(now), None) {
                assert!(meanwhile.step(at(now)));
            } else {
                meanwhile.slept(at(now), at(now + 10));
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
    fn what_has_piled_up_is_done_however_little_was_slept_but_not_before_what_is_due() {
        let mut meanwhile = endless();
        let now = at(1_000_000);
        while meanwhile.may_begin(now, None) {
            meanwhile.awake_ns -= 1_000_000;
        }
        assert!(meanwhile.must_begin(now, None));
        assert!(!meanwhile.must_begin(now, Some(at(1_000_099))));
        assert!(!Meanwhile::new(None).must_begin(now, None));
        let mut idle = Meanwhile::new(Some(Arc::new(Endless(AtomicBool::new(false)))));
        assert!(!idle.must_begin(now, None) && !idle.step(now));
    }

    #[test]
    fn nobody_asks_again_at_once_where_there_was_nothing_to_do() {
        let mut meanwhile = Meanwhile::new(Some(Arc::new(Endless(AtomicBool::new(false)))));
        assert!(meanwhile.may_begin(at(10), None));
        assert!(!meanwhile.step(at(10)));
        assert!(!meanwhile.may_begin(at(509), None));
        assert!(meanwhile.may_begin(at(510), None));
    }
}
