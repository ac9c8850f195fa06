//! The path of a variant: its stations in order, and the hops between them.
//!
//! How paths are written is squall-recipe's business, what programs can do squall-peers'. A path has one station more
//! than hops and at least one hop; exactly one hop crosses the link.

use serde::{Deserialize, Serialize};

use super::{Connections, PoolSettings, Protocol, SideSettings};

/// Programs that a path can name between its ends or at its far end.
pub const PROGRAMS: [&str; 6] = ["nginx", "haproxy", "envoy", "nghttpx", "nghttpd", "caddy"];

/// Programs that can be a path's client, as `client(h2load)`.
pub const CLIENT_PROGRAMS: [&str; 4] = ["h2load", "k6", "fortio", "curl"];

/// A program on a path.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Station {
    /// What the path calls it, such as `envoy`.
    pub name: String,
    /// What really runs there.
    pub runs: Runs,
}

/// What runs at a station. Its place says its part: first the client, last the server, proxies between them.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case", tag = "is")]
pub enum Runs {
    /// A client, proxy or server of our own.
    Embedded,
    /// A real program that squall knows, by its name in [`PROGRAMS`] or [`CLIENT_PROGRAMS`].
    Program {
        /// Its name.
        program: String,
    },
    /// A program that the recipe describes.
    Own(OwnProgram),
}

/// A program as a recipe describes it. Placeholders such as `{listen_port}` in command and configuration are filled
/// in when it starts (docs/RECIPES.md).
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct OwnProgram {
    /// Program and arguments.
    pub command: String,
    /// The configuration that is written to `{configuration}`.
    pub configuration: Option<String>,
    /// How it tells that it is ready: `tcp`, `http GET /path`, or `output TEXT`.
    pub ready: String,
}

/// From one station to the next.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Hop {
    /// What is spoken.
    pub protocol: Protocol,
    /// Whether the stations are on different hosts, joined by the link.
    pub across_link: bool,
    /// The connections of the nearer station.
    pub connections: Connections,
    /// How it uses them.
    pub pool: PoolSettings,
    /// Settings of the nearer station, which is the client here.
    pub client: SideSettings,
    /// Settings of the farther station, which is the server here.
    pub server: SideSettings,
}
