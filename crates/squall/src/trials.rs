//! The trials that a user selects, by a run's folder or a trial's own and by flags: for `squall explain` and `export`.
//!
//! Only their records are read here; each command reads the tables that it needs.

use std::collections::BTreeSet;
use std::path::Path;

use anyhow::Result;
use squall_base::plan::Trial;
use squall_base::record::TrialRecord;
use squall_record::{RunFolder, TrialFolder};

use crate::commands::named::{complete_trials, refused_folder_of_runs};
use crate::outcome::BadInput;

/// Which trials of a run to use.
#[derive(Debug, clap::Args)]
pub(crate) struct TrialSelection {
    /// Only the trial with this number, the first part of its folder's name
    #[arg(long, value_name = "NUMBER")]
    trial: Option<u32>,
    /// Only trials of this variant
    #[arg(long, value_name = "NAME")]
    variant: Option<String>,
    /// Only trials under this condition, or with these parts of it, such as "loss 3%" or "delay 25ms, loss 3%"
    #[arg(long, value_name = "CONDITION")]
    condition: Option<String>,
    /// Only this repetition, counted from 1
    #[arg(long, value_name = "NUMBER")]
    repetition: Option<u32>,
}

impl TrialSelection {
    pub(crate) fn is_given(&self) -> bool {
        let names = self.variant.is_some() || self.condition.is_some();
        names || self.trial.is_some() || self.repetition.is_some()
    }

    fn takes(&self, trial: &Trial) -> bool {
        let has_parts = |wanted: &String| {
            let condition = trial.condition.to_string();
            let parts: BTreeSet<&str> = condition.split(',').map(str::trim).collect();
            wanted.split(',').all(|part| parts.contains(part.trim()))
        };
        let is_variant = |name: &String| *name == trial.variant.name;
        self.trial.is_none_or(|index| index == trial.index)
            && self.variant.as_ref().is_none_or(is_variant)
            && self.condition.as_ref().is_none_or(has_parts)
            && self
                .repetition
                .is_none_or(|number| number == trial.repetition + 1)
    }
}

pub(crate) struct SelectedTrial {
    pub(crate) folder: TrialFolder,
    pub(crate) record: TrialRecord,
}

/// The complete trials that `selection` takes, at least one. `purpose` is what they are for (`explain`), and `others`
/// what else the command takes in place of a run, for the message about a folder that is neither.
pub(crate) fn select_trials(
    run: &Path,
    selection: &TrialSelection,
    purpose: &str,
    others: &str,
) -> Result<Vec<SelectedTrial>> {
    let mut selected = Vec::new();
    for folder in folders(run, purpose, others)? {
        let record = folder.read_record()?;
        if selection.takes(&record.trial) {
            selected.push(SelectedTrial { folder, record });
        }
    }
    if selected.is_empty() {
        return Err(BadInput::new(format!(
            "no complete trial of {} has that number, variant, condition and repetition; \
             `squall report {0}` lists them",
            run.display()
        ))
        .into());
    }
    Ok(selected)
}

fn folders(path: &Path, purpose: &str, others: &str) -> Result<Vec<TrialFolder>> {
    if let Some(trial) = TrialFolder::with_record(path) {
        return Ok(vec![trial]);
    }
    let run = RunFolder::open(path).map_err(|error| {
        if path.is_file() {
            return BadInput::new(format!(
                "{0} is a file, not a folder: if it is a capture, `squall import pcap {0}` converts it to one",
                path.display()
            ));
        }
        refused_folder_of_runs(path).unwrap_or_else(|| {
            BadInput::new(format!(
                "{} is neither the folder of a run nor that of a complete trial, as made by `squall run`{others}: {error}",
                path.display()
            ))
        })
    })?;
    complete_trials(&run, purpose)
}

/// The single selected trial, where one is needed.
pub(crate) fn only_trial<'a>(
    selected: &'a [SelectedTrial],
    run: &Path,
) -> Result<&'a SelectedTrial> {
    if let [one] = selected {
        return Ok(one);
    }
    const SHOWN: usize = 12;
    let names = selected.iter().take(SHOWN).map(|it| {
        let trial = &it.record.trial;
        let (variant, condition) = (&trial.variant.name, &trial.condition);
        format!(
            "\n  {}: {variant}, {condition}, repetition {}",
            trial.folder(),
            trial.repetition + 1
        )
    });
    let names: String = names.collect();
    let more = match selected.len().saturating_sub(SHOWN) {
        0 => String::new(),
        more => format!("\n  and {more} more"),
    };
    Err(BadInput::new(format!(
        "{} trials match, and each has its own requests and time; choose one with --trial, or with --variant, --condition and \
         --repetition, or name its folder below {}/trials:{names}{more}",
        selected.len(),
        run.display(),
    ))
    .into())
}
