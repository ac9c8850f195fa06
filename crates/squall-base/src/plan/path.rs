//! The path of a variant: its stations in order, and the hops between them.
//!
//! squall-recipe parses paths; squall-peers knows what programs can do. A path has one more station than hops and at
//! least one hop. One to [`LINKS_AT_MOST`] hops cross a link.

use serde::{Deserialize, Serialize};

use super::{Connections, PoolSettings, Protocol, Side, SideSettings};
use crate::time::Duration;

/// Programs that a path can have between its ends or at its far end.
pub const PROGRAMS: [&str; 6] = ["nginx", "haproxy", "envoy", "nghttpx", "nghttpd", "caddy"];

/// The most links that a path can have: each takes a thread with real-time priority, and most machines have few
/// processors to spare.
pub const LINKS_AT_MOST: usize = 3;

/// Programs that can be a path's client, as `client(h2load)`.
pub const CLIENT_PROGRAMS: [&str; 5] = ["h2load", "k6", "fortio", "curl", "chromium"];

/// A program on a path.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Station {
    /// Its name on the path, such as `envoy`.
    pub name: String,
    /// What actually runs there.
    pub runs: Implementation,
    /// What the recipe requests of it, in addition to its place.
    #[serde(default, skip_serializing_if = "StationOptions::is_empty")]
    pub asked: StationOptions,
}

/// What a recipe requests of a station, in addition to its place on the path.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct StationOptions {
    /// The program is pinned to one processor, with all its child processes.
    pub is_pinned: bool,
    /// Settings that a program gets in its own configuration; at most one per side and setting.
    pub settings: Vec<StationSetting>,
    /// How long our own proxy holds the head of each response before it passes it on.
    #[serde(default)]
    pub proxy_delay: Duration,
    /// The number of threads of a program that serve; `None`: one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub threads: Option<u32>,
    /// Text that is added to the configuration that squall writes for a program.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub extra: Option<String>,
}

impl StationOptions {
    /// Whether nothing is requested.
    pub fn is_empty(&self) -> bool {
        *self == StationOptions::default()
    }
}

/// A setting of a program, and its value.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct StationSetting {
    /// The program's side of the hop: server of the hop before it, client of the hop after it.
    pub side: Side,
    /// The setting.
    pub setting: ProgramSetting,
    /// The value: bytes, streams or requests.
    pub value: u64,
}

crate::words! {
    /// A setting that programs support, by the recipe's name for it.
    #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
    #[serde(rename_all = "snake_case")]
    pub enum ProgramSetting {
        /// Bytes: SETTINGS_INITIAL_WINDOW_SIZE, or QUIC's initial_max_stream_data.
        StreamWindow = "stream_window",
        /// Bytes: the connection's window of HTTP/2, or QUIC's initial_max_data.
        ConnectionWindow = "connection_window",
        /// SETTINGS_MAX_CONCURRENT_STREAMS, or QUIC's initial_max_streams_bidi.
        MaxConcurrentStreams = "max_concurrent_streams",
        /// Bytes: SETTINGS_MAX_FRAME_SIZE.
        MaxFrameSize = "max_frame_size",
        /// Bytes: SETTINGS_HEADER_TABLE_SIZE.
        HeaderTableSize = "header_table_size",
        /// Bytes: the largest payload of a DATA frame that it sends.
        DataSize = "data_size",
        /// The number of requests after which it ends a connection, for any version: `requests_per_connection` of
        /// HTTP/1.1, `goaway_after` of HTTP/2.
        RequestsPerConnection = "requests_per_connection",
        /// Bytes that a server sends in small TLS records before it sends large ones: `warmup` of `records`.
        SmallRecords = "records",
    }
}

/// What runs at a station. Its place determines its role: first the client, last the server, proxies between them.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case", tag = "is")]
pub enum Implementation {
    /// Our own client, proxy or server.
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
    /// The program and its arguments.
    pub command: String,
    /// The configuration, which is written to `{configuration}`.
    pub configuration: Option<String>,
    /// How it shows that it is ready: `tcp`, `http GET /path`, or `output TEXT`.
    pub ready: String,
}

/// The connection from one station to the next.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Hop {
    /// The protocol.
    pub protocol: Protocol,
    /// Whether the stations are on different hosts, connected by a link.
    pub across_link: bool,
    /// The connection policy of the nearer station.
    pub connections: Connections,
    /// How that station uses its connections.
    pub pool: PoolSettings,
    /// Settings of the nearer station, which is the client here.
    pub client: SideSettings,
    /// Settings of the farther station, which is the server here.
    pub server: SideSettings,
}
