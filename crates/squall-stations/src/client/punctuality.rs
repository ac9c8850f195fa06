//! How punctually the machine runs a client's thread, and how much of its requests' lag that explains.
//!
//! A thread that waits asks the kernel to be woken at a time. If it resumes later, the machine is the cause: another
//! thread had the processor, the timer ran late, or the hypervisor ran something else. The rest of a request's lag is
//! the client's own work. This module only adds up times that are passed in; `turn` waits, and squall-linux reads the
//! kernel's statistics.

use squall_base::record::Phase;
use squall_base::{Duration, Time};
use squall_linux::spans::DurationHistogram;

/// A sleep this long hides the cost of reading the run-queue delay.
const LONG_SLEEP: Duration = Duration::from_micros(250);

/// A thread woken later than this reads its run-queue delay: more than wake-ups take on machines that sleep (82 us at
/// p99, `USUAL` of the binary's `spin`).
const LATE: Duration = Duration::from_micros(100);

/// How the machine delayed a client's thread.
#[derive(Clone, Debug, Default)]
pub struct Punctuality {
    /// How late the thread was woken, for sleeps that lasted until the requested time.
    pub woken_late: DurationHistogram,
    /// Total lag of all requests of the measured phase.
    pub lag: Duration,
    /// Part of `lag` that the machine caused.
    pub machine: Duration,
    /// The rest of the lag of each request that was late at all: the client's own work.
    pub own_lag: DurationHistogram,
    /// The longest lag of a request; `None` if there was no request.
    pub longest: Option<LongestLag>,
}

/// A request's lag and its causes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct LongestLag {
    /// From when it was due until it was taken up.
    pub lag: Duration,
    /// Part of it during which the thread was still waiting, after the time at which it wanted to resume.
    pub machine: Duration,
    /// Part of it during which the thread was runnable but another had the processor; `None` if the kernel was not
    /// asked.
    pub run_queue_delay: Option<Duration>,
}

impl Punctuality {
    /// Adds another thread's measurements.
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

/// Measures a client's waits, and how much of its requests' lag they explain.
#[derive(Debug, Default)]
pub(super) struct LagMeter {
    sums: Punctuality,
    /// When the thread wants to be woken; not before the wait began.
    until: Option<Time>,
    is_asleep: bool,
    /// The thread's total run-queue delay before it fell asleep.
    run_queue_delay_before: Option<Duration>,
    /// When the thread last wanted to resume, and when it did.
    wanted_at: Time,
    resumed_at: Time,
    /// The thread's run-queue delay during that wait, if it was read before and after.
    run_queue_delay: Option<Duration>,
}

impl LagMeter {
    /// Begins a wait at `now` that ends at `until`, or earlier if something is ready. `run_queue_delay` reads that delay
    /// from the kernel.
    pub(super) fn begin(
        &mut self,
        now: Time,
        until: Option<Time>,
        run_queue_delay: impl FnOnce() -> Option<Duration>,
    ) {
        self.until = until.map(|until| until.max(now));
        self.is_asleep = until.is_some_and(|until| until > now);
        let is_long = until.is_some_and(|until| until.since(now) >= LONG_SLEEP);
        self.run_queue_delay_before = if is_long { run_queue_delay() } else { None };
    }

    /// Ends a wait.
    pub(super) fn end(
        &mut self,
        resumed: Time,
        run_queue_delay: impl FnOnce() -> Option<Duration>,
    ) {
        self.resumed_at = resumed;
        // Something else may have woken the thread earlier.
        self.wanted_at = self
            .until
            .take()
            .map_or(resumed, |until| until.min(resumed));
        let late = resumed.since(self.wanted_at);
        if self.is_asleep && !late.is_zero() {
            self.sums.woken_late.add(late);
        }
        let before = self.run_queue_delay_before.take().filter(|_| late > LATE);
        self.run_queue_delay = before.and_then(|before| Some(run_queue_delay()? - before));
    }

