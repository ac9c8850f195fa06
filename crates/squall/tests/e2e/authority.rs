//! A request whose authority is not that of the URL (`-H 'host: ...'`, `Host` in a list of targets): what the server gets
//! over each version of HTTP. A proxy shows it: the `host` that it sends to an upstream over HTTP/1.1 is the request's
//! `:authority`.
//!
//! `cases::targets` shows which fields of targets are sent at all.

use std::fs;
use std::io::Write;
use std::process::Output;
use std::time::Duration;

use tempfile::TempDir;

use crate::proxies::{KINDS, fetch, proxy, upstream, url, version};
use crate::support::{run_squall, seat, stderr};

const AUTHORITY: &str = "vhost.example:99";
const ANSWER: &[u8] = b"HTTP/1.1 200 OK\r\ncontent-length: 2\r\nconnection: close\r\n\r\nok";

#[test]
fn host_field_replaces_the_authority_over_every_protocol() {
    let _seat = seat();
    let home = TempDir::new().expect("a temporary folder");
    let (address, heard) = upstream(|mut stream, _| {
        let _ = stream.write_all(ANSWER);
    });
    let proxy = proxy(&KINDS, "h1", address, &[]);
    let check = |kind: &str, output: &Output| {
        assert!(output.status.success(), "{kind}: {}", stderr(output));
        let request = heard.recv_timeout(Duration::from_secs(5));
        let request = request.expect("it has arrived");
        let head = String::from_utf8_lossy(&request);
        assert!(
            head.contains(&format!("\r\nhost: {AUTHORITY}\r\n")),
            "{kind}: {head}"
        );
        assert_eq!(head.matches("\r\nhost:").count(), 1, "{kind}: {head}");
    };
    for kind in KINDS {
        let field = format!("host: {AUTHORITY}");
        let output = fetch(&home, &proxy, kind, "/", &["-H", &field]);
        check(kind, &output);

        let url = url(kind, proxy.address(kind));
        let targets = format!("GET {url}/\nHost: {AUTHORITY}\n");
        fs::write(home.path().join("targets.txt"), targets).expect("it is written");
        let load = ["load", "-k", "-n", "1", "--http", version(kind)];
        let arguments = [&load[..], &["--targets", "targets.txt"]].concat();
        check(kind, &run_squall(home.path(), arguments));
    }
}
