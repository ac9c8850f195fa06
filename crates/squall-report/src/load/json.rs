//! The figures of a load for programs: those of `summary`, in a stable order, with units at the end of names.
//!
//! It does not record single requests (`--output` writes that). Figures without enough samples are null. These structs are
//! the schema: fields may be added, but none changes its meaning.

use std::collections::BTreeMap;

use serde::Serialize;
use squall_analysis::Quantile;
use squall_analysis::load::{
    Bucket, Latencies, LongestLag, Order, PageTotals, Part, Punctuality, RoundFigure,
    RoundsComparison, SendLimits, VariantRounds, compare_rounds,
};
use squall_base::Duration;
use squall_base::record::{EndingCounts, Lateness, Outcome};

use super::FinishedLoad;

/// A finished load.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct LoadJson {
    /// Length of the measured phase.
    pub measured_ns: u64,
    /// Counts of requests.
    pub requests: RequestsJson,
    /// Requests and bytes a second of the measured phase.
    pub rates: RatesJson,
    /// All requests, by outcome (docs/RECORD.md).
    pub outcomes: BTreeMap<&'static str, u64>,
    /// Answered requests by status.
    pub statuses: BTreeMap<u16, u64>,
    /// Failures by error message, the most frequent first, at most 8 kinds; those of gRPC calls have the outcome `answered`.
    pub failures: Vec<FailureJson>,
    /// Failures of further kinds.
    pub other_failures: u64,
    /// Connections that this machine could not begin, by the kernel's error.
    pub machine_errors: BTreeMap<String, u64>,
    /// Response times (end - intended) of requests that succeeded.
    pub response_time_ns: LatenciesJson,
    /// Service times (end - slot) of requests that succeeded.
    pub service_time_ns: LatenciesJson,
    /// Response times of all measured requests: `{"exact": ns}`, `{"at_least": ns}` or `"never"`.
    pub response_time_of_all_ns: OverallQuantilesJson,
    /// From when a request was due to the first bytes of its response's body, or its end if it has no body.
    pub first_chunk_ns: LatenciesJson,
    /// Times without a byte between two arrivals of a response's body.
    pub gap_ns: LatenciesJson,
    /// The longest gap of each response that has one.
    pub longest_gap_ns: LatenciesJson,
    /// How long unfinished requests had waited when they were given up.
    pub unfinished_waited_ns: LatenciesJson,
    /// Response times of requests that succeeded, by frequency.
    pub histogram: Vec<BucketJson>,
    /// Where the response times went, in order of time; the means add up to the mean response time.
    pub parts: Vec<PartJson>,
    /// Pages; null unless it is a load of pages.
    pub pages: Option<PagesJson>,
    /// Connections and what was negotiated.
    pub connections: ConnectionsJson,
    /// What held up sending; null where that is not known.
    pub causes: SendLimits,
    /// The health of the generator.
    pub generator: GeneratorJson,
}

/// Counts of requests; all but `warmup` cover the measured phase.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub struct RequestsJson {
    /// Ended: `succeeded + failed + unfinished`.
    pub ended: u64,
    /// Answered completely, with a status below 400, except gRPC calls that failed.
    pub succeeded: u64,
    /// Without an answer, or with a status of 400 or more, or gRPC calls that failed.
    pub failed: u64,
    /// Given up at the end of the load.
    pub unfinished: u64,
    /// Requests of the warm-up, which no other number except `retried` includes.
    pub warmup: u64,
    /// How many times a request was retried because the server had not processed it.
    pub retried: u64,
}

/// Rates, and the totals of body bytes.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct RatesJson {
    /// Requests that were due by the schedule; null in a closed loop.
    pub asked_per_s: Option<f64>,
    /// Requests that succeeded within the measured phase.
    pub achieved_per_s: Option<f64>,
    /// Body bytes of requests that the sockets accepted completely.
    pub body_out_bytes_per_s: Option<f64>,
    /// Body bytes of responses.
    pub body_in_bytes_per_s: Option<f64>,
    /// Body bytes of requests in total.
    pub body_out_bytes: u64,
    /// Body bytes of responses in total.
    pub body_in_bytes: u64,
}

/// Failures with the same outcome and error message.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct FailureJson {
    /// Their outcome (docs/RECORD.md).
    pub outcome: &'static str,
    /// Their error message.
    pub error: String,
    /// How many.
    pub count: u64,
}

