//! What a client is told, and where its rows go.

use std::net::SocketAddr;
use std::sync::mpsc::Sender;
use std::sync::{Arc, Mutex};

use squall_base::Duration;
use squall_base::plan::{Connections, PoolSettings, Protocol, SideSettings};
use squall_base::record::RequestRecord;
use squall_http::{Request, Wants, h3, tls};

use super::{Observer, Workload};
use crate::log::LogSinks;

/// Whom a client talks to.
#[derive(Clone)]
pub struct Target {
    /// Where it listens.
    pub address: SocketAddr,
    /// The name or address for which its certificate must be.
    pub server_name: String,
    /// What TLS over TCP offers and whom it trusts; `None`: in the clear.
    pub security: Option<tls::ClientContext>,
    /// The same for QUIC.
    pub quic: Option<Arc<Mutex<h3::ClientContext>>>,
}

/// What a client shall do.
#[derive(Clone)]
pub struct ClientSettings {
    /// Whom it talks to.
    pub target: Target,
    /// The protocol that it begins with; which version is spoken over TLS, ALPN decides.
    pub protocol: Protocol,
    /// Whether a connection on which another protocol was agreed on has failed.
    pub is_strict: bool,
    /// Whether HTTP/1.1 in the clear asks for HTTP/2 (`upgrade: h2c`).
    pub asks_for_http2: bool,
    /// Settings of its side.
    pub side: SideSettings,
    /// The connection policy.
    pub connections: Connections,
    /// How connections are used.
    pub pool: PoolSettings,
    /// Decides what is drawn at random.
    pub seed: u64,
    /// The load.
    pub workload: Workload,
    /// The request.
    pub request: Arc<Request>,
    /// What the observer sees besides events.
    pub observed: Wants,
    /// How often sockets are sampled, if samples are wanted.
    pub sample_every: Duration,
}

/// Where a client's rows go.
pub struct ClientSinks {
    /// Requests.
    pub requests: Sender<Vec<RequestRecord>>,
    /// Everything else.
    pub log: LogSinks,
    /// Who sees everything at once.
    pub observer: Option<Box<dyn Observer>>,
}
