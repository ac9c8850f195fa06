//! Some of a load's requests, to be drawn as points: the slowest, and an even share of the others, in constant memory.
//!
//! Nothing is chosen at random, so the same requests in the same order always leave the same selection. Requests that
//! failed count as the slowest. Counts of all requests are in `picture`; squall-report decides how many of these are drawn.

use std::cmp::Ordering;
use std::collections::BinaryHeap;

use squall_base::record::{Outcome, Phase, RequestRecord};
use squall_base::{Duration, Time};

/// How many of the slowest requests are kept.
const SLOWEST: usize = 10_000;

/// The most requests that are kept at even distances, apart from the slowest. Once there are more, at least half this number
/// is kept. The number is even, so that every second one can give way to later ones.
const EVENLY: usize = 80_000;

/// A request of a load, as far as a point shows it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct KeptRequest {
    /// Its number in the schedule, from 0.
    pub request: u64,
    /// When it was due, from the load's start.
    pub start: Duration,
    /// Response time; a lower bound if it is unfinished, the time until the failure if it failed.
    pub latency: Duration,
    /// Its outcome.
    pub outcome: Outcome,
    /// Whether it got a complete response without an error.
    pub succeeded: bool,
    /// The part of the load.
    pub phase: Phase,
    /// Its place in the order in which requests ended, from 0.
    place: u64,
}

impl KeptRequest {
    /// What decides which request is slower.
    fn rank(&self) -> (bool, Duration, u64) {
        let failed = !self.succeeded && self.outcome != Outcome::Censored;
        (failed, self.latency, self.place)
    }
}

/// One of the slowest requests. The order is reversed, so that the fastest of them is at the top of a heap.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Slow(KeptRequest);

impl Ord for Slow {
    fn cmp(&self, other: &Slow) -> Ordering {
        other.0.rank().cmp(&self.0.rank())
    }
}

impl PartialOrd for Slow {
    fn partial_cmp(&self, other: &Slow) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

/// The requests that are kept so far.
#[derive(Clone, Debug)]
pub(super) struct KeptRequests {
    ended: u64,
    slowest: BinaryHeap<Slow>,
    /// Those whose place is a multiple of `distance`, and some from before it was doubled, which give way to later ones.
    evenly: Vec<KeptRequest>,
    distance: u64,
    /// Where to look for the next one that gives way.
    next: usize,
}

impl KeptRequests {
    pub(super) fn new() -> KeptRequests {
        // All memory is reserved now, so that nothing moves while a load runs; what is not used is never touched.
        KeptRequests {
            ended: 0,
            slowest: BinaryHeap::with_capacity(SLOWEST),
            evenly: Vec::with_capacity(EVENLY),
            distance: 1,
            next: EVENLY,
        }
    }

    /// Takes a request that has ended. Times count from `start`.
    pub(super) fn add(&mut self, request: &RequestRecord, start: Time) {
        let kept = KeptRequest {
            request: request.request,
            start: request.intended.since(start),
            latency: request.response_time(),
            outcome: request.outcome,
            succeeded: request.succeeded(),
            phase: request.phase,
            place: self.ended,
        };
        self.ended += 1;
        self.add_if_slow(kept);
        self.add_if_even(kept);
    }

    /// How many requests have ended.
    pub(super) fn ended(&self) -> u64 {
        self.ended
    }

    fn add_if_slow(&mut self, kept: KeptRequest) {
        if self.slowest.len() < SLOWEST {
            self.slowest.push(Slow(kept));
        } else if let Some(mut fastest) = self.slowest.peek_mut()
            && kept.rank() > fastest.0.rank()
        {
            *fastest = Slow(kept);
        }
    }

    fn add_if_even(&mut self, kept: KeptRequest) {
        if self.evenly.len() < EVENLY {
            self.evenly.push(kept);
            return;
        }
        while kept.place.is_multiple_of(self.distance) {
            while let Some(other) = self.evenly.get_mut(self.next) {
                self.next += 1;
                if !other.place.is_multiple_of(self.distance) {
                    *other = kept;
                    return;
                }
            }
            self.distance *= 2;
            self.next = 0;
        }
    }

    /// The kept requests in the order in which they were due: all that have ended, or at least 40,000.
    pub(super) fn requests(&self) -> Vec<KeptRequest> {
        let even = self.evenly.iter();
        let even = even.filter(|kept| kept.place.is_multiple_of(self.distance));
        let slow = self.slowest.iter().map(|slow| slow.0);
        let mut all: Vec<KeptRequest> = even.copied().chain(slow).collect();
        all.sort_unstable_by_key(|kept| kept.place);
        all.dedup_by_key(|kept| kept.place);
        all.sort_by_key(|kept| (kept.start, kept.request));
        all
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::load::requests::{answered, at, failed};

    fn kept(requests: impl Iterator<Item = RequestRecord>) -> Vec<KeptRequest> {
        let mut kept = KeptRequests::new();
        requests.for_each(|request| kept.add(&request, at(0)));
        kept.requests()
    }

    #[test]
    fn all_requests_are_kept_up_to_the_limit() {
        let all = kept((0..60_000).map(|n| RequestRecord {
            request: n,
            ..answered(10 * n, 500 + n % 7)
        }));
        assert_eq!(all.len(), 60_000);
        assert!(all.iter().zip(0..).all(|(kept, n)| kept.request == n));
        assert_eq!(all[0].start, Duration::ZERO);
        assert_eq!(all[8].latency, Duration::from_micros(501));
    }

    #[test]
    fn beyond_the_limit_the_slowest_and_an_even_share_of_the_others_are_kept() {
        for count in [80_001_u64, 160_001, 500_000, 1_000_003] {
            // Every hundredth is slow, each a little more than the one before, and one fails.
            let all = kept((0..count).map(|n| match n {
                4_321 => failed(n, 1, Outcome::StreamReset, "reset"),
                _ if n % 100 == 7 => answered(n, 10_000 + n),
                _ => answered(n, 500),
            }));
            assert!(
                (40_000..=90_000).contains(&all.len()),
                "{count}: {}",
                all.len()
            );
            assert!(all.iter().any(|kept| kept.outcome == Outcome::StreamReset));
            let slow = all
                .iter()
                .filter(|kept| kept.latency > Duration::from_millis(10));
            assert!(slow.count() as u64 >= (count / 100).min(9_999), "{count}");
            let fast: Vec<u64> = (all.iter())
                .filter(|kept| kept.latency == Duration::from_micros(500))
                .map(|kept| kept.place)
                .collect();
            for part in 0..10 {
                let span = part * count / 10..(part + 1) * count / 10;
                let own = fast.iter().filter(|place| span.contains(*place)).count();
                let share = own as f64 / fast.len() as f64;
                // A wide range: if too few requests are slow, fast ones fill up the slowest, and those all come from one part.
                assert!((0.05..0.25).contains(&share), "{count}, {part}: {share}");
            }
        }
    }
}
