//! `squall load`: generates load on a server from a real machine and measures every request.
//!
//! It uses the same client as trials do, without a link. `arguments` and `words` define the flags, `plan` turns them into a
//! load, `variant` runs it, `tables` writes records, `failed_files` lists files that could not be written, `screen` shows
//! progress, `thresholds` checks, `ending` prints the `result`, and `report` makes a page of it with what `parts` has drawn.

mod arguments;
mod ending;
mod failed_files;
mod parts;
mod plan;
mod report;
mod result;
mod screen;
mod shared_writer;
mod tables;
mod thresholds;
mod variant;
mod words;

use anyhow::{Context, Result};
use squall_linux::stop::StopSignal;
use squall_linux::{privileges, scheduling};

pub(crate) use arguments::Arguments;
use plan::{Plan, PlanInputs};
use result::LoadResult;
use words::Http;

use crate::client::{self, AddressBook, Attempt, resolve_auto};
use crate::outcome::CommandOutcome;
use crate::{interrupt, output};

pub(crate) fn run(arguments: &Arguments) -> Result<CommandOutcome> {
    privileges::keep_only(client::RIGHTS)?;
    let versions = &arguments.comparison.http;
    plan::check(arguments)?;
    let targets = plan::read_targets(arguments)?;
    let script = plan::read_script(arguments)?;
    if let Some(script) = &script {
        output::eprint(&script.announcement);
    }
    let asked = PlanInputs {
        arguments,
        targets: &targets,
        script: script.as_ref().map(|routed| &routed.script),
    };
    let mut address_book = AddressBook::printing_all();
    let variants: Vec<(Option<Http>, Plan)> = match versions.as_slice() {
        [] => vec![(None, Plan::new(asked, None, &mut address_book)?)],
        [Http::Auto] => vec![automatic(asked, &mut address_book)?],
        several => several
            .iter()
            .map(|http| {
                Ok((
                    Some(*http),
                    Plan::new(asked, Some(*http), &mut address_book)?,
                ))
            })
            .collect::<Result<_>>()?,
    };
    if let Some(said) = variants.iter().find_map(|(_, plan)| plan.left_out.as_ref()) {
        output::eprint(said);
    }
    scheduling::raise_open_files().context("cannot raise the limit of open files")?;
    let stop = StopSignal::new()?;
    interrupt::watch_and_signal(stop.clone())?;
    match variants.as_slice() {
        [(_, plan)] => {
            let result = variant::run(arguments, plan, "load", None, &stop)?;
            let concluded = ending::conclude(arguments, &result);
            advise(arguments, plan, &result);
            concluded
        }
        several => compare(asked, several, &mut address_book, &stop),
    }
}

/// Resolves `--http auto` to the version that the servers offer.
fn automatic(
    asked: PlanInputs<'_>,
    address_book: &mut AddressBook,
) -> Result<(Option<Http>, Plan)> {
    // This plan only serves to list the URLs. Once the version is known, everything is planned again.
    let urls = Plan::new(asked, None, address_book)?.target_urls;
    let arguments = asked.arguments;
    let http = resolve_auto(
        &arguments.connection,
        &arguments.request,
        &urls,
        address_book,
    )?;
    Ok((http, Plan::new(asked, http, address_book)?))
}

/// Runs several variants in turns, each once per round, so that changes over time affect all of them alike.
fn compare(
    asked: PlanInputs<'_>,
    variants: &[(Option<Http>, Plan)],
    address_book: &mut AddressBook,
    stop: &StopSignal,
) -> Result<CommandOutcome> {
    let arguments = asked.arguments;
    let mut rounds: Vec<(String, Vec<LoadResult>)> = variants
        .iter()
        .map(|(_, plan)| (plan.protocol.to_string(), Vec::new()))
        .collect();
    'rounds: for round in 1..=arguments.comparison.rounds() {
        for ((http, _), (name, results)) in variants.iter().zip(&mut rounds) {
            // Planned again, so that no round resumes TLS sessions of an earlier one.
            let plan = Plan::new(asked, *http, address_book)?;
            let title = format!("{name}, round {round} of {}", arguments.comparison.rounds());
            let tag = format!("{name}-{round}");
            let result = variant::run(arguments, &plan, &title, Some(&tag), stop)?;
            if round == 1 {
                advise(arguments, &plan, &result);
            }
            if let Some(earlier) = results.last_mut() {
                // Only the last round is drawn.
                earlier.drawn = None;
            }
            results.push(result);
            if stop.is_requested() {
                break 'rounds;
            }
        }
    }
    ending::conclude_comparison(arguments, &rounds)
}

/// Prints what to try if there was no response at all.
fn advise(arguments: &Arguments, plan: &Plan, result: &LoadResult) {
    let totals = &result.totals;
    let [url, ..] = plan.target_urls.as_slice() else {
        return;
    };
    if !totals.statuses().is_empty() {
        return;
    }
    let attempt = Attempt {
        url,
        protocol: plan.protocol,
        flags: &arguments.connection,
    };
    let kinds = totals.failures().kinds();
    let advice = kinds
        .iter()
        .find_map(|kind| attempt.advice(kind.outcome, &kind.text));
    if let Some(advice) = advice {
        output::eprint(format_args!("squall: {advice}\n"));
    }
}
