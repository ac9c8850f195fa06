//! `squall load`: generates load on a server from a real machine and measures every request.
//!
//! It uses the same client as trials do, without a link. `arguments` and `words` define the flags, `plan` turns them
//! into a load, `variant` runs it, `tables` writes records, `screen` shows progress, and `ending` prints the results.

mod arguments;
mod desk;
mod ending;
mod plan;
mod screen;
mod tables;
mod variant;
mod words;

use anyhow::{Context, Result};
use squall_linux::scheduling;
use squall_linux::stop::StopSignal;

pub(crate) use arguments::Arguments;
use ending::LoadResult;
use plan::Plan;
use words::Http;

use crate::client::{AddressBook, resolve_auto};
use crate::interrupt;
use crate::outcome::CommandOutcome;

/// Runs the command.
pub(crate) fn run(arguments: &Arguments) -> Result<CommandOutcome> {
    let versions = &arguments.comparison.http;
    let mut address_book = AddressBook::printing_all();
    let variants: Vec<(Option<Http>, Plan)> = match versions.as_slice() {
        [] => vec![(None, Plan::new(arguments, None, &mut address_book)?)],
        [Http::Auto] => vec![automatic(arguments, &mut address_book)?],
        several => several
            .iter()
            .map(|http| {
                Ok((
                    Some(*http),
                    Plan::new(arguments, Some(*http), &mut address_book)?,
                ))
            })
            .collect::<Result<_>>()?,
    };
    scheduling::raise_open_files().context("cannot raise the limit of open files")?;
    let stop = StopSignal::new()?;
    interrupt::watch_and_signal(stop.clone())?;
    match variants.as_slice() {
        [(_, plan)] => {
            let result = variant::run(arguments, plan, "load", None, &stop)?;
            ending::conclude(arguments, &result)
        }
        several => compare(arguments, several, &mut address_book, &stop),
    }
}

/// Resolves `--http auto` to the version that the servers offer.
fn automatic(
    arguments: &Arguments,
    address_book: &mut AddressBook,
) -> Result<(Option<Http>, Plan)> {
    // Only for the list of URLs. Once the version is settled, everything is planned anew.
    let urls = Plan::new(arguments, None, address_book)?.target_urls;
    let http = resolve_auto(
        (&arguments.connection, &arguments.request),
        &urls,
        address_book,
    )?;
    Ok((http, Plan::new(arguments, http, address_book)?))
}

/// Runs several variants in turns, each once per round, so that changes over time affect all of them alike.
fn compare(
    arguments: &Arguments,
    variants: &[(Option<Http>, Plan)],
    address_book: &mut AddressBook,
    stop: &StopSignal,
) -> Result<CommandOutcome> {
    let mut rounds: Vec<(String, Vec<LoadResult>)> = variants
        .iter()
        .map(|(_, plan)| (plan.protocol.to_string(), Vec::new()))
        .collect();
    'rounds: for round in 1..=arguments.comparison.rounds {
        for ((http, _), (name, results)) in variants.iter().zip(&mut rounds) {
            // Planned anew, so that no round resumes TLS sessions of an earlier one.
            let plan = Plan::new(arguments, *http, address_book)?;
            let title = format!("{name}, round {round} of {}", arguments.comparison.rounds);
            let tag = format!("{name}-{round}");
            results.push(variant::run(arguments, &plan, &title, Some(&tag), stop)?);
            if stop.is_requested() {
                break 'rounds;
            }
        }
    }
    ending::conclude_comparison(arguments, &rounds)
}
