//! The fixes that a run tries after its planned trials: what is changed in which variant, and the trials that show what it
//! gained.
//!
//! squall-analysis proposes fixes with its findings, squall-recipe makes the changed variant and its trials, the binary
//! chooses. Nothing is decided here.

use std::fmt;

use serde::{Deserialize, Serialize};

use super::{Side, Trial};

/// A setting of a recipe at one side of a hop, and its new value.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub struct SettingChange {
    /// The hop, from 1.
    pub hop: u8,
    /// The side of the hop.
    pub side: Side,
    /// The key, as in the recipe's `client` or `server` with dots between its parts: `http2.stream_window`. Also `connections`,
    /// `connections.at_most` and `pool.streams_at_most` of the hop, which belong to the client's side.
    pub setting: String,
    /// The value as the recipe has it, without quotes: `1MiB`, `true`.
    pub value: String,
}

/// `http2.stream_window = 1MiB`.
impl fmt::Display for SettingChange {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} = {}", self.setting, self.value)
    }
}

/// The fixes of a run that was asked to try some.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct FixesToTry {
    /// The most fixes to try.
    pub at_most: u32,
    /// The choice, which is made from the findings of the planned trials; `None` until they are complete.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub chosen: Option<ChosenFixes>,
}

/// The fixes that were chosen, those of the most costly findings first.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct ChosenFixes {
    /// Those that are tried.
    pub tried: Vec<FixTrials>,
    /// Those of equally costly findings that cannot be tried.
    pub not_tried: Vec<UntriedFix>,
}

/// A fix and its trials: pairs of the variant as it was and with the fix, one after the other, so that both meet the same
/// conditions and the same state of the machine.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct FixTrials {
    /// The finding's identifier, such as `stream_window`.
    pub finding: String,
    /// The finding's name for people.
    pub title: String,
    /// The variant that shows it.
    pub variant: String,
    /// Where the settings are changed: the station, as the path names it.
    pub station: String,
    /// What is changed.
    pub changes: Vec<SettingChange>,
    /// The name of the variant as it was, in these trials.
    pub original: String,
    /// The name of the variant with the fix.
    pub fixed: String,
    /// The trials, in the order in which they are run. Their indices follow those of the planned trials.
    pub trials: Vec<Trial>,
}

/// A fix that cannot be tried.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct UntriedFix {
    /// The finding's identifier.
    pub finding: String,
    /// The finding's name for people.
    pub title: String,
    /// The variant that shows it.
    pub variant: String,
    /// The station that it concerns.
    pub station: String,
    /// The setting, by its name in the program that runs there, or advice.
    pub setting: String,
    /// Why it was not tried.
    pub why: String,
}

/// The changes as a list: `http2.stream_window = 1MiB, http2.connection_window = 1MiB`. A setting that both sides get is
/// named once.
pub fn listed_changes(changes: &[SettingChange]) -> String {
    let mut words: Vec<String> = Vec::new();
    for change in changes {
        let word = change.to_string();
        if !words.contains(&word) {
            words.push(word);
        }
    }
    words.join(", ")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn setting_of_both_sides_is_named_once() {
        let change = |side, setting: &str, value: &str| SettingChange {
            hop: 1,
            side,
            setting: setting.to_owned(),
            value: value.to_owned(),
        };
        let changes = [
            change(Side::Client, "tls.resumption", "true"),
            change(Side::Server, "tls.resumption", "true"),
            change(Side::Server, "tcp.no_delay", "true"),
        ];
        assert_eq!(
            listed_changes(&changes),
            "tls.resumption = true, tcp.no_delay = true"
        );
    }
}
