//! Drivers: ways of calling a link, from a lazy one to one that always wakes on time.
//!
//! Whatever a driver does, `Driver::take` checks the link's promises: no packet leaves before `next_departure` or before
//! its planned time, and no due packet stays.

use proptest::prelude::*;
use squall_base::record::PacketRecord;
use squall_base::{Duration, Time};
use squall_link::{Departure, Link, LinkSettings};

use crate::traffic::{Arrival, START};

/// When a driver takes what is due.
#[derive(Clone, Debug)]
pub(crate) enum Calls {
    /// After all packets have arrived.
    AtTheEnd,
    /// At every `next_departure`, like the real driver when it is never late.
    WhenDue,
    /// At these times after the start, in order; at every other one, at most one packet.
    At(Vec<Duration>),
}

/// Times within the traffic.
pub(crate) fn random_calls() -> impl Strategy<Value = Calls> {
    proptest::collection::vec(crate::world::span(1_000), 0..100).prop_map(|mut times| {
        times.sort_unstable();
        Calls::At(times)
    })
}

/// A packet that left the link, and when the driver took it.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct TakenPacket {
    pub(crate) at: Time,
    pub(crate) packet: Vec<u8>,
    pub(crate) record: PacketRecord,
}

/// All that a link did.
#[derive(Debug, PartialEq)]
pub(crate) struct Outcome {
    /// In the order of taking.
    pub(crate) departed: Vec<TakenPacket>,
    /// The records of packets still in the link at the end.
    pub(crate) in_flight: Vec<PacketRecord>,
}

impl Outcome {
    /// Packets for the other host, in order.
    pub(crate) fn released(&self) -> impl Iterator<Item = &TakenPacket> {
        self.departed.iter().filter(|taken| taken.is_release())
    }

    /// Every record, wherever its packet ended.
    pub(crate) fn records(&self) -> impl Iterator<Item = &PacketRecord> {
        let departed = self.departed.iter().map(|taken| &taken.record);
        departed.chain(&self.in_flight)
    }

    /// What must not depend on the driver: bytes and records in order.
    pub(crate) fn decisions(&self) -> Vec<(&[u8], &PacketRecord)> {
        self.departed
            .iter()
            .map(|taken| (taken.packet.as_slice(), &taken.record))
            .collect()
    }
}

impl TakenPacket {
    pub(crate) fn is_release(&self) -> bool {
        !self.record.fate.is_drop()
    }
}

/// Offers all packets, takes what is due by `calls`, and waits until the link is empty.
pub(crate) fn drive(settings: &LinkSettings, arrivals: &[Arrival], calls: &Calls) -> Outcome {
    drive_for(settings, arrivals, calls, None)
}

/// As `drive`, but stops the link `linger` after the last packet arrived.
pub(crate) fn drive_for(
    settings: &LinkSettings,
    arrivals: &[Arrival],
    calls: &Calls,
    linger: Option<Duration>,
) -> Outcome {
    let mut driver = Driver {
        link: Link::new(settings, START),
        now: START,
        departed: Vec::new(),
    };
    let mut times = match calls {
        Calls::At(times) => times.as_slice(),
        Calls::AtTheEnd | Calls::WhenDue => &[],
    };
    for arrival in arrivals {
        if matches!(calls, Calls::WhenDue) {
            driver.take_when_due(arrival.at);
        }
        while times
            .first()
            .is_some_and(|time| START + *time <= arrival.at)
        {
            let most = if times.len() % 2 == 0 { usize::MAX } else { 1 };
            driver.take((START + times[0]).max(driver.now), most);
            times = &times[1..];
        }
        driver.now = arrival.at;
        let packet = arrival.packet.clone();
        driver.link.offer(arrival.at, arrival.direction, packet);
    }
    // No queue of these tests takes an hour.
    let end = driver.now + linger.unwrap_or(Duration::from_secs(3_600));
    if matches!(calls, Calls::WhenDue) {
        driver.take_when_due(end);
    }
    driver.take(end, usize::MAX);
    driver.stop(linger.is_some())
}

struct Driver {
    link: Link,
    now: Time,
    departed: Vec<TakenPacket>,
}

impl Driver {
    /// Repeatedly sleeps until the link has a packet, up to `until`.
    fn take_when_due(&mut self, until: Time) {
        while let Some(due) = self.link.next_departure().filter(|due| *due <= until) {
            self.take(due.max(self.now), usize::MAX);
        }
    }

    /// Takes the packets that the link has at `now`, `most` of them at most.
    fn take(&mut self, now: Time, most: usize) {
        let promised = self.link.next_departure();
        self.now = now;
        for _ in 0..most {
            let Some(departure) = self.link.take(now) else {
                let next = self.link.next_departure();
                assert!(
                    next.is_none_or(|next| next > now),
                    "due at {next:?}, but not given at {now:?}"
                );
                return;
            };
            self.check(promised, &departure);
            let Departure { packet, record } = departure;
            self.departed.push(TakenPacket {
                at: now,
                packet,
                record,
            });
        }
    }

    /// Checks that no packet leaves before it was promised and planned. A drop need not wake the driver, so its record may
    /// arrive with the next packet.
    fn check(&self, promised: Option<Time>, departure: &Departure) {
        let record = &departure.record;
        let promised = promised.expect("a link that has packets says when one leaves");
        assert_eq!(
            departure.is_release(),
            record.planned.is_some(),
            "{record:?}"
        );
        if let Some(planned) = record.planned {
            assert!(promised <= planned, "promised for {promised:?}: {record:?}");
            assert!(
                planned <= self.now,
                "given out at {:?}: {record:?}",
                self.now
            );
        }
    }

    fn stop(mut self, may_hold: bool) -> Outcome {
        let next = self.link.next_departure();
        let in_flight: Vec<PacketRecord> = self
            .link
            .abandon()
            .into_iter()
            .map(|departure| departure.record)
            .collect();
        assert_eq!(
            next.is_none(),
            in_flight.is_empty(),
            "next departure {next:?}"
        );
        assert!(
            may_hold || in_flight.is_empty(),
            "never left: {in_flight:?}"
        );
        assert!(self.link.next_departure().is_none() && self.link.abandon().is_empty());
        Outcome {
            departed: self.departed,
            in_flight,
        }
    }
}
