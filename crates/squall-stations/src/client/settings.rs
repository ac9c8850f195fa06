//! What a client is told, and where its rows go.

use std::net::SocketAddr;
use std::sync::mpsc::Sender;
use std::sync::{Arc, Mutex};

use squall_base::Duration;
use squall_base::plan::{Connections, PoolSettings, Protocol, SideSettings, Workload};
use squall_base::record::RequestRecord;
use squall_http::{Request, Wants, h3, tls};
use squall_load::{PageEnd, Share};

use super::transport::Dial;
use super::{Gauge, Observer, StartLine};
use crate::log::LogSinks;
use crate::rows::{RowSender, SpareTime};

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

/// Something that a client asks for.
#[derive(Clone, Debug)]
pub struct Asked {
    /// The request.
    pub request: Arc<Request>,
    /// Whom it is for, by place among the targets.
    pub target: u32,
}

/// What a client shall do.
#[derive(Clone)]
pub struct ClientSettings {
    /// Whom it talks to: at least one.
    pub targets: Vec<Target>,
    /// The protocol that it begins with; which version is spoken over TLS, ALPN decides.
    pub protocol: Protocol,
    /// Whether a connection on which another protocol was agreed on has failed.
    pub is_strict: bool,
    /// Whether HTTP/1.1 in the clear asks for HTTP/2 (`upgrade: h2c`).
    pub asks_for_http2: bool,
    /// Settings of its side.
    pub side: SideSettings,
    /// The connection policy, for each target.
    pub connections: Connections,
    /// Whether each user of the load has connections of its own.
    pub pool_per_user: bool,
    /// How connections are used.
    pub pool: PoolSettings,
    /// Decides what is drawn at random.
    pub seed: u64,
    /// The load.
    pub workload: Workload,
    /// The part of it that is this client's, where several clients run one load together.
    pub share: Share,
    /// What is asked for: what the load's requests are, by place. At least one.
    pub requests: Vec<Asked>,
    /// Whether each request says which of the schedule's it is (`traceparent`), for the hops behind the first.
    pub traces: bool,
    /// Whether the client watches the clock before a request is due.
    pub spin: Spin,
    /// What the observer sees besides events.
    pub observed: Wants,
    /// How often sockets are sampled, if samples are wanted.
    pub sample_every: Duration,
    /// A load that waits for everything is given up when none of its requests has ended for so long.
    pub patience: Option<Duration>,
}

/// From how long before a request is due a client does not sleep but watches the clock, which takes a processor.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Spin {
    /// So long; zero: it sleeps.
    pub time: Duration,
    /// Only of requests that come at least ten times as long after the one before, so that it takes a tenth of a
    /// processor at most.
    pub is_sparing: bool,
}

impl Spin {
    /// Before every request.
    pub const fn always(time: Duration) -> Spin {
        Spin {
            time,
            is_sparing: false,
        }
    }

    /// As far as it takes a tenth of a processor at most.
    pub const fn sparing(time: Duration) -> Spin {
        Spin {
            time,
            is_sparing: true,
        }
    }
}

impl ClientSettings {
    /// How a connection to `target` begins.
    pub(crate) fn dial<'a>(&'a self, target: &'a Target) -> Dial<'a> {
        Dial {
            target,
            protocol: self.protocol,
            asks_for_http2: self.asks_for_http2,
            side: &self.side,
        }
    }
}

/// Where a client's rows go, and who is told what else.
pub struct ClientSinks {
    /// Requests.
    pub requests: RowSender<RequestRecord>,
    /// Everything else.
    pub log: LogSinks,
    /// Who sees everything at once.
    pub observer: Option<Box<dyn Observer>>,
    /// What shows how far it is.
    pub gauge: Option<Arc<Gauge>>,
    /// Where it waits for the other clients of its load before it starts.
    pub start_line: Option<StartLine>,
    /// Pages, when they have ended.
    pub pages: Option<Sender<Vec<PageEnd>>>,
    /// What it does while it has nothing else to do, instead of sleeping.
    pub spare_time: Option<Arc<dyn SpareTime>>,
}

impl ClientSinks {
    /// For requests alone.
    pub fn new(requests: RowSender<RequestRecord>) -> ClientSinks {
        ClientSinks {
            requests,
            log: LogSinks::default(),
            observer: None,
            gauge: None,
            start_line: None,
            pages: None,
            spare_time: None,
        }
    }
}
