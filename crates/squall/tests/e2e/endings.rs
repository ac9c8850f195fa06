//! GOAWAYs, resets, SETTINGS and the end of connections are counted and appear in the tables.

use std::collections::BTreeSet;
use std::fs;
use std::io::Read;
use std::net::{Ipv4Addr, TcpListener};
use std::path::Path;
use std::thread;

use squall_base::plan::Protocol;
use squall_base::record::{FrameLayer, Side, Way};
use squall_record::{RunFolder, read_frames, read_requests};
use tempfile::TempDir;

use crate::hostile_servers::{RESET, SETTINGS, read_and_say};
use crate::raw_quic::{CONTROL, REQUEST_REJECTED, RawServer, Then};
use crate::served::{EVERY_PROTOCOL, Serving, ask};
use crate::support::{run_recipe, run_squall, seat, squall, stderr, stdout};

/// The CONNECTION_CLOSE that HTTP/3 sends (RFC 9000, section 19.19).
const APPLICATION_CLOSE: u64 = 0x1d;
const GOAWAY: u64 = 0x7;

/// `:status: 200`, and nothing more, over HTTP/3.
const OK: &[u8] = &[0x1, 3, 0, 0, 0xd9];

/// The error of a request refused in this way.
const REFUSED: &str = "the server's GOAWAY refused the request, unprocessed";

/// Runs `squall load` against a URL, accepting any certificate. Returns its output, and its connection counts.
fn load(home: &Path, http: &str, arguments: &[&str], url: &str) -> (String, String) {
    let output = squall(home)
        .args(["load", "-k", "--http", http, "--json", "load.json"])
        .args(arguments)
        .arg(url)
        .output()
        .expect("squall starts");
    let json = fs::read_to_string(home.join("load.json")).expect("its figures");
    let (_, counts) = json.split_once("\"connections\"").expect("counts");
    (stdout(&output) + &stderr(&output), counts.to_owned())
}

/// One number of the counts.
fn count(counts: &str, key: &str) -> u64 {
    let (_, rest) = counts
        .split_once(&format!("\"{key}\": "))
        .expect("it is counted");
    let digits: String = rest.chars().take_while(char::is_ascii_digit).collect();
    digits.parse().expect("a number")
}

#[test]
fn http2_goaways_are_counted() {
    let _seat = seat();
    let home = TempDir::new().expect("a temporary folder");
    let settings = ["--set", "http2.goaway_after=2", "--h2c", "0"];
    let server = Serving::start(home.path(), &settings);
    let url = server.url(Protocol::H2c);
    let (said, counts) = load(home.path(), "2", &["-n", "6", "-c", "1"], &url);
    // Each connection carries two requests.
    assert_eq!(count(&counts, "tcp"), 3, "{said}");
    assert_eq!(count(&counts, "goaways_received"), 3, "{said}");
    assert_eq!(count(&counts, "goaways_sent"), 0, "{said}");
    assert_eq!(count(&counts, "resets_received"), 0, "{said}");
    assert!(said.contains("\nGOAWAY 3 received\n"), "{said}");
    assert!(!said.contains("\nresets "), "{said}");
}

/// `--timeout` cancels the stream; only over HTTP/1.1 does it end the connection.
#[test]
fn requests_over_the_time_limit_are_cancelled_and_counted() {
    let _seat = seat();
    let home = TempDir::new().expect("a temporary folder");
    let server = Serving::start(home.path(), &EVERY_PROTOCOL);
    for (protocol, http, connections) in [
        (Protocol::H1, "1.1", 2),
        (Protocol::H2c, "2", 1),
        (Protocol::H3, "3", 1),
    ] {
        let url = server.url(protocol) + "/?delay=5s";
        let arguments = ["-n", "2", "-c", "1", "--timeout", "200ms"];
        let (said, counts) = load(home.path(), http, &arguments, &url);
        let json = fs::read_to_string(home.path().join("load.json")).expect("its figures");
        assert_eq!(count(&json, "timeout"), 2, "{json}");
        assert!(said.contains("2 timed out"), "{said}");
        assert!(said.contains("no complete response within 200ms"), "{said}");
        let opened = if protocol == Protocol::H3 {
            "quic"
        } else {
            "tcp"
        };
        assert_eq!(count(&counts, opened), connections, "{said}");
        let resets = count(&counts, "resets_sent");
        assert_eq!(resets > 0, protocol != Protocol::H1, "{said}");
    }
}

