//! The record of a whole trial: what was requested, what the kernel really used, and how far to trust it.
//!
//! This is trial.json. docs/METHOD.md explains the thresholds behind `Validity` and where they come from.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use crate::plan::{Protocol, Trial};
use crate::record::{Direction, GapFigures, LateSpans, SideCounts, StationExit, WireCounts};
use crate::time::Duration;

/// How late something was, over all of its occurrences.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Lateness {
    /// The number of measurements.
    pub count: u64,
    /// The median.
    pub p50: Duration,
    /// The 99th percentile.
    pub p99: Duration,
    /// The 99.9th percentile.
    pub p999: Duration,
    /// The maximum.
    pub max: Duration,
}

/// The kernel's own counters at both ends of one direction, to check our log against.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct KernelCounters {
    /// Packets that the sending host's device passed to the link.
    pub device_sent: u64,
    /// Packets that the sending host's device dropped before the link saw them; must be 0.
    pub device_dropped: u64,
    /// Packets that the receiving host's device accepted from the link.
    pub device_received: u64,
    /// Packets that the receiving host's device refused; must be 0.
    pub device_receive_dropped: u64,
    /// Packets that the sending host's IP layer sent.
    pub ip_sent: u64,
    /// Packets that the receiving host's IP layer received.
    pub ip_received: u64,
    /// Segments that the sending host's TCP sent, including retransmissions.
    pub tcp_sent: u64,
}

/// Statistics of one direction of a link.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct DirectionHealth {
    /// The hop of the path that crosses the link, as in the records of its packets.
    #[serde(default)]
    pub hop: u8,
    /// The direction.
    pub direction: Direction,
    /// Packets that reached the link.
    pub packets: u64,
    /// Second copies of packets that the link made.
    pub copies: u64,
    /// Packets lost deliberately.
    pub dropped: u64,
    /// Packets delivered.
    pub delivered: u64,
    /// Packets that could not be delivered.
    pub write_errors: u64,
    /// Packets still in the link when it stopped.
    pub in_flight: u64,
    /// The largest packet in bytes: more than the MTU means that an offload was active.
    pub largest_packet_bytes: u64,
    /// How late packets were released, relative to the plan.
    pub lateness: Lateness,
    /// The kernel's counters.
    pub kernel: KernelCounters,
}

/// Whether a trial can be trusted, and if not, why.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case", tag = "is")]
pub enum Validity {
    /// No objection.
    Valid,
    /// It must not be used as evidence; each reason is a sentence.
    Invalid {
        /// The reasons.
        reasons: Vec<String>,
    },
    /// Only the generator's lag and late links disturbed it, and how much time they added to its requests is known. It is
    /// evidence only of differences that they cannot have caused.
    Doubtful {
        /// What was late, each a sentence.
        reasons: Vec<String>,
    },
    /// The emulated path itself was the bottleneck, because the processor of a link's thread was full. The variant would be
    /// at least as good on the requested path, so the figures are limits. Repeating the trial would not help.
    Limited {
        /// What the path carried, and what to do: one sentence for each such link.
        reasons: Vec<String>,
    },
}

impl Validity {
    /// Whether the trial must not be used at all.
    pub fn is_invalid(&self) -> bool {
        matches!(self, Validity::Invalid { .. })
    }

    /// Whether squall itself was late in the trial by a known time, and nothing else disturbed it.
    pub fn is_doubtful(&self) -> bool {
        matches!(self, Validity::Doubtful { .. })
    }

    /// Whether the trial is worth repeating: it is invalid or doubtful.
    pub fn is_disturbed(&self) -> bool {
        self.is_invalid() || self.is_doubtful()
    }

    /// Whether the trial's figures are limits.
    pub fn is_limited(&self) -> bool {
        matches!(self, Validity::Limited { .. })
    }

    /// The objections to the trial; empty if it is valid.
    pub fn reasons(&self) -> &[String] {
        match self {
            Validity::Valid => &[],
            Validity::Invalid { reasons }
            | Validity::Doubtful { reasons }
            | Validity::Limited { reasons } => reasons,
        }
    }
}

/// How a link of a trial was driven.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct LinkThreadHealth {
    /// The hop of the path that crosses the link.
    pub hop: u8,
    /// Whether its devices exchanged super-packets (`fast` of the trial).
    pub fast: bool,
    /// The total time for which the link's thread kept its processor fully busy.
    pub full: Duration,
    /// IP bits per second that the busier direction carried in that time; `None` if there was no such time.
    pub carried_bit_per_s: Option<u64>,
}

/// The most memory that one protocol's sockets held in a trial, including those of all other programs on the machine.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct SharedMemory {
    /// Pages in use, at most.
    pub most_pages: u64,
    /// Once the kernel has begun to shrink windows, it goes on until at most this many pages are in use: the first
    /// number of net.ipv4.tcp_mem or udp_mem. 0 in older records.
    #[serde(default)]
    pub low_pages: u64,
    /// Above this, the kernel shrinks the windows of every socket: the second number of net.ipv4.tcp_mem or udp_mem.
    pub pressure_pages: u64,
}

