//! What a reader of a run should doubt, each ending in what to do about it (as hyperfine does).
//!
//! It judges the evidence, not the variants. Whether a trial is valid was decided when it was recorded (docs/METHOD.md has
//! the thresholds); here that is only reported. The warnings as data are in `summary`; those about failures are in `failures`,
//! and the one about other programs on the processors is in `other_programs`.

use std::fmt;

use squall_base::record::{FailedAttempt, Validity};

use crate::cell::CellSummary;
use crate::distinct::distinct;
use crate::failures::{EndedProgram, UnfinishedAttempt, UntoldVersions};
use crate::figure;
use crate::other_programs::ProcessorsShared;
use crate::quantile::{P95_NEEDS, P99_NEEDS};
use crate::summary::{ConditionSummary, Repeats, Warning};
use crate::trial::TrialStats;
use crate::verdict::{Comparison, Difference, pairs_needed};

/// Everything about the run that is worth a warning, worst first.
pub(crate) fn warnings(
    trials_planned: u64,
    variants: &[String],
    conditions: &[ConditionSummary],
    attempts: &[FailedAttempt],
) -> Vec<Warning> {
    let cells = || conditions.iter().flat_map(|condition| &condition.cells);
    let trials = || cells().flat_map(|cell| &cell.trials);
    let ended = attempts.iter().flat_map(EndedProgram::of_attempt);
    let ended = ended.chain(trials().flat_map(EndedProgram::of_trial));
    let mut found: Vec<Warning> = ended.map(Warning::ProgramEnded).collect();
    let unfinished = attempts.iter().filter_map(UnfinishedAttempt::of_attempt);
    found.extend(unfinished.map(Warning::UnfinishedAttempt));
    let missing = trials_planned.saturating_sub(trials().count() as u64);
    if missing > 0 {
        found.push(Warning::MissingTrials {
            missing,
            planned: trials_planned,
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
    found.extend(trials().filter_map(doubtful_trial));
    found.extend(limited_trials(trials()));
    found.extend(repeated_trials(variants, conditions, attempts));
    let taken = trials().filter_map(|trial| trial.processors_taken);
    found.extend(ProcessorsShared::of(taken).map(Warning::OtherPrograms));
    found.extend(UntoldVersions::of(trials()).map(Warning::UnknownVersions));
    found.extend(distinct(trials().filter_map(other_congestion_control)));
    let failed = |variant: &String| failed_requests(conditions, variant);
    found.extend(variants.iter().filter_map(failed));
    let short = trials()
        .filter(|trial| trial.is_valid() && trial.p99.is_none())
        .map(|trial| trial.asked);
    found.extend(short.min().map(|asked| Warning::TooFewRequests { asked }));
    found.extend(conditions.iter().flat_map(not_the_same));
    found.extend(few_pairs(conditions));
    found
}

fn doubtful_trial(trial: &TrialStats) -> Option<Warning> {
    trial
        .validity
        .is_doubtful()
        .then(|| Warning::DoubtfulTrial {
            folder: trial.folder.clone(),
            reasons: trial.validity.reasons().to_vec(),
        })
}

fn limited_trials<'a>(trials: impl Iterator<Item = &'a TrialStats>) -> Option<Warning> {
    let limited: Vec<&TrialStats> = trials.filter(|trial| trial.validity.is_limited()).collect();
    let reason = limited.first()?.validity.reasons().first()?;
    Some(Warning::LimitedTrials {
        trials: limited.len() as u64,
        reason: reason.clone(),
    })
}

/// The cells of one variant under every condition.
fn cells_of<'a>(
    conditions: &'a [ConditionSummary],
    variant: &'a str,
) -> impl Iterator<Item = &'a CellSummary> {
    let cells = conditions.iter().flat_map(|condition| &condition.cells);
    cells.filter(move |cell| cell.variant == variant)
}

fn repeated_trials(
    variants: &[String],
    conditions: &[ConditionSummary],
    attempts: &[FailedAttempt],
) -> Option<Warning> {
    // Attempts that failed have warnings of their own.
    let was_disturbed = |trial: &&TrialStats| {
        let own = attempts
            .iter()
            .filter(|attempt| attempt.trial == trial.folder);
        u64::from(trial.attempt) > 1 + own.count() as u64
    };
    let mut trials = 0;
    let mut by_variant = Vec::with_capacity(variants.len());
    for variant in variants {
        let own = || cells_of(conditions, variant).flat_map(|cell| &cell.trials);
        trials += own().count() as u64;
        by_variant.push(Repeats {
            variant: variant.clone(),
            trials: own().filter(was_disturbed).count() as u64,
        });
    }
    let any = by_variant.iter().any(|repeats| repeats.trials > 0);
    any.then_some(Warning::RepeatedTrials { by_variant, trials })
}

