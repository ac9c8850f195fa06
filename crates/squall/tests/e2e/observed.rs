//! Compares what `squall import pcap` finds in a capture with the record of a squall station of the same traffic.

use std::collections::{BTreeMap, BTreeSet};
use std::ops::Range;
use std::path::Path;
use std::process::Command;
use std::time::{SystemTime, UNIX_EPOCH};

use squall_base::Time;
use squall_base::record::{
    Beginning, Direction, ExchangeRecord, Extent, FrameRecord, PacketRecord, Side, Way,
};
use squall_record::{read_exchanges, read_frames};

use crate::other_work::say_disturbed;
use crate::scheduled::Schedule;
use crate::support::ensure;

/// Rows of one side, by connection, in stream and byte order.
pub(crate) struct Rows {
    pub(crate) exchanges: Vec<ExchangeRecord>,
    pub(crate) frames: Vec<FrameRecord>,
}

impl Rows {
    /// The client's rows from two tables of one hop.
    pub(crate) fn read(exchanges: &Path, frames: &Path) -> Rows {
        Rows::of((exchanges, frames), 1, Side::Client)
    }

    /// The rows of one side of a hop, from the tables of exchanges and frames.
    pub(crate) fn of((exchanges, frames): (&Path, &Path), hop: u8, side: Side) -> Rows {
        let mut exchanges = read_exchanges(exchanges).expect("the exchanges");
        let mut frames = read_frames(frames).expect("the frames");
        exchanges.retain(|row| (row.hop, row.side) == (hop, side));
        frames.retain(|row| (row.hop, row.side) == (hop, side));
        exchanges.sort_by_key(|row| (row.connection, row.stream));
        frames.sort_by_key(|row| (row.connection, row.frame.way, row.frame.offset));
        Rows { exchanges, frames }
    }

    /// The number of frames of each type in one direction.
    pub(crate) fn kinds(&self, way: Way) -> BTreeMap<u64, usize> {
        let mut kinds = BTreeMap::new();
        for row in self.frames.iter().filter(|row| row.frame.way == way) {
            *kinds.entry(row.frame.kind).or_default() += 1;
        }
        kinds
    }

    /// Streams that have frames, by connection; includes stream 0.
    pub(crate) fn streams(&self) -> BTreeSet<(u32, u64)> {
        let stream = |row: &FrameRecord| Some((row.connection, row.frame.stream?));
        self.frames.iter().filter_map(stream).collect()
    }
}

/// The result of an import.
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

    /// The connections whose client sent data.
    pub(crate) fn connections(&self) -> Vec<&serde_json::Value> {
        let all = self.summary["connections"].as_array().expect("connections");
        let speaks = |connection: &&serde_json::Value| connection["from_client"]["bytes"] != 0;
        all.iter().filter(speaks).collect()
    }
}

/// The row without times, and without what only a station knows.
pub(crate) fn without_times(row: &ExchangeRecord) -> ExchangeRecord {
    ExchangeRecord {
        request: None,
        beginning: Beginning::default(),
        request_first: None,
        request_last: None,
        response_first: None,
        response_last: None,
        ..row.clone()
    }
}

/// Type, stream, offset and so on; without time, and without windows, which depend on the order in which the two
/// directions are processed.
fn without_time(row: &FrameRecord) -> FrameRecord {
    let mut row = *row;
    row.time = Time::ZERO;
    row.frame.stream_window = None;
    row.frame.connection_window = None;
    row
}

/// Checks that the observer's rows are the station's: the same exchanges with the same bytes, the same frames, at the
/// same times. The station is the client of a load on this machine, and a capture program recorded its packets.
pub(crate) fn check_same(station: &Rows, observed: &Imported, schedule: Option<&Schedule>) {
    check_same_bytes(station, &observed.rows);
    let wall_ns = |time: SystemTime| {
        let since = time.duration_since(UNIX_EPOCH).expect("it is past 1970");
        since.as_nanos() as i64
    };
    let monotonic_ns = squall_linux::clock::now().as_nanos() as i64;
    let epoch_unix_ns = observed.summary["epoch_unix_ns"].as_i64().expect("a time");
    let comparison = Comparison {
        thread: "squall-client",
        side: Side::Client,
        // The station's tables do not include its epoch.
        station_epoch_ns: None,
        observed_epoch_ns: epoch_unix_ns + monotonic_ns - wall_ns(SystemTime::now()),
        delay: Delay::default(),
        cuts: None,
    };
    comparison.check(station, &observed.rows, schedule);
}

