//! What a run may claim about two variants, in the sentences that users read.

// In tests, a panic reports the failure.
#![allow(clippy::unwrap_used)]

use squall_analysis::Quantile::{self, AtLeast, Exact, Never};
use squall_analysis::answer::Confidence;
use squall_analysis::{Difference, RunSummary, TrialStats, Verdict, summarise, trial_stats};
use squall_base::Duration;
use squall_base::plan::{Measure, Plan, Primary};
use squall_base::record::Validity;

use crate::support::{ms, plan, trials};

/// All verdicts on trials with these p99s, h1's and h2c x1's, after `change`.
fn said_after(p99s: &[(Quantile, Quantile)], change: impl FnOnce(&mut [TrialStats])) -> String {
    let plan = plan(p99s.len() as u32);
    let mut trials = trials(&plan, p99s);
    change(&mut trials);
    let summary = summarise(&plan, trials);
    summary.conditions[0]
        .verdicts
        .iter()
        .map(|v| format!("{v}\n"))
        .collect()
}

fn said(p99s: &[(Quantile, Quantile)]) -> String {
    said_after(p99s, |_| {})
}

fn exact(h1: u64, h2c: u64) -> (Quantile, Quantile) {
    (Exact(ms(h1)), Exact(ms(h2c)))
}

/// Six pairs, the fewest that can show anything: h1's p99 is 100 ms, h2c x1's `factor` times that, give or take 2 %.
fn six(factor: f64) -> Vec<(Quantile, Quantile)> {
    pairs_of(factor, &[-2.0, -1.0, 0.0, 0.0, 1.0, 2.0])
}

/// A pair for each deviation in percent.
fn pairs_of(factor: f64, deviations: &[f64]) -> Vec<(Quantile, Quantile)> {
    let us = |ms: f64| Exact(Duration::from_micros((ms * 1000.0).round() as u64));
    let pair = |percent: &f64| (us(100.0), us(100.0 * factor * (1.0 + percent / 100.0)));
    deviations.iter().map(pair).collect()
}

#[test]
fn difference_is_reported_if_chance_hardly_explains_it() {
    assert_eq!(
        said(&six(2.0)),
        "h2c x1's p99 is 2.0x h1's (200 ms against 100 ms; 95 % 2.0x to 2.0x, 6 pairs; p 0.031, MDE 1.02x)\n"
    );
    assert_eq!(
        said(&six(0.5)),
        "h2c x1's p99 is 0.50x h1's (50.0 ms against 100 ms; 95 % 0.49x to 0.51x, 6 pairs; p 0.031, MDE 1.02x)\n"
    );
    // By hand: the standard deviation of ln(1 + percent) is 0.01415; 2.8 x 0.01415 / sqrt(6) = 0.01617.
}

#[test]
fn few_pairs_prove_nothing_whatever_they_show() {
    assert_eq!(
        said(&[exact(100, 250)]),
        "h2c x1's p99 was 2.5x h1's (250 ms against 100 ms; 1 pair; MDE n/a); 1 pair proves nothing (chance alone: p \
         1.00 at best)\n"
    );
    // sd of ln(2), ln(184/116) = 0.1639; 2.8 x 0.1639 / sqrt(2) = 0.3244; e^0.3244 = 1.383.
    assert_eq!(
        said(&[exact(120, 240), exact(116, 184)]),
        "h2c x1's p99 was 1.8x h1's (212 ms against 118 ms; 1.6x to 2.0x over 2 pairs; MDE 1.4x); 2 pairs prove nothing \
         (chance alone: p 0.50 at best)\n"
    );
    assert_eq!(
        said(&pairs_of(3.0, &[0.0; 5])),
        "h2c x1's p99 was 3.0x h1's (300 ms against 100 ms; 3.0x to 3.0x over 5 pairs; MDE 1.002x); 5 pairs prove \
         nothing (chance alone: p 0.062 at best)\n"
    );
}

