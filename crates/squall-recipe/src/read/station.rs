//! `[station.NAME]`: programs that the recipe brings along.
//!
//! Whether a program is there, and what its placeholders are, is seen when it is started.

use squall_base::plan::{OwnProgram, Runs, Station, Variant};

use crate::error::Mistake;
use crate::problems::Reported;
use crate::section::{Field, Section};
use crate::shapes;

const TABLES: &str = "a table for each station, such as [station.mine]";
const READY: &str = "\"tcp\", \"http GET /path\" or \"output TEXT\"";

/// Reads all of them.
pub(super) fn read_all(root: &Section<'_>) -> Result<Vec<(String, OwnProgram)>, Reported> {
    let Some(field) = root.field("station") else {
        return Ok(Vec::new());
    };
    let entries = field.entries(TABLES)?;
    let stations: Vec<Result<(String, OwnProgram), Reported>> =
        entries.iter().map(station).collect();
    stations.into_iter().collect()
}

/// Refuses an answer that none of the paths' servers gives: one of the recipe's own answers as it is written.
pub(super) fn refuse_answer(root: &Section<'_>, variants: &[Variant]) -> Result<(), Reported> {
    let mut servers = variants
        .iter()
        .filter_map(|variant| variant.stations.last());
    let answers_as_told = |server: &Station| !matches!(server.runs, Runs::Own(_));
    let Some((field, server)) = root.field("response").zip(servers.clone().next()) else {
        return Ok(());
    };
    if servers.any(answers_as_told) {
        return Ok(());
    }
    let mistake = Mistake::NoWords {
        station: server.name.clone(),
        key: "response".to_owned(),
    };
    let expected = "its answer in its own configuration";
    Err(field.refuse_key(mistake, expected))
}

fn station(entry: &Field<'_>) -> Result<(String, OwnProgram), Reported> {
    let name = entry.key;
    if !super::is_slug(name) || name.contains('-') {
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
    let command = table.required("command", "the program and its arguments", |f| {
        not_blank(&f)
    });
    let configuration = table.maybe("configuration", |f| Ok(f.text()?.value.to_owned()));
    let ready = table.maybe("ready", |f| ready(&f));
    Ok((
        name.to_owned(),
        OwnProgram {
            command: command?,
            configuration: configuration?,
            ready: ready?.unwrap_or_else(|| "tcp".to_owned()),
        },
    ))
}

fn not_blank(field: &Field<'_>) -> Result<String, Reported> {
    let text = field.text()?.value;
    if text.trim().is_empty() {
        let mistake = Mistake::Malformed {
            text: text.to_owned(),
            rule: "a command",
        };
        return Err(field.refuse(mistake, "the program and its arguments"));
    }
    Ok(text.to_owned())
}

fn ready(field: &Field<'_>) -> Result<String, Reported> {
    let text = field.text()?.value;
    let is_one = text == "tcp"
        || text
            .strip_prefix("http GET ")
            .is_some_and(|path| path.starts_with('/'))
        || text
            .strip_prefix("output ")
            .is_some_and(|text| !text.trim().is_empty());
    if is_one {
        return Ok(text.to_owned());
    }
    let mistake = Mistake::Malformed {
        text: text.to_owned(),
        rule: "a way to tell that a program is ready",
    };
    Err(field.refuse(mistake, READY))
}
