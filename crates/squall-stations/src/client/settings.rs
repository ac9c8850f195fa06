//! A client's settings, and where its rows go.

use std::sync::Arc;
use std::sync::mpsc::Sender;

use squall_base::Duration;
use squall_base::plan::{Connections, PoolSettings, Protocol, SideSettings, Workload};
use squall_base::record::RequestRecord;
use squall_http::{InboxOptions, Request};
use squall_load::{PageEnd, Share};

use super::{Gauge, Observer, StartBarrier};
use crate::dial::{Dial, Target};
use crate::log::LogSinks;
use crate::rows::{RowSender, SpareTime};

/// A request, and the target it is for.
#[derive(Clone, Debug)]
pub struct TargetedRequest {
    /// The request.
    pub request: Arc<Request>,
    /// Index of its target in [`ClientSettings::targets`].
    pub target: u32,
}

/// What a client is to do.
#[derive(Clone)]
pub struct ClientSettings {
    /// The servers it talks to: at least one.
    pub targets: Vec<Target>,
    /// The protocol to begin with; over TLS, ALPN decides which version is spoken. If it is over TLS, targets without
    /// TLS speak the corresponding one in cleartext.
    pub protocol: Protocol,
    /// Whether a connection on which another protocol was negotiated has failed.
    pub is_strict: bool,
    /// Whether HTTP/1.1 in cleartext asks for HTTP/2 (`upgrade: h2c`).
    pub asks_for_http2: bool,
    /// Settings of the client side.
    pub side: SideSettings,
    /// The connection policy for each target.
    pub connections: Connections,
    /// Whether each user of the load has separate connections.
    pub pool_per_user: bool,
    /// How connections are used.
    pub pool: PoolSettings,
    /// Seed of everything that is drawn at random.
    pub seed: u64,
    /// The load.
    pub workload: Workload,
    /// This client's share of the load, where several clients run one load together.
    pub share: Share,
    /// The requests that the load refers to by index. At least one.
    pub requests: Vec<TargetedRequest>,
    /// Whether each request carries its number in the schedule (`traceparent`), for the hops after the first.
    pub traces: bool,
    /// Whether the client polls the clock before a request is due.
    pub spin: Spin,
    /// What the observer sees in addition to events.
    pub observed: InboxOptions,
    /// How often sockets are sampled, if samples are wanted.
    pub sample_every: Duration,
    /// A load without a time limit is given up when none of its requests ends for this long.
    pub stall_timeout: Option<Duration>,
    /// A request that has no complete response this long after it was due is cancelled, and counts as failed.
    pub request_timeout: Option<Duration>,
}

/// How long before a request is due a client stops sleeping and polls the clock, which occupies a processor.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Spin {
    /// How long the client polls; zero: it always sleeps.
    pub time: Duration,
    /// Only before requests that are due at least ten times `time` after the previous one, so that polling takes at
    /// most a tenth of a processor.
    pub is_sparing: bool,
}

impl Spin {
    /// Polls before every request.
    pub const fn always(time: Duration) -> Spin {
        Spin {
            time,
            is_sparing: false,
        }
    }

    /// Polls only as far as it takes at most a tenth of a processor.
    pub const fn sparing(time: Duration) -> Spin {
        Spin {
            time,
            is_sparing: true,
        }
    }
}

impl ClientSettings {
    /// How to open a connection to `target`.
    pub(crate) fn dial<'a>(&'a self, target: &'a Target) -> Dial<'a> {
        Dial {
            target,
            protocol: self.protocol_to(target),
            asks_for_http2: self.asks_for_http2,
            side: &self.side,
        }
    }

    /// The protocol to begin with on connections to `target`. A load with TLS targets may also have cleartext ones:
    /// without ALPN these speak HTTP/1.1, unless HTTP/2 is the only version wanted.
    pub(crate) fn protocol_to(&self, target: &Target) -> Protocol {
        let is_cleartext = target.security.is_none() && target.quic.is_none();
        match self.protocol {
            Protocol::H1s if is_cleartext => Protocol::H1,
            Protocol::H2 if is_cleartext && self.is_strict => Protocol::H2c,
            Protocol::H2 if is_cleartext => Protocol::H1,
            protocol => protocol,
        }
    }
}

/// Where a client's rows and notifications go.
pub struct ClientSinks {
    /// Records of requests.
    pub requests: RowSender<RequestRecord>,
    /// All other rows.
    pub log: LogSinks,
    /// Observes everything as it happens.
    pub observer: Option<Box<dyn Observer>>,
    /// Displays its progress.
    pub gauge: Option<Arc<Gauge>>,
    /// Where it waits for the other clients of its load before it starts.
    pub start_barrier: Option<StartBarrier>,
    /// Receives pages as they end.
    pub pages: Option<Sender<Vec<PageEnd>>>,
    /// Work that the client does instead of sleeping.
    pub spare_time: Option<Arc<dyn SpareTime>>,
}

impl ClientSinks {
    /// For records of requests alone.
    pub fn new(requests: RowSender<RequestRecord>) -> ClientSinks {
        ClientSinks {
            requests,
            log: LogSinks::default(),
            observer: None,
            gauge: None,
            start_barrier: None,
            pages: None,
            spare_time: None,
        }
    }
}
