//! What a probe of an endpoint recorded: the input of this module.
//!
//! The rows are those of the embedded client, with times of one clock. Nothing is computed here; `endpoint` says what
//! follows from them.

use std::net::IpAddr;

use serde::Serialize;
use squall_base::plan::Version;
use squall_base::record::{
    ExchangeRecord, FrameRecord, Outcome, RequestRecord, SideCounts, SocketRecord, SocketSample,
    TcpInfo,
};
use squall_base::{Duration, Time};

use super::packets::Segment;

/// What a step of a probe did. The numbers are [`RequestRecord::what`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum StepKind {
    /// Small requests, one after the other, on one connection if the server keeps it.
    Small,
    /// One download on one connection.
    Download,
    /// Six downloads, on six connections.
    SixDownloads,
    /// A download (0), and a small request (1) on the same connection while it runs.
    Overlap,
    /// A short upload (0), then a long one (1), on one connection.
    Upload,
    /// Three downloads on one connection: one after another (0, 1), and the third (2) after the connection was idle.
    Idle,
    /// Many small requests on one connection, several at a time over HTTP/2 and HTTP/3, to see whether it lasts.
    Lasting,
    /// Small requests on a connection with a full TLS handshake (round 1), and on one that offers the first one's ticket (round
    /// 2).
    Resumption,
    /// Concurrent downloads on one connection, some of which are urgent: [`super::is_urgent`] says which.
    Priorities,
    /// A small request, and then nothing on its connection.
    KeptIdle,
    /// A small request (0), and then two on its connection (1, 2), the second one before the first can be answered.
    SlowPair,
    /// The request for robots.txt. It is not among the [`Observations`], because its times are not analysed.
    Robots,
}

/// Bytes of a response's body, and when they were read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Piece {
    /// When the read returned.
    pub time: Time,
    /// The connection, by its number in the step.
    pub connection: u32,
    /// The stream; for HTTP/1.1 the number of the exchange.
    pub stream: u64,
    /// How many, at least 1.
    pub bytes: u64,
}

/// A TLS record that was received.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ReceivedRecord {
    /// When the read that completed the record returned.
    pub time: Time,
    /// Bytes of its plaintext.
    pub bytes: u64,
}

/// What the handshake of a connection showed of the server.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Handshake {
    /// The group of the key exchange.
    pub group: Option<String>,
    /// Bytes of the TLS records with the client's first ClientHello; `None` over QUIC, where its frames show it.
    pub client_hello_bytes: Option<u64>,
    /// The certificates that the server presented.
    pub certificates: Option<Chain>,
    /// What the server announced for QUIC; `None` over TCP.
    pub transport: Option<TransportParameters>,
}

/// The certificates that a server presented.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Chain {
    /// How many.
    pub count: u64,
    /// Their bytes in DER, all together.
    pub der_bytes: u64,
    /// The DNS names that the first one is for.
    pub names: Vec<String>,
}

/// Transport parameters of a QUIC server (RFC 9000, section 18.2), and whether it sent a Retry.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub struct TransportParameters {
    /// max_idle_timeout; zero: no timeout.
    #[serde(rename = "max_idle_timeout_ns")]
    pub max_idle_timeout: Duration,
    /// initial_max_data, in bytes: what a client may send on the connection at first.
    pub initial_max_data_bytes: u64,
    /// initial_max_stream_data_bidi_remote, in bytes: what a client may send on a request's stream at first.
    pub initial_max_stream_data_bytes: u64,
    /// initial_max_streams_bidi: how many requests a client may begin at first.
    pub initial_max_streams_bidi: u64,
    /// max_udp_payload_size, in bytes.
    pub max_udp_payload_bytes: u64,
    /// ack_delay_exponent.
    pub ack_delay_exponent: u64,
    /// max_ack_delay.
    #[serde(rename = "max_ack_delay_ns")]
    pub max_ack_delay: Duration,
    /// active_connection_id_limit.
    pub active_connection_id_limit: u64,
    /// disable_active_migration.
    pub disables_active_migration: bool,
    /// Whether it validated the client's address with a Retry first.
    pub used_retry: bool,
}