/// The standard deviation of the logarithms is 0.0623; e^(2.8 x 0.0623 / sqrt(6)) = 1.074.
#[test]
fn pairs_that_disagree_only_bound_the_difference() {
    let said = said(&pairs_of(1.0, &[-9.0, -5.0, -1.0, 2.0, 4.0, 8.0]));
    assert!(
        said.starts_with("h2c x1 and h1: no difference of p99 larger than 1."),
        "{said}"
    );
    assert!(
        said.contains("6 pairs; p ") && said.contains(", MDE 1.07x)"),
        "{said}"
    );
}

#[test]
fn differences_within_our_own_error_are_not_reported() {
    // Each trial's own error is 40 + 20 + 30 + 30 us.
    let off = |us: u64| (Exact(ms(100)), Exact(Duration::from_micros(100_000 + us)));
    assert_eq!(
        said(&[off(240), off(150)]),
        "h2c x1 and h1: no difference of p99 beyond our own error of 240 us (1.002x; 1.001x to 1.002x over 2 pairs; MDE \
         1.002x)\n"
    );
    // All pairs agree, but most of them differ by less than our own error.
    let six = [off(239), off(238), off(241), off(237), off(239), off(260)];
    let within = said(&six);
    assert!(
        within.contains("no difference of p99 beyond our own error of 240 us"),
        "{within}"
    );
    let beyond = said(&[off(339), off(338), off(341), off(337), off(339), off(340)]);
    assert!(
        beyond.starts_with("h2c x1's p99 is 1.003x h1's"),
        "{beyond}"
    );
}

#[test]
fn lower_bounds_are_compared_only_where_they_decide_which_is_higher() {
    let bound = |h1, h2c| (Exact(ms(h1)), AtLeast(ms(h2c)));
    assert_eq!(
        said(&[bound(100, 400), bound(100, 500)]),
        "h2c x1's p99 was at least 4.5x h1's (more than 450 ms against 100 ms; at least 4.0x to 5.0x over 2 pairs; MDE \
         n/a); 2 pairs prove nothing (chance alone: p 0.50 at best)\n"
    );
    assert_eq!(
        said(&[bound(100, 400); 6]),
        "h2c x1's p99 is at least 4.0x h1's (more than 400 ms against 100 ms; at least 4.0x to 4.0x over 6 pairs; p 0.031, \
         MDE n/a)\n"
    );
    let hidden = "h2c x1 and h1 cannot be compared by p99: unfinished or failed requests hide which is higher\n";
    assert_eq!(said(&[bound(100, 90), bound(100, 500)]), hidden);
    assert_eq!(
        said(&[(AtLeast(ms(100)), AtLeast(ms(900))), exact(1, 9)]),
        hidden
    );
    assert_eq!(said(&[(Never, Never), (Never, Never)]), hidden);
    assert_eq!(
        said(&[(Exact(ms(50)), Never); 6]),
        "h2c x1's p99 is higher than h1's (never answered against 50.0 ms; 6 pairs; p 0.031, MDE n/a)\n"
    );
    let once_never = [(Exact(ms(50)), Never), exact(50, 60), exact(50, 40)];
    assert_eq!(
        said(&once_never),
        "h2c x1 and h1: no difference of p99 shown: the 3 pairs disagree\n"
    );
}

#[test]
fn an_overloaded_variant_is_named_first() {
    assert_eq!(
        said_after(&six(9.0), overload(&["h2c x1"])),
        "h2c x1 cannot carry the load here: 41.2 of 100 requests/s\n\
         h2c x1's p99 is higher than h1's (6 pairs; p 0.031, MDE n/a); by how much depends on how long it runs, because \
         h2c x1 cannot carry the load\n"
    );
}

