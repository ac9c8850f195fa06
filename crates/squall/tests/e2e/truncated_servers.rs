//! TLS servers that cut off a response midway through its body, against `squall fetch` and `squall load`. Of these,
//! only a body that extends to the end of the connection and is followed by close_notify is complete (RFC 9112, section
//! 9.8; RFC 8446, section 6.1).
//!
//! Clients that cut off are in `truncated_clients`.

use std::fs;
use std::io;
use std::net::{SocketAddr, TcpStream};
use std::path::Path;
use std::sync::atomic::AtomicBool;
use std::sync::atomic::Ordering::Relaxed;
use std::sync::{Arc, Mutex};
use std::thread;
use std::time::Duration;

use squall_base::plan::TlsVersion;
use squall_base::record::Outcome;
use squall_http::tls::ServerContext;
use squall_record::read_requests;
use tempfile::TempDir;

use crate::bare_tls::{BareTls, CUTS, Cut, server_context};
use crate::bounded::{self, ClientOutput, check_each};
use crate::hostile_servers::{HEADERS, SETTINGS, has_headers};
use crate::stand_ins::serve;
use crate::support::{OtherWork, bench, say_disturbed, squall, wait_for};

/// `--timeout` of fetch; `-D` and `--drain` of load: for a client that must wait for it, and for one that need not.
const TIMEOUT: &str = "3s";
const LONG_TIMEOUT: &str = "60s";

/// Time limits on a busy machine, for a client that need not wait for its timeout and for one that must.
const SOON: Duration = Duration::from_millis(2_500);
const MOST: Duration = Duration::from_secs(9);

/// The number of cases that run in parallel.
const AT_ONCE: usize = 8;

/// A response whose body is cut off.
#[derive(Clone, Copy)]
pub(crate) struct Body {
    pub(crate) name: &'static str,
    pub(crate) alpn: &'static str,
    /// What is sent of it: its body begins with "abc".
    pub(crate) begins: &'static [&'static [u8]],
    /// What would have completed or continued it.
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

/// How the pieces of a response arrive.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Pace {
    /// In one write, together with the cut.
    AtOnce,
    /// Each is read before the next is written.
    OneByOne,
}

/// One response and how it is delivered.
#[derive(Clone, Copy)]
struct Case {
    body: Body,
    cut: Cut,
    pace: Pace,
    version: TlsVersion,
}

