//! `squall probe` against nginx with settings that `squall serve` does not have: client certificates, early data, compression
//! and a short time for idle connections.
//!
//! The windows of nginx are tested in `alone::probe_servers`.

use std::process::Stdio;

use serde_json::Value;

use crate::alone::probe_servers::{Bench, CERTIFICATE, KEY, nginx_with};
use crate::probe::faults;
use crate::support::{have, seat, squall, stdout_json};

/// Directives for a server with the bench's certificate.
fn secure(bench: &Bench) -> String {
    let home = bench.home.path().display();
    format!(
        "listen 127.0.0.1:{} ssl http2; ssl_protocols TLSv1.2 TLSv1.3;
         ssl_certificate {home}/{CERTIFICATE}; ssl_certificate_key {home}/{KEY};",
        bench.port
    )
}

/// A probe of the server over TCP in one round, as JSON.
fn probed(bench: &Bench, flags: &[&str]) -> Value {
    let url = format!("https://127.0.0.1:{}/", bench.port);
    let output = squall(bench.home.path())
        .args(["probe", "--json", "-k", "--rounds", "1", "--http", "1.1,2"])
        .args(flags)
        .arg(url)
        .stdin(Stdio::null())
        .output()
        .expect("squall starts");
    stdout_json(&output)
}

#[test]
fn server_that_requires_a_client_certificate_gets_it() {
    if !have(&["nginx", "openssl"]) {
        return;
    }
    let _seat = seat();
    let bench = Bench::secure();
    let home = bench.home.path().display();
    // The server's certificate is the client's too.
    let server = format!(
        "{} ssl_verify_client on; ssl_client_certificate {home}/{CERTIFICATE};
         location / {{ return 200 \"hello\\n\"; }}",
        secure(&bench)
    );
    let _nginx = nginx_with(&bench, &server);
    let idle = ["--idle", "0s"];
    let without = probed(&bench, &idle);
    assert!(faults(&without).contains(&"error_status"), "{without}");
    let identity = ["--cert", CERTIFICATE, "--key", KEY];
    let with = probed(&bench, &[&idle[..], &identity].concat());
    assert!(!faults(&with).contains(&"error_status"), "{with}");
    for place in [0, 1] {
        let version = &with["endpoint"]["versions"][place];
        assert!(version["problem"].is_null(), "{version}");
        assert!(version["latency"]["first_ns"].is_u64(), "{version}");
    }
}

#[test]
fn early_data_compression_and_the_end_of_idle_connections_are_reported() {
    if !have(&["nginx", "openssl"]) {
        return;
    }
    let _seat = seat();
    let bench = Bench::secure();
    let home = bench.home.path().display();
    let server = format!(
        "{} ssl_early_data on; gzip on; keepalive_timeout 1s; root {home};",
        secure(&bench)
    );
    // More than gzip_min_length; too short for the step with a pause.
    bench.write("index.html", &"<p>hello</p>\n".repeat(400));
    let _nginx = nginx_with(&bench, &server);
    let result = probed(&bench, &["--idle", "3s"]);
    let facts = &result["endpoint"];
    assert_eq!(facts["coding"]["coding"], "gzip", "{facts}");
    assert!(!faults(&result).contains(&"no_compression"), "{result}");
    for version in ["HTTP/1.1", "HTTP/2"] {
        let of = |list: &str| -> Value {
            let list = facts[list].as_array().expect("a list");
            let found = list.iter().find(|one| one["version"] == version);
            found
                .unwrap_or_else(|| panic!("{version}: {facts}"))
                .clone()
        };
        let early_data = of("handshakes")["early_data_bytes"].as_u64();
        assert!(early_data > Some(0), "{version}: {facts}");
        let kept = of("keep_alive");
        let watched = &kept["watched"];
        let is_over = watched["was_ended"] == true || watched["with_goaway"] == true;
        assert!(is_over, "{version}: {facts}");
        let idle = watched["idle_ns"].as_u64().expect("a time");
        assert!(idle > 500_000_000, "{version}: {facts}");
    }
}