#[test]
fn overloaded_variants_are_compared_without_a_ratio() {
    let last = |p99s: &[(Quantile, Quantile)], variants| {
        let said = said_after(p99s, overload(variants));
        said.lines().last().unwrap().to_owned()
    };
    assert_eq!(
        last(&[exact(900, 10)], &["h1"]),
        "h2c x1's p99 was lower than h1's; by how much depends on how long it runs, because h1 cannot carry the load; \
         1 pair proves nothing (chance alone: p 1.00 at best)"
    );
    assert_eq!(
        last(&six(1.4), &["h1", "h2c x1"]),
        "h2c x1's p99 is higher than h1's (6 pairs; p 0.031, MDE n/a); by how much depends on how long it runs, because \
         neither can carry the load"
    );
    let undecided = last(
        &pairs_of(1.0, &[-9.0, -5.0, -1.0, 2.0, 4.0, 8.0]),
        &["h1", "h2c x1"],
    );
    assert!(
        undecided.starts_with("h2c x1 and h1: no difference of p99 shown (6 pairs; p "),
        "{undecided}"
    );
    assert!(!undecided.contains("0x"));
    // A lower bound has no ratio either.
    let bound = (Exact(ms(10)), AtLeast(ms(900)));
    assert!(!last(&[bound; 6], &["h2c x1"]).contains("0x"));
    // Failures are final, so they do not depend on the duration.
    assert_eq!(
        last(&[(Exact(ms(50)), Never); 6], &["h2c x1"]),
        "h2c x1's p99 is higher than h1's (never answered against 50.0 ms; 6 pairs; p 0.031, MDE n/a)"
    );
}

#[test]
fn variant_at_95_percent_of_the_rate_is_not_overloaded() {
    let slow = |trials: &mut [TrialStats]| trials[1].rate_achieved_per_s = 95.0;
    assert!(said_after(&[exact(100, 250)], slow).starts_with("h2c x1's p99 was 2.5x h1's"));
}

/// Makes these variants achieve less than half of the requested rate.
fn overload(variants: &'static [&str]) -> impl Fn(&mut [TrialStats]) {
    move |trials| {
        for trial in trials {
            if variants.contains(&trial.variant.as_str()) {
                trial.rate_achieved_per_s = 41.2;
            }
        }
    }
}

#[test]
fn invalid_trials_are_left_out_and_counted() {
    let spoil = |trials: &mut [TrialStats]| {
        trials[0].validity = Validity::Invalid {
            reasons: vec!["late".to_owned()],
        };
        trials[0].p99 = Some(Exact(ms(1)));
    };
    let mut seven = six(2.0);
    seven.insert(0, exact(500, 100));
    assert_eq!(
        said_after(&seven, spoil),
        "h2c x1's p99 is 2.0x h1's (200 ms against 100 ms; 95 % 2.0x to 2.0x, 6 pairs; p 0.031, MDE 1.02x); 1 invalid \
         pair left out\n"
    );
    assert_eq!(
        said_after(&seven[..1], spoil),
        "h2c x1 and h1 cannot be compared by p99: there is no pair of valid trials; 1 invalid pair left out\n"
    );
}

/// Makes the emulated path itself the bottleneck of the first `repetitions` trials of these variants.
fn limit(variants: &'static [&str], repetitions: u32) -> impl Fn(&mut [TrialStats]) {
    move |trials| {
        for trial in trials {
            if variants.contains(&trial.variant.as_str()) && trial.repetition < repetitions {
                trial.validity = Validity::Limited {
                    reasons: vec!["the emulated path carries 2 Gbit/s here: set `rate`".to_owned()],
                };
            }
        }
    }
}

#[test]
fn variant_that_the_link_limits_is_not_blamed() {
    let unknown =
        "h2c x1 and h1 cannot be compared by p99: the link itself was the bottleneck; set `rate`\n";
    assert_eq!(
        said_after(&[exact(100, 500)], limit(&["h1", "h2c x1"], 1)),
        unknown
    );
    // It might be faster than the other one.
    assert_eq!(
        said_after(&[exact(100, 500)], limit(&["h2c x1"], 1)),
        unknown
    );
}

#[test]
fn variant_that_is_slower_for_another_reason_is_at_least_that_much_slower() {
    let one = said_after(&[exact(500, 11_770)], limit(&["h1"], 1));
    assert!(one.starts_with("h2c x1's p99 was at least "), "{one}");
    assert!(one.contains(" against at most 500 ms; 1 pair"), "{one}");
    let limit_said = "; a limit, because the link itself was a bottleneck\n";
    assert!(one.ends_with(limit_said), "{one}");
    let all = said_after(&six(2.0), limit(&["h1"], 6));
    assert!(
        all.starts_with("h2c x1's p99 is at least 2.0x h1's (200 ms against at most 100 ms"),
        "{all}"
    );
    // With some of the trials limited, the others are known.
    let some = said_after(&six(2.0), limit(&["h1"], 2));
    assert!(
        some.starts_with("h2c x1's p99 is at least 2.0x h1's"),
        "{some}"
    );
}