fn failed_requests(conditions: &[ConditionSummary], variant: &str) -> Option<Warning> {
    let cells = || cells_of(conditions, variant);
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

fn few_pairs(conditions: &[ConditionSummary]) -> Option<Warning> {
    let all = || conditions.iter().flat_map(ConditionSummary::comparisons);
    let has_primary = all().any(|comparison| comparison.is_primary);
    // If there is a primary comparison, only that one must have enough pairs; the others are only for information.
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
    let cells = conditions.iter().flat_map(|condition| &condition.cells);
    (pairs < needed).then(|| Warning::FewPairs {
        pairs,
        comparisons,
        needed,
        repetitions: needed.max(repetitions(cells)),
    })
}

/// The most repetitions that any of these cells has so far.
pub(crate) fn repetitions<'a>(cells: impl Iterator<Item = &'a CellSummary>) -> u64 {
    let trials = cells.flat_map(|cell| &cell.trials);
    let counts = trials.map(|trial| u64::from(trial.repetition) + 1);
    counts.max().unwrap_or(0)
}

/// A sentence with the command by which a run gets this many repetitions of each cell.
pub(crate) fn add_repetitions(repetitions: u64) -> String {
    format!("Add repetitions with `squall run --resume RUN --repetitions {repetitions}`.")
}

fn not_the_same(condition: &ConditionSummary) -> impl Iterator<Item = Warning> {
    let differs = |c: &&Comparison| {
        c.is_same_variant && matches!(c.finding, Difference::Higher | Difference::Lower)
    };
    condition
        .comparisons()
        .filter(differs)
        .map(|comparison| Warning::NotTheSame {
            condition: condition.condition.to_string(),
            found: comparison.to_string(),
        })
}

impl fmt::Display for Warning {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Warning::ProgramEnded(ended) => write!(f, "{ended}"),
            Warning::UnfinishedAttempt(attempt) => write!(f, "{attempt}"),
            Warning::UnknownVersions(versions) => write!(f, "{versions}"),
            Warning::OtherPrograms(shared) => write!(f, "{shared}"),
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
            Warning::DoubtfulTrial { folder, reasons } => write!(
                f,
                "Trial {folder} is doubtful: {}. It is compared only where that cannot change the answer. Repeat it with \
                 `squall run --resume RUN`.",
                reasons.join("; "),
            ),
            Warning::LimitedTrials { trials, reason } => fmt_limited_trials(f, *trials, reason),
            Warning::RepeatedTrials { by_variant, trials } => {
                fmt_repeated_trials(f, by_variant, *trials)
            }
            Warning::OtherCongestionControl {
                variant,
                asked,
                used,
            } => write!(
                f,
                "{variant} asked for {asked}, but its sockets had {}. Load the kernel module for {asked}, or allow it \
                 for unprivileged users (net.ipv4.tcp_allowed_congestion_control).",
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
                repetitions,
            } => fmt_few_pairs(f, *pairs, *comparisons, *needed, *repetitions),
            Warning::NotTheSame { condition, found } => write!(
                f,
                "At {condition} a variant differs from itself: {found}. Something besides the variants is at work, such \
                 as the order of trials or a machine that was not idle: repeat the run before you believe its other \
                 verdicts.",
            ),
        }
    }
}

fn fmt_few_pairs(
    f: &mut fmt::Formatter<'_>,
    pairs: u64,
    comparisons: u64,
    needed: u64,
    repetitions: u64,
) -> fmt::Result {
    let advice = match repetitions {
        0 => format!("Repeat each cell {needed} times."),
        known => add_repetitions(known),
    };
    write!(
        f,
        "A comparison rests on only {}; with {} it takes {needed} that all agree to bring chance below 5 %. {advice}",
        figure::counted(pairs, "pair", "pairs"),
        figure::counted(comparisons, "comparison", "comparisons"),
    )
}

fn fmt_limited_trials(f: &mut fmt::Formatter<'_>, trials: u64, reason: &str) -> fmt::Result {
    write!(
        f,
        "In {} the link itself was the bottleneck, so the figures are limits: the variant would be at least as good on a \
         faster link. The first: {reason}, so that all variants meet a link that squall can carry.",
        figure::counted(trials, "trial", "trials"),
    )
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
        "). If they are all of one variant, it may be what disturbs this machine, and only its calmest trials are \
         left: lower the rate. Otherwise leave the machine idle while squall runs.",
    )
}
