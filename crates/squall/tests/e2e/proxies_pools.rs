//! The connections of `squall proxy` to its upstreams: opened on demand, some opened before the first request, or a
//! fixed number.
//!
//! The rules of connection pools are tested in squall-load; these tests only check that the flags take effect.

use std::collections::BTreeSet;
use std::fs;
use std::net::TcpListener;
use std::sync::mpsc;
use std::thread;
use std::time::Duration;

use tempfile::TempDir;

use crate::proxies::{fetch, proxy};
use crate::serving::Serving;
use crate::support::{seat, squall, stderr};

/// How long to wait before concluding that no further connection is opened.
const QUIET: Duration = Duration::from_millis(300);

#[test]
fn flags_set_the_connections_opened_before_the_first_request() {
    let _seat = seat();
    for (flags, expected) in [
        (&["--connections", "3"][..], 0),
        (&["--connections", "3", "--warm=2"], 2),
        (&["--connections", "3", "--warm"], 3),
        (&["--connections", "3", "--fixed"], 3),
        (&["--connections", "3", "--fixed", "--warm=1"], 1),
        (&["--connections", "3", "--fixed", "--warm=0"], 0),
    ] {
        let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
        let address = listener.local_addr().expect("its address");
        let (sender, accepted) = mpsc::channel();
        thread::spawn(move || {
            // Connections stay open while the receiver counts them.
            while let Ok((stream, _)) = listener.accept()
                && sender.send(stream).is_ok()
            {}
        });
        let proxy = proxy(&["h1"], "h1", address, flags);
        let mut open = Vec::new();
        while open.len() < expected {
            let stream = accepted.recv_timeout(Duration::from_secs(10));
            open.push(stream.expect("a connection before any request"));
        }
        let more = accepted.recv_timeout(QUIET);
        assert!(more.is_err(), "{flags:?} open more than {expected}");
        drop(open);
        proxy.check_ends_well();
    }
}

#[test]
fn fixed_pools_rotate_and_other_pools_reuse_one_connection() {
    let _seat = seat();
    for (flags, expected) in [
        (&["--connections", "3", "--fixed"][..], 3),
        (
            &["--connections", "3", "--fixed", "--order", "last_used"],
            1,
        ),
        (&["--connections", "3", "--warm"], 1),
    ] {
        let home = TempDir::new().expect("a temporary folder");
        let log = home.path().join("log").display().to_string();
        let server = Serving::start(&["h1"], &["--access-log", &log]);
        let proxy = proxy(&["h1"], "h1", server.address("h1"), flags);
        for _ in 0..6 {
            let output = fetch(&home, &proxy, "h1", "/", &[]);
            assert!(output.status.success(), "{}", stderr(&output));
        }
        proxy.check_ends_well();
        server.check_ends_well();
        let log = fs::read_to_string(log).expect("the access log");
        let ports: BTreeSet<&str> = log
            .lines()
            .filter(|line| line.contains("\"GET /"))
            .filter_map(|line| line.split_whitespace().nth(1))
            .collect();
        assert_eq!(ports.len(), expected, "{flags:?}: {log}");
    }
}

#[test]
fn impossible_pool_flags_are_usage_errors() {
    let home = TempDir::new().expect("a temporary folder");
    let to = ["proxy", "--h1", "0", "--to", "http://127.0.0.1:9"];
    for (flags, says) in [
        (
            &["--connections", "3", "--warm=4"][..],
            "at most 3 (--connections)",
        ),
        (
            &["--warm=some"],
            "expected a number of connections, or `all`",
        ),
        (&["--fixed"], "--connections"),
    ] {
        let output = squall(home.path()).args(to).args(flags).output();
        let output = output.expect("squall starts");
        assert_eq!(output.status.code(), Some(2), "{flags:?}");
        let said = stderr(&output);
        assert!(said.contains(says), "{flags:?}: no {says:?} in {said}");
    }
}
