//! Constructed holds: trials in which one thing, or two, keep messages waiting for a time that is known in advance.
//!
//! Each request is alone on its connection, so its wait follows from the construction: rounds of a window, segments of slow
//! start, bytes over a rate, the round trip of a repair, the sleep of a proxy. The cause that was built must have at least
//! 95 % of the wait, and causes that were not built must have next to nothing. Most requests carry a body each way, so a
//! trial shows both directions. Pacing is not here: no setting makes a TCP sender pace, so `squall-analysis` tests it on
//! constructed evidence. Positions of drops and their victims are in `constructed`, real loss rates in `truth_paths`.

use std::collections::BTreeMap;

use squall_base::plan::{Protocol, Version};
use squall_base::record::{Cause, CausesRecord, RequestRecord, TrialRecord};
use squall_record::{RunFolder, TrialFolder, read_causes, read_drops};

use crate::support::{FinishedRun, TrialFiles, have, run_recipe, seat};

/// Twice the delay of every recipe here.
const ROUND_TRIP_NS: u64 = 20_000_000;
const WIDE: &str = "http2 = { stream_window = \"16MiB\", connection_window = \"16MiB\" }";
/// Opens a connection for each of up to eight requests.
const FRESH: &str = "connections = 8\npool = { warm = 0, order = \"turns\" }";

/// What is asked, how often, over what link.
struct Load {
    rate: &'static str,
    bodies: (&'static str, &'static str),
    link: &'static str,
    warmup: &'static str,
    duration: &'static str,
}

impl Load {
    /// Bodies of this size both ways.
    fn both_ways(rate: &'static str, body: &'static str) -> Load {
        Load {
            rate,
            bodies: (body, body),
            link: "",
            warmup: "500ms",
            duration: "1s",
        }
    }

    fn run(&self, variants: &str) -> FinishedRun {
        let Load {
            rate,
            bodies: (request, response),
            link,
            warmup,
            duration,
        } = self;
        run_recipe(
            &format!(
                "name = \"holds\"\nquestion = \"What holds them?\"\n\
                 [load]\nrate = \"{rate}\"\nwarmup = \"{warmup}\"\nduration = \"{duration}\"\ndrain = \"2s\"\n\
                 [request]\nmethod = \"POST\"\nbody = \"{request}\"\n[response]\nbody = \"{response}\"\n\
                 [conditions]\ndelay = \"10ms\"\nlink = \"{link}\"\n{variants}"
            ),
            &[],
        )
    }
}

/// Variants named after their protocols, each with the settings of its version of HTTP.
fn direct(protocols: &[Protocol], connections: &str, http2: &str, http3: &str) -> String {
    let variants = protocols.iter().map(|protocol| {
        let settings = match protocol.version() {
            Version::Http1 => "",
            Version::Http2 => http2,
            Version::Http3 => http3,
        };
        let name = protocol.name();
        format!("[[variant]]\nname = \"{name}\"\npath = \"client ~{name}~> server\"\n{connections}\n{settings}\n")
    });
    variants.collect()
}

const ALL: [Protocol; 4] = [Protocol::H1, Protocol::H2c, Protocol::H2, Protocol::H3];
const OVER_TCP: [Protocol; 3] = [Protocol::H1, Protocol::H2c, Protocol::H2];
const HTTP2: [Protocol; 2] = [Protocol::H2c, Protocol::H2];
const KEPT: &str = "connections = 1";

/// A window of one stream, opened again only when all of it was used.
const STREAM_OF_8_KIB: &str = "http2 = { stream_window = \"8192\", connection_window = \"16MiB\", \
     window_updates = { every = \"8192\" } }";
const QUIC_STREAM_OF_8_KIB: &str = "http3 = { stream_window = \"8192\" }";

/// A cause and the wait that the construction gives each request, in nanoseconds.
type Known = (Cause, u64);

/// What a request has besides any hold. Host and server are not asserted from above: another load of the machine adds to
/// both, and the causes that were built must have their parts whatever else there is.
const EVER_PRESENT: [Cause; 5] = [
    Cause::Connect,
    Cause::Tls,
    Cause::Distance,
    Cause::Server,
    Cause::Host,
];