/// A request does not wait for its connection beyond its time limit, either.
#[test]
fn the_time_limit_covers_the_handshakes() {
    let _seat = seat();
    let home = TempDir::new().expect("a temporary folder");
    // The kernel completes TCP's handshake, and nothing answers TLS's.
    let silent = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).expect("a free port");
    let address = silent.local_addr().expect("its address");
    let arguments = ["-n", "2", "--cold", "--timeout", "200ms"];
    let url = format!("https://{address}/");
    let (said, counts) = load(home.path(), "2", &arguments, &url);
    assert!(said.contains("2 timed out"), "{said}");
    assert_eq!(count(&counts, "tcp"), 2, "{said}");
}

/// In a closed load, a warm-up request without a response keeps its user from ever sending a measured request.
#[test]
fn load_whose_first_requests_get_no_response_fails() {
    let _seat = seat();
    let home = TempDir::new().expect("a temporary folder");
    let silent = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).expect("a free port");
    let url = format!("http://{}/", silent.local_addr().expect("its address"));
    let times = ["--warm-up-time", "100ms", "-D", "200ms", "--drain", "100ms"];
    let output = squall(home.path())
        .arg("load")
        .args(times)
        .arg(&url)
        .output()
        .expect("squall starts");
    assert_eq!(output.status.code(), Some(1), "{}", stdout(&output));
}

/// Requests beyond a GOAWAY fail as refused, not as resets that never arrived.
#[test]
fn requests_refused_by_goaway_are_not_counted_as_resets() {
    let _seat = seat();
    let home = TempDir::new().expect("a temporary folder");
    let settings = ["--set", "http2.goaway_after=5", "--h2c", "0"];
    let server = Serving::start(home.path(), &settings);
    let url = server.url(Protocol::H2c);
    // Each connection responds to five of its requests; the others on it at that time are refused.
    let (said, counts) = load(home.path(), "2", &["-n", "40", "-m", "20"], &url);
    assert!(count(&counts, "goaways_received") >= 2, "{said}");
    assert_eq!(count(&counts, "resets_received"), 0, "{said}");
    let json = fs::read_to_string(home.path().join("load.json")).expect("its figures");
    assert!(count(&json, "stream_reset") > 0, "{json}");
    assert!(said.contains(REFUSED), "{said}");
    assert!(!said.contains("the server reset the stream"), "{said}");
}

#[test]
fn requests_refused_by_goaway_are_retried_if_the_user_asks_for_it() {
    let _seat = seat();
    let home = TempDir::new().expect("a temporary folder");
    let settings = ["--set", "http2.goaway_after=5", "--h2c", "0"];
    let server = Serving::start(home.path(), &settings);
    let url = server.url(Protocol::H2c) + "/?delay=10ms";
    let always = ["-n", "40", "-m", "20", "--output", "requests.parquet"];
    for asked in [
        &["--retry-unprocessed"][..],
        &["--set", "http2.retry_unprocessed=true"],
    ] {
        let (said, _) = load(home.path(), "2", &[&always, asked].concat(), &url);
        let json = fs::read_to_string(home.path().join("load.json")).expect("its figures");
        assert_eq!(count(&json, "succeeded"), 40, "{said}");
        let retried = count(&json, "retried");
        assert!(retried > 0, "{json}");
        assert!(
            said.contains(&format!("\nretried {retried} request")),
            "{said}"
        );
        // Each has one row, that of its last attempt, which begins after the first.
        let rows = read_requests(home.path().join("requests.parquet")).expect("requests.parquet");
        assert_eq!(rows.len(), 40, "{said}");
        let connections: BTreeSet<_> = rows.iter().map(|row| row.connection).collect();
        assert!(connections.len() >= 8, "{connections:?}");
    }
    let output = run_squall(
        home.path(),
        ["load", "--http", "1.1", "--retry-unprocessed", &url],
    );
    let said = stderr(&output);
    assert_eq!(output.status.code(), Some(2), "{said}");
    assert!(
        said.contains("--retry-unprocessed: HTTP/1.1 servers"),
        "{said}"
    );
}

