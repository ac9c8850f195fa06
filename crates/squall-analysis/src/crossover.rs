//! How many connections it takes: where variants that differ only in their number of connections become as good as another
//! variant.
//!
//! The ratio to the other variant is interpolated between the numbers that were tried, linearly in the logarithms of both.
//! The interval holds every number whose ratio the trials cannot distinguish from 1, by the verdicts' test
//! (`stats::sign_flip`) at the same level; like the verdicts, it needs six repetitions. Nothing is extrapolated. Whether
//! individual variants differ is decided in `verdict`.

use serde::{Deserialize, Serialize};
use squall_base::plan::{Connections, Measure, Variant};

use crate::cell::CellSummary;
use crate::figure;
use crate::stats::sign_flip::{sign_flip, smallest_sign_flip};
use crate::trial::TrialStats;
use crate::value::measure_name;
use crate::verdict::LEVEL;

/// Steps of the search for the interval, between two neighbouring numbers that were tried.
const STEPS: u32 = 64;

/// Where variants with ever more connections become as good as another variant, under one condition.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Crossover {
    /// The other variant.
    pub baseline: String,
    /// The measure they are compared by.
    pub measure: Measure,
    /// The numbers of connections that were tried, in ascending order.
    pub tried: Vec<Rung>,
    /// Repetitions in which all of them can be compared.
    pub repetitions: u64,
    /// How many connections it takes.
    pub takes: ConnectionsNeeded,
    /// The 95 % confidence interval of that number; `None` if there are too few repetitions.
    pub interval: Option<ConnectionRange>,
}

/// One number of connections.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Rung {
    /// The variant with this number of connections.
    pub variant: String,
    /// Connections of the hop across the link.
    pub connections: u32,
    /// The variant's value over the baseline's: the geometric mean over repetitions.
    pub ratio: f64,
}

/// How many connections it takes to be as good as the other variant.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ConnectionsNeeded {
    /// The fewest that were tried are enough.
    Fewest,
    /// This number of connections, interpolated between two that were tried.
    About(f64),
    /// More than were tried.
    More,
    /// More connections are not simply better: the ratio crosses 1 the other way, or more than once.
    Unclear,
}

/// A range of connection counts; an end is `None` if it lies beyond the numbers that were tried.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct ConnectionRange {
    /// The fewest.
    pub low: Option<f64>,
    /// The most.
    pub high: Option<f64>,
}

/// The crossover with each variant that is not itself on the ladder of connection counts.
pub(crate) fn crossovers(
    variants: &[Variant],
    cells: &[CellSummary],
    requested: Measure,
) -> Vec<Crossover> {
    let ladder = ladder(variants);
    let is_other = |place: &usize| !ladder.iter().any(|(_, rung)| rung == place);
    let others = (0..variants.len()).filter(is_other);
    let found = others.filter_map(|other| crossover(&ladder, &cells[other], cells, requested));
    found.collect()
}

/// The variants that differ only in how many connections they keep across the link, sorted by that number; empty if there
/// are fewer than two. Of several such groups, the largest.
fn ladder(variants: &[Variant]) -> Vec<(u32, usize)> {
    let group = |first: &Variant| -> Vec<(u32, usize)> {
        let like = without_connections(first);
        let members = variants.iter().enumerate().filter(|(_, variant)| {
            let other = without_connections(variant);
            other.stations == like.stations && other.hops == like.hops
        });
        let mut group: Vec<(u32, usize)> = members
            .filter_map(|(place, variant)| Some((fixed(variant)?, place)))
            .collect();
        group.sort_unstable();
        group.dedup_by_key(|(connections, _)| *connections);
        group
    };
    let groups = variants.iter().map(group);
    let largest = groups.max_by_key(Vec::len).unwrap_or_default();
    if largest.len() > 1 {
        largest
    } else {
        Vec::new()
    }
}

fn fixed(variant: &Variant) -> Option<u32> {
    match variant.link_hop().1.connections {
        Connections::Fixed(count) => Some(count),
        Connections::OnDemand { .. } => None,
    }
}

