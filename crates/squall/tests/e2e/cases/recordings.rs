//! HAR files: what an import leaves out, and where the load goes.

use std::fs;
use std::path::Path;

use serde_json::{Value, json};
use squall_base::plan::Protocol;
use tempfile::TempDir;

use super::{Ended, file, run, run_with, text};
use crate::served::{CERTIFICATE, Serving};
use crate::support::seat;

/// The address of the server in the recordings.
const RECORDED: &str = "127.0.0.1:18080";

/// Imports a HAR file. Returns the script, and what was printed on stderr.
fn import(home: &Path, har: &[u8]) -> (Value, String) {
    let Ended {
        code,
        stdout,
        stderr,
    } = run_with(home, &["import", "har", "-"], har);
    assert_eq!(code, Some(0), "{stderr}");
    (serde_json::from_str(&stdout).expect("a script"), stderr)
}

/// Paths and queries of the requests of a script.
fn targets(script: &Value) -> Vec<&str> {
    let requests = script["requests"].as_array().expect("requests");
    let urls = requests.iter().map(|it| it["url"].as_str().expect("a URL"));
    urls.map(|url| url.trim_start_matches("http://127.0.0.1:18080"))
        .collect()
}

/// An entry for a GET that was sent, to which the fields of `other` are added, or whose fields they replace.
fn entry(at_ms: usize, other: &Value) -> Value {
    let mut entry = json!({
        "startedDateTime": format!("2026-01-02T03:04:05.{at_ms:03}Z"),
        "request": {"method": "GET", "url": format!("http://{RECORDED}/{at_ms}"), "headers": []},
        "response": {"status": 200}
    });
    merge(&mut entry, other);
    entry
}

fn merge(into: &mut Value, other: &Value) {
    match (into, other) {
        (Value::Object(into), Value::Object(other)) => {
            for (name, value) in other {
                merge(into.entry(name.as_str()).or_insert(Value::Null), value);
            }
        }
        (into, other) => *into = other.clone(),
    }
}

/// A HAR file as the program `creator` would write it. Each of `others` is the JSON in which an entry differs from a GET that
/// was sent.
fn har(creator: &str, others: &[&str]) -> Vec<u8> {
    let parsed = others
        .iter()
        .map(|other| serde_json::from_str::<Value>(other).expect("JSON"));
    let entries: Vec<Value> = (0..)
        .zip(parsed)
        .map(|(at, other)| entry(at, &other))
        .collect();
    let har = json!({"log": {"creator": {"name": creator}, "entries": entries}});
    har.to_string().into_bytes()
}

#[test]
fn requests_that_never_left_the_browser_are_left_out() {
    let _seat = seat();
    let home = TempDir::new().expect("a temporary folder");
    for (case, name, kept, said) in [
        (
            "har-blocked-request",
            "in.har",
            &["/ok"][..],
            "1 request left out: it was blocked or failed, without a response (log.entries[1])",
        ),
        (
            "har-safari-cache",
            "in.har",
            &["/net.html"],
            "2 requests left out: the browser's cache answered them (first: log.entries[1])\n\
             1 request left out: a service worker answered it (log.entries[3])",
        ),
        (
            "har-service-worker-twice",
            "in.har",
            &["/data.json"],
            "1 request left out: a service worker answered it (log.entries[0])",
        ),
        (
            "har-wpt-post-size",
            "in.har",
            &["/collect"],
            "1 body of which only the size is kept (log.entries[0])",
        ),
    ] {
        let har = fs::read(file(case, name)).expect("an input");
        let (script, stderr) = import(home.path(), &har);
        assert_eq!(targets(&script), kept, "{case}: {stderr}");
        assert!(stderr.starts_with(said), "{case}: {stderr}");
        if case == "har-wpt-post-size" {
            assert_eq!(script["requests"][0]["body"]["size"], 321);
        }
    }
}

const CACHE: &str = "the browser's cache answered";
const FAILED: &str = "blocked or failed, without a response";
const INSIDE: &str = "the browser or a test answered";
const NO_HTTP: &str = "not http or https";
const WORKER: &str = "service worker";
const WHOLE: &str = "requests at their times: 2, of 2 kinds";

/// The program that wrote a recording, its entries after the first, the targets that are kept, and part of the message.
type Recording = (
    &'static str,
    &'static [&'static str],
    &'static [&'static str],
    &'static str,
);

