//! Byte order marks, which editors on Windows put at the start of UTF-8 files: a mark does not change how any file that a
//! user names is read. A key log with one is in `captures`.

use std::fs;
use std::path::Path;

use squall_base::plan::Protocol;
use tempfile::TempDir;

use super::{file, run, run_with};
use crate::served::{CERTIFICATE, Serving};
use crate::support::{H1, recipe, seat};

/// Writes a file that begins with a mark.
fn mark(home: &Path, name: &str, text: &str) {
    fs::write(home.join(name), format!("\u{feff}{text}")).expect("a file");
}

#[test]
fn files_with_byte_order_marks_are_read_like_others() {
    const REPLAY: &[&str] = &["load", "--script", "s.json"];
    let _seat = seat();
    let home = TempDir::new().expect("a temporary folder");
    let home = home.path();
    let server = Serving::start(home, &["--h1", "0", "--https", "0"]);
    let [plain, secure] = &[
        server.url(Protocol::H1),
        format!("https://{}/", server.address("https")),
    ];
    let har = r#"{"log": {"entries": [{"startedDateTime": "2026-01-02T03:04:05Z",
        "request": {"method": "GET", "url": "/"}}]}}"#;
    mark(home, "in.har", &har.replace("\"/\"", &format!("{plain:?}")));
    mark(home, "in.tsv", &format!("0.0\t{plain}\n"));
    mark(
        home,
        "s.json",
        r#"{"requests": [{"method": "GET", "url": "/"}], "steps": [{"at": 0, "request": 0}]}"#,
    );
    mark(home, "page.json", r#"[{"url": "/"}]"#);
    mark(home, "urls.txt", &format!("{plain}\n"));
    mark(
        home,
        "t.json",
        &format!(r#"{{"method": "GET", "url": {plain:?}}}"#),
    );
    let profile = "duration = \"1s\"";
    mark(
        home,
        "r.toml",
        &recipe("9/s", "delay = \"1ms\"", &[H1], profile),
    );
    let pem = fs::read_to_string(home.join(CERTIFICATE)).expect("a certificate");
    mark(home, "marked.pem", &pem);
    mark(home, "changes.txt", "at 10s: loss 3%\n");
    mark(home, "times.trace", "1\n2\n");
    let rows: [(&[&str], &str); 11] = [
        (&["import", "har", "in.har"], ""),
        (&["import", "timing", "in.tsv"], ""),
        (REPLAY, plain),
        (&["load", "--page", "page.json"], plain),
        (&["load", "-n", "1", "--targets", "urls.txt"], ""),
        (&["load", "-n", "1", "--targets", "t.json"], ""),
        (&["run", "./r.toml", "--dry-run"], ""),
        (&["fetch", "--cacert", "marked.pem"], secure),
        (&["load", "--http", "2", "--cacert", "marked.pem"], secure),
        (&["link", "--schedule", "changes.txt", "--", "true"], ""),
        (&["link", "--down", "times.trace", "--", "true"], ""),
    ];
    for (arguments, url) in rows {
        let mut arguments = arguments.to_vec();
        arguments.extend(Some(url).filter(|url| !url.is_empty()));
        let ended = run(home, &arguments);
        assert_eq!(ended.code, Some(0), "{arguments:?}: {}", ended.stderr);
    }
}

#[test]
fn key_logs_lose_no_lines_to_byte_order_marks() {
    let _seat = seat();
    let home = TempDir::new().expect("a temporary folder");
    let home = home.path();
    let keys = fs::read_to_string(file("keylog-bom", "keys_bom.log")).expect("a key log");
    let keys = keys.trim_start_matches('\u{feff}');
    let half = keys.len() / 2;
    let half = half + keys[half..].find('\n').expect("there are further lines") + 1;
    let (first, second) = keys.split_at(half);
    let capture = file("keylog-bom", "tls.pcap");
    let capture = capture.to_str().expect("UTF-8");
    for (at, text) in [
        keys.to_owned(),
        format!("\u{feff}{keys}"),
        // Two logs, one appended to the other.
        format!("\u{feff}{first}\u{feff}{second}"),
        keys.replace('\n', "\r\n"),
        format!("# a comment\r\n\u{feff}\r\n{keys}"),
    ]
    .into_iter()
    .enumerate()
    {
        fs::write(home.join("keys.log"), &text).expect("a key log");
        let folder = format!("o{at}");
        let arguments = [
            "import",
            "pcap",
            capture,
            "--key-log",
            "keys.log",
            "-o",
            &folder,
        ];
        let ended = run(home, &arguments);
        assert_eq!(ended.code, Some(0), "{at}: {}", ended.stderr);
        assert!(
            ended.stdout.contains("and 4 requests"),
            "{at}: {}",
            ended.stdout
        );
    }
}

#[test]
fn scripts_and_pages_can_be_read_from_stdin() {
    let _seat = seat();
    let home = TempDir::new().expect("a temporary folder");
    let server = Serving::start(home.path(), &["--h1", "0"]);
    let url = server.url(Protocol::H1);
    let script =
        r#"{"requests": [{"method": "GET", "url": "/"}], "steps": [{"at": 0, "request": 0}]}"#;
    let marked = format!("\u{feff}{script}");
    for (flag, text) in [
        ("--script", script),
        ("--page", r#"[{"url": "/"}]"#),
        ("--script", marked.as_str()),
    ] {
        let ended = run_with(home.path(), &["load", flag, "-", &url], text.as_bytes());
        assert_eq!(ended.code, Some(0), "{flag}: {}", ended.stderr);
        assert!(
            ended.stdout.contains("1 succeeded (100 %)"),
            "{}",
            ended.stdout
        );
    }
    let ended = run(home.path(), &["load", "--page", "-", &url]);
    assert_eq!(ended.code, Some(2), "{}", ended.stderr);
    assert!(
        ended.stderr.contains("-: cannot read the page"),
        "{}",
        ended.stderr
    );
}