/// Spans in nanoseconds. A percentile is null if there are too few samples to bound the true one from above.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub struct LatenciesJson {
    /// The number of samples.
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

/// Percentiles of all measured requests: failed ones count as never answered, unfinished ones as longer than they waited.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub struct OverallQuantilesJson {
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
    /// Its upper edge, which belongs to the next bucket.
    pub to_ns: u64,
    /// The number of requests in it.
    pub count: u64,
}

/// A part of the response times.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct PartJson {
    /// `lag`, `queue`, `connect`, `tls`, `send`, `wait` or `receive`.
    pub part: &'static str,
    /// Its share of the sum of all response times, from 0 to 1.
    pub share: f64,
    /// Its spans, zero for requests without this part.
    pub span_ns: LatenciesJson,
}

/// Pages of the measured phase.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub struct PagesJson {
    /// Pages whose requests all succeeded.
    pub loaded: u64,
    /// Pages with a failed request.
    pub failed: u64,
    /// Pages given up at the end of the load.
    pub unfinished: u64,
    /// Page times of loaded pages, from when a page was due to its last response.
    pub page_time_ns: LatenciesJson,
    /// Page times of all pages: `{"exact": ns}`, `{"at_least": ns}` or `"never"`.
    pub page_time_of_all_ns: OverallQuantilesJson,
}

/// Connections and what was negotiated.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct ConnectionsJson {
    /// TCP connections opened.
    pub tcp: u64,
    /// QUIC connections opened.
    pub quic: u64,
    /// TLS handshakes with certificates, QUIC's included.
    pub tls_full: u64,
    /// TLS handshakes that resumed a session.
    pub tls_resumed: u64,
    /// Handshakes of requests that opened a connection, per second of the measured phase: those of TLS or QUIC, or those of TCP
    /// for cleartext.
    pub handshakes_per_s: Option<f64>,
    /// Connections by protocol.
    pub protocols: BTreeMap<String, u64>,
    /// Connections by the protocol that ALPN negotiated, or `none`.
    pub alpn: BTreeMap<String, u64>,
    /// TCP connections by TLS version and cipher suite.
    pub ciphers: BTreeMap<String, u64>,
    /// TCP connections over TLS by the group of the key exchange.
    pub groups: BTreeMap<String, u64>,
    /// Connections by the SETTINGS that were sent.
    pub settings_sent: BTreeMap<String, u64>,
    /// Connections by the SETTINGS that were received.
    pub settings_received: BTreeMap<String, u64>,
    /// `goaways_sent`, `goaways_received`, `resets_sent`, `resets_received`.
    #[serde(flatten)]
    pub endings: EndingCounts,
}

/// The health of the generator.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct GeneratorJson {
    /// The lag of its requests (taken up - intended).
    pub lag_ns: LatenciesJson,
    /// Processor time of its busiest thread: 100 means one whole processor.
    pub cpu_percent: Option<f64>,
    /// How the machine delayed its threads; null if that is not known.
    pub punctuality: Option<PunctualityJson>,
    /// False if the latencies must not be used as evidence.
    pub valid: bool,
    /// What to doubt, one sentence each.
    pub doubts: Vec<String>,
}

/// How the machine delayed the generator's threads.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct PunctualityJson {
    /// How late they were woken, over sleeps that lasted until the requested time.
    pub woken_late_ns: LatenessJson,
    /// The machine's share of the lag of all requests, from 0 to 1.
    pub share_of_lag: Option<f64>,
    /// The lag of each late request without the machine's share: the generator's own work.
    pub own_lag_ns: LatenessJson,
    /// The longest lag.
    pub longest_lag: Option<LongestLagJson>,
    /// The share of the whole machine's processor time that the hypervisor took, from 0 to 1.
    pub stolen_share: Option<f64>,
    /// Whether idle processors were kept out of sleep states, from which they wake up late.
    pub processors_awake: bool,
}

/// How late the generator's threads or requests were, in nanoseconds.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub struct LatenessJson {
    /// How many were late.
    pub count: u64,
    /// The median; null, like the other percentiles, if there were too few.
    pub p50: Option<u64>,
    /// The 99th percentile.
    pub p99: Option<u64>,
    /// The 99.9th percentile.
    pub p99_9: Option<u64>,
    /// The maximum.
    pub max: Option<u64>,
}

