//! When the body of a response arrived at the client, piece by piece, condensed to what a row can hold.
//!
//! squall-stations takes the times (`client/in_flight.rs`); docs/RECORD.md has the columns. Nothing here knows what an
//! application calls an event or a message: what counts is when bytes reached the client.

use serde::{Deserialize, Serialize};

use crate::time::{Duration, Time};

/// The arrivals of one response's body. An arrival is everything of the body that the client read in one wake-up of its
/// connection.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct BodyArrivals {
    /// How many there were; 0 without a body, and for clients that record none.
    pub count: u32,
    /// When the first bytes of the body were read.
    pub first: Option<Time>,
    /// When the last bytes that arrived were read.
    pub last: Option<Time>,
    /// The longest gap; of equal ones, the first.
    pub longest_gap: Option<Gap>,
}

/// A time without bytes between two arrivals, or from the last arrival to the end of a response that was cut off.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Gap {
    /// When the bytes before it were read.
    pub from: Time,
    /// How long no byte arrived.
    pub length: Duration,
}

/// All gaps of a trial's measured requests, from a histogram that rounds up by at most 0.1 %.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct GapFigures {
    /// How many gaps there were.
    pub count: u64,
    /// Their mean.
    pub mean: Duration,
    /// The 25th percentile.
    pub p25: Duration,
    /// The median.
    pub p50: Duration,
    /// The 75th percentile.
    pub p75: Duration,
    /// The 90th percentile.
    pub p90: Duration,
    /// The 95th percentile.
    pub p95: Duration,
    /// The 99th percentile.
    pub p99: Duration,
    /// The 99.9th percentile.
    pub p999: Duration,
    /// The longest.
    pub max: Duration,
}

impl BodyArrivals {
    /// Notes that bytes were read at `now`. They are a new arrival if `is_new`, and part of the last one otherwise.
    /// Returns the gap before them, if there is one.
    pub fn note(&mut self, now: Time, is_new: bool) -> Option<Duration> {
        let before = self.last.replace(now);
        self.first.get_or_insert(now);
        if !is_new && before.is_some() {
            return None;
        }
        self.count = self.count.saturating_add(1);
        before.map(|before| self.note_gap(before, now))
    }

    /// Notes that the response was cut off at `end`. Returns the gap since the last arrival; `None` if no byte of the body
    /// arrived.
    pub fn note_cut_off(&mut self, end: Time) -> Option<Duration> {
        self.last.map(|last| self.note_gap(last, end))
    }

    fn note_gap(&mut self, from: Time, to: Time) -> Duration {
        let length = to.since(from);
        if self
            .longest_gap
            .is_none_or(|longest| length > longest.length)
        {
            self.longest_gap = Some(Gap { from, length });
        }
        length
    }

    /// The same arrivals, counted from `epoch`.
    #[must_use]
    pub fn relative_to(self, epoch: Time) -> BodyArrivals {
        let from_epoch = |time: Time| time.relative_to(epoch);
        BodyArrivals {
            count: self.count,
            first: self.first.map(from_epoch),
            last: self.last.map(from_epoch),
            longest_gap: self.longest_gap.map(|gap| Gap {
                from: from_epoch(gap.from),
                ..gap
            }),
        }
    }
}

impl Gap {
    /// When bytes arrived again, or the response was cut off.
    pub fn to(self) -> Time {
        self.from + self.length
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(ms: u64) -> Time {
        Time::from_nanos(ms * 1_000_000)
    }

    #[test]
    fn bytes_of_one_wake_up_are_one_arrival_and_gaps_are_silent_times() {
        let ms = Duration::from_millis;
        let mut arrivals = BodyArrivals::default();
        // Even if the first bytes of a body come late in a wake-up, they are an arrival.
        assert_eq!(arrivals.note(at(10), false), None);
        assert_eq!(arrivals.note(at(12), false), None);
        assert_eq!(arrivals.note(at(42), true), Some(ms(30)));
        assert_eq!(arrivals.note(at(62), true), Some(ms(20)));
        assert_eq!(arrivals.note(at(92), true), Some(ms(30)));
        assert_eq!(arrivals.count, 4);
        assert_eq!(
            (arrivals.first, arrivals.last),
            (Some(at(10)), Some(at(92)))
        );
        let longest = Gap {
            from: at(12),
            length: ms(30),
        };
        assert_eq!(arrivals.longest_gap, Some(longest));
        assert_eq!(longest.to(), at(42));
    }

    #[test]
    fn response_that_was_cut_off_has_a_gap_up_to_its_end() {
        let mut arrivals = BodyArrivals::default();
        assert_eq!(arrivals.note_cut_off(at(50)), None);
        arrivals.note(at(60), true);
        let rest = Duration::from_millis(940);
        assert_eq!(arrivals.note_cut_off(at(1_000)), Some(rest));
        let longest = arrivals.longest_gap.expect("a gap");
        assert_eq!((longest.from, longest.length), (at(60), rest));
        assert_eq!(arrivals.count, 1);
        let relative = arrivals.relative_to(at(10));
        assert_eq!(relative.first, Some(at(50)));
        assert_eq!(relative.longest_gap.map(|gap| gap.from), Some(at(50)));
    }
}
