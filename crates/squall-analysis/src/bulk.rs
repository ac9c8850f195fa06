//! What a link delivered over time while large bodies crossed it: bytes by interval, and the sizes of some packets.
//!
//! [`BulkPhase`] says whether a trial's bodies are large, when they crossed the link and in which direction.
//! [`delivery_counters`] chooses one trial of each cell, and a [`DeliveryCounter`] takes in its packets, in constant memory.
//! Nothing here says why a link was idle: `causes` and `findings` do. squall-report draws the result.

use squall_base::plan::{Condition, LARGE_BODY_BYTES};
use squall_base::projection;
use squall_base::record::{Direction, PacketRecord, Phase, RequestRecord, TrialRecord};
use squall_base::{Duration, Time};

use crate::cell::CellSummary;
use crate::summary::ConditionSummary;
use crate::wire::UDP;

/// The most intervals: about two pixels for each in a small graph.
const INTERVALS_AT_MOST: u64 = 150;

/// The shortest interval: ten times the link's usual lateness.
const SHORTEST_INTERVAL: Duration = Duration::from_millis(1);

/// Bytes of the headers of IPv4 (without options) and UDP.
const UDP_HEADERS: u64 = 20 + 8;

projection! {
    /// A row of packets.parquet.
    #[derive(Clone, Copy, Debug, PartialEq, Eq)]
    pub struct LinkPacket of row: PacketRecord {
        hop: u8 = row.hop, "hop";
        direction: Direction = row.direction, "direction";
        length: u16 = row.length, "length_bytes";
        protocol: u8 = row.protocol, "protocol";
        payload_len: u16 = row.payload_len, "payload_bytes";
        released: Option<Time> = row.released, "released_ns";
    }
}

impl LinkPacket {
    /// Bytes of TCP's payload, or of a QUIC datagram.
    fn payload_bytes(&self) -> u64 {
        match self.protocol {
            UDP => u64::from(self.length).saturating_sub(UDP_HEADERS),
            _ => u64::from(self.payload_len),
        }
    }
}

/// The part of a trial in which its link carried large bodies.
#[derive(Clone, Debug, PartialEq)]
pub struct BulkPhase {
    folder: String,
    variant: String,
    condition: Condition,
    /// The hop across the first link.
    hop: u8,
    direction: Direction,
    start: Time,
    end: Time,
}

impl BulkPhase {
    /// From when the first measured request had its connection to the end of the last measured request. `None` unless the
    /// measured requests have large bodies in one direction, on average.
    pub fn of(record: &TrialRecord, requests: &[RequestRecord]) -> Option<BulkPhase> {
        let measured = || requests.iter().filter(|row| row.phase == Phase::Measure);
        let start = measured().map(had_connection).min()?;
        let end = measured().map(|row| row.end).max()?;
        let up = measured().map(|row| row.request_body_bytes);
        let down = measured().map(|row| row.response_body_bytes);
        let [up, down] = [
            up.fold(0, u64::saturating_add),
            down.fold(0, u64::saturating_add),
        ];
        let is_large = up.max(down) / measured().count() as u64 >= LARGE_BODY_BYTES;
        let trial = &record.trial;
        (is_large && start < end).then(|| BulkPhase {
            folder: trial.folder(),
            variant: trial.variant.name.clone(),
            condition: trial.condition.clone(),
            hop: trial.variant.link_hop().0,
            direction: if up > down {
                Direction::Up
            } else {
                Direction::Down
            },
            start,
            end,
        })
    }

    fn span(&self) -> Duration {
        self.end.since(self.start)
    }
}

/// The moment from which a request could be sent. Not its first byte written, because the first packets may have crossed
/// the link before the system call that wrote that byte returned.
fn had_connection(request: &RequestRecord) -> Time {
    let before = [request.slot, request.connected, request.secured];
    let last = before.into_iter().flatten().max();
    last.or(request.written_first).unwrap_or(request.intended)
}

/// What a trial's link delivered over time.
#[derive(Clone, Debug, PartialEq)]
pub struct Delivery {
    /// The trial's folder within the run.
    pub folder: String,
    /// The name of its variant.
    pub variant: String,
    /// Its condition.
    pub condition: Condition,
    /// The hop of the path that crosses the link, from 1 at the client.
    pub hop: u8,
    /// The direction of the bodies.
    pub direction: Direction,
    /// From when the first measured request had its connection to the end of the last measured request. All times here
    /// count from the beginning of this span.
    pub span: Duration,
    /// The length of an interval.
    pub interval: Duration,
    /// Bytes of payload that were delivered, by interval; at most 150 intervals.
    pub bytes: Vec<u64>,
    /// How many packets carried these bytes.
    pub packets: u64,
    /// Some of the packets, in order of time: of each interval the first, the last, the smallest and the largest one.
    pub samples: Vec<PacketSample>,
}

