//! How fast the body of one request arrives, over one period after another.
//!
//! It only measures: `pace` decides what follows from it.

use squall_base::Time;

use super::settings::MinUploadRate;

/// How fast the body of one request arrives.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct UploadPace {
    /// When the current period began, and how much of the body had arrived by then.
    began: Time,
    arrived_before: u64,
    /// What arrived in the last whole period, if it was too little.
    pub(super) too_little: Option<u64>,
}

impl UploadPace {
    pub(super) fn new(now: Time) -> UploadPace {
        UploadPace {
            began: now,
            arrived_before: 0,
            too_little: None,
        }
    }

    /// Judges the current period if it is over. `arrived`: bytes of the body so far.
    pub(super) fn judge(&mut self, now: Time, arrived: u64, least: MinUploadRate) {
        let took = now.since(self.began);
        if took < least.period {
            return;
        }
        let bytes = arrived.saturating_sub(self.arrived_before);
        // In bytes times nanoseconds per second.
        let is_slow = u128::from(bytes) * 1_000_000_000
            < u128::from(least.bytes_per_s) * u128::from(took.as_nanos());
        *self = UploadPace {
            began: now,
            arrived_before: arrived,
            too_little: is_slow.then_some(bytes),
        };
    }

    /// Begins a period, because the client could not send.
    pub(super) fn restart(&mut self, now: Time, arrived: u64) {
        *self = UploadPace {
            arrived_before: arrived,
            ..UploadPace::new(now)
        };
    }
}
