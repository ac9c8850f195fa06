//! What made a trial's requests near a high percentile slow, and what that says about two variants.
//!
//! `causes` finds the causes; here they are only averaged over the requests whose response times are around the percentile
//! that is compared: the slowest of all need not be slow for the same reason. A trial without causes yields nothing.

use serde::{Deserialize, Serialize};
use squall_base::Duration;
use squall_base::plan::Statistic;
use squall_base::record::{Cause, CauseSpans, CausesRecord, Outcome, Phase, RequestRecord};

/// The causes of the requests around each high percentile of a trial.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Tails {
    /// Around the 90th percentile.
    pub p90: Option<TailCauses>,
    /// Around the 95th percentile.
    pub p95: Option<TailCauses>,
    /// Around the 99th percentile.
    pub p99: Option<TailCauses>,
    /// Around the 99.9th percentile.
    pub p999: Option<TailCauses>,
}

/// The mean time that the requests around a percentile spent on each cause.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct TailCauses {
    /// How many requests that is.
    pub requests: u64,
    /// The mean of each cause, in the order of [`Cause::ALL`].
    pub means: Vec<CauseMean>,
}

/// The mean time on one cause.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct CauseMean {
    /// The cause's name in the record: [`Cause::name`].
    pub cause: String,
    /// The mean.
    #[serde(rename = "mean_ns", alias = "mean")]
    pub mean: Duration,
}

/// The cause that accounts for most of the difference between two variants at a high percentile.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct TailShare {
    /// The cause's name in the record.
    pub cause: String,
    /// Its share of all causes that take longer in the slower variant, from 0 to 1: the median over the pairs.
    pub share: f64,
}

impl Tails {
    /// From a trial's requests and their causes, both in any order. Only measured requests count.
    pub fn of(requests: &[RequestRecord], causes: &[CausesRecord]) -> Tails {
        let mut measured: Vec<&RequestRecord> = requests
            .iter()
            .filter(|request| request.phase == Phase::Measure)
            .collect();
        // A request that failed never ends: it is slower than all others.
        let has_end = |r: &RequestRecord| r.succeeded() || r.outcome == Outcome::Censored;
        measured.sort_unstable_by_key(|r| (!has_end(r), r.response_time(), r.request));
        let around = |beyond: f64| {
            let ranked = around(&measured, beyond);
            let ended = ranked.iter().copied().filter(|request| has_end(request));
            TailCauses::of(ended.map(|request| request.request).collect(), causes)
        };
        Tails {
            p90: around(0.1),
            p95: around(0.05),
            p99: around(0.01),
            p999: around(0.001),
        }
    }

    /// The causes around this statistic; `None` unless it is a high percentile.
    pub(crate) fn at(&self, statistic: Statistic) -> Option<&TailCauses> {
        match statistic {
            Statistic::P90 => self.p90.as_ref(),
            Statistic::P95 => self.p95.as_ref(),
            Statistic::P99 => self.p99.as_ref(),
            Statistic::P999 => self.p999.as_ref(),
            Statistic::Mean | Statistic::P50 | Statistic::Iqr => None,
        }
    }
}

/// The part of `sorted` around the percentile beyond which this share lies: half that share on either side.
fn around<T>(sorted: &[T], beyond: f64) -> &[T] {
    let count = sorted.len();
    let above = |share: f64| (count as f64 * share) as usize;
    let (from, to) = (above(beyond * 1.5), above(beyond * 0.5));
    // From at least one element: the slice is empty only if `sorted` is.
    let to = to.min(count.saturating_sub(1));
    &sorted[count - from.max(to + 1).min(count)..count - to]
}

impl TailCauses {
    /// The means over these requests; `None` if none of them has causes.
    fn of(mut requests: Vec<u64>, causes: &[CausesRecord]) -> Option<TailCauses> {
        requests.sort_unstable();
        let rows: Vec<&CausesRecord> = causes
            .iter()
            .filter(|row| requests.binary_search(&row.request).is_ok())
            .collect();
        if rows.is_empty() {
            return None;
        }
        // A wait in a queue is a wait for the requests ahead: whatever those waited for made this request slow.
        let roots: Vec<CauseSpans> = rows.iter().map(|row| row.root_spans()).collect();
        let mean = |cause: Cause| {
            let own = roots
                .iter()
                .map(|spans| u128::from(spans[cause].as_nanos()));
            let sum: u128 = own.sum();
            // The mean of u64 values is a u64.
            Duration::from_nanos((sum / rows.len() as u128) as u64)
        };
        Some(TailCauses {
            requests: rows.len() as u64,
            means: Cause::ALL
                .into_iter()
                .map(|cause| CauseMean {
                    cause: cause.name().to_owned(),
                    mean: mean(cause),
                })
                .collect(),
        })
    }

    /// For each cause, how many nanoseconds longer it takes than in `other`.
    fn beyond<'a>(&'a self, other: &'a TailCauses) -> impl Iterator<Item = (&'a str, f64)> {
        self.means.iter().map(|own| {
            let same = other.means.iter().find(|mean| mean.cause == own.cause);
            let other = same.map_or(0, |mean| mean.mean.as_nanos());
            (
                own.cause.as_str(),
                own.mean.as_nanos() as f64 - other as f64,
            )
        })
    }
}

