//! Compares what the observer reads in QUIC packets with tshark, given the same secrets: packet numbers, frames,
//! streams and offsets of every datagram. Also checks the resulting causes of real programs over HTTP/3 with and
//! without loss.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;

use squall_base::record::{Cause, FrameLayer, FrameRecord, Side, TrialRecord, Way};
use squall_base::{Duration, Time};
use squall_record::{RunFolder, TrialFolder, read_causes, read_frames, read_requests};
use tempfile::TempDir;

use crate::capture::fields;
use crate::observed::Imported;
use crate::support::{FinishedRun, have, quiet_seat, recipe, run_until_valid_with};

const PROFILE: &str = "warmup = \"500ms\"\nduration = \"3s\"\ndrain = \"3s\"";
/// Each trial has a part without loss and one with loss, so that programs start only once for both.
const SCHEDULE: (&str, &[u8]) = ("lossy.schedule", b"at 2s: loss 3%\n");
/// When the second part begins, from the start of the load.
const LOSSY_FROM: Duration = Duration::from_secs(2);

/// Bits of the STREAM frame type (RFC 9000, section 19.8).
const OFF: u64 = 0x04;
const STREAM: std::ops::RangeInclusive<u64> = 0x08..=0x0f;
/// CONNECTION_CLOSE, of QUIC and of the application.
const CLOSE: [u64; 2] = [0x1c, 0x1d];

/// The compared properties of a datagram.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
struct Datagram {
    packets: BTreeSet<u64>,
    frames: Vec<u64>,
    streams: Vec<u64>,
    offsets: Vec<u64>,
}

fn variant(name: &str, path: &str) -> String {
    format!("[[variant]]\nname = \"{name}\"\npath = \"{path}\"\nconnections = 2\n")
}

fn folders(run: &FinishedRun) -> Vec<TrialFolder> {
    let folder = RunFolder::open(&run.folder).expect("the run's folder");
    folder.complete_trials().expect("its trials")
}

/// The datagrams of each connection, in order, from the observer's rows of one side. A capture has one observation
/// point, so each datagram has a distinct time.
fn observed(rows: &[FrameRecord]) -> BTreeMap<u32, Vec<Datagram>> {
    let mut datagrams: BTreeMap<u32, Vec<Datagram>> = BTreeMap::new();
    let mut last: BTreeMap<u32, (Time, Way)> = BTreeMap::new();
    for row in rows
        .iter()
        .filter(|row| row.frame.layer == FrameLayer::Quic)
    {
        let of = datagrams.entry(row.connection).or_default();
        let at = (row.time, row.frame.way);
        if last.insert(row.connection, at) != Some(at) {
            of.push(Datagram::default());
        }
        let datagram = of.last_mut().expect("one was added");
        datagram.packets.extend(row.frame.packet);
        datagram.frames.push(row.frame.kind);
        if STREAM.contains(&row.frame.kind) {
            datagram.streams.extend(row.frame.stream);
            if row.frame.kind & OFF != 0 {
                datagram.offsets.extend(row.frame.offset);
            }
        }
    }
    datagrams
}

/// The same datagrams according to tshark, up to the end of each connection.
fn dissected(capture: &Path) -> Vec<Vec<Datagram>> {
    let names = [
        "udp.stream",
        "quic.packet_number",
        "quic.frame_type",
        "quic.stream.stream_id",
        "quic.stream.offset",
    ];
    let more = ["-d", "udp.port==8080,quic", "-d", "udp.port==8081,quic"];
    let mut connections: BTreeMap<String, (bool, Vec<Datagram>)> = BTreeMap::new();
    for row in fields(capture, None, "quic.frame_type", &names, &more) {
        let numbers = |place: usize| -> Vec<u64> {
            let all = row[place].split(',').filter(|it| !it.is_empty());
            all.map(|it| it.parse().expect("a number")).collect()
        };
        let (is_over, datagrams) = connections.entry(row[0].clone()).or_default();
        if *is_over {
            continue;
        }
        let frames = numbers(2);
        *is_over = frames.iter().any(|kind| CLOSE.contains(kind));
        datagrams.push(Datagram {
            packets: numbers(1).into_iter().collect(),
            frames,
            streams: numbers(3),
            offsets: numbers(4),
        });
    }
    let mut order: Vec<(u32, Vec<Datagram>)> = connections
        .into_iter()
        .map(|(stream, (_, datagrams))| (stream.parse().expect("a number"), datagrams))
        .collect();
    order.sort_by_key(|(stream, _)| *stream);
    order.into_iter().map(|(_, datagrams)| datagrams).collect()
}

