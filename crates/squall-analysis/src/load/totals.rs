//! The sums of a load over all of its requests, whose own records need not be kept.
//!
//! Latencies, parts, statuses and bytes are those of the measured phase; the warm-up is only counted. Latencies are those
//! of successful requests; [`LoadTotals::response_quantile`] includes the others. It reads no clock: the times of requests
//! and `now` count from the load's start. For the last second alone, see `interval`.

use std::collections::BTreeMap;

use squall_base::record::{Outcome, Phase, RequestRecord};
use squall_base::{Duration, Time};

use super::failures::Failures;
use super::latencies::{Latencies, quantile_of_all};
use super::parts::{Part, parts};
use crate::quantile::Quantile;

/// The number of requests whose spans are counted together.
const AT_ONCE: usize = 32;

/// The measured phase, from the load's start.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct MeasuredPhase {
    /// The end of the warm-up.
    pub from: Time,
    /// Until when requests are due; `None` if the load ends after a number of requests.
    pub to: Option<Time>,
}

/// A load's sums.
#[derive(Clone, Debug, Default)]
pub struct LoadTotals {
    phase: MeasuredPhase,
    warmup: u64,
    by_outcome: [u64; Outcome::ALL.len()],
    succeeded: u64,
    by_status: BTreeMap<u16, u64>,
    failed_calls: u64,
    failures: Failures,
    body_bytes_out: u64,
    body_bytes_in: u64,
    succeeded_in_window: u64,
    handshakes: u64,
    shortest: Option<Duration>,
    response: Latencies,
    service: Latencies,
    lag: Latencies,
    unfinished: Latencies,
    parts: [Latencies; Part::ALL.len()],
    first_chunk: Latencies,
    /// Unfinished requests without a first chunk.
    unfinished_without_chunk: Latencies,
    longest_gap: Latencies,
    gaps: Latencies,
}

/// The spans and statuses of some requests, one column each, so that runs of equal ones are counted together.
struct SpanColumns {
    answered: usize,
    statuses: [u16; AT_ONCE],
    measured: usize,
    lag: [Duration; AT_ONCE],
    succeeded: usize,
    response: [Duration; AT_ONCE],
    service: [Duration; AT_ONCE],
    parts: [[Duration; AT_ONCE]; Part::ALL.len()],
    first_chunk: [Duration; AT_ONCE],
}

impl SpanColumns {
    fn new() -> SpanColumns {
        let none = [Duration::ZERO; AT_ONCE];
        SpanColumns {
            answered: 0,
            statuses: [0; AT_ONCE],
            measured: 0,
            lag: none,
            succeeded: 0,
            response: none,
            service: none,
            parts: [none; Part::ALL.len()],
            first_chunk: none,
        }
    }

    fn clear(&mut self) {
        (self.answered, self.measured, self.succeeded) = (0, 0, 0);
    }

    fn add_parts(&mut self, request: &RequestRecord) {
        let place = self.succeeded;
        self.response[place] = request.response_time();
        self.service[place] = request.service_time().unwrap_or_default();
        for (column, part) in self.parts.iter_mut().zip(parts(request)) {
            column[place] = part;
        }
        // For a response without a body, its end stands in for its first chunk.
        let first = request.arrivals.first.unwrap_or(request.end);
        self.first_chunk[place] = first.since(request.intended);
        self.succeeded += 1;
    }
}

impl LoadTotals {
    /// Totals without any request.
    pub fn new(phase: MeasuredPhase) -> LoadTotals {
        LoadTotals {
            phase,
            ..LoadTotals::default()
        }
    }

    /// Counts a request that has ended.
    pub fn add(&mut self, request: &RequestRecord) {
        self.add_all(std::slice::from_ref(request));
    }

    /// Counts requests that have ended.
    pub fn add_all(&mut self, requests: &[RequestRecord]) {
        let mut spans = SpanColumns::new();
        for requests in requests.chunks(AT_ONCE) {
            spans.clear();
            for request in requests {
                self.count(request, &mut spans);
            }
            let statuses = &spans.statuses[..spans.answered];
            for same in statuses.chunk_by(|status, next| status == next) {
                *self.by_status.entry(same[0]).or_default() += same.len() as u64;
            }
            self.lag.add_all(&spans.lag[..spans.measured]);
            self.response.add_all(&spans.response[..spans.succeeded]);
            self.service.add_all(&spans.service[..spans.succeeded]);
            for (sum, part) in self.parts.iter_mut().zip(&spans.parts) {
                sum.add_all(&part[..spans.succeeded]);
            }
            self.first_chunk
                .add_all(&spans.first_chunk[..spans.succeeded]);
        }
    }

