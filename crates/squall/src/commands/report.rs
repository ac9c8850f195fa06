//! `squall report`: summary and report of a run from its records, and where both `run` and it make them.

use std::fs;
use std::io::IsTerminal;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result, bail};
use clap::ValueEnum;
use squall_analysis::{RunSummary, summarise, trial_stats};
use squall_base::plan::Plan;
use squall_record::{RunFolder, read_requests, write_json};
use squall_report::{Colour, TrialPoints, html, terminal};

use super::open_run;
use crate::Ending;
use crate::output::print;

/// Width of the report where the terminal does not say its own.
const PLAIN_WIDTH: usize = 100;

#[derive(Debug, clap::Args)]
#[command(after_help = "Example:\n  squall report runs/twilio-20261121T120000Z")]
pub(crate) struct Arguments {
    /// The folder of the run
    run: PathBuf,
    #[command(flatten)]
    output: Output,
}

/// How results are printed.
#[derive(Debug, clap::Args)]
pub(crate) struct Output {
    /// Print the summary as JSON instead of tables
    #[arg(long)]
    pub(crate) json: bool,
    /// When to use colours
    #[arg(long, value_enum, default_value_t = ColourChoice::Auto)]
    pub(crate) colour: ColourChoice,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum ColourChoice {
    /// On a terminal, unless NO_COLOR is set
    Auto,
    /// Always
    Always,
    /// Never
    Never,
}

pub(crate) fn run(arguments: &Arguments) -> Result<Ending> {
    let (folder, plan) = open_run(&arguments.run)?;
    write_and_print(&folder, &plan, &arguments.output)
}

/// Makes summary.json and report.html of all complete trials and prints the summary.
pub(crate) fn write_and_print(folder: &RunFolder, plan: &Plan, output: &Output) -> Result<Ending> {
    let (summary, page) = summary_and_page(folder, plan)?;
    write_json(folder.summary(), &summary)?;
    let report = folder.report();
    fs::write(&report, page).with_context(|| format!("cannot write {}", report.display()))?;
    show(&summary, output, &report)?;
    let is_invalid = summary
        .conditions
        .iter()
        .flat_map(|condition| &condition.cells)
        .any(|cell| !cell.trials.is_empty() && cell.valid_trials().next().is_none());
    Ok(if is_invalid {
        Ending::Invalid
    } else {
        Ending::Fine
    })
}

/// Reads one trial at a time: the rows of a long run do not fit into memory together.
fn summary_and_page(folder: &RunFolder, plan: &Plan) -> Result<(RunSummary, String)> {
    let trials = folder.complete_trials()?;
    if trials.is_empty() {
        bail!(
            "no trial of {} is complete, so there is nothing to report",
            folder.root().display()
        );
    }
    let (mut stats, mut plots) = (Vec::new(), Vec::new());
    for trial in trials {
        let record = trial.read_record()?;
        let requests = read_requests(trial.requests())?;
        stats.push(trial_stats(&record, &requests));
        plots.push(TrialPoints::of(&record, &requests));
    }
    let summary = summarise(plan, stats);
    let page = html(&summary, &plots);
    Ok((summary, page))
}

fn show(summary: &RunSummary, output: &Output, report: &Path) -> Result<()> {
    if output.json {
        let json =
            serde_json::to_string_pretty(summary).context("cannot write the summary as JSON")?;
        return print(format_args!("{json}\n"));
    }
    let is_terminal = std::io::stdout().is_terminal();
    let wants_colour = match output.colour {
        ColourChoice::Auto => {
            is_terminal && std::env::var_os("NO_COLOR").is_none_or(|value| value.is_empty())
        }
        ColourChoice::Always => true,
        ColourChoice::Never => false,
    };
    let colour = if wants_colour {
        Colour::Ansi
    } else {
        Colour::Plain
    };
    let width = if is_terminal {
        squall_linux::process::terminal_width()
    } else {
        None
    };
    let text = terminal(summary, width.unwrap_or(PLAIN_WIDTH), colour);
    print(format_args!("{text}\nReport: {}\n", report.display()))
}
