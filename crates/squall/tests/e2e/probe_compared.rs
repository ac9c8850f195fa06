//! What `squall probe` compares: versions over several rounds, two endpoints side by side, and versions over a range of
//! delays.
//!
//! `probe_outputs` has the other outputs of sweeps and of two endpoints.

use std::io::{self, Read, Write};
use std::net::{Shutdown, SocketAddr, TcpStream};
use std::process::Stdio;
use std::sync::{Arc, Mutex, PoisonError};
use std::thread;

use serde_json::Value;

use crate::probe::{TCP, WIDE, faults, home, joined, probe};
use crate::served::Serving;
use crate::serving::Serving as Proxying;
use crate::stand_ins::serve;
use crate::support::{alone_if_it_fails, seat, squall, stdout, stdout_json};

/// The versions of connections, in the order in which they began to speak.
type Order = Mutex<Vec<&'static str>>;

/// One port for both versions in cleartext: passes each connection on to the server that speaks its version.
fn one_port(http1: SocketAddr, http2: SocketAddr) -> (SocketAddr, Arc<Order>) {
    let order: Arc<Order> = Arc::default();
    let of_port = Arc::clone(&order);
    let address = serve(move |stream| pass_on(stream, &of_port, http1, http2));
    (address, order)
}

fn pass_on(
    mut client: TcpStream,
    order: &Order,
    http1: SocketAddr,
    http2: SocketAddr,
) -> io::Result<()> {
    let mut begin = [0; 3];
    client.read_exact(&mut begin)?;
    // The preface of HTTP/2 (RFC 9113, section 3.4).
    let (version, to) = if begin == *b"PRI" {
        ("HTTP/2", http2)
    } else {
        ("HTTP/1.1", http1)
    };
    let mut turns = order.lock().unwrap_or_else(PoisonError::into_inner);
    turns.push(version);
    drop(turns);
    let mut server = TcpStream::connect(to)?;
    client.set_nodelay(true)?;
    server.set_nodelay(true)?;
    server.write_all(&begin)?;
    let (mut from, mut up) = (client.try_clone()?, server.try_clone()?);
    thread::spawn(move || {
        let _ = io::copy(&mut from, &mut up);
        let _ = up.shutdown(Shutdown::Write);
    });
    io::copy(&mut server, &mut client)?;
    client.shutdown(Shutdown::Write)
}

/// The number of rates in a list of a version's facts.
fn count(facts: &Value, list: &[&str]) -> usize {
    let value = list.iter().fold(facts, |value, name| &value[*name]);
    value.as_array().expect("a list").len()
}

#[test]
fn versions_take_turns_in_each_round_and_have_a_rate_for_each() {
    const ROUNDS: usize = 3;
    let _seat = seat();
    let home = home();
    let listeners = joined(&[&["--h1", "0", "--h2c", "0", "--sink"], &WIDE]);
    let server = Serving::start(home.path(), &listeners);
    let (address, order) = one_port(server.address("h1"), server.address("h2c"));
    let url = format!("http://{address}/?size=200kB");
    let output = squall(home.path())
        .args(["probe", "--json", "--rounds", "3", "--idle", "0s"])
        .args(TCP)
        .args(["--upload", "100kB", url.as_str()])
        .stdin(Stdio::null())
        .output()
        .expect("squall starts");
    let result = stdout_json(&output);
    let versions = &result["endpoint"]["versions"];
    for (place, name) in ["HTTP/1.1", "HTTP/2"].into_iter().enumerate() {
        let facts = &versions[place];
        assert_eq!(facts["version"], name, "{versions}");
        assert_eq!(
            count(facts, &["download", "bytes_per_s"]),
            ROUNDS,
            "{facts}"
        );
        assert_eq!(count(facts, &["uploads"]), ROUNDS, "{facts}");
    }
    let six = count(&versions[0], &["download_six", "bytes_per_s"]);
    assert_eq!(six, ROUNDS, "{versions}");
    let turns = order.lock().unwrap_or_else(PoisonError::into_inner);
    let mut turns = turns.clone();
    turns.dedup();
    // The first requests, and then each round.
    let expected = ["HTTP/1.1", "HTTP/2"].repeat(1 + ROUNDS);
    assert!(turns.starts_with(&expected), "{turns:?}");
}

