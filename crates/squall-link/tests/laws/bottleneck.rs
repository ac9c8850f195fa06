//! Queue limits and rates, derived from the records alone.
//!
//! A stretch without changes sends one packet after the other: a packet's transmission begins when it has arrived and the
//! one before it is served, whatever the discipline. Until then it waits. A packet dropped from the queue has no drop time
//! in the records and is left out, so except for drop-tail limits are only checked from below.

use proptest::prelude::*;
use squall_base::record::{Direction, Fate, PacketRecord};
use squall_base::{BitRate, Duration, Time};
use squall_link::LinkSettings;
use squall_link::settings::{Capacity, Discipline, LaneSettings, QueueSettings, Stretch};

use crate::drive::{Calls, Outcome, drive};
use crate::traffic::{Arrival, START, tcp_packet, traffic};
use crate::world::{self, one_stretch};

fn limited(capacity: impl Strategy<Value = Capacity> + 'static) -> BoxedStrategy<LaneSettings> {
    (capacity, world::lane())
        .prop_map(|(capacity, lane)| LaneSettings { capacity, ..lane })
        .boxed()
}

fn serialised() -> BoxedStrategy<LaneSettings> {
    limited(world::rate().prop_map(Capacity::Rate))
}

fn drop_tail() -> BoxedStrategy<LaneSettings> {
    let discipline = Discipline::DropTail;
    serialised()
        .prop_map(move |lane| LaneSettings {
            queue: QueueSettings {
                discipline,
                ..lane.queue
            },
            ..lane
        })
        .boxed()
}

/// A packet that got through the bottleneck.
#[derive(Clone, Copy, Debug)]
struct ServedPacket {
    record: PacketRecord,
    began: Time,
    served: Time,
}

impl ServedPacket {
    /// Whether this packet is waiting when `other` has just arrived.
    fn waits_after(&self, other: &PacketRecord) -> bool {
        is_before(&self.record, other) && other.arrived < self.began
    }
}

/// Whether a packet arrived no later than another; a copy arrives after its original.
fn is_before(one: &PacketRecord, other: &PacketRecord) -> bool {
    (one.index, one.is_copy) <= (other.index, other.is_copy)
}

/// The packets that a direction sent, in order of sending.
fn sent(outcome: &Outcome, direction: Direction) -> Vec<ServedPacket> {
    let of_direction = outcome
        .records()
        .filter(|record| record.direction == direction);
    let served = of_direction.filter_map(|record| record.served.map(|served| (served, *record)));
    let mut served: Vec<(Time, PacketRecord)> = served.collect();
    // A packet of no bits takes no time: of two that are through at one instant, it was sent second, because the other
    // began earlier. A discipline with several queues may send it second although it arrived first.
    served.sort_by_key(|(served, record)| {
        (*served, record.length == 0, record.index, record.is_copy)
    });
    let mut free = Time::ZERO;
    let begin = |(served, record): (Time, PacketRecord)| {
        let began = record.arrived.max(free);
        free = served;
        ServedPacket {
            record,
            began,
            served,
        }
    };
    served.into_iter().map(begin).collect()
}

fn bits(record: &PacketRecord, lane: &LaneSettings) -> u64 {
    (u64::from(record.length) + u64::from(lane.overhead_bytes)) * 8
}

/// Asserts that between two service times no more passes than the rate allows plus `burst_bits`. Times are rounded up to
/// the next nanosecond, so each span is extended by one.
fn assert_rate_is_kept(sent: &[ServedPacket], lane: &LaneSettings, rate: BitRate, burst_bits: u64) {
    for (n, first) in sent.iter().enumerate() {
        let mut bits_between = 0;
        for later in &sent[n + 1..] {
            bits_between += bits(&later.record, lane);
            let span_ns = u128::from(later.served.since(first.served).as_nanos()) + 1;
            let fit = span_ns * u128::from(rate.bits_per_s()) / 1_000_000_000;
            assert!(
                u128::from(bits_between) <= fit + u128::from(burst_bits),
                "{bits_between} bits in {span_ns} ns at {rate}, from {first:?} to {later:?}"
            );
        }
    }
}

fn each_lane(settings: &LinkSettings) -> impl Iterator<Item = (Direction, &LaneSettings)> {
    Direction::ALL
        .into_iter()
        .map(|direction| (direction, settings.stretches[0].lane(direction)))
}

