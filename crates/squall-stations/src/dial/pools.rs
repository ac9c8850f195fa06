//! Connection pools: the connections that a station opened, and what waits for one of them.
//!
//! This is only the data structure. squall-load's `Pool` decides which connection is next; the client (`user_pools.rs`) and
//! the proxy (`back.rs`) decide which pools there are, and drive them.

use std::collections::VecDeque;

use squall_load::{ConnectionId, Pool};

use super::Availability;

/// Which connection of which pool.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct ConnectionKey {
    pub(crate) pool: u32,
    pub(crate) connection: ConnectionId,
}

impl ConnectionKey {
    /// The first connection of the first pool.
    pub(crate) const FIRST: ConnectionKey = ConnectionKey {
        pool: 0,
        connection: ConnectionId(0),
    };

    /// The key as a token for the reactor.
    pub(crate) fn token(self) -> u64 {
        u64::from(self.pool) << 32 | u64::from(self.connection.0)
    }

    pub(crate) fn of_token(token: u64) -> ConnectionKey {
        ConnectionKey {
            pool: (token >> 32) as u32,
            connection: ConnectionId(token as u32),
        }
    }
}

/// A pool: its connections in the order of their ids, the requests that wait for one, and the policy that decides which
/// request gets which connection.
pub(crate) struct ConnectionPool<C, Q> {
    /// Index of its target among the station's.
    pub(crate) target: u32,
    pub(crate) policy: Pool,
    /// `None` for a connection that has ended.
    pub(crate) connections: Vec<Option<Box<C>>>,
    pub(crate) waiting: Q,
    /// Whether the pool is in `ConnectionPools::changed`.
    is_changed: bool,
}

/// All pools of a station. `C`: a connection; `Q`: the queue of the requests that wait for one.
pub(crate) struct ConnectionPools<C, Q> {
    all: Vec<ConnectionPool<C, Q>>,
    /// Pools in which a change may let a waiting request get a connection.
    changed: VecDeque<u32>,
    open_count: u64,
    added: u64,
}

impl<C, Q> ConnectionPools<C, Q> {
    pub(crate) fn new() -> ConnectionPools<C, Q> {
        ConnectionPools {
            all: Vec::new(),
            changed: VecDeque::new(),
            open_count: 0,
            added: 0,
        }
    }

    /// Makes another pool, to this target, with an empty queue.
    pub(crate) fn push(&mut self, target: u32, policy: Pool, waiting: Q) {
        self.all.push(ConnectionPool {
            target,
            policy,
            connections: Vec::new(),
            waiting,
            is_changed: false,
        });
    }

    /// How many pools there are.
    pub(crate) fn len(&self) -> usize {
        self.all.len()
    }

    pub(crate) fn get_mut(&mut self, pool: u32) -> &mut ConnectionPool<C, Q> {
        &mut self.all[pool as usize]
    }

    pub(crate) fn iter_mut(&mut self) -> impl Iterator<Item = &mut ConnectionPool<C, Q>> {
        self.all.iter_mut()
    }

    pub(crate) fn connection_mut(&mut self, at: ConnectionKey) -> Option<&mut C> {
        let pool = self.all.get_mut(at.pool as usize)?;
        let connection = pool.connections.get_mut(at.connection.0 as usize)?;
        connection.as_deref_mut()
    }

    /// All connections that have not ended.
    pub(crate) fn connections(&self) -> impl Iterator<Item = (ConnectionKey, &C)> {
        self.connections_from(ConnectionKey::FIRST)
    }

    /// All connections from `first` on that have not ended.
    pub(crate) fn connections_from(
        &self,
        first: ConnectionKey,
    ) -> impl Iterator<Item = (ConnectionKey, &C)> {
        let pools = self.all.get(first.pool as usize..).unwrap_or_default();
        (first.pool..).zip(pools).flat_map(move |(index, pool)| {
            let from = if index == first.pool {
                first.connection.0
            } else {
                0
            };
            let connections = pool.connections.get(from as usize..).unwrap_or_default();
            (from..)
                .zip(connections)
                .filter_map(move |(id, connection)| {
                    let connection = connection.as_deref()?;
                    let at = ConnectionKey {
                        pool: index,
                        connection: ConnectionId(id),
                    };
                    Some((at, connection))
                })
        })
    }

    /// Tells the pool what a connection can do now.
    pub(crate) fn report(&mut self, at: ConnectionKey, availability: Availability, in_flight: u32) {
        let policy = &mut self.all[at.pool as usize].policy;
        match availability {
            Availability::Ready => policy.set_ready(at.connection, in_flight),
            Availability::Busy => policy.set_busy(at.connection),
            Availability::Draining | Availability::Over => policy.closed(at.connection),
        }
    }

    /// Notes a change that may let a waiting request of this pool get a connection.
    pub(crate) fn mark_changed(&mut self, pool: u32) {
        let changed = &mut self.all[pool as usize].is_changed;
        if !std::mem::replace(changed, true) {
            self.changed.push_back(pool);
        }
    }

    /// Takes one of the changed pools.
    pub(crate) fn take_changed(&mut self) -> Option<u32> {
        let pool = self.changed.pop_front()?;
        self.all[pool as usize].is_changed = false;
        Some(pool)
    }

    /// Number of connections that have not ended.
    pub(crate) fn open(&self) -> u64 {
        self.open_count
    }

    /// Number of connections added: the next one's place in the order of opening.
    pub(crate) fn added(&self) -> u64 {
        self.added
    }

    /// Adds a connection that its pool has opened; `None` if opening failed immediately.
    pub(crate) fn add(&mut self, pool: u32, connection: Option<Box<C>>) {
        self.added += 1;
        self.open_count += u64::from(connection.is_some());
        self.all[pool as usize].connections.push(connection);
    }

    /// Removes a connection that has ended.
    pub(crate) fn remove(&mut self, at: ConnectionKey) -> Option<Box<C>> {
        let pool = self.all.get_mut(at.pool as usize)?;
        let connection = pool.connections.get_mut(at.connection.0 as usize)?.take()?;
        self.open_count -= 1;
        Some(connection)
    }

    /// Number of connections ever opened.
    pub(crate) fn opened(&self) -> u32 {
        self.all.iter().map(|pool| pool.policy.opened()).sum()
    }
}