const BROWSERS: [Recording; 12] = [
    // As har-safari-cache.
    (
        "Firefox",
        &[
            r#"{"cache": {"afterRequest": null}}"#,
            r#"{"cache": {"afterRequest": {"hitCount": 2}}}"#,
        ],
        &["/0"],
        CACHE,
    ),
    (
        "WebInspector",
        &[r#"{"_fromCache": "disk"}"#, r#"{"_fromCache": "prefetch"}"#],
        &["/0"],
        CACHE,
    ),
    (
        "WebInspector",
        &[r#"{"response": {"status": 304}}"#],
        &["/0", "/1"],
        WHOLE,
    ),
    (
        "WebKit Web Inspector",
        &[r#"{"_fetchType": "Inspector Override"}"#],
        &["/0"],
        INSIDE,
    ),
    (
        "WebInspector",
        &[
            r#"{"request": {"url": "data:,x"}}"#,
            r#"{"request": {"url": "blob:http://a/1"}}"#,
            r#"{"request": {"url": "about:blank"}}"#,
            r#"{"request": {"url": "wss://a/"}}"#,
        ],
        &["/0"],
        NO_HTTP,
    ),
    // As har-blocked-request.
    (
        "Firefox",
        &[r#"{"response": {"status": 0, "statusText": ""}}"#],
        &["/0"],
        FAILED,
    ),
    ("Playwright", &[r#"{"_wasAborted": true}"#], &["/0"], FAILED),
    (
        "WebInspector",
        &[r#"{"response": {"status": null, "_error": "net::ERR_TIMED_OUT"}}"#],
        &["/0"],
        FAILED,
    ),
    (
        "WebInspector",
        &[r#"{"response": {"_error": "net::ERR_ABORTED", "_transferSize": 512}}"#],
        &["/0", "/1"],
        WHOLE,
    ),
    // As har-service-worker-twice.
    (
        "WebInspector",
        &[r#"{"response": {"_fetchedViaServiceWorker": true}}"#],
        &["/0"],
        WORKER,
    ),
    (
        "WebInspector",
        &[r#"{"response": {"_fetchedViaServiceWorker": true, "_transferSize": 9}}"#],
        &["/0", "/1"],
        WHOLE,
    ),
    (
        "WebKit Web Inspector",
        &[r#"{"_fetchType": "Service Worker"}"#],
        &["/0"],
        WORKER,
    ),
];

/// What other browsers and programs write. The first entry of each file was sent. The target of a request is its
/// position in the file, so the targets show which requests are kept.
#[test]
fn fields_of_other_browsers_show_which_requests_were_sent() {
    let _seat = seat();
    let home = TempDir::new().expect("a temporary folder");
    for (creator, others, kept, said) in BROWSERS {
        let har = har(creator, &[&["{}"], others].concat());
        let (script, stderr) = import(home.path(), &har);
        assert_eq!(targets(&script), kept, "{others:?}: {stderr}");
        assert!(stderr.contains(said), "{others:?}: {stderr}");
    }
}

#[test]
fn body_size_is_taken_from_whichever_field_is_present() {
    let _seat = seat();
    let home = TempDir::new().expect("a temporary folder");
    for (request, body) in [
        (r#""bodySize": 321"#, json!({"size": 321})),
        (
            r#""headers": [{"name": "Content-Length", "value": "12"}], "postData": {"mimeType": "a/b"}"#,
            json!({"size": 12}),
        ),
        (
            r#""headers": [{"name": "content-length", "value": "9"}],
               "postData": {"mimeType": "a/b", "text": "!!", "encoding": "base64"}"#,
            json!({"size": 9}),
        ),
        (
            r#""postData": {"mimeType": "application/x-www-form-urlencoded",
                "params": [{"name": "a b", "value": "c&d"}]}"#,
            json!({"text": "a+b=c%26d"}),
        ),
        (
            r#""headers": [{"name": "transfer-encoding", "value": "chunked"}], "postData": {"text": ""}"#,
            json!("empty"),
        ),
    ] {
        let other = format!(r#"{{"request": {{"method": "POST", {request}}}}}"#);
        let (script, stderr) = import(home.path(), &har("test", &[&other]));
        assert_eq!(script["requests"][0]["body"], body, "{request}: {stderr}");
    }
}

/// Recordings, how many of their requests are sent, and what the message says about the others.
fn unsendable() -> Vec<(Vec<u8>, usize, &'static str)> {
    let recorded = |name: &str| fs::read(file("har-one-entry-stops-all", name)).expect("an input");
    let long = format!(
        r#"{{"request": {{"url": "http://a/?{}"}}}}"#,
        "x".repeat(8_000)
    );
    let many: Vec<String> = (0..130)
        .map(|name| format!(r#"{{"name": "x-{name}", "value": ""}}"#))
        .collect();
    let many = format!(r#"{{"request": {{"headers": [{}]}}}}"#, many.join(","));
    vec![
        (recorded("long.har"), 2, "longer than 8000 bytes"),
        (recorded("longck.har"), 1, "longer than 48 KiB"),
        (recorded("manyh.har"), 1, "more than 126"),
        (
            recorded("utf8h.har"),
            2,
            "2 header fields left out: they cannot be sent",
        ),
        (
            har("a", &["{}", &long, &many]),
            1,
            "more than 126, or longer than 48 KiB",
        ),
        (
            har(
                "a",
                &[
                    "{}",
                    r#"{"request": {"method": "CONNECT"}}"#,
                    r#"{"request": {"method": "G ET"}}"#,
                ],
            ),
            1,
            "2 requests left out: their methods are invalid, or CONNECT",
        ),
        (
            har(
                "a",
                &[
                    "{}",
                    r#"{"request": 7}"#,
                    r#"{"startedDateTime": "today"}"#,
                    r#"{"startedDateTime": null}"#,
                ],
            ),
            1,
            "2 requests left out: they have no valid time",
        ),
        (
            har(
                "a",
                &[
                    r#"{"request": {"headers": [{"name": "a b", "value": "c"}, {"name": "d", "value": "e\nf"}]}}"#,
                ],
            ),
            1,
            "2 header fields left out",
        ),
        (
            har("a", &["{}", r#"{"request": {"url": "http://[::1"}}"#]),
            1,
            "its URL is invalid",
        ),
    ]
}

#[test]
fn entry_that_cannot_be_sent_does_not_stop_the_others() {
    let _seat = seat();
    let home = TempDir::new().expect("a temporary folder");
    let home = home.path();
    let server = Serving::start(home, &["--h1", "0"]);
    let url = server.url(Protocol::H1);
    for (har, sent, said) in unsendable() {
        let (script, stderr) = import(home, &har);
        assert!(stderr.contains(said), "{said}: {stderr}");
        fs::write(home.join("s.json"), script.to_string()).expect("a script");
        let load = run(home, &["load", "--script", "s.json", &url]);
        let succeeded = format!("{sent} succeeded (100 %)");
        assert!(load.stdout.contains(&succeeded), "{said}: {}", load.stderr);
        assert_eq!(load.code, Some(0), "{said}: {}", load.stderr);
    }
}

#[test]
fn load_goes_to_the_hosts_that_the_command_selects() {
    let _seat = seat();
    let home = TempDir::new().expect("a temporary folder");
    let home = home.path();
    // This server exits at once, so requests sent to it fail.
    let third_party = Serving::start(home, &["--h1", "0"]).address("h1");
    let third_party = &third_party.to_string();
    let server = Serving::start(home, &["--h1", "0", "--https", "0"]);
    let [plain, secure] = ["h1", "https"].map(|kind| server.address(kind).port());
    let [plain, secure] = &[plain, secure].map(|port| format!("localhost:{port}"));
    let [to_plain, to_secure] = &[format!("http://{plain}"), format!("https://{secure}")];
    let addresses: [(&str, &str); 2] = [("localhost:18080", plain), ("localhost:18443", secure)];
    let mixed = text("har-mixed-schemes", "in.har", &addresses);
    let addresses: [(&str, &str); 2] = [(RECORDED, plain), ("127.0.0.1:18090", third_party)];
    let foreign = text("har-url-argument-ignored", "in.har", &addresses);
    let goes_to =
        |host: &str, count: &str| format!("the load goes to {host}: {count} of the script\n");
    let both = format!("the load goes to the recorded hosts: {to_plain} (1), {to_secure} (1)\n");
    let without = format!("left out: 1 request to other hosts: http://{third_party} (1)");
    let only = format!("the load goes to the recorded hosts: {to_plain} (1)\n");
    let rows: [(&str, &[&str], u32, String); 8] = [
        // har-mixed-schemes.
        (&mixed, &[to_secure], 2, goes_to(to_secure, "2 requests")),
        (&mixed, &[to_plain], 2, goes_to(to_plain, "2 requests")),
        (
            &mixed,
            &["--http", "2", to_secure],
            2,
            goes_to(to_secure, "2 requests"),
        ),
        (&mixed, &[], 2, both),
        // har-url-argument-ignored.
        (&foreign, &[to_plain], 1, without),
        (
            &foreign,
            &["--hosts", third_party, to_plain],
            1,
            goes_to(to_plain, "1 request"),
        ),
        (&foreign, &["--keep-hosts", "--hosts", plain], 1, only),
        (&foreign, &[to_secure], 1, goes_to(to_secure, "1 request")),
    ];
    for (har, arguments, sent, said) in rows {
        fs::write(home.join("in.har"), har).expect("a file");
        let imported = run(home, &["import", "har", "in.har", "-o", "s.json"]);
        assert_eq!(imported.code, Some(0), "{}", imported.stderr);
        let load = ["load", "--script", "s.json", "--cacert", CERTIFICATE];
        let load = run(home, &[&load[..], arguments].concat());
        assert!(
            load.stderr.contains(&said),
            "{arguments:?}: {}",
            load.stderr
        );
        let succeeded = format!("{sent} succeeded (100 %)");
        assert!(
            load.stdout.contains(&succeeded),
            "{arguments:?}: {}",
            load.stdout
        );
    }
}