    /// Counts everything about a request but its spans, which it adds to `spans`.
    fn count(&mut self, request: &RequestRecord, spans: &mut SpanColumns) {
        let is_success = request.succeeded();
        if is_success {
            self.count_in_window(request);
        }
        self.count_handshake(request);
        if request.phase == Phase::Warmup {
            self.warmup += 1;
            return;
        }
        self.by_outcome[request.outcome as usize] += 1;
        spans.lag[spans.measured] = request.taken_up.since(request.intended);
        spans.measured += 1;
        self.body_bytes_in += request.response_body_bytes;
        if request.written_last.is_some() {
            self.body_bytes_out += request.request_body_bytes;
        }
        match request.outcome {
            Outcome::Answered => {
                spans.statuses[spans.answered] = request.status.unwrap_or(0);
                spans.answered += 1;
                if request.is_failed_call() {
                    self.failed_calls += 1;
                    let said = request.error.as_deref().unwrap_or("");
                    self.failures.add(Outcome::Answered, said);
                }
            }
            Outcome::Censored => {
                self.unfinished.add(request.response_time());
                match first_chunk_of_unfinished(request) {
                    Some(after) => self.first_chunk.add(after),
                    None => self.unfinished_without_chunk.add(request.response_time()),
                }
            }
            failed => self
                .failures
                .add(failed, request.error.as_deref().unwrap_or("")),
        }
        if let Some(gap) = request.arrivals.longest_gap {
            self.longest_gap.add(gap.length);
        }
        if is_success {
            self.succeeded += 1;
            spans.add_parts(request);
        }
    }

    /// Counts gaps between arrivals of response bodies: how many there were of each length.
    pub fn add_gaps(&mut self, counts: impl IntoIterator<Item = (Duration, u64)>) {
        for (length, count) in counts {
            self.gaps.add_times(length, count);
        }
    }

    /// Counts a successful request if it ends in the measured phase shifted by a round trip, as the achieved rate does
    /// (docs/METHOD.md). The shortest response so far stands for that round trip. Without the shift, every rate would lack the
    /// responses to the last requests.
    fn count_in_window(&mut self, request: &RequestRecord) {
        let took = request.response_time();
        let shift = self.shortest.map_or(took, |shortest| shortest.min(took));
        self.shortest = Some(shift);
        let is_after = |start: Time| request.end >= start + shift;
        let is_before = |end: Time| request.end <= end + shift;
        if (self.phase.from == Time::ZERO || is_after(self.phase.from))
            && self.phase.to.is_none_or(is_before)
        {
            self.succeeded_in_window += 1;
        }
    }

    /// Counts the handshake of a connection that was opened for this request, if it completed within the measured phase: that
    /// of TLS or QUIC, or in cleartext that of TCP.
    fn count_handshake(&mut self, request: &RequestRecord) {
        if !request.opened_connection {
            return;
        }
        let (from, to) = (self.phase.from, self.phase.to);
        let is_measured = |time: Time| time >= from && to.is_none_or(|to| time <= to);
        if request
            .secured
            .or(request.connected)
            .is_some_and(is_measured)
        {
            self.handshakes += 1;
        }
    }

