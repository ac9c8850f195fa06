//! Measures the emulator on the machine it runs on: what is measured, in which order, and what a row is.
//!
//! Each group has its own file and measures through the real thing: hosts, TUN devices, the link's thread and the
//! kernel's own sockets (`bench`, `traffic`). The link's records are compared with timestamps that the sockets' readers
//! take themselves. Where targets come from: docs/METHOD.md, "The link, measured by itself". `commands::selftest`
//! prints the table and sets the exit code.

mod bench;
mod delay;
mod exactness;
mod loss;
mod rate;
mod repair;
mod statistics;
mod throughput;
mod traffic;

use std::fmt;
use std::time::Instant;

use anyhow::{Context, Result};
use serde::Serialize;
use squall_linux::user_namespace;

use crate::output::eprint;

/// A group of measurements that can run by itself. The table lists groups in this order.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, clap::ValueEnum)]
#[serde(rename_all = "lowercase")]
pub(crate) enum Group {
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
    /// Maximum throughput of one processor
    Throughput,
}

impl Group {
    /// Every group, in the order of this enum.
    pub(crate) const ALL: [Group; 6] = [
        Group::Delay,
        Group::Exactness,
        Group::Loss,
        Group::Rate,
        Group::Repair,
        Group::Throughput,
    ];

    /// The name shown in the table.
    pub(crate) const fn name(self) -> &'static str {
        match self {
            Group::Delay => "delay",
            Group::Exactness => "exactness",
            Group::Loss => "loss",
            Group::Rate => "rate",
            Group::Repair => "repair",
            Group::Throughput => "throughput",
        }
    }

    fn measure(self) -> Result<Vec<Row>> {
        match self {
            Group::Delay => delay::measure(),
            Group::Exactness => exactness::measure(),
            Group::Loss => loss::measure(),
            Group::Rate => rate::measure(),
            Group::Repair => repair::measure(),
            Group::Throughput => throughput::measure(),
        }
    }
}

/// The target of a value.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) enum Target {
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
pub(crate) struct Row {
    pub(crate) group: Group,
    /// What was measured. Names are unique.
    pub(crate) name: String,
    pub(crate) value: f64,
    pub(crate) unit: &'static str,
    /// The target; `None` for a value that is only shown for comparison.
    pub(crate) target: Option<String>,
    /// Whether the target is met; `None` if that says nothing about squall.
    pub(crate) pass: Option<bool>,
}

impl Row {
    /// A value that is judged against a target.
    fn judged(
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
    fn note(group: Group, name: impl Into<String>, value: f64, unit: &'static str) -> Row {
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
    fn unjudged(self) -> Row {
        Row { pass: None, ..self }
    }
}

/// Measures one group, or all of them. Call it while the process has a single thread: it may enter a user namespace.
pub(crate) fn measure(only: Option<Group>) -> Result<Vec<Row>> {
    user_namespace::acquire_privilege()?;
    let mut rows = Vec::new();
    for group in Group::ALL {
        if only.is_none_or(|only| only == group) {
            let name = group.name();
            let began = Instant::now();
            eprint(format_args!("{name} ..."));
            let measured = group.measure();
            rows.extend(measured.with_context(|| format!("cannot measure {name}"))?);
            eprint(format_args!(" {:.0} s\n", began.elapsed().as_secs_f64()));
        }
    }
    Ok(rows)
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
