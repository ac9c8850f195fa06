//! How `squall probe` treats a server: uploads as forms, robots.txt, handshakes beside uploads, and lookups of addresses and
//! names. `probe` has the faults, `probe_facts` the other facts.

use std::io::{self, BufReader, Write};
use std::net::{SocketAddr, TcpStream};
use std::process::Output;
use std::sync::{Arc, Mutex};
use std::thread;
use std::time::Duration;

use serde_json::Value;
use tempfile::TempDir;

use crate::probe::{self, faults, home, joined};
use crate::raw_http2::{END_HEADERS, END_STREAM, HEADERS, frame, serve_in_turn};
use crate::result_files::check;
use crate::served::{CERTIFICATE, Serving};
use crate::serving::Serving as Proxying;
use crate::stand_ins::{ReceivedRequest, serve};
use crate::support::{alone_if_it_fails, seat, stderr, stdout_json};

/// A server of HTTP/1.1 that keeps what it receives.
struct Site {
    address: SocketAddr,
    asked: Arc<Mutex<Vec<ReceivedRequest>>>,
}

impl Site {
    /// Starts one with this robots.txt, in the background until the test ends.
    fn start(robots: Option<&'static str>) -> Site {
        let asked: Arc<Mutex<Vec<ReceivedRequest>>> = Arc::default();
        let kept = Arc::clone(&asked);
        let address = serve(move |stream| answer(&stream, robots, &kept));
        Site { address, asked }
    }

    /// How many requests of this kind arrived.
    fn count(&self, method: &str, target: &str) -> usize {
        let asked = self.asked.lock().expect("no panic");
        let requests = asked.iter();
        requests.filter(|asked| asked.is(method, target)).count()
    }
}

fn answer(
    stream: &TcpStream,
    robots: Option<&str>,
    kept: &Mutex<Vec<ReceivedRequest>>,
) -> io::Result<()> {
    const LONG: usize = 10_000;
    let mut out = stream;
    let mut reader = BufReader::new(stream);
    while let Some(request) = ReceivedRequest::read(&mut reader)? {
        if request.body.len() > LONG {
            // Leaves time for handshakes beside the upload.
            thread::sleep(Duration::from_millis(450));
        }
        let (status, body) = match robots {
            Some(text) if request.is("GET", "/robots.txt") => ("200 OK", text),
            None if request.is("GET", "/robots.txt") => ("404 Not Found", "gone"),
            _ => ("200 OK", "ok"),
        };
        let is_head = request.method == "HEAD";
        kept.lock().expect("no panic").push(request);
        let length = body.len();
        let mut message = format!("HTTP/1.1 {status}\r\ncontent-length: {length}\r\n\r\n");
        if !is_head {
            message += body;
        }
        // One write: the second of two would wait for a delayed acknowledgement.
        out.write_all(message.as_bytes())?;
    }
    Ok(())
}

fn probe(home: &TempDir, arguments: &[&str]) -> Output {
    probe::probe(home, &joined(&[&["--json"], arguments]))
}

fn result(output: &Output) -> Value {
    let result = stdout_json(output);
    check("probe", &result);
    result
}

/// The notes about robots.txt.
fn about_robots(result: &Value) -> Vec<&str> {
    let notes = result["endpoint"]["notes"].as_array().expect("notes");
    let notes = notes.iter().filter_map(Value::as_str);
    notes.filter(|note| note.contains("robots.txt")).collect()
}

