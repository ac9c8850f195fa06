//! Every kind of load of `squall load`, what it reports about failing servers, and what it writes.
//!
//! `load` tests that single requests are recorded correctly.

use std::fmt::Write as _;
use std::fs;
use std::path::Path;
use std::process::{Output, Stdio};

use squall_base::plan::Protocol;
use squall_base::record::{Outcome, RequestRecord};
use squall_linux::machine::Processor;
use squall_record::{parts_of, read_requests};
use tempfile::TempDir;

use crate::served::{CERTIFICATE, Serving, ask};
use crate::support::{
    alone_if_it_fails, may_keep_awake, run_squall, seat, squall, stderr, stdout, wait_for,
};

/// Runs `squall load` and reads the request records that it wrote.
pub(crate) fn load(
    home: &Path,
    protocol: Protocol,
    arguments: &[&str],
    url: &str,
) -> (Output, Vec<RequestRecord>) {
    let arguments = [arguments, &["--output", "requests.parquet"]].concat();
    let output = ask(home, "load", protocol, &arguments, url);
    let mut rows = read_requests(home.join("requests.parquet")).unwrap_or_default();
    rows.sort_by_key(|row| row.request);
    (output, rows)
}

pub(crate) fn response_ms(row: &RequestRecord) -> f64 {
    row.response_time().as_millis_f64()
}

/// Each client replays a recording at its times divided by the speed, each starting after the previous one.
#[test]
fn script_is_replayed_at_its_times() {
    const STEPS: u64 = 300;
    const CLIENTS: u64 = 20;
    let _seat = seat();
    let home = TempDir::new().expect("a temporary folder");
    let server = Serving::start(home.path(), &["--h1", "0"]);
    let url = server.url(Protocol::H1);
    // Irregular times over 200 s.
    let at_ms = |step: u64| step * 600 + (step * step * 7) % 500;
    let mut recording = String::new();
    for step in 0..STEPS {
        let _ = writeln!(recording, "{}.25\t{url}/{}", at_ms(step), step % 7);
    }
    fs::write(home.path().join("recorded.txt"), recording).expect("a file");
    let imported = run_squall(
        home.path(),
        ["import", "timing", "recorded.txt", "-o", "script.json"],
    );
    assert!(imported.status.success(), "{}", stderr(&imported));
    assert!(
        stderr(&imported).starts_with("requests at their times: 300, of 7 kinds, over "),
        "{}",
        stderr(&imported)
    );
    let arguments = [
        "--script",
        "script.json",
        "--speed",
        "100x",
        "--users",
        "20",
        "--stagger",
        "50ms",
    ];
    let (output, rows) = load(home.path(), Protocol::H1, &arguments, &url);
    assert!(output.status.success(), "{}", stderr(&output));
    assert_eq!(rows.len() as u64, STEPS * CLIENTS);
    let start = rows.iter().map(|row| row.intended).min().expect("rows");
    for row in &rows {
        let step = row.request / CLIENTS;
        assert_eq!(u64::from(row.user), row.request % CLIENTS);
        assert_eq!(u64::from(row.what), step % 7);
        let script_ns = (at_ms(step) - at_ms(0)) * 10_000;
        let expected = script_ns + u64::from(row.user) * 50_000_000;
        assert_eq!(row.intended.since(start).as_nanos(), expected, "{row:?}");
    }
    // Each client has separate connections.
    let user_of = |connection| {
        let mut users: Vec<u32> = (rows.iter())
            .filter(|row| row.connection == Some(connection))
            .map(|row| row.user)
            .collect();
        users.dedup();
        users
    };
    let connections = rows.iter().filter_map(|row| row.connection).max();
    for connection in 0..=connections.expect("connections") {
        assert_eq!(user_of(connection).len(), 1, "connection {connection}");
    }
}

