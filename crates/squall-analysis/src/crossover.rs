//! How many connections it takes: where variants that differ in nothing but their number of connections become as good as
//! another variant.
//!
//! The ratio to the other variant is interpolated between the numbers that were tried, linearly in the logarithms of both.
//! The interval holds every number whose ratio the trials do not tell from 1, by the test of the verdicts (`stats::sign_flip`)
//! at the same level, so it needs six repetitions, as they do. Nothing is extrapolated. Whether single variants differ is
//! `verdict`'s.

use serde::{Deserialize, Serialize};
use squall_base::plan::{Connections, Measure, Variant};

use crate::figure;
use crate::stats::sign_flip::{sign_flip, smallest_sign_flip};
use crate::summary::CellSummary;
use crate::trial::TrialStats;
use crate::value::name;
use crate::verdict::LEVEL;

/// How finely the interval is looked for between two numbers that were tried.
const STEPS: u32 = 64;

/// Where variants with more and more connections become as good as another variant, under one condition.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Crossover {
    /// The other variant.
    pub baseline: String,
    /// By what they are compared.
    pub measure: Measure,
    /// The numbers of connections that were tried, in ascending order.
    pub tried: Vec<Rung>,
    /// Repetitions in which all of them can be compared.
    pub repetitions: u64,
    /// How many connections it takes.
    pub takes: Takes,
    /// The least and the most that it may take, with 95 % confidence; `None` where there are too few repetitions.
    pub interval: Option<Range>,
}

/// One number of connections.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Rung {
    /// The variant that has it.
    pub variant: String,
    /// Connections of the hop across the link.
    pub connections: u32,
    /// The variant's value over the baseline's: the geometric mean over repetitions.
    pub ratio: f64,
}

/// How many connections it takes to be as good as the other variant.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Takes {
    /// The fewest that were tried are enough.
    Fewest,
    /// This number of connections, interpolated between two that were tried.
    About(f64),
    /// More than were tried.
    More,
    /// More connections are not simply better: the ratio crosses 1 the other way, or more than once.
    Unclear,
}

/// The least and the most connections; `None` is beyond what was tried.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct Range {
    /// The least.
    pub low: Option<f64>,
    /// The most.
    pub high: Option<f64>,
}

/// The crossovers with each variant that is not one of those with more and more connections.
pub(crate) fn crossovers(
    variants: &[Variant],
    cells: &[CellSummary],
    asked: Measure,
) -> Vec<Crossover> {
    let ladder = ladder(variants);
    let is_other = |place: &usize| !ladder.iter().any(|(_, rung)| rung == place);
    let others = (0..variants.len()).filter(is_other);
    let found = others.filter_map(|other| crossover(&ladder, &cells[other], cells, asked));
    found.collect()
}

/// The variants that differ in nothing but how many connections they keep across the link, by that number; none if there are
/// not two. Of several such groups, the largest.
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
    for hop in &mut variant.hops {
        if hop.across_link {
            hop.connections = Connections::Fixed(0);
            hop.pool.warm = 0;
        }
    }
    variant
}

fn crossover(
    ladder: &[(u32, usize)],
    baseline: &CellSummary,
    cells: &[CellSummary],
    asked: Measure,
) -> Option<Crossover> {
    let rungs = || ladder.iter().map(|(_, place)| &cells[*place]);
    let measure = measured(asked, baseline, &rungs())?;
    let blocks = blocks(measure, baseline, &rungs());
    if ladder.is_empty() || blocks.is_empty() {
        return None;
    }
    let tried = ladder.iter().enumerate().map(|(rung, (connections, _))| {
        let logs = blocks.iter().map(|block| block.logs[rung]);
        (*connections, logs.sum::<f64>() / blocks.len() as f64)
    });
    let means: Vec<(u32, f64)> = tried.collect();
    let takes = takes(&means, measure.is_better_higher());
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

/// The first of the measure and its substitutes that all valid trials have.
fn measured<'a>(
    asked: Measure,
    baseline: &'a CellSummary,
    rungs: &(impl Iterator<Item = &'a CellSummary> + Clone),
) -> Option<Measure> {
    let trials = || std::iter::once(baseline).chain(rungs.clone());
    let mut candidates = asked.with_substitutes().into_iter();
    candidates.find(|measure| {
        let mut values = trials().flat_map(CellSummary::valid_trials);
        values.all(|trial| trial.value(*measure).is_some())
    })
}

/// One repetition, in which all variants met the same link.
struct Block {
    /// By place in the ladder: the logarithm of the ratio to the baseline.
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

/// Where the ratio goes from worse to better. `means` are logarithms, by number of connections.
fn takes(means: &[(u32, f64)], is_better_higher: bool) -> Takes {
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
            Takes::More
        } else {
            Takes::Fewest
        };
    };
    let [(few, before), (many, behind)] = [crossing[0], crossing[1]];
    if crossings.next().is_some() || !is_worse(before) {
        return Takes::Unclear;
    }
    let (few, many) = (f64::from(few).ln(), f64::from(many).ln());
    Takes::About((few + (many - few) * before / (before - behind)).exp())
}