#[test]
fn pairs_whose_bottleneck_leaves_the_question_open_are_left_out() {
    let mut seven = six(2.0);
    seven.insert(0, exact(500, 100));
    assert_eq!(
        said_after(&seven, limit(&["h1", "h2c x1"], 1)),
        "h2c x1's p99 is 2.0x h1's (200 ms against 100 ms; 95 % 2.0x to 2.0x, 6 pairs; p 0.031, MDE 1.02x); 1 pair left out \
         whose bottleneck was the link itself\n"
    );
}

#[test]
fn trials_of_different_seeds_do_not_form_a_pair() {
    let reseed = |trials: &mut [TrialStats]| trials[1].seed += 1;
    assert_eq!(
        said_after(&[exact(100, 200)], reseed),
        "h2c x1 and h1 cannot be compared by p99: there is no pair of valid trials\n"
    );
}

#[test]
fn lower_percentile_replaces_a_p99_that_lacks_requests() {
    let shorten = |trials: &mut [TrialStats]| {
        for (place, trial) in trials.iter_mut().enumerate() {
            (trial.p99, trial.p95) = (None, None);
            trial.p90 = Some(Exact(ms(10 + 20 * (place as u64 % 2))));
        }
    };
    let six = [exact(1, 2); 6];
    assert_eq!(
        said_after(&six, shorten),
        "h2c x1's p90 is 3.0x h1's (30.0 ms against 10.0 ms; 95 % 3.0x to 3.0x, 6 pairs; p 0.031, MDE 1.02x); there are too \
         few values for a p99\n"
    );
    let empty = |trials: &mut [TrialStats]| {
        for trial in trials {
            (trial.p99, trial.p95, trial.p90) = (None, None, None);
            (trial.median, trial.mean) = (None, None);
        }
    };
    assert_eq!(
        said_after(&six, empty),
        "h2c x1 and h1 cannot be compared by p99: trials have too few values, or none\n"
    );
}

/// The summary of a run of these variants under this number of conditions, with six repetitions. `p99` returns
/// microseconds for a variant, condition and repetition.
fn run_of(names: &[&str], conditions: u32, p99: impl Fn(usize, u32, u32) -> f64) -> RunSummary {
    run_after(names, conditions, p99, |_| {})
}

/// As `run_of`, after `change` of the plan.
fn run_after(
    names: &[&str],
    conditions: u32,
    p99: impl Fn(usize, u32, u32) -> f64,
    change: impl FnOnce(&mut Plan),
) -> RunSummary {
    let mut plan = plan(6);
    let twin = plan.variants[1].clone();
    plan.variants.truncate(names.len().min(2));
    for name in &names[plan.variants.len()..] {
        // Equal to the second variant except for its name.
        plan.variants.push(squall_base::plan::Variant {
            name: (*name).to_owned(),
            ..twin.clone()
        });
    }
    let one = plan.trials[0].clone();
    plan.trials.clear();
    plan.conditions = (1..=conditions)
        .map(|delay| squall_base::plan::Condition {
            delay: ms(u64::from(delay)).into(),
            ..one.condition.clone()
        })
        .collect();
    let mut found = Vec::new();
    for repetition in 0..6 {
        for (place, condition) in (0..).zip(&plan.conditions) {
            for (variant, of) in plan.variants.iter().enumerate() {
                let mut trial = one.clone();
                trial.index = plan.trials.len() as u32;
                trial.repetition = repetition;
                trial.seed = u64::from(repetition * 100 + place);
                trial.variant = of.clone();
                trial.condition = condition.clone();
                let us = p99(variant, place, repetition).round() as u64;
                found.push(TrialStats {
                    p99: Some(Exact(Duration::from_micros(us))),
                    ..trial_stats(&crate::support::record(&trial), &[])
                });
                plan.trials.push(trial);
            }
        }
    }
    change(&mut plan);
    summarise(&plan, found)
}

fn all_said(summary: &RunSummary) -> Vec<String> {
    let verdicts = summary
        .conditions
        .iter()
        .flat_map(|condition| &condition.verdicts);
    verdicts.map(ToString::to_string).collect()
}

