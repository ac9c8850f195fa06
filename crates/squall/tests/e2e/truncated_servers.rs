//! Servers over TLS that cut an answer off in the middle of its body, against `squall fetch` and `squall load`: only a body
//! that goes to the end of the connection, and has close_notify behind it, is whole (RFC 9112, section 9.8; RFC 8446,
//! section 6.1).
//!
//! The clients that do the same are in `truncated_clients`.

use std::fs;
use std::io;
use std::net::{Ipv4Addr, SocketAddr, TcpListener, TcpStream};
use std::path::Path;
use std::thread;
use std::time::Duration;

use squall_base::plan::TlsVersion;
use squall_base::record::Outcome;
use squall_http::tls::ServerContext;
use squall_record::read_requests;

use crate::bare_tls::{BareTls, CUTS, Cut, server_context};
use crate::bounded::{self, Ended, check_each};
use crate::hostile_servers::{HEADERS, SETTINGS, has_headers};
use crate::support::squall;

/// `--timeout` of fetch; `-D` of load, and its `--drain`.
const TIMEOUT: &str = "3s";

/// What a client may take that has not to wait for its timeout, and what one may take that has, on a busy machine.
const SOON: Duration = Duration::from_millis(2_500);
const MOST: Duration = Duration::from_secs(9);

/// How many are run at once.
const AT_ONCE: usize = 8;

/// An answer whose body is cut off.
#[derive(Clone, Copy)]
pub(crate) struct Body {
    pub(crate) name: &'static str,
    pub(crate) alpn: &'static str,
    /// What comes of it: its body begins with "abc".
    pub(crate) begins: &'static [&'static [u8]],
    /// What would have completed it, or what it would have gone on with.
    pub(crate) more: &'static [u8],
}

const UNTIL_END: &str = "until the end";

/// DATA of stream 1: "abc", and "def" with END_STREAM.
const H2_DATA: &[u8] = &[0, 0, 3, 0, 0, 0, 0, 0, 1, b'a', b'b', b'c'];
const H2_END: &[u8] = &[0, 0, 3, 0, 1, 0, 0, 0, 1, b'd', b'e', b'f'];

pub(crate) const BODIES: [Body; 5] = [
    Body {
        name: "a length",
        alpn: "http/1.1",
        begins: &[b"HTTP/1.1 200 OK\r\ncontent-length: 6\r\n\r\nabc"],
        more: b"def",
    },
    Body {
        name: "half a chunk",
        alpn: "http/1.1",
        begins: &[b"HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n6\r\nabc"],
        more: b"def\r\n0\r\n\r\n",
    },
    Body {
        name: "no last chunk",
        alpn: "http/1.1",
        begins: &[b"HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n3\r\nabc\r\n"],
        more: b"0\r\n\r\n",
    },
    Body {
        name: UNTIL_END,
        alpn: "http/1.1",
        begins: &[b"HTTP/1.1 200 OK\r\n\r\n", b"abc"],
        more: b"def",
    },
    Body {
        name: "DATA",
        alpn: "h2",
        begins: &[SETTINGS, HEADERS, H2_DATA],
        more: H2_END,
    },
];

/// How the pieces of an answer come.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Pace {
    /// With one write, the cut among them.
    AtOnce,
    /// Each read before the next is written.
    OneByOne,
}

/// One answer and what becomes of it.
#[derive(Clone, Copy)]
struct Case {
    body: Body,
    cut: Cut,
    pace: Pace,
    version: TlsVersion,
}

fn cases() -> Vec<Case> {
    let mut cases = Vec::new();
    // By cuts, so that those that take their time do so together.
    for cut in CUTS {
        for body in BODIES {
            for (pace, version) in [
                (Pace::AtOnce, TlsVersion::Tls13),
                (Pace::OneByOne, TlsVersion::Tls12),
            ] {
                cases.push(Case {
                    body,
                    cut,
                    pace,
                    version,
                });
            }
        }
    }
    cases
}

/// A server of bare TLS: it answers each client with that, and cuts it off.
pub(crate) fn start(body: Body, cut: Cut, version: TlsVersion) -> SocketAddr {
    Case {
        body,
        cut,
        pace: Pace::OneByOne,
        version,
    }
    .start()
}

/// Whether a body that is cut off so has come to its end.
pub(crate) fn is_whole(body: Body, cut: Cut) -> bool {
    let is_said = matches!(cut, Cut::CloseNotify | Cut::CloseNotifyAndSilence);
    is_said && body.name == UNTIL_END
}

impl Case {
    fn name(&self) -> String {
        let Case {
            body,
            cut,
            pace,
            version,
        } = self;
        format!("{}, {cut:?}, {pace:?}, {version:?}", body.name)
    }

