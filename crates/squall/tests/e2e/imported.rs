//! Compares `squall explain` of imported captures with trials of squall whose causes are known.
//!
//! The link's own capture has the packets of each direction as they entered the link: its capture point is in effect
//! the middle of the path, and all losses happen after it. From this capture and packets.parquet, the tests build
//! captures as they would have been taken next to the client and next to the server.

use std::collections::BTreeMap;
use std::fs::{self, File};
use std::io::BufReader;
use std::path::{Path, PathBuf};

use serde_json::Value;
use squall_base::Time;
use squall_base::record::{Direction, Fate, PacketRecord};
use squall_record::capture::{CaptureEntry, CaptureReader};
use squall_record::{PcapngWriter, TrialFolder, read_packets};
use tempfile::TempDir;

use crate::explain::explain;
use crate::support::{FinishedRun, run_until_valid, say_disturbed, seat, squall, stderr, stdout};

const MILLISECOND_NS: u64 = 1_000_000;
/// On a quiet machine `host` is at most 0.9 % of the time (docs/METHOD.md).
const QUIET_HOST_PERCENT: u64 = 2;

/// A load that the link can carry, so that bytes wait for its congestion window and its losses. HTTP/2's windows are
/// too large to limit anything: seen from outside, bytes that they held back may still be in the sender's socket. The
/// protocols come with their numbers of connections.
fn recipe(protocols: &[(&str, u32)]) -> String {
    let variant = |(protocol, connections): &(&str, u32)| {
        let windows = match *protocol {
            "h2c" | "h2" => "http2 = { connection_window = \"4MiB\" }\n",
            _ => "",
        };
        format!(
            "[[variant]]\nname = \"{protocol}\"\npath = \"client ~{protocol}~> server\"\n\
             connections = {connections}\n{windows}"
        )
    };
    let variants: String = protocols.iter().map(variant).collect();
    format!(
        "name = \"test\"\nquestion = \"Who waits for whom?\"\n[load]\nrate = \"15/s\"\n\
         [request]\nmethod = \"POST\"\ntarget = \"/\"\nbody = \"3kB\"\n\
         [response]\nstatus = 200\nbody = \"20kB\"\n[conditions]\ndelay = \"10ms\"\nloss = \"2%\"\n\
         [profile.standard]\nwarmup = \"0s\"\nduration = \"5s\"\ndrain = \"2s\"\n{variants}"
    )
}

fn trials(run: &FinishedRun) -> Vec<TrialFolder> {
    let folder = squall_record::RunFolder::open(&run.folder).expect("the run");
    folder.complete_trials().expect("its trials")
}

/// Where a capture is taken.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Point {
    Client,
    Server,
}

/// The link's packets as captured at one of its ends.
fn captured_at(point: Point, trial: &TrialFolder, home: &Path) -> PathBuf {
    let epoch = trial.read_record().expect("trial.json").epoch_unix_ns;
    let packets = read_packets(trial.packets()).expect("packets.parquet");
    let mut rows: BTreeMap<(u64, u16), Vec<PacketRecord>> = BTreeMap::new();
    for row in packets.iter().filter(|row| !row.is_copy).rev() {
        let time = epoch + row.arrived.as_nanos();
        rows.entry((time, row.length)).or_default().push(*row);
    }
    let file = File::open(trial.capture()).expect("link.pcapng");
    let mut capture = CaptureReader::new(BufReader::new(file)).expect("a capture");
    let mut seen: Vec<(Time, Vec<u8>)> = Vec::new();
    while let Some(entry) = capture.next_entry().expect("it is whole") {
        let CaptureEntry::Packet {
            time_unix_ns,
            bytes,
        } = entry
        else {
            continue;
        };
        let row = rows.get_mut(&(time_unix_ns, bytes.len() as u16));
        let row = row.and_then(Vec::pop).expect("the packet's row");
        let is_before = (point == Point::Client) == (row.direction == Direction::Up);
        let time = if is_before {
            Some(row.arrived)
        } else {
            row.released.filter(|_| row.fate == Fate::Delivered)
        };
        seen.extend(time.map(|time| (time, bytes)));
    }
    seen.sort_by_key(|(time, _)| *time);
    let path = home.join(format!("{point:?}.pcapng"));
    let out = File::create(&path).expect("it is made");
    let mut writer = PcapngWriter::new(out, "test", &[("end", "one end")]).expect("its head");
    for (time, bytes) in seen {
        // Ethernet: two addresses, and the type of IPv4.
        let frame = [&[0; 12][..], &[0x08, 0x00], &bytes].concat();
        let time = epoch + time.as_nanos();
        writer
            .packet(0, time, None, &frame, None)
            .expect("it is written");
    }
    path
}

