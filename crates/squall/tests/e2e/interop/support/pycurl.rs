//! pycurl, for its libcurl with HTTP/3 (ngtcp2 and nghttp3): a client whose QUIC is neither squall's nor Chromium's.

use std::path::Path;

use tempfile::TempDir;

use super::answer::{Answer, Request};
use super::curl;
use super::program::{PATIENCE, command, run};

/// Fetches over HTTP/3 only.
pub(crate) fn fetch(request: &Request) -> Answer {
    fetch_times(request, 1).remove(0)
}

/// Like [`fetch`], with additional header fields and the path sent unchanged. Also returns the response head.
pub(crate) fn fetch_with_head(request: &Request, fields: &[&str]) -> (Answer, String) {
    ask(request, fields, 1, None).remove(0)
}

/// Sends the request `times` times in parallel, over one connection.
pub(crate) fn fetch_times(request: &Request, times: usize) -> Vec<Answer> {
    let answers = ask(request, &[], times, None).into_iter();
    answers.map(|(answer, _)| answer).collect()
}

/// Like [`fetch_times`], and writes the connection's secrets to a key log (`SSLKEYLOGFILE`).
pub(crate) fn fetch_with_key_log(request: &Request, times: usize, keys: &Path) -> Vec<Answer> {
    let answers = ask(request, &[], times, Some(keys)).into_iter();
    answers.map(|(answer, _)| answer).collect()
}

fn ask(
    request: &Request,
    fields: &[&str],
    times: usize,
    keys: Option<&Path>,
) -> Vec<(Answer, String)> {
    let folder = TempDir::new().expect("a temporary folder");
    let sent = folder.path().join("sent");
    if let Some(body) = request.body {
        std::fs::write(&sent, body).expect("the body is written");
    }
    let received = folder.path().join("received");
    let script = folder.path().join("pycurl_requests.py");
    std::fs::write(&script, include_str!("pycurl.py")).expect("the script is written");
    let mut python = command("pycurl");
    python
        .arg(&script)
        .args([request.url, request.method])
        .arg(&received)
        .arg(times.to_string())
        .arg(PATIENCE.as_secs().to_string());
    if request.body.is_some() {
        python.arg("--body").arg(&sent);
    }
    if let Some(keys) = keys {
        python.env("SSLKEYLOGFILE", keys);
    }
    for field in fields {
        python.args(["--header", field]);
    }
    let output = run(&mut python);
    let said = String::from_utf8_lossy(&output.stdout);
    let answers: Vec<_> = said
        .lines()
        .enumerate()
        .map(|(number, line)| {
            let asked = format!(
                "pycurl {} {}, {number} of {times}",
                request.method, request.url
            );
            let file = |name| folder.path().join(format!("{name}.{number}"));
            let head = std::fs::read_to_string(file("received.head"));
            let head = head.expect("pycurl has written the head");
            (curl::parse(asked, line, &file("received")), head)
        })
        .collect();
    assert_eq!(answers.len(), times, "{said}");
    answers
}
