//! What `squall probe` writes besides its text: the page, qlog, captures that tshark reads, JSON that matches its schemas,
//! and sweeps over a condition.
//!
//! Which faults it finds is tested in `probe`.

use std::fs;
use std::io::Write;
use std::net::{SocketAddr, TcpStream};
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::Duration;

use serde_json::Value;

use crate::capture::fields;
use crate::probe::{home, probe};
use crate::result_files::check;
use crate::served::{CERTIFICATE, Serving};
use crate::support::{have, is_root, seat, stderr, stdout_json};

fn read(path: &Path) -> String {
    fs::read_to_string(path).unwrap_or_else(|error| panic!("{}: {error}", path.display()))
}

#[test]
fn page_qlog_trace_and_json_of_one_probe_show_its_uploads() {
    let _seat = seat();
    let home = home();
    let server = Serving::start(home.path(), &["--https", "0", "--sink"]);
    let url = format!("https://{}/?token=sesame", server.address("https"));
    let arguments = [
        "--json",
        "--cacert",
        CERTIFICATE,
        "--http",
        "1.1,2",
        "--upload",
        "300kB",
        "--report",
        "probe.html",
        "--qlog",
        "probe.qlog",
        "--trace",
        url.as_str(),
    ];
    let output = probe(&home, &arguments);
    let result = stdout_json(&output);
    assert_eq!(result["schema"]["name"], "squall.probe");
    check("probe", &result);
    let page = read(&home.path().join("probe.html"));
    for part in [
        "<p class=\"answer\">",
        "<h2>Throughput</h2>",
        "Upload over HTTP/2",
        "class=\"blocked\"",
        "<h2>First response</h2>",
        "data-name=\"round-trips\"",
        "--report probe.html",
    ] {
        assert!(page.contains(part), "no {part}: {page}");
    }
    for foreign in ["sesame", "<script", "http-equiv=\"refresh\"", "NaN"] {
        assert!(!page.contains(foreign), "{foreign}: {page}");
    }
    let qlog: Value = serde_json::from_str(&read(&home.path().join("probe.qlog"))).expect("JSON");
    let traces = qlog["traces"].as_array().expect("traces");
    let uploads = traces.iter().find(|trace| {
        let title = trace["title"].as_str().expect("a title");
        title.ends_with("HTTP/2, uploads, round 1")
    });
    let events = uploads.expect("a trace of the uploads")["events"].to_string();
    assert!(events.contains("WINDOW_UPDATE"), "{events}");
    assert!(stderr(&output).contains("SETTINGS"), "{}", stderr(&output));
}

#[test]
fn qlog_has_the_packets_of_http3_connections() {
    let _seat = seat();
    let home = home();
    let server = Serving::start(home.path(), &["--h3", "0"]);
    let url = format!("https://{}/", server.address("h3"));
    let asks = ["--json", "--cacert", CERTIFICATE, "--http", "3"];
    let arguments = [&asks[..], &["--qlog", "probe.qlog", url.as_str()]].concat();
    check("probe", &stdout_json(&probe(&home, &arguments)));
    let qlog: Value = serde_json::from_str(&read(&home.path().join("probe.qlog"))).expect("JSON");
    let first = qlog["traces"][0]["events"].to_string();
    assert!(first.contains("quic:packet_sent"), "{first}");
    assert!(first.contains("http3:frame_parsed"), "{first}");
}

#[test]
fn two_endpoints_are_side_by_side_on_the_page_and_in_json() {
    let _seat = seat();
    let home = home();
    let server = Serving::start(home.path(), &["--h1", "0"]);
    let url = format!("http://{}/", server.address("h1"));
    let asks = ["--json", "--http", "1.1", "--report", "probe.html"];
    let arguments = [&asks[..], &[url.as_str(), url.as_str()]].concat();
    check("probe", &stdout_json(&probe(&home, &arguments)));
    let page = read(&home.path().join("probe.html"));
    assert_eq!(page.matches("<section class=\"endpoint\"").count(), 2);
    assert!(page.contains("data-name=\"beside\""), "{page}");
}

