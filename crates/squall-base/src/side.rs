//! The two sides of a hop. Settings and records belong to one or the other.

use serde::{Deserialize, Serialize};

use crate::record::Direction;

crate::words! {
    /// A side of a hop: of a connection, and of the programs at its ends.
    #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
    #[serde(rename_all = "snake_case")]
    pub enum Side {
        /// The side that opened the connection.
        Client = "client",
        /// The side that accepted it.
        Server = "server",
    }
}

impl Side {
    /// The other side.
    pub const fn peer(self) -> Side {
        match self {
            Side::Client => Side::Server,
            Side::Server => Side::Client,
        }
    }

    /// The direction in which it sends.
    pub const fn sends(self) -> Direction {
        match self {
            Side::Client => Direction::Up,
            Side::Server => Direction::Down,
        }
    }
}