fn without_connections(variant: &Variant) -> Variant {
    let mut variant = variant.clone();
    if let Some(hop) = variant.hops.iter_mut().find(|hop| hop.across_link) {
        hop.connections = Connections::Fixed(0);
        hop.pool.warm = 0;
    }
    variant
}

fn crossover(
    ladder: &[(u32, usize)],
    baseline: &CellSummary,
    cells: &[CellSummary],
    requested: Measure,
) -> Option<Crossover> {
    let rungs = || ladder.iter().map(|(_, place)| &cells[*place]);
    let measure = first_available(requested, baseline, &rungs())?;
    let blocks = blocks(measure, baseline, &rungs());
    if ladder.is_empty() || blocks.is_empty() {
        return None;
    }
    let tried = ladder.iter().enumerate().map(|(rung, (connections, _))| {
        let logs = blocks.iter().map(|block| block.logs[rung]);
        (*connections, logs.sum::<f64>() / blocks.len() as f64)
    });
    let means: Vec<(u32, f64)> = tried.collect();
    let takes = connections_needed(&means, measure.is_better_higher());
    Some(Crossover {
        baseline: baseline.variant.clone(),
        measure,
        tried: rungs()
            .zip(&means)
            .map(|(cell, (connections, mean))| Rung {
                variant: cell.variant.clone(),
                connections: *connections,
                ratio: mean.exp(),
            })
            .collect(),
        repetitions: blocks.len() as u64,
        takes,
        interval: interval(ladder, &blocks, takes),
    })
}

/// The first of `requested` and its substitutes for which every valid trial has a value.
fn first_available<'a>(
    requested: Measure,
    baseline: &'a CellSummary,
    rungs: &(impl Iterator<Item = &'a CellSummary> + Clone),
) -> Option<Measure> {
    let trials = || std::iter::once(baseline).chain(rungs.clone());
    let mut candidates = requested.with_substitutes().into_iter();
    candidates.find(|measure| {
        let mut values = trials().flat_map(CellSummary::valid_trials);
        values.all(|trial| trial.value(*measure).is_some())
    })
}

/// One repetition, in which all variants faced the same link.
struct Block {
    /// The logarithm of the ratio to the baseline, by position on the ladder.
    logs: Vec<f64>,
    seed: u64,
}

fn blocks<'a>(
    measure: Measure,
    baseline: &'a CellSummary,
    rungs: &(impl Iterator<Item = &'a CellSummary> + Clone),
) -> Vec<Block> {
    let log = |trial: &TrialStats| trial.value(measure)?.log();
    let block = |trial: &TrialStats| {
        let against = log(trial)?;
        let logs = rungs.clone().map(|cell| {
            let mut trials = cell.valid_trials();
            let own = trials.find(|own| own.repetition == trial.repetition)?;
            Some(log(own)? - against)
        });
        Some(Block {
            logs: logs.collect::<Option<Vec<f64>>>()?,
            seed: trial.seed,
        })
    };
    baseline.valid_trials().filter_map(block).collect()
}

/// Finds where the ratio goes from worse to better. `means` are logarithms, by number of connections.
fn connections_needed(means: &[(u32, f64)], is_better_higher: bool) -> ConnectionsNeeded {
    let is_worse = |log: f64| {
        if is_better_higher {
            log < 0.0
        } else {
            log > 0.0
        }
    };
    let mut crossings = means
        .windows(2)
        .filter(|pair| is_worse(pair[0].1) != is_worse(pair[1].1));
    let Some(crossing) = crossings.next() else {
        return if means.first().is_some_and(|(_, log)| is_worse(*log)) {
            ConnectionsNeeded::More
        } else {
            ConnectionsNeeded::Fewest
        };
    };
    let [(few, before), (many, behind)] = [crossing[0], crossing[1]];
    if crossings.next().is_some() || !is_worse(before) {
        return ConnectionsNeeded::Unclear;
    }
    let (few, many) = (f64::from(few).ln(), f64::from(many).ln());
    ConnectionsNeeded::About((few + (many - few) * before / (before - behind)).exp())
}

