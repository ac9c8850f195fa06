//! squall: a wind tunnel for HTTP. This file parses the command line, calls the command, and turns its outcome into an
//! exit code.
//!
//! No command is implemented here: the large ones have a folder of their own, the others a file in `commands`. Results
//! go to stdout, everything else to stderr. Exit codes (`outcome`): 0 success, 1 failure, 2 bad usage or recipe, 3 the
//! run is invalid (health), 99 a threshold was missed, 130 interrupted. `squall link` exits with its command's code.

mod awake;
mod background;
mod client;
mod command_line;
mod commands;
mod display;
mod doctor;
mod environment;
mod explain;
mod export;
mod import;
mod interrupt;
mod key_log;
mod limits;
mod link;
mod load;
mod outcome;
mod output;
mod pages;
mod probe;
mod recordings;
mod result_files;
mod run;
mod save_pace;
mod script_hosts;
mod selftest;
mod trials;
mod usage;
mod view;

use std::path::PathBuf;
use std::process::ExitCode;

use clap::{CommandFactory, Parser, Subcommand};

use outcome::{BAD_INPUT, BadInput, CommandOutcome, FAILED, INTERRUPTED, INVALID};

/// Also serves C code (mimalloc's feature `override`); the reason is in the workspace's Cargo.toml.
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

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
    Run(run::Arguments),
    /// List the recipes, or print one
    Recipes(commands::recipes::Arguments),
    /// Rebuild the report of a run from its records
    Report(commands::report::Arguments),
    /// Compare a run with an earlier one: what changed, and how certain that is
    Compare(commands::compare::Arguments),
    /// Show the slowest requests of a run, one request, or one moment in detail
    Explain(explain::Arguments),
    /// Export trials or a load to the formats of other programs, or the plots of a run as SVG or PNG
    Export(export::Arguments),
    /// Show runs in a browser with all of their requests and packets, and how runs of one recipe changed
    View(view::Arguments),
    /// Check what squall can do on this machine, and suggest fixes for what it cannot
    Doctor(doctor::command::Arguments),
    /// Measure the link emulator on this machine, and check it against its targets
    Selftest(selftest::command::Arguments),
    /// Run an HTTP/1.1, HTTP/2 and HTTP/3 server, with any protocol settings
    Serve(commands::serve::Arguments),
    /// Run a reverse proxy, with any HTTP version towards clients and upstreams
    Proxy(Box<commands::proxy::Arguments>),
    /// Send one request and print the response; with -v, print everything that is sent and received
    Fetch(commands::fetch::Arguments),
    /// Generate load on a server, and measure its responses
    Load(Box<load::Arguments>),
    /// Diagnose a server's HTTP from outside: what is wrong, what it costs, and how to fix it
    Probe(Box<probe::Arguments>),
    /// Convert a recording into a script for `squall load`, or a packet capture into tables for `squall explain`
    Import(import::Arguments),
    /// Run any program behind an emulated network link
    Link(link::command::Arguments),
    /// Run the link of `squall link`, which starts this process
    #[command(hide = true)]
    LinkWorker {
        #[command(flatten)]
        starter: link::plan::Starter,
        #[command(flatten)]
        arguments: link::command::Arguments,
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

fn main() -> ExitCode {
    let cli = Cli::try_parse().unwrap_or_else(|error| usage::exit(&error, &Cli::command()));
    let outcome = match cli.command {
        Command::Run(arguments) => run::run(&arguments),
        Command::Recipes(arguments) => commands::recipes::run(&arguments),
        Command::Report(arguments) => commands::report::run(&arguments),
        Command::Compare(arguments) => commands::compare::run(&arguments),
        Command::Explain(arguments) => explain::run(&arguments),
        Command::Export(arguments) => export::run(&arguments),
        Command::View(arguments) => view::run(&arguments),
        Command::Doctor(arguments) => doctor::command::run(&arguments),
        Command::Selftest(arguments) => selftest::command::run(&arguments),
        Command::Serve(arguments) => commands::serve::run(&arguments),
        Command::Proxy(arguments) => commands::proxy::run(&arguments),
        Command::Fetch(arguments) => commands::fetch::run(&arguments),
        Command::Load(arguments) => load::run(&arguments),
        Command::Probe(arguments) => probe::run(&arguments),
        Command::Import(arguments) => import::run(&arguments),
        Command::Link(arguments) => link::command::run(&arguments),
        Command::LinkWorker { starter, arguments } => link::command::work(&arguments, &starter),
        Command::TrialWorker {
            folder,
            parent,
            attempt,
        } => run::worker::run(&folder, parent, attempt),
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
