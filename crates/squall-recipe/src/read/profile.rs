//! The times of `[load]`, and `[profile.NAME]`: how long, on which links, how often.
//!
//! All profiles share `[load]` and `[conditions]`; a profile replaces some of their values. `load` reads what triggers
//! requests, `conditions` the link, `question` the comparison that a profile puts first.

use std::ops::{Range, RangeInclusive};

use squall_base::plan::{Load, LoadKind, Stage, Stages, Variant};
use squall_base::{Duration, Rate};

use super::conditions::{Axes, Grid};
use super::load::{self, KindName, LoadSection, UntimedKind};
use super::names::{SLUG, USUAL_PROFILE, distinct, is_slug};
use super::question::{self, PrimarySection};
use super::sizes::{self, BodySizes, Messages};
use crate::error::Mistake;
use crate::files::RecipeFiles;
use crate::limits::MAX_REPETITIONS;
use crate::problems::{Problems, ReportedProblem, collect_all};
use crate::recipe::{MAX_TRIALS, Profile};
use crate::section::{Field, Section, SpannedValue};
use crate::shapes;

/// The longest warm-up, measurement or drain: one day.
const MAX_SPAN: Duration = Duration::from_secs(24 * 3_600);
const SPAN: &str = "at most 24h";

const DEFAULT_WARMUP: Duration = Duration::from_secs(2);
const DEFAULT_DRAIN: Duration = Duration::from_secs(5);

/// `[load]` and `repetitions`, with what a profile replaces.
struct LoadSettings {
    kind_name: KindName,
    kind: UntimedKind,
    spin: Duration,
    warmup: Duration,
    duration: Option<Duration>,
    drain: Duration,
    repetitions: u32,
}

/// The variants of a profile, and which comparison of them comes first.
struct ProfileVariants<'a, 'd> {
    /// Indices into the recipe's variants.
    variants: Vec<usize>,
    primary: Option<&'a PrimarySection<'d>>,
    primary_repetitions: Option<u32>,
}

/// Reads all profiles, in text order. If the recipe has none, the only profile is called `standard`.
pub(super) fn read_all(
    root: &Section<'_>,
    load: Result<&LoadSection<'_>, ReportedProblem>,
    variants: &[Variant],
    messages: Messages<'_>,
    files: &RecipeFiles<'_>,
) -> Result<Vec<Profile>, ReportedProblem> {
    let base = base(root, load);
    let primary = match variants {
        // Without a valid variant, mistakes in the variants have already been reported.
        [] => Ok(None),
        _ => question::primary(root, variants, files),
    };
    let grid = Grid::read(root, variants, files);
    let Some(field) = root.field("profile") else {
        // Without profiles, `[load]` itself must have the duration.
        let (base, name) = (base?, USUAL_PROFILE.to_owned());
        let table = &load?.table;
        let primary = primary?;
        let profile_variants = ProfileVariants {
            variants: (0..variants.len()).collect(),
            primary: primary.as_ref(),
            primary_repetitions: None,
        };
        return Ok(vec![assemble(
            table,
            name,
            &base,
            &grid?,
            BodySizes::default(),
            variants,
            profile_variants,
        )?]);
    };
    let entries = field.entries("tables such as [profile.quick]")?;
    if entries.is_empty() {
        let mistake = Mistake::EmptyList("profile".to_owned());
        return Err(field.refuse(mistake, "at least one [profile.NAME]"));
    }
    let context = ProfileContext {
        root,
        messages,
        files,
        base: base.as_ref().map_err(|reported| *reported),
        grid: grid.as_ref().map_err(|reported| *reported),
        primary: primary.as_ref().map_err(|reported| *reported),
    };
    let profiles = entries.iter();
    collect_all(profiles.map(|entry| profile(entry, &context, variants)))
}