impl Delivery {
    /// Bytes of payload per second, by interval.
    pub fn bytes_per_s(&self) -> impl Iterator<Item = f64> {
        let seconds = self.interval.as_secs_f64();
        self.bytes.iter().map(move |bytes| *bytes as f64 / seconds)
    }

    /// The smallest and the largest payload of a packet, in bytes; `None` without packets.
    pub fn payload_range(&self) -> Option<(u64, u64)> {
        let sizes = || self.samples.iter().map(|sample| sample.payload_bytes);
        sizes().min().zip(sizes().max())
    }
}

/// A packet that was delivered.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct PacketSample {
    /// When it was delivered.
    pub at: Duration,
    /// Its payload.
    pub payload_bytes: u64,
}

/// The packets of one interval.
#[derive(Clone, Copy, Debug, Default)]
struct Bin {
    bytes: u64,
    packets: u64,
    samples: Option<BinSamples>,
}

#[derive(Clone, Copy, Debug)]
struct BinSamples {
    first: PacketSample,
    last: PacketSample,
    smallest: PacketSample,
    largest: PacketSample,
}

impl Bin {
    fn add(&mut self, packet: PacketSample) {
        self.bytes += packet.payload_bytes;
        self.packets += 1;
        let samples = self.samples.get_or_insert(BinSamples {
            first: packet,
            last: packet,
            smallest: packet,
            largest: packet,
        });
        if packet.at < samples.first.at {
            samples.first = packet;
        }
        if packet.at >= samples.last.at {
            samples.last = packet;
        }
        if packet.payload_bytes < samples.smallest.payload_bytes {
            samples.smallest = packet;
        }
        if packet.payload_bytes > samples.largest.payload_bytes {
            samples.largest = packet;
        }
    }
}

/// Sums up a trial's packets.
#[derive(Clone, Debug)]
pub struct DeliveryCounter {
    phase: BulkPhase,
    interval: Duration,
    bins: Vec<Bin>,
}

impl DeliveryCounter {
    fn new(phase: &BulkPhase, interval: Duration) -> DeliveryCounter {
        let count = phase.span().as_nanos().div_ceil(interval.as_nanos());
        DeliveryCounter {
            phase: phase.clone(),
            interval,
            bins: vec![Bin::default(); count as usize],
        }
    }

    /// The folder of its trial within the run.
    pub fn folder(&self) -> &str {
        &self.phase.folder
    }

    /// Counts a packet of the trial; packets may come in any order. Those of other links, directions and times are left out, as
    /// are those without payload and those that were not delivered.
    pub fn add(&mut self, packet: LinkPacket) {
        let phase = &self.phase;
        let Some(released) = packet.released else {
            return;
        };
        let is_here = [phase.hop, PacketRecord::ONLY_LINK].contains(&packet.hop)
            && packet.direction == phase.direction
            && (phase.start..phase.end).contains(&released);
        let payload_bytes = packet.payload_bytes();
        if !is_here || payload_bytes == 0 {
            return;
        }
        let at = released.since(phase.start);
        let place = (at.as_nanos() / self.interval.as_nanos()) as usize;
        self.bins[place].add(PacketSample { at, payload_bytes });
    }

    /// What was delivered; `None` if that was nothing.
    pub fn finish(self) -> Option<Delivery> {
        let packets: u64 = self.bins.iter().map(|bin| bin.packets).sum();
        if packets == 0 {
            return None;
        }
        let all = self.bins.iter().filter_map(|bin| bin.samples);
        let mut samples: Vec<PacketSample> = all
            .flat_map(|of| [of.first, of.last, of.smallest, of.largest])
            .collect();
        samples.sort_unstable();
        samples.dedup();
        Some(Delivery {
            span: self.phase.span(),
            folder: self.phase.folder,
            variant: self.phase.variant,
            condition: self.phase.condition,
            hop: self.phase.hop,
            direction: self.phase.direction,
            interval: self.interval,
            bytes: self.bins.iter().map(|bin| bin.bytes).collect(),
            packets,
            samples,
        })
    }
}

