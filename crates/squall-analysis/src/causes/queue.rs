//! What the requests in a queue waited for: the causes of the requests that held the connections and streams meanwhile.
//!
//! A request without a free connection or stream waits until others are done, so it waits for whatever they wait for. An
//! exchange has a place on a hop while it has a connection or stream there. The trial's time is cut into equal slices.
//! For each slice, the time that the exchanges with a place spent on each cause is added up. A wait in the queue gets the
//! shares of its slices. If an exchange itself waits in a queue of the next hop, that time counts as what that queue
//! waited for, so hops are processed from the last to the first. The cost is linear in the exchanges and slices. `hops`
//! and the parent module know which request waits in which queue.

use squall_base::Duration;
use squall_base::record::{Cause, CauseSpans};

use super::walk::Span;

/// Shorter waits are the ordinary turns of the client's event loop, not a queue.
pub(super) const WAIT_AT_LEAST: u64 = 1_000_000;

/// The shortest slice: its length bounds the error in what a queue waited for, and an error of a millisecond is never
/// visible.
const SLICE_AT_LEAST: u64 = 1_000_000;
/// The most slices, so that the memory for long trials is bounded (18 MB).
const SLICES_AT_MOST: u64 = 1 << 16;

const CAUSES: usize = Cause::ALL.len();

/// How a trial's time is cut into slices.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Slices {
    begin: u64,
    length: u64,
    count: usize,
}

impl Slices {
    pub(super) fn of(span: Span) -> Slices {
        let all = span.to.saturating_sub(span.from).max(1);
        let length = all.div_ceil(SLICES_AT_MOST).max(SLICE_AT_LEAST);
        Slices {
            begin: span.from,
            length,
            count: all.div_ceil(length) as usize,
        }
    }

    /// The slice of a moment, and how much of it has passed by then. Moments outside of the trial count as its edges.
    fn at(&self, time: u64) -> (usize, u64) {
        let passed = time.saturating_sub(self.begin);
        let slice = passed / self.length;
        if slice < self.count as u64 {
            (slice as usize, passed % self.length)
        } else {
            (self.count - 1, self.length)
        }
    }
}

/// The time that exchanges with a place on a hop spent on each cause, by slice.
#[derive(Debug)]
pub(super) struct Occupancy {
    slices: Slices,
    /// How the number of exchanges that spend all of a slice on a cause changes from the slice before.
    steps: Vec<[i32; CAUSES]>,
    /// The time of exchanges that spend a part of a slice on a cause.
    parts: Vec<[u64; CAUSES]>,
}

impl Occupancy {
    pub(super) fn new(slices: Slices) -> Occupancy {
        Occupancy {
            slices,
            steps: vec![[0; CAUSES]; slices.count + 1],
            parts: vec![[0; CAUSES]; slices.count],
        }
    }

    /// Adds an exchange with a place that spent `span` on `cause`.
    pub(super) fn add(&mut self, span: Span, cause: Cause) {
        if span.from >= span.to {
            return;
        }
        let (first, from) = self.slices.at(span.from);
        let (last, to) = self.slices.at(span.to);
        let cause = cause as usize;
        if first == last {
            self.parts[first][cause] += to - from;
            return;
        }
        self.parts[first][cause] += self.slices.length - from;
        self.parts[last][cause] += to;
        self.steps[first + 1][cause] += 1;
        self.steps[last][cause] -= 1;
    }

    /// The share of each cause. `behind` has the shares of the next hop's queue, which replace the time spent in it.
    pub(super) fn shares(&self, behind: Option<&QueueShares>) -> QueueShares {
        let mut sums = Vec::with_capacity(self.slices.count + 1);
        let mut sum = [0.0; CAUSES];
        let mut full = [0_i64; CAUSES];
        sums.push(sum);
        let length = self.slices.length as f64;
        for slice in 0..self.slices.count {
            let mut time = [0.0; CAUSES];
            for cause in 0..CAUSES {
                full[cause] += i64::from(self.steps[slice][cause]);
                time[cause] = full[cause] as f64 * length + self.parts[slice][cause] as f64;
            }
            if let Some(behind) = behind {
                let queued = std::mem::take(&mut time[Cause::Queue as usize]);
                let of_slice = behind.of_slice(slice);
                for cause in 0..CAUSES {
                    time[cause] += queued * of_slice[cause];
                }
            }
            let all: f64 = time.iter().sum();
            for cause in 0..CAUSES {
                sum[cause] += if all > 0.0 {
                    time[cause] / all * length
                } else if cause == Cause::Queue as usize {
                    // No exchange had a place, so nothing is known of the wait.
                    length
                } else {
                    0.0
                };
            }
            sums.push(sum);
        }
        QueueShares {
            slices: self.slices,
            sums,
        }
    }
}

