//! `[load]`: of which kind it is, what it asks for, and what makes it ask.
//!
//! How long it takes is for `profile` to say, which makes loads of the kinds here. What recordings and pages are made of
//! is in `asked`.

use squall_base::plan::{
    LoadKind, Mix, Page, PageQuestion, RequestTemplate, ScriptStep, Spacing, Speed, Stages,
    ThinkTime, Users,
};
use squall_base::{Duration, Rate};

use super::asked::{self, Asked};
use super::http;
use crate::error::Mistake;
use crate::files::{Named, RecordingChoice};
use crate::problems::{Reported, did_you_mean};
use crate::section::{At, Field, Section, listed};
use crate::shapes;

/// More than the client of one machine can send: such a rate is a slip.
const MAX_PER_SECOND: f64 = 1e6;
/// Each user that has connections of its own needs files for them.
const MAX_USERS: u32 = 60_000;
const MAX_THINK: Duration = Duration::from_secs(24 * 3_600);
/// Who spins longer before each request does nothing else.
const MAX_SPIN: Duration = Duration::from_millis(10);
/// A request of a page has one, and no page has so many.
const MAX_TILES: u32 = 10_000;
const WHOLE: std::ops::RangeInclusive<u32> = 1..=u32::MAX;

/// What a table [load] must have.
pub(super) const LOAD: &str = "a table [load] with at least `rate`";

/// The words of `kind`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Word {
    Open,
    Closed,
    Script,
    Page,
    Tiles,
    Hold,
}

/// The keys that each kind has, besides those that all have.
const KINDS: [(Word, &str, &[&str]); 6] = [
    (
        Word::Open,
        "open",
        &["rate", "stages", "arrivals", "targets"],
    ),
    (
        Word::Closed,
        "closed",
        &["users", "think", "stagger", "requests", "targets"],
    ),
    (
        Word::Script,
        "script",
        &[
            "script",
            "users",
            "stagger",
            "speed",
            "media",
            "drop_cookies",
        ],
    ),
    (
        Word::Page,
        "page",
        &["page", "users", "think", "stagger", "pages"],
    ),
    (
        Word::Tiles,
        "tiles",
        &["tiles", "tile", "users", "think", "stagger", "pages"],
    ),
    (
        Word::Hold,
        "hold",
        &["other", "after", "users", "think", "stagger", "pages"],
    ),
];
const OF_ALL: [&str; 5] = ["kind", "warmup", "duration", "drain", "spin"];

/// What `[load]` says, but for its times.
pub(super) struct Read<'d> {
    pub(super) table: Section<'d>,
    pub(super) word: Word,
    pub(super) kind: Kind,
    pub(super) requests: Vec<RequestTemplate>,
    pub(super) spin: Duration,
}

/// A kind of load; how long it takes is not known.
#[derive(Clone)]
pub(super) enum Kind {
    /// At this constant rate.
    Rate {
        rate: At<Rate>,
        spacing: Spacing,
        mix: Mix,
    },
    /// As long as its stages take.
    Stages {
        stages: At<Stages>,
        spacing: Spacing,
        mix: Mix,
    },
    /// A recording, which takes as long as it took.
    Script {
        steps: Vec<ScriptStep>,
        clients: u32,
        stagger: Duration,
        speed: Speed,
    },
    /// One that takes any time.
    Other(LoadKind),
}

impl Word {
    const fn name(self) -> &'static str {
        match self {
            Word::Open => "open",
            Word::Closed => "closed",
            Word::Script => "script",
            Word::Page => "page",
            Word::Tiles => "tiles",
            Word::Hold => "hold",
        }
    }

    /// The connections of its own that each user has at most if nothing is said; `None`: users share all.
    pub(super) fn own_connections(self) -> Option<OwnConnections> {
        match self {
            Word::Open | Word::Closed => None,
            Word::Script | Word::Page | Word::Tiles => Some(OwnConnections::AsBrowsers),
            Word::Hold => Some(OwnConnections::One),
        }
    }
}

/// How many connections each user has at most, if nothing is said.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum OwnConnections {
    AsBrowsers,
    /// Whether the server multiplexes is asked on one.
    One,
}

