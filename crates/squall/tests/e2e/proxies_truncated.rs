//! `squall proxy` over TLS that is cut off: what an upstream broke off looks whole to no client, what a client broke off to
//! no upstream, and a client that has only said that it will say no more gets its answer.
//!
//! What single clients and servers do about it is in `truncated_servers` and `truncated_clients`.

use std::fs;
use std::io::{Read, Write};
use std::net::{Shutdown, TcpStream};
use std::thread;
use std::time::{Duration, Instant};

use squall_base::plan::TlsVersion;
use tempfile::TempDir;

use crate::bare_tls::{BareTls, CUTS, Cut, End};
use crate::proxies::{KINDS, fetch, proxy};
use crate::serving::{Serving, connect};
use crate::support::{bench, stderr};
use crate::truncated_clients::{UPLOADS, Upload, has_succeeded};
use crate::truncated_servers::{BODIES, Body, is_whole, start};

/// How long the proxy waits for what does not move, and until when that must have come to its end.
const IDLE: &str = "1s";
const GIVEN_UP: Duration = Duration::from_secs(9);
const SOON: Duration = Duration::from_secs(2);

/// What follows in the log for an answer that was cut off, and for one that was not.
const CUT_OFF: &str = "-";
const WHOLE: &str = "200";

/// A proxy with these listeners in front of that upstream, with an access log in this folder.
fn logging(home: &TempDir, fronts: &[&str], back: &str, to: std::net::SocketAddr) -> Serving {
    let log = home.path().join("access.log");
    let log = log.to_str().expect("UTF-8");
    // Of HTTP/2 each request has a connection of its own, of which the upstream answers the first.
    let more = ["--streams", "1", "--access-log", log];
    let times = ["--idle-timeout", IDLE, "--answer-timeout", IDLE];
    proxy(fronts, back, to, &[&more[..], &times].concat())
}

/// The statuses of the access log's lines.
fn statuses(home: &TempDir) -> Vec<String> {
    let log = fs::read_to_string(home.path().join("access.log")).expect("the access log");
    let status = |line: &str| line.split(' ').nth(5).expect("a status").to_owned();
    log.lines().map(status).collect()
}

fn kind_of(alpn: &str) -> &'static str {
    match alpn {
        "h2" => "h2",
        _ => "h1s",
    }
}

/// Each protocol in front of one upstream that cuts its answers off.
fn check_upstream(body: Body, cut: Cut) {
    let home = TempDir::new().expect("a temporary folder");
    let upstream = start(body, cut, TlsVersion::Tls13);
    let proxy = logging(&home, &KINDS, kind_of(body.alpn), upstream);
    thread::scope(|scope| {
        for front in KINDS {
            let (home, proxy) = (&home, &proxy);
            scope.spawn(move || {
                let name = format!("{front}: {}, {cut:?}", body.name);
                let began = Instant::now();
                let output = fetch(home, proxy, front, "/", &[]);
                let said = stderr(&output);
                assert_eq!(
                    output.status.success(),
                    is_whole(body, cut),
                    "{name}: {said}"
                );
                if is_whole(body, cut) {
                    assert_eq!(output.stdout, b"abc", "{name}");
                }
                assert!(began.elapsed() < GIVEN_UP, "{name}: {:?}", began.elapsed());
            });
        }
    });
    let log = proxy.end_well();
    // The last line goes on where something failed.
    assert_eq!(log.contains("; "), !is_whole(body, cut), "{log}");
    let statuses = statuses(&home);
    assert_eq!(statuses.len(), KINDS.len());
    for status in statuses {
        // Those whose answer was cut off before its head was passed on heard of it.
        let may_be: &[&str] = match is_whole(body, cut) {
            true => &[WHOLE],
            false => &[CUT_OFF, "502", "504"],
        };
        assert!(may_be.contains(&status.as_str()), "{cut:?}: {status}");
    }
}

#[test]
fn an_answer_that_an_upstream_cuts_off_is_whole_for_nobody() {
    let _bench = bench();
    for cut in CUTS {
        thread::scope(|scope| {
            for body in BODIES {
                scope.spawn(move || check_upstream(body, cut));
            }
        });
    }
}

