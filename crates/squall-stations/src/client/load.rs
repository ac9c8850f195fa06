//! The load that a client runs: open, with requests at their times, or closed, with users who wait for answers.

use squall_base::Time;
use squall_base::plan::Load;
use squall_load::{Arrival, ClosedLoop, ClosedSettings, Schedule};

/// What a client shall ask for.
#[derive(Clone, Copy, Debug)]
pub enum Workload {
    /// Requests at their times, whatever becomes of earlier ones.
    Open(Load),
    /// So many requests at once.
    Closed(ClosedSettings),
}

/// A load under way.
pub(super) enum Arrivals {
    Open(Schedule),
    Closed(ClosedLoop),
}

impl Arrivals {
    pub(super) fn new(workload: Workload, start: Time) -> Arrivals {
        match workload {
            Workload::Open(load) => Arrivals::Open(Schedule::new(load, start)),
            Workload::Closed(settings) => Arrivals::Closed(ClosedLoop::new(settings, start)),
        }
    }

    /// The next request, if it is due while so many are unfinished.
    pub(super) fn take_due(&mut self, now: Time, unfinished: u64) -> Option<Arrival> {
        match self {
            Arrivals::Open(schedule) => schedule.take_due(now),
            Arrivals::Closed(closed) => closed.take_due(now, unfinished),
        }
    }

    /// Whether [`Arrivals::take_due`] would give one.
    pub(super) fn has_due(&self, now: Time, unfinished: u64) -> bool {
        match self {
            Arrivals::Open(schedule) => schedule.next_due().is_some_and(|due| due <= now),
            Arrivals::Closed(closed) => closed.has_due(now, unfinished),
        }
    }

    /// Whether the load has ended with so many requests unfinished: all are done, or nobody waits for them any more.
    pub(super) fn is_over(&self, now: Time, unfinished: u64) -> bool {
        match self {
            Arrivals::Open(schedule) => {
                (schedule.next_due().is_none() && unfinished == 0) || now >= schedule.deadline()
            }
            Arrivals::Closed(closed) => {
                (closed.is_over(now) && unfinished == 0)
                    || closed.deadline().is_some_and(|deadline| now >= deadline)
            }
        }
    }

    /// Until when nothing changes by itself.
    pub(super) fn next_change(&self, now: Time) -> Option<Time> {
        match self {
            Arrivals::Open(schedule) => Some(schedule.next_due().unwrap_or(schedule.deadline())),
            Arrivals::Closed(closed) => closed.next_change(now),
        }
    }

    /// Requests in all: of the schedule, or so far.
    pub(super) fn total(&self) -> u64 {
        match self {
            Arrivals::Open(schedule) => schedule.total(),
            Arrivals::Closed(closed) => closed.begun(),
        }
    }
}
