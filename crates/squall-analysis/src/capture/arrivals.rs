//! When the bytes of a stream were there in order, at the end that received them.
//!
//! Of rows in any order; bytes that never came stop it.

use squall_base::Time;

/// Bytes of one direction of a connection, or of a stream, by their arrival.
#[derive(Clone, Debug, Default)]
pub(super) struct Arrivals {
    /// When, start, end.
    came: Vec<(Time, u64, u64)>,
    /// Before which byte all was there when; rising.
    fronts: Vec<(u64, Time)>,
}

impl Arrivals {
    pub(super) fn add(&mut self, start: u64, end: u64, time: Time) {
        self.came.push((time, start, end));
    }

    /// After the last one: works out what was there when.
    pub(super) fn settle(&mut self) {
        let mut came = std::mem::take(&mut self.came);
        came.sort_unstable();
        let mut waiting = std::collections::BTreeMap::new();
        let mut front = 0;
        for (time, start, end) in came {
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

    /// When all bytes before `end` were there.
    pub(super) fn there(&self, end: u64) -> Option<Time> {
        let place = self.fronts.partition_point(|(front, _)| *front < end);
        self.fronts.get(place).map(|(_, time)| *time)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bytes_are_there_with_the_last_before_them() {
        let at = Time::from_nanos;
        let mut arrivals = Arrivals::default();
        arrivals.add(10, 20, at(5));
        arrivals.add(0, 10, at(9));
        arrivals.add(30, 40, at(7));
        arrivals.settle();
        assert_eq!(arrivals.there(1), Some(at(9)));
        assert_eq!(arrivals.there(20), Some(at(9)));
        assert_eq!(arrivals.there(21), None, "it never came");
    }
}
