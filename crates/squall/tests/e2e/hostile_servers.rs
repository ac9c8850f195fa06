//! Malicious or broken servers against `squall fetch` and `squall load`: the user gets a message and exit code 1 within
//! bounded time and memory, and each request gets an outcome in the record. `hostile_quic_servers` tests which error
//! codes HTTP/3 servers receive for violations.

use std::fs;
use std::io::{self, Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::path::Path;
use std::time::{Duration, Instant};

use squall_base::plan::TlsVersion;
use squall_base::record::Outcome;
use squall_http::tls::ServerContext;
use squall_record::read_requests;

use crate::bare_tls::{BareTls, server_context};
use crate::bounded::{self, ClientOutput, check_each};
use crate::raw_quic::{self, CONTROL, ENDLESS_HEADERS, RawServer, Unfinished};
use crate::stand_ins;
use crate::support::squall;

/// `--timeout` of fetch; `-D` and `--drain` of load.
const TIMEOUT: &str = "1s";

/// The time limit for either command, on a busy machine.
pub(crate) const MOST: Duration = Duration::from_secs(9);

/// The memory limit for either command, in KiB, beside the pages of its program.
pub(crate) const MOST_KIB: u64 = 16 * 1024;

/// The number of servers that run in parallel: most of them wait, but those that flood do not.
const AT_ONCE: usize = 12;

/// How long a server keeps a client that does not disconnect.
const PATIENCE: Duration = Duration::from_secs(20);

/// A file in each client's folder.
const UPLOAD: &[&str] = &["-d", "upload"];
const UPLOAD_BYTES: usize = 1 << 20;

pub(crate) const SETTINGS: &[u8] = &[0, 0, 0, 4, 0, 0, 0, 0, 0];
/// SETTINGS_INITIAL_WINDOW_SIZE: 0.
const NO_WINDOW: &[u8] = &[0, 0, 6, 4, 0, 0, 0, 0, 0, 0, 4, 0, 0, 0, 0];
/// CANCEL on stream 1.
pub(crate) const RESET: &[u8] = &[0, 0, 4, 3, 0, 0, 0, 0, 1, 0, 0, 0, 8];
/// NO_ERROR, and no stream was processed.
const GOAWAY: &[u8] = &[0, 0, 8, 7, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0];
/// ":status: 200" on stream 1, which continues.
pub(crate) const HEADERS: &[u8] = &[0, 0, 1, 1, 4, 0, 0, 0, 1, 0x88];
/// The same head without END_HEADERS.
const OPEN_HEADERS: &[u8] = &[0, 0, 1, 1, 0, 0, 0, 0, 1, 0x88];
/// ":status: 103".
const EARLY_HINTS: &[u8] = &[0, 0, 5, 1, 4, 0, 0, 0, 1, 8, 3, b'1', b'0', b'3'];
const CONTINUATION: &[u8] = &[0, 0, 5, 9, 0, 0, 0, 0, 1, 0, 1, b'x', 1, b'y'];
const PING: &[u8] = &[0, 0, 8, 6, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0];
/// "abc" on stream 1, which continues.
const DATA: &[u8] = &[0, 0, 3, 0, 0, 0, 0, 0, 1, b'a', b'b', b'c'];
const DATA_OF_ONE_BYTE: &[u8] = &[0, 0, 1, 0, 0, 0, 0, 0, 1, b'a'];
const EMPTY_DATA: &[u8] = &[0, 0, 0, 0, 0, 0, 0, 0, 1];
/// The header of a handshake record of 100 bytes, and the start of a ServerHello.
const HALF_HELLO: &[u8] = &[0x16, 3, 3, 0, 100, 2, 0, 0, 96, 3, 3];

/// HTTP/3's ":status: 200" and ":status: 103" (RFC 9204, appendix A).
pub(crate) const HEADERS_3: &[u8] = &[0x1, 3, 0, 0, 0xd9];
const EARLY_HINTS_3: &[u8] = &[0x1, 3, 0, 0, 0xd8];
/// "abc" out of nine bytes.
pub(crate) const HALF_DATA_3: &[u8] = &[0x0, 9, b'a', b'b', b'c'];

/// A server, and the outcome for its clients.
#[derive(Clone, Copy)]
struct Server {
    name: &'static str,
    /// The URL's scheme, and `--http`.
    spoken: (&'static str, &'static str),
    does: Does,
    /// Additional arguments of the client.
    asks: &'static [&'static str],
    /// The outcome of load's requests.
    outcome: Outcome,
}

