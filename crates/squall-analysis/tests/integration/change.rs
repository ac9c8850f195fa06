//! Two runs side by side: which cells are matched, which trials are paired, and which changes are reported.

// In tests, a panic reports the failure.
#![allow(clippy::unwrap_used)]

use squall_analysis::Quantile::{AtLeast, Exact};
use squall_analysis::change::{ChangeFigure, ChangeThreshold, Changes, changes};
use squall_analysis::{Difference, Quantile, RunSummary, TrialStats, UnknownReason, summarise};
use squall_base::Duration;
use squall_base::record::Validity;

use crate::doubtful::doubt;
use crate::support::{ms, plan, trials};

/// A run in which h1 has these p99s in ms and h2c x1 has `h2c` ms, give or take 3 %, after `change`.
fn run(p99s: &[f64], h2c: f64, change: impl FnOnce(&mut [TrialStats])) -> RunSummary {
    let plan = plan(p99s.len() as u32);
    let exact = |ms: f64| Exact(Duration::from_micros((ms * 1000.0) as u64));
    let pairs: Vec<(Quantile, Quantile)> = p99s
        .iter()
        .zip([0.97, 1.0, 1.01, 0.99, 1.03, 1.02, 0.98].iter().cycle())
        .map(|(h1, wave)| (exact(*h1), exact(h2c * wave)))
        .collect();
    let mut trials = trials(&plan, &pairs);
    change(&mut trials);
    summarise(&plan, trials)
}

fn p99(found: &Changes, variant: &str) -> Difference {
    let cell = found.cells.iter().find(|cell| cell.variant == variant);
    cell.unwrap().figure(ChangeFigure::P99).finding
}

fn reseed(trials: &mut [TrialStats]) {
    trials.iter_mut().for_each(|trial| trial.seed += 1_000);
}

const CALM: [f64; 6] = [100.0, 102.0, 98.0, 101.0, 99.0, 100.5];

/// `CALM`, slower by `factor`.
fn slower(factor: f64) -> [f64; 6] {
    CALM.map(|ms| ms * factor)
}

#[test]
fn trials_of_equal_seeds_are_compared_in_pairs() {
    let before = run(&CALM, 200.0, |_| {});
    let after = run(&slower(1.05), 200.0, |_| {});
    let found = changes(&before, &after);
    assert!(found.cells.iter().all(|cell| cell.is_paired));
    // With two cells, the p-value of six pairs, 0.031, becomes 0.0625; the other cell did not change at all.
    let h1 = found.cells[0].figure(ChangeFigure::P99);
    assert_eq!((h1.finding, h1.p), (Difference::SeemsHigher, Some(0.03125)));
    assert_eq!(p99(&found, "h2c x1"), Difference::Same);
    let seven = |factor: f64| {
        let mut seven = slower(factor).to_vec();
        seven.push(103.0 * factor);
        run(&seven, 200.0, |_| {})
    };
    let found = changes(&seven(1.0), &seven(1.05));
    assert_eq!(p99(&found, "h1"), Difference::Higher);
    assert!(found.is_worse() && found.without_verdict().is_empty());
    let sentence = found.sentence();
    assert!(
        sentence.starts_with("p99 is higher than before in 1 of 2 cells (most: h1 at delay 10ms, loss 3%: 1.05x, 95 % 1.0"),
        "{sentence}"
    );
    assert!(!changes(&seven(1.05), &seven(1.0)).is_worse());
}

#[test]
fn trials_of_different_seeds_are_compared_as_groups() {
    let before = run(&CALM, 200.0, |_| {});
    let found = changes(&before, &run(&slower(1.5), 200.0, reseed));
    let h1 = found.cells[0].figure(ChangeFigure::P99);
    assert!(!found.cells[0].is_paired);
    // All 6 are above all of the other 6: 2 of 924 permutations; for two cells, twice that.
    assert_eq!(h1.p, Some(2.0 / 924.0));
    assert_eq!(
        (h1.finding, h1.p_adjusted),
        (Difference::Higher, Some(4.0 / 924.0))
    );
    assert_eq!(p99(&found, "h2c x1"), Difference::Same);
    let three =
        |factor: f64, change: fn(&mut [TrialStats])| run(&slower(factor)[..3], 200.0, change);
    let found = changes(&three(1.0, |_| {}), &three(1.5, reseed));
    assert_eq!(p99(&found, "h1"), Difference::TooFewPairs);
    assert_eq!(
        found.without_verdict()[0],
        "h1 at delay 10ms, loss 3%: too few trials"
    );
    assert!(
        found.sentence().contains("too few trials"),
        "{}",
        found.sentence()
    );
}

#[test]
fn smallest_visible_change_of_groups_is_not_below_our_own_error() {
    let still = [100.0, 100.01, 99.99, 100.0, 100.01, 99.99];
    let found = changes(&run(&still, 200.0, |_| {}), &run(&still, 200.0, reseed));
    let ratio = found.cells[0].figure(ChangeFigure::P99).ratio.unwrap();
    // 120 us in each run.
    let least = ratio.least_visible.unwrap();
    assert!((least - 1.0024).abs() < 1e-9, "{least}");
}

