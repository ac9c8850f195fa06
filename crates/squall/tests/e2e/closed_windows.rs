//! HTTP/2 and HTTP/3 clients that never open a window for the responses they request. They must not delay other clients of
//! `squall proxy`; once they are gone, it and `squall serve` must return their memory to the kernel. squall-stations tests
//! how much memory they may take; this file tests that for HTTP/3 clients of a proxy.

use std::io::{Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::thread;
use std::time::{Duration, Instant};

use tempfile::TempDir;

use crate::hostile_quic_rules::{AUTHORITY, SCHEME, field, headers};
use crate::raw_http2::{ACK, END_HEADERS, END_STREAM, HEADERS, PING, PREFACE, SETTINGS, frame};
use crate::raw_quic::RawClient;
use crate::serving::{Serving, connect};
use crate::support::{run_squall, seat, stderr, stdout, wait_for};

const CONNECTIONS: usize = 50;
const REQUESTS: u32 = 100;

/// The least that these requests cost, in KiB: 1 KiB each.
const LEAST_KIB: u64 = 5_000;

/// The least that 200 connections of HTTP/3 cost, in KiB: 15 KiB each.
const LEAST_HTTP3_KIB: u64 = 3_000;

const SILENT_HTTP3_CLIENTS: usize = 20;

/// What responses that wait for such clients cost a proxy, in KiB. It reads each of its 256 connections to the upstream until
/// 64 KiB wait, prepares another 64 KiB for each stream, and keeps the requests. Whole responses are 10 MiB each.
const LEAST_WAITING_KIB: u64 = 256 * 64 / 2;
const MOST_WAITING_KIB: u64 = 128 * 1024;

/// A client that has sent this many requests for this target; all of them have arrived.
fn client(address: SocketAddr, target: &str, requests: u32) -> TcpStream {
    let mut bytes = PREFACE.to_vec();
    // SETTINGS_INITIAL_WINDOW_SIZE 0.
    bytes.extend(frame(SETTINGS, 0, 0, &[0, 4, 0, 0, 0, 0]));
    // :method GET, :scheme http, :path as a literal, :authority x (RFC 7541, appendix A).
    let len = u8::try_from(target.len()).expect("a short target");
    let head = [
        &[0x82, 0x86, 0x04, len],
        target.as_bytes(),
        &[0x01, 1, b'x'],
    ]
    .concat();
    for number in 0..requests {
        let flags = END_STREAM | END_HEADERS;
        bytes.extend(frame(HEADERS, flags, 2 * number + 1, &head));
    }
    // PING, which is answered once everything before it has been read.
    bytes.extend(frame(PING, 0, 0, b"squalls!"));
    let answer = frame(PING, ACK, 0, b"squalls!");
    let mut stream = connect(address);
    stream.write_all(&bytes).expect("it reads");
    let mut received = Vec::<u8>::new();
    let mut piece = [0; 4_096];
    while !(received.windows(answer.len())).any(|bytes| bytes == answer) {
        let len = stream.read(&mut piece).expect("an answer");
        assert!(len > 0, "it closes");
        received.extend(&piece[..len]);
    }
    stream
}

fn check(serving: Serving) {
    let before_kib = serving.resident_kib();
    let address = serving.address("h2c");
    let clients: Vec<TcpStream> = (0..CONNECTIONS)
        .map(|_| client(address, "/?size=64KiB", REQUESTS))
        .collect();
    let cost_kib = serving.resident_kib().saturating_sub(before_kib);
    assert!(cost_kib > LEAST_KIB, "{cost_kib} KiB");
    drop(clients);
    check_returns(&serving, before_kib, cost_kib);
    serving.check_ends_well();
}

/// Checks the memory after HTTP/3 clients with a connection each, all open at the same time, that close cleanly.
fn check_http3(serving: Serving) {
    let home = TempDir::new().expect("a temporary folder");
    let url = format!("https://{}/", serving.address("h3"));
    let load = |requests, connections| {
        let load = ["load", "-k", "-q", "--http", "3", "-t", "1"];
        let sizes = ["-n", requests, "-c", connections, "--timeout", "10s", &url];
        let output = run_squall(home.path(), [&load[..], &sizes].concat());
        // On a busy machine, a few handshakes of many at a time fail: their datagrams do not fit into the socket's buffer.
        let said = stdout(&output) + &stderr(&output);
        assert!(matches!(output.status.code(), Some(0 | 1)), "{said}");
    };
    // The first connections also cause one-time costs, such as pages of the program, which are not measured.
    load("20", "10");
    let before_kib = serving.resident_kib();
    // Enough connections that the allocator's caches, some 4 MiB, are a small part.
    load("1600", "800");
    let cost_kib = serving.peak_kib().saturating_sub(before_kib);
    assert!(cost_kib > LEAST_HTTP3_KIB, "{cost_kib} KiB");
    check_returns(&serving, before_kib, cost_kib);
    serving.check_ends_well();
}

/// Checks the memory that HTTP/3 clients with windows of zero cost, each with as many requests as the proxy allows.
fn check_silent_http3(proxy: Serving) {
    const GET: &[u8] = &[0xd1];
    const NO_ERROR: u64 = 0x100;
    let target = field(":path", "/?size=10MiB");
    let head = headers(&[GET, SCHEME, &target, AUTHORITY]);
    let before_kib = proxy.resident_kib();
    let mut clients: Vec<RawClient> = (0..SILENT_HTTP3_CLIENTS)
        .map(|_| {
            let mut client = RawClient::connect(proxy.address("h3"), 0);
            for number in 0..client.conn.peer_streams_left_bidi() {
                client.send_all(4 * number, &head, true);
            }
            client
        })
        .collect();
    let cost_kib = || proxy.peak_kib().saturating_sub(before_kib);
    wait_for("responses that wait", || {
        clients.iter_mut().for_each(RawClient::turn);
        (cost_kib() > LEAST_WAITING_KIB).then_some(())
    });
    let began = Instant::now();
    while began.elapsed() < Duration::from_millis(500) {
        clients.iter_mut().for_each(RawClient::turn);
    }
    let cost_kib = cost_kib();
    assert!(cost_kib < MOST_WAITING_KIB, "{cost_kib} KiB");
    for client in &mut clients {
        let _ = client.conn.close(true, NO_ERROR, b"");
        client.flush();
    }
    check_returns(&proxy, before_kib, cost_kib);
    proxy.check_ends_well();
}

/// Waits until the server has given back half of what its clients cost; usually that takes 3 s.
fn check_returns(serving: &Serving, before_kib: u64, cost_kib: u64) {
    wait_for(&format!("the return of half of {cost_kib} KiB"), || {
        let rest_kib = serving.resident_kib().saturating_sub(before_kib);
        (rest_kib < cost_kib / 2).then_some(())
    });
}

#[test]
fn memory_of_clients_that_are_gone_returns_to_the_kernel() {
    let _seat = seat();
    let upstream = Serving::start(&["h1"], &[]);
    let to = format!("http://{}", upstream.address("h1"));
    thread::scope(|scope| {
        scope.spawn(|| check(Serving::start(&["h2c"], &[])));
        scope.spawn(|| check(Serving::of("proxy", &["h2c"], &["--to", &to])));
        // On a busy machine, datagrams that close QUIC connections may be lost, so the server must notice that these are
        // idle.
        let soon = ["--idle-timeout", "5s"];
        scope.spawn(move || check_http3(Serving::start(&["h3"], &soon)));
        // Connections to the upstream stay open, so there are only few.
        let few = [&soon[..], &["--to", &to, "--connections", "4"]].concat();
        scope.spawn(move || check_http3(Serving::of("proxy", &["h3"], &few)));
        let silent = ["--idle-timeout", "10s", "--to", &to];
        scope.spawn(move || check_silent_http3(Serving::of("proxy", &["h3"], &silent)));
    });
}

/// The proxy reads responses of these lengths to their end, although it then keeps more than it usually reads ahead.
#[test]
fn client_that_reads_nothing_does_not_delay_others_on_its_upstream_connection() {
    let _seat = seat();
    let upstream = Serving::start(&["h1"], &[]);
    let to = format!("http://{}", upstream.address("h1"));
    let proxy = Serving::of("proxy", &["h1", "h2c"], &["--to", &to]);
    for size in ["70KiB", "80KiB", "120KiB"] {
        let _slow = client(proxy.address("h2c"), &format!("/?size={size}"), 1);
        // The response reaches the proxy.
        thread::sleep(Duration::from_millis(200));
        proxy.check_answers();
        proxy.check_answers();
    }
    proxy.check_ends_well();
}
