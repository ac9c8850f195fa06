//! Connections of hand-made packets: key updates, QPACK's dynamic table, late secrets, hostile peers.
//!
//! `drive_quic` builds and protects the packets.

use squall_base::record::{Direction, FrameLayer, Side};
use squall_observe::{Ending, OpaqueReason};

use super::link;
use crate::drive_quic::Sealed;

/// A request `GET /` on stream `4 * place`, and its response with status 200.
fn exchange(sealed: &mut Sealed, place: u8) {
    let stream = 4 * place;
    sealed.send(Direction::Up, &[0x0b, stream, 6, 1, 4, 0, 0, 0xd1, 0xc1]);
    sealed.send(Direction::Down, &[0x0b, stream, 5, 1, 3, 0, 0, 0xd9]);
}

fn streams(rows: &squall_observe::Observations, side: Side) -> Vec<(u64, Option<u16>)> {
    let exchanges = link::exchanges(rows, side).into_iter();
    exchanges.map(|row| (row.stream, row.status)).collect()
}

#[test]
fn packets_are_read_after_key_updates_by_either_side() {
    let mut sealed = Sealed::new(false);
    exchange(&mut sealed, 0);
    sealed.sealers[0].update();
    exchange(&mut sealed, 1);
    sealed.sealers[1].update();
    // Protected before the next update, and overtaken by later packets.
    let late = sealed.sealers[0].short(Direction::Up, &[0x0b, 8, 6, 1, 4, 0, 0, 0xd1, 0xc1]);
    sealed.sealers[0].update();
    exchange(&mut sealed, 3);
    sealed.see(Direction::Up, &late, false);
    sealed.send(Direction::Down, &[0x0b, 8, 5, 1, 3, 0, 0, 0xd9]);
    sealed.sealers[0].update();
    exchange(&mut sealed, 4);
    let rows = sealed.finish();
    let expected = [0, 4, 8, 12, 16].map(|stream| (stream, Some(200)));
    assert_eq!(streams(&rows, Side::Client), expected);
    assert_eq!(streams(&rows, Side::Server), expected);
}

#[test]
fn blocked_section_waits_for_its_entry() {
    let mut sealed = Sealed::new(false);
    // Both sides' SETTINGS allow a table of 100 bytes.
    for (direction, control) in [(Direction::Up, 2), (Direction::Down, 3)] {
        let settings = [0x0a, control, 6, 0x00, 0x04, 0x03, 0x01, 0x40, 0x64];
        sealed.send(direction, &settings);
    }
    exchange(&mut sealed, 0);
    // :status 207 as an entry of the dynamic table, whose insertion arrives after the section.
    sealed.send(Direction::Up, &[0x0b, 4, 6, 1, 4, 0, 0, 0xd1, 0xc1]);
    sealed.send(Direction::Down, &[0x0b, 4, 5, 1, 3, 2, 0, 0x80]);
    let mut insert = vec![0x0a, 7, 10, 0x02, 0x3f, 0x45, 0xd9, 0x03];
    insert.extend(b"207");
    insert[2] = (insert.len() - 3) as u8;
    sealed.send(Direction::Down, &insert);
    let rows = sealed.finish();
    let expected = [(0, Some(200)), (4, Some(207))];
    assert_eq!(streams(&rows, Side::Client), expected);
    assert_eq!(streams(&rows, Side::Server), expected);
}

#[test]
fn secrets_may_come_after_the_packets() {
    let mut sealed = Sealed::new(true);
    exchange(&mut sealed, 0);
    sealed.tell_secrets();
    exchange(&mut sealed, 1);
    let rows = sealed.finish();
    let expected = [(0, Some(200)), (4, Some(200))];
    assert_eq!(streams(&rows, Side::Client), expected);
    let connection = link::connection(&rows, Side::Client);
    assert_eq!(connection.opaque, None);
}

#[test]
fn connection_whose_secrets_never_come_is_given_up() {
    let mut sealed = Sealed::new(true);
    for _ in 0..5_000 {
        sealed.send(Direction::Up, &[0; 1_200]);
    }
    let rows = sealed.finish();
    let connection = link::connection(&rows, Side::Client);
    assert_eq!(connection.opaque, Some(OpaqueReason::NoKeys));
    assert_eq!(connection.from_client.packets, 5_001);
}

