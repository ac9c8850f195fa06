//! What a reader of a run should doubt, each ending in what to do about it (as hyperfine does).
//!
//! It judges the evidence, not the variants. Whether a trial is valid was decided when it was recorded (docs/METHOD.md has
//! the thresholds); here that is only reported.

use std::fmt;

use serde::{Deserialize, Serialize};
use squall_base::record::Validity;

use crate::figure;
use crate::quantile::{P95_NEEDS, P99_NEEDS};
use crate::summary::{CellSummary, ConditionSummary, RunSummary};
use crate::trial::TrialStats;
use crate::verdict::{Comparison, Difference, Verdict, pairs_needed};

/// A reason to doubt a run, with advice.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case", tag = "is")]
pub enum Warning {
    /// Trials without a record.
    MissingTrials {
        /// How many have no record.
        missing: u64,
        /// How many were planned.
        planned: u64,
    },
    /// A trial that is not used as evidence.
    InvalidTrial {
        /// Its folder.
        folder: String,
        /// Why.
        reasons: Vec<String>,
    },
    /// Trials that had to be repeated because earlier attempts were disturbed.
    RepeatedTrials {
        /// How many of each variant, under all conditions; variants without any are listed too.
        by_variant: Vec<Repeats>,
        /// How many trials have a record.
        trials: u64,
    },
    /// The kernel did not use the congestion control that was asked for.
    OtherCongestionControl {
        /// The variant.
        variant: String,
        /// What was asked for.
        asked: String,
        /// What the sockets had.
        used: Vec<String>,
    },
    /// A variant with failed requests.
    FailedRequests {
        /// The variant.
        variant: String,
        /// How many requests failed in its valid trials, under all conditions.
        failed: u64,
        /// How many requests its valid trials sent, under all conditions.
        asked: u64,
    },
    /// Trials too short for a p99.
    TooFewRequests {
        /// The fewest requests that a valid trial had.
        asked: u64,
    },
    /// Comparisons with so few pairs that they can prove nothing, whatever those pairs show.
    FewPairs {
        /// The fewest pairs of any comparison.
        pairs: u64,
        /// How many comparisons there are.
        comparisons: u64,
        /// How many pairs each comparison needs to be able to prove a difference.
        needed: u64,
    },
    /// A variant that the recipe has twice and that differs from itself.
    NotTheSame {
        /// Under which condition.
        condition: String,
        /// What was found, in a sentence.
        found: String,
    },
}

/// How many trials of a variant were repeated.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Repeats {
    /// The variant.
    pub variant: String,
    /// How many of its trials; each counts once, however often it was repeated.
    pub trials: u64,
}

/// Everything about the run that is worth a warning, worst first.
pub(crate) fn warnings(summary: &RunSummary) -> Vec<Warning> {
    let cells = || {
        summary
            .conditions
            .iter()
            .flat_map(|condition| &condition.cells)
    };
    let trials = || cells().flat_map(|cell| &cell.trials);
    let mut found = Vec::new();
    let missing = summary
        .trials_planned
        .saturating_sub(trials().count() as u64);
    if missing > 0 {
        found.push(Warning::MissingTrials {
            missing,
            planned: summary.trials_planned,
        });
    }
    for trial in trials() {
        if let Validity::Invalid { reasons } = &trial.validity {
            found.push(Warning::InvalidTrial {
                folder: trial.folder.clone(),
                reasons: reasons.clone(),
            });
        }
    }
    found.extend(repeated_trials(summary));
    for warning in trials().filter_map(other_congestion_control) {
        if !found.contains(&warning) {
            found.push(warning);
        }
    }
    found.extend(
        summary
            .variants
            .iter()
            .filter_map(|variant| failed_requests(summary, variant)),
    );
    let short = trials()
        .filter(|trial| trial.is_valid() && trial.p99.is_none())
        .map(|trial| trial.asked);
    found.extend(short.min().map(|asked| Warning::TooFewRequests { asked }));
    found.extend(summary.conditions.iter().flat_map(not_the_same));
    found.extend(few_pairs(summary));
    found
}

/// The cells of one variant under every condition.
fn cells_of<'a>(
    summary: &'a RunSummary,
    variant: &'a str,
) -> impl Iterator<Item = &'a CellSummary> {
    summary
        .conditions
        .iter()
        .flat_map(|condition| &condition.cells)
        .filter(move |cell| cell.variant == variant)
}

fn repeated_trials(summary: &RunSummary) -> Option<Warning> {
    let mut trials = 0;
    let mut by_variant = Vec::with_capacity(summary.variants.len());
    for variant in &summary.variants {
        let own = || cells_of(summary, variant).flat_map(|cell| &cell.trials);
        trials += own().count() as u64;
        by_variant.push(Repeats {
            variant: variant.clone(),
            trials: own().filter(|trial| trial.attempt > 1).count() as u64,
        });
    }
    let any = by_variant.iter().any(|repeats| repeats.trials > 0);
    any.then_some(Warning::RepeatedTrials { by_variant, trials })
}

fn failed_requests(summary: &RunSummary, variant: &str) -> Option<Warning> {
    let cells = || cells_of(summary, variant);
    let failed = cells().map(|cell| cell.failed).sum();
    let asked = cells().map(|cell| cell.asked).sum();
    (failed > 0).then(|| Warning::FailedRequests {
        variant: variant.to_owned(),
        failed,
        asked,
    })
}

