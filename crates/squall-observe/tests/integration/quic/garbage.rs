//! Frames that no real peer sends, inside valid packet protection: runs the fuzz target's function on stable Rust.
//!
//! Unprotected garbage is in `../garbage.rs`.

use proptest::collection::vec;
use proptest::prelude::*;

use crate::{drive_observe, drive_quic};

/// Fragments of real conversations: QUIC frames that carry HTTP/3 frames.
const PIECES: &[&[u8]] = &[
    b"\x0a\x02\x07\x00\x04\x04\x01\x40\x64\x07\x00", // control stream with SETTINGS
    b"\x0a\x06\x04\x02\x3f\x45\xc0",                 // encoder stream
    b"\x0e\x06\x03\x04\x01a\x41b",
    b"\x0b\x00\x05\x01\x03\x00\x00\xd1", // a request: HEADERS, FIN
    b"\x0b\x00\x05\x01\x03\x02\x00\x80", // HEADERS that are blocked
    b"\x0b\x04\x07\x01\x03\x00\x00\xd9\x00\x00",
    b"\x0f\x00\x02\x03abc",
    b"\x0e\x00\x50\x00\x03abc",
    b"\x08\x00\x00\x07GARBAGE",
    b"\x04\x00\x10\x00",
    b"\x05\x00\x10",
    b"\x02\x03\x00\x00\x01",
    b"\x03\x03\x00\x01\x01\x01\x01\x01\x01\x01",
    b"\x18\x01\x00\x08abcdefgh0123456789abcdef",
    b"\x06\x00\x05\x01\x00\x00\x01\x00",
    b"\x1d\x00\x00",
    b"\x00\x00\x00",
    b"\x01",
];

fn piece() -> impl Strategy<Value = Vec<u8>> {
    prop_oneof![
        8 => proptest::sample::select(PIECES).prop_map(<[u8]>::to_vec),
        1 => vec(any::<u8>(), 0..40),
    ]
}

fn packet() -> impl Strategy<Value = Vec<u8>> {
    (any::<u8>(), vec(piece(), 0..5)).prop_map(|(how, pieces)| {
        let payload = pieces.concat();
        [&[how, payload.len() as u8][..], &payload].concat()
    })
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(500))]

    #[test]
    fn half_valid_frames_never_panic(first: u8, packets in vec(packet(), 0..20)) {
        let input = [vec![first], packets.concat()].concat();
        drive_observe::check(&drive_quic::quic_frames(&input));
    }

    #[test]
    fn random_bytes_never_panic(input in vec(any::<u8>(), 0..300)) {
        drive_observe::check(&drive_quic::quic_frames(&input));
    }
}