/// Counters for one trial of each cell: of its valid trials, the middle one by mean response time. A cell is left out if
/// `phases`, those of the run's trials, lack that trial. All counters have the same interval, so that they can be compared.
pub fn delivery_counters(
    condition: &ConditionSummary,
    phases: &[BulkPhase],
) -> Vec<DeliveryCounter> {
    let trials = condition.cells.iter().filter_map(CellSummary::middle_trial);
    let chosen: Vec<&BulkPhase> = trials
        .filter_map(|trial| phases.iter().find(|phase| phase.folder == trial.folder))
        .collect();
    let Some(longest) = chosen.iter().copied().map(BulkPhase::span).max() else {
        return Vec::new();
    };
    let interval = interval_for(longest);
    let counters = chosen.into_iter();
    counters
        .map(|phase| DeliveryCounter::new(phase, interval))
        .collect()
}

/// The shortest interval of 1, 2 or 5 x 10^n ms that divides a span into no more intervals than the limit.
fn interval_for(span: Duration) -> Duration {
    let at_least = span.as_nanos().div_ceil(INTERVALS_AT_MOST);
    let mut unit = SHORTEST_INTERVAL.as_nanos();
    loop {
        let found = [1, 2, 5].map(|digit| digit * unit);
        if let Some(nanos) = found.into_iter().find(|nanos| *nanos >= at_least) {
            return Duration::from_nanos(nanos);
        }
        unit *= 10;
    }
}

#[cfg(test)]
mod tests {
    use squall_base::plan::Protocol;
    use squall_base::record::Validity;

    use super::*;
    use crate::findings::made_trial;
    use crate::load::requests::{answered, at, ms};
    use crate::trial::{TrialStats, trial_stats};

    /// A repetition whose only request begins at 10 ms and uploads a MiB in `took_ms`.
    fn upload(repetition: u32, took_ms: u64) -> (TrialRecord, RequestRecord) {
        let mut record = made_trial(Protocol::H1);
        record.trial.index = repetition;
        record.trial.repetition = repetition;
        let row = RequestRecord {
            request_body_bytes: 1 << 20,
            ..answered(10_000, took_ms * 1_000)
        };
        (record, row)
    }

    fn phase((record, row): &(TrialRecord, RequestRecord)) -> BulkPhase {
        BulkPhase::of(record, std::slice::from_ref(row)).expect("its body is large")
    }

    /// A TCP segment that was delivered upwards.
    fn segment(released_us: u64, payload_len: u16) -> LinkPacket {
        LinkPacket {
            hop: 1,
            direction: Direction::Up,
            length: payload_len + 52,
            protocol: 6,
            payload_len,
            released: Some(at(released_us)),
        }
    }

    /// What a link delivered in the 25 ms from 10 ms on, in intervals of 10 ms.
    fn delivered(packets: &[LinkPacket]) -> Option<Delivery> {
        let mut counter = DeliveryCounter::new(&phase(&upload(0, 25)), ms(10));
        packets.iter().for_each(|packet| counter.add(*packet));
        counter.finish()
    }

    #[test]
    fn delivered_payload_is_summed_up_by_interval() {
        let found = delivered(&[
            segment(10_000, 1_448),
            segment(19_999, 1_000),
            segment(20_000, 500),
            segment(34_999, 7),
        ]);
        let found = found.expect("packets");
        assert_eq!(found.bytes, [2_448, 500, 7]);
        assert_eq!((found.packets, found.span), (4, ms(25)));
        assert_eq!(found.direction, Direction::Up);
        let rates: Vec<f64> = found.bytes_per_s().collect();
        assert_eq!(rates, [244_800.0, 50_000.0, 700.0]);
        assert_eq!(found.payload_range(), Some((7, 1_448)));
    }

    #[test]
    fn only_payload_delivered_across_the_link_within_the_span_counts() {
        let good = segment(15_000, 100);
        let found = delivered(&[
            good,
            // A record from before a path could have several links.
            LinkPacket { hop: 0, ..good },
            LinkPacket { hop: 2, ..good },
            LinkPacket {
                direction: Direction::Down,
                ..good
            },
            LinkPacket {
                released: None,
                ..good
            },
            segment(15_000, 0),
            segment(9_999, 100),
            segment(35_000, 100),
        ]);
        assert_eq!(found.expect("packets").bytes, [200, 0, 0]);
        assert_eq!(delivered(&[segment(15_000, 0)]), None);
    }

    #[test]
    fn quic_payload_is_the_whole_datagram() {
        let found = delivered(&[LinkPacket {
            length: 1_228,
            protocol: UDP,
            payload_len: 0,
            ..segment(11_000, 0)
        }]);
        assert_eq!(found.expect("a packet").bytes, [1_200, 0, 0]);
    }

