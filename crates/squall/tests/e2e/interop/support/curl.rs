//! curl: HTTP/1.1 and HTTP/2, each with and without TLS, and the upgrade from one to the other.

use std::path::Path;

use tempfile::TempDir;

use super::Http;
use super::answer::{Answer, Request};
use super::program::{PATIENCE, command, run};

/// Fetches with this HTTP version only.
pub(crate) fn fetch(http: Http, request: &Request) -> Answer {
    fetch_with(&[flag(http)], request).0
}

/// Like [`fetch`], with additional header fields and the path sent unchanged. Also returns the response head in
/// HTTP/1.1 form.
pub(crate) fn fetch_with_head(http: Http, request: &Request, fields: &[&str]) -> (Answer, String) {
    let mut flags = vec![flag(http), "--path-as-is"];
    flags.extend(fields.iter().flat_map(|field| ["--header", field]));
    if request.method == "HEAD" {
        flags.push("--head");
    }
    let (mut answer, head) = fetch_with(&flags, request);
    if request.method == "HEAD" {
        // With --head, curl also writes the head to the file of the body.
        assert_eq!(answer.body, head.as_bytes(), "{}", answer.asked);
        answer.body.clear();
    }
    (answer, head)
}

fn flag(http: Http) -> &'static str {
    match http {
        Http::H1 | Http::H1s => "--http1.1",
        Http::H2c => "--http2-prior-knowledge",
        Http::H2 => "--http2",
        Http::H3 => panic!("Debian's curl has no HTTP/3; pycurl has"),
    }
}

/// Offers `Upgrade: h2c` on a cleartext connection (RFC 7540 §3.2, gone from RFC 9113) and accepts either outcome.
pub(crate) fn fetch_by_upgrade(request: &Request) -> Answer {
    fetch_with(&["--http2"], request).0
}

fn fetch_with(flags: &[&str], request: &Request) -> (Answer, String) {
    let folder = TempDir::new().expect("a temporary folder");
    let [sent, received, head] = ["sent", "received", "head"].map(|name| folder.path().join(name));
    let mut curl = command("curl");
    curl.args([
        "--disable",
        "--silent",
        "--show-error",
        "--insecure",
        "--noproxy",
        "*",
    ])
    .args(flags)
    .args(["--max-time", &PATIENCE.as_secs().to_string()])
    .args([
        "--request",
        request.method,
        "--write-out",
        "%{http_code} %{http_version}",
    ])
    .arg("--dump-header")
    .arg(&head)
    .arg("--output")
    .arg(&received);
    if let Some(body) = request.body {
        std::fs::write(&sent, body).expect("the body is written");
        curl.arg("--data-binary")
            .arg(format!("@{}", sent.display()));
    }
    let output = run(curl.arg(request.url));
    let asked = format!(
        "curl {} {} {}",
        flags.join(" "),
        request.method,
        request.url
    );
    let answer = parse(asked, &String::from_utf8_lossy(&output.stdout), &received);
    let head = std::fs::read_to_string(&head).expect("curl has written the head");
    (answer, head)
}

/// Builds an answer from the line with status and version and the body file, which curl does not create for an empty
/// body.
pub(super) fn parse(asked: String, line: &str, received: &Path) -> Answer {
    let (status, version) = line.trim().split_once(' ').expect("status and version");
    Answer {
        asked,
        status: status.parse().expect("a status"),
        version: version.to_owned(),
        body: std::fs::read(received).unwrap_or_default(),
    }
}
