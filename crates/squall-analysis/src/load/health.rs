//! How well the load generator did its own work, and what a reader should therefore doubt.
//!
//! A late or busy generator measures itself. This module hides no figure and changes none: it says which to distrust, and
//! what to do. The limits are those of trials (docs/METHOD.md), whose verdict is in their records.

use std::fmt;

use squall_base::record::Lateness;
use squall_base::{Duration, Time};

use super::latencies::{Latencies, rank};
use super::totals::LoadTotals;
use crate::figure;
use crate::quantile::suffices;
use crate::verdict::CARRIED_SHARE;

/// Lag above this share of the median response time means that the latencies measure the generator itself (docs/METHOD.md).
const LAG_SHARE_AT_MOST: f64 = 0.05;

/// Lag up to this occurs on an idle machine too (docs/METHOD.md): it is reported, but no reason to discard a load.
const LAG_OF_A_GOOD_MACHINE: Duration = Duration::from_millis(1);

/// A generator busier than this may be what limits the load: a stall or another thread may take the last tenth unnoticed.
const BUSY_PERCENT: f64 = 90.0;

/// What was asked of the generator and what it used, apart from its requests.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Generator {
    /// Requests per second that were due; `None` if each request waits for the one before (closed loop).
    pub rate_asked_per_s: Option<f64>,
    /// Processor time of its busiest thread: 100 is one whole processor. `None` if unknown.
    pub cpu_percent: Option<f64>,
    /// How the machine delayed its threads; `None` if unknown.
    pub punctuality: Option<Punctuality>,
}

/// How the machine delayed the generator's threads. Lag that it caused is not the generator's own.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Punctuality {
    /// How late threads were woken, for sleeps that lasted until the requested time.
    pub woken_late: Lateness,
    /// The share of all requests' lag that late wake-ups caused, from 0 to 1; `None` if there was no lag.
    pub share_of_lag: Option<f64>,
    /// The lag of each late request without the machine's part: the generator's own work.
    pub own_lag: Lateness,
    /// The longest lag; `None` if there were no requests.
    pub longest: Option<LongestLag>,
    /// The share of the whole machine's processor time that its hypervisor took, from 0 to 1; `None` if unknown.
    pub stolen_share: Option<f64>,
    /// Whether idle processors were kept from going to sleep.
    pub has_awake_processors: bool,
}

impl Punctuality {
    /// Returns `value`, a quantile of `of`; `None` if there were too few samples for it, as in [`Latencies::quantile`].
    pub fn known(of: Lateness, quantile: f64, value: Duration) -> Option<Duration> {
        suffices(of.count, quantile).then_some(value)
    }
}

/// The lag of a request, and the machine's part of it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct LongestLag {
    /// From when the request was due until the generator started to handle it.
    pub lag: Duration,
    /// The part in which the thread slept longer than it had asked to.
    pub machine: Duration,
    /// The part in which the thread was ready to run and another thread had the processor; `None` if the kernel was not
    /// asked.
    pub run_queue_delay: Option<Duration>,
}

/// A reason to doubt a load's figures.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Doubt {
    /// The generator was late: the latencies are invalid.
    Late {
        /// `p99.9`, or `p99` below 1,000 requests.
        quantile: &'static str,
        /// That quantile of its lag.
        lag: Duration,
        /// The median response time.
        median: Duration,
    },
    /// The generator was no later than on a good machine, but the latencies are so short that even this lag shows.
    ShortLatencies {
        /// `p99.9`, or `p99` below 1,000 requests.
        quantile: &'static str,
        /// That quantile of its lag.
        lag: Duration,
        /// The median response time.
        median: Duration,
    },
    /// Fewer than 95 % of the requests that were due succeeded in time, and failures are not the reason.
    NotCarried {
        /// Successful requests per second.
        achieved_per_s: f64,
        /// Requests per second that were due.
        asked_per_s: f64,
    },
    /// The generator had hardly any processor time to spare.
    Busy {
        /// In percent of one processor.
        cpu_percent: f64,
    },
}

impl Generator {
    /// Reasons to doubt the figures of a load that was over at `end`; empty if all is well.
    pub fn doubts(&self, totals: &LoadTotals, end: Time) -> Vec<Doubt> {
        let busy = self
            .cpu_percent
            .filter(|percent| *percent >= BUSY_PERCENT)
            .map(|cpu_percent| Doubt::Busy { cpu_percent });
        lag_doubt(totals)
            .into_iter()
            .chain(self.not_carried(totals, end))
            .chain(busy)
            .collect()
    }

    /// Failed requests count here as ended: they lower the rate too, but their own count already says so.
    fn not_carried(&self, totals: &LoadTotals, end: Time) -> Option<Doubt> {
        let asked_per_s = self.rate_asked_per_s?;
        let achieved_per_s = totals.achieved_per_s(end)?;
        let ended_per_s = achieved_per_s + totals.per_s(totals.failed(), end)?;
        (ended_per_s < asked_per_s * CARRIED_SHARE).then_some(Doubt::NotCarried {
            achieved_per_s,
            asked_per_s,
        })
    }
}