/// Users of scripts and pages open connections on demand, unless --warm opens all of them in advance.
#[test]
fn warm_users_have_their_connections_before_the_load() {
    let _seat = seat();
    let home = TempDir::new().expect("a temporary folder");
    let server = Serving::start(home.path(), &["--h1", "0"]);
    let url = server.url(Protocol::H1);
    // Two concurrent requests, twice.
    let recording = format!("5\t{url}/a\n5\t{url}/b\n90\t{url}/c\n90\t{url}/d\n");
    fs::write(home.path().join("recorded.txt"), recording).expect("a file");
    let imported = run_squall(
        home.path(),
        ["import", "timing", "recorded.txt", "-o", "script.json"],
    );
    assert!(imported.status.success(), "{}", stderr(&imported));
    for (flags, opened, said) in [(&["--warm", "-t", "2"][..], 0, 6), (&[][..], 6, 6)] {
        let script = ["--script", "script.json", "--users", "3", "-c", "2"];
        let arguments = [&script[..], flags].concat();
        let (output, rows) = load(home.path(), Protocol::H1, &arguments, &url);
        assert!(output.status.success(), "{}", stderr(&output));
        let count = rows.iter().filter(|row| row.opened_connection).count();
        assert_eq!((rows.len(), count), (12, opened), "{flags:?}");
        let said = format!("\nconnections {said} TCP\n");
        assert!(stdout(&output).contains(&said), "{}", stdout(&output));
    }
    let page = ["--tiles", "3", "--users", "2", "-n", "4", "--warm"];
    let (_, rows) = load(home.path(), Protocol::H1, &page, &url);
    assert!(rows.len() == 16 && rows.iter().all(|row| !row.opened_connection));
}

#[test]
fn held_response_delays_others_only_without_multiplexing() {
    alone_if_it_fails(seat(), || {
        let home = TempDir::new().expect("a temporary folder");
        let server = Serving::start(home.path(), &["--h1", "0", "--h2c", "0"]);
        for (protocol, verdict) in [
            (Protocol::H1, ": the second request waited for the first\n"),
            (
                Protocol::H2c,
                ": the second request did not wait for the first\n",
            ),
        ] {
            let url = server.url(protocol) + "/?delay=400ms";
            let arguments = ["--hold", "/", "-c", "1"];
            let (output, _) = load(home.path(), protocol, &arguments, &url);
            assert!(stdout(&output).contains(verdict), "{}", stdout(&output));
        }
    });
}

#[test]
fn pages_request_tiles_after_their_document_has_arrived() {
    let _seat = seat();
    let home = TempDir::new().expect("a temporary folder");
    let server = Serving::start(home.path(), &["--h1", "0"]);
    let url = server.url(Protocol::H1);
    let tile = format!("{url}/tile-{{}}.png");
    let arguments = [
        "--tiles", "12", "--tile", &tile, "-n", "5", "--users", "2", "--json", "json",
    ];
    let (output, rows) = load(home.path(), Protocol::H1, &arguments, &url);
    assert!(output.status.success(), "{}", stderr(&output));
    assert!(stdout(&output).contains("\npages: 5 loaded, 0 with a failed request, 0 unfinished\n"));
    assert!(
        stdout(&output).contains(" page time\n"),
        "{}",
        stdout(&output)
    );
    let json = fs::read(home.path().join("json")).expect("the figures");
    let json: serde_json::Value = serde_json::from_slice(&json).expect("JSON");
    assert_eq!(json["pages"]["loaded"], 5);
    let page_time = &json["pages"]["page_time_ns"];
    assert!(
        page_time["max"].is_u64() && page_time["p50"].is_null(),
        "{page_time}"
    );
    let punctuality = &json["generator"]["punctuality"];
    assert!(
        punctuality["woken_late_ns"]["count"].is_u64(),
        "{punctuality}"
    );
    assert!(
        punctuality["longest_lag"]["machine_ns"].is_u64(),
        "{punctuality}"
    );
    let late_count = punctuality["own_lag_ns"]["count"]
        .as_u64()
        .expect("a count");
    let is_late = |row: &&RequestRecord| row.taken_up > row.intended;
    assert_eq!(late_count as usize, rows.iter().filter(is_late).count());
    assert_eq!(rows.len(), 5 * 13);
    for page in rows.chunks(13) {
        let document = &page[0];
        assert_eq!(document.what, 0);
        assert!(page[1..].iter().all(|tile| tile.intended >= document.end));
        let user = document.user;
        assert!(page.iter().all(|row| row.user == user));
    }
    // A browser's six connections for each user.
    let connections = rows.iter().filter_map(|row| row.connection).max();
    assert!(connections.is_some_and(|last| last < 12), "{connections:?}");
}

