//! The link itself: both directions, from arrival to release.
//!
//! The driver's part is small on purpose: offer what it read, release what is due, and add to a
//! released packet's record when it was really written and whether the kernel took it.

use squall_base::record::{Direction, Fate, PacketRecord};
use squall_base::{Duration, Probability, Time};

use crate::delay::DelayLine;
use crate::flow::Flows;
use crate::loss::IndependentLoss;
use crate::packet::PacketInfo;

/// What the link does to packets; the same in both directions.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct LinkSettings {
    /// One-way delay.
    pub delay: Duration,
    /// Probability of each packet's loss.
    pub loss: Probability,
    /// Seed of all randomness.
    pub seed: u64,
}

/// What became of an offered packet.
#[derive(Debug)]
pub enum Offer {
    /// It will be released at its time.
    Queued,
    /// It is lost: its record is final, its buffer free for the next packet.
    Dropped {
        /// The record.
        record: PacketRecord,
        /// The buffer.
        buffer: Vec<u8>,
    },
}

/// A packet that is due.
#[derive(Debug)]
pub struct Release {
    /// The IP packet.
    pub packet: Vec<u8>,
    /// Its record, with `planned` set. `released` and `fate` are the driver's to correct: as it stands
    /// here, it says that the packet is still in flight.
    pub record: PacketRecord,
}

#[derive(Debug)]
struct Lane {
    arrivals: u64,
    line: DelayLine<Release>,
}

/// Two lanes that share their flows.
#[derive(Debug)]
pub struct Link {
    loss: IndependentLoss,
    flows: Flows,
    lanes: [Lane; 2],
}

impl Link {
    /// An empty link.
    pub fn new(settings: LinkSettings) -> Link {
        let lane = || Lane {
            arrivals: 0,
            line: DelayLine::new(settings.delay),
        };
        Link {
            loss: IndependentLoss::new(settings.loss, settings.seed),
            flows: Flows::default(),
            lanes: [lane(), lane()],
        }
    }

    /// Takes a packet that came at `now`. In each direction, `now` must not go backwards.
    pub fn offer(&mut self, now: Time, direction: Direction, packet: Vec<u8>) -> Offer {
        let info = PacketInfo::of(&packet);
        let (key, client_port) = self.flows.count(direction, &info);
        let lane = &mut self.lanes[direction as usize];
        let mut record = PacketRecord {
            index: lane.arrivals,
            direction,
            flow: key.flow,
            client_port,
            class: key.class,
            class_index: key.class_index,
            length: u16::try_from(packet.len()).unwrap_or(u16::MAX),
            seq: info.seq,
            ack: info.ack,
            payload_len: info.payload_len,
            tcp_flags: info.tcp_flags,
            arrived: now,
            planned: None,
            released: None,
            fate: Fate::LossDrop,
        };
        lane.arrivals += 1;
        if self.loss.loses(key) {
            return Offer::Dropped {
                record,
                buffer: packet,
            };
        }
        record.planned = Some(lane.line.due(now));
        record.fate = Fate::InFlight;
        lane.line.push(now, Release { packet, record });
        Offer::Queued
    }

    /// When the next packet of either direction is due.
    pub fn next_release(&self) -> Option<Time> {
        self.lanes
            .iter()
            .filter_map(|lane| lane.line.next_due())
            .min()
    }

    /// The packet that is due first, if it is due at `now`. Call until `None`.
    pub fn release(&mut self, now: Time) -> Option<Release> {
        let lane = self
            .lanes
            .iter_mut()
            .min_by_key(|lane| lane.line.next_due().map_or(u64::MAX, Time::as_nanos))?;
        lane.line.pop(now)
    }

    /// The records of everything still on its way, for the end of a trial.
    pub fn abandon(&mut self) -> impl Iterator<Item = PacketRecord> + '_ {
        self.lanes
            .iter_mut()
            .flat_map(|lane| lane.line.drain().map(|release| release.record))
    }
}
