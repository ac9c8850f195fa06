//! squall: a wind tunnel for HTTP. This file is the command line and the exit codes; each command has a
//! file in `commands`, and `worker` is the process that runs one trial.
//!
//! stdout is results, stderr is talk. Exit codes: 0 fine, 1 failed, 2 bad usage or recipe, 3 the run is
//! invalid (health), 99 a threshold does not hold, 130 interrupted; `squall link` ends as its command did.

mod awake;
mod client;
mod commands;
mod doctor;
mod environment;
mod interrupt;
mod key_log;
mod link;
mod link_health;
mod link_totals;
mod output;
mod pages;
mod programs;
mod progress;
mod recordings;
mod selftest;
mod worker;
mod worker_process;

use std::path::PathBuf;
use std::process::ExitCode;

use clap::{Parser, Subcommand};

/// For C as well (its feature `override`); the reason is in the workspace's Cargo.toml.
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

const FAILED: u8 = 1;
const BAD_INPUT: u8 = 2;
const INVALID: u8 = 3;
/// Of a threshold that does not hold, as k6 has it.
const THRESHOLD_FAILED: u8 = 99;
const INTERRUPTED: u8 = 130;

/// A wind tunnel for HTTP: which protocol should this traffic speak, and what happens to it when the
/// network turns bad?
#[derive(Debug, Parser)]
#[command(name = "squall", version, propagate_version = true)]
#[command(after_help = "Example:\n  squall run twilio --profile quick --stations embedded")]
struct Cli {
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, Subcommand)]
enum Command {
    /// Run a recipe: every variant under every condition, with a verdict and a report
    Run(commands::run::Arguments),
    /// List the recipes, or print one
    Recipes(commands::recipes::Arguments),
    /// Write the report of a run again, from its records
    Report(commands::report::Arguments),
    /// Hold a run against an earlier one: what changed, and how sure that is
    Compare(commands::compare::Arguments),
    /// Show the slowest requests of a run, one request, or one moment, in full
    Explain(commands::explain::Arguments),
    /// Say what this machine lets squall do, and how to mend what it does not
    Doctor(commands::doctor::Arguments),
    /// Measure the emulator on this machine, and hold it against its targets
    Selftest(commands::selftest::Arguments),
    /// Serve HTTP: any version, with any settings, on real ports
    Serve(commands::serve::Arguments),
    /// Pass requests on: any version towards clients, any towards upstreams
    Proxy(Box<commands::proxy::Arguments>),
    /// Ask for one URL, and show what the connection says
    Fetch(commands::fetch::Arguments),
    /// Put load on a server, and measure
    Load(Box<commands::load::Arguments>),
    /// Make a script for `squall load` of what was recorded elsewhere
    Import(commands::import::Arguments),
    /// Run any program behind an emulated network link
    Link(commands::link::Arguments),
    /// Hold the link of `squall link`; started by it
    #[command(hide = true)]
    LinkWorker {
        #[command(flatten)]
        starter: link::Starter,
        #[command(flatten)]
        arguments: commands::link::Arguments,
    },
    /// Run one trial; started by `squall run`, one process each
    #[command(hide = true)]
    TrialWorker {
        /// The folder of the trial, when it is complete.
        folder: PathBuf,
        /// The process that started this one; when it ends, so does this.
        #[arg(long)]
        parent: i32,
        /// Which attempt at this trial this is, from 1.
        #[arg(long)]
        attempt: u32,
    },
}

/// What the person gave cannot be used; nothing has been started.
#[derive(Debug)]
struct BadInput {
    message: String,
}

impl BadInput {
    /// A mistake in one sentence.
    fn new(sentence: impl std::fmt::Display) -> BadInput {
        BadInput {
            message: format!("squall: {sentence}"),
        }
    }

    /// Mistakes in a file, with their places in it.
    fn in_file(rendered: &str) -> BadInput {
        BadInput {
            message: rendered.trim_end().to_owned(),
        }
    }
}

impl std::fmt::Display for BadInput {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(&self.message)
    }
}

impl std::error::Error for BadInput {}

/// How a command ended, if it did not fail.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Ending {
    Fine,
    Invalid,
    Interrupted,
    /// As a program ended that was run for the person.
    Code(u8),
}

fn main() -> ExitCode {
    let ending = match Cli::parse().command {
        Command::Run(arguments) => commands::run::run(&arguments),
        Command::Recipes(arguments) => commands::recipes::run(&arguments),
        Command::Report(arguments) => commands::report::run(&arguments),
        Command::Compare(arguments) => commands::compare::run(&arguments),
        Command::Explain(arguments) => commands::explain::run(&arguments),
        Command::Doctor(arguments) => commands::doctor::run(&arguments),
        Command::Selftest(arguments) => commands::selftest::run(&arguments),
        Command::Serve(arguments) => commands::serve::run(&arguments),
        Command::Proxy(arguments) => commands::proxy::run(&arguments),
        Command::Fetch(arguments) => commands::fetch::run(&arguments),
        Command::Load(arguments) => commands::load::run(&arguments),
        Command::Import(arguments) => commands::import::run(&arguments),
        Command::Link(arguments) => commands::link::run(&arguments),
        Command::LinkWorker { starter, arguments } => commands::link::work(&arguments, &starter),
        Command::TrialWorker {
            folder,
            parent,
            attempt,
        } => worker::run(&folder, parent, attempt),
    };
    match ending {
        Ok(Ending::Fine) => ExitCode::SUCCESS,
        Ok(Ending::Invalid) => ExitCode::from(INVALID),
        Ok(Ending::Interrupted) => ExitCode::from(INTERRUPTED),
        Ok(Ending::Code(code)) => ExitCode::from(code),
        Err(error) => match error.downcast_ref::<BadInput>() {
            Some(bad_input) => {
                output::talk(format_args!("{bad_input}\n"));
                ExitCode::from(BAD_INPUT)
            }
            None => {
                output::talk(format_args!("squall: {}\n", output::told_once(&error)));
                ExitCode::from(FAILED)
            }
        },
    }
}
