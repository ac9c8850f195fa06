//! Malicious clients against `squall serve`: whatever they do, other clients get prompt responses, memory stays small,
//! and nothing panics. `hostile_ends` tests how each of these floods ends and what is logged about it;
//! `hostile_servers` tests servers against `squall fetch` and `squall load`.
//!
//! The medians of a good client with and without abuse are not compared here, because on a busy machine their ratio reflects
//! the machine. Instead, squall-stations (server `beside_abuse`) counts the turns of the server that a good client waits for.

use std::fs;
use std::io::{ErrorKind, Read, Write};
use std::net::{Ipv4Addr, Shutdown, SocketAddr, TcpStream, UdpSocket};
use std::thread;
use std::time::{Duration, Instant};

use squall_base::Time;
use squall_base::plan::{Http3Settings, TlsSettings};
use squall_http::tls::{self, Session, Trust};
use squall_http::{ClientEvent, Inbox, InboxOptions, h3};
use tempfile::TempDir;

use crate::raw_http2::{
    CONTINUATION, DATA, END_HEADERS, END_STREAM, HEADERS, PING, PREFACE, PRIORITY, RST_STREAM,
    SETTINGS, WINDOW_UPDATE, frame,
};
use crate::serving::{Serving, connect, read_to_end};
use crate::support::seat;

/// The memory limit for a server, in KiB, beside the pages of its program. An idle server takes 4 MiB. The worst HTTP/1.1
/// attack is 1,024 queued responses (`h1::MAX_PIPELINED`) on each of two connections, none of which holds its body before
/// its turn: 12 MiB. The worst QUIC attack is 500 abandoned handshakes of 40 KiB each: 20 MiB.
pub(crate) const MOST_KIB: u64 = 32 * 1024;

/// The duration of each attack.
const ATTACK: Duration = Duration::from_millis(400);

/// ":method: GET" or POST, ":scheme: http", ":path: /" from HPACK's static table, and ":authority: a".
const GET: &[u8] = &[0x82, 0x86, 0x84, 0x41, 1, b'a'];
const POST: &[u8] = &[0x83, 0x86, 0x84, 0x41, 1, b'a'];

fn get(stream: u32) -> Vec<u8> {
    frame(HEADERS, END_STREAM | END_HEADERS, stream, GET)
}

/// What a client sends once, and then repeatedly.
pub(crate) struct Attack {
    pub(crate) name: &'static str,
    pub(crate) opening: Vec<u8>,
    pub(crate) again: fn(u32) -> Vec<u8>,
}

fn attack(name: &'static str, opening: &[&[u8]], again: fn(u32) -> Vec<u8>) -> Attack {
    let opening = opening.concat();
    Attack {
        name,
        opening,
        again,
    }
}

pub(crate) fn http1_attacks() -> Vec<Attack> {
    const HEAD: &[u8] = b"GET / HTTP/1.1\r\nhost: a\r\n";
    const CHUNKED: &[u8] = b"POST / HTTP/1.1\r\nhost: a\r\ntransfer-encoding: chunked\r\n\r\n";
    vec![
        attack("endless field", &[HEAD, b"x: "], |_| vec![b'x'; 16_384]),
        attack("endless fields", &[HEAD], |n| format!("x{n}: y\r\n").into()),
        attack("endless target", &[b"GET /"], |_| vec![b'x'; 16_384]),
        attack("empty lines", &[], |_| b"\r\n".repeat(1_000)),
        attack("a giant chunk", &[CHUNKED, b"ffffffffffffffff\r\n"], |_| {
            vec![b'x'; 16_384]
        }),
        attack("chunks of one byte", &[CHUNKED], |_| {
            b"1\r\nx\r\n".repeat(1_000)
        }),
        attack("endless extension", &[CHUNKED, b"5;"], |_| {
            vec![b'x'; 16_384]
        }),
        attack("endless trailers", &[CHUNKED, b"0\r\n"], |_| {
            b"a: b\r\n".repeat(1_000)
        }),
        attack("requests without end", &[], |_| {
            b"GET /?size=1MiB HTTP/1.1\r\nhost: a\r\n\r\n".repeat(100)
        }),
        attack("answers that wait", &[], |_| {
            b"GET /?delay=1h HTTP/1.1\r\nhost: a\r\n\r\n".repeat(100)
        }),
    ]
}

