//! Finds a preset by its name, and suggests a similar name for an unknown one. Also limits the delay of our own proxy.
//!
//! The settings of each preset are in squall-base. `read::side` decides which of them a recipe may override, `settings`
//! exports all of this for the command line.

use std::ops::RangeInclusive;

use squall_base::Duration;
use squall_base::plan::{Side, SideSettings, find_preset, presets};
use thiserror::Error;

use crate::words::{did_you_mean, listed, printable};

/// How long our own proxy may hold back the head of a response: less than its own timeout for a response.
pub const PROXY_DELAYS: RangeInclusive<Duration> = Duration::ZERO..=Duration::from_secs(10);

/// An unknown preset.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[error(
    "unknown preset `{}`: expected {}{}",
    printable(name), listed(known), hint.as_ref().map(|h| format!(" ({h})")).unwrap_or_default()
)]
pub struct UnknownPreset {
    /// The requested name.
    pub name: String,
    /// The known presets.
    pub known: Vec<&'static str>,
    /// A guess at what was meant.
    pub hint: Option<String>,
}

/// The settings of a preset on that side.
///
/// # Errors
/// If there is no preset of that name.
pub fn preset(name: &str, side: Side) -> Result<SideSettings, UnknownPreset> {
    find_preset(name, side).ok_or_else(|| {
        let known: Vec<&str> = presets().iter().map(|preset| preset.name).collect();
        UnknownPreset {
            name: name.to_owned(),
            hint: did_you_mean(name, known.iter().copied()),
            known,
        }
    })
}
