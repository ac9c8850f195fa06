//! How `squall probe` behaves towards servers and users: what it sends and how much, that it needs no rights, and that it
//! ends even if a server is silent, breaks the protocol or sends for ever.
//!
//! What it finds is tested in `probe` and `probe_facts`.

use std::fs;
use std::io::{self, BufReader, Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::process::Stdio;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

use tempfile::TempDir;

use crate::ordinary_user::Home;
use crate::probe::{TCP, WIDE, home, joined, probe};
use crate::served::{CERTIFICATE, Serving};
use crate::stand_ins::{ReceivedRequest, serve};
use crate::support::{is_root, seat, squall, stderr, stdout};

/// Connections to one server that browsers open for HTTP/1.1.
const SIX: usize = 6;
/// The test server's download and its length, which is too short for the step with a pause.
const LARGE: &str = "/large";
const LARGE_BYTES: usize = 25_000;
const ROBOTS: &str = "/robots.txt";
const SMALL_BYTES: usize = 2_000;

/// What the server has received and sent.
#[derive(Debug, Default)]
struct RequestLog {
    requests: Vec<ReceivedRequest>,
    /// Requests that have been read but not answered, now and at most. Each has a connection of its own.
    in_flight: usize,
    most_in_flight: usize,
    /// The most requests in flight when a short one arrived, including that one.
    most_with_a_short_one: usize,
    /// Bytes of bodies.
    sent_bytes: u64,
}

fn lock(log: &Mutex<RequestLog>) -> MutexGuard<'_, RequestLog> {
    log.lock().unwrap_or_else(PoisonError::into_inner)
}

/// A server over HTTP/1.1 that answers every request, and logs it.
fn logging_server() -> (SocketAddr, Arc<Mutex<RequestLog>>) {
    let log: Arc<Mutex<RequestLog>> = Arc::default();
    let of_server = Arc::clone(&log);
    let address = serve(move |stream| answer_all(stream, &of_server));
    (address, log)
}

fn answer_all(mut stream: TcpStream, log: &Mutex<RequestLog>) -> io::Result<()> {
    stream.set_nodelay(true)?;
    let mut reader = BufReader::new(stream.try_clone()?);
    while let Some(asked) = ReceivedRequest::read(&mut reader)? {
        let is_large = asked.target == LARGE;
        let size = if is_large { LARGE_BYTES } else { SMALL_BYTES };
        let sent = if asked.method == "HEAD" { 0 } else { size };
        {
            let mut log = lock(log);
            log.requests.push(asked);
            log.in_flight += 1;
            log.most_in_flight = log.most_in_flight.max(log.in_flight);
            if !is_large {
                log.most_with_a_short_one = log.most_with_a_short_one.max(log.in_flight);
            }
        }
        // Requests that are sent together overlap.
        thread::sleep(Duration::from_millis(if is_large { 50 } else { 1 }));
        {
            let mut log = lock(log);
            log.in_flight -= 1;
            log.sent_bytes += sent as u64;
        }
        let head = format!("HTTP/1.1 200 OK\r\ncontent-length: {size}\r\n\r\n");
        stream.write_all(&[head.as_bytes(), &vec![b'x'; sent]].concat())?;
    }
    Ok(())
}

/// The number before these words in what a probe announced.
fn announced(said: &str, words: &str) -> u64 {
    let Some((before, _)) = said.split_once(words) else {
        panic!("no{words}: {said}");
    };
    let number = before.rsplit(|c: char| !c.is_ascii_digit()).next();
    let number = number.expect("a piece of text");
    number
        .parse()
        .unwrap_or_else(|_| panic!("no number before{words}: {said}"))
}

/// Checks that the server got no more than was announced, and that each request has the fields of the user and of squall.
fn check_requests(log: &RequestLog, said: &str) {
    let count = |is_post: bool| {
        let requests = log.requests.iter();
        let wanted = requests.filter(|asked| (asked.method == "POST") == is_post);
        wanted.count() as u64
    };
    let asked = count(false);
    assert!(asked > 100, "the probe ran to its end: {asked}");
    let most = announced(said, " GET and HEAD requests");
    assert!(asked <= most, "{asked} of {most}");
    let megabytes = announced(said, " MB of responses");
    let sent = log.sent_bytes;
    assert!(sent <= megabytes * 1_000_000, "{sent} of {megabytes} MB");
    assert!(log.most_in_flight <= SIX, "{} at once", log.most_in_flight);
    for asked in &log.requests {
        let agent = asked.field("user-agent");
        let is_own = agent.is_some_and(|agent| agent.starts_with("squall/"));
        assert!(is_own, "{asked:?}");
        assert_eq!(asked.field("x-ticket"), Some("7"), "{asked:?}");
    }
}

