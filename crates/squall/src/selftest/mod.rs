//! `squall selftest`: measures the emulator on the machine it runs on. This file says what is measured, in which order.
//!
//! Each group has its own file and measures through the real thing: hosts, TUN devices, the link's thread and the
//! kernel's own sockets (`bench`, `traffic`). The link's records are compared with timestamps that the sockets' readers
//! take themselves. Where targets come from: docs/METHOD.md, "The link, measured by itself". `row` is what they return;
//! `command` prints the table and sets the exit code.

mod bench;
pub(crate) mod command;
mod delay;
mod exactness;
mod loss;
mod rate;
mod repair;
mod row;
mod statistics;
mod throughput;
mod traffic;

use std::time::Instant;

use anyhow::{Context, Result};
use clap::ValueEnum;

use crate::output::eprint;
use row::{Group, Row};

/// Measures one group, or all of them.
fn measure(only: Option<Group>) -> Result<Vec<Row>> {
    let mut rows = Vec::new();
    for group in groups(only) {
        let name = group.name();
        let began = Instant::now();
        eprint(format_args!("{name} ..."));
        let measured = measure_group(group);
        rows.extend(measured.with_context(|| format!("cannot measure {name}"))?);
        eprint(format_args!(" {:.0} s\n", began.elapsed().as_secs_f64()));
    }
    Ok(rows)
}

/// The groups to measure, in the order of the table.
fn groups(only: Option<Group>) -> Vec<Group> {
    match only {
        Some(group) => vec![group],
        None => Group::value_variants().to_vec(),
    }
}

fn measure_group(group: Group) -> Result<Vec<Row>> {
    match group {
        Group::Delay => delay::measure(),
        Group::Exactness => exactness::measure(),
        Group::Loss => loss::measure(),
        Group::Rate => rate::measure(),
        Group::Repair => repair::measure(),
        Group::Throughput => throughput::measure(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_group_is_measured_unless_one_is_selected() {
        let all = groups(None).into_iter().map(Group::name);
        let expected = ["delay", "exactness", "loss", "rate", "repair", "throughput"];
        assert!(all.eq(expected), "{:?}", groups(None));
        assert_eq!(groups(Some(Group::Rate)), [Group::Rate]);
    }
}
