//! Whether `squall probe` predicts the rate of an upload through a link: from the windows that it saw, within 15 % of what it
//! measured.
//!
//! `probe` has the helpers, and the tests that can run beside others.

use serde_json::Value;
use tempfile::TempDir;

use crate::probe::{faults, home, joined, probe};
use crate::served::Serving;
use crate::serving::Serving as Proxying;
use crate::support::{bench, stderr};

/// The rate that the windows allow here, over that which was measured.
fn predicted_over_measured(result: &Value) -> f64 {
    let windows = &result["endpoint"]["upload_windows"];
    let bytes = windows["round_trip_bytes"].as_u64().expect("bytes") as f64;
    let rtt = result["endpoint"]["round_trip_ns"]
        .as_u64()
        .expect("a time") as f64;
    let upload = &result["endpoint"]["versions"][0]["uploads"][0];
    let of = |name: &str| upload[name].as_u64().expect("a number") as f64;
    (bytes / rtt) / (of("bytes") / of("took_ns"))
}

/// Probes a URL of this machine's through a link until the measured rate is within 15 % of the predicted one.
fn behind(home: &TempDir, link: &str, url: &str) -> Value {
    const ATTEMPTS: usize = 3;
    let asks = ["--json", "-k", "--http", "2", "--upload", "2MB"];
    let mut last = Value::Null;
    for _ in 0..ATTEMPTS {
        let output = probe(home, &joined(&[&["--behind", link], &asks, &[url]]));
        assert!(output.status.success(), "{}", stderr(&output));
        last = serde_json::from_slice(&output.stdout).expect("valid JSON");
        if (0.87..=1.15).contains(&predicted_over_measured(&last)) {
            return last;
        }
    }
    panic!("{} at {last}", predicted_over_measured(&last));
}

/// A known case: at a round trip of 33 ms, a stream window of 64 KiB allows 16 Mbit/s.
#[test]
fn rate_through_a_stream_window_is_predicted_and_named() {
    let _bench = bench();
    let home = home();
    let windows = [
        "--set",
        "http2.stream_window=64KiB",
        "--set",
        "http2.connection_window=16MiB",
    ];
    let listeners = joined(&[&["--h2c", "0", "--sink"], &windows]);
    let server = Serving::start(home.path(), &listeners);
    let url = format!("http://localhost:{}/", server.address("h2c").port());
    let result = behind(&home, "delay 16.5ms", &url);
    assert_eq!(faults(&result), ["stream_window"], "{result}");
    assert_eq!(result["endpoint"]["upload_windows"]["stream_bytes"], 65_536);
    let fix = result["verdict"]["fix"].as_str().expect("a fix");
    assert!(fix.contains("SETTINGS_INITIAL_WINDOW_SIZE"), "{fix}");
}

/// The load balancer that starves uploads, as `squall proxy` imitates it.
#[test]
fn rate_through_the_load_balancer_is_predicted_and_named() {
    let _bench = bench();
    let home = home();
    let server = Serving::start(home.path(), &["--h1", "0", "--sink"]);
    let to = format!("http://{}", server.address("h1"));
    let proxy = Proxying::of("proxy", &["h2c"], &["--like", "alb", "--to", &to]);
    let url = format!("http://localhost:{}/", proxy.address("h2c").port());
    let result = behind(&home, "delay 15ms", &url);
    assert_eq!(faults(&result)[0], "stream_window", "{result}");
    assert_eq!(result["endpoint"]["product"]["product"], "alb", "{result}");
    let fix = result["verdict"]["fix"].as_str().expect("a fix");
    assert!(fix.starts_with("AWS ALB"), "{fix}");
}
