//! Settings of `--set` that apply and settings that cannot: depending on which protocols may be spoken, and on the
//! machine's configuration.
//!
//! `settings` tests the effects of settings that apply.

use std::fs;

use tempfile::TempDir;

use crate::serving::Serving;
use crate::support::{run_squall, seat, squall, stderr};

/// The setting is a sysctl of the network namespace, which commands do not change: they require the machine to match
/// it.
#[test]
fn slow_start_after_idle_must_match_the_sysctl() {
    let _seat = seat();
    let home = TempDir::new().expect("a temporary folder");
    let key = "tcp.slow_start_after_idle";
    let path = "/proc/sys/net/ipv4/tcp_slow_start_after_idle";
    let has = || fs::read_to_string(path).expect("the sysctl").trim() == "1";
    let (is, other) = (has(), !has());
    let url = "http://127.0.0.1:9/";
    for (command, flag, rest) in [
        ("serve", "--set", &["--h1", "0"][..]),
        ("fetch", "--set", &[url][..]),
        ("load", "--set", &["-n", "1", url][..]),
        ("proxy", "--set", &["--h1", "0", "--to", url][..]),
        ("proxy", "--back-set", &["--h1", "0", "--to", url][..]),
    ] {
        let output = squall(home.path())
            .args([command, flag, &format!("{key}={other}")])
            .args(rest)
            .output()
            .expect("squall starts");
        let said = stderr(&output);
        assert_eq!(output.status.code(), Some(2), "{command}: {said}");
        for part in [&format!("{flag} {key}"), "sysctl -w", "recipe"] {
            assert!(said.contains(part), "{command}: no {part:?} in {said}");
        }
    }
    assert_eq!(has(), is, "the machine is as it was");
    let server = Serving::start(&["h1"], &[]);
    let url = format!("http://{}/", server.address("h1"));
    let output = run_squall(
        home.path(),
        ["fetch", "--set", &format!("{key}={is}"), &url],
    );
    assert!(output.status.success(), "{}", stderr(&output));
}

/// The setting is a metric of a route, which commands do not change.
#[test]
fn congestion_window_cap_is_refused_outside_recipes() {
    let home = TempDir::new().expect("a temporary folder");
    let url = "http://127.0.0.1:9/";
    for (command, flag, rest) in [
        ("serve", "--set", &["--h1", "0"][..]),
        ("fetch", "--set", &[url][..]),
        ("load", "--set", &["-n", "1", url][..]),
        ("proxy", "--back-set", &["--h1", "0", "--to", url][..]),
    ] {
        let arguments = [&[command, flag, "tcp.max_cwnd=4"][..], rest].concat();
        let (code, said) = run(&home, &arguments);
        assert_eq!(code, Some(2), "{command}: {said}");
        for part in [&format!("{flag} tcp.max_cwnd=4: "), "route", "recipe"] {
            assert!(said.contains(part), "{command}: no {part:?} in {said}");
        }
    }
}

/// A proxy's `--delay` has the bounds of a recipe's delay.
#[test]
fn invalid_proxy_delay_is_refused() {
    let home = TempDir::new().expect("a temporary folder");
    let upstream = "http://127.0.0.1:9/";
    for (delay, words) in [
        ("11s", "11s is out of range: expected 0ms to 10s"),
        ("20", "expected \"20ms\" or \"20s\""),
    ] {
        let arguments = ["proxy", "--h1", "0", "--to", upstream, "--delay", delay];
        let (code, said) = run(&home, &arguments);
        assert_eq!(code, Some(2), "{delay}: {said}");
        assert!(said.contains(words), "no {words:?} in {said}");
    }
}

/// The exit code and stderr of a command.
fn run(home: &TempDir, arguments: &[&str]) -> (Option<i32>, String) {
    let output = run_squall(home.path(), arguments);
    (output.status.code(), stderr(&output))
}

