//! When requests are due, and for whom: every kind of load behind one contract.
//!
//! The caller asks with [`Arrivals::take_due`] what is due and says with [`Arrivals::ended`] what has ended; between
//! two such calls the load changes only when [`Arrivals::next_change`] says so. Three laws hold for every kind: a
//! request comes once, times never decrease, and however late the caller asks, no request is skipped or moved by that.
//! Time must not run backwards from call to call. Nothing is sent here and no connection chosen (`pool` does that).
//!
//! `open` is the load with a rate, over `profile`, the integral of it; `closed` the one of users who wait; `script` a
//! replay; `pages` requests that wait for each other; `users` what closed loads and pages share; `mix` what is asked
//! for.

mod closed;
mod mix;
mod open;
mod pages;
mod profile;
mod script;
mod users;

use squall_base::plan::{Urgency, Workload};
use squall_base::record::Phase;
use squall_base::splitmix::splitmix64;
use squall_base::{Duration, Time};

use closed::Closed;
use open::Open;
pub use pages::PageEnd;
use pages::Pages;
use script::Replay;

/// One request of a load.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Arrival {
    /// Its number, from 0; no other request of the load has it, whichever share it is in.
    pub request: u64,
    /// When it shall be sent.
    pub intended: Time,
    /// The part of the load.
    pub phase: Phase,
    /// The virtual client whose request it is; 0 in an open load, which has none.
    pub user: u32,
    /// Which of the caller's requests it is.
    pub what: u32,
    /// How urgent its response is.
    pub urgency: Urgency,
}

/// A request that was taken, at its end.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Ended {
    /// Its [`Arrival::request`].
    pub request: u64,
    /// Its [`Arrival::user`].
    pub user: u32,
    /// Whether it got what it asked for: what waits for it on its page is asked for only then.
    pub succeeded: bool,
}

/// A thread's part of a load: of so many parts, this one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Share {
    index: u32,
    of: u32,
}

impl Share {
    /// All of it.
    pub const WHOLE: Share = Share { index: 0, of: 1 };

    /// Part `index`, from 0, `of` so many; `None` if there is no such part.
    pub const fn new(index: u32, of: u32) -> Option<Share> {
        if index < of {
            Some(Share { index, of })
        } else {
            None
        }
    }

    /// The number among all parts of what is `n`th in this one.
    pub const fn number(self, n: u64) -> u64 {
        n * self.of as u64 + self.index as u64
    }

    /// How many of `count` things, dealt out one by one, this part gets.
    pub fn count(self, count: u32) -> u32 {
        count.saturating_sub(self.index).div_ceil(self.of)
    }

    /// The things that this part gets, of so many that are numbered from 0.
    pub fn members(self, count: u32) -> impl Iterator<Item = u32> {
        (self.index..count).step_by(self.of as usize)
    }

    /// The place of a `member` among this part's.
    fn place(self, member: u32) -> usize {
        (member / self.of) as usize
    }
}

/// A load under way, or a share of it.
#[derive(Clone, Debug)]
pub struct Arrivals {
    kind: Kind,
    begun: u64,
    unfinished: u64,
}

#[derive(Clone, Debug)]
enum Kind {
    Open(Open),
    Closed(Closed),
    Script(Replay),
    Pages(Pages),
}

impl Arrivals {
    /// The `share` of a `workload` that starts at `start`. The shares of one load together are the load.
    pub fn new(workload: &Workload, start: Time, share: Share) -> Arrivals {
        let kind = match workload {
            Workload::Open(load) => Kind::Open(Open::new(load, start, share)),
            Workload::Closed(load) => Kind::Closed(Closed::new(load, start, share)),
            Workload::Script(load) => Kind::Script(Replay::new(load, start, share)),
            Workload::Pages(load) => Kind::Pages(Pages::new(load, start, share)),
        };
        Arrivals {
            kind,
            begun: 0,
            unfinished: 0,
        }
    }

    /// The next request that is due at or before `now`.
    pub fn take_due(&mut self, now: Time) -> Option<Arrival> {
        let arrival = match &mut self.kind {
            Kind::Open(open) => open.take_due(now),
            Kind::Closed(closed) => closed.take_due(now),
            Kind::Script(script) => script.take_due(now),
            Kind::Pages(pages) => pages.take_due(now),
        }?;
        self.begun += 1;
        self.unfinished += 1;
        Some(arrival)
    }