/// Opens another program's connection to the server, and sends bytes on it until the test ends. Returns its local port.
fn stranger(server: SocketAddr, is_over: &Arc<AtomicBool>) -> u16 {
    let mut stream = TcpStream::connect(server).expect("the server listens");
    let port = stream.local_addr().expect("it is connected").port();
    let is_over = Arc::clone(is_over);
    thread::spawn(move || {
        while !is_over.load(Ordering::Relaxed) && stream.write_all(b"x").is_ok() {
            thread::sleep(Duration::from_millis(5));
        }
    });
    port
}

#[test]
fn capture_has_the_probes_own_flows_with_their_secrets_and_no_others() {
    if !is_root() || !have(&["tshark"]) {
        return;
    }
    let _seat = seat();
    let home = home();
    let server = Serving::start(home.path(), &["--https", "0"]);
    let address = server.address("https");
    let is_over = Arc::new(AtomicBool::new(false));
    let foreign = stranger(address, &is_over).to_string();
    let url = format!("https://{address}/");
    let asks = ["--json", "--cacert", CERTIFICATE, "--http", "1.1,2"];
    let arguments = [&asks[..], &["--pcap", "probe.pcapng", url.as_str()]].concat();
    let result = stdout_json(&probe(&home, &arguments));
    is_over.store(true, Ordering::Relaxed);
    check("probe", &result);
    let file = home.path().join("probe.pcapng");
    let mode = fs::metadata(&file).expect("a capture").permissions().mode();
    assert_eq!(mode & 0o777, 0o600, "it has secrets");
    let ports = ["tcp.srcport", "tcp.dstport"];
    let rows = fields(&file, None, "tcp", &ports, &[]);
    let server_port = address.port().to_string();
    assert!(rows.len() > 50, "{} packets", rows.len());
    for row in &rows {
        assert!(row.contains(&server_port), "{row:?}");
        assert!(!row.contains(&foreign), "{row:?}");
    }
    let decode = format!("tcp.port=={server_port},tls");
    let as_tls = ["-d", decode.as_str()];
    let requests = fields(
        &file,
        None,
        "http2.headers.method",
        &["http2.headers.method"],
        &as_tls,
    );
    assert!(!requests.is_empty(), "the secrets decrypt HTTP/2");
    // Each packet was captured once.
    let syns = fields(
        &file,
        None,
        "tcp.flags.syn == 1",
        &["tcp.stream", "tcp.flags.ack"],
        &[],
    );
    let mut once = syns.clone();
    once.sort();
    once.dedup();
    assert_eq!(once.len(), syns.len(), "{syns:?}");
}

#[test]
fn capture_without_the_right_to_see_packets_is_refused_with_advice() {
    if is_root() {
        return;
    }
    let home = home();
    let arguments = ["--pcap", "probe.pcapng", "http://127.0.0.1:9/"];
    let output = probe(&home, &arguments);
    assert_eq!(output.status.code(), Some(1), "{}", stderr(&output));
    let said = stderr(&output);
    assert!(
        said.contains("CAP_NET_RAW") && said.contains("--behind"),
        "{said}"
    );
}

