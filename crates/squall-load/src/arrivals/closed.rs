//! The closed load: users, each of whom asks again when the answer has come and the think time is over.
//!
//! Without think time a request is due the moment its user is free, so there is no time to be late for: what such a
//! load measures is the system's speed, not the latency that independent users would see.

use std::cmp::Reverse;
use std::collections::{BinaryHeap, VecDeque};

use squall_base::Time;
use squall_base::plan::{ClosedLoad, ThinkTime, Urgency};

use super::mix::Draw;
use super::users::{Numbers, Phases, Thinking, starts};
use super::{Arrival, Chance, Share, later, seed_of};

/// A closed load under way.
#[derive(Clone, Debug)]
pub(super) struct Closed {
    start: Time,
    /// From when on nothing is begun.
    end: Option<Time>,
    deadline: Option<Time>,
    numbers: Numbers,
    phases: Phases,
    draw: Draw,
    /// `None` if users do not think.
    thinking: Option<Thinking>,
    /// Users who ask as soon as somebody looks.
    idle: VecDeque<u32>,
    /// Users who ask at their time.
    waiting: BinaryHeap<Reverse<(Time, u32)>>,
}

impl Closed {
    pub(super) fn new(load: &ClosedLoad, start: Time, share: Share) -> Closed {
        let seed = seed_of(Chance::ThinkTimes, load.seed);
        let thinking = (load.think != ThinkTime::None)
            .then(|| Thinking::new(load.think, seed, load.users, share));
        let end = load.duration.map(|duration| later(start, duration));
        let mut closed = Closed {
            start,
            end,
            deadline: end.map(|end| later(end, load.drain)),
            numbers: Numbers::new(load.users, share, load.requests),
            phases: Phases::new(load.warmup, start),
            draw: Draw::new(&load.mix, seed_of(Chance::What, load.seed)),
            thinking,
            idle: VecDeque::new(),
            waiting: BinaryHeap::new(),
        };
        if closed.thinking.is_none() && load.starts_over.is_zero() {
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
        // Those with a time first: it has passed, and those without get this one.
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
            what: self.draw.what(request),
            urgency: Urgency::default(),
        })
    }

    pub(super) fn ended(&mut self, user: u32, now: Time) {
        match &mut self.thinking {
            None => self.idle.push_back(user),
            Some(thinking) => {
                let time = later(now, thinking.next(user));
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

    /// Lets `user` ask at `time`, unless the load is over by then.
    fn wait(&mut self, time: Time, user: u32) {
        if self.may_begin(time) {
            self.waiting.push(Reverse((time, user)));
        }
    }
}
