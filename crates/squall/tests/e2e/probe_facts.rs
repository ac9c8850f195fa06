//! What `squall probe` finds out about handshakes, tickets, certificates, TLS records, packets, priorities, idle connections
//! and QUIC's transport, apart from faults. `probe` has the faults.

use std::fs;
use std::io::{Read, Write};
use std::process::{Output, Stdio};
use std::time::Duration;

use serde_json::Value;
use tempfile::TempDir;

use crate::probe::home;
use crate::result_files::check;
use crate::served::{CERTIFICATE, Serving};
use crate::stand_ins::serve;
use crate::support::{alone_if_it_fails, is_root, seat, squall, stderr, stdout_json};

/// Runs a probe with one round that watches idle connections for a second.
fn probe(home: &TempDir, arguments: &[&str]) -> Output {
    let output = squall(home.path())
        .args(["probe", "--rounds", "1", "--idle", "1s"])
        .args(arguments)
        .stdin(Stdio::null())
        .output()
        .expect("squall starts");
    assert!(output.status.success(), "{}", stderr(&output));
    output
}

/// The facts of a probe.
fn endpoint(output: &Output) -> Value {
    let result = stdout_json(output);
    check("probe", &result);
    result["endpoint"].clone()
}

/// The list's element about this version.
fn of<'a>(list: &'a Value, version: &str) -> &'a Value {
    let mut list = list.as_array().expect("a list").iter();
    let found = list.find(|facts| facts["version"] == version);
    found.unwrap_or_else(|| panic!("nothing about {version}"))
}

/// Checks the facts that are the same for all versions of `squall serve`.
fn check_handshake(facts: &Value) {
    assert!(facts["group"].is_string(), "{facts}");
    assert!(
        facts["client_hello"]["bytes"].as_u64() > Some(100),
        "{facts}"
    );
    assert!(
        facts["client_hello"]["packets"].as_u64() >= Some(1),
        "{facts}"
    );
    assert_eq!(facts["certificates"]["count"], 1, "{facts}");
    assert!(
        facts["certificates"]["der_bytes"].as_u64() > Some(100),
        "{facts}"
    );
    assert_eq!(facts["resumption"], "resumed", "{facts}");
    assert_eq!(facts["early_data_bytes"], 0, "{facts}");
}

#[test]
fn handshakes_tickets_and_priorities_over_tcp_are_reported() {
    let _seat = seat();
    let home = home();
    let server = Serving::start(home.path(), &["--https", "0"]);
    let url = format!("https://{}/?size=1MiB", server.address("https"));
    let asks = ["--json", "--cacert", CERTIFICATE, "--http", "1.1,2"];
    let page = ["--report", "probe.html", url.as_str()];
    let facts = endpoint(&probe(&home, &[&asks[..], &page].concat()));
    for version in ["HTTP/1.1", "HTTP/2"] {
        check_handshake(of(&facts["handshakes"], version));
        let watched = &of(&facts["keep_alive"], version)["watched"];
        assert_eq!(watched["was_ended"], false, "{facts}");
        assert!(watched["idle_ns"].as_u64() > Some(10_000_000), "{facts}");
    }
    let cipher = facts["tls"]["cipher"].as_str().expect("a cipher");
    assert!(cipher.starts_with("1.3 TLS_"), "{cipher}");
    // nghttp2, which it serves HTTP/2 with, sends urgent responses first.
    assert_eq!(facts["priorities"]["HTTP/2"], "honoured", "{facts}");
    let page = home.path().join("probe.html");
    let page = fs::read_to_string(page).expect("a page");
    for fact in [
        "<dt>ClientHello</dt>",
        "<dt>certificates</dt><dd>HTTP/1.1, HTTP/2: 1 with ",
        "<dt>resumption</dt><dd>HTTP/1.1, HTTP/2: resumed, 0-RTT not offered</dd>",
        "<dt>idle connections</dt>",
        "<dt>priorities</dt><dd>HTTP/2: honoured</dd>",
    ] {
        assert!(page.contains(fact), "{fact}: {page}");
    }
}

