//! The certificates that `squall serve` and `squall proxy` generate: their names (`--name`), and their file (`--write-cert`).
//!
//! Interop's `client` tests which certificates clients trust, `bare_tls` what they print about a wrong name.

use std::net::SocketAddr;

use tempfile::TempDir;

use crate::served;
use crate::serving::Serving;
use crate::support::{seat, squall, stderr};

/// Whether a client that trusts only this certificate accepts it for that name, over TLS or QUIC, and what it prints.
fn fetch(home: &TempDir, (version, address): (&str, SocketAddr), name: &str) -> (bool, String) {
    let port = address.port();
    let output = squall(home.path())
        .args(["fetch", "--cacert", served::CERTIFICATE, "--http", version])
        .args(["--connect-to", &address.to_string()])
        .arg(format!("https://{name}:{port}/"))
        .output()
        .expect("squall starts");
    (output.status.success(), stderr(&output))
}

#[test]
fn certificates_are_valid_for_exactly_the_requested_names() {
    let _seat = seat();
    let home = TempDir::new().expect("a temporary folder");
    let written = home.path().join(served::CERTIFICATE).display().to_string();
    let upstream = Serving::start(&["h1"], &[]);
    let to = format!("http://{}", upstream.address("h1"));
    let certificate = ["--write-cert", &written];
    for (command, more) in [("serve", &[][..]), ("proxy", &["--to", &to])] {
        for names in [&[][..], &["--name", "wind.test", "--name", "10.9.8.7"]] {
            let flags = [more, &certificate, names].concat();
            let station = Serving::of(command, &["https", "h3"], &flags);
            for spoken in ["1.1", "2", "3"] {
                let kind = if spoken == "3" { "h3" } else { "https" };
                let at = (spoken, station.address(kind));
                for name in ["localhost", "127.0.0.1"] {
                    let (is_taken, said) = fetch(&home, at, name);
                    assert!(
                        is_taken,
                        "{command} {names:?} over {spoken}: {name}: {said}"
                    );
                }
                for name in ["wind.test", "10.9.8.7", "storm.test"] {
                    let (is_taken, said) = fetch(&home, at, name);
                    let told = format!("{command} {names:?} over {spoken}: {name}: {said}");
                    assert_eq!(is_taken, names.contains(&name), "{told}");
                    assert!(is_taken || said.contains("certificate"), "{told}");
                }
            }
            drop(station);
        }
    }
}

#[test]
fn station_whose_port_is_taken_leaves_the_certificate_of_the_one_that_has_it() {
    let _seat = seat();
    let home = TempDir::new().expect("a temporary folder");
    let upstream = Serving::start(&["h1"], &[]);
    let to = format!("http://{}", upstream.address("h1"));
    let station = served::Serving::start(home.path(), &["--https", "0"]);
    let address = station.address("https");
    let port = address.port().to_string();
    for command in [&["serve"][..], &["proxy", "--to", &to]] {
        let output = squall(home.path())
            .args(command)
            .args(["--https", &port, "--write-cert", served::CERTIFICATE])
            .output()
            .expect("squall starts");
        assert_eq!(output.status.code(), Some(1), "{}", stderr(&output));
        let (is_taken, said) = fetch(&home, ("2", address), "localhost");
        assert!(is_taken, "{command:?}: {said}");
    }
}