#[test]
fn nothing_is_posted_unasked_and_no_more_is_sent_than_announced() {
    let _seat = seat();
    let home = home();
    let (address, log) = logging_server();
    let url = format!("http://{address}/");
    let flags = ["--http", "1.1", "-H", "X-Ticket: 7", "--download", LARGE];
    let output = probe(&home, &joined(&[&flags, &[url.as_str()]]));
    let said = stderr(&output);
    assert!(output.status.success(), "{said}");
    assert!(!said.contains("POST"), "{said}");
    let log = lock(&log);
    check_requests(&log, &said);
    // Only large downloads run at the same time.
    assert_eq!(log.most_with_a_short_one, 1, "one connection at a time");
    for asked in &log.requests {
        let is_safe = ["GET", "HEAD"].contains(&asked.method.as_str());
        assert!(is_safe && asked.body.is_empty(), "{asked:?}");
        let targets = ["/", LARGE, ROBOTS];
        assert!(targets.contains(&asked.target.as_str()), "{asked:?}");
    }
}

#[test]
fn uploads_go_only_to_the_path_that_is_named() {
    const INBOX: &str = "/in?box=1";
    let _seat = seat();
    let home = home();
    let (address, log) = logging_server();
    let url = format!("http://{address}/");
    let flags = ["--http", "1.1", "-H", "X-Ticket: 7", "--upload", "20kB"];
    let to = ["--upload-to", INBOX, url.as_str()];
    let output = probe(&home, &joined(&[&flags, &to]));
    let said = stderr(&output);
    assert!(output.status.success(), "{said}");
    let log = lock(&log);
    check_requests(&log, &said);
    let uploads = log.requests.iter().filter(|asked| asked.method == "POST");
    let uploads: Vec<(&str, usize)> = uploads
        .map(|asked| (asked.target.as_str(), asked.body.len()))
        .collect();
    assert_eq!(uploads, [(INBOX, 1_000), (INBOX, 20_000)]);
    assert_eq!(announced(&said, " POST requests"), 2, "{said}");
    let others = log.requests.iter().filter(|asked| asked.method != "POST");
    for asked in others {
        let is_named = ["/", ROBOTS].contains(&asked.target.as_str());
        assert!(is_named && asked.body.is_empty(), "{asked:?}");
    }
}

/// What a probe cost, as its page says: requests, and megabytes sent and received.
fn cost(home: &TempDir) -> [f64; 3] {
    let page = fs::read_to_string(home.path().join("probe.html")).expect("a page");
    let mut lines = page.lines();
    let line = lines.find(|line| line.contains(" MB of bodies sent, "));
    let line = line.expect("what it cost");
    [" requests in ", " MB of bodies sent, ", " MB received."].map(|words| {
        let (before, _) = line.split_once(words).expect("a figure");
        let number = before.rsplit([' ', '>']).next().expect("a word");
        number.replace(',', "").parse().expect("a number")
    })
}

#[test]
fn no_version_sends_or_receives_more_than_announced() {
    let _seat = seat();
    for (kind, versions) in [("https", "1.1,2"), ("h3", "3")] {
        let home = home();
        let listener = format!("--{kind}");
        let server = Serving::start(home.path(), &[listener.as_str(), "0", "--sink"]);
        let url = format!("https://{}/?size=1MiB", server.address(kind));
        let output = squall(home.path())
            .args(["probe", "--rounds", "1", "--idle", "300ms", "-k"])
            .args(["--http", versions, "--upload", "300kB"])
            .args(["--report", "probe.html", url.as_str()])
            .stdin(Stdio::null())
            .output()
            .expect("squall starts");
        let said = stderr(&output);
        assert!(output.status.success(), "{said}");
        let [requests, sent, received] = cost(&home);
        let most = |words: &[&str]| -> f64 {
            let figures = words.iter().map(|words| announced(&said, words) as f64);
            figures.sum()
        };
        let most_requests = most(&[" GET and HEAD requests", " POST requests"]);
        assert!(requests > 100.0 && requests <= most_requests, "{said}");
        assert!(
            sent >= 0.3 && sent <= most(&[" MB in all"]),
            "{sent}: {said}"
        );
        let most_received = most(&[" MB of responses,", " MB of responses to these"]);
        assert!(received <= most_received, "{received}: {said}");
    }
}

/// A server that takes connections and never answers.
fn silent_server() -> SocketAddr {
    serve(|stream| {
        thread::sleep(Duration::from_secs(60));
        drop(stream);
    })
}

