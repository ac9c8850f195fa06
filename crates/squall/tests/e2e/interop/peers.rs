//! Each peer works as configured, without squall: if one of these tests fails, the peer is to blame, not squall.

use crate::interop::support::answer::{Answer, Request};
use crate::interop::support::chromium::{self, Resource};
use crate::interop::support::content::{content, large};
use crate::interop::support::nghttp2::{self, Load};
use crate::interop::support::openssl::accepts_alpn;
use crate::interop::support::program::have;
use crate::interop::support::{
    Http, Peer, Upstream, caddy, curl, envoy, h2spec, haproxy, nginx, pycurl, wrk,
};
use crate::support::seat;

/// Uses the client that speaks this HTTP version.
fn fetch(http: Http, request: &Request) -> Answer {
    match http {
        Http::H3 => pycurl::fetch(request),
        _ => curl::fetch(http, request),
    }
}

/// Fetches this path with every HTTP version that the peer speaks, and expects `file`.
fn check_file(peer: &Peer, path: &str, file: &[u8]) {
    for http in peer.spoken() {
        fetch(http, &Request::get(&peer.url(http, path))).check(200, http.version(), file);
    }
}

#[test]
fn nginx_serves_files_and_takes_uploads() {
    let _seat = seat();
    if !have(&["nginx", "nghttp", "curl", "openssl"]) {
        return;
    }
    let (small, large) = (content(1000), large());
    let nginx = nginx::start(&[("small", &small), ("large", large)]);
    check_file(&nginx, "/small", &small);
    check_file(&nginx, "/large", large);
    for http in [Http::H1, Http::H1s, Http::H2c, Http::H2] {
        let name = format!("sent-over-{}", http.name());
        let url = nginx.url(http, &format!("/{name}"));
        fetch(http, &Request::put(&url, large)).check(201, http.version(), b"");
        let stored = std::fs::read(nginx.documents().join(name)).expect("nginx has written it");
        assert!(stored == large, "{}: {} bytes", http.name(), stored.len());
    }
    let url = nginx.url(Http::H1, "/early");
    fetch(Http::H1, &Request::post(&url, &small)).check(200, "1.1", b"early");
    // Not with curl 7.88, which sometimes fails on this RST_STREAM.
    let url = nginx.url(Http::H2c, "/early");
    let frames = nghttp2::frames(&Request::post(&url, large));
    assert!(frames.contains(":status: 200"), "{frames}");
    assert!(frames.contains("recv RST_STREAM"), "{frames}");
    for http in [Http::H1s, Http::H2] {
        assert!(accepts_alpn(nginx.address(http), http.alpn()));
    }
}

#[test]
fn nghttpd_serves_files_and_echoes_uploads() {
    let _seat = seat();
    if !have(&["nghttpd", "nghttp", "curl", "openssl"]) {
        return;
    }
    let (small, large) = (content(1000), large());
    let nghttpd = nghttp2::start_server(&[("small", &small), ("large", large)]);
    check_file(&nghttpd, "/small", &small);
    check_file(&nghttpd, "/large", large);
    for http in [Http::H2c, Http::H2] {
        let url = nghttpd.url(http, "/echo");
        fetch(http, &Request::post(&url, &small)).check(200, http.version(), &small);
        assert!(nghttp2::fetch(&Request::put(&url, &small)) == small);
    }
    assert!(accepts_alpn(nghttpd.address(Http::H2), "h2"));
    let frames = nghttp2::frames(&Request::get(&nghttpd.url(Http::H2c, "/small")));
    assert!(frames.contains("SETTINGS frame"), "{frames}");
}

#[test]
fn caddy_serves_files() {
    let _seat = seat();
    if !have(&["caddy", "curl", "pycurl", "openssl"]) {
        return;
    }
    let (small, large) = (content(1000), large());
    let caddy = caddy::start(&[("small", &small), ("large", large)]);
    check_file(&caddy, "/small", &small);
    check_file(&caddy, "/large", large);
    for answer in pycurl::fetch_times(&Request::get(&caddy.url(Http::H3, "/small")), 100) {
        answer.check(200, "3", &small);
    }
}

/// Checks the proxy in front of Caddy with each of `upstreams`, over everything that the proxy speaks.
fn check_proxy(start: impl Fn(Upstream) -> Peer, upstreams: &[Http]) {
    let file = content(1_000_000);
    let server = caddy::start(&[("file", &file)]);
    for upstream in upstreams {
        let proxy = start(server.upstream(*upstream));
        println!("{} in front of {}", proxy.name, upstream.name());
        check_file(&proxy, "/file", &file);
        let protocol = format!(
            "HTTP/{:.1}",
            upstream.version().parse::<f64>().expect("a version")
        );
        check_file(&proxy, "/protocol", protocol.as_bytes());
    }
}