#[test]
fn small_p_proves_less_among_many_comparisons() {
    // Four conditions with six pairs each: p is 0.031 for each, 0.125 for all.
    let summary = run_of(&["h1", "h2c x1"], 4, |variant, _, repetition| {
        100_000.0 * (1.0 + variant as f64) + 1_000.0 * f64::from(repetition)
    });
    for said in all_said(&summary) {
        assert!(said.starts_with("h2c x1's p99 seems "), "{said}");
        assert!(
            said.ends_with("; not proved, as chance shows one so large among 4 comparisons"),
            "{said}"
        );
        assert!(
            said.contains("6 pairs; p 0.031 (0.12 among 4), MDE 1.0"),
            "{said}"
        );
    }
    let answer = summary.answer.unwrap();
    assert_eq!(answer.confidence, Confidence::Likely);
    assert!(
        answer.how_sure.starts_with("Likely, but not proven: among 4 comparisons, chance shows one so large in 12.5 % of runs"),
        "{answer:?}"
    );
    let doubts: Vec<String> = summary.warnings.iter().map(ToString::to_string).collect();
    assert!(
        doubts.iter().any(|doubt| doubt.starts_with(
            "A comparison rests on only 6 pairs; with 4 comparisons it takes 8 that all agree"
        )),
        "{doubts:?}"
    );
}

#[test]
fn difference_of_a_variant_from_itself_is_the_noise_floor() {
    // The second variant is about 4 % slower than the first in every pair; its twin differs from it by up to 6 %.
    let summary = run_of(
        &["h1", "h2c x1", "h2c x1 again"],
        1,
        |variant, _, repetition| {
            let wave = f64::from(repetition) * 100.0;
            match variant {
                0 => 100_000.0 + wave,
                1 => 104_000.0 + wave * 2.0,
                _ => 104_000.0 + wave * if repetition % 2 == 0 { 12.0 } else { -12.0 },
            }
        },
    );
    let said = all_said(&summary);
    assert!(
        said[0].starts_with("h2c x1 and h1: no difference of p99 beyond the noise floor of 1.0"),
        "{said:?}"
    );
    assert!(
        said[1].starts_with("A/A: h2c x1 again and h2c x1: no difference of p99 larger than 1.0"),
        "{said:?}"
    );
    assert_eq!(said.len(), 2);
}

#[test]
fn variant_that_differs_from_itself_causes_a_warning() {
    let summary = run_of(
        &["h1", "h2c x1", "h2c x1 again"],
        1,
        |variant, _, repetition| 100_000.0 * (1.0 + variant as f64) + 100.0 * f64::from(repetition),
    );
    let doubts: Vec<String> = summary.warnings.iter().map(ToString::to_string).collect();
    assert!(
        doubts.iter().any(|doubt| doubt
            .contains("a variant differs from itself: A/A: h2c x1 again's p99 is 1.5x")),
        "{doubts:?}"
    );
}

/// Makes the comparison of h2c x1 with h1 under the first condition the primary one.
fn with_primary(plan: &mut Plan) {
    plan.primary = Some(Primary {
        variant: "h2c x1".to_owned(),
        baseline: "h1".to_owned(),
        condition: plan.conditions[0].clone(),
    });
}

fn compared(summary: &RunSummary) -> Vec<(bool, Difference, Option<f64>)> {
    let verdicts = summary
        .conditions
        .iter()
        .flat_map(|condition| &condition.verdicts);
    let compared = verdicts.filter_map(|verdict| match verdict {
        Verdict::Compared(it) => Some((it.is_primary, it.finding, it.p_adjusted)),
        Verdict::Overloaded { .. } => None,
    });
    compared.collect()
}

