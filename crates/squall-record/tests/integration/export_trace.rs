//! Traces for Perfetto: slices of a thread never overlap, causes are inside their request, and flows lead from a drop to
//! the requests that it delayed.

use std::collections::BTreeMap;

use serde_json::Value;
use squall_base::record::{Cause, Direction, DropRecord, Repair, RequestRecord, Victim};
use squall_base::{Duration, Time};
use squall_record::export::{TraceExport, TraceProcess, TraceStage};

use crate::export::{request, text};

fn ms(ms: u64) -> Time {
    Time::from_nanos(ms * 1_000_000)
}

fn drop_at(at: Time, victims: &[u64]) -> DropRecord {
    DropRecord {
        connection: Some(0),
        start: Some(0),
        end: Some(100),
        carried: victims[..1].to_vec(),
        repair: Repair::Rack,
        repaired_at: Some(at + Duration::from_millis(5)),
        repaired_by: Some(8),
        victims: victims
            .iter()
            .map(|&request| Victim {
                request,
                cause: Cause::Loss,
                delay: Duration::from_millis(5),
            })
            .collect(),
        ..squall_made::dropped(squall_made::packet_ref(Direction::Down, 7), at)
    }
}

fn events(process: &TraceProcess<'_>) -> Vec<Value> {
    let mut export = TraceExport::new(Vec::new());
    let title = |row: &RequestRecord| format!("GET /{}", row.request);
    export
        .append(process, title)
        .expect("a Vec takes everything");
    let trace = text(export.finish().expect("a Vec takes everything"));
    let trace: Value = serde_json::from_str(&trace).expect("JSON");
    trace["traceEvents"].as_array().expect("events").clone()
}

fn slices<'a>(events: &'a [Value], category: &str) -> Vec<&'a Value> {
    let of = |event: &&Value| event["ph"] == "X" && event["cat"] == category;
    events.iter().filter(of).collect()
}

fn thread_names(events: &[Value]) -> BTreeMap<u64, String> {
    let of = |event: &&Value| event["ph"] == "M" && event["name"] == "thread_name";
    let named = events.iter().filter(of).map(|event| {
        let name = event["args"]["name"].as_str().expect("a name");
        (event["tid"].as_u64().expect("a thread"), name.to_owned())
    });
    named.collect()
}

#[test]
fn concurrent_requests_of_a_connection_are_on_different_threads() {
    // The second overlaps with the first, the third begins when the first ends.
    let requests = [request(0, 100, 20), request(1, 110, 50), request(2, 120, 5)];
    let process = TraceProcess {
        name: "a trial",
        requests: &requests,
        stages: &BTreeMap::new(),
        drops: &[],
    };
    let events = events(&process);
    let names = thread_names(&events);
    let of: Vec<(&str, &str)> = slices(&events, "request")
        .into_iter()
        .map(|slice| {
            let thread = &names[&slice["tid"].as_u64().expect("a thread")];
            (slice["name"].as_str().expect("a name"), thread.as_str())
        })
        .collect();
    assert_eq!(
        of,
        [
            ("GET /0", "connection 0"),
            ("GET /1", "connection 0, lane 2"),
            ("GET /2", "connection 0")
        ]
    );
    let first = slices(&events, "request")[0];
    assert_eq!(
        (first["ts"].as_f64(), first["dur"].as_f64()),
        (Some(100_000.0), Some(20_000.0))
    );
    assert_eq!(events[0]["args"]["name"], "a trial");
}

