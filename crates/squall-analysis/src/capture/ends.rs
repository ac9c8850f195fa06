//! When something seen at the capture's point happened at an end of its connection.
//!
//! The only place that shifts a time. An end is half of its minimum round trip away from the point, in both directions:
//! what it sent left it that much earlier than it was seen, and what it received arrived that much later. A distance that
//! was not measured counts as zero.

use std::collections::BTreeMap;

use squall_base::record::{PacketRecord, Side, Way};
use squall_base::{Duration, Time};

use super::round_trips::RoundTrips;

/// A packet as it left its sender; packets that the capture lacks are included.
pub(super) struct RankedPacket {
    pub(super) row: PacketRecord,
    /// The order among packets that left at the same time.
    pub(super) rank: usize,
}

/// The ends of all connections.
pub(super) struct Ends {
    /// Half round trips, by connection and side.
    halves: BTreeMap<u32, [Duration; 2]>,
    origin: Duration,
}

impl Ends {
    pub(super) fn of(round_trips: &BTreeMap<u32, RoundTrips>) -> Ends {
        let half =
            |trip: Option<Duration>| Duration::from_nanos(trip.map_or(0, Duration::as_nanos) / 2);
        let halves = round_trips
            .iter()
            .map(|(number, trips)| (*number, [half(trips.client), half(trips.server)]));
        let halves: BTreeMap<u32, [Duration; 2]> = halves.collect();
        Ends {
            origin: halves
                .values()
                .flatten()
                .copied()
                .max()
                .unwrap_or(Duration::ZERO),
            halves,
        }
    }

    /// How long before the capture's first packet times begin: nothing left an end earlier than that.
    pub(super) fn origin(&self) -> Duration {
        self.origin
    }

    /// When a side of a connection sent or received what was seen at `seen`.
    pub(super) fn time(&self, connection: u32, side: Side, way: Way, seen: Time) -> Time {
        let half = self
            .halves
            .get(&connection)
            .map(|halves| halves[side as usize]);
        let half = half.unwrap_or(Duration::ZERO).as_nanos();
        let begun = seen.as_nanos().saturating_add(self.origin.as_nanos());
        Time::from_nanos(match way {
            Way::Sent => begun.saturating_sub(half),
            Way::Received => begun.saturating_add(half),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_packet_takes_half_of_each_round_trip_from_end_to_end() {
        let trips = RoundTrips {
            client: Some(Duration::from_millis(2)),
            server: Some(Duration::from_millis(20)),
        };
        let ends = Ends::of(&BTreeMap::from([(7, trips), (8, RoundTrips::default())]));
        let seen = Time::from_nanos(0);
        let sent = ends.time(7, Side::Client, Way::Sent, seen);
        let received = ends.time(7, Side::Server, Way::Received, seen);
        assert_eq!(received.since(sent), Duration::from_millis(11));
        let sent = ends.time(7, Side::Server, Way::Sent, seen);
        assert_eq!(sent, Time::from_nanos(0), "nothing is before the origin");
        let received = ends.time(7, Side::Client, Way::Received, seen);
        assert_eq!(received.since(sent), Duration::from_millis(11));
        // Without a measurement, the distance is zero.
        let [sent, received] = Way::ALL.map(|way| ends.time(8, Side::Server, way, seen));
        assert_eq!(sent, received);
    }
}
