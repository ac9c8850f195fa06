//! Plans, records and trials of two variants for the tests, each of which sets only what matters to it.

#![allow(unreachable_pub)]

use squall_analysis::{Quantile, TrialStats, trial_stats};
use squall_base::plan::{Plan, Protocol, Trial};
use squall_base::record::{Direction, Health, Lateness, Outcome, RequestRecord, TrialRecord};
use squall_base::{Duration, Time};

pub fn ms(n: u64) -> Duration {
    Duration::from_millis(n)
}

/// A plan of h1 and h2c x1 under one condition.
pub fn plan(repetitions: u32) -> Plan {
    let variants = vec![
        squall_made::variant("h1", Protocol::H1),
        squall_made::variant("h2c x1", Protocol::H2c),
    ];
    let condition = squall_made::condition(10, 0.03);
    let trials = (0..repetitions)
        .flat_map(|repetition| variants.iter().map(move |v| (repetition, v)))
        .enumerate()
        .map(|(index, (repetition, variant))| Trial {
            index: index as u32,
            repetition,
            seed: u64::from(repetition) + 7,
            load: squall_made::load(100, ms(0), ms(4_000), ms(500)),
            ..squall_made::trial(variant.clone(), condition.clone())
        })
        .collect();
    Plan {
        variants,
        conditions: vec![condition],
        trials,
        ..squall_made::plan()
    }
}

/// The record of a trial. The 99.9th percentiles of lateness are 40 us for the generator, 20 us for the link's wake-up and
/// 30 us for each direction of the link; the 99th are a tenth of that.
pub fn record(trial: &Trial) -> TrialRecord {
    let late = |us| Lateness {
        count: 100,
        p99: Duration::from_micros(us / 10),
        p999: Duration::from_micros(us),
        max: Duration::from_micros(us * 10),
        ..Lateness::default()
    };
    let direction = |direction| squall_made::direction_health(direction, late(30));
    TrialRecord {
        epoch_unix_ns: 1_000 + u64::from(trial.index),
        requests: 400,
        connections_opened: 3,
        health: Health {
            schedule_lag: late(40),
            link_wakeup: late(20),
            link: Direction::ALL.map(direction).to_vec(),
            ..squall_made::health()
        },
        ..squall_made::record(trial.clone())
    }
}

/// A request of the measured phase, with its latency in ms and its outcome.
pub fn request(n: u64, latency_ms: u64, outcome: Outcome) -> RequestRecord {
    let intended = Time::ZERO + ms(10 * n);
    RequestRecord {
        slot: Some(intended + ms(latency_ms / 2)),
        end: intended + ms(latency_ms),
        status: (outcome == Outcome::Answered).then_some(200),
        connection: Some(0),
        stream: Some(0),
        outcome,
        ..RequestRecord::due(n, intended)
    }
}

/// The plan's trials, with these p99s: h1's and h2c x1's for each repetition.
pub fn trials(plan: &Plan, p99s: &[(Quantile, Quantile)]) -> Vec<TrialStats> {
    let requests: Vec<_> = (0..400).map(|n| request(n, 5, Outcome::Answered)).collect();
    let p99s = p99s.iter().flat_map(|&(h1, h2c)| [h1, h2c]);
    let with_p99 = |(trial, p99): (&Trial, Quantile)| TrialStats {
        p99: Some(p99),
        ..trial_stats(&record(trial), &requests)
    };
    plan.trials.iter().zip(p99s).map(with_p99).collect()
}