fn other_congestion_control(trial: &TrialStats) -> Option<Warning> {
    let used = &trial.congestion_control_used;
    let differs = used
        .iter()
        .any(|name| !trial.congestion_control_asked.contains(name));
    differs.then(|| Warning::OtherCongestionControl {
        variant: trial.variant.clone(),
        asked: trial.congestion_control_asked.join(" and "),
        used: used.clone(),
    })
}

fn comparisons(condition: &ConditionSummary) -> impl Iterator<Item = &Comparison> {
    condition
        .verdicts
        .iter()
        .filter_map(|verdict| match verdict {
            Verdict::Compared(comparison) => Some(comparison.as_ref()),
            Verdict::Overloaded { .. } => None,
        })
}

fn few_pairs(summary: &RunSummary) -> Option<Warning> {
    let all = || summary.conditions.iter().flat_map(comparisons);
    let has_primary = all().any(|comparison| comparison.is_primary);
    // If there is a primary comparison, only that one must have enough pairs; the others are there to look at.
    let different = || {
        all().filter(|comparison| {
            !comparison.is_same_variant
                && !comparison.pairs.is_empty()
                && comparison.is_primary == has_primary
        })
    };
    let comparisons = different().count() as u64;
    let pairs = different()
        .map(|comparison| comparison.pairs.len() as u64)
        .min()?;
    let needed = pairs_needed(comparisons);
    (pairs < needed).then_some(Warning::FewPairs {
        pairs,
        comparisons,
        needed,
    })
}

fn not_the_same(condition: &ConditionSummary) -> impl Iterator<Item = Warning> {
    let differs = |c: &&Comparison| {
        c.is_same_variant && matches!(c.finding, Difference::Higher | Difference::Lower)
    };
    comparisons(condition)
        .filter(differs)
        .map(|comparison| Warning::NotTheSame {
            condition: condition.condition.to_string(),
            found: comparison.to_string(),
        })
}

impl fmt::Display for Warning {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Warning::MissingTrials { missing, planned } => write!(
                f,
                "{} of {} {} no record. Finish the run with `squall run --resume RUN`.",
                figure::count(*missing),
                figure::counted(*planned, "trial", "trials"),
                if *missing == 1 { "has" } else { "have" },
            ),
            Warning::InvalidTrial { folder, reasons } => write!(
                f,
                "Trial {folder} is invalid and left out: {}. Repeat it with `squall run --resume RUN`.",
                reasons.join("; "),
            ),
            Warning::RepeatedTrials { by_variant, trials } => {
                fmt_repeated_trials(f, by_variant, *trials)
            }
            Warning::OtherCongestionControl {
                variant,
                asked,
                used,
            } => write!(
                f,
                "{variant} asked for {asked}, but its sockets had {}. Load the kernel's module for {asked}, \
                 or allow it to unprivileged users (net.ipv4.tcp_allowed_congestion_control).",
                used.join(", "),
            ),
            Warning::FailedRequests {
                variant,
                failed,
                asked,
            } => write!(
                f,
                "{variant}: {} of {} failed. They count as never answered; the error column of \
                 the trials' request records says what happened.",
                figure::count(*failed),
                figure::counted(*asked, "request", "requests"),
            ),
            Warning::TooFewRequests { asked } => write!(
                f,
                "A trial has only {}: p99 needs {P99_NEEDS} and p95 needs {P95_NEEDS}. Make the load longer or its \
                 rate higher.",
                figure::counted(*asked, "request", "requests"),
            ),
            Warning::FewPairs {
                pairs,
                comparisons,
                needed,
            } => write!(
                f,
                "A comparison rests on only {}; with {} it takes {needed} that all agree to bring chance below 5 %. Repeat \
                 each cell {needed} times.",
                figure::counted(*pairs, "pair", "pairs"),
                figure::counted(*comparisons, "comparison", "comparisons"),
            ),
            Warning::NotTheSame { condition, found } => write!(
                f,
                "At {condition} a variant differs from itself: {found}. Something besides the variants is at work, such \
                 as the order of trials or a machine that was not idle: repeat the run before you believe its other \
                 verdicts.",
            ),
        }
    }
}

fn fmt_repeated_trials(
    f: &mut fmt::Formatter<'_>,
    by_variant: &[Repeats],
    trials: u64,
) -> fmt::Result {
    let repeated: u64 = by_variant.iter().map(|repeats| repeats.trials).sum();
    let (was, it_was) = match repeated {
        1 => ("was", "it was"),
        _ => ("were", "they were"),
    };
    write!(
        f,
        "{} of {} {} repeated because {} disturbed (",
        figure::count(repeated),
        figure::counted(trials, "trial", "trials"),
        was,
        it_was,
    )?;
    for (place, repeats) in by_variant.iter().enumerate() {
        let comma = if place > 0 { ", " } else { "" };
        write!(
            f,
            "{comma}{}: {}",
            repeats.variant,
            figure::count(repeats.trials)
        )?;
    }
    f.write_str(
        "). If they fall on one variant, it may be what disturbs this machine, and only its calmest trials \
         are left: lower the rate. Else leave the machine idle while squall runs.",
    )
}
