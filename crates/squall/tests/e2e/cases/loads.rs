//! The rate of loads with few requests, and connections that carry few requests each.

use std::path::Path;
use std::thread;

use serde_json::Value;
use squall_base::plan::Protocol;
use tempfile::TempDir;

use super::{Ended, run};
use crate::served::{Serving, ask};
use crate::support::{alone_if_it_fails, seat, stderr, stdout};

/// Runs a load whose figures are printed as JSON.
fn figures(home: &Path, arguments: &[&str], url: &str) -> (Ended, Value) {
    let ended = run(
        home,
        &[&["load", "--json", "-"][..], arguments, &[url]].concat(),
    );
    let figures = serde_json::from_str(&ended.stdout);
    (ended, figures.expect("JSON on stdout"))
}

#[test]
fn few_requests_do_not_exceed_the_requested_rate() {
    alone_if_it_fails(seat(), || {
        let home = TempDir::new().expect("a temporary folder");
        let server = Serving::start(home.path(), &["--h1", "0"]);
        let url = server.url(Protocol::H1);
        // The flags, the rate per second that they set, and the number of requests.
        let rows: [(&[&str], f64, u64); 7] = [
            // rate-above-asked.
            (&["--rate", "1", "-D", "5s"], 1.0, 5),
            (&["--rate", "10", "-D", "1s"], 10.0, 10),
            (&["--rate", "120/m", "-D", "1s"], 2.0, 2),
            (&["--rate", "10", "-n", "5"], 10.0, 5),
            (
                &["--rate", "10", "-D", "1s", "-c", "2", "-t", "2"],
                10.0,
                10,
            ),
            (
                &["--rate", "10", "-D", "500ms", "--warm-up-time", "500ms"],
                10.0,
                5,
            ),
            (&["--stages", "4/s 500ms, 0 500ms, 8/s 500ms"], 4.0, 6),
        ];
        // The loads mostly sleep, so they run at the same time.
        thread::scope(|scope| {
            for (arguments, rate, count) in rows {
                let (home, url) = (home.path(), &url);
                scope.spawn(move || {
                    let more = format!("requests:rate>={}", rate * 1.2);
                    let arguments = [arguments, &["--threshold", more.as_str()]].concat();
                    let (ended, figures) = figures(home, &arguments, url);
                    assert_eq!(ended.code, Some(99), "{arguments:?}: {}", ended.stderr);
                    assert_eq!(figures["requests"]["succeeded"], count, "{arguments:?}");
                    let achieved = figures["rates"]["achieved_per_s"].as_f64();
                    let achieved = achieved.expect("a rate");
                    let is_as_asked = (achieved - rate).abs() < 0.01 * rate;
                    assert!(is_as_asked, "{arguments:?}: {achieved} a second");
                });
            }
        });
    });
}

#[test]
fn each_connection_carries_the_configured_number_of_requests() {
    let _seat = seat();
    let home = TempDir::new().expect("a temporary folder");
    let listeners = [
        "--h1", "0", "--h1s", "0", "--h2c", "0", "--h2", "0", "--h3", "0",
    ];
    let server = Serving::start(home.path(), &listeners);
    for (protocol, requests, connections, each, opened) in [
        // one-request-per-h2-connection.
        (Protocol::H2, "40", "4", 1, 40),
        (Protocol::H1, "40", "4", 1, 40),
        (Protocol::H1s, "10", "2", 1, 10),
        (Protocol::H2c, "10", "2", 1, 10),
        (Protocol::H3, "10", "2", 1, 10),
        (Protocol::H3, "10", "1", 3, 4),
        (Protocol::H2, "10", "1", 5, 2),
    ] {
        let number = match protocol {
            Protocol::H1 | Protocol::H1s => 1,
            Protocol::H2c | Protocol::H2 => 2,
            Protocol::H3 => 3,
        };
        let setting = format!("http{number}.requests_per_connection={each}");
        let arguments = ["-n", requests, "-c", connections, "--set", &setting];
        let url = server.url(protocol);
        let ended = ask(home.path(), "load", protocol, &arguments, &url);
        let (said, shown) = (stderr(&ended), stdout(&ended));
        assert!(ended.status.success(), "{protocol} {setting}: {said}");
        assert!(
            shown.contains(&format!("{requests} succeeded (100 %)")),
            "{shown}"
        );
        let counted = format!("connections {opened} ");
        assert!(shown.contains(&counted), "{protocol} {setting}: {shown}");
        let full = shown.split("handshakes ").nth(1).unwrap_or_default();
        let handshakes: u32 = full
            .lines()
            .next()
            .unwrap_or_default()
            .split_whitespace()
            .filter_map(|word| word.parse::<u32>().ok())
            .sum();
        let expected = if protocol.is_secure() { opened } else { 0 };
        assert_eq!(handshakes, expected, "{protocol} {setting}: {shown}");
        // The first connections are opened before the load, and a single handshake has no rate.
        let in_advance: u32 = connections.parse().expect("a number");
        let has_rate = shown.contains("\nhandshakes/s ");
        assert_eq!(
            has_rate,
            opened > in_advance + 1,
            "{protocol} {setting}: {shown}"
        );
    }
    let url = server.url(Protocol::H2);
    let refused = ["load", "--http", "2", "--set", "http2.goaway_after=1", &url];
    let refused = run(home.path(), &refused);
    assert_eq!(refused.code, Some(2), "{}", refused.stderr);
    assert!(
        refused.stderr.contains("`requests_per_connection`"),
        "{}",
        refused.stderr
    );
}
