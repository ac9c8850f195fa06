//! The times of `[load]`, and `[profile.NAME]`: how long, on which links, how often.
//!
//! `[load]` and `[conditions]` are what all profiles share; a profile replaces some of their values. What makes the load
//! ask is in `load`, what the link does in `conditions`; which comparison a profile puts first, in `question`.

use std::ops::{Range, RangeInclusive};

use squall_base::Duration;
use squall_base::plan::{Load, LoadKind, Stage, Stages, Variant};

use super::conditions::{Axes, Grid};
use super::load::{self, Kind, Read, Word, besides};
use super::question::{self, Wanted};
use super::sizes::{self, Messages, Sizes};
use super::{SLUG, USUAL_PROFILE, distinct, is_slug};
use crate::error::Mistake;
use crate::files::Named;
use crate::problems::{Problems, Reported};
use crate::recipe::Profile;
use crate::section::{Field, Section};
use crate::shapes;

/// A day is the longest warm-up, measurement or drain.
const MAX_SPAN: Duration = Duration::from_secs(24 * 3_600);
const SPAN: &str = "at most 24h";
const MAX_REPETITIONS: u32 = 1_000;
/// The folders of trials are numbered with four digits.
const MAX_TRIALS: u64 = 10_000;

const DEFAULT_WARMUP: Duration = Duration::from_secs(2);
const DEFAULT_DRAIN: Duration = Duration::from_secs(5);

/// `[load]` and `repetitions`: what a profile begins with.
struct Base {
    word: Word,
    kind: Kind,
    spin: Duration,
    warmup: Duration,
    duration: Option<Duration>,
    drain: Duration,
    repetitions: u32,
}

/// Of which variants a profile is, and which comparison of them comes first.
struct Compared<'a, 'd> {
    /// Places among the recipe's.
    variants: Vec<usize>,
    primary: Option<&'a Wanted<'d>>,
    primary_repetitions: Option<u32>,
}

/// Reads all profiles, in the order of the text; one that is called `standard` if there is none.
pub(super) fn read_all(
    root: &Section<'_>,
    load: Result<&Read<'_>, Reported>,
    variants: &[Variant],
    said: Messages<'_>,
    files: &Named<'_>,
) -> Result<Vec<Profile>, Reported> {
    let base = base(root, load);
    let primary = match variants {
        // What is wrong with them is reported already.
        [] => Ok(None),
        _ => question::wanted(root, variants, files),
    };
    let grid = Grid::read(root, files);
    let Some(field) = root.field("profile") else {
        // `[load]` itself must say how long then.
        let (base, name) = (base?, USUAL_PROFILE.to_owned());
        let table = &load?.table;
        let primary = primary?;
        let compared = Compared {
            variants: (0..variants.len()).collect(),
            primary: primary.as_ref(),
            primary_repetitions: None,
        };
        return Ok(vec![assemble(
            table,
            name,
            &base,
            &grid?,
            Sizes::default(),
            (variants, compared),
        )?]);
    };
    let entries = field.entries("tables such as [profile.quick]")?;
    if entries.is_empty() {
        let mistake = Mistake::EmptyList {
            key: "profile".to_owned(),
        };
        return Err(field.refuse(mistake, "at least one [profile.NAME]"));
    }
    let profiles: Vec<Result<Profile, Reported>> = entries
        .iter()
        .map(|entry| {
            let usual = Usual {
                root,
                said,
                files,
                base: base.as_ref().map_err(|reported| *reported),
                grid: grid.as_ref().map_err(|reported| *reported),
                primary: primary.as_ref().map_err(|reported| *reported),
            };
            profile(entry, &usual, variants)
        })
        .collect();
    profiles.into_iter().collect()
}

fn base(root: &Section<'_>, load: Result<&Read<'_>, Reported>) -> Result<Base, Reported> {
    let repetitions = root.maybe("repetitions", |f| repetitions(&f));
    let load = load?;
    let times = Times::read(&load.table);
    let length = check_length(&load.table, &load.kind);
    let usual_warmup = match load.word {
        Word::Open | Word::Closed => DEFAULT_WARMUP,
        // What is cold in them is part of the question.
        Word::Script | Word::Page | Word::Tiles | Word::Hold => Duration::ZERO,
    };
    let base = Base {
        word: load.word,
        kind: load.kind.clone(),
        spin: load.spin,
        warmup: times.warmup?.unwrap_or(usual_warmup),
        duration: times.duration?,
        drain: times.drain?.unwrap_or(DEFAULT_DRAIN),
        repetitions: repetitions?.unwrap_or(1),
    };
    length?;
    Ok(base)
}

/// Refuses a time for a load whose stages say how long it is.
fn check_length(section: &Section<'_>, kind: &Kind) -> Result<(), Reported> {
    match (kind, section.field("duration")) {
        (Kind::Stages { .. }, Some(_)) => Err(besides(section, "duration", "stages")),
        _ => Ok(()),
    }
}

