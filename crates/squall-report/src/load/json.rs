//! A load's figures for programs: the same as in `summary`, in a stable order, with units last in the names.
//!
//! It is no record of requests (`--output` writes that). What the samples do not suffice for is null. The schema
//! is these structs: a field may be added, none changes its meaning.

use std::collections::BTreeMap;

use serde::Serialize;
use squall_analysis::Quantile;
use squall_analysis::load::{
    Bucket, Causes, Latencies, LongestLag, PageTotals, Part, Punctuality, RoundsComparison,
    VariantRounds, compare_rounds,
};
use squall_base::Duration;
use squall_base::record::{Endings, Lateness, Outcome, SideCounts};

use super::Finished;

/// A load that is over.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct LoadJson {
    /// Length of the measured phase.
    pub measured_ns: u64,
    /// Counts of requests.
    pub requests: RequestsJson,
    /// Requests and bytes a second of the measured phase.
    pub rates: RatesJson,
    /// Requests by outcome (docs/RECORD.md), all of them.
    pub outcomes: BTreeMap<&'static str, u64>,
    /// Answered requests by status.
    pub statuses: BTreeMap<u16, u64>,
    /// What failures said, the most frequent first, at most 8 kinds.
    pub failures: Vec<FailureJson>,
    /// Failures of further kinds.
    pub other_failures: u64,
    /// Connections that this machine could not begin, by what its kernel said.
    pub machine_errors: BTreeMap<String, u64>,
    /// Response times (end - intended) of requests that succeeded.
    pub response_time_ns: LatenciesJson,
    /// Service times (end - slot) of requests that succeeded.
    pub service_time_ns: LatenciesJson,
    /// Response times of all measured requests: `{"exact": ns}`, `{"at_least": ns}` or `"never"`.
    pub response_time_of_all_ns: OfAllJson,
    /// What requests that were given up unfinished had waited.
    pub unfinished_waited_ns: LatenciesJson,
    /// Response times of requests that succeeded, by frequency.
    pub histogram: Vec<BucketJson>,
    /// Where the response times went, in order of time; the means add up to the mean response time.
    pub parts: Vec<PartJson>,
    /// Pages; null unless it is a load of pages.
    pub pages: Option<PagesJson>,
    /// Connections and what was agreed on.
    pub connections: ConnectionsJson,
    /// What held up what was sent; null where it is not known.
    pub causes: Causes,
    /// How well the generator did.
    pub generator: GeneratorJson,
}

/// Counts of requests; all but `warmup` are of the measured phase.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub struct RequestsJson {
    /// Ended: `succeeded + failed + unfinished`.
    pub ended: u64,
    /// Answered in whole with a status below 400.
    pub succeeded: u64,
    /// Without an answer, or with a status of 400 or more.
    pub failed: u64,
    /// Given up when the load had ended.
    pub unfinished: u64,
    /// Of the warm-up, in no other number.
    pub warmup: u64,
}

/// What happened in a second.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct RatesJson {
    /// Requests that the schedule asked for; null in a closed loop.
    pub asked_per_s: Option<f64>,
    /// Requests that succeeded within the measured phase.
    pub achieved_per_s: Option<f64>,
    /// Body bytes of requests that the sockets took in whole.
    pub body_bytes_out_per_s: Option<f64>,
    /// Body bytes of responses.
    pub body_bytes_in_per_s: Option<f64>,
    /// The same, not a second but in all.
    pub body_bytes_out: u64,
    /// The same, not a second but in all.
    pub body_bytes_in: u64,
}

/// Failures that said the same.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct FailureJson {
    /// Their outcome (docs/RECORD.md).
    pub outcome: &'static str,
    /// Their words.
    pub error: String,
    /// How many.
    pub count: u64,
}

/// Spans in nanoseconds. Percentiles are null where chance puts too many samples below the true one.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub struct LatenciesJson {
    /// How many.
    pub count: u64,
    /// The mean.
    pub mean: Option<u64>,
    /// The smallest.
    pub min: Option<u64>,
    /// The median.
    pub p50: Option<u64>,
    /// The 75th percentile.
    pub p75: Option<u64>,
    /// The 90th percentile.
    pub p90: Option<u64>,
    /// The 95th percentile.
    pub p95: Option<u64>,
    /// The 99th percentile.
    pub p99: Option<u64>,
    /// The 99.9th percentile.
    pub p99_9: Option<u64>,
    /// The 99.99th percentile.
    pub p99_99: Option<u64>,
    /// The largest.
    pub max: Option<u64>,
}

