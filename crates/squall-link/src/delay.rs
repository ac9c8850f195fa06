//! Constant delay: what comes in leaves one delay later, in order.
//!
//! The planned time is the arrival plus the delay, never "now" plus something: lateness of one packet
//! does not move the next.

use std::collections::VecDeque;

use squall_base::{Duration, Time};

/// Packets on their way, with what belongs to them.
#[derive(Clone, Debug)]
pub(crate) struct DelayLine<T> {
    delay: Duration,
    waiting: VecDeque<(Time, T)>,
}

impl<T> DelayLine<T> {
    pub(crate) fn new(delay: Duration) -> DelayLine<T> {
        DelayLine {
            delay,
            waiting: VecDeque::new(),
        }
    }

    /// When something that comes at `arrival` is due.
    pub(crate) fn due(&self, arrival: Time) -> Time {
        arrival + self.delay
    }

    /// Takes `item`, which came at `arrival`. Arrivals must not go backwards.
    pub(crate) fn push(&mut self, arrival: Time, item: T) {
        debug_assert!(
            self.waiting
                .back()
                .is_none_or(|(due, _)| *due <= self.due(arrival))
        );
        self.waiting.push_back((self.due(arrival), item));
    }

    /// When the next one is due.
    pub(crate) fn next_due(&self) -> Option<Time> {
        self.waiting.front().map(|(due, _)| *due)
    }

    /// The next one, if it is due at `now`.
    pub(crate) fn pop(&mut self, now: Time) -> Option<T> {
        if self.next_due()? > now {
            return None;
        }
        self.waiting.pop_front().map(|(_, item)| item)
    }

    /// Everything that is still waiting, due or not.
    pub(crate) fn drain(&mut self) -> impl Iterator<Item = T> + '_ {
        self.waiting.drain(..).map(|(_, item)| item)
    }
}
