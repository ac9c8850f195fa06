//! The record of a whole trial: what was asked, what the kernel really used, and how far to trust it.
//!
//! This is trial.json. Thresholds of `Validity` are explained, with their origin, in docs/METHOD.md.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use crate::plan::{Protocol, Trial};
use crate::record::{Direction, SideCounts, WireCounts};
use crate::time::Duration;

/// How late something was, over all of its occurrences.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Lateness {
    /// How many were measured.
    pub count: u64,
    /// The median.
    pub p50: Duration,
    /// The 99th percentile.
    pub p99: Duration,
    /// The 99.9th percentile.
    pub p999: Duration,
    /// The worst.
    pub max: Duration,
}

/// The kernel's own counts at both ends of one direction, to hold our log against.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct KernelCounters {
    /// Packets that the sending host's device gave to the link.
    pub device_sent: u64,
    /// Packets that the sending host's device threw away before the link saw them; must be 0.
    pub device_dropped: u64,
    /// Packets that the receiving host's device took from the link.
    pub device_received: u64,
    /// Packets that the receiving host's device refused; must be 0.
    pub device_receive_dropped: u64,
    /// Packets that the sending host's IP layer sent.
    pub ip_sent: u64,
    /// Packets that the receiving host's IP layer received.
    pub ip_received: u64,
    /// Segments that the sending host's TCP sent, retransmissions included.
    pub tcp_sent: u64,
}

/// One direction of the link in numbers.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct DirectionHealth {
    /// The direction.
    pub direction: Direction,
    /// Packets that reached the link.
    pub packets: u64,
    /// Second copies that the link made of packets.
    pub copies: u64,
    /// Packets lost on purpose.
    pub dropped: u64,
    /// Packets handed on.
    pub delivered: u64,
    /// Packets that could not be handed on.
    pub write_errors: u64,
    /// Packets still in the link when it stopped.
    pub in_flight: u64,
    /// The largest packet in bytes: at most the MTU, or an offload was at work.
    pub largest_packet_bytes: u64,
    /// Real release after the planned one.
    pub lateness: Lateness,
    /// The kernel's counts.
    pub kernel: KernelCounters,
}

/// Why a trial cannot be trusted.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case", tag = "is")]
pub enum Validity {
    /// Nothing speaks against it.
    Valid,
    /// It must not be used as evidence; each reason in a sentence.
    Invalid {
        /// Why.
        reasons: Vec<String>,
    },
}

/// How well squall's own machinery did its work in a trial.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Health {
    /// The generator's lag: request taken up after its intended time.
    pub schedule_lag: Lateness,
    /// How late the link's thread woke up for a heartbeat of 1 ms: what arrival times may be off by.
    pub link_wakeup: Lateness,
    /// Requests a second that the schedule asked for while measuring.
    pub rate_asked_per_s: f64,
    /// Requests a second that succeeded within the measured phase, shifted by a round trip, whenever they
    /// were asked for.
    pub rate_achieved_per_s: f64,
    /// Both directions of the link.
    pub link: Vec<DirectionHealth>,
    /// The verdict of the thresholds.
    pub validity: Validity,
}

/// What was really in force, read back from the kernel and the engines.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Used {
    /// The kernel's release.
    pub kernel: String,
    /// Congestion control of the client's sockets (read back; more than one name if they differ).
    pub client_congestion_control: Vec<String>,
    /// Congestion control of the server's sockets.
    pub server_congestion_control: Vec<String>,
    /// Sysctls of the client's host that shape TCP, by their name.
    pub sysctls: BTreeMap<String, String>,
    /// How the link's thread was scheduled: `fifo` or `other`.
    pub link_scheduling: String,
    /// How the stations' threads were scheduled: `fifo` or `other`.
    pub station_scheduling: String,
    /// Whether the link's thread spins before a release.
    pub link_spin: Duration,
    /// From how long before a request was due our own client watched the clock instead of sleeping; zero: it slept.
    #[serde(default)]
    pub client_spin: Duration,
    /// Whether the trial's namespaces were made through a user namespace.
    pub user_namespace: bool,
}

/// What was counted on a hop. A side that is a program of somebody else's counts nothing for us.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct HopRecord {
    /// Its number, from 1 at the client.
    pub hop: u8,
    /// What shall be spoken on it.
    pub protocol: Protocol,
    /// What the nearer station counted.
    pub client: Option<SideCounts>,
    /// What the farther station counted.
    pub server: Option<SideCounts>,
    /// What the packets between them say; `None` where both stations are our own.
    #[serde(default)]
    pub wire: Option<WireCounts>,
}

/// What ran at a station.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct StationRecord {
    /// What the path calls it.
    pub name: String,
    /// The version that a program gives itself; `None` for our own stations.
    pub version: Option<String>,
    /// Of a program that was to be held to one processor: those that the threads of its process group could run on, as
    /// the kernel said when the load was over (of a load generator: when it had started). Empty for all others.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub processors: Vec<usize>,
}

/// The pages of a load that were begun while it was measured.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct PageRecord {
    /// Those of which every request succeeded.
    pub loaded: u64,
    /// Those that ended with a request that failed.
    pub failed: u64,
    /// Those, of the warm-up too, that had not ended when the load was over.
    pub unfinished: u64,
    /// The time that the fastest of the loaded took, from when it was meant to begin to its last answer.
    pub least: Option<Duration>,
    /// The same of half of them: the nearest rank.
    pub median: Option<Duration>,
    /// The same of the slowest.
    pub most: Option<Duration>,
}

/// trial.json.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct TrialRecord {
    /// Version of the record's schema (docs/RECORD.md).
    pub schema: u32,
    /// What was asked.
    pub trial: Trial,
    /// Which attempt this is, from 1: a trial that is invalid is repeated.
    pub attempt: u32,
    /// CLOCK_MONOTONIC, in nanoseconds, at the origin of all times of this trial's records.
    pub epoch_monotonic_ns: u64,
    /// Wall-clock time at that origin, in nanoseconds since 1970-01-01 UTC.
    pub epoch_unix_ns: u64,
    /// First arrival of the load, from the epoch.
    pub load_start: Duration,
    /// Requests of the schedule, warm-up included.
    pub requests: u64,
    /// Connections that the client opened.
    pub connections_opened: u32,
    /// Of a load of pages, what became of them.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub pages: Option<PageRecord>,
    /// What the sides of each hop counted.
    pub hops: Vec<HopRecord>,
    /// What ran at each station.
    pub stations: Vec<StationRecord>,
    /// How far to trust it.
    pub health: Health,
    /// What was really in force.
    pub used: Used,
}
