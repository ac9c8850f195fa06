//! A link with delay and nothing else: response times match the physics, and no variant is favoured.

use squall_base::record::{Outcome, RequestRecord};

use crate::support::{
    FinishedRun, H1, H2C_ON_DEMAND, H2C_X1, H2C_X8, ensure, on_a_quiet_machine, quantile,
    quiet_seat, recipe, run_until_valid,
};

/// The round trip over the link in these tests.
const ROUND_TRIP_MS: f64 = 50.0;

#[test]
fn requests_take_the_expected_round_trips_and_little_more() {
    let _seat = quiet_seat();
    let conditions = "delay = \"25ms\"\nloss = \"0%\"";
    let text = recipe(
        "200/s",
        conditions,
        &[H1, H2C_ON_DEMAND],
        "warmup = \"0s\"\nduration = \"2s\"\ndrain = \"2s\"",
    );
    let run = run_until_valid(&text, &[]);
    assert_eq!(run.trials.len(), 2);
    for trial in &run.trials {
        let name = &trial.record.trial.variant.name;
        assert_eq!(
            trial.requests.len(),
            400,
            "{name}: every request of the schedule has its row"
        );
        let (first, later): (Vec<&RequestRecord>, Vec<&RequestRecord>) = trial
            .requests
            .iter()
            .partition(|request| request.opened_connection);
        assert_eq!(
            first.len() as u32,
            trial.record.connections_opened,
            "{name}"
        );
        for request in first {
            let latency = request.response_time().as_millis_f64();
            assert!(
                latency >= 2.0 * ROUND_TRIP_MS,
                "{name}: a first request took {latency} ms: {request:?}"
            );
        }
        let mut latencies: Vec<f64> = later
            .iter()
            .map(|request| request.response_time().as_millis_f64())
            .collect();
        latencies.sort_by(f64::total_cmp);
        assert!(
            latencies[0] >= ROUND_TRIP_MS,
            "{name}: the fastest took {} ms",
            latencies[0]
        );
        let median = quantile(&latencies, 0.5);
        assert!(
            median < ROUND_TRIP_MS + 1.0,
            "{name}: the median is {median} ms"
        );
        trial
            .requests
            .iter()
            .for_each(|request| check_marks(name, request));
    }
}

/// Checks that every timestamp is present, and none precedes the one before it.
fn check_marks(name: &str, request: &RequestRecord) {
    assert_eq!(
        (request.outcome, request.status),
        (Outcome::Answered, Some(200)),
        "{name}: {request:?}"
    );
    assert_eq!(
        (request.request_body_bytes, request.response_body_bytes),
        (1024, 1024),
        "{name}"
    );
    let marks = [
        Some(request.intended),
        Some(request.taken_up),
        request.slot,
        request.written_first,
        request.written_last,
        request.answered_first,
        request.headers,
        Some(request.end),
    ];
    let marks: Vec<_> = marks
        .into_iter()
        .map(|mark| mark.expect("every mark is there"))
        .collect();
    assert!(marks.is_sorted(), "{name}: marks out of order: {request:?}");
    let connected = request.connected.expect("it had a connection");
    assert!(
        connected <= marks[3],
        "{name}: written before connected: {request:?}"
    );
}

#[test]
fn all_variants_are_equally_fast_without_loss() {
    let conditions = "delay = [\"0ms\", \"25ms\"]\nloss = \"0%\"";
    let text = recipe(
        "1000/s",
        conditions,
        &[H1, H2C_X1, H2C_X8],
        "warmup = \"300ms\"\nduration = \"500ms\"\ndrain = \"1s\"",
    );
    on_a_quiet_machine(
        quiet_seat(),
        || run_until_valid(&text, &[]),
        check_equally_fast,
    );
}

fn check_equally_fast(run: &FinishedRun) -> Result<(), String> {
    assert_eq!(run.trials.len(), 6);
    for delay_ms in [0, 25] {
        let of_delay = run.trials.iter().filter(|trial| {
            trial.record.trial.condition.delay
                == squall_base::Duration::from_millis(delay_ms).into()
        });
        let medians: Vec<f64> = of_delay
            .map(|trial| quantile(&trial.latencies_ms(), 0.5))
            .collect();
        assert_eq!(medians.len(), 3);
        let (low, high) = medians
            .iter()
            .fold((f64::INFINITY, 0.0_f64), |(low, high), median| {
                (low.min(*median), high.max(*median))
            });
        ensure(high - low < 0.5, || {
            format!("delay {delay_ms} ms: medians {medians:?} ms differ by 0.5 ms or more")
        })?;
    }
    Ok(())
}
