//! `[conditions]`, and the parts of it that a profile replaces: delay, loss and further settings of the first link, for both
//! directions or for each separately, and the schedules that change them; and the settings of the links after it.
//!
//! squall-link defines what settings and schedules mean (docs/LINK.md). `question` finds the condition of the primary
//! comparison.

use std::fmt::Display;
use std::sync::Arc;

use squall_base::plan::{Condition, LinkConditions, PerDirection, Variant};
use squall_base::{Duration, Probability};
use squall_link::settings::{Loss, Setting};
use squall_link::text;
use squall_link::trace::Trace;

use super::names::distinct;
use crate::error::Mistake;
use crate::fast::FastPath;
use crate::files::{self, RecipeFiles};
use crate::problems::{ReportedProblem, collect_all};
use crate::section::{Field, Section, SpannedValue};
use crate::shapes;

/// The longest one-way delay. The timeouts of a trial are built for it: connections that are opened before the load have
/// 15 s, enough for one round trip of 10 s and a retransmitted SYN, and at the end the trial waits until the link is
/// silent. No path on Earth comes near: a geostationary satellite has 0.3 s.
const MAX_DELAY: Duration = Duration::from_secs(5);

/// The axes of `[conditions]`, or those with which a profile replaces them.
#[derive(Clone)]
pub(super) struct Grid {
    delays: Vec<PerDirection<Duration>>,
    losses: Vec<PerDirection<Probability>>,
    links: Vec<PerDirection<String>>,
    schedules: Vec<String>,
    /// The links after the first, the same in all conditions.
    next_links: Vec<LinkConditions>,
    /// Which links exchange super-packets with their hosts, in all conditions.
    pub(super) fast: FastPath,
}

impl Grid {
    /// Reads `[conditions]`. Without it, the links neither delay nor drop packets.
    pub(super) fn read(
        root: &Section<'_>,
        variants: &[Variant],
        files: &RecipeFiles<'_>,
    ) -> Result<Grid, ReportedProblem> {
        let table = root.optional("conditions", |field| {
            field.section(&shapes::CONDITIONS, shapes::CONDITIONS.label)
        })?;
        let nothing = Grid {
            delays: vec![Duration::ZERO.into()],
            losses: vec![Probability::ZERO.into()],
            links: vec![String::new().into()],
            schedules: vec![String::new()],
            next_links: Vec::new(),
            fast: FastPath::default(),
        };
        let Some(table) = table else {
            return Ok(nothing);
        };
        let next_links = next_links(&table, variants, files);
        let fast = table.optional("fast", |field| {
            field.word("a choice of the fast path", &FastPath::WORDS)
        });
        let grid = Axes::read(&table, files).override_grid(nothing);
        Ok(Grid {
            next_links: next_links?,
            fast: fast?.unwrap_or_default(),
            ..grid?
        })
    }

    /// All combinations of delay, loss, link and schedule. The delay varies slowest, then the loss, then the link, and the
    /// schedule varies fastest.
    pub(super) fn conditions(&self) -> Vec<Condition> {
        let mut conditions = Vec::new();
        for &delay in &self.delays {
            for &loss in &self.losses {
                for link in &self.links {
                    conditions.extend(self.schedules.iter().map(|schedule| Condition {
                        delay,
                        loss,
                        link: link.clone(),
                        schedule: schedule.clone(),
                        next_links: self.next_links.clone(),
                    }));
                }
            }
        }
        conditions
    }
}

/// The axes that `[conditions]` or a profile has.
pub(super) struct Axes {
    delays: Result<Option<Vec<PerDirection<Duration>>>, ReportedProblem>,
    losses: Result<Option<Vec<PerDirection<Probability>>>, ReportedProblem>,
    links: Result<Option<Vec<PerDirection<String>>>, ReportedProblem>,
    schedules: Result<Option<Vec<String>>, ReportedProblem>,
}

impl Axes {
    pub(super) fn read(section: &Section<'_>, files: &RecipeFiles<'_>) -> Axes {
        Axes {
            delays: axis(section, "delay", delay),
            losses: axis(section, "loss", loss),
            links: axis(section, "link", |field| link(field, files)),
            schedules: axis(section, "schedule", |field| schedule(field, files)),
        }
    }