/// What a wait in the queue of a hop waited for, at each moment.
#[derive(Debug)]
pub(super) struct QueueShares {
    slices: Slices,
    /// For each slice, the time of all slices before it, divided among the causes by their shares.
    sums: Vec<[f64; CAUSES]>,
}

impl QueueShares {
    /// A wait divided among its causes. The spans add up to its length exactly.
    pub(super) fn of(&self, wait: Span) -> CauseSpans {
        let mut spans = CauseSpans::default();
        let length = wait.to.saturating_sub(wait.from);
        if length == 0 {
            return spans;
        }
        let (before, after) = (self.until(wait.from), self.until(wait.to));
        let parts: Vec<f64> = before.iter().zip(&after).map(|(a, b)| b - a).collect();
        let all: f64 = parts.iter().sum();
        let mut remaining = length;
        let mut largest = (0.0, Cause::Queue);
        for (cause, part) in Cause::ALL.into_iter().zip(&parts) {
            // Nothing is known of a wait outside of the trial.
            let share = if all > 0.0 { part / all } else { 0.0 };
            let nanos = ((length as f64 * share) as u64).min(remaining);
            spans[cause] = Duration::from_nanos(nanos);
            remaining -= nanos;
            if *part > largest.0 {
                largest = (*part, cause);
            }
        }
        let rest = &mut spans[largest.1];
        *rest = *rest + Duration::from_nanos(remaining);
        spans
    }

    /// The time of each cause from the beginning until `time`.
    fn until(&self, time: u64) -> [f64; CAUSES] {
        let (slice, passed) = self.slices.at(time);
        let part = passed as f64 / self.slices.length as f64;
        let (from, to) = (&self.sums[slice], &self.sums[slice + 1]);
        std::array::from_fn(|cause| from[cause] + (to[cause] - from[cause]) * part)
    }

    /// The shares within a slice; they add up to one.
    fn of_slice(&self, slice: usize) -> [f64; CAUSES] {
        let length = self.slices.length as f64;
        let (from, to) = (&self.sums[slice], &self.sums[slice + 1]);
        std::array::from_fn(|cause| (to[cause] - from[cause]) / length)
    }
}

#[cfg(test)]
mod tests {
    use proptest::collection::vec;
    use proptest::prelude::*;

    use super::*;

    const MS: u64 = 1_000_000;

    fn slices() -> Slices {
        Slices::of(span(0, 1_000))
    }

    fn span(from: u64, to: u64) -> Span {
        Span::new(from * MS, to * MS)
    }

    fn millis(spans: &CauseSpans) -> Vec<(Cause, f64)> {
        let all = Cause::ALL.into_iter();
        all.map(|cause| {
            (
                cause,
                (spans[cause].as_millis_f64() * 1_000.0).round() / 1_000.0,
            )
        })
        .filter(|(_, millis)| *millis > 0.0)
        .collect()
    }

    #[test]
    fn a_wait_gets_the_causes_of_the_requests_ahead() {
        let mut occupancy = Occupancy::new(slices());
        occupancy.add(span(0, 300), Cause::Cwnd);
        occupancy.add(span(0, 100), Cause::Loss);
        let shares = occupancy.shares(None);
        assert_eq!(
            millis(&shares.of(span(50, 250))),
            [(Cause::Cwnd, 175.0), (Cause::Loss, 25.0)]
        );
        // Nothing is known of a wait while no exchange had a place: it stays `queue`.
        assert_eq!(millis(&shares.of(span(400, 450))), [(Cause::Queue, 50.0)]);
    }

    #[test]
    fn time_in_the_next_hops_queue_counts_as_what_that_queue_waited_for() {
        let mut behind = Occupancy::new(slices());
        behind.add(span(0, 500), Cause::WindowStream);
        let behind = behind.shares(None);
        let mut front = Occupancy::new(slices());
        front.add(span(0, 500), Cause::Queue);
        front.add(span(0, 500), Cause::Server);
        let spans = front.shares(Some(&behind)).of(span(100, 200));
        assert_eq!(
            millis(&spans),
            [(Cause::WindowStream, 50.0), (Cause::Server, 50.0)]
        );
    }

    proptest! {
        #[test]
        fn parts_of_a_wait_add_up_to_its_length(
            stages in vec((0..2_000 * MS, 0..500 * MS, 0..CAUSES), 0..30),
            waits in vec((0..2_000 * MS, 0..500 * MS), 1..10),
        ) {
            let mut occupancy = Occupancy::new(slices());
            for (from, length, cause) in stages {
                let to = from + length;
                occupancy.add(Span { from, to }, Cause::ALL[cause]);
            }
            let shares = occupancy.shares(None);
            for (from, length) in waits {
                let spans = shares.of(Span { from, to: from + length });
                prop_assert_eq!(spans.total().as_nanos(), length);
            }
        }
    }
}