/// Imports a capture of a trial. Returns the folder with its tables.
fn import(capture: &Path, trial: &TrialFolder, home: &Path) -> PathBuf {
    let folder = home.join(capture.file_stem().expect("a name"));
    let mut command = squall(home);
    command
        .args(["import", "pcap", "-o"])
        .arg(&folder)
        .arg(capture);
    if trial.keylog().is_file() {
        command.arg("--key-log").arg(trial.keylog());
    }
    let output = command.output().expect("squall starts");
    assert!(output.status.success(), "{}", stderr(&output));
    folder
}

fn told(folder: &Path, arguments: &[&str]) -> Value {
    let output = explain(folder, &[arguments, &["--json"]].concat());
    assert!(output.status.success(), "{}", stderr(&output));
    let all: Value = serde_json::from_slice(&output.stdout).expect("JSON");
    all[0].clone()
}

/// For each request, by connection and stream, the time by cause in nanoseconds.
type Causes = BTreeMap<(u64, u64), BTreeMap<String, u64>>;

fn causes(told: &Value) -> Causes {
    let mut all = Causes::new();
    for it in told["requests"].as_array().expect("requests") {
        let key = ["connection", "stream"].map(|name| it[name].as_u64().expect("a number"));
        let shares = it["causes"].as_array().expect("causes").iter();
        let own: BTreeMap<String, u64> = shares
            .map(|share| {
                let name = share["cause"].as_str().expect("a cause").to_owned();
                (name, share["ns"].as_u64().expect("ns"))
            })
            .collect();
        assert_eq!(
            own.values().sum::<u64>(),
            it["latency_ns"].as_u64().expect("ns"),
            "{it}"
        );
        all.insert((key[0], key[1]), own);
    }
    all
}

/// How the explanation of a capture differs from that of its trial.
#[derive(Debug, Default)]
struct Comparison {
    requests: usize,
    total_ns: u64,
    /// Time attributed to a different cause.
    elsewhere_ns: u64,
    /// Sums by cause, of the trial and of the capture.
    sums: BTreeMap<String, [u64; 2]>,
    /// Requests with more `loss` and `hol` than in the trial, by a millisecond or more.
    invented: usize,
    /// Requests whose sum of `loss` and `hol` matches the trial's within a millisecond.
    same_losses: usize,
    /// Requests whose `distance` matches within a millisecond.
    same_distance: usize,
}

impl Comparison {
    fn of(trial: &Causes, capture: &Causes) -> Comparison {
        let mut found = Comparison::default();
        for (key, ours) in trial {
            let theirs = capture.get(key).expect("every request is in the capture");
            let time = |of: &BTreeMap<String, u64>, name: &str| of.get(name).copied().unwrap_or(0);
            found.requests += 1;
            // A capture shows nothing of a request before its first byte.
            let before = ["queue", "connect", "tls"];
            for (name, ns) in ours {
                found.sums.entry(name.clone()).or_default()[0] += ns;
                found.total_ns += if before.contains(&name.as_str()) {
                    0
                } else {
                    *ns
                };
            }
            for (name, ns) in theirs {
                found.sums.entry(name.clone()).or_default()[1] += ns;
                found.elsewhere_ns += ns.saturating_sub(time(ours, name));
            }
            let losses = |of| time(of, "loss") + time(of, "hol");
            let (lost, seen) = (losses(ours), losses(theirs));
            found.invented += usize::from(seen >= lost + MILLISECOND_NS);
            found.same_losses += usize::from(seen.abs_diff(lost) < MILLISECOND_NS);
            let distances = [ours, theirs].map(|of| time(of, "distance"));
            let apart = distances[0].abs_diff(distances[1]);
            found.same_distance += usize::from(apart < MILLISECOND_NS);
        }
        found
    }

    fn elsewhere_percent(&self) -> f64 {
        100.0 * self.elsewhere_ns as f64 / self.total_ns as f64
    }

    /// Whether the programs of the trial waited for a processor. A capture cannot show that: a server that waits to refill its
    /// window looks like a server without bytes, so its `cwnd` counts as `server`.
    fn is_disturbed(&self) -> bool {
        let [host_ns, _] = self.sums.get("host").copied().unwrap_or_default();
        host_ns * 100 > self.total_ns * QUIET_HOST_PERCENT
    }
}

