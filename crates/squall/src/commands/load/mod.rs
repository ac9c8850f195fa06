//! `squall load`: load on a server from a real machine, every request measured.
//!
//! The same client as in a trial, without a link. `arguments` and `words` are what can be said, `plan` what it means,
//! `variant` runs it, `tables` writes, `screen` shows, `ending` says what came of it.

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
use ending::Ran;
use plan::Plan;
use words::Http;

use crate::client::{Reach, settle};
use crate::{Ending, interrupt};

/// Runs the command.
pub(crate) fn run(arguments: &Arguments) -> Result<Ending> {
    let versions = &arguments.comparison.http;
    let mut reach = Reach::telling_all();
    let variants: Vec<(Option<Http>, Plan)> = match versions.as_slice() {
        [] => vec![(None, Plan::new(arguments, None, &mut reach)?)],
        [Http::Auto] => vec![automatic(arguments, &mut reach)?],
        several => several
            .iter()
            .map(|http| Ok((Some(*http), Plan::new(arguments, Some(*http), &mut reach)?)))
            .collect::<Result<_>>()?,
    };
    scheduling::raise_open_files().context("cannot raise the limit of open files")?;
    let stop = StopSignal::new()?;
    interrupt::watch_and_signal(stop.clone())?;
    match variants.as_slice() {
        [(_, plan)] => {
            let ran = variant::run(arguments, plan, "load", None, &stop)?;
            ending::conclude(arguments, &ran)
        }
        several => compare(arguments, several, &mut reach, &stop),
    }
}

/// The version that the servers have to offer.
fn automatic(arguments: &Arguments, reach: &mut Reach) -> Result<(Option<Http>, Plan)> {
    // Only for the places that it leads to: what follows is planned anew, with what is known then.
    let places = Plan::new(arguments, None, reach)?.places;
    let http = settle((&arguments.connection, &arguments.request), &places, reach)?;
    Ok((http, Plan::new(arguments, http, reach)?))
}

/// Runs several variants in turns, each in every round, so that what changes meanwhile meets all alike.
fn compare(
    arguments: &Arguments,
    variants: &[(Option<Http>, Plan)],
    reach: &mut Reach,
    stop: &StopSignal,
) -> Result<Ending> {
    let mut rounds: Vec<(String, Vec<Ran>)> = variants
        .iter()
        .map(|(_, plan)| (plan.protocol.to_string(), Vec::new()))
        .collect();
    'rounds: for round in 1..=arguments.comparison.rounds {
        for ((http, _), (name, ran)) in variants.iter().zip(&mut rounds) {
            // Planned anew, so that no round finds TLS sessions of an earlier one.
            let plan = Plan::new(arguments, *http, reach)?;
            let title = format!("{name}, round {round} of {}", arguments.comparison.rounds);
            let tag = format!("{name}-{round}");
            ran.push(variant::run(arguments, &plan, &title, Some(&tag), stop)?);
            if stop.is_requested() {
                break 'rounds;
            }
        }
    }
    ending::conclude_comparison(arguments, &rounds)
}
