//! `[load]`: its kind, the requests that it sends, and what triggers them.
//!
//! Its duration is not read here: `profile` does that and turns the kinds into loads. `request_mix` reads recordings and pages.

use squall_base::plan::{
    LoadKind, Mix, Page, PageQuestion, RequestTemplate, ScriptStep, Spacing, Speed, Stages,
    ThinkTime, Users,
};
use squall_base::{Duration, Rate};

use super::http;
use super::request_mix::{self, RequestMix};
use crate::error::Mistake;
use crate::files::{RecipeFiles, RecordingChoice};
use crate::limits::{MAX_PER_SECOND, MAX_SPIN, MAX_TILES, MAX_USERS};
use crate::problems::ReportedProblem;
use crate::section::{Field, Section, SpannedValue};
use crate::shapes;
use crate::words::{did_you_mean, listed};

const MAX_THINK: Duration = Duration::from_secs(24 * 3_600);
const WHOLE: std::ops::RangeInclusive<u32> = 1..=u32::MAX;

/// The expected contents of [load].
pub(super) const LOAD: &str = "a table [load] with at least `rate`";

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum KindName {
    Open,
    Closed,
    Script,
    Page,
    Tiles,
    Hold,
}

/// The keys of all kinds.
const COMMON_KEYS: [&str; 5] = ["kind", "warmup", "duration", "drain", "spin"];

/// `[load]` without its times.
pub(super) struct LoadSection<'d> {
    pub(super) table: Section<'d>,
    pub(super) kind_name: KindName,
    pub(super) kind: UntimedKind,
    pub(super) requests: Vec<RequestTemplate>,
    pub(super) spin: Duration,
}

/// A kind of load, whose duration is not known yet.
#[derive(Clone)]
pub(super) enum UntimedKind {
    /// A constant rate.
    Rate {
        rate: SpannedValue<Rate>,
        spacing: Spacing,
        mix: Mix,
    },
    /// Stages, which determine the duration.
    Stages {
        stages: SpannedValue<Stages>,
        spacing: Spacing,
        mix: Mix,
    },
    /// A recording, whose length is the default duration.
    Script {
        steps: Vec<ScriptStep>,
        clients: u32,
        stagger: Duration,
        speed: Speed,
    },
    /// Any other kind; it can have any duration.
    Other(LoadKind),
}

impl KindName {
    const ALL: [KindName; 6] = [
        KindName::Open,
        KindName::Closed,
        KindName::Script,
        KindName::Page,
        KindName::Tiles,
        KindName::Hold,
    ];

    /// The keys of this kind of load, in addition to those of all kinds.
    const fn keys(self) -> &'static [&'static str] {
        match self {
            KindName::Open => &["rate", "stages", "arrivals", "targets"],
            KindName::Closed => &["users", "think", "stagger", "requests", "targets"],
            KindName::Script => &[
                "script",
                "users",
                "stagger",
                "speed",
                "media",
                "drop_cookies",
                "hosts",
                "keep_hosts",
            ],
            KindName::Page => &["page", "users", "think", "stagger", "pages"],
            KindName::Tiles => &["tiles", "tile", "users", "think", "stagger", "pages"],
            KindName::Hold => &["other", "after", "users", "think", "stagger", "pages"],
        }
    }

    const fn name(self) -> &'static str {
        match self {
            KindName::Open => "open",
            KindName::Closed => "closed",
            KindName::Script => "script",
            KindName::Page => "page",
            KindName::Tiles => "tiles",
            KindName::Hold => "hold",
        }
    }

    /// How many connections each user may have for itself by default; `None` if users share all connections.
    pub(super) fn own_connections(self) -> Option<OwnConnections> {
        match self {
            KindName::Open | KindName::Closed => None,
            KindName::Script | KindName::Page | KindName::Tiles => Some(OwnConnections::AsBrowsers),
            KindName::Hold => Some(OwnConnections::One),
        }
    }
}

/// How many connections each user may have by default.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum OwnConnections {
    AsBrowsers,
    /// The load tests whether the server multiplexes, which takes a single connection.
    One,
}

