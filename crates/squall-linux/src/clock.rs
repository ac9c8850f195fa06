//! The one clock of all measurements, CLOCK_MONOTONIC, and the wall clock for labels.
//!
//! Also what the kernel tells of time besides: how much of it a thread had, and how fine its timers are.

use std::sync::OnceLock;
use std::time::Instant;

use nix::errno::Errno;
use nix::sys::time::TimeSpec;
use nix::time::{ClockId, ClockNanosleepFlags, clock_getres, clock_gettime, clock_nanosleep};
use squall_base::{Duration, Time};

use crate::error::SetupError;

/// Now, on CLOCK_MONOTONIC. One vDSO call, some 30 ns.
pub fn now() -> Time {
    read(ClockId::CLOCK_MONOTONIC)
}

/// The processor time that the calling thread has had so far.
pub fn spent_by_thread() -> Duration {
    read(ClockId::CLOCK_THREAD_CPUTIME_ID).since(Time::ZERO)
}

/// An `Instant` as a `Time`: of the same clock on Linux, but one that does not tell its number.
///
/// It is late by what one reading of the clock took, some 30 ns, and never early: what waits for it has not to wait
/// twice. It is late by the same all through a process, so differences are exact and `instant_of` undoes it.
pub fn time_of(instant: Instant) -> Time {
    let anchor = anchor();
    let nanos = |span: std::time::Duration| u64::try_from(span.as_nanos()).unwrap_or(u64::MAX);
    let anchored = anchor.time.as_nanos();
    Time::from_nanos(match instant.checked_duration_since(anchor.instant) {
        Some(after) => anchored.saturating_add(nanos(after)),
        None => anchored.saturating_sub(nanos(anchor.instant - instant)),
    })
}

/// A `Time` as an `Instant`: what `time_of` makes this time of.
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

/// Found once, so that all translations agree.
fn anchor() -> &'static Anchor {
    /// Enough that one of them is not interrupted.
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

/// Nanoseconds since 1970-01-01 UTC, by the wall clock: for labels, never for a difference.
pub fn unix_nanos() -> u64 {
    read(ClockId::CLOCK_REALTIME).as_nanos()
}

/// Sleeps until `deadline`; returns at once if it is past.
pub fn sleep_until(deadline: Time) -> Result<(), SetupError> {
    let nanos = deadline.as_nanos();
    let deadline = TimeSpec::new(
        (nanos / 1_000_000_000) as i64,
        (nanos % 1_000_000_000) as i64,
    );
    let absolute = ClockNanosleepFlags::TIMER_ABSTIME;
    loop {
        match clock_nanosleep(ClockId::CLOCK_MONOTONIC, absolute, &deadline) {
            Err(Errno::EINTR) => {}
            slept => return slept.map(drop).map_err(SetupError::system("sleep")),
        }
    }
}

/// Processor time that the calling thread has had.
pub fn processor_time_of_thread() -> Duration {
    Duration::from_nanos(read(ClockId::CLOCK_THREAD_CPUTIME_ID).as_nanos())
}

/// The kernel's tick, 1/HZ: the resolution of its coarse clocks, and the step of TCP's timers.
pub fn tick() -> Result<Duration, SetupError> {
    let tick = clock_getres(ClockId::CLOCK_MONOTONIC_COARSE)
        .map_err(SetupError::system("ask for the kernel's tick"))?;
    Ok(Duration::from_nanos(
        tick.tv_sec() as u64 * 1_000_000_000 + tick.tv_nsec() as u64,
    ))
}

fn read(clock: ClockId) -> Time {
    let spec = clock_gettime(clock).expect("Linux always has these clocks");
    Time::from_nanos(spec.tv_sec() as u64 * 1_000_000_000 + spec.tv_nsec() as u64)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Readings of the clock in a virtual machine that has no vDSO take this long.
    const READING: Duration = Duration::from_micros(5);

    #[test]
    fn instants_and_times_are_the_same_clock() {
        // Before the first translation as well as after it: both sides of the anchor.
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
    fn there_and_back_is_exact() {
        let day = Duration::from_secs(86_400);
        for time in [now(), now() + day, Time::ZERO, Time::from_nanos(u64::MAX)] {
            assert_eq!(time_of(instant_of(time)), time);
        }
        let instant = Instant::now();
        assert_eq!(instant_of(time_of(instant)), instant);
    }
}
