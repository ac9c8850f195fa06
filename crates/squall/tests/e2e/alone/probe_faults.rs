//! `squall probe` against faults that are built on purpose: thirteen one at a time, seven pairs, and a server without any.
//! The costliest fault must be named first in 19 of 20 probes, and all built faults must be named in 19 of 20. In 20 of 20
//! probes of the server without a fault, none may be named.
//!
//! Most servers are `squall serve` with a setting changed; the others are nginx and small servers in this file. The details
//! of each fault are tested in `probe`, and the defaults of real servers in `probe_servers`.

use std::fs;
use std::io::{self, BufReader, Read, Write};
use std::net::{Ipv4Addr, TcpStream, UdpSocket};
use std::path::Path;
use std::process::Stdio;
use std::sync::Mutex;
use std::thread;
use std::time::Duration;

use serde_json::Value;

use super::probe_servers::{Bench, CERTIFICATE, KEY, nginx_with, write_certificate};
use crate::probe::{faults, home};
use crate::raw_http2::{DATA, END_HEADERS, END_STREAM, HEADERS, frame, serve_in_turn};
use crate::served;
use crate::serving::Serving;
use crate::stand_ins::{ReceivedRequest, serve};
use crate::support::{free_port, have, quiet_seat, squall, stdout_json};

/// 19 of 20.
const MISSES_AT_MOST: usize = 1;
/// Probes of a server without a fault.
const HEALTHY_RUNS: usize = 20;
/// How many probes run at a time. They mostly wait for their link or their server. With more, a server sometimes waits for a
/// processor until its socket overflows, and packets really are lost.
pub(super) const AT_A_TIME: usize = 2;

/// A server with faults, and how it is probed.
struct Case {
    /// The costliest fault first.
    faults: &'static [&'static str],
    probe: fn(&Case) -> Value,
    /// The listener of `squall serve --sink`.
    listener: &'static str,
    /// Settings of `squall serve`, or directives of nginx.
    server: &'static [&'static str],
    /// The link of `--behind`; without one, the probe is over loopback.
    link: &'static str,
    target: &'static str,
    flags: &'static [&'static str],
}

/// `squall serve --sink` without a fault, over loopback.
const SERVED: Case = Case {
    faults: &[],
    probe: served,
    listener: "h2c",
    server: &[],
    link: "",
    target: "/",
    flags: &[],
};

/// Windows that limit nothing.
const WIDE_STREAM: &str = "http2.stream_window=16MiB";
const WIDE_CONNECTION: &str = "http2.connection_window=16MiB";
const WIDE: &[&str] = &[WIDE_STREAM, WIDE_CONNECTION];
const EACH_DATA: &str = "http2.window_updates.each_data=16384";
const SMALL_RECORDS: &str = "tls.records=1300";

const FAR: &str = "delay 15ms";
const LOSSY: &str = "delay 5ms, loss 1%";
/// 256 KiB at 20 Mbit/s are 105 ms.
const BLOATED: &str = "delay 5ms, rate 20mbit, queue 256KiB";

const UPLOAD: &[&str] = &["--http", "2", "--upload", "1MB"];

fn faults_of_flow_control() -> Vec<Case> {
    vec![
        Case {
            faults: &["stream_window"],
            server: &[WIDE_CONNECTION],
            link: FAR,
            flags: UPLOAD,
            ..SERVED
        },
        Case {
            faults: &["update_per_data"],
            server: &[WIDE_STREAM, WIDE_CONNECTION, EACH_DATA],
            flags: UPLOAD,
            ..SERVED
        },
        Case {
            faults: &["connection_window"],
            server: &["http2.stream_window=1MiB"],
            link: FAR,
            flags: UPLOAD,
            ..SERVED
        },
    ]
}

fn faults_of_writing() -> Vec<Case> {
    vec![
        Case {
            faults: &["delayed_ack"],
            listener: "h1",
            server: &["tcp.no_delay=false", "tcp.write_size=200"],
            target: "/?size=600",
            flags: &["--http", "1.1"],
            ..SERVED
        },
        Case {
            faults: &["small_records"],
            listener: "h1s",
            server: &[SMALL_RECORDS],
            flags: &["--http", "1.1", "--download", "/?size=1MiB"],
            ..SERVED
        },
        Case {
            faults: &["idle_slow_start"],
            probe: served_in_the_far_host,
            server: WIDE,
            flags: &["--http", "2", "--download", "/?size=200kB"],
            ..SERVED
        },
        Case {
            faults: &["large_certificate"],
            probe: served_with_a_long_chain,
            listener: "h1s",
            flags: &["--http", "1.1"],
            ..SERVED
        },
        Case {
            faults: &["short_connections"],
            server: &[WIDE_STREAM, WIDE_CONNECTION, "http2.goaway_after=100"],
            flags: &["--http", "2"],
            ..SERVED
        },
    ]
}

