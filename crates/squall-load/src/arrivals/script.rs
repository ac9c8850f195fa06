//! A replay: clients that send recorded requests at their recorded times.
//!
//! Step s of round r is due, for client k, at start + k * stagger + floor((r * every + at) / speed). Each time is computed
//! in closed form from the start, so errors do not accumulate. The request's number is (r * steps + s) * clients + k. A
//! heap with one entry per client merges the clients.

use std::cmp::Reverse;
use std::collections::BinaryHeap;
use std::collections::binary_heap::PeekMut;

use squall_base::plan::{Rounds, ScriptLoad, ScriptStep, Speed, Urgency};
use squall_base::{Duration, Time};

use super::{Arrival, Share, later, phase};

/// A replay in progress.
#[derive(Clone, Debug)]
pub(super) struct Replay {
    times: Times,
    clients: u32,
    share: Share,
    measured_from: Time,
    deadline: Option<Time>,
    total: Option<u64>,
    /// When the next step is due, for each client of the share that still has one.
    next: BinaryHeap<Reverse<(Time, u32)>>,
    /// The next step of each client, by the client's index in the share.
    positions: Vec<Position>,
}

/// A step in a round.
#[derive(Clone, Copy, Debug, Default)]
struct Position {
    round: u64,
    step: u32,
}

/// When everything is due.
#[derive(Clone, Debug)]
struct Times {
    /// Sorted by time.
    steps: Vec<ScriptStep>,
    start: Time,
    stagger: Duration,
    speed: Speed,
    every: Duration,
    rounds: Option<u64>,
    /// Nothing is due at or after this time.
    end: Option<Time>,
}

impl Replay {
    pub(super) fn new(load: &ScriptLoad, start: Time, share: Share) -> Replay {
        let times = Times::new(load, start);
        let last_of_all = times.last_of(load.clients.saturating_sub(1));
        let end = match (times.end, last_of_all) {
            (Some(end), Some(last)) => Some(end.min(last)),
            (end, last) => end.or(last),
        };
        let is_whole = times
            .end
            .is_none_or(|end| last_of_all.is_some_and(|last| last < end));
        let clients = share.count(load.clients);
        let total = times.rounds.filter(|_| is_whole).map(|rounds| {
            rounds
                .saturating_mul(times.steps.len() as u64)
                .saturating_mul(u64::from(clients))
        });
        let first = |client| Some(Reverse((times.due(client, Position::default())?, client)));
        Replay {
            next: share.members(load.clients).filter_map(first).collect(),
            positions: vec![Position::default(); clients as usize],
            clients: load.clients,
            share,
            measured_from: later(start, load.warmup),
            deadline: end.map(|end| later(end, load.drain)),
            total,
            times,
        }
    }

    pub(super) fn take_due(&mut self, now: Time) -> Option<Arrival> {
        let mut top = self.next.peek_mut()?;
        let Reverse((intended, client)) = *top;
        if intended > now {
            return None;
        }
        let position = &mut self.positions[self.share.place(client)];
        let taken = *position;
        *position = self.times.after(taken);
        match self.times.due(client, *position) {
            Some(due) => top.0.0 = due,
            None => drop(PeekMut::pop(top)),
        }
        let steps = self.times.steps.len() as u64;
        let number = taken.round.wrapping_mul(steps) + u64::from(taken.step);
        Some(Arrival {
            // No replay lasts long enough to reach 2^64 requests.
            request: number.wrapping_mul(u64::from(self.clients)) + u64::from(client),
            intended,
            phase: phase(intended < self.measured_from),
            user: client,
            what: self.times.steps[taken.step as usize].request,
            urgency: Urgency::default(),
        })
    }

    pub(super) fn next_due(&self) -> Option<Time> {
        self.next.peek().map(|Reverse((time, _))| *time)
    }

    pub(super) fn total(&self) -> Option<u64> {
        self.total
    }

    pub(super) fn deadline(&self) -> Option<Time> {
        self.deadline
    }
}

impl Times {
    fn new(load: &ScriptLoad, start: Time) -> Times {
        let mut steps = load.steps.clone();
        steps.sort_by_key(|step| step.at);
        let length = steps.last().map_or(Duration::ZERO, |last| last.at);
        let (every, rounds) = match load.rounds {
            Rounds::Once => (length, Some(1)),
            Rounds::Again { every, at_most } => match every.max(length) {
                Duration::ZERO => (
                    length,
                    at_most.map_or(Some(1), |rounds| Some(rounds.min(1))),
                ),
                every => (every, at_most),
            },
        };
        Times {
            steps,
            start,
            stagger: load.stagger,
            speed: load.speed,
            every,
            rounds,
            end: load.duration.map(|duration| later(start, duration)),
        }
    }

    /// When a client's step is due; `None` if the step does not exist or is not before the load's end.
    fn due(&self, client: u32, position: Position) -> Option<Time> {
        let is_over = self.rounds.is_some_and(|rounds| position.round >= rounds);
        let step = self
            .steps
            .get(position.step as usize)
            .filter(|_| !is_over)?;
        let due = self.time_of(client, position.round, step.at);
        self.end.is_none_or(|end| due < end).then_some(due)
    }

    fn time_of(&self, client: u32, round: u64, at: Duration) -> Time {
        let script = (u128::from(round) * u128::from(self.every.as_nanos()))
            .saturating_add(u128::from(at.as_nanos()));
        let clock = script.saturating_mul(u128::from(self.speed.clock.get()))
            / u128::from(self.speed.script.get());
        let stagger = u128::from(self.stagger.as_nanos()) * u128::from(client);
        let offset = u64::try_from(clock.saturating_add(stagger)).unwrap_or(u64::MAX);
        later(self.start, Duration::from_nanos(offset))
    }

    /// When a client's last step would be due if only the rounds ended the load.
    fn last_of(&self, client: u32) -> Option<Time> {
        let round = self.rounds?.saturating_sub(1);
        let at = self.steps.last().map_or(Duration::ZERO, |last| last.at);
        Some(self.time_of(client, round, at))
    }

    fn after(&self, position: Position) -> Position {
        if position.step as usize + 1 < self.steps.len() {
            Position {
                step: position.step + 1,
                ..position
            }
        } else {
            Position {
                round: position.round + 1,
                step: 0,
            }
        }
    }
}
