//! Closed loads: each user has one request at a time, at its own times.

use std::collections::BTreeMap;

use proptest::prelude::*;
use squall_base::plan::{ClosedLoad, Mix, ThinkTime, Warmup, Workload};
use squall_base::record::Phase;
use squall_base::{Duration, Time};
use squall_load::{Arrivals, RequestEnd, Share};

use super::drive::{Caller, FinishedRequest, START, callers, drive, drive_all, drive_shares};

/// A hundred requests from two users without think time.
fn plain() -> ClosedLoad {
    ClosedLoad {
        users: 2,
        think: ThinkTime::None,
        starts_over: Duration::ZERO,
        requests: Some(100),
        duration: None,
        warmup: Warmup::default(),
        drain: Duration::ZERO,
        mix: Mix::default(),
        seed: 3,
    }
}

fn think_times() -> impl Strategy<Value = ThinkTime> {
    let spans = || (0_u64..2_000_000).prop_map(Duration::from_nanos);
    prop_oneof![
        Just(ThinkTime::None),
        spans().prop_map(ThinkTime::Constant),
        (spans(), spans()).prop_map(|(a, b)| ThinkTime::Uniform {
            from: a.min(b),
            to: a.max(b)
        }),
        spans().prop_map(ThinkTime::Exponential),
    ]
}

fn loads() -> impl Strategy<Value = ClosedLoad> {
    let starts_over = prop_oneof![Just(0_u64), 0_u64..5_000_000];
    (
        1_u32..20,
        think_times(),
        starts_over,
        0_u64..200,
        any::<u64>(),
    )
        .prop_map(|(users, think, starts_over, requests, seed)| ClosedLoad {
            users,
            think,
            starts_over: Duration::from_nanos(starts_over),
            requests: Some(requests),
            seed,
            ..plain()
        })
}

/// Each user's requests, in order.
fn by_user(done: &[FinishedRequest]) -> BTreeMap<u32, Vec<FinishedRequest>> {
    let mut users: BTreeMap<u32, Vec<FinishedRequest>> = BTreeMap::new();
    for done in done {
        users.entry(done.arrival.user).or_default().push(*done);
    }
    users
}

