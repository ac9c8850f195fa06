//! Minimal plans, records and trials for the tests, each of which sets only what it is about.

// In tests, a panic reports the failure.
#![allow(unreachable_pub, clippy::unwrap_used)]

use squall_analysis::{Quantile, TrialStats, trial_stats};
use squall_base::plan::{
    Condition, Connections, Hop, Implementation, Load, Measure, Plan, PoolOrder, PoolSettings,
    Protocol, RequestBody, RequestTemplate, ResponseTemplate, SAMPLE_EVERY, SideSettings, Station,
    Trial, Variant,
};
use squall_base::record::{
    Direction, DirectionHealth, EffectiveSettings, Health, KernelCounters, Lateness, MachineHealth,
    Outcome, RequestRecord, TrialRecord, Validity,
};
use squall_base::{Bytes, Duration, Probability, Rate, Time};

pub fn ms(n: u64) -> Duration {
    Duration::from_millis(n)
}

/// A plan of h1 and h2c x1 under one condition.
pub fn plan(repetitions: u32) -> Plan {
    let variants = vec![
        variant("h1", Protocol::H1),
        variant("h2c x1", Protocol::H2c),
    ];
    let condition = Condition {
        delay: ms(10).into(),
        loss: Probability::new(0.03).unwrap().into(),
        link: String::new().into(),
        schedule: String::new(),
        next_links: Vec::new(),
    };
    let trials = (0..repetitions)
        .flat_map(|repetition| variants.iter().map(move |v| (repetition, v)))
        .enumerate()
        .map(|(index, (repetition, variant))| Trial {
            index: index as u32,
            repetition,
            seed: u64::from(repetition) + 7,
            variant: variant.clone(),
            condition: condition.clone(),
            load: Load::constant(
                Rate::new(100, Duration::from_secs(1)).unwrap(),
                ms(0),
                Duration::from_secs(4),
                ms(500),
            )
            .unwrap(),
            response: ResponseTemplate {
                status: 200,
                body: Bytes::new(0),
            },
            sample_every: SAMPLE_EVERY,
            fast: Vec::new(),
        })
        .collect();
    Plan {
        recipe: "test".to_owned(),
        question: "Which?".to_owned(),
        measures: vec![Measure::USUAL],
        primary: None,
        profile: "quick".to_owned(),
        variants: variants.clone(),
        conditions: vec![condition],
        requests: vec![RequestTemplate {
            method: "GET".to_owned(),
            target: "/".to_owned(),
            headers: Vec::new(),
            body: RequestBody::default(),
        }],
        files: Vec::new(),
        trials,
        fixes: None,
    }
}

fn variant(name: &str, protocol: Protocol) -> Variant {
    let hop = Hop {
        protocol,
        across_link: true,
        connections: Connections::Fixed(1),
        pool: PoolSettings {
            order: PoolOrder::Turns,
            streams_at_most: None,
            warm: 0,
        },
        client: SideSettings::default(),
        server: SideSettings::default(),
    };
    let station = |name: &str| Station {
        name: name.to_owned(),
        runs: Implementation::Embedded,
        asked: squall_base::plan::StationOptions::default(),
    };
    Variant {
        name: name.to_owned(),
        path: format!("client ~{protocol}~> server"),
        stations: vec![station("client"), station("server")],
        hops: vec![hop],
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
    let direction = |direction| DirectionHealth {
        hop: 1,
        direction,
        packets: 0,
        copies: 0,
        dropped: 0,
        delivered: 0,
        write_errors: 0,
        in_flight: 0,
        largest_packet_bytes: 0,
        lateness: late(30),
        kernel: KernelCounters::default(),
    };
    TrialRecord {
        schema: 1,
        attempt: 1,
        trial: trial.clone(),
        epoch_monotonic_ns: 0,
        epoch_unix_ns: 1_000 + u64::from(trial.index),
        load_start: ms(0),
        requests: 400,
        hops: Vec::new(),
        stations: Vec::new(),
        station_exits: Vec::new(),
        files: Vec::new(),
        connections_opened: 3,
        pages: None,
        gaps: None,
        health: Health {
            schedule_lag: late(40),
            link_wakeup: late(20),
            link_late: None,
            rate_asked_per_s: 100.0,
            rate_achieved_per_s: 100.0,
            link: Direction::ALL.map(direction).to_vec(),
            links: Vec::new(),
            machine: MachineHealth::default(),
            validity: Validity::Valid,
        },
        used: EffectiveSettings {
            kernel: "6.1".to_owned(),
            client_congestion_control: vec!["cubic".to_owned()],
            server_congestion_control: vec!["cubic".to_owned()],
            next_links: Vec::new(),
            sysctls: [].into(),
            link_scheduling: "fifo".to_owned(),
            station_scheduling: "fifo".to_owned(),
            link_spin: ms(0),
            client_spin: Duration::ZERO,
            user_namespace: false,
        },
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
