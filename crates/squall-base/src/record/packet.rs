//! The record of one packet that reached a link, with its fate.
//!
//! The link sees IP packets; TCP fields are zero for anything else. Times are taken by the link's thread, on the same
//! clock as those of requests.

use serde::{Deserialize, Serialize};

use crate::side::Side;
use crate::time::{Duration, Time};

crate::words! {
    /// The direction of a packet.
    #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
    #[serde(rename_all = "snake_case")]
    pub enum Direction {
        /// From the host at the client's end of the link to the one at the server's end.
        Up = "up",
        /// From the host at the server's end of the link to the one at the client's end.
        Down = "down",
    }
}

impl Direction {
    /// The opposite direction.
    pub const fn opposite(self) -> Direction {
        match self {
            Direction::Up => Direction::Down,
            Direction::Down => Direction::Up,
        }
    }

    /// The side that sends in it.
    pub const fn sender(self) -> Side {
        match self {
            Direction::Up => Side::Client,
            Direction::Down => Side::Server,
        }
    }
}

crate::words! {
    /// The role of a packet in its flow. Loss is drawn by flow, direction, class and the packet's number in its class,
    /// so that a run with different timing of acknowledgements still loses the same data.
    #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
    #[serde(rename_all = "snake_case")]
    pub enum PacketClass {
        /// TCP with SYN.
        Syn = "syn",
        /// TCP with payload.
        Data = "data",
        /// TCP without payload, SYN, FIN or RST.
        Ack = "ack",
        /// TCP with FIN or RST and without payload.
        Close = "close",
        /// Not TCP, or not readable as TCP.
        Other = "other",
    }
}

crate::words! {
    /// What the link did with a packet.
    #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
    #[serde(rename_all = "snake_case")]
    pub enum Fate {
        /// Handed to the other host's kernel.
        Delivered = "delivered",
        /// Lost deliberately, by independent loss.
        LossDrop = "loss_drop",
        /// Lost deliberately, by a burst model (Gilbert-Elliott, by packets or by time).
        BurstDrop = "burst_drop",
        /// Lost deliberately, because a drop list names it.
        ListDrop = "list_drop",
        /// Lost deliberately, in a blackout.
        BlackoutDrop = "blackout_drop",
        /// The queue had no room for it, or evicted it to make room.
        QueueDrop = "queue_drop",
        /// The queue discipline dropped it early, although there was room (RED, CoDel, PIE, FQ-CoDel).
        EarlyDrop = "early_drop",
        /// The other host's kernel did not accept it: a fault of the link that makes a trial invalid.
        WriteError = "write_error",
        /// Still in the link when the link was stopped.
        InFlight = "in_flight",
    }
}

impl Fate {
    /// Whether the link dropped it as configured.
    pub const fn is_drop(self) -> bool {
        matches!(
            self,
            Fate::LossDrop
                | Fate::BurstDrop
                | Fate::ListDrop
                | Fate::BlackoutDrop
                | Fate::QueueDrop
                | Fate::EarlyDrop
        )
    }
}

/// One packet on a link.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PacketRecord {
    /// The hop of the path whose link it reached, from 1 at the client; [`PacketRecord::ONLY_LINK`] in a record of a path
    /// with one link that does not say which hop that is.
    pub hop: u8,
    /// Its number among all packets of its link and direction, from 0, in order of arrival.
    pub index: u64,
    /// Its direction.
    pub direction: Direction,
    /// The flow (addresses, protocol and ports), numbered from 0 in the order in which the link first saw them.
    pub flow: u32,
    /// The client's port, which connects a flow to a socket.
    pub client_port: u16,
    /// Its role in its flow.
    pub class: PacketClass,
    /// Its number within its flow, direction and class, from 0.
    pub class_index: u32,
    /// Bytes of the IP packet.
    pub length: u16,
    /// IP protocol: 6 is TCP, 17 UDP; 0 if it could not be read.
    pub protocol: u8,
    /// TCP sequence number.
    pub seq: u32,
    /// TCP acknowledgement number.
    pub ack: u32,
    /// TCP payload bytes.
    pub payload_len: u16,
    /// TCP flags, as in the header's byte 13 (RFC 9293, section 3.1).
    pub tcp_flags: u8,
    /// TCP: how many bytes from `ack` on its sender can receive, after scaling (RFC 7323, section 2.3).
    pub window_bytes: u32,
    /// When the link read it.
    pub arrived: Time,
    /// Bytes waiting in the queue when it arrived there, from all flows; with several links in a row, the most; 0
    /// without a rate.
    pub queue_bytes: u32,
    /// Time that it spent in queues and being sent at their rates.
    pub queueing: Duration,
    /// When its last bit had left the last queue; `None` without a rate, or if it did not get that far.
    pub served: Option<Time>,
    /// When it should be delivered according to the link's settings alone. `None` if it was dropped or is still in the
    /// link.
    pub planned: Option<Time>,
    /// When it was actually delivered.
    pub released: Option<Time>,
    /// Its fate.
    pub fate: Fate,
    /// Which of several links in a row dropped it, from 0 at the client; 0 for all other packets.
    pub dropped_in: u8,
    /// The queue discipline marked it (ECN, RFC 3168) instead of dropping it.
    pub is_marked: bool,
    /// One of its bits was flipped.
    pub is_corrupted: bool,
    /// It is a second copy made by the link; the packet with the same index is the first.
    pub is_copy: bool,
}

impl PacketRecord {
    /// The `hop` in records from before a path could have several links.
    pub const ONLY_LINK: u8 = 0;

    /// Converts all of its times to count from `epoch` instead of their clock's origin.
    pub fn count_from(&mut self, epoch: Time) {
        self.arrived = self.arrived.relative_to(epoch);
        let later = [&mut self.served, &mut self.planned, &mut self.released];
        for time in later.into_iter().flatten() {
            *time = time.relative_to(epoch);
        }
    }
}
