//! Hostile packets: runs the fuzz target's function on random and half-valid bytes, on stable Rust.
//!
//! QUIC frames inside packet protection have their own test, `quic/garbage.rs`.

use proptest::collection::vec;
use proptest::prelude::*;

use crate::drive_observe;

/// Fragments of real conversations.
const PIECES: &[&[u8]] = &[
    b"GET / HTTP/1.1\r\nhost: a\r\n\r\n",
    b"POST / HTTP/1.1\r\nhost: a\r\ncontent-length: 4\r\n\r\n",
    b"HTTP/1.1 200 OK\r\ncontent-length: 4\r\n\r\n",
    b"HTTP/1.1 101 \r\nconnection: upgrade\r\nupgrade: h2c\r\n\r\n",
    b"HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n",
    b"abcd",
    b"0\r\n\r\n",
    b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n",
    b"\x00\x00\x00\x04\x00\x00\x00\x00\x00",
    b"\x00\x00\x01\x01\x05\x00\x00\x00\x01\x82",
    b"\x00\x00\x01\x01\x04\x00\x00\x00\x01\x88",
    b"\x00\x00\x01\x01\x00\x00\x00\x00\x03\x82",
    b"\x00\x00\x04\x00\x09\x00\x00\x00\x01\x02abc",
    b"\x00\x00\x04\x03\x00\x00\x00\x00\x01\x00\x00\x00\x08",
    b"\x00\x00\x08\x07\x00\x00\x00\x00\x00\x00\x00\x00\x01\x00\x00\x00\x00",
    b"\x16\x03\x01\x00\x2f\x01\x00\x00\x2b\x03\x03\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\x00\x00\x02\xc0\x2b\x01\x00",
    b"\x16\x03\x03\x00\x2a\x02\x00\x00\x26\x03\x03\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\x00\xc0\x2b\x00",
    b"\x14\x03\x03\x00\x01\x01",
    b"\x17\x03\x03\x00\x20\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0",
    b"\x15\x03\x03\x00\x02\x01\x00",
];

/// A packet in the input format of `observe_packets`; usually a segment in order.
fn packet() -> impl Strategy<Value = Vec<u8>> {
    let how = prop_oneof![
        6 => (0..2_u8).prop_map(|direction| direction | 7 << 2),
        2 => any::<u8>().prop_map(|how| how & !2),
        1 => any::<u8>(),
    ];
    let payload = prop_oneof![
        8 => proptest::sample::select(PIECES).prop_map(<[u8]>::to_vec),
        1 => vec(any::<u8>(), 0..60),
    ];
    (how, any::<u8>(), payload)
        .prop_map(|(how, step, payload)| [&[how, step, payload.len() as u8][..], &payload].concat())
}

/// A line of a key log, valid or not.
fn line() -> impl Strategy<Value = String> {
    let label = proptest::sample::select(
        &[
            "CLIENT_RANDOM",
            "SERVER_TRAFFIC_SECRET_0",
            "EXPORTER_SECRET",
            "#",
            "",
        ][..],
    );
    let random = prop_oneof!["[0-9a-f]{64}", "[+0-9a-fA-F]{0,70}", "\\PC{0,64}"];
    let secret = prop_oneof!["[0-9a-f]{96}", "[+0-9a-f]{0,140}"];
    (label, random, secret).prop_map(|(label, random, secret)| format!("{label} {random} {secret}"))
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(2000))]

    #[test]
    fn half_valid_packets_never_panic(packets in vec(packet(), 0..40), with_syn: bool) {
        let syn = if with_syn { &[0, 0, 0, 5, 0, 0][..] } else { &[] };
        drive_observe::observe_packets(&[syn, &packets.concat()].concat());
    }

    #[test]
    fn half_valid_key_logs_never_panic(lines in vec(line(), 0..20), noise in vec(any::<u8>(), 0..20)) {
        drive_observe::key_log(&[lines.join("\n").into_bytes(), noise].concat());
    }

    #[test]
    fn random_packets_never_panic(input in vec(any::<u8>(), 0..300)) {
        drive_observe::observe_packets(&input);
    }
}