proptest! {
    #[test]
    fn a_rate_is_never_exceeded(settings in one_stretch(serialised()), arrivals in traffic()) {
        let outcome = drive(&settings, &arrivals, &Calls::WhenDue);
        for (direction, lane) in each_lane(&settings) {
            let Capacity::Rate(rate) = lane.capacity else { unreachable!("by the strategy") };
            assert_rate_is_kept(&sent(&outcome, direction), lane, rate, 0);
        }
    }

    /// An emptied bucket passes its depth once more in addition to the rate, and a packet with enough tokens at hand is
    /// through at once.
    #[test]
    fn a_token_bucket_lets_its_depth_pass_at_once(
        settings in one_stretch(limited(world::token_bucket())), arrivals in traffic()
    ) {
        let outcome = drive(&settings, &arrivals, &Calls::WhenDue);
        for (direction, lane) in each_lane(&settings) {
            let Capacity::TokenBucket { rate, depth } = lane.capacity else { unreachable!("by the strategy") };
            let largest = (1_500 + u64::from(lane.overhead_bytes)) * 8;
            assert_rate_is_kept(&sent(&outcome, direction), lane, rate, depth.get() * 8 + largest);
        }
    }

    /// A link with packets to send does send: no packet takes longer than its bits.
    #[test]
    fn a_backlog_is_sent_at_the_full_rate(settings in one_stretch(serialised()), arrivals in traffic()) {
        let outcome = drive(&settings, &arrivals, &Calls::WhenDue);
        for (direction, lane) in each_lane(&settings) {
            let Capacity::Rate(rate) = lane.capacity else { unreachable!("by the strategy") };
            for sent in sent(&outcome, direction) {
                let time = rate.time_for(bits(&sent.record, lane));
                prop_assert!(sent.served <= sent.began + time, "{:?}", sent);
            }
        }
    }

    #[test]
    fn limits_are_never_exceeded(settings in one_stretch(serialised()), arrivals in traffic()) {
        let outcome = drive(&settings, &arrivals, &Calls::WhenDue);
        for (direction, lane) in each_lane(&settings) {
            let sent = sent(&outcome, direction);
            for record in outcome.records().filter(|record| record.direction == direction) {
                let waiting: Vec<&ServedPacket> = sent.iter().filter(|sent| sent.waits_after(record)).collect();
                let bytes: u64 = waiting.iter().map(|sent| u64::from(sent.record.length)).sum();
                let limit_bytes = lane.queue.limit_bytes.unwrap_or(u64::MAX);
                let limit_packets = lane.queue.limit_packets.unwrap_or(u64::MAX);
                prop_assert!(waiting.len() as u64 <= limit_packets, "after {:?}: {:?}", record, waiting);
                prop_assert!(bytes <= limit_bytes, "after {:?}: {} bytes", record, bytes);
                prop_assert!(u64::from(record.queue_bytes) <= limit_bytes, "{:?}", record);
            }
        }
    }

    /// Drop-tail drops only arriving packets, so its queue can be computed exactly: a packet that fits is never dropped.
    #[test]
    fn drop_tail_drops_only_packets_that_do_not_fit(settings in one_stretch(drop_tail()), arrivals in traffic()) {
        let outcome = drive(&settings, &arrivals, &Calls::WhenDue);
        for (direction, lane) in each_lane(&settings) {
            let sent = sent(&outcome, direction);
            for record in outcome.records().filter(|record| record.direction == direction) {
                let others = sent.iter().filter(|sent| {
                    sent.waits_after(record) && !is_before(record, &sent.record)
                });
                let others: Vec<u64> = others.map(|sent| u64::from(sent.record.length)).collect();
                let packets = others.len() as u64 + 1;
                let bytes = others.iter().sum::<u64>() + u64::from(record.length);
                let has_room = lane.queue.limit_packets.is_none_or(|limit| packets <= limit)
                    && lane.queue.limit_bytes.is_none_or(|limit| bytes <= limit);
                prop_assert!(record.fate != Fate::QueueDrop || !has_room, "{:?}", record);
                if record.served.is_some() {
                    prop_assert!(has_room, "{:?}", record);
                    prop_assert_eq!(u64::from(record.queue_bytes) + u64::from(record.length), bytes);
                }
            }
        }
    }
}

/// A packet that arrives at the exact time at which another has been sent gets the place that became free, whether it comes
/// from the host or from the previous stretch.
#[test]
fn a_place_in_the_queue_can_be_used_as_soon_as_it_is_freed() {
    let packet = || tcp_packet([40_000, 80], 0x10, 1_460, 0, 1);
    let sending_time = Duration::from_millis(1);
    let arrivals: Vec<Arrival> = [START, START, START + sending_time]
        .map(|at| Arrival {
            at,
            direction: Direction::Up,
            packet: packet(),
        })
        .into();
    let bottleneck = LaneSettings {
        capacity: Capacity::Rate(BitRate::new(12_000_000).unwrap()),
        queue: QueueSettings {
            limit_packets: Some(1),
            ..QueueSettings::default()
        },
        ..LaneSettings::default()
    };
    let before = LaneSettings {
        delay: Duration::from_millis(5),
        ..LaneSettings::default()
    };
    let mut settings = LinkSettings::symmetric(bottleneck, 1);
    for is_behind in [false, true] {
        if is_behind {
            let stretch = Stretch {
                up: before.clone(),
                down: before.clone(),
            };
            settings.stretches.insert(0, stretch);
        }
        let outcome = drive(&settings, &arrivals, &Calls::AtTheEnd);
        assert_eq!(outcome.released().count(), 3, "{is_behind}");
    }
}

/// FqCoDel sends the acknowledgement of a new flow before an empty packet of a flow that it has just served, and both are
/// through at one instant. The records alone say which was first.
#[test]
fn records_order_an_empty_packet_after_another_that_leaves_at_the_same_instant() {
    let at = |at, packet| Arrival {
        at,
        direction: Direction::Up,
        packet,
    };
    let later = START + Duration::from_micros(1);
    let arrivals = [
        at(START, Vec::new()),
        at(START, tcp_packet([40_000, 80], 0x10, 1_460, 0, 1)),
        at(later, Vec::new()),
        at(later, tcp_packet([40_001, 80], 0x10, 0, 0, 1)),
    ];
    let rate = BitRate::new(12_000_000).unwrap();
    let lane = LaneSettings {
        capacity: Capacity::Rate(rate),
        queue: QueueSettings {
            discipline: Discipline::FqCoDel {
                target: Duration::from_millis(5),
                interval: Duration::from_millis(100),
                quantum_bytes: 1_514,
            },
            ..QueueSettings::default()
        },
        ..LaneSettings::default()
    };
    let settings = LinkSettings::symmetric(lane.clone(), 1);
    let sent = sent(&drive(&settings, &arrivals, &Calls::WhenDue), Direction::Up);
    let indices: Vec<u64> = sent.iter().map(|sent| sent.record.index).collect();
    assert_eq!(indices, [0, 1, 3, 2]);
    assert_eq!(sent[2].served, sent[3].served);
    assert_rate_is_kept(&sent, &lane, rate, 0);
}
