//! Measures of some targets: which requests and which exchanges they cover.
//!
//! The syntax of such measures is tested in squall-base, how a figure is computed from times in `quantile`.

// In tests, a panic reports the failure.
#![allow(clippy::unwrap_used)]

use squall_analysis::{Quantile, TrialRows, TrialStats, Value, summarise, trial_evidence};
use squall_base::Time;
use squall_base::plan::{Measure, Plan, Protocol, RequestTemplate, Side};
use squall_base::record::{ExchangeRecord, Outcome, Phase, RequestRecord};

use crate::support::{ms, plan, record, request};

/// The targets of the plan's requests, by index.
const TARGETS: [&str; 3] = ["/video/1.m4s?size=9", "/audio/1.m4s?size=1", "/videos"];
const VIDEO: u32 = 0;
const AUDIO: u32 = 1;
const OTHER: u32 = 2;

/// A plan with a request for each target, and these measures.
fn asked(measures: &[&str]) -> Plan {
    let plan = plan(1);
    let request = |target: &&str| RequestTemplate {
        target: (*target).to_owned(),
        ..plan.requests[0].clone()
    };
    Plan {
        measures: measures.iter().map(|it| it.parse().unwrap()).collect(),
        requests: TARGETS.iter().map(request).collect(),
        ..plan
    }
}

/// Request `n`, for the target `what`, answered after `took_ms`.
fn row(n: u64, what: u32, took_ms: u64) -> RequestRecord {
    RequestRecord {
        what,
        written_first: Some(Time::ZERO + ms(10 * n + 1)),
        ..request(n, took_ms, Outcome::Answered)
    }
}

/// Request `n` as the server saw it.
fn exchange(n: u64, took_ms: u64) -> ExchangeRecord {
    let first = Time::ZERO + ms(10 * n);
    ExchangeRecord {
        request: Some(n),
        request_first: Some(first),
        request_last: Some(first),
        response_first: Some(first),
        response_last: Some(first + ms(took_ms)),
        status: Some(200),
        ..ExchangeRecord::unseen(Side::Server, 0, n, Protocol::H1)
    }
}

/// Twenty requests for each target in turn: 40 to 59 ms for video, 5 ms for audio, 900 ms for the other one.
fn rows() -> Vec<RequestRecord> {
    let round = |n: u64| {
        [
            row(3 * n, VIDEO, 40 + n),
            row(3 * n + 1, AUDIO, 5),
            row(3 * n + 2, OTHER, 900),
        ]
    };
    (0..20).flat_map(round).collect()
}

fn stats(
    plan: &Plan,
    requests: &[RequestRecord],
    exchanges: Option<&[ExchangeRecord]>,
) -> TrialStats {
    let rows = TrialRows {
        requests,
        causes: None,
        exchanges,
        plan: Some(plan),
    };
    trial_evidence(&record(&plan.trials[0]), rows)
}

#[track_caller]
fn check(stats: &TrialStats, measure: &str, expected_ms: Option<u64>) {
    let measure: Measure = measure.parse().unwrap();
    let expected = expected_ms.map(|it| Value::from(Quantile::Exact(ms(it))));
    assert_eq!(stats.value(measure), expected, "{measure}");
}

#[test]
fn times_of_a_path_cover_the_requests_below_it() {
    let plan = asked(&[
        "response time p50 of /video",
        "transfer time p50 of /video",
        "response time iqr of /video",
        "response time p50 of /audio",
    ]);
    let stats = stats(&plan, &rows(), None);
    let paths: Vec<&str> = stats.targets.iter().map(|it| it.path.as_str()).collect();
    assert_eq!(paths, ["/video", "/audio"], "each once, /videos not");
    check(&stats, "response time p50 of /video", Some(49));
    check(&stats, "transfer time p50 of /video", Some(48));
    // From the fifth of twenty to the fifteenth.
    check(&stats, "response time iqr of /video", Some(10));
    check(&stats, "response time p50 of /audio", Some(5));
    check(&stats, "response time p90", Some(900));
    // The plan does not have these measures.
    check(&stats, "server time p50 of /video", None);
    check(&stats, "response time p50 of /videos", None);
}