    /// `grid` with these axes in place of its own.
    pub(super) fn override_grid(self, grid: Grid) -> Result<Grid, ReportedProblem> {
        Ok(Grid {
            delays: self.delays?.unwrap_or(grid.delays),
            losses: self.losses?.unwrap_or(grid.losses),
            links: self.links?.unwrap_or(grid.links),
            schedules: self.schedules?.unwrap_or(grid.schedules),
            next_links: grid.next_links,
            fast: grid.fast,
        })
    }
}

/// The tables `next_link`, in the order of the links. There must be a link for each of them on the path of a variant.
fn next_links(
    conditions: &Section<'_>,
    variants: &[Variant],
    files: &RecipeFiles<'_>,
) -> Result<Vec<LinkConditions>, ReportedProblem> {
    let Some(field) = conditions.field("next_link") else {
        return Ok(Vec::new());
    };
    let expected = "a table for each link after the first";
    let hint = "write [[conditions.next_link]] with two brackets on each side";
    let fields = field.tables(expected, hint)?;
    let links = collect_all(fields.iter().map(|it| next_link(it, files)))?;
    // If no variant is valid, mistakes in the variants have already been reported.
    let most = variants.iter().map(Variant::links).max();
    let surplus = most.and_then(|most| Some((most, fields.get(most.max(1) - 1)?)));
    let Some((most, surplus)) = surplus else {
        return Ok(links);
    };
    let expected = match most {
        0 | 1 => {
            "no such table: each path has one link, and another hop with `~p~>` would be a second"
                .to_owned()
        }
        2 => "one such table: no path has more than 2 links".to_owned(),
        _ => format!(
            "{} such tables: no path has more than {most} links",
            most - 1
        ),
    };
    Err(surplus.refuse(Mistake::NoSuchLink(most + 1), &expected))
}

/// The conditions of a link after the first. What the table leaves out does not affect packets.
fn next_link(
    field: &Field<'_>,
    files: &RecipeFiles<'_>,
) -> Result<LinkConditions, ReportedProblem> {
    let table = field.section(&shapes::NEXT_LINK, shapes::NEXT_LINK.label)?;
    let delay = one(&table, "delay", delay);
    let loss = one(&table, "loss", loss);
    let link = one(&table, "link", |field| link(field, files));
    Ok(LinkConditions {
        delay: delay?.unwrap_or_default(),
        loss: loss?.unwrap_or_default(),
        link: link?.unwrap_or_default(),
    })
}

/// The value of `key`, which must not be a list.
fn one<'d, T>(
    section: &Section<'d>,
    key: &'static str,
    read: impl Fn(&Field<'d>) -> Result<SpannedValue<T>, ReportedProblem>,
) -> Result<Option<T>, ReportedProblem> {
    section.optional(key, |field| {
        if field.is_list() {
            return Err(field.wrong_type("one value: only those of the first link vary", None));
        }
        Ok(read(&field)?.value)
    })
}

/// The values of `key`; duplicates are refused.
fn axis<'d, T: PartialEq + Display>(
    section: &Section<'d>,
    key: &'static str,
    read: impl Fn(&Field<'d>) -> Result<SpannedValue<T>, ReportedProblem>,
) -> Result<Option<Vec<T>>, ReportedProblem> {
    section.optional(key, |field| {
        let values = field.one_or_more(read)?;
        distinct(section.problems(), key, &values)?;
        Ok(values.into_iter().map(|it| it.value).collect())
    })
}

