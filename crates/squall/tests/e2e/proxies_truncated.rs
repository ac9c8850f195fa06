//! `squall proxy` over TLS connections that are cut off. A truncated response looks complete to no client, and a
//! truncated upload to no upstream. A client that only announces the end of its requests still gets its response.
//!
//! `truncated_servers` and `truncated_clients` test how single clients and servers react.

use std::fs;
use std::io::{Read, Write};
use std::net::{Shutdown, TcpStream};
use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::sync::atomic::Ordering::Relaxed;
use std::thread;
use std::time::{Duration, Instant};

use squall_base::plan::TlsVersion;
use tempfile::TempDir;

use crate::bare_tls::{BareTls, CUTS, Cut, End};
use crate::proxies::{KINDS, fetch, proxy};
use crate::serving::{Serving, connect};
use crate::support::{alone_if_it_fails, seat, stderr};
use crate::truncated_clients::{UPLOADS, Upload, has_succeeded};
use crate::truncated_servers::{BODIES, Body, is_whole, start, start_held};

/// The proxy's idle and answer timeouts, and the time by which a connection on which nothing moves must have ended.
const IDLE: &str = "1s";
const GIVEN_UP: Duration = Duration::from_secs(9);
const SOON: Duration = Duration::from_secs(2);

/// The logged status of a response that was cut off, and of a complete one.
const CUT_OFF: &str = "-";
const WHOLE: &str = "200";

/// A proxy with these listeners in front of that upstream, with an access log in this folder.
fn logging(home: &TempDir, fronts: &[&str], back: &str, to: std::net::SocketAddr) -> Serving {
    let log = home.path().join("access.log");
    let log = log.to_str().expect("UTF-8");
    // Over HTTP/2 each request has a separate connection, because the upstream responds only to the first request on
    // each.
    let more = ["--streams", "1", "--access-log", log];
    let times = ["--idle-timeout", IDLE, "--answer-timeout", IDLE];
    proxy(fronts, back, to, &[&more[..], &times].concat())
}

/// The status in each line of the access log.
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

/// Checks each protocol in front of one upstream that truncates its responses.
fn check_upstream(body: Body, cut: Cut) {
    let home = TempDir::new().expect("a temporary folder");
    let upstream = start(body, cut);
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
    // The last line lists failures, if any.
    assert_eq!(log.contains("; "), !is_whole(body, cut), "{log}");
    let statuses = statuses(&home);
    assert_eq!(statuses.len(), KINDS.len());
    for status in statuses {
        // A client whose response was cut off before its head was forwarded gets an error status.
        let may_be: &[&str] = if is_whole(body, cut) {
            &[WHOLE]
        } else {
            &[CUT_OFF, "502", "504"]
        };
        assert!(may_be.contains(&status.as_str()), "{cut:?}: {status}");
    }
}

#[test]
fn truncated_upstream_response_looks_complete_to_no_client() {
    let _seat = seat();
    for cut in CUTS {
        thread::scope(|scope| {
            for body in BODIES {
                scope.spawn(move || check_upstream(body, cut));
            }
        });
    }
}

const OLD: &[u8] = b"GET / HTTP/1.0\r\nhost: a\r\n\r\n";

/// Reads the beginning of a response.
fn hear_beginning(stream: &mut TcpStream) -> Vec<u8> {
    let mut heard = Vec::new();
    while !has_beginning(&heard) {
        let mut bytes = [0; 1_024];
        let count = stream.read(&mut bytes).expect("the response begins");
        assert!(count > 0, "{heard:?}");
        heard.extend_from_slice(&bytes[..count]);
    }
    heard
}

fn has_beginning(heard: &[u8]) -> bool {
    heard.ends_with(b"\r\n\r\nabc")
}

