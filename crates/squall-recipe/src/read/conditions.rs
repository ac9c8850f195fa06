//! `[conditions]`, and what a profile replaces of it: delay, loss and further settings of the link, in both directions
//! or in each by itself, and the schedules by which they change.
//!
//! What settings and schedules mean is squall-link's (docs/LINK.md). Which condition the primary comparison is under is
//! in `question`.

use std::fmt::Display;
use std::sync::Arc;

use squall_base::plan::{Condition, PerDirection};
use squall_base::{Duration, Probability};
use squall_link::settings::{Loss, Setting};
use squall_link::text;
use squall_link::trace::Trace;

use super::distinct;
use crate::error::Mistake;
use crate::files::{self, Named};
use crate::problems::Reported;
use crate::section::{At, Field, Section};
use crate::shapes;

/// The longest one-way delay. A trial's own limits are built for it: connections that are opened before the
/// load have 15 s, which is one round trip of 10 s and a SYN lost and sent again, and at the end the link
/// is waited for until it is silent. No path on Earth comes near: a geostationary satellite has 0.3 s.
const MAX_DELAY: Duration = Duration::from_secs(5);

/// The axes of `[conditions]`, or what a profile replaces them with.
#[derive(Clone)]
pub(super) struct Grid {
    delays: Vec<PerDirection<Duration>>,
    losses: Vec<PerDirection<Probability>>,
    links: Vec<PerDirection<String>>,
    schedules: Vec<String>,
}

impl Grid {
    /// Reads `[conditions]`; without it nothing happens to packets.
    pub(super) fn read(root: &Section<'_>, files: &Named<'_>) -> Result<Grid, Reported> {
        let table = root.maybe("conditions", |field| {
            field.section(&shapes::CONDITIONS, shapes::CONDITIONS.label)
        })?;
        let nothing = Grid {
            delays: vec![Duration::ZERO.into()],
            losses: vec![Probability::ZERO.into()],
            links: vec![String::new().into()],
            schedules: vec![String::new()],
        };
        match table {
            Some(table) => Axes::read(&table, files).over(nothing),
            None => Ok(nothing),
        }
    }

    /// Every delay with every loss with every link with every schedule: all losses of the first delay first, each with
    /// all links, each of these with all schedules.
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
                    }));
                }
            }
        }
        conditions
    }
}

/// The axes that `[conditions]` or a profile gives.
pub(super) struct Axes {
    delays: Result<Option<Vec<PerDirection<Duration>>>, Reported>,
    losses: Result<Option<Vec<PerDirection<Probability>>>, Reported>,
    links: Result<Option<Vec<PerDirection<String>>>, Reported>,
    schedules: Result<Option<Vec<String>>, Reported>,
}

impl Axes {
    pub(super) fn read(section: &Section<'_>, files: &Named<'_>) -> Axes {
        Axes {
            delays: axis(section, "delay", delay),
            losses: axis(section, "loss", loss),
            links: axis(section, "link", |field| link(field, files)),
            schedules: axis(section, "schedule", |field| schedule(field, files)),
        }
    }

    /// These axes, and those of `grid` where there are none.
    pub(super) fn over(self, grid: Grid) -> Result<Grid, Reported> {
        Ok(Grid {
            delays: self.delays?.unwrap_or(grid.delays),
            losses: self.losses?.unwrap_or(grid.losses),
            links: self.links?.unwrap_or(grid.links),
            schedules: self.schedules?.unwrap_or(grid.schedules),
        })
    }
}

/// The list of values of `key`, each of them once.
fn axis<'d, T: PartialEq + Display>(
    section: &Section<'d>,
    key: &'static str,
    read: impl Fn(&Field<'d>) -> Result<At<T>, Reported>,
) -> Result<Option<Vec<T>>, Reported> {
    section.maybe(key, |field| {
        let values = field.one_or_more(read)?;
        distinct(section.problems(), key, &values)?;
        Ok(values.into_iter().map(|at| at.value).collect())
    })
}

/// One value for both directions, or a table with one for each; a direction that it leaves out has `T`'s default, which
/// does nothing to packets.
fn per_direction<'d, T: Clone + Default>(
    field: &Field<'d>,
    read: impl Fn(&Field<'d>) -> Result<T, Reported>,
) -> Result<At<PerDirection<T>>, Reported> {
    if !field.is_table() {
        return Ok(field.at(read(field)?.into()));
    }
    let label = format!("the directions of `{}`", field.key);
    let table = field.section(&shapes::DIRECTIONS, &label)?;
    let [up, down] = ["up", "down"].map(|key| table.maybe(key, |field| read(&field)));
    let (up, down) = (up?, down?);
    if field.entries("`up` and `down`")?.is_empty() {
        return Err(table.missing("up", "`up`, `down` or both"));
    }
    Ok(field.at(PerDirection {
        up: up.unwrap_or_default(),
        down: down.unwrap_or_default(),
    }))
}

/// A one-way delay.
pub(super) fn delay(field: &Field<'_>) -> Result<At<PerDirection<Duration>>, Reported> {
    per_direction(field, |field| {
        let range = Duration::ZERO..=MAX_DELAY;
        Ok(field.quantity_in(&range, "at most 5s")?.value)
    })
}

/// A share of packets.
pub(super) fn loss(field: &Field<'_>) -> Result<At<PerDirection<Probability>>, Reported> {
    per_direction(field, |field| Ok(field.quantity()?.value))
}

/// Further settings of the link, checked and in the words in which they are printed.
pub(super) fn link(
    field: &Field<'_>,
    files: &Named<'_>,
) -> Result<At<PerDirection<String>>, Reported> {
    per_direction(field, |field| settings(field, files))
}

/// Settings of the link in one direction.
fn settings(field: &Field<'_>, files: &Named<'_>) -> Result<String, Reported> {
    const EXPECTED: &str =
        "settings of the link with commas between them, such as \"rate 20mbit, queue 64KiB\"";
    let refuse = |message: String| field.refuse(Mistake::Link { message }, EXPECTED);
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

/// The file of a schedule, or an empty text for none.
pub(super) fn schedule(field: &Field<'_>, files: &Named<'_>) -> Result<At<String>, Reported> {
    let path = field.text()?.value;
    if path.is_empty() {
        return Ok(field.at(String::new()));
    }
    if path.contains(',') {
        let said = "its path has a comma, which separates the parts of a condition".to_owned();
        return Err(files::refuse(field, path, said));
    }
    let text = files
        .text(path)
        .map_err(|said| files::refuse(field, path, said))?;
    let refuse = |said: String| {
        let mistake = Mistake::File {
            path: path.to_owned(),
            said,
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
                "at {}: there is no link {link}: a trial has one",
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
    Ok(field.at(path.to_owned()))
}

/// A trace by the path of its file.
fn trace(path: &str, files: &Named<'_>) -> Result<Arc<Trace>, String> {
    let text = files.text(path).map_err(|said| format!("{path}: {said}"))?;
    let trace = Trace::parse(&text).map_err(|error| format!("{path}: {error}"))?;
    Ok(Arc::new(trace.named(path)))
}
