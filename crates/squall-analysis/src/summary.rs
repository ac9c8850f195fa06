//! A run's results as data: by condition and variant, with the verdicts, the answer and the warnings.
//!
//! This is what summary.json contains and what reports are made from. It is not worked out here: `summarise` makes it, and
//! `answer` and `warning` say in words what follows from it. Only thresholds and failed attempts are added here, once there is
//! a summary. The trials of one variant under one condition are in `cell`, the comparisons in `verdict`.

use serde::de::Error as _;
use serde::{Deserialize, Deserializer, Serialize};
use squall_base::plan::{Condition, Measure, Primary, UntriedFix};
use squall_base::record::FailedAttempt;

use crate::causes::RunBandTimes;
use crate::cell::CellSummary;
use crate::crossover::Crossover;
use crate::failures::{EndedProgram, UnfinishedAttempt, UntoldVersions};
use crate::figures::Interval;
use crate::other_programs::ProcessorsShared;
use crate::threshold::{Reading, Threshold};
use crate::trial::TrialStats;
use crate::tried::TriedFix;
use crate::verdict::{Comparison, Values, Verdict};

/// All variants under one condition.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct ConditionSummary {
    /// The condition.
    pub condition: Condition,
    /// Its cells, in the order of the plan's variants; the first is the baseline.
    pub cells: Vec<CellSummary>,
    /// The verdicts, most important first.
    pub verdicts: Vec<Verdict>,
    /// How many connections it takes, if variants differ only in that.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub crossovers: Vec<Crossover>,
}

impl ConditionSummary {
    /// True if no cell has a trial yet, as after an interrupted run.
    pub fn is_untried(&self) -> bool {
        self.cells.iter().all(|cell| cell.trials.is_empty())
    }

    /// The comparisons, including those of a variant with itself.
    pub(crate) fn comparisons(&self) -> impl Iterator<Item = &Comparison> {
        self.verdicts.iter().filter_map(|verdict| match verdict {
            Verdict::Compared(comparison) => Some(comparison.as_ref()),
            Verdict::Overloaded { .. } => None,
        })
    }
}

/// The environment of the run, as its trials recorded it. A list has several entries if trials differ.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct RunEnvironment {
    /// When the first trial began, in nanoseconds since 1970-01-01 UTC; `None` without trials.
    pub started_unix_ns: Option<u64>,
    /// The kernel's release.
    pub kernels: Vec<String>,
    /// Congestion control as read back from the sockets of both sides.
    pub congestion_controls: Vec<String>,
    /// The seeds of the links.
    pub seeds: Vec<u64>,
    /// The trials with a link whose devices exchanged super-packets.
    #[serde(default)]
    pub fast_trials: u64,
}

/// The results of a run, as written to summary.json.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct RunSummary {
    /// The format of these results: always this squall's, even if they were stored in an earlier one.
    #[serde(
        default = "Schema::of_summary",
        deserialize_with = "Schema::read_summary"
    )]
    pub schema: Schema,
    /// The recipe's name.
    pub recipe: String,
    /// The question that the recipe asks.
    pub question: String,
    /// The measures that variants are compared by; the first answers the question.
    pub measures: Vec<Measure>,
    /// The comparison that the question is about, if the recipe names one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub primary: Option<Primary>,
    /// The answer to the question; `None` for a single variant.
    pub answer: Option<Answer>,
    /// The profile that was run.
    pub profile: String,
    /// The words of the command that begins the same run, without what may be a credential. Empty if they are not known, as
    /// in runs of earlier versions. The caller, which has the run's folder, fills it in.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub command: Vec<String>,
    /// The names of the variants; the first is the one that others are compared with.
    pub variants: Vec<String>,
    /// How many trials were planned.
    pub trials_planned: u64,
    /// The environment that the trials recorded.
    pub facts: RunEnvironment,
    /// Each condition, in the plan's order.
    pub conditions: Vec<ConditionSummary>,
    /// What the requests' time was spent on, as far as it is known. The caller, which has the rows, fills it in.
    #[serde(default)]
    pub causes: RunBandTimes,
    /// Attempts at trials in which a program ended by itself or squall's own process failed, and which were repeated. The
    /// caller adds them with [`RunSummary::add_failed_attempts`].
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub failed_attempts: Vec<FailedAttempt>,
    /// What a reader should doubt, and what to do about it.
    pub warnings: Vec<Warning>,
    /// The fixes that the run tried, and what each gained. The caller, which has their trials, fills it in with
    /// [`tried_fixes`](crate::tried_fixes).
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub tried_fixes: Vec<TriedFix>,
    /// Fixes of equally costly findings that the run could not try.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub fixes_not_tried: Vec<UntriedFix>,
    /// The requested thresholds, checked for each cell.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub thresholds: Vec<CellThreshold>,
}

