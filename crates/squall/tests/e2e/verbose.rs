//! What `squall load -v` prints where there are several requests: what was really sent, in its order.
//!
//! The layout, and that of one request, is in `fetch`.

use std::fs;

use squall_base::plan::Protocol;
use squall_record::read_requests;
use tempfile::TempDir;

use crate::served::{Serving, ask};
use crate::support::{seat, stderr};

/// The paths of requests in the order in which `-v` says that they were sent, each with its stream over HTTP/2 and
/// HTTP/3.
fn sent(said: &str) -> Vec<(Option<u64>, String)> {
    let mut stream = None;
    let mut paths = Vec::new();
    for line in said.lines() {
        if let Some((_, rest)) = line.split_once("send HEADERS frame <") {
            let id = rest.split_once("stream_id=").expect("a stream").1;
            let id = id.split_once([',', '>']).expect("the end of a number").0;
            stream = id.parse().ok();
        } else if let Some(path) = line.strip_prefix("          :path: ") {
            paths.push((stream, path.to_owned()));
        } else if let Some((_, rest)) = line.split_once("] send GET ") {
            paths.push((None, rest.trim_end_matches(" HTTP/1.1").to_owned()));
        }
    }
    paths
}

#[test]
fn load_shows_each_request_where_it_is_sent() {
    const REQUESTS: usize = 20;
    let _seat = seat();
    for protocol in [Protocol::H1, Protocol::H2c, Protocol::H3] {
        let home = TempDir::new().expect("a temporary folder");
        let kind = format!("--{protocol}");
        let server = Serving::start(home.path(), &[&kind, "0", "--access-log", "access.log"]);
        let url = server.url(protocol);
        let (a, b) = (format!("{url}/a"), format!("{url}/b"));
        let arguments = [
            "-v",
            "-n",
            "20",
            "-c",
            "2",
            "--output",
            "requests.parquet",
            &a,
        ];
        let output = ask(home.path(), "load", protocol, &arguments, &b);
        let said = stderr(&output);
        assert!(output.status.success(), "{said}");
        let sent = sent(&said);
        if protocol == Protocol::H3 {
            for (line, count) in [
                ("] send SETTINGS frame <", 2),
                ("] recv SETTINGS frame <", 2),
                ("          [SETTINGS_MAX_FIELD_SECTION_SIZE(0x06):65536]", 4),
                (") :status: 200", REQUESTS),
                ("          ; First response header", REQUESTS),
            ] {
                let found = said.lines().filter(|said| said.contains(line)).count();
                assert_eq!(found, count, "{line}: {said}");
            }
        }
        assert_eq!(sent.len(), REQUESTS, "{protocol}: {said}");
        let count = |path: &str| sent.iter().filter(|(_, sent)| sent == path).count();
        assert!(count("/a") > 0 && count("/b") > 0, "{protocol}: {sent:?}");
        assert_eq!(count("/a") + count("/b"), REQUESTS);

        // The server says the same, and the record.
        let (status, _) = server.end();
        assert!(status.success());
        let log = fs::read_to_string(home.path().join("access.log")).expect("the access log");
        assert_eq!(log.matches("\"GET /a\" ").count(), count("/a"), "{log}");
        assert_eq!(log.matches("\"GET /b\" ").count(), count("/b"), "{log}");
        let rows = read_requests(home.path().join("requests.parquet")).expect("rows");
        let path = |what: u32| if what == 0 { "/a" } else { "/b" };
        if protocol != Protocol::H1 {
            let mut of_streams: Vec<(Option<u64>, String)> = (rows.iter())
                .map(|row| (row.stream, path(row.what).to_owned()))
                .collect();
            let mut sent = sent;
            of_streams.sort();
            sent.sort();
            assert_eq!(sent, of_streams);
        }
    }
}