    /// Adds all of `other`'s requests, such as those of another thread of the same load.
    pub fn merge(&mut self, other: &LoadTotals) {
        self.warmup += other.warmup;
        for (count, more) in self.by_outcome.iter_mut().zip(other.by_outcome) {
            *count += more;
        }
        self.succeeded += other.succeeded;
        for (status, count) in &other.by_status {
            *self.by_status.entry(*status).or_default() += count;
        }
        self.failed_calls += other.failed_calls;
        self.failures.merge(&other.failures);
        self.body_bytes_out += other.body_bytes_out;
        self.body_bytes_in += other.body_bytes_in;
        self.succeeded_in_window += other.succeeded_in_window;
        self.handshakes += other.handshakes;
        self.shortest = self.shortest.into_iter().chain(other.shortest).min();
        self.response.merge(&other.response);
        self.service.merge(&other.service);
        self.lag.merge(&other.lag);
        self.unfinished.merge(&other.unfinished);
        for (part, more) in self.parts.iter_mut().zip(&other.parts) {
            part.merge(more);
        }
        self.first_chunk.merge(&other.first_chunk);
        self.unfinished_without_chunk
            .merge(&other.unfinished_without_chunk);
        self.longest_gap.merge(&other.longest_gap);
        self.gaps.merge(&other.gaps);
    }

    /// Measured requests that have ended, whatever their outcome.
    pub fn requests(&self) -> u64 {
        self.by_outcome.iter().sum()
    }

    /// Requests of the warm-up that have ended; no other number includes them.
    pub fn warmup(&self) -> u64 {
        self.warmup
    }

    /// Requests with a complete response and a status below 400, except gRPC calls that failed.
    pub fn succeeded(&self) -> u64 {
        self.succeeded
    }

    /// Whether any request succeeded, even in the warm-up.
    pub fn has_success(&self) -> bool {
        self.shortest.is_some()
    }

    /// Requests with this outcome.
    pub fn with_outcome(&self, outcome: Outcome) -> u64 {
        self.by_outcome[outcome as usize]
    }

    /// Requests with a complete response and a status of 400 or more.
    pub fn error_statuses(&self) -> u64 {
        self.with_outcome(Outcome::Answered) - self.succeeded - self.failed_calls
    }

    /// gRPC calls that failed although they have a complete response and a status below 400.
    pub fn failed_calls(&self) -> u64 {
        self.failed_calls
    }

    /// Requests that were abandoned unfinished after the load had ended.
    pub fn censored(&self) -> u64 {
        self.with_outcome(Outcome::Censored)
    }

    /// Requests that ended without a response or with an error status, and gRPC calls that failed; except those that were
    /// abandoned unfinished.
    pub fn failed(&self) -> u64 {
        self.requests() - self.succeeded - self.censored()
    }

    /// Requests with a response, by status; 0 for a response without a status.
    pub fn statuses(&self) -> &BTreeMap<u16, u64> {
        &self.by_status
    }

    /// Requests with a response whose status has `class` as its first digit, from 1 to 5.
    pub fn status_class(&self, class: u16) -> u64 {
        let of_class = self.by_status.range(class * 100..(class + 1) * 100);
        of_class.map(|(_, count)| count).sum()
    }

    /// The failures of requests without a response, and of gRPC calls.
    pub fn failures(&self) -> &Failures {
        &self.failures
    }

    /// Connections that were opened for requests and whose handshake completed within the measured phase: that of TLS or QUIC,
    /// or in cleartext that of TCP. Connections that were opened before the load do not count.
    pub fn handshakes(&self) -> u64 {
        self.handshakes
    }

    /// Body bytes of requests that were written to a socket completely.
    pub fn body_bytes_out(&self) -> u64 {
        self.body_bytes_out
    }

    /// Body bytes of responses, unfinished ones included.
    pub fn body_bytes_in(&self) -> u64 {
        self.body_bytes_in
    }

    /// Response times (end - intended) of requests that succeeded.
    pub fn response(&self) -> &Latencies {
        &self.response
    }

    /// Service times (end - slot) of requests that succeeded.
    pub fn service(&self) -> &Latencies {
        &self.service
    }

    /// The generator's lag (taken up - intended) of every request.
    pub fn lag(&self) -> &Latencies {
        &self.lag
    }

    /// How long abandoned requests had waited, which is less than their response times.
    pub fn unfinished(&self) -> &Latencies {
        &self.unfinished
    }

    /// From when a request was due to when the first bytes of its response's body were read, or its end if it has no body.
    /// Covers requests that succeeded, and unfinished ones that have a status below 400 and a first byte of the body.
    pub fn first_chunk(&self) -> &Latencies {
        &self.first_chunk
    }

    /// How long unfinished requests without a first chunk had waited for it.
    pub fn unfinished_without_chunk(&self) -> &Latencies {
        &self.unfinished_without_chunk
    }

