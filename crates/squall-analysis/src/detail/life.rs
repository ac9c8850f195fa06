//! What a side of a connection recorded over the connection's whole life: for each interval, the smallest windows and the
//! last sample.
//!
//! A connection can carry all requests of a trial, so rows are not kept but condensed as they come. `rows` keeps those of the
//! chosen requests' own time.

use std::collections::BTreeMap;

use squall_base::{Duration, Time};

use super::sender::{SenderRows, SenderSample, WindowLevel};
use crate::causes::TraceWindow;
use crate::thinned::Thinned;

/// The number of intervals of a life.
const INTERVALS: u64 = 240;

/// One side's rows.
#[derive(Debug)]
pub(super) struct LifeRows {
    from: Time,
    to: Time,
    interval: Duration,
    intervals: BTreeMap<u64, Interval>,
}

/// What is kept of an interval.
#[derive(Debug, Default)]
struct Interval {
    connection: Option<WindowLevel>,
    /// The smallest window of any stream.
    stream: Option<WindowLevel>,
    sample: Option<SenderSample>,
}

impl LifeRows {
    /// The rows of this life, none so far.
    pub(super) fn of(life: &TraceWindow) -> LifeRows {
        let length = life.to.since(life.from).as_nanos();
        LifeRows {
            from: life.from,
            to: life.to,
            interval: Duration::from_nanos(length.div_ceil(INTERVALS).max(1)),
            intervals: BTreeMap::new(),
        }
    }

    /// The interval of a moment of the life.
    fn interval(&mut self, at: Time) -> Option<&mut Interval> {
        if !(self.from..=self.to).contains(&at) {
            return None;
        }
        let place = at.since(self.from).as_nanos() / self.interval.as_nanos();
        Some(self.intervals.entry(place).or_default())
    }

    pub(super) fn add_level(&mut self, level: WindowLevel) {
        let Some(interval) = self.interval(level.at) else {
            return;
        };
        let least = match level.stream {
            None => &mut interval.connection,
            Some(_) => &mut interval.stream,
        };
        if least.is_none_or(|before| level.bytes < before.bytes) {
            *least = Some(level);
        }
    }

    pub(super) fn add_sample(&mut self, sample: SenderSample) {
        if let Some(interval) = self.interval(sample.at) {
            interval.sample = Some(sample);
        }
    }

    /// What was kept, in the order of time.
    pub(super) fn rows(&self) -> SenderRows {
        let intervals = || self.intervals.values();
        let levels = intervals().flat_map(|it| [it.connection, it.stream]);
        let mut levels: Vec<WindowLevel> = levels.flatten().collect();
        levels.sort_by_key(|level| level.at);
        let samples: Vec<SenderSample> = intervals().filter_map(|it| it.sample).collect();
        SenderRows {
            levels: whole(levels),
            samples: whole(samples),
        }
    }
}

fn whole<T>(entries: Vec<T>) -> Thinned<T> {
    Thinned {
        all: entries.len() as u64,
        kept: entries,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(millis: u64) -> Time {
        Time::from_nanos(millis * 1_000_000)
    }

    /// Without rows, from 1000 to 3400 ms: an interval is 10 ms long.
    fn life() -> LifeRows {
        LifeRows::of(&TraceWindow {
            from: at(1_000),
            to: at(3_400),
            requests: Vec::new(),
            directions: Default::default(),
        })
    }

    #[test]
    fn least_windows_and_last_sample_of_each_interval_are_kept() {
        let mut rows = life();
        let level = |millis, stream, bytes| WindowLevel {
            at: at(millis),
            stream,
            bytes,
        };
        let sample = |millis, cwnd| SenderSample {
            at: at(millis),
            cwnd_bytes: Some(cwnd),
            rtt: None,
        };
        let levels = [
            level(1_001, None, 70),
            level(1_002, Some(1), 40),
            level(1_004, Some(3), 0),
            level(1_005, None, 60),
            level(1_009, Some(1), 30),
            level(1_010, Some(1), 50),
        ];
        for level in levels {
            rows.add_level(level);
        }
        for (millis, cwnd) in [(1_001, 10), (1_009, 20), (3_400, 30)] {
            rows.add_sample(sample(millis, cwnd));
        }
        let found = rows.rows();
        let expected = [
            level(1_004, Some(3), 0),
            level(1_005, None, 60),
            level(1_010, Some(1), 50),
        ];
        assert_eq!(found.levels.kept, expected);
        assert_eq!(found.levels.all, 3);
        assert_eq!(found.samples.kept, [sample(1_009, 20), sample(3_400, 30)]);
    }

    #[test]
    fn rows_outside_the_life_are_left_out_and_the_others_are_condensed() {
        let mut rows = life();
        for millis in 0..10_000 {
            rows.add_level(WindowLevel {
                at: at(millis),
                stream: None,
                bytes: 1,
            });
        }
        let found = rows.rows();
        let kept = found.levels.kept.len();
        assert!((240..=241).contains(&kept), "{kept}");
        assert_eq!(found.levels.kept[0].at, at(1_000));
    }
}
