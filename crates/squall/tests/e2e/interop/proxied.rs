//! Proxies in front of `squall serve`, each with every HTTP version that it speaks to an upstream.

use crate::interop::support::answer::Request;
use crate::interop::support::content::content;
use crate::interop::support::program::have;
use crate::interop::support::{Http, Peer, Upstream, caddy, curl, envoy, haproxy, nghttp2, squall};
use crate::support::seat;

/// Larger than any proxy's windows.
const BODY: usize = 5_000_000;

fn check_proxy(start: impl Fn(Upstream) -> Peer, upstreams: &[Http]) {
    let body = content(BODY);
    let server = squall::serve(&["--echo"]);
    for &upstream in upstreams {
        let proxy = start(server.upstream(upstream));
        for http in [Http::H1, Http::H2] {
            let path = format!("/{}-over-{}", http.name(), upstream.name());
            println!("{} {path}", proxy.name);
            let url = proxy.url(http, &path);
            curl::fetch(http, &Request::post(&url, &body)).check(200, http.version(), &body);
            curl::fetch(http, &Request::get(&url)).check(200, http.version(), b"");
            check_spoken(&server, upstream, &path);
        }
    }
}

/// Checks that requests for this path arrived over this HTTP version.
fn check_spoken(server: &Peer, http: Http, path: &str) {
    for method in ["POST", "GET"] {
        let line = squall::access_line(server, &format!("\"{method} {path}\""));
        assert_eq!(line.split(' ').nth(2), Some(http.name()), "{line}");
    }
}

#[test]
fn nghttpx_forwards_to_squall() {
    let _seat = seat();
    if have(&["nghttpx", "curl", "openssl"]) {
        check_proxy(
            nghttp2::start_proxy,
            &[Http::H1, Http::H1s, Http::H2c, Http::H2],
        );
    }
}

#[test]
fn haproxy_forwards_to_squall() {
    let _seat = seat();
    if have(&["haproxy", "curl", "openssl"]) {
        check_proxy(haproxy::start, &[Http::H1, Http::H1s, Http::H2c, Http::H2]);
    }
}

#[test]
fn envoy_forwards_to_squall() {
    let _seat = seat();
    if have(&["envoy", "curl", "openssl"]) {
        check_proxy(envoy::start, &Http::ALL);
    }
}

#[test]
fn caddy_forwards_to_squall() {
    let _seat = seat();
    if have(&["caddy", "curl", "openssl"]) {
        check_proxy(caddy::start_proxy, &Http::ALL);
    }
}