    #[test]
    fn first_last_smallest_and_largest_packet_of_an_interval_are_kept() {
        let sizes = [1_400, 1_400, 1_448, 1_400, 39, 1_400, 1_300];
        let packets: Vec<LinkPacket> = (0..)
            .zip(sizes)
            .map(|(n, size)| segment(11_000 + n, size))
            .collect();
        let kept = delivered(&packets).expect("packets").samples;
        let expected = [(1_000, 1_400), (1_002, 1_448), (1_004, 39), (1_006, 1_300)];
        assert_eq!(
            kept,
            expected.map(|(micros, payload_bytes)| PacketSample {
                at: Duration::from_micros(micros),
                payload_bytes,
            })
        );
        let mut other_order = packets;
        other_order.reverse();
        assert_eq!(delivered(&other_order).expect("packets").samples, kept);
    }

    #[test]
    fn any_number_of_packets_takes_a_limited_number_of_intervals_and_samples() {
        let phase = phase(&upload(0, 30_000));
        let mut counter = DeliveryCounter::new(&phase, interval_for(phase.span()));
        for n in 0..100_000 {
            counter.add(segment(10_000 + 300 * n, 1 + (n * 7_919 % 1_448) as u16));
        }
        let found = counter.finish().expect("packets");
        assert_eq!((found.interval, found.bytes.len()), (ms(200), 150));
        assert_eq!(found.packets, 100_000);
        assert!(found.samples.len() <= 600, "{}", found.samples.len());
        assert_eq!(found.payload_range(), Some((1, 1_448)));
    }

    #[test]
    fn intervals_are_round_and_no_more_than_the_limit() {
        let expected = [
            (1, 1),
            (150, 1),
            (151, 2),
            (750, 5),
            (751, 10),
            (60_000, 500),
        ];
        for (span, interval) in expected {
            assert_eq!(interval_for(ms(span)), ms(interval), "{span} ms");
        }
    }

    #[test]
    fn bodies_are_large_from_a_mean_of_256_kib_on() {
        let (record, row) = upload(0, 25);
        let row_of = |phase, request_body_bytes, response_body_bytes| RequestRecord {
            phase,
            request_body_bytes,
            response_body_bytes,
            ..row.clone()
        };
        let direction = |rows: &[RequestRecord]| {
            let found = BulkPhase::of(&record, rows);
            found.map(|phase| phase.direction)
        };
        let large = 512 << 10;
        let call = || row_of(Phase::Measure, 100, 0);
        let download = || row_of(Phase::Measure, 100, large);
        assert_eq!(direction(&[download()]), Some(Direction::Down));
        let half = [download(), call()];
        assert_eq!(direction(&half), Some(Direction::Down), "256 KiB each");
        assert_eq!(direction(&[download(), call(), call()]), None);
        assert_eq!(direction(&[row_of(Phase::Warmup, 0, large)]), None);
        assert_eq!(direction(&[]), None);
        let upload = row_of(Phase::Measure, large, 100);
        assert_eq!(direction(&[upload]), Some(Direction::Up));
    }

    #[test]
    fn time_counts_from_when_the_request_had_its_connection() {
        let (record, mut row) = upload(0, 25);
        row.connected = Some(at(12_000));
        row.secured = Some(at(14_000));
        row.written_first = Some(at(14_100));
        assert_eq!(phase(&(record, row)).start, at(14_000));
    }

    #[test]
    fn middle_valid_trial_of_each_cell_is_chosen_and_all_share_an_interval() {
        let runs = [
            upload(0, 3_000),
            upload(1, 1_000),
            upload(2, 2_000),
            upload(3, 1),
        ];
        let phases: Vec<BulkPhase> = runs.iter().map(phase).collect();
        let stats = runs.iter().map(|(record, row)| {
            let mut stats = trial_stats(record, std::slice::from_ref(row));
            if stats.repetition == 3 {
                stats.validity = Validity::Invalid {
                    reasons: Vec::new(),
                };
            }
            stats
        });
        let stats: Vec<TrialStats> = stats.collect();
        let condition = &runs[0].0.trial.condition;
        let summary = ConditionSummary {
            condition: condition.clone(),
            cells: vec![
                CellSummary::of("a", condition, stats[..1].to_vec()),
                CellSummary::of("b", condition, stats.clone()),
                CellSummary::of("c", condition, Vec::new()),
            ],
            verdicts: Vec::new(),
            crossovers: Vec::new(),
        };
        let counters = delivery_counters(&summary, &phases);
        let folders: Vec<&str> = counters.iter().map(DeliveryCounter::folder).collect();
        assert_eq!(folders, [&stats[0].folder, &stats[2].folder]);
        assert!(counters.iter().all(|counter| counter.interval == ms(20)));
        assert!(delivery_counters(&summary, &[]).is_empty());
    }
}