/// The range of connection counts whose ratio cannot be distinguished from 1, including the interpolated crossing.
fn interval(
    ladder: &[(u32, usize)],
    blocks: &[Block],
    takes: ConnectionsNeeded,
) -> Option<ConnectionRange> {
    if smallest_sign_flip(blocks.len()) > LEVEL {
        return None;
    }
    let mut possible = match takes {
        ConnectionsNeeded::About(connections) => Some((connections, connections)),
        ConnectionsNeeded::Fewest | ConnectionsNeeded::More | ConnectionsNeeded::Unclear => None,
    };
    for (rung, pair) in ladder.windows(2).enumerate() {
        let (few, many) = (f64::from(pair[0].0).ln(), f64::from(pair[1].0).ln());
        for step in 0..=STEPS {
            let part = f64::from(step) / f64::from(STEPS);
            let logs = blocks
                .iter()
                .map(|block| block.logs[rung] * (1.0 - part) + block.logs[rung + 1] * part);
            let logs: Vec<f64> = logs.collect();
            if sign_flip(&logs, blocks[0].seed) > LEVEL {
                let at = (few + (many - few) * part).exp();
                let (low, high) = possible.unwrap_or((at, at));
                possible = Some((low.min(at), high.max(at)));
            }
        }
    }
    let (low, high) = possible?;
    let (fewest, most) = (f64::from(ladder.first()?.0), f64::from(ladder.last()?.0));
    // The search stops at the smallest and the largest number that were tried; the interval may reach beyond them.
    let is_at = |value: f64, end: f64| (value / end - 1.0).abs() < 1e-9;
    Some(ConnectionRange {
        low: (!is_at(low, fewest)).then_some(low),
        high: (!is_at(high, most)).then_some(high),
    })
}

impl Crossover {
    /// The crossover as a sentence, without a full stop: `It takes about 5.30 connections to reach h1's p99 (3.90 to 8.10
    /// with 95 % confidence)`.
    pub fn sentence(&self) -> String {
        let goal = format!("{}'s {}", self.baseline, measure_name(self.measure));
        let (Some(fewest), Some(most)) = (self.tried.first(), self.tried.last()) else {
            return format!("Nothing is known of {goal}");
        };
        let count =
            |rung: &Rung| figure::counted(u64::from(rung.connections), "connection", "connections");
        let text = match self.takes {
            ConnectionsNeeded::Fewest => format!("{} reaches {goal}", capital(&count(fewest))),
            ConnectionsNeeded::About(connections) => format!(
                "It takes about {} connections to reach {goal}",
                figure::three_digits(connections)
            ),
            ConnectionsNeeded::More => format!("{} do not reach {goal}", capital(&count(most))),
            ConnectionsNeeded::Unclear => format!(
                "No single number of connections reaches {goal}: more of them are not simply better"
            ),
        };
        let number = figure::three_digits;
        match self.interval {
            None => text,
            Some(ConnectionRange { low, high }) => {
                let range = match (low, high) {
                    (Some(low), Some(high)) => format!("{} to {}", number(low), number(high)),
                    (Some(low), None) => format!("{} or more", number(low)),
                    (None, Some(high)) => format!("{} or fewer", number(high)),
                    (None, None) => "any number that was tried".to_owned(),
                };
                format!("{text} ({range} with 95 % confidence)")
            }
        }
    }
}

fn capital(text: &str) -> String {
    let mut chars = text.chars();
    let first = chars.next().map(char::to_uppercase);
    first.into_iter().flatten().chain(chars).collect()
}

#[cfg(test)]
mod tests {
    use super::ConnectionsNeeded::{About, Fewest, More, Unclear};
    use super::*;

    const LADDER: [(u32, usize); 3] = [(1, 0), (4, 1), (16, 2)];

    fn blocks(ratios: &[[f64; 3]]) -> Vec<Block> {
        let block = |(seed, ratios): (usize, &[f64; 3])| Block {
            logs: ratios.iter().map(|ratio| ratio.ln()).collect(),
            seed: seed as u64,
        };
        ratios.iter().enumerate().map(block).collect()
    }