fn faults_of_the_path() -> Vec<Case> {
    vec![
        Case {
            faults: &["udp_blocked"],
            probe: http3_that_is_dropped,
            ..SERVED
        },
        Case {
            faults: &["bufferbloat"],
            listener: "h1",
            link: BLOATED,
            flags: &["--http", "1.1", "--download", "/?size=4MiB"],
            ..SERVED
        },
        Case {
            faults: &["loss"],
            listener: "h1",
            link: LOSSY,
            flags: &["--http", "1.1", "--download", "/?size=4MiB"],
            ..SERVED
        },
        Case {
            faults: &["buffered_upload"],
            probe: proxy_that_stores_uploads,
            ..SERVED
        },
        Case {
            faults: &["no_multiplexing"],
            probe: one_response_after_the_other,
            ..SERVED
        },
    ]
}

fn pairs_with_windows() -> Vec<Case> {
    vec![
        Case {
            faults: &["stream_window", "small_records"],
            listener: "h2",
            server: &[WIDE_CONNECTION, SMALL_RECORDS],
            link: FAR,
            flags: &[
                "--http",
                "2",
                "--upload",
                "1MB",
                "--download",
                "/?size=1MiB",
            ],
            ..SERVED
        },
        Case {
            faults: &["connection_window", "short_connections"],
            server: &["http2.stream_window=1MiB", "http2.goaway_after=100"],
            link: FAR,
            flags: UPLOAD,
            ..SERVED
        },
        Case {
            faults: &["stream_window", "idle_slow_start"],
            probe: served_in_the_far_host,
            server: &[WIDE_CONNECTION],
            flags: &[
                "--http",
                "2",
                "--upload",
                "1MB",
                "--download",
                "/?size=200kB",
            ],
            ..SERVED
        },
    ]
}

fn pairs_without_windows() -> Vec<Case> {
    vec![
        Case {
            faults: &["delayed_ack", "update_per_data"],
            server: &[
                WIDE_STREAM,
                WIDE_CONNECTION,
                EACH_DATA,
                "tcp.no_delay=false",
                "tcp.write_size=200",
            ],
            target: "/?size=600",
            flags: &["--http", "2", "--upload", "1MB", "--upload-to", "/"],
            ..SERVED
        },
        Case {
            faults: &["bufferbloat", "large_certificate"],
            probe: served_with_a_long_chain,
            listener: "h1s",
            link: BLOATED,
            flags: &["--http", "1.1", "--download", "/?size=4MiB"],
            ..SERVED
        },
        Case {
            faults: &["loss", "small_records"],
            listener: "h1s",
            server: &[SMALL_RECORDS],
            link: LOSSY,
            flags: &["--http", "1.1", "--download", "/?size=2MiB"],
            ..SERVED
        },
        Case {
            faults: &["buffered_upload", "short_connections"],
            probe: proxy_that_stores_uploads,
            server: &["keepalive_requests 100;"],
            ..SERVED
        },
    ]
}

/// At least 19 of the same 20 probes must also name every fault that was built. The test prints what each one found.
#[test]
fn costliest_fault_is_named_first_in_19_of_20_probes() {
    if !have(&["nginx", "openssl"]) {
        return;
    }
    let _seat = quiet_seat();
    let cases = [
        faults_of_flow_control(),
        faults_of_writing(),
        faults_of_the_path(),
        pairs_with_windows(),
        pairs_without_windows(),
    ];
    let cases: Vec<Case> = cases.into_iter().flatten().collect();
    assert_eq!(cases.len(), 20);
    let misses = Mutex::new(Misses::default());
    concurrently(AT_A_TIME, cases.iter().collect(), |case| {
        let result = (case.probe)(case);
        let found = faults(&result);
        eprintln!("built {:?}, found {found:?}", case.faults);
        let miss = format!("built {:?}: {result}", case.faults);
        let mut misses = misses.lock().expect("no panic");
        if found.first() != case.faults.first() {
            misses.of_first.push(miss.clone());
        }
        if !case.faults.iter().all(|built| found.contains(built)) {
            misses.of_any.push(miss);
        }
    });
    let Misses { of_first, of_any } = misses.into_inner().expect("no panic");
    for misses in [of_first, of_any] {
        assert!(misses.len() <= MISSES_AT_MOST, "{}", misses.join("\n"));
    }
}

