//! A link's behaviour depends on arrivals and seed, never on when and how often it is called.

use proptest::prelude::*;
use squall_base::record::Direction;
use squall_base::{Duration, Probability};
use squall_link::settings::{LaneSettings, LinkSettings, Loss};

use crate::drive::{Calls, drive, random_calls};
use crate::traffic::{Arrival, START, opening, tcp_packet, traffic};
use crate::world::link;

proptest! {
    #[test]
    fn number_and_times_of_calls_do_not_change_decisions(settings in link(), arrivals in traffic(), calls in random_calls()) {
        let lazy = drive(&settings, &arrivals, &Calls::AtTheEnd);
        for calls in [Calls::WhenDue, calls] {
            let other = drive(&settings, &arrivals, &calls);
            prop_assert_eq!(lazy.decisions(), other.decisions(), "{:?}", calls);
        }
    }

    #[test]
    fn the_same_arrivals_and_seed_have_the_same_outcome(settings in link(), arrivals in traffic()) {
        let run = || drive(&settings, &arrivals, &Calls::WhenDue);
        prop_assert_eq!(run(), run());
    }

    /// Checked over both directions together, also for a driver that takes all packets in one go.
    #[test]
    fn packets_that_leave_at_the_same_time_leave_in_order_of_arrival(up_first in any::<bool>()) {
        let mut directions = Direction::ALL;
        if !up_first {
            directions.reverse();
        }
        let arrivals = directions.map(|direction| Arrival {
            at: START,
            direction,
            packet: opening(0),
        });
        let settings = LinkSettings::symmetric(LaneSettings::default(), 1);
        for calls in [Calls::AtTheEnd, Calls::WhenDue] {
            let outcome = drive(&settings, &arrivals, &calls);
            let order: Vec<Direction> = outcome.departed.iter().map(|taken| taken.record.direction).collect();
            prop_assert_eq!(order, directions.to_vec(), "{:?}", calls);
        }
    }
}

/// 200 packets have 2^200 possible fates: two seeds that agree would share their draws.
#[test]
fn another_seed_gives_other_losses() {
    let arrivals: Vec<Arrival> = (0..200)
        .map(|n| Arrival {
            at: START + Duration::from_micros(n),
            direction: Direction::Up,
            packet: tcp_packet([40_000, 80], 0x10, 100, 0, n as u32),
        })
        .collect();
    let lane = LaneSettings {
        loss: Loss::Independent(Probability::new(0.5).unwrap()),
        ..LaneSettings::default()
    };
    let lost = |seed| -> Vec<u64> {
        let settings = LinkSettings::symmetric(lane.clone(), seed);
        let outcome = drive(&settings, &arrivals, &Calls::AtTheEnd);
        let dropped = outcome.departed.iter().filter(|taken| !taken.is_release());
        dropped.map(|taken| taken.record.index).collect()
    };
    assert_eq!(lost(1), lost(1));
    assert_ne!(lost(1), lost(2));
}
