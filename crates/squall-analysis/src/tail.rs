//! What made the slowest requests of a trial slow, and what that says about two variants.
//!
//! `causes` finds the causes; here they are only averaged over the slowest 1 %, the requests that a p99 leaves out. A trial
//! without causes yields nothing.

use serde::{Deserialize, Serialize};
use squall_base::Duration;
use squall_base::record::{Cause, CauseSpans, CausesRecord, Outcome, Phase, RequestRecord};

/// One request in this many counts as slowest.
const ONE_OF: usize = 100;

/// The mean time that the slowest 1 % of a trial's requests spent on each cause.
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
    pub mean: Duration,
}

/// The cause that accounts for most of the difference between the tails of two variants.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct TailShare {
    /// The cause's name in the record.
    pub cause: String,
    /// Its share of all causes that take longer in the longer tail, from 0 to 1: the median over the pairs.
    pub share: f64,
}

impl TailCauses {
    /// From a trial's measured requests that did not fail, and their causes, both in any order; `None` if none of them has
    /// causes.
    pub fn of(requests: &[RequestRecord], causes: &[CausesRecord]) -> Option<TailCauses> {
        let has_end = |r: &&RequestRecord| r.succeeded() || r.outcome == Outcome::Censored;
        let measured = requests.iter().filter(|r| r.phase == Phase::Measure);
        let mut slowest: Vec<(Duration, u64)> = measured
            .filter(has_end)
            .map(|request| (request.response_time(), request.request))
            .collect();
        slowest.sort_unstable_by(|a, b| b.cmp(a));
        slowest.truncate(slowest.len().div_ceil(ONE_OF));
        let mut names: Vec<u64> = slowest.into_iter().map(|(_, request)| request).collect();
        names.sort_unstable();
        let rows: Vec<&CausesRecord> = causes
            .iter()
            .filter(|row| names.binary_search(&row.request).is_ok())
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
    /// From pairs of trials, the one with the longer tail first. `None` unless every pair has causes and a longer tail, and
    /// one cause leads in more than half of the pairs.
    pub(crate) fn of(pairs: &[(Option<&TailCauses>, Option<&TailCauses>)]) -> Option<TailShare> {
        let mut leaders: Vec<(&str, f64)> = Vec::with_capacity(pairs.len());
        for (longer, shorter) in pairs {
            let (longer, shorter) = ((*longer)?, (*shorter)?);
            let net: f64 = longer.beyond(shorter).map(|(_, ns)| ns).sum();
            let gained: f64 = longer.beyond(shorter).map(|(_, ns)| ns.max(0.0)).sum();
            let (cause, most) = longer.beyond(shorter).max_by(|a, b| a.1.total_cmp(&b.1))?;
            if net <= 0.0 {
                return None;
            }
            leaders.push((cause, most / gained));
        }
        let leads = |cause: &str| leaders.iter().filter(|(other, _)| *other == cause).count();
        let (cause, _) = *leaders
            .iter()
            .find(|(cause, _)| 2 * leads(cause) > leaders.len())?;
        let shares = pairs.iter().filter_map(|(longer, shorter)| {
            let (longer, shorter) = ((*longer)?, (*shorter)?);
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
            "loss" => "the loss of their own bytes",
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