/// What a server does with a connection once it has read something.
#[derive(Clone, Copy)]
enum Does {
    /// Sends bytes over TCP, as HTTP/1.1, HTTP/2 or TLS.
    Tcp(&'static [&'static [u8]], Then),
    /// Sends bytes over TLS, after a correct handshake.
    Tls(&'static [&'static [u8]], Then),
    Quic(RawServer),
    QuicUnfinished(Unfinished),
}

#[derive(Clone, Copy)]
enum Then {
    Closes,
    KeepsSilent,
    /// Sends these bytes repeatedly.
    Repeats(&'static [u8]),
}
use Then::{Closes, KeepsSilent, Repeats};

use Outcome::{Censored, ConnectionClosed, ProtocolError, StreamReset, TlsFailed};

const H1: (&str, &str) = ("http", "1.1");
const H2C: (&str, &str) = ("http", "2");
const TLS: (&str, &str) = ("https", "2");
const H3: (&str, &str) = ("https", "3");

const OK: &[u8] = b"HTTP/1.1 200 OK\r\n";
const LENGTH: &[u8] = b"content-length: 9\r\n\r\nabc";
const CHUNKED: &[u8] = b"transfer-encoding: chunked\r\n\r\n";
const HINTS: &[u8] = b"HTTP/1.1 103 Early Hints\r\n\r\n";

fn servers() -> Vec<Server> {
    let mut servers = http1_servers();
    servers.extend(http2_servers());
    servers.extend(http2_servers().into_iter().map(over_tls));
    servers.extend(http3_servers());
    let tls = |name, says, then, outcome| tcp(TLS, name, says, then, outcome);
    servers.extend([
        tls("closes at once", &[], Closes, TlsFailed),
        tls("never answers", &[], KeepsSilent, Censored),
        tls(
            "garbage",
            &[b"garbage, and more of it"],
            KeepsSilent,
            TlsFailed,
        ),
        tls("half a hello", &[HALF_HELLO], Closes, TlsFailed),
        tls("a hello that stops", &[HALF_HELLO], KeepsSilent, Censored),
    ]);
    servers
}

/// The same server over TLS.
fn over_tls(server: Server) -> Server {
    let Does::Tcp(says, then) = server.does else {
        return server;
    };
    Server {
        spoken: TLS,
        does: Does::Tls(says, then),
        ..server
    }
}

const fn tcp(
    spoken: (&'static str, &'static str),
    name: &'static str,
    says: &'static [&'static [u8]],
    then: Then,
    outcome: Outcome,
) -> Server {
    Server {
        name,
        spoken,
        does: Does::Tcp(says, then),
        asks: &[],
        outcome,
    }
}

fn http1_servers() -> Vec<Server> {
    let h1 = |name, says, then, outcome| tcp(H1, name, says, then, outcome);
    vec![
        h1("closes at once", &[], Closes, ConnectionClosed),
        h1("never answers", &[], KeepsSilent, Censored),
        h1(
            "garbage",
            &[b"\x01\x02garbage\r\n\r\n"],
            KeepsSilent,
            ProtocolError,
        ),
        h1("endless garbage", &[], Repeats(b"garbage"), ProtocolError),
        h1("endless fields", &[OK], Repeats(b"x: y\r\n"), ProtocolError),
        h1(
            "an endless field",
            &[OK, b"x: "],
            Repeats(b"y"),
            ProtocolError,
        ),
        h1("endless 1xx", &[], Repeats(HINTS), ProtocolError),
        h1("half a body", &[OK, LENGTH], Closes, ConnectionClosed),
        h1("a body that stops", &[OK, LENGTH], KeepsSilent, Censored),
        h1(
            "half a chunk",
            &[OK, CHUNKED, b"9\r\nabc"],
            Closes,
            ConnectionClosed,
        ),
        h1(
            "no chunk",
            &[OK, CHUNKED, b"xyz\r\n"],
            KeepsSilent,
            ProtocolError,
        ),
        h1(
            "a giant chunk",
            &[OK, CHUNKED, b"ffffffffffffffff\r\n"],
            Repeats(b"x"),
            Censored,
        ),
        h1(
            "a chunk too large",
            &[OK, CHUNKED, b"10000000000000000\r\n"],
            Repeats(b"x"),
            ProtocolError,
        ),
        h1(
            "chunks of one byte",
            &[OK, CHUNKED],
            Repeats(b"1\r\nx\r\n"),
            Censored,
        ),
        Server {
            asks: UPLOAD,
            ..h1("reads no upload", &[], KeepsSilent, Censored)
        },
    ]
}

