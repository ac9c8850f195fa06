//! Constructed problems of sockets: Nagle's algorithm, buffers that are too small, too few local ports. Each is present
//! in one small trial and absent in another, which differs only in that setting.
//!
//! Problems of HTTP and of the path, and the code that all of them share, are in `findings` and `findings_path`.

use std::net::TcpListener;

use squall_analysis::findings::Finding;
use squall_base::plan::{PortRange, TcpSettings};
use squall_base::record::Outcome;
use squall_linux::socket::{SocketError, start_connect};

use crate::findings::{Expected, any, check, findings, has_full_sockets, recipe, shown, variants};
use crate::support::{FinishedRun, run_recipe, seat};

/// One number of the evidence.
fn value(finding: &Finding, what: &str) -> f64 {
    let numbers = &finding.evidence.numbers;
    let number = numbers.iter().find(|number| number.what == what);
    number
        .unwrap_or_else(|| panic!("no {what:?} in {finding:?}"))
        .value
}

/// The finding of this name in a variant.
fn found(run: &FinishedRun, variant: &str, name: &str) -> Finding {
    let mut findings = shown(run, variant, &any).into_iter();
    let found = findings.find(|finding| finding.name == name);
    found.unwrap_or_else(|| panic!("{variant} does not show {name}"))
}

/// A message that is written piece by piece: with Nagle's algorithm only the first piece leaves immediately, and the
/// rest waits for its acknowledgement, which the receiver delays by 40 ms.
#[test]
fn reports_nagle_for_messages_written_in_pieces() {
    let _seat = seat();
    const PIECES: &str = "connections = 1\ntcp = { write_size = \"200\" }";
    let client = format!("{PIECES}\nclient = {{ tcp = {{ no_delay = false }} }}");
    let server = format!("{PIECES}\nserver = {{ tcp = {{ no_delay = false }} }}");
    let of = [
        ("pieces", "h1", PIECES),
        ("client", "h1", client.as_str()),
        ("server", "h1", server.as_str()),
        (
            "one go",
            "h1",
            "connections = 1\ntcp = { no_delay = false }",
        ),
    ];
    let run = run_recipe(
        &recipe(
            // Only a receiver that responds right after receiving delays its acknowledgements (tcp_event_data_sent).
            "kind = \"closed\"\nusers = 1\nwarmup = \"500ms\"\ndrain = \"1s\"",
            "[request]\nmethod = \"POST\"\nbody = \"600\"\n[response]\nbody = \"600\"",
            "delay = \"10ms\"",
            &variants(&of),
            "3s",
        ),
        &[],
    );
    let expected = ["client", "server"].map(|variant| Expected {
        variant,
        found: &["nagle"],
        silent: &["send_buffer", "receive_window", "slow_start_after_idle"],
    });
    // Pieces without the algorithm do no harm, nor does the algorithm without pieces.
    check(&run, &any, &["pieces", "one go"], &expected);
    for station in ["client", "server"] {
        let nagle = found(&run, station, "nagle");
        assert_eq!(nagle.fixes[0].station, station);
        assert_eq!(nagle.fixes[0].setting, "tcp.no_delay = true");
        // Each request waits once, for at least 40 ms (TCP_DELACK_MIN), on top of its round trip of 20 ms.
        let requests = run.only(station).measured().count() as f64;
        let cost = value(&nagle, "requests that it cost time");
        assert!(cost >= 0.9 * requests, "{cost} of {requests}");
        let waited = value(&nagle, "time that it cost") / cost;
        assert!((40.0..60.0).contains(&waited), "{waited} ms");
        assert!(nagle.share.part > 0.4, "{:?}", nagle.share);
        assert!(!nagle.evidence.requests.is_empty());
    }
}

/// 16 KiB per round trip of 40 ms, although the window would allow 100 kB or more.
#[test]
fn reports_a_send_buffer_smaller_than_a_round_trip_needs() {
    let _seat = seat();
    // A single large write would fill the send buffer far beyond its size: one packet of the kernel holds half of the peer's
    // window.
    const KEPT: &str =
        "connections = 1\ntcp = { slow_start_after_idle = false, write_size = \"4KiB\" }";
    const WIDE: &str = "http2 = { stream_window = \"16MiB\", connection_window = \"64MiB\" }";
    let small = |lines: &str| format!("{lines}\nserver = {{ tcp = {{ send_buffer = \"8KiB\" }} }}");
    let (http1, http2) = (small(KEPT), small(&format!("{KEPT}\n{WIDE}")));
    let large = format!("{KEPT}\nserver = {{ tcp = {{ send_buffer = \"1MiB\" }} }}");
    let of = [
        ("kernel", "h1", KEPT),
        ("large", "h1", large.as_str()),
        ("small", "h1", http1.as_str()),
        ("small h2c", "h2c", http2.as_str()),
    ];
    let run = run_recipe(
        &recipe(
            "rate = \"1/s\"\nwarmup = \"1s\"\ndrain = \"2s\"",
            "[response]\nbody = \"200kB\"",
            "delay = \"20ms\"",
            &variants(&of),
            "3s",
        ),
        &[],
    );
    let expected = ["small", "small h2c"].map(|variant| Expected {
        variant,
        found: &["send_buffer"],
        silent: &[
            "receive_window",
            "slow_start",
            "stream_window",
            "read_stall",
        ],
    });
    check(&run, &any, &["kernel", "large"], &expected);
    for variant in ["small", "small h2c"] {
        let buffer = found(&run, variant, "send_buffer");
        assert_eq!(buffer.fixes[0].station, "server");
        assert_eq!(value(&buffer, "send buffer (SO_SNDBUF)"), 16_384.0);
        // Nearly all of the time: 200 kB take a dozen round trips.
        assert!(buffer.share.part > 0.5, "{:?}", buffer.share);
        let flight = value(&buffer, "in flight in them, at most");
        assert!((10_923.0..32_768.0).contains(&flight), "{flight}");
    }
}

