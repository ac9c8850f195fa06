//! How `squall probe` treats a server: uploads as forms, robots.txt, handshakes beside uploads, and lookups of addresses and
//! names. `probe` has the faults, `probe_facts` the other facts.

use std::io::{self, BufRead, BufReader, Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::process::{Output, Stdio};
use std::sync::{Arc, Mutex};
use std::thread;
use std::time::Duration;

use serde_json::Value;
use tempfile::TempDir;

use crate::result_files::check;
use crate::served::{CERTIFICATE, Serving};
use crate::support::{seat, squall, stderr};

/// A request as it arrived.
struct Received {
    /// In lower case, without the empty line.
    head: String,
    body: Vec<u8>,
}

impl Received {
    fn is(&self, method: &str, target: &str) -> bool {
        self.head.starts_with(&format!("{method} {target} "))
    }

    /// The value of a field.
    fn field(&self, name: &str) -> Option<&str> {
        let mut lines = self.head.lines();
        lines.find_map(|line| line.strip_prefix(name)?.strip_prefix(": "))
    }
}

/// A server of HTTP/1.1 that keeps what it receives.
struct Site {
    address: SocketAddr,
    received: Arc<Mutex<Vec<Received>>>,
}

impl Site {
    /// Starts one with this robots.txt, in the background until the test ends.
    fn start(robots: Option<&'static str>) -> Site {
        let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
        let address = listener.local_addr().expect("an address");
        let received = Arc::new(Mutex::new(Vec::new()));
        let kept = Arc::clone(&received);
        thread::spawn(move || {
            for stream in listener.incoming().flatten() {
                let kept = Arc::clone(&kept);
                // A client that closes the connection is no failure.
                thread::spawn(move || answer(&stream, robots, &kept));
            }
        });
        Site { address, received }
    }

    /// How many requests of this kind arrived.
    fn count(&self, method: &str, target: &str) -> usize {
        let received = self.received.lock().expect("no panic");
        let requests = received.iter();
        requests
            .filter(|request| request.is(method, target))
            .count()
    }
}

fn answer(stream: &TcpStream, robots: Option<&str>, kept: &Mutex<Vec<Received>>) -> io::Result<()> {
    const LONG: usize = 10_000;
    let mut out = stream;
    let mut reader = BufReader::new(stream);
    loop {
        let request = receive(&mut reader)?;
        if request.body.len() > LONG {
            // So that there is time for handshakes beside the upload.
            thread::sleep(Duration::from_millis(450));
        }
        let (status, body) = match robots {
            Some(text) if request.is("get", "/robots.txt") => ("200 OK", text),
            None if request.is("get", "/robots.txt") => ("404 Not Found", "gone"),
            _ => ("200 OK", "ok"),
        };
        let is_head = request.head.starts_with("head ");
        kept.lock().expect("no panic").push(request);
        let length = body.len();
        let mut message = format!("HTTP/1.1 {status}\r\ncontent-length: {length}\r\n\r\n");
        if !is_head {
            message += body;
        }
        // One write: the second of two would wait for a delayed acknowledgement.
        out.write_all(message.as_bytes())?;
    }
}

fn receive(reader: &mut impl BufRead) -> io::Result<Received> {
    let mut request = Received {
        head: String::new(),
        body: Vec::new(),
    };
    loop {
        let mut line = String::new();
        if reader.read_line(&mut line)? == 0 {
            return Err(io::ErrorKind::UnexpectedEof.into());
        }
        if line == "\r\n" {
            break;
        }
        // Boundaries and targets of these tests are in lower case.
        request.head += &line.to_ascii_lowercase().replace("\r\n", "\n");
    }
    let length = request.field("content-length").unwrap_or("0");
    let length: usize = length.parse().map_err(io::Error::other)?;
    request.body.resize(length, 0);
    reader.read_exact(&mut request.body)?;
    Ok(request)
}

fn home() -> TempDir {
    TempDir::new().expect("a temporary folder")
}

/// Runs a probe with one round that watches no idle connection.
fn probe(home: &TempDir, arguments: &[&str]) -> Output {
    let output = squall(home.path())
        .args(["probe", "--rounds", "1", "--idle", "0s", "--json"])
        .args(arguments)
        .stdin(Stdio::null())
        .output()
        .expect("squall starts");
    assert!(output.status.success(), "{}", stderr(&output));
    output
}

fn result(output: &Output) -> Value {
    let result: Value = serde_json::from_slice(&output.stdout).expect("valid JSON");
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
fn upload_is_a_form_if_asked_and_handshakes_are_measured_beside_it() {
    let _seat = seat();
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
    let received = site.received.lock().expect("no panic");
    let uploads: Vec<&Received> = received.iter().filter(|it| it.is("post", "/")).collect();
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
    let is_request = |request: &Received| {
        ["get ", "head ", "post "]
            .iter()
            .any(|method| request.head.starts_with(method))
    };
    assert!(received.iter().all(is_request));
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
    assert_eq!(site.count("get", "/robots.txt"), 1);
    assert_eq!(site.count("post", "/private?a"), 0);
    let few = site.count("get", "/private?a");
    assert!((2..=6).contains(&few), "{few} requests");
    // Told to, it does everything, and does not ask for the rules.
    let output = probe(&home, &[&["--ignore-robots"][..], &asks].concat());
    assert!(about_robots(&result(&output)).is_empty());
    assert_eq!(site.count("get", "/robots.txt"), 1);
    assert_eq!(site.count("post", "/private?a"), 2);
    assert!(site.count("get", "/private?a") > 100);
}

#[test]
fn missing_robots_txt_restricts_nothing() {
    let _seat = seat();
    let home = home();
    let site = Site::start(None);
    let url = format!("http://{}/", site.address);
    let output = probe(&home, &["--http", "1.1", "--upload", "1kB", url.as_str()]);
    assert!(about_robots(&result(&output)).is_empty());
    assert_eq!(site.count("get", "/robots.txt"), 1);
    assert_eq!(site.count("post", "/"), 2);
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
    assert_eq!(site.count("get", "/big"), 0);
    assert_eq!(site.count("post", "/"), 2);
    assert!(site.count("get", "/") > 100);
}

#[test]
fn addresses_families_and_other_names_are_facts() {
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

/// Frame types and flags (RFC 9113, section 6).
const HEADERS: u8 = 0x1;
const SETTINGS: u8 = 0x4;
const PING: u8 = 0x6;
const ACK: u8 = 0x1;
const END_STREAM: u8 = 0x1;
const END_HEADERS: u8 = 0x4;
/// `:status: 200` (RFC 7541, appendix A).
const OK: u8 = 0x88;

/// How long the servers of these tests take for a request.
const SLOW: Duration = Duration::from_millis(300);

/// Speaks HTTP/2 and works on one request after the other.
fn answer_in_turn(mut stream: TcpStream) -> io::Result<()> {
    stream.set_nodelay(true)?;
    let mut preface = [0; 24];
    stream.read_exact(&mut preface)?;
    stream.write_all(&frame(SETTINGS, 0, [0; 4], &[]))?;
    loop {
        let mut head = [0; 9];
        stream.read_exact(&mut head)?;
        let [a, b, c, kind, flags, id @ ..] = head;
        let mut payload = vec![0; u32::from_be_bytes([0, a, b, c]) as usize];
        stream.read_exact(&mut payload)?;
        match kind {
            SETTINGS | PING if flags & ACK == 0 => {
                let echo: &[u8] = if kind == PING { &payload } else { &[] };
                stream.write_all(&frame(kind, ACK, [0; 4], echo))?;
            }
            HEADERS => {
                thread::sleep(SLOW);
                stream.write_all(&frame(HEADERS, END_HEADERS | END_STREAM, id, &[OK]))?;
            }
            _ => {}
        }
    }
}

fn frame(kind: u8, flags: u8, id: [u8; 4], payload: &[u8]) -> Vec<u8> {
    let length = u32::try_from(payload.len()).expect("a short payload");
    [&length.to_be_bytes()[1..], &[kind, flags], &id, payload].concat()
}

/// The names of the faults of a probe over HTTP/2, and whether two slow requests were handled concurrently.
fn concurrency(url: &str) -> (Vec<String>, Value) {
    let home = home();
    let result = result(&probe(&home, &["--http", "2", url]));
    let faults = result["faults"].as_array().expect("faults");
    let names = faults.iter().filter_map(|fault| fault["fault"].as_str());
    let names = names.map(str::to_owned).collect();
    (names, result["endpoint"]["concurrency"].clone())
}

#[test]
fn server_that_works_on_one_request_at_a_time_is_named() {
    let _seat = seat();
    let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
    let address = listener.local_addr().expect("an address");
    thread::spawn(move || {
        for stream in listener.incoming().flatten() {
            // A client that closes the connection is no failure.
            thread::spawn(move || answer_in_turn(stream));
        }
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
}

/// A busy machine may make times unclear, but never a concurrent server look like a serial one.
#[test]
fn slow_server_that_works_on_requests_together_is_not() {
    let _seat = seat();
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
}
