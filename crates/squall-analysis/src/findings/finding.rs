//! What a finding is, as data: its cost, the evidence for it, and the fix.
//!
//! Nothing is looked for here: `detector` says what can be found, `case` has the sums of a trial, and each pathology has a
//! file of its own. A reader of findings.json needs only this file; `aggregate` adds how many trials show a finding.

use serde::{Deserialize, Serialize};
use squall_base::plan::SettingChange;

squall_base::words! {
    /// How much a finding matters, by the share that it costs.
    #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
    #[serde(rename_all = "snake_case")]
    pub enum Severity {
        /// Less than [`Severity::SERIOUS_FROM`].
        Minor = "minor",
        /// Less than [`Severity::GRAVE_FROM`].
        Serious = "serious",
        /// At least [`Severity::GRAVE_FROM`].
        Grave = "grave",
    }
}

impl Severity {
    /// A twentieth: what a verdict between variants can distinguish from noise with a few pairs. A judgement.
    pub const SERIOUS_FROM: f64 = 0.05;
    /// A fifth: too much to leave it that way. A judgement.
    pub const GRAVE_FROM: f64 = 0.2;

    /// The severity of what costs `share` of the whole.
    pub fn of(share: f64) -> Severity {
        match share {
            share if share >= Severity::GRAVE_FROM => Severity::Grave,
            share if share >= Severity::SERIOUS_FROM => Severity::Serious,
            _ => Severity::Minor,
        }
    }
}

/// What a share is relative to.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Whole {
    /// The response times of all measured requests together.
    ResponseTime,
    /// The requests.
    Requests,
    /// The time in which connections had something to send or to be acknowledged (tcpi_busy_time).
    SendingTime,
    /// The packets with data.
    Packets,
    /// The frames of HTTP/2.
    Frames,
}

impl Whole {
    /// In words, for a sentence.
    pub const fn words(self) -> &'static str {
        match self {
            Whole::ResponseTime => "of the response time",
            Whole::Requests => "of the requests",
            Whole::SendingTime => "of the sending time",
            Whole::Packets => "of the packets with data",
            Whole::Frames => "of the frames",
        }
    }
}

/// What a finding costs.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct CostShare {
    /// From 0 to 1.
    pub part: f64,
    /// What it is a share of.
    pub of: Whole,
}

/// One number of the evidence.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Number {
    /// What was counted or measured.
    pub what: String,
    /// Its value.
    pub value: f64,
    /// Its unit; empty for counts.
    pub unit: String,
}

/// What a finding is based on.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Evidence {
    /// The numbers.
    pub numbers: Vec<Number>,
    /// Requests to look at, the most affected first; empty if the records do not show which they are.
    pub requests: Vec<u64>,
}

/// What to set, and where. In JSON, `key` and `value` are the parts of a setting that has both.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(into = "FixJson", from = "FixJson")]
pub struct Fix {
    /// The station, as the path names it.
    pub station: String,
    /// The setting, by its name in the program that runs there, and what to set it to.
    pub setting: String,
    /// The fix as settings of a recipe, with values; empty if a recipe cannot express it.
    pub changes: Vec<SettingChange>,
}

impl Fix {
    /// The name of the setting and what to set it to; `None` if the fix is not a single setting.
    pub fn key_and_value(&self) -> Option<(&str, &str)> {
        let parts = [" = ", ": "].map(|between| self.setting.split_once(between));
        let mut parts = parts.into_iter().flatten();
        parts.find(|(key, _)| !key.contains(char::is_whitespace))
    }
}

#[derive(Serialize, Deserialize)]
struct FixJson {
    station: String,
    setting: String,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    key: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    value: Option<String>,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    changes: Vec<SettingChange>,
}

impl From<Fix> for FixJson {
    fn from(fix: Fix) -> FixJson {
        let parts = fix.key_and_value();
        let (key, value) = parts
            .map(|(key, value)| (key.to_owned(), value.to_owned()))
            .unzip();
        FixJson {
            key,
            value,
            station: fix.station,
            setting: fix.setting,
            changes: fix.changes,
        }
    }
}

impl From<FixJson> for Fix {
    fn from(json: FixJson) -> Fix {
        Fix {
            station: json.station,
            setting: json.setting,
            changes: json.changes,
        }
    }
}

/// A pathology that a trial shows.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Finding {
    /// Its identifier, such as `stream_window`.
    pub name: String,
    /// Its name for people.
    pub title: String,
    /// How much it matters.
    pub severity: Severity,
    /// What it costs.
    pub share: CostShare,
    /// What it is based on.
    pub evidence: Evidence,
    /// What happens, and why, in two sentences.
    pub explanation: String,
    /// The fixes that are not in force already; empty if all of them are.
    pub fixes: Vec<Fix>,
    /// On a path of several links: the hop whose link it is about.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub hop: Option<u8>,
}

impl Finding {
    pub(super) fn worst_first(&self, other: &Finding) -> std::cmp::Ordering {
        let by_severity = other.severity.cmp(&self.severity);
        by_severity.then(other.share.part.total_cmp(&self.share.part))
    }

    /// The first sentence of the explanation: what happens. The second says why.
    pub fn what_happens(&self) -> &str {
        match self.explanation.find(". ") {
            Some(end) => &self.explanation[..=end],
            None => &self.explanation,
        }
    }
}

/// What a detector has found: the parts of a finding that differ from trial to trial.
#[derive(Debug)]
pub(super) struct Detection {
    /// What it costs, from 0 to 1.
    pub(super) part: f64,
    /// What that is a share of.
    pub(super) of: Whole,
    pub(super) numbers: Vec<Number>,
    /// Requests to look at, the most affected first.
    pub(super) requests: Vec<u64>,
    pub(super) fixes: Vec<Fix>,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_setting_is_split_into_its_key_and_its_value() {
        let parts = |setting: &str| {
            let fix = Fix {
                station: "client".to_owned(),
                setting: setting.to_owned(),
                changes: Vec::new(),
            };
            let parts = fix.key_and_value();
            parts.map(|(key, value)| (key.to_owned(), value.to_owned()))
        };
        let owned = |key: &str, value: &str| Some((key.to_owned(), value.to_owned()));
        assert_eq!(parts("tcp.no_delay = true"), owned("tcp.no_delay", "true"));
        assert_eq!(parts("tls.records: 4KiB"), owned("tls.records", "4KiB"));
        assert_eq!(parts("more connections: 8 of them"), None);
        assert_eq!(parts("HTTP/3"), None);
    }
}
