//! Constructed holds: trials in which one thing delays messages for a time that is known in advance.
//!
//! Each request is alone on its connection, so its wait follows from the construction: rounds of a window, flights of
//! slow start, bytes over a rate, the round trip of a retransmission. The constructed cause must get at least 95 % of
//! the wait, and causes that were not constructed next to nothing. Most requests carry a body in each direction, so a
//! trial shows both directions. Two simultaneous holds, and real programs, are in `truth_pairs`; holds that settings
//! create, such as a known pace, in `truth_settings`; positions of drops and their victims in `constructed`; real loss
//! rates in `truth_paths`.

use std::collections::BTreeMap;

use squall_base::Duration;
use squall_base::plan::{Protocol, Version};
use squall_base::record::{Cause, CausesRecord, RequestRecord, TrialRecord};
use squall_record::{RunFolder, TrialFolder, read_causes};

use crate::support::{FinishedRun, TrialFiles, alone_if_it_fails, run_until_valid, seat};

/// Twice the delay of every recipe here.
pub(crate) const ROUND_TRIP_NS: u64 = 20_000_000;
pub(crate) const WIDE: &str =
    "http2 = { stream_window = \"16MiB\", connection_window = \"16MiB\" }";
/// Opens a new connection for each of up to eight requests.
pub(crate) const FRESH: &str = "connections = 8\npool = { warm = 0, order = \"turns\" }";

/// The requests, their rate, and the link.
pub(crate) struct Load {
    pub(crate) rate: &'static str,
    pub(crate) bodies: (&'static str, &'static str),
    pub(crate) link: &'static str,
    pub(crate) warmup: &'static str,
    pub(crate) duration: &'static str,
}

impl Load {
    /// Bodies of this size in both directions.
    pub(crate) fn both_ways(rate: &'static str, body: &'static str) -> Load {
        Load {
            rate,
            bodies: (body, body),
            link: "",
            warmup: "500ms",
            duration: "1s",
        }
    }

