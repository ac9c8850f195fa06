//! The files that a probe writes. Those that cannot be written, or would be empty, are refused before anything is sent.
//!
//! Of their contents, only that of the page is put together here; squall-report draws it. `recording` has qlog and the
//! capture.

use std::path::Path;

use anyhow::Result;
use squall_analysis::probe::{Diagnosis, Observations, Opening, Sweep, TransferCourse};
use squall_base::Duration;
use squall_base::plan::Version;
use squall_record::write_whole;
use squall_report::Language;
use squall_report::probe::{
    ProbeCost, ProbePage, ProbedEndpoint, SweepPage, probe_page_in, sweep_page_in,
};

use super::arguments::Arguments;
use super::plan::Plan;
use crate::command_line;
use crate::outcome::BadInput;

/// Refuses files that cannot be written, and those that would have nothing in them.
pub(super) fn check(arguments: &Arguments, plans: &[Plan]) -> Result<(), BadInput> {
    let files = [
        ("--report", arguments.report.as_deref()),
        ("--qlog", arguments.qlog.as_deref()),
        ("--pcap", arguments.pcap.as_deref()),
        ("--key-log", arguments.connection.key_log.as_deref()),
    ];
    let given: Vec<(&str, &Path)> = files
        .into_iter()
        .filter_map(|(flag, path)| Some((flag, path?)))
        .collect();
    for (place, (flag, path)) in given.iter().enumerate() {
        check_place(flag, path)?;
        if let Some((other, _)) = given[..place].iter().find(|(_, other)| other == path) {
            return Err(BadInput::new(format!(
                "{other} and {flag} name the same file, {}: each needs its own",
                path.display()
            )));
        }
    }
    let has_frames = plans.iter().any(|plan| plan.versions != [Version::Http1]);
    if arguments.qlog.is_some() && !has_frames {
        return Err(BadInput::new(
            "HTTP/1.1 has no frames, so --qlog would have nothing to write: give --http 2 or 3, or leave --http out",
        ));
    }
    Ok(())
}

fn check_place(flag: &str, path: &Path) -> Result<(), BadInput> {
    let shown = path.display();
    if path.is_dir() {
        return Err(BadInput::new(format!(
            "{flag} {shown}: it is a folder; name a file in it"
        )));
    }
    let folder = path
        .parent()
        .filter(|folder| !folder.as_os_str().is_empty());
    match folder {
        Some(folder) if !folder.is_dir() => Err(BadInput::new(format!(
            "{flag} {shown}: there is no folder {}; make it first, or name a file elsewhere",
            folder.display()
        ))),
        _ => Ok(()),
    }
}

/// What the page shows about an endpoint.
pub(super) fn endpoint(
    seen: &Observations,
    diagnosis: &Diagnosis,
    spent: ProbeCost,
) -> ProbedEndpoint {
    ProbedEndpoint {
        diagnosis: diagnosis.clone(),
        courses: TransferCourse::all(seen),
        openings: Opening::all(seen),
        spent,
    }
}

/// Writes the page of a probe that began at this time.
pub(super) fn write_page(
    path: &Path,
    arguments: &Arguments,
    started_unix_ns: u64,
    endpoints: Vec<ProbedEndpoint>,
) -> Result<()> {
    let probe = ProbePage {
        command: command(command_line::shown(), arguments.forwarded.as_deref()),
        started_unix_ns,
        link: arguments.forwarded.clone(),
        endpoints,
    };
    let page = probe_page_in(arguments.language(), &probe);
    write_whole(path, &page)?;
    Ok(())
}

/// Writes the page of a sweep that began at this time and took that long, in a language.
pub(super) fn write_sweep(
    path: &Path,
    language: Language,
    started_unix_ns: u64,
    took: Duration,
    sweep: &Sweep,
) -> Result<()> {
    let it = SweepPage {
        command: command(command_line::shown(), None),
        started_unix_ns,
        took,
        sweep,
    };
    let page = sweep_page_in(language, &it);
    write_whole(path, &page)?;
    Ok(())
}

/// The command that the user gave, for a shell. Behind a link, this process's own command ends with what `behind` has added.
fn command(mut words: Vec<String>, link: Option<&str>) -> String {
    if let Some(link) = link {
        let added = words.iter().rposition(|word| word == "--forwarded");
        words.truncate(added.unwrap_or(words.len()));
        words.extend(["--behind".to_owned(), link.to_owned()]);
    }
    command_line::redacted_in_shell(&words)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn command_behind_a_link_is_shown_as_the_user_gave_it() {
        let words = [
            "squall",
            "probe",
            "-k",
            "https://localhost/",
            "--forwarded",
            "delay 30ms",
            "--connect-to",
            "server:443",
        ];
        let words = words.map(str::to_owned).to_vec();
        assert_eq!(
            command(words, Some("delay 30ms")),
            "squall probe -k https://localhost/ --behind 'delay 30ms'"
        );
    }

    #[test]
    fn files_that_cannot_be_written_are_refused() {
        let folder = tempfile::tempdir().unwrap();
        let said = check_place("--qlog", folder.path())
            .unwrap_err()
            .to_string();
        assert!(said.contains("it is a folder"), "{said}");
        let nowhere = folder.path().join("none/probe.qlog");
        let said = check_place("--qlog", &nowhere).unwrap_err().to_string();
        assert!(said.contains("there is no folder"), "{said}");
        assert!(check_place("--qlog", &folder.path().join("probe.qlog")).is_ok());
        assert!(check_place("--qlog", Path::new("probe.qlog")).is_ok());
    }
}
