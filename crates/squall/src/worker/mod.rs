//! The worker: one process for one trial, started by `squall run` with its assignment as JSON on its stdin.
//!
//! It is a separate process for two reasons. Entering a user namespace changes the whole process and requires it to be
//! single-threaded. And everything the worker creates (namespaces, devices, sockets) ends with it, however it ends.

mod asked;
mod browser;
mod causes;
mod collect;
mod conditions;
mod embedded;
mod findings;
mod health;
mod links;
mod observe;
mod observe_hop;
mod observe_link;
mod observe_sockets;
mod place;
mod programs;
mod stations;
mod trial;

use std::io::Read;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result, bail};
use serde::{Deserialize, Serialize};
use squall_base::plan::{RecipeFile, RequestTemplate, Trial};
use squall_linux::{process, user_namespace};
use squall_record::{PartialTrial, write_json};

use crate::CommandOutcome;

/// Whether the packets of a trial's links are kept.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) enum LinkPackets {
    /// In `link.pcapng`, those of the second link in `link-2.pcapng`, and so on.
    Kept,
    /// Only their headers, in `packets.parquet`.
    Forgotten,
}

impl LinkPackets {
    /// Converts the value of a flag.
    pub(crate) fn kept_if(is_asked: bool) -> LinkPackets {
        if is_asked {
            LinkPackets::Kept
        } else {
            LinkPackets::Forgotten
        }
    }
}

/// The input of a worker.
#[derive(Debug, Serialize, Deserialize)]
pub(crate) struct Assignment {
    /// The trial.
    pub(crate) trial: Trial,
    /// The requests of its load, from the plan.
    pub(crate) requests: Vec<RequestTemplate>,
    /// The folder that holds the run's copies of files.
    pub(crate) files: PathBuf,
    /// The names of the copies, from the plan.
    pub(crate) named: Vec<RecipeFile>,
    /// Whether to keep the packets of its links.
    pub(crate) packets: LinkPackets,
}

/// Reads an assignment from stdin and runs its trial into `folder`.
pub(crate) fn run(folder: &Path, parent: i32, attempt: u32) -> Result<CommandOutcome> {
    let mut text = String::new();
    std::io::stdin()
        .read_to_string(&mut text)
        .context("cannot read the assignment from stdin")?;
    let assignment: Assignment =
        serde_json::from_str(&text).context("cannot understand the assignment on stdin")?;
    let privilege = user_namespace::acquire_privilege()?;
    // After the namespace, because entering it clears the request (prctl(2), PR_SET_PDEATHSIG).
    if !process::die_with_parent(parent)? {
        bail!("the process {parent} that started this worker is gone");
    }
    let partial = PartialTrial::begin(folder)?;
    let record = trial::run(assignment, attempt, privilege, &partial)?;
    let attribution = causes::attribute_trial(&partial, &record.trial)?;
    findings::write(&partial, &record, Some(&attribution))?;
    write_json(partial.record(), &record)?;
    partial.complete()?;
    Ok(CommandOutcome::Success)
}