/// The first connection serves one request, and refuses later ones by GOAWAY.
#[test]
fn http3_requests_refused_by_goaway_are_retried_if_the_user_asks_for_it() {
    let _seat = seat();
    let home = TempDir::new().expect("a temporary folder");
    let server = RawServer {
        goes_away_at: Some(4),
        ..RawServer::new(CONTROL, &[OK], Then::EndsTheStream)
    };
    let always = ["-n", "6", "-m", "3", "--output", "requests.parquet"];
    for (asked, is_retried) in [
        (&[][..], false),
        (&["--retry-unprocessed"][..], true),
        (&["--set", "http3.retry_unprocessed=true"][..], true),
    ] {
        let url = format!("https://{}/", server.start(home.path()));
        let (said, counts) = load(home.path(), "3", &[&always[..], asked].concat(), &url);
        let json = fs::read_to_string(home.path().join("load.json")).expect("its figures");
        assert_eq!(count(&counts, "goaways_received"), 1, "{said}");
        assert_eq!(count(&counts, "quic"), 2, "{said}");
        let rows = read_requests(home.path().join("requests.parquet")).expect("requests.parquet");
        assert_eq!(rows.len(), 6, "{said}");
        let (succeeded, retried) = (count(&json, "succeeded"), count(&json, "retried"));
        // The server resets no stream by itself. But a client gives up a refused request by STOP_SENDING, which QUIC answers
        // by RESET_STREAM (RFC 9000, section 3.5). That answer counts if it arrives before the load has ended.
        let refused = if is_retried { retried } else { 6 - succeeded };
        assert!(count(&counts, "resets_received") <= refused, "{said}");
        // Of three concurrent requests, one is served. Another may take its place before the GOAWAY arrives; later requests
        // are not refused.
        if is_retried {
            assert!((1..=3).contains(&retried), "{json}");
            assert_eq!(succeeded, 6, "{said}");
            assert!(
                said.contains(&format!("\nretried {retried} request")),
                "{said}"
            );
            let connections: BTreeSet<_> = rows.iter().map(|row| row.connection).collect();
            assert_eq!(connections.len(), 2, "{connections:?}");
        } else {
            assert_eq!(retried, 0, "{json}");
            assert!((3..=5).contains(&succeeded), "{said}");
            assert_eq!(count(&json, "stream_reset"), 6 - succeeded, "{json}");
            assert!(said.contains(REFUSED), "{said}");
        }
    }
}

/// The load ends on one connection, although the server rejects every request.
#[test]
fn rejected_http3_requests_are_retried_a_limited_number_of_times() {
    let _seat = seat();
    let home = TempDir::new().expect("a temporary folder");
    let server = RawServer::new(CONTROL, &[], Then::RejectsTheRequest);
    let url = format!("https://{}/", server.start(home.path()));
    for (asked, times) in [(&[][..], 0), (&["--retry-unprocessed"][..], 30)] {
        let arguments = [&["-n", "3"][..], asked].concat();
        let (said, counts) = load(home.path(), "3", &arguments, &url);
        let json = fs::read_to_string(home.path().join("load.json")).expect("its figures");
        assert_eq!(count(&json, "retried"), times, "{said}");
        assert_eq!(count(&json, "stream_reset"), 3, "{said}");
        assert_eq!(count(&counts, "resets_received"), times + 3, "{said}");
        assert_eq!(count(&counts, "quic"), 1, "{said}");
        let reset = format!("the server reset the stream with error code {REQUEST_REJECTED}");
        assert!(said.contains(&reset), "{said}");
    }
}

#[test]
fn http2_resets_are_counted() {
    let _seat = seat();
    let home = TempDir::new().expect("a temporary folder");
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).expect("a listener");
    let url = format!("http://{}/", listener.local_addr().expect("an address"));
    thread::spawn(move || {
        for mut stream in listener.incoming().flatten() {
            let _ = read_and_say(&mut stream, &[SETTINGS, RESET]);
            while matches!(stream.read(&mut [0; 4_096]), Ok(1..)) {}
        }
    });
    let (said, counts) = load(home.path(), "2", &["-n", "1"], &url);
    assert_eq!(count(&counts, "resets_received"), 1, "{said}");
    assert_eq!(count(&counts, "resets_sent"), 0, "{said}");
    assert!(said.contains("\nresets 1 received\n"), "{said}");
}

