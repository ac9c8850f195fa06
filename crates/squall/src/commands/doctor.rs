//! `squall doctor`: what this machine lets squall do, as a table or JSON. What is looked at, and how it is
//! judged: `doctor`.

use std::fmt::Write;

use anyhow::{Context, Result, bail};

use crate::Ending;
use crate::doctor::{Check, State, examine};
use crate::output::print;

#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:\n  squall doctor\n  squall doctor --json\n\n\
                        The exit code is 1 if something is missing without which squall cannot run.")]
pub(crate) struct Arguments {
    /// Print the checks as JSON: an array of objects {check, state, found, advice}
    #[arg(long)]
    json: bool,
}

pub(crate) fn run(arguments: &Arguments) -> Result<Ending> {
    let checks = examine();
    if arguments.json {
        let json =
            serde_json::to_string_pretty(&checks).context("cannot write the checks as JSON")?;
        print(format_args!("{json}\n"))?;
    } else {
        print(table(&checks))?;
    }
    let missing = names(&checks, State::Missing);
    if !missing.is_empty() {
        bail!("cannot run here without what is missing: {missing}");
    }
    if !arguments.json {
        print(match names(&checks, State::Limited) {
            limited if limited.is_empty() => "\nsquall can run here\n".to_owned(),
            limited => format!("\nsquall can run here, but within limits: {limited}\n"),
        })?;
    }
    Ok(Ending::Fine)
}

/// The checks in a state, separated by commas.
fn names(checks: &[Check], state: State) -> String {
    let names: Vec<&str> = checks
        .iter()
        .filter(|check| check.state == state)
        .map(|check| check.check)
        .collect();
    names.join(", ")
}

/// A line for each check, with its advice on the next one.
fn table(checks: &[Check]) -> String {
    let width = checks.iter().map(|check| check.check.len()).max();
    let width = width.unwrap_or(0).max("check".len());
    let mut text = format!("{:<width$}  {:<7}  found\n", "check", "state");
    for check in checks {
        let state = check.state.name();
        writeln!(text, "{:<width$}  {state:<7}  {}", check.check, check.found)
            .expect("a String takes all text");
        if let Some(advice) = &check.advice {
            writeln!(text, "    {advice}").expect("a String takes all text");
        }
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_check_has_a_line_and_its_advice_the_next() {
        let checks = [
            Check::ok("kernel", "Linux 6.12"),
            Check::missing("TUN device", "closed", "`sudo modprobe tun`"),
        ];
        assert_eq!(
            table(&checks),
            "check       state    found\n\
             kernel      ok       Linux 6.12\n\
             TUN device  missing  closed\n    `sudo modprobe tun`\n"
        );
        assert_eq!(names(&checks, State::Missing), "TUN device");
        assert_eq!(names(&checks, State::Limited), "");
    }

    #[test]
    fn json_has_the_four_keys() {
        let check = Check::limited("memory", "1 MiB", "`free`");
        let json = serde_json::to_string(&check).expect("plain data");
        assert_eq!(
            json,
            r#"{"check":"memory","state":"limited","found":"1 MiB","advice":"`free`"}"#
        );
    }
}
