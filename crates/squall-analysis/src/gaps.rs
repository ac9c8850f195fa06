//! The gaps between arrivals of a trial's response bodies as figures of a measure.
//!
//! The client summed them up while it ran (`GapFigures`), because a trial has no row for each gap. This module only
//! decides which figures have enough gaps to be reported.

use squall_base::Duration;
use squall_base::record::GapFigures;

use crate::figures::Figures;
use crate::quantile::{Quantile, suffices};
use crate::threshold::Percentile;

/// The figures of a trial's gaps. They are exact, even if requests failed: if a response was cut off, its last gap
/// ends there.
pub(crate) fn figures(gaps: &GapFigures) -> Figures {
    let quantile = |share, value| known(gaps, share, value);
    let range = suffices(gaps.count, 0.75).then(|| Quantile::Exact(gaps.p75 - gaps.p25));
    Figures {
        mean: (gaps.count > 0).then_some(Quantile::Exact(gaps.mean)),
        median: quantile(0.5, gaps.p50),
        p90: quantile(0.9, gaps.p90),
        p95: quantile(0.95, gaps.p95),
        p99: quantile(0.99, gaps.p99),
        p999: quantile(0.999, gaps.p999),
        interquartile_range: range,
    }
}

/// A percentile of the gaps; `None` for one that no trial records.
pub(crate) fn percentile(gaps: &GapFigures, percentile: Percentile) -> Option<Quantile> {
    let value = match percentile.per_million() {
        250_000 => gaps.p25,
        500_000 => gaps.p50,
        750_000 => gaps.p75,
        900_000 => gaps.p90,
        950_000 => gaps.p95,
        990_000 => gaps.p99,
        999_000 => gaps.p999,
        _ => return None,
    };
    known(gaps, f64::from(percentile.per_million()) / 1e6, value)
}

fn known(gaps: &GapFigures, share: f64, value: Duration) -> Option<Quantile> {
    suffices(gaps.count, share).then_some(Quantile::Exact(value))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn percentiles_of_gaps_need_as_many_values_as_those_of_requests() {
        let ms = Duration::from_millis;
        let gaps = GapFigures {
            count: 367,
            mean: ms(21),
            p25: ms(18),
            p50: ms(20),
            p75: ms(23),
            p99: ms(80),
            ..GapFigures::default()
        };
        let found = figures(&gaps);
        assert_eq!(found.median, Some(Quantile::Exact(ms(20))));
        assert_eq!(found.interquartile_range, Some(Quantile::Exact(ms(5))));
        assert_eq!(found.p99, None);
        let enough = GapFigures { count: 368, ..gaps };
        assert_eq!(figures(&enough).p99, Some(Quantile::Exact(ms(80))));
        assert_eq!(figures(&GapFigures::default()), Figures::default());
        let of = |per_million| {
            let known = Percentile::new(per_million).expect("a percentile");
            percentile(&enough, known)
        };
        assert_eq!(of(990_000), Some(Quantile::Exact(ms(80))));
        assert_eq!(of(980_000), None);
    }
}
