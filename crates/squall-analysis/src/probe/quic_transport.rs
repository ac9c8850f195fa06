//! How a server uses QUIC: what it announced, whether it sent a Retry, how large its datagrams are, and whether it paces
//! them.
//!
//! Nothing is judged here; `quic` has losses and round trips.

use std::collections::{BTreeMap, BTreeSet};

use serde::Serialize;
use squall_base::plan::Version;
use squall_base::record::{FrameLayer, Way};
use squall_base::{Duration, Time};

use super::observed::{Observations, Step, StepKind, TransportParameters};
use crate::wire::quic::STREAM;

/// The round trips at a download's beginning in which pacing may be seen: later ones fill the link.
const ROUND_TRIPS: u64 = 3;
/// An initial congestion window (RFC 9002, section 7.2): with fewer datagrams there is nothing to spread.
const DATAGRAMS_AT_LEAST: u64 = 10;
/// Datagrams within this time are a burst.
const SLOT: Duration = Duration::from_millis(1);

/// Facts about the transport of a server's HTTP/3.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub struct QuicTransport {
    /// What it announced.
    pub parameters: TransportParameters,
    /// The largest UDP payload that it sent.
    pub largest_datagram_bytes: u64,
    /// How a download began; `None` if that cannot be told.
    pub pacing: Option<Pacing>,
}

/// How the first datagrams of a download were spread over the round trips.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub struct Pacing {
    /// Datagrams with data in these round trips: at most as many as the milliseconds in them, so that each datagram could have
    /// a millisecond to itself.
    pub datagrams: u64,
    /// Those in the same millisecond as an earlier one.
    pub in_bursts: u64,
    /// The round trips from the first datagram on, at most three.
    pub round_trips: u64,
}

impl QuicTransport {
    /// The facts that a probe at this round trip shows; `None` if no handshake of QUIC was seen.
    pub(super) fn of(seen: &Observations, round_trip: Option<Duration>) -> Option<QuicTransport> {
        let mut handshakes = seen.steps.iter().filter_map(|step| step.handshake.as_ref());
        let parameters = handshakes.find_map(|handshake| handshake.transport)?;
        let largest = seen.steps.iter().map(|step| step.largest_datagram);
        let mut downloads = seen.steps_of(StepKind::Download, Version::Http3);
        Some(QuicTransport {
            parameters,
            largest_datagram_bytes: largest.max().unwrap_or(0),
            pacing: downloads.find_map(|step| Pacing::of(step, round_trip?)),
        })
    }
}

impl Pacing {
    /// Judges the pacing over as many round trips as possible, at most `ROUND_TRIPS`, in which each datagram could have
    /// had a millisecond to itself.
    fn of(step: &Step, round_trip: Duration) -> Option<Pacing> {
        let times = data_times(step);
        let first = *times.first()?;
        (1..=ROUND_TRIPS).rev().find_map(|round_trips| {
            let span = round_trip.as_nanos() * round_trips;
            let offsets = times.iter().map(|time| time.since(first).as_nanos());
            let offsets: Vec<u64> = offsets.filter(|offset| *offset < span).collect();
            let datagrams = offsets.len() as u64;
            let slots = offsets.iter().map(|offset| offset / SLOT.as_nanos());
            let used = slots.collect::<BTreeSet<u64>>().len() as u64;
            let is_telling = (DATAGRAMS_AT_LEAST..=span / SLOT.as_nanos()).contains(&datagrams);
            is_telling.then_some(Pacing {
                datagrams,
                in_bursts: datagrams - used,
                round_trips,
            })
        })
    }
}

/// When each packet with data of a response was received, in order.
fn data_times(step: &Step) -> Vec<Time> {
    let mut packets: BTreeMap<(u32, u64), Time> = BTreeMap::new();
    for row in &step.frames {
        let frame = &row.frame;
        let is_data = frame.layer == FrameLayer::Quic
            && frame.way == Way::Received
            && STREAM.contains(&frame.kind)
            && frame.length > 0
            && frame.stream.is_some_and(|stream| stream.is_multiple_of(4));
        if let Some(packet) = frame.packet.filter(|_| is_data) {
            packets.entry((row.connection, packet)).or_insert(row.time);
        }
    }
    let mut times: Vec<Time> = packets.into_values().collect();
    times.sort_unstable();
    times
}

#[cfg(test)]
mod tests {
    use squall_base::record::FrameFacts;

    use super::super::made::{frame, ms, step};
    use super::*;

    /// A download whose packets come at these times.
    fn download(times_us: impl IntoIterator<Item = u64>) -> Step {
        let mut made = step(StepKind::Download, Version::Http3);
        for (packet, time_us) in (0..).zip(times_us) {
            let facts = FrameFacts {
                stream: Some(0),
                packet: Some(packet),
                ..FrameFacts::new(Way::Received, FrameLayer::Quic, 0x0e, 1_000)
            };
            // Two frames in one packet.
            made.frames.push(frame(time_us, facts));
            made.frames.push(frame(time_us, facts));
        }
        made
    }

    #[test]
    fn bursts_are_distinguished_from_paced_datagrams() {
        let bursts = (0..3).flat_map(|trip| (0..10 << trip).map(move |n| 30_000 * trip + 5 * n));
        let found = Pacing::of(&download(bursts), ms(30)).expect("bursts");
        assert_eq!((found.datagrams, found.round_trips), (70, 3));
        assert_eq!(found.in_bursts, 67);
        let paced = (0..70).map(|n| 1_250 * n);
        let found = Pacing::of(&download(paced), ms(30)).expect("spread");
        assert_eq!((found.datagrams, found.in_bursts), (70, 0));
    }

    #[test]
    fn pacing_is_looked_for_in_fewer_round_trips_if_later_ones_are_full() {
        let filling = (0..10).map(|n| 3_000 * n);
        let full = (0..1_000).map(|n| 30_000 + 60 * n);
        let found = Pacing::of(&download(filling.chain(full)), ms(30)).expect("one");
        assert_eq!((found.datagrams, found.round_trips), (10, 1));
        let all_full = (0..1_000).map(|n| 60 * n);
        assert_eq!(Pacing::of(&download(all_full), ms(30)), None);
        assert_eq!(Pacing::of(&download(0..5), ms(30)), None);
    }
}