proptest! {
    #[test]
    fn each_user_sends_one_request_at_a_time_and_all_are_sent(load in loads(), caller in callers()) {
        let course = drive_all(&Workload::Closed(load.clone()), caller);
        let numbers: Vec<u64> = course.arrivals().iter().map(|a| a.request).collect();
        prop_assert_eq!(numbers, (0..load.requests.unwrap()).collect::<Vec<_>>());
        prop_assert!(course.most_at_once <= load.users as usize);
        for (user, done) in by_user(&course.done) {
            prop_assert!(user < load.users);
            for pair in done.windows(2) {
                prop_assert!(pair[1].taken >= pair[0].ended);
                let thought = pair[1].arrival.intended.since(pair[0].ended);
                prop_assert!(pair[1].arrival.intended >= pair[0].ended);
                match load.think {
                    ThinkTime::None => prop_assert_eq!(pair[1].arrival.intended, pair[1].taken),
                    ThinkTime::Constant(span) => prop_assert_eq!(thought, span),
                    ThinkTime::Uniform { from, to } => prop_assert!((from..=to).contains(&thought)),
                    ThinkTime::Exponential(_) => {}
                }
            }
        }
    }

    /// A user's think times, turn for turn, depend neither on when the caller polls nor on the share.
    #[test]
    fn think_times_depend_only_on_the_user_and_its_turn(load in loads(), caller in callers(), of in 1_u32..4) {
        prop_assume!(load.think != ThinkTime::None);
        let workload = Workload::Closed(ClosedLoad { requests: Some(60), ..load });
        let thought = |done: &[FinishedRequest]| -> BTreeMap<u32, Vec<Duration>> {
            let users = by_user(done).into_iter();
            let between = |pair: &[FinishedRequest]| pair[1].arrival.intended.since(pair[0].ended);
            users.map(|(user, done)| (user, done.windows(2).map(between).collect())).collect()
        };
        let prompt = thought(&drive_all(&workload, Caller::PROMPT).done);
        for index in 0..of {
            let share = Share::new(index, of).unwrap();
            for (user, late) in thought(&drive(&workload, share, caller, usize::MAX).done) {
                prop_assert_eq!(user % of, index);
                let empty = Vec::new();
                let prompt = prompt.get(&user).unwrap_or(&empty);
                prop_assert!(prompt.iter().zip(&late).all(|(a, b)| a == b));
            }
        }
    }

    /// Together the shares have every request once, and each request asks for the same thing as in the whole load.
    #[test]
    fn shares_partition_the_load(load in loads(), of in 1_u32..8, seed in any::<u64>()) {
        let mix = Mix::new(vec![1, 2, 3]).unwrap();
        let workload = Workload::Closed(ClosedLoad { mix, seed, ..load });
        let whole = drive_all(&workload, Caller::PROMPT).by_number();
        let shares = drive_shares(&workload, of);
        prop_assert_eq!(shares.len(), whole.len());
        for (number, arrival) in shares {
            prop_assert_eq!(whole[&number].what, arrival.what);
        }
    }

    /// No request is intended after the duration, and none before it is left out.
    #[test]
    fn no_request_starts_after_the_duration(load in loads(), nanos in 0_u64..3_000_000) {
        prop_assume!(load.think != ThinkTime::None);
        let caller = Caller { answer_at_most: 1_000_000, ..Caller::PROMPT };
        let requests = 300;
        let endless = Workload::Closed(ClosedLoad { requests: None, ..load.clone() });
        let endless = drive(&endless, Share::WHOLE, caller, requests).done;
        let timed = ClosedLoad { duration: Some(Duration::from_nanos(nanos)), drain: Duration::from_secs(9), requests: None, ..load };
        let timed = drive(&Workload::Closed(timed), Share::WHOLE, caller, requests).done;
        let end = START + Duration::from_nanos(nanos);
        let until = endless.partition_point(|done| done.arrival.intended < end);
        prop_assert!(timed.iter().all(|done| done.arrival.intended < end));
        // Response times are drawn in the order of taking, and that order is identical up to the end.
        prop_assert_eq!(&timed[..], &endless[..until]);
    }
}

#[test]
fn without_think_time_each_user_has_at_most_one_request() {
    let workload = Workload::Closed(ClosedLoad {
        requests: Some(3),
        ..plain()
    });
    let mut load = Arrivals::new(&workload, START, Share::WHOLE);
    assert_eq!(
        (load.take_due(Time::ZERO), load.next_change(Time::ZERO)),
        (None, Some(START))
    );
    let later = START + Duration::from_millis(1);
    let take = |load: &mut Arrivals| {
        load.take_due(later)
            .map(|a| (a.request, a.user, a.intended))
    };
    assert_eq!(
        take(&mut load),
        Some((0, 0, later)),
        "nobody is late for it"
    );
    assert_eq!(take(&mut load), Some((1, 1, later)));
    assert_eq!((take(&mut load), load.next_change(later)), (None, None));
    let ended = |request, user| RequestEnd {
        request,
        user,
        succeeded: false,
    };
    load.ended(ended(1, 1), later);
    assert_eq!(take(&mut load), Some((2, 1, later)));
    load.ended(ended(0, 0), later);
    assert!(!load.has_due(later) && !load.is_over(later));
    load.ended(ended(2, 1), later);
    assert!(load.is_over(later));
}

