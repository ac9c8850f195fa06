//! Open loads: requests are due exactly where the integrated rate says.

use proptest::prelude::*;
use squall_base::plan::{Load, Mix, OpenLoad, Spacing, Stage, Stages, Workload};
use squall_base::record::Phase;
use squall_base::{Duration, Rate, Time};
use squall_load::{Arrivals, Share};

use super::drive::{Caller, START, callers, drive_all, drive_shares};

fn rate(events: u64, period_s: u64) -> Option<Rate> {
    Rate::new(events, Duration::from_secs(period_s))
}

fn open(stages: Vec<Stage>, spacing: Spacing) -> OpenLoad {
    OpenLoad {
        stages: Stages::new(stages).unwrap(),
        spacing,
        warmup: Duration::from_millis(300),
        drain: Duration::from_secs(5),
        mix: Mix::new(vec![3, 0, 1]).unwrap(),
        seed: 11,
    }
}

/// Rates per second, per minute or zero, with up to some hundred requests per stage.
fn stages() -> impl Strategy<Value = Vec<Stage>> {
    let rates = || (0_u64..200, prop_oneof![Just(1_u64), Just(60)]).prop_map(|(e, p)| rate(e, p));
    let durations = prop_oneof![Just(0_u64), 0_u64..50, 0_u64..2_000_000_000];
    let any = (rates(), rates(), durations.clone())
        .prop_map(|(from, to, nanos)| Stage::ramp(from, to, Duration::from_nanos(nanos)));
    let constant = (rates(), durations)
        .prop_map(|(rate, nanos)| Stage::ramp(rate, rate, Duration::from_nanos(nanos)));
    proptest::collection::vec(prop_oneof![any, constant], 0..6)
}

fn spacings() -> impl Strategy<Value = Spacing> {
    prop_oneof![Just(Spacing::Constant), Just(Spacing::Poisson)]
}

/// The reference's units per request, chosen so that every rate here has a whole number of units per nanosecond.
const UNITS: i128 = (2 * 60_000_000_000) << 31;

/// The integrated rate, each stage rounded down to whole units: computed from the definition, not with the load's method.
fn slow_count(stages: &[Stage], nanos: u64) -> i128 {
    let per_nano = |rate: Option<Rate>| {
        rate.map_or(0, |rate| {
            i128::from(rate.events()) * UNITS / i128::from(rate.period().as_nanos())
        })
    };
    let (mut before, mut count) = (0, 0);
    for stage in stages {
        let length = i128::from(stage.duration.as_nanos());
        let x = (i128::from(nanos) - before).clamp(0, length);
        let (from, to) = (per_nano(stage.from), per_nano(stage.to));
        // The mean rate up to x, times x.
        count += from * x
            + if length > 0 {
                (to - from) * x * x / (2 * length)
            } else {
                0
            };
        before += length;
    }
    count
}

