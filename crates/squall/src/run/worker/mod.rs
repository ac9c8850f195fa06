//! The worker: one process for one trial, started by `squall run` with its assignment as JSON on its stdin.
//!
//! It is a separate process for two reasons. Entering a user namespace changes the whole process and requires it to be
//! single-threaded. And everything the worker creates (namespaces, devices, sockets) ends with it, however it ends. This file
//! only begins and ends it; `trial` has what happens in between.

pub(super) mod assignment;
mod browser;
mod causes;
mod collect;
mod conditions;
mod embedded;
mod exits;
mod findings;
mod health;
mod links;
mod machine_health;
mod machine_watch;
mod messages;
mod observe;
mod observe_hop;
mod observe_link;
mod observe_sockets;
mod place;
mod programs;
mod stations;
mod trial;
mod watched;

use std::io::Read;
use std::path::Path;

use anyhow::{Context, Result, bail};
use squall_base::plan::{Implementation, Trial};
use squall_linux::privileges::{self, Rights};
use squall_linux::{process, user_namespace};
use squall_record::{PartialTrial, write_record};

use crate::outcome::CommandOutcome;
use assignment::Assignment;

/// Reads an assignment from stdin and runs its trial into `folder`.
pub(crate) fn run(folder: &Path, parent: i32, attempt: u32) -> Result<CommandOutcome> {
    let mut text = String::new();
    std::io::stdin()
        .read_to_string(&mut text)
        .context("cannot read the assignment from stdin")?;
    let assignment: Assignment =
        serde_json::from_str(&text).context("cannot parse the assignment on stdin")?;
    let privilege = user_namespace::acquire_privilege()?;
    // Only after entering the namespace, because entering it clears the request (prctl(2), PR_SET_PDEATHSIG).
    if !process::die_with_parent(parent)? {
        bail!("the process {parent} that started this worker is gone");
    }
    // While there is only one thread, and before any byte from a program, a peer or a packet is read.
    privileges::keep_only(rights(&assignment.trial))?;
    let partial = PartialTrial::begin(folder)?;
    let mut record = trial::run(assignment, attempt, privilege, &partial)?;
    let attribution = causes::attribute_trial(&partial, &record.trial)?;
    findings::write(&partial, &record, Some(&attribution))?;
    record.files = partial.checksums()?;
    write_record(partial.record(), &record)?;
    partial.complete()?;
    Ok(CommandOutcome::Success)
}

/// What a trial needs: the rights for hosts and links, and those that its programs may have.
fn rights(trial: &Trial) -> Rights {
    let mut stations = trial.variant.stations.iter();
    if stations.all(|station| station.runs == Implementation::Embedded) {
        Rights::HOSTS
    } else {
        Rights::HOSTS.and(Rights::PROGRAMS)
    }
}