pub(crate) fn http2_attacks() -> Vec<Attack> {
    let opening = [PREFACE, &frame(SETTINGS, 0, 0, &[])].concat();
    // SETTINGS_INITIAL_WINDOW_SIZE.
    let no_window = [PREFACE, &frame(SETTINGS, 0, 0, &[0, 4, 0, 0, 0, 0])].concat();
    let open = frame(HEADERS, 0, 1, GET);
    let post = frame(HEADERS, END_HEADERS, 1, POST);
    // "x: 4,000 times y", indexed, followed by 12,000 references to its index.
    let mut bomb = vec![0x40, 1, b'x', 0x7f, 0xa1, 0x1e];
    bomb.extend([b'y'; 4_000]);
    bomb.extend([0xbe; 12_000]);
    let bomb = frame(HEADERS, END_HEADERS, 1, &[GET, &bomb].concat());
    vec![
        attack("fields in CONTINUATION", &[&opening, &open], |_| {
            // A literal field of 127 + 3873 bytes.
            let field = [&[0, 1, b'x', 0x7f, 0xa1, 0x1e][..], &[b'y'; 4_000]].concat();
            frame(CONTINUATION, 0, 1, &field)
        }),
        attack("empty CONTINUATION", &[&opening, &open], |_| {
            frame(CONTINUATION, 0, 1, &[])
        }),
        attack("a bomb of HPACK", &[&opening, &bomb], get_next),
        attack("DATA of one byte", &[&opening, &post], |_| {
            frame(DATA, 0, 1, b"x").repeat(100)
        }),
        attack("empty DATA", &[&opening, &post], |_| {
            frame(DATA, 0, 1, &[]).repeat(100)
        }),
        attack("no window", &[&no_window], get_next),
        attack("answers unread", &[&opening], get_next),
        attack("rapid reset", &[&opening], |n| {
            let stream = 2 * n + 1;
            [get(stream), frame(RST_STREAM, 0, stream, &[0, 0, 0, 8])].concat()
        }),
        attack("SETTINGS", &[&opening], |_| {
            frame(SETTINGS, 0, 0, &[]).repeat(100)
        }),
        attack("PING", &[&opening], |_| {
            frame(PING, 0, 0, &[0; 8]).repeat(100)
        }),
        attack("WINDOW_UPDATE", &[&opening], |_| {
            frame(WINDOW_UPDATE, 0, 0, &[0, 0, 0, 1]).repeat(100)
        }),
        attack("PRIORITY", &[&opening], |n| {
            frame(PRIORITY, 0, 2 * n + 1, &[0, 0, 0, 0, 1]).repeat(100)
        }),
    ]
}

fn get_next(n: u32) -> Vec<u8> {
    get(2 * n + 3)
}

/// A connection to attack over. It reads only what TLS needs.
pub(crate) struct Wire {
    pub(crate) stream: TcpStream,
    pub(crate) tls: Option<Session>,
}

impl Wire {
    pub(crate) fn plain(address: SocketAddr) -> Wire {
        Wire {
            stream: connect(address),
            tls: None,
        }
    }

    pub(crate) fn secure(address: SocketAddr) -> Wire {
        let settings = TlsSettings::default();
        let context = tls::ClientContext::new(&settings, &["h2"], &Trust::Anyone);
        let context = context.expect("a context");
        let mut session = Session::client(&context, None).expect("a session");
        let mut stream = connect(address);
        let mut buffer = [0; 16_384];
        while !session.is_secured() {
            flush(&mut stream, &mut session).expect("it reads");
            let len = stream.read(&mut buffer).expect("it answers");
            let received = session.receive(&buffer[..len], |_, _| {});
            received.expect("a handshake");
        }
        Wire {
            stream,
            tls: Some(session),
        }
    }

    fn send(&mut self, mut bytes: &[u8]) -> std::io::Result<()> {
        let Some(tls) = &mut self.tls else {
            return self.stream.write_all(bytes);
        };
        while !bytes.is_empty() {
            let taken = tls.encrypt(bytes, Time::ZERO);
            flush(&mut self.stream, tls)?;
            bytes = &bytes[taken..];
        }
        flush(&mut self.stream, tls)
    }
}

