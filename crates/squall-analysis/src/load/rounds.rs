//! Compares loads: what several interleaved rounds of each variant show, and whether they show anything at all.
//!
//! The round is the unit, as the trial is elsewhere: requests of one round share their luck and are never pooled. Trials
//! have links of the same seed and are compared in pairs (`verdict`). Rounds over a real network have no such pairs, so a
//! difference is stated only if the ranges over all rounds do not overlap, by more than the generator's own lag.

use serde::Serialize;
use squall_base::{Duration, Time};

use super::totals::LoadTotals;
use crate::cell::Spread;
use crate::quantile::{Quantile, Sample};
use crate::stats::sign_flip::ways;

/// The results of one round of one variant.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct Round {
    /// Requests that ended.
    pub requests: u64,
    /// Requests that ended without a response, or with a status of 400 or more, and gRPC calls that failed.
    pub failed: u64,
    /// Requests that were abandoned unfinished.
    pub censored: u64,
    /// Successful requests per second in the measured phase.
    pub rate_per_s: Option<f64>,
    /// Median response time of all requests; failed ones count as infinite.
    #[serde(rename = "p50_ns")]
    pub p50: Option<Quantile>,
    /// The 90th percentile.
    #[serde(rename = "p90_ns")]
    pub p90: Option<Quantile>,
    /// The 99th percentile.
    #[serde(rename = "p99_ns")]
    pub p99: Option<Quantile>,
    /// The 99th percentile of the generator's lag, or its maximum if there are too few requests: what it may have added to
    /// a p99.
    #[serde(rename = "lag_p99_ns")]
    pub lag_p99: Duration,
}

/// All rounds of one variant.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct VariantRounds {
    /// Its name.
    pub name: String,
    /// Its rounds, in the order in which they ran.
    pub rounds: Vec<Round>,
}

/// A figure of a round.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum RoundFigure {
    /// Requests per second.
    Rate,
    /// Median response time.
    P50,
    /// The 90th percentile.
    P90,
    /// The 99th percentile.
    P99,
}

/// How a variant's figure compares with the baseline's.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Order {
    /// Higher in every round than in each of the baseline's.
    Higher,
    /// Lower in every round than in each of the baseline's.
    Lower,
    /// The ranges overlap, or are no further apart than our own error.
    NotShown,
    /// There are no figures to compare, or only one round of each: any two rounds differ.
    Unknown,
}

/// One figure of a variant compared with the baseline's.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct FigureComparison {
    /// Which figure.
    pub figure: RoundFigure,
    /// The conclusion.
    pub order: Order,
    /// The median over the variant's rounds divided by that over the baseline's, if both are known.
    pub ratio: Option<f64>,
}

/// A variant compared with the baseline.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct RoundsComparison {
    /// The variant.
    pub variant: String,
    /// What it is compared with: the first variant.
    pub baseline: String,
    /// Rate, p50, p90 and p99.
    pub figures: Vec<FigureComparison>,
    /// How often chance alone would set the ranges of one figure apart, if both variants were equal.
    pub by_chance: f64,
}

impl Round {
    /// The figures of a round that was over at `end`.
    pub fn of(totals: &LoadTotals, end: Time) -> Round {
        Round {
            requests: totals.requests(),
            failed: totals.failed(),
            censored: totals.censored(),
            rate_per_s: totals.achieved_per_s(end),
            p50: totals.response_quantile(0.5),
            p90: totals.response_quantile(0.9),
            p99: totals.response_quantile(0.99),
            lag_p99: totals
                .lag()
                .quantile(0.99)
                .or(totals.lag().max())
                .unwrap_or_default(),
        }
    }

    fn quantile(&self, figure: RoundFigure) -> Option<Quantile> {
        match figure {
            RoundFigure::Rate => None,
            RoundFigure::P50 => self.p50,
            RoundFigure::P90 => self.p90,
            RoundFigure::P99 => self.p99,
        }
    }
}

