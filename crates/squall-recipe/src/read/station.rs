//! `[station.NAME]`: the recipe's own programs, and programs that squall knows with additional configuration.
//!
//! Whether a program is installed, what its placeholders are and whether it accepts extra configuration is not checked
//! here but when it is started.

use squall_base::plan::{Implementation, OwnProgram, PROGRAMS, Station, Variant};

use super::names::is_slug;
use crate::error::Mistake;
use crate::path::StationDefinition;
use crate::problems::{ReportedProblem, collect_all};
use crate::section::{Field, Section};
use crate::shapes;

const TABLES: &str = "a table for each station, such as [station.mine]";
/// More than any machine has processors.
const MAX_THREADS: u32 = 1_024;
const COMMAND: &str = "the program and its arguments";
const READY: &str = "\"tcp\", \"http GET /path\" or \"output TEXT\"";

pub(super) fn read_all(
    root: &Section<'_>,
) -> Result<Vec<(String, StationDefinition)>, ReportedProblem> {
    let Some(field) = root.field("station") else {
        return Ok(Vec::new());
    };
    collect_all(field.entries(TABLES)?.iter().map(station))
}

/// Refuses `[response]` if no server on the paths would send it: a program of the recipe answers as it is configured.
pub(super) fn refuse_unused_response(
    root: &Section<'_>,
    variants: &[Variant],
) -> Result<(), ReportedProblem> {
    let mut servers = variants
        .iter()
        .filter_map(|variant| variant.stations.last());
    let uses_response = |server: &Station| !matches!(server.runs, Implementation::Own(_));
    let Some((field, server)) = root.field("response").zip(servers.clone().next()) else {
        return Ok(());
    };
    if servers.any(uses_response) {
        return Ok(());
    }
    let mistake = Mistake::UnsupportedSetting {
        station: server.name.clone(),
        key: "response".to_owned(),
    };
    let expected = "its response in its own configuration";
    Err(field.refuse_key(mistake, expected))
}

fn station(entry: &Field<'_>) -> Result<(String, StationDefinition), ReportedProblem> {
    let name = entry.key;
    if !is_slug(name) || name.contains('-') {
        let mistake = Mistake::Malformed {
            text: name.to_owned(),
            rule: "the name of a station",
        };
        return Err(entry.refuse_key(
            mistake,
            "1 to 40 of the characters a-z, 0-9 and _, a letter or digit first",
        ));
    }
    let table = entry.section(&shapes::STATION, &format!("[station.{name}]"))?;
    let definition = match table.field("extends") {
        Some(field) => extended(&table, &field)?,
        None => StationDefinition::Command(command(&table)?),
    };
    Ok((name.to_owned(), definition))
}

/// A program that squall does not know.
fn command(table: &Section<'_>) -> Result<OwnProgram, ReportedProblem> {
    let command = table.required("command", COMMAND, |f| not_blank(&f));
    let configuration = table.optional("configuration", |f| Ok(f.text()?.value.to_owned()));
    let ready = table.optional("ready", |f| ready(&f));
    for key in EXTENDING_KEYS {
        if let Some(field) = table.field(key) {
            let key = key.to_owned();
            return Err(field.refuse_key(Mistake::WithoutExtends(key), "`extends` next to it"));
        }
    }
    Ok(OwnProgram {
        command: command?,
        configuration: configuration?,
        ready: ready?.unwrap_or_else(|| "tcp".to_owned()),
    })
}

/// Keys of stations that extend a program.
const EXTENDING_KEYS: [&str; 2] = ["extra", "threads"];

/// A program that squall knows.
fn extended(
    table: &Section<'_>,
    extends: &Field<'_>,
) -> Result<StationDefinition, ReportedProblem> {
    let names = PROGRAMS.map(|name| (name, name));
    let program = extends.word("a program that squall knows", &names);
    for key in ["command", "configuration", "ready"] {
        if table.field(key).is_some() {
            return Err(table.refuse_both(key, "extends"));
        }
    }
    let threads = table.optional("threads", |f| f.integer(&(1..=MAX_THREADS)));
    let extra = table.optional("extra", |f| Ok(f.text()?.value.to_owned()));
    Ok(StationDefinition::Extended {
        program: program?.to_owned(),
        threads: threads?,
        extra: extra?,
    })
}

fn not_blank(field: &Field<'_>) -> Result<String, ReportedProblem> {
    field.text_that("a command", COMMAND, |text| !text.trim().is_empty())
}

fn ready(field: &Field<'_>) -> Result<String, ReportedProblem> {
    field.text_that("a way to tell that a program is ready", READY, |text| {
        let path = text.strip_prefix("http GET ");
        let output = text.strip_prefix("output ");
        text == "tcp"
            || path.is_some_and(|path| path.starts_with('/'))
            || output.is_some_and(|output| !output.trim().is_empty())
    })
}
