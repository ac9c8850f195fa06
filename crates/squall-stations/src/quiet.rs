//! When a station returns freed memory to the kernel: while it has little to do, so that no client waits for it.
//!
//! It decides only when; `squall_linux::allocator` returns the memory.

use squall_base::{Duration, Time};

/// The length of a period.
const PERIOD: Duration = Duration::from_secs(1);

/// A station that woke up less often than this in a period has little to do.
const QUIET_TURNS: u32 = 100;

/// Counts a station's turns.
#[derive(Debug, Default)]
pub(crate) struct QuietPeriods {
    turns: u32,
    /// When the period ends; `None` before the first turn.
    end: Option<Time>,
}

impl QuietPeriods {
    /// Counts a turn; true if it is the first one after a quiet period.
    pub(crate) fn turn(&mut self, now: Time) -> bool {
        self.turns = self.turns.saturating_add(1);
        if self.end.is_some_and(|end| now < end) {
            return false;
        }
        let is_quiet = self.end.is_some() && self.turns < QUIET_TURNS;
        self.turns = 0;
        self.end = Some(now + PERIOD);
        is_quiet
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// How many of these turns, at equal intervals, follow a quiet period.
    fn quiet_periods(turns: u64, interval_us: u64) -> usize {
        let mut periods = QuietPeriods::default();
        let times = (0..turns).map(|n| Time::ZERO + Duration::from_micros(n * interval_us));
        times.filter(|time| periods.turn(*time)).count()
    }

    #[test]
    fn only_a_second_with_few_turns_is_quiet() {
        assert_eq!(quiet_periods(31, 100_000), 3);
        assert_eq!(quiet_periods(3_001, 1_000), 0);
        assert_eq!(quiet_periods(1, 0), 0);
    }
}
