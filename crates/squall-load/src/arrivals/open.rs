//! The open load: each request is due at its own time, whether or not earlier requests have ended.
//!
//! Request n is due where the integrated rate reaches n or, with random spacing, where it reaches the sum of n + 1
//! exponential gaps with mean 1. The latter makes a Poisson process even when the rate changes (Cinlar, "Introduction to
//! Stochastic Processes", 1975, section 4.7). Both are sums of whole ticks (`profile`), so rounding errors do not add up. A
//! share walks all gaps and takes its own requests, so that the load does not depend on the number of threads.

use squall_base::Time;
use squall_base::plan::{OpenLoad, Spacing, Urgency};

use super::mix::Draw;
use super::profile::Profile;
use super::{Arrival, Purpose, Share, later, phase, seed_of, unit};

/// An open load in progress.
#[derive(Clone, Debug)]
pub(super) struct Open {
    start: Time,
    measured_from: Time,
    deadline: Time,
    profile: Profile,
    walk: Walk,
    draw: Draw,
    share: Share,
    /// The next request and when it is due.
    next: Option<(u64, Time)>,
}

/// How to get from one request's ticks to the next one's.
#[derive(Clone, Copy, Debug)]
enum Walk {
    Constant,
    Poisson { seed: u64, at: u128 },
}

impl Open {
    pub(super) fn new(load: &OpenLoad, start: Time, share: Share) -> Open {
        let walk = match load.spacing {
            Spacing::Constant => Walk::Constant,
            Spacing::Poisson => Walk::Poisson {
                seed: seed_of(Purpose::Gaps, load.seed),
                at: 0,
            },
        };
        let mut open = Open {
            start,
            measured_from: later(start, load.warmup),
            deadline: later(later(start, load.stages.duration()), load.drain),
            profile: Profile::new(&load.stages),
            walk,
            draw: Draw::new(&load.mix, seed_of(Purpose::Choice, load.seed)),
            share,
            next: None,
        };
        open.next = open.walk_to(0, u64::from(share.index));
        open
    }

    pub(super) fn take_due(&mut self, now: Time) -> Option<Arrival> {
        let (request, intended) = self.next.filter(|(_, due)| *due <= now)?;
        self.next = request
            .checked_add(u64::from(self.share.of))
            .and_then(|next| self.walk_to(request + 1, next));
        Some(Arrival {
            request,
            intended,
            phase: phase(intended < self.measured_from),
            user: 0,
            what: self.draw.choice(request),
            urgency: Urgency::default(),
        })
    }

    pub(super) fn next_due(&self) -> Option<Time> {
        self.next.map(|(_, due)| due)
    }

    pub(super) fn total(&self) -> Option<u64> {
        match self.walk {
            Walk::Constant => {
                let behind = self
                    .profile
                    .requests()
                    .checked_sub(u64::from(self.share.index));
                Some(behind.unwrap_or(0).div_ceil(u64::from(self.share.of)))
            }
            Walk::Poisson { .. } => None,
        }
    }

    pub(super) fn deadline(&self) -> Time {
        self.deadline
    }

    /// Request `n` and when it is due, if that is before the end; `from` is the first one not walked over yet.
    fn walk_to(&mut self, from: u64, n: u64) -> Option<(u64, Time)> {
        let request = self.profile.ticks_per_request();
        let ticks = match &mut self.walk {
            Walk::Constant => u128::from(n) * request,
            Walk::Poisson { seed, at } => {
                for passed in from..=n {
                    *at += (-unit(*seed, passed).ln() * request as f64) as u128;
                }
                *at
            }
        };
        let due = later(self.start, self.profile.time_at(ticks)?);
        Some((n, due))
    }
}