    /// The gaps between arrivals of response bodies, whatever the outcome of their requests.
    pub fn gaps(&self) -> &Latencies {
        &self.gaps
    }

    /// The longest gap of each response that has one.
    pub fn longest_gap(&self) -> &Latencies {
        &self.longest_gap
    }

    /// One part of the response times of successful requests; zeros are counted, so the parts' means add up.
    pub fn part(&self, part: Part) -> &Latencies {
        &self.parts[part as usize]
    }

    /// How much of the measured phase has passed at `now`; when the load is over, `now` is its end.
    pub fn measured_for(&self, now: Time) -> Duration {
        self.phase
            .to
            .map_or(now, |to| to.min(now))
            .since(self.phase.from)
    }

    /// Successful requests per second within the measured phase, as far as it has passed at `now`.
    pub fn achieved_per_s(&self, now: Time) -> Option<f64> {
        self.per_s(self.succeeded_in_window, now)
    }

    /// `count` per second of the measured phase; `None` if it has not begun at `now`.
    pub fn per_s(&self, count: u64, now: Time) -> Option<f64> {
        let measured = self.measured_for(now);
        (!measured.is_zero()).then(|| count as f64 / measured.as_secs_f64())
    }

    /// The mean response time of *all* measured requests. If some failed or are unfinished it is a lower bound, the mean of
    /// those that did not fail, as in [`Sample::mean`](crate::Sample::mean).
    pub fn response_mean(&self) -> Option<Quantile> {
        let known = self.response.count() + self.unfinished.count();
        let sum_ns = self.response.sum_ns() + self.unfinished.sum_ns();
        let Some(mean_ns) = sum_ns.checked_div(u128::from(known)) else {
            return (self.requests() > 0).then_some(Quantile::Never);
        };
        // The mean of u64 values is a u64.
        let mean = Duration::from_nanos(mean_ns as u64);
        Some(if self.succeeded == self.requests() {
            Quantile::Exact(mean)
        } else {
            Quantile::AtLeast(mean)
        })
    }

    /// The quantile of the response times of *all* measured requests, such as 0.99 for p99. Failed ones count as
    /// infinite and unfinished ones as longer than they had waited, exactly as in
    /// [`Sample::quantile`](crate::Sample::quantile).
    pub fn response_quantile(&self, quantile: f64) -> Option<Quantile> {
        quantile_of_all(&self.response, &self.unfinished, self.requests(), quantile)
    }

    /// The quantile of the times to the first chunk of *all* measured requests, as in [`LoadTotals::response_quantile`].
    pub fn first_chunk_quantile(&self, quantile: f64) -> Option<Quantile> {
        let waiting = &self.unfinished_without_chunk;
        quantile_of_all(&self.first_chunk, waiting, self.requests(), quantile)
    }
}

/// From when an unfinished request was due to its first chunk; `None` if no chunk arrived, or if its status is an
/// error.
fn first_chunk_of_unfinished(request: &RequestRecord) -> Option<Duration> {
    let first = request.arrivals.first?;
    let is_good = request.status.is_some_and(|status| status < 400);
    is_good.then(|| first.since(request.intended))
}

#[cfg(test)]
mod tests {
    use squall_base::record::BodyArrivals;

    use super::*;
    use crate::load::requests::{answered, at, failed};

    fn totals(requests: impl IntoIterator<Item = RequestRecord>) -> LoadTotals {
        let mut totals = LoadTotals::new(MeasuredPhase::default());
        requests
            .into_iter()
            .for_each(|request| totals.add(&request));
        totals
    }

    #[test]
    fn has_success_counts_the_warm_up_but_no_failures() {
        let in_warm_up = |request| RequestRecord {
            phase: Phase::Warmup,
            ..request
        };
        let censored = in_warm_up(failed(0, 5_000, Outcome::Censored, ""));
        let mut totals = totals([censored]);
        assert!(!totals.has_success());
        totals.add(&in_warm_up(answered(0, 900)));
        assert_eq!((totals.has_success(), totals.succeeded()), (true, 0));
    }

