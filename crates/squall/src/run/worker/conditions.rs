//! Turns the condition of a trial, with the run's copies of traces and schedules, into settings of its links.
//!
//! squall-recipe has validated the condition; squall-link implements the settings.

use std::sync::Arc;

use anyhow::{Context, Result, anyhow};
use squall_base::record::Direction;
use squall_link::settings::{Loss, Stretch};
use squall_link::trace::Trace;
use squall_link::{LaneSettings, LinkSettings, text};
use squall_record::read_text_at_most;

use super::assignment::Assignment;
use crate::limits;

/// The settings of one of the trial's links, by its place among the path's links; their times count from the load's start.
pub(super) fn settings(assignment: &Assignment, link: usize) -> Result<LinkSettings> {
    let condition = assignment.trial.condition.of_link(link);
    let mut traces = |name: &str| trace(assignment, name);
    let mut stretch = Stretch::default();
    for direction in Direction::ALL {
        let lane = stretch.lane_mut(direction);
        *lane = LaneSettings {
            delay: *condition.delay.of(direction),
            loss: Loss::Independent(*condition.loss.of(direction)),
            ..LaneSettings::default()
        };
        let further = text::settings(condition.link.of(direction), &mut traces)
            .context("cannot parse the settings of the trial's link")?;
        further.iter().for_each(|setting| lane.apply(setting));
    }
    let schedule = match condition.schedule.as_str() {
        "" => Vec::new(),
        file => text::schedule(&kept(assignment, file)?, &mut traces)
            .with_context(|| format!("cannot parse the schedule {file}"))?,
    };
    Ok(LinkSettings {
        seed: assignment.trial.link_seed(link),
        stretches: vec![stretch],
        schedule,
    })
}

/// The content of the run's copy of a file that the recipe names.
fn kept(assignment: &Assignment, path: &str) -> Result<String> {
    let named = assignment.named.iter().find(|named| named.path == path);
    let named = named.ok_or_else(|| {
        anyhow!(
            "plan.json does not say what the run's copy of {path} is called: run the recipe again"
        )
    })?;
    let copy = assignment.files.join(&named.kept_as);
    read_text_at_most(&copy, limits::TRACE).with_context(|| {
        format!(
            "cannot read {}, the run's copy of {path}: put it back, or run the recipe again",
            copy.display()
        )
    })
}

fn trace(assignment: &Assignment, path: &str) -> Result<Arc<Trace>, String> {
    let text = kept(assignment, path).map_err(|error| format!("{error:#}"))?;
    let trace = Trace::parse(&text).map_err(|error| format!("{path}: {error}"))?;
    Ok(Arc::new(trace.named(path)))
}
