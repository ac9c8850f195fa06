//! `hop.N` tables of a recipe: the settings for each side of one hop apply to that hop's stations, and to no other hop.
//!
//! squall-recipe tests their syntax, `paths` tests paths as such.

use std::collections::{BTreeMap, BTreeSet};

use squall_base::plan::Side;
use squall_base::record::{
    ExchangeRecord, FrameRecord, HopRecord, SideCounts, TrialRecord, Way, frame_name,
};
use squall_record::{RunFolder, read_exchanges, read_frames};

use crate::support::{recipe, run_recipe, seat};

/// Requests of the trial: 50 a second for two seconds.
const REQUESTS: usize = 100;
const BODY: &str = "body = \"1KiB\"";

/// Separate settings for each side of the second hop, and HTTP/1.1 settings for the hops around it.
const HTTP1_AROUND: &str = r#"
[[variant]]
name = "h1 around"
path = "client -h1-> proxy ~h2c~> proxy -h1-> server"
connections = 1
[variant.hop.1.server]
http1 = { requests_per_connection = 10 }
[variant.hop.2]
connections = 3
http2 = { header_table_size = "2000" }
client = { http2 = { stream_window = "100000", connection_window = "200000", data_size = "5000" } }
server = { http2 = { stream_window = "70000", max_concurrent_streams = 7, data_size = "3000" } }
[variant.hop.3]
connections = 1
client = { http1 = { requests_per_connection = 25 } }
"#;

/// The variant's own settings apply to hops that do not override them.
const HTTP2_AROUND: &str = r#"
[[variant]]
name = "h2c around"
path = "client -h2c-> proxy ~h2c~> proxy -h2c-> server"
connections = 1
http2 = { stream_window = "80000", data_size = "4000" }
[variant.hop.2]
connections = 1
client = { http2 = { stream_window = "100000", data_size = "5000" } }
server = { http2 = { stream_window = "70000", data_size = "3000" } }
"#;

/// A trial with the records of its hops.
struct Trial {
    record: TrialRecord,
    frames: Vec<FrameRecord>,
    exchanges: Vec<ExchangeRecord>,
}

fn trials() -> BTreeMap<String, Trial> {
    let text = recipe(
        "50/s",
        "delay = \"5ms\"",
        &[HTTP1_AROUND, HTTP2_AROUND],
        "warmup = \"0s\"\nduration = \"2s\"\ndrain = \"2s\"",
    );
    // Bodies of more than one DATA frame, in both directions.
    let run = run_recipe(&text.replace(BODY, "body = \"20000\""), &[]);
    let folder = RunFolder::open(&run.folder).expect("the run's folder");
    let trials = folder.complete_trials().expect("its trials");
    let read = trials.iter().map(|trial| {
        let record = trial.read_record().expect("trial.json");
        let name = record.trial.variant.name.clone();
        let trial = Trial {
            record,
            frames: read_frames(trial.frames()).expect("frames.parquet"),
            exchanges: read_exchanges(trial.exchanges()).expect("exchanges.parquet"),
        };
        (name, trial)
    });
    read.collect()
}

impl Trial {
    /// What both sides of a hop counted.
    fn counts(&self, hop: usize) -> [&SideCounts; 2] {
        let HopRecord { client, server, .. } = &self.record.hops[hop - 1];
        [client, server].map(|counts| counts.as_ref().expect("both sides are ours"))
    }

    /// The DATA frames that one side of a hop sent.
    fn data(&self, hop: u8, side: Side) -> impl Iterator<Item = &FrameRecord> {
        self.frames.iter().filter(move |row| {
            let name = frame_name(row.frame.layer, row.frame.kind);
            (row.hop, row.side, row.frame.way) == (hop, side, Way::Sent) && name == Some("DATA")
        })
    }

    /// The length of the longest of these DATA frames.
    fn longest(&self, hop: u8, side: Side) -> u64 {
        let lengths = self.data(hop, side).map(|row| row.frame.length);
        lengths.max().expect("it sent bodies")
    }

