//! The minimum round trip between the capture's point and an end of a connection.
//!
//! A round trip lasts from when bytes were first seen until they were seen acknowledged. Measured from the first sighting,
//! a sample is never too short, however often the bytes were retransmitted (RFC 6298, section 3, takes no sample of them for
//! the same reason). Delayed acknowledgements and queues only make it longer, so the minimum is closest to the bare path.

use serde::Serialize;
use squall_base::Duration;
use squall_base::record::Direction;

use super::losses::{Ack, earliest_reply};

/// How long packets took from the point to each end and back, at least; `None` if no packet was acknowledged.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct RoundTrips {
    /// To the client.
    #[serde(rename = "client_ns")]
    pub client: Option<Duration>,
    /// To the server.
    #[serde(rename = "server_ns")]
    pub server: Option<Duration>,
}

impl RoundTrips {
    /// Takes the round trip of each direction from `to_receiver`: that between the point and the direction's receiver.
    pub(super) fn of(to_receiver: impl Fn(Direction) -> Option<Duration>) -> RoundTrips {
        RoundTrips {
            client: to_receiver(Direction::Down),
            server: to_receiver(Direction::Up),
        }
    }

    /// How soon the end that receives in `direction` can have replied, in nanoseconds.
    pub(super) fn earliest_reply(&self, direction: Direction) -> u64 {
        let trip = match direction {
            Direction::Up => self.server,
            Direction::Down => self.client,
        };
        earliest_reply(trip.map_or(0, Duration::as_nanos))
    }

    /// The round trip of the whole path, as far as it is known.
    pub(super) fn whole(&self) -> Duration {
        let known = [self.client, self.server].into_iter().flatten();
        known.fold(Duration::ZERO, |sum, trip| sum + trip)
    }
}

/// The smallest sample of these acknowledgements. `sent` has the end of what was sent and when that was first seen, both
/// ascending.
pub(super) fn minimum_round_trip(sent: &[(u64, u64)], acknowledged: &[Ack]) -> Option<Duration> {
    let mut settled = 0;
    let samples = acknowledged.iter().filter_map(|ack| {
        let covered = sent.partition_point(|(end, _)| *end <= ack.to);
        let newest = covered.checked_sub(1).filter(|_| covered > settled)?;
        settled = covered;
        ack.time.checked_sub(sent[newest].1)
    });
    samples.min().map(Duration::from_nanos)
}

#[cfg(test)]
mod tests {
    use squall_base::splitmix::splitmix64;

    use super::*;

    fn ack(time: u64, to: u64) -> Ack {
        Ack { time, to }
    }

    #[test]
    fn a_sample_is_taken_of_the_newest_acknowledged_bytes() {
        let sent = [(10, 0), (20, 5), (30, 90)];
        assert_eq!(
            minimum_round_trip(&sent, &[ack(105, 20)]),
            Some(Duration::from_nanos(100))
        );
        // A repeated acknowledgement adds no sample.
        let again = [ack(105, 20), ack(106, 20), ack(130, 30)];
        assert_eq!(
            minimum_round_trip(&sent, &again),
            Some(Duration::from_nanos(40))
        );
        assert_eq!(minimum_round_trip(&sent, &[ack(3, 5)]), None);
        assert_eq!(minimum_round_trip(&[], &[ack(3, 5)]), None);
    }

    /// This holds whatever an acknowledgement waits for, and however late its packet is.
    #[test]
    fn the_minimum_is_never_below_the_true_round_trip() {
        const WAY: u64 = 20_000;
        for seed in 0..50 {
            let sent: Vec<(u64, u64)> = (1..200).map(|n| (n * 100, n * 1_000)).collect();
            let mut acks: Vec<Ack> = sent
                .iter()
                .filter(|(end, _)| !splitmix64(seed, *end).is_multiple_of(3))
                .map(|(end, time)| ack(time + WAY + splitmix64(seed + 100, *end) % 40_000, *end))
                .collect();
            acks.push(ack(sent[50].1 + WAY, sent[50].0));
            acks.sort_by_key(|ack| ack.time);
            let mut most = 0;
            acks.iter_mut().for_each(|ack| {
                most = ack.to.max(most);
                ack.to = most;
            });
            let found = minimum_round_trip(&sent, &acks).map_or(0, Duration::as_nanos);
            assert!(found >= WAY, "seed {seed}: {found}");
        }
    }
}
