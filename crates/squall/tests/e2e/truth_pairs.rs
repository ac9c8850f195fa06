//! Two constructed holds at the same time, each of which must get its own share, and a real proxy that sleeps.
//!
//! `truth_holds` defines a hold and how its known wait is checked; caps, pacing and delays of our own proxy are in
//! `truth_settings`, holds between two Envoys in `alone::truth_envoys`.

use squall_base::plan::Protocol;
use squall_base::record::Cause;
use squall_record::TrialFolder;

use crate::support::{TrialFiles, alone_if_it_fails, have, seat};
use crate::truth_holds::{
    FRESH, HTTP2, KEPT, Load, QUIC_STREAM_OF_8_KIB, ROUND_TRIP_NS, STREAM_OF_8_KIB, WIDE, check,
    check_trial, direct, folder_of, measured,
};

/// Each window of 8 KiB takes 16.384 ms at that rate, and its update arrives a round trip after its last byte has left.
#[test]
fn stream_window_and_rate_each_get_their_share() {
    alone_if_it_fails(seat(), || {
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
    });
}

/// One segment is lost within a window of about the third request, and its retransmission is not attributed to the
/// window.
#[test]
fn stream_window_and_lost_segment_each_get_their_share() {
    alone_if_it_fails(seat(), || {
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
                check_one_lost(trial, &folder_of(&run, &trial.record), 3);
            }
        }
    });
}

/// Checks that exactly one request of the trial lost a segment, for at least one round trip. It waited for `windows` windows,
/// all others for three.
pub(crate) fn check_one_lost(trial: &TrialFiles, folder: &TrialFolder, windows: u64) {
    let name = &trial.record.trial.variant.name;
    let mut lost = Vec::new();
    for (request, row) in measured(trial, folder) {
        let [window, loss] =
            [Cause::WindowStream, Cause::Loss].map(|cause| row.spans[cause].as_nanos());
        let windows = if loss > 0 { windows } else { 3 };
        let known = windows * ROUND_TRIP_NS;
        assert!(window * 100 >= known * 95, "{name}: {request:?} {row:?}");
        lost.extend((loss > 0).then_some(loss));
    }
    eprintln!("{name}: losses of {lost:?} ns");
    let [loss] = lost[..] else {
        panic!("{name}: {lost:?}");
    };
    assert!(loss * 100 >= ROUND_TRIP_NS * 95, "{name}: {loss}");
}

/// A packet of the upload is lost, and slow start spreads the response over three flights. In the other direction, the
/// packet of that number is an acknowledgement, and the next one makes up for its loss. Over HTTP/2 it may be a packet
/// with SETTINGS or a window update, whose loss delays other frames, so the wait there is not known.
#[test]
fn lost_segment_and_slow_start_each_get_their_share() {
    alone_if_it_fails(seat(), || {
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
        let clear = direct(&[Protocol::H1], FRESH, WIDE, "");
        check(&of("drop 5").run(&clear), &known);
        let quic = direct(&[Protocol::H3], FRESH, "", "http3 = { pacing = false }");
        check(&of("drop 8").run(&quic), &known);
    });
}

/// An HTTP/1.1 proxy that sleeps 20 ms before each response.
const SLEEPER: &str = r#"
import http.client, http.server, sys, threading, time

class Handler(http.server.BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    disable_nagle_algorithm = True
    wbufsize = -1

    def do_POST(self):
        body = self.rfile.read(int(self.headers["content-length"]))
        upstream = self.server.upstream
        # Requests overlap if this machine is busy, and a connection has one at a time.
        with self.server.turn:
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
server.turn = threading.Lock()
server.serve_forever()
"#;

/// The proxy's sleep is `host` next to windows of the hop behind it, and alone over HTTP/1.1.
#[test]
fn sleep_of_a_proxy_is_host_even_with_a_full_stream_window() {
    if !have(&["python3"]) {
        return;
    }
    alone_if_it_fails(seat(), || {
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
    });
}

fn check_host_alone(trial: &TrialFiles, folder: &TrialFolder) {
    for (request, row) in measured(trial, folder) {
        let spans = row.root_spans();
        let host = spans[Cause::Host].as_nanos();
        assert!(host * 100 >= ROUND_TRIP_NS * 95, "h1: {request:?} {row:?}");
    }
}
