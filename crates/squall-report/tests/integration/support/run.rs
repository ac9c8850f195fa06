//! Runs made up for the tests, shaped like what packet loss does to real ones.
//!
//! HTTP/1.1: flat bands, and a few requests wait 200 ms for their own retransmission. HTTP/2: a sawtooth, in which all requests
//! of a connection wait for one retransmission. This is no model of the protocols; it only looks similar.

use squall_analysis::{RunSummary, summarise, trial_stats};
use squall_base::plan::{
    Connections, Load, Plan, Protocol, RequestBody, RequestTemplate, Trial, Variant,
};
use squall_base::record::{
    Direction, DirectionHealth, Health, Lateness, Outcome, Phase, RequestRecord, TrialRecord,
};
use squall_base::{Bytes, Duration, Rate, Time};
use squall_report::TrialPoints;

/// How large a run to make.
#[derive(Clone, Copy)]
pub struct Size {
    pub rate_per_s: u64,
    pub warmup_s: u64,
    pub duration_s: u64,
    pub repetitions: u32,
}

impl Size {
    pub const SMALL: Size = Size {
        rate_per_s: 200,
        warmup_s: 2,
        duration_s: 8,
        repetitions: 2,
    };

    pub fn requests(self) -> u64 {
        self.rate_per_s * (self.warmup_s + self.duration_s)
    }

    fn load(self) -> Load {
        let [warmup, duration] = [self.warmup_s, self.duration_s].map(Duration::from_secs);
        squall_made::load(self.rate_per_s, warmup, duration, Duration::from_secs(5))
    }
}

/// A run: its plan and its records.
pub struct Run {
    pub plan: Plan,
    pub records: Vec<(TrialRecord, Vec<RequestRecord>)>,
}

impl Run {
    pub fn summary(&self) -> RunSummary {
        let trials = self
            .records
            .iter()
            .map(|(record, requests)| trial_stats(record, requests));
        summarise(&self.plan, trials.collect())
    }

    pub fn plots(&self) -> Vec<TrialPoints> {
        self.records
            .iter()
            .map(|(record, requests)| TrialPoints::of(record, requests))
            .collect()
    }
}

/// `names` under no loss, 1 % and 3 %; the second variant has one connection, later ones eight.
pub fn run(names: &[&str], size: Size) -> Run {
    let plan = plan(names, size);
    let records = plan.trials.iter().map(record).collect();
    Run { plan, records }
}

/// The plan, the summary and the plots of such a run, of which only one trial at a time is in memory. `change` changes its
/// requests, and `finish` adds to its plot.
pub fn large(
    names: &[&str],
    size: Size,
    change: impl Fn(&mut [RequestRecord]),
    mut finish: impl FnMut(TrialPoints, &TrialRecord, &[RequestRecord]) -> TrialPoints,
) -> (Plan, RunSummary, Vec<TrialPoints>) {
    let plan = plan(names, size);
    let (mut trials, mut plots) = (Vec::new(), Vec::new());
    for trial in &plan.trials {
        let (record, mut requests) = record(trial);
        change(&mut requests);
        trials.push(trial_stats(&record, &requests));
        let points = TrialPoints::of(&record, &requests);
        plots.push(finish(points, &record, &requests));
    }
    let summary = summarise(&plan, trials);
    (plan, summary, plots)
}

fn plan(names: &[&str], size: Size) -> Plan {
    let variants: Vec<Variant> = names
        .iter()
        .enumerate()
        .map(|(i, name)| variant(name, i))
        .collect();
    let mut plan = Plan {
        recipe: "twilio".to_owned(),
        question: "What does packet loss do to HTTP/2, compared with HTTP/1.1?".to_owned(),
        variants,
        conditions: [0.0, 0.01, 0.03]
            .map(|loss| squall_made::condition(25, loss))
            .into(),
        requests: vec![RequestTemplate {
            method: "POST".to_owned(),
            body: RequestBody::Size(Bytes::new(1024)),
            ..squall_made::get()
        }],
        ..squall_made::plan()
    };
    for repetition in 0..size.repetitions {
        for (place, condition) in plan.conditions.iter().enumerate() {
            for variant in &plan.variants {
                let index = plan.trials.len() as u32;
                let seed = u64::from(repetition) * 1000 + place as u64 + 0x5eed_0000_0000;
                plan.trials.push(Trial {
                    index,
                    repetition,
                    seed,
                    load: size.load(),
                    ..squall_made::trial(variant.clone(), condition.clone())
                });
            }
        }
    }
    plan
}

fn variant(name: &str, index: usize) -> Variant {
    let (protocol, connections) = match index {
        0 => (Protocol::H1, Connections::OnDemand { at_most: 256 }),
        1 => (Protocol::H2c, Connections::Fixed(1)),
        _ => (Protocol::H2c, Connections::Fixed(8)),
    };
    let mut variant = squall_made::variant(name, protocol);
    variant.hops[0].connections = connections;
    variant
}