/// What a profile begins with.
struct Usual<'a, 'd> {
    root: &'a Section<'d>,
    said: Messages<'a>,
    files: &'a Named<'a>,
    base: Result<&'a Base, Reported>,
    grid: Result<&'a Grid, Reported>,
    primary: Result<&'a Option<Wanted<'d>>, Reported>,
}

fn profile(
    entry: &Field<'_>,
    usual: &Usual<'_, '_>,
    variants: &[Variant],
) -> Result<Profile, Reported> {
    let named = if is_slug(entry.key) {
        Ok(entry.key.to_owned())
    } else {
        let mistake = Mistake::Malformed {
            text: entry.key.to_owned(),
            rule: "a name",
        };
        Err(entry.refuse_key(mistake, SLUG))
    };
    let section = entry.section(&shapes::PROFILE, &format!("[profile.{}]", entry.key))?;
    let times = Times::read(&section);
    let axes = Axes::read(&section, usual.files);
    let sizes = sizes::read(usual.root, &section, usual.said);
    let often = section.maybe("repetitions", |f| repetitions(&f));
    let primary_often = section.maybe("primary_repetitions", |f| repetitions(&f));
    let chosen = section.maybe("variants", |f| chosen(section.problems(), &f, variants));
    let own_primary = match variants {
        [] => Ok(None),
        _ => question::wanted(&section, variants, usual.files),
    };
    let (warmup, duration, drain) = (times.warmup?, times.duration?, times.drain?);
    let (base, grid, own_primary) = (usual.base?, usual.grid?, own_primary?);
    check_length(&section, &base.kind)?;
    let merged = Base {
        word: base.word,
        kind: load::replaced(&section, base.word, &base.kind)?,
        spin: base.spin,
        warmup: warmup.unwrap_or(base.warmup),
        duration: duration.or(base.duration),
        drain: drain.unwrap_or(base.drain),
        repetitions: often?.unwrap_or(base.repetitions),
    };
    let compared = Compared {
        variants: chosen?.unwrap_or_else(|| (0..variants.len()).collect()),
        primary: own_primary.as_ref().or(usual.primary?.as_ref()),
        primary_repetitions: primary_often?,
    };
    let grid = axes.over(grid.clone())?;
    let compared = (variants, compared);
    assemble(&section, named?, &merged, &grid, sizes?, compared)
}

/// The places of the variants that a profile names, in the order of the recipe.
fn chosen(
    problems: &Problems<'_>,
    field: &Field<'_>,
    variants: &[Variant],
) -> Result<Vec<usize>, Reported> {
    let named = field.one_or_more(|field| Ok(field.at(question::known(field, variants)?)))?;
    distinct(problems, "variant", &named)?;
    let is_named = |name: &str| named.iter().any(|at| at.value == name);
    let all = (0..).zip(variants);
    Ok(all
        .filter(|(_, variant)| is_named(&variant.name))
        .map(|(place, _)| place)
        .collect())
}

/// A profile of complete values; `section` is where it is blamed for what they make together.
fn assemble(
    section: &Section<'_>,
    name: String,
    base: &Base,
    grid: &Grid,
    sizes: Sizes,
    (variants, compared): (&[Variant], Compared<'_, '_>),
) -> Result<Profile, Reported> {
    let load = load_of(section, &name, base)?;
    let conditions = grid.conditions();
    let own: Vec<&Variant> = compared.variants.iter().map(|&at| &variants[at]).collect();
    let primary = compared
        .primary
        .map(|wanted| wanted.find(&name, &own, &conditions))
        .transpose()?;
    let primary_repetitions = match (compared.primary_repetitions, &primary) {
        (Some(_), None) => {
            let expected = "a primary comparison, which `primary_repetitions` is about";
            return Err(section.missing("primary", expected));
        }
        (often, _) => often.unwrap_or(base.repetitions).max(base.repetitions),
    };
    let cells = conditions.len() as u64 * compared.variants.len() as u64;
    let more = primary_repetitions - base.repetitions;
    let count = cells * u64::from(base.repetitions) + 2 * u64::from(more);
    if count > MAX_TRIALS {
        let mistake = Mistake::TooManyTrials {
            profile: name,
            count,
        };
        return Err(section.refuse(mistake, "at most 10000 trials"));
    }
    Ok(Profile {
        name,
        conditions,
        load,
        body: sizes.request,
        response_body: sizes.response,
        variants: compared.variants,
        repetitions: base.repetitions,
        primary,
        primary_repetitions,
    })
}