/// One value for both directions, or a table with one for each. A direction that the table leaves out has `T`'s default,
/// which does not affect packets.
fn per_direction<'d, T: Clone + Default>(
    field: &Field<'d>,
    read: impl Fn(&Field<'d>) -> Result<T, ReportedProblem>,
) -> Result<SpannedValue<PerDirection<T>>, ReportedProblem> {
    if !field.is_table() {
        return Ok(field.with_span(read(field)?.into()));
    }
    let label = format!("the directions of `{}`", field.key);
    let table = field.section(&shapes::DIRECTIONS, &label)?;
    let [up, down] = ["up", "down"].map(|key| table.optional(key, |field| read(&field)));
    let (up, down) = (up?, down?);
    if field.entries("`up` and `down`")?.is_empty() {
        return Err(table.missing("up", "`up`, `down` or both"));
    }
    Ok(field.with_span(PerDirection {
        up: up.unwrap_or_default(),
        down: down.unwrap_or_default(),
    }))
}

/// A one-way delay.
pub(super) fn delay(
    field: &Field<'_>,
) -> Result<SpannedValue<PerDirection<Duration>>, ReportedProblem> {
    per_direction(field, |field| {
        field.within(&(Duration::ZERO..=MAX_DELAY), "at most 5s")
    })
}

/// The share of packets that are lost.
pub(super) fn loss(
    field: &Field<'_>,
) -> Result<SpannedValue<PerDirection<Probability>>, ReportedProblem> {
    per_direction(field, Field::quantity)
}

/// Further settings of the link, checked and in the form in which they are printed.
pub(super) fn link(
    field: &Field<'_>,
    files: &RecipeFiles<'_>,
) -> Result<SpannedValue<PerDirection<String>>, ReportedProblem> {
    per_direction(field, |field| settings(field, files))
}

/// Settings of the link in one direction.
fn settings(field: &Field<'_>, files: &RecipeFiles<'_>) -> Result<String, ReportedProblem> {
    const EXPECTED: &str =
        "settings of the link with commas between them, such as \"rate 20mbit, queue 64KiB\"";
    let refuse = |message: String| field.refuse(Mistake::Link(message), EXPECTED);
    let settings = text::settings(field.text()?.value, &mut |name| trace(name, files))
        .map_err(|error| refuse(error.to_string()))?;
    for setting in &settings {
        if let Setting::Delay(_) | Setting::Loss(Loss::Independent(_)) = setting {
            return Err(refuse(format!(
                "`{setting}` has its own key in [conditions]"
            )));
        }
    }
    let words: Vec<String> = settings.iter().map(ToString::to_string).collect();
    Ok(words.join(", "))
}

/// The path of a schedule; an empty text means no schedule.
pub(super) fn schedule(
    field: &Field<'_>,
    files: &RecipeFiles<'_>,
) -> Result<SpannedValue<String>, ReportedProblem> {
    let path = field.text()?.value;
    if path.is_empty() {
        return Ok(field.with_span(String::new()));
    }
    if path.contains(',') {
        let reason = "its path has a comma, which separates the parts of a condition".to_owned();
        return Err(files::refuse(field, path, reason));
    }
    let text = files
        .text(path)
        .map_err(|reason| files::refuse(field, path, reason))?;
    let refuse = |reason: String| {
        let mistake = Mistake::File {
            path: path.to_owned(),
            reason,
        };
        field.refuse(
            mistake,
            "changes of the link, one on a line, in the order of time, such as `at 2s: loss 1%`",
        )
    };
    let changes = text::schedule(&text, &mut |name| trace(name, files))
        .map_err(|error| refuse(error.to_string()))?;
    for change in &changes {
        if change.stretch > 0 {
            let link = change.stretch + 1;
            return Err(refuse(format!(
                "at {}: there is no link {link}: a schedule is for a single link",
                change.at
            )));
        }
        if let Setting::Delay(delay) = change.setting
            && delay > MAX_DELAY
        {
            return Err(refuse(format!(
                "at {}: delay {delay} is more than {MAX_DELAY}",
                change.at
            )));
        }
    }
    Ok(field.with_span(path.to_owned()))
}

fn trace(path: &str, files: &RecipeFiles<'_>) -> Result<Arc<Trace>, String> {
    let text = files
        .text(path)
        .map_err(|reason| format!("{path}: {reason}"))?;
    let trace = Trace::parse(&text).map_err(|error| format!("{path}: {error}"))?;
    Ok(Arc::new(trace.named(path)))
}