/// A lag, and the machine's part in it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub struct LongestLagJson {
    /// The whole lag.
    pub lag_ns: u64,
    /// The part during which the thread waited longer than it had asked to.
    pub machine_ns: u64,
    /// The part of `machine_ns` during which another thread had the processor; null if it was not measured.
    pub in_line_ns: Option<u64>,
}

/// Several variants of a load. The first is the baseline.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct ComparisonJson {
    /// Which is better by the p99: every other variant against the first.
    pub answers: Vec<AnswerJson>,
    /// The variants with their rounds; latencies are `{"exact": ns}`, `{"at_least": ns}` or `"never"`.
    pub variants: Vec<VariantRounds>,
    /// Every other variant compared with the first.
    pub comparisons: Vec<RoundsComparison>,
}

/// What the rounds of two variants show about the p99.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct AnswerJson {
    /// The better variant; null if no difference is shown.
    pub winner: Option<String>,
    /// The variant.
    pub variant: String,
    /// What it is compared with.
    pub baseline: String,
    /// What they are compared by.
    pub measure: &'static str,
    /// The variant's median over the rounds divided by the baseline's; null if either is not known.
    pub ratio: Option<f64>,
    /// How often chance alone would show a difference between equal variants, from 0 to 1.
    pub by_chance: f64,
}

impl LoadJson {
    /// The figures of a load.
    pub fn of(load: &FinishedLoad<'_>) -> LoadJson {
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
                retried: load.counts.retried,
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
            response_time_of_all_ns: OverallQuantilesJson::of(|share| {
                totals.response_quantile(share)
            }),
            first_chunk_ns: LatenciesJson::of(totals.first_chunk()),
            gap_ns: LatenciesJson::of(totals.gaps()),
            longest_gap_ns: LatenciesJson::of(totals.longest_gap()),
            unfinished_waited_ns: LatenciesJson::of(totals.unfinished()),
            histogram: totals
                .response()
                .buckets()
                .into_iter()
                .map(BucketJson::of)
                .collect(),
            parts: Part::ALL.map(|part| PartJson::of(part, load)).to_vec(),
            pages: load.pages.map(PagesJson::of),
            connections: ConnectionsJson::of(load),
            causes: *load.causes,
            generator: GeneratorJson::of(load),
        }
    }
}