fn base(
    root: &Section<'_>,
    load: Result<&LoadSection<'_>, ReportedProblem>,
) -> Result<LoadSettings, ReportedProblem> {
    let repetitions = root.optional("repetitions", |f| repetitions(&f));
    let load = load?;
    let times = Times::read(&load.table);
    let duration_check = check_duration(&load.table, &load.kind);
    let usual_warmup = match load.kind_name {
        KindName::Open | KindName::Closed => DEFAULT_WARMUP,
        // Cold starts are part of what they measure.
        KindName::Script | KindName::Page | KindName::Tiles | KindName::Hold => Duration::ZERO,
    };
    let base = LoadSettings {
        kind_name: load.kind_name,
        kind: load.kind.clone(),
        spin: load.spin,
        warmup: times.warmup?.unwrap_or(usual_warmup),
        duration: times.duration?,
        drain: times.drain?.unwrap_or(DEFAULT_DRAIN),
        repetitions: repetitions?.unwrap_or(1),
    };
    duration_check?;
    Ok(base)
}

/// Refuses `duration` for a load whose stages determine it.
fn check_duration(section: &Section<'_>, kind: &UntimedKind) -> Result<(), ReportedProblem> {
    match (kind, section.field("duration")) {
        (UntimedKind::Stages { .. }, Some(_)) => Err(section.refuse_both("duration", "stages")),
        _ => Ok(()),
    }
}

struct ProfileContext<'a, 'd> {
    root: &'a Section<'d>,
    messages: Messages<'a>,
    files: &'a RecipeFiles<'a>,
    base: Result<&'a LoadSettings, ReportedProblem>,
    grid: Result<&'a Grid, ReportedProblem>,
    primary: Result<&'a Option<PrimarySection<'d>>, ReportedProblem>,
}

fn profile(
    entry: &Field<'_>,
    context: &ProfileContext<'_, '_>,
    variants: &[Variant],
) -> Result<Profile, ReportedProblem> {
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
    let axes = Axes::read(&section, context.files);
    let sizes = sizes::read(context.root, &section, context.messages);
    let own_repetitions = section.optional("repetitions", |f| repetitions(&f));
    let primary_repetitions = section.optional("primary_repetitions", |f| repetitions(&f));
    let chosen = section.optional("variants", |f| {
        chosen_variants(section.problems(), &f, variants)
    });
    let own_primary = match variants {
        [] => Ok(None),
        _ => question::primary(&section, variants, context.files),
    };
    let (warmup, duration, drain) = (times.warmup?, times.duration?, times.drain?);
    let (base, grid, own_primary) = (context.base?, context.grid?, own_primary?);
    check_duration(&section, &base.kind)?;
    let merged = LoadSettings {
        kind_name: base.kind_name,
        kind: load::override_kind(&section, base.kind_name, &base.kind)?,
        spin: base.spin,
        warmup: warmup.unwrap_or(base.warmup),
        duration: duration.or(base.duration),
        drain: drain.unwrap_or(base.drain),
        repetitions: own_repetitions?.unwrap_or(base.repetitions),
    };
    let profile_variants = ProfileVariants {
        variants: chosen?.unwrap_or_else(|| (0..variants.len()).collect()),
        primary: own_primary.as_ref().or(context.primary?.as_ref()),
        primary_repetitions: primary_repetitions?,
    };
    let grid = axes.override_grid(grid.clone())?;
    assemble(
        &section,
        named?,
        &merged,
        &grid,
        sizes?,
        variants,
        profile_variants,
    )
}

/// The indices of the variants that a profile names, in the order of the recipe.
fn chosen_variants(
    problems: &Problems<'_>,
    field: &Field<'_>,
    variants: &[Variant],
) -> Result<Vec<usize>, ReportedProblem> {
    let named = field
        .one_or_more(|field| Ok(field.with_span(question::known_variant(field, variants)?)))?;
    distinct(problems, "variant", &named)?;
    let is_named = |name: &str| named.iter().any(|it| it.value == name);
    let all = (0..).zip(variants);
    Ok(all
        .filter(|(_, variant)| is_named(&variant.name))
        .map(|(place, _)| place)
        .collect())
}