/// Reads `[load]` and the requests that it sends.
pub(super) fn read<'d>(
    root: &Section<'d>,
    files: &RecipeFiles<'_>,
) -> Result<LoadSection<'d>, ReportedProblem> {
    let requests = http::requests(root, files);
    let table = root.required("load", LOAD, |f| {
        f.section(&shapes::LOAD, shapes::LOAD.label)
    })?;
    let words = KindName::ALL.map(|kind| (kind.name(), kind));
    let kind_name = table
        .optional("kind", |f| f.word("a kind of load", &words))?
        .unwrap_or(KindName::Open);
    let foreign_keys = refuse_other_kinds(&table, kind_name, &shapes::LOAD.keys());
    let spin = table.optional("spin", |f| {
        f.within(&(Duration::ZERO..=MAX_SPIN), "at most 10ms")
    });
    let requests = requests?;
    foreign_keys?;
    let (kind, requests) = match kind_name {
        KindName::Open => open(&table, &requests, files)?,
        KindName::Closed => closed(&table, &requests, files)?,
        KindName::Script => script(&table, &requests, files)?,
        KindName::Page | KindName::Tiles | KindName::Hold => {
            pages(&table, kind_name, &requests, files)?
        }
    };
    Ok(LoadSection {
        table,
        kind_name,
        kind,
        requests,
        spin: spin?.unwrap_or(Duration::ZERO),
    })
}

/// Refuses those of `keys` that belong to other kinds of load.
fn refuse_other_kinds(
    table: &Section<'_>,
    kind_name: KindName,
    keys: &[&str],
) -> Result<(), ReportedProblem> {
    let own: Vec<&str> = COMMON_KEYS
        .iter()
        .chain(kind_name.keys())
        .copied()
        .filter(|key| keys.contains(key))
        .collect();
    let expected = if own.is_empty() {
        "no such key".into()
    } else {
        listed(&own)
    };
    let mut outcome = Ok(());
    for key in keys.iter().filter(|key| !own.contains(key)) {
        let Some(field) = table.field(key) else {
            continue;
        };
        let with = KindName::ALL.into_iter();
        let with: Vec<&str> = (with.filter(|kind| kind.keys().contains(key)))
            .map(KindName::name)
            .collect();
        let mistake = Mistake::OtherKind {
            key: (*key).to_owned(),
            kind: kind_name.name(),
        };
        let hint = did_you_mean(key, own.iter().copied())
            .unwrap_or_else(|| format!("`{key}` is for loads of kind {}", listed(&with)));
        outcome = Err(field.refuse_key_with(mistake, &expected, Some(hint)));
    }
    outcome
}

/// The kind, with `users`, `stagger` and `speed` replaced by those of a profile.
pub(super) fn override_kind(
    profile: &Section<'_>,
    kind_name: KindName,
    kind: &UntimedKind,
) -> Result<UntimedKind, ReportedProblem> {
    let foreign_keys = refuse_other_kinds(profile, kind_name, &["users", "stagger", "speed"]);
    let count = profile.optional("users", |f| count(&f));
    let starts_over = profile.optional("stagger", |f| stagger_time(&f));
    let faster = profile.optional("speed", |f| f.quantity::<Speed>());
    foreign_keys?;
    let (count, starts_over, faster) = (count?, starts_over?, faster?);
    let mut kind = kind.clone();
    match &mut kind {
        UntimedKind::Script {
            clients,
            stagger,
            speed,
            ..
        } => {
            *clients = count.unwrap_or(*clients);
            *stagger = starts_over.unwrap_or(*stagger);
            *speed = faster.unwrap_or(*speed);
        }
        UntimedKind::Other(LoadKind::Closed { users, .. } | LoadKind::Pages { users, .. }) => {
            users.count = count.unwrap_or(users.count);
            users.starts_over = starts_over.unwrap_or(users.starts_over);
        }
        UntimedKind::Rate { .. } | UntimedKind::Stages { .. } | UntimedKind::Other(_) => {}
    }
    Ok(kind)
}

type KindResult = Result<(UntimedKind, Vec<RequestTemplate>), ReportedProblem>;

