//! Packets come out as they went in, except for the changes that the link reports.

use proptest::prelude::*;
use squall_base::record::Direction;

use crate::drive::{Calls, drive};
use crate::traffic::{going, header_sum, traffic};
use crate::world::{self, link};

fn differing_bits(one: &[u8], other: &[u8]) -> u32 {
    one.iter()
        .zip(other)
        .map(|(a, b)| (a ^ b).count_ones())
        .sum()
}

/// `packet` with the ECN field and the header checksum of `marked`.
fn with_mark_of(packet: &[u8], marked: &[u8]) -> Vec<u8> {
    let mut packet = packet.to_vec();
    packet[1] = packet[1] & 0b1111_1100 | marked[1] & 0b11;
    packet[10..12].copy_from_slice(&marked[10..12]);
    packet
}

proptest! {
    #[test]
    fn packets_are_altered_only_as_their_records_say(settings in link(), arrivals in traffic()) {
        for taken in drive(&settings, &arrivals, &Calls::WhenDue).departed {
            let record = taken.record;
            let sent = &going(&arrivals, record.direction)[record.index as usize].packet;
            prop_assert_eq!(taken.packet.len(), sent.len());
            let expected = if record.is_marked {
                prop_assert_eq!(taken.packet[1] & 0b11, 0b11, "congestion experienced");
                prop_assert_ne!(sent[1] & 0b11, 0, "an incapable packet was marked");
                with_mark_of(sent, &taken.packet)
            } else {
                sent.clone()
            };
            let flipped = differing_bits(&expected, &taken.packet) as usize;
            // Each stretch flips at most one bit of a packet.
            let most = if record.is_corrupted { settings.stretches.len() } else { 0 };
            prop_assert!(flipped <= most, "{} bits of {:?}", flipped, record);
        }
    }

    #[test]
    fn corruption_flips_exactly_one_bit_after_the_header(
        settings in world::one_stretch(world::lane()), arrivals in traffic()
    ) {
        for taken in drive(&settings, &arrivals, &Calls::WhenDue).departed {
            let record = taken.record;
            let sent = &going(&arrivals, record.direction)[record.index as usize].packet;
            let (before, after) = (&sent[sent.len().min(20)..], &taken.packet[sent.len().min(20)..]);
            prop_assert_eq!(differing_bits(before, after), u32::from(record.is_corrupted));
        }
    }

    #[test]
    fn marks_keep_checksums_correct(settings in link(), arrivals in traffic()) {
        for taken in drive(&settings, &arrivals, &Calls::WhenDue).departed {
            let sent = &going(&arrivals, taken.record.direction)[taken.record.index as usize].packet;
            if taken.record.is_marked && header_sum(sent) == 0xffff {
                prop_assert_eq!(header_sum(&taken.packet), 0xffff);
            }
        }
    }
}

#[test]
fn both_directions_count_their_own_packets() {
    let arrivals: Vec<_> = Direction::ALL
        .into_iter()
        .map(|direction| crate::traffic::Arrival {
            at: crate::traffic::START,
            direction,
            packet: crate::traffic::opening(0),
        })
        .collect();
    let settings = squall_link::LinkSettings::symmetric(squall_link::LaneSettings::default(), 1);
    let outcome = drive(&settings, &arrivals, &Calls::WhenDue);
    assert!(outcome.departed.iter().all(|taken| taken.record.index == 0));
}
