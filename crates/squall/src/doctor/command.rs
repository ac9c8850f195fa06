//! `squall doctor`: what squall can do on this machine, as a table or JSON.
//!
//! Only the flags and the output; the folder's other files make the checks and judge them.

use std::fmt::Write;
use std::path::PathBuf;

use anyhow::{Result, bail};
use squall_peers::{FindError, InstalledProgram};

use super::check::{Check, State};
use super::examine;
use crate::outcome::CommandOutcome;
use crate::output::{print, print_json};

#[derive(Debug, clap::Args)]
#[command(
    after_help = "Examples:\n  squall doctor\n  squall doctor --json\n  squall doctor --peers\n\n\
                        The exit code is 1 if something that squall needs is missing."
)]
pub(crate) struct Arguments {
    /// Print the checks as JSON: an array of objects {check, state, found, advice}
    #[arg(long)]
    json: bool,
    /// Instead of the checks, list the third-party programs that a recipe's paths can name (docs/PEERS.md): which are
    /// installed, and how to get the others
    #[arg(long)]
    peers: bool,
}

/// A third-party program, as in the JSON output.
#[derive(serde::Serialize)]
struct Peer {
    program: String,
    version: Option<String>,
    path: Option<PathBuf>,
    /// Why it cannot be used, and how to get it.
    missing: Option<String>,
}

pub(crate) fn run(arguments: &Arguments) -> Result<CommandOutcome> {
    if arguments.peers {
        return peers(arguments.json);
    }
    let checks = examine();
    if arguments.json {
        print_json(&checks, "checks")?;
    } else {
        print(table(&checks))?;
    }
    let missing = names(&checks, State::Missing);
    if !missing.is_empty() {
        bail!("squall cannot run here, because this is missing: {missing}");
    }
    if !arguments.json {
        print(match names(&checks, State::Limited) {
            limited if limited.is_empty() => "\nsquall can run here\n".to_owned(),
            limited => format!("\nsquall can run here, but within limits: {limited}\n"),
        })?;
    }
    Ok(CommandOutcome::Success)
}

/// Lists the third-party programs. Missing ones are not a failure.
fn peers(as_json: bool) -> Result<CommandOutcome> {
    let inventory = squall_peers::inventory(&squall_peers::SearchPath::usual());
    let peer = |(program, found): (String, Result<InstalledProgram, FindError>)| match found {
        Ok(InstalledProgram { path, version }) => Peer {
            program,
            version: Some(version.to_string()),
            path: Some(path),
            missing: None,
        },
        Err(missing) => Peer {
            program,
            version: None,
            path: None,
            missing: Some(missing.to_string()),
        },
    };
    let peers: Vec<Peer> = inventory.into_iter().map(peer).collect();
    if as_json {
        print_json(&peers, "programs")?;
    } else {
        print(peers_table(&peers))?;
    }
    Ok(CommandOutcome::Success)
}

/// One line per program; for a missing one, the next line says how to get it.
fn peers_table(peers: &[Peer]) -> String {
    let mut text = format!("{:<8}  {:<10}  path\n", "program", "version");
    for peer in peers {
        let version = peer.version.as_deref().unwrap_or("missing");
        let path = peer.path.as_ref().map(|path| path.display().to_string());
        let line = format!(
            "{:<8}  {version:<10}  {}",
            peer.program,
            path.unwrap_or_default()
        );
        writeln!(text, "{}", line.trim_end()).expect("a String takes all text");
        if let Some(missing) = &peer.missing {
            writeln!(text, "    {missing}").expect("a String takes all text");
        }
    }
    text
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

/// One line per check, with its advice on the next one.
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
    fn advice_is_on_the_line_below_its_check() {
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
    fn check_as_json_has_four_keys() {
        let check = Check::limited("memory", "1 MiB", "`free`");
        let json = serde_json::to_string(&check).expect("plain data");
        assert_eq!(
            json,
            r#"{"check":"memory","state":"limited","found":"1 MiB","advice":"`free`"}"#
        );
    }
}