impl Doubt {
    /// True if the latencies must not be used as evidence.
    pub fn is_invalid(&self) -> bool {
        matches!(self, Doubt::Late { .. })
    }
}

fn lag_doubt(totals: &LoadTotals) -> Option<Doubt> {
    // The rule of trials: below 1,000 requests, the 99.9th percentile is simply the latest request.
    let (quantile, share) = match totals.lag().count() {
        0..1_000 => ("p99", 0.99),
        _ => ("p99.9", 0.999),
    };
    let nearest = |of: &Latencies, share| of.at_rank(rank(of.count(), share));
    let lag = nearest(totals.lag(), share)?;
    let median = nearest(totals.response(), 0.5)?;
    let at_most = Duration::from_nanos((median.as_nanos() as f64 * LAG_SHARE_AT_MOST) as u64);
    if lag <= at_most {
        None
    } else if lag <= LAG_OF_A_GOOD_MACHINE {
        Some(Doubt::ShortLatencies {
            quantile,
            lag,
            median,
        })
    } else {
        Some(Doubt::Late {
            quantile,
            lag,
            median,
        })
    }
}

impl fmt::Display for Doubt {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Doubt::Late {
                quantile,
                lag,
                median,
            } => write!(
                f,
                "INVALID: the generator's lag {quantile} of {} is above 5 % of the median latency of {}, so these latencies \
                 are not to be trusted. Lower the rate, or leave the machine idle.",
                figure::span(*lag),
                figure::span(*median),
            ),
            Doubt::ShortLatencies {
                quantile,
                lag,
                median,
            } => write!(
                f,
                "The generator's lag {quantile} of {} is above 5 % of the median latency of {}: the highest percentiles \
                 may be the generator's own.",
                figure::span(*lag),
                figure::span(*median),
            ),
            Doubt::NotCarried {
                achieved_per_s,
                asked_per_s,
            } => write!(
                f,
                "The load was not carried: {} of {} requests/s. Where requests pile up, latencies grow for as long as \
                 the load lasts; find the rate that is carried.",
                figure::rate(*achieved_per_s),
                figure::rate(*asked_per_s),
            ),
            Doubt::Busy { cpu_percent } => write!(
                f,
                "The generator used {cpu_percent:.0} % of a processor: it may be what limits the load. Use more threads, \
                 or a lower rate.",
            ),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::load::MeasuredPhase;
    use crate::load::requests::{answered, at};
    use squall_base::record::RequestRecord;

    fn doubts(lag_us: u64, took_us: u64) -> Vec<Doubt> {
        let mut totals = LoadTotals::new(MeasuredPhase {
            from: Time::ZERO,
            to: Some(at(2_000_000)),
        });
        for n in 0..2_000 {
            let mut request: RequestRecord = answered(n * 1_000, took_us);
            // One in a hundred is late.
            request.taken_up = at(n * 1_000 + if n % 100 == 0 { lag_us } else { 0 });
            totals.add(&request);
        }
        let generator = Generator {
            rate_asked_per_s: Some(1_000.0),
            cpu_percent: Some(12.0),
            punctuality: None,
        };
        generator.doubts(&totals, at(2_100_000))
    }

    #[test]
    fn only_lag_that_shows_in_the_latencies_is_doubted() {
        assert_eq!(doubts(40, 1_000), []);
        assert!(matches!(
            doubts(100, 1_000)[..],
            [Doubt::ShortLatencies { .. }]
        ));
        let late = doubts(2_000, 20_000);
        assert!(late[0].is_invalid(), "{late:?}");
        assert!(late[0].to_string().starts_with("INVALID: the generator's lag p99.9 of 2.00 ms is above 5 % of the median latency of 20.0 ms"), "{}", late[0]);
    }

    #[test]
    fn few_late_wake_ups_have_no_percentiles() {
        let some = Duration::from_micros(5);
        let known = |count, quantile| {
            let late = Lateness {
                count,
                ..Lateness::default()
            };
            Punctuality::known(late, quantile, some)
        };
        assert_eq!(known(5, 0.5), None);
        assert_eq!(known(6, 0.5), Some(some));
        assert_eq!(known(367, 0.99), None);
        assert_eq!(known(368, 0.99), Some(some));
    }

    #[test]
    fn a_load_not_carried_and_a_busy_generator_are_reported() {
        let mut totals = LoadTotals::new(MeasuredPhase::default());
        (0..90).for_each(|n| totals.add(&answered(n, 100)));
        let generator = Generator {
            rate_asked_per_s: Some(100.0),
            cpu_percent: Some(97.0),
            punctuality: None,
        };
        let doubts = generator.doubts(&totals, at(1_000_000));
        let not_carried = Doubt::NotCarried {
            achieved_per_s: 90.0,
            asked_per_s: 100.0,
        };
        assert_eq!(doubts, [not_carried, Doubt::Busy { cpu_percent: 97.0 }]);
        let nothing = LoadTotals::new(MeasuredPhase::default());
        assert_eq!(Generator::default().doubts(&nothing, Time::ZERO), []);
    }
}
