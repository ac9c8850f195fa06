//! TLS clients that cut off an upload or a handshake midway, against `squall serve`: a partial upload is never taken
//! for a whole one, the access log shows it, other clients get responses meanwhile, and no connection is kept too long.
//!
//! Violations of HTTP itself are in `hostile`, servers that cut off in `truncated_servers`.

use std::fs;
use std::io::{ErrorKind, Read, Write};
use std::net::{Shutdown, SocketAddr};
use std::thread;
use std::time::{Duration, Instant};

use squall_base::plan::{TlsSettings, TlsVersion};
use squall_http::tls::{ClientContext, Session, Trust};
use tempfile::TempDir;

use crate::bare_tls::{BareTls, CUTS, Cut, End};
use crate::serving::{Serving, connect};
use crate::support::{OtherWork, alone_if_it_fails, say_disturbed, seat};

/// The server's idle timeout, and the time by which an idle client must be disconnected: the server checks once a
/// second.
const IDLE: &str = "2s";
const IDLE_TIME: Duration = Duration::from_secs(2);
const GIVEN_UP: Duration = Duration::from_secs(6);

/// The time within which a client sees its connection end when no timeout is involved.
const SOON: Duration = Duration::from_millis(1_500);

/// The memory limit for the server, in KiB, beside the pages of its program. An idle server takes 4 MiB, and a TLS
/// connection with a record in transit takes 16 KiB for the record and as much again for what was sent before it.
const MOST_KIB: u64 = 32 * 1024;
const MANY: usize = 200;
/// The server's time for many clients: their handshakes take up to two seconds beside other tests.
const LONG_IDLE_TIME: Duration = Duration::from_secs(8);

/// An upload that begins with "abc".
pub(crate) struct Upload {
    pub(crate) name: &'static str,
    /// The listener, and the ALPN protocol used there.
    pub(crate) kind: &'static str,
    pub(crate) alpn: &'static str,
    pub(crate) begins: &'static [u8],
    /// What would complete it.
    pub(crate) more: &'static [u8],
}

pub(crate) const UPLOADS: [Upload; 3] = [
    Upload {
        name: "length",
        kind: "h1s",
        alpn: "http/1.1",
        begins: b"POST /length HTTP/1.1\r\nhost: a\r\ncontent-length: 6\r\n\r\nabc",
        more: b"def",
    },
    Upload {
        name: "chunks",
        kind: "h1s",
        alpn: "http/1.1",
        begins:
            b"POST /chunks HTTP/1.1\r\nhost: a\r\ntransfer-encoding: chunked\r\n\r\n3\r\nabc\r\n",
        more: b"3\r\ndef\r\n0\r\n\r\n",
    },
    // SETTINGS, HEADERS (POST, https, "/data", "a"; RFC 7541, appendix A), DATA; DATA and END_STREAM.
    Upload {
        name: "data",
        kind: "h2",
        alpn: "h2",
        begins: b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n\0\0\0\x04\0\0\0\0\0\
            \0\0\x0c\x01\x04\0\0\0\x01\x83\x87\x04\x05/data\x41\x01a\0\0\x03\0\0\0\0\0\x01abc",
        more: b"\0\0\x03\0\x01\0\0\0\x01def",
    },
];

/// A server with an idle timeout of `IDLE`.
fn serving(more: &[&str]) -> Serving {
    let arguments = [&["--idle-timeout", IDLE], more].concat();
    Serving::start(&["h1", "h1s", "h2", "https"], &arguments)
}

/// Whether a response, of either protocol, has status 200.
pub(crate) fn has_succeeded(alpn: &str, heard: &[u8]) -> bool {
    match alpn {
        // HEADERS whose first field is the static table's ":status: 200".
        "h2" => heard.windows(7).any(|bytes| {
            let [kind, _, stream @ .., field] = bytes else {
                return false;
            };
            (*kind, stream, *field) == (1, &[0, 0, 0, 1], 0x88)
        }),
        _ => heard.starts_with(b"HTTP/1.1 200"),
    }
}

