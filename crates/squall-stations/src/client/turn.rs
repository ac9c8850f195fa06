//! A client's turns: wait once, then handle what became ready, but yield to requests that are due.
//!
//! `mod` knows when a request is due, `connection` what a connection does in its turn. Nothing is skipped: whatever
//! yields is done in a later turn.

use std::sync::Arc;

use squall_base::{Duration, Time};
use squall_linux::clock;
use squall_linux::reactor::ReadyEvent;
use squall_linux::scheduling::RunQueueDelay;

use super::Client;
use super::connection::Connection;
use super::punctuality::LagMeter;
use super::settings::Spin;
use super::spare_time::SpareTimeBudget;
use super::stall::StallTimeout;
use super::user_pools::Pools;
use super::waiting::{SleepPolicy, is_due, must_yield};
use crate::dial::ConnectionKey;
use crate::error::StationError;
use crate::log::StationLog;
use crate::rows::SpareTime;

/// Most steps of backlog in one turn: more than the rows of one read.
const MAX_URGENT_STEPS: usize = 16;

/// How a client waits, and how late that makes it.
pub(super) struct Pace {
    sleep_policy: SleepPolicy,
    /// How long before a request is due the client stops sleeping.
    spin_time: Duration,
    pub(super) lag_meter: LagMeter,
    pub(super) spare_time: SpareTimeBudget,
    /// The kernel's run-queue statistics of the client's thread, once the load runs.
    run_queue: Option<RunQueueDelay>,
    /// Set while a load without a time limit runs.
    pub(super) stall_timeout: Option<StallTimeout>,
}

/// Rounds of samples of all open sockets.
pub(super) struct Sampling {
    every: Duration,
    /// When the next round is due; `None`: samples are not wanted.
    next: Option<Time>,
    /// The next socket to sample, while a round is in progress.
    at: Option<ConnectionKey>,
}

impl Pace {
    pub(super) fn new(spin: Spin, work: Option<Arc<dyn SpareTime>>) -> Pace {
        Pace {
            sleep_policy: SleepPolicy::new(spin, clock::now()),
            spin_time: spin.time,
            lag_meter: LagMeter::default(),
            spare_time: SpareTimeBudget::new(work),
            run_queue: None,
            stall_timeout: None,
        }
    }

    /// Forgets what came before the load.
    pub(super) fn start_load(&mut self) {
        self.run_queue = RunQueueDelay::of_this_thread();
        self.lag_meter = LagMeter::default();
        self.spare_time.spent = Duration::ZERO;
    }

    /// Works off backlog that only this thread can handle, from `now` on. Returns when it stopped.
    fn do_urgent_work(&mut self, now: Time, deadline: Option<Time>) -> Time {
        let began = now;
        let mut now = now;
        for _ in 0..MAX_URGENT_STEPS {
            if !self.spare_time.must_begin(now, deadline) || !self.spare_time.step(now) {
                break;
            }
            now = clock::now();
        }
        self.spare_time.spent = self.spare_time.spent + now.since(began);
        now
    }
}

impl Client {
    /// Waits once and reads what is ready, as far as that does not delay what is due at `deadline`. `Traffic::dispatch`
    /// writes what follows from the reads.
    pub(super) fn turn(&mut self, deadline: Option<Time>) -> Result<(), StationError> {
        let mut now = self.pace.do_urgent_work(clock::now(), deadline);
        let mut is_behind = !self.traffic.pending_turns.is_empty()
            || !self.ready.is_empty()
            || self.sampling.at.is_some();
        let mut has_looked = false;
        if !is_behind && self.pace.spare_time.may_begin(now, deadline) {
            now = self.use_spare_time(now, deadline)?;
            has_looked = !self.ready.is_empty();
            is_behind = has_looked;
        }
        let until = if is_behind {
            Some(now)
        } else {
            let due = self.pace.sleep_policy.sleep_until(now, deadline);
            let check = self
                .pace
                .stall_timeout
                .as_ref()
                .map(StallTimeout::next_check);
            [due, self.earliest_deadline(), self.sampling.next, check]
                .into_iter()
                .flatten()
                .min()
        };
        // The run-queue delay matters only if a request can be late.
        let run_queue_delay = || self.pace.run_queue.as_ref().and_then(RunQueueDelay::total);
        let run_queue_delay = || deadline.and_then(|_| run_queue_delay());
        self.pace.lag_meter.begin(now, until, run_queue_delay);
        if !has_looked {
            self.ready.extend(self.reactor.wait(now, until)?);
        }
        let resumed = clock::now();
        self.pace.lag_meter.end(resumed, run_queue_delay);
        if until.is_none_or(|until| until > now) {
            self.pace.spare_time.record_sleep(now, resumed);
        }
        if self.failed.is_requested() {
            return Err(StationError::OtherPartFailed);
        }
        self.read_ready(resumed, deadline)?;
        self.serve_timed()?;
        let pools = &self.traffic.pools;
        (self.sampling).run(pools, &mut self.traffic.shared.log, deadline);
        Ok(())
    }