/// Percentiles of all measured requests: failed ones are never answered, unfinished ones take longer than they waited.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub struct OfAllJson {
    /// The median.
    pub p50: Option<Quantile>,
    /// The 90th percentile.
    pub p90: Option<Quantile>,
    /// The 99th percentile.
    pub p99: Option<Quantile>,
}

/// A bucket of the histogram.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub struct BucketJson {
    /// Its lower edge.
    pub from_ns: u64,
    /// Its upper edge, which is in the next one.
    pub to_ns: u64,
    /// How many are in it.
    pub count: u64,
}

/// A part of the response times.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct PartJson {
    /// `lag`, `queue`, `connect`, `tls`, `send`, `wait` or `receive`.
    pub part: &'static str,
    /// Its share of the sum of all response times, from 0 to 1.
    pub share: f64,
    /// Its lengths, zero where a request did not have it.
    pub span_ns: LatenciesJson,
}

/// Pages of the measured phase.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub struct PagesJson {
    /// Every request of which succeeded.
    pub loaded: u64,
    /// With a request that failed.
    pub failed: u64,
    /// Given up when the load had ended.
    pub unfinished: u64,
    /// How long those took that were loaded, from when they were meant to begin to their last answer.
    pub page_time_ns: LatenciesJson,
    /// The same of all: `{"exact": ns}`, `{"at_least": ns}` or `"never"`.
    pub page_time_of_all_ns: OfAllJson,
}

/// Connections and what was agreed on.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct ConnectionsJson {
    /// TCP connections opened.
    pub tcp: u64,
    /// QUIC connections opened.
    pub quic: u64,
    /// TLS handshakes with certificates, QUIC's included.
    pub tls_full: u64,
    /// TLS handshakes that resumed a session.
    pub tls_resumed: u64,
    /// Connections by protocol.
    pub protocols: BTreeMap<String, u64>,
    /// Connections by what ALPN agreed on, or `none`.
    pub alpn: BTreeMap<String, u64>,
    /// TCP connections by version and cipher suite of TLS.
    pub ciphers: BTreeMap<String, u64>,
    /// Connections by the SETTINGS that were sent.
    pub settings_sent: BTreeMap<String, u64>,
    /// Connections by the SETTINGS that were received.
    pub settings_received: BTreeMap<String, u64>,
    /// `goaways_sent`, `goaways_received`, `resets_sent`, `resets_received`.
    #[serde(flatten)]
    pub endings: Endings,
}

/// How well the generator did.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct GeneratorJson {
    /// Its lag (taken up - intended).
    pub lag_ns: LatenciesJson,
    /// Processor time of its busiest thread: 100 is a processor.
    pub cpu_percent: Option<f64>,
    /// What the machine did to its threads; null where it is not known.
    pub punctuality: Option<PunctualityJson>,
    /// False if the latencies must not be used as evidence.
    pub valid: bool,
    /// What to doubt, a sentence each.
    pub doubts: Vec<String>,
}

/// What the machine did to the generator's threads.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct PunctualityJson {
    /// How late they were woken, of sleeps that lasted until the time for which they had asked.
    pub woken_late_ns: LatenessJson,
    /// What of the lag of all requests that was, from 0 to 1.
    pub share_of_lag: Option<f64>,
    /// The lag without that of each request that was late at all.
    pub own_lag_ns: LatenessJson,
    /// The longest lag.
    pub longest_lag: Option<LongestLagJson>,
    /// What the hypervisor took of the whole machine's processor time, from 0 to 1.
    pub stolen_share: Option<f64>,
    /// Whether idle processors were kept from falling asleep, out of which they wake up late.
    pub processors_awake: bool,
}

/// How late the generator's threads or requests were, in nanoseconds.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub struct LatenessJson {
    /// How many were late at all.
    pub count: u64,
    /// The median; like the others null if there were too few for it.
    pub p50: Option<u64>,
    /// The 99th percentile.
    pub p99: Option<u64>,
    /// The 99.9th percentile.
    pub p99_9: Option<u64>,
    /// The latest.
    pub max: Option<u64>,
}

/// A lag, and what of it was the machine's.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub struct LongestLagJson {
    /// All of it.
    pub lag_ns: u64,
    /// While the thread waited longer than it had asked to.
    pub machine_ns: u64,
    /// Of that, while another thread had the processor; null if the kernel was not asked.
    pub in_line_ns: Option<u64>,
}