/// Begins the upload, cuts it off, and checks the server's reaction.
fn cut_off(serving: &Serving, upload: &Upload, cut: Cut, version: TlsVersion) {
    let name = format!("{}, {cut:?}, {version:?}", upload.name);
    let mut tls = BareTls::client(serving.address(upload.kind), version, upload.alpn);
    tls.say(upload.begins);
    let began = Instant::now();
    let Some(mut tls) = tls.cut(cut, upload.more).expect("it reads") else {
        return;
    };
    let end = tls.hear_end();
    let took = began.elapsed();
    let (most, ends) = match cut {
        Cut::HalfRecordAndSilence => (GIVEN_UP, End::CloseNotify),
        Cut::BadRecord => (SOON, End::Broken),
        Cut::Fin | Cut::HalfRecordAndFin => (SOON, end.clone()),
        _ => (SOON, End::CloseNotify),
    };
    assert!(took < most, "{name}: {took:?}");
    assert_eq!(end, ends, "{name}");
    let said = String::from_utf8_lossy(tls.heard());
    assert!(!has_succeeded(upload.alpn, tls.heard()), "{name}: {said}");
}

#[test]
fn partial_upload_is_never_taken_for_a_whole_one() {
    let _seat = seat();
    let home = TempDir::new().expect("a temporary folder");
    let log = home.path().join("access.log");
    let log = log.to_str().expect("UTF-8");
    let serving = serving(&["--sink", "--access-log", log]);
    thread::scope(|scope| {
        for upload in &UPLOADS {
            for version in [TlsVersion::Tls12, TlsVersion::Tls13] {
                for cut in CUTS {
                    let serving = &serving;
                    scope.spawn(move || cut_off(serving, upload, cut, version));
                }
            }
        }
        thread::sleep(Duration::from_millis(500));
        serving.check_answers();
    });
    // A complete upload, to show that one would be recognised.
    for upload in &UPLOADS {
        let address = serving.address(upload.kind);
        let mut tls = BareTls::client(address, TlsVersion::Tls13, upload.alpn);
        tls.say(upload.begins);
        tls.say(upload.more);
        tls.flush().expect("it reads");
        let answered = tls.hear_until(|heard| has_succeeded(upload.alpn, heard));
        answered.expect("an answer");
    }
    serving.check_answers();
    serving.check_ends_well();
    check_log(&fs::read_to_string(log).expect("the access log"));
}

/// Checks that each cut of an upload has a line without a status and with the 3 bytes of "abc"; the complete upload has one
/// line.
fn check_log(log: &str) {
    for upload in &UPLOADS {
        let of_it = format!(" \"POST /{}\" ", upload.name);
        let lines: Vec<_> = log
            .lines()
            .filter_map(|line| line.split_once(&of_it))
            .map(|(_, said)| said.split(' ').collect::<Vec<_>>())
            .collect();
        let whole: Vec<_> = lines.iter().filter(|line| line[0] != "-").collect();
        assert_eq!(whole.len(), 1, "{log}");
        assert_eq!(whole[0][..2], ["200", "6"], "{log}");
        // A reset may arrive before the server has read anything.
        let all = 1 + 2 * CUTS.len();
        assert!((all - 2..=all).contains(&lines.len()), "{log}");
        let cut: Vec<_> = lines.iter().filter(|line| line[0] == "-").collect();
        assert!(cut.iter().all(|line| line[1] == "3"), "{log}");
    }
}

/// An HTTP/1.0 response ends with the connection, so the echo of a partial body must not end like a complete one.
#[test]
fn echo_of_a_partial_body_does_not_end_like_a_complete_response() {
    const ASK: &[u8] = b"POST / HTTP/1.0\r\nhost: a\r\ncontent-length: 6\r\n\r\nabc";
    let _seat = seat();
    let serving = serving(&["--echo"]);
    for cut in [
        Cut::Fin,
        Cut::CloseNotify,
        Cut::CloseNotifyAndSilence,
        Cut::HalfRecordAndSilence,
        Cut::HalfRecordAndFin,
        Cut::BadRecord,
    ] {
        let mut tls = BareTls::client(serving.address("h1s"), TlsVersion::Tls13, "http/1.1");
        tls.say(ASK);
        tls.flush().expect("it reads");
        let echoed = tls.hear_until(|heard| heard.ends_with(b"\r\n\r\nabc"));
        echoed.expect("the echo begins");
        let head = String::from_utf8_lossy(tls.heard()).into_owned();
        assert!(!head.contains("content-length"), "{head}");
        let began = Instant::now();
        let tls = tls.cut(cut, b"def").expect("it reads");
        let end = tls.expect("it is heard on").hear_end();
        assert_ne!(end, End::CloseNotify, "{cut:?}");
        assert!(began.elapsed() < GIVEN_UP, "{cut:?}");
    }
    // Cleartext uploads are cut off by the end of TCP or by silence.
    for ends in [Some(Shutdown::Write), None] {
        let mut stream = connect(serving.address("h1"));
        stream.write_all(ASK).expect("it reads");
        let mut heard = [0; 4_096];
        let mut len = 0;
        while !heard[..len].ends_with(b"abc") {
            len += stream.read(&mut heard[len..]).expect("the echo begins");
        }
        if let Some(how) = ends {
            stream.shutdown(how).expect("it is open");
        }
        let ended = stream.read(&mut heard).map_err(|error| error.kind());
        assert_eq!(ended, Err(ErrorKind::ConnectionReset), "{ends:?}");
    }
    serving.check_ends_well();
}

