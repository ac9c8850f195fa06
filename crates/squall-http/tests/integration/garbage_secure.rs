//! Hostile peers of TLS and HTTP/3: runs the functions of fuzz/ on random bytes, on stable Rust.

use proptest::collection::vec;
use proptest::prelude::*;

use crate::{drive_h3, drive_secure};

/// Bytes that pass for TLS records for a while.
fn records() -> impl Strategy<Value = Vec<u8>> {
    let record =
        (20_u8..24, 0_u8..5, vec(any::<u8>(), 0..60)).prop_map(|(kind, minor, payload)| {
            let mut record = vec![kind, 3, minor, 0, payload.len() as u8];
            record.extend(payload);
            record
        });
    (any::<u8>(), vec(record, 0..10)).prop_map(|(first, records)| {
        let mut bytes = vec![first];
        bytes.extend(records.concat());
        bytes
    })
}

proptest! {
    // Each case creates four engines with separate keys.
    #![proptest_config(ProptestConfig::with_cases(300))]

    #[test]
    fn random_bytes_never_panic(input in vec(any::<u8>(), 0..400)) {
        drive_secure::tls_client(&input);
        drive_secure::tls_server(&input);
        drive_secure::h3_client(&input);
        drive_secure::h3_server(&input);
    }

    #[test]
    fn plausible_tls_records_in_any_order_never_panic(input in records()) {
        drive_secure::tls_client(&input);
        drive_secure::tls_server(&input);
    }

    /// A first byte of 0 means a real first flight, modified in some places.
    #[test]
    fn modified_first_flights_never_panic(changes in vec(any::<u8>(), 0..30)) {
        let input: Vec<u8> = [vec![0], changes].concat();
        drive_secure::h3_server(&input);
    }
}

/// A step of `drive_h3`: half of them are plausible, in QPACK where needed.
fn step() -> impl Strategy<Value = Vec<u8>> {
    let payload = prop_oneof![
        Just(vec![]),
        // `content-length: 0`, and `x: y`, in QPACK.
        Just(vec![0xc4]),
        Just(vec![0x21, b'x', 1, b'y']),
        // GOAWAY for streams from 4 on.
        Just(vec![7, 4]),
        vec(any::<u8>(), 0..60),
    ];
    (any::<u8>(), payload).prop_map(|(how, payload)| {
        let mut step = vec![how, payload.len() as u8];
        step.extend(payload);
        step
    })
}

proptest! {
    // Each case performs two handshakes.
    #![proptest_config(ProptestConfig::with_cases(400))]

    #[test]
    fn plausible_stream_data_in_any_order_never_panics(first: u8, steps in vec(step(), 0..25)) {
        let input = [vec![first], steps.concat()].concat();
        drive_h3::h3_client_streams(&input);
        drive_h3::h3_server_streams(&input);
    }
}
