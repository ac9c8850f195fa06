//! The path of a variant: its stations in order, and the hops between them.
//!
//! How paths are written is squall-recipe's business, what programs can do squall-peers'. A path has one station more
//! than hops and at least one hop; exactly one hop crosses the link.

use std::fmt;

use serde::{Deserialize, Serialize};

use super::{Connections, PoolSettings, Protocol, Side, SideSettings};
use crate::time::Duration;

/// Programs that a path can name between its ends or at its far end.
pub const PROGRAMS: [&str; 6] = ["nginx", "haproxy", "envoy", "nghttpx", "nghttpd", "caddy"];

/// Programs that can be a path's client, as `client(h2load)`.
pub const CLIENT_PROGRAMS: [&str; 5] = ["h2load", "k6", "fortio", "curl", "chromium"];

/// A program on a path.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Station {
    /// What the path calls it, such as `envoy`.
    pub name: String,
    /// What really runs there.
    pub runs: Runs,
    /// What it is asked for besides its place.
    #[serde(default, skip_serializing_if = "Asked::is_nothing")]
    pub asked: Asked,
}

/// What a recipe asks of a station besides its place on the path.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Asked {
    /// A program is held to one processor, with all that it starts.
    pub is_pinned: bool,
    /// Settings that a program gets in its own words; of each side and setting one at most.
    pub settings: Vec<AskedSetting>,
    /// How long a proxy of our own holds the head of each response before it passes it on.
    #[serde(default)]
    pub proxy_delay: Duration,
    /// How many threads of a program serve; `None`: one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub threads: Option<u32>,
    /// Text of a program's own configuration that is added to the one that squall writes.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub extra: Option<String>,
}

impl Asked {
    /// Whether it may do as it does by itself.
    pub fn is_nothing(&self) -> bool {
        *self == Asked::default()
    }
}

/// A setting of a program, and its value.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct AskedSetting {
    /// The side of the hop that the program is: the server of the one before it, the client of the one behind it.
    pub side: Side,
    /// The setting.
    pub setting: ProgramSetting,
    /// Bytes, streams or requests.
    pub value: u64,
}

/// A setting that programs have words for, by the recipe's name for it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ProgramSetting {
    /// Bytes: SETTINGS_INITIAL_WINDOW_SIZE, or QUIC's initial_max_stream_data.
    StreamWindow,
    /// Bytes: the connection's window of HTTP/2, or QUIC's initial_max_data.
    ConnectionWindow,
    /// SETTINGS_MAX_CONCURRENT_STREAMS, or QUIC's initial_max_streams_bidi.
    MaxConcurrentStreams,
    /// Bytes: SETTINGS_MAX_FRAME_SIZE.
    MaxFrameSize,
    /// Bytes: SETTINGS_HEADER_TABLE_SIZE.
    HeaderTableSize,
    /// Bytes: the largest payload of a DATA frame that it sends.
    DataSize,
    /// After so many requests it ends a connection, of any HTTP: `requests_per_connection` of HTTP/1.1, `goaway_after`
    /// of HTTP/2.
    RequestsPerConnection,
    /// Bytes that a server sends in small TLS records before they are large: `warmup` of `records`.
    SmallRecords,
}

impl ProgramSetting {
    /// Every setting.
    pub const ALL: [ProgramSetting; 8] = [
        ProgramSetting::StreamWindow,
        ProgramSetting::ConnectionWindow,
        ProgramSetting::MaxConcurrentStreams,
        ProgramSetting::MaxFrameSize,
        ProgramSetting::HeaderTableSize,
        ProgramSetting::DataSize,
        ProgramSetting::RequestsPerConnection,
        ProgramSetting::SmallRecords,
    ];

    /// The recipe's word.
    pub const fn name(self) -> &'static str {
        match self {
            ProgramSetting::StreamWindow => "stream_window",
            ProgramSetting::ConnectionWindow => "connection_window",
            ProgramSetting::MaxConcurrentStreams => "max_concurrent_streams",
            ProgramSetting::MaxFrameSize => "max_frame_size",
            ProgramSetting::HeaderTableSize => "header_table_size",
            ProgramSetting::DataSize => "data_size",
            ProgramSetting::RequestsPerConnection => "requests_per_connection",
            ProgramSetting::SmallRecords => "records",
        }
    }
}

impl fmt::Display for ProgramSetting {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.name())
    }
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