fn flush(stream: &mut TcpStream, session: &mut Session) -> std::io::Result<()> {
    let output = session.output().to_vec();
    stream.write_all(&output)?;
    session.advance_output(output.len());
    Ok(())
}

/// Attacks for `ATTACK`, or until the server closes the connection.
fn carry_out(attack: &Attack, mut wire: Wire) {
    let timeout = Some(ATTACK / 4);
    wire.stream.set_write_timeout(timeout).expect("a timeout");
    let began = Instant::now();
    let mut sent = wire.send(&attack.opening);
    let mut n = 0;
    while sent.is_ok() && began.elapsed() < ATTACK {
        sent = wire.send(&(attack.again)(n));
        n += 1;
    }
    // The server has stopped reading: the connection stays full until the time is up.
    let is_full = |error: &std::io::Error| error.kind() == ErrorKind::WouldBlock;
    if sent.is_err_and(|error| is_full(&error)) {
        thread::sleep(ATTACK.saturating_sub(began.elapsed()));
    }
}

/// Runs each attack from two connections while another client sends requests.
fn withstand(attacks: &[Attack], serving: Serving, wire: impl Fn(&Serving) -> Wire + Sync) {
    for attack in attacks {
        thread::scope(|scope| {
            for _ in 0..2 {
                scope.spawn(|| carry_out(attack, wire(&serving)));
            }
            thread::sleep(ATTACK / 4);
            serving.check_answers();
            thread::sleep(ATTACK / 4);
            serving.check_answers();
        });
        check_memory(&serving, attack.name);
    }
    serving.check_answers();
    serving.check_ends_well();
}

fn check_memory(serving: &Serving, name: &str) {
    let peak_kib = serving.peak_kib();
    eprintln!("{name}: {peak_kib} KiB at most");
    assert!(peak_kib < MOST_KIB, "{name}: {peak_kib} KiB");
}

#[test]
fn server_withstands_http1_floods() {
    let _seat = seat();
    let serving = Serving::start(&["h1"], &[]);
    withstand(&http1_attacks(), serving, |serving| {
        Wire::plain(serving.address("h1"))
    });
}

#[test]
fn server_withstands_http2_floods() {
    let _seat = seat();
    let serving = Serving::start(&["h1", "h2c"], &[]);
    withstand(&http2_attacks(), serving, |serving| {
        Wire::plain(serving.address("h2c"))
    });
}

#[test]
fn server_withstands_http2_floods_over_tls() {
    let _seat = seat();
    let serving = Serving::start(&["h1", "h2"], &[]);
    withstand(&http2_attacks(), serving, |serving| {
        Wire::secure(serving.address("h2"))
    });
}

/// Meaningless bytes, the same in every run (xorshift64, Marsaglia 2003).
fn garbage(len: usize) -> Vec<u8> {
    let mut state: u64 = 0x9E37_79B9_7F4A_7C15;
    let mut bytes = Vec::with_capacity(len + 8);
    while bytes.len() < len {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        bytes.extend(state.to_le_bytes());
    }
    bytes
}

const ALL: [&str; 6] = ["h1", "h1s", "h2c", "h2", "https", "h3"];

#[test]
fn server_withstands_garbage_on_every_listener() {
    let _seat = seat();
    let serving = Serving::start(&ALL, &[]);
    let bytes = garbage(100_000);
    for kind in ["h1", "h1s", "h2c", "h2", "https"] {
        let mut stream = connect(serving.address(kind));
        // The server may close the connection before everything is sent.
        let _ = stream.write_all(&bytes);
        // Whatever the server responds, it closes the connection.
        let _ = stream.read_to_end(&mut Vec::new());
    }
    let socket = UdpSocket::bind((Ipv4Addr::LOCALHOST, 0)).expect("a socket");
    for datagram in bytes.chunks(97).chain(bytes.chunks(1_200)) {
        let sent = socket.send_to(datagram, serving.address("h3"));
        sent.expect("it is sent");
        // Starts like a long header of version 1; the rest is invalid.
        let initial = [&[0xc3, 0, 0, 0, 1, 8][..], datagram].concat();
        let sent = socket.send_to(&initial, serving.address("h3"));
        sent.expect("it is sent");
    }
    serving.check_answers();
    check_memory(&serving, "garbage");
    serving.check_ends_well();
}