/// The measured requests of a trial with their causes in total.
fn measured(trial: &TrialFiles, folder: &TrialFolder) -> Vec<(RequestRecord, CausesRecord)> {
    let causes = read_causes(folder.causes()).expect("causes.parquet");
    let in_total = causes.into_iter().filter(CausesRecord::is_in_total);
    let causes: BTreeMap<u64, CausesRecord> = in_total.map(|row| (row.request, row)).collect();
    let measured = trial.measured();
    measured
        .map(|request| (request.clone(), causes[&request.request].clone()))
        .collect()
}

fn folder_of(run: &FinishedRun, record: &TrialRecord) -> TrialFolder {
    let folder = RunFolder::open(&run.folder).expect("the run's folder");
    let trial = folder.complete_trial(&record.trial.folder());
    trial.expect("a complete trial")
}

/// Every measured request of every trial has 95 % of each known wait under its cause, and all that was not built is less
/// than 5 % of what was.
fn check(run: &FinishedRun, known: &[Known]) {
    for trial in &run.trials {
        let name = &trial.record.trial.variant.name;
        check_trial(trial, &folder_of(run, &trial.record), name, known);
    }
}

fn check_trial(trial: &TrialFiles, folder: &TrialFolder, name: &str, known: &[Known]) {
    let rows = measured(trial, folder);
    assert!(rows.len() >= 3, "{name}: {} requests", rows.len());
    let count = rows.len() as u64;
    let sum = |cause: Cause| -> u64 {
        let spans = rows.iter().map(|(_, row)| row.root_spans()[cause]);
        spans.map(|span| span.as_nanos()).sum()
    };
    for (cause, wait) in known {
        let share = sum(*cause) as f64 / (wait * count) as f64;
        eprintln!("{name}: {} has {share:.3} of its wait", cause.name());
        for (request, row) in &rows {
            let found = row.root_spans()[*cause].as_nanos();
            assert!(found * 100 >= wait * 95, "{name}: {request:?} {row:?}");
        }
    }
    let built: u64 = known.iter().map(|(cause, _)| sum(*cause)).sum();
    let is_other = |cause: &Cause| {
        !EVER_PRESENT.contains(cause) && known.iter().all(|(built, _)| built != cause)
    };
    let others = Cause::ALL.into_iter().filter(is_other);
    let others: BTreeMap<&str, u64> = others
        .map(|cause| (cause.name(), sum(cause)))
        .filter(|(_, sum)| *sum > 0)
        .collect();
    let other: u64 = others.values().sum();
    assert!(
        other * 20 <= built,
        "{name}: {built} were built: {others:?}"
    );
}

/// Slow start sends 10 segments (RFC 6928), then 20, then 40: what fits into three flights waits for two round trips.
#[test]
fn slow_start_of_a_fresh_connection_is_cwnd() {
    let _seat = seat();
    let load = Load {
        warmup: "0s",
        duration: "1600ms",
        ..Load::both_ways("5/s", "60kB")
    };
    let quic = "http3 = { pacing = false }";
    let run = load.run(&direct(&ALL, FRESH, WIDE, quic));
    check(&run, &[(Cause::Cwnd, 4 * ROUND_TRIP_NS)]);
}

/// Four windows of data each way wait for three updates.
#[test]
fn small_stream_window_is_window_stream() {
    let _seat = seat();
    let load = Load::both_ways("4/s", "32768");
    let protocols = &ALL[1..];
    let variants = direct(protocols, KEPT, STREAM_OF_8_KIB, QUIC_STREAM_OF_8_KIB);
    check(
        &load.run(&variants),
        &[(Cause::WindowStream, 6 * ROUND_TRIP_NS)],
    );
}