/// Whether this kernel can restrict a socket to some ports. If not, prints a notice, or fails where every test must
/// run.
fn has_local_ports() -> bool {
    let listener = TcpListener::bind("127.0.0.1:0").expect("a port is free");
    let settings = TcpSettings {
        local_ports: PortRange::new(40_000, 40_010),
        ..TcpSettings::default()
    };
    let address = listener.local_addr().expect("it has an address");
    let Err(error @ SocketError::LocalPorts { .. }) = start_connect(address, &settings) else {
        return true;
    };
    let said = format!("skipped: this test needs IP_LOCAL_PORT_RANGE: {error}");
    assert!(std::env::var_os("SQUALL_REQUIRE_PEERS").is_none(), "{said}");
    eprintln!("{said}");
    false
}

/// Each response takes 300 ms, so 15 of 50 requests a second are in flight, each on a separate connection.
#[test]
fn reports_too_few_local_ports() {
    if !has_local_ports() {
        return;
    }
    let _seat = seat();
    const ALONE: &str = "connections = { at_most = 100 }\npool = { streams_at_most = 1 }";
    let quic =
        |ports: &str| format!("{ALONE}\nclient = {{ http3 = {{ local_ports = \"{ports}\" }} }}");
    let (few_quic, enough_quic) = (quic("40000-40007"), quic("40000-40099"));
    let of = [
        (
            "enough",
            "h1",
            "client = { tcp = { local_ports = \"40000-40099\" } }",
        ),
        (
            "few",
            "h1",
            "client = { tcp = { local_ports = \"40000-40007\" } }",
        ),
        ("enough h3", "h3", enough_quic.as_str()),
        ("few h3", "h3", few_quic.as_str()),
    ];
    let run = run_recipe(
        &recipe(
            "rate = \"50/s\"\nwarmup = \"300ms\"\ndrain = \"2s\"",
            "[request]\ntarget = \"/?size=1KiB&delay=300ms\"",
            "delay = \"5ms\"",
            &variants(&of),
            "1500ms",
        ),
        &[],
    );
    let expected = ["few", "few h3"].map(|variant| Expected {
        variant,
        found: &["port_exhaustion"],
        silent: &["pool_exhaustion", "syn_loss", "udp_drops"],
    });
    check(&run, &any, &["enough", "enough h3"], &expected);
    for variant in ["few", "few h3"] {
        let ports = found(&run, variant, "port_exhaustion");
        let rows = &run.only(variant).requests;
        let failed: Vec<u64> = (rows.iter())
            .filter(|row| row.outcome == Outcome::ConnectFailed)
            .map(|row| row.request)
            .collect();
        assert_eq!(
            value(&ports, "requests without a port"),
            failed.len() as f64
        );
        assert!(ports.evidence.requests.iter().all(|it| failed.contains(it)));
        assert_eq!(ports.fixes[0].station, "client");
        // Eight concurrent connections, each for at least 300 ms: at most 27 of 50 requests a second.
        assert!(ports.share.part > 0.3, "{:?}", ports.share);
    }
}

/// A buffer of 16 KiB holds seven datagrams including the kernel's overhead (2,304 bytes each), and a response begins
/// with a burst of ten (RFC 9002, section 7.2). A buffer of 8 MiB holds several responses, however late its reader is.
#[test]
fn reports_a_receive_buffer_smaller_than_a_burst_of_datagrams() {
    let _seat = seat();
    let of = [
        (
            "large",
            "h3",
            "client = { http3 = { receive_buffer = \"4MiB\" } }",
        ),
        (
            "small",
            "h3",
            "client = { http3 = { receive_buffer = \"8KiB\" } }",
        ),
    ];
    let run = run_recipe(
        &recipe(
            "rate = \"5/s\"\nwarmup = \"500ms\"\ndrain = \"2s\"",
            "[response]\nbody = \"300kB\"",
            "delay = \"10ms\"",
            &variants(&of),
            "2s",
        ),
        &[],
    );
    // `check` would excuse drops as caused by the machine.
    for variant in ["large", "small"] {
        let trial = run.only(variant);
        let shown = findings(&run, trial);
        let drops = shown.iter().find(|finding| finding.name == "udp_drops");
        assert_eq!(has_full_sockets(&run, trial), variant == "small");
        assert_eq!(drops.is_some(), variant == "small", "{drops:?}");
        if let Some(finding) = drops {
            assert_eq!(finding.fixes[0].station, "client");
            assert!(finding.fixes[0].setting.starts_with("http3.receive_buffer"));
            // How many depends on how soon the reader wakes in each burst.
            let dropped = value(finding, "datagrams dropped");
            assert!(dropped > 0.0, "{dropped}");
        }
        // The link has lost none of them.
        for silent in ["own_loss", "burst_loss", "bufferbloat"] {
            assert!(
                shown.iter().all(|it| it.name != silent),
                "{variant}: {silent}"
            );
        }
    }
}