/// How short of memory TCP was in a trial, as the kernel counted it (TcpExt of /proc/net/netstat).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct TcpShortage {
    /// How many times all sockets together used so much memory that the kernel entered memory pressure: TCPMemoryPressures of
    /// the hosts and the machine.
    pub pressures: u64,
    /// For how many milliseconds memory pressure lasted, counted when it ends: TCPMemoryPressuresChrono.
    pub pressed_ms: u64,
    /// How many times the kernel freed memory in a receive queue of the hosts: PruneCalled.
    pub pruned: u64,
    /// How many packets the kernel merged to free that memory: TCPRcvCollapsed.
    pub collapsed: u64,
}

impl TcpShortage {
    /// The sum of both.
    #[must_use]
    pub fn plus(self, other: TcpShortage) -> TcpShortage {
        TcpShortage {
            pressures: self.pressures + other.pressures,
            pressed_ms: self.pressed_ms + other.pressed_ms,
            pruned: self.pruned + other.pruned,
            collapsed: self.collapsed + other.collapsed,
        }
    }

    /// What was added since `earlier`.
    #[must_use]
    pub fn since(self, earlier: TcpShortage) -> TcpShortage {
        TcpShortage {
            pressures: self.pressures.saturating_sub(earlier.pressures),
            pressed_ms: self.pressed_ms.saturating_sub(earlier.pressed_ms),
            pruned: self.pruned.saturating_sub(earlier.pruned),
            collapsed: self.collapsed.saturating_sub(earlier.collapsed),
        }
    }
}

/// The most files that all programs of the machine had open in a trial.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct OpenFiles {
    /// Open files, at most.
    pub most: u64,
    /// Once this many are open, only root may open more: fs.file-max.
    pub limit: u64,
}

/// The processor time that programs outside of a run used while a trial's client ran, counted in ticks of 10 ms.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct OtherPrograms {
    /// Their processor time, on all processors together.
    pub used: Duration,
    /// The time over which it was counted: from just before the client was started until it had ended.
    pub during: Duration,
    /// How many processors the machine has.
    pub processors: u64,
}

impl OtherPrograms {
    /// The average use, in percent of one processor, rounded down.
    pub fn percent_of_one(self) -> u64 {
        let during = u128::from(self.during.as_nanos()).max(1);
        let percent = u128::from(self.used.as_nanos()) * 100 / during;
        u64::try_from(percent).unwrap_or(u64::MAX)
    }
}

/// What a trial's hosts shared with the machine's other programs.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct MachineHealth {
    /// The memory of TCP sockets; `None` if it was not visible.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tcp_memory: Option<SharedMemory>,
    /// The memory of UDP sockets; `None` if it was not visible.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub udp_memory: Option<SharedMemory>,
    /// How short of memory TCP was; `None` in older records.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tcp_shortage: Option<TcpShortage>,
    /// Open files; `None` if not visible.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub open_files: Option<OpenFiles>,
    /// For how long the kernel stopped squall's cgroup, or one above it, because its processor time was used up; `None` if
    /// not visible.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub throttled: Option<Duration>,
    /// How long all processors together were ready while the hypervisor ran something else; `None` if not visible.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub stolen: Option<Duration>,
    /// The processor time that programs outside of the run used; `None` if not visible.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub other_programs: Option<OtherPrograms>,
    /// How many times squall's cgroup, or one above it, reached its memory limit; `None` if not visible.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub memory_limit_reached: Option<u64>,
}

/// How well squall's own machinery worked in a trial.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Health {
    /// The generator's lag: how long after its intended time it started to handle a request.
    pub schedule_lag: Lateness,
    /// How late the link's thread woke up for a heartbeat of 1 ms: the possible error of arrival times.
    pub link_wakeup: Lateness,
    /// When the links ran late; `None` in records that did not keep it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub link_late: Option<LateSpans>,
    /// Requests per second that the schedule demanded during the measurement.
    pub rate_asked_per_s: f64,
    /// Requests per second that succeeded within the measured phase, shifted by a round trip, whenever they were due.
    pub rate_achieved_per_s: f64,
    /// Both directions of each link, in the order of the links.
    pub link: Vec<DirectionHealth>,
    /// The thread of each link, in the order of the links; empty in records from before it was recorded.
    #[serde(default)]
    pub links: Vec<LinkThreadHealth>,
    /// What the hosts shared with other programs.
    #[serde(default)]
    pub machine: MachineHealth,
    /// The verdict of the thresholds.
    pub validity: Validity,
}