#[test]
fn exchanges_count_for_the_path_of_their_request() {
    let plan = asked(&["server time p50 of /video", "server time iqr of /video"]);
    let mut exchanges: Vec<ExchangeRecord> = (0..60).map(|n| exchange(n, n)).collect();
    // The tenth of 0, 3, ... 57 ms.
    let found = stats(&plan, &rows(), Some(&exchanges));
    check(&found, "server time p50 of /video", Some(27));
    check(&found, "server time iqr of /video", Some(30));
    // Left out: an exchange without a request, one of the client's side, one of another hop, and a failure.
    exchanges[0].request = None;
    exchanges[3].side = Side::Client;
    exchanges[6].hop = 2;
    exchanges[9].status = Some(404);
    let found = stats(&plan, &rows(), Some(&exchanges));
    check(&found, "server time p50 of /video", Some(33));
}

/// If they were left out, the variant that leaves the slowest exchanges unfinished would have the shortest server
/// times.
#[test]
fn unfinished_exchanges_count_as_lower_bounds_until_the_client_gave_up() {
    let plan = asked(&["server time p50 of /video"]);
    let mut requests = rows();
    let mut exchanges: Vec<ExchangeRecord> = (0..60).map(|n| exchange(n, n)).collect();
    // The first four of twenty: given up after 1,000 ms. The tenth of 12, 15, ... 57 ms and four that are longer.
    for n in [0, 3, 6, 9] {
        requests[n] = RequestRecord {
            outcome: Outcome::Censored,
            ..row(n as u64, VIDEO, 1_000)
        };
        exchanges[n].response_last = None;
    }
    check(
        &stats(&plan, &requests, Some(&exchanges)),
        "server time p50 of /video",
        Some(39),
    );
    // Two of them had no response at all.
    for n in [0, 3] {
        (exchanges[n].response_first, exchanges[n].status) = (None, None);
    }
    let found = stats(&plan, &requests, Some(&exchanges));
    check(&found, "server time p50 of /video", Some(39));
    // Beyond the median, only a bound is known.
    for n in (12..36).step_by(3) {
        requests[n] = RequestRecord {
            outcome: Outcome::Censored,
            ..row(n as u64, VIDEO, 1_000)
        };
        exchanges[n].response_last = None;
    }
    let found = stats(&plan, &requests, Some(&exchanges));
    let measure: Measure = "server time p50 of /video".parse().unwrap();
    let Some(Value::AtLeast(bound)) = found.value(measure) else {
        panic!("{:?}", found.value(measure));
    };
    assert!((600e6..=1_000e6).contains(&bound), "{bound}");
    // Requests that ended otherwise, such as by a reset, leave no server time: eight of 36, 39, ... 57 ms.
    for row in &mut requests {
        if row.outcome == Outcome::Censored {
            row.outcome = Outcome::ConnectionClosed;
        }
    }
    let found = stats(&plan, &requests, Some(&exchanges));
    check(&found, "server time p50 of /video", Some(45));
}

/// It is not known when its request ended.
#[test]
fn unfinished_exchange_without_a_request_is_as_long_as_the_server_saw_it() {
    let plan = asked(&["server time p50"]);
    let mut exchanges: Vec<ExchangeRecord> = (0..20).map(|n| exchange(n, 10 + n)).collect();
    for exchange in &mut exchanges {
        exchange.request = None;
    }
    exchanges[19].response_last = None;
    let found = stats(&plan, &rows(), Some(&exchanges));
    let measure: Measure = "server time p50".parse().unwrap();
    // The tenth of 0, 10, 11, ... 28 ms, of which the first is a bound.
    let expected = Value::from(Quantile::AtLeast(ms(18)));
    assert_eq!(found.value(measure), Some(expected));
}

#[test]
fn times_of_a_path_exclude_the_warm_up() {
    let plan = asked(&["response time p50 of /audio"]);
    let mut requests = rows();
    for row in &mut requests[..45] {
        row.phase = Phase::Warmup;
    }
    // Five requests for audio are left. The eighth of all fifteen requests is the third of 55 to 59 ms.
    let found = stats(&plan, &requests, None);
    check(&found, "response time p50 of /audio", None);
    check(&found, "response time p50", Some(57));
}

/// Measures that have a column are not repeated.
#[test]
fn cell_lists_the_measures_without_a_column() {
    let plan = asked(&[
        "response time p50",
        "response time iqr of /video",
        "server time p50 of /audio",
        "connections",
    ]);
    let trial = stats(&plan, &rows(), None);
    let summary = summarise(&plan, vec![trial]);
    let said = summary.conditions[0].cells[0].measured(&plan.measures);
    let said: Vec<(&str, &str)> = (said.iter())
        .map(|(what, value)| (what.as_str(), value.as_str()))
        .collect();
    assert_eq!(
        said,
        [
            ("IQR of the response time of /video", "10.0 ms"),
            ("median server time of /audio", "n/a"),
            ("number of connections", "3"),
        ]
    );
}
