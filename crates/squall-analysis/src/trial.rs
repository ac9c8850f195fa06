//! One trial condensed: counts, quantiles and what is needed to judge them.
//!
//! Only the measured phase counts; the warm-up is in no number. Requests that failed or never finished are part of every
//! quantile, as `quantile` explains. `trial_stats` is quick; `trial_evidence` also says how far chance may have moved the
//! figures (`stats::within`) and what made the slowest requests slow (`tail`). How long a single request took is in
//! `latency`, what a figure is in `figures`. `summarise` puts trials side by side.

use serde::{Deserialize, Serialize};
use squall_base::Duration;
use squall_base::plan::{Condition, LoadKind, Measure, Plan, Statistic, Targets, Unit, Variant};
use squall_base::record::{
    CausesRecord, ExchangeRecord, Outcome, Phase, RequestRecord, StationExit, StationRecord,
    TrialRecord, Validity,
};

use crate::distinct::distinct;
use crate::figures::{Figures, Interval};
use crate::gaps;
use crate::latency::{ServedExchanges, first_chunk_time, latency_since, transfer_time};
use crate::other_programs::ProcessorsTaken;
use crate::own_error::OwnErrors;
use crate::page_time::PageTimes;
use crate::quantile::{Quantile, Sample};
use crate::stats::within;
use crate::tail::Tails;
use crate::target_times::{TargetTimes, target_times};
use crate::value::Value;
use crate::window_rate::WindowRate;

/// Minimum length of a batch: this duration, and this many round trips. Whatever correlates requests, such as a connection,
/// a loss recovery or a timeout, lasts at least that long.
const BATCH_AT_LEAST: Duration = Duration::from_secs(1);
const BATCH_ROUND_TRIPS: u64 = 10;

/// How far chance within the trial may have moved its figures; `None` if the trial is too short to say.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Intervals {
    /// Of the mean.
    pub mean: Option<Interval<Quantile>>,
    /// Of the median.
    pub median: Option<Interval<Quantile>>,
    /// Of the interquartile range.
    pub interquartile_range: Option<Interval<Quantile>>,
    /// Of the 90th percentile.
    pub p90: Option<Interval<Quantile>>,
    /// Of the 95th percentile.
    pub p95: Option<Interval<Quantile>>,
    /// Of the 99th percentile.
    pub p99: Option<Interval<Quantile>>,
    /// Of the 99.9th percentile.
    pub p999: Option<Interval<Quantile>>,
}

