//! Which connection a request gets: the client's connection policy as a state machine.
//!
//! On demand: the most recently used free connection, else a new one, which then belongs to the request
//! that opened it; at the cap, the request waits. (Clients that let such a request run off with another
//! connection that falls free meanwhile make the cost of opening invisible.) Fixed: the ready connections
//! take turns, whatever is in flight on them. (Choosing the least busy one would dodge a connection that
//! stalls, which a client that pins its callers to connections cannot do.) One that was lost is opened
//! again when its turn would be. Order of waiting requests is the caller's: first come, first served.

use squall_base::plan::Connections;

/// A connection of this client, numbered in the order of opening, from 0.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ConnectionId(pub u32);

/// What a request shall do.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Choice {
    /// Go over this connection, now.
    Use(ConnectionId),
    /// Open this new connection and go over it as its first request.
    Open(ConnectionId),
    /// Wait until a connection is ready.
    Wait,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum State {
    /// Open, but not ready for a request now.
    Busy,
    Ready,
    Closed,
}

/// All connections of a client, open or closed.
#[derive(Clone, Debug)]
pub struct Pool {
    policy: Connections,
    states: Vec<State>,
    open: u32,
    /// The ready ones, in the order in which they became so.
    ready: Vec<ConnectionId>,
    /// Where the next turn begins.
    turn: ConnectionId,
}

impl Pool {
    /// An empty pool.
    pub fn new(policy: Connections) -> Pool {
        Pool {
            policy,
            states: Vec::new(),
            open: 0,
            ready: Vec::new(),
            turn: ConnectionId(0),
        }
    }

    /// Connections to open before the load begins; they are busy until `set_ready`.
    pub fn open_in_advance(&mut self) -> Vec<ConnectionId> {
        let count = match self.policy {
            Connections::OnDemand { .. } => 0,
            Connections::Fixed(count) => count,
        };
        (0..count).map(|_| self.open()).collect()
    }

    /// Finds a connection for one request.
    pub fn choose(&mut self) -> Choice {
        if let Some(connection) = self.take_ready() {
            return Choice::Use(connection);
        }
        if self.open < self.at_most() {
            return Choice::Open(self.open());
        }
        Choice::Wait
    }

    /// Says that `connection` can take a request now. Saying it again changes nothing.
    pub fn set_ready(&mut self, connection: ConnectionId) {
        let state = &mut self.states[connection.0 as usize];
        if *state == State::Busy {
            *state = State::Ready;
            self.ready.push(connection);
        }
    }

    /// Says that `connection` cannot take a request now.
    pub fn set_busy(&mut self, connection: ConnectionId) {
        let state = &mut self.states[connection.0 as usize];
        if *state == State::Ready {
            *state = State::Busy;
            self.ready.retain(|id| *id != connection);
        }
    }

    /// Says that `connection` takes no more requests, ever. Saying it again changes nothing.
    pub fn closed(&mut self, connection: ConnectionId) {
        self.set_busy(connection);
        let state = &mut self.states[connection.0 as usize];
        if *state != State::Closed {
            *state = State::Closed;
            self.open -= 1;
        }
    }

    /// Connections ever opened.
    pub fn opened(&self) -> u32 {
        self.states.len() as u32
    }

    fn at_most(&self) -> u32 {
        match self.policy {
            Connections::OnDemand { at_most } => at_most,
            Connections::Fixed(count) => count,
        }
    }

    fn open(&mut self) -> ConnectionId {
        self.states.push(State::Busy);
        self.open += 1;
        ConnectionId(self.states.len() as u32 - 1)
    }