#[test]
fn ordinary_user_gets_an_answer_or_the_reason_why_there_is_none() {
    if !is_root() {
        return;
    }
    let _seat = seat();
    let user = Home::of_nobody();
    let folder = home();
    let server = Serving::start(folder.path(), &joined(&[&["--https", "0"], &WIDE]));
    let url = format!("https://{}/?size=1MiB", server.address("https"));
    let short = ["probe", "--rounds", "1", "--idle", "0s"];
    let output = user.squall(&joined(&[&short, &TCP, &["-k", url.as_str()]]));
    let said = stdout(&output);
    assert!(output.status.success(), "{}", stderr(&output));
    assert!(said.starts_with("Nothing is wrong\n"), "{said}");
    let begun = Instant::now();
    let url = format!("http://{}/", silent_server());
    let output = user.squall(&joined(&[&short, &["--duration", "2s", url.as_str()]]));
    assert!(begun.elapsed() < Duration::from_secs(15));
    assert_eq!(output.status.code(), Some(1), "{}", stderr(&output));
    let said = stdout(&output);
    assert!(said.starts_with("No answer\n"), "{said}");
    assert!(
        said.contains("connected, but no response in time"),
        "{said}"
    );
}

#[test]
fn ordinary_user_is_told_what_a_capture_needs_and_what_to_try() {
    if !is_root() {
        return;
    }
    let _seat = seat();
    let user = Home::of_nobody();
    let url = format!("http://{}/", silent_server());
    let output = user.squall(&["probe", "--pcap", "probe.pcapng", &url]);
    let said = stderr(&output);
    assert_eq!(output.status.code(), Some(1), "{said}");
    for part in ["CAP_NET_RAW", "as root", "setcap", "--behind"] {
        assert!(said.contains(part), "{part}: {said}");
    }
    assert!(!said.contains("squall probe sends"), "{said}");
}

#[test]
fn protocol_violation_of_the_server_is_reported() {
    let _seat = seat();
    let home = home();
    let address = serve(|mut stream| {
        let mut buffer = [0; 4096];
        let _ = stream.read(&mut buffer);
        let _ = stream.write_all(b"\0\0\0garbage\r\n\r\n");
        // If it closed with bytes unread, a reset could overtake the garbage.
        while stream.read(&mut buffer).is_ok_and(|count| count > 0) {}
    });
    let url = format!("http://{address}/");
    let flags = joined(&[&TCP, &["--duration", "5s", url.as_str()]]);
    let output = probe(&home, &flags);
    assert_eq!(output.status.code(), Some(1), "{}", stderr(&output));
    let said = stdout(&output);
    assert!(said.starts_with("No answer\n"), "{said}");
    for reason in [
        "HTTP/1.1: malformed HTTP/1.1 head: ",
        // PROTOCOL_ERROR (RFC 9113, section 7).
        "HTTP/2: HTTP/2 connection error 1",
    ] {
        assert!(said.contains(reason), "{reason}: {said}");
    }
}

#[test]
fn version_that_the_server_does_not_negotiate_is_reported() {
    let _seat = seat();
    let home = home();
    let server = Serving::start(home.path(), &["--h1s", "0"]);
    let url = format!("https://{}/", server.address("h1s"));
    let flags = joined(&[&["--cacert", CERTIFICATE], &TCP, &[url.as_str()]]);
    let output = probe(&home, &flags);
    assert!(output.status.success(), "{}", stderr(&output));
    let said = stdout(&output);
    let problem = said.lines().find(|line| line.starts_with("  HTTP/2: "));
    let problem = problem.unwrap_or_else(|| panic!("{said}"));
    assert!(problem.contains("no_application_protocol"), "{said}");
}

/// Probes an endless response, and checks that the probe itself ends.
fn check_endless(url: &str, version: &str) {
    /// The most that a client may read before a step ends: 1 MiB in a turn of each connection.
    const READ_MEGABYTES: f64 = 15.0;
    let home = home();
    let begun = Instant::now();
    let bounds = ["-k", "--duration", "5s", "--bytes", "300kB"];
    let rest = ["--http", version, "--report", "probe.html", url];
    let output = probe(&home, &joined(&[&bounds, &rest]));
    assert!(begun.elapsed() < Duration::from_secs(15), "{version}");
    let said = stderr(&output);
    assert!(output.status.success(), "{said}");
    assert!(stdout(&output).contains("Mbit/s"), "{}", stdout(&output));
    let [_, _, received] = cost(&home);
    assert!(received >= 0.3, "{version}: {received} MB");
    let most = announced(&said, " MB of responses") as f64;
    assert!(
        received <= most + READ_MEGABYTES,
        "{version}: {received} of {most} MB"
    );
}

#[test]
fn endless_responses_are_cut_off_in_time() {
    let _seat = seat();
    let address = serve(|mut stream| {
        let _ = stream.read(&mut [0; 4096]);
        let _ = stream.write_all(b"HTTP/1.1 200 OK\r\n\r\n");
        while stream.write_all(&[b'x'; 16_384]).is_ok() {}
    });
    check_endless(&format!("http://{address}/"), "1.1");
    let folder = home();
    let server = Serving::start(folder.path(), &["--h2c", "0"]);
    let url = format!("http://{}/?size=1000GiB", server.address("h2c"));
    check_endless(&url, "2");
    let server = Serving::start(folder.path(), &["--h3", "0"]);
    let url = format!("https://{}/?size=1000GiB", server.address("h3"));
    check_endless(&url, "3");
}