const OLD: &[u8] = b"GET / HTTP/1.0\r\nhost: a\r\n\r\n";

/// All that still comes of an answer, and whether its end was that of the connection alone.
fn hear_as_of_old(stream: &mut TcpStream) -> (Vec<u8>, bool) {
    let mut heard = Vec::new();
    let ended = stream.read_to_end(&mut heard);
    (heard, ended.is_ok())
}

/// A client of HTTP/1.0 has nothing but the end of the connection to go by.
#[test]
fn the_end_that_a_client_of_old_sees_is_that_of_the_upstream() {
    let _bench = bench();
    for body in BODIES {
        for cut in [
            Cut::Fin,
            Cut::CloseNotify,
            Cut::HalfRecordAndSilence,
            Cut::BadRecord,
        ] {
            let name = format!("{}, {cut:?}", body.name);
            let home = TempDir::new().expect("a temporary folder");
            let upstream = start(body, cut, TlsVersion::Tls13);
            let proxy = logging(&home, &["h1", "h1s"], kind_of(body.alpn), upstream);

            let address = proxy.address("h1s");
            let mut secure = BareTls::client(address, TlsVersion::Tls13, "http/1.1");
            secure.say(OLD);
            secure.flush().expect("it reads");
            let mut clear = connect(proxy.address("h1"));
            clear.write_all(OLD).expect("it reads");
            let end = secure.hear_end();
            let (heard, is_ended) = hear_as_of_old(&mut clear);

            for heard in [secure.heard(), &heard] {
                let heard = String::from_utf8_lossy(heard).into_owned();
                assert!(heard.starts_with("HTTP/1.1 200"), "{name}: {heard}");
                assert!(heard.ends_with("\r\n\r\nabc"), "{name}: {heard}");
                let has_length = heard.contains("content-length: 6");
                assert_eq!(has_length, body.name == "a length", "{name}: {heard}");
            }
            // A length shows what is missing by itself.
            if body.name != "a length" {
                let is_whole = is_whole(body, cut);
                assert_eq!(end == End::CloseNotify, is_whole, "{name}: {end:?}");
                assert_eq!(is_ended, is_whole, "{name}");
            }
            proxy.check_ends_well();
            let expected = match is_whole(body, cut) {
                true => WHOLE,
                false => CUT_OFF,
            };
            assert_eq!(statuses(&home), [expected; 2], "{name}");
        }
    }
}

/// TCP alone does not tell a client that closed its side from one that is gone: what is open ends, and not as a whole
/// answer does.
#[test]
fn a_client_of_old_that_closes_its_side_hears_no_whole_answer() {
    let _bench = bench();
    for body in BODIES.iter().filter(|body| body.name != "a length") {
        let name = body.name;
        let upstream = start(*body, Cut::HalfRecordAndSilence, TlsVersion::Tls13);
        let proxy = proxy(&["h1"], kind_of(body.alpn), upstream, &[]);
        let mut client = connect(proxy.address("h1"));
        client.write_all(OLD).expect("it reads");
        let mut heard = Vec::new();
        while !heard.ends_with(b"abc") {
            let mut byte = [0];
            client.read_exact(&mut byte).expect("it answers");
            heard.extend(byte);
        }
        client.shutdown(Shutdown::Write).expect("it is open");
        let began = Instant::now();
        let (more, is_ended) = hear_as_of_old(&mut client);
        assert_eq!((more.as_slice(), is_ended), (&[][..], false), "{name}");
        assert!(began.elapsed() < SOON, "{name}: {:?}", began.elapsed());
        let log = proxy.end_well();
        assert!(log.contains("; 1 client gone"), "{name}: {log}");
    }
}

