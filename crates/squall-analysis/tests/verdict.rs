//! What a run may claim of two variants, as the sentences that people read.

// In tests, a panic is the message.
#![allow(clippy::unwrap_used)]

mod support;

use squall_analysis::Quantile::{self, AtLeast, Exact, Never};
use squall_analysis::{TrialStats, summarise};
use squall_base::Duration;
use squall_base::record::Validity;
use support::{ms, plan, trials};

/// Everything that is said of trials with these p99s, h1's and h2c x1's, after `change`.
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

#[test]
fn a_difference_is_stated_if_every_pair_shows_it() {
    assert_eq!(
        said(&[exact(120, 240), exact(116, 184)]),
        "h2c x1's p99 is 1.8x h1's (212 ms against 118 ms; 1.6x to 2.0x over 2 pairs)\n"
    );
    assert_eq!(
        said(&[exact(200, 100), exact(200, 110)]),
        "h2c x1's p99 is 0.52x h1's (105 ms against 200 ms; 0.50x to 0.55x over 2 pairs)\n"
    );
}

#[test]
fn one_pair_gives_no_confidence() {
    assert_eq!(
        said(&[exact(100, 250)]),
        "h2c x1's p99 is 2.5x h1's (250 ms against 100 ms); 1 pair: no confidence can be given\n"
    );
}

#[test]
fn pairs_that_disagree_show_no_clear_difference() {
    assert_eq!(
        said(&[exact(100, 150), exact(100, 50), exact(100, 120)]),
        "h2c x1 and h1: no clear difference of p99: 0.50x to 1.5x over 3 pairs\n"
    );
    // One of them within our own error is as good as a disagreement.
    let close = Exact(ms(100));
    let closer = Exact(Duration::from_micros(100_050));
    assert_eq!(
        said(&[exact(100, 150), (close, closer)]),
        "h2c x1 and h1: no clear difference of p99: 1.000x to 1.5x over 2 pairs\n"
    );
}

#[test]
fn what_lies_within_our_own_error_is_no_difference() {
    // Each trial's own error is 40 + 20 + 30 + 30 us.
    let off = |us: u64| (Exact(ms(100)), Exact(Duration::from_micros(100_000 + us)));
    assert_eq!(
        said(&[off(240), off(150)]),
        "h2c x1 and h1: no difference of p99 seen beyond our own error of 240 us in 2 pairs\n"
    );
    assert!(said(&[off(241), off(241)]).contains("1.002x"));
}

#[test]
fn lower_bounds_are_compared_only_as_far_as_they_reach() {
    let bound = |h1, h2c| (Exact(ms(h1)), AtLeast(ms(h2c)));
    assert_eq!(
        said(&[bound(100, 400), bound(100, 500)]),
        "h2c x1's p99 is at least 4.5x h1's (more than 450 ms against 100 ms; at least 4.0x to 5.0x over 2 pairs)\n"
    );
    let hidden = "h2c x1 and h1 cannot be compared: unfinished or failed requests hide which p99 is higher\n";
    assert_eq!(said(&[bound(100, 90), bound(100, 500)]), hidden);
    assert_eq!(
        said(&[(AtLeast(ms(100)), AtLeast(ms(900))), exact(1, 9)]),
        hidden
    );
    assert_eq!(said(&[(Never, Never), (Never, Never)]), hidden);
    assert_eq!(
        said(&[(Exact(ms(50)), Never), (Exact(ms(60)), Never)]),
        "h2c x1's p99 is higher than h1's (never answered against 55.0 ms; 2 pairs)\n"
    );
    let once_never = [(Exact(ms(50)), Never), exact(50, 60), exact(50, 70)];
    assert_eq!(
        said(&once_never),
        "h2c x1's p99 is higher than h1's (70.0 ms against 50.0 ms; 3 pairs)\n"
    );
}

#[test]
fn an_overloaded_variant_is_named_first() {
    assert_eq!(
        said_after(&[exact(10, 900), exact(10, 800)], overload(&["h2c x1"])),
        "h2c x1 cannot carry the load here: 41.2 of 100 requests/s\n\
         h2c x1's p99 is higher than h1's in each of 2 pairs; by how much depends on how long it runs, because h2c x1 \
         cannot carry the load\n"
    );
}

#[test]
fn no_ratio_is_stated_where_the_p99_grows_with_the_duration() {
    let last = |p99s: &[(Quantile, Quantile)], variants| {
        let said = said_after(p99s, overload(variants));
        said.lines().last().unwrap().to_owned()
    };
    assert_eq!(
        last(&[exact(900, 10)], &["h1"]),
        "h2c x1's p99 is lower than h1's; by how much depends on how long it runs, because h1 cannot carry the load; \
         1 pair: no confidence can be given"
    );
    assert_eq!(
        last(&[exact(700, 900), exact(700, 950)], &["h1", "h2c x1"]),
        "h2c x1's p99 is higher than h1's in each of 2 pairs; by how much depends on how long it runs, because neither \
         can carry the load"
    );
    assert_eq!(
        last(&[exact(700, 900), exact(900, 700)], &["h1", "h2c x1"]),
        "h2c x1 and h1: no clear difference of p99: the 2 pairs disagree"
    );
    // A lower bound is no ratio either.
    let bound = (Exact(ms(10)), AtLeast(ms(900)));
    assert!(!last(&[bound, bound], &["h2c x1"]).contains("0x"));
    // What fails does so for good: that does not depend on the duration.
    assert_eq!(
        last(
            &[(Exact(ms(50)), Never), (Exact(ms(60)), Never)],
            &["h2c x1"]
        ),
        "h2c x1's p99 is higher than h1's (never answered against 55.0 ms; 2 pairs)"
    );
}

#[test]
fn five_percent_less_than_asked_is_still_carried() {
    let slow = |trials: &mut [TrialStats]| trials[1].rate_achieved_per_s = 95.0;
    assert!(said_after(&[exact(100, 250)], slow).starts_with("h2c x1's p99 is 2.5x h1's"));
}

/// Makes these variants achieve less than half of what they are asked for.
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
fn invalid_trials_prove_nothing_and_that_is_said() {
    let spoil = |trials: &mut [TrialStats]| {
        trials[0].validity = Validity::Invalid {
            reasons: vec!["late".to_owned()],
        };
        trials[0].p99 = Some(Exact(ms(1)));
    };
    let three = [exact(500, 100), exact(100, 200), exact(100, 200)];
    assert_eq!(
        said_after(&three, spoil),
        "h2c x1's p99 is 2.0x h1's (200 ms against 100 ms; 2.0x to 2.0x over 2 pairs); 1 invalid pair left out\n"
    );
    assert_eq!(
        said_after(&three[..1], spoil),
        "h2c x1 and h1 cannot be compared: there is no pair of valid trials; 1 invalid pair left out\n"
    );
}

#[test]
fn trials_of_different_seeds_are_no_pair() {
    let reseed = |trials: &mut [TrialStats]| trials[1].seed += 1;
    assert_eq!(
        said_after(&[exact(100, 200)], reseed),
        "h2c x1 and h1 cannot be compared: there is no pair of valid trials\n"
    );
}

#[test]
fn too_few_requests_for_a_p99_compare_nothing() {
    let shorten = |trials: &mut [TrialStats]| trials.iter_mut().for_each(|trial| trial.p99 = None);
    assert_eq!(
        said_after(&[exact(1, 2)], shorten),
        "h2c x1 and h1 cannot be compared: a p99 needs at least 368 requests in each trial\n"
    );
}
