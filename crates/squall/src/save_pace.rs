//! When a load or a link saves what it writes.
//!
//! It only counts time: `load::shared_writer` and `link::outputs` ask it, and save.

use squall_base::{Duration, Time};

/// The least time between two saves.
const PAUSE_AT_LEAST: Duration = Duration::from_secs(1);

/// The most time between two saves, even if saving takes long: what a killed process loses.
const PAUSE_AT_MOST: Duration = Duration::from_secs(5);

/// A pause is this many times as long as the save before it, so that saving takes 0.2 % of the time.
const PAUSE_FACTOR: u64 = 500;

/// When to save what is being written, so that a process that is killed loses only its last seconds.
pub(crate) struct SavePace {
    next: Time,
}

impl SavePace {
    /// The pace for writing that begins at `now`.
    pub(crate) fn new(now: Time) -> SavePace {
        SavePace {
            next: now + PAUSE_AT_LEAST,
        }
    }

    /// How long until the next save; zero if it is due.
    pub(crate) fn wait(&self, now: Time) -> Duration {
        self.next.since(now)
    }

    /// Records a save.
    pub(crate) fn saved(&mut self, from: Time, to: Time) {
        let took_ns = to.since(from).as_nanos();
        let pause = Duration::from_nanos(took_ns.saturating_mul(PAUSE_FACTOR));
        self.next = to + pause.clamp(PAUSE_AT_LEAST, PAUSE_AT_MOST);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pauses_grow_with_the_time_of_a_save_up_to_a_limit() {
        let at = |ms: u64| Time::from_nanos(ms * 1_000_000);
        let mut pace = SavePace::new(at(0));
        assert_eq!(pace.wait(at(400)), Duration::from_millis(600));
        assert!(pace.wait(at(1_000)).is_zero() && pace.wait(at(9_000)).is_zero());
        for (took_ms, pause_ms) in [
            (0, 1_000),
            (1, 1_000),
            (4, 2_000),
            (10, 5_000),
            (900, 5_000),
        ] {
            pace.saved(at(1_000), at(1_000 + took_ms));
            let wait = pace.wait(at(1_000 + took_ms));
            assert_eq!(wait, Duration::from_millis(pause_ms), "{took_ms} ms");
        }
    }
}
