//! What a worker is told: its trial, and what the trial needs of the run. It reaches the worker's process as JSON.
//!
//! Nothing runs here. `run::process` writes it; the worker reads it and passes it to `trial`.

use std::collections::BTreeMap;
use std::path::PathBuf;

use serde::{Deserialize, Serialize};
use squall_base::plan::{RecipeFile, RequestTemplate, Trial};

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
    pub(crate) trial: Trial,
    /// The requests of its load, from the plan.
    pub(crate) requests: Vec<RequestTemplate>,
    /// The folder that holds the run's copies of files.
    pub(crate) files: PathBuf,
    /// The names of the copies, from the plan.
    pub(crate) named: Vec<RecipeFile>,
    /// Whether to keep the packets of its links.
    pub(crate) packets: LinkPackets,
    /// Whether idle processors are kept awake.
    pub(crate) has_awake_processors: bool,
    /// The versions that programs reported before the first trial, by program.
    pub(crate) versions: BTreeMap<String, [u32; 3]>,
}
