//! squall: a wind tunnel for HTTP. This file has the command line and the exit codes. Each command has a file in
//! `commands`; `worker` is the process that runs one trial.
//!
//! Results go to stdout, everything else to stderr. Exit codes: 0 success, 1 failure, 2 bad usage or recipe, 3 the run
//! is invalid (health), 99 a threshold was missed, 130 interrupted. `squall link` exits with its command's code.

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

/// Also serves C code (mimalloc's feature `override`); the reason is in the workspace's Cargo.toml.
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

const FAILED: u8 = 1;
const BAD_INPUT: u8 = 2;
const INVALID: u8 = 3;
/// A missed threshold; the same code as k6.
const THRESHOLD_FAILED: u8 = 99;
const INTERRUPTED: u8 = 130;

/// A wind tunnel for HTTP: which protocol suits your traffic, and what happens to it on a bad network?
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
    /// Rebuild the report of a run from its records
    Report(commands::report::Arguments),
    /// Compare a run with an earlier one: what changed, and how certain that is
    Compare(commands::compare::Arguments),
    /// Show the slowest requests of a run, one request, or one moment in detail
    Explain(commands::explain::Arguments),
    /// Check what squall can do on this machine, and how to fix what it cannot
    Doctor(commands::doctor::Arguments),
    /// Measure the link emulator on this machine, and check it against its targets
    Selftest(commands::selftest::Arguments),
    /// Serve HTTP: any version, with any settings, on real ports
    Serve(commands::serve::Arguments),
    /// Forward requests: any HTTP version to clients, any to upstreams
    Proxy(Box<commands::proxy::Arguments>),
    /// Send one request, and show what its connection does
    Fetch(commands::fetch::Arguments),
    /// Generate load on a server, and measure its responses
    Load(Box<commands::load::Arguments>),
    /// Convert a recording into a script for `squall load`
    Import(commands::import::Arguments),
    /// Run any program behind an emulated network link
    Link(commands::link::Arguments),
    /// Run the link of `squall link`, which starts this process
    #[command(hide = true)]
    LinkWorker {
        #[command(flatten)]
        starter: link::Starter,
        #[command(flatten)]
        arguments: commands::link::Arguments,
    },
    /// Run one trial; `squall run` starts one such process per trial
    #[command(hide = true)]
    TrialWorker {
        /// Folder of the completed trial
        folder: PathBuf,
        /// Process ID of the parent; this process ends with it
        #[arg(long)]
        parent: i32,
        /// Number of the attempt at this trial, counted from 1
        #[arg(long)]
        attempt: u32,
    },
}

/// The user's input is invalid; nothing has been started.
#[derive(Debug)]
struct BadInput {
    message: String,
}

impl BadInput {
    /// An error in one sentence.
    fn new(sentence: impl std::fmt::Display) -> BadInput {
        BadInput {
            message: format!("squall: {sentence}"),
        }
    }

    /// Errors in a file, with their positions.
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

/// How a command that did not fail ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum CommandOutcome {
    Success,
    Invalid,
    Interrupted,
    /// The exit code of a program that was run for the user.
    Code(u8),
}

fn main() -> ExitCode {
    let outcome = match Cli::parse().command {
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
    match outcome {
        Ok(CommandOutcome::Success) => ExitCode::SUCCESS,
        Ok(CommandOutcome::Invalid) => ExitCode::from(INVALID),
        Ok(CommandOutcome::Interrupted) => ExitCode::from(INTERRUPTED),
        Ok(CommandOutcome::Code(code)) => ExitCode::from(code),
        Err(error) => match error.downcast_ref::<BadInput>() {
            Some(bad_input) => {
                output::eprint(format_args!("{bad_input}\n"));
                ExitCode::from(BAD_INPUT)
            }
            None => {
                output::eprint(format_args!("squall: {}\n", output::error_chain(&error)));
                ExitCode::from(FAILED)
            }
        },
    }
}