#[test]
fn without_think_time_the_duration_ends_requests_and_the_drain_ends_the_load() {
    let second = Duration::from_secs(1);
    let workload = Workload::Closed(ClosedLoad {
        users: 1,
        requests: None,
        duration: Some(second),
        drain: second,
        ..plain()
    });
    let mut load = Arrivals::new(&workload, START, Share::WHOLE);
    let (end, deadline) = (START + second, START + second + second);
    assert!(load.take_due(START).is_some());
    assert_eq!(load.next_change(START), Some(deadline));
    assert!(!load.is_over(end) && load.is_over(deadline));
    load.ended(
        RequestEnd {
            request: 0,
            user: 0,
            succeeded: true,
        },
        end,
    );
    assert!(load.take_due(end).is_none() && load.is_over(end));
}

#[test]
fn every_user_takes_part_with_its_own_think_times() {
    let think = ThinkTime::Exponential(Duration::from_millis(1));
    let workload = Workload::Closed(ClosedLoad {
        users: 50,
        think,
        ..plain()
    });
    let mut load = Arrivals::new(&workload, START, Share::WHOLE);
    let first: Vec<_> = std::iter::from_fn(|| load.take_due(START)).collect();
    assert!(first.iter().map(|arrival| arrival.user).eq(0..50));
    for arrival in first {
        let (request, user) = (arrival.request, arrival.user);
        let ended = RequestEnd {
            request,
            user,
            succeeded: true,
        };
        load.ended(ended, START);
    }
    let far = START + Duration::from_secs(1);
    let second: Vec<_> = std::iter::from_fn(|| load.take_due(far)).collect();
    assert_eq!(second.len(), 50);
    let differ = |pair: &[squall_load::Arrival]| pair[0].intended < pair[1].intended;
    assert!(second.windows(2).all(differ));
}

#[test]
fn starts_of_users_are_spread_over_the_given_time() {
    let workload = Workload::Closed(ClosedLoad {
        users: 4,
        requests: Some(4),
        starts_over: Duration::from_nanos(10),
        ..plain()
    });
    let course = drive_all(&workload, Caller::PROMPT);
    let at = |a: &squall_load::Arrival| (a.user, a.intended.since(START).as_nanos());
    let starts: Vec<(u32, u64)> = course.arrivals().iter().map(at).collect();
    // User 0 got its response at once and asks again, so no request is left for another user.
    assert_eq!(starts, [(0, 0), (0, 0), (0, 0), (0, 0)]);
    let slow = Caller {
        answer_at_most: u64::MAX >> 8,
        seed: 1,
        ..Caller::PROMPT
    };
    let starts: Vec<(u32, u64)> = drive_all(&workload, slow)
        .arrivals()
        .iter()
        .map(at)
        .collect();
    assert_eq!(starts, [(0, 0), (1, 2), (2, 5), (3, 7)]);
}

#[test]
fn a_warm_up_is_a_time_or_a_number_of_requests() {
    let count = |warmup, think| {
        let workload = Workload::Closed(ClosedLoad {
            warmup,
            think,
            users: 1,
            ..plain()
        });
        let course = drive_all(&workload, Caller::PROMPT);
        let phases: Vec<Phase> = course.arrivals().iter().map(|a| a.phase).collect();
        phases.partition_point(|phase| *phase == Phase::Warmup)
    };
    let milli = Duration::from_millis(1);
    assert_eq!(count(Warmup::First(7), ThinkTime::None), 7);
    assert_eq!(count(Warmup::default(), ThinkTime::None), 0);
    let ten = Warmup::Time(Duration::from_millis(10));
    assert_eq!(count(ten, ThinkTime::Constant(milli)), 10);
}

#[test]
fn a_load_without_users_is_over_at_once() {
    let workload = Workload::Closed(ClosedLoad {
        users: 0,
        ..plain()
    });
    assert!(Arrivals::new(&workload, START, Share::WHOLE).is_over(START));
    let alone = Workload::Closed(ClosedLoad {
        users: 1,
        ..plain()
    });
    assert!(Arrivals::new(&alone, START, Share::new(1, 2).unwrap()).is_over(START));
    assert_eq!((Share::new(2, 2), Share::new(0, 0)), (None, None));
}
