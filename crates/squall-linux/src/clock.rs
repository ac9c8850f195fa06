//! The one clock of all measurements, CLOCK_MONOTONIC, and the wall clock for labels.
//!
//! Also what the kernel tells of time besides: how much of it a thread had, and how fine its timers are.

use nix::errno::Errno;
use nix::sys::time::TimeSpec;
use nix::time::{ClockId, ClockNanosleepFlags, clock_getres, clock_gettime, clock_nanosleep};
use squall_base::{Duration, Time};

use crate::error::SetupError;

/// Now, on CLOCK_MONOTONIC. One vDSO call, some 30 ns.
pub fn now() -> Time {
    read(ClockId::CLOCK_MONOTONIC)
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
