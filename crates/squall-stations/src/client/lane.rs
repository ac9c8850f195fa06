//! A client's path to one target: a connection pool, and the requests that wait for a connection.
//!
//! If users share connections, a client has one pool per target; otherwise each user has its own pools, as each browser
//! and each player does. This is only the data structure; `mod` drives it.

use std::collections::{HashMap, VecDeque};

use squall_base::record::RequestRecord;
use squall_load::{ConnectionId, Pool};

use super::ClientSettings;
use super::connection::Connection;

/// Which connection of which pool.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct ConnectionKey {
    pub(super) pool: u32,
    pub(super) connection: ConnectionId,
}

impl ConnectionKey {
    /// The first connection of the first pool.
    pub(super) const FIRST: ConnectionKey = ConnectionKey {
        pool: 0,
        connection: ConnectionId(0),
    };

    /// As a token for the reactor.
    pub(super) fn token(self) -> u64 {
        u64::from(self.pool) << 32 | u64::from(self.connection.0)
    }

    pub(super) fn of_token(token: u64) -> ConnectionKey {
        ConnectionKey {
            pool: (token >> 32) as u32,
            connection: ConnectionId(token as u32),
        }
    }
}

/// A pool's connections, in its order, the requests that wait for them, and what decides which of them gets which.
pub(super) struct ConnectionPool {
    pub(super) target: u32,
    pub(super) policy: Pool,
    /// `None` for a connection that has ended.
    pub(super) connections: Vec<Option<Box<Connection>>>,
    pub(super) waiting: VecDeque<RequestRecord>,
    /// Whether it is in `ConnectionPools::changed`.
    is_changed: bool,
}

/// All pools of a client.
pub(super) struct ConnectionPools {
    all: Vec<ConnectionPool>,
    /// By target, and by user if users have their own pools.
    by_owner: HashMap<(u32, u32), u32>,
    /// Pools in which a change may let a waiting request get a connection.
    changed: VecDeque<u32>,
    open_count: u64,
    added: u64,
}

impl ConnectionPools {
    /// One pool per target if users share them; otherwise none yet.
    pub(super) fn new(settings: &ClientSettings) -> ConnectionPools {
        let mut pools = ConnectionPools {
            all: Vec::new(),
            by_owner: HashMap::new(),
            changed: VecDeque::new(),
            open_count: 0,
            added: 0,
        };
        if !settings.pool_per_user {
            for target in 0..settings.targets.len() as u32 {
                pools.find_or_create(target, 0, settings);
            }
        }
        pools
    }

    /// The pool of a user to a target. Made if it does not exist.
    pub(super) fn find_or_create(
        &mut self,
        target: u32,
        user: u32,
        settings: &ClientSettings,
    ) -> u32 {
        // Shared pools are made in the order of the targets.
        if !settings.pool_per_user && (target as usize) < self.all.len() {
            return target;
        }
        let next = self.all.len() as u32;
        let pool = *self.by_owner.entry((target, user)).or_insert(next);
        if pool == next {
            // Each pool draws its own random numbers.
            let seed = settings.seed.wrapping_add(u64::from(pool));
            self.all.push(ConnectionPool {
                target,
                policy: Pool::new(settings.connections, settings.pool, seed),
                connections: Vec::new(),
                waiting: VecDeque::new(),
                is_changed: false,
            });
        }
        pool
    }

    pub(super) fn len(&self) -> usize {
        self.all.len()
    }

    pub(super) fn get_mut(&mut self, pool: u32) -> &mut ConnectionPool {
        &mut self.all[pool as usize]
    }

    pub(super) fn iter_mut(&mut self) -> impl Iterator<Item = &mut ConnectionPool> {
        self.all.iter_mut()
    }

    pub(super) fn connection_mut(&mut self, at: ConnectionKey) -> Option<&mut Connection> {
        let pool = self.all.get_mut(at.pool as usize)?;
        let connection = pool.connections.get_mut(at.connection.0 as usize)?;
        connection.as_deref_mut()
    }

    /// All connections that have not ended.
    pub(super) fn connections(&self) -> impl Iterator<Item = (ConnectionKey, &Connection)> {
        self.connections_from(ConnectionKey::FIRST)
    }

    /// All connections from `first` on that have not ended.
    pub(super) fn connections_from(
        &self,
        first: ConnectionKey,
    ) -> impl Iterator<Item = (ConnectionKey, &Connection)> {
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

    /// Notes a change that may let a waiting request of this pool get a connection.
    pub(super) fn mark_changed(&mut self, pool: u32) {
        let changed = &mut self.all[pool as usize].is_changed;
        if !std::mem::replace(changed, true) {
            self.changed.push_back(pool);
        }
    }

    /// Takes one of the changed pools.
    pub(super) fn take_changed(&mut self) -> Option<u32> {
        let pool = self.changed.pop_front()?;
        self.all[pool as usize].is_changed = false;
        Some(pool)
    }

    /// Number of connections that have not ended.
    pub(super) fn open(&self) -> u64 {
        self.open_count
    }

    /// Number of connections added: the next one's place among this client's, in the order of opening.
    pub(super) fn added(&self) -> u64 {
        self.added
    }

    /// Adds a connection that its pool has opened; `None` if opening failed immediately.
    pub(super) fn add(&mut self, pool: u32, connection: Option<Box<Connection>>) {
        self.added += 1;
        self.open_count += u64::from(connection.is_some());
        self.all[pool as usize].connections.push(connection);
    }

    /// Removes a connection that has ended.
    pub(super) fn remove(&mut self, at: ConnectionKey) -> Option<Box<Connection>> {
        let pool = self.all.get_mut(at.pool as usize)?;
        let connection = pool.connections.get_mut(at.connection.0 as usize)?.take()?;
        self.open_count -= 1;
        Some(connection)
    }

    /// Number of connections ever opened.
    pub(super) fn opened(&self) -> u32 {
        self.all.iter().map(|pool| pool.policy.opened()).sum()
    }
}