#[test]
fn causes_from_a_capture_agree_with_those_of_its_trial() {
    let _seat = seat();
    let protocols = [("h1", 4), ("h2c", 1), ("h2", 1), ("h3", 1)];
    let run = run_until_valid(&recipe(&protocols), &["--pcap"]);
    for trial in trials(&run) {
        let home = TempDir::new().expect("a temporary folder");
        let ours = causes(&told(trial.root(), &["--worst", "1000"]));
        let captures = [
            trial.capture(),
            captured_at(Point::Client, &trial, home.path()),
            captured_at(Point::Server, &trial, home.path()),
        ];
        for (place, capture) in captures.iter().enumerate() {
            let folder = import(capture, &trial, home.path());
            let theirs = causes(&told(&folder, &["--worst", "1000"]));
            let found = Comparison::of(&ours, &theirs);
            println!(
                "{} {}: {:.1} % elsewhere; {found:?}",
                trial.name(),
                capture.file_stem().expect("a name").display(),
                found.elsewhere_percent()
            );
            check(&found, place == 0);
        }
    }
}

/// Half a round trip is known to some hundredths of a millisecond, and so is `distance`. Losses after the capture point
/// are visible; of losses before it, the last packet of a flight leaves no trace. Whether a full window or the server
/// held bytes back is judged from packets alone (docs/METHOD.md, "What holds a sender back"). For QUIC, a spurious
/// retransmission can pass for a loss, because frame rows have no ACK ranges.
fn check(found: &Comparison, is_all_behind: bool) {
    let of = found.requests;
    assert!(found.same_distance * 100 >= of * 95, "{found:?}");
    assert!(found.invented * 100 <= of * 10, "{found:?}");
    if is_all_behind {
        assert!(found.same_losses * 100 >= of * 90, "{found:?}");
        if found.is_disturbed() {
            say_disturbed(&format!("{found:?}"));
        } else {
            assert!(found.elsewhere_percent() < 15.0, "{found:?}");
        }
    }
}

#[test]
fn requests_and_moments_of_a_capture_are_explained_in_capture_terms() {
    let _seat = seat();
    let run = run_until_valid(&recipe(&[("h2c", 1)]), &["--pcap"]);
    let trial = &trials(&run)[0];
    let home = TempDir::new().expect("a temporary folder");
    let folder = import(&trial.capture(), trial, home.path());
    let slowest = told(&folder, &["--worst", "1"]);
    let it = &slowest["requests"][0];
    let request = it["request"].as_u64().expect("a number");
    let number = request.to_string();
    assert_eq!(told(&folder, &[&number])["requests"][0], *it);
    let output = explain(&folder, &[&number]);
    let text = stdout(&output);
    for words in [
        "The capture has one point.",
        "shortest round trip to the client",
        "its first byte left the client",
        &format!("request {number}: answered with 200 after "),
    ] {
        assert!(text.contains(words), "{words}: {text}");
    }
    assert!(
        !text.contains(" due"),
        "a capture shows no schedule: {text}"
    );

    let origin = slowest["origin_ns"].as_u64().expect("a time");
    let [from, to] = ["intended_ns", "end_ns"].map(|name| it[name].as_u64().expect("a time"));
    let at = format!("{}ns", (from + to) / 2 - origin);
    let moment = told(&folder, &["--at", &at]);
    let in_flight = moment["moment"]["in_flight"].as_array().expect("requests");
    assert!(
        in_flight.iter().any(|it| it["request"] == request),
        "{moment}"
    );
    assert!(stdout(&explain(&folder, &["--at", &at])).contains("in flight"));
    check_refusals(&folder);
}

fn refused(folder: &Path, arguments: &[&str]) -> String {
    let output = explain(folder, arguments);
    assert_eq!(output.status.code(), Some(2), "{}", stderr(&output));
    stderr(&output)
}

fn check_refusals(folder: &Path) {
    assert!(refused(folder, &["100000"]).contains("has no request 100000; it has 0 to "));
    assert!(refused(folder, &["--variant", "h1"]).contains("has no trials, variants, "));
    assert!(refused(folder, &["--at", "1h"]).contains("after the end of"));
    // Makes the folder look as an older squall left it.
    fs::remove_file(folder.join("packets.parquet")).expect("it is removed");
    assert!(refused(folder, &[]).contains("import the capture again"));
    for name in ["import.json", "requests.parquet"] {
        fs::remove_file(folder.join(name)).expect("it is removed");
    }
    assert!(refused(folder, &[]).contains("import the capture again"));
    let nothing = folder.with_file_name("nothing");
    fs::create_dir(&nothing).expect("a folder");
    assert!(refused(&nothing, &[]).contains("nor that of a capture"));
}