/// A profile of complete values. Mistakes in their combination are reported at `section`.
fn assemble(
    section: &Section<'_>,
    name: String,
    base: &LoadSettings,
    grid: &Grid,
    sizes: BodySizes,
    variants: &[Variant],
    profile_variants: ProfileVariants<'_, '_>,
) -> Result<Profile, ReportedProblem> {
    let load = load_of(section, &name, base)?;
    let conditions = grid.conditions();
    let own: Vec<&Variant> = profile_variants
        .variants
        .iter()
        .map(|&at| &variants[at])
        .collect();
    let primary = profile_variants
        .primary
        .map(|primary| primary.resolve(&name, &own, &conditions))
        .transpose()?;
    let primary_repetitions = match (profile_variants.primary_repetitions, &primary) {
        (Some(_), None) => {
            let expected = "a primary comparison, which `primary_repetitions` applies to";
            return Err(section.missing("primary", expected));
        }
        (own_repetitions, _) => own_repetitions
            .unwrap_or(base.repetitions)
            .max(base.repetitions),
    };
    let profile = Profile {
        name,
        conditions,
        fast: grid.fast,
        load,
        body: sizes.request,
        response_body: sizes.response,
        variants: profile_variants.variants,
        repetitions: base.repetitions,
        primary,
        primary_repetitions,
    };
    match profile.trial_count() {
        ..=MAX_TRIALS => Ok(profile),
        count => {
            let mistake = Mistake::TooManyTrials {
                profile: profile.name,
                count,
            };
            Err(section.refuse(mistake, "at most 10000 trials"))
        }
    }
}

fn load_of(
    section: &Section<'_>,
    name: &str,
    base: &LoadSettings,
) -> Result<Load, ReportedProblem> {
    let LoadSettings { warmup, drain, .. } = *base;
    let required_duration = || {
        let expected = "a time, such as \"30s\", here or in [load]";
        base.duration
            .ok_or_else(|| section.missing("duration", expected))
    };
    let (kind, duration) = match &base.kind {
        UntimedKind::Rate { rate, spacing, mix } => {
            let duration = required_duration()?;
            let kind = LoadKind::Open {
                stages: constant_stage(section, name, rate, warmup, duration)?,
                spacing: *spacing,
                mix: mix.clone(),
            };
            (kind, duration)
        }
        UntimedKind::Stages {
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
        UntimedKind::Script {
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
        UntimedKind::Other(kind) => (kind.clone(), required_duration()?),
    };
    Ok(Load {
        kind,
        warmup,
        duration,
        drain,
        spin: base.spin,
    })
}

/// The only stage of a load at a constant rate. Refuses a rate without a request in the measured time.
fn constant_stage(
    section: &Section<'_>,
    profile: &str,
    rate: &SpannedValue<Rate>,
    warmup: Duration,
    duration: Duration,
) -> Result<Stages, ReportedProblem> {
    let (before, by_end) = (
        rate.value.events_in(warmup),
        rate.value.events_in(warmup + duration),
    );
    if before == by_end {
        return Err(no_request(section, profile, &rate.span, duration));
    }
    let stage = Stage::constant(rate.value, warmup + duration);
    Ok(Stages::new(vec![stage])
        .expect("rates of up to 10^6 a second and times of up to two days always fit"))
}

/// The duration of a script: until 1 ns after its last request, and at least 1 ms.
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

/// How many requests these stages send after the time `first`; the mean, if arrivals are random.
fn requests_from(stages: &Stages, first: Duration) -> f64 {
    let per_second = |rate: Option<Rate>| rate.map_or(0.0, Rate::per_second);
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
) -> ReportedProblem {
    let mistake = Mistake::NoRequest {
        profile: profile.to_owned(),
        duration: duration.to_string(),
    };
    let expected = "a rate that leaves at least one request in the measured time";
    section
        .problems()
        .report(span.clone(), mistake, expected, None)
}

/// The times of `[load]` or of a profile, each of them optional.
struct Times {
    warmup: Result<Option<Duration>, ReportedProblem>,
    duration: Result<Option<Duration>, ReportedProblem>,
    drain: Result<Option<Duration>, ReportedProblem>,
}

impl Times {
    fn read(section: &Section<'_>) -> Times {
        let time = |key: &str, range: RangeInclusive<Duration>, expected: &str| {
            section.optional(key, |f| f.within(&range, expected))
        };
        let some = Duration::from_nanos(1)..=MAX_SPAN;
        Times {
            warmup: time("warmup", Duration::ZERO..=MAX_SPAN, SPAN),
            duration: time("duration", some, "more than 0 and at most 24h"),
            drain: time("drain", Duration::ZERO..=MAX_SPAN, SPAN),
        }
    }
}

fn repetitions(field: &Field<'_>) -> Result<u32, ReportedProblem> {
    field.integer(&(1..=MAX_REPETITIONS))
}