/// A threshold, checked for one cell.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct CellThreshold {
    /// The variant.
    pub variant: String,
    /// The condition.
    pub condition: Condition,
    /// The threshold, as it is written.
    pub threshold: String,
    /// The median over the cell's valid trials, in the unit of the threshold; a lower bound if part of it is hidden.
    pub measured: Option<f64>,
    /// The unit of `measured`: `ms`, `count`, `per_s` or `share`. Empty in summaries of earlier versions.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub unit: String,
    /// True if the threshold certainly holds.
    pub holds: bool,
    /// The result as a sentence.
    pub sentence: String,
}

/// A trial's numbers, to be checked against thresholds.
#[derive(Clone, Debug, PartialEq)]
pub struct TrialReadings {
    /// The trial's folder within the run.
    pub folder: String,
    /// The number for each threshold.
    pub readings: Vec<Reading>,
}

impl RunSummary {
    /// `No trials yet: ...` with the conditions that have no trial; `None` if all have some.
    pub fn untried(&self) -> Option<String> {
        let untried = self.conditions.iter().filter(|c| c.is_untried());
        let names: Vec<String> = untried.map(|c| c.condition.to_string()).collect();
        (!names.is_empty()).then(|| format!("No trials yet: {}", names.join("; ")))
    }

    /// True if a program ended by itself in the last attempt at a trial, which is therefore not used.
    pub fn has_failed_programs(&self) -> bool {
        let cells = self.conditions.iter().flat_map(|it| &it.cells);
        let mut trials = cells.flat_map(|cell| &cell.trials);
        trials.any(|trial| !trial.is_valid() && !trial.station_exits.is_empty())
    }

    /// Checks `thresholds` for every cell that has trials, against the median over its valid trials of each trial's own
    /// number. Each trial has one reading per threshold, in the same order. A cell whose trials are all invalid meets no
    /// threshold.
    pub fn check_thresholds(&mut self, thresholds: &[Threshold], trials: &[TrialReadings]) {
        let cells = self
            .conditions
            .iter()
            .flat_map(|condition| &condition.cells);
        let mut checked_cells = Vec::new();
        for cell in cells.filter(|cell| !cell.trials.is_empty()) {
            for (place, threshold) in thresholds.iter().enumerate() {
                let of_trial = |stats: &TrialStats| {
                    let trial = trials.iter().find(|trial| trial.folder == stats.folder)?;
                    trial.readings.get(place).copied()
                };
                let evidence = cell.evidence();
                let readings: Vec<Reading> = evidence.into_iter().filter_map(of_trial).collect();
                let checked = threshold.judge(Reading::median(&readings));
                let limit = if cell.is_limited() {
                    " (a limit, because the link itself was the bottleneck)"
                } else {
                    ""
                };
                checked_cells.push(CellThreshold {
                    variant: cell.variant.clone(),
                    condition: cell.condition.clone(),
                    threshold: threshold.to_string(),
                    measured: checked.measured,
                    unit: threshold.measure.unit_name().to_owned(),
                    holds: checked.holds,
                    sentence: format!(
                        "{} at {}: {}{limit}",
                        cell.variant,
                        cell.condition,
                        checked.sentence(threshold)
                    ),
                });
            }
        }
        self.thresholds = checked_cells;
    }
}

/// The name and version of a format of squall's JSON, so that a reader knows what to expect. The version grows when a field
/// is removed or changes its meaning; new fields do not change it. docs/schemas/ has a JSON Schema of each.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Schema {
    /// Its name, such as `squall.summary`.
    pub name: String,
    /// Its version, from 1.
    pub version: u32,
}

impl Schema {
    /// This version of a format.
    pub fn new(name: &str, version: u32) -> Schema {
        Schema {
            name: name.to_owned(),
            version,
        }
    }

    /// Version 1 had no units in the names of times.
    pub(crate) fn of_summary() -> Schema {
        Schema::new("squall.summary", 2)
    }

    /// Reads the format of stored results.
    fn read_summary<'de, D: Deserializer<'de>>(stored: D) -> Result<Schema, D::Error> {
        let stored = Schema::deserialize(stored)?;
        Schema::of_summary()
            .reading(&stored)
            .map_err(D::Error::custom)
    }

