//! What `squall import pcap` finds in a capture, held against what a station of ours has written down of the same
//! traffic. The test program of the peers includes this file too.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;
use std::process::Command;

use squall_base::Time;
use squall_base::record::{ExchangeRecord, FrameRecord, Side, Way};
use squall_record::{read_exchanges, read_frames};

/// Rows of one side, by connection, in the order of the streams and of the bytes.
pub(crate) struct Rows {
    pub(crate) exchanges: Vec<ExchangeRecord>,
    pub(crate) frames: Vec<FrameRecord>,
}

impl Rows {
    /// The client's rows of two tables of one hop.
    pub(crate) fn read(exchanges: &Path, frames: &Path) -> Rows {
        Rows::of((exchanges, frames), 1, Side::Client)
    }

    /// The rows of one side of a hop, in the tables of exchanges and frames.
    pub(crate) fn of((exchanges, frames): (&Path, &Path), hop: u8, side: Side) -> Rows {
        let mut exchanges = read_exchanges(exchanges).expect("the exchanges");
        let mut frames = read_frames(frames).expect("the frames");
        exchanges.retain(|row| (row.hop, row.side) == (hop, side));
        frames.retain(|row| (row.hop, row.side) == (hop, side));
        exchanges.sort_by_key(|row| (row.connection, row.stream));
        frames.sort_by_key(|row| (row.connection, row.frame.way, row.frame.offset));
        Rows { exchanges, frames }
    }

    /// How many frames of each type went a way.
    pub(crate) fn kinds(&self, way: Way) -> BTreeMap<u64, usize> {
        let mut kinds = BTreeMap::new();
        for row in self.frames.iter().filter(|row| row.frame.way == way) {
            *kinds.entry(row.frame.kind).or_default() += 1;
        }
        kinds
    }

    /// Streams that have frames, by connection; 0 among them.
    pub(crate) fn streams(&self) -> BTreeSet<(u32, u64)> {
        let stream = |row: &FrameRecord| Some((row.connection, row.frame.stream?));
        self.frames.iter().filter_map(stream).collect()
    }
}

/// What an import came to.
pub(crate) struct Imported {
    pub(crate) summary: serde_json::Value,
    pub(crate) rows: Rows,
}

impl Imported {
    /// Imports a capture into the folder `record` of `home`.
    pub(crate) fn of(home: &Path, capture: &Path, keys: Option<&Path>) -> Imported {
        let folder = home.join("record");
        let mut command = Command::new(env!("CARGO_BIN_EXE_squall"));
        command
            .args(["import", "pcap", "--json", "-o"])
            .arg(&folder);
        if let Some(keys) = keys {
            command.arg("--key-log").arg(keys);
        }
        let output = command.arg(capture).output().expect("squall starts");
        let said = String::from_utf8_lossy(&output.stderr);
        assert!(output.status.success(), "{said}");
        Imported {
            summary: serde_json::from_slice(&output.stdout).expect("JSON"),
            rows: Rows::read(
                &folder.join("exchanges.parquet"),
                &folder.join("frames.parquet"),
            ),
        }
    }

    /// The connections that said something.
    pub(crate) fn connections(&self) -> Vec<&serde_json::Value> {
        let all = self.summary["connections"].as_array().expect("connections");
        let speaks = |connection: &&serde_json::Value| connection["from_client"]["bytes"] != 0;
        all.iter().filter(speaks).collect()
    }
}

/// The same but for what only a station knows, and for times.
fn without_times(row: &ExchangeRecord) -> ExchangeRecord {
    ExchangeRecord {
        request: None,
        request_first: None,
        request_last: None,
        response_first: None,
        response_last: None,
        ..row.clone()
    }
}

/// Type, stream, offset and the like; without time, and without windows, which hang on the order in which the two ways
/// are looked at.
fn without_time(row: &FrameRecord) -> FrameRecord {
    let mut row = *row;
    row.time = Time::ZERO;
    row.frame.stream_window = None;
    row.frame.connection_window = None;
    row
}

/// The observer's rows are the station's: the same exchanges with the same bytes, the same frames, at the same times.
pub(crate) fn check_same(station: &Rows, observed: &Rows) {
    check_same_bytes(station, observed);
    check_times(station, observed, Delay::default());
}

/// The same exchanges with the same bytes, and the same frames.
pub(crate) fn check_same_bytes(station: &Rows, observed: &Rows) {
    let [ours, theirs] = [station, observed]
        .map(|rows| rows.exchanges.iter().map(without_times).collect::<Vec<_>>());
    assert!(!ours.is_empty());
    assert_eq!(ours.len(), theirs.len());
    for (ours, theirs) in ours.iter().zip(&theirs) {
        assert_eq!(ours, theirs);
    }
    let [ours, theirs] =
        [station, observed].map(|rows| rows.frames.iter().map(without_time).collect::<Vec<_>>());
    assert_eq!(ours.len(), theirs.len());
    for (ours, theirs) in ours.iter().zip(&theirs) {
        assert_eq!(ours, theirs);
    }
}

/// How much later the observer's times are than the station's, besides the distance of their epochs.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Delay {
    /// Of what the client sends.
    pub(crate) request_ns: i64,
    /// Of what it receives.
    pub(crate) response_ns: i64,
}

const MILLISECOND_NS: i64 = 1_000_000;

/// Times of the two differ by the distance of their epochs, and by less than 1 ms besides. A station that has to wait
/// for a processor stamps late what it reads: of a tenth of the times more is taken, but never that a station has read
/// what had not come.
pub(crate) fn check_times(station: &Rows, observed: &Rows, delay: Delay) {
    let difference = |ours: Option<Time>, theirs: Option<Time>| {
        let ns = |time: Option<Time>| time.expect("all times are known").as_nanos() as i64;
        ns(theirs) - ns(ours)
    };
    let (mut sent, mut received) = (Vec::new(), Vec::new());
    for (ours, theirs) in station.exchanges.iter().zip(&observed.exchanges) {
        let request = |ours, theirs| difference(ours, theirs) - delay.request_ns;
        let response = |ours, theirs| difference(ours, theirs) - delay.response_ns;
        sent.push(request(ours.request_first, theirs.request_first));
        sent.push(request(ours.request_last, theirs.request_last));
        received.push(response(ours.response_first, theirs.response_first));
        received.push(response(ours.response_last, theirs.response_last));
    }
    let mut all = [&sent[..], &received].concat();
    all.sort_unstable();
    let epochs = all[all.len() / 2];
    let mut apart: Vec<i64> = all.iter().map(|ns| (ns - epochs).abs()).collect();
    apart.sort_unstable();
    let most = apart[(apart.len() * 9).div_ceil(10) - 1];
    println!(
        "times are {most} ns apart at the 90th percentile, {} ns at most",
        apart[apart.len() - 1]
    );
    assert!(most < MILLISECOND_NS, "{apart:?}");
    let early = received.iter().map(|ns| ns - epochs).max().unwrap_or(0);
    assert!(
        early < MILLISECOND_NS,
        "a station has read {early} ns before the packet came"
    );
}
