//! `[[variant]]`: a path, what its hops are (`hops`), and which of its programs are held to a processor.

use squall_base::plan::{Asked, Runs, Variant};
use toml::de::DeValue;

use super::load::OwnConnections;
use super::{distinct, hops, program, side};
use crate::error::Mistake;
use crate::path::{self, Described, Layout, PathError, Role};
use crate::problems::{Reported, did_you_mean};
use crate::section::{At, Field, Section};
use crate::shapes;
use crate::stations::Stations;

const DEFAULT_CONGESTION_CONTROL: &str = "cubic";
/// Variant names are columns of tables and parts of folder names.
const MAX_NAME_LEN: usize = 40;

const SOME_VARIANTS: &str = "at least one [[variant]]";
const DOUBLE_BRACKETS: &str = "write [[variant]] with two brackets on each side";

/// What holds for all variants.
pub(super) struct Usual<'u> {
    pub(super) congestion_control: Result<String, Reported>,
    /// The recipe's own stations.
    pub(super) own: &'u [(String, Described)],
    /// Whether programs run themselves.
    pub(super) stations: Stations,
    /// The connections of its own that each user has, if it has any.
    pub(super) own_connections: Option<OwnConnections>,
}

/// Reads all variants, in the order of the text.
pub(super) fn read_all(
    root: &Section<'_>,
    own: &[(String, Described)],
    (stations, own_connections): (Stations, Option<OwnConnections>),
) -> Result<Vec<Variant>, Reported> {
    let congestion_control = root
        .maybe("congestion_control", |f| side::congestion_control(&f))
        .map(|name| name.unwrap_or_else(|| DEFAULT_CONGESTION_CONTROL.to_owned()));
    let usual = Usual {
        congestion_control,
        own,
        stations,
        own_connections,
    };
    let fields = root.required("variant", SOME_VARIANTS, |f| {
        f.tables(SOME_VARIANTS, DOUBLE_BRACKETS)
    })?;
    let sections: Vec<Result<Section<'_>, Reported>> = fields
        .iter()
        .map(|f| f.section(&shapes::VARIANT, shapes::VARIANT.label))
        .collect();
    let names: Vec<Result<At<String>, Reported>> = sections
        .iter()
        .map(|s| {
            s.as_ref()
                .map_err(|r| *r)?
                .required("name", NAME, |f| variant_name(&f))
        })
        .collect();
    let known: Vec<At<String>> = names.iter().flatten().cloned().collect();
    let unique = distinct(root.problems(), "variant", &known);
    let variants: Vec<Result<Variant, Reported>> = sections
        .iter()
        .zip(names)
        .map(|(section, name)| variant(section.as_ref().map_err(|r| *r)?, name, &usual))
        .collect();
    unique?;
    variants.into_iter().collect()
}

fn variant(
    section: &Section<'_>,
    name: Result<At<String>, Reported>,
    usual: &Usual<'_>,
) -> Result<Variant, Reported> {
    let path = section.required("path", "a path, such as \"client ~h1~> server\"", |f| {
        path(&f, usual.own)
    });
    // Without a path everything is read all the same, for the mistakes that do not depend on it.
    let layout = path.as_ref().ok().map(|(_, layout)| layout);
    let read = hops::read(section, layout, usual);
    let pinned = pinned(section, layout);
    let (path, layout) = path?;
    let (hops::Read { hops, told, delays }, pinned) = (read?, pinned?);
    let asked = told.into_iter().zip(pinned).zip(delays);
    let asked = asked.zip(layout.stations.clone());
    let asked = asked.map(|(((told, is_pinned), proxy_delay), role)| Asked {
        is_pinned,
        settings: program::in_plan(told),
        proxy_delay,
        threads: role.threads,
        extra: role.extra,
    });
    Ok(Variant {
        name: name?.value,
        path,
        hops,
        stations: (layout.stations.into_iter().zip(asked))
            .map(|(role, asked)| role.into_station(usual.stations, asked))
            .collect(),
    })
}

/// Reads `pinned`: for each station, whether it is held to one processor.
fn pinned(section: &Section<'_>, layout: Option<&Layout>) -> Result<Vec<bool>, Reported> {
    const EXPECTED: &str = "true, or the names of programs on the path";
    let Some(field) = section.field("pinned") else {
        return Ok(vec![
            false;
            layout.map_or(0, |layout| layout.stations.len())
        ]);
    };
    let names = match field.value() {
        DeValue::Boolean(false) => Some(Vec::new()),
        DeValue::Boolean(true) => None,
        DeValue::String(_) | DeValue::Array(_) => Some(field.one_or_more(Field::text)?),
        _ => return Err(field.wrong_type(EXPECTED, None)),
    };
    let Some(layout) = layout else {
        return Ok(Vec::new());
    };
    let is_program = |role: &Role| role.runs != Runs::Embedded;
    let Some(names) = names else {
        if !layout.stations.iter().any(is_program) {
            let what = "a path without programs".to_owned();
            return Err(field.refuse_key(Mistake::NotPinned { what }, PROGRAMS_ONLY));
        }
        return Ok(layout.stations.iter().map(is_program).collect());
    };
    for name in &names {
        let named = |role: &&Role| role.name == name.value;
        let problem = match layout.stations.iter().find(named) {
            Some(role) if is_program(role) => continue,
            Some(_) => (
                Mistake::NotPinned {
                    what: format!("`{}`", name.value),
                },
                PROGRAMS_ONLY,
            ),
            None => (
                Mistake::UnknownStation {
                    found: name.value.to_owned(),
                },
                EXPECTED,
            ),
        };
        let (mistake, expected) = problem;
        let all = layout.stations.iter().filter(|role| is_program(role));
        let hint = did_you_mean(name.value, all.map(|role| role.name.as_str()));
        let problems = section.problems();
        return Err(problems.report(name.span.clone(), mistake, expected, hint));
    }
    let is_named = |role: &Role| names.iter().any(|name| name.value == role.name);
    Ok(layout.stations.iter().map(is_named).collect())
}

const PROGRAMS_ONLY: &str = "programs: the threads of squall's own stations have real-time priority, and go to \
                             whichever processor is free";

const NAME: &str = "a name of 1 to 40 visible ASCII characters, with blanks only between them";

fn variant_name(field: &Field<'_>) -> Result<At<String>, Reported> {
    let At { value, span } = field.text()?;
    let is_name = (1..=MAX_NAME_LEN).contains(&value.len())
        && value.chars().all(|c| c.is_ascii_graphic() || c == ' ')
        && value.trim() == value;
    if is_name {
        return Ok(At {
            value: value.to_owned(),
            span,
        });
    }
    let mistake = Mistake::Malformed {
        text: value.to_owned(),
        rule: "a variant's name",
    };
    Err(field.refuse(mistake, NAME))
}

fn path(field: &Field<'_>, own: &[(String, Described)]) -> Result<(String, Layout), Reported> {
    let text = field.text()?.value;
    path::parse(text)
        .and_then(|path| Ok((path.to_string(), path.layout(own)?)))
        .map_err(
            |PathError {
                 mistake,
                 span,
                 expected,
                 hint,
             }| { field.refuse_part(span, mistake.into(), &expected, hint) },
        )
}
