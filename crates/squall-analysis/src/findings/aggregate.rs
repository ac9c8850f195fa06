//! The findings of a run: which variant shows what under which condition, and in how many of its trials.
//!
//! Trials are never pooled: a share is the median over the trials that show the finding. Invalid trials are left out,
//! except for the finding that says why they are invalid.

use std::collections::BTreeSet;

use serde::{Deserialize, Serialize};
use squall_base::plan::Condition;
use squall_base::record::{TrialRecord, Validity};

use super::finding::Finding;
use super::generator_late;
use crate::summary::Schema;

/// The findings of one trial.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct TrialFindings {
    /// The trial's folder.
    pub folder: String,
    /// Its variant.
    pub variant: String,
    /// Its condition.
    pub condition: Condition,
    /// Whether it counts as evidence.
    pub is_valid: bool,
    /// Its findings, the worst first.
    pub findings: Vec<Finding>,
}

impl TrialFindings {
    /// Labels the findings of a trial.
    pub fn of(record: &TrialRecord, findings: Vec<Finding>) -> TrialFindings {
        let trial = &record.trial;
        TrialFindings {
            folder: trial.folder(),
            variant: trial.variant.name.clone(),
            condition: trial.condition.clone(),
            is_valid: record.health.validity == Validity::Valid,
            findings,
        }
    }
}

/// A finding of a cell.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct RunFinding {
    /// How many of the cell's trials show it.
    pub trials: u64,
    /// Out of how many trials of the cell.
    pub of: u64,
    /// The trial with the median share among those that show it.
    pub folder: String,
    /// The finding of that trial.
    pub finding: Finding,
}

/// The findings of a variant under a condition.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct CellFindings {
    /// The variant.
    pub variant: String,
    /// The condition.
    pub condition: Condition,
    /// The findings, the worst first.
    pub findings: Vec<RunFinding>,
}

/// The findings of a run, as written to its findings.json.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(try_from = "RunFindingsJson")]
pub struct RunFindings {
    /// The format.
    pub schema: Schema,
    /// The command that starts the same run, word by word, as in the run's summary.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub command: Vec<String>,
    /// By cell; cells without findings are left out.
    pub cells: Vec<CellFindings>,
}

impl RunFindings {
    /// The findings of these cells, for a run whose command is not known.
    pub fn of(cells: Vec<CellFindings>) -> RunFindings {
        RunFindings {
            schema: RunFindings::schema(),
            command: Vec::new(),
            cells,
        }
    }

    /// Version 1 had no unit in the name of a condition's delay.
    fn schema() -> Schema {
        Schema::new("squall.findings", 2)
    }
}

/// Earlier versions of squall wrote only the list of cells.
#[derive(Deserialize)]
#[serde(untagged)]
enum RunFindingsJson {
    Document {
        schema: Schema,
        #[serde(default)]
        command: Vec<String>,
        cells: Vec<CellFindings>,
    },
    Cells(Vec<CellFindings>),
}

impl TryFrom<RunFindingsJson> for RunFindings {
    type Error = String;

    fn try_from(json: RunFindingsJson) -> Result<RunFindings, String> {
        match json {
            RunFindingsJson::Document {
                schema,
                command,
                cells,
            } => Ok(RunFindings {
                schema: RunFindings::schema().reading(&schema)?,
                command,
                cells,
            }),
            RunFindingsJson::Cells(cells) => Ok(RunFindings::of(cells)),
        }
    }
}

/// Groups the findings of trials by cell, in the order in which cells first occur. Cells without findings are left out.
pub fn aggregate(trials: &[TrialFindings]) -> Vec<CellFindings> {
    let mut cells: Vec<(&str, &Condition, Vec<&TrialFindings>)> = Vec::new();
    for trial in trials {
        let own = cells.iter_mut();
        let mut own = own.filter(|(variant, condition, _)| {
            *variant == trial.variant && **condition == trial.condition
        });
        match own.next() {
            Some((_, _, of_cell)) => of_cell.push(trial),
            None => cells.push((&trial.variant, &trial.condition, vec![trial])),
        }
    }
    let cells = cells
        .into_iter()
        .map(|(variant, condition, trials)| CellFindings {
            variant: variant.to_owned(),
            condition: condition.clone(),
            findings: of_cell(&trials),
        });
    cells.filter(|cell| !cell.findings.is_empty()).collect()
}