proptest! {
    /// Request n is due in the nanosecond t with count(t) <= n < count(t + 1), up to the reference's rounding: each
    /// stage loses less than one of its units, 2^-67 of a request.
    #[test]
    fn request_n_is_due_when_the_integrated_rate_reaches_n(stages in stages()) {
        let load = open(stages.clone(), Spacing::Constant);
        let course = drive_all(&Workload::Open(load.clone()), Caller::PROMPT);
        for (n, arrival) in course.arrivals().into_iter().enumerate() {
            let n = n as i128 * UNITS;
            let at = arrival.intended.since(START).as_nanos();
            prop_assert_eq!(arrival.request as i128 * UNITS, n);
            prop_assert!(slow_count(&stages, at) <= n);
            prop_assert!(slow_count(&stages, at + 1) + 6 > n);
        }
        let all = slow_count(&stages, load.stages.duration().as_nanos());
        let counted = course.done.len() as i128 * UNITS;
        prop_assert!(all <= counted && counted < all + UNITS + 6);
        let total = Arrivals::new(&Workload::Open(load), START, Share::WHOLE).total();
        prop_assert_eq!(total, Some(course.done.len() as u64));
    }

    /// However irregularly the caller polls, the same requests are due at the same times.
    #[test]
    fn late_polling_does_not_move_requests(stages in stages(), spacing in spacings(), caller in callers()) {
        let workload = Workload::Open(open(stages, spacing));
        let prompt = drive_all(&workload, Caller::PROMPT);
        let mut load = Arrivals::new(&workload, START, Share::WHOLE);
        let mut late = Vec::new();
        let mut now = START;
        while let Some(due) = load.next_change(now).filter(|_| !load.is_over(now)) {
            now = now.max(due) + Duration::from_nanos(caller.seed % (caller.late_at_most + 1));
            late.extend(std::iter::from_fn(|| load.take_due(now)));
        }
        prop_assert_eq!(late, prompt.arrivals());
    }

    /// Thread k of T has the requests n with n % T = k, at the times that they have in the whole load.
    #[test]
    fn shares_partition_the_load(stages in stages(), spacing in spacings(), of in 1_u32..6) {
        let workload = Workload::Open(open(stages, spacing));
        let whole = drive_all(&workload, Caller::PROMPT).by_number();
        prop_assert_eq!(drive_shares(&workload, of), whole);
        for index in 0..of {
            let mut share = Arrivals::new(&workload, START, Share::new(index, of).unwrap());
            let total = share.total();
            let far = START + Duration::from_secs(1 << 20);
            let mine: Vec<u64> = std::iter::from_fn(|| share.take_due(far)).map(|a| a.request).collect();
            prop_assert!(mine.iter().all(|n| n % u64::from(of) == u64::from(index)));
            prop_assert!(total.is_none_or(|total| total == mine.len() as u64));
        }
    }

    /// With one rate, a closed form holds: request n is due at start + floor(n * period / events).
    #[test]
    fn times_at_a_constant_rate_follow_a_closed_form(events in 1_u64..5_000, minute in any::<bool>(), warmup_ms in 0_u64..500, ms in 0_u64..1_500) {
        let rate = rate(events, if minute { 60 } else { 1 }).unwrap();
        let warmup = Duration::from_millis(warmup_ms);
        let drain = Duration::from_secs(1);
        let load = Load::constant(rate, warmup, Duration::from_millis(ms), drain).unwrap();
        let length = load.warmup + load.duration;
        let workload = load.workload(0);
        let mut arrivals = Arrivals::new(&workload, START, Share::WHOLE);
        prop_assert_eq!(arrivals.total(), Some(rate.events_in(length)));
        prop_assert_eq!(arrivals.deadline(), Some(START + length + drain));
        let far = START + Duration::from_secs(9);
        for n in 0..rate.events_in(length) {
            let offset = rate.offset_of(n);
            let arrival = arrivals.take_due(far).unwrap();
            prop_assert_eq!((arrival.request, arrival.intended), (n, START + offset));
            prop_assert_eq!(arrival.phase == Phase::Warmup, offset < warmup);
        }
        prop_assert_eq!(arrivals.take_due(far), None);
    }
}

#[test]
fn the_warm_up_comes_first_and_the_drain_last() {
    let second = Duration::from_secs(1);
    let load = open(
        vec![Stage::constant(rate(10, 1).unwrap(), second)],
        Spacing::Constant,
    );
    let workload = Workload::Open(load);
    let course = drive_all(&workload, Caller::PROMPT);
    let phases: Vec<Phase> = course.arrivals().iter().map(|a| a.phase).collect();
    assert_eq!(phases[..3], [Phase::Warmup; 3]);
    assert_eq!(phases[3..], [Phase::Measure; 7]);
    let mut load = Arrivals::new(&workload, START, Share::WHOLE);
    let end = START + second;
    while load.take_due(end).is_some() {}
    let deadline = end + Duration::from_secs(5);
    assert_eq!(load.next_change(end), Some(deadline));
    let before = Time::from_nanos(deadline.as_nanos() - 1);
    assert!(
        !load.is_over(before) && load.is_over(deadline),
        "ten are unfinished"
    );
}

#[test]
fn a_load_without_requests_is_over_at_once() {
    let none = Duration::ZERO;
    for stages in [vec![], vec![Stage::constant(rate(9, 1).unwrap(), none)]] {
        for spacing in [Spacing::Constant, Spacing::Poisson] {
            let workload = Workload::Open(open(stages.clone(), spacing));
            assert!(Arrivals::new(&workload, START, Share::WHOLE).is_over(START));
        }
    }
}

#[test]
fn a_new_rate_begins_with_its_stage() {
    let second = Duration::from_secs(1);
    let step = |events| Stage::constant(rate(events, 1).unwrap(), second);
    let workload = Workload::Open(open(vec![step(2), step(5), step(1)], Spacing::Constant));
    let course = drive_all(&workload, Caller::PROMPT);
    let at = |a: &squall_load::Arrival| a.intended.since(START).as_nanos() / 1_000_000;
    let millis: Vec<u64> = course.arrivals().iter().map(at).collect();
    assert_eq!(millis, [0, 500, 1_000, 1_200, 1_400, 1_600, 1_800, 2_000]);
}

#[test]
fn the_last_representable_time_does_not_wrap() {
    let second = Duration::from_secs(1);
    let workload = Workload::Open(open(
        vec![Stage::constant(rate(10, 1).unwrap(), second)],
        Spacing::Constant,
    ));
    let (start, end) = (Time::from_nanos(u64::MAX - 5), Time::from_nanos(u64::MAX));
    let mut load = Arrivals::new(&workload, start, Share::WHOLE);
    assert_eq!(std::iter::from_fn(|| load.take_due(end)).count(), 10);
}
