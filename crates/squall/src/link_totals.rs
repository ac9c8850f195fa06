//! A link in numbers: sums over its packets, by direction, from their records alone.
//!
//! What a trial's health and the summary of `squall link` are made of. Judging the numbers is `link_health`'s
//! matter.

use squall_base::record::{Direction, DirectionHealth, Fate, KernelCounters, PacketRecord};
use squall_base::{Duration, Time};
use squall_linux::spans::Spans;

/// Both directions.
pub(crate) struct LinkTotals([LaneTotals; 2]);

/// One direction.
pub(crate) struct LaneTotals {
    /// Packets that reached the link.
    pub(crate) packets: u64,
    /// Second copies that the link made.
    pub(crate) copies: u64,
    by_fate: [u64; Fate::ALL.len()],
    /// Packets marked by the queue.
    pub(crate) marked: u64,
    /// Packets with a flipped bit.
    pub(crate) corrupted: u64,
    /// IP bytes that reached the link, and that left it.
    pub(crate) bytes_in: u64,
    pub(crate) bytes_out: u64,
    largest_packet_bytes: u64,
    /// The queue that packets found, in bytes kept as nanoseconds of the histogram.
    queue_bytes: Spans,
    /// The deepest of them, exact.
    deepest_queue_bytes: u32,
    /// Time in the queue and in serialisation.
    pub(crate) queueing: Spans,
    /// Real release after the planned one.
    pub(crate) lateness: Spans,
    first: Option<Time>,
    last: Time,
}

impl LinkTotals {
    pub(crate) fn new() -> LinkTotals {
        LinkTotals([LaneTotals::new(), LaneTotals::new()])
    }

    pub(crate) fn add(&mut self, packet: &PacketRecord) {
        self.0[packet.direction as usize].add(packet);
    }

    pub(crate) fn lane(&self, direction: Direction) -> &LaneTotals {
        &self.0[direction as usize]
    }

    /// One direction in numbers, with what the kernel counted at its ends.
    pub(crate) fn direction(
        &self,
        direction: Direction,
        kernel: KernelCounters,
    ) -> DirectionHealth {
        let lane = self.lane(direction);
        DirectionHealth {
            direction,
            packets: lane.packets,
            copies: lane.copies,
            dropped: lane.dropped(),
            delivered: lane.count(Fate::Delivered),
            write_errors: lane.count(Fate::WriteError),
            in_flight: lane.count(Fate::InFlight),
            largest_packet_bytes: lane.largest_packet_bytes,
            lateness: lane.lateness.lateness(),
            kernel,
        }
    }
}

impl LaneTotals {
    fn new() -> LaneTotals {
        LaneTotals {
            packets: 0,
            copies: 0,
            by_fate: [0; Fate::ALL.len()],
            marked: 0,
            corrupted: 0,
            bytes_in: 0,
            bytes_out: 0,
            largest_packet_bytes: 0,
            queue_bytes: Spans::new(),
            deepest_queue_bytes: 0,
            queueing: Spans::new(),
            lateness: Spans::new(),
            first: None,
            last: Time::ZERO,
        }
    }

    fn add(&mut self, packet: &PacketRecord) {
        let length = u64::from(packet.length);
        if packet.is_copy {
            self.copies += 1;
        } else {
            self.packets += 1;
            self.bytes_in += length;
        }
        self.by_fate[packet.fate as usize] += 1;
        self.marked += u64::from(packet.is_marked);
        self.corrupted += u64::from(packet.is_corrupted);
        self.largest_packet_bytes = self.largest_packet_bytes.max(length);
        self.first = Some(
            self.first
                .map_or(packet.arrived, |first| first.min(packet.arrived)),
        );
        self.last = self.last.max(packet.released.unwrap_or(packet.arrived));
        if packet.served.is_some() {
            self.queueing.add(packet.queueing);
            self.queue_bytes
                .add(Duration::from_nanos(u64::from(packet.queue_bytes)));
            self.deepest_queue_bytes = self.deepest_queue_bytes.max(packet.queue_bytes);
        }
        if let (Some(planned), Some(released)) = (packet.planned, packet.released) {
            self.bytes_out += length;
            self.lateness.add(released.since(planned));
        }
    }

    /// Packets that ended so.
    pub(crate) fn count(&self, fate: Fate) -> u64 {
        self.by_fate[fate as usize]
    }

    /// Packets that the link dropped, as it was set up to.
    pub(crate) fn dropped(&self) -> u64 {
        let drops = Fate::ALL.into_iter().filter(|fate| fate.is_drop());
        drops.map(|fate| self.count(fate)).sum()
    }

    /// A quantile of the queue in bytes that packets found, over those that got through it.
    pub(crate) fn queue_bytes(&self, q: f64) -> u64 {
        self.queue_bytes.quantile(q).as_nanos()
    }

    /// The deepest queue in bytes that one of these packets found.
    pub(crate) fn deepest_queue_bytes(&self) -> u32 {
        self.deepest_queue_bytes
    }

    /// From the first packet's arrival to the last one's end.
    pub(crate) fn span(&self) -> Duration {
        self.first
            .map_or(Duration::ZERO, |first| self.last.since(first))
    }
}
