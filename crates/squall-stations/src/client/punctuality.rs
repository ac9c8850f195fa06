//! How punctually the machine lets a client's thread run, and how much of its requests' lag that explains.
//!
//! A thread that waits tells the kernel until when. What it comes back later than that is the machine's: another thread
//! had the processor, the timer ran late, or the hypervisor ran something else. What is left of a request's lag is the
//! client's own work. Only sums, of times that are given; `turn` waits, squall-linux knows the kernel's account.

use squall_base::record::Phase;
use squall_base::{Duration, Time};
use squall_linux::spans::Spans;

/// Before sleeps so long nobody waits for the system call that asks what the thread has waited in line.
const LONG_SLEEP: Duration = Duration::from_micros(250);

/// Who is woken later than this asks what of it was waiting in line: more than wake-ups take on machines that sleep (82 us
/// at p99, `USUAL` of the binary's `spin`).
const LATE: Duration = Duration::from_micros(100);

/// What the machine did to a client's thread.
#[derive(Clone, Debug, Default)]
pub struct Punctuality {
    /// How late it was woken, of sleeps that lasted until the time for which it had asked.
    pub woken_late: Spans,
    /// What all requests of the measured phase were late together.
    pub lag: Duration,
    /// What of that the machine took.
    pub machine: Duration,
    /// What each that was late at all was late without that: the client's own work.
    pub own_lag: Spans,
    /// The longest lag of one of them; `None`: there was no request.
    pub longest: Option<LongestLag>,
}

/// A request's lag, and whose fault it was.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct LongestLag {
    /// From when it was due until it was taken up.
    pub lag: Duration,
    /// Of that, while the thread waited though it had asked to be back.
    pub machine: Duration,
    /// Of that, while it was ready to run and another thread had the processor; `None`: the kernel was not asked.
    pub in_line: Option<Duration>,
}

impl Punctuality {
    /// Adds another thread's.
    pub fn merge(&mut self, other: &Punctuality) {
        self.woken_late.merge(&other.woken_late);
        self.lag = self.lag + other.lag;
        self.machine = self.machine + other.machine;
        self.own_lag.merge(&other.own_lag);
        let later = |a: LongestLag, b: LongestLag| if b.lag > a.lag { b } else { a };
        self.longest = match (self.longest, other.longest) {
            (Some(own), Some(theirs)) => Some(later(own, theirs)),
            (own, theirs) => own.or(theirs),
        };
    }
}

/// A client's waits.
#[derive(Debug, Default)]
pub(super) struct Waits {
    sums: Punctuality,
    /// Until when it wants to wait, at least until it begins to.
    until: Option<Time>,
    is_asleep: bool,
    /// What it had waited in line before it fell asleep.
    in_line_before: Option<Duration>,
    /// When it last wanted to be back, and was.
    wanted: Time,
    back: Time,
    /// How much of the time between it waited in line.
    in_line: Option<Duration>,
}

impl Waits {
    /// It waits from `now` on, `until` then or for something that is ready. `in_line` asks the kernel.
    pub(super) fn begin(
        &mut self,
        now: Time,
        until: Option<Time>,
        in_line: impl FnOnce() -> Option<Duration>,
    ) {
        self.until = until.map(|until| until.max(now));
        self.is_asleep = until.is_some_and(|until| until > now);
        let is_long = until.is_some_and(|until| until.since(now) >= LONG_SLEEP);
        self.in_line_before = if is_long { in_line() } else { None };
    }

    /// It is back.
    pub(super) fn end(&mut self, back: Time, in_line: impl FnOnce() -> Option<Duration>) {
        self.back = back;
        // Something else has woken it before.
        self.wanted = self.until.take().map_or(back, |until| until.min(back));
        let late = back.since(self.wanted);
        if self.is_asleep && !late.is_zero() {
            self.sums.woken_late.add(late);
        }
        let before = self.in_line_before.take().filter(|_| late > LATE);
        self.in_line = before.and_then(|before| Some(in_line()? - before));
    }

    /// A request that was due at `intended` is taken up.
    pub(super) fn taken_up(&mut self, phase: Phase, intended: Time, taken_up: Time) {
        if phase != Phase::Measure {
            return;
        }
        let lag = taken_up.since(intended);
        let machine = self.back.since(intended.max(self.wanted)).min(lag);
        self.sums.lag = self.sums.lag + lag;
        self.sums.machine = self.sums.machine + machine;
        if !lag.is_zero() {
            self.sums.own_lag.add(lag - machine);
        }
        if self.sums.longest.is_none_or(|longest| lag > longest.lag) {
            self.sums.longest = Some(LongestLag {
                lag,
                machine,
                in_line: self.in_line.map(|in_line| in_line.min(machine)),
            });
        }
    }