/// The results of a trial's measured phase.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct TrialStats {
    /// The trial's position in the order of the run, from 0.
    pub index: u32,
    /// The trial's folder within the run.
    pub folder: String,
    /// The name of its variant.
    pub variant: String,
    /// Its condition.
    pub condition: Condition,
    /// Which repetition of its cell, from 0.
    pub repetition: u32,
    /// The seed of its link.
    pub seed: u64,
    /// Which attempt this is, from 1; the attempts before it were disturbed or failed.
    pub attempt: u32,
    /// Wall-clock time when it began, in nanoseconds since 1970-01-01 UTC.
    pub started_unix_ns: u64,
    /// The kernel's release.
    pub kernel: String,
    /// For each link of the path, whether its devices exchanged super-packets; empty if that is not recorded.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub fast: Vec<bool>,
    /// The congestion control that was configured for both sides, without duplicates.
    pub congestion_control_asked: Vec<String>,
    /// The congestion control of both sides' sockets as read back from the kernel, without duplicates.
    pub congestion_control_used: Vec<String>,
    /// Requests of the measured phase: `answered + failed + censored`.
    pub asked: u64,
    /// Requests with a complete response and a status below 400.
    pub answered: u64,
    /// Requests that ended without a response, or with a status of 400 or more.
    pub failed: u64,
    /// Requests still unfinished when the trial ended.
    pub censored: u64,
    /// Connections that the client opened, in warm-up and measurement together.
    pub connections_opened: u32,
    /// Mean response time.
    #[serde(rename = "mean_ns", alias = "mean")]
    pub mean: Option<Quantile>,
    /// Median response time: end - intended.
    #[serde(rename = "median_ns", alias = "median")]
    pub median: Option<Quantile>,
    /// The 75th percentile of the response time less the 25th.
    #[serde(rename = "interquartile_range_ns", alias = "interquartile_range")]
    pub interquartile_range: Option<Quantile>,
    /// 90th percentile of the response time; `None` below 36 requests.
    #[serde(rename = "p90_ns", alias = "p90")]
    pub p90: Option<Quantile>,
    /// 95th percentile of the response time; `None` below [`P95_NEEDS`](crate::P95_NEEDS) requests.
    #[serde(rename = "p95_ns", alias = "p95")]
    pub p95: Option<Quantile>,
    /// 99th percentile of the response time; `None` below [`P99_NEEDS`](crate::P99_NEEDS) requests.
    #[serde(rename = "p99_ns", alias = "p99")]
    pub p99: Option<Quantile>,
    /// 99.9th percentile of the response time; `None` below 3,688 requests.
    #[serde(rename = "p999_ns", alias = "p999")]
    pub p999: Option<Quantile>,
    /// The longest response time.
    #[serde(rename = "max_ns", alias = "max")]
    pub max: Option<Quantile>,
    /// How far chance within the trial may have moved the figures above.
    #[serde(rename = "intervals_ns", alias = "intervals")]
    pub intervals: Intervals,
    /// What made the requests around each high percentile slow; empty if the trial's causes are not known.
    #[serde(default)]
    pub tails: Tails,
    /// Median service time: end - slot, without the wait for a connection or stream.
    #[serde(rename = "service_median_ns", alias = "service_median")]
    pub service_median: Option<Quantile>,
    /// Transfer times: from a request's first byte written to its response's last byte read.
    #[serde(rename = "transfer_ns", alias = "transfer", default)]
    pub transfer: Figures,
    /// From when a request was due to the first bytes of its response's body, if the client recorded it.
    #[serde(rename = "first_chunk_ns", alias = "first_chunk", default)]
    pub first_chunk: Figures,
    /// Gaps between arrivals of response bodies; `None` if there were none, or the client does not record them.
    #[serde(
        rename = "gaps_ns",
        alias = "gaps",
        default,
        skip_serializing_if = "Option::is_none"
    )]
    pub gaps: Option<Figures>,
    /// Server times, if they were requested: from a request's first byte at the server across the link to its response's
    /// last byte.
    #[serde(
        rename = "server_ns",
        alias = "server",
        default,
        skip_serializing_if = "Option::is_none"
    )]
    pub server: Option<Figures>,
    /// Times of only those requests whose targets begin with a path, for each path that a measure names.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub targets: Vec<TargetTimes>,
    /// Body bytes of successful requests per second of their transfers, which may overlap; `None` without any.
    #[serde(default)]
    pub throughput_bytes_per_s: Option<f64>,
    /// The throughput that flow control allows for the longest bodies; `None` if no window limits a transfer, or no window
    /// is known.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub window_rate: Option<WindowRate>,
    /// Connections across all links, in warm-up and measurement together.
    #[serde(default)]
    pub link_connections: u64,
    /// TLS and QUIC handshakes on them, as far as one of squall's own stations counted them.
    #[serde(default)]
    pub handshakes: Option<u64>,
    /// Page times, for a load of pages.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub pages: Option<PageTimes>,
    /// Requests per second that were due in the measured phase.
    pub rate_asked_per_s: f64,
    /// Successful requests per second within the measured window. A request counts if its response completed within the
    /// measured phase shifted by a round trip, whenever it was scheduled (docs/METHOD.md). A variant that keeps up reaches
    /// the rate asked for.
    pub rate_achieved_per_s: f64,
    /// How far squall itself may have moved a time for which `own_errors` has nothing: the sum of the 99.9th percentiles of
    /// the generator's lag, of the link's wake-up delay, and of the link's lateness in each direction.
    ///
    /// Not the sum of their p99s: a request crosses the link in 3 to 5 packets, and any late packet makes it late. If 1 %
    /// of the packets are late, 4 to 6 % of the requests may be, which is more than a p99 leaves out. With 0.1 % of each
    /// late, about half a percent of the requests are.
    #[serde(rename = "own_error_ns", alias = "own_error")]
    pub own_error: Duration,
    /// How far squall itself may have moved the response times.
    #[serde(rename = "own_errors_ns", alias = "own_errors", default)]
    pub own_errors: OwnErrors,
    /// Whether the trial may be used as evidence.
    pub validity: Validity,
    /// The programs that ended by themselves.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub station_exits: Vec<StationExit>,
    /// The names of the stations whose programs did not report their versions.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub unknown_versions: Vec<String>,
    /// What other programs used of the processors while real programs of the path ran; `None` if it was little or is not
    /// known, or if all stations are squall's own.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub processors_taken: Option<ProcessorsTaken>,
}