/// An HTTP/1.0 client can recognise the end of a response only by the end of the connection.
#[test]
fn http10_client_sees_a_clean_end_only_if_the_upstream_ended_cleanly() {
    let _seat = seat();
    for body in BODIES {
        for cut in [
            Cut::Fin,
            Cut::CloseNotify,
            Cut::HalfRecordAndSilence,
            Cut::BadRecord,
        ] {
            let name = format!("{}, {cut:?}", body.name);
            let home = TempDir::new().expect("a temporary folder");
            let may_cut = Arc::new(AtomicBool::new(false));
            let upstream = start_held(body, cut, may_cut.clone());
            let proxy = logging(&home, &["h1", "h1s"], kind_of(body.alpn), upstream);

            let address = proxy.address("h1s");
            let mut secure = BareTls::client(address, TlsVersion::Tls13, "http/1.1");
            secure.say(OLD);
            secure.flush().expect("it reads");
            let mut clear = connect(proxy.address("h1"));
            clear.write_all(OLD).expect("it reads");
            // Bytes that reach the proxy together with the cut may never reach its clients.
            secure
                .hear_until(has_beginning)
                .expect("the response begins");
            let mut heard = hear_beginning(&mut clear);
            may_cut.store(true, Relaxed);
            let end = secure.hear_end();
            let is_ended = clear.read_to_end(&mut heard).is_ok();

            for heard in [secure.heard(), &heard] {
                assert!(has_beginning(heard), "{name}: {heard:?}");
                let heard = String::from_utf8_lossy(heard).into_owned();
                assert!(heard.starts_with("HTTP/1.1 200"), "{name}: {heard}");
                let has_length = heard.contains("content-length: 6");
                assert_eq!(has_length, body.name == "a length", "{name}: {heard}");
            }
            // With a content-length, the client sees that bytes are missing however the connection ends.
            if body.name != "a length" {
                let is_whole = is_whole(body, cut);
                assert_eq!(end == End::CloseNotify, is_whole, "{name}: {end:?}");
                assert_eq!(is_ended, is_whole, "{name}");
            }
            proxy.check_ends_well();
            let expected = if is_whole(body, cut) { WHOLE } else { CUT_OFF };
            assert_eq!(statuses(&home), [expected; 2], "{name}");
        }
    }
}

/// TCP alone cannot distinguish a client that closed its side from one that has gone. Pending responses are aborted,
/// and must not end like complete ones.
#[test]
fn http10_client_that_half_closes_gets_no_complete_response() {
    alone_if_it_fails(seat(), || {
        for body in BODIES.iter().filter(|body| body.name != "a length") {
            let name = body.name;
            let upstream = start(*body, Cut::HalfRecordAndSilence);
            let proxy = proxy(&["h1"], kind_of(body.alpn), upstream, &[]);
            let mut client = connect(proxy.address("h1"));
            client.write_all(OLD).expect("it reads");
            hear_beginning(&mut client);
            client.shutdown(Shutdown::Write).expect("it is open");
            let began = Instant::now();
            let mut more = Vec::new();
            let is_ended = client.read_to_end(&mut more).is_ok();
            assert_eq!((more.as_slice(), is_ended), (&[][..], false), "{name}");
            assert!(began.elapsed() < SOON, "{name}: {:?}", began.elapsed());
            let log = proxy.end_well();
            assert!(log.contains("; 1 client gone"), "{name}: {log}");
        }
    });
}

/// close_notify announces that no request follows, not that no response is wanted (RFC 8446, section 6.1). The end of
/// TCP after it cannot be distinguished from a client that has gone.
#[test]
fn client_that_sends_close_notify_still_gets_its_response() {
    alone_if_it_fails(seat(), || {
        let server = Serving::start(&["h1", "h2"], &[]);
        for back in ["h1", "h2"] {
            for front in ["h1s", "h2"] {
                let proxy = proxy(&["h1", front], back, server.address(back), &[]);
                let (alpn, ask): (_, &[u8]) = match front {
                    "h1s" => (
                        "http/1.1",
                        b"GET /?delay=300ms&size=9 HTTP/1.1\r\nhost: a\r\n\r\n",
                    ),
                    // HEADERS (GET, https, the path above, "a") with END_STREAM.
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
    });
}

/// Cuts off an upload through a proxy; the client's connection must end in time.
fn cut_upload(proxy: &Serving, upload: &Upload, cut: Cut) {
    let name = format!("{}, {cut:?}", upload.name);
    let address = proxy.address(upload.kind);
    let mut tls = BareTls::client(address, TlsVersion::Tls13, upload.alpn);
    tls.say(upload.begins);
    tls.flush().expect("it reads");
    // The upstream has received the beginning by now.
    thread::sleep(Duration::from_millis(400));
    let began = Instant::now();
    if let Some(mut tls) = tls.cut(cut, upload.more).expect("it reads") {
        tls.hear_end();
        let said = String::from_utf8_lossy(tls.heard());
        assert!(!has_succeeded(upload.alpn, tls.heard()), "{name}: {said}");
    }
    assert!(began.elapsed() < GIVEN_UP, "{name}: {:?}", began.elapsed());
}

#[test]
fn truncated_upload_looks_complete_to_no_upstream() {
    alone_if_it_fails(seat(), || {
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
            // One line for each cut of each upload, except for resets that arrived before the request was forwarded.
            let all = UPLOADS.len() * CUTS.len();
            assert!(
                (all - UPLOADS.len()..=all).contains(&cut.len()),
                "{back}: {log}"
            );
        }
    });
}
