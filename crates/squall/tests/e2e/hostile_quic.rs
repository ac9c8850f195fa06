//! Malicious HTTP/3 clients against `squall serve`: what they do is bounded in time and memory, and other clients get
//! responses meanwhile. First flights and garbage are in `hostile`, protocol violations in `hostile_quic_rules`, floods
//! of frames and aborts in `hostile_quic_bodies`, malicious servers in `hostile_servers`.

use std::thread;
use std::time::{Duration, Instant};

use quiche::Shutdown;

use crate::hostile_quic_rules::{AUTHORITY, PATH, POST, SCHEME, headers};
use crate::raw_quic::{ENDLESS_HEADERS, GET, RawClient};
use crate::serving::Serving;
use crate::support::seat;

/// The memory limit for a server, in KiB, beside the pages of its program. An idle server takes 4 MiB. The worst case is 200
/// unfinished heads of 60,000 bytes: 12 MiB.
pub(crate) const MOST_KIB: u64 = 32 * 1024;

/// The minimum duration of each attack, and the maximum until it has completed its steps.
const ATTACK: Duration = Duration::from_millis(800);
const MOST: Duration = Duration::from_secs(20);

const WINDOW: u64 = 1 << 20;

/// The number of concurrent streams that `squall serve` allows.
const STREAMS: u64 = 100;

/// The start of a HEADERS frame of 60,000 bytes, which is within the limit.
const UNFINISHED_HEADERS: &[u8] = &[0x1, 0x80, 0, 0xea, 0x60];

/// RFC 9114, section 8.1.
const NO_ERROR: u64 = 0x100;
const REQUEST_CANCELLED: u64 = 0x10c;

/// Performs one step of an attack and counts it.
pub(crate) type Attack = fn(&mut RawClient, &mut u64);

/// Two clients carry out the attack, each with at least `steps` steps unless the server closes its connection, while
/// another client sends requests. Returns for each whether the server closed it.
pub(crate) fn withstand(
    (name, steps): (&str, u64),
    serving: &Serving,
    window: u64,
    attack: Attack,
) -> [bool; 2] {
    let carry_out = || {
        let mut client = RawClient::connect(serving.address("h3"), window);
        let (began, mut done) = (Instant::now(), 0);
        while !client.is_over() && (began.elapsed() < ATTACK || done < steps) {
            assert!(began.elapsed() < MOST, "{name}: {done} steps");
            attack(&mut client, &mut done);
            client.turn();
        }
        (client.is_over(), done)
    };
    let both = thread::scope(|scope| {
        let both = [scope.spawn(carry_out), scope.spawn(carry_out)];
        thread::sleep(ATTACK / 4);
        serving.check_answers();
        thread::sleep(ATTACK / 4);
        serving.check_answers();
        both.map(|one| one.join().expect("it was carried out"))
    });
    let ended = both.map(|(ended, _)| ended);
    let done: u64 = both.iter().map(|(_, done)| done).sum();
    let peak_kib = serving.peak_kib();
    eprintln!("{name}: {done} steps, {peak_kib} KiB at most, ended {ended:?}");
    assert!(peak_kib < MOST_KIB, "{name}: {peak_kib} KiB");
    serving.check_answers();
    ended
}

/// Sends requests on the next streams, as many as the server allows, and cancels each immediately.
fn ask_and_reset(client: &mut RawClient, done: &mut u64, fin: bool) {
    while client.send(4 * *done, GET, fin) {
        for half in [Shutdown::Write, Shutdown::Read] {
            // If the request was sent with its end, the write side is closed already.
            let _ = client
                .conn
                .stream_shutdown(4 * *done, half, REQUEST_CANCELLED);
        }
        *done += 1;
    }
}

#[test]
fn server_withstands_http3_floods() {
    let _seat = seat();
    let serving = Serving::start(&["h1", "h3"], &[]);
    let to_the_end = ("endless HEADERS", u64::MAX);
    let ended = withstand(to_the_end, &serving, WINDOW, |client, done| {
        let bytes = match *done {
            0 => ENDLESS_HEADERS,
            _ => &[b'x'; 16_384],
        };
        *done += u64::from(client.send(0, bytes, false));
    });
    assert_eq!(ended, [true; 2], "a head without end");
    let unfinished = |client: &mut RawClient, done: &mut u64| {
        // Each head is sent except for its end.
        if *done == 99 {
            return;
        }
        let bytes = match *done {
            0 => UNFINISHED_HEADERS,
            _ => &[b'x'; 600],
        };
        for number in 0..STREAMS {
            client.send(4 * number, bytes, false);
        }
        *done += 1;
    };
    let ended = withstand(("unfinished HEADERS", 20), &serving, WINDOW, unfinished);
    assert_eq!(ended, [false; 2], "what may still end");
    let resets = |client: &mut RawClient, done: &mut u64| ask_and_reset(client, done, true);
    withstand(("requests and resets", 500), &serving, WINDOW, resets);
    let resets = |client: &mut RawClient, done: &mut u64| ask_and_reset(client, done, false);
    withstand(("open requests and resets", 500), &serving, WINDOW, resets);
    withstand(("no window", 20), &serving, 0, |client, done| {
        *done += u64::from(client.send(4 * *done, GET, true));
    });
    withstand(("PING", 500), &serving, WINDOW, |client, done| {
        for _ in 0..100 {
            let _ = client.conn.send_ack_eliciting();
            client.flush();
        }
        *done = client.conn.stats().sent as u64;
    });
    serving.check_ends_well();
}

