//! Runs h2spec, which breaks the rules of HTTP/2 on purpose, against `squall serve` and `squall proxy`, and expects exactly
//! the known failures.
//!
//! h2spec 2.2.1 judges by RFC 7540. The cases below fail because RFC 9113 asks for something else or leaves the choice;
//! docs/SERVE.md, "The rules of HTTP/2", explains each one.

use std::collections::BTreeSet;
use std::thread;

use crate::interop::support::program::have;
use crate::interop::support::{Http, Peer, h2spec, squall};
use crate::support::{alone_if_it_fails, seat};

/// Cases that fail although the behaviour is correct under RFC 9113.
const NOT_DEMANDED: [&str; 6] = [
    // Frames on a closed stream: section 5.1 lets an endpoint discard them.
    "http2/5.1/8",
    "http2/5.1/9",
    "http2/5.1/11",
    "http2/5.1/12",
    // A priority that depends on its own stream: section 5.3 deprecates priorities.
    "http2/5.3.1/2",
    // A stream window above 2^31-1 ends the connection: section 5.4.1 allows this for a stream error.
    "http2/6.9.1/3",
];

/// All sections, split into pieces of about equal run time. A case that fails by silence takes `SECONDS`.
const SECTIONS: [(&str, &[&str]); 5] = [
    ("generic", &["generic"]),
    ("hpack", &["hpack"]),
    ("http2", &["http2/5.1"]),
    (
        "http2",
        &["http2/3", "http2/4", "http2/5.3", "http2/5.4", "http2/5.5"],
    ),
    ("http2", &["http2/6", "http2/7", "http2/8"]),
];

/// The number of cases in h2spec 2.2.1, the strict one included.
const CASES: u32 = 146;

/// Long enough for a busy machine to respond.
const SECONDS: u32 = 2;

/// Some cases send a frame after a request and expect it to arrive before the response, so responses are delayed.
const PATH: &str = "/?delay=100ms";

/// Runs all sections against this server or proxy.
fn check(peer: &Peer, http: Http) {
    let address = peer.address(http);
    let found: Vec<_> = thread::scope(|scope| {
        let run = move |(suite, sections): (&'static str, &'static [&str])| {
            scope.spawn(move || (suite, h2spec::check(http, address, PATH, sections, SECONDS)))
        };
        let running = SECTIONS.map(run);
        running
            .map(|piece| piece.join().expect("h2spec runs"))
            .into()
    });
    let failures: BTreeSet<String> = found
        .iter()
        .flat_map(|(suite, found)| {
            let named = move |case: String| format!("{suite}/{case}");
            found.failures().into_iter().map(named)
        })
        .collect();
    let reports: String = found
        .iter()
        .map(|(_, found)| found.report.as_str())
        .collect();
    assert_eq!(
        failures,
        NOT_DEMANDED.map(str::to_owned).into(),
        "{reports}"
    );
    let (passed, failed) = found.iter().fold((0, 0), |(passed, failed), (_, found)| {
        (passed + found.passed, failed + found.failed)
    });
    assert_eq!(
        (passed + failed, failed),
        (CASES, NOT_DEMANDED.len() as u32)
    );
    eprintln!("h2spec, {}: {passed} of {CASES} pass", http.name());
}

#[test]
fn h2spec_finds_only_known_failures_of_the_server_in_cleartext() {
    alone_if_it_fails(seat(), || {
        if have(&["h2spec", "openssl"]) {
            check(&squall::serve(&[]), Http::H2c);
        }
    });
}

#[test]
fn h2spec_finds_only_known_failures_of_the_server_over_tls() {
    alone_if_it_fails(seat(), || {
        if have(&["h2spec", "openssl"]) {
            check(&squall::serve(&[]), Http::H2);
        }
    });
}

#[test]
fn h2spec_finds_only_known_failures_of_the_proxy_in_cleartext() {
    alone_if_it_fails(seat(), || {
        if have(&["h2spec", "openssl"]) {
            let server = squall::serve(&[]);
            check(&squall::proxy(server.upstream(Http::H1)), Http::H2c);
        }
    });
}

#[test]
fn h2spec_finds_only_known_failures_of_the_proxy_over_tls() {
    alone_if_it_fails(seat(), || {
        if have(&["h2spec", "openssl"]) {
            let server = squall::serve(&[]);
            check(&squall::proxy(server.upstream(Http::H1)), Http::H2);
        }
    });
}