/// Several variants of a load, the first of them the baseline.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct ComparisonJson {
    /// Each with its rounds; latencies are `{"exact": ns}`, `{"at_least": ns}` or `"never"`.
    pub variants: Vec<VariantRounds>,
    /// Each but the first against the first.
    pub comparisons: Vec<RoundsComparison>,
}

impl LoadJson {
    /// The figures of a load.
    pub fn of(load: &Finished<'_>) -> LoadJson {
        let totals = load.totals;
        let failures = totals.failures();
        LoadJson {
            measured_ns: totals.measured_for(load.end).as_nanos(),
            requests: RequestsJson {
                ended: totals.requests(),
                succeeded: totals.succeeded(),
                failed: totals.failed(),
                unfinished: totals.censored(),
                warmup: totals.warmup(),
            },
            rates: RatesJson::of(load),
            outcomes: Outcome::ALL
                .into_iter()
                .map(|outcome| (outcome.name(), totals.with_outcome(outcome)))
                .collect(),
            statuses: totals.statuses().clone(),
            failures: failures
                .kinds()
                .into_iter()
                .map(|kind| FailureJson {
                    outcome: kind.outcome.name(),
                    error: kind.text.clone(),
                    count: kind.count,
                })
                .collect(),
            other_failures: failures.others(),
            machine_errors: load.machine_errors.clone(),
            response_time_ns: LatenciesJson::of(totals.response()),
            service_time_ns: LatenciesJson::of(totals.service()),
            response_time_of_all_ns: OfAllJson::of(|share| totals.response_quantile(share)),
            unfinished_waited_ns: LatenciesJson::of(totals.unfinished()),
            histogram: totals
                .response()
                .buckets()
                .into_iter()
                .map(BucketJson::of)
                .collect(),
            parts: Part::ALL.map(|part| PartJson::of(part, load)).to_vec(),
            pages: load.pages.map(PagesJson::of),
            connections: ConnectionsJson::of(load.counts),
            causes: *load.causes,
            generator: GeneratorJson::of(load),
        }
    }
}

impl RatesJson {
    fn of(load: &Finished<'_>) -> RatesJson {
        let totals = load.totals;
        RatesJson {
            asked_per_s: load.generator.rate_asked_per_s,
            achieved_per_s: totals.achieved_per_s(load.end),
            body_bytes_out_per_s: totals.per_s(totals.body_bytes_out(), load.end),
            body_bytes_in_per_s: totals.per_s(totals.body_bytes_in(), load.end),
            body_bytes_out: totals.body_bytes_out(),
            body_bytes_in: totals.body_bytes_in(),
        }
    }
}

impl LatenciesJson {
    fn of(latencies: &Latencies) -> LatenciesJson {
        let quantile = |share| latencies.quantile(share).map(Duration::as_nanos);
        LatenciesJson {
            count: latencies.count(),
            mean: latencies.mean().map(Duration::as_nanos),
            min: latencies.min().map(Duration::as_nanos),
            p50: quantile(0.5),
            p75: quantile(0.75),
            p90: quantile(0.9),
            p95: quantile(0.95),
            p99: quantile(0.99),
            p99_9: quantile(0.999),
            p99_99: quantile(0.9999),
            max: latencies.max().map(Duration::as_nanos),
        }
    }
}

impl BucketJson {
    fn of(bucket: Bucket) -> BucketJson {
        BucketJson {
            from_ns: bucket.from.as_nanos(),
            to_ns: bucket.to.as_nanos(),
            count: bucket.count,
        }
    }
}

impl PartJson {
    fn of(part: Part, load: &Finished<'_>) -> PartJson {
        let latencies = load.totals.part(part);
        // A load without a success spent nothing on any part.
        let whole_ns = load.totals.response().sum_ns().max(1);
        PartJson {
            part: part.name(),
            share: latencies.sum_ns() as f64 / whole_ns as f64,
            span_ns: LatenciesJson::of(latencies),
        }
    }
}

impl ConnectionsJson {
    fn of(counts: &SideCounts) -> ConnectionsJson {
        ConnectionsJson {
            tcp: counts.tcp_connections,
            quic: counts.quic_connections,
            tls_full: counts.tls_full,
            tls_resumed: counts.tls_resumed,
            protocols: counts.protocols.clone(),
            alpn: counts.alpn.clone(),
            ciphers: counts.ciphers.clone(),
            settings_sent: counts.settings_sent.clone(),
            settings_received: counts.settings_received.clone(),
            endings: counts.endings,
        }
    }
}