impl VariantRounds {
    /// The rate over the rounds.
    pub fn rate_per_s(&self) -> Option<Spread<f64>> {
        let rates = self.rounds.iter().filter_map(|round| round.rate_per_s);
        let mut rates: Vec<f64> = rates.collect();
        rates.sort_unstable_by(f64::total_cmp);
        Spread::of_sorted(&rates)
    }

    /// A quantile over the rounds; `None` for the rate, or unless every round has it. The rounds left out would
    /// be those with the fewest responses.
    pub fn quantile(&self, figure: RoundFigure) -> Option<Spread<Quantile>> {
        spread_over_rounds(self.rounds.iter().map(|round| round.quantile(figure)))
    }

    /// Failed and unfinished requests of all rounds.
    pub fn errors(&self) -> u64 {
        let of_each = self.rounds.iter().map(|it| it.failed + it.censored);
        of_each.sum()
    }

    fn lag_p99(&self) -> Duration {
        let of_each = self.rounds.iter().map(|round| round.lag_p99);
        of_each.max().unwrap_or_default()
    }
}

/// The spread of a value over the rounds; `None` unless every round has the value.
pub fn spread_over_rounds(
    values: impl Iterator<Item = Option<Quantile>>,
) -> Option<Spread<Quantile>> {
    let every: Option<Sample> = values.collect();
    Spread::of_sample(&every?)
}

/// Rates closer than this are equal: open loads have the schedule's rate, and the length of the measured phase is known
/// only to a round trip.
const RATE_SHOWS: f64 = 1.001;

/// Compares each variant with the first.
pub fn compare_rounds(variants: &[VariantRounds]) -> Vec<RoundsComparison> {
    let Some((baseline, others)) = variants.split_first() else {
        return Vec::new();
    };
    others
        .iter()
        .map(|variant| compare(variant, baseline))
        .collect()
}

fn compare(variant: &VariantRounds, baseline: &VariantRounds) -> RoundsComparison {
    let by_chance = apart_by_chance(variant.rounds.len(), baseline.rounds.len());
    let mut figures = vec![compare_rates(variant, baseline)];
    let quantiles = [RoundFigure::P50, RoundFigure::P90, RoundFigure::P99];
    figures.extend(quantiles.map(|figure| compare_quantiles(figure, variant, baseline)));
    if by_chance >= 1.0 {
        figures
            .iter_mut()
            .for_each(|figure| figure.order = Order::Unknown);
    }
    RoundsComparison {
        variant: variant.name.clone(),
        baseline: baseline.name.clone(),
        figures,
        by_chance,
    }
}

fn compare_rates(variant: &VariantRounds, baseline: &VariantRounds) -> FigureComparison {
    let found = variant.rate_per_s().zip(baseline.rate_per_s());
    FigureComparison {
        figure: RoundFigure::Rate,
        order: match found {
            Some((of, than)) if of.low > than.high * RATE_SHOWS => Order::Higher,
            Some((of, than)) if of.high * RATE_SHOWS < than.low => Order::Lower,
            Some(_) => Order::NotShown,
            None => Order::Unknown,
        },
        ratio: found
            .filter(|(_, than)| than.median > 0.0)
            .map(|(of, than)| of.median / than.median),
    }
}

fn compare_quantiles(
    figure: RoundFigure,
    variant: &VariantRounds,
    baseline: &VariantRounds,
) -> FigureComparison {
    let found = variant.quantile(figure).zip(baseline.quantile(figure));
    let own_error = variant.lag_p99() + baseline.lag_p99();
    let exact = |quantile: Quantile| quantile.exact().filter(|span| !span.is_zero());
    FigureComparison {
        figure,
        order: match found {
            Some((of, than)) if is_above(of.low, than.high, own_error) => Order::Higher,
            Some((of, than)) if is_above(than.low, of.high, own_error) => Order::Lower,
            Some(_) => Order::NotShown,
            None => Order::Unknown,
        },
        ratio: found.and_then(|(of, than)| {
            let (of, than) = (exact(of.median)?, exact(than.median)?);
            Some(of.as_secs_f64() / than.as_secs_f64())
        }),
    }
}

