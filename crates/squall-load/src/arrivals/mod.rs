//! When requests are due, and for which user: every kind of load behind one contract.
//!
//! The caller takes due requests with [`Arrivals::take_due`] and reports finished ones with [`Arrivals::ended`]; between
//! two such calls the load changes only when [`Arrivals::next_change`] says so. Three laws hold for every kind: each
//! request is taken exactly once, times never decrease, and a late caller neither skips nor moves a request. Time must not
//! run backwards from call to call. This module sends nothing and chooses no connection (`pool` does that).
//!
//! `open` is the load with a rate, built on `profile`, the integral of that rate. `closed` is the load of users that wait
//! for their responses, `script` a replay, `pages` requests that wait for each other. `users` holds what closed loads and
//! pages share, `mix` what each request asks for.

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
    /// Its number, from 0, unique in the whole load, across all shares.
    pub request: u64,
    /// When it is meant to be sent.
    pub intended: Time,
    /// The part of the load that it belongs to.
    pub phase: Phase,
    /// The virtual client whose request it is; 0 in an open load, which has no clients.
    pub user: u32,
    /// Which of the caller's requests it is.
    pub what: u32,
    /// How urgent its response is.
    pub urgency: Urgency,
}

/// The end of a request that was taken.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RequestEnd {
    /// Its [`Arrival::request`].
    pub request: u64,
    /// Its [`Arrival::user`].
    pub user: u32,
    /// Whether it succeeded. Requests on the same page that wait for it are sent only in that case.
    pub succeeded: bool,
}

/// A thread's part of a load: part `index` of `of`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Share {
    index: u32,
    of: u32,
}

impl Share {
    /// The whole load.
    pub const WHOLE: Share = Share { index: 0, of: 1 };

    /// Part `index`, counted from 0, of `of` parts; `None` if `index` is out of range.
    pub const fn new(index: u32, of: u32) -> Option<Share> {
        if index < of {
            Some(Share { index, of })
        } else {
            None
        }
    }

    /// The number in the whole load of this part's `n`th item.
    pub const fn number(self, n: u64) -> u64 {
        n * self.of as u64 + self.index as u64
    }

    /// How many of `count` items, dealt out one by one, this part gets.
    pub fn count(self, count: u32) -> u32 {
        count.saturating_sub(self.index).div_ceil(self.of)
    }

    /// The items that this part gets, out of `count` items numbered from 0.
    pub fn members(self, count: u32) -> impl Iterator<Item = u32> {
        (self.index..count).step_by(self.of as usize)
    }

    /// The index of `member` among this part's members.
    fn place(self, member: u32) -> usize {
        (member / self.of) as usize
    }
}

/// A load in progress, or a share of one.
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
    /// The given share of a `workload` that starts at `start`. All shares of a load together make up the whole load.
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

    /// Whether [`Arrivals::take_due`] would return a request.
    pub fn has_due(&self, now: Time) -> bool {
        self.next_due(now).is_some_and(|due| due <= now)
    }

    /// Reports that a taken request ended at `now`, for whatever reason. Call this exactly once per request.
    pub fn ended(&mut self, ended: RequestEnd, now: Time) {
        self.unfinished -= 1;
        match &mut self.kind {
            Kind::Open(_) | Kind::Script(_) => {}
            Kind::Closed(closed) => closed.ended(ended.user, now),
            Kind::Pages(pages) => pages.ended(ended, now),
        }
    }

    /// When the load next changes by itself: a request becomes due, or the drain time is over. A time in the past means
    /// that a request is due now; `None` means that only the end of a request changes anything.
    pub fn next_change(&self, now: Time) -> Option<Time> {
        let both = [self.next_due(now), self.deadline()];
        both.into_iter().flatten().min()
    }

    /// Whether the load is over: no request is still to come or unfinished, or the drain time has passed.
    pub fn is_over(&self, now: Time) -> bool {
        let is_done = self.unfinished == 0 && self.next_due(now).is_none();
        is_done || self.deadline().is_some_and(|deadline| now >= deadline)
    }

    /// Requests taken so far.
    pub fn begun(&self) -> u64 {
        self.begun
    }

    /// Requests taken whose end has not been reported.
    pub fn unfinished(&self) -> u64 {
        self.unfinished
    }

    /// The total number of requests, if it is known in advance: for open loads with constant spacing, and for scripts that
    /// end only when their rounds are over.
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

    /// Pages that have ended since the last call; always empty unless the load is one of pages.
    pub fn take_ended_pages(&mut self) -> Vec<PageEnd> {
        match &mut self.kind {
            Kind::Pages(pages) => pages.take_ended(),
            _ => Vec::new(),
        }
    }

    /// Pages that have begun but not ended, reported as if they ended at `now`: these are cut off when the load is over.
    pub fn unfinished_pages(&self, now: Time) -> Vec<PageEnd> {
        match &self.kind {
            Kind::Pages(pages) => pages.unfinished(now),
            _ => Vec::new(),
        }
    }

    /// When the next request is due, as far as is known before another request ends.
    fn next_due(&self, now: Time) -> Option<Time> {
        match &self.kind {
            Kind::Open(open) => open.next_due(),
            Kind::Closed(closed) => closed.next_due(now),
            Kind::Script(script) => script.next_due(),
            Kind::Pages(pages) => pages.next_due(),
        }
    }
}

/// What a load's random numbers are for. Each purpose has its own seed.
#[derive(Clone, Copy)]
enum Purpose {
    Gaps,
    Choice,
    ThinkTimes,
}

/// The seed for one purpose, derived from the load's seed.
fn seed_of(purpose: Purpose, seed: u64) -> u64 {
    splitmix64(seed, purpose as u64)
}

/// The `n`-th output of `seed` as a number in (0, 1]; all 2^53 values are equally likely.
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