/// The load of a profile.
fn load_of(section: &Section<'_>, name: &str, base: &Base) -> Result<Load, Reported> {
    let Base { warmup, drain, .. } = *base;
    let asked = || {
        let expected = "a time, such as \"30s\", here or in [load]";
        base.duration
            .ok_or_else(|| section.missing("duration", expected))
    };
    let (kind, duration) = match &base.kind {
        Kind::Rate { rate, spacing, mix } => {
            let duration = asked()?;
            let (before, by_end) = (
                rate.value.events_in(warmup),
                rate.value.events_in(warmup + duration),
            );
            if before == by_end {
                return Err(no_request(section, name, &rate.span, duration));
            }
            let stage = Stage::constant(rate.value, warmup + duration);
            let kind = LoadKind::Open {
                stages: Stages::new(vec![stage])
                    .expect("rates of up to 10^6 a second and times of up to two days always fit"),
                spacing: *spacing,
                mix: mix.clone(),
            };
            (kind, duration)
        }
        Kind::Stages {
            stages,
            spacing,
            mix,
        } => {
            let duration = stages.value.duration() - warmup;
            if requests_from(&stages.value, warmup) < 1.0 {
                return Err(no_request(section, name, &stages.span, duration));
            }
            let kind = LoadKind::Open {
                stages: stages.value.clone(),
                spacing: *spacing,
                mix: mix.clone(),
            };
            (kind, duration)
        }
        Kind::Script {
            steps,
            clients,
            stagger,
            speed,
        } => {
            let kind = LoadKind::Script {
                steps: steps.clone(),
                clients: *clients,
                stagger: *stagger,
                speed: *speed,
            };
            let length = match base.duration {
                Some(duration) => duration,
                None => script_length(&kind) - warmup,
            };
            (kind, length)
        }
        Kind::Other(kind) => (kind.clone(), asked()?),
    };
    Ok(Load {
        kind,
        warmup,
        duration,
        drain,
        spin: base.spin,
    })
}

/// How long a script takes: until just behind its last request, and long enough to be a length.
fn script_length(kind: &LoadKind) -> Duration {
    const AT_LEAST: Duration = Duration::from_millis(1);
    let LoadKind::Script {
        steps,
        clients,
        stagger,
        speed,
    } = kind
    else {
        return AT_LEAST;
    };
    let last = steps.iter().map(|step| step.at).max().unwrap_or_default();
    let (clock, script) = (
        u128::from(speed.clock.get()),
        u128::from(speed.script.get()),
    );
    let replayed = u128::from(last.as_nanos()) * clock / script;
    let staggered = u128::from(stagger.as_nanos()) * u128::from(clients.saturating_sub(1));
    let nanos = u64::try_from(replayed + staggered + 1).unwrap_or(u64::MAX);
    Duration::from_nanos(nanos).max(AT_LEAST)
}

/// How many requests these stages have behind their first part, as many as there are on average if chance decides.
fn requests_from(stages: &Stages, first: Duration) -> f64 {
    let per_second =
        |rate: Option<squall_base::Rate>| rate.map_or(0.0, squall_base::Rate::per_second);
    let (mut begins, mut requests) = (0.0, 0.0);
    for stage in stages.as_slice() {
        let length = stage.duration.as_secs_f64();
        let skipped = (first.as_secs_f64() - begins).clamp(0.0, length);
        begins += length;
        if length > 0.0 {
            let (from, to) = (per_second(stage.from), per_second(stage.to));
            let at_skipped = from + (to - from) * skipped / length;
            requests += (at_skipped + to) / 2.0 * (length - skipped);
        }
    }
    requests
}

fn no_request(
    section: &Section<'_>,
    profile: &str,
    span: &Range<usize>,
    duration: Duration,
) -> Reported {
    let mistake = Mistake::NoRequest {
        profile: profile.to_owned(),
        duration: duration.to_string(),
    };
    let expected = "a rate that leaves at least one request in the measured time";
    section
        .problems()
        .report(span.clone(), mistake, expected, None)
}

/// The times of `[load]` or of a profile; none of them has to be there.
struct Times {
    warmup: Result<Option<Duration>, Reported>,
    duration: Result<Option<Duration>, Reported>,
    drain: Result<Option<Duration>, Reported>,
}

impl Times {
    fn read(section: &Section<'_>) -> Times {
        let time = |key: &str, range: RangeInclusive<Duration>, expected: &str| {
            section.maybe(key, |f| Ok(f.quantity_in(&range, expected)?.value))
        };
        let some = Duration::from_nanos(1)..=MAX_SPAN;
        Times {
            warmup: time("warmup", Duration::ZERO..=MAX_SPAN, SPAN),
            duration: time("duration", some, "more than none and at most 24h"),
            drain: time("drain", Duration::ZERO..=MAX_SPAN, SPAN),
        }
    }
}

fn repetitions(field: &Field<'_>) -> Result<u32, Reported> {
    field.integer(&(1..=MAX_REPETITIONS))
}