    #[test]
    fn each_request_counts_once_under_its_outcome() {
        let warm = RequestRecord {
            phase: Phase::Warmup,
            ..answered(0, 900)
        };
        let refused = RequestRecord {
            status: Some(503),
            ..answered(0, 10)
        };
        let censored = failed(0, 5_000, Outcome::Censored, "");
        let closed = failed(0, 70, Outcome::ConnectionClosed, "reset");
        let totals = totals([warm, answered(5, 100), refused, censored, closed]);
        assert_eq!((totals.requests(), totals.warmup()), (4, 1));
        assert!(totals.has_success());
        assert_eq!(
            (totals.succeeded(), totals.failed(), totals.censored()),
            (1, 2, 1)
        );
        assert_eq!(
            (
                totals.error_statuses(),
                totals.status_class(5),
                totals.status_class(2)
            ),
            (1, 1, 1)
        );
        assert_eq!(totals.failures().kinds()[0].text, "reset");
        assert_eq!(totals.response().max(), Some(Duration::from_micros(100)));
        assert_eq!(totals.unfinished().max(), Some(Duration::from_millis(5)));
        assert_eq!(totals.lag().count(), 4);
        assert_eq!(totals.body_bytes_in(), 200);
    }

    #[test]
    fn grpc_calls_that_failed_count_as_failures_by_their_status() {
        let call = |status, error: &str| RequestRecord {
            status: Some(status),
            error: Some(error.to_owned()),
            ..answered(0, 10)
        };
        let internal = "grpc-status 13 (INTERNAL)";
        let requests = [
            answered(0, 100),
            call(200, internal),
            call(200, internal),
            call(200, "no grpc-status"),
            call(503, "grpc-status 14 (UNAVAILABLE)"),
        ];
        let mut totals = totals(requests);
        totals.merge(&totals.clone());
        assert_eq!((totals.succeeded(), totals.failed()), (2, 8));
        assert_eq!((totals.failed_calls(), totals.error_statuses()), (6, 2));
        assert_eq!(totals.statuses()[&200], 8);
        let kinds: Vec<_> = (totals.failures().kinds().iter())
            .map(|kind| (kind.outcome, kind.text.as_str(), kind.count))
            .collect();
        let expected = [
            (Outcome::Answered, internal, 4),
            (Outcome::Answered, "no grpc-status", 2),
        ];
        assert_eq!(kinds, expected);
        assert_eq!(totals.response().count(), 2);
    }

    #[test]
    fn adding_requests_in_bulk_equals_adding_them_one_by_one() {
        let request = |n| match n % 5 {
            0 => RequestRecord {
                phase: Phase::Warmup,
                ..answered(n, 900)
            },
            1 => failed(n, 70, Outcome::ConnectionClosed, "reset"),
            2 => failed(n, 5_000, Outcome::Censored, ""),
            _ => RequestRecord {
                taken_up: at(n + n / 50),
                ..answered(n, 100 + n / 20)
            },
        };
        let requests: Vec<_> = (0..200).map(request).collect();
        let mut at_once = LoadTotals::new(MeasuredPhase::default());
        at_once.add_all(&requests);
        assert_eq!(format!("{at_once:?}"), format!("{:?}", totals(requests)));
    }

    #[test]
    fn parts_of_all_requests_add_up_to_their_response_times() {
        let totals = totals((0..500).map(|n| RequestRecord {
            taken_up: at(n + n % 3),
            slot: Some(at(n + n % 7)),
            written_last: Some(at(n + 20)),
            answered_first: (n % 2 == 0).then_some(at(n + 60)),
            ..answered(n, 100 + n)
        }));
        let sum: u128 = Part::ALL
            .map(|part| totals.part(part).sum_ns())
            .iter()
            .sum();
        assert_eq!(sum, totals.response().sum_ns());
        assert!(
            Part::ALL
                .iter()
                .all(|part| totals.part(*part).count() == 500)
        );
    }

    #[test]
    fn the_rate_is_taken_over_the_measured_window() {
        // 1,000 a second for 3 seconds, each complete after 100 ms; the first second warms up.
        let phase = MeasuredPhase {
            from: at(1_000_000),
            to: Some(at(3_000_000)),
        };
        let mut totals = LoadTotals::new(phase);
        for n in 0..3_000 {
            let mut request = answered(n * 1_000, 100_000);
            if n < 1_000 {
                request.phase = Phase::Warmup;
            }
            totals.add(&request);
        }
        assert_eq!((totals.warmup(), totals.requests()), (1_000, 2_000));
        assert_eq!(totals.achieved_per_s(at(3_100_000)), Some(1_000.0));
        assert_eq!(totals.achieved_per_s(at(900_000)), None);
    }