impl TrialStats {
    /// True if the trial may be used as evidence.
    pub fn is_valid(&self) -> bool {
        self.validity == Validity::Valid
    }

    /// The trial's value of a measure; `None` if it has too few requests, pages or exchanges, or if nothing counted it. If
    /// the emulated path itself was the bottleneck, it is a limit.
    pub fn value(&self, measure: Measure) -> Option<Value> {
        let seen = self.seen_value(measure)?;
        if self.validity.is_limited() {
            seen.limited(measure.unit())
        } else {
            Some(seen)
        }
    }

    fn seen_value(&self, measure: Measure) -> Option<Value> {
        let time = |figures: &Figures, statistic| figures.get(statistic).map(Value::from);
        let path = measure.targets().unwrap_or_default();
        let below = match path.path() {
            Some(path) => Some(self.targets.iter().find(|times| times.path == path)?),
            None => None,
        };
        match measure {
            Measure::ResponseTime(statistic, _) => match below {
                Some(below) => time(&below.response, statistic),
                None => time(&self.response(), statistic),
            },
            Measure::PageTime(statistic) => time(&self.pages.as_ref()?.figures(), statistic),
            Measure::TransferTime(statistic, _) => time(
                below.map_or(&self.transfer, |below| &below.transfer),
                statistic,
            ),
            Measure::ServerTime(statistic, _) => {
                let server = below.map_or(&self.server, |below| &below.server);
                time(server.as_ref()?, statistic)
            }
            Measure::FirstChunkTime(statistic, _) => {
                let own = below.map_or(&self.first_chunk, |below| &below.first_chunk);
                time(own, statistic)
            }
            Measure::Gap(statistic) => time(self.gaps.as_ref()?, statistic),
            Measure::Throughput => self.throughput_bytes_per_s.map(Value::Exact),
            Measure::Connections => Some(Value::Exact(self.link_connections as f64)),
            Measure::Handshakes => Some(Value::Exact(self.handshakes? as f64)),
            Measure::FailedShare => {
                (self.asked > 0).then(|| Value::Exact(self.failed as f64 / self.asked as f64))
            }
        }
    }

    /// How far squall itself may have moved the value of a measure, in the measure's unit. For a doubtful trial, it is the time
    /// that was added to the requests in question, or infinite where that is not known: for all but response times.
    pub fn own_error_of(&self, measure: Measure) -> f64 {
        if self.validity.is_doubtful() {
            let added = match measure {
                Measure::ResponseTime(statistic, Targets::ALL) => self.own_errors.get(statistic),
                _ => None,
            };
            return added.map_or(f64::INFINITY, |added| added.as_nanos() as f64);
        }
        let error = match measure {
            Measure::ResponseTime(statistic, targets) if targets.path().is_none() => {
                self.own_error_of_response(statistic)
            }
            _ => self.own_error,
        };
        match measure.unit() {
            Unit::Time => error.as_nanos() as f64,
            // Counts are exact. Lateness of squall moves a rate by no more than its share of the transfer time.
            Unit::BytesPerSecond | Unit::Count | Unit::Share => 0.0,
        }
    }

    /// How far squall itself may have moved this statistic of the response times: the smaller of two bounds. While a server
    /// holds a request back, a link may run late without delaying it.
    pub(crate) fn own_error_of_response(&self, statistic: Statistic) -> Duration {
        self.own_errors
            .get(statistic)
            .map_or(self.own_error, |own| own.min(self.own_error))
    }

    pub(crate) fn response(&self) -> Figures {
        Figures {
            mean: self.mean,
            median: self.median,
            p90: self.p90,
            p95: self.p95,
            p99: self.p99,
            p999: self.p999,
            interquartile_range: self.interquartile_range,
        }
    }
}

