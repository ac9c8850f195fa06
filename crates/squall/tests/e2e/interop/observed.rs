//! `squall import pcap` on captures of other programs: nginx as the server of our client, libcurl's HTTP/3 with its own
//! key log, and openssl on both sides for what our own TLS never does. Captures need root and dumpcap.

use std::io::Write;
use std::net::{Ipv4Addr, SocketAddrV4, TcpStream};
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use nix::unistd::geteuid;
use tempfile::TempDir;

use crate::capture::Capture;
use crate::interop::support::answer::Request;
use crate::interop::support::certificate::Certificate;
use crate::interop::support::content::content;
use crate::interop::support::daemon::free_port;
use crate::interop::support::program::{PATIENCE, command, have, run};
use crate::interop::support::{Http, nginx, pycurl, squall};
use crate::observed::{Imported, Rows, check_same};
use crate::scheduled::Watching;
use crate::support::{alone_if_it_fails, seat};

/// Whether captures are possible. If not, prints why.
pub(crate) fn can_capture() -> bool {
    let is_root = geteuid().is_root();
    if !is_root {
        assert!(
            std::env::var_os("SQUALL_REQUIRE_PEERS").is_none(),
            "captures need root"
        );
        eprintln!("skipped: captures need root");
    }
    is_root && have(&["dumpcap", "openssl"])
}

#[test]
fn import_of_nginx_responses_matches_the_clients_record() {
    alone_if_it_fails(seat(), || {
        if !can_capture() || !have(&["nginx"]) {
            return;
        }
        let nginx = nginx::start(&[("file", &content(40_000))]);
        for http in [Http::H1, Http::H1s, Http::H2c, Http::H2] {
            let home = TempDir::new().expect("a temporary folder");
            let port = nginx.address(http).port();
            let capture = Capture::start(home.path(), &format!("tcp port {port}"));
            let mut load = Command::new(env!("CARGO_BIN_EXE_squall"));
            load.current_dir(home.path())
                .args([
                    "load",
                    "--insecure",
                    "--http",
                    http.name(),
                    "-n",
                    "60",
                    "-c",
                    "3",
                    "-m",
                    "4",
                ])
                .args([
                    "--exchanges-to",
                    "exchanges",
                    "--frames-to",
                    "frames",
                    "--key-log",
                    "keys.log",
                ])
                .arg(nginx.url(http, "/file"));
            let watching = Watching::start();
            run(&mut load);
            let schedule = watching.and_then(Watching::end);
            let capture = capture.end(port);
            let keys = home.path().join("keys.log");
            let keys = http.is_tls().then_some(keys.as_path());
            let observed = Imported::of(home.path(), &capture, keys);
            let station = Rows::read(&home.path().join("exchanges"), &home.path().join("frames"));
            assert_eq!(station.exchanges.len(), 60, "{}", http.name());
            check_same(&station, &observed, schedule.as_ref());
        }
    });
}

/// `openssl s_server`, killed on drop.
struct Server {
    child: Child,
    port: u16,
    home: TempDir,
}

impl Server {
    /// Starts it with these flags and waits until it listens; with `-www` it responds to any request with a page that
    /// it generates.
    fn start(flags: &[&str]) -> Server {
        let home = TempDir::new().expect("a temporary folder");
        let certificate = Certificate::create(home.path());
        let port = free_port();
        let child = command("openssl")
            .args(["s_server", "-accept", &format!("127.0.0.1:{port}")])
            .args([Path::new("-cert"), &certificate.certificate])
            .args([Path::new("-key"), &certificate.key])
            .args(flags)
            // s_server exits when its stdin closes.
            .stdin(Stdio::piped())
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn()
            .expect("openssl starts");
        let server = Server { child, port, home };
        let give_up = Instant::now() + PATIENCE;
        while TcpStream::connect(SocketAddrV4::new(Ipv4Addr::LOCALHOST, port)).is_err() {
            assert!(Instant::now() < give_up, "openssl does not listen");
            thread::sleep(Duration::from_millis(20));
        }
        server
    }

