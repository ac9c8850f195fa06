//! Duplication: some packets are followed at once by a second copy.
//!
//! The copy passes through all later components as a separate packet, the queue included, and has its own record with the
//! same index. It shares the original's random draws where they depend on the packet's place in its flow.

use squall_base::{Probability, Time};

use crate::component::{Component, Exit, Packet};
use crate::random::{Luck, Purpose};
use crate::settings::LaneSettings;

/// Copies packets.
#[derive(Debug)]
pub(crate) struct Duplicates {
    luck: Luck,
    share: Probability,
}

impl Duplicates {
    pub(crate) fn new(share: Probability, luck: Luck) -> Duplicates {
        Duplicates { luck, share }
    }
}

impl Component for Duplicates {
    fn enter(&mut self, _now: Time, packet: Packet, exit: &mut Exit) {
        let is_copied = self
            .luck
            .strikes(self.share, Purpose::Duplicate, packet.key);
        let copy = is_copied.then(|| {
            let mut copy = packet.clone();
            copy.record.is_copy = true;
            copy
        });
        exit.pass(packet);
        if let Some(copy) = copy {
            exit.pass(copy);
        }
    }

    fn adopt(&mut self, _now: Time, settings: &LaneSettings, _exit: &mut Exit) {
        self.share = settings.duplicate;
    }

    fn is_transparent(&self) -> bool {
        self.share == Probability::ZERO
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::drop_list::tests::Sender;
    use crate::packet::tests::tcp_packet;
    use crate::random::tests::assert_binomial;

    fn pass(share: f64, count: u32) -> Vec<Packet> {
        let share = Probability::new(share).unwrap();
        let mut duplicates = Duplicates::new(share, Luck::new(1));
        let (mut sender, mut exit) = (Sender::default(), Exit::default());
        for _ in 0..count {
            let packet = sender.packet(tcp_packet(1, 2, 0x10, 1));
            duplicates.enter(Time::ZERO, packet, &mut exit);
        }
        assert!(exit.dropped.is_empty());
        exit.passed
    }

    #[test]
    fn the_share_of_copies_is_the_probability() {
        let n = 100_000;
        for p in [0.01, 0.3] {
            let passed = pass(p, n);
            let copies = passed.iter().filter(|p| p.record.is_copy).count();
            assert_eq!(passed.len() - copies, n as usize);
            assert_binomial(copies, n, p);
        }
    }

    #[test]
    fn a_copy_follows_its_packet_at_once_and_differs_only_in_its_flag() {
        let passed = pass(0.3, 1_000);
        for pair in passed.windows(2).filter(|pair| pair[1].record.is_copy) {
            let [first, copy] = pair else { unreachable!() };
            let mut unflagged = copy.record;
            unflagged.is_copy = false;
            assert_eq!(unflagged, first.record);
            assert_eq!((&copy.bytes, copy.key), (&first.bytes, first.key));
        }
        let firsts = passed.iter().filter(|p| !p.record.is_copy);
        assert!(firsts.map(|p| p.record.index).eq(0..1_000));
    }

    #[test]
    fn probabilities_of_zero_and_one_are_exact() {
        assert_eq!(pass(0.0, 1_000).len(), 1_000);
        assert_eq!(pass(1.0, 1_000).len(), 2_000);
    }
}