#[test]
fn primary_comparison_is_tested_at_the_full_level_before_the_others() {
    let twice = |variant: usize, _: u32, repetition: u32| {
        100_000.0 * (1.0 + variant as f64) + 1_000.0 * f64::from(repetition)
    };
    let summary = run_after(&["h1", "h2c x1"], 4, twice, with_primary);
    let found = compared(&summary);
    assert_eq!(found[0], (true, Difference::Higher, Some(0.03125)));
    // Six pairs cannot prove anything among three comparisons.
    for other in &found[1..] {
        assert_eq!(*other, (false, Difference::SeemsHigher, Some(0.09375)));
    }
    let answer = summary.answer.unwrap();
    assert_eq!(answer.confidence, Confidence::Proven);
    let result = answer.result.unwrap();
    let names = (result.winner.as_deref(), result.variant.as_str());
    assert_eq!(names, (Some("h1"), "h2c x1"));
    assert_eq!((result.unit.as_str(), result.pairs), ("ns", 6));
    assert_eq!(result.p_adjusted, Some(0.03125));
    let interval = result.ratio_interval_95.unwrap();
    let ratio = result.ratio.unwrap();
    assert!(interval.low <= ratio && ratio <= interval.high, "{ratio}");
    // Without a primary comparison, all four are treated alike.
    let summary = run_of(&["h1", "h2c x1"], 4, twice);
    assert!(compared(&summary).iter().all(|it| it.2 == Some(0.125)));
}

#[test]
fn nothing_is_proven_if_the_primary_comparison_is_not() {
    let summary = run_after(
        &["h1", "h2c x1"],
        2,
        |variant, condition, repetition| {
            let factor = if condition == 0 { 0.0 } else { variant as f64 };
            100_000.0 * (1.0 + factor) + 1_000.0 * f64::from(repetition)
        },
        with_primary,
    );
    let found = compared(&summary);
    assert!(found[0].0 && found[0].1 == Difference::Same, "{found:?}");
    assert_eq!(found[1].1, Difference::SeemsHigher);
    let answer = summary.answer.unwrap();
    assert_eq!(answer.confidence, Confidence::NotShown);
}

#[test]
fn counts_are_compared_in_addition_to_the_first_measure() {
    let summary = run_after(
        &["h1", "h2c x1"],
        1,
        |variant, _, repetition| 100_000.0 * (1.0 + variant as f64) + f64::from(repetition),
        |plan| plan.measures = vec![Measure::USUAL, Measure::Connections],
    );
    let said = all_said(&summary);
    assert!(said[0].starts_with("h2c x1's p99 is 2.0x h1's"), "{said:?}");
    assert_eq!(
        said[1],
        "h2c x1 and h1 have the same number of connections (3, 6 pairs)"
    );
}

#[test]
fn interquartile_range_shows_which_variant_varies_more() {
    let measure = "response time iqr".parse().unwrap();
    let plan = Plan {
        measures: vec![measure],
        ..plan(6)
    };
    let mut trials = trials(&plan, &six(1.0));
    for trial in &mut trials {
        let range = if trial.variant == "h1" { 10 } else { 30 };
        trial.interquartile_range = Some(Exact(Duration::from_millis(range)));
    }
    let answer = summarise(&plan, trials).answer.unwrap();
    assert_eq!(
        answer.sentence,
        "h2c x1 varies more than h1: IQR of the response time 30.0 ms against 10.0 ms, 3.0x, at delay 10ms, loss 3%."
    );
}

#[test]
fn undecided_answer_suggests_the_command_for_more_repetitions() {
    let how_sure = |p99s: &[_], change: &dyn Fn(&mut TrialStats)| {
        let plan = plan(p99s.len() as u32);
        let mut trials = trials(&plan, p99s);
        trials.iter_mut().for_each(change);
        summarise(&plan, trials).answer.unwrap().how_sure
    };
    let command = |repetitions: u32| {
        format!(". Add repetitions with `squall run --resume RUN --repetitions {repetitions}`.")
    };
    let as_it_is = |_: &mut TrialStats| {};
    let few = how_sure(&pairs_of(3.0, &[0.0, 1.0]), &as_it_is);
    assert!(
        few.starts_with("Likely") && few.ends_with(&command(6)),
        "{few}"
    );
    let noise = pairs_of(1.0, &[-2.0, -1.0, -0.5, 0.5, 1.0, 2.0]);
    let not_shown = how_sure(&noise, &as_it_is);
    assert!(
        not_shown.starts_with("Not shown") && not_shown.ends_with(&command(12)),
        "{not_shown}"
    );
    let invalid = |trial: &mut TrialStats| {
        trial.validity = Validity::Invalid {
            reasons: vec!["the link was late".to_owned()],
        };
    };
    let unknown = how_sure(&pairs_of(3.0, &[0.0; 8]), &invalid);
    assert!(
        unknown.starts_with("Cannot be told") && unknown.ends_with(&command(8)),
        "{unknown}"
    );
    let proven = how_sure(&six(2.0), &as_it_is);
    assert!(!proven.contains("--repetitions"), "{proven}");
}

