//! The one clock of all measurements, CLOCK_MONOTONIC, and the wall clock for labels.

use nix::time::{ClockId, clock_gettime};
use squall_base::Time;

/// Now, on CLOCK_MONOTONIC. One vDSO call, some 30 ns.
pub fn now() -> Time {
    read(ClockId::CLOCK_MONOTONIC)
}

/// Nanoseconds since 1970-01-01 UTC, by the wall clock: for labels, never for a difference.
pub fn unix_nanos() -> u64 {
    read(ClockId::CLOCK_REALTIME).as_nanos()
}

fn read(clock: ClockId) -> Time {
    let spec = clock_gettime(clock).expect("Linux always has these two clocks");
    Time::from_nanos(spec.tv_sec() as u64 * 1_000_000_000 + spec.tv_nsec() as u64)
}