fn record(trial: &Trial) -> (TrialRecord, Vec<RequestRecord>) {
    let load_start = Duration::from_millis(500);
    let requests = requests(trial, load_start);
    let measured: Vec<_> = requests
        .iter()
        .filter(|r| r.phase == Phase::Measure)
        .collect();
    let answered = measured
        .iter()
        .filter(|r| r.outcome == Outcome::Answered)
        .count() as f64;
    let late = |us| Lateness {
        count: 1000,
        p999: Duration::from_micros(us),
        ..Lateness::default()
    };
    let direction = |direction| DirectionHealth {
        packets: 10_000,
        dropped: 100,
        delivered: 9_900,
        largest_packet_bytes: 1500,
        ..squall_made::direction_health(direction, late(20))
    };
    let record = TrialRecord {
        epoch_unix_ns: 1_763_760_300_000_000_000 + u64::from(trial.index) * 60_000_000_000,
        load_start,
        requests: requests.len() as u64,
        connections_opened: match trial.variant.first_hop().connections {
            Connections::OnDemand { .. } => 87 + trial.repetition,
            Connections::Fixed(count) => count,
        },
        health: Health {
            schedule_lag: late(45),
            link_wakeup: late(30),
            rate_asked_per_s: rate_of(trial).per_second(),
            rate_achieved_per_s: answered / trial.load.duration.as_secs_f64(),
            link: Direction::ALL.map(direction).to_vec(),
            ..squall_made::health()
        },
        ..squall_made::record(trial.clone())
    };
    (record, requests)
}

/// SplitMix64 (Steele, Lea and Flood, 2014): enough for a picture.
struct Dice(u64);

impl Dice {
    fn next(&mut self) -> f64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        ((z ^ (z >> 31)) >> 11) as f64 / (1u64 << 53) as f64
    }
}

fn rate_of(trial: &Trial) -> Rate {
    trial.load.constant_rate().expect("the load has one rate")
}

fn requests(trial: &Trial, load_start: Duration) -> Vec<RequestRecord> {
    let mut dice = Dice(trial.seed ^ trial.variant.name.len() as u64);
    let loss = trial.condition.loss.up.get();
    let base_ms = trial.condition.round_trip().as_millis_f64();
    let mut stalled_until_ms: Vec<f64> = match trial.variant.first_hop().connections {
        Connections::OnDemand { .. } => Vec::new(),
        Connections::Fixed(count) => vec![0.0; count as usize],
    };
    let (load, rate) = (&trial.load, rate_of(trial));
    let count = rate.events_in(load.warmup + load.duration);
    let one = |n: u64| {
        let at = rate.offset_of(n);
        let at_ms = at.as_millis_f64();
        let mut ms = base_ms + 0.4 + 0.3 * dice.next() * dice.next();
        if stalled_until_ms.is_empty() {
            while dice.next() < loss {
                ms += 200.0 + 8.0 * dice.next();
            }
        } else {
            let place = n as usize % stalled_until_ms.len();
            let until = &mut stalled_until_ms[place];
            if dice.next() < loss / 12.0 {
                *until = until.max(at_ms) + 60.0 + 260.0 * dice.next();
            }
            ms += (*until - at_ms).max(0.0);
        }
        request(n, at, ms, load_start, load)
    };
    (0..count).map(one).collect()
}

fn request(n: u64, at: Duration, ms: f64, load_start: Duration, load: &Load) -> RequestRecord {
    let intended = Time::ZERO + load_start + at;
    RequestRecord {
        phase: if at < load.warmup {
            Phase::Warmup
        } else {
            Phase::Measure
        },
        slot: Some(intended),
        written_first: Some(intended),
        written_last: Some(intended),
        end: intended + Duration::from_nanos((ms * 1e6) as u64),
        status: Some(200),
        connection: Some(0),
        stream: Some(1),
        request_body_bytes: 1024,
        response_body_bytes: 1024,
        outcome: Outcome::Answered,
        ..RequestRecord::due(n, intended)
    }
}

/// Gives every `nth` measured request of a trial, starting at `first`, another outcome.
pub fn spoil(requests: &mut [RequestRecord], first: usize, nth: usize, outcome: Outcome) {
    for request in requests
        .iter_mut()
        .filter(|r| r.phase == Phase::Measure)
        .skip(first)
        .step_by(nth)
    {
        request.outcome = outcome;
        request.status = None;
    }
}

/// Gives each request a response time that no other has, up to 71 minutes, as far as microseconds allow: the worst case for
/// compression.
pub fn scatter(requests: &mut [RequestRecord]) {
    let mut dice = Dice(requests.len() as u64);
    for request in requests {
        request.end = request.intended + Duration::from_micros((4.29e9 * dice.next()) as u64);
    }
}

/// Makes each request wait for all before it, the last one for `largest_ms` ms.
pub fn delay(requests: &mut [RequestRecord], largest_ms: u64) {
    let count = requests.len() as u64;
    for (n, request) in requests.iter_mut().enumerate() {
        let waiting = Duration::from_millis(largest_ms * (n as u64 + 1) / count);
        request.end = request.intended + Duration::from_millis(50).max(waiting);
    }
}