#[test]
fn growing_records_and_packet_statistics_are_reported() {
    alone_if_it_fails(seat(), || {
        let home = home();
        let records = "tls.records={small=\"1300\",warmup=\"64KiB\",idle=\"1s\"}";
        let server = Serving::start(home.path(), &["--https", "0", "--set", records]);
        let url = format!("https://{}/?size=200KiB", server.address("https"));
        let output = squall(home.path())
            .args(["probe", "--rounds", "1", "--idle", "0s", "--json"])
            .args(["--cacert", CERTIFICATE, "--http", "2", &url])
            .stdin(Stdio::null())
            .output()
            .expect("squall starts");
        let facts = endpoint(&output);
        let sizes = of(&facts["record_sizes"], "HTTP/2");
        assert!(sizes["largest_bytes"].as_u64() > Some(8_000), "{sizes}");
        let first = &sizes["first"];
        let each = first["record_bytes"].as_u64();
        assert!(each > Some(1_000) && each <= Some(1_300), "{sizes}");
        let bytes = first["bytes"].as_u64();
        assert!(bytes > Some(60_000) && bytes < Some(80_000), "{sizes}");
        assert_eq!(sizes["small_after_pause"], true, "{sizes}");
        // The URL has an address and no name, so there is no lookup of HTTPS records.
        assert!(facts["https_records"].is_null(), "{facts}");
        let packets = &facts["packets"];
        if is_root() {
            assert!(packets["received"].as_u64() > Some(20), "{packets}");
        } else {
            assert!(packets.is_null(), "{packets}");
        }
    });
}

#[test]
fn http3_transport_is_reported() {
    let _seat = seat();
    let home = home();
    let server = Serving::start(home.path(), &["--h3", "0"]);
    let url = format!("https://{}/?size=1MiB", server.address("h3"));
    let asks = ["--json", "--cacert", CERTIFICATE, "--http", "3"];
    let facts = endpoint(&probe(&home, &[&asks[..], &[url.as_str()]].concat()));
    check_handshake(of(&facts["handshakes"], "HTTP/3"));
    let quic = &facts["quic_transport"];
    let announced = &quic["parameters"];
    assert_eq!(
        announced["max_idle_timeout_ns"], 30_000_000_000_u64,
        "{quic}"
    );
    assert_eq!(announced["max_udp_payload_bytes"], 1_350, "{quic}");
    let stream = &announced["initial_max_stream_data_bytes"];
    assert_eq!(*stream, 1_000_000, "{quic}");
    assert_eq!(announced["initial_max_data_bytes"], 10_000_000, "{quic}");
    assert!(
        announced["initial_max_streams_bidi"].as_u64() > Some(0),
        "{quic}"
    );
    assert_eq!(announced["used_retry"], false, "{quic}");
    // RFC 9000, section 18.2: these unless a server announces others.
    assert_eq!(announced["ack_delay_exponent"], 3, "{quic}");
    assert_eq!(announced["max_ack_delay_ns"], 25_000_000, "{quic}");
    let settings = facts["http3_settings"].as_object().expect("SETTINGS");
    assert!(
        settings.contains_key("MAX_FIELD_SECTION_SIZE"),
        "{settings:?}"
    );
    assert!(
        quic["largest_datagram_bytes"].as_u64() >= Some(1_200),
        "{quic}"
    );
    let idle = of(&facts["keep_alive"], "HTTP/3");
    assert_eq!(
        idle["announced_ns"], announced["max_idle_timeout_ns"],
        "{facts}"
    );
    assert_eq!(facts["priorities"]["HTTP/3"], "not_honoured", "{facts}");
}

const ANSWER: &[u8] = b"HTTP/1.1 200 OK\r\ncontent-length: 2\r\nkeep-alive: timeout=7\r\n\r\nok";

#[test]
fn end_of_an_idle_connection_by_the_server_is_reported() {
    let _seat = seat();
    let home = home();
    // It announces how long it keeps idle connections, and ends them sooner.
    let address = serve(|mut stream| {
        let patience = Some(Duration::from_millis(400));
        stream.set_read_timeout(patience).expect("a time");
        let mut buffer = [0; 4096];
        while stream.read(&mut buffer).is_ok_and(|count| count > 0) {
            let _ = stream.write_all(ANSWER);
        }
    });
    let url = format!("http://{address}/");
    let output = squall(home.path())
        .args(["probe", "--rounds", "1", "--json", "--http", "1.1", &url])
        .stdin(Stdio::null())
        .output()
        .expect("squall starts");
    let facts = endpoint(&output);
    let idle = of(&facts["keep_alive"], "HTTP/1.1");
    assert_eq!(idle["announced_ns"], 7_000_000_000_u64, "{idle}");
    assert_eq!(idle["watched"]["was_ended"], true, "{idle}");
    let after = idle["watched"]["idle_ns"].as_u64();
    assert!(
        after > Some(300_000_000) && after < Some(4_000_000_000),
        "{idle}"
    );
}
