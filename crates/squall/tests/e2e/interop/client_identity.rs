//! Servers that request a client certificate: squall's client presents the right one, a wrong one, and none.

use tempfile::TempDir;

use crate::interop::support::answer::Request;
use crate::interop::support::certificate::Certificate;
use crate::interop::support::content::content;
use crate::interop::support::program::have;
use crate::interop::support::{Http, Peer, caddy, nginx, squall};
use crate::support::seat;

/// Checks requests to `peer`, which has /small and requires the client certificate `client`; `refused` is the error that fetch
/// prints over TLS without one.
fn check(peer: &Peer, client: &Certificate, refused: &dyn Fn(Http) -> &'static str) {
    let (cert, key) = (
        client.certificate.display().to_string(),
        client.key.display().to_string(),
    );
    let both = TempDir::new().expect("a temporary folder");
    let together = both.path().join("both.pem");
    let pem = |path| std::fs::read(path).expect("a PEM file");
    let text = [pem(&client.key), pem(&client.certificate)].concat();
    std::fs::write(&together, text).expect("a file");
    let together = together.display().to_string();
    let elsewhere = TempDir::new().expect("a temporary folder");
    let stranger = Certificate::create(elsewhere.path());
    let (others, others_key) = (
        stranger.certificate.display().to_string(),
        stranger.key.display().to_string(),
    );

    let small = content(SMALL);
    for http in peer.spoken().filter(|http| http.is_tls()) {
        let url = peer.url(http, "/small");
        let fetch = |flags: &[&str]| squall::fetch(http, &Request::get(&url), flags);
        let load = |flags: &[&str]| {
            let always = ["--http", http.name(), "-n", "20", "-c", "2"];
            squall::load_with(&[&always, flags].concat(), &url)
        };
        fetch(&["--cert", &cert, "--key", &key]).check(&small);
        fetch(&["-E", &together]).check(&small);
        load(&["--cert", &cert, "--key", &key]).check_load(http, 20);

        fetch(&[]).check_failed(refused(http));
        let another = fetch(&["--cert", &others, "--key", &others_key]);
        assert_eq!(another.code, Some(1), "{another:?}");
        let failed = load(&[]);
        assert_eq!(failed.code, Some(1), "{failed:?}");
        let printed = String::from_utf8_lossy(&failed.stdout);
        assert!(printed.contains("\n0 succeeded (0 %), 20 "), "{printed}");
        assert!(
            printed.contains(match refused(http) {
                "status 400" => "status 400 (20)",
                said => said,
            }),
            "{printed}"
        );
    }
}

const SMALL: usize = 1000;

#[test]
fn nginx_accepts_only_the_trusted_client_certificate() {
    let _seat = seat();
    if !have(&["nginx", "openssl"]) {
        return;
    }
    let folder = TempDir::new().expect("a temporary folder");
    let client = Certificate::create(folder.path());
    let nginx = nginx::start_asking(&[("small", &content(SMALL))], &client);
    // nginx accepts every handshake and responds with a page that says "No required SSL certificate was sent".
    check(&nginx, &client, &|_| "status 400");
}

#[test]
fn caddy_accepts_only_the_trusted_client_certificate() {
    let _seat = seat();
    if !have(&["caddy", "openssl"]) {
        return;
    }
    let folder = TempDir::new().expect("a temporary folder");
    let client = Certificate::create(folder.path());
    let caddy = caddy::start_asking(&[("small", &content(SMALL))], &client);
    check(&caddy, &client, &|_| "certificate");
}

#[test]
fn unusable_client_certificate_is_a_usage_error() {
    let _seat = seat();
    if !have(&["openssl"]) {
        return;
    }
    let folder = TempDir::new().expect("a temporary folder");
    let client = Certificate::create(folder.path());
    let (cert, key) = (
        client.certificate.display().to_string(),
        client.key.display().to_string(),
    );
    let load = |flags: &[&str]| squall::load_with(flags, "https://127.0.0.1:1/");
    for (flags, said) in [
        (
            &["--cert", cert.as_str()][..],
            "Without --key the key is expected in the same file",
        ),
        (
            &["--cert", "/nowhere/at/all"],
            "cannot read /nowhere/at/all",
        ),
        (
            &["--cert", &key, "--key", &key],
            "there is no certificate in the chain",
        ),
        (&["--key", &key], "--cert"),
    ] {
        let ended = load(flags);
        assert_eq!(ended.code, Some(2), "{ended:?}");
        assert!(ended.stderr.contains(said), "{ended:?}");
    }
}