fn http2_servers() -> Vec<Server> {
    let h2 = |name, says, then, outcome| tcp(H2C, name, says, then, outcome);
    let open = &[SETTINGS, HEADERS];
    vec![
        h2("closes at once", &[], Closes, ConnectionClosed),
        h2("never answers", &[], KeepsSilent, Censored),
        h2("SETTINGS and no more", &[SETTINGS], KeepsSilent, Censored),
        h2("garbage", &[], Repeats(b"garbage"), ProtocolError),
        h2("HTTP/1.1", &[OK, b"\r\n"], KeepsSilent, ProtocolError),
        h2("RST_STREAM", &[SETTINGS, RESET], KeepsSilent, StreamReset),
        h2("GOAWAY", &[SETTINGS, GOAWAY], KeepsSilent, StreamReset),
        h2(
            "GOAWAY and the end",
            &[SETTINGS, GOAWAY],
            Closes,
            StreamReset,
        ),
        h2(
            "CONTINUATION",
            &[SETTINGS, OPEN_HEADERS],
            Repeats(CONTINUATION),
            ProtocolError,
        ),
        h2("SETTINGS", &[SETTINGS], Repeats(SETTINGS), ProtocolError),
        h2("PING", &[SETTINGS], Repeats(PING), ProtocolError),
        h2("103", &[SETTINGS], Repeats(EARLY_HINTS), ProtocolError),
        h2(
            "half a body",
            &[SETTINGS, HEADERS, DATA],
            Closes,
            ConnectionClosed,
        ),
        h2(
            "DATA of one byte",
            open,
            Repeats(DATA_OF_ONE_BYTE),
            Censored,
        ),
        h2("empty DATA", open, Repeats(EMPTY_DATA), ProtocolError),
        Server {
            asks: UPLOAD,
            ..h2(
                "no window for an upload",
                &[NO_WINDOW],
                KeepsSilent,
                Censored,
            )
        },
    ]
}

const fn quic(
    name: &'static str,
    server: RawServer,
    asks: &'static [&'static str],
    outcome: Outcome,
) -> Server {
    Server {
        name,
        spoken: H3,
        does: Does::Quic(server),
        asks,
        outcome,
    }
}

fn http3_servers() -> Vec<Server> {
    let silent = raw_quic::Then::KeepsSilent;
    let of_control =
        |name, control, outcome| quic(name, RawServer::new(control, &[], silent), &[], outcome);
    let no_window = RawServer {
        window: 0,
        ..RawServer::new(CONTROL, &[], silent)
    };
    let mut servers = vec![
        of_control("never answers", CONTROL, Censored),
        of_control("no control stream", &[], Censored),
        of_control("SETTINGS twice", &[0x0, 0x4, 0x0, 0x4, 0x0], ProtocolError),
        of_control("GOAWAY", &[0x0, 0x4, 0x0, 0x7, 0x1, 0x0], StreamReset),
        quic("no window for an upload", no_window, UPLOAD, Censored),
    ];
    servers.extend(http3_answers());
    servers.extend(
        [
            ("no datagram", Unfinished::Silent),
            ("datagrams of garbage", Unfinished::Garbage),
            ("half a handshake", Unfinished::FirstPacketOnly),
        ]
        .map(|(name, unfinished)| Server {
            name,
            spoken: H3,
            does: Does::QuicUnfinished(unfinished),
            asks: &[],
            outcome: Censored,
        }),
    );
    servers
}

const QUIC_PINGS: &str = "PING of QUIC";