    fn start(self) -> SocketAddr {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).expect("a listener");
        let address = listener.local_addr().expect("its address");
        let context = server_context(self.version, self.body.alpn);
        thread::spawn(move || {
            for stream in listener.incoming().flatten() {
                let context = context.clone();
                // Its client may go at any time.
                thread::spawn(move || {
                    let _ = self.serve(stream, &context);
                });
            }
        });
        address
    }

    fn serve(self, stream: TcpStream, context: &ServerContext) -> io::Result<()> {
        stream.set_nodelay(true)?;
        let mut tls = BareTls::server(stream, context)?;
        let mut begins = self.body.begins;
        if let Some(rest) = begins.strip_prefix(&[SETTINGS]) {
            tls.say(SETTINGS);
            tls.flush()?;
            begins = rest;
        }
        tls.hear_until(|heard| match self.body.alpn {
            "h2" => has_headers(heard),
            _ => heard.ends_with(b"\r\n\r\n"),
        })?;
        for piece in begins {
            tls.say(piece);
            if self.pace == Pace::OneByOne {
                tls.flush()?;
                thread::sleep(Duration::from_millis(30));
            }
        }
        if let Some(tls) = tls.cut(self.cut, self.body.more)? {
            tls.outlast();
        }
        Ok(())
    }

    fn is_whole(&self) -> bool {
        is_whole(self.body, self.cut)
    }

    /// What becomes of load's request.
    fn outcome(&self) -> Outcome {
        match self.cut {
            _ if self.is_whole() => Outcome::Answered,
            Cut::HalfRecordAndSilence => Outcome::Censored,
            Cut::BadRecord => Outcome::ProtocolError,
            _ => Outcome::ConnectionClosed,
        }
    }

    /// Runs the command against it, in that folder.
    fn check(self, home: &Path, command: &str, arguments: &[&str]) {
        let name = self.name();
        let http = match self.body.alpn {
            "h2" => "2",
            _ => "1.1",
        };
        let address = self.start();
        let mut client = squall(home);
        client
            .args([command, "-k", "--http", http])
            .args(arguments)
            .arg(format!("https://{address}/"));
        let name = format!("{command}, {name}");
        let Ended {
            status, took, said, ..
        } = bounded::run(&mut client, home, MOST, &name);
        let expected = if self.is_whole() { 0 } else { 1 };
        assert_eq!(status.code(), Some(expected), "{name}: {said}");
        assert!(!said.contains("panicked"), "{name}: {said}");
        if self.cut != Cut::HalfRecordAndSilence {
            assert!(took < SOON, "{name}: {took:?}");
        }
    }
}

/// `then` looks at what each left in its folder.
fn check(command: &str, arguments: &[&str], then: impl Fn(&Case, &Path) + Sync) {
    check_each(&cases(), AT_ONCE, |case, home| {
        case.check(home, command, arguments);
        then(case, home);
    });
}

#[test]
fn fetch_takes_no_part_of_a_body_for_the_whole() {
    let fetch = ["--timeout", TIMEOUT, "-o", "body"];
    check("fetch", &fetch, |case, home| {
        let read = |name| fs::read_to_string(home.join(name)).expect("text");
        let (name, said) = (case.name(), read("stderr"));
        if case.is_whole() {
            assert_eq!(
                (read("body").as_str(), said.as_str()),
                ("abc", ""),
                "{name}"
            );
        } else {
            let words = ["squall: cannot get ", "squall: no whole answer within 3s"];
            let waits = usize::from(case.outcome() == Outcome::Censored);
            assert!(said.contains(words[waits]), "{name}: {said}");
            // What the broken record would have brought is not among it.
            assert!(["", "abc"].contains(&read("body").as_str()), "{name}");
        }
    });
}

#[test]
fn load_records_a_part_of_a_body_as_one() {
    let load = [
        "-n",
        "1",
        "-D",
        TIMEOUT,
        "--drain",
        TIMEOUT,
        "--output",
        "requests.parquet",
    ];
    check("load", &load, |case, home| {
        let name = case.name();
        let said = fs::read_to_string(home.join("stdout")).expect("text");
        let succeeded = if case.is_whole() { "1" } else { "0" };
        let succeeded = format!("{succeeded} succeeded (");
        assert!(said.contains(&succeeded), "{name}: {said}");
        let rows = read_requests(home.join("requests.parquet")).expect("requests.parquet");
        let became: Vec<_> = rows.iter().map(|row| (row.outcome, &row.error)).collect();
        assert_eq!(rows.len(), 1, "{name}: {became:?}");
        assert_eq!(rows[0].outcome, case.outcome(), "{name}: {became:?}");
        assert_eq!(rows[0].status, Some(200), "{name}: {became:?}");
        assert!(rows[0].response_body_bytes <= 3, "{name}: {rows:?}");
    });
}