    /// What it has come to.
    pub(super) fn sums(self) -> Punctuality {
        self.sums
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(micros: u64) -> Time {
        Time::from_nanos(micros * 1_000)
    }

    fn us(micros: u64) -> Duration {
        Duration::from_micros(micros)
    }

    /// One wait from `now` until the thread is back, with what it had waited in line before and after.
    fn wait(waits: &mut Waits, now: u64, until: Option<u64>, back: u64, line: (u64, u64)) {
        waits.begin(at(now), until.map(at), || Some(us(line.0)));
        waits.end(at(back), || Some(us(line.1)));
    }

    #[test]
    fn only_what_a_thread_waits_longer_than_it_wanted_is_the_machines() {
        let mut waits = Waits::default();
        // It wanted to be back 60 us before the request is due, and came 1,300 us after that.
        wait(&mut waits, 0, Some(940), 2_300, (7, 1_207));
        waits.taken_up(Phase::Measure, at(1_000), at(2_310));
        // The next one had become due meanwhile: the same wait held it up, but not as long.
        waits.taken_up(Phase::Measure, at(2_000), at(2_320));
        // It had work to do until after this one was due, and then did not wait.
        wait(&mut waits, 3_500, Some(3_000), 3_501, (0, 0));
        waits.taken_up(Phase::Measure, at(3_000), at(3_503));
        let sums = waits.sums();
        let longest = LongestLag {
            lag: us(1_310),
            machine: us(1_300),
            in_line: Some(us(1_200)),
        };
        assert_eq!(sums.longest, Some(longest));
        assert_eq!(sums.lag, us(1_310 + 320 + 503));
        assert_eq!(sums.machine, us(1_300 + 300 + 1));
        let own_lag = sums.own_lag.lateness();
        // At a resolution of 0.1 %.
        let is_about = |span: Duration, of: u64| span >= us(of) && span < us(of + 1);
        let is_known = is_about(own_lag.p50, 20) && is_about(own_lag.max, 502);
        assert!(own_lag.count == 3 && is_known, "{own_lag:?}");
        assert_eq!(sums.woken_late.lateness().count, 1);
    }

    #[test]
    fn who_is_woken_by_something_else_is_not_late() {
        let mut waits = Waits::default();
        wait(&mut waits, 0, Some(1_000), 400, (0, 300));
        wait(&mut waits, 400, None, 5_000, (0, 300));
        waits.taken_up(Phase::Measure, at(1_000), at(5_000));
        let sums = waits.sums();
        assert_eq!((sums.machine, sums.woken_late.lateness().count), (us(0), 0));
        assert_eq!(sums.longest.unwrap().in_line, None);
    }

    #[test]
    fn the_kernel_is_asked_around_long_sleeps_that_end_late_only() {
        let asked = std::cell::Cell::new(0);
        let ask = || {
            asked.set(asked.get() + 1);
            Some(us(0))
        };
        let mut waits = Waits::default();
        for (until, back, before, after) in [
            (200, 900, 0, 0),
            (250, 300, 1, 0),
            (250, 900, 1, 1),
            (0, 900, 0, 0),
        ] {
            asked.set(0);
            waits.begin(at(0), Some(at(until)), ask);
            assert_eq!(asked.replace(0), before);
            waits.end(at(back), ask);
            assert_eq!(asked.get(), after);
        }
    }

    #[test]
    fn the_warm_up_is_in_no_sum_and_threads_are_added() {
        let mut waits = Waits::default();
        waits.taken_up(Phase::Warmup, at(0), at(9_000));
        waits.taken_up(Phase::Measure, at(7), at(7));
        let mut sums = waits.sums();
        assert_eq!((sums.lag, sums.own_lag.lateness().count), (us(0), 0));
        assert_eq!(sums.longest, Some(LongestLag::default()));
        for (intended, taken_up) in [(0, 30), (0, 50), (0, 40)] {
            let mut waits = Waits::default();
            waits.taken_up(Phase::Measure, at(intended), at(taken_up));
            sums.merge(&waits.sums());
        }
        assert_eq!((sums.lag, sums.longest.unwrap().lag), (us(120), us(50)));
    }
}
