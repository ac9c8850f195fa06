//! The connections that `squall proxy` has to its upstreams: opened on demand, some before the first request, or always as many.
//!
//! The laws of pools are squall-load's; here is only that the flags reach them.

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

/// How long a connection that is not opened is waited for.
const QUIET: Duration = Duration::from_millis(300);

#[test]
fn as_many_connections_as_was_said_are_there_before_the_first_request() {
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
            // They stay open as long as somebody counts them.
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
fn requests_take_turns_on_a_fixed_number_and_stay_on_one_otherwise() {
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
fn more_warm_connections_than_there_are_is_a_mistake() {
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