/// The records of one step, over fresh connections.
#[derive(Clone, Debug)]
pub struct Step {
    /// What it did.
    pub kind: StepKind,
    /// The requested version.
    pub version: Version,
    /// The round, from 1.
    pub round: u32,
    /// All requests.
    pub requests: Vec<RequestRecord>,
    /// All exchanges that ended.
    pub exchanges: Vec<ExchangeRecord>,
    /// All frames, in the order in which they were recorded.
    pub frames: Vec<FrameRecord>,
    /// Socket samples, in the same order.
    pub sockets: Vec<SocketRecord>,
    /// The bodies of responses as they arrived.
    pub pieces: Vec<Piece>,
    /// The server's SETTINGS on the first connection, as identifiers and values.
    pub settings: Vec<(u64, u64)>,
    /// The client's counters.
    pub counts: SideCounts,
    /// Whether it was ended because it had received its maximum number of bytes.
    pub was_cut: bool,
    /// Whether a TCP handshake was completed.
    pub was_connected: bool,
    /// Whether a TCP handshake was completed, but not the TLS handshake after it.
    pub lacks_tls: bool,
    /// What the first handshake of TLS or QUIC showed.
    pub handshake: Option<Handshake>,
    /// Connections that the server ended before the step was over, and when; the first ones.
    pub ended: Vec<(u32, Time)>,
    /// Bytes of the largest UDP payload received; 0 over TCP.
    pub largest_datagram: u64,
    /// The first TLS records of application data on the first connection, in their order; only of downloads.
    pub records: Vec<ReceivedRecord>,
}

impl Step {
    /// Requests with a complete response, in the order of their ends.
    pub fn answered(&self) -> impl Iterator<Item = &RequestRecord> {
        let requests = self.requests.iter();
        requests.filter(|row| row.outcome == Outcome::Answered)
    }

    /// The first request that is a copy of request `what`.
    pub fn of(&self, what: u32) -> Option<&RequestRecord> {
        self.requests.iter().find(|row| row.what == what)
    }

    /// Bytes of all bodies that arrived.
    pub fn body_bytes(&self) -> u64 {
        self.pieces.iter().map(|piece| piece.bytes).sum()
    }

    /// What the kernel reported of the step's TCP connections.
    pub(super) fn tcp(&self) -> impl DoubleEndedIterator<Item = (&SocketRecord, &TcpInfo)> {
        self.sockets.iter().filter_map(|row| match &row.sample {
            SocketSample::Tcp(info) => Some((row, info)),
            SocketSample::Quic(_) => None,
        })
    }

    /// The last sample of each of its TCP connections.
    pub(super) fn last_tcp(&self) -> Vec<&TcpInfo> {
        let mut last: std::collections::BTreeMap<u32, &TcpInfo> = std::collections::BTreeMap::new();
        for (row, info) in self.tcp() {
            last.insert(row.connection, info);
        }
        last.into_values().collect()
    }
}

/// The head of a response.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Head {
    /// The version that carried it.
    pub version: Version,
    /// The status.
    pub status: u16,
    /// The header fields, with names in lower case.
    pub fields: Vec<(String, String)>,
}

impl Head {
    /// The first value of a field.
    pub fn field(&self, name: &str) -> Option<&str> {
        let mut fields = self.fields.iter();
        let found = fields.find(|(field, _)| field.eq_ignore_ascii_case(name));
        found.map(|(_, value)| value.as_str())
    }
}

/// What became of a QUIC handshake.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum Http3Reach {
    /// It was not tried.
    #[default]
    NotTried,
    /// It was completed.
    Works,
    /// Nothing came back: UDP may be blocked on the way, or nothing listens.
    Silent(String),
    /// The server refused the connection, or the network reported that the port is closed.
    Refused(String),
}

/// What a name server said about HTTPS records (RFC 9460) of the URL's name.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct HttpsAnswer {
    /// Whether it answered.
    pub is_answered: bool,
    /// The records, the preferred one first; empty if there are none.
    pub services: Vec<HttpsService>,
}

