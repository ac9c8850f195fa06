//! Trials in which squall itself was late by a known time: which of their pairs are compared, and as what.
//!
//! How sentences about other pairs read is in `verdict`. Which trials are doubtful is decided where they are recorded.

// In tests, a panic reports the failure.
#![allow(clippy::unwrap_used)]

use squall_analysis::Quantile::{self, Exact};
use squall_analysis::{
    Comparison, Difference, OwnErrors, RunSummary, TrialStats, UnknownReason, Verdict, summarise,
};
use squall_base::Duration;
use squall_base::plan::Plan;
use squall_base::record::Validity;
use squall_base::splitmix::splitmix64;

use crate::support::{ms, plan, trials};

/// h1's and h2c x1's p99 in ms.
type Pair = (u64, u64);

fn p99s(pairs: &[Pair]) -> Vec<(Quantile, Quantile)> {
    let exact = |&(h1, h2c): &Pair| (Exact(ms(h1)), Exact(ms(h2c)));
    pairs.iter().map(exact).collect()
}

/// Makes a trial doubtful, with this part of its p99 being squall's own.
pub(crate) fn doubt(trial: &mut TrialStats, own: Option<Duration>) {
    trial.validity = Validity::Doubtful {
        reasons: vec!["the generator was late".to_owned()],
    };
    trial.own_errors = OwnErrors {
        p99: own,
        ..OwnErrors::default()
    };
}

fn invalid() -> Validity {
    Validity::Invalid {
        reasons: vec!["packets are missing".to_owned()],
    }
}

fn summary_after(pairs: &[Pair], change: impl FnOnce(&mut [TrialStats])) -> RunSummary {
    let plan = plan(pairs.len() as u32);
    let mut trials = trials(&plan, &p99s(pairs));
    change(&mut trials);
    summarise(&plan, trials)
}

fn comparison_of(summary: &RunSummary) -> Comparison {
    let mut verdicts = summary.conditions[0].verdicts.iter();
    let compared = verdicts.find_map(|verdict| match verdict {
        Verdict::Compared(comparison) => Some(comparison.as_ref().clone()),
        Verdict::Overloaded { .. } => None,
    });
    compared.unwrap()
}

/// The comparison after `change`. The trials are in the order of repetitions, h1's before h2c x1's.
fn compared_after(pairs: &[Pair], change: impl FnOnce(&mut [TrialStats])) -> Comparison {
    comparison_of(&summary_after(pairs, change))
}

#[test]
fn difference_that_lateness_cannot_have_made_is_proven() {
    let twice = [(1_000, 2_000); 6];
    let comparison = compared_after(&twice, |trials| doubt(&mut trials[1], Some(ms(120))));
    assert_eq!(comparison.finding, Difference::Higher);
    assert_eq!((comparison.pairs.len(), comparison.doubtful_pairs), (6, 0));
    let ratio = comparison.ratio.unwrap();
    // The low end: without 120 ms, and without the 0.12 ms by which the partner's own error may hide more.
    assert!((ratio.low - 1.87988).abs() < 1e-6, "{ratio:?}");
    assert!((ratio.high - 2.0).abs() < 1e-6, "{ratio:?}");
    let said = comparison.to_string();
    assert!(said.starts_with("h2c x1's p99 is 2.0x h1's"), "{said}");
    let counted = "; 1 doubtful pair counted without squall's own part";
    assert!(said.ends_with(counted), "{said}");
    // Even if no trial is valid.
    let all = summary_after(&twice, |trials| {
        for trial in trials {
            doubt(trial, Some(ms(60)));
        }
    });
    assert_eq!(comparison_of(&all).finding, Difference::Higher);
    let sentence = all.answer.unwrap().sentence;
    let over = "p99 2000 ms against 1000 ms over 6 pairs of which 6 are doubtful";
    assert!(sentence.contains(over), "{sentence}");
}

#[test]
fn difference_that_lateness_may_have_made_is_left_out_and_reported() {
    let slightly = [(1_000, 1_030); 7];
    let one = compared_after(&slightly, |trials| doubt(&mut trials[1], Some(ms(60))));
    assert_eq!((one.pairs.len(), one.doubtful_pairs), (6, 1));
    assert_eq!(one.finding, Difference::Higher);
    let said = one.to_string();
    assert!(said.ends_with("; 1 doubtful pair left out"), "{said}");
    let all = summary_after(&slightly, |trials| {
        for trial in trials.iter_mut().skip(1).step_by(2) {
            doubt(trial, Some(ms(60)));
        }
    });
    let comparison = comparison_of(&all);
    assert_eq!(
        comparison.finding,
        Difference::Unknown(UnknownReason::Doubtful)
    );
    assert_eq!(
        comparison.to_string(),
        "h2c x1 and h1 cannot be compared by p99: squall itself was so late that it may have made the difference; 7 \
         doubtful pairs left out"
    );
    let how_sure = all.answer.unwrap().how_sure;
    assert!(how_sure.contains("--repetitions 7"), "{how_sure}");
}

#[test]
fn pair_that_contradicts_the_others_counts_as_much_as_one_that_agrees() {
    let mut pairs = vec![(1_000, 2_000); 6];
    pairs.push((2_000, 1_000));
    let comparison = compared_after(&pairs, |trials| {
        for trial in trials {
            doubt(trial, Some(ms(10)));
        }
    });
    assert_eq!((comparison.pairs.len(), comparison.doubtful_pairs), (7, 0));
    assert_eq!(comparison.finding, Difference::NoDifference);
}