    /// Accepts results that were stored in the format `stored`, and returns this format for them.
    ///
    /// # Errors
    ///
    /// If `stored` is a later version, whose fields are not known here.
    pub(crate) fn reading(self, stored: &Schema) -> Result<Schema, String> {
        if stored.version <= self.version {
            return Ok(self);
        }
        Err(format!(
            "it is in version {} of {}, and this squall reads versions 1 to {}; read it with the squall that wrote it",
            stored.version, self.name, self.version
        ))
    }
}

/// The answer to a run's question.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Answer {
    /// The answer in one clause, without a full stop: who wins, by what and under which condition. Empty in summaries of
    /// earlier versions.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub headline: String,
    /// The answer in one sentence.
    pub sentence: String,
    /// How certain the answer is, in a word.
    pub confidence: Confidence,
    /// How certain the answer is, in a sentence with numbers.
    pub how_sure: String,
    /// Why: the leading cause. `None` if no cause leads or the causes are unknown.
    pub why: Option<String>,
    /// The last sentence of `why` that says what happens.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reason: Option<String>,
    /// Further results, one sentence each: other differences between these two variants, and those of other variants.
    pub also: Vec<String>,
    /// The comparison that the sentences are about, as fields; `None` in a summary of a squall that did not write them.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub result: Option<AnswerResult>,
}

/// The comparison that answers a run's question, for programs.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct AnswerResult {
    /// The variant that is better by the measure; `None` if the measurements do not agree on one.
    pub winner: Option<String>,
    /// The variant that is compared.
    pub variant: String,
    /// What it is compared with.
    pub baseline: String,
    /// What they are compared by.
    pub measure: Measure,
    /// The unit of both values: `ns`, `bytes_per_s`, `count` or `share` (from 0 to 1).
    pub unit: String,
    /// Both values, medians over the pairs of trials; `None` without pairs.
    pub values: Option<Values>,
    /// The condition.
    pub condition: Condition,
    /// The variant's value divided by the baseline's, the median over the pairs; `None` without pairs.
    pub ratio: Option<f64>,
    /// True if unfinished or failed requests hide part of a value, so that the ratio is a limit.
    pub ratio_is_limit: bool,
    /// The 95 % interval of the ratio; `None` below six pairs, and for limits.
    pub ratio_interval_95: Option<Interval<f64>>,
    /// How often chance alone would show as much, corrected for the run's other comparisons, from 0 to 1; `None` if that
    /// cannot be known.
    pub p_adjusted: Option<f64>,
    /// The pairs of valid trials that it rests on.
    pub pairs: u64,
}

/// How certain an answer is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Confidence {
    /// Chance alone would produce a difference this large in at most 5 % of runs.
    Proven,
    /// The measurements point to a difference; more repetitions could prove it.
    Likely,
    /// The measurements show no difference, and there may be none.
    NotShown,
    /// The measurements do not allow an answer.
    Unknown,
}

impl Confidence {
    /// The word that reports use.
    pub const fn name(self) -> &'static str {
        match self {
            Confidence::Proven => "proven",
            Confidence::Likely => "likely",
            Confidence::NotShown => "not shown",
            Confidence::Unknown => "cannot be told",
        }
    }
}

/// A reason to doubt a run, with advice.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case", tag = "is")]
pub enum Warning {
    /// A program of the path that ended before squall ended it.
    ProgramEnded(EndedProgram),
    /// An attempt in which squall's own process for the trial failed.
    UnfinishedAttempt(UnfinishedAttempt),
    /// Programs that did not report their versions.
    UnknownVersions(UntoldVersions),
    /// Trials in which other programs used the processors that real programs of the path needed.
    OtherPrograms(ProcessorsShared),
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
    /// A trial in which squall itself was late, by a known time. Comparisons use it where that cannot change the answer.
    DoubtfulTrial {
        /// Its folder.
        folder: String,
        /// What was late.
        reasons: Vec<String>,
    },
    /// Trials in which the emulated path itself was the bottleneck, so that their figures are limits.
    LimitedTrials {
        /// How many.
        trials: u64,
        /// What the first such path carried.
        reason: String,
    },
    /// Trials that had to be repeated because earlier attempts were disturbed.
    RepeatedTrials {
        /// How many of each variant, under all conditions; variants without any are listed too.
        by_variant: Vec<Repeats>,
        /// How many trials have a record.
        trials: u64,
    },
    /// The kernel did not use the requested congestion control.
    OtherCongestionControl {
        /// The variant.
        variant: String,
        /// The requested congestion control.
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
        /// How many repetitions of each cell give it that many, and no fewer than the run has. 0 in summaries of earlier
        /// versions.
        #[serde(default)]
        repetitions: u64,
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
