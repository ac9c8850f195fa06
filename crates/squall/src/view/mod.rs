//! `squall view`: serves the reports of runs on loopback, with all of their data.
//!
//! This file has the flags, opens the runs and waits for Ctrl-C. `http` is the server, `site` says what is at which path,
//! `trials` keeps requests and packets of trials in memory. squall-report's `view` decides what a part of a plot shows, and
//! `explain` what a request waited for; it also remembers how the trial's connections began, and finds a request in full.
//! Nothing is written. docs/VIEW.md describes paths and answers.

mod http;
mod site;
mod trials;

use std::net::{Ipv4Addr, TcpListener};
use std::path::PathBuf;
use std::sync::Arc;
use std::thread;

use anyhow::{Context, Result};
use squall_base::Duration;

use crate::display::LanguageChoice;
use crate::interrupt;
use crate::outcome::CommandOutcome;
use crate::output::print;
use site::{Site, ViewedRun};

/// How often to check for Ctrl-C.
const LOOK_EVERY: Duration = Duration::from_millis(50);

#[derive(Debug, clap::Args)]
#[command(
    after_help = "Examples:\n  squall view runs/twilio-20261121T120000Z\n  squall view runs/twilio-*\n\n\
        The page of a run is its report, with more behind the plots: zoom in to see every request, click a request to open \
        it in full, and list the packets of the visible time. With several runs of a recipe, the first page also shows how \
        their figures changed, and another page compares them side by side. The server listens on 127.0.0.1 only. Ctrl-C \
        stops it."
)]
pub(crate) struct Arguments {
    /// Folders of runs
    #[arg(required = true, value_name = "RUN")]
    runs: Vec<PathBuf>,
    /// Port of 127.0.0.1 to listen on; 0 takes a free one
    #[arg(long, default_value_t = 0)]
    port: u16,
    /// Language of the pages; JSON is always English, except for the text of a request
    #[arg(long, value_name = "LANGUAGE", value_enum, default_value_t = LanguageChoice::En)]
    lang: LanguageChoice,
}

/// Runs the command.
pub(crate) fn run(arguments: &Arguments) -> Result<CommandOutcome> {
    let runs = arguments.runs.iter().map(|path| ViewedRun::open(path));
    let runs: Vec<ViewedRun> = runs.collect::<Result<_>>()?;
    let site = Arc::new(Site::new(runs, arguments.lang.into()));
    let port = arguments.port;
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, port)).with_context(|| {
        format!("cannot listen on 127.0.0.1:{port}; --port 0 takes a free port")
    })?;
    let address = (listener.local_addr()).context("cannot find where the listener is")?;
    interrupt::watch()?;
    thread::Builder::new()
        .name("squall-view".to_owned())
        .spawn(move || http::serve(&listener, address.port(), &site))
        .context("cannot start the server")?;
    print(format_args!("http://{address}/\n"))?;
    while !interrupt::is_requested() {
        thread::sleep(LOOK_EVERY.into());
    }
    Ok(CommandOutcome::Success)
}
