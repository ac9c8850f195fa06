//! What the path would have done with a packet that was lost: when it would have left the queue, and arrived.
//!
//! Of a dropped packet the record has no times after its arrival at the link. The configured delay is that of the
//! packet before it which was delivered; the queue is free when the last packet before it was served.

use squall_base::record::{Direction, PacketRecord};

/// A value that holds from a moment on.
type Since = Vec<(u64, u64)>;

/// Both directions of the link as delivered packets met it.
#[derive(Debug, Default)]
pub(super) struct Path {
    directions: [OneWay; 2],
}

#[derive(Debug, Default)]
struct OneWay {
    /// The configured delay from the arrival of a packet on; only where it changes.
    delays: Since,
    /// When the packet that arrived then was served, if there is a rate.
    served: Since,
}

/// How long a packet would have waited, and when it would have been delivered.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Expected {
    pub(super) queueing: u64,
    pub(super) due: u64,
}

impl Path {
    /// Takes a packet, in any order.
    pub(super) fn add(&mut self, packet: &PacketRecord) {
        let Some(planned) = packet.planned else {
            return;
        };
        let way = &mut self.directions[packet.direction as usize];
        let arrived = packet.arrived.as_nanos();
        let delay = planned
            .since(packet.arrived)
            .as_nanos()
            .saturating_sub(packet.queueing.as_nanos());
        if way.delays.last().is_none_or(|last| last.1 != delay) {
            way.delays.push((arrived, delay));
        }
        if let Some(served) = packet.served {
            way.served.push((arrived, served.as_nanos()));
        }
    }

    /// After the last packet.
    pub(super) fn sort(&mut self) {
        for way in &mut self.directions {
            way.delays.sort_unstable();
            way.served.sort_unstable();
        }
    }

    /// What a packet that reached the link at `sent` would have met. A direction that delivered nothing tells nothing:
    /// then it would have been there at once.
    pub(super) fn expected(&self, direction: Direction, sent: u64) -> Expected {
        let way = &self.directions[direction as usize];
        let delay = before(&way.delays, sent)
            .or(way.delays.first().copied())
            .map_or(0, |(_, delay)| delay);
        let free = before(&way.served, sent).map_or(0, |(_, served)| served);
        let queueing = free.saturating_sub(sent);
        Expected {
            queueing,
            due: sent.saturating_add(queueing).saturating_add(delay),
        }
    }
}

/// The last entry at or before `time`.
fn before(since: &Since, time: u64) -> Option<(u64, u64)> {
    let after = since.partition_point(|(from, _)| *from <= time);
    since[..after].last().copied()
}