#[test]
fn causes_are_inside_their_request_and_drops_point_to_their_victims() {
    let requests = [request(0, 100, 20), request(1, 110, 50)];
    let stage = |from: u64, to: u64, cause: Cause| TraceStage {
        from: ms(from),
        to: ms(to),
        cause,
    };
    let stages = BTreeMap::from([
        (
            0,
            vec![
                stage(100, 112, Cause::Distance),
                stage(112, 120, Cause::Loss),
            ],
        ),
        // A cause that ends after its request is cut off.
        (1, vec![stage(110, 170, Cause::Hol)]),
    ]);
    // The second victim begins after the drop, and request 9 does not exist.
    let drops = [drop_at(ms(105), &[0, 1, 9])];
    let process = TraceProcess {
        name: "a trial",
        requests: &requests,
        stages: &stages,
        drops: &drops,
    };
    let events = events(&process);
    let span = |slice: &Value| {
        let from = slice["ts"].as_f64().expect("a time");
        (from, from + slice["dur"].as_f64().expect("a time"))
    };
    let causes = slices(&events, "cause");
    let named: Vec<&str> = causes
        .iter()
        .filter_map(|slice| slice["name"].as_str())
        .collect();
    assert_eq!(named, ["distance", "loss", "hol"]);
    for cause in causes {
        let request = slices(&events, "request");
        let outer = request.iter().find(|slice| slice["tid"] == cause["tid"]);
        let ((from, to), (begin, end)) = (span(cause), span(outer.expect("its request")));
        assert!(begin <= from && to <= end, "{cause}");
    }
    let drop = slices(&events, "drop")[0];
    assert_eq!(drop["name"], "loss_drop");
    assert_eq!(drop["args"]["repaired_after_ms"], 5.0);
    let ends = |kind: &str| -> Vec<(u64, f64)> {
        let of = |event: &&Value| event["ph"] == kind;
        let ends = events.iter().filter(of).map(|event| {
            let id = event["id"].as_u64().expect("an id");
            (id, event["ts"].as_f64().expect("a time"))
        });
        ends.collect()
    };
    assert_eq!(ends("s"), [(1, 105_000.0), (2, 105_000.0)]);
    assert_eq!(ends("f"), [(1, 105_000.0), (2, 110_000.0)]);
}

#[test]
fn every_thread_of_a_trace_has_a_number_of_its_own_that_fits_32_bits() {
    let mut without_connection = request(2, 100, 20);
    without_connection.connection = None;
    let mut later_connection = request(3, 100, 20);
    later_connection.connection = Some(70_000);
    let requests = [
        request(0, 100, 20),
        request(1, 110, 50),
        without_connection,
        later_connection,
    ];
    let drops = [drop_at(ms(105), &[0])];
    let process = TraceProcess {
        name: "a trial",
        requests: &requests,
        stages: &BTreeMap::new(),
        drops: &drops,
    };
    let mut export = TraceExport::new(Vec::new());
    for _ in 0..2 {
        export
            .append(&process, |_| "GET /".to_owned())
            .expect("a Vec takes everything");
    }
    let trace = text(export.finish().expect("a Vec takes everything"));
    let trace: Value = serde_json::from_str(&trace).expect("JSON");
    let events = trace["traceEvents"].as_array().expect("events");
    let names = thread_names(events);
    let numbers: Vec<u64> = names.keys().copied().collect();
    assert_eq!(numbers, (1..=10).collect::<Vec<u64>>());
    let of_first: Vec<&str> = names.values().take(5).map(String::as_str).collect();
    assert_eq!(
        of_first,
        [
            "no connection",
            "connection 0",
            "connection 0, lane 2",
            "connection 70000",
            "drops of hop 1, down"
        ]
    );
    // No slice is on a thread of the other process.
    for slice in events.iter().filter(|event| event["ph"] == "X") {
        let thread = slice["tid"].as_u64().expect("a thread");
        assert_eq!(slice["pid"], thread.div_ceil(5), "{slice}");
    }
}

#[test]
fn trace_without_trials_is_valid_json() {
    let export = TraceExport::new(Vec::new());
    let trace = text(export.finish().expect("a Vec takes everything"));
    let trace: Value = serde_json::from_str(&trace).expect("JSON");
    assert_eq!(trace["traceEvents"], Value::Array(Vec::new()));
}