/// Checks for the same exchanges with the same bytes, and the same frames.
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

/// How much later the observer's times are than the station's.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Delay {
    /// For what the client sends.
    pub(crate) request_ns: i64,
    /// For what it receives.
    pub(crate) response_ns: i64,
}

/// Where the payload of a link's TCP flows was cut into packets, and when the link read them: for each flow and
/// direction, the end of each packet, in payload order. Only for a link without loss.
pub(crate) struct Cuts(BTreeMap<(u32, Direction), Vec<(u64, Time)>>);

impl Cuts {
    pub(crate) fn of(packets: &[PacketRecord]) -> Cuts {
        const SYN: u8 = 0x02;
        let mut first_bytes = BTreeMap::new();
        let mut cuts: BTreeMap<_, Vec<_>> = BTreeMap::new();
        for packet in packets {
            let lane = (packet.flow, packet.direction);
            if packet.tcp_flags & SYN != 0 {
                first_bytes.insert(lane, packet.seq.wrapping_add(1));
            } else if packet.payload_len > 0 {
                let start = packet.seq.wrapping_sub(first_bytes[&lane]);
                let end = u64::from(start) + u64::from(packet.payload_len);
                cuts.entry(lane).or_default().push((end, packet.arrived));
            }
        }
        for cuts in cuts.values_mut() {
            cuts.sort_unstable();
        }
        Cuts(cuts)
    }

    /// The time from reading the first to reading the last packet of a message's only TLS record. For a message with
    /// several records, or none, the packets of each are unknown.
    pub(crate) fn apart_ns(&self, flow: u32, direction: Direction, message: &Extent) -> i64 {
        let (Some(start), Some(end)) = (message.wire_start, message.wire_end) else {
            return 0;
        };
        if message.record_first.is_none() || message.record_first != message.record_last {
            return 0;
        }
        let cuts = &self.0[&(flow, direction)];
        let first = cuts.partition_point(|(cut, _)| *cut <= start);
        let last = cuts.partition_point(|(cut, _)| *cut < end);
        cuts[last].1.as_nanos() as i64 - cuts[first].1.as_nanos() as i64
    }
}

/// Two records of the same packets: a station's, and the observer's.
pub(crate) struct Comparison<'a> {
    /// The name of the station's thread.
    pub(crate) thread: &'static str,
    /// Which side the station is.
    pub(crate) side: Side,
    /// The epochs of both records, by CLOCK_MONOTONIC. If the station's is unknown, it is chosen so that the median
    /// difference is zero.
    pub(crate) station_epoch_ns: Option<i64>,
    pub(crate) observed_epoch_ns: i64,
    pub(crate) delay: Delay,
    /// For an observer at the other end of the link. If the congestion window cuts a TLS record, its packets are a
    /// round trip apart, and one side's timestamps include this gap while the other's do not.
    pub(crate) cuts: Option<&'a Cuts>,
}

/// A moment that appears in both records.
struct Mark {
    name: String,
    is_sent: bool,
    is_of_stream: bool,
    /// By the schedule's clock.
    station_ns: i64,
    observed_ns: i64,
    /// How much later the observer's time is, beyond the delay.
    apart_ns: i64,
}

const MILLISECOND_NS: i64 = 1_000_000;

impl Mark {
    /// The span from before the moment until after it, in both records.
    fn around(&self) -> Range<i64> {
        let (first, last) = (
            self.station_ns.min(self.observed_ns),
            self.station_ns.max(self.observed_ns),
        );
        first - self.apart_ns.abs()..last + self.apart_ns.abs()
    }
}

