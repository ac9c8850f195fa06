//! A proxy's settings and its report.

use std::collections::{BTreeMap, BTreeSet};

use squall_base::plan::{Connections, PoolSettings, Protocol, SideSettings};
use squall_base::record::SideCounts;
use squall_base::{Duration, Probability};
use squall_linux::scheduling::Scheduling;

use crate::dial::Target;
use crate::log::LogSinks;
use crate::server::{AccessLog, Listener};

/// How an upstream is chosen for a request.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Balance {
    /// Upstreams take turns.
    #[default]
    RoundRobin,
    /// The upstream with the fewest requests waiting or in flight; ties take turns.
    LeastRequests,
}

/// The proxy's timeouts; `None`: forever. They are checked ten times a second.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Timeouts {
    /// Until a connection to an upstream is established, including TLS. The request is then answered with 504.
    pub connect: Option<Duration>,
    /// From the last part of a request that was passed on, or from when it began to wait for a connection, to the head
    /// of its response. The request is then answered with 504.
    pub answer: Option<Duration>,
    /// How long an expected message may make no progress, and how long a client's connection may be without a request.
    /// A stalled request is answered with 408; an exchange whose response has begun is cut off. With it, the head of a
    /// request may take no more than 60 s, however steadily it arrives.
    pub idle: Option<Duration>,
}

impl Default for Timeouts {
    /// The defaults of nginx (proxy_connect_timeout and proxy_read_timeout 60 s, keepalive_timeout 75 s).
    fn default() -> Timeouts {
        Timeouts {
            connect: Some(Duration::from_secs(60)),
            answer: Some(Duration::from_secs(60)),
            idle: Some(Duration::from_secs(75)),
        }
    }
}

/// How fast a client has to send the body of a request while others wait for a connection to the same upstream. A
/// request holds such a connection, or a stream on one, from its head on, so a few slow clients could take all of them.
///
/// Only requests whose body is awaited are judged, and only while requests wait that are not slow themselves: otherwise
/// a slow upload keeps no other request from a connection. The rate applies to bodies of known and of unknown length. A
/// gRPC stream may pause for as long as the timeouts allow if no other request waits, and once its response has begun
/// even if others wait. The slowest requests that have a connection get a 408, one for each other request that waits, and
/// so does every slow request that waits for a connection itself.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct MinUploadRate {
    /// Bytes of the body per second.
    pub bytes_per_s: u64,
    /// The time over which they are counted; also the time in which a client must send the first of them.
    pub period: Duration,
}

impl Default for MinUploadRate {
    /// The default of Kestrel (MinRequestBodyDataRate), the server of ASP.NET Core.
    fn default() -> MinUploadRate {
        MinUploadRate {
            bytes_per_s: 240,
            period: Duration::from_secs(5),
        }
    }
}

/// What a proxy is to do.
pub struct ProxySettings {
    /// Where it listens.
    pub listeners: Vec<Listener>,
    /// The upstreams that it passes requests on to: at least one.
    pub upstreams: Vec<Target>,
    /// The protocol that it begins with towards them. Over TLS, ALPN decides the version.
    pub protocol: Protocol,
    /// Settings of the client side, where it is a server.
    pub front: SideSettings,
    /// Settings of the upstream side, where it is a client.
    pub back: SideSettings,
    /// The connection policy, for each upstream.
    pub connections: Connections,
    /// How connections to upstreams are used.
    pub pool: PoolSettings,
    /// How an upstream is chosen for a request.
    pub balance: Balance,
    /// Its timeouts.
    pub timeouts: Timeouts,
    /// How fast clients have to send while others wait; `None`: any rate is fast enough, as in a trial.
    pub min_upload_rate: Option<MinUploadRate>,
    /// The share of the requests at an upstream that one client may have while requests of other clients wait for a
    /// connection to it; `None`: all, as in a trial. A client is an IPv4 address or an IPv6 network of 64 bits.
    pub client_share: Option<Probability>,
    /// How long the proxy holds the head of each response before passing it on.
    pub delay: Duration,
    /// Where rows of the client side go ([`squall_base::record::Side::Server`]).
    pub front_log: LogSinks,
    /// Where rows of the upstream side go ([`squall_base::record::Side::Client`]).
    pub back_log: LogSinks,
    /// Its access log: the exchanges of the client side.
    pub access: Option<AccessLog>,
    /// How often sockets are sampled, if samples are wanted.
    pub sample_every: Duration,
    /// Seed of everything that is drawn at random: QUIC connection ids, ids of requests and traces,
    /// `PoolOrder::Random`.
    pub seed: u64,
    /// Whether its thread asks for real-time priority, as in a trial.
    pub is_realtime: bool,
}

squall_base::words! {
    /// Why a request did not get its upstream's response.
    #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
    pub enum Failure {
        /// The request cannot be passed on: 400, 501.
        BadRequest = "bad request",
        /// The client stopped sending its request, or took too long for its head: 408, or over HTTP/2 and HTTP/3 the end
        /// of the connection or of the stream.
        ClientIdle = "client idle",
        /// The client sent its request too slowly while others waited: 408.
        ClientSlow = "client too slow",
        /// The client reset the stream or its connection.
        ClientGone = "client gone",
        /// No connection to the upstream could be made: 502.
        ConnectFailed = "connect failed",
        /// No connection to the upstream could be made in time: 504.
        ConnectTimeout = "connect timeout",
        /// The machine had no file descriptor or memory for a connection to the upstream: 503.
        NoResources = "no file descriptor or memory",
        /// The upstream did not respond in time: 504.
        AnswerTimeout = "answer timeout",
        /// The response stalled for too long: the exchange is cut off.
        IdleTimeout = "idle timeout",
        /// The proxy's connections held too much: 503, or the exchange is cut off.
        TooMuchHeld = "closed to save memory",
        /// The upstream closed the connection: 502, or the exchange is cut off.
        UpstreamClosed = "upstream closed",
        /// The upstream reset the stream: 502, or the exchange is cut off.
        UpstreamReset = "upstream reset",
        /// The upstream violated its protocol: 502, or the exchange is cut off.
        UpstreamProtocol = "upstream broke the protocol",
    }
}

/// What a proxy did.
#[derive(Clone, Debug, Default)]
pub struct ProxyReport {
    /// Requests answered in full, by an upstream or by the proxy: the client's socket took the last byte.
    pub responses_written: u64,
    /// Requests that were retried on another connection (RFC 9110, section 9.2.2).
    pub retries: u64,
    /// Failed requests, by cause.
    pub failures: BTreeMap<Failure, u64>,
    /// Connections opened to upstreams.
    pub connections_opened: u32,
    /// Congestion control of the client side's sockets, as the kernel reports it.
    pub front_congestion_controls: BTreeSet<String>,
    /// Congestion control of the upstream side's sockets, as the kernel reports it.
    pub back_congestion_controls: BTreeSet<String>,
    /// Connections that this machine could not accept, or could not even begin to open to an upstream, by the kernel's
    /// message; and how much was refused or closed to save memory.
    pub machine_errors: BTreeMap<String, u64>,
    /// How its thread was scheduled; `None` if it did not ask for a priority.
    pub scheduling: Option<Scheduling>,
    /// Counters of the client side.
    pub front: SideCounts,
    /// Counters of the upstream side.
    pub back: SideCounts,
}