#[test]
fn link_captures_the_packets_of_a_probe_behind_it() {
    let _seat = seat();
    let home = home();
    let server = Serving::start(home.path(), &["--https", "0"]);
    let url = format!("https://localhost:{}/", server.address("https").port());
    let asks = ["--json", "-k", "--http", "2", "--behind", "delay 2ms"];
    let arguments = [&asks[..], &["--pcap", "link.pcapng", url.as_str()]].concat();
    let result = stdout_json(&probe(&home, &arguments));
    assert!(result["endpoint"]["round_trip_ns"].as_u64() >= Some(4_000_000));
    let names = fs::read_dir(home.path()).expect("a folder");
    let names: Vec<String> = names
        .map(|entry| {
            entry
                .expect("a file")
                .file_name()
                .to_string_lossy()
                .into_owned()
        })
        .collect();
    let has_left = names.iter().any(|name| name.contains("link.pcapng."));
    assert!(!has_left, "nothing temporary is left: {names:?}");
    if have(&["tshark"]) {
        let port = server.address("https").port();
        let decode = format!("tcp.port=={port},tls");
        let as_tls = ["-d", decode.as_str()];
        let file = home.path().join("link.pcapng");
        let rows = fields(&file, None, "http2", &["frame.interface_name"], &as_tls);
        for way in ["up", "down"] {
            assert!(rows.iter().any(|row| row[0] == way), "{way}: {rows:?}");
        }
    }
}

#[test]
fn sweep_over_the_delay_has_a_point_for_each_value() {
    let _seat = seat();
    let home = home();
    let server = Serving::start(home.path(), &["--h1", "0"]);
    let url = format!("http://localhost:{}/", server.address("h1").port());
    let sweep = ["--behind", "loss 0%, delay 1..10ms", "--points", "2"];
    let asks = ["--json", "--http", "1.1", "--report", "sweep.html"];
    let arguments = [&sweep[..], &asks, &[url.as_str()]].concat();
    let output = probe(&home, &arguments);
    let result = stdout_json(&output);
    check("sweep", &result);
    assert_eq!(result["condition"], "delay");
    let points = result["points"].as_array().expect("points");
    let values: Vec<&str> = points
        .iter()
        .map(|point| point["value"].as_str().expect("a value"))
        .collect();
    assert_eq!(values, ["1ms", "10ms"]);
    assert_eq!(points[1]["link"], "loss 0%, delay 10ms");
    let first_byte = |point: &Value| point["versions"][0]["first_byte_ns"].as_u64();
    assert!(first_byte(&points[0]) >= Some(2_000_000), "{result}");
    assert!(first_byte(&points[1]) >= Some(20_000_000), "{result}");
    let announced = stderr(&output);
    assert!(
        announced.starts_with("squall probe makes 2 probes"),
        "{announced}"
    );
    assert!(announced.contains("within 2min in all"), "{announced}");
    assert_eq!(announced.matches("sends").count(), 1, "{announced}");
    let page = read(&home.path().join("sweep.html"));
    assert!(page.contains("over the delay"), "{page}");
    assert!(page.contains(">10ms</text>"), "{page}");
}

#[test]
fn outputs_that_make_no_sense_are_refused_before_anything_is_sent() {
    let home = home();
    let range = ["--behind", "delay 1..10ms"];
    for (arguments, part) in [
        (
            &["--http", "1.1", "--qlog", "a.qlog"][..],
            "HTTP/1.1 has no frames",
        ),
        (&["--qlog", "a", "--report", "a"], "each needs its own"),
        (&["--report", "none/a.html"], "there is no folder"),
        (&["--points", "2", "--behind", "delay 1ms"], "has none"),
        (
            &[&range[..], &["--pcap", "a.pcapng"]].concat(),
            "for one probe",
        ),
        (
            &[&range[..], &["--qlog", "a.qlog"]].concat(),
            "for one probe",
        ),
        (&["--behind", "delay 10..1ms"], "lower value"),
        (
            &["--behind", "queue 1..64KiB"],
            "delay, jitter, loss or rate",
        ),
        (
            &["--behind", "delay 1..5ms, loss 1..2%"],
            "only one condition",
        ),
        (&["--behind", "delay 1..5ms, loss much"], "--behind"),
    ] {
        let all = [arguments, &["http://localhost:9/"]].concat();
        let output = probe(&home, &all);
        let said = stderr(&output);
        assert_eq!(output.status.code(), Some(2), "{said}");
        assert!(said.contains(part), "{part}: {said}");
        assert!(!said.contains("sends at most"), "{said}");
    }
}