/// Reads `[load]`, and the requests that it asks for.
pub(super) fn read<'d>(root: &Section<'d>, files: &Named<'_>) -> Result<Read<'d>, Reported> {
    let requests = http::requests(root, files);
    let table = root.required("load", LOAD, |f| {
        f.section(&shapes::LOAD, shapes::LOAD.label)
    })?;
    let words = KINDS.map(|(word, name, _)| (name, word));
    let word = table
        .maybe("kind", |f| f.word("a kind of load", &words))?
        .unwrap_or(Word::Open);
    let strange = refuse_other_kinds(&table, word, shapes::LOAD.keys);
    let spin = table.maybe("spin", |f| {
        Ok(f.quantity_in(&(Duration::ZERO..=MAX_SPIN), "at most 10ms")?
            .value)
    });
    let requests = requests?;
    strange?;
    let (kind, requests) = match word {
        Word::Open => open(&table, &requests, files)?,
        Word::Closed => closed(&table, &requests, files)?,
        Word::Script => script(&table, &requests, files)?,
        Word::Page | Word::Tiles | Word::Hold => pages(&table, word, &requests, files)?,
    };
    Ok(Read {
        table,
        word,
        kind,
        requests,
        spin: spin?.unwrap_or(Duration::ZERO),
    })
}

/// Refuses those of `keys` that loads of other kinds have.
fn refuse_other_kinds(table: &Section<'_>, word: Word, keys: &[&str]) -> Result<(), Reported> {
    let own = KINDS.iter().find(|(of, ..)| *of == word);
    let own: Vec<&str> = OF_ALL
        .iter()
        .chain(own.into_iter().flat_map(|(.., keys)| *keys))
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
        let with: Vec<&str> = (KINDS.iter())
            .filter_map(|(_, name, keys)| keys.contains(key).then_some(*name))
            .collect();
        let mistake = Mistake::OtherKind {
            key: (*key).to_owned(),
            kind: word.name(),
        };
        let hint = did_you_mean(key, own.iter().copied())
            .unwrap_or_else(|| format!("`{key}` is for loads of kind {}", listed(&with)));
        outcome = Err(field.refuse_key_with(mistake, &expected, Some(hint)));
    }
    outcome
}

/// The kind with what a profile says in place of `[load]`: `users`, `stagger` and `speed`.
pub(super) fn replaced(profile: &Section<'_>, word: Word, kind: &Kind) -> Result<Kind, Reported> {
    let strange = refuse_other_kinds(profile, word, &["users", "stagger", "speed"]);
    let count = profile.maybe("users", |f| count(&f));
    let starts_over = profile.maybe("stagger", |f| stagger_time(&f));
    let faster = profile.maybe("speed", |f| Ok(f.quantity::<Speed>()?.value));
    strange?;
    let (count, starts_over, faster) = (count?, starts_over?, faster?);
    let mut kind = kind.clone();
    match &mut kind {
        Kind::Script {
            clients,
            stagger,
            speed,
            ..
        } => {
            *clients = count.unwrap_or(*clients);
            *stagger = starts_over.unwrap_or(*stagger);
            *speed = faster.unwrap_or(*speed);
        }
        Kind::Other(LoadKind::Closed { users, .. } | LoadKind::Pages { users, .. }) => {
            users.count = count.unwrap_or(users.count);
            users.starts_over = starts_over.unwrap_or(users.starts_over);
        }
        Kind::Rate { .. } | Kind::Stages { .. } | Kind::Other(_) => {}
    }
    Ok(kind)
}

type Found = Result<(Kind, Vec<RequestTemplate>), Reported>;

fn open(table: &Section<'_>, requests: &[http::Written<'_>], files: &Named<'_>) -> Found {
    const RATE: &str = "a rate, such as \"1000/s\", or `stages`";
    let rate = table.maybe("rate", |f| rate(&f));
    let stages = table.maybe("stages", |f| stages(&f));
    let spacing = table.maybe("arrivals", |f| {
        f.word(
            "a spacing of requests",
            &[
                ("constant", Spacing::Constant),
                ("poisson", Spacing::Poisson),
            ],
        )
    });
    let asked = asked::mixed(table, requests, files);
    let (rate, stages, spacing) = (rate?, stages?, spacing?.unwrap_or_default());
    let Asked { requests, mix } = asked?;
    let kind = match (rate, stages) {
        (Some(rate), None) => Kind::Rate { rate, spacing, mix },
        (None, Some(stages)) => Kind::Stages {
            stages,
            spacing,
            mix,
        },
        (None, None) => return Err(table.missing("rate", RATE)),
        (Some(_), Some(_)) => return Err(besides(table, "rate", "stages")),
    };
    Ok((kind, requests))
}

/// Reports a key that says what another one says already.
pub(super) fn besides(table: &Section<'_>, key: &str, other: &'static str) -> Reported {
    let mistake = Mistake::Besides {
        key: key.to_owned(),
        other,
    };
    let expected = format!("`{other}` alone, or `{key}` alone");
    match table.field(key) {
        Some(field) => field.refuse_key(mistake, &expected),
        None => table.refuse(mistake, &expected),
    }
}

fn rate(field: &Field<'_>) -> Result<At<Rate>, Reported> {
    let rate = field.quantity::<Rate>()?;
    if rate.value.per_second() > MAX_PER_SECOND {
        return Err(field.out_of_range(rate.value, "at most 1000000/s"));
    }
    Ok(rate)
}

