//! A load over time, in constant memory: its measured phase in at most 120 intervals of equal length.
//!
//! Intervals begin short. When there would be too many, neighbours are merged, so a load of seconds and one of hours both
//! have enough to draw. Requests count when they end; those of the warm-up do not count. For the last second of a running
//! load, see `interval`.

use squall_base::record::{Phase, RequestRecord};
use squall_base::{Duration, Time};

use super::interval::{IntervalFigures, IntervalTotals};

/// The most intervals: more than a drawing of 400 pixels can distinguish well.
const INTERVALS_AT_MOST: usize = 120;

/// The first length of an interval.
const SHORTEST: Duration = Duration::from_millis(10);

/// Sums of the measured phase by interval.
#[derive(Clone, Debug)]
pub struct Timeline {
    /// When the first interval begins.
    from: Time,
    length: Duration,
    intervals: Vec<IntervalTotals>,
}

impl Timeline {
    /// A timeline that begins at `from`, the end of the warm-up.
    pub fn new(from: Time) -> Timeline {
        Timeline {
            from,
            length: SHORTEST,
            intervals: Vec::new(),
        }
    }

    /// Counts a request that has ended.
    pub fn add(&mut self, request: &RequestRecord) {
        if request.phase == Phase::Warmup {
            return;
        }
        let ended = request.end.since(self.from);
        while self.place_of(ended) >= INTERVALS_AT_MOST {
            self.merge_neighbours();
        }
        let place = self.place_of(ended);
        if self.intervals.len() <= place {
            self.intervals
                .resize_with(place + 1, IntervalTotals::default);
        }
        self.intervals[place].add(request);
    }

    fn place_of(&self, ended: Duration) -> usize {
        let place = ended.as_nanos() / self.length.as_nanos();
        usize::try_from(place).unwrap_or(usize::MAX)
    }

    fn merge_neighbours(&mut self) {
        self.length = self.length + self.length;
        let merged = self.intervals.chunks(2).map(|pair| {
            let mut both = pair[0].clone();
            pair[1..].iter().for_each(|next| both.merge(next));
            both
        });
        self.intervals = merged.collect();
    }

    /// The figures of each interval, in order. `end` is when the load was over, which may cut the last one short.
    pub fn figures(mut self, end: Time) -> Vec<IntervalFigures> {
        let measured = end.since(self.from);
        let mut begins = Duration::ZERO;
        let mut figures = Vec::with_capacity(self.intervals.len());
        for interval in &mut self.intervals {
            let rest = measured - begins;
            // Responses of the drain come after the end.
            let length = if rest.is_zero() {
                self.length
            } else {
                rest.min(self.length)
            };
            figures.push(interval.take(length));
            begins = begins + self.length;
        }
        figures
    }
}

#[cfg(test)]
mod tests {
    use squall_base::record::Outcome;

    use super::*;
    use crate::load::requests::{answered, at, failed};

    #[test]
    fn requests_count_in_the_interval_in_which_they_end() {
        let mut timeline = Timeline::new(at(1_000_000));
        timeline.add(&answered(1_000_000, 5_000));
        timeline.add(&failed(1_000_000, 25_000, Outcome::StreamReset, ""));
        timeline.add(&RequestRecord {
            phase: Phase::Warmup,
            ..answered(0, 1_000)
        });
        let figures = timeline.figures(at(1_025_000));
        let counts: Vec<(u64, u64)> = figures.iter().map(|it| (it.succeeded, it.failed)).collect();
        assert_eq!(counts, [(1, 0), (0, 0), (0, 1)]);
        assert_eq!(figures[0].length, Duration::from_millis(10));
        assert_eq!(figures[2].length, Duration::from_millis(5));
    }

    #[test]
    fn long_loads_have_as_few_intervals_as_short_ones() {
        let mut timeline = Timeline::new(at(0));
        // An hour with a request every second.
        for second in 0..3_600 {
            timeline.add(&answered(second * 1_000_000, 1_000));
        }
        let figures = timeline.figures(at(3_600_000_000));
        assert!((60..=INTERVALS_AT_MOST).contains(&figures.len()));
        assert_eq!(figures.iter().map(|it| it.succeeded).sum::<u64>(), 3_600);
        let length: f64 = figures.iter().map(|it| it.length.as_secs_f64()).sum();
        assert!((length - 3_600.0).abs() < 1e-6, "{length}");
    }
}