impl Comparison<'_> {
    /// Checks that no station has read data before it arrived, and that the times of the two records agree
    /// ([`Comparison::compare`]). If they disagree while other work disturbs the machine, that is printed and is not a
    /// failure.
    pub(crate) fn check(&self, station: &Rows, observed: &Rows, schedule: Option<&Schedule>) {
        let mut marks = self.marks(station, observed);
        marks.sort_by_key(|mark| mark.apart_ns.abs());
        let far = marks.partition_point(|mark| mark.apart_ns.abs() < MILLISECOND_NS);
        println!(
            "{}: of {} times {} are 1 ms apart or more, one in ten {} ns, the last {} ns",
            self.thread,
            marks.len(),
            marks.len() - far,
            marks[marks.len() * 9 / 10].apart_ns.abs(),
            marks[marks.len() - 1].apart_ns
        );
        let (agreeing, differing) = marks.split_at(far);
        for mark in differing {
            assert!(
                mark.is_sent || mark.apart_ns < 0,
                "a station has read what had not come"
            );
        }
        if let Err(said) = self.compare(agreeing, differing, schedule) {
            let is_disturbed = schedule.is_some_and(Schedule::is_beside_other_work);
            assert!(is_disturbed, "{said}");
            say_disturbed(said.lines().next().unwrap_or_default());
        }
    }

    /// All times must agree within 1 ms, apart from the time that the threads concerned were kept waiting according to the
    /// kernel; nine of ten must in any case, also without a schedule.
    fn compare(
        &self,
        agreeing: &[Mark],
        differing: &[Mark],
        schedule: Option<&Schedule>,
    ) -> Result<(), String> {
        for mark in differing {
            let waited_ns = schedule.map(|schedule| self.waited_ns(mark, schedule));
            println!("{}: {} ns, waited {waited_ns:?}", mark.name, mark.apart_ns);
            let unexplained_ns = mark.apart_ns.abs() - waited_ns.unwrap_or(i64::MAX);
            ensure(unexplained_ns < MILLISECOND_NS, || {
                format!(
                    "nobody was kept waiting from {} on, in the observer's record {}:\n{}",
                    mark.station_ns,
                    mark.observed_ns,
                    schedule.map_or_else(String::new, |schedule| schedule.tell(&mark.around()))
                )
            })?;
        }
        let count = agreeing.len() + differing.len();
        ensure(agreeing.len() * 10 >= count * 9, || {
            format!("{} of {count} times agree", agreeing.len())
        })
    }

    /// How much of a mark's difference was waiting: by the station, which stamps what it reads or writes only when it
    /// runs, and by the link, when it takes and when it delivers a packet. Frames without a stream, such as SETTINGS,
    /// arrive while the station is busy with the handshakes of all its connections, one after the other.
    fn waited_ns(&self, mark: &Mark, schedule: &Schedule) -> i64 {
        const LINK: &str = "squall-link";
        let apart_ns = mark.apart_ns.abs();
        let before = |time_ns: i64| time_ns - apart_ns..time_ns;
        if mark.apart_ns > 0 {
            // The observer is late.
            let (taken, given) = (before(mark.station_ns + apart_ns), before(mark.observed_ns));
            return schedule.waited_ns(&[LINK], &taken) + schedule.waited_ns(&[LINK], &given);
        }
        // The station is late, or the link delivered to it late.
        let (threads, span) = ([self.thread, LINK], before(mark.station_ns));
        if mark.is_of_stream {
            schedule.waited_ns(&threads, &span)
        } else {
            schedule.waited_or_ran_ns(&threads, &span)
        }
    }

    /// Builds a mark from the times of both records.
    fn mark(
        &self,
        name: String,
        is_of_stream: bool,
        is_request: bool,
        times: [Option<Time>; 2],
    ) -> Mark {
        let [ours, theirs] = times.map(|time| time.expect("all times are known").as_nanos() as i64);
        let delay = if is_request {
            self.delay.request_ns
        } else {
            self.delay.response_ns
        };
        let station_ns = ours + self.station_epoch_ns.unwrap_or(0);
        let observed_ns = theirs + self.observed_epoch_ns;
        Mark {
            name,
            is_of_stream,
            is_sent: is_request == (self.side == Side::Client),
            station_ns,
            observed_ns,
            apart_ns: observed_ns - station_ns - delay,
        }
    }

    /// How much later the observer has the first or last byte of a message because its record was cut. When the station
    /// sends, it has written the record by the time the first packet leaves, and the other side reads it with the last
    /// packet. When the other side sends, it writes from the first packet on, and the station reads the record with the
    /// last.
    fn cut_ns(&self, row: &ExchangeRecord, is_request: bool, is_first: bool) -> i64 {
        let message = if is_request {
            &row.request_extent
        } else {
            &row.response_extent
        };
        let (Some(cuts), Some(message)) = (self.cuts, message) else {
            return 0;
        };
        let direction = if is_request {
            Direction::Up
        } else {
            Direction::Down
        };
        let apart_ns = cuts.apart_ns(row.connection, direction, message);
        match (is_request == (self.side == Side::Client), is_first) {
            (true, _) => apart_ns,
            (false, true) => -apart_ns,
            (false, false) => 0,
        }
    }

    /// The exchange that each of the station's writes belonged to: frames with the same timestamp, such as an
    /// acknowledgement of SETTINGS before a response, share its record.
    fn written<'a>(&self, station: &'a Rows) -> BTreeMap<(u32, Time), &'a ExchangeRecord> {
        let mut written = BTreeMap::new();
        for row in &station.exchanges {
            let times = match self.side {
                Side::Client => [row.request_first, row.request_last],
                Side::Server => [row.response_first, row.response_last],
            };
            written.extend(
                times
                    .into_iter()
                    .flatten()
                    .map(|time| ((row.connection, time), row)),
            );
        }
        written
    }

    /// All moments that appear in both records.
    fn marks(&self, station: &Rows, observed: &Rows) -> Vec<Mark> {
        let mut marks = Vec::new();
        for (ours, theirs) in station.exchanges.iter().zip(&observed.exchanges) {
            let of_both = [
                (
                    "request's first",
                    true,
                    [ours.request_first, theirs.request_first],
                ),
                (
                    "request's last",
                    true,
                    [ours.request_last, theirs.request_last],
                ),
                (
                    "response's first",
                    false,
                    [ours.response_first, theirs.response_first],
                ),
                (
                    "response's last",
                    false,
                    [ours.response_last, theirs.response_last],
                ),
            ];
            for (what, is_request, times) in of_both {
                let place = format!("connection {} stream {}", ours.connection, ours.stream);
                let mut mark = self.mark(format!("{place}: {what} byte"), true, is_request, times);
                let is_first = what.ends_with("first");
                mark.apart_ns -= self.cut_ns(ours, is_request, is_first);
                marks.push(mark);
            }
        }
        let from_client =
            |row: &FrameRecord| (row.side == Side::Client) == (row.frame.way == Way::Sent);
        let written = self.written(station);
        let key = |row: &FrameRecord| (row.connection, from_client(row), row.frame.offset);
        let known: BTreeMap<_, Time> = observed
            .frames
            .iter()
            .map(|row| (key(row), row.time))
            .collect();
        for row in &station.frames {
            if let Some(time) = known.get(&key(row)) {
                let name = format!(
                    "connection {}: frame {} at {:?}",
                    row.connection, row.frame.kind, row.frame.offset
                );
                let is_of_stream = row.frame.stream.is_some_and(|stream| stream != 0);
                let times = [Some(row.time), Some(*time)];
                let mut mark = self.mark(name, is_of_stream, from_client(row), times);
                if row.frame.way == Way::Sent
                    && let Some(beside) = written.get(&(row.connection, row.time))
                {
                    mark.apart_ns -= self.cut_ns(beside, from_client(row), false);
                }
                marks.push(mark);
            }
        }
        if self.station_epoch_ns.is_none() {
            marks.sort_by_key(|mark| mark.apart_ns);
            let epoch_ns = marks[marks.len() / 2].apart_ns;
            for mark in &mut marks {
                mark.station_ns += epoch_ns;
                mark.apart_ns -= epoch_ns;
            }
        }
        marks
    }
}