fn stages(field: &Field<'_>) -> Result<At<Stages>, Reported> {
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
        None => Ok(field.at(stages)),
    }
}

fn closed(table: &Section<'_>, requests: &[http::Written<'_>], files: &Named<'_>) -> Found {
    let users = users(table, None);
    let count = table.maybe("requests", |f| f.integer(&WHOLE));
    let asked = asked::mixed(table, requests, files);
    let kind = LoadKind::Closed {
        users: users?,
        requests: count?.map(u64::from),
        mix: asked.as_ref().map_err(|r| *r)?.mix.clone(),
    };
    Ok((Kind::Other(kind), asked?.requests))
}

/// `users`, `think` and `stagger`; without a `usual` number of users it must be said.
fn users(table: &Section<'_>, usual: Option<u32>) -> Result<Users, Reported> {
    let count = table.maybe("users", |f| count(&f));
    let think = table.maybe("think", |f| think(&f));
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

fn count(field: &Field<'_>) -> Result<u32, Reported> {
    field.integer(&(1..=MAX_USERS))
}

fn stagger(table: &Section<'_>) -> Result<Duration, Reported> {
    Ok(table
        .maybe("stagger", |f| stagger_time(&f))?
        .unwrap_or(Duration::ZERO))
}

fn stagger_time(field: &Field<'_>) -> Result<Duration, Reported> {
    let range = Duration::ZERO..=MAX_THINK;
    Ok(field.quantity_in(&range, "at most 24h")?.value)
}

fn think(field: &Field<'_>) -> Result<ThinkTime, Reported> {
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
    match longest <= MAX_THINK {
        true => Ok(think),
        false => Err(field.out_of_range(text, "at most 24h")),
    }
}

fn script(table: &Section<'_>, requests: &[http::Written<'_>], files: &Named<'_>) -> Found {
    let clients = table.maybe("users", |f| count(&f));
    let stagger = stagger(table);
    let speed = table.maybe("speed", |f| Ok(f.quantity::<Speed>()?.value));
    let choice = RecordingChoice {
        media_only: table.maybe("media", |f| f.boolean())?.unwrap_or(false),
        drop_cookies: table
            .maybe("drop_cookies", |f| f.boolean())?
            .unwrap_or(false),
    };
    let recording = table.required("script", "the path of a recording", |f| {
        asked::recording(&f, choice, requests, files)
    });
    let (steps, requests) = recording?;
    let kind = Kind::Script {
        steps,
        clients: clients?.unwrap_or(1),
        stagger: stagger?,
        speed: speed?.unwrap_or(Speed::AS_RECORDED),
    };
    Ok((kind, requests))
}

fn pages(
    table: &Section<'_>,
    word: Word,
    requests: &[http::Written<'_>],
    files: &Named<'_>,
) -> Found {
    let users = users(table, Some(1));
    let pages = table.maybe("pages", |f| f.integer(&WHOLE));
    let found = match word {
        Word::Tiles => tiles(table, requests),
        Word::Hold => hold(table, requests),
        Word::Open | Word::Closed | Word::Script | Word::Page => table.required(
            "page",
            "the requests of a page, or the path of its file",
            |f| asked::page(&f, requests, files),
        ),
    };
    let (page, requests) = found?;
    let kind = LoadKind::Pages {
        page,
        users: users?,
        pages: pages?.map(u64::from),
        question: match word {
            Word::Hold => PageQuestion::Held,
            _ => PageQuestion::PageTime,
        },
    };
    Ok((Kind::Other(kind), requests))
}

fn tiles(
    table: &Section<'_>,
    requests: &[http::Written<'_>],
) -> Result<(Page, Vec<RequestTemplate>), Reported> {
    let count = table.required("tiles", "how many tiles, such as 100", |f| {
        f.integer(&(1..=MAX_TILES))
    });
    let tile = table.maybe("tile", |f| {
        // Any number will do to see whether it is a target.
        http::target(&f)?;
        Ok(f.text()?.value)
    });
    let document = asked::only(requests)?;
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
    requests: &[http::Written<'_>],
) -> Result<(Page, Vec<RequestTemplate>), Reported> {
    const OTHER: &str = "what is asked for meanwhile, such as \"/\"";
    let other = table.required("other", OTHER, |f| http::target(&f));
    let after = table.maybe("after", |f| {
        Ok(f.quantity_in(&(Duration::ZERO..=MAX_THINK), "at most 24h")?
            .value)
    });
    let held = asked::only(requests)?;
    let other = RequestTemplate {
        target: other?,
        ..held.clone()
    };
    let page = Page::hold(0, 1, after?.unwrap_or(Page::HOLD_FOR));
    Ok((page, vec![held.clone(), other]))
}
