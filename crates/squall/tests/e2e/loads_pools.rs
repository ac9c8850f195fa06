//! How many connections a load opens, when it opens them, and which of them a request gets: `-c`, `--on-demand`,
//! `--warm`, `--order`, `requests_per_connection`, with one request at a time and with multiplexed connections over TCP
//! and QUIC; and `--order` of a proxy.
//!
//! squall-load tests pools with every order of events; connections of scripts and pages are in `loads`.

use std::collections::BTreeSet;
use std::fs;
use std::path::Path;

use squall_base::plan::{PoolOrder, Protocol};
use squall_base::record::RequestRecord;
use squall_record::read_requests;
use tempfile::TempDir;

use crate::proxies;
use crate::served::{Serving, ask};
use crate::support::{seat, stderr, stdout};

/// One listener per HTTP version.
const LISTENERS: [&str; 6] = ["--h1", "0", "--h2c", "0", "--h3", "0"];
const PROTOCOLS: [Protocol; 3] = [Protocol::H1, Protocol::H2c, Protocol::H3];

/// The connections that a load used.
struct Used {
    /// TCP or QUIC connections, as reported at the end.
    opened: u32,
    /// How many of the requests had to open a connection.
    opened_by_requests: usize,
    /// The connection of each request, in request order.
    connections: Vec<u32>,
}

impl Used {
    fn distinct(&self) -> usize {
        self.connections.iter().collect::<BTreeSet<_>>().len()
    }
}

fn load(home: &Path, protocol: Protocol, arguments: &[&str], url: &str) -> Used {
    let arguments = [arguments, &["--output", "requests.parquet"]].concat();
    let output = ask(home, "load", protocol, &arguments, url);
    let shown = stdout(&output);
    assert!(output.status.success(), "{shown}{}", stderr(&output));
    let mut rows = read_requests(home.join("requests.parquet")).expect("the requests");
    rows.sort_by_key(|row| row.request);
    let said = shown.lines().find_map(|line| {
        let (count, kind) = line.strip_prefix("connections ")?.split_once(' ')?;
        let is_quic = protocol == Protocol::H3;
        (kind == if is_quic { "QUIC" } else { "TCP" }).then(|| count.parse().ok())?
    });
    Used {
        opened: said.unwrap_or_else(|| panic!("no count of connections in {shown}")),
        opened_by_requests: rows.iter().filter(|row| row.opened_connection).count(),
        connections: (rows.iter())
            .map(|row| row.connection.expect("it was sent"))
            .collect(),
    }
}

/// One request at a time, so nothing depends on speed.
#[test]
fn pool_orders_pick_connections_as_they_do_in_recipes() {
    let _seat = seat();
    let home = TempDir::new().expect("a temporary folder");
    let server = Serving::start(home.path(), &LISTENERS);
    for protocol in PROTOCOLS {
        let url = server.url(protocol);
        let alone = ["--users", "1", "-n", "12", "-c", "3"];
        for order in PoolOrder::ALL {
            let arguments = [&alone[..], &["--order", order.name()]].concat();
            let used = load(home.path(), protocol, &arguments, &url);
            let told = format!("{order} over {protocol:?}: {:?}", used.connections);
            assert_eq!((used.opened, used.opened_by_requests), (3, 0), "{told}");
            let (first_three, rest) = used.connections.split_at(3);
            match order {
                // Among equal connections, the one with the lowest number.
                PoolOrder::LastUsed | PoolOrder::LeastBusy => {
                    assert_eq!(used.distinct(), 1, "{told}");
                }
                PoolOrder::FirstUsed | PoolOrder::Turns => {
                    assert_eq!(used.distinct(), 3, "{told}");
                    assert!(rest.chunks(3).all(|three| three == first_three), "{told}");
                }
                PoolOrder::Random => {
                    assert!(used.distinct() > 1, "{told}");
                    let is_turns = rest.chunks(3).all(|three| three == first_three);
                    assert!(!is_turns, "{told}");
                }
            }
        }
        let usual = load(home.path(), protocol, &alone, &url);
        assert_eq!(usual.connections, [0; 12], "the least busy one by default");
    }
    let output = ask(
        home.path(),
        "load",
        Protocol::H1,
        &["--order", "lifo"],
        "http://a/",
    );
    let said = stderr(&output);
    assert_eq!(output.status.code(), Some(2), "{said}");
    assert!(
        said.contains("last_used, first_used, turns, least_busy, random"),
        "{said}"
    );
}

