//! The folder of a simulated run with complete trials, as `squall run` would leave it, without summary and report.
//!
//! `world` and `rows` of the `analysis` bench make the tables, and the code of the trial's worker attributes them. Figures of
//! health are empty, because nothing reads them. The bench measures with such a run; the test `large_view` shows one to a
//! browser.

use std::path::PathBuf;

use anyhow::{Context, Result};
use squall_base::Duration;
use squall_base::plan::Trial;
use squall_base::record::{Health, TrialRecord};
use squall_record::{PartialTrial, RunFolder, SCHEMA, write_plan, write_record};
use tempfile::TempDir;

use super::causes;
use super::rows::Counts;
use super::world::{self, Requests};

const SEED: u64 = 1;

/// When the first request is due, and how many are due each second, as `world` simulates them.
const LOAD_START: Duration = Duration::from_secs(5);
const RATE_PER_S: u64 = 20_000;

/// The folder, which is removed on drop.
pub(crate) struct MadeRun {
    home: TempDir,
    trials: Vec<MadeTrial>,
}

/// A trial, and the numbers of its rows.
pub(crate) struct MadeTrial {
    /// The name of the trial's folder.
    pub(crate) name: String,
    counts: Counts,
}

impl MadeRun {
    /// Makes a run of this recipe, whose rate must be 20,000 requests per second, with these requests in each trial.
    pub(crate) fn of(recipe: &str, requests: Requests) -> Result<MadeRun> {
        let home = tempfile::tempdir().context("cannot make a folder for the run")?;
        let run = RunFolder::create(home.path().join("made"))?;
        let recipe = squall_recipe::parse(recipe)?;
        let plan = recipe.plan(recipe.default_profile(), SEED)?;
        write_plan(run.plan(), &plan)?;
        let mut trials = Vec::new();
        for (seed, trial) in (SEED..).zip(plan.trials) {
            let name = trial.folder();
            let partial = PartialTrial::begin(run.trials().join(&name))?;
            let counts = world::write(partial.root(), requests, seed)?;
            causes::attribute_trial(&partial, &trial)?;
            let record = TrialRecord {
                files: partial.checksums()?,
                ..record(trial, counts.requests)
            };
            write_record(partial.record(), &record)?;
            partial.complete()?;
            trials.push(MadeTrial { name, counts });
        }
        Ok(MadeRun { home, trials })
    }

    pub(crate) fn folder(&self) -> PathBuf {
        self.home.path().join("made")
    }

    pub(crate) fn trials(&self) -> &[MadeTrial] {
        &self.trials
    }
}

impl MadeTrial {
    pub(crate) fn requests(&self) -> u64 {
        self.counts.requests
    }

    /// How long the trial's load lasts, in microseconds.
    pub(crate) fn span_us(&self) -> u64 {
        self.counts.requests * 1_000_000 / RATE_PER_S
    }

    /// The numbers of its rows, in words.
    pub(crate) fn contents(&self) -> String {
        let counts = &self.counts;
        format!(
            "{} requests, {} packets, {} exchanges, {} frames, {} samples of sockets",
            counts.requests, counts.packets, counts.exchanges, counts.frames, counts.sockets
        )
    }
}

fn record(trial: Trial, requests: u64) -> TrialRecord {
    TrialRecord {
        schema: SCHEMA,
        load_start: LOAD_START,
        requests,
        connections_opened: 400,
        health: Health {
            rate_asked_per_s: RATE_PER_S as f64,
            rate_achieved_per_s: RATE_PER_S as f64,
            ..squall_made::health()
        },
        ..squall_made::record(trial)
    }
}