impl RatesJson {
    fn of(load: &FinishedLoad<'_>) -> RatesJson {
        let totals = load.totals;
        RatesJson {
            asked_per_s: load.generator.rate_asked_per_s,
            achieved_per_s: totals.achieved_per_s(load.end),
            body_out_bytes_per_s: totals.per_s(totals.body_bytes_out(), load.end),
            body_in_bytes_per_s: totals.per_s(totals.body_bytes_in(), load.end),
            body_out_bytes: totals.body_bytes_out(),
            body_in_bytes: totals.body_bytes_in(),
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
    fn of(part: Part, load: &FinishedLoad<'_>) -> PartJson {
        let latencies = load.totals.part(part);
        // Without a successful request, every part is zero.
        let whole_ns = load.totals.response().sum_ns().max(1);
        PartJson {
            part: part.name(),
            share: latencies.sum_ns() as f64 / whole_ns as f64,
            span_ns: LatenciesJson::of(latencies),
        }
    }
}

impl ConnectionsJson {
    fn of(load: &FinishedLoad<'_>) -> ConnectionsJson {
        let (counts, totals) = (load.counts, load.totals);
        ConnectionsJson {
            tcp: counts.tcp_connections,
            quic: counts.quic_connections,
            tls_full: counts.tls_full,
            tls_resumed: counts.tls_resumed,
            handshakes_per_s: totals.per_s(totals.handshakes(), load.end),
            protocols: counts.protocols.clone(),
            alpn: counts.alpn.clone(),
            ciphers: counts.ciphers.clone(),
            groups: counts.groups.clone(),
            settings_sent: counts.settings_sent.clone(),
            settings_received: counts.settings_received.clone(),
            endings: counts.endings,
        }
    }
}

impl GeneratorJson {
    fn of(load: &FinishedLoad<'_>) -> GeneratorJson {
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

impl OverallQuantilesJson {
    fn of(quantile: impl Fn(f64) -> Option<Quantile>) -> OverallQuantilesJson {
        OverallQuantilesJson {
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
            unfinished: pages.unfinished().count(),
            page_time_ns: LatenciesJson::of(pages.times()),
            page_time_of_all_ns: OverallQuantilesJson::of(|share| pages.quantile_of_all(share)),
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
            stolen_share: of.stolen_share,
            processors_awake: of.has_awake_processors,
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
            in_line_ns: longest.run_queue_delay.map(Duration::as_nanos),
        }
    }
}

impl ComparisonJson {
    /// The figures of the variants.
    pub fn of(variants: &[VariantRounds]) -> ComparisonJson {
        let comparisons = compare_rounds(variants);
        ComparisonJson {
            answers: comparisons.iter().map(AnswerJson::of).collect(),
            variants: variants.to_vec(),
            comparisons,
        }
    }
}

impl AnswerJson {
    fn of(comparison: &RoundsComparison) -> AnswerJson {
        let mut figures = comparison.figures.iter();
        let p99 = figures.find(|figure| figure.figure == RoundFigure::P99);
        let winner = p99.and_then(|p99| match p99.order {
            Order::Higher => Some(&comparison.baseline),
            Order::Lower => Some(&comparison.variant),
            Order::NotShown | Order::Unknown => None,
        });
        AnswerJson {
            winner: winner.cloned(),
            variant: comparison.variant.clone(),
            baseline: comparison.baseline.clone(),
            measure: "response time p99",
            ratio: p99.and_then(|p99| p99.ratio),
            by_chance: comparison.by_chance,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::load::samples;

    #[test]
    fn json_of_a_load_has_a_stable_order() {
        let sample = samples::mixed();
        let json = serde_json::to_string_pretty(&LoadJson::of(&sample.finished())).unwrap();
        assert_eq!(
            json,
            include_str!("golden/mixed.json").trim_end(),
            "\n{json}"
        );
    }

    #[test]
    fn json_of_pages_has_times_failures_and_unfinished_pages() {
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
    fn json_of_streamed_responses_has_first_chunks_and_gaps() {
        let sample = samples::streamed();
        let json = serde_json::to_value(LoadJson::of(&sample.finished())).unwrap();
        assert_eq!(json["first_chunk_ns"]["max"], 40_000_000);
        assert_eq!(json["gap_ns"]["count"], 40);
        assert_eq!(json["longest_gap_ns"]["max"], 90_000_000);
        assert_eq!(json["longest_gap_ns"]["min"], 20_000_000);
    }

    #[test]
    fn json_of_connections_has_the_rate_of_handshakes() {
        let per_s = |sample: &samples::Sample| {
            let json = serde_json::to_value(LoadJson::of(&sample.finished())).unwrap();
            json["connections"]["handshakes_per_s"].clone()
        };
        assert_eq!(per_s(&samples::connections()), 25.0);
        // The connections of this load were opened before it.
        assert_eq!(per_s(&samples::mixed()), 0.0);
        assert!(per_s(&samples::empty()).is_null());
    }

    #[test]
    fn retried_requests_are_counted() {
        let mut sample = samples::one();
        sample.counts.retried = 7;
        let json = serde_json::to_value(LoadJson::of(&sample.finished())).unwrap();
        assert_eq!(json["requests"]["retried"], 7);
        let lines = crate::load::counts(&sample.counts);
        let line = "retried 7 requests, which the server had not processed";
        assert!(lines.iter().any(|found| found == line), "{lines:?}");
    }

    #[test]
    fn missing_figures_are_null() {
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
    fn json_of_a_comparison_has_rounds_and_comparisons() {
        let json = serde_json::to_value(ComparisonJson::of(&samples::variants())).unwrap();
        assert_eq!(json["variants"][2]["rounds"][0]["p99_ns"], "never");
        assert!(json["variants"][0]["rounds"][0]["p99_ns"]["exact"].is_u64());
        assert_eq!(json["comparisons"][0]["figures"][3]["figure"], "p99");
        assert_eq!(json["comparisons"][0]["figures"][3]["order"], "lower");
        assert_eq!(json["answers"][0]["winner"], "HTTP/2");
        assert_eq!(json["answers"][1]["winner"], "HTTP/1.1");
    }
}
