//! Servers that mean harm, or nothing at all, against `squall fetch` and `squall load`: the person gets an outcome in
//! words and exit code 1 within a bounded time.

use std::io::{Read, Write};
use std::net::{Ipv4Addr, SocketAddr, TcpListener, TcpStream};
use std::thread;
use std::time::{Duration, Instant};

use tempfile::TempDir;

use crate::support::{bench, squall, stderr, stdout};

/// `--timeout` of fetch and `-D` of load. Load waits 5 s more for answers.
const TIMEOUT: &str = "1s";

/// What either may take, on a busy machine.
const MOST: Duration = Duration::from_secs(9);

/// How long a server keeps a client that does not go.
const PATIENCE: Duration = Duration::from_secs(20);

const SETTINGS: &[u8] = &[0, 0, 0, 4, 0, 0, 0, 0, 0];
/// CANCEL on stream 1.
const RESET: &[u8] = &[0, 0, 4, 3, 0, 0, 0, 0, 1, 0, 0, 0, 8];
/// NO_ERROR, and no stream was taken.
const GOAWAY: &[u8] = &[0, 0, 8, 7, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0];
/// ":status: 200" on stream 1, which goes on.
const HEADERS: &[u8] = &[0, 0, 1, 1, 4, 0, 0, 0, 1, 0x88];
/// The same without END_HEADERS.
const OPEN_HEADERS: &[u8] = &[0, 0, 1, 1, 0, 0, 0, 0, 1, 0x88];
const CONTINUATION: &[u8] = &[0, 0, 5, 9, 0, 0, 0, 0, 1, 0, 1, b'x', 1, b'y'];
const PING: &[u8] = &[0, 0, 8, 6, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0];
/// "abc" on stream 1, which goes on.
const DATA: &[u8] = &[0, 0, 3, 0, 0, 0, 0, 0, 1, b'a', b'b', b'c'];
/// A record of a handshake of 100 bytes, and the start of a ServerHello.
const HALF_HELLO: &[u8] = &[0x16, 3, 3, 0, 100, 2, 0, 0, 96, 3, 3];

/// What a server does with a connection once it has read something.
#[derive(Clone, Copy)]
struct Server {
    name: &'static str,
    /// The URL's scheme, and `--http`.
    spoken: (&'static str, &'static str),
    says: &'static [&'static [u8]],
    then: Then,
}

#[derive(Clone, Copy)]
enum Then {
    Closes,
    KeepsSilent,
    /// The same again and again.
    Repeats(&'static [u8]),
}
use Then::{Closes, KeepsSilent, Repeats};

const H1: (&str, &str) = ("http", "1.1");
const H2C: (&str, &str) = ("http", "2");
const TLS: (&str, &str) = ("https", "2");

const OK: &[u8] = b"HTTP/1.1 200 OK\r\n";

fn servers() -> Vec<Server> {
    let server = |name, spoken, says: &'static [&'static [u8]], then| Server {
        name,
        spoken,
        says,
        then,
    };
    vec![
        server("closes at once", H1, &[], Closes),
        server("never answers", H1, &[], KeepsSilent),
        server("garbage", H1, &[b"\x01\x02garbage\r\n\r\n"], KeepsSilent),
        server("endless garbage", H1, &[], Repeats(b"garbage")),
        server("endless fields", H1, &[OK], Repeats(b"x: y\r\n")),
        server("an endless field", H1, &[OK, b"x: "], Repeats(b"y")),
        server(
            "endless 1xx",
            H1,
            &[],
            Repeats(b"HTTP/1.1 103 Early Hints\r\n\r\n"),
        ),
        server(
            "half a body",
            H1,
            &[OK, b"content-length: 9\r\n\r\nabc"],
            Closes,
        ),
        server(
            "half a chunk",
            H1,
            &[OK, b"transfer-encoding: chunked\r\n\r\n9\r\nabc"],
            Closes,
        ),
        server(
            "no chunk",
            H1,
            &[OK, b"transfer-encoding: chunked\r\n\r\nxyz\r\n"],
            KeepsSilent,
        ),
        server(
            "a body that stops",
            H1,
            &[OK, b"content-length: 9\r\n\r\nabc"],
            KeepsSilent,
        ),
        server("closes at once", H2C, &[], Closes),
        server("never answers", H2C, &[], KeepsSilent),
        server("SETTINGS and no more", H2C, &[SETTINGS], KeepsSilent),
        server("garbage", H2C, &[], Repeats(b"garbage")),
        server("HTTP/1.1", H2C, &[OK, b"\r\n"], KeepsSilent),
        server("RST_STREAM", H2C, &[SETTINGS, RESET], KeepsSilent),
        server("GOAWAY", H2C, &[SETTINGS, GOAWAY], KeepsSilent),
        server("GOAWAY and the end", H2C, &[SETTINGS, GOAWAY], Closes),
        server(
            "CONTINUATION",
            H2C,
            &[SETTINGS, OPEN_HEADERS],
            Repeats(CONTINUATION),
        ),
        server("PING", H2C, &[SETTINGS], Repeats(PING)),
        server("half a body", H2C, &[SETTINGS, HEADERS, DATA], Closes),
        server("closes at once", TLS, &[], Closes),
        server("never answers", TLS, &[], KeepsSilent),
        server("garbage", TLS, &[b"garbage, and more of it"], KeepsSilent),
        server("half a hello", TLS, &[HALF_HELLO], Closes),
        server("a hello that stops", TLS, &[HALF_HELLO], KeepsSilent),
    ]
}

