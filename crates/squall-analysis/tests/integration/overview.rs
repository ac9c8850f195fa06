//! A run at a glance: the answer as one clause, the health of the run, the conditions as a grid, and findings by kind.

// In tests, a panic reports the failure.
#![allow(clippy::unwrap_used)]

use squall_analysis::findings::{
    CellFindings, CostShare, Evidence, Finding, Fix, RunFinding, Severity, Whole, merged,
};
use squall_analysis::{FieldOutcome, HealthGrade, Quantile, RunSummary, summarise};
use squall_base::Probability;
use squall_base::plan::{Condition, Plan};
use squall_base::record::Validity;

use crate::support::{ms, plan, trials};

fn exact(millis: u64) -> Quantile {
    Quantile::Exact(ms(millis))
}

/// Six pairs with these p99s of h1 and h2c x1.
fn summary(plan: &Plan, h1: Quantile, h2c: Quantile) -> RunSummary {
    summarise(plan, trials(plan, &[(h1, h2c); 6]))
}

#[test]
fn headline_names_the_winner_whichever_variant_it_is() {
    let plan = plan(6);
    let headline = |h1, h2c| summary(&plan, h1, h2c).answer.unwrap().headline;
    assert_eq!(
        headline(exact(20), exact(40)),
        "h1 wins: its p99 is 0.50x that of h2c x1, at delay 10ms, loss 3%"
    );
    assert_eq!(
        headline(exact(40), exact(20)),
        "h2c x1 wins: its p99 is 0.50x that of h1, at delay 10ms, loss 3%"
    );
    // What the loser took is only known to be more.
    let cut_off = Quantile::AtLeast(ms(40));
    assert_eq!(
        headline(exact(20), cut_off),
        "h1 wins: its p99 is at most 0.50x that of h2c x1, at delay 10ms, loss 3%"
    );
    let same = headline(exact(20), exact(20));
    assert!(same.starts_with("No winner"), "{same}");
}

#[test]
fn run_is_sound_only_if_every_trial_is_valid() {
    let plan = plan(6);
    let health = summary(&plan, exact(20), exact(40)).health();
    assert_eq!(health.grade, HealthGrade::Sound);
    assert_eq!(health.sentence, "12 of 12 trials valid");
    let mut stats = trials(&plan, &[(exact(20), exact(40)); 6]);
    let invalid = Validity::Invalid {
        reasons: vec!["the link was late".to_owned()],
    };
    stats[0].validity = invalid.clone();
    let health = summarise(&plan, stats.clone()).health();
    assert_eq!(health.grade, HealthGrade::Doubtful);
    assert!(
        health.sentence.starts_with("11 of 12 trials valid; "),
        "{health:?}"
    );
    // All of h1's trials.
    for stats in stats.iter_mut().step_by(2) {
        stats.validity = invalid.clone();
    }
    let health = summarise(&plan, stats).health();
    assert_eq!(health.grade, HealthGrade::Unsound);
    assert!(
        health
            .sentence
            .contains("1 of 2 combinations of variant and condition have no valid trial"),
        "{health:?}"
    );
}

#[test]
fn conditions_are_a_grid_of_the_settings_that_differ() {
    let mut plan = plan(6);
    let own = plan.conditions[0].clone();
    let with = |delay_ms: u64, loss: f64| Condition {
        delay: ms(delay_ms).into(),
        loss: Probability::new(loss).unwrap().into(),
        ..own.clone()
    };
    plan.conditions = vec![with(10, 0.0), own.clone(), with(50, 0.0), with(50, 0.03)];
    let summary = summary(&plan, exact(20), exact(40));
    let grids = summary.grids();
    assert_eq!(grids.len(), 1);
    let grid = &grids[0];
    assert_eq!(
        (grid.columns.setting.as_str(), grid.rows.setting.as_str()),
        ("delay", "loss")
    );
    assert_eq!(grid.columns.values, ["10ms", "50ms"]);
    assert_eq!(grid.rows.values, ["0%", "3%"]);
    assert_eq!(
        grid.conditions,
        [[Some(0), Some(2)], [Some(1), Some(3)]].map(|row| row.to_vec())
    );
    let pairs = summary.compared_pairs();
    assert_eq!(pairs.len(), 1);
    let field = pairs[0].field(&summary.conditions[1]);
    assert!(
        matches!(field.outcome, FieldOutcome::Baseline(_)),
        "{field:?}"
    );
    assert_eq!(field.ratio, "2.0x");
    let untried = pairs[0].field(&summary.conditions[0]);
    assert_eq!(untried.outcome, FieldOutcome::NotCompared);
}

#[test]
fn a_run_of_one_condition_has_no_grid() {
    assert!(summary(&plan(6), exact(20), exact(40)).grids().is_empty());
}

/// A cell with one finding of this kind, which costs this share of the response time.
fn cell(variant: &str, name: &str, part: f64, setting: &str) -> CellFindings {
    let finding = Finding {
        name: name.to_owned(),
        title: name.to_owned(),
        severity: Severity::of(part),
        share: CostShare {
            part,
            of: Whole::ResponseTime,
        },
        evidence: Evidence::default(),
        explanation: String::new(),
        fixes: vec![Fix {
            station: "client".to_owned(),
            setting: setting.to_owned(),
            changes: Vec::new(),
        }],
        hop: None,
    };
    CellFindings {
        variant: variant.to_owned(),
        condition: plan(1).conditions[0].clone(),
        findings: vec![RunFinding {
            trials: 1,
            of: 1,
            folder: String::new(),
            finding,
        }],
    }
}

#[test]
fn findings_of_a_kind_are_merged_and_keep_every_fix_once() {
    let cells = [
        cell("a", "nagle", 0.1, "x"),
        cell("b", "head_of_line", 0.3, "y"),
        cell("c", "nagle", 0.5, "z"),
        cell("d", "nagle", 0.2, "x"),
    ];
    let found = merged(&cells);
    let kinds: Vec<&str> = found
        .iter()
        .map(|it| it.worst.finding.name.as_str())
        .collect();
    assert_eq!(kinds, ["nagle", "head_of_line"], "the worst first");
    assert_eq!(found[0].variants(), ["c", "d", "a"]);
    assert_eq!(found[0].conditions(), 1);
    let fixes: Vec<&str> = found[0]
        .fixes
        .iter()
        .map(|fix| fix.setting.as_str())
        .collect();
    assert_eq!(fixes, ["z", "x"]);
}
