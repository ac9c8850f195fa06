//! Laws that every discipline keeps, whatever arrives; the rest of its behaviour is tested in its own file.

use proptest::prelude::*;
use squall_base::record::Fate;
use squall_base::{Duration, Probability, Time};

use super::rig::{at_ms, ecn_packet, packet, serve};
use super::{Depth, Discipline, Limit, new};
use crate::component::{Exit, Packet};
use crate::random::Luck;
use crate::settings::{self, QueueSettings};

/// Each discipline, with its document's default parameters.
fn disciplines() -> [settings::Discipline; 6] {
    let (target, interval) = (Duration::from_millis(5), Duration::from_millis(100));
    [
        settings::Discipline::DropTail,
        settings::Discipline::DropHead,
        settings::Discipline::Red {
            min_bytes: 5_000,
            max_bytes: 15_000,
            probability: Probability::new(0.02).unwrap(),
        },
        settings::Discipline::CoDel { target, interval },
        settings::Discipline::Pie {
            target: Duration::from_millis(15),
            update: Duration::from_millis(15),
        },
        settings::Discipline::FqCoDel {
            target,
            interval,
            quantum_bytes: 1_514,
        },
    ]
}

fn queue(settings: &QueueSettings) -> Box<dyn Discipline> {
    new(Time::ZERO, settings, Luck::new(1))
}

/// A burst of five packets every 10 ms at 1 ms per packet: half the load, and 4 ms of waiting at most.
#[test]
fn nothing_is_dropped_or_marked_under_light_load() {
    for discipline in disciplines() {
        let mut queue = queue(&QueueSettings {
            discipline,
            marks_ecn: true,
            ..QueueSettings::default()
        });
        let arrivals = (0..5_000_u32).map(|i| {
            let at = at_ms(u64::from(i / 5) * 10);
            (at, ecn_packet(i % 3, i, 1_000))
        });
        let outcome = serve(queue.as_mut(), arrivals, 1_000);
        assert!(outcome.dropped.is_empty(), "{discipline:?}");
        assert_eq!(outcome.left.len(), 5_000, "{discipline:?}");
        let is_marked = |(_, packet): &(Time, Packet)| packet.record.is_marked;
        assert!(!outcome.left.iter().any(is_marked), "{discipline:?}");
    }
}

/// Twice the load for 20 s, from senders that do not slow down.
#[test]
fn only_active_queue_management_drops_early_under_overload() {
    for discipline in disciplines() {
        let mut queue = queue(&QueueSettings {
            discipline,
            ..QueueSettings::default()
        });
        let arrivals = (0..40_000_u32).map(|i| {
            let at = Time::from_nanos(u64::from(i) * 500_000);
            (at, packet(i % 3, i, 1_000))
        });
        let outcome = serve(queue.as_mut(), arrivals, 1_000);
        let early = outcome
            .dropped
            .iter()
            .filter(|(_, p)| p.record.fate == Fate::EarlyDrop);
        let is_plain = matches!(
            discipline,
            settings::Discipline::DropTail | settings::Discipline::DropHead
        );
        assert_eq!(early.count() == 0, is_plain, "{discipline:?}");
    }
}

#[derive(Clone, Copy, Debug)]
enum Step {
    Arrive {
        flow: u32,
        len: usize,
        is_capable: bool,
    },
    Leave,
}

fn steps() -> impl Strategy<Value = Vec<(u64, Step)>> {
    let arrive = (0_u32..4, 20_usize..2_000, any::<bool>()).prop_map(|(flow, len, is_capable)| {
        Step::Arrive {
            flow,
            len,
            is_capable,
        }
    });
    let step = prop_oneof![3 => arrive, 2 => Just(Step::Leave)];
    // Mostly close together, now and then far apart.
    let gap_us = prop_oneof![20 => 0_u64..4_000, 1 => 0_u64..2_000_000];
    proptest::collection::vec((gap_us, step), 0..400)
}

/// A test's own account of a queue.
#[derive(Default)]
struct Books {
    arrived: Vec<Packet>,
    gone: Vec<Packet>,
}

impl Books {
    /// What must wait now.
    fn held(&self) -> Depth {
        let mut depth = Depth::default();
        self.arrived.iter().for_each(|packet| depth.add(packet));
        self.gone.iter().for_each(|packet| depth.remove(packet));
        depth
    }