    pub(crate) fn run(&self, variants: &str) -> FinishedRun {
        let Load {
            rate,
            bodies: (request, response),
            link,
            warmup,
            duration,
        } = self;
        run_until_valid(
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

/// Variants named after their protocols, each with the settings of its HTTP version.
pub(crate) fn direct(
    protocols: &[Protocol],
    connections: &str,
    http2: &str,
    http3: &str,
) -> String {
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
pub(crate) const HTTP2: [Protocol; 2] = [Protocol::H2c, Protocol::H2];
pub(crate) const KEPT: &str = "connections = 1";

/// A small stream window, updated only when all of it has been used.
pub(crate) const STREAM_OF_8_KIB: &str = "http2 = { stream_window = \"8192\", connection_window = \"16MiB\", \
     window_updates = { every = \"8192\" } }";
pub(crate) const QUIC_STREAM_OF_8_KIB: &str = "http3 = { stream_window = \"8192\" }";

/// A cause, and the wait in nanoseconds that the construction imposes on each request.
pub(crate) type Known = (Cause, u64);

/// Causes that any request has besides a hold. Host and server time have no upper bound here: other load on the machine
/// adds to both, and the constructed causes must get their shares regardless.
const EVER_PRESENT: [Cause; 5] = [
    Cause::Connect,
    Cause::Tls,
    Cause::Distance,
    Cause::Server,
    Cause::Host,
];

/// The measured requests of a trial with their total causes.
pub(crate) fn measured(
    trial: &TrialFiles,
    folder: &TrialFolder,
) -> Vec<(RequestRecord, CausesRecord)> {
    let causes = read_causes(folder.causes()).expect("causes.parquet");
    let in_total = causes.into_iter().filter(CausesRecord::is_in_total);
    let causes: BTreeMap<u64, CausesRecord> = in_total.map(|row| (row.request, row)).collect();
    let measured = trial.measured();
    measured
        .map(|request| (request.clone(), causes[&request.request]))
        .collect()
}

pub(crate) fn folder_of(run: &FinishedRun, record: &TrialRecord) -> TrialFolder {
    let folder = RunFolder::open(&run.folder).expect("the run's folder");
    let trial = folder.complete_trial(&record.trial.folder());
    trial.expect("a complete trial")
}

/// Checks that in every measured request of every trial each known wait has at least 95 % under its cause, and all causes that
/// were not constructed sum to less than 5 % of those that were.
pub(crate) fn check(run: &FinishedRun, known: &[Known]) {
    for trial in &run.trials {
        let name = &trial.record.trial.variant.name;
        check_trial(trial, &folder_of(run, &trial.record), name, known);
    }
}

pub(crate) fn check_trial(trial: &TrialFiles, folder: &TrialFolder, name: &str, known: &[Known]) {
    let rows = measured(trial, folder);
    assert!(rows.len() >= 3, "{name}: {} requests", rows.len());
    let count = rows.len() as u64;
    let sum = |cause: Cause| -> u64 {
        let spans = rows.iter().map(|(_, row)| row.root_spans()[cause]);
        spans.map(Duration::as_nanos).sum()
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
fn slow_start_is_reported_as_cwnd() {
    alone_if_it_fails(seat(), || {
        let load = Load {
            warmup: "0s",
            duration: "1600ms",
            ..Load::both_ways("5/s", "60kB")
        };
        let quic = "http3 = { pacing = false }";
        let run = load.run(&direct(&ALL, FRESH, WIDE, quic));
        check(&run, &[(Cause::Cwnd, 4 * ROUND_TRIP_NS)]);
    });
}

/// Four windows of data in each direction wait for three updates each.
#[test]
fn small_stream_window_is_reported_as_window_stream() {
    alone_if_it_fails(seat(), || {
        let load = Load::both_ways("4/s", "32768");
        let protocols = &ALL[1..];
        let variants = direct(protocols, KEPT, STREAM_OF_8_KIB, QUIC_STREAM_OF_8_KIB);
        check(
            &load.run(&variants),
            &[(Cause::WindowStream, 6 * ROUND_TRIP_NS)],
        );
    });
}

/// HTTP/2 allows no connection window below 65,535 bytes (RFC 9113, section 6.9.2); QUIC does.
#[test]
fn small_connection_window_is_reported_as_window_connection() {
    alone_if_it_fails(seat(), || {
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
    });
}

/// A receive buffer offers no more than its size, so 12 kB wait for at least two round trips.
#[test]
fn small_receive_buffer_is_reported_as_window_receive() {
    alone_if_it_fails(seat(), || {
        let load = Load::both_ways("3/s", "12kB");
        let connections = format!("{KEPT}\ntcp = {{ receive_buffer = \"4KiB\" }}");
        let run = load.run(&direct(&OVER_TCP, &connections, WIDE, ""));
        check(&run, &[(Cause::WindowReceive, 4 * ROUND_TRIP_NS)]);
    });
}

/// 12 kB take 48 ms in each direction, and leave their sender immediately.
#[test]
fn transmission_time_is_reported_as_link() {
    alone_if_it_fails(seat(), || {
        let load = Load {
            link: "rate 2mbit",
            ..Load::both_ways("4/s", "12kB")
        };
        let run = load.run(&direct(&ALL, KEPT, WIDE, ""));
        check(&run, &[(Cause::Link, 96_000_000)]);
    });
}

/// At least three segments follow the fourth data segment, so it arrives a round trip late (RFC 6675).
#[test]
fn lost_segment_is_reported_as_loss_until_its_retransmission() {
    alone_if_it_fails(seat(), || {
        let fresh = |bodies, link| Load {
            warmup: "0s",
            duration: "1600ms",
            bodies,
            link,
            ..Load::both_ways("5/s", "")
        };
        let run = fresh(("10kB", "10kB"), "drop data 4").run(&direct(&OVER_TCP, FRESH, WIDE, ""));
        check(&run, &[(Cause::Loss, 2 * ROUND_TRIP_NS)]);
        // The link cannot see which QUIC packets carry data; in the direction with a body, the eighth is part of it.
        for bodies in [("10kB", "0"), ("0", "10kB")] {
            let run = fresh(bodies, "drop 8").run(&direct(&[Protocol::H3], FRESH, "", ""));
            check(&run, &[(Cause::Loss, ROUND_TRIP_NS)]);
        }
    });
}

/// A request that opens the connection between two proxies waits for it: this is `connect`, not the first proxy's time.
#[test]
fn connection_that_a_proxy_opens_is_reported_as_connect() {
    alone_if_it_fails(seat(), || {
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
    });
}
