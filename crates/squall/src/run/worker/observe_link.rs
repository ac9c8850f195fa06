//! The packets of a trial's link, as the link's thread hands them over: put in order, shown to the observer of the
//! link's hop, and written to a capture.
//!
//! A packet is handed over when its fate is final. Packets of each direction are numbered by arrival, so it is known
//! which are still in flight. Only packets behind one that the link still holds have to wait, unless one direction is
//! silent.

use std::collections::BTreeMap;
use std::sync::mpsc::Receiver;

use anyhow::Result;
use squall_base::record::Direction;
use squall_base::{Duration, Time};
use squall_link::LinkSettings;
use squall_linux::link_thread::{LinkBeginning, RecordedPacket};
use squall_linux::scheduling;
use squall_observe::ReorderBuffer;
use squall_record::{CapturedPacket, PcapngFile};

use super::observe_hop::HopObserver;
use super::watched::ObserverReport;
use crate::link::comment;

/// If the link holds a packet for longer than this while others arrive, the others no longer wait for it.
const HELD_AT_MOST: Duration = Duration::from_secs(10);

/// A capture being written.
pub(super) struct LinkCapture {
    pub(super) file: PcapngFile,
    pub(super) settings: LinkSettings,
    /// The origin of its times.
    pub(super) beginning: LinkBeginning,
}

/// Reads the link's packets until the channel closes.
pub(super) fn read_link(
    chunks: &Receiver<Vec<RecordedPacket>>,
    mut hop: Option<HopObserver>,
    mut capture: Option<LinkCapture>,
) -> Result<ObserverReport> {
    scheduling::make_background();
    let mut order = ReorderBuffer::default();
    let mut arrivals = ArrivalTracker::default();
    for chunk in chunks {
        for RecordedPacket { record, .. } in chunk.iter().filter(|packet| !packet.record.is_copy) {
            arrivals.note(record.direction, record.index, record.arrived);
        }
        let complete = arrivals.complete_until();
        if let Some(hop) = &mut hop {
            hop.take_inputs();
            for packet in &chunk {
                if let Some(direction) = hop.direction(&packet.bytes) {
                    let RecordedPacket { record, bytes } = packet;
                    order.push(record.arrived, record.released, direction, bytes.clone());
                }
            }
            order.deliver_until(complete, |packet| hop.observe(packet));
        }
        if let Some(capture) = &mut capture {
            capture.append(chunk, complete)?;
        }
    }
    if let Some(capture) = capture {
        capture.file.finish()?;
    }
    let Some(mut hop) = hop else {
        return Ok(ObserverReport::Nothing);
    };
    order.finish(|packet| hop.observe(packet));
    Ok(ObserverReport::Packets(hop.finish()))
}

impl LinkCapture {
    fn append(&mut self, chunk: Vec<RecordedPacket>, complete: Time) -> Result<()> {
        let packets = chunk.into_iter().map(|seen| CapturedPacket {
            comment: comment::of(&seen.record, &self.settings, self.beginning.get()),
            record: seen.record,
            bytes: seen.bytes,
        });
        Ok(self.file.append(packets.collect(), complete)?)
    }
}

/// Up to which arrival time all packets have been handed over.
#[derive(Debug, Default)]
struct ArrivalTracker {
    directions: [DirectionArrivals; 2],
    newest: Time,
}

/// The packets of one direction.
#[derive(Debug, Default)]
struct DirectionArrivals {
    /// The lowest number not yet handed over.
    next: u64,
    /// The arrival time of the packet before it.
    last: Time,
    /// Packets with higher numbers that were handed over already.
    ahead: BTreeMap<u64, Time>,
}

impl ArrivalTracker {
    /// Notes that the packet of this number was handed over.
    fn note(&mut self, direction: Direction, index: u64, arrived: Time) {
        self.newest = self.newest.max(arrived);
        let numbered = &mut self.directions[direction as usize];
        numbered.ahead.insert(index, arrived);
        while let Some(arrived) = numbered.ahead.remove(&numbered.next) {
            numbered.next += 1;
            numbered.last = arrived;
        }
    }

    /// All packets that arrived before this time have been handed over, except after a long silence of one direction.
    fn complete_until(&self) -> Time {
        let [up, down] = &self.directions;
        let late = self
            .newest
            .as_nanos()
            .saturating_sub(HELD_AT_MOST.as_nanos());
        up.last.min(down.last).max(Time::from_nanos(late))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn missing_packets_are_awaited_but_not_forever() {
        let mut arrivals = ArrivalTracker::default();
        let ms = |ms| Time::ZERO + Duration::from_millis(ms);
        arrivals.note(Direction::Up, 0, ms(5));
        assert_eq!(arrivals.complete_until(), ms(0));
        arrivals.note(Direction::Down, 1, ms(20));
        arrivals.note(Direction::Up, 1, ms(30));
        assert_eq!(arrivals.complete_until(), ms(0));
        arrivals.note(Direction::Down, 0, ms(10));
        assert_eq!(arrivals.complete_until(), ms(20));
        arrivals.note(Direction::Up, 3, ms(15_000));
        assert_eq!(arrivals.complete_until(), ms(5_000));
    }
}