impl GeneratorJson {
    fn of(load: &Finished<'_>) -> GeneratorJson {
        let doubts = load.generator.doubts(load.totals, load.end);
        GeneratorJson {
            lag_ns: LatenciesJson::of(load.totals.lag()),
            cpu_percent: load.generator.cpu_percent,
            punctuality: load.generator.punctuality.map(PunctualityJson::of),
            valid: !doubts.iter().any(squall_analysis::load::Doubt::is_invalid),
            doubts: doubts.iter().map(ToString::to_string).collect(),
        }
    }
}

impl OfAllJson {
    fn of(quantile: impl Fn(f64) -> Option<Quantile>) -> OfAllJson {
        OfAllJson {
            p50: quantile(0.5),
            p90: quantile(0.9),
            p99: quantile(0.99),
        }
    }
}

impl PagesJson {
    fn of(pages: &PageTotals) -> PagesJson {
        PagesJson {
            loaded: pages.times().count(),
            failed: pages.failed(),
            unfinished: pages.given_up().count(),
            page_time_ns: LatenciesJson::of(pages.times()),
            page_time_of_all_ns: OfAllJson::of(|share| pages.quantile_of_all(share)),
        }
    }
}

impl PunctualityJson {
    fn of(of: Punctuality) -> PunctualityJson {
        PunctualityJson {
            woken_late_ns: LatenessJson::of(of.woken_late),
            share_of_lag: of.share_of_lag,
            own_lag_ns: LatenessJson::of(of.own_lag),
            longest_lag: of.longest.map(LongestLagJson::of),
            stolen_share: of.stolen,
            processors_awake: of.processors_awake,
        }
    }
}

impl LatenessJson {
    fn of(late: Lateness) -> LatenessJson {
        let known = |share, value| {
            let known = Punctuality::known(late, share, value);
            known.map(Duration::as_nanos)
        };
        LatenessJson {
            count: late.count,
            p50: known(0.5, late.p50),
            p99: known(0.99, late.p99),
            p99_9: known(0.999, late.p999),
            max: (late.count > 0).then_some(late.max.as_nanos()),
        }
    }
}

impl LongestLagJson {
    fn of(longest: LongestLag) -> LongestLagJson {
        LongestLagJson {
            lag_ns: longest.lag.as_nanos(),
            machine_ns: longest.machine.as_nanos(),
            in_line_ns: longest.in_line.map(Duration::as_nanos),
        }
    }
}

impl ComparisonJson {
    /// The figures of the variants.
    pub fn of(variants: &[VariantRounds]) -> ComparisonJson {
        ComparisonJson {
            variants: variants.to_vec(),
            comparisons: compare_rounds(variants),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::load::samples;

    #[test]
    fn a_load_reads_as_json_in_a_stable_order() {
        let sample = samples::mixed();
        let json = serde_json::to_string_pretty(&LoadJson::of(&sample.finished())).unwrap();
        assert_eq!(
            json,
            include_str!("golden/mixed.json").trim_end(),
            "\n{json}"
        );
    }

    #[test]
    fn pages_have_times_and_what_hides_them() {
        let sample = samples::of_pages();
        let json = serde_json::to_value(LoadJson::of(&sample.finished())).unwrap();
        let pages = &json["pages"];
        assert_eq!(pages["loaded"], 40);
        assert_eq!(
            (&pages["failed"], &pages["unfinished"]),
            (&1.into(), &2.into())
        );
        assert_eq!(pages["page_time_ns"]["max"], 59_000_000);
        assert!(pages["page_time_ns"]["p90"].is_u64() && pages["page_time_ns"]["p95"].is_null());
        assert!(pages["page_time_of_all_ns"]["p90"]["exact"].is_u64());
    }

    #[test]
    fn what_there_is_not_is_null() {
        let sample = samples::empty();
        let json = serde_json::to_value(LoadJson::of(&sample.finished())).unwrap();
        assert!(
            json["response_time_ns"]["p50"].is_null() && json["rates"]["achieved_per_s"].is_null()
        );
        assert!(json["pages"].is_null() && json["generator"]["punctuality"].is_null());
        assert_eq!(json["requests"]["ended"], 0);
        assert_eq!(json["generator"]["valid"], true);
    }

    #[test]
    fn a_comparison_reads_as_json() {
        let json = serde_json::to_value(ComparisonJson::of(&samples::variants())).unwrap();
        assert_eq!(json["variants"][2]["rounds"][0]["p99"], "never");
        assert!(json["variants"][0]["rounds"][0]["p99"]["exact"].is_u64());
        assert_eq!(json["comparisons"][0]["figures"][3]["figure"], "p99");
        assert_eq!(json["comparisons"][0]["figures"][3]["order"], "lower");
    }
}
