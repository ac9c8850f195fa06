//! Interprets the values of a recipe: each table becomes the values that a plan holds.
//!
//! Nothing is expanded here: `recipe` has the grid and the seeds. All tables are read even if one has a mistake, so that
//! all mistakes are reported together.
//!
//! Where to go next: `http` and `body` for requests and the response, `load` for what triggers requests, `asked` for which
//! requests a load sends, `variant` for paths, `station` for the programs of a recipe, `hops` and `pool` for connections,
//! `side` for protocol settings, `heard` for settings that would have no effect, `program` for those of programs,
//! `conditions` for the link, `profile` for times and profiles, `sizes` for the bodies that a profile replaces, `question`
//! for what is measured and which comparison comes first.

mod asked;
mod body;
mod conditions;
mod heard;
mod hops;
mod http;
mod load;
mod pool;
mod profile;
mod program;
mod question;
mod side;
mod sizes;
mod station;
mod variant;

use std::fmt::Display;

use squall_base::Duration;
use squall_base::plan::{Protocol, SAMPLE_EVERY, SAMPLE_EVERY_AT_LEAST, Side, SideSettings};

use self::sizes::Messages;
use crate::error::Mistake;
use crate::files::{Files, RecipeFiles};
use crate::problems::{Problems, ReportedProblem, did_you_mean};
use crate::recipe::{Profile, Recipe};
use crate::section::{Field, Section, SpannedValue, listed};
use crate::stations::StationMode;

/// The profile that runs by default, if the recipe has one of this name.
const USUAL_PROFILE: &str = "standard";

/// A phase of a trial lasts at most this long.
const MAX_SAMPLE_EVERY: Duration = Duration::from_secs(24 * 3_600);

/// Reads the whole recipe.
pub(crate) fn recipe(
    root: &Section<'_>,
    station_mode: StationMode,
    files: &dyn Files,
) -> Result<Recipe, ReportedProblem> {
    let name = root.required("name", "a name, such as \"twilio\"", |f| slug(&f));
    let question = root.required("question", "the question that the recipe asks", |f| {
        sentence(&f)
    });
    let recipe_files = RecipeFiles::new(files);
    let load = load::read(root, &recipe_files);
    let requests = load.as_ref().map_or(&[][..], |load| &load.requests);
    let response = http::response(root, requests);
    let sample_every = root.optional("sample_every", |f| {
        let range = SAMPLE_EVERY_AT_LEAST..=MAX_SAMPLE_EVERY;
        Ok(f.quantity_in(&range, "at least 1ms and at most 24h")?.value)
    });
    let load = load.as_ref().map_err(|reported| *reported);
    let own_connections = load.ok().and_then(|load| load.kind_name.own_connections());
    let measures = question::measures(root, load.ok().map(|load| load.kind_name));
    let own_stations = station::read_all(root);
    let known_stations = own_stations.as_ref().map_or(&[][..], Vec::as_slice);
    let variants = variant::read_all(root, known_stations, (station_mode, own_connections));
    let messages = Messages {
        requests: load.ok().map(|load| load.requests.as_slice()),
        status: response.as_ref().ok().map(|response| response.status),
    };
    let known_variants = variants.as_deref().unwrap_or_default();
    let profiles = profile::read_all(root, load, known_variants, messages, &recipe_files);
    let default_profile = match &profiles {
        Ok(profiles) => default_profile(root, profiles),
        Err(reported) => Err(*reported),
    };
    own_stations?;
    let variants = variants?;
    station::refuse_unused_response(root, &variants)?;
    let measures = measures?;
    question::refuse_untagged_requests(root, &measures, &variants)?;
    Ok(Recipe {
        name: name?,
        question: question?,
        measures,
        requests: load?.requests.clone(),
        files: recipe_files.into_named_files(),
        response: response?,
        sample_every: sample_every?.unwrap_or(SAMPLE_EVERY),
        variants,
        profiles: profiles?,
        default_profile: default_profile?,
    })
}

/// Reads the settings of one of our own sides, which may speak any of these protocols, over those in `to`.
pub(crate) fn settings(
    root: &Section<'_>,
    side: Side,
    protocols: &[Protocol],
    to: &mut SideSettings,
) -> Result<(), ReportedProblem> {
    let end = |protocol: &Protocol| heard::HopEnd {
        protocol: *protocol,
        side,
        across_link: true,
        applier: heard::Applier::Embedded,
    };
    let ends: Vec<_> = protocols.iter().map(end).collect();
    side::read_tables(root, protocols, to).and(heard::check(root, &ends))
}

/// The index of the profile that runs if none is chosen.
fn default_profile(root: &Section<'_>, profiles: &[Profile]) -> Result<usize, ReportedProblem> {
    let index_of = |name: &str| profiles.iter().position(|p| p.name == name);
    let chosen = root.optional("default_profile", |field| {
        let name = field.text()?.value;
        index_of(name).ok_or_else(|| {
            let names: Vec<&str> = profiles.iter().map(|p| p.name.as_str()).collect();
            let hint = did_you_mean(name, names.iter().copied());
            let mistake = Mistake::UnknownProfile {
                name: name.to_owned(),
            };
            field.refuse_part(0..name.len(), mistake, &listed(&names), hint)
        })
    })?;
    Ok(chosen.or_else(|| index_of(USUAL_PROFILE)).unwrap_or(0))
}

/// A name that can be used in folder names and commands as it is.
fn slug(field: &Field<'_>) -> Result<String, ReportedProblem> {
    let text = field.text()?.value;
    if is_slug(text) {
        return Ok(text.to_owned());
    }
    let mistake = Mistake::Malformed {
        text: text.to_owned(),
        rule: "a name",
    };
    Err(field.refuse(mistake, SLUG))
}

const SLUG: &str = "1 to 40 of the characters a-z, 0-9, - and _, a letter or digit first";

fn is_slug(text: &str) -> bool {
    (1..=40).contains(&text.len())
        && text.starts_with(|c: char| c.is_ascii_lowercase() || c.is_ascii_digit())
        && text
            .chars()
            .all(|c| matches!(c, 'a'..='z' | '0'..='9' | '-' | '_'))
}

/// One line of prose.
fn sentence(field: &Field<'_>) -> Result<String, ReportedProblem> {
    let text = field.text()?.value;
    if text.trim().is_empty() || text.chars().any(char::is_control) {
        let mistake = Mistake::Malformed {
            text: text.to_owned(),
            rule: "a sentence",
        };
        return Err(field.refuse(mistake, "one line that is not blank"));
    }
    Ok(text.trim().to_owned())
}

/// Refuses duplicate values.
fn distinct<T: PartialEq + Display>(
    problems: &Problems<'_>,
    what: &'static str,
    values: &[SpannedValue<T>],
) -> Result<(), ReportedProblem> {
    let mut outcome = Ok(());
    for (i, later) in values.iter().enumerate() {
        if let Some(first) = values[..i].iter().find(|first| first.value == later.value) {
            let first_line = problems.line_of(first.span.start);
            let mistake = Mistake::Duplicate {
                what,
                name: later.value.to_string(),
                first_line,
            };
            let expected = format!("each {what} once");
            outcome = Err(problems.report(later.span.clone(), mistake, expected, None));
        }
    }
    outcome
}
