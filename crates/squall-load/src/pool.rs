//! Which connection a request gets: the client's connection policy as a state machine.
//!
//! A request takes a ready connection, in the pool's order. If none is ready, it opens a new one and becomes its first
//! request; at the cap, it waits. (Some clients let a request that opened a connection take another one that becomes free
//! meanwhile; that hides the cost of opening.) A fixed pool opens all its connections before it uses any of them twice, and
//! replaces a lost one when no other is ready. With round robin, a connection that stalls on a loss keeps its share of the
//! requests, as in a client that pins its callers to connections; choosing the least busy connection avoids the stalled
//! one. The caller orders the waiting requests: first come, first served.

use std::collections::VecDeque;

use squall_base::plan::{Connections, PoolOrder, PoolSettings};
use squall_base::splitmix::splitmix64;

use crate::ranks::Ranks;

/// A connection of this client, numbered in the order of opening, from 0.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ConnectionId(pub u32);

/// What a request is to do.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Choice {
    /// Use this connection now.
    Use(ConnectionId),
    /// Open this new connection and be its first request.
    Open(ConnectionId),
    /// Wait until a connection is ready.
    Wait,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum State {
    /// Open, but it cannot take a request now.
    Busy,
    Ready,
    Closed,
}

/// All connections of a client, open or closed.
#[derive(Clone, Debug)]
pub struct Pool {
    policy: Connections,
    settings: PoolSettings,
    seed: u64,
    states: Vec<State>,
    open: u32,
    ready: ReadyConnections,
    /// The first candidate for the next turn.
    turn: ConnectionId,
    /// How many random choices have been made.
    drawn: u64,
}

/// The ready connections, in a structure that suits the order.
#[derive(Clone, Debug)]
enum ReadyConnections {
    /// In the order in which they became ready.
    Line(VecDeque<ConnectionId>),
    /// By the number of requests in flight, if the order depends on it.
    Ranked(Ranks),
}

impl ReadyConnections {
    fn new(order: PoolOrder) -> ReadyConnections {
        match order {
            PoolOrder::LastUsed | PoolOrder::FirstUsed | PoolOrder::Random => {
                ReadyConnections::Line(VecDeque::new())
            }
            PoolOrder::Turns | PoolOrder::LeastBusy => ReadyConnections::Ranked(Ranks::default()),
        }
    }
}

impl Pool {
    /// An empty pool; `seed` decides what [`PoolOrder::Random`] draws.
    pub fn new(policy: Connections, settings: PoolSettings, seed: u64) -> Pool {
        Pool {
            policy,
            settings,
            seed,
            states: Vec::new(),
            open: 0,
            ready: ReadyConnections::new(settings.order),
            turn: ConnectionId(0),
            drawn: 0,
        }
    }

    /// Connections to open before the load begins; they are busy until `set_ready` is called.
    pub fn open_in_advance(&mut self) -> Vec<ConnectionId> {
        let count = self.settings.warm.min(self.at_most());
        (0..count).map(|_| self.open()).collect()
    }

    /// Chooses a connection for one request.
    pub fn choose(&mut self) -> Choice {
        let is_growing =
            matches!(self.policy, Connections::Fixed(count) if self.states.len() < count as usize);
        if !is_growing && let Some(connection) = self.take_ready() {
            return Choice::Use(connection);
        }
        if self.open < self.at_most() {
            return Choice::Open(self.open());
        }
        // A fixed pool that lost connections before all of them had been opened.
        self.take_ready().map_or(Choice::Wait, Choice::Use)
    }

    /// Marks `connection`, which has `in_flight` requests in flight, as able to take another one. If it is ready already,
    /// this updates the number.
    pub fn set_ready(&mut self, connection: ConnectionId, in_flight: u32) {
        let state = &mut self.states[connection.0 as usize];
        if *state == State::Closed {
            return;
        }
        let was_ready = std::mem::replace(state, State::Ready) == State::Ready;
        match &mut self.ready {
            ReadyConnections::Line(line) if !was_ready => line.push_back(connection),
            ReadyConnections::Line(_) => {}
            ReadyConnections::Ranked(ranks) => {
                let rank = match self.settings.order {
                    PoolOrder::LeastBusy => in_flight,
                    _ => 0,
                };
                ranks.put(connection.0, rank);
            }
        }
    }

    /// Marks `connection` as unable to take a request now.
    pub fn set_busy(&mut self, connection: ConnectionId) {
        let state = &mut self.states[connection.0 as usize];
        if *state == State::Ready {
            *state = State::Busy;
            match &mut self.ready {
                ReadyConnections::Line(line) => line.retain(|id| *id != connection),
                ReadyConnections::Ranked(ranks) => ranks.remove(connection.0),
            }
        }
    }

    /// Marks `connection` as closed: it never takes a request again. Repeating the call changes nothing.
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