    fn needed(ratios: [f64; 3], is_better_higher: bool) -> ConnectionsNeeded {
        let rungs = LADDER.iter().zip(ratios);
        let means: Vec<(u32, f64)> = rungs
            .map(|((count, _), ratio)| (*count, ratio.ln()))
            .collect();
        connections_needed(&means, is_better_higher)
    }

    fn interval_of(ratios: &[[f64; 3]], takes: ConnectionsNeeded) -> Option<ConnectionRange> {
        interval(&LADDER, &blocks(ratios), takes)
    }

    #[test]
    fn the_ratio_is_interpolated_in_logarithms() {
        // The ratio falls from 4 to 1/4 between 4 and 16 connections; half way in logarithms is 8.
        let About(connections) = needed([16.0, 4.0, 0.25], false) else {
            panic!("there is a crossing");
        };
        assert!((connections - 8.0).abs() < 1e-9, "{connections}");
        assert_eq!(needed([8.0, 4.0, 2.0], false), More);
        assert_eq!(needed([0.9, 0.5, 0.2], false), Fewest);
    }

    #[test]
    fn higher_throughput_counts_as_better() {
        assert_eq!(needed([0.2, 0.5, 0.9], true), More);
        assert!(matches!(needed([0.2, 0.5, 2.0], true), About(_)));
    }

    #[test]
    fn a_ratio_that_gets_worse_or_crosses_twice_is_unclear() {
        assert_eq!(needed([0.5, 2.0, 4.0], false), Unclear);
        assert_eq!(needed([2.0, 0.5, 2.0], false), Unclear);
    }

    #[test]
    fn an_interval_needs_six_repetitions() {
        let same = [[16.0, 4.0, 0.25]; 5];
        assert_eq!(interval_of(&same, About(8.0)), None);
        let six = [[16.0, 4.0, 0.25]; 6];
        let range = interval_of(&six, About(8.0)).unwrap();
        // All repetitions cross at 8 exactly, so nothing else is possible.
        let (low, high) = (range.low.unwrap(), range.high.unwrap());
        assert!(
            (low - 8.0).abs() < 0.2 && (high - 8.0).abs() < 0.2,
            "{range:?}"
        );
    }

    #[test]
    fn interval_covers_the_crossings_of_both_halves_of_the_repetitions() {
        let early = [16.0, 1.0, 0.25];
        let late = [16.0, 4.0, 1.0];
        let mixed = [early, late, early, late, early, late];
        let range = interval_of(&mixed, About(8.0)).unwrap();
        assert!(range.low.unwrap() < 8.0, "{range:?}");
        assert!(range.high.is_none_or(|high| high > 8.0), "{range:?}");
    }

    #[test]
    fn interval_is_open_beyond_the_tried_connections() {
        let noisy = [[4.0, 2.0, 1.2], [4.0, 2.0, 0.8], [4.0, 2.0, 1.3]];
        let range = interval_of(&[noisy, noisy].concat(), More).unwrap();
        assert!(range.low.is_some_and(|low| low > 4.0), "{range:?}");
        assert_eq!(range.high, None);
    }

    #[test]
    fn crossover_reads_as_a_sentence() {
        let mut crossover = Crossover {
            baseline: "h1".to_owned(),
            measure: Measure::USUAL,
            tried: [(1, 16.0), (16, 0.25)]
                .map(|(connections, ratio)| Rung {
                    variant: format!("x{connections}"),
                    connections,
                    ratio,
                })
                .to_vec(),
            repetitions: 6,
            takes: About(5.3),
            interval: Some(ConnectionRange {
                low: Some(3.9),
                high: None,
            }),
        };
        assert_eq!(
            crossover.sentence(),
            "It takes about 5.30 connections to reach h1's p99 (3.90 or more with 95 % confidence)"
        );
        (crossover.takes, crossover.interval) = (More, None);
        assert_eq!(crossover.sentence(), "16 connections do not reach h1's p99");
        crossover.takes = Fewest;
        assert_eq!(crossover.sentence(), "1 connection reaches h1's p99");
    }
}
