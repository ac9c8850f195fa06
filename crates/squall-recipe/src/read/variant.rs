//! `[[variant]]`: a path, its hops (see `hops`), and which of its programs are pinned to a processor.

use squall_base::plan::{Implementation, StationOptions, Variant};
use toml::de::DeValue;

use super::hops::{self, VariantContext};
use super::load::OwnConnections;
use super::names::distinct;
use super::{program, side};
use crate::error::Mistake;
use crate::path::{self, Layout, LayoutStation, PathError, StationDefinition};
use crate::problems::{ReportedProblem, collect_all};
use crate::section::{Field, Section, SpannedValue};
use crate::shapes;
use crate::stations::StationMode;
use crate::words::did_you_mean;

const DEFAULT_CONGESTION_CONTROL: &str = "cubic";
/// Variant names become table columns and parts of folder names.
const MAX_NAME_LEN: usize = 40;

const SOME_VARIANTS: &str = "at least one [[variant]]";
const DOUBLE_BRACKETS: &str = "write [[variant]] with two brackets on each side";

/// Reads all variants, in the order of the text.
pub(super) fn read_all(
    root: &Section<'_>,
    own_stations: &[(String, StationDefinition)],
    station_mode: StationMode,
    own_connections: Option<OwnConnections>,
) -> Result<Vec<Variant>, ReportedProblem> {
    let congestion_control = root
        .optional("congestion_control", |f| side::congestion_control(&f))
        .map(|name| name.unwrap_or_else(|| DEFAULT_CONGESTION_CONTROL.to_owned()));
    let context = VariantContext {
        congestion_control,
        own_stations,
        station_mode,
        own_connections,
    };
    let fields = root.required("variant", SOME_VARIANTS, |f| {
        f.tables(SOME_VARIANTS, DOUBLE_BRACKETS)
    })?;
    let sections: Vec<Result<Section<'_>, ReportedProblem>> = fields
        .iter()
        .map(|f| f.section(&shapes::VARIANT, shapes::VARIANT.label))
        .collect();
    let names: Vec<Result<SpannedValue<String>, ReportedProblem>> = sections
        .iter()
        .map(|s| {
            s.as_ref()
                .map_err(|r| *r)?
                .required("name", NAME, |f| variant_name(&f))
        })
        .collect();
    let known: Vec<SpannedValue<String>> = names.iter().flatten().cloned().collect();
    let unique = distinct(root.problems(), "variant", &known);
    let named = sections.iter().zip(names);
    let variants = collect_all(
        named.map(|(section, name)| variant(section.as_ref().map_err(|r| *r)?, name, &context)),
    );
    unique?;
    variants
}

fn variant(
    section: &Section<'_>,
    name: Result<SpannedValue<String>, ReportedProblem>,
    context: &VariantContext<'_>,
) -> Result<Variant, ReportedProblem> {
    let path = section.required("path", "a path, such as \"client ~h1~> server\"", |f| {
        path(&f, context.own_stations)
    });
    // Everything is read even without a path, to report the mistakes that do not depend on it.
    let layout = path.as_ref().ok().map(|(_, layout)| layout);
    let variant_hops = hops::read(section, layout, context);
    let pinned = pinned(section, layout);
    let (path, layout) = path?;
    let (
        hops::VariantHops {
            hops,
            program_settings,
            proxy_delays,
        },
        pinned,
    ) = (variant_hops?, pinned?);
    let asked = program_settings.into_iter().zip(pinned).zip(proxy_delays);
    let asked = asked.zip(layout.stations.clone());
    let asked =
        asked.map(
            |(((program_settings, is_pinned), proxy_delay), station)| StationOptions {
                is_pinned,
                settings: program::into_plan_settings(program_settings),
                proxy_delay,
                threads: station.threads,
                extra: station.extra,
            },
        );
    let variant = Variant {
        name: name?.value,
        path,
        hops,
        stations: (layout.stations.into_iter().zip(asked))
            .map(|(station, asked)| station.into_station(context.station_mode, asked))
            .collect(),
    };
    hops::check_shared_hosts(section, &variant)?;
    Ok(variant)
}

/// Reads `pinned`: for each station, whether it is pinned to one processor.
fn pinned(section: &Section<'_>, layout: Option<&Layout>) -> Result<Vec<bool>, ReportedProblem> {
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
    let is_program = |station: &LayoutStation| station.runs != Implementation::Embedded;
    let Some(names) = names else {
        if !layout.stations.iter().any(is_program) {
            let what = "a path without programs".to_owned();
            return Err(field.refuse_key(Mistake::NotPinned(what), PROGRAMS_ONLY));
        }
        return Ok(layout.stations.iter().map(is_program).collect());
    };
    for name in &names {
        let named = |station: &&LayoutStation| station.name == name.value;
        let problem = match layout.stations.iter().find(named) {
            Some(station) if is_program(station) => continue,
            Some(_) => (
                Mistake::NotPinned(format!("`{}`", name.value)),
                PROGRAMS_ONLY,
            ),
            None => (Mistake::UnknownStation(name.value.to_owned()), EXPECTED),
        };
        let (mistake, expected) = problem;
        let all = layout.stations.iter().filter(|station| is_program(station));
        let hint = did_you_mean(name.value, all.map(|station| station.name.as_str()));
        let problems = section.problems();
        return Err(problems.report(name.span.clone(), mistake, expected, hint));
    }
    let is_named = |station: &LayoutStation| names.iter().any(|name| name.value == station.name);
    Ok(layout.stations.iter().map(is_named).collect())
}

const PROGRAMS_ONLY: &str = "programs: the threads of squall's own stations have real-time priority, and go to \
                             whichever processor is free";

const NAME: &str = "a name of 1 to 40 visible ASCII characters, with blanks only between them";

fn variant_name(field: &Field<'_>) -> Result<SpannedValue<String>, ReportedProblem> {
    let name = field.text_that("a variant's name", NAME, |text| {
        (1..=MAX_NAME_LEN).contains(&text.len())
            && text.chars().all(|c| c.is_ascii_graphic() || c == ' ')
            && text.trim() == text
    })?;
    Ok(field.with_span(name))
}

fn path(
    field: &Field<'_>,
    own_stations: &[(String, StationDefinition)],
) -> Result<(String, Layout), ReportedProblem> {
    let text = field.text()?.value;
    path::parse(text)
        .and_then(|path| Ok((path.to_string(), path.layout(own_stations)?)))
        .map_err(
            |PathError {
                 mistake,
                 span,
                 expected,
                 hint,
             }| { field.refuse_part(span, mistake.into(), &expected, hint) },
        )
}
