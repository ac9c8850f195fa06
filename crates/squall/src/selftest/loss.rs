//! Whether random loss has the configured distribution: independent with a fixed probability, and in bursts by the
//! Gilbert-Elliott model.
//!
//! The seed is fixed. The fates, and with them the p-values, are therefore the same in every run on every machine, as
//! long as packets reach the link in the order of their numbers. A correct link can look unusual by chance; with this
//! seed, this link either always does or never does.

use anyhow::{Context, Result};
use squall_base::record::{Direction, Fate};
use squall_base::{Duration, Probability};
use squall_link::LaneSettings;
use squall_link::settings::{GilbertElliott, Loss};

use super::bench::Bench;
use super::row::{Group, Row, Target};
use super::statistics::{binomial_p, geometric_p, run_lengths, runs_p};
use super::traffic;

const LOSS: f64 = 0.03;
const MEAN_BURST: f64 = 5.0;
const PACKETS: u32 = 100_000;
/// Enough for about 1,200 bursts.
const PACKETS_IN_BURSTS: u32 = 200_000;
const PACKET_BYTES: usize = 64;
/// After this long without a datagram, the rest of a group counts as lost.
const PATIENCE: Duration = Duration::from_millis(5);
/// A correct link falls below it with one seed in a thousand.
const P_VALUE: Target = Target::AtLeast(0.001);

pub(super) fn measure() -> Result<Vec<Row>> {
    let mut rows = independent()?;
    rows.extend(in_bursts()?);
    Ok(rows)
}

fn independent() -> Result<Vec<Row>> {
    let probability = Probability::new(LOSS).context("a share of loss is a probability")?;
    let fates = Fates::of(Loss::Independent(probability), PACKETS)?;
    let lost = fates.lost.iter().filter(|lost| **lost).count() as u64;
    let share = lost as f64 / f64::from(PACKETS);
    Ok(vec![
        Row::note(Group::Loss, "3 % lost: share", 100.0 * share, "%"),
        p_value(
            "3 % lost: binomial test",
            binomial_p(lost, u64::from(PACKETS), LOSS),
        ),
        p_value("3 % lost: runs test", runs_p(&fates.lost)),
        fates.disagreement_row("3 % lost"),
    ])
}

fn in_bursts() -> Result<Vec<Row>> {
    let probability = Probability::new(LOSS).context("a share of loss is a probability")?;
    let model = GilbertElliott::bursts(probability, MEAN_BURST).context("bursts of 5 exist")?;
    let fates = Fates::of(Loss::GilbertElliott(model), PACKETS_IN_BURSTS)?;
    let bursts = run_lengths(&fates.lost, true);
    let gaps = run_lengths(&fates.lost, false);
    let mean = bursts.iter().sum::<u64>() as f64 / bursts.len() as f64;
    let name = "3 % in bursts of 5";
    Ok(vec![
        Row::note(Group::Loss, format!("{name}: mean burst"), mean, "packets"),
        p_value(
            format!("{name}: chi-squared of burst lengths"),
            geometric_p(&bursts, model.to_good.get()),
        ),
        p_value(
            format!("{name}: chi-squared of gap lengths"),
            geometric_p(&gaps, model.to_bad.get()),
        ),
        fates.disagreement_row(name),
    ])
}

fn p_value(name: impl Into<String>, p: f64) -> Row {
    Row::judged(Group::Loss, name, p, "p", P_VALUE)
}

/// The fates of numbered packets.
struct Fates {
    /// As recorded by the link, in order of arrival there.
    lost: Vec<bool>,
    /// Packets for which the receiver disagrees with the link's record.
    disagreeing: u64,
}

impl Fates {
    fn of(loss: Loss, packets: u32) -> Result<Fates> {
        let lane = LaneSettings {
            loss,
            ..LaneSettings::default()
        };
        let bench = Bench::symmetric(lane)?;
        let arrived = traffic::numbered(&bench.datagrams(PATIENCE)?, packets, PACKET_BYTES)?;
        let measured = bench.end()?;
        let lost: Vec<bool> = measured
            .of(Direction::Up)
            .map(|packet| packet.fate != Fate::Delivered)
            .collect();
        let disagreeing = disagreeing(&lost, &arrived);
        Ok(Fates { lost, disagreeing })
    }

    fn disagreement_row(&self, name: &str) -> Row {
        Row::judged(
            Group::Loss,
            format!("{name}: log and receiver differ"),
            self.disagreeing as f64,
            "packets",
            Target::Exactly(0.0),
        )
    }
}

/// The number of packets recorded as lost that arrived, or the reverse.
fn disagreeing(lost: &[bool], arrived: &[u32]) -> u64 {
    let mut missing = vec![true; lost.len()];
    let mut unknown = 0;
    for number in arrived {
        match missing.get_mut(*number as usize) {
            Some(missing) => *missing = false,
            None => unknown += 1,
        }
    }
    let differing = lost.iter().zip(&missing).filter(|(log, seen)| log != seen);
    differing.count() as u64 + unknown
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn packets_on_which_log_and_receiver_disagree_are_counted() {
        assert_eq!(disagreeing(&[false, true, false], &[0, 2]), 0);
        assert_eq!(disagreeing(&[false, true, false], &[0, 1, 2]), 1);
        assert_eq!(disagreeing(&[false, true, false], &[0]), 1);
        assert_eq!(disagreeing(&[false], &[0, 1]), 1);
    }

    #[test]
    fn low_p_value_fails() {
        assert_eq!(p_value("x", 0.5).pass, Some(true));
        assert_eq!(p_value("x", 0.000_9).pass, Some(false));
        assert_eq!(p_value("x", f64::NAN).pass, Some(false));
    }
}