#[test]
fn server_withstands_aborted_tls_handshakes() {
    let _seat = seat();
    let serving = Serving::start(&ALL, &[]);
    let context = tls::ClientContext::new(&TlsSettings::default(), &["h2"], &Trust::Anyone);
    let session = Session::client(&context.expect("a context"), None).expect("a session");
    let hello = session.output();
    // Connections that stay open, each with one more byte of the hello than the one before.
    let mut open = Vec::new();
    for len in 0..hello.len().min(300) {
        for kind in ["h1s", "h2", "https"] {
            let mut stream = connect(serving.address(kind));
            stream.write_all(&hello[..len]).expect("it reads");
            if len % 2 == 0 {
                open.push(stream);
            }
        }
    }
    serving.check_answers();
    check_memory(&serving, "broken handshakes");
    drop(open);
    serving.check_ends_well();
}

/// QUIC connections that send only the first flight.
#[test]
fn server_withstands_abandoned_quic_handshakes() {
    let _seat = seat();
    let serving = Serving::start(&["h1", "h3"], &[]);
    let socket = UdpSocket::bind((Ipv4Addr::LOCALHOST, 0)).expect("a socket");
    let local = socket.local_addr().expect("an address");
    let (settings, tls) = (Http3Settings::default(), TlsSettings::default());
    let context = h3::ClientContext::new(&settings, &tls, &Trust::Anyone, 1);
    let mut context = context.expect("a context");
    let mut inbox: Inbox<ClientEvent> = Inbox::new(InboxOptions::default());
    let mut batch = h3::Batch::new();
    for n in 0..500 {
        let peer = serving.address("h3");
        let client = h3::Client::new(&mut context, "localhost", local, peer);
        let mut client = client.expect("a client");
        while client.output(Instant::now(), &mut batch, &mut inbox) {
            for datagram in batch.datagrams() {
                socket.send_to(datagram, peer).expect("it is sent");
            }
        }
        if n % 100 == 0 {
            serving.check_answers();
        }
    }
    serving.check_answers();
    check_memory(&serving, "first flights");
    serving.check_ends_well();
}

/// Sends `opening`, then `piece` every 100 ms until the server closes the connection, which takes it 2 to 7 s. Returns what
/// the server sent.
fn send_slowly(address: SocketAddr, opening: &[u8], piece: &[u8]) -> Vec<u8> {
    let began = Instant::now();
    let mut stream = connect(address);
    stream.write_all(opening).expect("it reads");
    let step = Duration::from_millis(100);
    stream.set_read_timeout(Some(step)).expect("a timeout");
    let mut heard = Vec::new();
    loop {
        assert!(began.elapsed() < Duration::from_secs(7), "it is held on to");
        if stream.write_all(piece).is_err() {
            break;
        }
        match stream.read_to_end(&mut heard) {
            Err(error) if error.kind() == ErrorKind::WouldBlock => {}
            _ => break,
        }
    }
    assert!(
        began.elapsed() >= Duration::from_secs(2),
        "given up too soon"
    );
    heard
}

