//! Hostile peers of TLS and HTTP/3: the functions of fuzz/, driven with random bytes on stable Rust.

// `drive_secure` is public for the fuzz targets, which are a crate of their own.
#[allow(unreachable_pub)]
#[path = "../../../fuzz/src/drive_secure.rs"]
mod drive_secure;

use proptest::collection::vec;
use proptest::prelude::*;

/// Bytes that look like TLS records for a while.
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
    // Each case makes four engines with keys of their own.
    #![proptest_config(ProptestConfig::with_cases(300))]

    #[test]
    fn noise(input in vec(any::<u8>(), 0..400)) {
        drive_secure::tls_client(&input);
        drive_secure::tls_server(&input);
        drive_secure::h3_client(&input);
        drive_secure::h3_server(&input);
    }

    #[test]
    fn records_in_disorder(input in records()) {
        drive_secure::tls_client(&input);
        drive_secure::tls_server(&input);
    }

    /// The first byte 0 means: a real first flight, changed at some places.
    #[test]
    fn changed_first_flights(changes in vec(any::<u8>(), 0..30)) {
        let input: Vec<u8> = [vec![0], changes].concat();
        drive_secure::h3_server(&input);
    }
}