fn http3_answers() -> Vec<Server> {
    use raw_quic::Then::{Closes, EndsTheStream, KeepsSilent, Pings, Repeats, ResetsTheStream};
    const HALF: &[&[u8]] = &[HEADERS_3, HALF_DATA_3];
    let h3 =
        |name, says, then, outcome| quic(name, RawServer::new(CONTROL, says, then), &[], outcome);
    let flood = |name, says, bytes, outcome| h3(name, says, Repeats(bytes), outcome);
    vec![
        h3("closes at once", &[], Closes, ConnectionClosed),
        h3("a body that stops", HALF, KeepsSilent, Censored),
        h3("half a body", HALF, EndsTheStream, ProtocolError),
        h3("a reset", &[HEADERS_3], ResetsTheStream, StreamReset),
        // DATA before HEADERS.
        flood("garbage", &[&[0x0, 0x3]], b"garbage", ProtocolError),
        flood("endless HEADERS", &[ENDLESS_HEADERS], b"x", ProtocolError),
        flood("103", &[], EARLY_HINTS_3, ProtocolError),
        flood("frames that mean nothing", &[], &[0x21, 0x0], ProtocolError),
        flood(
            "DATA of one byte",
            &[HEADERS_3],
            &[0x0, 0x1, b'x'],
            Censored,
        ),
        flood("empty DATA", &[HEADERS_3], &[0x0, 0x0], ProtocolError),
        h3(QUIC_PINGS, &[], Pings, Censored),
    ]
}

/// Serves every TCP client, for as long as the test runs.
fn start(says: &'static [&'static [u8]], then: Then) -> SocketAddr {
    stand_ins::serve(move |stream| serve(stream, says, then))
}

/// The client may disconnect at any time.
fn serve(mut stream: TcpStream, says: &[&[u8]], then: Then) {
    let _ = stream.set_read_timeout(Some(PATIENCE));
    let _ = stream.set_write_timeout(Some(PATIENCE));
    let _ = read_and_say(&mut stream, says);
    match then {
        Closes => {}
        KeepsSilent => while matches!(stream.read(&mut [0; 4_096]), Ok(1..)) {},
        Repeats(bytes) => {
            let many = bytes.repeat(1_000);
            let began = Instant::now();
            while began.elapsed() < PATIENCE && stream.write_all(&many).is_ok() {}
        }
    }
}

/// Like [`start`], over TLS.
fn start_tls(says: &'static [&'static [u8]], then: Then) -> SocketAddr {
    let context = server_context(TlsVersion::Tls13, "h2");
    stand_ins::serve(move |stream| serve_tls(stream, &context, says, then))
}

fn serve_tls(
    stream: TcpStream,
    context: &ServerContext,
    says: &[&[u8]],
    then: Then,
) -> io::Result<()> {
    let mut tls = BareTls::server(stream, context)?;
    tls.hear_until(|heard| !heard.is_empty())?;
    let (first, rest) = says.split_at(says.len().min(1));
    tls.say(&first.concat());
    tls.flush()?;
    if first == [SETTINGS] || first == [NO_WINDOW] {
        tls.hear_until(has_headers)?;
    }
    tls.say(&rest.concat());
    tls.flush()?;
    match then {
        Closes => {}
        KeepsSilent => tls.outlast(),
        Repeats(bytes) => {
            // No more than a record holds.
            let many = bytes.repeat(16_000 / bytes.len());
            let began = Instant::now();
            while began.elapsed() < PATIENCE {
                tls.say(&many);
                tls.flush()?;
            }
        }
    }
    Ok(())
}

/// Sends the pieces once something has arrived. The pieces after SETTINGS are sent only once a request has arrived,
/// because a client may wait for SETTINGS.
pub(crate) fn read_and_say(stream: &mut TcpStream, says: &[&[u8]]) -> io::Result<()> {
    let mut piece = [0; 4_096];
    let len = stream.read(&mut piece)?;
    let mut read = piece[..len].to_vec();
    let (first, rest) = says.split_at(says.len().min(1));
    stream.write_all(&first.concat())?;
    if first == [SETTINGS] || first == [NO_WINDOW] {
        while !has_headers(&read) {
            match stream.read(&mut piece)? {
                0 => return Ok(()),
                len => read.extend(&piece[..len]),
            }
        }
    }
    stream.write_all(&rest.concat())
}

