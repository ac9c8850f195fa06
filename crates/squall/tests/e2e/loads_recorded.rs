//! Recordings of browsers as loads: which hosts get load, http and https together, and single requests that cannot be
//! sent.
//!
//! What an import leaves out is tested in squall-record; the choice of hosts by `load::hosts`.

use std::fs::{self, File};
use std::io::{self, BufReader, Write};
use std::net::TcpStream;
use std::path::Path;
use std::process::{Output, Stdio};
use std::sync::mpsc;

use squall_base::plan::Protocol;
use tempfile::TempDir;

use crate::served::{CERTIFICATE, Serving};
use crate::stand_ins::{ReceivedRequest, serve};
use crate::support::{seat, squall, stderr, stdout};

fn run(home: &Path, arguments: &[&str]) -> Output {
    squall(home)
        .args(arguments)
        .stdin(Stdio::null())
        .output()
        .expect("squall starts")
}

/// Responds to each request on a connection until its client closes it.
fn respond(stream: &TcpStream) -> io::Result<()> {
    let (mut reader, mut writer) = (BufReader::new(stream), stream);
    while ReceivedRequest::read(&mut reader)?.is_some() {
        writer.write_all(b"HTTP/1.1 200 OK\r\ncontent-length: 0\r\n\r\n")?;
    }
    Ok(())
}

/// A HAR file with a GET of each URL, 1 ms apart.
fn har(urls: &[String]) -> String {
    let entry = |(ms, url): (u32, &String)| {
        format!(
            r#"{{"startedDateTime": "2026-01-02T03:04:05.{ms:03}Z", "request": {{"method": "GET", "url": "{url}"}}}}"#
        )
    };
    let entries: Vec<String> = (0..).zip(urls).map(entry).collect();
    format!(r#"{{"log": {{"entries": [{}]}}}}"#, entries.join(","))
}

#[test]
fn recording_of_http_and_https_goes_where_the_command_says() {
    let _seat = seat();
    let home = TempDir::new().expect("a temporary folder");
    let home = home.path();
    let server = Serving::start(home, &["--h1", "0", "--https", "0"]);
    let plain = server.url(Protocol::H1);
    let secure = format!("https://{}", server.address("https"));
    // Port 1 refuses connections, so a request to the third party would fail.
    let third_party = "http://127.0.0.1:1/ads.js".to_owned();
    let urls = [
        format!("{plain}/"),
        third_party,
        format!("{secure}/a"),
        format!("{plain}/{}", "x".repeat(8_000)),
    ];
    fs::write(home.join("in.har"), har(&urls)).expect("a file");
    let imported = run(home, &["import", "har", "in.har", "-o", "s.json"]);
    assert!(imported.status.success(), "{}", stderr(&imported));
    let said = stderr(&imported);
    assert!(
        said.starts_with("1 request left out: the path and query"),
        "{said}"
    );

    let load = ["load", "--script", "s.json", "--cacert", CERTIFICATE];
    let output = run(home, &[&load[..], &[secure.as_str()]].concat());
    let said = stderr(&output);
    assert!(output.status.success(), "{said}");
    let goes = format!(
        "the load goes to {secure}: 2 requests of the script\nleft out: 1 request to other hosts: http://127.0.0.1:1 (1)"
    );
    assert!(said.contains(&goes), "{said}");
    assert!(
        stdout(&output).contains("2 requests in "),
        "{}",
        stdout(&output)
    );

    // Each over its own scheme.
    let hosts = format!("{},{}", server.address("h1"), server.address("https"));
    let output = run(home, &[&load[..], &["--hosts", &hosts]].concat());
    let said = stderr(&output);
    assert!(output.status.success(), "{said}");
    let goes = format!("the load goes to the recorded hosts: {plain} (1), {secure} (1)\n");
    assert!(said.contains(&goes), "{said}");
    assert!(
        stdout(&output).contains("2 succeeded (100 %)"),
        "{}",
        stdout(&output)
    );

    let output = run(home, &[&load[..], &["--hosts", "a.test", &secure]].concat());
    assert_eq!(output.status.code(), Some(2), "{}", stderr(&output));
}

/// When a client reaches it, and before it responds, the server reads what the load has printed so far.
#[test]
fn hosts_that_get_load_are_named_before_a_client_reaches_a_server() {
    let _seat = seat();
    let home = TempDir::new().expect("a temporary folder");
    let home = home.path();
    for (log, has_url) in [("url", true), ("no-url", false)] {
        let (sender, printed) = mpsc::channel();
        let file = home.join(log);
        let server = serve(move |stream| {
            let so_far = fs::read_to_string(&file).expect("what was printed");
            sender.send(so_far).expect("the test waits for it");
            respond(&stream)
        });
        let host = if has_url {
            "http://shop.test".to_owned()
        } else {
            format!("http://{server}")
        };
        let script = format!(
            r#"{{"requests": [{{"method": "GET", "url": "{host}/a"}}, {{"method": "GET", "url": "http://cdn.test/b"}}],
            "steps": [{{"at": 0, "request": 0}}, {{"at": 0, "request": 1}}]}}"#
        );
        fs::write(home.join("s.json"), script).expect("a file");
        let url = format!("http://{server}/");
        let (to, goes) = if has_url {
            let goes = format!("the load goes to http://{server}: 1 request of the script\n");
            ([url.as_str(), "-q"], goes)
        } else {
            let goes = format!("the load goes to the recorded hosts: http://{server} (1)\n");
            (["--hosts", "127.0.0.1"], goes)
        };
        let status = squall(home)
            .args(["load", "--script", "s.json"])
            .args(to)
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(File::create(home.join(log)).expect("a file"))
            .status()
            .expect("squall starts");
        let first = printed.try_recv().expect("a client came");
        assert!(status.success(), "{first}");
        let left_out = "left out: 1 request to other hosts: http://cdn.test (1)";
        assert!(first.starts_with(&(goes + left_out)), "{log}: {first}");
    }
}

#[test]
fn request_that_cannot_be_sent_does_not_stop_the_others() {
    let _seat = seat();
    let home = TempDir::new().expect("a temporary folder");
    let home = home.path();
    let server = Serving::start(home, &["--h1", "0"]);
    let url = server.url(Protocol::H1);
    let script = r#"{"requests": [
        {"method": "GET", "url": "/a", "headers": [["x-name", "café"]]},
        {"method": "GET", "url": "/b"}],
        "steps": [{"at": 0, "request": 0}, {"at": 1000000, "request": 1}, {"at": 2000000, "request": 0}]}"#;
    fs::write(home.join("s.json"), script).expect("a file");
    let output = run(home, &["load", "--script", "s.json", &url]);
    let said = stderr(&output);
    assert!(output.status.success(), "{said}");
    assert!(
        said.contains("left out: 2 requests that cannot be sent; the first: the value of the header \"x-name\""),
        "{said}"
    );
    assert!(
        stdout(&output).contains("1 succeeded (100 %)"),
        "{}",
        stdout(&output)
    );

    let long = format!("{url}/{}", "x".repeat(8_000));
    let output = run(home, &["fetch", &long]);
    let said = stderr(&output);
    assert_eq!(output.status.code(), Some(2), "{said}");
    assert!(said.contains("8001 bytes") && said.len() < 300, "{said}");
}