    /// The stream and connection windows available to this side before its first DATA frame. Streams that began before
    /// the other side's SETTINGS arrived are left out (RFC 9113, section 6.9.2).
    fn first_windows(&self, hop: u8, side: Side) -> [BTreeSet<i64>; 2] {
        let (mut streams, mut connections) = (BTreeSet::new(), BTreeSet::new());
        let mut windows = [BTreeSet::new(), BTreeSet::new()];
        for row in self.data(hop, side) {
            let sent = row.frame.length as i64;
            if streams.insert((row.connection, row.frame.stream)) {
                windows[0].insert(row.frame.stream_window.expect("of DATA") + sent);
            }
            if connections.insert(row.connection) {
                windows[1].insert(row.frame.connection_window.expect("of DATA") + sent);
            }
        }
        windows[0].remove(&65_535);
        windows
    }

    /// The number of exchanges on each connection of a hop, as its client saw them.
    fn exchanges_of_connections(&self, hop: u8) -> Vec<usize> {
        let mut counts = BTreeMap::new();
        for row in &self.exchanges {
            if (row.hop, row.side) == (hop, Side::Client) {
                *counts.entry(row.connection).or_default() += 1;
            }
        }
        counts.into_values().collect()
    }
}

/// Checks that this number of connections announced the same SETTINGS, including these.
fn check_announced(found: &BTreeMap<String, u64>, connections: u64, settings: &[&str]) {
    let sets: Vec<(&String, &u64)> = found.iter().collect();
    let [(words, count)] = sets[..] else {
        panic!("not one set of SETTINGS: {found:?}");
    };
    assert_eq!(*count, connections, "{found:?}");
    for setting in settings {
        let word = format!("SETTINGS_{setting}");
        assert!(
            words.split(' ').any(|found| found == word),
            "no {word} in {words}"
        );
    }
}

#[test]
fn each_side_of_each_hop_uses_its_own_settings() {
    let _seat = seat();
    let trials = trials();
    let trial = &trials["h1 around"];
    assert_eq!(trial.record.requests as usize, REQUESTS);
    let [client, server] = trial.counts(2);
    let ours = ["INITIAL_WINDOW_SIZE=100000", "HEADER_TABLE_SIZE=2000"];
    check_announced(&client.settings_sent, 3, &ours);
    check_announced(&server.settings_received, 3, &ours);
    let theirs = [
        "INITIAL_WINDOW_SIZE=70000",
        "MAX_CONCURRENT_STREAMS=7",
        "HEADER_TABLE_SIZE=2000",
    ];
    check_announced(&server.settings_sent, 3, &theirs);
    check_announced(&client.settings_received, 3, &theirs);
    // The sender sets the length of its DATA frames; the receiver sets the sender's windows.
    assert_eq!(trial.longest(2, Side::Client), 5_000);
    assert_eq!(trial.longest(2, Side::Server), 3_000);
    let windows = |stream, connection| [BTreeSet::from([stream]), BTreeSet::from([connection])];
    assert_eq!(
        trial.first_windows(2, Side::Client),
        windows(70_000, 65_535)
    );
    assert_eq!(
        trial.first_windows(2, Side::Server),
        windows(100_000, 200_000)
    );
    // The hops around it use HTTP/1.1, with as many connections as their own settings cause.
    for hop in [1, 3] {
        for counts in trial.counts(hop) {
            assert_eq!(counts.protocols.keys().collect::<Vec<_>>(), ["h1"]);
            assert!(counts.settings_sent.is_empty(), "{counts:?}");
        }
    }
    assert!(trial.frames.iter().all(|row| row.hop == 2));
    assert_eq!(trial.exchanges_of_connections(1), [10; 10]);
    assert_eq!(trial.exchanges_of_connections(3), [25; 4]);

    let trial = &trials["h2c around"];
    for (hop, sides) in [
        (1, [(80_000, 4_000), (80_000, 4_000)]),
        (2, [(100_000, 5_000), (70_000, 3_000)]),
        (3, [(80_000, 4_000), (80_000, 4_000)]),
    ] {
        for ((side, other), (window, data_size)) in
            [(Side::Client, Side::Server), (Side::Server, Side::Client)]
                .into_iter()
                .zip(sides)
        {
            assert_eq!(trial.longest(hop, side), data_size, "hop {hop}, {side:?}");
            let [streams, _] = trial.first_windows(hop, other);
            assert_eq!(streams, BTreeSet::from([window]), "hop {hop}, {side:?}");
        }
    }
}
