//! Totals of a link by direction, computed from its packet records alone.
//!
//! A trial's health and the summary of `squall link` are built from them. `health` judges them.

use squall_base::record::{Direction, DirectionHealth, Fate, KernelCounters, PacketRecord};
use squall_base::{Duration, Time};
use squall_linux::spans::DurationHistogram;

/// Totals of both directions.
#[derive(Default)]
pub(crate) struct LinkTotals([DirectionTotals; 2]);

/// Totals of one direction.
#[derive(Default)]
pub(crate) struct DirectionTotals {
    /// Packets that reached the link.
    pub(crate) packets: u64,
    /// Duplicates that the link made.
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
    /// Queue length that packets found on arrival. Bytes are stored as the histogram's nanoseconds.
    queue_bytes: DurationHistogram,
    /// The exact maximum of these queue lengths.
    deepest_queue_bytes: u32,
    /// Time in the queue and in serialisation.
    pub(crate) queueing: DurationHistogram,
    /// Delay of the actual release after the planned one.
    pub(crate) lateness: DurationHistogram,
    first: Option<Time>,
    last: Time,
}

impl LinkTotals {
    pub(crate) fn add(&mut self, packet: &PacketRecord) {
        self.0[packet.direction as usize].add(packet);
    }

    pub(crate) fn of(&self, direction: Direction) -> &DirectionTotals {
        &self.0[direction as usize]
    }

    /// The health record of one direction of a path's first hop, with what the kernel counted at its ends.
    pub(crate) fn health(&self, direction: Direction, kernel: KernelCounters) -> DirectionHealth {
        let totals = self.of(direction);
        DirectionHealth {
            hop: 1,
            direction,
            packets: totals.packets,
            copies: totals.copies,
            dropped: totals.dropped(),
            delivered: totals.count(Fate::Delivered),
            write_errors: totals.count(Fate::WriteError),
            in_flight: totals.count(Fate::InFlight),
            largest_packet_bytes: totals.largest_packet_bytes,
            lateness: totals.lateness.lateness(),
            kernel,
        }
    }
}

impl DirectionTotals {
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

    /// The number of packets with this fate.
    pub(crate) fn count(&self, fate: Fate) -> u64 {
        self.by_fate[fate as usize]
    }

    /// The number of packets that the link dropped as configured.
    pub(crate) fn dropped(&self) -> u64 {
        let drops = Fate::ALL.into_iter().filter(|fate| fate.is_drop());
        drops.map(|fate| self.count(fate)).sum()
    }

    /// A quantile of the queue length in bytes that packets found, over those that got through the queue.
    pub(crate) fn queue_bytes(&self, q: f64) -> u64 {
        self.queue_bytes.quantile(q).as_nanos()
    }

    /// The longest queue in bytes that one of these packets found.
    pub(crate) fn deepest_queue_bytes(&self) -> u32 {
        self.deepest_queue_bytes
    }

    /// Time from the first packet's arrival to the end of the last one.
    pub(crate) fn span(&self) -> Duration {
        self.first
            .map_or(Duration::ZERO, |first| self.last.since(first))
    }
}
