//! `squall probe`: what is wrong with the HTTP of an endpoint, in a minute, from outside.
//!
//! `arguments` has the flags and `plan` what follows from them. `ask` finds the versions that answer, `addresses` finds the
//! addresses of names, `https_record` reads what DNS says about HTTP/3 (under the name from `record_name`), and `robots` reads
//! what robots.txt allows. `drive` runs the steps of a probe, the last of which are in `behaviour`. `step` is one load of the
//! embedded client, and `observer` sees what that client receives. `recording` keeps what the probe's files need, `capture`
//! keeps its packets, and `files` writes its page. squall-analysis' `probe` draws the conclusions, and squall-report's `probe`
//! writes them. `behind` repeats the command behind a link, and `sweep` behind several, for a `range` in the link's settings;
//! `service` has their command lines. The command says what it will send before it sends anything.

mod addresses;
mod arguments;
mod ask;
mod behaviour;
mod behind;
mod capture;
mod drive;
mod files;
mod https_record;
mod observer;
mod plan;
mod range;
mod record_name;
mod recording;
mod robots;
mod service;
mod step;
mod sweep;

use std::io::IsTerminal;
use std::time::Instant;

use anyhow::Result;
use squall_analysis::probe::Diagnosis;
use squall_linux::stop::StopSignal;
use squall_linux::{clock, privileges};
use squall_report::probe::{ProbeCost, ProbedEndpoint, markdown_in, text_in};

pub(crate) use arguments::Arguments;
use plan::Plan;
use recording::Recording;
use step::StepEnvironment;

use crate::client::AddressBook;
use crate::key_log::KeyLog;
use crate::outcome::{CommandOutcome, FAILED};
use crate::{client, display, interrupt, output};

/// Runs the command.
pub(crate) fn run(arguments: &Arguments) -> Result<CommandOutcome> {
    let plans = arguments.urls.iter().map(|url| Plan::new(arguments, url));
    let plans: Vec<Plan> = plans.collect::<Result<_, _>>()?;
    files::check(arguments, &plans)?;
    if let Some(link) = &arguments.behind {
        return behind::run(arguments, link, &plans);
    }
    let tap = match &arguments.pcap {
        Some(path) => Some(capture::open_tap(path)?),
        None => capture::open_headers(),
    };
    privileges::keep_only(client::RIGHTS)?;
    if !arguments.unannounced {
        for plan in &plans {
            let said = arguments.language().say_lines(&plan.announcement());
            output::eprint(said);
        }
    }
    let keys = KeyLog::open(arguments.connection.key_log.as_deref())?;
    let mut recording = Recording::start(arguments, keys.as_ref(), tap)?;
    let interrupted = StopSignal::new()?;
    interrupt::watch_and_signal(interrupted.clone())?;
    let started_unix_ns = clock::unix_nanos();
    let results = results(arguments, &plans, &mut recording, &interrupted);
    if let Some(keys) = keys {
        keys.finish()?;
    }
    if interrupt::is_requested() {
        // The packets and frames until now are kept.
        recording.finish()?;
        return Ok(CommandOutcome::Interrupted);
    }
    let results = results?;
    print(arguments, &results.diagnoses)?;
    // A file that cannot be written does not keep the others from being written.
    let recorded = recording.finish();
    let page = match &arguments.report {
        Some(path) => files::write_page(path, arguments, started_unix_ns, results.endpoints),
        None => Ok(()),
    };
    recorded.and(page)?;
    Ok(if results.has_answers {
        CommandOutcome::Success
    } else {
        CommandOutcome::Code(FAILED)
    })
}

/// The results of all probes.
struct Results {
    diagnoses: Vec<Diagnosis>,
    /// What the page shows about them; empty if no page is wanted.
    endpoints: Vec<ProbedEndpoint>,
    /// Whether every server answered.
    has_answers: bool,
}

/// Probes one URL after the other.
fn results(
    arguments: &Arguments,
    plans: &[Plan],
    recording: &mut Recording,
    interrupted: &StopSignal,
) -> Result<Results> {
    let mut results = Results {
        diagnoses: Vec::new(),
        endpoints: Vec::new(),
        has_answers: true,
    };
    for (plan, letter) in plans.iter().zip('A'..) {
        recording.begin((plans.len() > 1).then_some(letter));
        let begun = clock::now();
        let time = std::time::Duration::from(plan.duration);
        let mut address_book = AddressBook::until(Instant::now() + time);
        let mut seen = drive::observe(StepEnvironment {
            plan,
            address_book: &mut address_book,
            recording: &mut *recording,
            interrupted,
        })?;
        seen.segments = recording.take_segments();
        let diagnosis = Diagnosis::of(&seen);
        results.has_answers &= seen.has_response();
        if arguments.report.is_some() {
            let spent = ProbeCost {
                took: clock::now().since(begun),
                ..recording.spent()
            };
            let endpoint = files::endpoint(&seen, &diagnosis, spent);
            results.endpoints.push(endpoint);
        }
        results.diagnoses.push(diagnosis);
    }
    Ok(results)
}

fn print(arguments: &Arguments, diagnoses: &[Diagnosis]) -> Result<()> {
    if arguments.output.json {
        return match diagnoses {
            [one] => output::print_json(one, "result of the probe"),
            several => output::print_json(several, "results of the probes"),
        };
    }
    if arguments.markdown {
        return output::print(markdown_in(arguments.language(), diagnoses));
    }
    let colour = arguments.output.colour_for(std::io::stdout().is_terminal());
    let width = display::narrow_width();
    output::print(text_in(arguments.language(), diagnoses, width, colour))
}