#[test]
fn nghttpx_forwards_requests() {
    let _seat = seat();
    if !have(&["nghttpx", "nghttp", "caddy", "curl", "openssl"]) {
        return;
    }
    check_proxy(
        nghttp2::start_proxy,
        &[Http::H1, Http::H1s, Http::H2c, Http::H2],
    );
    let file = content(1000);
    let server = caddy::start(&[("file", &file)]);
    let proxy = nghttp2::start_proxy(server.upstream(Http::H1));
    let url = proxy.url(Http::H1, "/file");
    curl::fetch_by_upgrade(&Request::get(&url)).check(200, "2", &file);
    assert!(nghttp2::fetch_by_upgrade(&Request::get(&url)) == file);
}

#[test]
fn haproxy_forwards_requests() {
    let _seat = seat();
    if have(&["haproxy", "caddy", "curl", "openssl"]) {
        check_proxy(haproxy::start, &[Http::H1, Http::H1s, Http::H2c, Http::H2]);
    }
}

#[test]
fn envoy_forwards_requests() {
    let _seat = seat();
    if have(&["envoy", "caddy", "curl", "pycurl", "openssl"]) {
        check_proxy(envoy::start, &Http::ALL);
    }
}

#[test]
fn envoy_forwards_uploads() {
    let _seat = seat();
    if !have(&["envoy", "nghttpd", "curl", "pycurl", "openssl"]) {
        return;
    }
    let server = nghttp2::start_server(&[]);
    let proxy = envoy::start(server.upstream(Http::H2c));
    let body = content(1_000_000);
    for http in Http::ALL {
        let url = proxy.url(http, "/echo");
        fetch(http, &Request::post(&url, &body)).check(200, http.version(), &body);
    }
}

#[test]
fn caddy_forwards_requests() {
    let _seat = seat();
    if have(&["caddy", "curl", "pycurl", "openssl"]) {
        check_proxy(caddy::start_proxy, &Http::ALL);
    }
}

#[test]
fn h2load_counts_responses() {
    let _seat = seat();
    if !have(&["h2load", "caddy", "openssl"]) {
        return;
    }
    let server = caddy::start(&[("file", &content(1000))]);
    let load = Load {
        requests: 200,
        connections: 2,
        parallel: 10,
    };
    for http in [Http::H1, Http::H1s, Http::H2c, Http::H2] {
        assert_eq!(
            nghttp2::load(http, &server.url(http, "/file"), load, None).succeeded,
            200,
            "{http:?}"
        );
        assert_eq!(
            nghttp2::load(http, &server.url(http, "/none"), load, None).succeeded,
            0,
            "{http:?}"
        );
    }
}

#[test]
fn wrk_counts_responses() {
    let _seat = seat();
    if have(&["wrk", "nginx", "openssl"]) {
        let server = nginx::start(&[("file", &content(1000))]);
        assert!(wrk::load(server.address(Http::H1), "/file", 10) > 10);
    }
}

#[test]
fn h2spec_finds_no_fault_in_nghttpd() {
    let _seat = seat();
    if !have(&["h2spec", "nghttpd", "openssl"]) {
        return;
    }
    let server = nghttp2::start_server(&[("index.html", b"index")]);
    for http in [Http::H2c, Http::H2] {
        let found = h2spec::check(http, server.address(http), "/", &["generic"], 2);
        // The number of cases in this section.
        assert_eq!((found.passed, found.failed), (44, 0), "{}", found.report);
    }
}

#[test]
fn chromium_loads_a_page_from_caddy() {
    let _seat = seat();
    if !have(&["chromium", "caddy", "openssl"]) {
        return;
    }
    let (small, large) = (content(1000), content(5_000_000));
    let page = chromium::page(&["/small", "/large"]);
    let server = caddy::start(&[("page.html", &page), ("small", &small), ("large", &large)]);
    for http in [Http::H1, Http::H1s, Http::H2, Http::H3] {
        let visit = chromium::visit(
            http,
            server.address(http),
            "/page.html",
            &server.certificate,
        );
        let expected = [&small, &large].map(|body| Resource::whole(http, body));
        assert_eq!(
            (visit.protocol.as_str(), &visit.resources[..]),
            (http.alpn(), &expected[..])
        );
    }
}