/// What was actually in force, read back from the kernel and the engines.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct EffectiveSettings {
    /// The kernel's release.
    pub kernel: String,
    /// Congestion control of the sockets at the client's end of the first link (read back; more than one name if they differ).
    pub client_congestion_control: Vec<String>,
    /// Congestion control of the sockets at the server's end of the first link.
    pub server_congestion_control: Vec<String>,
    /// The congestion control at both ends of each link after the first.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub next_links: Vec<LinkCongestionControl>,
    /// Sysctls of the client's host that affect TCP, by name.
    pub sysctls: BTreeMap<String, String>,
    /// How the links' threads were scheduled: `fifo`, or `other` if one of them was.
    pub link_scheduling: String,
    /// How the stations' threads were scheduled: `fifo` or `other`.
    pub station_scheduling: String,
    /// How long before a release a link's thread spins.
    pub link_spin: Duration,
    /// How long before a due request our own client polled the clock instead of sleeping; zero: it slept.
    #[serde(default)]
    pub client_spin: Duration,
    /// Whether the trial's namespaces were created through a user namespace.
    pub user_namespace: bool,
}

/// What the sockets at the ends of a link used.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct LinkCongestionControl {
    /// The hop of the path that crosses the link, from 1.
    pub hop: u8,
    /// Congestion control at the client's end.
    pub client: Vec<String>,
    /// Congestion control at the server's end.
    pub server: Vec<String>,
}

/// What was counted on a hop. A side that is another program counts nothing for us.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct HopRecord {
    /// Its number, from 1 at the client.
    pub hop: u8,
    /// The protocol that is meant to be spoken on it.
    pub protocol: Protocol,
    /// What the nearer station counted.
    pub client: Option<SideCounts>,
    /// What the farther station counted.
    pub server: Option<SideCounts>,
    /// What the packets between them show; `None` where both stations are our own.
    #[serde(default)]
    pub wire: Option<WireCounts>,
}

/// What ran at a station.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct StationRecord {
    /// Its name on the path.
    pub name: String,
    /// The version that a program reports, or [`StationRecord::UNKNOWN_VERSION`] if it reports none; `None` for our
    /// own stations.
    pub version: Option<String>,
    /// For a program that was to be pinned to one processor: the processors that the threads of its process group could
    /// run on, as the kernel reported when the load was over (for a load generator, when it had started). Empty for all
    /// others.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub processors: Vec<usize>,
}

impl StationRecord {
    /// Stands for the version of a program that was asked for it and did not report one.
    pub const UNKNOWN_VERSION: &'static str = "unknown";
}

/// The pages of a load that began during the measurement.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct PageRecord {
    /// Pages whose requests all succeeded.
    pub loaded: u64,
    /// Pages that ended with a failed request.
    pub failed: u64,
    /// Pages, including those of the warm-up, that had not ended when the load was over.
    pub unfinished: u64,
    /// The time that the fastest loaded page took, from its intended beginning to its last response.
    pub least: Option<Duration>,
    /// The median of these times, by nearest rank.
    pub median: Option<Duration>,
    /// The longest of these times.
    pub most: Option<Duration>,
}

/// The size and the checksum of a trial's file when it was written.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct FileChecksum {
    /// Its name in the trial's folder.
    pub name: String,
    /// Its length.
    pub bytes: u64,
    /// The CRC-32 of its bytes, as gzip computes it (RFC 1952, section 8).
    pub crc32: u32,
}

/// The content of trial.json.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct TrialRecord {
    /// Version of the record's schema (docs/RECORD.md).
    pub schema: u32,
    /// What was requested.
    pub trial: Trial,
    /// The number of this attempt, from 1: an invalid or doubtful trial is repeated.
    pub attempt: u32,
    /// CLOCK_MONOTONIC, in nanoseconds, at the origin of all times of this trial's records.
    pub epoch_monotonic_ns: u64,
    /// Wall-clock time at that origin, in nanoseconds since 1970-01-01 UTC.
    pub epoch_unix_ns: u64,
    /// First arrival of the load, from the epoch.
    pub load_start: Duration,
    /// Requests of the schedule, including the warm-up.
    pub requests: u64,
    /// Connections that the client opened.
    pub connections_opened: u32,
    /// For a load of pages, their outcome.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub pages: Option<PageRecord>,
    /// The gaps between arrivals of response bodies at squall's own client; `None` if there were none, or another client.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub gaps: Option<GapFigures>,
    /// What the sides of each hop counted.
    pub hops: Vec<HopRecord>,
    /// What ran at each station.
    pub stations: Vec<StationRecord>,
    /// The programs that ended before squall ended them; with any, the trial is invalid.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub station_exits: Vec<StationExit>,
    /// How far to trust the trial.
    pub health: Health,
    /// What was actually in force.
    pub used: EffectiveSettings,
    /// The tables and the findings of the trial, as written. Empty in trials from before they were recorded.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub files: Vec<FileChecksum>,
}