    #[test]
    fn handshakes_are_those_of_requests_that_opened_a_connection_in_the_measured_phase() {
        let opened = |from: u64, is_secure: bool| RequestRecord {
            connected: Some(at(from + 100)),
            secured: is_secure.then(|| at(from + 300)),
            opened_connection: true,
            ..answered(from, 900)
        };
        let reused = RequestRecord {
            opened_connection: false,
            ..opened(1_000, true)
        };
        let reset = RequestRecord {
            status: None,
            outcome: Outcome::StreamReset,
            ..opened(1_100, true)
        };
        let mut totals = LoadTotals::new(MeasuredPhase {
            from: at(1_000),
            to: Some(at(2_000)),
        });
        for request in [
            // TCP's handshake ended before the measured phase, that of TLS within it.
            opened(800, true),
            opened(600, true),
            opened(890, false),
            opened(900, false),
            reused,
            reset,
            opened(1_700, true),
            opened(1_701, true),
        ] {
            totals.add(&request);
        }
        assert_eq!(totals.handshakes(), 4);
        assert_eq!(totals.per_s(totals.handshakes(), at(2_500)), Some(4_000.0));
        totals.merge(&totals.clone());
        assert_eq!(totals.handshakes(), 8);
    }

    #[test]
    fn few_requests_at_a_steady_rate_achieve_exactly_that_rate() {
        for requests in [2, 5, 10] {
            let end = at(requests * 1_000_000);
            let mut totals = LoadTotals::new(MeasuredPhase {
                from: Time::ZERO,
                to: Some(end),
            });
            (0..requests).for_each(|n| totals.add(&answered(n * 1_000_000, 200)));
            assert_eq!(totals.measured_for(end), Duration::from_secs(requests));
            assert_eq!(totals.achieved_per_s(end), Some(1.0));
        }
    }

    #[test]
    fn load_with_a_number_of_requests_is_measured_until_its_last_response() {
        for requests in [2, 5, 10] {
            let mut totals = LoadTotals::new(MeasuredPhase::default());
            // Each request is sent when the one before it has its response.
            (0..requests).for_each(|n| totals.add(&answered(n * 1_000, 1_000)));
            assert_eq!(totals.achieved_per_s(at(requests * 1_000)), Some(1_000.0));
        }
    }

    #[test]
    fn responses_after_the_window_do_not_count_as_achieved() {
        let phase = MeasuredPhase {
            from: Time::ZERO,
            to: Some(at(1_000_000)),
        };
        let mut totals = LoadTotals::new(phase);
        // Twice as many requests as the server can handle: the second half completes while the load drains.
        (0..1_000).for_each(|n| totals.add(&answered(n * 1_000, 1_000 + n * 1_000)));
        assert_eq!(totals.achieved_per_s(at(2_000_000)), Some(501.0));
        assert_eq!(totals.succeeded(), 1_000);
    }

    #[test]
    fn quantiles_of_all_requests_include_failed_and_unfinished_ones() {
        let good = |count: u64| (0..count).map(|n| answered(n, 1_000));
        let of = |outcome, count: u64| (0..count).map(move |n| failed(n, 2_000, outcome, ""));
        // The histogram's resolution is 0.1 %.
        let rounded = |span: Duration| Duration::from_micros(span.as_nanos() / 10_000 * 10);
        let p99 = |totals: LoadTotals| match totals.response_quantile(0.99) {
            Some(Quantile::Exact(span)) => Some(Quantile::Exact(rounded(span))),
            Some(Quantile::AtLeast(span)) => Some(Quantile::AtLeast(rounded(span))),
            other => other,
        };
        let ms = Duration::from_millis;
        assert_eq!(p99(totals(good(300))), None);
        assert_eq!(p99(totals(good(400))), Some(Quantile::Exact(ms(1))));
        let with = |outcome, count| p99(totals(good(400).chain(of(outcome, count))));
        assert_eq!(with(Outcome::StreamReset, 5), Some(Quantile::Never));
        assert_eq!(with(Outcome::Censored, 5), Some(Quantile::AtLeast(ms(2))));
        assert_eq!(with(Outcome::Censored, 3), Some(Quantile::Exact(ms(1))));
    }