/// Sends these bytes and nothing more. Returns how long the server takes to close.
fn given_up_after(address: SocketAddr, sent: &[u8]) -> Duration {
    let mut stream = connect(address);
    stream.write_all(sent).expect("it reads");
    let began = Instant::now();
    let mut heard = Vec::new();
    match stream.read_to_end(&mut heard) {
        Err(error) if error.kind() != ErrorKind::ConnectionReset => panic!("{error}"),
        _ => began.elapsed(),
    }
}

#[test]
fn stalled_handshakes_time_out() {
    let _seat = seat();
    let serving = serving(&[]);
    let tls = TlsSettings::default();
    let context = ClientContext::new(&tls, &["h2", "http/1.1"], &Trust::Anyone);
    let session = Session::client(&context.expect("a context"), None).expect("a session");
    let hello = session.output();
    let idle = Duration::from_secs(2)..GIVEN_UP;
    // Half a hello, a whole one with nothing after it, and bytes that are not a hello.
    let cases = [
        (&hello[..hello.len() / 2], idle.clone()),
        (hello, idle),
        (&[b'x'; 1_000], Duration::ZERO..SOON),
    ];
    thread::scope(|scope| {
        for kind in ["h1s", "h2", "https"] {
            for (sent, expected) in &cases {
                let address = serving.address(kind);
                scope.spawn(move || {
                    let took = given_up_after(address, sent);
                    assert!(expected.contains(&took), "{kind}: {took:?}");
                });
            }
        }
        thread::sleep(Duration::from_millis(500));
        serving.check_answers();
    });
    serving.check_ends_well();
}

/// Each half record makes the server keep the buffer of a whole one.
#[test]
fn many_half_records_time_out_without_using_much_memory() {
    alone_if_it_fails(seat(), || {
        let idle_timeout = format!("{}s", LONG_IDLE_TIME.as_secs());
        let serving = Serving::start(
            &["h1", "h1s", "h2", "https"],
            &["--idle-timeout", &idle_timeout],
        );
        let head = b"POST / HTTP/1.1\r\nhost: a\r\ncontent-length: 100000\r\n\r\n";
        // Nearly a full record, of which only the first half is sent.
        let more = vec![b'x'; 16_000];
        let other_work = OtherWork::watch();
        let began = Instant::now();
        // One after the other: on a busy machine, the server could give up the first before the last has arrived.
        let cut_off = || {
            let mut tls = BareTls::client(serving.address("h1s"), TlsVersion::Tls13, "http/1.1");
            tls.say(head);
            tls.flush().expect("it reads");
            let cut = tls.cut(Cut::HalfRecordAndSilence, &more);
            cut.expect("it reads").expect("it is heard on")
        };
        let clients: Vec<_> = (0..MANY).map(|_| cut_off()).collect();
        let took = began.elapsed();
        eprintln!("{MANY} after {took:?}");
        if took >= LONG_IDLE_TIME {
            assert!(
                other_work.disturbs_a_second(),
                "not all are there at once: {took:?}"
            );
            say_disturbed(&format!("not all are there at once: {took:?}"));
        }
        serving.check_answers();
        let began = Instant::now();
        for mut tls in clients {
            assert_eq!(tls.hear_end(), End::CloseNotify);
        }
        let given_up = LONG_IDLE_TIME + (GIVEN_UP - IDLE_TIME);
        assert!(began.elapsed() < given_up, "{:?}", began.elapsed());
        serving.check_answers();
        let peak_kib = serving.peak_kib();
        assert!(peak_kib < MOST_KIB, "{peak_kib} KiB");
        serving.check_ends_well();
    });
}