#[test]
fn upload_can_be_a_form_and_handshakes_are_measured_beside_it() {
    alone_if_it_fails(seat(), || {
        let home = home();
        let site = Site::start(None);
        let url = format!("http://{}/", site.address);
        let asks = ["--http", "1.1", "--upload", "100kB", "--upload-as"];
        let output = probe(&home, &[&asks[..], &["multipart", url.as_str()]].concat());
        let announced = stderr(&output);
        assert!(
            announced.contains(" in all as multipart/form-data, to "),
            "{announced}"
        );
        let result = result(&output);
        let loaded = result["endpoint"]["connect_uploading_ns"].as_u64();
        assert!(loaded > Some(0), "{result}");
        let asked = site.asked.lock().expect("no panic");
        let uploads: Vec<&ReceivedRequest> = asked.iter().filter(|it| it.is("POST", "/")).collect();
        assert_eq!(uploads.len(), 2);
        for (upload, size) in uploads.iter().zip([1_000, 100_000]) {
            let kind = upload.field("content-type").expect("a content type");
            let boundary = kind.strip_prefix("multipart/form-data; boundary=");
            let boundary = boundary.expect("a form");
            let body = String::from_utf8_lossy(&upload.body);
            // What follows the form on the connection is the next request, so content-length is right.
            assert!(
                body.starts_with(&format!("--{boundary}\r\n")),
                "{body:.300}"
            );
            assert!(body.ends_with(&format!("\r\n--{boundary}--\r\n")));
            assert!(body.contains("name=\"file\"; filename=\"upload.bin\"\r\n"));
            let content = body.split("\r\n").max_by_key(|part| part.len());
            assert_eq!(content.map(str::len), Some(size));
        }
        let is_request =
            |asked: &ReceivedRequest| ["GET", "HEAD", "POST"].contains(&asked.method.as_str());
        assert!(asked.iter().all(is_request));
    });
}

#[test]
fn path_that_robots_txt_disallows_gets_no_load() {
    let _seat = seat();
    let home = home();
    let site = Site::start(Some("User-agent: *\nDisallow: /private\n"));
    let url = format!("http://{}/private?a", site.address);
    let asks = ["--http", "1.1", "--upload", "1kB", url.as_str()];
    let output = probe(&home, &asks);
    let first = result(&output);
    let notes = about_robots(&first);
    assert_eq!(notes.len(), 1, "{first}");
    assert!(notes[0].contains("disallows /private:"), "{first}");
    assert!(notes[0].contains("--ignore-robots"), "{first}");
    let cause = first["verdict"]["cause"].as_str().expect("a cause");
    assert!(cause.contains("but no downloads and no uploads"), "{first}");
    assert_eq!(site.count("GET", "/robots.txt"), 1);
    assert_eq!(site.count("POST", "/private?a"), 0);
    let few = site.count("GET", "/private?a");
    assert!((2..=6).contains(&few), "{few} requests");
    // With --ignore-robots it sends the whole load and does not ask for robots.txt.
    let output = probe(&home, &[&["--ignore-robots"][..], &asks].concat());
    assert!(about_robots(&result(&output)).is_empty());
    assert_eq!(site.count("GET", "/robots.txt"), 1);
    assert_eq!(site.count("POST", "/private?a"), 2);
    assert!(site.count("GET", "/private?a") > 100);
}

/// Over HTTP/2, twelve downloads together would show priorities. squall's proxy passes the requests on.
#[test]
fn path_that_robots_txt_disallows_gets_no_load_over_http2_either() {
    let _seat = seat();
    let home = home();
    let site = Site::start(Some("User-agent: *\nDisallow: /private\n"));
    let to = format!("http://{}", site.address);
    let proxy = Proxying::of("proxy", &["h2c"], &["--to", &to]);
    let url = format!("http://{}/private", proxy.address("h2c"));
    let asks = ["--http", "2", "-H", "X-Ticket: 7", url.as_str()];
    let result = result(&probe(&home, &asks));
    assert_eq!(about_robots(&result).len(), 1, "{result}");
    let few = site.count("GET", "/private");
    assert!((2..=6).contains(&few), "{few} requests");
    let asked = site.asked.lock().expect("no panic");
    for asked in asked.iter() {
        assert_eq!(asked.field("x-ticket"), Some("7"), "{asked:?}");
    }
}

#[test]
fn missing_robots_txt_restricts_nothing() {
    let _seat = seat();
    let home = home();
    let site = Site::start(None);
    let url = format!("http://{}/", site.address);
    let output = probe(&home, &["--http", "1.1", "--upload", "1kB", url.as_str()]);
    assert!(about_robots(&result(&output)).is_empty());
    assert_eq!(site.count("GET", "/robots.txt"), 1);
    assert_eq!(site.count("POST", "/"), 2);
}

