//! A run's conditions as grids of two of their settings, and which variant wins in each field.
//!
//! The settings and their values come from the conditions, the winners from the verdicts: nothing is compared here, and
//! the grid adds nothing to the results of `verdict`. squall-report draws the grids.

use squall_base::plan::{Condition, Measure};

use crate::answer::{Confidence, comparisons};
use crate::direction::variant_wins;
use crate::distinct::distinct;
use crate::figure;
use crate::summary::{ConditionSummary, RunSummary};
use crate::value::measure_name;
use crate::verdict::{Comparison, Difference, UnknownReason};

/// One setting of the conditions and the values that it has.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct GridAxis {
    /// The setting, such as `delay`; empty if only one setting differs between the run's conditions.
    pub setting: String,
    /// Its values, in the order of the plan; empty for a condition without the setting.
    pub values: Vec<String>,
}

/// Conditions by two of their settings.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Grid {
    /// What else differs between the run's conditions and is equal for all of this grid: `rate 2mbit`, or empty.
    pub shared: String,
    /// The setting that differs from row to row.
    pub rows: GridAxis,
    /// The setting that differs from column to column.
    pub columns: GridAxis,
    /// By row, then by column: the place of the condition in the summary; `None` if there is no such condition.
    pub conditions: Vec<Vec<Option<usize>>>,
}

/// Two variants that are compared by a measure.
#[derive(Clone, Debug, PartialEq)]
pub struct ComparedPair {
    /// The requested measure.
    pub measure: Measure,
    /// The variant.
    pub variant: String,
    /// What it is compared with.
    pub baseline: String,
}

/// What a comparison shows under one condition.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct GridField {
    /// Which variant wins.
    pub outcome: FieldOutcome,
    /// The variant's value over the baseline's: `0.55x`, `overload` or `n/a`.
    pub ratio: String,
    /// The verdict as a sentence; empty without a comparison.
    pub sentence: String,
}

/// Which variant wins in a field.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FieldOutcome {
    /// The variant, proven or likely.
    Variant(Confidence),
    /// The baseline, proven or likely.
    Baseline(Confidence),
    /// No difference is shown, or it cannot be told.
    Undecided,
    /// There is no pair of valid trials.
    Invalid,
    /// The two variants are not compared under this condition, or there are no trials yet.
    NotCompared,
}

impl RunSummary {
    /// The conditions as grids of the first two settings that differ between them: one grid for each combination of the
    /// other settings that differ. Empty if all conditions are the same.
    pub fn grids(&self) -> Vec<Grid> {
        let all: Vec<Vec<Setting>> = self
            .conditions
            .iter()
            .map(|of| settings(&of.condition))
            .collect();
        let mut axes = axes(&all).into_iter();
        let Some(columns) = axes.next() else {
            return Vec::new();
        };
        let rows = axes.next().unwrap_or_else(|| GridAxis {
            setting: String::new(),
            values: vec![String::new()],
        });
        let others: Vec<GridAxis> = axes.collect();
        let shared: Vec<String> = all.iter().map(|of| shared(of, &others)).collect();
        let at = |row: &str, column: &str, wanted: &str| {
            let is_here = |place: &usize| {
                value_of(&all[*place], &rows.setting) == row
                    && value_of(&all[*place], &columns.setting) == column
                    && shared[*place] == wanted
            };
            (0..all.len()).find(is_here)
        };
        let grid = |wanted: &String| {
            let row = |row: &String| -> Vec<Option<usize>> {
                let columns = columns.values.iter();
                columns.map(|column| at(row, column, wanted)).collect()
            };
            Grid {
                shared: wanted.clone(),
                conditions: rows.values.iter().map(row).collect(),
                rows: rows.clone(),
                columns: columns.clone(),
            }
        };
        distinct(shared.iter().cloned()).iter().map(grid).collect()
    }

    /// Every pair of different variants that is compared under some condition, for each measure, the leading one first.
    pub fn compared_pairs(&self) -> Vec<ComparedPair> {
        distinct(self.measures.iter().flat_map(|&measure| {
            let all = self.conditions.iter().flat_map(comparisons);
            let by_measure = all.filter(move |it| it.requested_measure() == measure);
            by_measure.map(move |it| ComparedPair {
                measure,
                variant: it.variant.clone(),
                baseline: it.baseline.clone(),
            })
        }))
    }
}

impl ComparedPair {
    /// What the measure is called in a sentence, such as `median page time`.
    pub fn measure_name(&self) -> String {
        measure_name(self.measure)
    }