impl TailShare {
    /// From pairs of trials, the slower variant's first. `None` unless in every pair both have causes and the first one's
    /// take longer, and one cause leads in more than half of the pairs.
    pub(crate) fn of(pairs: &[(Option<&TailCauses>, Option<&TailCauses>)]) -> Option<TailShare> {
        let known = pairs.iter().map(|(longer, shorter)| longer.zip(*shorter));
        let pairs: Vec<(&TailCauses, &TailCauses)> = known.collect::<Option<_>>()?;
        let mut leaders: Vec<&str> = Vec::with_capacity(pairs.len());
        for (longer, shorter) in &pairs {
            let net: f64 = longer.beyond(shorter).map(|(_, ns)| ns).sum();
            if net <= 0.0 {
                return None;
            }
            let (cause, _) = longer.beyond(shorter).max_by(|a, b| a.1.total_cmp(&b.1))?;
            leaders.push(cause);
        }
        let leads = |cause: &str| leaders.iter().filter(|other| **other == cause).count();
        let mut candidates = leaders.iter().copied();
        let cause = candidates.find(|cause| 2 * leads(cause) > leaders.len())?;
        let shares = pairs.iter().filter_map(|(longer, shorter)| {
            let gained: f64 = longer.beyond(shorter).map(|(_, ns)| ns.max(0.0)).sum();
            let own = longer.beyond(shorter).find(|(name, _)| *name == cause)?;
            Some(own.1.max(0.0) / gained)
        });
        let shares: Vec<f64> = shares.collect();
        Some(TailShare {
            cause: cause.to_owned(),
            share: crate::stats::effect::median(&shares)?,
        })
    }

    /// The cause in a reader's words.
    pub fn words(&self) -> &str {
        match self.cause.as_str() {
            "queue" => "waiting for a connection or stream",
            "connect" => "TCP handshakes",
            "tls" => "TLS or QUIC handshakes",
            "window_stream" => "waiting for the stream's flow-control window",
            "window_connection" => "waiting for the connection's flow-control window",
            "window_receive" => "full TCP receive windows",
            "cwnd" => "waiting for the congestion window",
            "pacing" => "pacing",
            "send_buffer" => "full send buffers",
            "link" => "the link's queue and rate",
            "distance" => "the configured delay",
            "loss" => "the loss of the requests' own bytes",
            "hol" => "head-of-line blocking",
            "record" => "waiting for the rest of TLS records",
            "server" => "the server",
            "host" => "the hosts' own work",
            "unknown" => "of unknown cause",
            other => other,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn tail(spans: &[(Cause, u64)]) -> TailCauses {
        let mean = |cause: Cause| {
            let span = spans.iter().find(|(other, _)| *other == cause);
            CauseMean {
                cause: cause.name().to_owned(),
                mean: Duration::from_millis(span.map_or(0, |(_, ms)| *ms)),
            }
        };
        TailCauses {
            requests: 10,
            means: Cause::ALL.into_iter().map(mean).collect(),
        }
    }

    #[test]
    fn half_the_share_beyond_a_percentile_is_taken_on_either_side_of_it() {
        let sorted: Vec<u32> = (0..1_000).collect();
        assert_eq!(around(&sorted, 0.1), &sorted[850..950]);
        assert_eq!(around(&sorted, 0.01), &sorted[985..995]);
        assert_eq!(around(&sorted, 0.001), &sorted[999..]);
        assert_eq!(around(&sorted[..1], 0.1), &[0]);
        assert!(around(&sorted[..0], 0.1).is_empty());
    }

    #[test]
    fn the_cause_that_leads_is_named_with_its_share() {
        let base = tail(&[(Cause::Distance, 50), (Cause::Loss, 30)]);
        let slow = tail(&[(Cause::Distance, 50), (Cause::Loss, 50), (Cause::Hol, 80)]);
        let other = tail(&[(Cause::Distance, 50), (Cause::Loss, 90), (Cause::Hol, 90)]);
        let of = |pairs: &[(&TailCauses, &TailCauses)]| {
            let pairs: Vec<_> = pairs.iter().map(|(a, b)| (Some(*a), Some(*b))).collect();
            TailShare::of(&pairs)
        };
        let share = of(&[(&slow, &base), (&other, &base)]).unwrap();
        assert_eq!(share.words(), "head-of-line blocking");
        // 80 of 100 and 90 of 150: half way between.
        assert!((share.share - 0.7).abs() < 1e-9, "{share:?}");
        // There is nothing to share out if the tail is not longer, or has no causes.
        assert_eq!(of(&[(&slow, &base), (&base, &slow)]), None);
        assert_eq!(TailShare::of(&[(Some(&slow), None)]), None);
        assert_eq!(TailShare::of(&[]), None);
        // No cause leads in more than half of the pairs.
        let lost = tail(&[(Cause::Loss, 300)]);
        assert_eq!(of(&[(&slow, &base), (&lost, &base)]), None);
    }
}