/// Condenses a trial to its numbers. `requests` may hold the warm-up too; it is left out.
pub fn trial_stats(record: &TrialRecord, requests: &[RequestRecord]) -> TrialStats {
    let measured = || requests.iter().filter(|r| r.phase == Phase::Measure);
    let response: Sample = measured().map(|r| latency_since(r, r.intended)).collect();
    // A request that never had a slot was not served yet: its service time is zero or more.
    let service: Sample = measured()
        .map(|r| latency_since(r, r.slot.unwrap_or(r.end)))
        .collect();
    let transfer: Sample = measured().map(transfer_time).collect();
    let asked = response.len() as u64;
    let answered = measured().filter(|r| r.succeeded()).count() as u64;
    let censored = measured()
        .filter(|r| r.outcome == Outcome::Censored)
        .count() as u64;
    let trial = &record.trial;
    let of_response = Figures::of(&response);
    let own_errors = OwnErrors::of(record, measured(), &of_response);
    let (link_connections, handshakes) = across_links(record);
    TrialStats {
        index: trial.index,
        folder: trial.folder(),
        variant: trial.variant.name.clone(),
        condition: trial.condition.clone(),
        repetition: trial.repetition,
        seed: trial.seed,
        attempt: record.attempt,
        started_unix_ns: record.epoch_unix_ns,
        kernel: record.used.kernel.clone(),
        fast: record.health.links.iter().map(|link| link.fast).collect(),
        congestion_control_asked: asked_congestion_control(&trial.variant),
        congestion_control_used: congestion_control(record),
        asked,
        answered,
        failed: asked - answered - censored,
        censored,
        connections_opened: record.connections_opened,
        mean: of_response.mean,
        median: of_response.median,
        interquartile_range: response.interquartile_range(),
        p90: of_response.p90,
        p95: of_response.p95,
        p99: of_response.p99,
        p999: of_response.p999,
        max: response.max(),
        intervals: Intervals::default(),
        tails: Tails::default(),
        service_median: service.quantile(500),
        transfer: Figures::of(&transfer),
        first_chunk: Figures::of(&measured().filter_map(first_chunk_time).collect()),
        gaps: record.gaps.as_ref().map(gaps::figures),
        server: None,
        targets: Vec::new(),
        throughput_bytes_per_s: throughput(measured()),
        window_rate: WindowRate::of_trial(record, requests),
        link_connections,
        handshakes,
        pages: match &trial.load.kind {
            LoadKind::Pages { page, .. } => Some(PageTimes::of(page, measured())),
            _ => None,
        },
        rate_asked_per_s: record.health.rate_asked_per_s,
        rate_achieved_per_s: record.health.rate_achieved_per_s,
        own_error: own_error(record),
        own_errors,
        validity: record.health.validity.clone(),
        station_exits: record.station_exits.clone(),
        unknown_versions: unknown_versions(&record.stations),
        processors_taken: ProcessorsTaken::of(record),
    }
}

fn unknown_versions(stations: &[StationRecord]) -> Vec<String> {
    let untold = stations
        .iter()
        .filter(|it| it.version.as_deref() == Some(StationRecord::UNKNOWN_VERSION));
    untold.map(|station| station.name.clone()).collect()
}

/// Body bytes per second of the time that the transfers took, added up.
fn throughput<'a>(requests: impl Iterator<Item = &'a RequestRecord>) -> Option<f64> {
    let (mut bytes, mut seconds) = (0, 0.0);
    for request in requests.filter(|request| request.succeeded()) {
        bytes += request.request_body_bytes + request.response_body_bytes;
        let took = transfer_time(request).exact();
        seconds += took.map_or(0.0, Duration::as_secs_f64);
    }
    (seconds > 0.0).then(|| bytes as f64 / seconds)
}

/// Connections across all links, and handshakes on them. They are counted by a link's client if that is squall's own,
/// otherwise by its server, otherwise from the packets, which show no handshakes.
fn across_links(record: &TrialRecord) -> (u64, Option<u64>) {
    let links = record.trial.variant.link_hops();
    let counts = links.map(|(number, _)| across_link(record, number));
    counts.fold(
        (0, Some(0)),
        |(connections, handshakes), (more, further)| {
            let handshakes = handshakes.zip(further).map(|(all, more)| all + more);
            (connections + more, handshakes)
        },
    )
}

fn across_link(record: &TrialRecord, number: u8) -> (u64, Option<u64>) {
    let hop = record.hops.iter().find(|hop| hop.hop == number);
    let counts = hop.and_then(|hop| hop.client.as_ref().or(hop.server.as_ref()));
    match (counts, hop.and_then(|hop| hop.wire.as_ref())) {
        (Some(counts), _) => (
            counts.tcp_connections + counts.quic_connections,
            Some(counts.tls_full + counts.tls_resumed),
        ),
        (None, Some(wire)) => (wire.connections(), None),
        (None, None) => (record.connections_opened.into(), None),
    }
}

/// A trial's rows, in any order, with or without those of the warm-up.
#[derive(Clone, Copy, Debug)]
pub struct TrialRows<'a> {
    /// The requests.
    pub requests: &'a [RequestRecord],
    /// The requests' causes, if they are known.
    pub causes: Option<&'a [CausesRecord]>,
    /// The exchanges, if server times are wanted.
    pub exchanges: Option<&'a [ExchangeRecord]>,
    /// The plan, for measures of some targets only; `None` if those are not wanted.
    pub plan: Option<&'a Plan>,
}

