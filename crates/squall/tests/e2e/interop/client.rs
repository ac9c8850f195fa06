//! squall's client against popular servers and proxies: downloads, uploads, load and refusals, over each HTTP version
//! that the peer speaks.

use std::collections::BTreeSet;

use squall_base::record::{Way, frame_name};
use tempfile::TempDir;

use crate::interop::support::answer::Request;
use crate::interop::support::certificate::HOST;
use crate::interop::support::content::{content, large};
use crate::interop::support::program::have;
use crate::interop::support::{
    Http, Peer, caddy, curl, envoy, haproxy, nghttp2, nginx, openssl, squall,
};
use crate::support::seat;

/// Checks downloads from `peer`, which is a server that has only /small and /large, or a proxy in front of one.
fn check_downloads(peer: &Peer) {
    let small = content(SMALL);
    for http in peer.spoken() {
        let get = |path| squall::fetch(http, &Request::get(&peer.url(http, path)), &[]);
        get("/small").check(&small);
        get("/large").check(large());
        get("/none").check_failed("status 404");
        squall::load(http, &peer.url(http, "/small"), REQUESTS).check_load(http, REQUESTS);
    }
}

const SMALL: usize = 1000;
const REQUESTS: u32 = 1000;

/// Checks uploads to `peer`; `store` is the nginx that stores what `peer` receives.
fn check_uploads(peer: &Peer, store: &Peer) {
    for http in peer.spoken() {
        let name = format!("sent-to-{}-over-{}", peer.name, http.name());
        let url = peer.url(http, &format!("/{name}"));
        squall::fetch(http, &Request::put(&url, large()), &[]).check(b"");
        let stored = std::fs::read(store.documents().join(&name)).expect("nginx has written it");
        assert_eq!(stored.len(), large().len(), "length of {name}");
        assert!(stored == large(), "{name} is another");
    }
}

fn nginx_with_files() -> Peer {
    nginx::start(&[("small", &content(SMALL)), ("large", large())])
}

#[test]
fn downloads_and_uploads_work_with_nginx() {
    let _seat = seat();
    if have(&["nginx", "openssl"]) {
        let nginx = nginx_with_files();
        check_downloads(&nginx);
        check_uploads(&nginx, &nginx);
    }
}

#[test]
fn downloads_and_uploads_work_with_nghttpd() {
    let _seat = seat();
    if !have(&["nghttpd", "openssl"]) {
        return;
    }
    let nghttpd = nghttp2::start_server(&[("small", &content(SMALL)), ("large", large())]);
    check_downloads(&nghttpd);
    for http in nghttpd.spoken() {
        let url = nghttpd.url(http, "/echo");
        squall::fetch(http, &Request::post(&url, large()), &[]).check(large());
    }
}

#[test]
fn downloads_work_with_caddy() {
    let _seat = seat();
    if have(&["caddy", "openssl"]) {
        check_downloads(&caddy::start(&[
            ("small", &content(SMALL)),
            ("large", large()),
        ]));
    }
}

#[test]
fn downloads_work_with_openssl_s_server() {
    let _seat = seat();
    if !have(&["openssl"]) {
        return;
    }
    let server = openssl::start_server(&[("small", &content(SMALL)), ("large", large())]);
    let get = |path| squall::fetch(Http::H1s, &Request::get(&server.url(Http::H1s, path)), &[]);
    get("/documents/small").check(&content(SMALL));
    get("/documents/large").check(large());
}

#[test]
fn downloads_and_uploads_pass_through_nghttpx() {
    let _seat = seat();
    if have(&["nghttpx", "nginx", "openssl"]) {
        let nginx = nginx_with_files();
        let proxy = nghttp2::start_proxy(nginx.upstream(Http::H1));
        check_downloads(&proxy);
        check_uploads(&proxy, &nginx);
    }
}

/// nginx does not support the upgrade, so its connections stay HTTP/1.1.
#[test]
fn fetch_offers_an_h2c_upgrade() {
    let _seat = seat();
    if !have(&["nghttpx", "nginx", "openssl"]) {
        return;
    }
    let nginx = nginx_with_files();
    let proxy = nghttp2::start_proxy(nginx.upstream(Http::H1));
    let get =
        |peer: &Peer, path| squall::fetch_by_upgrade(&Request::get(&peer.url(Http::H1, path)));
    for (path, body) in [("/small", &content(SMALL)[..]), ("/large", large())] {
        let upgraded = get(&proxy, path);
        upgraded.check(body);
        let told = &upgraded.stderr;
        assert!(told.contains("\n          upgrade: h2c\n"), "{told}");
        assert!(told.contains("recv HTTP/1.1 101\n"), "{told}");
        assert!(told.contains("recv (stream_id=1) :status: 200\n"), "{told}");
        let stayed = get(&nginx, path);
        stayed.check(body);
        let told = &stayed.stderr;
        assert!(told.contains("\n          upgrade: h2c\n"), "{told}");
        assert!(told.contains("recv HTTP/1.1 200\n"), "{told}");
    }
}

