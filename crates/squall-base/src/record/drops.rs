//! The record of one dropped packet: what it carried, how that was repaired, and whom it delayed.
//!
//! Only the row and its words; how they are found is squall-analysis's (`causes`), what they mean is in
//! docs/RECORD.md.

use crate::record::{Cause, Fate, PacketRef};
use crate::time::{Duration, Time};

/// How the bytes of a lost packet came to be sent again.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Repair {
    /// TCP: at once, three or more segments above it having been acknowledged selectively (RFC 6675, section 5).
    FastRetransmit,
    /// TCP: something sent later was acknowledged, and either fewer than three segments above it or the reordering timer
    /// ran (RFC 8985, section 6.2).
    Rack,
    /// TCP: the tail loss probe (RFC 8985, section 7).
    Tlp,
    /// TCP: the retransmission timeout (RFC 6298), or what was sent again in its wake.
    Rto,
    /// TCP: one of the last two; it was all that was under way, and neither its packets nor the socket tell which.
    Timeout,
    /// TCP: the timer of a SYN or SYN-ACK.
    SynTimer,
    /// QUIC: a packet three or more numbers later was acknowledged (RFC 9002, section 6.1.1).
    PacketThreshold,
    /// QUIC: a later packet was acknowledged and the time threshold passed (RFC 9002, section 6.1.2).
    TimeThreshold,
    /// QUIC: the probe timeout (RFC 9002, section 6.2).
    ProbeTimeout,
    /// It carried nothing that needed repair, or its bytes had arrived by another packet.
    NotNeeded,
    /// Its bytes never arrived.
    Never,
    /// The rules do not decide.
    Unknown,
}

impl Repair {
    /// Every kind of repair, in the order of this enum.
    pub const ALL: [Repair; 12] = [
        Repair::FastRetransmit,
        Repair::Rack,
        Repair::Tlp,
        Repair::Rto,
        Repair::Timeout,
        Repair::SynTimer,
        Repair::PacketThreshold,
        Repair::TimeThreshold,
        Repair::ProbeTimeout,
        Repair::NotNeeded,
        Repair::Never,
        Repair::Unknown,
    ];

    /// The word of the record.
    pub const fn name(self) -> &'static str {
        match self {
            Repair::FastRetransmit => "fast_retransmit",
            Repair::Rack => "rack",
            Repair::Tlp => "tlp",
            Repair::Rto => "rto",
            Repair::Timeout => "timeout",
            Repair::SynTimer => "syn_timer",
            Repair::PacketThreshold => "packet_threshold",
            Repair::TimeThreshold => "time_threshold",
            Repair::ProbeTimeout => "probe_timeout",
            Repair::NotNeeded => "not_needed",
            Repair::Never => "never",
            Repair::Unknown => "unknown",
        }
    }
}

/// A request that a drop delayed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Victim {
    /// The request, by its place in the schedule.
    pub request: u64,
    /// The cause under which the delay stands in its row.
    pub cause: Cause,
    /// By how much.
    pub delay: Duration,
}

/// One packet that the link dropped, or that arrived damaged.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DropRecord {
    /// The packet.
    pub packet: PacketRef,
    /// When it reached the link.
    pub dropped_at: Time,
    /// What became of it; `Delivered` if it arrived damaged.
    pub fate: Fate,
    /// Which connection of the client, from 0; `None` if it belongs to none.
    pub connection: Option<u32>,
    /// QUIC: the stream with the first of its stream bytes.
    pub stream: Option<u64>,
    /// The first byte that it carried: TCP, in its direction's payload; QUIC, in that stream. `None` if it carried none.
    pub start: Option<u64>,
    /// After the last byte that it carried.
    pub end: Option<u64>,
    /// The requests whose bytes, of request or response, it carried.
    pub carried: Vec<u64>,
    /// How its bytes were sent again.
    pub repair: Repair,
    /// When the last of its bytes arrived after all.
    pub repaired_at: Option<Time>,
    /// The packet of the same direction that brought it.
    pub repaired_by: Option<u64>,
    /// Whom it delayed.
    pub victims: Vec<Victim>,
}
