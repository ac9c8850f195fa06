//! What a proxy is told, and what it says it has done.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;

use squall_base::Duration;
use squall_base::plan::{Connections, PoolSettings, Protocol, SideSettings};
use squall_base::record::SideCounts;
use squall_linux::scheduling::Scheduling;

use crate::client::Target;
use crate::log::LogSinks;
use crate::server::{Access, Listener};

/// Which upstream a request goes to.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Balance {
    /// They take turns.
    #[default]
    RoundRobin,
    /// The one with the fewest requests that wait or are in flight; of equals, they take turns.
    LeastRequests,
}

/// How long the proxy waits; `None`: for ever. They are looked at ten times a second.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Timeouts {
    /// Until a connection to an upstream has shaken hands, TLS included. The request is then answered with 504.
    pub connect: Option<Duration>,
    /// From the last part of a request that was passed on, or its waiting for a connection, to the head of its answer.
    /// The request is then answered with 504.
    pub answer: Option<Duration>,
    /// How long no part of a message may move while one is expected, and how long a client's connection may have nothing
    /// to ask. A request that does not go on is answered with 408, an exchange whose answer has begun is cut off.
    pub idle: Option<Duration>,
}

impl Default for Timeouts {
    /// Those of nginx (proxy_connect_timeout and proxy_read_timeout 60 s, keepalive_timeout 75 s).
    fn default() -> Timeouts {
        Timeouts {
            connect: Some(Duration::from_secs(60)),
            answer: Some(Duration::from_secs(60)),
            idle: Some(Duration::from_secs(75)),
        }
    }
}

/// What a proxy shall do.
pub struct ProxySettings {
    /// Where it listens.
    pub listeners: Vec<Listener>,
    /// Whom it passes requests on to: at least one.
    pub upstreams: Vec<Target>,
    /// The protocol that it begins with towards them. Over TLS, ALPN decides on the version.
    pub protocol: Protocol,
    /// Settings of the side of the clients, where it is a server.
    pub front: SideSettings,
    /// Settings of the side of the upstreams, where it is a client.
    pub back: SideSettings,
    /// The connection policy, for each upstream.
    pub connections: Connections,
    /// How connections to upstreams are used.
    pub pool: PoolSettings,
    /// Which upstream a request goes to.
    pub balance: Balance,
    /// How long it waits.
    pub timeouts: Timeouts,
    /// How long it holds the head of each response before it passes it on.
    pub delay: Duration,
    /// Where rows of the side of the clients go ([`squall_base::record::Side::Server`]).
    pub front_log: LogSinks,
    /// Where rows of the side of the upstreams go ([`squall_base::record::Side::Client`]).
    pub back_log: LogSinks,
    /// Its log for people: the exchanges of the side of the clients.
    pub access: Option<Access>,
    /// How often sockets are sampled, if samples are wanted.
    pub sample_every: Duration,
    /// Decides what is drawn at random: connection ids of QUIC, ids of requests and traces, `PoolOrder::Random`.
    pub seed: u64,
    /// Whether its thread asks for real-time priority, as in a trial.
    pub is_realtime: bool,
}

/// Why a request was not answered as its upstream would have it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Failure {
    /// The request cannot be passed on: 400, 501.
    BadRequest,
    /// The client sent no more of its request: 408.
    ClientIdle,
    /// The client reset the stream or its connection.
    ClientGone,
    /// No connection to the upstream could be made: 502.
    ConnectFailed,
    /// The same within its time: 504.
    ConnectTimeout,
    /// The upstream did not answer within its time: 504.
    AnswerTimeout,
    /// The answer did not go on within its time: the exchange is cut off.
    IdleTimeout,
    /// The upstream closed the connection: 502, or the exchange is cut off.
    UpstreamClosed,
    /// The upstream reset the stream: 502, or the exchange is cut off.
    UpstreamReset,
    /// The upstream broke its protocol: 502, or the exchange is cut off.
    UpstreamProtocol,
}

impl Failure {
    /// Its word.
    pub const fn name(self) -> &'static str {
        match self {
            Failure::BadRequest => "bad request",
            Failure::ClientIdle => "client idle",
            Failure::ClientGone => "client gone",
            Failure::ConnectFailed => "connect failed",
            Failure::ConnectTimeout => "connect timeout",
            Failure::AnswerTimeout => "answer timeout",
            Failure::IdleTimeout => "idle timeout",
            Failure::UpstreamClosed => "upstream closed",
            Failure::UpstreamReset => "upstream reset",
            Failure::UpstreamProtocol => "upstream broke the protocol",
        }
    }
}

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.name())
    }
}

/// What a proxy has done.
#[derive(Clone, Debug, Default)]
pub struct ProxyReport {
    /// Requests answered in full, by whomever: the client's socket took the last byte.
    pub responses_written: u64,
    /// Requests that were sent again on another connection (RFC 9110, section 9.2.2).
    pub retries: u64,
    /// Requests that failed, by why.
    pub failures: BTreeMap<Failure, u64>,
    /// Connections opened to upstreams.
    pub connections_opened: u32,
    /// Congestion control of the sockets of the clients' side, as the kernel says.
    pub front_congestion_controls: BTreeSet<String>,
    /// The same of the upstreams' side.
    pub back_congestion_controls: BTreeSet<String>,
    /// Connections to upstreams that this machine could not even begin, by what the kernel said.
    pub machine_errors: BTreeMap<String, u64>,
    /// How its thread was scheduled; `None` if it asked for nothing.
    pub scheduling: Option<Scheduling>,
    /// What it counted on the clients' side.
    pub front: SideCounts,
    /// What it counted on the upstreams' side.
    pub back: SideCounts,
}
