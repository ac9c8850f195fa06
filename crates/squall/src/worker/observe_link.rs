//! The packets of a trial's link, as the link's thread hands them over: put in order, shown to who reads along with the
//! link's hop, and written to a capture.
//!
//! A packet comes when its fate is final. Packets of a direction are numbered by arrival, so it is known which are still
//! under way: what waits is what the link itself holds, unless one direction is silent.

use std::collections::BTreeMap;
use std::sync::mpsc::Receiver;

use anyhow::Result;
use squall_base::record::Direction;
use squall_base::{Duration, Time};
use squall_link::LinkSettings;
use squall_linux::link_thread::{LinkBeginning, SeenPacket};
use squall_linux::scheduling;
use squall_observe::InArrivalOrder;
use squall_record::{Captured, PcapngFile};

use super::observe::Found;
use super::observe_hop::HopObserver;
use crate::link::comment;

/// A packet that is in the link for longer than this, while others come, is taken out of order.
const HELD_AT_MOST: Duration = Duration::from_secs(10);

/// A capture that is being written.
pub(super) struct LinkCapture {
    pub(super) file: PcapngFile,
    pub(super) settings: LinkSettings,
    /// When its times begin to count.
    pub(super) beginning: LinkBeginning,
}

/// Reads the link's packets until there are no more.
pub(super) fn read_link(
    chunks: &Receiver<Vec<SeenPacket>>,
    mut hop: Option<HopObserver>,
    mut capture: Option<LinkCapture>,
) -> Result<Found> {
    scheduling::make_background();
    let mut order = InArrivalOrder::default();
    let mut progress = Progress::default();
    for chunk in chunks {
        for SeenPacket { record, .. } in chunk.iter().filter(|packet| !packet.record.is_copy) {
            progress.note(record.direction, record.index, record.arrived);
        }
        let complete = progress.complete_until();
        if let Some(hop) = &mut hop {
            hop.take_news();
            for packet in &chunk {
                if let Some(direction) = hop.direction(&packet.bytes) {
                    let SeenPacket { record, bytes } = packet;
                    order.push(record.arrived, record.released, direction, bytes.clone());
                }
            }
            order.hand_on(complete, |packet| hop.see(packet));
        }
        if let Some(capture) = &mut capture {
            capture.append(chunk, complete)?;
        }
    }
    if let Some(capture) = capture {
        capture.file.finish()?;
    }
    let Some(mut hop) = hop else {
        return Ok(Found::Nothing);
    };
    order.finish(|packet| hop.see(packet));
    Ok(Found::Packets(hop.finish()))
}

impl LinkCapture {
    fn append(&mut self, chunk: Vec<SeenPacket>, complete: Time) -> Result<()> {
        let packets = chunk.into_iter().map(|seen| Captured {
            comment: comment::of(&seen.record, &self.settings, self.beginning.get()),
            record: seen.record,
            bytes: seen.bytes,
        });
        Ok(self.file.append(packets.collect(), complete)?)
    }
}

/// How far all packets have come, in the order of their arrival.
#[derive(Debug, Default)]
struct Progress {
    directions: [Numbered; 2],
    newest: Time,
}

/// Packets of a direction.
#[derive(Debug, Default)]
struct Numbered {
    /// The lowest number that has not come.
    next: u64,
    /// When the one before it arrived.
    last: Time,
    /// Those that have come beyond it.
    ahead: BTreeMap<u64, Time>,
}

impl Progress {
    /// The packet of this number has come.
    fn note(&mut self, direction: Direction, index: u64, arrived: Time) {
        self.newest = self.newest.max(arrived);
        let numbered = &mut self.directions[direction as usize];
        numbered.ahead.insert(index, arrived);
        while let Some(arrived) = numbered.ahead.remove(&numbered.next) {
            numbered.next += 1;
            numbered.last = arrived;
        }
    }

    /// Before this no packet can follow that arrived, but in a direction that was silent for long.
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
    fn what_is_missing_in_either_direction_is_waited_for_but_not_for_ever() {
        let mut progress = Progress::default();
        let ms = |ms| Time::ZERO + Duration::from_millis(ms);
        progress.note(Direction::Up, 0, ms(5));
        assert_eq!(progress.complete_until(), ms(0));
        progress.note(Direction::Down, 1, ms(20));
        progress.note(Direction::Up, 1, ms(30));
        assert_eq!(progress.complete_until(), ms(0));
        progress.note(Direction::Down, 0, ms(10));
        assert_eq!(progress.complete_until(), ms(20));
        progress.note(Direction::Up, 3, ms(15_000));
        assert_eq!(progress.complete_until(), ms(5_000));
    }
}