fn open(
    table: &Section<'_>,
    requests: &[http::WeightedRequest<'_>],
    files: &RecipeFiles<'_>,
) -> KindResult {
    const RATE: &str = "a rate, such as \"1000/s\", or `stages`";
    let rate = table.optional("rate", |f| rate(&f));
    let stages = table.optional("stages", |f| stages(&f));
    let spacing = table.optional("arrivals", |f| {
        f.word(
            "a spacing of requests",
            &[
                ("constant", Spacing::Constant),
                ("poisson", Spacing::Poisson),
            ],
        )
    });
    let request_mix = request_mix::request_mix(table, requests, files);
    let (rate, stages, spacing) = (rate?, stages?, spacing?.unwrap_or_default());
    let RequestMix { requests, mix } = request_mix?;
    let kind = match (rate, stages) {
        (Some(rate), None) => UntimedKind::Rate { rate, spacing, mix },
        (None, Some(stages)) => UntimedKind::Stages {
            stages,
            spacing,
            mix,
        },
        (None, None) => return Err(table.missing("rate", RATE)),
        (Some(_), Some(_)) => return Err(table.refuse_both("rate", "stages")),
    };
    Ok((kind, requests))
}

fn rate(field: &Field<'_>) -> Result<SpannedValue<Rate>, ReportedProblem> {
    let rate = field.quantity::<Rate>()?;
    if rate.per_second() > MAX_PER_SECOND {
        return Err(field.out_of_range(rate, "at most 1000000/s"));
    }
    Ok(field.with_span(rate))
}

fn stages(field: &Field<'_>) -> Result<SpannedValue<Stages>, ReportedProblem> {
    const STAGES: &str = "rates with their times, such as \"100/s 10s, 100/s..1000/s 30s, 0 5s\"";
    let text = field.text()?;
    let stages: Stages = text.value.parse().map_err(|error| {
        let expected = format!("{STAGES} ({error})");
        field.malformed(text.value, "a list of stages", &expected, &[])
    })?;
    let rates = stages
        .as_slice()
        .iter()
        .flat_map(|stage| [stage.from, stage.to]);
    match rates
        .flatten()
        .find(|rate| rate.per_second() > MAX_PER_SECOND)
    {
        Some(rate) => Err(field.out_of_range(rate, "at most 1000000/s")),
        None => Ok(field.with_span(stages)),
    }
}

fn closed(
    table: &Section<'_>,
    requests: &[http::WeightedRequest<'_>],
    files: &RecipeFiles<'_>,
) -> KindResult {
    let users = users(table, None);
    let count = table.optional("requests", |f| f.integer(&WHOLE));
    let request_mix = request_mix::request_mix(table, requests, files);
    let kind = LoadKind::Closed {
        users: users?,
        requests: count?.map(u64::from),
        mix: request_mix.as_ref().map_err(|r| *r)?.mix.clone(),
    };
    Ok((UntimedKind::Other(kind), request_mix?.requests))
}

/// `users`, `think` and `stagger`. `users` is required unless there is a `usual` number.
fn users(table: &Section<'_>, usual: Option<u32>) -> Result<Users, ReportedProblem> {
    let count = table.optional("users", |f| count(&f));
    let think = table.optional("think", |f| think(&f));
    let starts_over = stagger(table);
    let count = match (count?, usual) {
        (Some(count), _) | (None, Some(count)) => count,
        (None, None) => return Err(table.missing("users", "how many users, such as 20")),
    };
    Ok(Users {
        count,
        think: think?.unwrap_or_default(),
        starts_over: starts_over?,
    })
}

fn count(field: &Field<'_>) -> Result<u32, ReportedProblem> {
    field.integer(&(1..=MAX_USERS))
}

fn stagger(table: &Section<'_>) -> Result<Duration, ReportedProblem> {
    Ok(table
        .optional("stagger", |f| stagger_time(&f))?
        .unwrap_or(Duration::ZERO))
}

fn stagger_time(field: &Field<'_>) -> Result<Duration, ReportedProblem> {
    field.within(&(Duration::ZERO..=MAX_THINK), "at most 24h")
}

fn think(field: &Field<'_>) -> Result<ThinkTime, ReportedProblem> {
    const THINK: &str = "\"1s\", \"0.5s..2s\" or \"exp:1s\"";
    let text = field.text()?.value;
    let think: ThinkTime = text.parse().map_err(|error| {
        let expected = format!("{THINK} ({error})");
        field.malformed(text, "a think time", &expected, &[])
    })?;
    let longest = match think {
        ThinkTime::None => Duration::ZERO,
        ThinkTime::Constant(time) | ThinkTime::Exponential(time) => time,
        ThinkTime::Uniform { to, .. } => to,
    };
    if longest <= MAX_THINK {
        Ok(think)
    } else {
        Err(field.out_of_range(text, "at most 24h"))
    }
}

fn script(
    table: &Section<'_>,
    requests: &[http::WeightedRequest<'_>],
    files: &RecipeFiles<'_>,
) -> KindResult {
    let clients = table.optional("users", |f| count(&f));
    let stagger = stagger(table);
    let speed = table.optional("speed", |f| f.quantity::<Speed>());
    let is_set = |key: &str| {
        let set = table.optional(key, |f| f.boolean());
        set.map(Option::unwrap_or_default)
    };
    let choice = RecordingChoice {
        media_only: is_set("media")?,
        drop_cookies: is_set("drop_cookies")?,
        hosts: table.optional("hosts", |f| hosts(&f))?.unwrap_or_default(),
        keep_hosts: is_set("keep_hosts")?,
    };
    if !choice.hosts.is_empty() && choice.keep_hosts {
        return Err(table.refuse_both("hosts", "keep_hosts"));
    }
    let recording = table.required("script", "the path of a recording", |f| {
        request_mix::recording(&f, choice, requests, files)
    });
    let (steps, requests) = recording?;
    let kind = UntimedKind::Script {
        steps,
        clients: clients?.unwrap_or(1),
        stagger: stagger?,
        speed: speed?.unwrap_or(Speed::AS_RECORDED),
    };
    Ok((kind, requests))
}

fn hosts(field: &Field<'_>) -> Result<Vec<String>, ReportedProblem> {
    let named = field.one_or_more(Field::text)?;
    Ok(named.iter().map(|host| host.value.to_owned()).collect())
}

fn pages(
    table: &Section<'_>,
    kind_name: KindName,
    requests: &[http::WeightedRequest<'_>],
    files: &RecipeFiles<'_>,
) -> KindResult {
    let users = users(table, Some(1));
    let pages = table.optional("pages", |f| f.integer(&WHOLE));
    let found = match kind_name {
        KindName::Tiles => tiles(table, requests),
        KindName::Hold => hold(table, requests),
        KindName::Open | KindName::Closed | KindName::Script | KindName::Page => table.required(
            "page",
            "the requests of a page, or the path of its file",
            |f| request_mix::page(&f, requests, files),
        ),
    };
    let (page, requests) = found?;
    let kind = LoadKind::Pages {
        page,
        users: users?,
        pages: pages?.map(u64::from),
        question: match kind_name {
            KindName::Hold => PageQuestion::Held,
            _ => PageQuestion::PageTime,
        },
    };
    Ok((UntimedKind::Other(kind), requests))
}

fn tiles(
    table: &Section<'_>,
    requests: &[http::WeightedRequest<'_>],
) -> Result<(Page, Vec<RequestTemplate>), ReportedProblem> {
    let count = table.required("tiles", "how many tiles, such as 100", |f| {
        f.integer(&(1..=MAX_TILES))
    });
    let tile = table.optional("tile", |f| {
        // Whether it is a valid target does not depend on the number that replaces `{}`.
        http::target(&f)?;
        Ok(f.text()?.value)
    });
    let document = request_mix::only_request(requests)?;
    let (count, tile) = (count?, tile?.unwrap_or(&document.target));
    let tiles = (0..count).map(|number| RequestTemplate {
        target: tile.replace("{}", &number.to_string()),
        ..document.clone()
    });
    let requests = std::iter::once(document.clone()).chain(tiles).collect();
    Ok((Page::tiles(0, 1, count), requests))
}

fn hold(
    table: &Section<'_>,
    requests: &[http::WeightedRequest<'_>],
) -> Result<(Page, Vec<RequestTemplate>), ReportedProblem> {
    const OTHER: &str = "the target that is requested meanwhile, such as \"/\"";
    let other = table.required("other", OTHER, |f| http::target(&f));
    let after = table.optional("after", |f| {
        f.within(&(Duration::ZERO..=MAX_THINK), "at most 24h")
    });
    let held = request_mix::only_request(requests)?;
    let other = RequestTemplate {
        target: other?,
        ..held.clone()
    };
    let page = Page::hold(0, 1, after?.unwrap_or(Page::HOLD_FOR));
    Ok((page, vec![held.clone(), other]))
}