/// `-w` and `-W` set windows as in h2load, with the bounds of the corresponding settings.
#[test]
fn impossible_windows_are_refused() {
    let home = TempDir::new().expect("a temporary folder");
    let load = |http: &str, flag: &str, bits: &str| {
        let arguments = ["load", "-n", "1", "--http", http, flag, bits];
        run(&home, &[&arguments[..], &["https://127.0.0.1:9/"]].concat())
    };
    for (http, flag, bits, words) in [
        ("1.1", "-w", "16", "-w 16: HTTP/1.1 has no windows"),
        ("1.1", "-W", "20", "-W 20: HTTP/1.1 has no windows"),
        (
            "3",
            "-w",
            "1",
            "-w 1: `http3.stream_window=1`: `stream_window` is out of range",
        ),
        (
            "2,3",
            "-w",
            "1",
            "-w 1: `http3.stream_window=1`: `stream_window` is out of range",
        ),
    ] {
        let (code, said) = load(http, flag, bits);
        assert_eq!(code, Some(2), "--http {http} {flag} {bits}: {said}");
        assert!(said.contains(words), "no {words:?} in {said}");
    }
    // No server listens there, but these get past the check.
    for (http, bits) in [("2", "1"), ("3", "2"), ("1.1,2", "16")] {
        let (code, said) = load(http, "-w", bits);
        assert_ne!(code, Some(2), "--http {http} -w {bits}: {said}");
    }
}

#[test]
fn settings_of_protocols_that_cannot_be_spoken_are_refused() {
    let home = TempDir::new().expect("a temporary folder");
    let (http, https) = ("http://127.0.0.1:9/", "https://127.0.0.1:9/");
    for (arguments, says) in [
        (
            &["fetch", "--set", "http2.stream_window=1MiB", http][..],
            "without HTTP/2: expected `http2` where `h2c` or `h2` is spoken",
        ),
        (&["fetch", "--set", "tls.records=1300", http], "without TLS"),
        (
            &[
                "fetch",
                "--http",
                "2",
                "--set",
                "http1.framing=chunked",
                https,
            ],
            "without HTTP/1.1",
        ),
        (
            &["load", "--http", "3", "--set", "tcp.no_delay=false", https],
            "without TCP",
        ),
        (
            &["load", "--http", "1.1,2", "--set", "http3.gso=false", https],
            "without HTTP/3",
        ),
        (
            &["serve", "--h1", "0", "--set", "http3.gso=false"],
            "without HTTP/3",
        ),
        (
            &[
                "proxy",
                "--h1",
                "0",
                "--to",
                http,
                "--back-set",
                "http2.stream_window=1MiB",
            ],
            "--back-set `http2.stream_window=1MiB`: `http2` without HTTP/2",
        ),
    ] {
        let (code, said) = run(&home, arguments);
        assert_eq!(code, Some(2), "{arguments:?}: {said}");
        assert!(said.contains(says), "{arguments:?}: no {says:?} in {said}");
    }
}

/// Settings apply to any protocol that ALPN, an upgrade, an alternative, or one of several versions may select.
#[test]
fn settings_of_protocols_that_may_be_spoken_are_accepted() {
    let _seat = seat();
    let home = TempDir::new().expect("a temporary folder");
    let server = Serving::start(
        &["h1", "https", "h3"],
        &[
            "--set",
            "http1.requests_per_connection=9",
            "--set",
            "http3.gso=false",
        ],
    );
    let (http, https) = (url("h1", &server), url("https", &server));
    for arguments in [
        &[
            "fetch",
            "--upgrade",
            "--set",
            "http2.stream_window=1MiB",
            &http,
        ][..],
        &["fetch", "-k", "--set", "http1.framing=chunked", &https],
        &["fetch", "-k", "--set", "http2.stream_window=1MiB", &https],
        &[
            "fetch",
            "-k",
            "--http",
            "auto",
            "--set",
            "http3.gso=false",
            &https,
        ],
        &[
            "load",
            "-k",
            "-n",
            "4",
            "--http",
            "1.1,2",
            "--set",
            "http2.stream_window=1MiB",
            "--set",
            "http1.framing=chunked",
            &https,
        ],
    ] {
        let (code, said) = run(&home, arguments);
        assert_eq!(code, Some(0), "{arguments:?}: {said}");
    }
}

/// The URL of a listener.
fn url(kind: &str, server: &Serving) -> String {
    let scheme = if kind == "h1" { "http" } else { "https" };
    format!("{scheme}://{}/", server.address(kind))
}
