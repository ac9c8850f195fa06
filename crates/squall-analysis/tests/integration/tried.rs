//! The sentences about the fixes that a run tried.

// In tests, a panic reports the failure.
#![allow(clippy::unwrap_used)]

use squall_analysis::Quantile::{self, Exact};
use squall_analysis::{TrialStats, summarise, tried_fixes};
use squall_base::plan::{ChosenFixes, FixTrials, FixesToTry, Plan, SettingChange, Side, Trial};

use crate::support::{ms, plan, trials};

const ORIGINAL: &str = "x without s=1";
const FIXED: &str = "x + s=1";

/// A plan of this many pairs that also tries a fix in as many.
fn plan_with_fix(pairs: u32) -> Plan {
    let mut plan = plan(pairs);
    let of_fix = |trial: &Trial| {
        let mut own = trial.clone();
        own.index += 2 * pairs;
        let is_first = own.variant.name == "h1";
        own.variant.name = if is_first { ORIGINAL } else { FIXED }.to_owned();
        own
    };
    let fix = FixTrials {
        finding: "stream_window".to_owned(),
        title: "Stream window too small".to_owned(),
        variant: "x".to_owned(),
        station: "client".to_owned(),
        changes: vec![SettingChange {
            hop: 1,
            side: Side::Client,
            setting: "s".to_owned(),
            value: "1".to_owned(),
        }],
        original: ORIGINAL.to_owned(),
        fixed: FIXED.to_owned(),
        trials: plan.trials.iter().map(of_fix).collect(),
    };
    plan.fixes = Some(FixesToTry {
        at_most: 1,
        chosen: Some(ChosenFixes {
            tried: vec![fix],
            not_tried: Vec::new(),
        }),
    });
    plan
}

/// The trials of the fix, with these p99s without and with it.
fn of_fix(plan: &Plan, p99s: &[(Quantile, Quantile)]) -> Vec<TrialStats> {
    let own = Plan {
        trials: plan.fix_trials().cloned().collect(),
        ..plan.clone()
    };
    trials(&own, p99s)
}

/// The result of a fix whose trials have these p99s in ms.
fn said(p99s: &[(u64, u64)]) -> String {
    let plan = plan_with_fix(p99s.len() as u32);
    let p99s: Vec<_> = p99s
        .iter()
        .map(|(without, with)| (Exact(ms(*without)), Exact(ms(*with))))
        .collect();
    let tried = tried_fixes(&plan, &of_fix(&plan, &p99s));
    assert_eq!(tried.len(), 1);
    assert_eq!(tried[0].what(), "s = 1 on client");
    assert_eq!(tried[0].results.len(), 1);
    tried[0].results[0].sentence.clone()
}

#[test]
fn fix_that_helps_in_six_pairs_is_a_proven_gain() {
    assert_eq!(
        said(&[(100, 50); 6]),
        "p99 100 ms -> 50.0 ms, 0.50x (0.50x to 0.50x), a proven gain by 6 pairs"
    );
    assert_eq!(
        said(&[(100, 200); 6]),
        "p99 100 ms -> 200 ms, 2.0x (2.0x to 2.0x), a proven loss by 6 pairs"
    );
}

#[test]
fn few_pairs_prove_no_gain() {
    assert_eq!(
        said(&[(100, 50); 2]),
        "p99 100 ms -> 50.0 ms, 0.50x, not proven: 2 pairs cannot prove it"
    );
}

#[test]
fn fix_without_trials_is_reported_as_not_comparable() {
    let tried = tried_fixes(&plan_with_fix(2), &[]);
    let sentence = &tried[0].results[0].sentence;
    assert!(
        sentence.starts_with("p99: cannot be compared"),
        "{sentence}"
    );
}

#[test]
fn trials_of_fixes_are_in_no_cell() {
    let plan = plan_with_fix(2);
    let p99s = [(Exact(ms(100)), Exact(ms(50))); 2];
    let planned = trials(&plan, &p99s);
    let all = planned.iter().cloned().chain(of_fix(&plan, &p99s));
    let [with, without] = [all.collect(), planned.clone()].map(|of| summarise(&plan, of));
    assert_eq!(with.conditions, without.conditions);
    assert!(plan.fix_trials().all(|trial| plan.is_of_fix(trial)));
    assert!(!plan.trials.iter().any(|trial| plan.is_of_fix(trial)));
}
