//! `squall probe`: what is wrong with the HTTP of an endpoint, in a minute, from outside.
//!
//! `arguments` has the flags and `plan` what follows from them. `ask` finds the versions that answer, `drive` is the course
//! of a probe, `step` one load of the embedded client in it, and `observer` sees what that receives. squall-analysis'
//! `probe` draws the conclusions, and squall-report's `probe` writes them. `behind` repeats the command behind a link. It
//! says what it will send before it sends anything.

mod arguments;
mod ask;
mod behind;
mod drive;
mod observer;
mod plan;
mod step;

use std::io::IsTerminal;

use anyhow::Result;
use squall_analysis::probe::Diagnosis;
use squall_linux::privileges;
use squall_linux::stop::StopSignal;
use squall_report::probe::{markdown, text};

pub(crate) use arguments::Arguments;
use plan::Plan;
use step::Environment;

use crate::client::AddressBook;
use crate::key_log::KeyLog;
use crate::outcome::{CommandOutcome, FAILED};
use crate::{client, display, interrupt, output};

/// Runs the command.
pub(crate) fn run(arguments: &Arguments) -> Result<CommandOutcome> {
    let plans = arguments.urls.iter().map(|url| Plan::new(arguments, url));
    let plans: Vec<Plan> = plans.collect::<Result<_, _>>()?;
    if let Some(link) = &arguments.behind {
        return behind::run(link, &arguments.urls);
    }
    privileges::keep_only(client::RIGHTS)?;
    for plan in &plans {
        output::eprint(plan.announcement());
    }
    let keys = KeyLog::open(arguments.connection.key_log.as_deref())?;
    let interrupted = StopSignal::new()?;
    interrupt::watch_and_signal(interrupted.clone())?;
    let mut diagnoses = Vec::new();
    let mut has_answers = true;
    for plan in &plans {
        let mut address_book = AddressBook::default();
        let seen = drive::observe(Environment {
            plan,
            address_book: &mut address_book,
            keys: keys.as_ref(),
            interrupted: &interrupted,
        });
        if interrupt::is_requested() {
            return Ok(CommandOutcome::Interrupted);
        }
        let seen = seen?;
        has_answers &= seen.has_response();
        diagnoses.push(Diagnosis::of(&seen));
    }
    if let Some(keys) = keys {
        keys.finish()?;
    }
    print(arguments, &diagnoses)?;
    Ok(if has_answers {
        CommandOutcome::Success
    } else {
        CommandOutcome::Code(FAILED)
    })
}

fn print(arguments: &Arguments, diagnoses: &[Diagnosis]) -> Result<()> {
    if arguments.output.json {
        return match diagnoses {
            [one] => output::print_json(one, "result of the probe"),
            several => output::print_json(several, "results of the probes"),
        };
    }
    if arguments.markdown {
        return output::print(markdown(diagnoses));
    }
    let colour = arguments.output.colour_for(std::io::stdout().is_terminal());
    output::print(text(diagnoses, display::narrow_width(), colour))
}
