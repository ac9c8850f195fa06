//! Which hops of a trial are watched, and what is found on them, in types that the observing files share.
//!
//! Nothing is read here. `observe` starts the threads, `observe_hop` reads packets, `observe_sockets` takes samples.

use std::collections::BTreeSet;
use std::net::SocketAddr;

use squall_base::plan::{Hop, Implementation, Protocol, Side, Trial};
use squall_base::record::{TcpInfo, WireCounts};
use squall_base::{Duration, Time};

use super::place::address_of;

/// A hop that is watched because at least one of its stations is a third-party program.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct WatchedHop {
    /// The hop's number, counted from 1.
    pub(super) hop: u8,
    /// The address its server listens on.
    pub(super) server: SocketAddr,
    /// The sides that are third-party programs.
    pub(super) sides: Vec<Side>,
    pub(super) across_link: bool,
    /// Whether reading it needs TLS secrets, over TCP or within QUIC.
    pub(super) has_tls: bool,
    /// How often the sockets of its programs are sampled.
    pub(super) sample_every: Duration,
}

impl WatchedHop {
    /// The hops of a trial's path that must be watched.
    pub(super) fn of(trial: &Trial) -> Vec<WatchedHop> {
        let variant = &trial.variant;
        let hops = variant.hops.iter().zip(variant.stations.windows(2));
        let watched = hops.zip(1..).filter_map(|((hop, stations), number)| {
            let sides: Vec<Side> = Side::ALL
                .into_iter()
                .zip(stations)
                .filter(|(_, station)| station.runs != Implementation::Embedded)
                .map(|(side, _)| side)
                .collect();
            let watched = WatchedHop {
                hop: number,
                server: address_of(variant, number.into()).into(),
                sides,
                across_link: hop.across_link,
                has_tls: hop.protocol.is_secure(),
                sample_every: sample_every(trial, hop),
            };
            (!watched.sides.is_empty()).then_some(watched)
        });
        watched.collect()
    }
}

/// The longest sampling interval for sockets of multiplexed connections: whatever holds such a connection back delays
/// all its requests, and between two samples a congestion window is known only from packets.
const SHARED_SAMPLE_EVERY: Duration = Duration::from_millis(10);

fn sample_every(trial: &Trial, hop: &Hop) -> Duration {
    let is_shared = hop.across_link && matches!(hop.protocol, Protocol::H2c | Protocol::H2);
    if is_shared {
        trial.sample_every.min(SHARED_SAMPLE_EVERY)
    } else {
        trial.sample_every
    }
}

/// What the kernel reported about one socket.
pub(super) struct Sample {
    pub(super) time: Time,
    pub(super) side: Side,
    /// The client's address, which identifies the connection within the hop.
    pub(super) client: SocketAddr,
    pub(super) info: TcpInfo,
}

/// Names of the congestion controls in use, by side.
pub(super) type CongestionControls = [BTreeSet<String>; 2];

pub(super) enum ObserverReport {
    Nothing,
    /// Counts from the packets of this hop.
    Packets((u8, WireCounts)),
    /// Congestion controls of the sockets on both sides of the link that this hop crosses.
    LinkSockets((u8, CongestionControls)),
}
