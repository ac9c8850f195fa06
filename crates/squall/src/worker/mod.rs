//! The worker: one process for one trial, started by `squall run` with its assignment as JSON on its stdin.
//!
//! A process of its own, because entering a user namespace changes the whole process and needs it
//! single-threaded, and because everything it makes (namespaces, devices, sockets) then ends with it, in
//! whatever way it ends.

mod asked;
mod browser;
mod causes;
mod collect;
mod conditions;
mod embedded;
mod findings;
mod health;
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
use squall_base::plan::{NamedFile, RequestTemplate, Trial};
use squall_linux::{process, user_namespace};
use squall_record::{PartialTrial, write_json};

use crate::Ending;

/// Whether the packets of a trial's link are kept.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) enum LinkPackets {
    /// In `link.pcapng`.
    Kept,
    /// Their headers only, in `packets.parquet`.
    Forgotten,
}

impl LinkPackets {
    /// As a flag says.
    pub(crate) fn kept_if(is_asked: bool) -> LinkPackets {
        match is_asked {
            true => LinkPackets::Kept,
            false => LinkPackets::Forgotten,
        }
    }
}

/// What a worker is given to do.
#[derive(Debug, Serialize, Deserialize)]
pub(crate) struct Assignment {
    /// The trial.
    pub(crate) trial: Trial,
    /// What its load asks for: the plan's.
    pub(crate) requests: Vec<RequestTemplate>,
    /// The folder with the run's copies of files.
    pub(crate) files: PathBuf,
    /// What the copies are called: the plan's.
    pub(crate) named: Vec<NamedFile>,
    /// What becomes of the packets of its link.
    pub(crate) packets: LinkPackets,
}

/// Runs the trial of the assignment that stands on stdin into `folder`.
pub(crate) fn run(folder: &Path, parent: i32, attempt: u32) -> Result<Ending> {
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
    Ok(Ending::Fine)
}