/// Probes that did not find what was built.
#[derive(Default)]
struct Misses {
    /// Probes that did not name the costliest fault first.
    of_first: Vec<String>,
    /// Probes that did not name all faults.
    of_any: Vec<String>,
}

/// Over every version, alternately from nearby and from 30 ms away.
#[test]
fn server_without_a_fault_has_none_in_20_of_20_probes() {
    let _seat = quiet_seat();
    let home = home();
    let port = free_port().to_string();
    let port = port.as_str();
    // With the kernel's usual 208 KiB, the burst of an upload overflows the server's socket if the server waits for a
    // processor: packets really are lost.
    let http3 = [
        "http3.stream_window=16MiB",
        "http3.connection_window=16MiB",
        "http3.receive_buffer=4MiB",
    ];
    let mut arguments = vec!["--https", port, "--h3", port, "--sink"];
    arguments.extend(sets(WIDE));
    arguments.extend(sets(&http3));
    let _server = served::Serving::start(home.path(), &arguments);
    let asks = ["--upload", "1MB", "--download", "/?size=1MiB"];
    let run_once = |run: usize| {
        let link = if run.is_multiple_of(2) { "" } else { FAR };
        let url = format!("https://{}:{port}/", host(link));
        let result = probed(home.path(), &url, link, &asks);
        assert_eq!(faults(&result), [""; 0], "run {run}: {result}");
    };
    concurrently(AT_A_TIME, (0..HEALTHY_RUNS).collect(), run_once);
}

/// Calls `each` with every element of a list, in `at_a_time` threads.
pub(super) fn concurrently<T: Send>(at_a_time: usize, of: Vec<T>, each: impl Fn(T) + Sync) {
    let rest = Mutex::new(of);
    let next = || rest.lock().expect("no panic").pop();
    let work = || {
        while let Some(one) = next() {
            each(one);
        }
    };
    thread::scope(|scope| {
        for _ in 1..at_a_time {
            scope.spawn(work);
        }
        work();
    });
}

/// `--set` before each of these settings.
fn sets<'a>(settings: &[&'a str]) -> Vec<&'a str> {
    let pairs = settings.iter().map(|setting| ["--set", *setting]);
    pairs.flatten().collect()
}

/// The host of a server that listens on 127.0.0.1.
fn host(link: &str) -> &'static str {
    if link.is_empty() {
        "127.0.0.1"
    } else {
        "localhost"
    }
}

/// Probes a URL once, in one round, through a link if there is one.
fn probed(home: &Path, url: &str, link: &str, flags: &[&str]) -> Value {
    let mut command = squall(home);
    command.args(["probe", "--json", "-k", "--rounds", "1"]);
    command.args(["--duration", "20s", "--idle", "0s"]);
    command.args(flags);
    if !link.is_empty() {
        command.args(["--behind", link]);
    }
    let output = command.arg(url).stdin(Stdio::null()).output();
    stdout_json(&output.expect("squall starts"))
}

fn served(case: &Case) -> Value {
    served_with(case, &[])
}

/// `squall serve` with the settings of a case, and further arguments.
fn served_with(case: &Case, more: &[&str]) -> Value {
    let home = home();
    let mut arguments = vec!["--sink"];
    arguments.extend(more);
    arguments.extend(sets(case.server));
    let server = Serving::start(&[case.listener], &arguments);
    let scheme = match case.listener {
        "h1" | "h2c" => "http",
        _ => "https",
    };
    let port = server.address(case.listener).port();
    let url = format!("{scheme}://{}:{port}{}", host(case.link), case.target);
    probed(home.path(), &url, case.link, case.flags)
}

/// Serves a certificate, and sends three unrelated ones of 4 kB each after it.
fn served_with_a_long_chain(case: &Case) -> Value {
    let home = home();
    let folder = home.path();
    write_certificate(folder, CERTIFICATE, "subjectAltName=DNS:localhost");
    let names: Vec<String> = (0..52).map(|n| format!("DNS:{n:060}.test")).collect();
    let names = format!("subjectAltName={}", names.join(","));
    write_certificate(folder, "issuer.pem", &names);
    let read = |name: &str| fs::read_to_string(folder.join(name)).expect("a certificate");
    let chain = read(CERTIFICATE) + &read("issuer.pem").repeat(3);
    let path = |name: &str| folder.join(name).display().to_string();
    let (certificate, key) = (path("chain.pem"), path(KEY));
    fs::write(&certificate, chain).expect("a file");
    served_with(case, &["--cert", &certificate, "--key", &key])
}