/// A client that cancels responses without resetting its requests gets its streams and window back.
#[test]
fn cancelled_responses_return_their_streams_and_window() {
    const UPLOAD: &[u8] = &[0x0, 0x80, 0x10, 0, 0];
    let _seat = seat();
    let serving = Serving::start(&["h1", "h3"], &["--body", "10KB"]);
    let mut client = RawClient::connect(serving.address("h3"), WINDOW);
    for number in 0..150 {
        let stream = 4 * number;
        client.turn_until("allowed", |conn| conn.peer_streams_left_bidi() > 0);
        client.send(stream, GET, true);
        // The whole response is sent before it is stopped, and before any of it is read here.
        thread::sleep(Duration::from_millis(10));
        let _ = (client.conn).stream_shutdown(stream, Shutdown::Read, REQUEST_CANCELLED);
        client.turn();
    }
    client.turn_until("allowed", |conn| conn.peer_streams_left_bidi() > 0);
    client.send(600, GET, true);
    assert!(client.answer(600).is_some(), "no answer");
    serving.check_answers();
    serving.check_ends_well();

    // An echo is read no faster than it can be sent back, and this client's windows are zero.
    let serving = Serving::start(&["h3"], &["--echo"]);
    let mut client = RawClient::connect(serving.address("h3"), 0);
    let post = headers(&[POST, SCHEME, PATH, AUTHORITY]);
    for number in 0..150 {
        let stream = 4 * number;
        client.turn_until("allowed", |conn| conn.peer_streams_left_bidi() > 0);
        client.send_all(stream, &[&post[..], UPLOAD, &[7; 200_000]].concat(), false);
        let _ = (client.conn).stream_shutdown(stream, Shutdown::Read, REQUEST_CANCELLED);
        client.turn();
    }
    assert!(!client.is_over(), "{:?}", client.conn.peer_error());
    let end = client.send(600, &post, true);
    assert!(end, "no stream is left");
    let peak_kib = serving.peak_kib();
    assert!(peak_kib < MOST_KIB, "{peak_kib} KiB");
    serving.check_ends_well();
}

/// PINGs keep a connection from QUIC's idle timeout, but the server closes it if no body makes progress. A connection
/// with progress, however slow, stays open.
#[test]
fn pings_do_not_keep_a_stalled_connection_open() {
    const TIMEOUT: Duration = Duration::from_secs(2);
    const SLOW: Duration = Duration::from_secs(6);
    let _seat = seat();
    let serving = Serving::start(&["h1", "h3"], &["--idle-timeout", "2s", "--body", "1MiB"]);
    thread::scope(|scope| {
        scope.spawn(|| {
            let mut client = RawClient::connect(serving.address("h3"), 0);
            let began = Instant::now();
            client.send(0, GET, true);
            while !client.is_over() {
                assert!(began.elapsed() < Duration::from_secs(8), "it is held on to");
                ping(&mut client);
            }
            assert!(began.elapsed() >= TIMEOUT, "given up too soon");
            let said = client.conn.peer_error().expect("the server says so");
            assert_eq!((said.is_app, said.error_code), (true, NO_ERROR));
        });
        scope.spawn(|| {
            // One window per second.
            let mut client = RawClient::connect(serving.address("h3"), 20_000);
            client.send(0, GET, true);
            let began = Instant::now();
            while began.elapsed() < SLOW {
                assert!(!client.is_over(), "{:?}", client.conn.peer_error());
                let mut piece = [0; 16_000];
                let _ = client.conn.stream_recv(0, &mut piece);
                for _ in 0..5 {
                    ping(&mut client);
                }
            }
        });
        thread::sleep(TIMEOUT);
        serving.check_answers();
    });
    serving.check_ends_well();
}

fn ping(client: &mut RawClient) {
    let _ = client.conn.send_ack_eliciting();
    client.turn();
    thread::sleep(Duration::from_millis(100));
}

#[test]
fn proxy_closes_idle_connections_despite_pings() {
    let _seat = seat();
    let upstream = Serving::start(&["h1"], &[]);
    let to = format!("http://{}", upstream.address("h1"));
    let flags = ["--to", &to, "--idle-timeout", "500ms"];
    let proxy = Serving::of("proxy", &["h3"], &flags);
    let mut client = RawClient::connect(proxy.address("h3"), 0);
    let began = Instant::now();
    while !client.is_over() {
        assert!(began.elapsed() < Duration::from_secs(5), "it is held on to");
        ping(&mut client);
    }
    let said = client.conn.peer_error().expect("the proxy says so");
    assert_eq!((said.is_app, said.error_code), (true, NO_ERROR));
    proxy.check_ends_well();
}
