//! Corruption: one bit of some packets is flipped, and no checksum is corrected for it.
//!
//! The bit lies after the IP header, so that the packet still reaches its host and the transport's checksum has to catch
//! it. A packet with nothing after the header passes unharmed.

use squall_base::{Probability, Time};

use crate::component::{Component, Exit, Packet};
use crate::packet::ip_header_len;
use crate::random::{Luck, Purpose};
use crate::settings::LaneSettings;

/// Flips bits.
#[derive(Debug)]
pub(crate) struct Corruption {
    luck: Luck,
    share: Probability,
}

impl Corruption {
    pub(crate) fn new(share: Probability, luck: Luck) -> Corruption {
        Corruption { luck, share }
    }

    fn flip_a_bit(&self, packet: &mut Packet) {
        let first = ip_header_len(&packet.bytes);
        let Some(body) = packet
            .bytes
            .get_mut(first..)
            .filter(|body| !body.is_empty())
        else {
            return;
        };
        let bits = body.len() as u64 * 8;
        let at = self.luck.draw(Purpose::CorruptBit, packet.key) % bits;
        body[(at / 8) as usize] ^= 1 << (at % 8);
        packet.record.is_corrupted = true;
    }
}

impl Component for Corruption {
    fn enter(&mut self, _now: Time, mut packet: Packet, exit: &mut Exit) {
        if self.luck.strikes(self.share, Purpose::Corrupt, packet.key) {
            self.flip_a_bit(&mut packet);
        }
        exit.pass(packet);
    }

    fn adopt(&mut self, _now: Time, settings: &LaneSettings, _exit: &mut Exit) {
        self.share = settings.corrupt;
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

    /// The result for `count` packets with these bytes.
    fn pass(share: f64, bytes: &[u8], count: u32) -> Vec<Packet> {
        let share = Probability::new(share).unwrap();
        let mut corruption = Corruption::new(share, Luck::new(1));
        let (mut sender, mut exit) = (Sender::default(), Exit::default());
        for _ in 0..count {
            corruption.enter(Time::ZERO, sender.packet(bytes.to_vec()), &mut exit);
        }
        assert!(exit.dropped.is_empty());
        exit.passed
    }

    /// The numbers of the bits in which two packets of one length differ.
    fn differing_bits(one: &[u8], other: &[u8]) -> Vec<usize> {
        assert_eq!(one.len(), other.len());
        let differs = |bit: &usize| (one[bit / 8] ^ other[bit / 8]) >> (bit % 8) & 1 == 1;
        (0..one.len() * 8).filter(differs).collect()
    }

    /// With options the IP header is 24 bytes, followed by 20 of TCP and 4 of payload. In 10,000 packets each of the 224
    /// bits after the IP header is hit: one is missed with probability (1 - 1/224)^10,000, about 4e-20.
    #[test]
    fn exactly_one_bit_is_flipped_anywhere_after_the_ip_header() {
        let mut bytes = tcp_packet(1, 2, 0x10, 8);
        bytes[0] = 0x46;
        let mut met = vec![false; bytes.len() * 8];
        for packet in pass(1.0, &bytes, 10_000) {
            assert!(packet.record.is_corrupted);
            let bits = differing_bits(&packet.bytes, &bytes);
            assert_eq!(bits.len(), 1);
            met[bits[0]] = true;
        }
        assert!(met[..24 * 8].iter().all(|met| !met));
        assert!(met[24 * 8..].iter().all(|met| *met));
    }

    #[test]
    fn a_packet_without_a_body_passes_unharmed() {
        let whole = tcp_packet(1, 2, 0x10, 0);
        let mut header_beyond_the_end = whole[..40].to_vec();
        header_beyond_the_end[0] = 0x4f;
        let mut version_6 = whole.clone();
        version_6[0] = 0x60;
        for bytes in [
            &whole[..20],
            &whole[..7],
            &[],
            &header_beyond_the_end,
            &version_6,
        ] {
            for packet in pass(1.0, bytes, 100) {
                assert_eq!(packet.bytes, bytes);
                assert!(!packet.record.is_corrupted);
            }
        }
    }

    #[test]
    fn the_share_of_corrupted_packets_is_the_probability() {
        let n = 100_000;
        let bytes = tcp_packet(1, 2, 0x10, 8);
        for p in [0.0, 0.01, 0.3, 1.0] {
            let passed = pass(p, &bytes, n);
            let is_corrupted = |p: &&Packet| p.record.is_corrupted;
            let corrupted = passed.iter().filter(is_corrupted).count();
            assert!(
                passed
                    .iter()
                    .all(|p| p.record.is_corrupted == (p.bytes != bytes))
            );
            assert_binomial(corrupted, n, p);
        }
    }
}