/// Each connection of a load offers the upgrade with its first request, and the response arrives over HTTP/2 like all
/// others. nginx does not support the upgrade, so its connections stay HTTP/1.1.
#[test]
fn every_connection_of_a_load_offers_an_h2c_upgrade() {
    let _seat = seat();
    if !have(&["nghttpx", "nginx", "openssl"]) {
        return;
    }
    let home = TempDir::new().expect("a temporary folder");
    let frames = home.path().join("frames");
    let frames_to = frames.to_str().expect("UTF-8");
    let nginx = nginx_with_files();
    let proxy = nghttp2::start_proxy(nginx.upstream(Http::H1));
    for connections in [1, 5] {
        let load = |peer: &Peer, spoken: &str| {
            let at_once = connections.to_string();
            let flags = ["--upgrade", "-n", "200", "-m", "8", "-c", &at_once];
            let flags = [&flags[..], &["--frames-to", frames_to]].concat();
            let loaded = squall::load_with(&flags, &peer.url(Http::H1, "/small"));
            let printed = String::from_utf8_lossy(&loaded.stdout);
            for line in ["200 succeeded (100 %)", spoken] {
                let is_said = printed.lines().any(|found| found == line);
                assert!(is_said, "no {line:?} of {}: {loaded:?}", peer.name);
            }
            let rows = squall_record::read_frames(&frames).expect("the frames");
            let answers = rows.iter().filter(|row| {
                let name = frame_name(row.frame.layer, row.frame.kind);
                row.frame.way == Way::Received && name == Some("HEADERS")
            });
            let answered: Vec<u32> = answers.map(|row| row.connection).collect();
            (answered.len(), BTreeSet::from_iter(answered).len())
        };
        // Each connection spoke both protocols.
        let spoken = format!("spoken h1 ({connections}), h2c ({connections})");
        assert_eq!(load(&proxy, &spoken), (200, connections));
        assert_eq!(load(&nginx, &format!("spoken h1 ({connections})")), (0, 0));
    }
}

#[test]
fn downloads_and_uploads_pass_through_haproxy() {
    let _seat = seat();
    if have(&["haproxy", "nginx", "openssl"]) {
        let nginx = nginx_with_files();
        let proxy = haproxy::start(nginx.upstream(Http::H1));
        check_downloads(&proxy);
        check_uploads(&proxy, &nginx);
    }
}

#[test]
fn downloads_and_uploads_pass_through_envoy() {
    let _seat = seat();
    if have(&["envoy", "nginx", "openssl"]) {
        let nginx = nginx_with_files();
        let proxy = envoy::start(nginx.upstream(Http::H1));
        check_downloads(&proxy);
        check_uploads(&proxy, &nginx);
    }
}

#[test]
fn uploads_pass_through_caddy() {
    let _seat = seat();
    if have(&["caddy", "nginx", "openssl"]) {
        let nginx = nginx_with_files();
        check_uploads(&caddy::start_proxy(nginx.upstream(Http::H1)), &nginx);
    }
}

#[test]
fn response_may_arrive_before_the_end_of_the_request() {
    let _seat = seat();
    if !have(&["nginx", "openssl"]) {
        return;
    }
    let nginx = nginx::start(&[]);
    for http in nginx.spoken() {
        let url = nginx.url(http, "/early");
        squall::fetch(http, &Request::post(&url, large()), &[]).check(b"early");
    }
}

#[test]
fn empty_reason_phrase_is_accepted() {
    let _seat = seat();
    if !have(&["haproxy", "nghttpd", "curl", "openssl"]) {
        return;
    }
    let file = content(SMALL);
    let server = nghttp2::start_server(&[("file", &file)]);
    let proxy = haproxy::start(server.upstream(Http::H2c));
    for http in [Http::H1, Http::H1s] {
        let url = proxy.url(http, "/file");
        let request = Request::get(&url);
        let (_, head) = curl::fetch_with_head(http, &request, &[]);
        assert!(head.starts_with("HTTP/1.1 200 \r\n"), "{head}");
        squall::fetch(http, &request, &[]).check(&file);
    }
}

#[test]
fn certificates_are_verified() {
    let _seat = seat();
    if !have(&["caddy", "openssl"]) {
        return;
    }
    let file = content(SMALL);
    let server = caddy::start(&[("file", &file)]);
    let certificate = server.certificate.certificate.display().to_string();
    for http in Http::ALL.into_iter().filter(|http| http.is_tls()) {
        let url = server.url(http, "/file");
        let address = server.address(http);
        let fetch = |flags: &[&str]| squall::fetch_trusting(http, &Request::get(&url), flags);
        fetch(&["--insecure"]).check(&file);
        fetch(&["--cacert", &certificate]).check(&file);
        // The certificate is self-signed.
        fetch(&[]).check_failed("certificate");
        let by_name = |name: &str| {
            let url = format!("https://{name}:{}/file", address.port());
            let connect_to = address.to_string();
            let flags = ["--cacert", &certificate, "--connect-to", &connect_to];
            squall::fetch_trusting(http, &Request::get(&url), &flags)
        };
        by_name(HOST).check(&file);
        by_name("another.local").check_failed("certificate");
    }
}