    /// Whether everything that arrived is gone, each packet once.
    fn are_closed(&self) -> bool {
        let indices = |packets: &[Packet]| {
            let mut indices: Vec<u64> = packets.iter().map(|packet| packet.record.index).collect();
            indices.sort_unstable();
            indices
        };
        indices(&self.arrived) == indices(&self.gone)
    }
}

/// Whether each flow's packets are in order of arrival.
fn are_in_order(left: &[Packet]) -> bool {
    (0..4).all(|flow| {
        let of_flow = left.iter().filter(|packet| packet.record.flow == flow);
        of_flow.is_sorted_by_key(|packet| packet.record.index)
    })
}

proptest! {
    #[test]
    fn every_discipline_accounts_for_each_packet_once(
        discipline in proptest::sample::select(disciplines().to_vec()),
        limit_packets in proptest::option::of(0_u64..60),
        limit_bytes in proptest::option::of(0_u64..60_000),
        marks_ecn in any::<bool>(),
        steps in steps(),
    ) {
        let settings = QueueSettings { discipline, limit_packets, limit_bytes, marks_ecn };
        let mut queue = queue(&settings);
        let limit = Limit::of(&settings);
        let (mut books, mut left, mut now) = (Books::default(), Vec::new(), Time::ZERO);
        for (index, (gap_us, step)) in (0..).zip(steps) {
            now += Duration::from_micros(gap_us);
            let mut exit = Exit::default();
            match step {
                Step::Arrive { flow, len, is_capable } => {
                    let make = if is_capable { ecn_packet } else { packet };
                    books.arrived.push(make(flow, index, len));
                    queue.enqueue(now, make(flow, index, len), &mut exit);
                }
                Step::Leave => {
                    let had = queue.depth().packets > 0;
                    let next = queue.dequeue(now, &mut exit);
                    // A discipline never drops the last packet: the line stays busy.
                    prop_assert_eq!(next.is_some(), had);
                    books.gone.extend(next.clone());
                    left.extend(next);
                }
            }
            prop_assert!(exit.passed.is_empty());
            prop_assert!(exit.dropped.iter().all(|packet| packet.record.fate.is_drop()));
            books.gone.extend(exit.dropped);
            prop_assert_eq!(queue.depth(), books.held());
            prop_assert!(limit.holds(queue.depth()));
        }
        let is_capable = |packet: &Packet| packet.bytes[1] != 0;
        let may_be_marked = |packet: &Packet| marks_ecn && is_capable(packet);
        prop_assert!(books.gone.iter().all(|p| !p.record.is_marked || may_be_marked(p)));
        let drained = queue.drain();
        prop_assert_eq!(queue.depth(), Depth::default());
        prop_assert!(queue.dequeue(now, &mut Exit::default()).is_none());
        left.extend(drained.clone());
        books.gone.extend(drained);
        prop_assert!(books.are_closed());
        prop_assert!(are_in_order(&left));
    }

    /// While no time passes, nothing is dropped on the way out, so draining and leaving are equivalent.
    #[test]
    fn packets_drain_in_the_order_in_which_they_would_leave(
        discipline in proptest::sample::select(disciplines().to_vec()),
        steps in steps(),
    ) {
        let settings = QueueSettings { discipline, ..QueueSettings::default() };
        let (mut drained, mut emptied) = (queue(&settings), queue(&settings));
        for (index, (_, step)) in (0..).zip(steps) {
            for queue in [&mut drained, &mut emptied] {
                let mut exit = Exit::default();
                match step {
                    Step::Arrive { flow, len, .. } => {
                        queue.enqueue(Time::ZERO, packet(flow, index, len), &mut exit);
                    }
                    Step::Leave => drop(queue.dequeue(Time::ZERO, &mut exit)),
                }
            }
        }
        let indices = |packets: Vec<Packet>| -> Vec<u64> {
            packets.iter().map(|packet| packet.record.index).collect()
        };
        let leave = || emptied.dequeue(Time::ZERO, &mut Exit::default());
        let left: Vec<Packet> = std::iter::from_fn(leave).collect();
        prop_assert_eq!(indices(drained.drain()), indices(left));
    }
}