/// `squall serve` in the far host of a link, so that the server's own congestion window and sysctls count.
fn served_in_the_far_host(case: &Case) -> Value {
    let home = home();
    let program = env!("CARGO_BIN_EXE_squall");
    let settings = sets(case.server).join(" ");
    let serve = format!("'{program}' serve --h2c 0.0.0.0:8080 --sink {settings}");
    let output = squall(home.path())
        .args(["link", "--quiet", "--delay", "15ms", "--serve", &serve])
        .args(["--", program, "probe", "--json", "--rounds", "1"])
        .args(["--duration", "20s", "--idle", "0s"])
        .args(case.flags)
        .arg("http://server:8080/")
        .stdin(Stdio::null())
        .output();
    stdout_json(&output.expect("squall starts"))
}

/// nginx advertises HTTP/3 on a port whose datagrams no program reads.
fn http3_that_is_dropped(case: &Case) -> Value {
    let silent = UdpSocket::bind((Ipv4Addr::LOCALHOST, 0)).expect("a port");
    let udp = silent.local_addr().expect("an address").port();
    let bench = Bench::secure();
    let home = bench.home.path().display();
    let server = format!(
        "listen 127.0.0.1:{} ssl http2; ssl_protocols TLSv1.2 TLSv1.3;
         ssl_certificate {home}/{CERTIFICATE}; ssl_certificate_key {home}/{KEY};
         add_header alt-svc 'h3=\":{udp}\"; ma=60';
         location / {{ return 200 \"hello\\n\"; }}",
        bench.port
    );
    let _nginx = nginx_with(&bench, &server);
    let url = format!("https://127.0.0.1:{}/", bench.port);
    probed(bench.home.path(), &url, case.link, case.flags)
}

/// nginx stores uploads before it passes them on, to a server that takes 0.25 s for 2 MB.
fn proxy_that_stores_uploads(case: &Case) -> Value {
    let bench = Bench::new();
    let upstream = serve(read_slowly);
    let server = format!(
        "listen 127.0.0.1:{} http2; client_max_body_size 0; {}
         location / {{ proxy_pass http://{upstream}; }}",
        bench.port,
        case.server.concat()
    );
    let _nginx = nginx_with(&bench, &server);
    let url = format!("http://127.0.0.1:{}/", bench.port);
    let flags = ["--http", "2", "--upload", "2MB"];
    probed(bench.home.path(), &url, case.link, &flags)
}

fn one_response_after_the_other(case: &Case) -> Value {
    let home = home();
    let url = format!("http://{}/", serve(respond_in_turn));
    probed(home.path(), &url, case.link, &["--http", "2"])
}

/// Reads a request over HTTP/1.1, its body at no more than 8 MB/s, and responds without a body.
fn read_slowly(mut stream: TcpStream) -> io::Result<()> {
    const NANOS_PER_BYTE: u64 = 125;
    let mut reader = BufReader::new(stream.try_clone()?);
    let Some(asked) = ReceivedRequest::read_head(&mut reader)? else {
        return Ok(());
    };
    let mut body = reader.take(asked.body_bytes()? as u64);
    let mut piece = vec![0; 64 * 1024];
    loop {
        let count = body.read(&mut piece)?;
        if count == 0 {
            break;
        }
        thread::sleep(Duration::from_nanos(count as u64 * NANOS_PER_BYTE));
    }
    stream.write_all(b"HTTP/1.1 200 OK\r\ncontent-length: 0\r\nconnection: close\r\n\r\n")
}

/// `:method: GET` and `:status: 200` (RFC 7541, appendix A).
const GET: u8 = 0x82;
const OK: u8 = 0x88;

/// Speaks HTTP/2 and sends each response completely before it reads on: 12 MiB to GET, no body to other requests.
fn respond_in_turn(stream: TcpStream) -> io::Result<()> {
    serve_in_turn(stream, |stream, request| {
        // squall's client sends the method first, and neither padding nor a priority.
        let is_get = request.payload.first() == Some(&GET);
        respond(stream, request.stream, is_get)
    })
}

fn respond(stream: &mut TcpStream, id: u32, is_long: bool) -> io::Result<()> {
    const PIECE: [u8; 16_384] = [b'x'; 16_384];
    const PIECES: usize = 768;
    // About 8 MB/s: a fast response would be over before the client sends the next request.
    const PAUSE: Duration = Duration::from_millis(2);
    let ends = |is_last: bool| if is_last { END_STREAM } else { 0 };
    stream.write_all(&frame(HEADERS, END_HEADERS | ends(!is_long), id, &[OK]))?;
    let pieces = if is_long { PIECES } else { 0 };
    for n in 1..=pieces {
        stream.write_all(&frame(DATA, ends(n == PIECES), id, &PIECE))?;
        thread::sleep(PAUSE);
    }
    Ok(())
}
