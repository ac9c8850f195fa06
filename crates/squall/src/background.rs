//! Threads for work that can wait, such as writing records. They yield to all others, so they disturb no measurement.
//!
//! What a thread does, and what becomes of its errors, is up to the caller. [`SavePace`] says when a thread that writes
//! records saves them.

use std::thread::{self, JoinHandle};

use anyhow::{Context, Result};
use squall_base::{Duration, Time};
use squall_linux::scheduling;

/// The least time between two saves.
const PAUSE_AT_LEAST: Duration = Duration::from_secs(1);

/// The most time between two saves, even if saving takes long: what a killed process loses.
const PAUSE_AT_MOST: Duration = Duration::from_secs(5);

/// A pause is this many times as long as the save before it, so that saving takes 0.2 % of the time.
const PAUSE_FACTOR: u64 = 500;

/// Starts a thread of this name at background priority.
pub(crate) fn start<T: Send + 'static>(
    name: &str,
    work: impl FnOnce() -> T + Send + 'static,
) -> Result<JoinHandle<T>> {
    thread::Builder::new()
        .name(name.to_owned())
        .spawn(move || {
            scheduling::make_background();
            work()
        })
        .context("cannot start a thread that writes records")
}

/// When to save what is being written, so that a process that is killed loses only its last seconds.
pub(crate) struct SavePace {
    next: Time,
}

impl SavePace {
    /// For something that begins to be written at `now`.
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
    fn saves_are_rarer_the_longer_they_take_but_never_rare() {
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