    /// Takes a ready connection by the policy and marks it busy; the caller says when it is ready again.
    fn take_ready(&mut self) -> Option<ConnectionId> {
        let connection = match self.policy {
            Connections::OnDemand { .. } => self.ready.pop()?,
            Connections::Fixed(_) => {
                let next = self
                    .ready
                    .iter()
                    .min_by_key(|id| (**id < self.turn, **id))
                    .copied()?;
                self.ready.retain(|id| *id != next);
                self.turn = ConnectionId(next.0 + 1);
                next
            }
        };
        self.states[connection.0 as usize] = State::Busy;
        Some(connection)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const ON_DEMAND: Connections = Connections::OnDemand { at_most: 3 };

    #[test]
    fn on_demand_grows_to_the_cap_then_waits() {
        let mut pool = Pool::new(ON_DEMAND);
        assert!(pool.open_in_advance().is_empty());
        for n in 0..3 {
            assert_eq!(pool.choose(), Choice::Open(ConnectionId(n)));
        }
        assert_eq!(pool.choose(), Choice::Wait);
        pool.set_ready(ConnectionId(1));
        assert_eq!(pool.choose(), Choice::Use(ConnectionId(1)));
        assert_eq!(pool.choose(), Choice::Wait);
    }

    #[test]
    fn on_demand_prefers_the_most_recently_used() {
        let mut pool = Pool::new(ON_DEMAND);
        for _ in 0..3 {
            pool.choose();
        }
        for n in [2, 0, 1] {
            pool.set_ready(ConnectionId(n));
        }
        assert_eq!(pool.choose(), Choice::Use(ConnectionId(1)));
        assert_eq!(pool.choose(), Choice::Use(ConnectionId(0)));
    }

    #[test]
    fn a_closed_connection_makes_room_for_another() {
        let mut pool = Pool::new(Connections::OnDemand { at_most: 1 });
        assert_eq!(pool.choose(), Choice::Open(ConnectionId(0)));
        pool.closed(ConnectionId(0));
        pool.closed(ConnectionId(0));
        assert_eq!(pool.choose(), Choice::Open(ConnectionId(1)));
        assert_eq!(pool.choose(), Choice::Wait);
    }

    #[test]
    fn fixed_connections_take_turns_whatever_is_in_flight() {
        let mut pool = Pool::new(Connections::Fixed(3));
        let all = pool.open_in_advance();
        assert_eq!((all.len(), pool.choose()), (3, Choice::Wait));
        all.iter().for_each(|id| pool.set_ready(*id));
        let mut turns = Vec::new();
        for _ in 0..6 {
            let Choice::Use(id) = pool.choose() else {
                panic!("all are ready")
            };
            turns.push(id.0);
            pool.set_ready(id);
        }
        assert_eq!(turns, [0, 1, 2, 0, 1, 2]);
        pool.set_busy(ConnectionId(0));
        assert_eq!(pool.choose(), Choice::Use(ConnectionId(1)));
    }

    proptest! {
        /// Whatever happens: never more open than allowed, never a connection that is not ready.
        #[test]
        fn the_policy_is_kept(fixed in any::<bool>(), cap in 1_u32..5, steps in proptest::collection::vec((0_u8..4, 0_u32..8), 0..200)) {
            let policy = if fixed { Connections::Fixed(cap) } else { Connections::OnDemand { at_most: cap } };
            let mut pool = Pool::new(policy);
            // The model: Some(ready?) while open.
            let mut model: Vec<Option<bool>> = pool.open_in_advance().iter().map(|_| Some(false)).collect();
            for (what, which) in steps {
                let id = ConnectionId(which);
                let known = model.get(which as usize).copied().flatten();
                match (what, known) {
                    (0, _) => match pool.choose() {
                        Choice::Use(ConnectionId(n)) => {
                            prop_assert_eq!(model[n as usize], Some(true));
                            model[n as usize] = Some(false);
                        }
                        Choice::Open(ConnectionId(n)) => {
                            prop_assert_eq!(n as usize, model.len());
                            prop_assert!(!model.contains(&Some(true)));
                            model.push(Some(false));
                        }
                        Choice::Wait => {
                            prop_assert!(!model.contains(&Some(true)));
                            prop_assert_eq!(model.iter().flatten().count(), cap as usize);
                        }
                    },
                    (1, Some(_)) => { pool.set_ready(id); model[which as usize] = Some(true); }
                    (2, Some(_)) => { pool.set_busy(id); model[which as usize] = Some(false); }
                    (3, Some(_)) => { pool.closed(id); model[which as usize] = None; }
                    _ => {}
                }
                prop_assert!(model.iter().flatten().count() <= cap as usize);
                prop_assert_eq!(pool.opened() as usize, model.len());
            }
        }
    }
}
