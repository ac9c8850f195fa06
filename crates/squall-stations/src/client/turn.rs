//! A client's turns: waiting once, and doing what became ready, but not while requests wait that are due.
//!
//! When a request is due is the load's business (`mod`), what a connection does with its turn `connection`'s. Nothing is
//! skipped: what gives way is done in a later turn.

use squall_base::Time;
use squall_base::plan::Protocol;
use squall_linux::clock;
use squall_linux::reactor::Ready;
use squall_linux::scheduling::InLine;

use super::Client;
use super::connection::Connection;
use super::lane::At;
use super::patience::Patience;
use super::waiting::{gives_way, is_due};
use crate::error::StationError;

/// Steps of work that has piled up, in one turn at most: more than the rows of one read are.
const PRESSING_STEPS: usize = 16;

impl Client {
    /// Waits once and reads what is ready, as far as it does not hold up what is due at `deadline`. What follows from it
    /// is written by [`Client::dispatch`].
    pub(super) fn turn(&mut self, deadline: Option<Time>) -> Result<(), StationError> {
        let mut now = self.do_what_presses(clock::now(), deadline);
        let mut is_behind =
            !self.hungry.is_empty() || !self.ready.is_empty() || self.sampling.is_some();
        let mut has_looked = false;
        if !is_behind && self.meanwhile.may_begin(now, deadline) {
            now = self.use_spare_time(now, deadline)?;
            has_looked = !self.ready.is_empty();
            is_behind = has_looked;
        }
        let until = if is_behind {
            Some(now)
        } else {
            let due = self.waiting.sleep_until(now, deadline);
            let look = self.patience.as_ref().map(Patience::next_look);
            [due, self.own_deadline(), self.next_sample, look]
                .into_iter()
                .flatten()
                .min()
        };
        // Only who is late for a request wants to know why.
        let in_line = || self.in_line.as_ref().and_then(InLine::waited);
        let in_line = || deadline.and_then(|_| in_line());
        self.waits.begin(now, until, in_line);
        if !has_looked {
            self.ready.extend(self.reactor.wait(now, until)?);
        }
        let back = clock::now();
        self.waits.end(back, in_line);
        if until.is_none_or(|until| until > now) {
            self.meanwhile.slept(now, back);
        }
        if self.failed.is_requested() {
            return Err(StationError::OtherPartFailed);
        }
        self.read_ready(back, deadline)?;
        self.serve_timed()?;
        self.sample(deadline);
        Ok(())
    }

    /// Does what has piled up and is nobody else's, from `now` on. Gives when it stopped.
    fn do_what_presses(&mut self, now: Time, deadline: Option<Time>) -> Time {
        let began = now;
        let mut now = now;
        for _ in 0..PRESSING_STEPS {
            if !self.meanwhile.must_begin(now, deadline) || !self.meanwhile.step(now) {
                break;
            }
            now = clock::now();
        }
        self.meanwhile.spent = self.meanwhile.spent + now.since(began);
        now
    }

    /// Does what can be done while nothing is ready and nothing is due, from `now` on. Gives when it stopped.
    fn use_spare_time(&mut self, now: Time, deadline: Option<Time>) -> Result<Time, StationError> {
        let began = now;
        let mut now = now;
        let before_request = self.settings.spin.time;
        let due = deadline
            .map(|due| Time::from_nanos(due.as_nanos().saturating_sub(before_request.as_nanos())));
        let due = [due, self.own_deadline(), self.next_sample];
        let due = due.into_iter().flatten().min();
        while self.meanwhile.may_begin(now, due) {
            self.ready.extend(self.reactor.wait(now, Some(now))?);
            if !self.ready.is_empty() || !self.meanwhile.step(now) {
                break;
            }
            now = clock::now();
        }
        self.meanwhile.spent = self.meanwhile.spent + now.since(began);
        Ok(now)
    }

    /// Reads what is ready, and what was left of what has been, since `back`.
    fn read_ready(&mut self, back: Time, deadline: Option<Time>) -> Result<(), StationError> {
        // Those that stay hungry have another turn.
        let mut hungry = self.hungry.len();
        loop {
            if let Some(ready) = self.ready.pop_front() {
                self.read(At::of_token(ready.token), ready)?;
            } else if hungry > 0
                && let Some(at) = self.hungry.pop_front()
            {
                hungry -= 1;
                if let Some(connection) = self.lanes.connection_mut(at) {
                    connection.has_turn = false;
                }
                self.read(at, nothing_new(at))?;
            } else {
                return Ok(());
            }
            // A look at the clock for those only who could be late.
            if deadline.is_some() && gives_way(back, clock::now(), deadline) {
                return Ok(());
            }
        }
    }

    /// The earliest deadline of a connection that has one.
    fn own_deadline(&self) -> Option<Time> {
        if self.settings.protocol != Protocol::H3 {
            return None;
        }
        let open = self.lanes.connections();
        open.filter_map(|(_, connection)| connection.deadline())
            .min()
    }

    /// Lets connections whose deadline has come do what they have to.
    fn serve_timed(&mut self) -> Result<(), StationError> {
        if self.settings.protocol != Protocol::H3 {
            return Ok(());
        }
        let now = clock::now();
        let has_come = |connection: &Connection| is_due(now, connection.deadline());
        let due: Vec<At> = (self.lanes.connections())
            .filter_map(|(at, connection)| has_come(connection).then_some(at))
            .collect();
        for at in due {
            self.read(at, nothing_new(at))?;
        }
        Ok(())
    }

    /// Samples every open socket when it is time: in several turns, if something is due meanwhile.
    fn sample(&mut self, deadline: Option<Time>) {
        let Some(next) = self.next_sample else {
            return;
        };
        let from = match self.sampling.take() {
            Some(from) => from,
            None => {
                let now = clock::now();
                if now < next {
                    return;
                }
                self.next_sample = Some(now + self.settings.sample_every);
                At::FIRST
            }
        };
        for (count, (at, connection)) in (0..).zip(self.lanes.connections_from(from)) {
            // One in each turn, whatever is due, or there were no samples of a client that is late.
            if count > 0 && is_due(clock::now(), deadline) {
                self.sampling = Some(at);
                return;
            }
            connection.sample(false, &mut self.log);
        }
    }
}

/// For a connection that is served although its socket has said nothing: it may write.
fn nothing_new(at: At) -> Ready {
    Ready {
        token: at.token(),
        readable: false,
        writable: true,
        ended: false,
    }
}
