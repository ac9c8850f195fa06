//! One value of the self-test: its group, its target, and whether the target is met.
//!
//! Nothing is measured here; each group has its own file. The fields are also the keys of `squall selftest --json`.

use std::fmt;

use clap::ValueEnum;
use serde::Serialize;

/// A group of measurements that can run by itself. The table lists groups in this order.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, ValueEnum)]
#[serde(rename_all = "lowercase")]
pub(super) enum Group {
    /// Delay that the link itself adds, and accuracy of configured delays
    Delay,
    /// Drop lists, reproducibility, conservation, traces
    Exactness,
    /// Random loss, independent and in bursts
    Loss,
    /// Bits per second that leave a rate-limited queue
    Rate,
    /// Cost of one lost packet of a response, and what repairs it
    Repair,
    /// Maximum throughput of the link, which runs on one processor
    Throughput,
}

impl Group {
    /// The name shown in the table, as `--only` takes it.
    pub(super) fn name(self) -> String {
        let value = self.to_possible_value().expect("no group is skipped");
        value.get_name().to_owned()
    }
}

/// The target of a value.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) enum Target {
    AtMost(f64),
    AtLeast(f64),
    Exactly(f64),
    /// Between the first and the second, both included.
    Within(f64, f64),
}

impl Target {
    fn is_met_by(self, value: f64) -> bool {
        match self {
            Target::AtMost(most) => value <= most,
            Target::AtLeast(least) => value >= least,
            Target::Exactly(wanted) => value == wanted,
            Target::Within(least, most) => (least..=most).contains(&value),
        }
    }
}

impl fmt::Display for Target {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        // A target derived from another row has as many digits as that row's value.
        let short = |value: &f64| match *value {
            value if value >= 10.0 && value.fract() != 0.0 => format!("{value:.1}"),
            value => value.to_string(),
        };
        match self {
            Target::AtMost(most) => write!(f, "<= {}", short(most)),
            Target::AtLeast(least) => write!(f, ">= {}", short(least)),
            Target::Exactly(wanted) => write!(f, "= {}", short(wanted)),
            Target::Within(least, most) => write!(f, "{} to {}", short(least), short(most)),
        }
    }
}

/// One measured value.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub(super) struct Row {
    pub(super) group: Group,
    /// What was measured. Names are unique.
    pub(super) name: String,
    pub(super) value: f64,
    pub(super) unit: &'static str,
    /// The target; `None` for a value that is only shown for comparison.
    pub(super) target: Option<String>,
    /// Whether the target is met; `None` if that says nothing about squall.
    pub(super) pass: Option<bool>,
}

impl Row {
    /// A value that is judged against a target.
    pub(super) fn judged(
        group: Group,
        name: impl Into<String>,
        value: f64,
        unit: &'static str,
        target: Target,
    ) -> Row {
        Row {
            target: Some(target.to_string()),
            pass: Some(target.is_met_by(value)),
            ..Row::note(group, name, value, unit)
        }
    }

    /// A value that is only shown for comparison.
    pub(super) fn note(
        group: Group,
        name: impl Into<String>,
        value: f64,
        unit: &'static str,
    ) -> Row {
        Row {
            group,
            name: name.into(),
            value,
            unit,
            target: None,
            pass: None,
        }
    }

    /// The same value with its target, but not judged.
    pub(super) fn unjudged(self) -> Row {
        Row { pass: None, ..self }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_row_that_misses_its_target_fails() {
        for (value, target, passes) in [
            (60.0, Target::AtMost(60.0), true),
            (60.1, Target::AtMost(60.0), false),
            (0.001, Target::AtLeast(0.001), true),
            (0.0009, Target::AtLeast(0.001), false),
            (0.0, Target::Exactly(0.0), true),
            (1.0, Target::Exactly(0.0), false),
            (54.0, Target::Within(54.0, 59.0), true),
            (59.1, Target::Within(54.0, 59.0), false),
            (f64::NAN, Target::AtMost(60.0), false),
            (f64::NAN, Target::AtLeast(60.0), false),
            (f64::NAN, Target::Within(0.0, 1.0), false),
        ] {
            let row = Row::judged(Group::Delay, "x", value, "us", target);
            assert_eq!(row.pass, Some(passes), "{row:?}");
        }
    }

    #[test]
    fn a_note_neither_passes_nor_fails() {
        let note = Row::note(Group::Rate, "x", 1.0, "us");
        assert_eq!((note.pass, note.target), (None, None));
        let missed = Row::judged(Group::Repair, "x", 1.0, "ms", Target::Exactly(2.0)).unjudged();
        assert_eq!((missed.pass, missed.target), (None, Some("= 2".to_owned())));
    }
}
