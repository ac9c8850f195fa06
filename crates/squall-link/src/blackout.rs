//! Blackouts: windows of time in which nothing enters the link.
//!
//! Packets that entered before are unaffected. Windows count from the link's beginning and include their first moment, but
//! not their last.

use squall_base::Time;
use squall_base::record::Fate;

use crate::component::{Component, Exit, Packet};
use crate::settings::{Blackout, LaneSettings};

/// The blackouts of one direction.
#[derive(Debug)]
pub(crate) struct Blackouts {
    start: Time,
    windows: Vec<Blackout>,
}

impl Blackouts {
    /// Blackouts whose times count from `start`.
    pub(crate) fn new(start: Time, windows: &[Blackout]) -> Blackouts {
        Blackouts {
            start,
            windows: windows.to_vec(),
        }
    }
}

fn is_dark(window: &Blackout, since_start_ns: u64) -> bool {
    let Some(since_first) = since_start_ns.checked_sub(window.from.as_nanos()) else {
        return false;
    };
    let within = match window.every {
        Some(every) => since_first % every.as_nanos().max(1),
        None => since_first,
    };
    within < window.length.as_nanos()
}

impl Component for Blackouts {
    fn enter(&mut self, now: Time, packet: Packet, exit: &mut Exit) {
        let since_start_ns = now.since(self.start).as_nanos();
        if self
            .windows
            .iter()
            .any(|window| is_dark(window, since_start_ns))
        {
            exit.drop(packet, Fate::BlackoutDrop);
        } else {
            exit.pass(packet);
        }
    }

    fn begin(&mut self, now: Time) {
        self.start = now;
    }

    fn adopt(&mut self, _now: Time, settings: &LaneSettings, _exit: &mut Exit) {
        self.windows.clone_from(&settings.blackouts);
    }

    fn is_transparent(&self) -> bool {
        self.windows.is_empty()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::drop_list::tests::Sender;
    use crate::packet::tests::tcp_packet;
    use squall_base::Duration;

    #[test]
    fn a_window_includes_its_start_but_not_its_end() {
        let once = Blackout {
            from: Duration::from_nanos(10),
            length: Duration::from_nanos(5),
            every: None,
        };
        let dark: Vec<u64> = (0..100).filter(|at| is_dark(&once, *at)).collect();
        assert_eq!(dark, [10, 11, 12, 13, 14]);
        let again = Blackout {
            every: Some(Duration::from_nanos(40)),
            ..once
        };
        let dark: Vec<u64> = (0..100).filter(|at| is_dark(&again, *at)).collect();
        assert_eq!(
            dark,
            [10, 11, 12, 13, 14, 50, 51, 52, 53, 54, 90, 91, 92, 93, 94]
        );
    }
    #[test]
    fn an_interval_no_longer_than_the_window_blocks_everything() {
        for every in [0, 1, 5] {
            let window = Blackout {
                from: Duration::from_nanos(10),
                length: Duration::from_nanos(5),
                every: Some(Duration::from_nanos(every)),
            };
            assert!((0..10).all(|at| !is_dark(&window, at)));
            assert!((10..100).all(|at| is_dark(&window, at)), "every {every}");
        }
    }

    /// Windows adopted later also count from the link's start, and each of several windows blocks.
    #[test]
    fn windows_count_from_the_start_of_the_link() {
        let window = |from_ns| Blackout {
            from: Duration::from_nanos(from_ns),
            length: Duration::from_nanos(2),
            every: None,
        };
        let start = Time::from_nanos(1_000);
        let mut sender = Sender::default();
        let mut dark_at = |blackouts: &mut Blackouts| -> Vec<u64> {
            let is_dropped = |at: &u64| {
                let mut exit = Exit::default();
                let packet = sender.packet(tcp_packet(1, 2, 0x10, 0));
                blackouts.enter(start + Duration::from_nanos(*at), packet, &mut exit);
                let mut dropped = exit.dropped.iter();
                assert!(dropped.all(|p| p.record.fate == Fate::BlackoutDrop));
                exit.passed.is_empty()
            };
            (0..20).filter(is_dropped).collect()
        };
        let mut blackouts = Blackouts::new(start, &[window(0)]);
        assert_eq!(dark_at(&mut blackouts), [0, 1]);
        let settings = LaneSettings {
            blackouts: vec![window(0), window(7)],
            ..LaneSettings::default()
        };
        let later = Time::from_nanos(1_005);
        blackouts.adopt(later, &settings, &mut Exit::default());
        assert_eq!(dark_at(&mut blackouts), [0, 1, 7, 8]);
    }
}
