//! Which pool of connections a user's request gets.
//!
//! If users share connections, a client has one pool per target; otherwise each user has its own pools, as each browser
//! and each player does. `dial::pools` holds the pools themselves; `mod` drives them.

use std::collections::{HashMap, VecDeque};

use squall_load::Pool;

use super::ClientSettings;
use super::connection::Connection;
use super::queued_request::QueuedRequest;
use crate::dial::ConnectionPools;

/// A client's pools.
pub(super) type Pools = ConnectionPools<Connection, VecDeque<QueuedRequest>>;

/// The pools of users that have their own.
#[derive(Debug, Default)]
pub(super) struct UserPools {
    /// By target and by user.
    by_owner: HashMap<(u32, u32), u32>,
}

/// One pool per target if users share them; otherwise none yet.
pub(super) fn shared_pools(settings: &ClientSettings) -> Pools {
    let mut pools = Pools::new();
    if !settings.pool_per_user {
        for target in 0..settings.targets.len() as u32 {
            push(&mut pools, target, settings);
        }
    }
    pools
}

impl UserPools {
    /// The pool of a user's connections to a target, created if necessary.
    pub(super) fn find_or_create(
        &mut self,
        pools: &mut Pools,
        target: u32,
        user: u32,
        settings: &ClientSettings,
    ) -> u32 {
        if !settings.pool_per_user {
            // Shared pools are made in the order of the targets.
            return target;
        }
        let next = pools.len() as u32;
        let pool = *self.by_owner.entry((target, user)).or_insert(next);
        if pool == next {
            push(pools, target, settings);
        }
        pool
    }
}

/// Makes another pool. Each draws its own random numbers.
fn push(pools: &mut Pools, target: u32, settings: &ClientSettings) {
    let seed = settings.seed.wrapping_add(pools.len() as u64);
    let policy = Pool::new(settings.connections, settings.pool, seed);
    pools.push(target, policy, VecDeque::new());
}
