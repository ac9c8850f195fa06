//! Helper for the tests in the parent folder: packet rows. Not a test itself.

use squall_base::record::{Direction, Fate, PacketRecord};
use squall_base::{Duration, Time};

/// Packet number `i` of a steady flow: 20 µs after the one before, with 25 ms delay; some are lost.
pub(crate) fn packet_number(i: u32) -> PacketRecord {
    let arrived = Time::from_nanos(u64::from(i) * 20_000);
    let lost = i.is_multiple_of(97);
    PacketRecord {
        index: u64::from(i),
        class_index: i,
        length: 1500,
        seq: i.wrapping_mul(1448),
        ack: 1,
        payload_len: 1448,
        planned: (!lost).then_some(arrived + Duration::from_millis(25)),
        released: (!lost).then_some(arrived + Duration::from_micros(25_004)),
        fate: if lost {
            Fate::LossDrop
        } else {
            Fate::Delivered
        },
        ..squall_made::packet(arrived, Direction::Up)
    }
}
