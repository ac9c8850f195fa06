//! No packet is early, no packet is forgotten, and packets keep their order unless configured otherwise.
//!
//! `drive` checks in every test that `next_departure` holds and that no packet is returned before it is planned.

use proptest::prelude::*;
use squall_base::record::{Direction, PacketRecord};
use squall_base::{Duration, Probability};
use squall_link::settings::{Capacity, Discipline, LaneSettings, LinkSettings, Setting};

use crate::drive::{Calls, TakenPacket, drive};
use crate::traffic::traffic;
use crate::world::{self, link, link_of};

/// Whether `holds` is true for a setting of this direction at any time, in any stretch.
fn ever(settings: &LinkSettings, direction: Direction, holds: impl Fn(&Setting) -> bool) -> bool {
    let at_first = settings.stretches.iter().any(|stretch| {
        let lane = stretch.lane(direction);
        let queue = Setting::Queue(lane.queue);
        [
            Setting::Jitter(lane.jitter),
            Setting::Reorder(lane.reorder),
            queue,
        ]
        .iter()
        .any(&holds)
    });
    let later = settings.schedule.iter().any(|change| {
        change.direction.is_none_or(|only| only == direction) && holds(&change.setting)
    });
    at_first || later
}

fn may_overtake(setting: &Setting) -> bool {
    match setting {
        Setting::Jitter(jitter) => jitter.is_some_and(|jitter| jitter.may_reorder),
        Setting::Reorder(reorder) => reorder.is_some_and(|r| r.share > Probability::ZERO),
        _ => false,
    }
}

fn has_queues_by_flow(setting: &Setting) -> bool {
    matches!(setting, Setting::Queue(queue) if matches!(queue.discipline, Discipline::FqCoDel { .. }))
}

/// The delays that every packet meets: those without jitter.
fn constant_delay(settings: &LinkSettings, direction: Direction) -> Duration {
    let lanes = settings
        .stretches
        .iter()
        .map(|stretch| stretch.lane(direction));
    let constant = lanes.filter(|lane| lane.jitter.is_none());
    constant.fold(Duration::ZERO, |sum, lane| sum + lane.delay)
}

fn without_delay_changes(settings: &LinkSettings) -> LinkSettings {
    let mut settings = settings.clone();
    settings
        .schedule
        .retain(|change| !matches!(change.setting, Setting::Delay(_) | Setting::Jitter(_)));
    settings
}

/// Only losses, corruption and duplication before a constant delay.
fn lane_without_waiting() -> BoxedStrategy<LaneSettings> {
    let settle = |lane| LaneSettings {
        capacity: Capacity::Unlimited,
        jitter: None,
        reorder: None,
        ..lane
    };
    world::lane().prop_map(settle).boxed()
}

fn order<'a>(
    taken: impl Iterator<Item = &'a TakenPacket>,
    direction: Direction,
    flow: Option<u32>,
) -> Vec<u64> {
    let records = taken.map(|taken| &taken.record);
    let belongs =
        |r: &&PacketRecord| r.direction == direction && flow.is_none_or(|flow| flow == r.flow);
    records.filter(belongs).map(|record| record.index).collect()
}

proptest! {
    #[test]
    fn nothing_is_planned_early(settings in link(), arrivals in traffic()) {
        let settings = without_delay_changes(&settings);
        for taken in drive(&settings, &arrivals, &Calls::WhenDue).released() {
            let record = &taken.record;
            let least = record.arrived + constant_delay(&settings, record.direction);
            prop_assert!(record.planned >= Some(least), "not before {:?}: {:?}", least, record);
        }
    }

    #[test]
    fn a_constant_delay_is_exact(settings in link_of(lane_without_waiting(), 0..1), arrivals in traffic()) {
        for taken in drive(&settings, &arrivals, &Calls::WhenDue).released() {
            let record = &taken.record;
            let delay = constant_delay(&settings, record.direction);
            prop_assert_eq!(record.planned, Some(record.arrived + delay), "{:?}", record);
        }
    }

    /// A driver that wakes at every `next_departure` is in time for every packet.
    #[test]
    fn a_driver_that_wakes_when_told_is_never_late(settings in link(), arrivals in traffic()) {
        for taken in drive(&settings, &arrivals, &Calls::WhenDue).released() {
            prop_assert_eq!(Some(taken.at), taken.record.planned);
        }
    }

    #[test]
    fn packets_keep_their_order_without_reordering(settings in link(), arrivals in traffic()) {
        let outcome = drive(&settings, &arrivals, &Calls::AtTheEnd);
        for direction in Direction::ALL {
            if ever(&settings, direction, may_overtake) {
                continue;
            }
            if ever(&settings, direction, has_queues_by_flow) {
                for flow in outcome.records().map(|record| record.flow) {
                    let order = order(outcome.released(), direction, Some(flow));
                    prop_assert!(order.is_sorted(), "{:?}, flow {}: {:?}", direction, flow, order);
                }
            } else {
                let order = order(outcome.released(), direction, None);
                prop_assert!(order.is_sorted(), "{:?}: {:?}", direction, order);
            }
        }
    }

    /// Packets leave in the order of their times.
    #[test]
    fn departure_times_never_go_back(settings in link(), arrivals in traffic()) {
        let outcome = drive(&settings, &arrivals, &Calls::AtTheEnd);
        prop_assert!(outcome.released().map(|taken| taken.record.planned).is_sorted());
    }
}