/// Checks that the observer and tshark agree on every datagram of a capture that includes its secrets.
fn check_capture(name: &str, capture: &Path) {
    let home = TempDir::new().expect("a temporary folder");
    let imported = Imported::of(home.path(), capture, None);
    for connection in imported.connections() {
        assert_eq!(connection["opaque"], serde_json::Value::Null, "{name}");
        assert_eq!(connection["protocol"], "h3", "{name}");
    }
    let mut rows = read_frames(home.path().join("record/frames.parquet")).expect("the frames");
    rows.retain(|row| row.side == Side::Client);
    let observed: Vec<Vec<Datagram>> = observed(&rows).into_values().collect();
    let dissected = dissected(capture);
    assert_eq!(observed.len(), dissected.len(), "{name}: connections");
    for (ours, theirs) in observed.iter().zip(&dissected) {
        for (ours, theirs) in ours.iter().zip(theirs) {
            assert_eq!(ours, theirs, "{name}");
        }
        assert_eq!(ours.len(), theirs.len(), "{name}: datagrams");
        assert!(ours.len() > 50, "{name}");
    }
}

/// The percentage of response time whose cause is unknown: first of the requests that were due in the part without loss,
/// then of those in the part with loss.
fn unknown_percent(trial: &TrialFolder, record: &TrialRecord) -> [f64; 2] {
    let lossy_from = Time::ZERO + record.load_start + LOSSY_FROM;
    let requests = read_requests(trial.requests()).expect("the requests");
    let due_later = requests.iter().filter(|row| row.intended >= lossy_from);
    let due_later: BTreeSet<u64> = due_later.map(|row| row.request).collect();
    let causes = read_causes(trial.causes()).expect("the causes");
    let (mut unknown_ns, mut all_ns) = ([0; 2], [0; 2]);
    for row in causes.iter().filter(|row| row.is_in_total()) {
        let part = usize::from(due_later.contains(&row.request));
        unknown_ns[part] += row.spans[Cause::Unknown].as_nanos();
        all_ns[part] += row.spans.total().as_nanos();
    }
    [0, 1].map(|part| 100.0 * unknown_ns[part] as f64 / all_ns[part] as f64)
}

#[test]
fn observer_agrees_with_tshark_on_quic_and_causes_are_known() {
    if !have(&["tshark", "envoy", "caddy", "nginx"]) {
        return;
    }
    let _seat = quiet_seat();
    let variants = [
        variant("own", "client ~h3~> server"),
        variant("caddy", "client ~h3~> caddy"),
        variant("envoy", "client ~h3~> envoy"),
        variant("two envoys", "client -h1-> envoy ~h3~> envoy -h1-> nginx"),
        variant("caddy first", "client -h1-> caddy ~h3~> envoy -h1-> nginx"),
        variant("inside", "client -h3-> envoy ~h3~> caddy"),
    ];
    let text = recipe(
        "60/s",
        "delay = \"5ms\"\nschedule = \"lossy.schedule\"",
        &variants.each_ref().map(String::as_str),
        PROFILE,
    );
    let run = run_until_valid_with(&[SCHEDULE], &text, &["--pcap"]);
    assert_eq!(run.trials.len(), variants.len());
    for folder in folders(&run) {
        let record = folder.read_record().expect("trial.json");
        let name = &record.trial.variant.name;
        check_capture(name, &folder.capture());
        let unknown = unknown_percent(&folder, &record);
        let is_known = unknown.iter().all(|percent| *percent < 2.0);
        assert!(is_known, "{name}: {unknown:?} % unknown");
        for hop in &record.hops {
            let Some(wire) = &hop.wire else { continue };
            assert!(wire.unread.is_empty(), "{name}: {wire:?}");
        }
    }
}