/// Whether a HEADERS frame begins in the bytes after the preface of 24 bytes.
pub(crate) fn has_headers(read: &[u8]) -> bool {
    let mut rest = read.get(24..).unwrap_or_default();
    while let [l0, l1, l2, kind, ..] = *rest {
        if kind == 1 {
            return true;
        }
        let len = 9 + u32::from_be_bytes([0, l0, l1, l2]) as usize;
        rest = rest.get(len..).unwrap_or_default();
    }
    false
}

impl Server {
    fn name(&self, command: &str) -> String {
        let (scheme, http) = self.spoken;
        format!("{command}, {scheme}, {http}: {}", self.name)
    }

    /// Runs the command against this server, in that folder.
    fn check(self, home: &Path, command: &str, arguments: &[&str], words: &[&str]) {
        let (scheme, http) = self.spoken;
        let name = self.name(command);
        fs::write(home.join("upload"), vec![b'x'; UPLOAD_BYTES]).expect("a file");
        let address = match self.does {
            Does::Tcp(says, then) => start(says, then),
            Does::Tls(says, then) => start_tls(says, then),
            Does::Quic(server) => server.start(home),
            Does::QuicUnfinished(server) => server.start(home),
        };
        let mut client = squall(home);
        client
            .args([command, "-k", "--http", http])
            .args(arguments)
            .args(self.asks)
            .arg(format!("{scheme}://{address}/"));
        let ClientOutput {
            status,
            took,
            peak_kib,
            output,
        } = bounded::run(&mut client, home, MOST, &name);
        eprintln!("{name}: {took:?}, {peak_kib} KiB: {}", output.trim_end());
        assert_eq!(status.code(), Some(1), "{name}: {output}");
        assert!(peak_kib < MOST_KIB, "{name}: {peak_kib} KiB");
        assert!(
            words.iter().any(|words| output.contains(words)),
            "{name}: {output:?}"
        );
        assert!(!output.contains("panicked"), "{name}: {output}");
    }
}

/// Checks all servers; `then` examines what each client left in its folder.
fn check(
    servers: &[Server],
    (command, arguments): (&str, &[&str]),
    words: &[&str],
    then: impl Fn(&Server, &Path) + Sync,
) {
    check_each(servers, AT_ONCE, |server, home| {
        server.check(home, command, arguments, words);
        then(server, home);
    });
}

#[test]
fn fetch_reports_an_outcome_for_every_hostile_server() {
    let words = [
        "squall: cannot get ",
        "squall: no complete response within 1s",
    ];
    let fetch = ["--timeout", TIMEOUT, "-o", "/dev/null"];
    check(&servers(), ("fetch", &fetch), &words, |_, _| {});
}

#[test]
fn load_reports_and_records_an_outcome_for_every_hostile_server() {
    let words = ["0 succeeded (0 %)"];
    let load = [
        "-n",
        "2",
        "-D",
        TIMEOUT,
        "--drain",
        TIMEOUT,
        "--output",
        "requests.parquet",
    ];
    check(&servers(), ("load", &load), &words, |server, home| {
        let mut rows = read_requests(home.join("requests.parquet")).expect("requests.parquet");
        rows.sort_by_key(|row| row.request);
        let became: Vec<_> = rows.iter().map(|row| (row.outcome, &row.error)).collect();
        let name = server.name("load");
        if name.ends_with(QUIC_PINGS) {
            // How many of them arrive in time depends on the machine: more than 10,000 end the connection.
            let outcomes = [Censored, ProtocolError];
            assert!(outcomes.contains(&rows[0].outcome), "{name}: {became:?}");
            return;
        }
        // If the first request got no response or took up all the time, the second is never sent.
        let expected = if server.outcome == Censored {
            1..=1
        } else {
            1..=2
        };
        assert!(expected.contains(&rows.len()), "{name}: {became:?}");
        assert_eq!(rows[0].outcome, server.outcome, "{name}: {became:?}");
        // A server may not repeat its behaviour on the same connection.
        let may_be = [server.outcome, Censored];
        assert!(
            rows.iter().all(|row| may_be.contains(&row.outcome)),
            "{name}: {became:?}"
        );
    });
}
