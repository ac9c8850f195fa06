//! Whether a server handles the requests of one connection concurrently, by version: from two slow requests, of which the
//! second was sent before the first could be answered.
//!
//! It says nothing where the times are unclear. Whether a small response may overtake a long one is in `endpoint`; `detect`
//! says what is a fault.

use serde::Serialize;
use squall_base::plan::Version;
use squall_base::record::RequestRecord;
use squall_base::{Duration, Time};

use super::observed::{Observations, Step, StepKind, version_name};
use super::spans::times;

/// If the server takes less than this for a response, the response says nothing.
const SLOW: Duration = Duration::from_millis(100);

/// Two slow requests on one connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub struct Concurrency {
    /// The version.
    pub version: &'static str,
    /// Whether the server handled both at the same time.
    pub is_concurrent: bool,
    /// From the first request to the first byte of its response.
    #[serde(rename = "first_ns")]
    pub first: Duration,
    /// From the second request to the first byte of its response.
    #[serde(rename = "second_ns")]
    pub second: Duration,
}

impl Concurrency {
    /// One for each version whose responses are slow.
    pub(super) fn all(seen: &Observations, round_trip: Option<Duration>) -> Vec<Concurrency> {
        let round_trip = round_trip.unwrap_or_default();
        let of = |version| {
            let mut pairs = seen.steps_of(StepKind::SlowPair, version);
            let usual = usual_at_most(seen, version)? - round_trip;
            pairs.find_map(|pair| Concurrency::of(pair, round_trip, usual))
        };
        let versions = [Version::Http2, Version::Http3].into_iter();
        versions.filter_map(of).collect()
    }

    /// `usual` is the longest time that the server usually takes for a single small request.
    fn of(pair: &Step, round_trip: Duration, usual: Duration) -> Option<Concurrency> {
        let (one, two) = (pair.of(1)?, pair.of(2)?);
        let (sent, answered) = written_and_answered(one)?;
        let (second_sent, second_answered) = written_and_answered(two)?;
        if one.connection != two.connection || second_sent >= answered {
            return None;
        }
        let (first, second) = (answered.since(sent), second_answered.since(second_sent));
        let served = first - round_trip;
        // How much later than the first one the second response began.
        let behind = second_answered.since(answered);
        let is_serial = behind >= times(served, 0.75)
            // A server whose times vary must not look like a serial one.
            && second - round_trip >= times(usual, 1.5);
        let is_concurrent = behind <= times(served, 0.5);
        let is_clear = served >= SLOW && (is_serial || is_concurrent);
        is_clear.then(|| Concurrency {
            version: version_name(pair.version),
            is_concurrent,
            first,
            second,
        })
    }
}

/// When a request was written, and when its response began.
fn written_and_answered(row: &RequestRecord) -> Option<(Time, Time)> {
    Some((row.written_last?, row.answered_first?))
}

/// The time from a small request to the first byte of its response that nine of ten do not exceed.
fn usual_at_most(seen: &Observations, version: Version) -> Option<Duration> {
    let steps = seen.steps_of(StepKind::Small, version);
    let rows = steps.flat_map(|step| &step.requests);
    let times = rows.filter_map(written_and_answered);
    let spans = times.map(|(written, answered)| answered.since(written));
    let mut spans: Vec<Duration> = spans.collect();
    spans.sort_unstable();
    spans.get(spans.len() * 9 / 10).copied()
}

#[cfg(test)]
mod tests {
    use super::super::made::{healthy, ms, request, step};
    use super::super::{Diagnosis, Fault};
    use super::*;

    /// A server that takes 300 ms for a request, and this long for the second of two.
    fn seen(second_us: u64, small_us: u64) -> Observations {
        let mut seen = healthy(ms(30));
        let is_http2 =
            |step: &&mut Step| step.kind == StepKind::Small && step.version == Version::Http2;
        for small in seen.steps.iter_mut().filter(is_http2) {
            for row in &mut small.requests {
                row.answered_first = row.written_last.map(|time| time + ms(small_us / 1_000));
            }
        }
        let mut pair = step(StepKind::SlowPair, Version::Http2);
        pair.requests = vec![
            request(0, 1_000, 330_000),
            request(1, 400_000, 330_000),
            request(2, 420_000, second_us),
        ];
        seen.steps.push(pair);
        seen
    }

    fn only(seen: &Observations) -> Option<bool> {
        let found = Diagnosis::of(seen).endpoint.concurrency;
        assert!(found.len() <= 1, "{found:?}");
        found.first().map(|pair| pair.is_concurrent)
    }

    #[test]
    fn second_request_that_waits_for_the_first_is_a_fault() {
        let seen = seen(610_000, 330_000);
        assert_eq!(only(&seen), Some(false));
        let faults = Diagnosis::of(&seen).faults;
        let mut faults = faults.iter();
        let found = faults.find(|found| found.fault == Fault::NoConcurrency);
        let found = found.expect("a fault");
        assert_eq!(found.lost, Some(ms(280)));
        assert!(found.sentence.contains("HTTP/2"), "{}", found.sentence);
        let evidence = found.evidence.join("; ");
        assert!(
            evidence.contains("330 ms") && evidence.contains("610 ms"),
            "{evidence}"
        );
    }

    #[test]
    fn requests_handled_concurrently_are_not_a_fault() {
        let seen = seen(330_000, 330_000);
        assert_eq!(only(&seen), Some(true));
        let faults = Diagnosis::of(&seen).faults;
        assert!(
            faults
                .iter()
                .all(|found| found.fault != Fault::NoConcurrency)
        );
    }

    #[test]
    fn times_that_vary_are_not_judged() {
        // A request by itself took nearly as long as the second one of the pair.
        assert_eq!(only(&seen(610_000, 500_000)), None);
        assert_eq!(only(&seen(510_000, 330_000)), None);
    }

    #[test]
    fn second_request_must_be_sent_before_the_first_is_answered() {
        let mut seen = seen(330_000, 330_000);
        if let Some(pair) = seen.steps.last_mut() {
            pair.requests[2] = request(2, 740_000, 330_000);
        }
        assert_eq!(only(&seen), None);
    }
}
