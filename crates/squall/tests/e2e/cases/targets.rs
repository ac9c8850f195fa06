//! `squall load --targets`: lists of URLs, vegeta's formats, and the order of what is sent.

use std::fs;
use std::path::Path;

use tempfile::TempDir;

use super::{Ended, run_with, text};
use crate::loads_targets::recording_server;
use crate::support::seat;

/// Sends `count` requests to these targets, which come from stdin. `URL` in them is the server's. Returns the requests that
/// the server received, and how the load ended.
fn load(home: &Path, targets: &str, count: &str, more: &[&str]) -> (Vec<Vec<u8>>, Ended) {
    let (address, requests) = recording_server();
    let targets = targets.replace("URL", &format!("http://{address}"));
    let arguments = [&["load", "--targets", "-", "-n", count][..], more].concat();
    let ended = run_with(home, &arguments, targets.as_bytes());
    (requests.try_iter().collect(), ended)
}

/// The method and the path of a request.
fn first_words(request: &[u8]) -> String {
    let text = String::from_utf8_lossy(request);
    let line = text.lines().next().unwrap_or_default();
    line.trim_end_matches(" HTTP/1.1").to_owned()
}

#[test]
fn lists_and_targets_are_requested_in_their_order() {
    let _seat = seat();
    let home = TempDir::new().expect("a temporary folder");
    let order = text(
        "targets-not-in-order",
        "order.txt",
        &[("http://127.0.0.1:18300", "URL")],
    );
    let list = text("url-list", "urls.txt", &[("http://127.0.0.1:18080", "URL")]);
    let rows: [(&str, &str, &[&str], &[&str]); 11] = [
        // targets-not-in-order.
        (
            &order,
            "6",
            &[],
            &[
                "GET /id1", "GET /id2", "GET /id3", "GET /id4", "GET /id5", "GET /id6",
            ],
        ),
        (
            &order,
            "7",
            &["--rate", "200"],
            &[
                "GET /id1", "GET /id2", "GET /id3", "GET /id4", "GET /id5", "GET /id6", "GET /id1",
            ],
        ),
        (
            "URL/a\nURL/a\nURL/b\n",
            "3",
            &[],
            &["GET /a", "GET /a", "GET /b"],
        ),
        (
            "GET URL/a\nPOST URL/b\nX: y\n\nURL/c",
            "3",
            &["--seed", "7"],
            &["GET /a", "POST /b", "GET /c"],
        ),
        // url-list.
        (&list, "2", &[], &["GET /a", "GET /b"]),
        ("GET URL/", "1", &[], &["GET /"]),
        (
            "# a comment\r\n\r\nURL/a\r\nURL/b\r\n",
            "2",
            &[],
            &["GET /a", "GET /b"],
        ),
        (
            "  URL/a  \n\tURL/b?c=d#e\n",
            "2",
            &[],
            &["GET /a", "GET /b?c=d"],
        ),
        ("\u{feff}URL/a\n", "1", &[], &["GET /a"]),
        (
            "{\"method\": \"PUT\", \"url\": \"URL/j\"}\n\n{\"method\": \"GET\", \"url\": \"URL/k\"}",
            "2",
            &[],
            &["PUT /j", "GET /k"],
        ),
        ("GET\tURL/a\n", "1", &[], &["GET /a"]),
    ];
    for (targets, count, more, expected) in rows {
        let (requests, ended) = load(home.path(), targets, count, more);
        assert_eq!(ended.code, Some(0), "{targets:?}: {}", ended.stderr);
        let sent: Vec<String> = requests.iter().map(|it| first_words(it)).collect();
        assert_eq!(sent, expected, "{targets:?}");
    }
}

#[test]
fn fields_and_bodies_of_targets_arrive() {
    const ONE_LEFT_OUT: &str = "1 header field left out: it cannot be sent";
    let _seat = seat();
    let home = TempDir::new().expect("a temporary folder");
    fs::write(home.path().join("body.bin"), b"\xff\0\xc3").expect("a body");
    let case = text(
        "vegeta-host-header-dropped",
        "targets.txt",
        &[("http://127.0.0.1:18300", "URL")],
    );
    let rows: [(&str, &str, &[u8], &str); 9] = [
        (&case, "\r\nhost: vhost.example\r\n", b"", ""),
        (&case, "\r\nx-account-id: 8675309\r\n", b"", ""),
        (
            "GET URL/\nhost: lower.example:99\n",
            "\r\nhost: lower.example:99\r\n",
            b"",
            "",
        ),
        (
            "GET URL/\nHost: first\nHost: second\n",
            "\r\nhost: first\r\n",
            b"",
            ONE_LEFT_OUT,
        ),
        ("GET URL/\nX: 1\nX: 2\n", "\r\nx: 1\r\nx: 2\r\n", b"", ""),
        (
            "GET URL/\nConnection: close\nHost: a\n",
            "\r\nhost: a\r\n",
            b"",
            "1 header field left out: squall sets it",
        ),
        (
            "POST URL/\nContent-Type: a/b\n@body.bin\n",
            "\r\ncontent-type: a/b\r\n",
            b"\xff\0\xc3",
            "",
        ),
        (
            "{\"method\": \"POST\", \"url\": \"URL/\", \"header\": {\"host\": [\"b\"], \"X\": [\"1\", \"2\"]}, \"body\": \"/wA=\"}",
            "\r\nhost: b\r\nx: 1\r\nx: 2\r\n",
            b"\xff\0",
            "",
        ),
        (
            "{\"method\": \"GET\", \"url\": \"URL/\", \"header\": {\"Host\": [\"a\", \"b\"]}}",
            "\r\nhost: a\r\n",
            b"",
            ONE_LEFT_OUT,
        ),
    ];
    for (targets, field, body, said) in rows {
        let (requests, ended) = load(home.path(), targets, "1", &[]);
        assert_eq!(ended.code, Some(0), "{targets:?}: {}", ended.stderr);
        let head = String::from_utf8_lossy(&requests[0]);
        assert!(head.contains(field), "{targets:?}: {head}");
        let end = [&b"\r\n\r\n"[..], body].concat();
        assert!(requests[0].ends_with(&end), "{targets:?}: {head}");
        assert!(ended.stderr.contains(said), "{targets:?}: {}", ended.stderr);
        assert_eq!(
            ended.stderr.is_empty(),
            said.is_empty(),
            "{targets:?}: {}",
            ended.stderr
        );
    }
}