    /// Accounts for a request that was due at `intended` and is taken up.
    pub(super) fn record_lag(&mut self, phase: Phase, intended: Time, taken_up: Time) {
        if phase != Phase::Measure {
            return;
        }
        let lag = taken_up.since(intended);
        let machine = self.resumed_at.since(intended.max(self.wanted_at)).min(lag);
        self.sums.lag = self.sums.lag + lag;
        self.sums.machine = self.sums.machine + machine;
        if !lag.is_zero() {
            self.sums.own_lag.add(lag - machine);
        }
        if self.sums.longest.is_none_or(|longest| lag > longest.lag) {
            self.sums.longest = Some(LongestLag {
                lag,
                machine,
                run_queue_delay: self
                    .run_queue_delay
                    .map(|run_queue_delay| run_queue_delay.min(machine)),
            });
        }
    }

    /// The totals.
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

    /// One wait from `now` until the thread is back, with its total run-queue delay before and after.
    fn wait(meter: &mut LagMeter, now: u64, until: Option<u64>, back: u64, line: (u64, u64)) {
        meter.begin(at(now), until.map(at), || Some(us(line.0)));
        meter.end(at(back), || Some(us(line.1)));
    }

    #[test]
    fn only_oversleeping_is_blamed_on_the_machine() {
        let mut meter = LagMeter::default();
        // The thread wanted to resume 60 us before the request was due, and resumed 1,300 us after that.
        wait(&mut meter, 0, Some(940), 2_300, (7, 1_207));
        meter.record_lag(Phase::Measure, at(1_000), at(2_310));
        // The next request had become due meanwhile: the same wait delayed it, but not as long.
        meter.record_lag(Phase::Measure, at(2_000), at(2_320));
        // The thread was busy until after this request was due, and then did not wait.
        wait(&mut meter, 3_500, Some(3_000), 3_501, (0, 0));
        meter.record_lag(Phase::Measure, at(3_000), at(3_503));
        let sums = meter.sums();
        let longest = LongestLag {
            lag: us(1_310),
            machine: us(1_300),
            run_queue_delay: Some(us(1_200)),
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
    fn thread_woken_by_something_else_is_not_late() {
        let mut meter = LagMeter::default();
        wait(&mut meter, 0, Some(1_000), 400, (0, 300));
        wait(&mut meter, 400, None, 5_000, (0, 300));
        meter.record_lag(Phase::Measure, at(1_000), at(5_000));
        let sums = meter.sums();
        assert_eq!((sums.machine, sums.woken_late.lateness().count), (us(0), 0));
        assert_eq!(sums.longest.unwrap().run_queue_delay, None);
    }

    #[test]
    fn run_queue_delay_is_read_before_long_sleeps_and_after_late_ones() {
        let asked = std::cell::Cell::new(0);
        let ask = || {
            asked.set(asked.get() + 1);
            Some(us(0))
        };
        let mut meter = LagMeter::default();
        for (until, back, before, after) in [
            (200, 900, 0, 0),
            (250, 300, 1, 0),
            (250, 900, 1, 1),
            (0, 900, 0, 0),
        ] {
            asked.set(0);
            meter.begin(at(0), Some(at(until)), ask);
            assert_eq!(asked.replace(0), before);
            meter.end(at(back), ask);
            assert_eq!(asked.get(), after);
        }
    }

    #[test]
    fn warmup_is_excluded_and_threads_are_summed() {
        let mut meter = LagMeter::default();
        meter.record_lag(Phase::Warmup, at(0), at(9_000));
        meter.record_lag(Phase::Measure, at(7), at(7));
        let mut sums = meter.sums();
        assert_eq!((sums.lag, sums.own_lag.lateness().count), (us(0), 0));
        assert_eq!(sums.longest, Some(LongestLag::default()));
        for (intended, taken_up) in [(0, 30), (0, 50), (0, 40)] {
            let mut meter = LagMeter::default();
            meter.record_lag(Phase::Measure, at(intended), at(taken_up));
            sums.merge(&meter.sums());
        }
        assert_eq!((sums.lag, sums.longest.unwrap().lag), (us(120), us(50)));
    }
}
