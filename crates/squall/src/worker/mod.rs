//! The worker: one process for one trial, started by `squall run` with the trial as JSON on its stdin.
//!
//! A process of its own, because entering a user namespace changes the whole process and needs it
//! single-threaded, and because everything it makes (namespaces, devices, sockets) then ends with it, in
//! whatever way it ends.

mod causes;
mod collect;
mod embedded;
mod health;
mod place;
mod programs;
mod stations;
mod trial;

use std::io::Read;
use std::path::Path;

use anyhow::{Context, Result, bail};
use squall_base::plan::Trial;
use squall_linux::{process, user_namespace};
use squall_record::{PartialTrial, write_json};

use crate::Ending;

/// Runs the trial that stands on stdin into `folder`.
pub(crate) fn run(folder: &Path, parent: i32, attempt: u32) -> Result<Ending> {
    let mut text = String::new();
    std::io::stdin()
        .read_to_string(&mut text)
        .context("cannot read the trial from stdin")?;
    let trial: Trial =
        serde_json::from_str(&text).context("cannot understand the trial on stdin")?;
    let privilege = user_namespace::acquire_privilege()?;
    // After the namespace, because entering it clears the request (prctl(2), PR_SET_PDEATHSIG).
    if !process::die_with_parent(parent)? {
        bail!("the process {parent} that started this worker is gone");
    }
    let partial = PartialTrial::begin(folder)?;
    let record = trial::run(trial, attempt, privilege, &partial)?;
    causes::write(&partial, &record.trial)?;
    write_json(partial.record(), &record)?;
    partial.complete()?;
    Ok(Ending::Fine)
}