fn of_cell(trials: &[&TrialFindings]) -> Vec<RunFinding> {
    let mut found = Vec::new();
    let all = trials.iter().flat_map(|trial| &trial.findings);
    let hops: BTreeSet<Option<u8>> = all.map(|finding| finding.hop).collect();
    let kinds = super::names().flat_map(|name| hops.iter().map(move |hop| (name, *hop)));
    for (name, hop) in kinds {
        let counts =
            |trial: &&&TrialFindings| trial.is_valid || name == generator_late::DETECTOR.name;
        let mut shown: Vec<(&TrialFindings, &Finding)> = trials
            .iter()
            .filter(counts)
            .filter_map(|trial| {
                let mut findings = trial.findings.iter();
                let own = findings.find(|it| it.name == name && it.hop == hop)?;
                Some((*trial, own))
            })
            .collect();
        shown.sort_by(|(_, a), (_, b)| a.share.part.total_cmp(&b.share.part));
        if let Some((trial, finding)) = shown.get(shown.len() / 2) {
            found.push(RunFinding {
                trials: shown.len() as u64,
                of: trials.iter().filter(counts).count() as u64,
                folder: trial.folder.clone(),
                finding: (*finding).clone(),
            });
        }
    }
    found.sort_by(|a: &RunFinding, b| a.finding.worst_first(&b.finding));
    found
}

#[cfg(test)]
mod tests {
    use squall_base::plan::Protocol;
    use squall_base::record::Cause;

    use super::super::made::{TestTrial, is_near, ms};
    use super::*;

    /// A trial in which every request waits this long for its stream's window.
    fn shown(variant: &str, millis: u64, is_valid: bool) -> TrialFindings {
        let mut made = TestTrial::healthy(Protocol::H2);
        made.spend(0..100, Cause::WindowStream, ms(millis));
        made.trial.trial.variant.name = variant.to_owned();
        let mut findings = TrialFindings::of(&made.trial, made.findings());
        findings.is_valid = is_valid;
        findings.folder = format!("{variant}-{millis}");
        findings
    }

    #[test]
    fn findings_of_earlier_versions_can_be_read() {
        let findings = RunFindings::of(aggregate(&[shown("b", 50, true)]));
        let cells = serde_json::to_string(&findings.cells).unwrap();
        let document = serde_json::to_string(&findings).unwrap();
        for json in [cells, document] {
            let read: RunFindings = serde_json::from_str(&json).unwrap();
            assert_eq!(read, findings);
        }
        let mut old = serde_json::to_value(&findings).unwrap();
        old["schema"]["version"] = 1.into();
        let condition = old["cells"][0]["condition"].as_object_mut().unwrap();
        let delay = condition.remove("delay_ns").unwrap();
        condition.insert("delay".to_owned(), delay);
        let read: RunFindings = serde_json::from_value(old.clone()).unwrap();
        assert_eq!(read, findings);
        old["schema"]["version"] = 3.into();
        let refused = serde_json::from_value::<RunFindings>(old).unwrap_err();
        let said = refused.to_string();
        assert!(said.contains("version 3 of squall.findings"), "{said}");
    }

    #[test]
    fn a_cell_counts_its_trials_and_shows_the_median_one() {
        let trials = [
            shown("b", 50, true),
            shown("a", 0, true),
            shown("b", 0, true),
            shown("b", 10, true),
            shown("b", 25, true),
            shown("b", 900, false),
        ];
        let cells = aggregate(&trials);
        assert_eq!(cells.len(), 1, "healthy cells are left out");
        let cell = &cells[0];
        assert_eq!((cell.variant.as_str(), cell.findings.len()), ("b", 1));
        let found = &cell.findings[0];
        assert_eq!((found.trials, found.of), (3, 4));
        assert_eq!(found.folder, "b-25");
        assert!(is_near(found.finding.share.part, 25.0 / 75.0));
    }
}