/// The cells of a row of the table of two endpoints, which comes last.
fn cells<'a>(said: &'a str, name: &str) -> Vec<&'a str> {
    let mut lines = said.lines().rev();
    let row = lines.find_map(|line| line.trim_start().strip_prefix(name));
    let row = row.unwrap_or_else(|| panic!("no {name}: {said}"));
    row.split_whitespace().collect()
}

/// Endpoint A is `squall proxy` in front of B, with the behaviour of AWS's load balancer.
#[test]
fn endpoint_behind_a_load_balancer_differs_from_the_server_itself() {
    alone_if_it_fails(seat(), || {
        let home = home();
        let listeners = joined(&[&["--h1", "0", "--h2c", "0", "--sink"], &WIDE]);
        let server = Serving::start(home.path(), &listeners);
        let to = format!("http://{}", server.address("h1"));
        let proxy = Proxying::of("proxy", &["h2c"], &["--like", "alb", "--to", &to]);
        let balanced = format!("http://{}/", proxy.address("h2c"));
        let direct = format!("http://{}/", server.address("h2c"));
        let asks = [
            "--http",
            "2",
            "--upload",
            "1MB",
            balanced.as_str(),
            direct.as_str(),
        ];
        let output = probe(&home, &joined(&[&["--json"], &asks]));
        let result = stdout_json(&output);
        let (a, b) = (&result[0], &result[1]);
        assert!(faults(a).contains(&"stream_window"), "{a}");
        assert_eq!(faults(b), [""; 0], "{b}");
        let window = |of: &Value| of["endpoint"]["upload_windows"]["stream_bytes"].as_u64();
        assert_eq!((window(a), window(b)), (Some(65_535), Some(16 << 20)));
        let said = stdout(&probe(&home, &asks));
        let windows = cells(&said, "stream window");
        assert_eq!(windows.len(), 2, "{said}");
        // The proxy returns as much for a short frame as for a long one, so its window may grow beyond its initial size.
        let largest: u64 = windows[0].replace(',', "").parse().expect("a number");
        assert!((65_535..1 << 20).contains(&largest), "{said}");
        assert_eq!(windows[1], "16,777,216", "{said}");
        let found = cells(&said, "faults");
        assert_eq!(found.len(), 2, "{said}");
        assert!(found[0] != "0" && found[1] == "0", "{said}");
        let uploads = cells(&said, "HTTP/2 upload");
        let units = uploads.iter().filter(|word| **word == "Mbit/s");
        assert_eq!(units.count(), 2, "{said}");
    });
}

#[test]
fn sweep_over_two_versions_says_where_one_is_ahead_or_that_none_is() {
    let _seat = seat();
    let home = home();
    let server = Serving::start(home.path(), &["--https", "0"]);
    let port = server.address("https").port();
    let url = format!("https://localhost:{port}/?size=200kB");
    let sweep = ["--behind", "delay 1..5ms", "--points", "2"];
    let asks = ["--json", "-k", url.as_str()];
    let output = probe(&home, &joined(&[&sweep, &TCP, &asks]));
    let result = stdout_json(&output);
    let said = result["crossover"].as_str().expect("a sentence");
    let parts: Vec<&str> = said.split("; ").collect();
    let [downloads, first_byte] = parts.as_slice() else {
        panic!("downloads and the first byte: {said}");
    };
    assert!(downloads.starts_with("Downloads: "), "{said}");
    assert!(first_byte.starts_with("first byte: "), "{said}");
    for part in parts {
        let has_leader = part.contains("HTTP/1.1 is fastest") || part.contains("HTTP/2 is fastest");
        let has_none = part.contains("no version is ahead by more than 10 % at any delay");
        assert!(has_leader || has_none, "{said}");
    }
}
