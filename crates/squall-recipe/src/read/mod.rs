//! Interprets the values of a recipe: each table becomes the values that a plan holds.
//!
//! Nothing is expanded here: `recipe` has the grid and the seeds. All tables are read even if one has a mistake, so that
//! all mistakes are reported together.
//!
//! Where to go next: `http` and `body` for requests and the response, `load` for what triggers requests, `request_mix` for
//! which requests a load sends, `variant` for paths, `station` for the programs of a recipe, `hops` and `pool` for
//! connections, `side` for protocol settings, `effect` for settings that would have no effect, `program` for those of
//! programs, `conditions` for the link, `profile` for times and profiles, `sizes` for the bodies that a profile replaces,
//! `question` for what is measured and which comparison comes first, `names` for names.

mod body;
mod conditions;
mod effect;
mod hops;
mod http;
mod load;
mod names;
mod pool;
mod profile;
mod program;
mod question;
mod request_mix;
mod side;
mod sizes;
mod station;
mod variant;

pub(crate) use program::value_of as program_setting;
use squall_base::Duration;
use squall_base::plan::{Protocol, SAMPLE_EVERY, SAMPLE_EVERY_AT_LEAST, Side, SideSettings};

use self::names::{USUAL_PROFILE, sentence, slug};
use self::sizes::Messages;
use crate::error::Mistake;
use crate::files::{Files, RecipeFiles};
use crate::problems::ReportedProblem;
use crate::recipe::{Profile, Recipe};
use crate::section::Section;
use crate::stations::StationMode;
use crate::words::{did_you_mean, listed};

/// A phase of a trial lasts at most this long.
const MAX_SAMPLE_EVERY: Duration = Duration::from_secs(24 * 3_600);

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
        f.within(&range, "at least 1ms and at most 24h")
    });
    let load = load.as_ref().map_err(|reported| *reported);
    let own_connections = load.ok().and_then(|load| load.kind_name.own_connections());
    let measures = question::measures(root, load.ok().map(|load| load.kind_name));
    let own_stations = station::read_all(root);
    let known_stations = own_stations.as_ref().map_or(&[][..], Vec::as_slice);
    let variants = variant::read_all(root, known_stations, station_mode, own_connections);
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
    let end = |protocol: &Protocol| effect::HopEnd {
        protocol: *protocol,
        side,
        across_link: true,
        is_proxy: false,
        applier: effect::Applier::Embedded,
    };
    let ends: Vec<_> = protocols.iter().map(end).collect();
    side::read_tables(root, protocols, to).and(effect::check(root, &ends))
}

/// The index of the profile that runs if none is chosen.
fn default_profile(root: &Section<'_>, profiles: &[Profile]) -> Result<usize, ReportedProblem> {
    let index_of = |name: &str| profiles.iter().position(|p| p.name == name);
    let chosen = root.optional("default_profile", |field| {
        let name = field.text()?.value;
        index_of(name).ok_or_else(|| {
            let names: Vec<&str> = profiles.iter().map(|p| p.name.as_str()).collect();
            let hint = did_you_mean(name, names.iter().copied());
            let mistake = Mistake::UnknownProfile(name.to_owned());
            field.refuse_part(0..name.len(), mistake, &listed(&names), hint)
        })
    })?;
    Ok(chosen.or_else(|| index_of(USUAL_PROFILE)).unwrap_or(0))
}
