//! What the path would have done with a packet that was lost: when it would have left the queue, and arrived.
//!
//! For a dropped packet the record has no times after its arrival at the link. Its configured delay is taken from the
//! delivered packet before it, and the queue counts as free when the last packet before it was served.

use std::collections::BTreeMap;

use super::columns::PacketCells;
use super::search::up_to;
use super::stream::Transmission;
use super::walk::NEVER;

/// Both directions of the link, as delivered packets show them.
#[derive(Debug, Default)]
pub(super) struct Path {
    directions: [DirectionPath; 2],
}

#[derive(Debug, Default)]
struct DirectionPath {
    /// The configured delay, from the arrival of a packet on; only where it changes.
    delays: Vec<(u64, u64)>,
    /// When each packet was served, by its arrival, if there is a rate.
    served: ServiceTimes,
}

/// When packets arrived and when they were served: in twelve bytes each, and in parts that are never moved, because there
/// are millions.
#[derive(Debug, Default)]
struct ServiceTimes {
    parts: Vec<ServiceChunk>,
    /// The arrival of every [`STEP`]th packet: few enough to stay cached while they are searched.
    steps: Vec<u64>,
    last: (u64, u64),
    is_out_of_order: bool,
}

#[derive(Debug)]
struct ServiceChunk {
    arrived: Vec<u64>,
    /// How long each packet took to be served; [`LONG`] if it took that long or longer.
    took: Vec<u32>,
    /// Those longer times, by position.
    long: BTreeMap<usize, u64>,
}

const PART_ROWS: usize = 32 * 1024;
/// Packets per step; a part has a whole number of steps.
const STEP: usize = 64;
const LONG: u32 = u32::MAX;

impl ServiceTimes {
    fn push(&mut self, arrived: u64, served: u64) {
        self.is_out_of_order |= (arrived, served) < self.last;
        self.last = (arrived, served);
        if self
            .parts
            .last()
            .is_none_or(|part| part.arrived.len() == PART_ROWS)
        {
            self.parts.push(ServiceChunk::new());
        }
        if let Some(part) = self.parts.last_mut() {
            let took = served.wrapping_sub(arrived);
            let short = u32::try_from(took).unwrap_or(LONG);
            if short == LONG {
                part.long.insert(part.arrived.len(), took);
            }
            if part.arrived.len() % STEP == 0 {
                self.steps.push(arrived);
            }
            part.arrived.push(arrived);
            part.took.push(short);
        }
    }

    fn sort(&mut self) {
        if !self.is_out_of_order {
            return;
        }
        let parts = std::mem::take(self).parts;
        let all = parts
            .iter()
            .flat_map(|part| (0..part.arrived.len()).map(|n| part.row(n)));
        let mut all: Vec<(u64, u64)> = all.collect();
        drop(parts);
        all.sort_unstable();
        all.into_iter()
            .for_each(|(arrived, served)| self.push(arrived, served));
    }

    /// When the last packet that arrived at or before `time` was served.
    fn before(&self, time: u64) -> Option<u64> {
        let begun = up_to(&self.steps, time, |arrived| *arrived);
        let first = begun.checked_sub(1)? * STEP;
        let part = &self.parts[first / PART_ROWS];
        let near = first % PART_ROWS;
        let step = part.arrived[near..].iter().take(STEP);
        let within = step.take_while(|arrived| **arrived <= time).count();
        Some(part.row(near + within - 1).1)
    }
}

impl ServiceChunk {
    fn new() -> ServiceChunk {
        ServiceChunk {
            arrived: Vec::with_capacity(PART_ROWS),
            took: Vec::with_capacity(PART_ROWS),
            long: BTreeMap::new(),
        }
    }

    fn row(&self, place: usize) -> (u64, u64) {
        let arrived = self.arrived[place];
        let took = match self.took[place] {
            LONG => self.long.get(&place).copied().unwrap_or(0),
            took => u64::from(took),
        };
        (arrived, arrived.wrapping_add(took))
    }
}

impl Path {
    /// Takes a packet, in any order.
    pub(super) fn add(&mut self, packet: &PacketCells) {
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
            way.served.push(arrived, served.as_nanos());
        }
    }

    /// To be called after the last packet.
    pub(super) fn sort(&mut self) {
        for way in &mut self.directions {
            way.delays.sort_unstable();
            way.served.sort();
        }
    }

    /// If a transmission was dropped before it was due, gives it the times that it would have had.
    #[inline]
    pub(super) fn fill_in(&self, tx: &mut Transmission) {
        if tx.due == NEVER {
            self.set_expected(tx);
        }
    }

    /// Sets the times that a transmission would have had. If its direction delivered nothing, it would have arrived
    /// immediately.
    fn set_expected(&self, tx: &mut Transmission) {
        let way = &self.directions[tx.packet.direction as usize];
        let delay = before(&way.delays, tx.sent)
            .or(way.delays.first().copied())
            .map_or(0, |(_, delay)| delay);
        let free = way.served.before(tx.sent).unwrap_or(0);
        tx.queueing = free.saturating_sub(tx.sent);
        tx.due = tx.sent.saturating_add(tx.queueing).saturating_add(delay);
    }
}

/// The last entry at or before `time`.
fn before(since: &[(u64, u64)], time: u64) -> Option<(u64, u64)> {
    let after = since.partition_point(|(from, _)| *from <= time);
    since[..after].last().copied()
}

#[cfg(test)]
mod tests {
    use squall_base::splitmix::splitmix64;

    use super::*;

    #[test]
    fn service_times_are_found_whatever_the_order_of_packets() {
        let row = |n: u64| {
            let arrived = n * 1_000 + splitmix64(1, n) % 400;
            let took = match splitmix64(2, n) % 9 {
                0 => u64::from(LONG) - splitmix64(3, n) % 3,
                1 => u64::from(LONG) + splitmix64(4, n) % 1_000,
                _ => splitmix64(5, n) % 100_000,
            };
            (arrived, arrived + took)
        };
        let in_order: Vec<(u64, u64)> = (0..100_000).map(row).collect();
        let mut mixed = in_order.clone();
        mixed.sort_by_key(|(arrived, _)| splitmix64(6, *arrived));
        for rows in [&in_order, &mixed] {
            let mut served = ServiceTimes::default();
            rows.iter()
                .for_each(|(arrived, it)| served.push(*arrived, *it));
            served.sort();
            assert!(served.parts.len() > 3);
            assert_eq!(served.before(in_order[0].0 - 1), None);
            for time in (0..101_000_000).step_by(777) {
                let expected = before(&in_order, time).map(|(_, served)| served);
                assert_eq!(served.before(time), expected);
            }
        }
    }
}