#[test]
fn datagrams_captured_as_one_are_split() {
    let mut sealed = Sealed::new(false);
    for segment_bytes in [1_350, 1_200] {
        let mut super_packet = Vec::new();
        for _ in 0..4 {
            // A short header with its number and the AEAD tag take 27 bytes.
            let padding = vec![0; segment_bytes - 27];
            super_packet.extend(sealed.sealers[0].short(Direction::Up, &padding));
        }
        super_packet.extend(sealed.sealers[0].short(Direction::Up, &[0x01]));
        sealed.see(Direction::Up, &super_packet, false);
    }
    let rows = sealed.finish();
    let frames = link::frames(&rows, Side::Server, FrameLayer::Quic);
    let packets: Vec<u64> = frames.iter().filter_map(|frame| frame.packet).collect();
    assert!(
        (0..10).all(|number| packets.contains(&number)),
        "{packets:?}"
    );
    let pings = frames.iter().filter(|frame| frame.kind == 0x01);
    assert_eq!(pings.count(), 2);
}

#[test]
fn datagram_captured_with_a_shorter_one_is_split() {
    let mut sealed = Sealed::new(false);
    sealed.send(Direction::Up, &[0x01]);
    let mut both = sealed.sealers[0].short(Direction::Up, &[0; 1_200]);
    both.extend(sealed.sealers[0].short(Direction::Up, &[0x01]));
    sealed.see(Direction::Up, &both, false);
    let rows = sealed.finish();
    let frames = link::frames(&rows, Side::Server, FrameLayer::Quic);
    let pings = frames.iter().filter(|frame| frame.kind == 0x01);
    assert_eq!(pings.count(), 2);
}

#[test]
fn a_duplicate_packet_has_no_rows() {
    let mut sealed = Sealed::new(false);
    exchange(&mut sealed, 0);
    let packet = sealed.sealers[0].short(Direction::Up, &[0x01]);
    sealed.see(Direction::Up, &packet, false);
    sealed.see(Direction::Up, &packet, false);
    let rows = sealed.finish();
    let pings = link::frames(&rows, Side::Server, FrameLayer::Quic);
    let pings = pings.iter().filter(|frame| frame.kind == 0x01);
    assert_eq!(pings.count(), 1);
}

#[test]
fn a_reset_ends_an_exchange_unless_the_server_asked_for_it() {
    let mut sealed = Sealed::new(false);
    sealed.send(Direction::Up, &[0x0a, 0, 6, 1, 4, 0, 0, 0xd1, 0xc1]);
    // STOP_SENDING with H3_NO_ERROR, RESET_STREAM, and the response nevertheless.
    sealed.send(Direction::Down, &[0x05, 0, 0x41, 0x00]);
    sealed.send(Direction::Up, &[0x04, 0, 0x41, 0x00, 6]);
    sealed.send(Direction::Down, &[0x0b, 0, 5, 1, 3, 0, 0, 0xd9]);
    // RESET_STREAM with H3_REQUEST_CANCELLED.
    sealed.send(Direction::Up, &[0x0a, 4, 6, 1, 4, 0, 0, 0xd1, 0xc1]);
    sealed.send(Direction::Up, &[0x04, 4, 0x41, 0x0c, 6]);
    let rows = sealed.finish();
    let exchanges = link::exchanges(&rows, Side::Server).into_iter();
    let short: Vec<_> = exchanges
        .map(|row| (row.stream, row.status, row.reset))
        .collect();
    assert_eq!(short, [(0, Some(200), None), (4, None, Some(0x10c))]);
}

#[test]
fn packets_after_connection_close_are_not_read() {
    let mut sealed = Sealed::new(false);
    exchange(&mut sealed, 0);
    sealed.send(Direction::Up, &[0x0b, 4, 6, 1, 4, 0, 0, 0xd1, 0xc1]);
    sealed.send(Direction::Up, &[0x1d, 0x41, 0x00, 0]);
    exchange(&mut sealed, 2);
    let rows = sealed.finish();
    assert_eq!(streams(&rows, Side::Server), [(0, Some(200)), (4, None)]);
    let connection = link::connection(&rows, Side::Server);
    assert_eq!(connection.ending, Ending::Closed);
}

#[test]
fn streams_with_gaps_take_bounded_memory() {
    let mut sealed = Sealed::new(false);
    for stream in 0..60_u8 {
        // Far beyond the first byte of each stream, which never arrives.
        let mut payload = vec![0x0c, 4 * (stream % 16), 0x80, 1, stream, 0];
        payload.extend([0; 1_200]);
        sealed.send(Direction::Up, &payload);
    }
    let rows = sealed.finish();
    let connection = link::connection(&rows, Side::Client);
    assert_eq!(connection.from_client.early_segments, 60);
    assert_eq!(rows.exchanges, []);
}
