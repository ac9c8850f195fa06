//! A caller of a load that polls and completes requests at irregular times, decided by a seed.

use std::collections::BTreeMap;

use squall_base::plan::Workload;
use squall_base::splitmix::splitmix64;
use squall_base::{Duration, Time};
use squall_load::{Arrival, Arrivals, PageEnd, RequestEnd, Share};

pub(crate) const START: Time = Time::from_nanos(1_000_003);

/// How a caller behaves.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Caller {
    pub seed: u64,
    /// How late it polls at most after something is due, in nanoseconds.
    pub late_at_most: u64,
    /// How long a response takes at most, in nanoseconds.
    pub answer_at_most: u64,
    /// One in this many requests fails; 0 means that none does.
    pub fails_one_in: u64,
}

impl Caller {
    /// It polls on time and gets its responses at once.
    pub(crate) const PROMPT: Caller = Caller {
        seed: 0,
        late_at_most: 0,
        answer_at_most: 0,
        fails_one_in: 0,
    };
}

/// A request and what became of it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct FinishedRequest {
    pub arrival: Arrival,
    pub taken: Time,
    pub ended: Time,
    pub succeeded: bool,
}

/// What a load did.
#[derive(Clone, Debug, Default)]
pub(crate) struct Course {
    /// In the order in which they were taken.
    pub done: Vec<FinishedRequest>,
    pub pages: Vec<PageEnd>,
    pub most_at_once: usize,
}

impl Course {
    pub(crate) fn arrivals(&self) -> Vec<Arrival> {
        self.done.iter().map(|done| done.arrival).collect()
    }

    /// The arrivals by their numbers.
    pub(crate) fn by_number(&self) -> BTreeMap<u64, Arrival> {
        let numbered = self
            .done
            .iter()
            .map(|done| (done.arrival.request, done.arrival));
        numbered.collect()
    }
}

/// Runs a share of a load to its end, or until it has taken `requests`, and checks what holds for every load.
pub(crate) fn drive(workload: &Workload, share: Share, caller: Caller, requests: usize) -> Course {
    let mut load = Arrivals::new(workload, START, share);
    let mut course = Course::default();
    let mut in_flight: Vec<(Time, usize)> = Vec::new();
    let (mut now, mut chance) = (Time::ZERO, 0);
    let mut random = |at_most: u64| {
        chance += 1;
        splitmix64(caller.seed, chance) % (at_most + 1)
    };
    assert_eq!(
        load.take_due(Time::ZERO),
        None,
        "nothing is due before the start"
    );
    while course.done.len() < requests && !load.is_over(now) {
        while load.has_due(now) && course.done.len() < requests {
            let arrival = load.take_due(now).expect("one is due");
            assert!(START <= arrival.intended && arrival.intended <= now);
            let ended = now + Duration::from_nanos(random(caller.answer_at_most));
            in_flight.push((ended, course.done.len()));
            course.done.push(FinishedRequest {
                arrival,
                taken: now,
                ended,
                succeeded: caller.fails_one_in == 0 || random(caller.fails_one_in - 1) > 0,
            });
        }
        assert!(load.has_due(now) || load.take_due(now).is_none());
        course.most_at_once = course.most_at_once.max(in_flight.len());
        let by_itself = load.next_change(now);
        let late = Duration::from_nanos(random(caller.late_at_most));
        let answered = in_flight.iter().map(|(time, _)| *time).min();
        let next = [by_itself.map(|time| time + late), answered];
        let next = next.into_iter().flatten().min();
        // A load without a next change would never end.
        now = now.max(next.expect("something will happen"));
        in_flight.sort_unstable();
        let ended = in_flight.partition_point(|(time, _)| *time <= now);
        for (time, index) in in_flight.drain(..ended) {
            let done = course.done[index];
            let ended = RequestEnd {
                request: done.arrival.request,
                user: done.arrival.user,
                succeeded: done.succeeded,
            };
            load.ended(ended, time);
        }
    }
    course.pages = load.take_ended_pages();
    assert!(
        course.done.is_sorted_by_key(|done| done.arrival.intended),
        "times decrease"
    );
    assert_eq!(
        course.by_number().len(),
        course.done.len(),
        "a request came twice"
    );
    assert_eq!(load.begun(), course.done.len() as u64);
    assert_eq!(load.unfinished(), in_flight.len() as u64);
    course
}

/// Runs the whole load.
pub(crate) fn drive_all(workload: &Workload, caller: Caller) -> Course {
    drive(workload, Share::WHOLE, caller, usize::MAX)
}

/// The arrivals of all shares of a load, by their numbers, for a prompt caller.
pub(crate) fn drive_shares(workload: &Workload, of: u32) -> BTreeMap<u64, Arrival> {
    let mut all = BTreeMap::new();
    for index in 0..of {
        let share = Share::new(index, of).expect("there is such a share");
        for (number, arrival) in drive(workload, share, Caller::PROMPT, usize::MAX).by_number() {
            assert_eq!(
                all.insert(number, arrival),
                None,
                "two shares have {number}"
            );
        }
    }
    all
}

/// Callers of every degree of lateness.
pub(crate) fn callers() -> impl proptest::strategy::Strategy<Value = Caller> {
    use proptest::prelude::*;
    let spans = || {
        prop_oneof![
            Just(0_u64),
            1_u64..1_000,
            1_u64..3_000_000,
            1_u64..2_000_000_000
        ]
    };
    (any::<u64>(), spans(), spans(), 0_u64..6).prop_map(
        |(seed, late_at_most, answer_at_most, fails_one_in)| Caller {
            seed,
            late_at_most,
            answer_at_most,
            fails_one_in,
        },
    )
}