    #[test]
    fn first_chunks_and_gaps_are_those_of_the_measured_phase() {
        let streamed = |first: u64, gap: u64| {
            let mut arrivals = BodyArrivals::default();
            arrivals.note(at(first), true);
            arrivals.note(at(first + gap), true);
            arrivals
        };
        let good = |n: u64| RequestRecord {
            arrivals: streamed(50, 20 + n),
            ..answered(0, 900)
        };
        let warm = RequestRecord {
            phase: Phase::Warmup,
            ..good(500)
        };
        let cut_off = RequestRecord {
            status: Some(200),
            arrivals: streamed(60, 300),
            ..failed(0, 5_000, Outcome::Censored, "")
        };
        let silent = failed(0, 5_000, Outcome::Censored, "");
        let mut totals = totals((0..8).map(good).chain([warm, cut_off, silent]));
        totals.add_gaps([(Duration::from_micros(20), 3)]);
        assert_eq!(totals.first_chunk().count(), 9);
        let us = Duration::from_micros;
        assert_eq!(totals.first_chunk().max(), Some(us(60)));
        assert_eq!(totals.longest_gap().count(), 9);
        assert_eq!(totals.longest_gap().max(), Some(us(300)));
        assert_eq!(totals.gaps().count(), 3);
        // The unfinished request with a first chunk is known; the other one never got a first chunk.
        let median = totals.first_chunk_quantile(0.5);
        assert!(
            matches!(median, Some(Quantile::Exact(span)) if (us(50)..us(51)).contains(&span)),
            "{median:?}"
        );
        let mut doubled = totals.clone();
        doubled.merge(&totals);
        assert_eq!(doubled.first_chunk().count(), 18);
        assert_eq!(doubled.gaps().count(), 6);
        assert_eq!(doubled.longest_gap().count(), 18);
    }

    #[test]
    fn response_without_a_body_has_its_first_chunk_at_its_end() {
        let totals = totals([answered(0, 900)]);
        let end = Some(Duration::from_micros(900));
        assert_eq!(totals.first_chunk().max(), end);
        assert!(totals.longest_gap().is_empty() && totals.gaps().is_empty());
    }

    #[test]
    fn mean_of_all_requests_is_a_lower_bound_unless_all_succeeded() {
        let us = Duration::from_micros;
        let mean = |requests: Vec<RequestRecord>| totals(requests).response_mean();
        let good = || vec![answered(0, 100), answered(5, 300)];
        assert_eq!(mean(good()), Some(Quantile::Exact(us(200))));
        let unfinished = failed(0, 500, Outcome::Censored, "");
        let with_unfinished = [good(), vec![unfinished]].concat();
        assert_eq!(mean(with_unfinished), Some(Quantile::AtLeast(us(300))));
        let reset = || failed(0, 1, Outcome::StreamReset, "reset");
        let with_failed = [good(), vec![reset()]].concat();
        assert_eq!(mean(with_failed), Some(Quantile::AtLeast(us(200))));
        assert_eq!(mean(vec![reset()]), Some(Quantile::Never));
        assert_eq!(mean(Vec::new()), None);
    }

    #[test]
    fn merged_totals_equal_totals_added_together() {
        let requests = |from: u64| (from..from + 500).map(|n| answered(n, 50 + n));
        let mut merged = totals(requests(0));
        let later = || requests(500).chain([failed(0, 1, Outcome::TlsFailed, "x")]);
        merged.merge(&totals(later()));
        let all = totals(requests(0).chain(later()));
        assert_eq!(
            (merged.requests(), merged.failed()),
            (all.requests(), all.failed())
        );
        assert_eq!(
            merged.response().quantile(0.99),
            all.response().quantile(0.99)
        );
        assert_eq!(merged.failures(), all.failures());
        assert_eq!(
            merged.achieved_per_s(at(1_000_000)),
            all.achieved_per_s(at(1_000_000))
        );
    }
}