#[test]
fn processors_are_kept_awake_if_allowed_unless_the_user_says_asleep() {
    let _seat = seat();
    let home = TempDir::new().expect("a temporary folder");
    let server = Serving::start(home.path(), &["--h1", "0"]);
    let url = server.url(Protocol::H1);
    let may = may_keep_awake();
    let closed: &[&str] = &["-n", "100"];
    let timed: &[&str] = &["--rate", "200", "-D", "200ms"];
    // In a virtual machine, whether timed loads keep processors awake depends on how late these wake up.
    let may_timed = (!Processor::read().is_virtual || !may).then_some(may);
    let mut cases = vec![
        (closed, None, Some(may)),
        (timed, None, may_timed),
        (timed, Some("asleep"), Some(false)),
        (closed, Some("asleep"), Some(false)),
    ];
    if may {
        cases.push((timed, Some("awake"), Some(true)));
    }
    for (kind, asked, expected) in cases {
        let asked = asked.map_or(vec![], |state| vec!["--idle-processors", state]);
        let arguments = [kind, &["--json", "json"], &asked].concat();
        let (output, _) = load(home.path(), Protocol::H1, &arguments, &url);
        assert!(output.status.success(), "{}", stderr(&output));
        let json = fs::read(home.path().join("json")).expect("the figures");
        let json: serde_json::Value = serde_json::from_slice(&json).expect("JSON");
        let awake = &json["generator"]["punctuality"]["processors_awake"];
        let is_awake = awake.as_bool().expect("a boolean");
        assert_eq!(is_awake, expected.unwrap_or(is_awake));
        // Line breaks depend on the numbers in the text.
        let shown = stdout(&output);
        let words: Vec<&str> = shown.split_whitespace().collect();
        let says_slept = words.join(" ").contains("its processors may have slept");
        assert_eq!(says_slept, !is_awake, "{shown}");
    }
}

#[test]
fn thresholds_decide_the_exit_code() {
    let _seat = seat();
    let home = TempDir::new().expect("a temporary folder");
    let server = Serving::start(home.path(), &["--h1", "0"]);
    let url = server.url(Protocol::H1) + "/?delay=20ms";
    for (threshold, code, said) in [
        ("p(50)<10s", 0, "p(50)<10000: holds"),
        ("p(50)<5", 99, "p(50)<5: FAILED"),
        ("errors:count==0", 0, "errors:count==0: holds"),
        ("requests:count>1000", 99, "requests:count>1000: FAILED"),
    ] {
        let arguments = ["-n", "50", "-c", "5", "--threshold", threshold];
        let (output, _) = load(home.path(), Protocol::H1, &arguments, &url);
        let shown = stdout(&output);
        assert_eq!(output.status.code(), Some(code), "{threshold}: {shown}");
        assert!(shown.contains(said), "{shown}");
    }
    let wrong = ["-n", "1", "--threshold", "p(50)"];
    let (output, _) = load(home.path(), Protocol::H1, &wrong, &url);
    assert_eq!(output.status.code(), Some(2), "{}", stderr(&output));
}

#[test]
fn http_versions_are_compared_in_alternating_rounds() {
    let _seat = seat();
    let home = TempDir::new().expect("a temporary folder");
    let server = Serving::start(home.path(), &["--https", "0", "--h3", "0"]);
    let port = server.address("https").port();
    // One address for all three versions.
    drop(server);
    let address = format!("127.0.0.1:{port}");
    let _server = Serving::start(home.path(), &["--https", &address, "--h3", &address]);
    let output = squall(home.path())
        .args(["load", "--http", "1.1,2,3", "--rounds", "2", "-n", "40"])
        .args(["--cacert", CERTIFICATE, "--output", "rows.csv"])
        .args(["--json", "figures.json"])
        .arg(format!("https://{address}/"))
        .output()
        .expect("squall starts");
    let shown = stdout(&output);
    assert!(output.status.success(), "{shown}{}", stderr(&output));
    assert!(shown.contains("h2 against h1s:") && shown.contains("h3 against h1s:"));
    for variant in ["h1s", "h2", "h3"] {
        assert!(
            shown.contains(&format!("\nspoken {variant} (1)\n")),
            "{shown}"
        );
        for round in [1, 2] {
            let rows = home.path().join(format!("rows-{variant}-{round}.csv"));
            let text = fs::read_to_string(rows).expect("the rows of a round");
            assert_eq!(text.lines().count(), 41, "{variant}");
        }
    }
    let figures = fs::read(home.path().join("figures.json")).expect("the figures");
    let figures: serde_json::Value = serde_json::from_slice(&figures).expect("JSON");
    assert_eq!(figures["runs"].as_array().map(Vec::len), Some(6));
}

