//! A/A tests, from requests to verdicts: simulated trials whose requests are autocorrelated, as those of one connection
//! are, and whose speed varies randomly from trial to trial. Equal variants may differ only by chance, and different ones
//! must be told apart.

// In tests, a panic reports the failure.
#![allow(clippy::unwrap_used)]

use std::sync::OnceLock;

use squall_analysis::answer::Confidence;
use squall_analysis::stats::random::Random;
use squall_analysis::{Difference, RunSummary, TrialRows, Verdict, summarise, trial_evidence};
use squall_base::Duration;
use squall_base::plan::{Plan, Trial};
use squall_base::record::{Outcome, RequestRecord};

use crate::support::{ms, plan, record, request};

const PAIRS: u32 = 10;
const REQUESTS: u64 = 600;

/// A standard normal number (Box and Muller 1958).
fn normal(random: &mut Random) -> f64 {
    let radius = (-2.0 * (1.0 - random.uniform()).ln()).sqrt();
    radius * (std::f64::consts::TAU * random.uniform()).cos()
}

/// Latencies of 20 ms plus a skewed, slowly changing part, all multiplied by `factor`.
fn requests(random: &mut Random, factor: f64) -> Vec<RequestRecord> {
    // Some trials are slower than others, by about 5 %.
    let luck = (0.05 * normal(random)).exp();
    let mut state = normal(random);
    let mut one = |n| {
        state = 0.8 * state + 0.6 * normal(random);
        let took_ms = factor * luck * (20.0 + 5.0 * state.exp());
        let plain = request(n, 1, Outcome::Answered);
        RequestRecord {
            end: plain.intended + Duration::from_nanos((took_ms * 1e6) as u64),
            ..plain
        }
    };
    (0..REQUESTS).map(&mut one).collect()
}

/// A run of h1 and h2c x1 under 20 conditions, the second `factor` times as slow.
fn run(seed: u64, factor: f64) -> RunSummary {
    let one = plan(1);
    let mut plan = Plan {
        trials: Vec::new(),
        conditions: (1..=20)
            .map(|delay| squall_base::plan::Condition {
                delay: ms(delay).into(),
                ..one.conditions[0].clone()
            })
            .collect(),
        ..one.clone()
    };
    let mut random = Random::new(seed);
    let mut trials = Vec::new();
    for repetition in 0..PAIRS {
        for (place, condition) in (0..).zip(plan.conditions.clone()) {
            for (variant, of) in one.trials.iter().enumerate() {
                let trial = Trial {
                    index: plan.trials.len() as u32,
                    repetition,
                    seed: u64::from(repetition * 100 + place),
                    condition: condition.clone(),
                    ..of.clone()
                };
                let factor = if variant == 1 { factor } else { 1.0 };
                let rows = requests(&mut random, factor);
                let rows = TrialRows {
                    requests: &rows,
                    causes: None,
                    exchanges: None,
                    plan: None,
                };
                trials.push(trial_evidence(&record(&trial), rows));
                plan.trials.push(trial);
            }
        }
    }
    summarise(&plan, trials)
}

/// How many runs of equal variants there are.
const RUNS: usize = 6;

/// A run of equal variants, made once for all tests.
fn equal_run(seed: usize) -> &'static RunSummary {
    static MADE: [OnceLock<RunSummary>; RUNS] = [const { OnceLock::new() }; RUNS];
    MADE[seed].get_or_init(|| run(seed as u64, 1.0))
}

fn findings(summary: &RunSummary) -> Vec<Difference> {
    let verdicts = summary
        .conditions
        .iter()
        .flat_map(|condition| &condition.verdicts);
    verdicts
        .filter_map(|verdict| match verdict {
            Verdict::Compared(comparison) => Some(comparison.finding),
            Verdict::Overloaded { .. } => None,
        })
        .collect()
}

#[test]
fn equal_variants_show_no_difference() {
    let (mut runs_fooled, mut by_interval) = (0, 0);
    for seed in 0..RUNS {
        let findings = findings(equal_run(seed));
        assert_eq!(findings.len(), 20);
        let shown =
            |finding: &&Difference| matches!(finding, Difference::Higher | Difference::Lower);
        let seems = |f: &&Difference| matches!(f, Difference::SeemsHigher | Difference::SeemsLower);
        let shown = findings.iter().filter(shown).count();
        assert!(shown <= 1, "run {seed}: {shown} of 20");
        runs_fooled += usize::from(shown > 0);
        by_interval += shown + findings.iter().filter(seems).count();
    }
    // At most 5 % of runs may be: 3 of 6 would be by chance in 1 of 450 tests like this.
    assert!(runs_fooled <= 2, "{runs_fooled} of {RUNS} runs");
    // Without Holm's correction, at most 5 % of 120 comparisons: more than 14 would be by chance 1 time in 1,000.
    assert!(by_interval <= 14, "{by_interval} of 120");
}

#[test]
fn slower_variant_is_found_under_every_condition() {
    let summary = run(77, 1.5);
    let findings = findings(&summary);
    let found = findings
        .iter()
        .filter(|&&f| f == Difference::Higher)
        .count();
    assert_eq!(found, 20, "{findings:?}");
    let answer = summary.answer.unwrap();
    let shown = "A difference is proven in 20 of 20 comparisons.".to_owned();
    assert!(answer.also.contains(&shown), "{answer:?}");
    assert_eq!(answer.confidence, Confidence::Proven);
    let holds_truth = |verdict: &&Verdict| match verdict {
        Verdict::Compared(comparison) => {
            let interval = comparison.ratio.and_then(|ratio| ratio.interval).unwrap();
            (interval.low..=interval.high).contains(&1.5)
        }
        Verdict::Overloaded { .. } => false,
    };
    let verdicts = summary
        .conditions
        .iter()
        .flat_map(|condition| &condition.verdicts);
    let held = verdicts.filter(holds_truth).count();
    // On average 19 of 20 intervals contain the truth; fewer than 17 do 1 time in 60.
    assert!(held >= 17, "{held} of 20");
    // 600 requests take 6 s and batches last a second, so there is no interval within a trial.
    let trial = &summary.conditions[0].cells[0].trials[0];
    assert_eq!(trial.intervals.median, None);
}

#[test]
fn equal_records_have_equal_summaries() {
    assert_eq!(run(3, 1.0), *equal_run(3));
}
