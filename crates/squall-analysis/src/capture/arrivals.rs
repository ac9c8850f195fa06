//! When the bytes of a stream were complete and in order at their receiver.
//!
//! Rows may come in any order. Bytes after a gap that was never filled do not count as complete.

use squall_base::Time;
use squall_base::record::Direction;

/// Names one direction of a TCP connection, or of a QUIC stream: connection, stream, direction.
pub(super) type StreamKey = (u32, Option<u64>, Direction);

/// Bytes of one direction of a connection, or of a stream, with their arrival times.
#[derive(Clone, Debug, Default)]
pub(super) struct Arrivals {
    /// Time, start, end.
    ranges: Vec<(Time, u64, u64)>,
    /// Up to which byte everything had arrived, and when; ascending.
    fronts: Vec<(u64, Time)>,
}

impl Arrivals {
    pub(super) fn add(&mut self, start: u64, end: u64, time: Time) {
        self.ranges.push((time, start, end));
    }

    /// To be called after the last row: computes when everything had arrived.
    pub(super) fn compute_fronts(&mut self) {
        let mut ranges = std::mem::take(&mut self.ranges);
        ranges.sort_unstable();
        let mut waiting = std::collections::BTreeMap::new();
        let mut front = 0;
        for (time, start, end) in ranges {
            let longest: &mut u64 = waiting.entry(start).or_default();
            *longest = end.max(*longest);
            let before = front;
            while let Some(first) = waiting.first_entry()
                && *first.key() <= front
            {
                front = first.remove().max(front);
            }
            if front > before {
                self.fronts.push((front, time));
            }
        }
    }

    /// When all bytes before `end` had arrived.
    pub(super) fn complete_at(&self, end: u64) -> Option<Time> {
        let place = self.fronts.partition_point(|(front, _)| *front < end);
        self.fronts.get(place).map(|(_, time)| *time)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bytes_are_complete_once_all_bytes_before_them_have_arrived() {
        let at = Time::from_nanos;
        let mut arrivals = Arrivals::default();
        arrivals.add(10, 20, at(5));
        arrivals.add(0, 10, at(9));
        arrivals.add(30, 40, at(7));
        arrivals.compute_fronts();
        assert_eq!(arrivals.complete_at(1), Some(at(9)));
        assert_eq!(arrivals.complete_at(20), Some(at(9)));
        assert_eq!(arrivals.complete_at(21), None, "it never came");
    }
}