impl Server {
    /// Serves whoever comes, for as long as the test runs.
    fn start(self) -> SocketAddr {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).expect("a listener");
        let address = listener.local_addr().expect("its address");
        thread::spawn(move || {
            for stream in listener.incoming().flatten() {
                thread::spawn(move || self.serve(stream));
            }
        });
        address
    }

    /// Its client may go at any time.
    fn serve(self, mut stream: TcpStream) {
        let _ = stream.set_read_timeout(Some(PATIENCE));
        let _ = stream.set_write_timeout(Some(PATIENCE));
        let _ = stream.read(&mut [0; 4_096]);
        let _ = stream.write_all(&self.says.concat());
        match self.then {
            Closes => {}
            KeepsSilent => while matches!(stream.read(&mut [0; 4_096]), Ok(1..)) {},
            Repeats(bytes) => {
                let many = bytes.repeat(1_000);
                let began = Instant::now();
                while began.elapsed() < PATIENCE && stream.write_all(&many).is_ok() {}
            }
        }
    }

    /// Runs the command against it.
    fn check(self, command: &str, arguments: &[&str], words: &[&str]) {
        let home = TempDir::new().expect("a temporary folder");
        let (scheme, http) = self.spoken;
        let name = format!("{command}, {scheme}, {http}: {}", self.name);
        let url = format!("{scheme}://{}/", self.start());
        let began = Instant::now();
        let output = squall(home.path())
            .args([command, "-k", "--http", http])
            .args(arguments)
            .arg(url)
            .output()
            .expect("squall starts");
        let said = stdout(&output) + &stderr(&output);
        assert_eq!(output.status.code(), Some(1), "{name}: {said}");
        assert!(began.elapsed() < MOST, "{name}: {:?}", began.elapsed());
        assert!(
            words.iter().any(|words| said.contains(words)),
            "{name}: {said:?}"
        );
        assert!(!said.contains("panicked"), "{name}: {said}");
        eprintln!("{name}: {}", said.trim_end());
    }
}

/// All at once, as most of them wait.
fn check(servers: &[Server], command: &str, arguments: &[&str], words: &[&str]) {
    let _bench = bench();
    thread::scope(|scope| {
        for server in servers {
            scope.spawn(move || server.check(command, arguments, words));
        }
    });
}

#[test]
fn fetch_says_what_became_of_it() {
    let words = ["squall: cannot get ", "squall: no whole answer within 1s"];
    check(&servers(), "fetch", &["--timeout", TIMEOUT], &words);
}

/// Without the servers that keep a handshake of TLS waiting: load gives up on these after 15 s.
#[test]
fn load_says_what_became_of_it() {
    let mut servers = servers();
    servers.retain(|server| server.spoken != TLS || !matches!(server.then, KeepsSilent));
    let words = ["0 succeeded (0 %)"];
    check(&servers, "load", &["-n", "2", "-D", TIMEOUT], &words);
}