#[test]
fn on_demand_opens_only_the_connections_needed() {
    let _seat = seat();
    let home = TempDir::new().expect("a temporary folder");
    let server = Serving::start(home.path(), &LISTENERS);
    // With `-m 2` a connection of HTTP/2 or HTTP/3 carries two requests at a time, a connection of HTTP/1.1 only one.
    for protocol in PROTOCOLS {
        let (streams, at_once) = match protocol {
            Protocol::H1 => ("1", 3),
            _ => ("2", 6),
        };
        let url = server.url(protocol);
        let on_demand = ["--on-demand", "-c", "8", "-m", streams, "-n", "24"];
        let with = |more: &[&str], query: &str| {
            let arguments = [&on_demand[..], more].concat();
            load(home.path(), protocol, &arguments, &(url.clone() + query))
        };
        let alone = with(&["--users", "1"], "/");
        assert_eq!(
            (alone.opened, alone.opened_by_requests),
            (1, 1),
            "{protocol:?}"
        );

        // Each of the first requests finds no free connection and opens one, up to eight.
        let users = at_once.to_string();
        let some = with(&["--users", &users], "/?delay=100ms");
        assert!(
            (3..=at_once).contains(&some.opened),
            "{protocol:?}: {}",
            some.opened
        );
        assert_eq!(
            some.opened as usize, some.opened_by_requests,
            "{protocol:?}"
        );
        let many = with(&["--users", "20"], "/?delay=20ms");
        assert_eq!(
            (many.opened, many.opened_by_requests),
            (8, 8),
            "{protocol:?}"
        );

        // Two exist before the load, and one request at a time needs no more.
        let warm = with(&["--users", "1", "--warm=2"], "/");
        assert_eq!(
            (warm.opened, warm.opened_by_requests),
            (2, 0),
            "{protocol:?}"
        );
    }
    // --on-demand requires a maximum.
    let output = ask(
        home.path(),
        "load",
        Protocol::H1,
        &["--on-demand"],
        "http://a/",
    );
    assert_eq!(output.status.code(), Some(2));
    assert!(
        stderr(&output).contains("--connections"),
        "{}",
        stderr(&output)
    );
}

#[test]
fn flags_set_the_connections_opened_before_the_load() {
    let _seat = seat();
    let home = TempDir::new().expect("a temporary folder");
    let server = Serving::start(home.path(), &LISTENERS);
    for protocol in PROTOCOLS {
        let url = server.url(protocol);
        for (flags, by_requests) in [
            (&[][..], 0),
            (&["--warm"][..], 0),
            (&["--warm=5", "-t", "2"], 1),
            (&["--warm=1", "-t", "2"], 5),
            (&["--warm=0"], 6),
            (&["--cold"], 6),
        ] {
            let arguments = [&["-c", "6", "-n", "60"][..], flags].concat();
            let used = load(home.path(), protocol, &arguments, &url);
            let counts = (used.opened, used.opened_by_requests);
            assert_eq!(counts, (6, by_requests), "{flags:?} over {protocol:?}");
        }
    }
    let arguments = ["-c", "6", "--warm=7"];
    let output = ask(home.path(), "load", Protocol::H1, &arguments, "http://a/");
    let said = stderr(&output);
    assert_eq!(output.status.code(), Some(2), "{said}");
    assert!(
        said.contains("--warm=7") && said.contains("at most 6"),
        "{said}"
    );
}