    /// Whether [`Arrivals::take_due`] would give one.
    pub fn has_due(&self, now: Time) -> bool {
        self.next_due(now).is_some_and(|due| due <= now)
    }

    /// Says that a request that was taken has ended at `now`, for whatever reason. To be said once of each.
    pub fn ended(&mut self, ended: Ended, now: Time) {
        self.unfinished -= 1;
        match &mut self.kind {
            Kind::Open(_) | Kind::Script(_) => {}
            Kind::Closed(closed) => closed.ended(ended.user, now),
            Kind::Pages(pages) => pages.ended(ended, now),
        }
    }

    /// When the load next changes by itself: a request is due, or nobody waits any more. A time that has passed means
    /// that a request is due now; `None` that only the end of a request changes anything.
    pub fn next_change(&self, now: Time) -> Option<Time> {
        let both = [self.next_due(now), self.deadline()];
        both.into_iter().flatten().min()
    }

    /// Whether the load is over: nothing more will come and nothing is unfinished, or the time to wait for it has
    /// passed.
    pub fn is_over(&self, now: Time) -> bool {
        let is_done = self.unfinished == 0 && self.next_due(now).is_none();
        is_done || self.deadline().is_some_and(|deadline| now >= deadline)
    }

    /// Requests taken so far.
    pub fn begun(&self) -> u64 {
        self.begun
    }

    /// Requests taken whose end has not been said.
    pub fn unfinished(&self) -> u64 {
        self.unfinished
    }

    /// Requests in all, if that is known in advance: of open loads with constant spacing, and of scripts that only
    /// their rounds end.
    pub fn total(&self) -> Option<u64> {
        match &self.kind {
            Kind::Open(open) => open.total(),
            Kind::Script(script) => script.total(),
            Kind::Closed(_) | Kind::Pages(_) => None,
        }
    }

    /// When the load gives up on what is unfinished; `None` if it waits for everything.
    pub fn deadline(&self) -> Option<Time> {
        match &self.kind {
            Kind::Open(open) => Some(open.deadline()),
            Kind::Closed(closed) => closed.deadline(),
            Kind::Script(script) => script.deadline(),
            Kind::Pages(pages) => pages.deadline(),
        }
    }

    /// Pages that have ended since this was last asked; none unless the load is one of pages.
    pub fn take_ended_pages(&mut self) -> Vec<PageEnd> {
        match &mut self.kind {
            Kind::Pages(pages) => pages.take_ended(),
            _ => Vec::new(),
        }
    }

    /// Pages that have begun and not ended, as if they had ended at `now`: what is cut off when the load is over.
    pub fn unfinished_pages(&self, now: Time) -> Vec<PageEnd> {
        match &self.kind {
            Kind::Pages(pages) => pages.unfinished(now),
            _ => Vec::new(),
        }
    }

    /// When the next request is due, as far as is known before another one ends.
    fn next_due(&self, now: Time) -> Option<Time> {
        match &self.kind {
            Kind::Open(open) => open.next_due(),
            Kind::Closed(closed) => closed.next_due(now),
            Kind::Script(script) => script.next_due(),
            Kind::Pages(pages) => pages.next_due(),
        }
    }
}

/// What is random in a load, each with seeds of its own.
#[derive(Clone, Copy)]
enum Chance {
    Gaps,
    What,
    ThinkTimes,
}

/// The seed of one kind of chance in a load with this seed.
fn seed_of(chance: Chance, seed: u64) -> u64 {
    splitmix64(seed, chance as u64)
}

/// A number from the `n`-th output of `seed` that is in (0, 1], all of 2^53 values as likely.
fn unit(seed: u64, n: u64) -> f64 {
    ((splitmix64(seed, n) >> 11) + 1) as f64 / (1_u64 << 53) as f64
}

/// `span` after `time`, or the end of all time.
fn later(time: Time, span: Duration) -> Time {
    Time::from_nanos(time.as_nanos().saturating_add(span.as_nanos()))
}

fn phase(is_warmup: bool) -> Phase {
    if is_warmup {
        Phase::Warmup
    } else {
        Phase::Measure
    }
}