#[test]
fn answer_is_a_sentence_with_numbers_and_its_certainty() {
    let summary = run_of(&["h1", "h2c x1"], 1, |variant, _, repetition| {
        100_000.0 * (1.0 + 2.1 * variant as f64) + 1_000.0 * f64::from(repetition)
    });
    let answer = summary.answer.unwrap();
    assert_eq!(
        answer.sentence,
        "h2c x1 is slower than h1: p99 312 ms against 102 ms, 3.0x, at delay 1ms, loss 3%."
    );
    assert_eq!(
        answer.how_sure,
        "Proven by 6 pairs of trials: chance alone does as much in 3.12 % of runs; the ratio is 3.0x to 3.1x with 95 % \
         confidence."
    );
    let plan = plan(6);
    let mut slow = trials(&plan, &six(3.0));
    overload(&["h2c x1"])(&mut slow);
    let answer = summarise(&plan, slow).answer.unwrap();
    assert_eq!(
        answer.sentence,
        "h2c x1 is slower than h1: p99 300 ms against 100 ms (h2c x1 cannot carry the load), at delay 10ms, loss 3%."
    );
    assert_eq!(
        answer.also,
        ["h2c x1 cannot carry the load under 1 of 1 condition."]
    );
    let summary = run_of(&["h1", "h2c x1"], 2, |_, _, repetition| {
        100_000.0 + 1_000.0 * f64::from(repetition)
    });
    let answer = summary.answer.unwrap();
    assert!(
        answer.sentence.starts_with(
            "h2c x1 and h1 do not differ by more than 1.002x: p99 102 ms against 102 ms, at "
        ),
        "{answer:?}"
    );
    assert_eq!(answer.confidence, Confidence::NotShown);
}

/// The table has h2c x1's median over seven trials, the answer that over six pairs.
#[test]
fn answer_says_over_how_many_pairs_if_the_table_has_more_trials() {
    let plan = plan(7);
    let mut seven = six(2.0);
    seven.insert(0, exact(500, 100));
    let sentence = |invalid: &[usize]| {
        let mut trials = trials(&plan, &seven);
        for &place in invalid {
            trials[place].validity = Validity::Invalid {
                reasons: vec!["late".to_owned()],
            };
        }
        summarise(&plan, trials).answer.unwrap().sentence
    };
    assert_eq!(
        sentence(&[0]),
        "h2c x1 is slower than h1: p99 200 ms against 100 ms over 6 of 7 pairs, 2.0x, at delay 10ms, loss 3%."
    );
    // Without the whole pair, both have medians over the same six trials.
    assert_eq!(
        sentence(&[0, 1]),
        "h2c x1 is slower than h1: p99 200 ms against 100 ms, 2.0x, at delay 10ms, loss 3%."
    );
}

#[test]
fn without_a_pair_the_answer_says_so_once_for_all_measures() {
    let measures = ["response time p99", "transfer time p50"];
    let plan = Plan {
        measures: measures.iter().map(|name| name.parse().unwrap()).collect(),
        ..plan(1)
    };
    let mut trials = trials(&plan, &[exact(100, 200)]);
    trials.truncate(1);
    let summary = summarise(&plan, trials);
    let condition = &summary.conditions[0];
    assert_eq!(condition.verdicts.len(), 2);
    assert_eq!(condition.verdicts_of_pairs().count(), 0);
    assert_eq!(
        condition.without_pairs().unwrap(),
        "No pair of valid trials yet: h2c x1 and h1"
    );
    let answer = summary.answer.unwrap();
    assert_eq!(answer.confidence, Confidence::Unknown);
    let mut also = answer.also.iter();
    assert!(
        also.all(|it| !it.contains("cannot be compared")),
        "{answer:?}"
    );
}