#[test]
fn trials_whose_lateness_has_an_unknown_effect_do_not_count() {
    let twice = [(1_000, 2_000); 6];
    let unknown = compared_after(&twice, |trials| doubt(&mut trials[1], None));
    assert_eq!((unknown.pairs.len(), unknown.doubtful_pairs), (5, 1));
    // The time that was added is known for response times only.
    let plan = Plan {
        measures: vec!["connections".parse().unwrap()],
        ..plan(6)
    };
    let mut trials = trials(&plan, &p99s(&twice));
    for trial in &mut trials {
        doubt(trial, Some(ms(1)));
    }
    let other = comparison_of(&summarise(&plan, trials));
    assert_eq!(other.finding, Difference::Unknown(UnknownReason::Doubtful));
}

#[test]
fn trial_that_is_invalid_for_another_reason_stays_out() {
    let twice = [(1_000, 2_000); 7];
    let comparison = compared_after(&twice, |trials| {
        doubt(&mut trials[0], Some(ms(60)));
        doubt(&mut trials[1], Some(ms(60)));
        trials[1].validity = invalid();
    });
    assert_eq!(comparison.pairs.len(), 6);
    assert_eq!(
        (comparison.invalid_pairs, comparison.doubtful_pairs),
        (1, 0)
    );
    assert!(comparison.pairs.iter().all(|pair| !pair.is_doubtful));
    let said = comparison.to_string();
    assert!(said.ends_with("; 1 invalid pair left out"), "{said}");
}

#[test]
fn order_of_trials_does_not_matter() {
    let pairs = [
        (1_000, 2_000),
        (1_000, 1_030),
        (1_000, 1_900),
        (1_100, 2_100),
        (1_000, 990),
        (1_000, 2_200),
        (1_050, 2_000),
        (1_000, 1_500),
    ];
    let plan = plan(pairs.len() as u32);
    let mut trials = trials(&plan, &p99s(&pairs));
    for place in [1, 2, 6, 9, 15] {
        doubt(&mut trials[place], Some(ms(60)));
    }
    let summary = summarise(&plan, trials.clone());
    let comparison = comparison_of(&summary);
    assert_eq!((comparison.pairs.len(), comparison.doubtful_pairs), (6, 2));
    trials.reverse();
    assert_eq!(summarise(&plan, trials.clone()), summary);
    trials.rotate_left(5);
    assert_eq!(summarise(&plan, trials), summary);
}

/// Equal variants: chance sets their p99s apart by up to 15 %, and half of the trials are doubtful by 6 %. Which pairs count
/// must not favour a result, so a difference is found in at most 5 % of runs: 20 of 400, and more than 33 once in 500 times.
#[test]
fn counted_pairs_show_no_difference_between_equal_variants() {
    let plan = plan(20);
    let equal = trials(&plan, &p99s(&[(100, 100); 20]));
    let (mut shown, mut left_out) = (0, 0);
    for run in 0..400 {
        let mut trials = equal.clone();
        for (place, trial) in trials.iter_mut().enumerate() {
            let draw = splitmix64(run, place as u64);
            let share = (draw >> 11) as f64 / (1_u64 << 53) as f64;
            let micros = 100_000.0 * (1.0 + 0.15 * share);
            trial.p99 = Some(Exact(Duration::from_micros(micros.round() as u64)));
            if draw & 1 == 1 {
                doubt(trial, Some(ms(6)));
            }
        }
        let comparison = comparison_of(&summarise(&plan, trials));
        left_out += comparison.doubtful_pairs;
        let is_shown = matches!(comparison.finding, Difference::Higher | Difference::Lower);
        shown += u32::from(is_shown);
    }
    assert!(shown <= 33, "{shown} of 400");
    assert!(left_out > 400, "{left_out} pairs");
}

#[test]
fn figures_of_a_cell_are_those_of_doubtful_trials_if_it_has_no_better_ones() {
    let mut summary = summary_after(&[(1_000, 2_000), (1_200, 2_000)], |trials| {
        doubt(&mut trials[0], Some(ms(60)));
        trials[2].validity = invalid();
    });
    let cell = &summary.conditions[0].cells[0];
    assert!(cell.is_doubtful() && cell.p99.is_none() && cell.evidence().is_empty());
    let shown = cell.as_if_valid().unwrap();
    assert_eq!(shown.p99.unwrap().high, Exact(ms(1_000)));
    assert_eq!(cell.first_doubt(), Some("the generator was late"));
    let warnings: Vec<String> = summary.warnings.iter().map(ToString::to_string).collect();
    let warning = "is doubtful: the generator was late. It is compared only where that cannot change the answer. Repeat it \
                   with `squall run --resume RUN`.";
    assert!(
        warnings.iter().any(|it| it.ends_with(warning)),
        "{warnings:?}"
    );
    let text = serde_json::to_string(&summary).unwrap();
    assert_eq!(serde_json::from_str::<RunSummary>(&text).unwrap(), summary);
    // A valid trial is better than both.
    let trials = &mut summary.conditions[0].cells[1].trials;
    doubt(&mut trials[0], Some(ms(60)));
    assert!(!summary.conditions[0].cells[1].is_doubtful());
}
