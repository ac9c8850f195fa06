//! Popular clients against `squall serve`, over each HTTP version that it speaks: bodies in both directions, files,
//! query parameters, load, TLS, and the access log.

use std::time::{Duration, Instant};

use crate::interop::support::answer::{Answer, Request};
use crate::interop::support::chromium::{self, Resource};
use crate::interop::support::content::{LARGE_BYTES, LARGE_BYTES_IN_CHROMIUM, content, large};
use crate::interop::support::nghttp2::{self, Load, LoadCounts};
use crate::interop::support::program::have;
use crate::interop::support::{Http, Peer, curl, nginx, openssl, pycurl, squall, wrk};
use crate::support::{alone_if_it_fails, seat};

/// Everything that Debian's curl speaks.
const OF_CURL: [Http; 4] = [Http::H1, Http::H1s, Http::H2c, Http::H2];

/// A body larger than any client's windows, than the pattern that `squall serve` keeps in memory, and than its file reads.
const BODY: usize = 5_000_000;

/// Uses the client that speaks this HTTP version.
fn fetch(http: Http, request: &Request) -> Answer {
    match http {
        Http::H3 => pycurl::fetch(request),
        _ => curl::fetch(http, request),
    }
}

/// The body that `--body` or a size in the query produces.
fn pattern(len: usize) -> Vec<u8> {
    (b'a'..=b'z').cycle().take(len).collect()
}

#[test]
fn echo_returns_the_whole_body() {
    let _seat = seat();
    if !have(&["curl", "pycurl", "nghttp", "openssl"]) {
        return;
    }
    let server = squall::serve(&["--echo"]);
    for http in Http::ALL {
        let url = server.url(http, "/");
        fetch(http, &Request::post(&url, large())).check(200, http.version(), large());
        fetch(http, &Request::put(&url, b"x")).check(200, http.version(), b"x");
        fetch(http, &Request::get(&url)).check(200, http.version(), b"");
    }
    for http in [Http::H2c, Http::H2] {
        let url = server.url(http, "/");
        let got = nghttp2::fetch(&Request::put(&url, large()));
        assert!(got == large(), "nghttp, PUT {url}: {} bytes", got.len());
    }
}

#[test]
fn http3_carries_many_concurrent_bodies() {
    let _seat = seat();
    if !have(&["pycurl", "openssl"]) {
        return;
    }
    let body = content(1_000_000);
    let server = squall::serve(&["--echo"]);
    let url = server.url(Http::H3, "/");
    for answer in pycurl::fetch_times(&Request::post(&url, &body), 20) {
        answer.check(200, "3", &body);
    }
    let url = server.url(Http::H3, "/small");
    // More than the limit of 100 concurrent streams.
    for answer in pycurl::fetch_times(&Request::get(&url), 300) {
        answer.check(200, "3", b"");
    }
}

#[test]
fn query_sets_body_size_and_status() {
    let _seat = seat();
    if !have(&["curl", "pycurl", "openssl"]) {
        return;
    }
    let server = squall::serve(&[]);
    let body = pattern(BODY);
    for http in Http::ALL {
        let get = |target: &str| fetch(http, &Request::get(&server.url(http, target)));
        let version = http.version();
        get("/").check(200, version, &pattern(1024));
        get(&format!("/?size={BODY}")).check(200, version, &body);
        get("/?size=0").check(200, version, b"");
        get("/?status=503&size=3").check(503, version, b"abc");
        get("/?status=204").check(204, version, b"");
        get("/?status=304").check(304, version, b"");
        let refused = get("/?size=many");
        assert_eq!(refused.status, 400, "{}", refused.asked);
    }
}