/// HTTP/2 allows no connection window below 65,535 bytes (RFC 9113, section 6.9.2), QUIC does.
#[test]
fn small_connection_window_is_window_connection() {
    let _seat = seat();
    let known = [(Cause::WindowConnection, 6 * ROUND_TRIP_NS)];
    let load = Load {
        warmup: "1s",
        ..Load::both_ways("4/s", "262140")
    };
    let http2 = "http2 = { stream_window = \"16MiB\", connection_window = \"65535\", \
         window_updates = { every = \"65535\" } }\ntcp = { slow_start_after_idle = false }";
    check(&load.run(&direct(&HTTP2, KEPT, http2, "")), &known);
    // Less than QUIC's initial congestion window of 13,500 bytes.
    let load = Load::both_ways("4/s", "48000");
    let http3 = "http3 = { connection_window = \"12000\" }";
    check(&load.run(&direct(&[Protocol::H3], KEPT, "", http3)), &known);
}

/// A receive buffer offers no more than its size, so 12 kB wait for two round trips at least.
#[test]
fn small_receive_buffer_is_window_receive() {
    let _seat = seat();
    let load = Load::both_ways("3/s", "12kB");
    let connections = format!("{KEPT}\ntcp = {{ receive_buffer = \"4KiB\" }}");
    let run = load.run(&direct(&OVER_TCP, &connections, WIDE, ""));
    check(&run, &[(Cause::WindowReceive, 4 * ROUND_TRIP_NS)]);
}

/// 12 kB take 48 ms each way, and leave their sender at once.
#[test]
fn rate_of_the_link_is_link() {
    let _seat = seat();
    let load = Load {
        link: "rate 2mbit",
        ..Load::both_ways("4/s", "12kB")
    };
    let run = load.run(&direct(&ALL, KEPT, WIDE, ""));
    check(&run, &[(Cause::Link, 96_000_000)]);
}

/// The fourth segment with data has at least three behind it, so it arrives a round trip late (RFC 6675).
#[test]
fn lost_segment_is_loss_until_its_repair() {
    let _seat = seat();
    let fresh = |bodies, link| Load {
        warmup: "0s",
        duration: "1600ms",
        bodies,
        link,
        ..Load::both_ways("5/s", "")
    };
    let run = fresh(("10kB", "10kB"), "drop data 4").run(&direct(&OVER_TCP, FRESH, WIDE, ""));
    check(&run, &[(Cause::Loss, 2 * ROUND_TRIP_NS)]);
    // Of QUIC's packets it is not seen which have data: the eighth is the body's where one goes that way.
    for bodies in [("10kB", "0"), ("0", "10kB")] {
        let run = fresh(bodies, "drop 8").run(&direct(&[Protocol::H3], FRESH, "", ""));
        check(&run, &[(Cause::Loss, ROUND_TRIP_NS)]);
    }
}

/// Each window of 8 KiB takes 16.384 ms at that rate, and its update comes a round trip after its last byte has left.
#[test]
fn stream_window_and_rate_each_have_their_part() {
    let _seat = seat();
    let load = Load {
        link: "rate 4mbit",
        ..Load::both_ways("3/s", "32768")
    };
    let window_ns = 16_384_000;
    check(
        &load.run(&direct(&HTTP2, KEPT, STREAM_OF_8_KIB, "")),
        &[
            (Cause::WindowStream, 6 * (ROUND_TRIP_NS + window_ns)),
            (Cause::Link, 2 * window_ns),
        ],
    );
}

/// One segment is lost within a window of the third request or so, and its repair is not the window's.
#[test]
fn stream_window_and_lost_segment_each_have_their_part() {
    let _seat = seat();
    for bodies in [("32768", "0"), ("0", "32768")] {
        let load = Load {
            bodies,
            link: "drop data 60 of flow 0",
            warmup: "0s",
            duration: "1500ms",
            ..Load::both_ways("4/s", "")
        };
        let run = load.run(&direct(&HTTP2, KEPT, STREAM_OF_8_KIB, ""));
        for trial in &run.trials {
            check_one_lost(trial, &folder_of(&run, &trial.record));
        }
    }
}