/// `requests_per_connection` of a client: connections are replaced, and there are never more than `-c`.
#[test]
fn connections_end_after_the_configured_number_of_requests() {
    let _seat = seat();
    let home = TempDir::new().expect("a temporary folder");
    let server = Serving::start(home.path(), &LISTENERS);
    for (protocol, table) in PROTOCOLS.into_iter().zip(["http1", "http2", "http3"]) {
        let url = server.url(protocol);
        let once = format!("{table}.requests_per_connection=1");
        let five_times = format!("{table}.requests_per_connection=5");
        for streams in ["1", "3"] {
            let arguments = [
                "-n",
                "40",
                "-c",
                "4",
                "-m",
                streams,
                "--set",
                once.as_str(),
                "--json",
                "load.json",
            ];
            let used = load(home.path(), protocol, &arguments, &url);
            let counts = (used.opened, used.opened_by_requests, used.distinct());
            assert_eq!(counts, (40, 36, 40), "-m {streams} over {protocol:?}");
            let rows = read_requests(home.path().join("requests.parquet")).expect("the requests");
            for row in &rows {
                let at = row.slot.expect("it got a connection");
                let is_open = |row: &&RequestRecord| row.slot <= Some(at) && at < row.end;
                let open = rows.iter().filter(is_open).count();
                assert!(open <= 4, "{open} at once over {protocol:?}");
            }
            let json = fs::read_to_string(home.path().join("load.json")).expect("its figures");
            let handshakes = format!("\"{protocol}\": 40");
            assert!(json.contains(&handshakes), "{json}");
        }
        let arguments = ["-n", "10", "-c", "1", "--set", five_times.as_str()];
        let used = load(home.path(), protocol, &arguments, &url);
        assert_eq!((used.opened, used.distinct()), (2, 2), "{protocol:?}");
        let (first, second) = used.connections.split_at(5);
        assert!(first.iter().all(|id| *id == first[0]), "{first:?}");
        assert!(second.iter().all(|id| *id == second[0]), "{second:?}");
    }
}

/// The connections that a proxy uses, from its upstream's access log.
#[test]
fn proxy_uses_its_connections_in_the_configured_order() {
    let _seat = seat();
    let home = TempDir::new().expect("a temporary folder");
    for (flags, expected) in [
        (&[][..], 1),
        (&["--order", "last_used"][..], 1),
        (&["--order", "turns"], 3),
        (&["--order", "first_used"], 3),
    ] {
        let log = home.path().join("access.log");
        let server = Serving::start(
            home.path(),
            &["--h1", "0", "--access-log", log.to_str().expect("UTF-8")],
        );
        let proxy = proxies::proxy(&["h1"], "h1", server.address("h1"), flags);
        let url = proxies::url("h1", proxy.address("h1"));
        // Three concurrent requests, so that there are three connections; then one request at a time.
        let held = url.clone() + "/held?delay=500ms";
        let three = load(home.path(), Protocol::H1, &["-c", "3", "-n", "3"], &held);
        assert_eq!(three.distinct(), 3);
        let single = ["--users", "1", "-c", "1", "-n", "9"];
        load(home.path(), Protocol::H1, &single, &(url + "/single"));
        proxy.check_ends_well();
        let (status, said) = server.end();
        assert!(status.success(), "{said}");
        let written = fs::read_to_string(&log).expect("the access log");
        let clients = |target: &str| {
            let lines = written.lines().filter(|line| line.contains(target));
            lines
                .filter_map(|line| line.split(' ').nth(1))
                .collect::<BTreeSet<&str>>()
                .len()
        };
        assert_eq!(
            (clients("/held"), clients("/single")),
            (3, expected),
            "{flags:?}: {written}"
        );
        fs::remove_file(&log).expect("the log is there");
    }
}
