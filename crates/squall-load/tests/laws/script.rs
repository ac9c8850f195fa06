//! Replays: every step of every client at its own time.

use std::num::NonZeroU32;

use proptest::prelude::*;
use squall_base::plan::{Rounds, ScriptLoad, ScriptStep, Speed, Workload};
use squall_base::{Duration, Time};
use squall_load::{Arrivals, Share};

use super::drive::{Caller, START, callers, drive, drive_all, drive_shares};

fn script(times: impl IntoIterator<Item = u64>) -> Vec<ScriptStep> {
    let step = |(index, nanos): (u32, u64)| ScriptStep {
        at: Duration::from_nanos(nanos),
        request: 100 + index,
    };
    (0_u32..).zip(times).map(step).collect()
}

fn load(steps: Vec<ScriptStep>, clients: u32) -> ScriptLoad {
    ScriptLoad {
        steps,
        clients,
        stagger: Duration::from_millis(7),
        speed: Speed::AS_RECORDED,
        rounds: Rounds::Once,
        duration: None,
        warmup: Duration::ZERO,
        drain: Duration::from_secs(1),
    }
}

fn loads() -> impl Strategy<Value = ScriptLoad> {
    let times = proptest::collection::vec(0_u64..5_000_000, 1..20);
    let rounds = prop_oneof![
        Just(Rounds::Once),
        (0_u64..9_000_000, 0_u64..4).prop_map(|(every, at_most)| Rounds::Again {
            every: Duration::from_nanos(every),
            at_most: Some(at_most),
        }),
    ];
    let ratio = || (1_u32..50).prop_map(|n| NonZeroU32::new(n).unwrap());
    let duration = proptest::option::of(0_u64..9_000_000);
    (
        times,
        0_u32..9,
        0_u64..3_000_000,
        ratio(),
        ratio(),
        rounds,
        duration,
    )
        .prop_map(
            |(mut times, clients, stagger, script_time, clock, rounds, duration)| {
                times.sort_unstable();
                ScriptLoad {
                    stagger: Duration::from_nanos(stagger),
                    speed: Speed {
                        script: script_time,
                        clock,
                    },
                    rounds,
                    duration: duration.map(Duration::from_nanos),
                    warmup: Duration::from_millis(2),
                    ..load(script(times), clients)
                }
            },
        )
}

/// Every request of the load as (time from the start, client, what), computed with nested loops.
fn slow(load: &ScriptLoad) -> Vec<(u64, u32, u32)> {
    let steps = &load.steps;
    let length = steps.last().unwrap().at;
    let (every, rounds) = match load.rounds {
        Rounds::Once => (length, 1),
        Rounds::Again { every, at_most } if every.max(length) > Duration::ZERO => {
            (every.max(length), at_most.unwrap())
        }
        Rounds::Again { at_most, .. } => (length, at_most.unwrap().min(1)),
    };
    let mut all = Vec::new();
    for client in 0..load.clients {
        for round in 0..rounds {
            for step in steps {
                let script = round * every.as_nanos() + step.at.as_nanos();
                let clock =
                    script * u64::from(load.speed.clock.get()) / u64::from(load.speed.script.get());
                let time = u64::from(client) * load.stagger.as_nanos() + clock;
                if load
                    .duration
                    .is_none_or(|duration| time < duration.as_nanos())
                {
                    all.push((time, client, step.request));
                }
            }
        }
    }
    all.sort_by_key(|(time, client, _)| (*time, *client));
    all
}

proptest! {
    /// At any speed and stagger, exactly the script's requests are due, at exactly their times.
    #[test]
    fn requests_are_due_at_the_times_of_the_script(load in loads(), caller in callers()) {
        // A caller that is later than the drain time would have given up.
        let load = ScriptLoad { drain: Duration::from_secs(1_000), ..load };
        let expected = slow(&load);
        let workload = Workload::Script(load.clone());
        let course = drive_all(&workload, caller);
        let of = |a: &squall_load::Arrival| (a.intended.since(START).as_nanos(), a.user, a.what);
        prop_assert_eq!(course.arrivals().iter().map(of).collect::<Vec<_>>(), &expected[..]);
        let total = Arrivals::new(&workload, START, Share::WHOLE).total();
        prop_assert!(total.is_none_or(|total| total == expected.len() as u64));
        prop_assert!(total.is_some() || load.duration.is_some());
        if load.duration.is_none() {
            prop_assert!(course.by_number().into_keys().eq(0..expected.len() as u64));
        }
    }

    #[test]
    fn shares_partition_the_clients(load in loads(), of in 1_u32..5) {
        let workload = Workload::Script(load);
        let whole = drive_all(&workload, Caller::PROMPT).by_number();
        prop_assert_eq!(drive_shares(&workload, of), whole);
    }
}

/// The BBC's experiment: 1,083 requests in 34 minutes, by 91 clients.
#[test]
fn a_media_script_for_many_clients_is_merged_in_order() {
    let times = (0..1_083_u64).map(|n| n * 2_040_000_000_000 / 1_083);
    let workload = Workload::Script(load(script(times), 91));
    let mut replay = Arrivals::new(&workload, START, Share::WHOLE);
    assert_eq!(replay.total(), Some(91 * 1_083));
    let end = START + Duration::from_secs(3_000);
    let mut last = (START, 0);
    let mut counts = [0; 91];
    while let Some(arrival) = replay.take_due(end) {
        assert!(last <= (arrival.intended, arrival.user));
        last = (arrival.intended, arrival.user);
        counts[arrival.user as usize] += 1;
    }
    assert_eq!(counts, [1_083; 91]);
}

#[test]
fn repetition_without_a_period_or_steps_ends() {
    let again = Rounds::Again {
        every: Duration::ZERO,
        at_most: None,
    };
    let at_once = ScriptLoad {
        rounds: again,
        ..load(script([0, 0]), 2)
    };
    assert_eq!(
        drive_all(&Workload::Script(at_once), Caller::PROMPT)
            .done
            .len(),
        4
    );
    let empty = ScriptLoad {
        rounds: again,
        ..load(script([]), 2)
    };
    let empty = Workload::Script(empty);
    assert!(Arrivals::new(&empty, START, Share::WHOLE).is_over(START));
}

#[test]
fn rounds_without_a_limit_never_end() {
    let again = Rounds::Again {
        every: Duration::from_nanos(10),
        at_most: None,
    };
    let workload = Workload::Script(ScriptLoad {
        rounds: again,
        ..load(script([0, 4]), 1)
    });
    let course = drive(&workload, Share::WHOLE, Caller::PROMPT, 1_000);
    let last = course.done[999].arrival;
    assert_eq!(
        (last.intended, last.request),
        (START + Duration::from_nanos(4_994), 999)
    );
    let load = Arrivals::new(&workload, START, Share::WHOLE);
    assert_eq!((load.total(), load.deadline()), (None, None));
}

#[test]
fn steps_may_be_unsorted_and_late_times_do_not_wrap() {
    let late = Duration::from_nanos(u64::MAX);
    let workload = Workload::Script(ScriptLoad {
        stagger: late,
        rounds: Rounds::Again {
            every: late,
            at_most: Some(u64::MAX),
        },
        ..load(script([u64::MAX, 5]), 3)
    });
    let mut replay = Arrivals::new(&workload, START, Share::WHOLE);
    let end = Time::from_nanos(u64::MAX);
    let first = replay.take_due(end).unwrap();
    assert_eq!(
        (first.what, first.intended),
        (101, START + Duration::from_nanos(5))
    );
    assert!((0..100).all(|_| replay.take_due(end).unwrap().intended == end));
}