#[test]
fn http3_goaways_resets_and_settings_are_counted() {
    let _seat = seat();
    let home = TempDir::new().expect("a temporary folder");
    let server = RawServer::new(CONTROL, &[OK], Then::ResetsTheStream);
    let url = format!("https://{}/", server.start(home.path()));
    let (said, counts) = load(home.path(), "3", &["-n", "1"], &url);
    assert_eq!(count(&counts, "resets_received"), 1, "{said}");
    let resets = said.lines().find(|line| line.starts_with("resets "));
    assert!(
        resets.is_some_and(|line| line.ends_with(" 1 received")),
        "{said}"
    );

    // SETTINGS with one setting, and GOAWAY from the first stream on.
    const CONTROL_AND_GOAWAY: &[u8] = &[0x0, 0x4, 0x2, 0x6, 0x3f, 0x7, 0x1, 0x0];
    let server = RawServer::new(CONTROL_AND_GOAWAY, &[], Then::KeepsSilent);
    let url = format!("https://{}/", server.start(home.path()));
    let (said, counts) = load(home.path(), "3", &["-n", "1"], &url);
    // A GOAWAY that is read before the request is sent only makes the client open another connection.
    let connections = count(&counts, "quic");
    assert_eq!(count(&counts, "goaways_received"), connections, "{said}");
    let goaways = format!("\nGOAWAY {connections} received\n");
    assert!(connections > 0 && said.contains(&goaways), "{said}");
    assert_eq!(count(&counts, "resets_received"), 0, "{said}");
    assert!(said.contains(REFUSED), "{said}");
    for setting in ["63", "65536"] {
        let setting = format!("SETTINGS_MAX_FIELD_SECTION_SIZE={setting}");
        assert_eq!(count(&counts, &setting), connections, "{said}");
    }
}

/// For both sides, trial.json counts as many GOAWAYs as the table of frames has.
#[test]
fn goaways_of_a_trial_are_counted_by_both_sides() {
    let _seat = seat();
    let run = run_recipe(
        "name = \"test\"\nquestion = \"Does it go away?\"\n\
         [load]\nrate = \"50/s\"\nwarmup = \"0s\"\nduration = \"1s\"\n[conditions]\ndelay = \"5ms\"\n\
         [[variant]]\nname = \"h2c\"\npath = \"client ~h2c~> server\"\nconnections = 1\n\
         server = { http2 = { goaway_after = 5 } }\n",
        &[],
    );
    let hop = &run.only("h2c").record.hops[0];
    let (client, server) = (hop.client.as_ref(), hop.server.as_ref());
    let (client, server) = (client.expect("ours").endings, server.expect("ours").endings);
    let folder = RunFolder::open(&run.folder).expect("a run's folder");
    let trials = folder.complete_trials().expect("its trials");
    let frames = read_frames(trials[0].frames()).expect("frames.parquet");
    let goaways = |side: Side, way: Way| {
        let of_it = |row: &&squall_base::record::FrameRecord| {
            (row.side, row.frame.way, row.frame.kind) == (side, way, GOAWAY)
        };
        frames.iter().filter(of_it).count() as u64
    };
    assert!(server.goaways_sent >= 10, "{server:?}");
    assert_eq!(server.goaways_sent, goaways(Side::Server, Way::Sent));
    assert_eq!(
        client.goaways_received,
        goaways(Side::Client, Way::Received)
    );
    assert_eq!(client.goaways_received, server.goaways_sent);
    assert_eq!((client.resets_sent, server.resets_sent), (0, 0));
}

/// The last frame of each of a client's connections is in the table, too.
#[test]
fn http3_connection_close_is_among_the_frames() {
    let _seat = seat();
    let home = TempDir::new().expect("a temporary folder");
    let server = Serving::start(home.path(), &["--h3", "0"]);
    let arguments = ["-n", "6", "-c", "3", "--frames-to", "frames.parquet"];
    let url = server.url(Protocol::H3);
    let output = ask(home.path(), "load", Protocol::H3, &arguments, &url);
    assert!(output.status.success(), "{}", stderr(&output));
    let frames = read_frames(home.path().join("frames.parquet")).expect("frames");
    for connection in 0..3 {
        let sent = frames
            .iter()
            .filter(|row| row.connection == connection && row.frame.way == Way::Sent);
        let last = sent.max_by_key(|row| row.time).expect("frames").frame;
        assert_eq!(
            (last.layer, last.kind, last.value),
            (FrameLayer::Quic, APPLICATION_CLOSE, Some(0x100)),
            "{last:?}"
        );
    }
}
