//! The one clock for all measurements, CLOCK_MONOTONIC, and the wall clock for labels.
//!
//! It also reads a thread's processor time and the resolution of the kernel's timers.

use std::sync::OnceLock;
use std::time::Instant;

use nix::errno::Errno;
use nix::sys::time::TimeSpec;
use nix::time::{ClockId, ClockNanosleepFlags, clock_getres, clock_gettime, clock_nanosleep};
use squall_base::{Duration, Time};

use crate::error::SetupError;

/// The current CLOCK_MONOTONIC time: one vDSO call, some 30 ns.
pub fn now() -> Time {
    read(ClockId::CLOCK_MONOTONIC)
}

/// Converts an `Instant` to a `Time`. On Linux both use the same clock, but an `Instant` does not reveal its value.
///
/// The result is late by the time of one clock reading, some 30 ns, and never early, so that a wait until then is never too
/// short. The offset is constant within a process: differences are exact, and `instant_of` undoes it.
pub fn time_of(instant: Instant) -> Time {
    let anchor = anchor();
    let nanos = |span: std::time::Duration| u64::try_from(span.as_nanos()).unwrap_or(u64::MAX);
    let anchored = anchor.time.as_nanos();
    Time::from_nanos(match instant.checked_duration_since(anchor.instant) {
        Some(after) => anchored.saturating_add(nanos(after)),
        None => anchored.saturating_sub(nanos(anchor.instant - instant)),
    })
}

/// Converts a `Time` to an `Instant`: the inverse of `time_of`.
pub fn instant_of(time: Time) -> Instant {
    let anchor = anchor();
    if time >= anchor.time {
        return anchor.instant + time.since(anchor.time).into();
    }
    let before: std::time::Duration = anchor.time.since(time).into();
    anchor
        .instant
        .checked_sub(before)
        .expect("an Instant of Linux counts its seconds in an i64, so there is one before any that was read")
}

/// The same moment on both clocks.
struct Anchor {
    instant: Instant,
    time: Time,
}

/// Determined once, so that all conversions agree.
fn anchor() -> &'static Anchor {
    /// Enough tries that at least one is not interrupted.
    const TRIES: usize = 100;
    static ANCHOR: OnceLock<Anchor> = OnceLock::new();
    ANCHOR.get_or_init(|| {
        let attempt = || {
            let before = now();
            let instant = Instant::now();
            let time = now();
            (time.since(before), Anchor { instant, time })
        };
        let first = attempt();
        let (_, best) =
            (1..TRIES).map(|_| attempt()).fold(
                first,
                |best, next| if next.0 < best.0 { next } else { best },
            );
        best
    })
}

/// Nanoseconds since 1970-01-01 UTC by the wall clock: for labels, never for differences.
pub fn unix_nanos() -> u64 {
    read(ClockId::CLOCK_REALTIME).as_nanos()
}

/// Sleeps until `deadline`; returns at once if it is past.
pub fn sleep_until(deadline: Time) -> Result<(), SetupError> {
    let deadline = time_spec(deadline);
    let absolute = ClockNanosleepFlags::TIMER_ABSTIME;
    loop {
        match clock_nanosleep(ClockId::CLOCK_MONOTONIC, absolute, &deadline) {
            Err(Errno::EINTR) => {}
            slept => return slept.map(drop).map_err(SetupError::system("sleep")),
        }
    }
}

/// The processor time that the calling thread has used.
pub fn processor_time_of_thread() -> Duration {
    Duration::from_nanos(read(ClockId::CLOCK_THREAD_CPUTIME_ID).as_nanos())
}

/// The kernel's tick, 1/HZ: the resolution of its coarse clocks, and the step of TCP's timers.
pub fn tick() -> Result<Duration, SetupError> {
    let tick = clock_getres(ClockId::CLOCK_MONOTONIC_COARSE)
        .map_err(SetupError::system("ask for the kernel's tick"))?;
    Ok(Duration::from_nanos(nanos_of(tick)))
}

fn read(clock: ClockId) -> Time {
    let spec = clock_gettime(clock).expect("Linux always has these clocks");
    Time::from_nanos(nanos_of(spec))
}

/// A time span in nanoseconds.
#[inline]
pub(crate) fn nanos_of(spec: TimeSpec) -> u64 {
    spec.tv_sec() as u64 * 1_000_000_000 + spec.tv_nsec() as u64
}

/// A time as the kernel's calls take it.
#[inline]
pub(crate) fn time_spec(time: Time) -> TimeSpec {
    let nanos = time.as_nanos();
    TimeSpec::new(
        (nanos / 1_000_000_000) as i64,
        (nanos % 1_000_000_000) as i64,
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A clock reading takes this long in a virtual machine without a vDSO.
    const READING: Duration = Duration::from_micros(5);

    #[test]
    fn instants_and_times_are_the_same_clock() {
        // Taken before the first conversion, to test both sides of the anchor.
        let early = Instant::now();
        for _ in 0..1_000 {
            let before = now();
            let time = time_of(Instant::now());
            assert!(time >= before, "never early");
            assert!(time.since(now()) < READING);
        }
        let span = std::time::Duration::from_millis(250);
        assert_eq!(
            time_of(early + span).since(time_of(early)),
            Duration::from_millis(250)
        );
    }

    #[test]
    fn converting_to_an_instant_and_back_is_exact() {
        let day = Duration::from_secs(86_400);
        for time in [now(), now() + day, Time::ZERO, Time::from_nanos(u64::MAX)] {
            assert_eq!(time_of(instant_of(time)), time);
        }
        let instant = Instant::now();
        assert_eq!(instant_of(time_of(instant)), instant);
    }
}