/// An HTTPS record.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct HttpsService {
    /// SvcPriority; 0: an alias.
    pub priority: u16,
    /// TargetName; empty: the name itself.
    pub target: String,
    /// The protocols of `alpn`, besides HTTP/1.1.
    pub alpn: Vec<String>,
    /// `port`.
    pub port: Option<u16>,
    /// Addresses in `ipv4hint` and `ipv6hint`.
    pub address_hints: u64,
    /// Whether it has `ech`, the keys for Encrypted Client Hello.
    pub has_ech: bool,
}

/// Everything that a probe of one endpoint recorded.
#[derive(Clone, Debug, Default)]
pub struct Observations {
    /// The URL.
    pub url: String,
    /// The address that was asked, with its port.
    pub address: String,
    /// All addresses that were looked up, in the resolver's order.
    pub addresses: Vec<IpAddr>,
    /// The first address of each family, with the time of a TCP handshake; `None` if it failed.
    pub families: Vec<(IpAddr, Option<Duration>)>,
    /// Other names of the certificate, and whether they have the address that was asked; `None` if they have no address.
    pub other_names: Vec<(String, Option<bool>)>,
    /// What DNS said about HTTPS records; `None` if it was not asked.
    pub https_records: Option<HttpsAnswer>,
    /// Whether the URL is https.
    pub is_secure: bool,
    /// Whether connections over TCP end at the host of a link that forwards them, so that congestion control is that host's.
    pub is_forwarded: bool,
    /// One head of a response for each version that answered, and that of the request that allows compression last.
    pub heads: Vec<Head>,
    /// The coding of the response to a request that allows compression, with the bytes of its body; `None` if there was
    /// no such request. The coding is empty if there was none.
    pub coding: Option<(String, u64)>,
    /// Versions that were tried and did not work, with the reason.
    pub failures: Vec<(Version, String)>,
    /// Whether a response advertised HTTP/3 (Alt-Svc, RFC 7838).
    pub advertises_http3: bool,
    /// Whether HTTP/3 can be reached.
    pub http3: Http3Reach,
    /// For versions over TLS, after a first connection: the bytes of early data that its newest ticket allows, 0 if it
    /// offers none; `None` if no ticket came.
    pub tickets: Vec<(Version, Option<u32>)>,
    /// Times of TCP handshakes while nothing else was sent.
    pub connects_idle: Vec<Duration>,
    /// Times of TCP handshakes during downloads over six connections.
    pub connects_loaded: Vec<Duration>,
    /// Times of TCP handshakes during uploads.
    pub connects_uploading: Vec<Duration>,
    /// All steps, in their order.
    pub steps: Vec<Step>,
    /// TCP packets of the probe's own flows, in their order; empty if this machine does not let it see them.
    pub segments: Vec<Segment>,
    /// First requests over versions that failed. Only what the server announced in them is used.
    pub unanswered: Vec<Step>,
    /// What could not be done, each as a sentence.
    pub notes: Vec<String>,
}

impl Observations {
    /// The steps of one kind over one version.
    pub fn steps_of(&self, kind: StepKind, version: Version) -> impl Iterator<Item = &Step> {
        let steps = self.steps.iter();
        steps.filter(move |step| step.kind == kind && step.version == version)
    }

    /// The first requests over this version that got no response.
    pub(super) fn unanswered_over(&self, version: Version) -> impl Iterator<Item = &Step> {
        let steps = self.unanswered.iter();
        steps.filter(move |step| step.version == version)
    }

    /// Whether any response arrived.
    pub fn has_response(&self) -> bool {
        !self.heads.is_empty()
    }
}

/// `HTTP/1.1`, `HTTP/2`, `HTTP/3`.
pub fn version_name(version: Version) -> &'static str {
    match version {
        Version::Http1 => "HTTP/1.1",
        Version::Http2 => "HTTP/2",
        Version::Http3 => "HTTP/3",
    }
}