#[test]
fn query_sets_a_response_delay() {
    let _seat = seat();
    if !have(&["curl", "pycurl", "openssl"]) {
        return;
    }
    let server = squall::serve(&[]);
    let body = pattern(1 << 20);
    for http in Http::ALL {
        let url = server.url(http, "/?size=1MiB&delay=200ms");
        let start = Instant::now();
        fetch(http, &Request::get(&url)).check(200, http.version(), &body);
        let took = start.elapsed();
        assert!(
            took >= Duration::from_millis(200),
            "{}: {took:?}",
            http.name()
        );
    }
}

#[test]
fn sink_reports_the_bytes_received() {
    let _seat = seat();
    if !have(&["curl", "pycurl", "openssl"]) {
        return;
    }
    let server = squall::serve(&["--sink"]);
    for http in Http::ALL {
        let url = server.url(http, "/upload");
        let answer = fetch(http, &Request::post(&url, large()));
        let received = format!("{LARGE_BYTES} bytes\n");
        answer.check(200, http.version(), received.as_bytes());
    }
}

#[test]
fn files_are_served_with_types_and_ranges() {
    let _seat = seat();
    if !have(&["curl", "pycurl", "openssl"]) {
        return;
    }
    let (page, file, some) = (b"<p>index</p>", content(1000), content(BODY));
    let server = squall::serve_files(&[
        ("index.html", page),
        ("style.css", b"p {}"),
        ("file", &file),
        ("some", &some),
    ]);
    let made = std::process::Command::new("mkfifo")
        .arg(server.documents().join("pipe"))
        .status();
    assert!(made.is_ok_and(|status| status.success()), "mkfifo");
    for http in Http::ALL {
        let url = server.url(http, "/some");
        fetch(http, &Request::get(&url)).check(200, http.version(), &some);
        let url = server.url(http, "/none");
        let missing = fetch(http, &Request::get(&url));
        assert_eq!(missing.status, 404, "{}", missing.asked);
        check_files(&server, http, page, &file);
    }
}

fn check_files(server: &Peer, http: Http, page: &[u8], file: &[u8]) {
    let ask = |method, path, fields: &[&str]| {
        let url = server.url(http, path);
        let request = Request {
            method,
            ..Request::get(&url)
        };
        let (answer, head) = match http {
            Http::H3 => pycurl::fetch_with_head(&request, fields),
            _ => curl::fetch_with_head(http, &request, fields),
        };
        (answer, head.to_ascii_lowercase())
    };
    let check = |method, path, asks: &[&str], status, body: &[u8], fields: &[&str]| {
        let (answer, head) = ask(method, path, asks);
        answer.check(status, http.version(), body);
        for field in fields {
            let found = head.lines().any(|line| line.trim_end() == *field);
            assert!(found, "{method} {path} {asks:?}: no {field} in {head}");
        }
    };
    let html = "content-type: text/html; charset=utf-8";
    check("GET", "/", &[], 200, page, &[html, "content-length: 12"]);
    check("GET", "/index.html", &[], 200, page, &[html]);
    let css = "content-type: text/css; charset=utf-8";
    check("GET", "/style.css", &[], 200, b"p {}", &[css]);
    let (bytes, whole) = ("accept-ranges: bytes", "content-length: 1000");
    let kind = "content-type: application/octet-stream";
    check("GET", "/file", &[], 200, file, &[bytes, whole, kind]);
    check("HEAD", "/file", &[], 200, b"", &[bytes, whole, kind]);
    let (range, first) = ("range: bytes=0-99", "content-range: bytes 0-99/1000");
    check("GET", "/file", &[range], 206, &file[..100], &[first]);
    let last = "content-range: bytes 900-999/1000";
    let range_of_last = ["range: bytes=-100"];
    check("GET", "/file", &range_of_last, 206, &file[900..], &[last]);
    let none = "content-range: bytes */1000";
    check("GET", "/file", &["range: bytes=1000-"], 416, b"", &[none]);
    // No file has a validator that If-Range could match.
    let unless_changed = [range, "if-range: \"x\""];
    check("GET", "/file", &unless_changed, 200, file, &[whole]);
    // Opening a pipe would block until its other end opens.
    assert_eq!(ask("GET", "/pipe", &[]).0.status, 404);
    let (answer, _) = ask("GET", "/../access.log", &[]);
    assert_eq!(answer.status, 404, "{}", answer.asked);
}