/// Clients that send an occasional byte do not block other clients, and time out no later than silent ones.
#[test]
fn slow_clients_time_out() {
    let _seat = seat();
    let serving = Serving::start(&["h1", "h2c", "h2"], &["--idle-timeout", "2s"]);
    thread::scope(|scope| {
        for _ in 0..20 {
            // The head of a request that never ends.
            scope.spawn(|| send_slowly(serving.address("h1"), b"GET /", b"a"));
        }
        scope.spawn(|| {
            // A large HEADERS frame. Before the server closes, it sends GOAWAY.
            let header = [0, 0x40, 0, HEADERS, 0, 0, 0, 0, 1];
            let opening = [PREFACE, &frame(SETTINGS, 0, 0, &[]), &header].concat();
            let heard = send_slowly(serving.address("h2c"), &opening, &[0]);
            assert!(
                heard
                    .windows(9)
                    .any(|bytes| bytes == [0, 0, 8, 7, 0, 0, 0, 0, 0])
            );
        });
        scope.spawn(|| {
            // Silence during a handshake.
            let mut stream = connect(serving.address("h2"));
            assert_eq!(read_to_end(&mut stream), b"");
        });
        scope.spawn(|| {
            // A window of zero.
            let mut stream = connect(serving.address("h2c"));
            let no_window = frame(SETTINGS, 0, 0, &[0, 4, 0, 0, 0, 0]);
            let sent = [PREFACE, &no_window, &get(1)].concat();
            stream.write_all(&sent).expect("it reads");
            read_to_end(&mut stream);
        });
        scope.spawn(|| {
            // A window of zero, from a client that keeps sending PING.
            let no_window = frame(SETTINGS, 0, 0, &[0, 4, 0, 0, 0, 0]);
            let opening = [PREFACE, &no_window, &get(1)].concat();
            let ping = frame(PING, 0, 0, &[0; 8]);
            assert_ne!(send_slowly(serving.address("h2c"), &opening, &ping), b"");
        });
        scope.spawn(|| {
            // A client waiting for a response is not idle.
            let mut stream = connect(serving.address("h1"));
            let request = b"GET /?delay=4s HTTP/1.1\r\nhost: a\r\nconnection: close\r\n\r\n";
            stream.write_all(request).expect("it reads");
            assert!(read_to_end(&mut stream).starts_with(b"HTTP/1.1 200"));
        });
        for _ in 0..4 {
            thread::sleep(Duration::from_secs(1));
            serving.check_answers();
        }
    });
    serving.check_ends_well();
}

/// A client that keeps its side open does not keep the connection alive.
#[test]
fn server_closes_on_a_rejected_client_that_stays_connected() {
    let _seat = seat();
    let serving = Serving::start(&["h1"], &[]);
    let mut stream = connect(serving.address("h1"));
    stream.write_all(b"rubbish\r\n\r\n").expect("it reads");
    let mut answer = Vec::new();
    stream.read_to_end(&mut answer).expect("it closes its side");
    assert!(answer.starts_with(b"HTTP/1.1 400"), "{answer:?}");
    let began = Instant::now();
    // The server discards what arrives until its timeout.
    while stream.write_all(&[b'x'; 1_000]).is_ok() {
        assert!(
            began.elapsed() < Duration::from_secs(8),
            "it reads for ever"
        );
        thread::sleep(Duration::from_millis(20));
    }
    assert!(began.elapsed() > Duration::from_secs(3));
    let _ = stream.shutdown(Shutdown::Both);
    serving.check_ends_well();
}

/// With no file descriptor left, a server keeps its connections, admits that it cannot open a file, and accepts the
/// connections that wait as soon as it can.
#[test]
fn server_without_file_descriptors_keeps_serving() {
    let _seat = seat();
    let home = TempDir::new().expect("a temporary folder");
    fs::write(home.path().join("file"), "x").expect("it is written");
    let folder = home.path().to_str().expect("UTF-8");
    let serving = Serving::start(&["h1"], &["--dir", folder]);
    let status = |stream: &mut TcpStream, path: &str| -> String {
        let request = format!("HEAD {path} HTTP/1.1\r\nhost: a\r\n\r\n");
        stream.write_all(request.as_bytes()).expect("it reads");
        let mut answer = [0; 4_096];
        let len = stream.read(&mut answer).expect("an answer");
        assert!(answer[..len].starts_with(b"HTTP/1.1 "));
        String::from_utf8_lossy(&answer[9..12]).into_owned()
    };
    let mut first = connect(serving.address("h1"));
    assert_eq!(status(&mut first, "/file"), "200");
    // Time for the server to close the file.
    thread::sleep(Duration::from_millis(100));
    serving.allow_more_files(0);
    assert_eq!(status(&mut first, "/file"), "503");
    assert_eq!(status(&mut first, "/missing"), "404");
    let mut second = connect(serving.address("h1"));
    // Time for the server to find that it cannot accept the connection.
    thread::sleep(Duration::from_millis(250));
    assert_eq!(status(&mut first, "/missing"), "404");
    drop(first);
    assert_eq!(status(&mut second, "/file"), "503");
    serving.allow_more_files(10);
    assert_eq!(status(&mut second, "/file"), "200");
    let log = serving.end_well();
    assert!(log.contains("  cannot accept a connection: "), "{log}");
}
