//! The laws of the link, over random arrivals: conservation, no early release, order, repeatability.

use proptest::prelude::*;
use squall_base::record::{Direction, Fate, PacketRecord};
use squall_base::{Duration, Probability, Time};
use squall_link::{Link, LinkSettings, Offer};

#[derive(Clone, Debug)]
struct Arrival {
    gap: Duration,
    direction: Direction,
    packet: Vec<u8>,
}

fn arrivals() -> impl Strategy<Value = Vec<Arrival>> {
    let one = (
        0_u64..2_000_000,
        any::<bool>(),
        proptest::collection::vec(any::<u8>(), 0..64),
    )
        .prop_map(|(gap_ns, up, packet)| Arrival {
            gap: Duration::from_nanos(gap_ns),
            direction: if up { Direction::Up } else { Direction::Down },
            packet,
        });
    proptest::collection::vec(one, 0..200)
}

fn settings() -> impl Strategy<Value = LinkSettings> {
    (0_u64..5_000_000, 0.0_f64..=1.0, any::<u64>()).prop_map(|(delay_ns, loss, seed)| {
        LinkSettings {
            delay: Duration::from_nanos(delay_ns),
            loss: Probability::new(loss).expect("the strategy gives 0 to 1"),
            seed,
        }
    })
}

/// What a link did: released packets with the time of release, drops, and what it still held.
#[derive(Debug, PartialEq)]
struct Outcome {
    released: Vec<(Time, Vec<u8>, PacketRecord)>,
    dropped: Vec<PacketRecord>,
    in_flight: Vec<PacketRecord>,
}

/// Offers all arrivals and releases what is due before each of them, as the driver does.
fn run(settings: LinkSettings, arrivals: &[Arrival]) -> Outcome {
    let mut link = Link::new(settings);
    let (mut now, mut released, mut dropped) = (Time::ZERO, Vec::new(), Vec::new());
    for arrival in arrivals {
        now += arrival.gap;
        while let Some(release) = link.release(now) {
            released.push((now, release.packet, release.record));
        }
        if let Offer::Dropped { record, buffer } =
            link.offer(now, arrival.direction, arrival.packet.clone())
        {
            assert_eq!(buffer, arrival.packet);
            dropped.push(record);
        }
    }
    Outcome {
        released,
        dropped,
        in_flight: link.abandon().collect(),
    }
}

proptest! {
    #[test]
    fn packets_are_conserved(settings in settings(), arrivals in arrivals()) {
        let outcome = run(settings, &arrivals);
        let total = outcome.released.len() + outcome.dropped.len() + outcome.in_flight.len();
        prop_assert_eq!(total, arrivals.len());
        prop_assert!(outcome.dropped.iter().all(|r| r.fate == Fate::LossDrop && r.planned.is_none()));
        prop_assert!(outcome.in_flight.iter().all(|r| r.fate == Fate::InFlight));
        for direction in Direction::ALL {
            let mut indices: Vec<u64> = outcome.released.iter().map(|(_, _, r)| r)
                .chain(&outcome.dropped).chain(&outcome.in_flight)
                .filter(|r| r.direction == direction).map(|r| r.index).collect();
            indices.sort_unstable();
            prop_assert!(indices.iter().copied().eq(0..indices.len() as u64), "every index once");
        }
    }

    #[test]
    fn nothing_is_early_and_order_is_kept(settings in settings(), arrivals in arrivals()) {
        let outcome = run(settings, &arrivals);
        for (at, _, record) in &outcome.released {
            prop_assert_eq!(record.planned, Some(record.arrived + settings.delay));
            prop_assert!(Some(*at) >= record.planned);
        }
        for direction in Direction::ALL {
            let order: Vec<u64> = outcome.released.iter()
                .filter(|(_, _, r)| r.direction == direction).map(|(_, _, r)| r.index).collect();
            prop_assert!(order.is_sorted());
        }
    }

    #[test]
    fn packets_are_not_altered(settings in settings(), arrivals in arrivals()) {
        for (_, packet, record) in run(settings, &arrivals).released {
            let sent = arrivals.iter().filter(|a| a.direction == record.direction)
                .nth(record.index as usize).map(|a| &a.packet);
            prop_assert_eq!(Some(&packet), sent);
        }
    }

    #[test]
    fn the_same_arrivals_and_seed_give_the_same_decisions(settings in settings(), arrivals in arrivals()) {
        prop_assert_eq!(run(settings, &arrivals), run(settings, &arrivals));
    }
}

#[test]
fn loss_of_everything_and_of_nothing() {
    let arrivals: Vec<Arrival> = (0..100)
        .map(|n| Arrival {
            gap: Duration::from_micros(n),
            direction: Direction::Up,
            packet: vec![n as u8; 40],
        })
        .collect();
    for (loss, dropped) in [(0.0, 0), (1.0, 100)] {
        let settings = LinkSettings {
            delay: Duration::from_millis(1),
            loss: Probability::new(loss).unwrap(),
            seed: 3,
        };
        assert_eq!(run(settings, &arrivals).dropped.len(), dropped);
    }
}