fn cases() -> Vec<Case> {
    let mut cases = Vec::new();
    // Ordered by cut, so that slow cases run at the same time.
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

/// A server over TLS 1.3 that sends this body to each client and cuts it off.
pub(crate) fn start(body: Body, cut: Cut) -> SocketAddr {
    Case::one_by_one(body, cut).start()
}

/// Such a server, which cuts a body off only once `may_cut` is set.
pub(crate) fn start_held(body: Body, cut: Cut, may_cut: Arc<AtomicBool>) -> SocketAddr {
    let case = Case::one_by_one(body, cut);
    let context = server_context(case.version, body.alpn);
    serve(move |stream| {
        let tls = case.begin(stream, &context)?;
        wait_for("the clients to have the beginning", || {
            may_cut.load(Relaxed).then_some(())
        });
        case.cut(tls)
    })
}

/// Whether a body cut off in this way is complete.
pub(crate) fn is_whole(body: Body, cut: Cut) -> bool {
    let is_said = matches!(cut, Cut::CloseNotify | Cut::CloseNotifyAndSilence);
    is_said && body.name == UNTIL_END
}

impl Case {
    fn one_by_one(body: Body, cut: Cut) -> Case {
        Case {
            body,
            cut,
            pace: Pace::OneByOne,
            version: TlsVersion::Tls13,
        }
    }

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
        let context = server_context(self.version, self.body.alpn);
        serve(move |stream| self.cut(self.begin(stream, &context)?))
    }

    /// Sends the beginning of the response once the request has arrived.
    fn begin(self, stream: TcpStream, context: &ServerContext) -> io::Result<BareTls> {
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
        Ok(tls)
    }

    fn cut(self, tls: BareTls) -> io::Result<()> {
        if let Some(tls) = tls.cut(self.cut, self.body.more)? {
            tls.outlast();
        }
        Ok(())
    }

    fn is_whole(&self) -> bool {
        is_whole(self.body, self.cut)
    }

    /// The outcome of load's request.
    fn outcome(&self) -> Outcome {
        match self.cut {
            _ if self.is_whole() => Outcome::Answered,
            Cut::HalfRecordAndSilence => Outcome::Censored,
            Cut::BadRecord => Outcome::ProtocolError,
            _ => Outcome::ConnectionClosed,
        }
    }

    /// Runs the command against this server, in that folder. Returns how long it took.
    fn check(
        self,
        home: &Path,
        command: &str,
        arguments: fn(&'static str) -> Vec<&'static str>,
    ) -> Duration {
        let name = self.name();
        let timeout = match self.cut {
            Cut::HalfRecordAndSilence => TIMEOUT,
            _ => LONG_TIMEOUT,
        };
        let http = match self.body.alpn {
            "h2" => "2",
            _ => "1.1",
        };
        let address = self.start();
        let mut client = squall(home);
        client
            .args([command, "-k", "--http", http])
            .args(arguments(timeout))
            .arg(format!("https://{address}/"));
        let name = format!("{command}, {name}");
        let ClientOutput {
            status,
            took,
            output,
            ..
        } = bounded::run(&mut client, home, MOST, &name);
        let expected = if self.is_whole() { 0 } else { 1 };
        assert_eq!(status.code(), Some(expected), "{name}: {output}");
        assert!(!output.contains("panicked"), "{name}: {output}");
        took
    }

    /// Whether the client took as long as if it had waited for its timeout, although the server is not silent.
    fn is_late(&self, took: Duration) -> bool {
        self.cut != Cut::HalfRecordAndSilence && took >= SOON
    }
}

/// Checks all cases; `then` examines what each left in its folder. Clients that are late beside others run again, alone.
fn check(
    command: &str,
    arguments: fn(&'static str) -> Vec<&'static str>,
    then: impl Fn(&Case, &Path) + Sync,
) {
    let late = Mutex::new(Vec::new());
    check_each(&cases(), AT_ONCE, |case, home| {
        let took = case.check(home, command, arguments);
        then(case, home);
        if case.is_late(took) {
            late.lock().expect("no panic").push((*case, took));
        }
    });
    let late = late.into_inner().expect("no panic");
    if late.is_empty() {
        return;
    }
    let _alone = bench();
    for (case, beside_others) in late {
        let home = TempDir::new().expect("a temporary folder");
        let other_work = OtherWork::watch();
        let took = case.check(home.path(), command, arguments);
        let name = case.name();
        let said = format!("{command}, {name}: {beside_others:?} beside others, {took:?} alone");
        assert!(
            !case.is_late(took) || other_work.disturbs_a_second(),
            "{said}"
        );
        say_disturbed(&said);
    }
}

#[test]
fn fetch_reports_truncated_bodies_as_incomplete() {
    let fetch = |timeout| vec!["--timeout", timeout, "-o", "body"];
    check("fetch", fetch, |case, home| {
        let read = |name| fs::read_to_string(home.join(name)).expect("text");
        let (name, said) = (case.name(), read("stderr"));
        if case.is_whole() {
            assert_eq!(
                (read("body").as_str(), said.as_str()),
                ("abc", ""),
                "{name}"
            );
        } else {
            let words = [
                "squall: cannot get ",
                "squall: no complete response within 3s",
            ];
            let waits = usize::from(case.outcome() == Outcome::Censored);
            assert!(said.contains(words[waits]), "{name}: {said}");
            // Nothing from the broken record may be in the body.
            assert!(["", "abc"].contains(&read("body").as_str()), "{name}");
        }
    });
}

#[test]
fn load_records_truncated_bodies_as_incomplete() {
    let load = |timeout| {
        let asks = ["-n", "1", "--output", "requests.parquet"];
        [&asks[..], &["-D", timeout, "--drain", timeout]].concat()
    };
    check("load", load, |case, home| {
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