    /// Does spare-time work, from `now` on, while nothing is ready and nothing is due. Returns when it stopped.
    fn use_spare_time(&mut self, now: Time, deadline: Option<Time>) -> Result<Time, StationError> {
        let began = now;
        let mut now = now;
        let before_request = self.pace.spin_time;
        let due = deadline
            .map(|due| Time::from_nanos(due.as_nanos().saturating_sub(before_request.as_nanos())));
        let due = [due, self.earliest_deadline(), self.sampling.next];
        let due = due.into_iter().flatten().min();
        while self.pace.spare_time.may_begin(now, due) {
            self.ready.extend(self.reactor.wait(now, Some(now))?);
            if !self.ready.is_empty() || !self.pace.spare_time.step(now) {
                break;
            }
            now = clock::now();
        }
        self.pace.spare_time.spent = self.pace.spare_time.spent + now.since(began);
        Ok(now)
    }

    /// Reads what is ready and what earlier turns left over. The thread resumed at `resumed`.
    fn read_ready(&mut self, resumed: Time, deadline: Option<Time>) -> Result<(), StationError> {
        // Connections that have more to read or write get another turn.
        let mut turns = self.traffic.pending_turns.len();
        loop {
            if let Some(ready) = self.ready.pop_front() {
                self.traffic
                    .read(ConnectionKey::of_token(ready.token), ready)?;
            } else if turns > 0
                && let Some(at) = self.traffic.pending_turns.pop_front()
            {
                turns -= 1;
                if let Some(connection) = self.traffic.pools.connection_mut(at) {
                    connection.has_turn = false;
                }
                self.traffic.read(at, writable_event(at))?;
            } else {
                return Ok(());
            }
            // Read the clock only if a request can be late.
            if deadline.is_some() && must_yield(resumed, clock::now(), deadline) {
                return Ok(());
            }
        }
    }

    /// The earliest deadline of a connection that has one, or the time at which a request may be overdue.
    fn earliest_deadline(&self) -> Option<Time> {
        let timeout = self.traffic.request_timeout.next_look();
        if !self.traffic.has_deadlines {
            return timeout;
        }
        let open = self.traffic.pools.connections();
        open.filter_map(|(_, connection)| connection.deadline())
            .chain(timeout)
            .min()
    }

    /// Serves the connections whose deadline has passed.
    fn serve_timed(&mut self) -> Result<(), StationError> {
        if !self.traffic.has_deadlines {
            return Ok(());
        }
        let now = clock::now();
        let is_connection_due = |connection: &Connection| is_due(now, connection.deadline());
        let due: Vec<ConnectionKey> = (self.traffic.pools.connections())
            .filter_map(|(at, connection)| is_connection_due(connection).then_some(at))
            .collect();
        for at in due {
            self.traffic.read(at, writable_event(at))?;
        }
        Ok(())
    }
}

impl Sampling {
    pub(super) fn new(every: Duration, is_wanted: bool) -> Sampling {
        Sampling {
            every,
            next: is_wanted.then(|| clock::now() + every),
            at: None,
        }
    }

    /// Samples every open socket when it is time, over several turns if something is due meanwhile.
    fn run(&mut self, pools: &Pools, log: &mut StationLog, deadline: Option<Time>) {
        let Some(next) = self.next else {
            return;
        };
        let from = match self.at.take() {
            Some(from) => from,
            None => {
                let now = clock::now();
                if now < next {
                    return;
                }
                self.next = Some(now + self.every);
                ConnectionKey::FIRST
            }
        };
        for (count, (at, connection)) in (0..).zip(pools.connections_from(from)) {
            // One per turn, whatever is due: otherwise a client that is always late would have no samples.
            if count > 0 && is_due(clock::now(), deadline) {
                self.at = Some(at);
                return;
            }
            connection.sample(false, log);
        }
    }
}

/// For a connection that is served although its socket reports nothing: it may write.
fn writable_event(at: ConnectionKey) -> ReadyEvent {
    ReadyEvent {
        token: at.token(),
        readable: false,
        writable: true,
        ended: false,
    }
}
