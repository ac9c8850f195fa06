//! Feeds the splitting and joining of super-packets what a hostile driver could pass.
//!
//! The first bytes of an input are the driver's header, the rest is the packet. Nothing may panic, and packets that
//! were split and joined must split to the same packets again.

use squall_linux::offload::join::PacketRun;
use squall_linux::offload::split::{WirePackets, split};
use squall_linux::offload::{VIRTIO_HEADER_BYTES, VirtioHeader};

/// More packets than a run ever has.
const PACKETS: usize = 200;

/// What a device passes: header and packet.
pub fn link_offload(input: &[u8]) {
    let Some((header, packet)) = input.split_first_chunk::<VIRTIO_HEADER_BYTES>() else {
        return;
    };
    let Ok(wire_packets) = split(VirtioHeader::from_bytes(*header), packet) else {
        return;
    };
    let packets = taken(wire_packets);
    assert!(packets.iter().all(|one| one.len() <= packet.len()));
    let Some(mut run) = packets.first().and_then(|first| PacketRun::begin(first)) else {
        return;
    };
    let more = packets[1..]
        .iter()
        .take_while(|packet| run.add(packet))
        .count();
    let (header, headers) = run.headers();
    let mut joined = headers.as_ref().to_vec();
    for packet in &packets[..=more] {
        joined.extend_from_slice(&packet[run.headers_len()..]);
    }
    let again = taken(split(header, &joined).expect("what was joined can be split"));
    assert!(again == packets[..=more], "the same packets come out again");
}

fn taken(mut wire_packets: WirePackets<'_>) -> Vec<Vec<u8>> {
    let mut packets = Vec::new();
    let mut next = Vec::new();
    while packets.len() < PACKETS && wire_packets.next_into(&mut next) {
        packets.push(next.clone());
    }
    packets
}
