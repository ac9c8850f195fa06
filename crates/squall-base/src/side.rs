//! The two sides of a hop. Settings and records belong to one or the other.

use serde::{Deserialize, Serialize};

/// A side of a hop: of a connection, and of the programs at its ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Side {
    /// The side that opened the connection.
    Client,
    /// The side that accepted it.
    Server,
}

impl Side {
    /// Both sides.
    pub const ALL: [Side; 2] = [Side::Client, Side::Server];

    /// Its name in the record.
    pub const fn name(self) -> &'static str {
        match self {
            Side::Client => "client",
            Side::Server => "server",
        }
    }
}
