//! Helper for the tests in the parent folder: packet rows. Not a test itself.

use squall_base::record::{Direction, Fate, PacketClass, PacketRecord};
use squall_base::{Duration, Time};

/// Packet number `i` of a steady flow: 20 µs after the one before, with 25 ms delay; some are lost.
pub(crate) fn packet_number(i: u32) -> PacketRecord {
    let arrived = Time::from_nanos(u64::from(i) * 20_000);
    let lost = i.is_multiple_of(97);
    PacketRecord {
        hop: 1,
        index: u64::from(i),
        direction: Direction::Up,
        flow: 0,
        client_port: 40_000,
        class: PacketClass::Data,
        class_index: i,
        length: 1500,
        protocol: 6,
        seq: i.wrapping_mul(1448),
        ack: 1,
        payload_len: 1448,
        tcp_flags: 0x10,
        window_bytes: 1 << 20,
        arrived,
        queue_bytes: 0,
        queueing: Duration::ZERO,
        served: None,
        planned: (!lost).then_some(arrived + Duration::from_millis(25)),
        released: (!lost).then_some(arrived + Duration::from_micros(25_004)),
        fate: if lost {
            Fate::LossDrop
        } else {
            Fate::Delivered
        },
        dropped_in: 0,
        is_marked: false,
        is_corrupted: false,
        is_copy: false,
    }
}
