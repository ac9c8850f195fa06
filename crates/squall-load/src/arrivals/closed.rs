//! The closed load: each user sends its next request once the previous response has arrived and the think time is over.
//!
//! Without think time a request is due the moment its user is free, so it can never be late. Such a load measures the
//! system's speed, not the latency that independent users would see.

use std::cmp::Reverse;
use std::collections::{BinaryHeap, VecDeque};

use squall_base::Time;
use squall_base::plan::{ClosedLoad, ThinkTime, Urgency};

use super::mix::Draw;
use super::users::{Numbers, Phases, ThinkTimes, starts};
use super::{Arrival, Purpose, Share, later, seed_of};

/// A closed load in progress.
#[derive(Clone, Debug)]
pub(super) struct Closed {
    start: Time,
    /// No request starts at or after this time.
    end: Option<Time>,
    deadline: Option<Time>,
    numbers: Numbers,
    phases: Phases,
    draw: Draw,
    /// `None` if users do not think.
    think_times: Option<ThinkTimes>,
    /// Free users without a think time: their next request is due immediately.
    idle: VecDeque<u32>,
    /// Users waiting for their next request's time.
    waiting: BinaryHeap<Reverse<(Time, u32)>>,
}

impl Closed {
    pub(super) fn new(load: &ClosedLoad, start: Time, share: Share) -> Closed {
        let seed = seed_of(Purpose::ThinkTimes, load.seed);
        let think_times = (load.think != ThinkTime::None)
            .then(|| ThinkTimes::new(load.think, seed, load.users, share));
        let end = load.duration.map(|duration| later(start, duration));
        let mut closed = Closed {
            start,
            end,
            deadline: end.map(|end| later(end, load.drain)),
            numbers: Numbers::new(load.users, share, load.requests),
            phases: Phases::new(load.warmup, start),
            draw: Draw::new(&load.mix, seed_of(Purpose::Choice, load.seed)),
            think_times,
            idle: VecDeque::new(),
            waiting: BinaryHeap::new(),
        };
        if closed.think_times.is_none() && load.starts_over.is_zero() {
            closed.idle = share.members(load.users).collect();
        } else {
            for (time, user) in starts(load.users, share, start, load.starts_over) {
                closed.wait(time, user);
            }
        }
        closed
    }

    pub(super) fn take_due(&mut self, now: Time) -> Option<Arrival> {
        if self.numbers.is_empty() {
            return None;
        }
        // Timed users go first: their time has already passed, whereas an idle user's request is intended for `now`.
        let (intended, user) = match self.waiting.peek() {
            Some(Reverse(first)) if first.0 <= now => {
                let first = *first;
                self.waiting.pop();
                first
            }
            _ if self.may_begin(now) => (now, self.idle.pop_front()?),
            _ => return None,
        };
        let request = self.numbers.take()?;
        Some(Arrival {
            request,
            intended,
            phase: self.phases.of(request, intended),
            user,
            what: self.draw.choice(request),
            urgency: Urgency::default(),
        })
    }

    pub(super) fn ended(&mut self, user: u32, now: Time) {
        match &mut self.think_times {
            None => self.idle.push_back(user),
            Some(think_times) => {
                let time = later(now, think_times.next(user));
                self.wait(time, user);
            }
        }
    }

    pub(super) fn next_due(&self, now: Time) -> Option<Time> {
        if self.numbers.is_empty() {
            return None;
        }
        let at_once = now.max(self.start);
        let idle = (!self.idle.is_empty() && self.may_begin(at_once)).then_some(at_once);
        let waiting = self.waiting.peek().map(|Reverse((time, _))| *time);
        [idle, waiting].into_iter().flatten().min()
    }

    pub(super) fn deadline(&self) -> Option<Time> {
        self.deadline
    }

    fn may_begin(&self, time: Time) -> bool {
        time >= self.start && self.end.is_none_or(|end| time < end)
    }

    /// Schedules the next request of `user` at `time`, unless the load is over by then.
    fn wait(&mut self, time: Time, user: u32) {
        if self.may_begin(time) {
            self.waiting.push(Reverse((time, user)));
        }
    }
}
