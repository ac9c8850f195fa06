//! Measures of some targets: which requests and which exchanges their times are of.
//!
//! How such measures are written is tested in squall-base; how a figure is made of times, in `quantile`.

// In tests, a panic is the message.
#![allow(clippy::unwrap_used)]

mod support;

use squall_analysis::{Quantile, TrialRows, TrialStats, Value, summarise, trial_evidence};
use squall_base::Time;
use squall_base::plan::{Measure, Plan, Protocol, RequestTemplate, Side};
use squall_base::record::{Beginning, ExchangeRecord, Outcome, Phase, RequestRecord};
use support::{ms, plan, record, request};

/// What the plan's requests ask for, by their places in it.
const TARGETS: [&str; 3] = ["/video/1.m4s?size=9", "/audio/1.m4s?size=1", "/videos"];
const VIDEO: u32 = 0;
const AUDIO: u32 = 1;
const OTHER: u32 = 2;

/// A plan of these requests and measures.
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

/// Request `n` of this kind, answered after this time.
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
        hop: 1,
        side: Side::Server,
        connection: 0,
        stream: n,
        protocol: Protocol::H1,
        request: Some(n),
        beginning: Beginning::default(),
        request_first: Some(first),
        request_last: Some(first),
        response_first: Some(first),
        response_last: Some(first + ms(took_ms)),
        request_extent: None,
        response_extent: None,
        request_body_bytes: 0,
        response_body_bytes: 0,
        status: Some(200),
        reset: None,
    }
}

/// Twenty requests of each kind by turns: 40 to 59 ms for video, 5 ms for audio, 900 ms for what is neither.
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
fn times_of_a_path_are_of_the_requests_below_it() {
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
    // Nobody asked for these.
    check(&stats, "server time p50 of /video", None);
    check(&stats, "response time p50 of /videos", None);
}

#[test]
fn an_exchange_is_of_the_path_that_its_request_asked_for() {
    let plan = asked(&["server time p50 of /video", "server time iqr of /video"]);
    let mut exchanges: Vec<ExchangeRecord> = (0..60).map(|n| exchange(n, n)).collect();
    // Of 0, 3, ... 57 ms the tenth.
    let found = stats(&plan, &rows(), Some(&exchanges));
    check(&found, "server time p50 of /video", Some(27));
    check(&found, "server time iqr of /video", Some(30));
    // Neither what names no request, nor what the client saw, nor another hop's, nor a failure.
    exchanges[0].request = None;
    exchanges[3].side = Side::Client;
    exchanges[6].hop = 2;
    exchanges[9].status = Some(404);
    let found = stats(&plan, &rows(), Some(&exchanges));
    check(&found, "server time p50 of /video", Some(33));
}

#[test]
fn the_warm_up_is_in_no_time_of_a_path() {
    let plan = asked(&["response time p50 of /audio"]);
    let mut requests = rows();
    for row in &mut requests[..45] {
        row.phase = Phase::Warmup;
    }
    // Five of audio are left, and of all fifteen the eighth is the third of 55 to 59 ms.
    let found = stats(&plan, &requests, None);
    check(&found, "response time p50 of /audio", None);
    check(&found, "response time p50", Some(57));
}

/// What has columns of its own is not said twice.
#[test]
fn a_cell_says_what_was_measured_besides() {
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
