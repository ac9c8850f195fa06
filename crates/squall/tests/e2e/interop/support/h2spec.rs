//! h2spec: a client that breaks the rules of HTTP/2 on purpose and judges the server's reaction.

use std::net::SocketAddrV4;

use super::Http;
use super::program::{attempt, command};

/// Results of an h2spec run.
pub(crate) struct Conformance {
    pub(crate) passed: u32,
    pub(crate) failed: u32,
    /// The full output: names each failed case, with expected and actual.
    pub(crate) report: String,
}

impl Conformance {
    /// The failed cases, as h2spec accepts them after a suite's name: "5.1/8".
    pub(crate) fn failures(&self) -> Vec<String> {
        let (_, failures) = self.report.split_once("Failures:").unwrap_or_default();
        let mut section = "";
        let mut found = Vec::new();
        for line in failures.lines().map(str::trim) {
            // "5.1. Stream States", and below it "× 8: closed: Sends a DATA frame ...".
            if let Some(case) = line.strip_prefix("× ") {
                let number = case.split(':').next().unwrap_or_default();
                found.push(format!("{section}/{number}"));
            } else if line.starts_with(|first: char| first.is_ascii_digit())
                && let Some((number, _)) = line.split_once(". ")
            {
                section = number;
            }
        }
        found
    }
}

/// Runs these sections ("generic", "http2/5.1", "hpack"; an empty list runs all) against an HTTP/2 server, requesting
/// `path`, strict cases included. Each case that waits for a silent server takes `seconds`.
pub(crate) fn check(
    http: Http,
    address: SocketAddrV4,
    path: &str,
    sections: &[&str],
    seconds: u32,
) -> Conformance {
    let mut h2spec = command("h2spec");
    match http {
        Http::H2c => {}
        Http::H2 => {
            h2spec.args(["--tls", "--insecure"]);
        }
        Http::H1 | Http::H1s | Http::H3 => panic!("h2spec speaks HTTP/2 only"),
    }
    h2spec
        .args([
            "--host",
            &address.ip().to_string(),
            "--port",
            &address.port().to_string(),
        ])
        .args(["--path", path])
        .args(["--timeout", &seconds.to_string()])
        .arg("--strict")
        .args(sections);
    // h2spec fails if one case fails; the caller decides whether that matters.
    let report = String::from_utf8_lossy(&attempt(&mut h2spec).stdout).into_owned();
    // "146 tests, 145 passed, 1 skipped, 0 failed"
    let line = report.lines().rev().find(|line| line.contains(" tests, "));
    let count = |word: &str| {
        let part = line?.split(", ").find(|part| part.ends_with(word))?;
        part.split(' ').next()?.parse().ok()
    };
    let (Some(passed), Some(failed)) = (count(" passed"), count(" failed")) else {
        panic!("h2spec has not come to its end: {report}");
    };
    Conformance {
        passed,
        failed,
        report,
    }
}