#[test]
fn unknown_figures_are_not_compared() {
    let before = run(&CALM, 200.0, |_| {});
    let hide = |trials: &mut [TrialStats]| trials[0].p99 = Some(AtLeast(Duration::from_millis(50)));
    let found = changes(&before, &run(&CALM, 200.0, hide));
    assert_eq!(
        p99(&found, "h1"),
        Difference::Unknown(UnknownReason::Hidden)
    );
    let short = |trials: &mut [TrialStats]| trials[0].p99 = None;
    let found = changes(&before, &run(&CALM, 200.0, short));
    assert_eq!(
        p99(&found, "h1"),
        Difference::Unknown(UnknownReason::TooFewRequests)
    );
    let spoil = |trials: &mut [TrialStats]| {
        for trial in trials {
            trial.validity = Validity::Invalid {
                reasons: vec!["late".to_owned()],
            };
        }
    };
    let found = changes(&before, &run(&CALM, 200.0, spoil));
    assert_eq!(
        p99(&found, "h1"),
        Difference::Unknown(UnknownReason::NoPair)
    );
    assert_eq!(found.cells[0].trials_after, 0);
}

/// Within a run the same rule holds: `doubtful` tests it in detail.
#[test]
fn doubtful_trials_count_only_where_lateness_cannot_have_made_the_change() {
    let seven = |factor: f64| [slower(factor).to_vec(), vec![103.0 * factor]].concat();
    let before = run(&seven(1.0), 200.0, |_| {});
    let late = |own: Duration| {
        move |trials: &mut [TrialStats]| {
            for h1 in trials.iter_mut().step_by(2) {
                doubt(h1, Some(own));
            }
        }
    };
    // Slower by 50 ms, of which squall itself made at most 20 ms.
    let found = changes(&before, &run(&seven(1.5), 200.0, late(ms(20))));
    let h1 = found.cells[0].figure(ChangeFigure::P99);
    assert_eq!(h1.finding, Difference::Higher);
    let ratio = h1.ratio.unwrap().median;
    assert!((1.29..1.31).contains(&ratio), "{ratio}");
    let counted = (found.cells[0].trials_before, found.cells[0].trials_after);
    assert_eq!(counted, (7, 7));
    // How far lateness changed a rate is not known.
    let rate = found.cells[0].figure(ChangeFigure::Rate).finding;
    assert_eq!(rate, Difference::Unknown(UnknownReason::Doubtful));

    // Slower by 5 ms, of which squall itself may have made all.
    let found = changes(&before, &run(&seven(1.05), 200.0, late(ms(20))));
    assert_eq!(
        p99(&found, "h1"),
        Difference::Unknown(UnknownReason::Doubtful)
    );
    let counted = (found.cells[0].trials_before, found.cells[0].trials_after);
    assert_eq!(counted, (7, 0));
    assert!(!found.is_worse());
    assert_eq!(
        found.without_verdict(),
        ["h1 at delay 10ms, loss 3%: within our own error"]
    );

    // One trial for which it is not known how far squall moved it: its pair is left out, and the others count.
    let unknown = |trials: &mut [TrialStats]| doubt(&mut trials[0], None);
    let found = changes(&before, &run(&seven(1.5), 200.0, unknown));
    let h1 = found.cells[0].figure(ChangeFigure::P99);
    assert_eq!(h1.p, Some(0.03125));
    assert_eq!(found.cells[0].trials_after, 6);
}

#[test]
fn cells_that_only_one_of_the_runs_has_are_listed() {
    let before = run(&CALM, 200.0, |_| {});
    let mut after = run(&CALM, 200.0, |_| {});
    after.conditions[0].cells[1].variant = "h3".to_owned();
    let found = changes(&before, &after);
    assert_eq!(found.cells.len(), 1);
    assert_eq!(
        found.unmatched,
        [
            "h3 at delay 10ms, loss 3%, only after",
            "h2c x1 at delay 10ms, loss 3%, only before"
        ]
    );
}

#[test]
fn threshold_holds_only_if_the_whole_interval_meets_it() {
    let before = run(&CALM, 200.0, |_| {});
    let found = changes(&before, &run(&slower(1.05), 200.0, |_| {}));
    let check = |text: &str| {
        let threshold: ChangeThreshold = text.parse().unwrap();
        threshold.check(&found.cells[0])
    };
    let (said, holds) = check("p(99)<=1.1x");
    assert!(holds, "{said}");
    assert!(
        said.starts_with("p(99)<=1.1x for h1 at delay 10ms, loss 3%: holds, 1.05x (95 % "),
        "{said}"
    );
    assert!(!check("p(99)<1.05x").1);
    assert!(check("p(99)>1.04x").1);
    // All rates are equal.
    assert!(check("requests:rate>=1x").1);
    // Three pairs have no interval.
    let few = |factor: f64| run(&slower(factor)[..3], 200.0, |_| {});
    let found = changes(&few(1.0), &few(1.0));
    let threshold: ChangeThreshold = "p(99)<2x".parse().unwrap();
    let (said, holds) = threshold.check(&found.cells[0]);
    assert!(
        !holds && said.contains("from too few trials to be sure"),
        "{said}"
    );
    let wrong = "errors:rate<1x".parse::<ChangeThreshold>().unwrap_err();
    assert!(
        wrong
            .to_string()
            .contains("no change of \"errors:rate\" is compared"),
        "{wrong}"
    );
    assert!("p(99)=2x".parse::<ChangeThreshold>().is_err());
    for unit in ["p(99)<5msx", "p(99)<= 5 s x", "requests:rate>1/sx"] {
        let wrong = unit.parse::<ChangeThreshold>().unwrap_err().to_string();
        assert!(wrong.starts_with("a change is a ratio"), "{wrong}");
    }
}