    /// Runs `openssl s_client` with these flags and writes `lines` to its stdin with pauses between them. It logs its
    /// TLS secrets.
    fn ask(&self, flags: &[&str], lines: &[&str]) {
        let mut client = command("openssl")
            .current_dir(self.home.path())
            .args(["s_client", "-connect", &format!("127.0.0.1:{}", self.port)])
            .args(["-servername", "test.local", "-keylogfile", "keys.log"])
            .args(flags)
            .stdin(Stdio::piped())
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn()
            .expect("openssl starts");
        let mut input = client.stdin.take().expect("stdin is a pipe");
        for line in lines {
            // s_client reads one line at a time, and only after the handshake.
            thread::sleep(Duration::from_millis(500));
            // It may already have exited, together with the server.
            let _ = input.write_all(line.as_bytes());
        }
        thread::sleep(Duration::from_millis(500));
        drop(input);
        client.wait().expect("it can be waited for");
    }

    /// Captures the traffic of `speak` and imports it.
    fn capture(&self, speak: impl FnOnce(&Server)) -> Imported {
        let capture = Capture::start(self.home.path(), &format!("tcp port {}", self.port));
        speak(self);
        let capture = capture.end(self.port);
        Imported::of(
            self.home.path(),
            &capture,
            Some(&self.home.path().join("keys.log")),
        )
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

const GET: &str = "GET / HTTP/1.0\r\nhost: test.local\r\n\r\n";

/// Checks that every connection was parsed to its end and carried one request with a 200 response.
fn check_answered(observed: &Imported, connections: usize) {
    let found = observed.connections();
    assert_eq!(found.len(), connections, "{}", observed.summary);
    for connection in found {
        assert!(connection["opaque"].is_null(), "{connection}");
        assert_eq!(connection["protocol"], "h1s", "{connection}");
        assert_eq!(connection["tls"]["server_name"], "test.local");
        assert!(connection["tls"]["done_ns"].is_number());
    }
    assert_eq!(observed.rows.exchanges.len(), connections);
    for row in &observed.rows.exchanges {
        assert_eq!(row.status, Some(200), "{row:?}");
        assert!(
            row.response_last.is_some() && row.response_body_bytes > 1000,
            "{row:?}"
        );
    }
}

/// libcurl sends several datagrams in one system call (GSO), and the capture records them as one, as it does for our
/// server. tshark reads only the first of them, so the test compares only what both programs can see.
#[test]
fn import_decrypts_libcurls_http3_with_its_key_log() {
    let _seat = seat();
    if !can_capture() || !have(&["pycurl"]) {
        return;
    }
    let content = content(60_000);
    let server = squall::serve_files(&[("file", &content)]);
    let home = TempDir::new().expect("a temporary folder");
    let keys = home.path().join("keys.log");
    let port = server.address(Http::H3).port();
    let capture = Capture::start(home.path(), &format!("port {port}"));
    let url = server.url(Http::H3, "/file");
    let answers = pycurl::fetch_with_key_log(&Request::get(&url), 8, &keys);
    assert!(answers.iter().all(|answer| answer.body == content));
    let capture = capture.end(port);
    let observed = Imported::of(home.path(), &capture, Some(&keys));
    let [connection] = observed.connections()[..] else {
        panic!("one connection: {}", observed.summary);
    };
    assert_eq!(connection["protocol"], "h3");
    assert_eq!(connection["opaque"], serde_json::Value::Null);
    assert_eq!(connection["tls"]["alpn"], "h3");
    assert_eq!(observed.rows.exchanges.len(), 8);
    for exchange in &observed.rows.exchanges {
        assert_eq!((exchange.status, exchange.reset), (Some(200), None));
        assert_eq!(exchange.response_body_bytes, content.len() as u64);
        let frames = observed.rows.frames.iter();
        let of_stream = frames.filter(|row| row.frame.stream == Some(exchange.stream));
        assert!(of_stream.count() > 40, "40 packets at least carry a body");
    }
}

#[test]
fn import_follows_a_hello_retry_request() {
    alone_if_it_fails(seat(), || {
        if can_capture() {
            let server = Server::start(&[
                "-www",
                "-groups",
                "P-384",
                "-ciphersuites",
                "TLS_AES_256_GCM_SHA384",
            ]);
            let observed = server.capture(|server| server.ask(&[], &[GET]));
            check_answered(&observed, 1);
            let tls = &observed.connections()[0]["tls"];
            assert_eq!(
                (&tls["retried"], &tls["cipher"]),
                (&true.into(), &0x1302.into())
            );
        }
    });
}

#[test]
fn import_follows_tls_key_updates() {
    alone_if_it_fails(seat(), || {
        if can_capture() {
            let server = Server::start(&["-www", "-ciphersuites", "TLS_CHACHA20_POLY1305_SHA256"]);
            // K: a KeyUpdate that requests one in return; k: one that does not. (openssl 3.0 sends no response after both.)
            let observed = server.capture(|server| {
                server.ask(&[], &["K\n", GET]);
                server.ask(&[], &["k\n", GET]);
            });
            check_answered(&observed, 2);
            assert_eq!(observed.connections()[0]["tls"]["cipher"], 0x1303);
        }
    });
}

#[test]
fn import_detects_resumed_tls_sessions() {
    alone_if_it_fails(seat(), || {
        if !can_capture() {
            return;
        }
        for (version, number) in [("-tls1_2", 0x0303), ("-tls1_3", 0x0304)] {
            let server = Server::start(&["-www"]);
            let observed = server.capture(|server| {
                server.ask(&[version, "-sess_out", "session"], &[GET]);
                server.ask(&[version, "-sess_in", "session"], &[GET]);
            });
            check_answered(&observed, 2);
            let found = observed.connections();
            let resumed = [0, 1].map(|at: usize| found[at]["tls"]["resumed"].as_bool());
            assert_eq!(resumed, [Some(false), Some(true)], "{version}");
            assert_eq!(found[1]["tls"]["version"], number);
        }
    });
}

#[test]
fn import_decrypts_early_data_whether_accepted_or_rejected() {
    alone_if_it_fails(seat(), || {
        if !can_capture() {
            return;
        }
        // One server accepts early data. The other rejects it, so the client sends the request again after the handshake.
        for (flags, is_taken) in [(&["-early_data"][..], true), (&[][..], false)] {
            let server = Server::start(&[flags, &["-max_early_data", "4096"]].concat());
            std::fs::write(server.home.path().join("early"), GET).expect("a file");
            let more = if is_taken { &[][..] } else { &[GET][..] };
            let observed = server.capture(|server| {
                server.ask(&["-tls1_3", "-sess_out", "session"], &["a line\n"]);
                server.ask(
                    &["-tls1_3", "-sess_in", "session", "-early_data", "early"],
                    more,
                );
            });
            let connections = observed.connections();
            assert_eq!(connections.len(), 2, "{}", observed.summary);
            let tls = &connections[1]["tls"];
            assert_eq!(tls["early_data"], is_taken, "{}", observed.summary);
            assert_eq!(tls["deciphered"], true);
            // The server sends no response; it prints what it reads.
            let rows: Vec<_> = observed
                .rows
                .exchanges
                .iter()
                .filter(|row| row.connection as u64 == connections[1]["connection"])
                .collect();
            assert_eq!(rows.len(), 1, "{}", observed.summary);
            let extent = rows[0].request_extent.expect("all of the request");
            assert_eq!((extent.start, extent.end), (0, GET.len() as u64));
            assert_eq!((extent.record_first, rows[0].status), (Some(0), None));
        }
    });
}
