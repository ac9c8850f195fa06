//! Every packet has exactly one fate: released, dropped, or in flight when the link is stopped; and its record agrees.

use std::collections::BTreeMap;

use proptest::prelude::*;
use squall_base::record::{Direction, Fate, PacketRecord};
use squall_base::{Duration, Probability};
use squall_link::settings::Setting;
use squall_link::{LaneSettings, LinkSettings};

use crate::drive::{Calls, Outcome, drive, drive_for};
use crate::traffic::{Arrival, going, traffic, traffic_of};
use crate::world::{self, link};

/// How many records each index of a direction has: of the packet itself, and of copies.
fn count(outcome: &Outcome, direction: Direction) -> BTreeMap<u64, (u32, u32)> {
    let mut counts = BTreeMap::new();
    for record in outcome
        .records()
        .filter(|record| record.direction == direction)
    {
        let (itself, copies) = counts.entry(record.index).or_insert((0, 0));
        *(if record.is_copy { copies } else { itself }) += 1;
    }
    counts
}

/// The duplication of one stretch at most doubles a packet and its copies.
fn most_copies(settings: &LinkSettings, direction: Direction) -> u32 {
    let copies_now =
        |stretch: usize| settings.stretches[stretch].lane(direction).duplicate > Probability::ZERO;
    let copies_later = |stretch: usize| {
        settings.schedule.iter().any(|change| {
            change.stretch == stretch && matches!(change.setting, Setting::Duplicate(_))
        })
    };
    let doubling = (0..settings.stretches.len()).filter(|n| copies_now(*n) || copies_later(*n));
    (1 << doubling.count()) - 1
}

/// Asserts that the record describes the packet that arrived.
fn assert_describes(record: &PacketRecord, arrival: &Arrival) {
    assert_eq!(record.arrived, arrival.at, "{record:?}");
    assert_eq!(
        usize::from(record.length),
        arrival.packet.len(),
        "{record:?}"
    );
    assert_eq!(record.released, None, "the driver's to fill: {record:?}");
}

proptest! {
    #[test]
    fn every_packet_has_exactly_one_fate(settings in link(), arrivals in traffic(), linger in world::span(60)) {
        let outcome = drive_for(&settings, &arrivals, &Calls::WhenDue, Some(linger));
        for direction in Direction::ALL {
            let sent = going(&arrivals, direction);
            let counts = count(&outcome, direction);
            prop_assert!(counts.keys().copied().eq(0..sent.len() as u64), "every index");
            let most = most_copies(&settings, direction);
            for (index, (itself, copies)) in counts {
                prop_assert_eq!(itself, 1, "index {}", index);
                prop_assert!(copies <= most, "index {}: {} copies", index, copies);
            }
        }
    }

    #[test]
    fn records_describe_their_packet_and_its_fate_within_the_link(settings in link(), arrivals in traffic(), linger in world::span(60)) {
        let outcome = drive_for(&settings, &arrivals, &Calls::WhenDue, Some(linger));
        for record in outcome.records() {
            assert_describes(record, going(&arrivals, record.direction)[record.index as usize]);
        }
        for taken in &outcome.departed {
            let record = &taken.record;
            prop_assert!(record.fate.is_drop() || record.fate == Fate::InFlight, "{:?}", record);
            prop_assert!(record.served <= record.planned || !taken.is_release(), "{:?}", record);
            prop_assert!(record.served.is_none_or(|served| served >= record.arrived), "{:?}", record);
        }
        for record in &outcome.in_flight {
            prop_assert_eq!((record.fate, record.planned), (Fate::InFlight, None));
        }
    }

    /// Without loss, and with room for all, every packet is delivered, readable or not.
    #[test]
    fn no_packet_is_lost_because_of_its_content(
        arrivals in traffic_of(crate::traffic::bytes()), delay in world::span(50), seed in any::<u64>()
    ) {
        let lane = LaneSettings { delay, ..LaneSettings::default() };
        let outcome = drive(&LinkSettings::symmetric(lane, seed), &arrivals, &Calls::WhenDue);
        for direction in Direction::ALL {
            let released = outcome.released().filter(|taken| taken.record.direction == direction);
            let sent = going(&arrivals, direction);
            prop_assert!(released.map(|taken| &taken.packet).eq(sent.iter().map(|sent| &sent.packet)));
        }
    }
}

/// A packet that has left but was not taken is returned with the others.
#[test]
fn stopping_returns_packets_that_were_not_taken() {
    let lane = LaneSettings {
        delay: Duration::from_millis(1),
        ..LaneSettings::default()
    };
    let mut link = squall_link::Link::new(&LinkSettings::symmetric(lane, 1), crate::traffic::START);
    for n in 0..3 {
        let at = crate::traffic::START + Duration::from_millis(2 * n);
        link.offer(at, Direction::Up, vec![n as u8; 20]);
    }
    let given_up = link.abandon();
    assert_eq!(given_up.len(), 3);
    assert!(
        given_up
            .iter()
            .all(|departure| departure.record.fate == Fate::InFlight)
    );
}