/// True if `high` is known to be longer than `low`, by more than our own error.
fn is_above(high: Quantile, low: Quantile, own_error: Duration) -> bool {
    match (high.lower_bound(), low.exact()) {
        (Some(high), Some(low)) => high > low + own_error,
        (None, Some(_)) => true,
        (_, None) => false,
    }
}

/// How often the ranges of `a` and of `b` values from the same distribution do not overlap: in two of their
/// `(a + b)! / (a! b!)` orders, all of which are equally likely. 1 unless there are at least two of each.
fn apart_by_chance(a: usize, b: usize) -> f64 {
    if a.min(b) < 2 {
        return 1.0;
    }
    2.0 / ways(a, b)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::load::MeasuredPhase;
    use crate::load::requests::{answered, at, failed};
    use squall_base::record::Outcome;

    /// A variant whose rounds have 400 requests of these times in microseconds.
    fn variant(name: &str, took_us: &[u64]) -> VariantRounds {
        let round = |took_us: &u64| {
            let mut totals = LoadTotals::new(MeasuredPhase::default());
            (0..400).for_each(|n| totals.add(&answered(n, *took_us)));
            Round::of(&totals, at(400 * took_us))
        };
        VariantRounds {
            name: name.to_owned(),
            rounds: took_us.iter().map(round).collect(),
        }
    }

    fn orders(of: &[u64], than: &[u64]) -> [Order; 4] {
        let compared = compare_rounds(&[variant("h1", than), variant("h2", of)]);
        let orders: Vec<Order> = compared[0]
            .figures
            .iter()
            .map(|figure| figure.order)
            .collect();
        orders.try_into().unwrap()
    }

    #[test]
    fn ranges_that_lie_apart_are_a_difference() {
        use Order::{Higher, Lower, NotShown, Unknown};
        assert_eq!(
            orders(&[500, 600, 700], &[800, 900, 1_000]),
            [Higher, Lower, Lower, Lower]
        );
        assert_eq!(
            orders(&[800, 900, 1_000], &[500, 600, 700]),
            [Lower, Higher, Higher, Higher]
        );
        assert_eq!(orders(&[500, 600, 850], &[800, 900, 1_000]), [NotShown; 4]);
        assert_eq!(orders(&[500], &[800]), [Unknown; 4]);
    }

    #[test]
    fn a_difference_within_the_generators_lag_is_not_shown() {
        let mut variants = [variant("h1", &[500, 510]), variant("h2", &[600, 610])];
        variants[1].rounds[0].lag_p99 = Duration::from_micros(95);
        let compared = compare_rounds(&variants);
        assert_eq!(compared[0].figures[3].order, Order::NotShown);
        assert_eq!(compared[0].figures[3].ratio, Some(605.0 / 505.0));
    }

    #[test]
    fn a_variant_that_fails_fast_is_not_faster() {
        let mut fast = LoadTotals::new(MeasuredPhase::default());
        (0..300).for_each(|n| fast.add(&answered(n, 10)));
        (0..100).for_each(|n| fast.add(&failed(n, 1, Outcome::ConnectionClosed, "reset")));
        let round = Round::of(&fast, at(1_000));
        assert_eq!((round.p99, round.failed), (Some(Quantile::Never), 100));
        let fast = VariantRounds {
            name: "fast".to_owned(),
            rounds: vec![round; 3],
        };
        let compared = compare_rounds(&[variant("h1", &[800, 900, 1_000]), fast.clone()]);
        assert_eq!(
            (compared[0].figures[3].order, compared[0].figures[3].ratio),
            (Order::Higher, None)
        );
        assert_eq!(fast.errors(), 300);
    }

    #[test]
    fn chance_follows_from_the_number_of_orders_of_rounds() {
        assert!((apart_by_chance(3, 3) - 0.1).abs() < 1e-9);
        assert!((apart_by_chance(2, 4) - 2.0 / 15.0).abs() < 1e-9);
        assert_eq!(apart_by_chance(1, 9), 1.0);
        assert_eq!(compare_rounds(&[]), []);
    }
}