/// Exactly one request of the trial lost a segment, for a round trip at least; all waited for three updates.
fn check_one_lost(trial: &TrialFiles, folder: &TrialFolder) {
    let name = &trial.record.trial.variant.name;
    let mut lost = Vec::new();
    for (request, row) in measured(trial, folder) {
        let [window, loss] =
            [Cause::WindowStream, Cause::Loss].map(|cause| row.spans[cause].as_nanos());
        let known = 3 * ROUND_TRIP_NS;
        assert!(window * 100 >= known * 95, "{name}: {request:?} {row:?}");
        lost.extend((loss > 0).then_some(loss));
    }
    eprintln!("{name}: losses of {lost:?} ns");
    let [loss] = lost[..] else {
        panic!("{name}: {lost:?}");
    };
    assert!(loss * 100 >= ROUND_TRIP_NS * 95, "{name}: {loss}");
}

/// A packet of the upload is lost, and slow start spreads the response over three flights. In the other direction the packet
/// of that number is an acknowledgement, which the next one makes up for.
#[test]
fn lost_segment_and_slow_start_each_have_their_part() {
    let _seat = seat();
    let known = [
        (Cause::Loss, ROUND_TRIP_NS),
        (Cause::Cwnd, 2 * ROUND_TRIP_NS),
    ];
    let of = |link| Load {
        bodies: ("10kB", "60kB"),
        link,
        warmup: "0s",
        duration: "1600ms",
        ..Load::both_ways("5/s", "")
    };
    let clear = direct(&[Protocol::H1, Protocol::H2c], FRESH, WIDE, "");
    check(&of("drop 5").run(&clear), &known);
    let quic = direct(&[Protocol::H3], FRESH, "", "http3 = { pacing = false }");
    check(&of("drop 8").run(&quic), &known);
}

/// An HTTP/1.1 proxy that sleeps 20 ms before each answer.
const SLEEPER: &str = r#"
import http.client, http.server, sys, time

