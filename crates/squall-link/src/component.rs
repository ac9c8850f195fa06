//! The contract that every part of a link keeps: packets in at their times, fates and packets out at theirs.
//!
//! A component knows nothing of its neighbours, of the clock or of the driver. Time is logical: `enter` and `wake` are
//! called in order of time, however late the driver really calls, so the machine's lateness changes no decision and does
//! not add up. The chain of components is `lane`.

use std::fmt;

use squall_base::record::{Fate, PacketRecord};
use squall_base::{Duration, Time};

use crate::flow::FlowPacket;
use crate::packet::PacketInfo;
use crate::random::PacketKey;
use crate::settings::LaneSettings;

/// A packet in the link.
#[derive(Clone, Debug)]
pub(crate) struct Packet {
    /// The IP packet.
    pub(crate) bytes: Vec<u8>,
    /// What its random draws depend on.
    pub(crate) key: PacketKey,
    /// Its record so far; the fate is "in flight" until a component drops it.
    pub(crate) record: PacketRecord,
    /// When it entered the bottleneck that it is in, or was in last.
    pub(crate) queued_at: Time,
}

impl Packet {
    /// A packet that arrived at `now`; `index` is its number in its direction.
    pub(crate) fn new(
        now: Time,
        bytes: Vec<u8>,
        info: &PacketInfo,
        of_flow: FlowPacket,
        index: u64,
    ) -> Packet {
        let key = of_flow.key;
        let record = PacketRecord {
            hop: PacketRecord::ONLY_LINK,
            index,
            direction: key.direction,
            flow: key.flow,
            client_port: of_flow.client_port,
            class: key.class,
            class_index: key.class_index,
            length: u16::try_from(bytes.len()).unwrap_or(u16::MAX),
            protocol: info.protocol,
            seq: info.seq,
            ack: info.ack,
            payload_len: info.payload_len,
            tcp_flags: info.tcp_flags,
            window_bytes: of_flow.window_bytes,
            arrived: now,
            queue_bytes: 0,
            queueing: Duration::ZERO,
            served: None,
            planned: None,
            released: None,
            fate: Fate::InFlight,
            dropped_in: 0,
            is_marked: false,
            is_corrupted: false,
            is_copy: false,
        };
        Packet {
            bytes,
            key,
            record,
            queued_at: now,
        }
    }

    /// A packet with this key; nothing else about it matters.
    #[cfg(test)]
    pub(crate) fn bare(key: PacketKey, bytes: Vec<u8>) -> Packet {
        let of_flow = FlowPacket {
            key,
            client_port: 0,
            window_bytes: 0,
        };
        let index = u64::from(key.class_index);
        Packet::new(Time::ZERO, bytes, &PacketInfo::UNREADABLE, of_flow, index)
    }

    /// Its size in bytes.
    pub(crate) fn len(&self) -> u64 {
        self.bytes.len() as u64
    }
}

/// Collects the packets that leave a component.
#[derive(Debug, Default)]
pub(crate) struct Exit {
    pub(crate) passed: Vec<Packet>,
    pub(crate) dropped: Vec<Packet>,
}

impl Exit {
    /// The packet goes on to the next component, now.
    pub(crate) fn pass(&mut self, packet: Packet) {
        self.passed.push(packet);
    }

    /// The packet ends here.
    pub(crate) fn drop(&mut self, mut packet: Packet, fate: Fate) {
        packet.record.fate = fate;
        self.dropped.push(packet);
    }
}

/// One part of a link, in one direction.
pub(crate) trait Component: fmt::Debug + Send {
    /// Takes a packet that arrives at `now`. Times never go backwards over all calls.
    fn enter(&mut self, now: Time, packet: Packet, exit: &mut Exit);

    /// When `wake` must be called next; `None` if only a packet can change anything.
    fn next_wake(&self) -> Option<Time> {
        None
    }

    /// Called at exactly the time that `next_wake` returned, in order of time.
    fn wake(&mut self, _now: Time, _exit: &mut Exit) {}

    /// Adopts its part of `settings`, from `now` on. Packets that it holds stay in the link; some may have to leave at
    /// once.
    fn adopt(&mut self, now: Time, settings: &LaneSettings, exit: &mut Exit);

    /// Makes the times of its settings count from `now`, when nothing else happens.
    fn begin(&mut self, _now: Time) {}

    /// Whether packets pass it at once and unchanged, until the next `adopt`.
    fn is_transparent(&self) -> bool;

    /// The minimum time that a packet spends in it.
    fn transit_at_least(&self) -> Duration {
        Duration::ZERO
    }

    /// Removes and returns all packets that it holds.
    fn drain(&mut self) -> Vec<Packet> {
        Vec::new()
    }
}
