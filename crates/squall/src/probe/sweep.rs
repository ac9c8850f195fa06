//! Runs a probe for each value of a range in a link's settings, one after the other, each in its own process behind its own
//! link.
//!
//! Nothing is compared here: squall-analysis' `probe::Sweep` does that, and squall-report writes the text. `service` has the
//! command lines.

use std::ffi::OsString;
use std::io::{IsTerminal, Read};
use std::process::{Child, Stdio};
use std::thread;

use anyhow::{Context, Result, anyhow};
use squall_analysis::probe::{ProbeResult, Sweep, SweepPoint};
use squall_base::Duration;
use squall_linux::clock;
use squall_report::probe::{sweep_markdown_in, sweep_text_in};

use super::arguments::Arguments;
use super::files;
use super::plan::Plan;
use super::range::Range;
use super::service::{Service, wait, without_flags};
use crate::link::command::check_settings;
use crate::outcome::{BAD_INPUT, BadInput, CommandOutcome, FAILED, INTERRUPTED};
use crate::{display, interrupt, output};

/// The time that a link may take besides its probe.
const LINK_AT_MOST: Duration = Duration::from_secs(15);

/// Flags with values, and switches, that are not passed on to the single probes.
const FLAGS: [&str; 6] = [
    "--behind", "--points", "--report", "--color", "--colour", "--lang",
];
const SWITCHES: [&str; 2] = ["--json", "--markdown"];

/// Runs the probes and prints their result.
pub(super) fn run(
    arguments: &Arguments,
    service: &Service,
    plan: &Plan,
    range: &Range,
) -> Result<CommandOutcome> {
    check(arguments, range)?;
    let language = arguments.language();
    output::eprint(language.say_lines(&announcement(plan, range)));
    interrupt::watch()?;
    let (started_unix_ns, begun) = (clock::unix_nanos(), clock::now());
    let mut points = Vec::new();
    let mut has_answer = false;
    for value in &range.values {
        match point(service, plan, range, value)? {
            Point::Done(point, is_answered) => {
                has_answer |= is_answered;
                points.push(point);
            }
            Point::Without(why) => {
                let link = range.link_at(value);
                output::eprint(format_args!("squall: behind '{link}': {why}\n"));
                if points.is_empty() {
                    // The other probes would fail too, for example without the right to make links.
                    return Ok(CommandOutcome::Code(FAILED));
                }
                points.push(SweepPoint::failed(value.clone(), link, why));
            }
            Point::End(outcome) => return Ok(outcome),
        }
    }
    let sweep = Sweep::of(plan.url.to_text(), range.condition.clone(), points);
    print(arguments, &sweep)?;
    if let Some(path) = &arguments.report {
        let took = clock::now().since(begun);
        files::write_sweep(path, language, started_unix_ns, took, &sweep)?;
    }
    Ok(if has_answer {
        CommandOutcome::Success
    } else {
        CommandOutcome::Code(FAILED)
    })
}

/// Refuses flags that make no sense for several probes, and values that the link does not accept.
fn check(arguments: &Arguments, range: &Range) -> Result<(), BadInput> {
    let single = [
        ("--pcap", arguments.pcap.is_some()),
        ("--qlog", arguments.qlog.is_some()),
    ];
    if let Some((flag, _)) = single.iter().find(|(_, is_given)| *is_given) {
        return Err(BadInput::new(format!(
            "{flag} is for one probe, and a range in --behind makes several: probe behind '{}' to see its packets and frames",
            range.link_at(&range.values[0])
        )));
    }
    for value in &range.values {
        check_settings("behind", &range.link_at(value))?;
    }
    Ok(())
}

/// What will be sent, and how long it takes at most.
fn announcement(plan: &Plan, range: &Range) -> String {
    let count = range.values.len();
    let whole = at_most(plan.duration, range);
    format!(
        "squall probe makes {count} probes, one after the other, within {whole} in all, behind\n  {} {}\n{}",
        range.condition,
        range.values.join(", "),
        plan.announcement()
            .replacen("squall probe sends", "Each of them sends", 1),
    )
}

/// How long all probes take at most, if each has this time.
fn at_most(duration: Duration, range: &Range) -> Duration {
    let each = (duration + LINK_AT_MOST).as_nanos();
    Duration::from_nanos(each.saturating_mul(range.values.len() as u64))
}

/// How one probe ended.
enum Point {
    /// With a result, and whether the server answered.
    Done(SweepPoint, bool),
    /// Without a result, for this reason.
    Without(String),
    /// It ended in a way that also ends the sweep.
    End(CommandOutcome),
}

fn point(service: &Service, plan: &Plan, range: &Range, value: &str) -> Result<Point> {
    let link = range.link_at(value);
    let mut own = without_flags(std::env::args_os().skip(1), &FLAGS, &SWITCHES);
    own.extend(["--json", "--unannounced"].map(OsString::from));
    let mut child = service
        .probe(&link, own)
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .spawn()
        .context("cannot start squall link")?;
    let printed = read_all(&mut child)?;
    let status = wait(&mut child, Some(plan.duration + LINK_AT_MOST))?;
    let printed = printed
        .join()
        .map_err(|_| anyhow!("reading a result panicked"))?;
    if interrupt::is_requested() {
        return Ok(Point::End(CommandOutcome::Interrupted));
    }
    let Some(status) = status else {
        let at_most = plan.duration + LINK_AT_MOST;
        return Ok(Point::Without(format!(
            "the probe did not end within {at_most}"
        )));
    };
    let code = status.code().and_then(|code| u8::try_from(code).ok());
    let result = serde_json::from_slice::<ProbeResult>(&printed);
    Ok(match (code, result) {
        // The probe has said on stderr what is wrong.
        (Some(BAD_INPUT), _) => Point::End(CommandOutcome::Code(BAD_INPUT)),
        (Some(INTERRUPTED), _) => Point::End(CommandOutcome::Interrupted),
        (_, Ok(result)) => Point::Done(
            SweepPoint::of(value.to_owned(), link, result),
            code == Some(0),
        ),
        (_, Err(_)) => Point::Without(format!("the probe ended without a result ({status})")),
    })
}

/// Reads what a process prints, on a thread.
fn read_all(child: &mut Child) -> Result<thread::JoinHandle<Vec<u8>>> {
    let mut stdout = child.stdout.take().context("a probe without stdout")?;
    thread::Builder::new()
        .name("squall-result".to_owned())
        .spawn(move || {
            let mut printed = Vec::new();
            // If a part of the output is missing, it cannot be parsed as a result.
            let _ = stdout.read_to_end(&mut printed);
            printed
        })
        .context("cannot start the thread that reads a result")
}

fn print(arguments: &Arguments, sweep: &Sweep) -> Result<()> {
    if arguments.output.json {
        return output::print_json(sweep, "results of the probes");
    }
    if arguments.markdown {
        return output::print(sweep_markdown_in(arguments.language(), sweep));
    }
    let colour = arguments.output.colour_for(std::io::stdout().is_terminal());
    let width = display::narrow_width();
    let text = sweep_text_in(arguments.language(), sweep, width, colour);
    output::print(text)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn announcement_bounds_the_time_of_all_probes() {
        let range = Range::find("delay 10..200ms", None).unwrap().unwrap();
        assert_eq!(
            at_most(Duration::from_secs(45), &range),
            Duration::from_secs(5 * 60)
        );
    }
}