    /// Takes the ready connection that the order prescribes and marks it busy. The caller must report when it is ready
    /// again.
    fn take_ready(&mut self) -> Option<ConnectionId> {
        let connection = match &mut self.ready {
            ReadyConnections::Ranked(ranks) => {
                let from = match self.settings.order {
                    PoolOrder::Turns => self.turn.0,
                    _ => 0,
                };
                ConnectionId(ranks.take_lowest(from)?)
            }
            ReadyConnections::Line(line) => match self.settings.order {
                PoolOrder::LastUsed => line.pop_back()?,
                PoolOrder::Random => {
                    let count = line.len() as u64;
                    let index = splitmix64(self.seed, self.drawn).checked_rem(count)?;
                    self.drawn += 1;
                    line.remove(index as usize)?
                }
                _ => line.pop_front()?,
            },
        };
        self.turn = ConnectionId(connection.0 + 1);
        self.states[connection.0 as usize] = State::Busy;
        Some(connection)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const ON_DEMAND: Connections = Connections::OnDemand { at_most: 3 };

    fn pool(policy: Connections, order: PoolOrder, warm: u32) -> Pool {
        let settings = PoolSettings {
            order,
            streams_at_most: None,
            warm,
        };
        Pool::new(policy, settings, 7)
    }

    /// The connections that `count` requests get if each connection is ready again at once.
    fn picks(pool: &mut Pool, count: usize) -> Vec<u32> {
        let pick = |_| match pool.choose() {
            Choice::Use(id) => {
                pool.set_ready(id, 0);
                id.0
            }
            other => panic!("all are ready, but {other:?}"),
        };
        (0..count).map(pick).collect()
    }

    #[test]
    fn on_demand_grows_to_the_cap_then_waits() {
        let mut pool = pool(ON_DEMAND, PoolOrder::LastUsed, 0);
        assert!(pool.open_in_advance().is_empty());
        for n in 0..3 {
            assert_eq!(pool.choose(), Choice::Open(ConnectionId(n)));
        }
        assert_eq!(pool.choose(), Choice::Wait);
        pool.set_ready(ConnectionId(1), 0);
        assert_eq!(pool.choose(), Choice::Use(ConnectionId(1)));
        assert_eq!(pool.choose(), Choice::Wait);
    }

    #[test]
    fn on_demand_prefers_the_most_recently_used() {
        let mut pool = pool(ON_DEMAND, PoolOrder::LastUsed, 0);
        for _ in 0..3 {
            pool.choose();
        }
        for n in [2, 0, 1] {
            pool.set_ready(ConnectionId(n), 0);
        }
        assert_eq!(pool.choose(), Choice::Use(ConnectionId(1)));
        assert_eq!(pool.choose(), Choice::Use(ConnectionId(0)));
    }

    #[test]
    fn a_closed_connection_lets_another_be_opened() {
        let mut pool = pool(Connections::OnDemand { at_most: 1 }, PoolOrder::LastUsed, 0);
        assert_eq!(pool.choose(), Choice::Open(ConnectionId(0)));
        pool.closed(ConnectionId(0));
        pool.closed(ConnectionId(0));
        assert_eq!(pool.choose(), Choice::Open(ConnectionId(1)));
        assert_eq!(pool.choose(), Choice::Wait);
    }

    #[test]
    fn fixed_connections_take_turns_regardless_of_requests_in_flight() {
        let mut pool = pool(Connections::Fixed(3), PoolOrder::Turns, 3);
        let all = pool.open_in_advance();
        assert_eq!((all.len(), pool.choose()), (3, Choice::Wait));
        all.iter().for_each(|id| pool.set_ready(*id, 0));
        assert_eq!(picks(&mut pool, 6), [0, 1, 2, 0, 1, 2]);
        pool.set_busy(ConnectionId(0));
        assert_eq!(pool.choose(), Choice::Use(ConnectionId(1)));
    }

    #[test]
    fn a_cold_fixed_pool_opens_all_before_it_uses_one_twice() {
        let mut pool = pool(Connections::Fixed(2), PoolOrder::Turns, 0);
        assert!(pool.open_in_advance().is_empty());
        assert_eq!(pool.choose(), Choice::Open(ConnectionId(0)));
        pool.set_ready(ConnectionId(0), 0);
        assert_eq!(pool.choose(), Choice::Open(ConnectionId(1)));
        assert_eq!(pool.choose(), Choice::Use(ConnectionId(0)));
    }

    #[test]
    fn every_pool_order_picks_the_connection_it_prescribes() {
        let ready = |order| {
            let mut pool = pool(Connections::Fixed(3), order, 3);
            for (id, in_flight) in pool.open_in_advance().into_iter().zip([2, 0, 1]) {
                pool.set_ready(id, in_flight);
            }
            pool
        };
        assert_eq!(picks(&mut ready(PoolOrder::LastUsed), 3), [2, 2, 2]);
        assert_eq!(picks(&mut ready(PoolOrder::FirstUsed), 4), [0, 1, 2, 0]);
        assert_eq!(
            ready(PoolOrder::LeastBusy).choose(),
            Choice::Use(ConnectionId(1))
        );
        let drawn = picks(&mut ready(PoolOrder::Random), 300);
        assert_eq!(drawn, picks(&mut ready(PoolOrder::Random), 300));
        for id in 0..3 {
            let count = drawn.iter().filter(|drawn| **drawn == id).count();
            // Six standard deviations of a binomial count around 100.
            assert!((51..150).contains(&count), "{id}: {count}");
        }
    }

    proptest! {
        /// Whatever happens, the pool never opens more connections than allowed and never picks one that is not ready.
        #[test]
        fn pool_never_exceeds_its_limit_nor_picks_a_connection_that_is_not_ready(fixed in any::<bool>(), order in 0_usize..5, cap in 1_u32..5, steps in proptest::collection::vec((0_u8..4, 0_u32..8), 0..200)) {
            let policy = if fixed { Connections::Fixed(cap) } else { Connections::OnDemand { at_most: cap } };
            let order = PoolOrder::ALL[order];
            let mut pool = pool(policy, order, if fixed { cap } else { 0 });
            // The model: `Some(is_ready)` while the connection is open.
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
                    (1, Some(_)) => { pool.set_ready(id, which); model[which as usize] = Some(true); }
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
