//! What `squall run --resume` adds to the plan of a run: more repetitions of each cell, and fixes to try.
//!
//! squall-recipe plans the repetitions, `fixes` the fixes. plan.json is written before a trial is run, so that an interrupted
//! run continues with what was added. No trial of the run is changed or removed.

use std::num::NonZeroU32;

use anyhow::Result;
use squall_base::plan::Plan;
use squall_recipe::trials_to_add;
use squall_record::{RunFolder, read_json, write_json};

use super::fixes;
use crate::environment::RunBeginning;
use crate::outcome::BadInput;

/// Adds repetitions until each cell has this many, and lets the run try this many fixes; writes both.
///
/// # Errors
/// If the run has more repetitions or tries fixes already. Then nothing is written.
pub(super) fn extend(
    folder: &RunFolder,
    plan: &mut Plan,
    repetitions: Option<NonZeroU32>,
    try_fix: Option<u32>,
) -> Result<()> {
    let mut more = Vec::new();
    if let Some(count) = repetitions {
        more = trials_to_add(plan, count.get())
            .map_err(|error| BadInput::new(format!("{}: {error}", folder.root().display())))?;
    }
    let has_more = !more.is_empty();
    plan.trials.extend(more);
    if let Some(at_most) = try_fix {
        fixes::ask_resumed(folder, plan, at_most)?;
    }
    if has_more || try_fix.is_some() {
        fixes::write(folder, plan)?;
    }
    match repetitions.filter(|_| has_more) {
        Some(count) => note_repetitions(folder, count),
        None => Ok(()),
    }
}

/// Updates the command in environment.json, so that it starts the same run.
fn note_repetitions(folder: &RunFolder, count: NonZeroU32) -> Result<()> {
    let mut beginning: RunBeginning = read_json(folder.environment())?;
    beginning.set_repetitions(count.get());
    write_json(folder.environment(), &beginning)?;
    Ok(())
}