class Handler(http.server.BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    disable_nagle_algorithm = True
    wbufsize = -1

    def do_POST(self):
        body = self.rfile.read(int(self.headers["content-length"]))
        upstream = self.server.upstream
        upstream.request("POST", self.path, body, dict(self.headers))
        answer = upstream.getresponse()
        content = answer.read()
        time.sleep(0.02)
        self.send_response_only(answer.status)
        self.send_header("content-length", str(len(content)))
        self.end_headers()
        self.wfile.write(content)

    def log_message(self, *arguments):
        pass

host, port, upstream_host, upstream_port = sys.argv[1:]
server = http.server.ThreadingHTTPServer((host, int(port)), Handler)
server.upstream = http.client.HTTPConnection(upstream_host, int(upstream_port))
server.serve_forever()
"#;

/// The sleep of a proxy is `host` beside windows of the hop behind it, and alone over HTTP/1.1.
#[test]
fn sleep_of_a_proxy_is_host_also_beside_a_stream_window() {
    if !have(&["python3"]) {
        return;
    }
    let _seat = seat();
    let script = SLEEPER.replace('{', "{{").replace('}', "}}");
    let mut variants = format!(
        "[station.sleeper]\ncommand = \"python3 {{configuration}} {{listen_host}} {{listen_port}} \
         {{upstream_host}} {{upstream_port}}\"\nconfiguration = '''{script}'''\n"
    );
    let hops = [
        (
            "h1",
            "connections = 1\ntcp = { slow_start_after_idle = false }",
        ),
        ("h2c", STREAM_OF_8_KIB),
        ("h2", STREAM_OF_8_KIB),
        ("h3", QUIC_STREAM_OF_8_KIB),
    ];
    for (protocol, settings) in hops {
        variants += &format!(
            "[[variant]]\nname = \"{protocol}\"\n\
             path = \"client -h1-> sleeper -h1-> proxy ~{protocol}~> proxy -h1-> server\"\n\
             [variant.hop.3]\n{settings}\n"
        );
    }
    let run = Load::both_ways("4/s", "32768").run(&variants);
    let host = (Cause::Host, ROUND_TRIP_NS);
    for (protocol, _) in hops {
        let trial = run.only(protocol);
        let folder = folder_of(&run, &trial.record);
        if protocol == "h1" {
            check_host_alone(trial, &folder);
        } else {
            let window = (Cause::WindowStream, 6 * ROUND_TRIP_NS);
            check_trial(trial, &folder, protocol, &[host, window]);
        }
    }
}

fn check_host_alone(trial: &TrialFiles, folder: &TrialFolder) {
    for (request, row) in measured(trial, folder) {
        let spans = row.root_spans();
        let host = spans[Cause::Host].as_nanos();
        assert!(host * 100 >= ROUND_TRIP_NS * 95, "h1: {request:?} {row:?}");
    }
}

/// A request that opens the connection between two proxies waits for it: that is `connect`, not the first proxy's time.
#[test]
fn connection_that_a_proxy_opens_is_connect() {
    let _seat = seat();
    let path = "client -h1-> proxy ~h1~> proxy -h1-> server";
    let variants = format!("[[variant]]\nname = \"h1\"\npath = \"{path}\"\n");
    let load = Load {
        warmup: "0s",
        ..Load::both_ways("5/s", "1KiB")
    };
    let run = load.run(&variants);
    let trial = run.only("h1");
    let rows = measured(trial, &folder_of(&run, &trial.record));
    let first = rows.iter().find(|(request, _)| request.request == 0);
    let (request, row) = first.expect("the first request");
    let connect = row.spans[Cause::Connect].as_nanos();
    assert!(connect >= ROUND_TRIP_NS, "{request:?} {row:?}");
}

/// Envoys keep windows of their own choice to 65,535 bytes at least, so larger bodies wait for three updates each way.
#[test]
fn windows_between_two_envoys_are_theirs() {
    if !have(&["envoy", "nginx"]) {
        return;
    }
    let _seat = seat();
    let windows = [
        (Cause::WindowStream, "65535", "16MiB"),
        (Cause::WindowConnection, "16MiB", "65535"),
    ];
    let mut variants = String::new();
    for protocol in HTTP2 {
        for (cause, stream, connection) in windows {
            let side = format!(
                "{{ http2 = {{ stream_window = \"{stream}\", connection_window = \"{connection}\" }}, \
                 tcp = {{ slow_start_after_idle = false }} }}"
            );
            let (protocol, cause) = (protocol.name(), cause.name());
            variants += &format!(
                "[[variant]]\nname = \"{protocol} {cause}\"\n\
                 path = \"client -h1-> envoy ~{protocol}~> envoy -h1-> nginx\"\n\
                 [variant.hop.2]\nclient = {side}\nserver = {side}\n"
            );
        }
    }
    let load = Load {
        warmup: "1s",
        ..Load::both_ways("3/s", "262140")
    };
    let run = load.run(&variants);
    for protocol in HTTP2 {
        for (cause, ..) in windows {
            let name = format!("{} {}", protocol.name(), cause.name());
            let trial = run.only(&name);
            let folder = folder_of(&run, &trial.record);
            check_trial(trial, &folder, &name, &[(cause, 6 * ROUND_TRIP_NS)]);
        }
    }
}

/// Each lost segment of a message between two Envoys costs a round trip at least.
#[test]
fn lost_segments_between_two_envoys_are_loss() {
    if !have(&["envoy", "nginx"]) {
        return;
    }
    let _seat = seat();
    let variants = HTTP2.map(|protocol| {
        let name = protocol.name();
        format!("[[variant]]\nname = \"{name}\"\npath = \"client -h1-> envoy ~{name}~> envoy -h1-> nginx\"\n")
    });
    let load = Load {
        link: "drop every 31 data",
        warmup: "0s",
        duration: "2s",
        ..Load::both_ways("6/s", "10kB")
    };
    let run = load.run(&variants.concat());
    for trial in &run.trials {
        let name = &trial.record.trial.variant.name;
        let folder = folder_of(&run, &trial.record);
        let rows = measured(trial, &folder);
        let lost = rows
            .iter()
            .map(|(_, row)| row.spans[Cause::Loss].as_nanos());
        let lost: u64 = lost.sum();
        let drops = read_drops(folder.drops()).expect("drops.parquet");
        let carriers = drops.iter().filter(|row| !row.carried.is_empty()).count() as u64;
        eprintln!("{name}: {carriers} lost, {:.1} ms", lost as f64 / 1e6);
        assert!(carriers >= 3, "{name}: {drops:?}");
        assert!(
            lost * 100 >= carriers * ROUND_TRIP_NS * 95,
            "{name}: {lost}"
        );
    }
}
