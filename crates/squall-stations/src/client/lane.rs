//! A client's way to one target: a pool of connections, and the requests that wait for one.
//!
//! A client whose users share connections has one lane for each target; else each user has its own, as each browser and
//! each player has. Only what belongs together and where it is found; `mod` drives it.

use std::collections::{HashMap, VecDeque};

use squall_base::record::RequestRecord;
use squall_load::{ConnectionId, Pool};

use super::ClientSettings;
use super::connection::Connection;

/// Which connection of which lane.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct At {
    pub(super) lane: u32,
    pub(super) connection: ConnectionId,
}

impl At {
    /// The first connection of the first lane.
    pub(super) const FIRST: At = At {
        lane: 0,
        connection: ConnectionId(0),
    };

    /// As a token of the reactor's.
    pub(super) fn token(self) -> u64 {
        u64::from(self.lane) << 32 | u64::from(self.connection.0)
    }

    pub(super) fn of_token(token: u64) -> At {
        At {
            lane: (token >> 32) as u32,
            connection: ConnectionId(token as u32),
        }
    }
}

/// One pool, its connections in the pool's order, and who waits for them.
pub(super) struct Lane {
    pub(super) target: u32,
    pub(super) pool: Pool,
    /// `None`: it has ended.
    pub(super) connections: Vec<Option<Box<Connection>>>,
    pub(super) waiting: VecDeque<RequestRecord>,
    /// It is among those that may have a connection for a request.
    is_stirred: bool,
}

/// All lanes of a client.
pub(super) struct Lanes {
    all: Vec<Lane>,
    /// By target and, if users have their own, by user.
    by_owner: HashMap<(u32, u32), u32>,
    /// Those of which something has changed that may give a request its connection.
    stirred: VecDeque<u32>,
    open: u64,
    added: u64,
}

impl Lanes {
    /// One for each target, if users share them; else none yet.
    pub(super) fn new(settings: &ClientSettings) -> Lanes {
        let mut lanes = Lanes {
            all: Vec::new(),
            by_owner: HashMap::new(),
            stirred: VecDeque::new(),
            open: 0,
            added: 0,
        };
        if !settings.pool_per_user {
            for target in 0..settings.targets.len() as u32 {
                lanes.find_or_make(target, 0, settings);
            }
        }
        lanes
    }

    /// The lane of a user to a target.
    pub(super) fn find_or_make(
        &mut self,
        target: u32,
        user: u32,
        settings: &ClientSettings,
    ) -> u32 {
        // Shared lanes are made in the order of the targets.
        if !settings.pool_per_user && (target as usize) < self.all.len() {
            return target;
        }
        let next = self.all.len() as u32;
        let lane = *self.by_owner.entry((target, user)).or_insert(next);
        if lane == next {
            // Each lane draws its own numbers.
            let seed = settings.seed.wrapping_add(u64::from(lane));
            self.all.push(Lane {
                target,
                pool: Pool::new(settings.connections, settings.pool, seed),
                connections: Vec::new(),
                waiting: VecDeque::new(),
                is_stirred: false,
            });
        }
        lane
    }

    pub(super) fn len(&self) -> usize {
        self.all.len()
    }

    pub(super) fn get_mut(&mut self, lane: u32) -> &mut Lane {
        &mut self.all[lane as usize]
    }

    pub(super) fn iter_mut(&mut self) -> impl Iterator<Item = &mut Lane> {
        self.all.iter_mut()
    }

    pub(super) fn connection_mut(&mut self, at: At) -> Option<&mut Connection> {
        let lane = self.all.get_mut(at.lane as usize)?;
        let connection = lane.connections.get_mut(at.connection.0 as usize)?;
        connection.as_deref_mut()
    }

    /// All connections that have not ended.
    pub(super) fn connections(&self) -> impl Iterator<Item = (At, &Connection)> {
        self.connections_from(At::FIRST)
    }

    /// The same, from this one on.
    pub(super) fn connections_from(&self, first: At) -> impl Iterator<Item = (At, &Connection)> {
        let lanes = self.all.get(first.lane as usize..).unwrap_or_default();
        (first.lane..).zip(lanes).flat_map(move |(lane, of)| {
            let from = match lane == first.lane {
                true => first.connection.0,
                false => 0,
            };
            let connections = of.connections.get(from as usize..).unwrap_or_default();
            (from..)
                .zip(connections)
                .filter_map(move |(id, connection)| {
                    let connection = connection.as_deref()?;
                    let at = At {
                        lane,
                        connection: ConnectionId(id),
                    };
                    Some((at, connection))
                })
        })
    }

    /// Something has changed that may give a request of this lane its connection.
    pub(super) fn stir(&mut self, lane: u32) {
        let stirred = &mut self.all[lane as usize].is_stirred;
        if !std::mem::replace(stirred, true) {
            self.stirred.push_back(lane);
        }
    }

    /// One of those that were stirred.
    pub(super) fn take_stirred(&mut self) -> Option<u32> {
        let lane = self.stirred.pop_front()?;
        self.all[lane as usize].is_stirred = false;
        Some(lane)
    }

    /// Connections that have not ended.
    pub(super) fn open(&self) -> u64 {
        self.open
    }

    /// How many were added: the place of the next one among all of this client's, in the order of opening.
    pub(super) fn added(&self) -> u64 {
        self.added
    }

    /// Adds a connection that its pool has opened, or none if that failed at once.
    pub(super) fn add(&mut self, lane: u32, connection: Option<Box<Connection>>) {
        self.added += 1;
        self.open += u64::from(connection.is_some());
        self.all[lane as usize].connections.push(connection);
    }

    /// Takes a connection that has ended.
    pub(super) fn remove(&mut self, at: At) -> Option<Box<Connection>> {
        let lane = self.all.get_mut(at.lane as usize)?;
        let connection = lane.connections.get_mut(at.connection.0 as usize)?.take()?;
        self.open -= 1;
        Some(connection)
    }

    /// Connections ever opened.
    pub(super) fn opened(&self) -> u32 {
        self.all.iter().map(|lane| lane.pool.opened()).sum()
    }
}
