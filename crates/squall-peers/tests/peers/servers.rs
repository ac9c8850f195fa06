//! Each driver as a server, with every protocol that it claims to speak.

use squall_base::Bytes;
use squall_base::plan::Protocol;
use squall_peers::{Body, Driver, InstalledProgram};
use tempfile::TempDir;

use crate::asking::{ask, version};
use crate::support::{have, installed, known, nginx_mainline, seat, server, start};

/// More than an initial HTTP/2 window and any program's first buffer, so that a response that comes too early would cut
/// the upload off.
const UPLOAD: usize = 3_000_000;

fn check(driver: &dyn Driver, found: &InstalledProgram) {
    let mut spoken = 0;
    for front in Protocol::ALL {
        if driver.check_protocols(front, None).is_err() {
            continue;
        }
        if front == Protocol::H3 && !have(&["pycurl"]) {
            continue;
        }
        let folder = TempDir::new().expect("what the test itself makes");
        let order = server(folder.path(), driver.name(), front, 1_500);
        let address = order.listen;
        let _running = start((driver, found), order);
        let upload = vec![b'u'; UPLOAD];
        for sent in [None, Some(&upload[..100]), Some(&upload[..])] {
            let what = format!(
                "{} {front}, {:?} bytes sent",
                driver.name(),
                sent.map(<[u8]>::len)
            );
            let got = ask(folder.path(), front, address, "/answer", sent);
            assert_eq!(
                (got.status, got.version.as_str()),
                (200, version(front)),
                "{what}"
            );
            assert!(
                got.body == vec![b'x'; 1_500],
                "{what}: {} bytes",
                got.body.len()
            );
        }
        spoken += 1;
    }
    assert!(spoken > 0);
}

fn check_by_name(name: &str) {
    if !have(&["curl", "openssl"]) {
        return;
    }
    if let Some((driver, found)) = known(name) {
        check(driver, &found);
    }
}

#[test]
fn nginx_answers_over_each_of_its_protocols() {
    let _seat = seat();
    check_by_name("nginx");
}

#[test]
fn nginx_of_pypi_answers_over_each_of_its_protocols() {
    let _seat = seat();
    if !have(&["curl", "openssl"]) {
        return;
    }
    if let Some((driver, found)) = nginx_mainline() {
        check(driver, &found);
    }
}

#[test]
fn haproxy_answers_over_each_of_its_protocols() {
    let _seat = seat();
    check_by_name("haproxy");
}

#[test]
fn envoy_answers_over_each_of_its_protocols() {
    let _seat = seat();
    check_by_name("envoy");
}

#[test]
fn nghttpd_answers_over_each_of_its_protocols() {
    let _seat = seat();
    check_by_name("nghttpd");
}

#[test]
fn caddy_answers_over_each_of_its_protocols() {
    let _seat = seat();
    check_by_name("caddy");
}

/// Large bodies, bodies from a file, and statuses other than 200.
#[test]
fn responses_have_the_ordered_status_and_body() {
    let _seat = seat();
    if !have(&["curl", "openssl"]) {
        return;
    }
    for (name, driver, found) in installed(["nginx", "haproxy", "envoy", "caddy"]) {
        let folder = TempDir::new().unwrap();
        // The file is not text, and has braces that templates could take for their own.
        let file: Vec<u8> = (0..200_000_u32)
            .flat_map(u32::to_le_bytes)
            .chain(*b"{http.request.uri}")
            .collect();
        std::fs::write(folder.path().join("file"), &file).unwrap();
        let large = Body::Size(Bytes::new(1_000_000));
        for (status, body, expected) in [
            (503, Body::Size(Bytes::new(10)), vec![b'x'; 10]),
            (200, large, vec![b'x'; 1_000_000]),
            (201, Body::File(folder.path().join("file")), file),
            (200, Body::Size(Bytes::new(0)), vec![]),
        ] {
            let mut order = server(folder.path(), name, Protocol::H2c, 0);
            let answer = order.answer.as_mut().unwrap();
            (answer.status, answer.body) = (status, body.clone());
            let address = order.listen;
            let _running = start((driver, &found), order);
            for sent in [None, Some(&b"some"[..])] {
                let got = ask(folder.path(), Protocol::H2c, address, "/any/target?q", sent);
                assert_eq!(got.status, status, "{name} {body:?} {sent:?}");
                assert!(
                    got.body == expected,
                    "{name} {body:?}: {} bytes",
                    got.body.len()
                );
            }
        }
    }
}