#[test]
fn only_the_disallowed_download_is_left_out() {
    let _seat = seat();
    let home = home();
    let site = Site::start(Some(
        "User-agent: squall\nDisallow: /big\n\nUser-agent: *\nDisallow: /\n",
    ));
    let url = format!("http://{}/", site.address);
    let asks = ["--http", "1.1", "--download", "/big", "--upload", "1kB"];
    let output = probe(&home, &[&asks[..], &[url.as_str()]].concat());
    let result = result(&output);
    assert_eq!(about_robots(&result).len(), 1, "{result}");
    assert_eq!(site.count("GET", "/big"), 0);
    assert_eq!(site.count("POST", "/"), 2);
    assert!(site.count("GET", "/") > 100);
}

#[test]
fn addresses_families_and_other_names_are_reported() {
    let _seat = seat();
    let home = home();
    let server = Serving::start(home.path(), &["--https", "0"]);
    let port = server.address("https").port();
    let asks = ["-4", "--cacert", CERTIFICATE, "--http", "2"];
    let url = format!("https://127.0.0.1:{port}/");
    let output = probe(&home, &[&asks[..], &[url.as_str()]].concat());
    let announced = stderr(&output);
    assert!(announced.contains("at most 3 other names"), "{announced}");
    let facts = result(&output)["endpoint"].clone();
    assert_eq!(
        facts["addresses"],
        serde_json::json!(["127.0.0.1"]),
        "{facts}"
    );
    let families = facts["families"].as_array().expect("families");
    assert_eq!(families.len(), 1, "{facts}");
    assert_eq!(families[0]["family"], "IPv4", "{facts}");
    assert!(families[0]["connect_ns"].as_u64() > Some(0), "{facts}");
    let others = facts["coalescing"].as_array().expect("names");
    let localhost = others.iter().find(|other| other["name"] == "localhost");
    let localhost = localhost.expect("the other name of the certificate");
    assert_eq!(localhost["has_same_address"], true, "{facts}");
}

/// `:status: 200` (RFC 7541, appendix A).
const OK: u8 = 0x88;

/// How long the servers of these tests take for a request.
const SLOW: Duration = Duration::from_millis(300);

/// The names of the faults of a probe over HTTP/2, and whether two slow requests were handled concurrently.
fn concurrency(url: &str) -> (Vec<String>, Value) {
    let home = home();
    let result = result(&probe(&home, &["--http", "2", url]));
    let names = faults(&result).into_iter().map(str::to_owned);
    (names.collect(), result["endpoint"]["concurrency"].clone())
}

#[test]
fn server_that_works_on_one_request_at_a_time_is_named() {
    alone_if_it_fails(seat(), || {
        let address = serve(|stream| {
            serve_in_turn(stream, |stream, request| {
                thread::sleep(SLOW);
                let flags = END_HEADERS | END_STREAM;
                stream.write_all(&frame(HEADERS, flags, request.stream, &[OK]))
            })
        });
        let (faults, pairs) = concurrency(&format!("http://{address}/"));
        assert!(
            faults.contains(&"no_concurrency".to_owned()),
            "{faults:?} {pairs}"
        );
        assert_eq!(pairs[0]["version"], "HTTP/2", "{pairs}");
        assert_eq!(pairs[0]["is_concurrent"], false, "{pairs}");
        let second = pairs[0]["second_ns"].as_u64();
        assert!(second > Some(500_000_000), "{pairs}");
    });
}

/// A busy machine may blur the times, but never makes a concurrent server look like a serial one.
#[test]
fn slow_server_that_works_on_requests_concurrently_is_not_named() {
    alone_if_it_fails(seat(), || {
        let folder = home();
        let server = Serving::start(folder.path(), &["--h2c", "0"]);
        let delay = SLOW.as_millis();
        let url = format!("http://{}/?delay={delay}ms", server.address("h2c"));
        let (faults, pairs) = concurrency(&url);
        assert!(
            !faults.contains(&"no_concurrency".to_owned()),
            "{faults:?} {pairs}"
        );
        assert_ne!(pairs[0]["is_concurrent"], false, "{pairs}");
    });
}