#[test]
fn rows_are_written_in_every_format() {
    let _seat = seat();
    let home = TempDir::new().expect("a temporary folder");
    let server = Serving::start(home.path(), &["--h1", "0"]);
    let names = ["a.csv", "a.vegeta", "a.h2load", "a.hgrm", "a.hlog"];
    let outputs = names.iter().flat_map(|name| ["--output", name]);
    let arguments: Vec<&str> = ["-n", "100", "-t", "1"]
        .into_iter()
        .chain(outputs)
        .collect();
    let url = server.url(Protocol::H1);
    let (output, rows) = load(home.path(), Protocol::H1, &arguments, &url);
    assert!(output.status.success(), "{}", stderr(&output));
    assert_eq!(rows.len(), 100);
    let text = |name: &str| fs::read_to_string(home.path().join(name)).expect("a file");
    assert_eq!(text("a.csv").lines().count(), 101);
    assert_eq!(text("a.vegeta").lines().count(), 100);
    assert!(text("a.vegeta").contains(&format!(",GET,{url}/,")));
    assert_eq!(text("a.h2load").lines().count(), 100);
    assert!(text("a.hgrm").contains("Value"));
    assert!(text("a.hlog").lines().count() > 1);
    let wrong = ask(
        home.path(),
        "load",
        Protocol::H1,
        &["--output", "a.xls"],
        &url,
    );
    assert_eq!(wrong.status.code(), Some(2));
    assert!(stderr(&wrong).contains(".parquet"), "{}", stderr(&wrong));
}

#[test]
fn form_is_uploaded_as_by_a_browser() {
    let _seat = seat();
    let home = TempDir::new().expect("a temporary folder");
    fs::write(home.path().join("large.pdf"), vec![b'%'; 5_000_000]).expect("a file");
    let server = Serving::start(home.path(), &["--h2c", "0", "--sink"]);
    let url = server.url(Protocol::H2c);
    let arguments = ["-n", "3", "-F", "who=me", "-F", "what=@large.pdf"];
    let (output, rows) = load(home.path(), Protocol::H2c, &arguments, &url);
    assert!(output.status.success(), "{}", stderr(&output));
    assert_eq!(rows.len(), 3);
    for row in rows {
        let extra = row.request_body_bytes - 5_000_000;
        assert!((200..500).contains(&extra), "{extra}");
    }
}

/// A server that dies midway, one that is not there, an unknown host name, and a server with another one's certificate.
#[test]
fn failures_are_counted_by_kind() {
    let _seat = seat();
    let home = TempDir::new().expect("a temporary folder");
    let server = Serving::start(home.path(), &["--h1", "0", "--h2", "0"]);
    let url = server.url(Protocol::H1);

    let secure = server.url(Protocol::H2);
    let elsewhere = TempDir::new().expect("a temporary folder");
    let stranger = Serving::start(elsewhere.path(), &["--h2", "0"]);
    let output = squall(home.path())
        .args(["load", "--http", "2", "-n", "3", "--cacert"])
        .arg(elsewhere.path().join(CERTIFICATE))
        .arg(secure)
        .output()
        .expect("squall starts");
    let shown = stdout(&output);
    assert_eq!(output.status.code(), Some(1), "{shown}{}", stderr(&output));
    assert!(shown.contains("3 without TLS"), "{shown}");
    drop(stranger);

    let child = squall(home.path())
        .args(["load", "--rate", "200", "-D", "6s", "-c", "2"])
        .args(["--output", "requests.parquet", &url])
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .expect("squall starts");
    wait_for("the first save", || {
        let parts = parts_of(home.path().join("requests.parquet"));
        (!parts.expect("its parts").is_empty()).then_some(())
    });
    drop(server);
    let output = child.wait_with_output().expect("it ends");
    let shown = stdout(&output);
    assert_eq!(output.status.code(), Some(1), "{shown}");
    assert!(shown.contains("without a connection"), "{shown}");
    let rows = read_requests(home.path().join("requests.parquet")).expect("rows");
    let with = |outcome| rows.iter().filter(|row| row.outcome == outcome).count();
    assert_eq!(rows.len(), 1_200);
    assert!(with(Outcome::Answered) > 100 && with(Outcome::ConnectFailed) > 100);

    let output = run_squall(home.path(), ["load", "http://nobody.invalid/"]);
    assert_eq!(output.status.code(), Some(2));
    assert!(
        stderr(&output).contains("cannot find nobody.invalid"),
        "{}",
        stderr(&output)
    );
}
