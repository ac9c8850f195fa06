//! HAR files: their timings add up, they contain no credentials, and `import har` reads them.

use serde_json::{Value, json};
use squall_base::Time;
use squall_base::plan::ScriptBody;
use squall_base::record::RequestRecord;
use squall_record::export::{HarRequest, write_har};
use squall_record::import::{HarOptions, parse_har};

use crate::export::{EPOCH_UNIX_NS, request, some, text};

fn har(rows: &[RequestRecord], headers: &[(String, String)], body: Option<&str>) -> String {
    let asked = |row: &RequestRecord| HarRequest {
        method: if row.request == 2 { "POST" } else { "GET" },
        url: "http://a.test/x?b=1&c=a%20b",
        http_version: "HTTP/2",
        headers,
        body: body.filter(|_| row.request == 2),
    };
    let started = Time::from_nanos(100_000_000);
    let written = write_har(
        Vec::new(),
        EPOCH_UNIX_NS,
        "h2, delay 1ms",
        started,
        rows,
        asked,
    );
    text(written.expect("a Vec takes everything"))
}

fn entries(text: &str) -> Vec<Value> {
    let har: Value = serde_json::from_str(text).expect("JSON");
    let entries = har["log"]["entries"].as_array().expect("entries");
    entries.clone()
}

#[test]
fn har_file_has_what_the_specification_requires() {
    let text = har(&some(), &[], None);
    let whole: Value = serde_json::from_str(&text).expect("JSON");
    let log = &whole["log"];
    assert_eq!(
        (&log["version"], &log["creator"]["name"]),
        (&json!("1.2"), &json!("squall"))
    );
    assert_eq!(log["pages"][0]["title"], "h2, delay 1ms");
    assert_eq!(
        log["pages"][0]["startedDateTime"],
        "2025-11-21T21:25:01.350000Z"
    );
    let entries = entries(&text);
    assert_eq!(entries.len(), 4, "without the warm-up");
    assert_eq!(
        entries[0],
        json!({
            "pageref": log["pages"][0]["id"],
            "startedDateTime": "2025-11-21T21:25:01.350000Z",
            "time": 21.0,
            "connection": "0",
            "cache": {},
            "request": {
                "method": "GET", "url": "http://a.test/x?b=1&c=a%20b", "httpVersion": "HTTP/2",
                "cookies": [], "headers": [], "headersSize": -1, "bodySize": 0,
                "queryString": [{ "name": "b", "value": "1" }, { "name": "c", "value": "a b" }],
            },
            "response": {
                "status": 200, "statusText": "", "httpVersion": "HTTP/2", "cookies": [], "headers": [],
                "content": { "size": 1024, "mimeType": "x-unknown" }, "redirectURL": "",
                "headersSize": -1, "bodySize": 1024,
            },
            "timings": {
                "blocked": 1.0, "dns": -1, "connect": -1, "ssl": -1, "send": 0.0, "wait": 20.0, "receive": 0.0,
            },
        })
    );
    // Given up, and never connected.
    assert_eq!(
        (
            &entries[2]["response"]["status"],
            &entries[2]["response"]["_error"]
        ),
        (&json!(0), &json!("censored"))
    );
    assert_eq!(
        entries[3]["response"]["_error"],
        "connect_failed: refused, they said \"no\""
    );
    assert_eq!(entries[3]["timings"]["blocked"], 24.0);
}

#[test]
fn har_file_without_entries_is_valid() {
    let text = har(&[], &[], None);
    assert!(entries(&text).is_empty());
}

/// The parts add up to the response time whatever is missing, and TLS is a part of connecting.
#[test]
fn timings_of_a_request_that_opened_its_connection_add_up() {
    let at = |ms: u64| Some(Time::from_nanos(ms * 1_000_000));
    let opened = RequestRecord {
        opened_connection: true,
        connected: at(105),
        secured: at(109),
        written_last: at(110),
        answered_first: at(130),
        ..request(1, 100, 35)
    };
    let shared = RequestRecord {
        opened_connection: false,
        ..opened.clone()
    };
    let cut_off = RequestRecord {
        answered_first: None,
        ..opened.clone()
    };
    let never_secured = RequestRecord {
        secured: None,
        connected: None,
        written_last: None,
        ..cut_off.clone()
    };
    let expected = [
        json!({ "blocked": 1.0, "dns": -1, "connect": 8.0, "ssl": 4.0, "send": 1.0, "wait": 20.0, "receive": 5.0 }),
        json!({ "blocked": 9.0, "dns": -1, "connect": -1, "ssl": -1, "send": 1.0, "wait": 20.0, "receive": 5.0 }),
        json!({ "blocked": 1.0, "dns": -1, "connect": 8.0, "ssl": 4.0, "send": 1.0, "wait": 25.0, "receive": 0.0 }),
        json!({ "blocked": 1.0, "dns": -1, "connect": 34.0, "ssl": -1, "send": 0.0, "wait": 0.0, "receive": 0.0 }),
    ];
    let rows = [opened, shared, cut_off, never_secured];
    let entries = entries(&har(&rows, &[], None));
    for (entry, expected) in entries.iter().zip(&expected) {
        assert_eq!(&entry["timings"], expected);
        let parts = ["blocked", "connect", "send", "wait", "receive"];
        let sum: f64 = (parts.iter())
            .filter_map(|part| expected[part].as_f64())
            .filter(|ms| *ms > 0.0)
            .sum();
        assert_eq!(entry["time"].as_f64(), Some(sum));
    }
}

#[test]
fn credentials_are_not_exported() {
    let field = |name: &str, value: &str| (name.to_owned(), value.to_owned());
    let headers = [
        field("accept", "*/*"),
        field("authorization", "Bearer 1234"),
        field("cookie", "session=1234"),
        field("x-api-key", "1234"),
    ];
    let text = har(&some(), &headers, None);
    assert!(!text.contains("1234"), "{text}");
    let written = &entries(&text)[0]["request"]["headers"];
    assert_eq!(written[0], json!({ "name": "accept", "value": "*/*" }));
    assert_eq!(
        written[1],
        json!({ "name": "authorization", "value": "[redacted]" })
    );
}

/// Requests without any response are left out, like a browser's requests that were never answered.
#[test]
fn exported_har_file_can_be_imported() {
    let headers = [("content-type".to_owned(), "text/plain".to_owned())];
    let mut rows = some();
    rows[2].request_body_bytes = 5;
    let text = har(&rows, &headers, Some("hello"));
    let imported = parse_har(text.as_bytes(), &HarOptions::default()).expect("a script");
    let script = imported.content;
    let at: Vec<u64> = script.steps.iter().map(|step| step.at.as_nanos()).collect();
    assert_eq!(at, [0, 100_000_000]);
    let asked = |step: usize| &script.requests[script.steps[step].request as usize];
    assert_eq!(asked(0).url, "http://a.test/x?b=1&c=a%20b");
    assert_eq!(
        (asked(1).method.as_str(), &asked(1).body),
        ("POST", &ScriptBody::Text("hello".to_owned()))
    );
    assert_eq!(imported.omissions.iter().map(|it| it.count).sum::<u64>(), 2);
}