/// Condenses a trial to its numbers. Adds how far chance may have moved them and, if there are causes, what made the
/// requests around each high percentile slow.
pub fn trial_evidence(record: &TrialRecord, rows: TrialRows<'_>) -> TrialStats {
    let TrialRows {
        requests,
        causes,
        exchanges,
        plan,
    } = rows;
    let stats = trial_stats(record, requests);
    let mut measured: Vec<&RequestRecord> = requests
        .iter()
        .filter(|request| request.phase == Phase::Measure)
        .collect();
    measured.sort_by_key(|request| (request.intended, request.request));
    let series: Vec<f64> = measured
        .iter()
        .map(|request| {
            let latency = latency_since(request, request.intended).lower_bound();
            latency.map_or(f64::INFINITY, |latency| latency.as_nanos() as f64)
        })
        .collect();
    let trial = &record.trial;
    // The fewest requests in a batch: those scheduled within its minimum length.
    let wanted_in = match (measured.first(), measured.last()) {
        (Some(first), Some(last)) => last.intended.since(first.intended).as_secs_f64(),
        _ => 0.0,
    };
    let round_trips = trial.round_trip().as_secs_f64() * BATCH_ROUND_TRIPS as f64;
    let batch = round_trips.max(BATCH_AT_LEAST.as_secs_f64());
    let batch_at_least = if wanted_in > 0.0 {
        series.len() as f64 / wanted_in * batch
    } else {
        series.len() as f64
    };
    let served = exchanges.map(|exchanges| ServedExchanges::new(record, requests, exchanges));
    let served = served.as_ref();
    TrialStats {
        intervals: intervals(&stats, &series, batch_at_least),
        tails: causes.map_or_else(Tails::default, |causes| Tails::of(requests, causes)),
        server: served.map(|served| Figures::of(&served.times(|_| true))),
        targets: plan.map_or_else(Vec::new, |plan| target_times(plan, requests, served)),
        ..stats
    }
}

fn intervals(stats: &TrialStats, series: &[f64], batch_at_least: f64) -> Intervals {
    let found = within::intervals(series, batch_at_least);
    // An end among the requests that never ended is open, and so is the upper end of a figure that is not known exactly.
    let end = |nanos: f64| {
        if nanos.is_finite() {
            Quantile::Exact(Duration::from_nanos(nanos.round() as u64))
        } else {
            Quantile::Never
        }
    };
    let of = |figure: Statistic, value: Option<Quantile>| {
        let (low, high) = found[figure as usize]?;
        let is_exact = value?.exact().is_some();
        Some(Interval {
            low: end(low),
            high: end(if is_exact { high } else { f64::INFINITY }),
        })
    };
    Intervals {
        mean: of(Statistic::Mean, stats.mean),
        median: of(Statistic::P50, stats.median),
        interquartile_range: of(Statistic::Iqr, stats.interquartile_range),
        p90: of(Statistic::P90, stats.p90),
        p95: of(Statistic::P95, stats.p95),
        p99: of(Statistic::P99, stats.p99),
        p999: of(Statistic::P999, stats.p999),
    }
}

/// How far squall itself may have moved a time of which no more is known.
fn own_error(record: &TrialRecord) -> Duration {
    let health = &record.health;
    let link = health.link.iter().map(|direction| direction.lateness);
    // Each link has a thread of its own, which wakes up late by itself.
    let links = record.trial.variant.links().max(1);
    std::iter::once(health.schedule_lag)
        .chain(std::iter::repeat_n(health.link_wakeup, links))
        .chain(link)
        .fold(Duration::ZERO, |sum, lateness| sum + lateness.p999)
}

fn congestion_control(record: &TrialRecord) -> Vec<String> {
    let used = &record.used;
    let mut names: Vec<String> = used
        .client_congestion_control
        .iter()
        .chain(&used.server_congestion_control)
        .chain(used.next_links.iter().flat_map(|link| &link.client))
        .chain(used.next_links.iter().flat_map(|link| &link.server))
        .cloned()
        .collect();
    names.sort_unstable();
    names.dedup();
    names
}

fn asked_congestion_control(variant: &Variant) -> Vec<String> {
    let hops = variant.link_hops();
    let asked = hops.flat_map(|(_, hop)| [&hop.client, &hop.server]);
    distinct(asked.filter_map(|side| side.tcp.congestion_control.clone()))
}
