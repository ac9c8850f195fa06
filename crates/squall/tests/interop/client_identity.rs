//! squall's client and servers that ask who it is: with the certificate that they want, with another one, and without.

use tempfile::TempDir;

use crate::support::answer::Request;
use crate::support::certificate::Certificate;
use crate::support::content::content;
use crate::support::program::have;
use crate::support::{Http, Peer, caddy, nginx, squall};

/// A peer that has /small and takes clients with `client` only; `refused` is what fetch says over TLS without it.
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
fn nginx_knows_who_asks() {
    if !have(&["nginx", "openssl"]) {
        return;
    }
    let folder = TempDir::new().expect("a temporary folder");
    let client = Certificate::create(folder.path());
    let nginx = nginx::start_asking(&[("small", &content(SMALL))], &client);
    // It lets everybody in, and answers with a page that says "No required SSL certificate was sent".
    check(&nginx, &client, &|_| "status 400");
}

#[test]
fn caddy_knows_who_asks_over_quic_too() {
    if !have(&["caddy", "openssl"]) {
        return;
    }
    let folder = TempDir::new().expect("a temporary folder");
    let client = Certificate::create(folder.path());
    let caddy = caddy::start_asking(&[("small", &content(SMALL))], &client);
    check(&caddy, &client, &|_| "certificate");
}

#[test]
fn a_certificate_that_cannot_be_used_is_refused_at_once() {
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
        assert!(ended.said.contains(said), "{ended:?}");
    }
}