/// Every number of connections whose ratio is not told from 1, and the one where it is 1.
fn interval(ladder: &[(u32, usize)], blocks: &[Block], takes: Takes) -> Option<Range> {
    if smallest_sign_flip(blocks.len()) > LEVEL {
        return None;
    }
    let mut possible = match takes {
        Takes::About(connections) => Some((connections, connections)),
        Takes::Fewest | Takes::More | Takes::Unclear => None,
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
    // The ends of what was tried are where the search ends, not the interval.
    let is_at = |value: f64, end: f64| (value / end - 1.0).abs() < 1e-9;
    Some(Range {
        low: (!is_at(low, fewest)).then_some(low),
        high: (!is_at(high, most)).then_some(high),
    })
}

impl Crossover {
    /// The same in a sentence, without a full stop: `It takes about 5.30 connections to reach h1's p99 (3.90 to 8.10 with
    /// 95 % confidence)`.
    pub fn sentence(&self) -> String {
        let goal = format!("{}'s {}", self.baseline, name(self.measure));
        let (Some(fewest), Some(most)) = (self.tried.first(), self.tried.last()) else {
            return format!("Nothing is known of {goal}");
        };
        let count =
            |rung: &Rung| figure::counted(u64::from(rung.connections), "connection", "connections");
        let text = match self.takes {
            Takes::Fewest => format!("{} reaches {goal}", capital(&count(fewest))),
            Takes::About(connections) => format!(
                "It takes about {} connections to reach {goal}",
                figure::three_digits(connections)
            ),
            Takes::More => format!("{} do not reach {goal}", capital(&count(most))),
            Takes::Unclear => format!(
                "No single number of connections reaches {goal}: more of them are not simply better"
            ),
        };
        let number = figure::three_digits;
        match self.interval {
            None => text,
            Some(Range { low, high }) => {
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
    use super::*;

    const LADDER: [(u32, usize); 3] = [(1, 0), (4, 1), (16, 2)];

    fn blocks(ratios: &[[f64; 3]]) -> Vec<Block> {
        let block = |(seed, ratios): (usize, &[f64; 3])| Block {
            logs: ratios.iter().map(|ratio| ratio.ln()).collect(),
            seed: seed as u64,
        };
        ratios.iter().enumerate().map(block).collect()
    }

    fn means(ratios: [f64; 3]) -> Vec<(u32, f64)> {
        let rungs = LADDER.iter().zip(ratios);
        rungs
            .map(|((count, _), ratio)| (*count, ratio.ln()))
            .collect()
    }

    #[test]
    fn the_ratio_is_interpolated_in_logarithms() {
        // From 4 times to a quarter between 4 and 16 connections: half way, which is 8.
        let Takes::About(connections) = takes(&means([16.0, 4.0, 0.25]), false) else {
            panic!("there is a crossing");
        };
        assert!((connections - 8.0).abs() < 1e-9, "{connections}");
        assert_eq!(takes(&means([8.0, 4.0, 2.0]), false), Takes::More);
        assert_eq!(takes(&means([0.9, 0.5, 0.2]), false), Takes::Fewest);
    }

    #[test]
    fn of_throughput_higher_is_better() {
        assert_eq!(takes(&means([0.2, 0.5, 0.9]), true), Takes::More);
        assert!(matches!(
            takes(&means([0.2, 0.5, 2.0]), true),
            Takes::About(_)
        ));
    }

    #[test]
    fn a_ratio_that_gets_worse_or_crosses_twice_is_unclear() {
        assert_eq!(takes(&means([0.5, 2.0, 4.0]), false), Takes::Unclear);
        assert_eq!(takes(&means([2.0, 0.5, 2.0]), false), Takes::Unclear);
    }

    #[test]
    fn an_interval_needs_six_repetitions() {
        let same = [[16.0, 4.0, 0.25]; 5];
        assert_eq!(interval(&LADDER, &blocks(&same), Takes::About(8.0)), None);
        let six = [[16.0, 4.0, 0.25]; 6];
        let range = interval(&LADDER, &blocks(&six), Takes::About(8.0)).unwrap();
        // All repetitions cross at 8 exactly, so nothing else is possible.
        let (low, high) = (range.low.unwrap(), range.high.unwrap());
        assert!(
            (low - 8.0).abs() < 0.2 && (high - 8.0).abs() < 0.2,
            "{range:?}"
        );
    }

    #[test]
    fn an_interval_has_the_crossing_of_each_half_of_the_repetitions() {
        let early = [16.0, 1.0, 0.25];
        let late = [16.0, 4.0, 1.0];
        let mixed = [early, late, early, late, early, late];
        let range = interval(&LADDER, &blocks(&mixed), Takes::About(8.0)).unwrap();
        assert!(range.low.unwrap() < 8.0, "{range:?}");
        assert!(range.high.is_none_or(|high| high > 8.0), "{range:?}");
    }

    #[test]
    fn an_interval_beyond_what_was_tried_is_open() {
        let noisy = [[4.0, 2.0, 1.2], [4.0, 2.0, 0.8], [4.0, 2.0, 1.3]];
        let range = interval(&LADDER, &blocks(&[noisy, noisy].concat()), Takes::More).unwrap();
        assert!(range.low.is_some_and(|low| low > 4.0), "{range:?}");
        assert_eq!(range.high, None);
    }

    #[test]
    fn it_is_said_in_a_sentence() {
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
            takes: Takes::About(5.3),
            interval: Some(Range {
                low: Some(3.9),
                high: None,
            }),
        };
        assert_eq!(
            crossover.sentence(),
            "It takes about 5.30 connections to reach h1's p99 (3.90 or more with 95 % confidence)"
        );
        (crossover.takes, crossover.interval) = (Takes::More, None);
        assert_eq!(crossover.sentence(), "16 connections do not reach h1's p99");
        crossover.takes = Takes::Fewest;
        assert_eq!(crossover.sentence(), "1 connection reaches h1's p99");
    }
}