/// close_notify says that no request follows, not that no answer is wanted (RFC 8446, section 6.1); the end of TCP behind it
/// cannot be told from a client that is gone.
#[test]
fn a_client_that_says_no_more_gets_its_answer() {
    let _bench = bench();
    let server = Serving::start(&["h1", "h2"], &[]);
    for back in ["h1", "h2"] {
        for front in ["h1s", "h2"] {
            let proxy = proxy(&["h1", front], back, server.address(back), &[]);
            let (alpn, ask): (_, &[u8]) = match front {
                "h1s" => (
                    "http/1.1",
                    b"GET /?delay=300ms&size=9 HTTP/1.1\r\nhost: a\r\n\r\n",
                ),
                // HEADERS (GET, https, the same, "a") that end the stream.
                _ => (
                    "h2",
                    b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n\0\0\0\x04\0\0\0\0\0\
                      \0\0\x1b\x01\x05\0\0\0\x01\x82\x87\x04\x14/?delay=300ms&size=9\x41\x01a",
                ),
            };
            for (cut, is_answered) in [
                (Cut::CloseNotifyAndSilence, true),
                (Cut::CloseNotify, false),
                (Cut::Fin, false),
            ] {
                let name = format!("{front} to {back}, {cut:?}");
                let address = proxy.address(front);
                let mut tls = BareTls::client(address, TlsVersion::Tls13, alpn);
                tls.say(ask);
                let began = Instant::now();
                let cut = tls.cut(cut, b"").expect("it reads");
                let mut tls = cut.expect("it is heard on");
                let end = tls.hear_end();
                assert!(began.elapsed() < SOON, "{name}: {:?}", began.elapsed());
                let heard = tls.heard();
                assert_eq!(has_succeeded(alpn, heard), is_answered, "{name}: {heard:?}");
                assert_eq!(
                    heard.windows(9).any(|bytes| bytes == b"abcdefghi"),
                    is_answered,
                    "{name}: {heard:?}"
                );
                if is_answered {
                    assert_eq!(end, End::CloseNotify, "{name}");
                }
            }
            proxy.check_answers();
            let log = proxy.end_well();
            assert!(log.contains("; 2 client gone"), "{front} to {back}: {log}");
        }
    }
    server.check_ends_well();
}

/// The end that a client of a proxy hears, in time.
fn cut_upload(proxy: &Serving, upload: &Upload, cut: Cut) {
    let name = format!("{}, {cut:?}", upload.name);
    let address = proxy.address(upload.kind);
    let mut tls = BareTls::client(address, TlsVersion::Tls13, upload.alpn);
    tls.say(upload.begins);
    tls.flush().expect("it reads");
    // The upstream has the beginning.
    thread::sleep(Duration::from_millis(100));
    let began = Instant::now();
    if let Some(mut tls) = tls.cut(cut, upload.more).expect("it reads") {
        tls.hear_end();
        let said = String::from_utf8_lossy(tls.heard());
        assert!(!has_succeeded(upload.alpn, tls.heard()), "{name}: {said}");
    }
    assert!(began.elapsed() < GIVEN_UP, "{name}: {:?}", began.elapsed());
}

#[test]
fn an_upload_that_a_client_cuts_off_is_whole_for_no_upstream() {
    let _bench = bench();
    for back in ["h1", "h1s", "h2", "h3"] {
        let home = TempDir::new().expect("a temporary folder");
        let log = home.path().join("server.log");
        let log = log.to_str().expect("UTF-8");
        let server = Serving::start(&[back], &["--sink", "--access-log", log]);
        let fronts = ["h1", "h1s", "h2"];
        let proxy = proxy(
            &fronts,
            back,
            server.address(back),
            &["--idle-timeout", IDLE],
        );
        thread::scope(|scope| {
            for upload in &UPLOADS {
                for cut in CUTS {
                    let proxy = &proxy;
                    scope.spawn(move || cut_upload(proxy, upload, cut));
                }
            }
        });
        proxy.check_answers();
        proxy.check_ends_well();
        server.check_ends_well();
        let log = fs::read_to_string(log).expect("the access log");
        let (whole, cut): (Vec<_>, Vec<_>) = (log.lines().filter(|line| line.contains("POST")))
            .partition(|line| line.contains("\" 200 "));
        assert_eq!(whole, [""; 0], "{back}: {log}");
        // Of each cut of each upload, but for a reset that came before the request was passed on.
        let all = UPLOADS.len() * CUTS.len();
        assert!(
            (all - UPLOADS.len()..=all).contains(&cut.len()),
            "{back}: {log}"
        );
    }
}