/// `squall serve` does not support the upgrade of RFC 7540, which RFC 9113 has dropped: it responds over HTTP/1.1.
#[test]
fn h2c_upgrade_offer_is_ignored() {
    let _seat = seat();
    if have(&["curl", "openssl"]) {
        let server = squall::serve(&[]);
        let url = server.url(Http::H1, "/");
        curl::fetch_by_upgrade(&Request::get(&url)).check(200, "1.1", &pattern(1024));
    }
}

#[test]
fn each_exchange_is_one_access_log_line() {
    let _seat = seat();
    if !have(&["curl", "pycurl", "openssl"]) {
        return;
    }
    let server = squall::serve(&["--sink"]);
    for http in Http::ALL {
        let before = access_log(&server, http, "before");
        fetch(
            http,
            &Request::post(&server.url(http, "/a?status=201"), b"abc"),
        );
        fetch(http, &Request::get(&server.url(http, "/b?status=404")));
        let lines = access_log(&server, http, "after").split_off(before.len());
        let said: Vec<Vec<&str>> = lines.iter().map(|line| line.split(' ').collect()).collect();
        let expected = [
            ["\"POST", "/a?status=201\"", "201", "3", "8"],
            ["\"GET", "/b?status=404\"", "404", "0", "8"],
        ];
        assert_eq!(said.len(), 3, "{lines:#?}");
        for (said, expected) in said.iter().zip(expected) {
            assert_eq!((said.len(), said[2]), (9, http.name()), "{lines:#?}");
            assert_eq!(said[3..8], expected, "{lines:#?}");
            assert!(said[8].parse::<f64>().expect("microseconds") > 0.0);
        }
    }
}

/// Makes a request and returns all log lines up to and including its own.
fn access_log(server: &Peer, http: Http, word: &str) -> Vec<String> {
    let path = format!("/{word}-{}", http.name());
    fetch(http, &Request::get(&server.url(http, &path)));
    squall::access_log_until(server, &path)
}

#[test]
fn h2load_counts_every_response() {
    let _seat = seat();
    if !have(&["h2load", "curl", "openssl"]) {
        return;
    }
    let server = squall::serve(&[]);
    let mut requests = 0;
    for http in OF_CURL {
        let parallel = match http {
            // h2load would pipeline them.
            Http::H1 | Http::H1s => 1,
            _ => 32,
        };
        let load = Load {
            requests: 5000,
            connections: 4,
            parallel,
        };
        let loaded = nghttp2::load(http, &server.url(http, "/load"), load, None);
        let expected = LoadCounts {
            succeeded: 5000,
            data_bytes: 5000 * 1024,
        };
        assert_eq!(loaded, expected, "{}", http.name());
        requests += load.requests as usize;
    }
    let lines = access_log(&server, Http::H1, "end");
    let of_load = lines
        .iter()
        .filter(|line| line.contains("\"GET /load\" 200 "));
    assert_eq!((of_load.count(), lines.len()), (requests, requests + 1));
}

#[test]
fn h2load_carries_large_bodies_both_ways() {
    let _seat = seat();
    if !have(&["h2load", "curl", "openssl"]) {
        return;
    }
    let one = Load {
        requests: 1,
        connections: 1,
        parallel: 1,
    };
    let server = squall::serve(&["--sink"]);
    for http in OF_CURL {
        let url = server.url(http, "/upload");
        let loaded = nghttp2::load(http, &url, one, Some(large()));
        let answer = format!("{LARGE_BYTES} bytes\n").len() as u64;
        assert_eq!((loaded.succeeded, loaded.data_bytes), (1, answer), "{url}");
        let line = format!(
            " {} \"POST /upload\" 200 {LARGE_BYTES} {answer} ",
            http.name()
        );
        squall::access_log_until(&server, &line);
        let url = server.url(http, &format!("/download?size={LARGE_BYTES}"));
        let loaded = nghttp2::load(http, &url, one, None);
        assert_eq!(
            (loaded.succeeded, loaded.data_bytes),
            (1, LARGE_BYTES as u64),
            "{url}"
        );
    }
}

