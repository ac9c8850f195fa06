//! `--http auto` and a server that advertises HTTP/3 via Alt-Svc (RFC 7838): Caddy sends `h3=":PORT"; ma=2592000`.

use crate::interop::support::answer::Request;
use crate::interop::support::content::content;
use crate::interop::support::program::have;
use crate::interop::support::{Http, caddy, curl, nginx, squall};
use crate::support::{seat, wait_for};

#[test]
fn advertised_http3_alternative_is_used() {
    let _seat = seat();
    if !have(&["caddy", "curl", "openssl"]) {
        return;
    }
    let caddy = caddy::start(&[("small", &content(1000))]);
    let url = caddy.url(Http::H2, "/small");
    // Caddy accepts connections over TCP before it advertises HTTP/3.
    wait_for("Caddy's alt-svc", || {
        let (_, head) = curl::fetch_with_head(Http::H2, &Request::get(&url), &[]);
        head.contains("alt-svc: h3=").then_some(())
    });
    let port = caddy.address(Http::H3).port();
    let load = squall::load_with(&["--http", "auto", "-n", "30"], &url);
    load.check_load(Http::H3, 30);
    let said = format!(
        "--http auto: HTTP/3, at 127.0.0.1:{port} (127.0.0.1:{port}), because {url} says alt-svc: h3=\":{port}\"; ma=2592000\n"
    );
    assert!(load.stderr.contains(&said), "{load:?}");
    // The load does not resume a TLS session of the connections that discovered the alternative.
    let printed = String::from_utf8_lossy(&load.stdout);
    assert!(printed.contains("\nhandshakes 1 full\n"), "{printed}");

    let protocol = caddy.url(Http::H2, "/protocol");
    let fetch = squall::fetch_automatic(&Request::get(&protocol));
    fetch.check(b"HTTP/3.0");
}

#[test]
fn without_an_alternative_alpn_decides_the_protocol() {
    let _seat = seat();
    if !have(&["nginx", "openssl"]) {
        return;
    }
    let nginx = nginx::start(&[("small", &content(1000))]);
    let url = nginx.url(Http::H2, "/small");
    let load = squall::load_with(&["--http", "auto", "-n", "30"], &url);
    load.check_load(Http::H2, 30);
    assert!(
        load.stderr.contains("advertised no alternative"),
        "{load:?}"
    );
}

/// nginx sends whatever Alt-Svc value it is configured with.
#[test]
fn unusable_alternative_is_reported_and_not_used() {
    let _seat = seat();
    if !have(&["nginx", "openssl"]) {
        return;
    }
    for (field, why) in [
        // Nothing listens on port 1.
        ("h3=\\\":1\\\"", ", cannot be used: Connection refused"),
        ("h2=\\\":443\\\"", "has no fresh h3 among its alternatives"),
        (
            "h3=\\\":443\\\"; ma=0",
            "has no fresh h3 among its alternatives",
        ),
        ("clear", "has no fresh h3 among its alternatives"),
        (
            "h3=:443",
            "cannot be parsed: expected a quotation mark at byte 3",
        ),
    ] {
        let nginx = nginx::start_telling(&[("small", &content(1000))], field);
        let url = nginx.url(Http::H2, "/small");
        let load = squall::load_with(&["--http", "auto", "-n", "10"], &url);
        load.check_load(Http::H2, 10);
        assert!(load.stderr.contains(why), "{field}: {load:?}");
    }
}
