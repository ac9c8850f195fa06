//! Responses that come in pieces: `squall serve` sends them with pauses, and `load`, `fetch` and `run` measure when they
//! arrive.
//!
//! Only lower bounds of times are asserted: on a busy machine, several pieces may arrive together.

use std::fs;

use squall_base::Duration;
use squall_base::plan::Protocol;
use squall_record::read_requests;
use tempfile::TempDir;

use crate::served::{EVERY_PROTOCOL, Serving, ask};
use crate::support::{H1, recipe, run_recipe, seat, stderr, stdout};

/// Six pieces; the last one is sent 100 ms after the first.
const QUERY: &str = "/?chunks=6&chunk=64&every=20ms";
const WHOLE: Duration = Duration::from_millis(100);

#[test]
fn load_measures_the_gaps_of_streamed_responses_over_every_protocol() {
    let _seat = seat();
    let home = TempDir::new().expect("a temporary folder");
    let server = Serving::start(home.path(), &EVERY_PROTOCOL);
    for protocol in Protocol::ALL {
        let arguments = [
            "-n",
            "4",
            "-c",
            "2",
            "--output",
            "requests.parquet",
            "--json",
            "figures.json",
            "--threshold",
            "gap:max<60s",
            "--threshold",
            "first_chunk:max<60s",
        ];
        let url = server.url(protocol) + QUERY;
        let output = ask(home.path(), "load", protocol, &arguments, &url);
        let shown = stdout(&output);
        assert!(output.status.success(), "{protocol}: {}", stderr(&output));
        assert!(shown.contains("first chunk"), "{protocol}: {shown}");
        let path = home.path().join("requests.parquet");
        let requests = read_requests(path).expect("the requests");
        assert_eq!(requests.len(), 4, "{protocol}");
        for request in &requests {
            let said = format!("{protocol}: {request:?}");
            let arrivals = request.arrivals;
            assert_eq!(request.response_body_bytes, 6 * 64, "{said}");
            assert!(request.response_time() >= WHOLE, "{said}");
            assert!(arrivals.count >= 2, "{said}");
            let (first, last) = (
                arrivals.first.expect("a part"),
                arrivals.last.expect("a part"),
            );
            assert!(
                request.headers <= Some(first) && last <= request.end,
                "{said}"
            );
            let gap = arrivals.longest_gap.expect("a gap");
            assert!(first <= gap.from && gap.to() <= last, "{said}");
            let mean_ns = last.since(first).as_nanos() / u64::from(arrivals.count);
            assert!(gap.length.as_nanos() >= mean_ns, "{said}");
        }
        let figures = fs::read(home.path().join("figures.json")).expect("the figures");
        let figures: serde_json::Value = serde_json::from_slice(&figures).expect("JSON");
        let gaps: u32 = requests.iter().map(|it| it.arrivals.count - 1).sum();
        assert_eq!(figures["gap_ns"]["count"], gaps, "{protocol}");
        assert_eq!(figures["longest_gap_ns"]["count"], 4, "{protocol}");
        assert_eq!(figures["first_chunk_ns"]["count"], 4, "{protocol}");
    }
}

#[test]
fn fetch_prints_when_the_events_of_a_stream_arrived() {
    let _seat = seat();
    let home = TempDir::new().expect("a temporary folder");
    let server = Serving::start(home.path(), &["--h1", "0"]);
    let url = server.url(Protocol::H1) + "/?chunks=3&chunk=12&every=20ms&sse";
    let output = ask(home.path(), "fetch", Protocol::H1, &["--gaps"], &url);
    assert!(output.status.success(), "{}", stderr(&output));
    assert_eq!(stdout(&output), "data: abcd\n\n".repeat(3));
    let said = stderr(&output);
    assert!(said.starts_with("body: "), "{said}");
    assert!(
        said.contains("the first after") && said.contains("longest"),
        "{said}"
    );
    let bad = server.url(Protocol::H1) + "/?chunks=3&chunk=5&sse";
    let refused = ask(home.path(), "fetch", Protocol::H1, &[], &bad);
    assert_eq!(stdout(&refused), "chunk: expected a size from 9B to 1MiB\n");
}

#[test]
fn recipes_compare_gaps_and_times_to_the_first_chunk() {
    let _seat = seat();
    let profile = "warmup = \"0s\"\nduration = \"1s\"\ndrain = \"1s\"\n";
    let text = recipe("6/s", "delay = \"5ms\"", &[H1], profile);
    let target = format!("target = \"{QUERY}\"");
    let text = text.replace("target = \"/\"", &target);
    let measures = "measure = [\"gap p50\", \"first chunk time mean\"]\n";
    let run = run_recipe(&format!("{measures}{text}"), &[]);
    let shown = stdout(&run.output);
    assert!(shown.contains("median gap"), "{shown}");
    assert!(shown.contains("mean time to the first chunk"), "{shown}");
    for trial in &run.trials {
        let gaps = trial.record.gaps.expect("gaps");
        let arrivals = trial.requests.iter().map(|it| it.arrivals.count);
        let counted: u64 = arrivals.map(|count| u64::from(count.max(1) - 1)).sum();
        assert_eq!(gaps.count, counted);
        assert!(gaps.count >= 6 && gaps.p50 <= gaps.p99 && gaps.p99 <= gaps.max);
        // Five gaps fill the time between the first and the last piece.
        assert!(gaps.max >= Duration::from_millis(5), "{gaps:?}");
    }
}