#[test]
fn wrk_completes_a_load_on_squall() {
    alone_if_it_fails(seat(), || {
        if have(&["wrk", "openssl"]) {
            let server = squall::serve(&[]);
            assert!(wrk::load(server.address(Http::H1), "/", 10) > 1000);
        }
    });
}

#[test]
fn tls_sessions_are_resumed() {
    let _seat = seat();
    if !have(&["openssl"]) {
        return;
    }
    let server = squall::serve(&[]);
    for version in ["1.2", "1.3"] {
        let [first, second] = openssl::fetch_twice(server.address(Http::H1s), version, "/?size=4");
        for (printed, session) in [(first, "New"), (second, "Reused")] {
            let line = format!("{session}, TLSv{version}, ");
            assert!(printed.contains(&line), "no {line:?} in {printed}");
            assert!(printed.contains("\r\n\r\nabcd"), "{printed}");
        }
    }
    for http in [Http::H1s, Http::H2] {
        assert!(openssl::accepts_alpn(server.address(http), http.alpn()));
    }
}

#[test]
fn chromium_loads_a_page_from_squall() {
    let _seat = seat();
    if !have(&["chromium", "curl", "pycurl", "openssl"]) {
        return;
    }
    let (small, large) = (content(1000), content(LARGE_BYTES_IN_CHROMIUM));
    let page = chromium::page(&["/small", "/large", "/small?delay=100ms", "/upload /large"]);
    let server = squall::serve_files(&[("page.html", &page), ("small", &small), ("large", &large)]);
    for http in [Http::H1, Http::H1s, Http::H2, Http::H3] {
        let address = server.address(http);
        let visit = chromium::visit(http, address, "/page.html", &server.certificate);
        let mut expected =
            Vec::from([&small, &large, &small].map(|body| Resource::whole(http, body)));
        // A file server rejects uploads, but responds only after reading the whole body.
        expected.push(Resource::answered(http, 405, b"only GET and HEAD\n"));
        assert_eq!(
            (visit.protocol.as_str(), &visit.resources[..]),
            (http.alpn(), &expected[..])
        );
        let upload = format!(
            " {} \"PUT /upload\" 405 {LARGE_BYTES_IN_CHROMIUM} ",
            http.name()
        );
        let lines = access_log(&server, http, "uploaded");
        assert!(
            lines.iter().any(|line| line.contains(&upload)),
            "{lines:#?}"
        );
    }
}

/// Checks the upload against the file that nginx stores. An echo would not work: Chromium does not read a response
/// before it has sent its request (`duplex: "half"` of the Fetch standard), and an echo of this length starts while the
/// body is still arriving.
#[test]
fn chromium_uploads_arrive_whole() {
    let _seat = seat();
    if !have(&["chromium", "nginx", "openssl"]) {
        return;
    }
    let large = content(LARGE_BYTES_IN_CHROMIUM);
    for http in [Http::H1, Http::H1s, Http::H2, Http::H3] {
        let page = chromium::page(&["/sent /large"]);
        let store = nginx::start(&[("page.html", &page), ("large", &large)]);
        let proxy = squall::proxy(store.upstream(Http::H1));
        let address = proxy.address(http);
        let visit = chromium::visit(http, address, "/page.html", &proxy.certificate);
        assert_eq!(visit.resources, [Resource::answered(http, 201, b"")]);
        let sent = std::fs::read(store.documents().join("sent")).expect("nginx has written it");
        assert_eq!(sent.len(), large.len(), "over {}", http.name());
        assert!(sent == large, "another body over {}", http.name());
    }
}
