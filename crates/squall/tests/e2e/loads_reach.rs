//! Which address of a name `squall load` and `squall fetch` connect to.
//!
//! `localhost` gets two addresses in a private mount namespace of the command, which requires root.

use std::fs;
use std::path::Path;
use std::process::{Command, Output};

use squall_base::plan::Protocol;
use tempfile::TempDir;

use crate::served::{CERTIFICATE, EVERY_PROTOCOL, Serving, speaking};
use crate::support::{have, is_root, seat, stderr, stdout};

/// Runs squall where `localhost` resolves to ::1 and 127.0.0.1, in this order.
fn with_two_addresses(home: &Path, arguments: &[&str]) -> Output {
    fs::write(home.join("hosts"), "::1 localhost\n127.0.0.1 localhost\n").expect("a file");
    Command::new("unshare")
        .args(["--mount", "sh", "-c"])
        .arg("mount --bind hosts /etc/hosts && exec \"$0\" \"$@\"")
        .arg(env!("CARGO_BIN_EXE_squall"))
        .args(arguments)
        .current_dir(home)
        .env("NO_COLOR", "1")
        .output()
        .expect("unshare starts")
}

fn can_run() -> bool {
    is_root() && have(&["unshare", "mount"])
}

#[test]
fn next_address_is_used_if_the_first_refuses() {
    if !can_run() {
        return;
    }
    let _seat = seat();
    let home = TempDir::new().expect("a temporary folder");
    let server = Serving::start(home.path(), &EVERY_PROTOCOL);
    for protocol in Protocol::ALL {
        let address = server.address(protocol.name());
        let port = address.port();
        let url = server.url(protocol).replace("127.0.0.1", "localhost");
        for command in [&["load", "-n", "3"][..], &["fetch"]] {
            let arguments = [command, &speaking(protocol), &[&url]].concat();
            let output = with_two_addresses(home.path(), &arguments);
            assert!(output.status.success(), "{protocol}: {}", stderr(&output));
            let said = format!(
                "localhost:{port} has 2 addresses: [::1]:{port} does not accept (Connection refused (os error 111)), \
                 {address} is asked\n"
            );
            assert!(stderr(&output).contains(&said), "{}", stderr(&output));
            if command[0] == "load" {
                assert!(stdout(&output).contains(&format!("\nasked {address}\n")));
            }
        }
    }
}

#[test]
fn address_family_can_be_selected() {
    if !can_run() {
        return;
    }
    let _seat = seat();
    let home = TempDir::new().expect("a temporary folder");
    let server = Serving::start(home.path(), &["--h1", "0", "--h1", "[::1]:0"]);
    let url = server.url(Protocol::H1).replace("127.0.0.1", "localhost");
    // The IPv4 server is the only one on its port: no other address is tried, and -6 fails like any missing server.
    let output = with_two_addresses(home.path(), &["load", "-n", "3", "-4", &url]);
    assert!(output.status.success(), "{}", stderr(&output));
    assert!(
        !stderr(&output).contains("addresses"),
        "{}",
        stderr(&output)
    );
    let output = with_two_addresses(home.path(), &["load", "-n", "3", "-6", &url]);
    assert_eq!(output.status.code(), Some(1), "{}", stdout(&output));
    assert!(stdout(&output).contains("3 without a connection"));
    let output = with_two_addresses(home.path(), &["fetch", "-6", &url]);
    assert_eq!(output.status.code(), Some(1), "{}", stderr(&output));

    let by_number = server.url(Protocol::H1);
    let output = with_two_addresses(home.path(), &["load", "--ipv6", &by_number]);
    assert_eq!(output.status.code(), Some(2));
    let said = "127.0.0.1 has no address of IPv6, only 127.0.0.1";
    assert!(stderr(&output).contains(said), "{}", stderr(&output));
    let output = with_two_addresses(home.path(), &["load", "-4", "-6", &by_number]);
    assert_eq!(output.status.code(), Some(2), "{}", stderr(&output));
}

#[test]
fn if_every_address_refuses_requests_fail_on_the_first_with_a_reason() {
    if !can_run() {
        return;
    }
    let _seat = seat();
    let home = TempDir::new().expect("a temporary folder");
    let server = Serving::start(home.path(), &["--h1", "0"]);
    let port = server.address("h1").port();
    server.end();
    let url = format!("http://localhost:{port}/");
    let output = with_two_addresses(home.path(), &["load", "-n", "2", &url]);
    assert_eq!(output.status.code(), Some(1), "{}", stderr(&output));
    let (said, shown) = (stderr(&output), stdout(&output));
    assert!(said.contains("none does, [::1]:"), "{said}");
    assert!(
        shown.contains("2 without a connection: Connection refused"),
        "{shown}"
    );
    assert!(shown.contains(&format!("asked [::1]:{port}\n")), "{shown}");
}

/// Without an advertised alternative. With one, the test needs a server that advertises it, which interop's peers do.
#[test]
fn automatic_version_choice_is_explained() {
    let _seat = seat();
    let home = TempDir::new().expect("a temporary folder");
    let server = Serving::start(home.path(), &["--h1", "0", "--https", "0"]);
    let secure = format!("https://{}/", server.address("https"));
    let load = |arguments: &[&str]| {
        let always = ["load", "--cacert", CERTIFICATE, "-n", "2"];
        crate::support::squall(home.path())
            .args([&always, arguments].concat())
            .output()
            .expect("squall starts")
    };
    let output = load(&["--http", "auto", &secure]);
    assert!(output.status.success(), "{}", stderr(&output));
    let said = format!("as ALPN decides, h2 now, because {secure} told no alternative (alt-svc)\n");
    assert!(stderr(&output).contains(&said), "{}", stderr(&output));
    assert!(stdout(&output).contains("\nspoken h2 (1)\n"));

    let output = load(&["--http", "auto", &server.url(Protocol::H1)]);
    assert!(output.status.success(), "{}", stderr(&output));
    assert!(stderr(&output).contains("HTTP/1.1, because HTTP/3 is for https only"));

    let old = ["--http", "auto", "--set", "tls.max_version=1.2", &secure];
    let output = load(&old);
    assert!(output.status.success(), "{}", stderr(&output));
    assert!(
        stderr(&output).contains("because of the settings: "),
        "{}",
        stderr(&output)
    );

    let output = load(&["--http", "auto,2", &secure]);
    assert_eq!(output.status.code(), Some(2), "{}", stderr(&output));

    server.end();
    let output = load(&["--http", "auto", &secure]);
    assert_eq!(output.status.code(), Some(1), "{}", stdout(&output));
    let said = "did not answer: Connection refused";
    assert!(stderr(&output).contains(said), "{}", stderr(&output));
}