    /// What the comparison shows under a condition.
    pub fn field(&self, condition: &ConditionSummary) -> GridField {
        let is_own = |it: &&Comparison| {
            it.requested_measure() == self.measure
                && it.variant == self.variant
                && it.baseline == self.baseline
        };
        let found = comparisons(condition).find(is_own);
        let Some(comparison) = found.filter(|_| !condition.is_untried()) else {
            return GridField {
                outcome: FieldOutcome::NotCompared,
                ratio: "n/a".to_owned(),
                sentence: String::new(),
            };
        };
        let outcome = FieldOutcome::of(comparison);
        GridField {
            outcome,
            ratio: ratio(comparison),
            sentence: match outcome {
                FieldOutcome::Invalid => "No pair of valid trials".to_owned(),
                _ => comparison.to_string(),
            },
        }
    }
}

impl FieldOutcome {
    fn of(comparison: &Comparison) -> FieldOutcome {
        if comparison.finding == Difference::Unknown(UnknownReason::NoPair) {
            return FieldOutcome::Invalid;
        }
        let confidence = Confidence::of(comparison);
        match variant_wins(comparison) {
            Some(true) => FieldOutcome::Variant(confidence),
            Some(false) => FieldOutcome::Baseline(confidence),
            None => FieldOutcome::Undecided,
        }
    }
}

fn ratio(comparison: &Comparison) -> String {
    match (comparison.ratio, comparison.overload) {
        (Some(ratio), _) => format!("{}{}", ratio.limit(), figure::ratio(ratio.median)),
        (None, Some(_)) => "overload".to_owned(),
        (None, None) => "n/a".to_owned(),
    }
}

/// A setting of a condition: its name and its value.
type Setting = (String, String);

/// The settings of a condition, in the order of its name.
fn settings(condition: &Condition) -> Vec<Setting> {
    let first = [
        ("delay".to_owned(), condition.delay.to_string()),
        ("loss".to_owned(), condition.loss.to_string()),
    ];
    let further = condition.further();
    first
        .into_iter()
        .chain(further.iter().map(|part| named(part)))
        .collect()
}

/// `link 2 up rate 2mbit` is the setting `link 2 up rate` with the value `2mbit`.
fn named(part: &str) -> Setting {
    let mut words = part.split(' ');
    let mut name = Vec::new();
    while let Some(word) = words.next() {
        name.push(word);
        match word {
            "link" => name.extend(words.next()),
            "up" | "down" => {}
            _ => break,
        }
    }
    let value: Vec<&str> = words.collect();
    let value = if value.is_empty() {
        "yes".to_owned()
    } else {
        value.join(" ")
    };
    (name.join(" "), value)
}

/// The value of a setting; empty if the condition does not have it.
fn value_of<'a>(settings: &'a [Setting], name: &str) -> &'a str {
    let own = settings.iter().find(|(own, _)| own == name);
    own.map_or("", |(_, value)| value)
}

/// The settings with at least two values, in the order of the conditions' names.
fn axes(all: &[Vec<Setting>]) -> Vec<GridAxis> {
    let names = distinct(all.iter().flatten().map(|(name, _)| name.clone()));
    let axes = names.into_iter().map(|setting| {
        let values = all.iter().map(|of| value_of(of, &setting).to_owned());
        GridAxis {
            values: distinct(values),
            setting,
        }
    });
    axes.filter(|axis| axis.values.len() > 1).collect()
}

/// The settings of a condition that are on neither axis: `rate 2mbit, queue codel`.
fn shared(settings: &[Setting], others: &[GridAxis]) -> String {
    let words = others.iter().map(|axis| {
        let value = value_of(settings, &axis.setting);
        let value = if value.is_empty() { "none" } else { value };
        format!("{} {value}", axis.setting)
    });
    words.collect::<Vec<_>>().join(", ")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn settings_have_a_name_and_a_value() {
        let of = |part: &str| {
            let (name, value) = named(part);
            format!("{name}={value}")
        };
        assert_eq!(of("rate 2mbit"), "rate=2mbit");
        assert_eq!(of("up queue fifo limit 10"), "up queue=fifo limit 10");
        assert_eq!(of("link 2 delay 20ms"), "link 2 delay=20ms");
        assert_eq!(of("link 2 down rate 2mbit"), "link 2 down rate=2mbit");
        assert_eq!(of("ecn"), "ecn=yes");
    }

    #[test]
    fn only_settings_that_differ_are_axes() {
        let condition = |delay: &str, rate: &str| {
            vec![
                ("delay".to_owned(), delay.to_owned()),
                ("loss".to_owned(), "0%".to_owned()),
                ("rate".to_owned(), rate.to_owned()),
            ]
        };
        let all = [
            condition("5ms", "1mbit"),
            condition("5ms", "2mbit"),
            condition("50ms", "1mbit"),
        ];
        let axes = axes(&all);
        let names: Vec<&str> = axes.iter().map(|axis| axis.setting.as_str()).collect();
        assert_eq!(names, ["delay", "rate"]);
        assert_eq!(axes[1].values, ["1mbit", "2mbit"]);
        assert_eq!(shared(&all[1], &axes[1..]), "rate 2mbit");
    }
}
