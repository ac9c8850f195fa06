//! Each driver as a proxy, for every pair of protocols that it claims to speak, in front of Caddy, which reports the
//! protocol of each request. The proxies check Caddy's certificate.

use std::net::SocketAddr;
use std::path::Path;
use std::time::Instant;

use squall_base::plan::Protocol;
use squall_peers::{
    Driver, GenericStation, Installable, InstalledProgram, RawStation, RunningStation, Station,
};
use tempfile::TempDir;

use crate::asking::{ask, version};
use crate::support::{
    PATIENCE, free_address, have, known, nginx_mainline, order, proxy, search, seat, start,
};

/// Responds with the version of the request, a blank and the request's body. One port for cleartext, one for the other
/// protocols; written as a recipe would define a station.
const UPSTREAM: &str = r#"{{
    "admin": {{ "disabled": true, "config": {{ "persist": false }} }},
    "apps": {{
        "tls": {{ "certificates": {{ "load_files": [ {{ "certificate": "{certificate}", "key": "{key}" }} ] }} }},
        "http": {{ "servers": {{ "one": {{
            "listen": ["{listen_host}:{listen_port}"],
            "protocols": PROTOCOLS,
            "automatic_https": {{ "disable": true }},
            POLICIES
            "routes": [ {{ "handle": [ {{ "handler": "static_response",
                "body": "{{http.request.proto}} {{http.request.body}}" }} ] }} ]
        }} }} }}
    }}
}}"#;

/// Caddy through the generic driver.
fn upstream(folder: &Path, protocol: Protocol) -> (RunningStation, SocketAddr) {
    let (protocols, policies) = if protocol.is_secure() {
        (
            r#"["h1", "h2", "h3"]"#,
            r#""tls_connection_policies": [ {{ "fallback_sni": "test.local" }} ],"#,
        )
    } else {
        (r#"["h1", "h2c"]"#, "")
    };
    let raw = RawStation {
        name: "upstream".to_owned(),
        command: "caddy run --config {configuration}".to_owned(),
        configuration: Some(
            UPSTREAM
                .replace("PROTOCOLS", protocols)
                .replace("POLICIES", policies),
        ),
        ready: "output \"serving initial configuration\"".replace('"', ""),
    };
    let station = GenericStation::check(&raw).expect("what the test itself makes");
    let mut order = order(folder, "upstream", protocol);
    order.listen = free_address();
    order.upstreams = vec![];
    order.answer = Some(squall_peers::Answer {
        status: 200,
        body: squall_peers::Body::Size(squall_base::Bytes::new(0)),
        target: "/".to_owned(),
    });
    let address = order.listen;
    let found = station.find(&search()).expect("`have` was asked first");
    let running = Station::new(&station, &found, order)
        .expect("what the test itself makes")
        .start(None)
        .expect("what the test itself makes");
    running
        .wait_ready(None, Instant::now() + PATIENCE)
        .expect("what the test itself makes");
    (running, address)
}

fn check(driver: &dyn Driver, found: &InstalledProgram) {
    if !have(&["curl", "openssl", "caddy", "pycurl"]) {
        return;
    }
    let folder = TempDir::new().expect("what the test itself makes");
    let (_clear, clear_address) = upstream(&folder.path().join("clear"), Protocol::H1);
    let (_secure, secure_address) = upstream(&folder.path().join("secure"), Protocol::H2);
    let upload = vec![b'u'; 100_000];
    let mut pairs = 0;
    for (front, to) in Protocol::ALL
        .into_iter()
        .flat_map(|front| Protocol::ALL.map(|to| (front, to)))
    {
        let can = driver
            .check_protocols(front, Some(to))
            .and_then(|()| driver.check_version(&found.version, front, Some(to)));
        if can.is_err() {
            continue;
        }
        let behind = if to.is_secure() {
            secure_address
        } else {
            clear_address
        };
        let order = proxy(folder.path(), driver.name(), front, to, behind);
        let address = order.listen;
        let _running = start((driver, found), order);
        let spoken = if to == Protocol::H3 {
            "HTTP/3.0"
        } else if version(to) == "2" {
            "HTTP/2.0"
        } else {
            "HTTP/1.1"
        };
        for sent in [None, Some(&upload[..])] {
            let got = ask(folder.path(), front, address, "/", sent);
            let what = format!(
                "{} {front} to {to}, {} bytes sent",
                driver.name(),
                sent.map_or(0, <[u8]>::len)
            );
            assert_eq!(
                (got.status, got.version.as_str()),
                (200, version(front)),
                "{what}"
            );
            let expected = [spoken.as_bytes(), b" ", sent.unwrap_or_default()].concat();
            assert!(
                got.body == expected,
                "{what}: {}",
                got.body[..got.body.len().min(60)].escape_ascii()
            );
        }
        pairs += 1;
    }
    println!("{} {}: {pairs} pairs", driver.name(), found.version);
    assert!(pairs >= 8);
}

fn check_by_name(name: &str) {
    if let Some((driver, found)) = known(name) {
        check(driver, &found);
    }
}

#[test]
fn nginx_passes_requests_on_between_its_protocols() {
    let _seat = seat();
    check_by_name("nginx");
}

#[test]
fn nginx_of_pypi_passes_requests_on_between_its_protocols() {
    let _seat = seat();
    if let Some((driver, found)) = nginx_mainline() {
        check(driver, &found);
    }
}

#[test]
fn haproxy_passes_requests_on_between_its_protocols() {
    let _seat = seat();
    check_by_name("haproxy");
}

#[test]
fn envoy_passes_requests_on_between_its_protocols() {
    let _seat = seat();
    check_by_name("envoy");
}

#[test]
fn nghttpx_passes_requests_on_between_its_protocols() {
    let _seat = seat();
    check_by_name("nghttpx");
}

#[test]
fn caddy_passes_requests_on_between_its_protocols() {
    let _seat = seat();
    check_by_name("caddy");
}
