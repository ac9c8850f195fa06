//! The record of one dropped packet: what it carried, how that was repaired, and which requests it delayed.
//!
//! Only the row and its vocabulary. squall-analysis finds drops (`causes`); docs/RECORD.md explains the fields.

use crate::record::{Cause, Fate, PacketRef};
use crate::time::{Duration, Time};

crate::words! {
    /// What caused the bytes of a lost packet to be retransmitted, if anything did.
    #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
    pub enum Repair {
        /// TCP: immediately, after three or more segments above it were acknowledged selectively (RFC 6675, section 5).
        FastRetransmit = "fast_retransmit",
        /// TCP: something sent later was acknowledged, and either fewer than three segments above it were, or the
        /// reordering timer expired (RFC 8985, section 6.2).
        Rack = "rack",
        /// TCP: the tail loss probe (RFC 8985, section 7).
        Tlp = "tlp",
        /// TCP: the retransmission timeout (RFC 6298), or a retransmission in its wake.
        Rto = "rto",
        /// TCP: the tail loss probe or the retransmission timeout. The lost packet was all that was in flight, and
        /// neither the connection's packets nor the socket show which of the two it was.
        Timeout = "timeout",
        /// TCP: the timer of a SYN or SYN-ACK.
        SynTimer = "syn_timer",
        /// QUIC: a packet three or more numbers later was acknowledged (RFC 9002, section 6.1.1).
        PacketThreshold = "packet_threshold",
        /// QUIC: a later packet was acknowledged and the time threshold passed (RFC 9002, section 6.1.2).
        TimeThreshold = "time_threshold",
        /// QUIC: the probe timeout (RFC 9002, section 6.2).
        ProbeTimeout = "probe_timeout",
        /// It carried nothing that needed repair, or its bytes had arrived in another packet.
        NotNeeded = "not_needed",
        /// Its bytes never arrived.
        Never = "never",
        /// The rules do not decide it.
        Unknown = "unknown",
    }
}

/// A request that a drop delayed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Victim {
    /// The request, by its place in the schedule.
    pub request: u64,
    /// The cause under which the delay is recorded in its row.
    pub cause: Cause,
    /// The length of the delay.
    pub delay: Duration,
}

/// One packet that a link dropped, or that arrived damaged.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DropRecord {
    /// The packet.
    pub packet: PacketRef,
    /// When it reached the link.
    pub dropped_at: Time,
    /// Its fate; `Delivered` if it arrived damaged.
    pub fate: Fate,
    /// The connection of the hop's client, from 0; `None` if it belongs to no connection.
    pub connection: Option<u32>,
    /// QUIC: the stream of the first of its stream bytes.
    pub stream: Option<u64>,
    /// The offset of the first byte that it carried: TCP, in its direction's payload; QUIC, in that stream. `None` if
    /// it carried none.
    pub start: Option<u64>,
    /// The offset after the last byte that it carried.
    pub end: Option<u64>,
    /// The requests with bytes in the packet, either of the request itself or of its response.
    pub carried: Vec<u64>,
    /// How its bytes were retransmitted.
    pub repair: Repair,
    /// When the last of its bytes arrived after all.
    pub repaired_at: Option<Time>,
    /// The index of the packet, in the same direction, that carried this last byte.
    pub repaired_by: Option<u64>,
    /// The requests that it delayed.
    pub victims: Vec<Victim>,
}
