//! Plaintext in records: record sizes, positions on the wire, and what counts as written.

use proptest::prelude::*;
use squall_base::plan::{RecordSizes, TlsVersion};
use squall_base::quantity::Bytes;
use squall_base::record::Way;
use squall_base::time::{Duration, Time};

use super::*;

/// The payload lengths of the records on the wire.
fn wire_lengths(mut wire: &[u8]) -> Vec<usize> {
    let mut lengths = Vec::new();
    while let [_, _, _, high, low, rest @ ..] = wire {
        let len = usize::from(u16::from_be_bytes([*high, *low]));
        lengths.push(len);
        wire = &rest[len..];
    }
    lengths
}

#[test]
fn records_have_exactly_the_configured_size() {
    for version in BOTH {
        for size in [16_384, 4_096, 1_300, 1] {
            let records = RecordSizes::Fixed(Bytes::new(size));
            let (mut client, mut server) = secured_pair(&with_records(version, records));
            let size = size as usize;
            let plain = vec![1; 3 * size + size / 2];
            assert_eq!(client.encrypt(&plain, Time::ZERO), plain.len());
            // Content type and tag in TLS 1.3 (RFC 8446, section 5.2), explicit nonce and tag in TLS 1.2 (RFC 5288).
            let overhead = if version == TlsVersion::Tls13 { 17 } else { 24 };
            let mut expected = vec![size + overhead; 3];
            expected.extend((size > 1).then_some(size / 2 + overhead));
            assert_eq!(wire_lengths(client.output()), expected);
            carry(&mut client, &mut server, usize::MAX).unwrap();
        }
    }
}

#[test]
fn records_are_small_until_warm_and_again_after_idling() {
    let records = RecordSizes::Dynamic {
        small: Bytes::new(1_300),
        warmup: Bytes::new(4_000),
        idle: Duration::from_secs(1),
    };
    let (mut client, mut server) = secured_pair(&with_records(TlsVersion::Tls13, records));
    let start = Time::from_nanos(5_000_000_000);
    let mut sent = |len: usize, now| lengths(&send(&mut client, &mut server, &vec![0; len], now));
    // Four times 1,300 is the first multiple that is at least 4,000.
    assert_eq!(
        sent(40_000, start),
        [1_300, 1_300, 1_300, 1_300, 16_384, 16_384, 2_032]
    );
    let later = start + Duration::from_secs(1);
    assert_eq!(sent(2_000, later), [2_000]);
    let idle = later + Duration::from_nanos(1_000_000_001);
    assert_eq!(sent(2_000, idle), [1_300, 700]);
    assert_eq!(sent(2_000, idle), [1_300, 700]);
    assert_eq!(sent(2_000, idle), [2_000]);
}

#[test]
fn waiting_for_the_socket_is_not_idling() {
    let records = RecordSizes::Dynamic {
        small: Bytes::new(1_000),
        warmup: Bytes::new(1_000),
        idle: Duration::from_secs(1),
    };
    let (mut client, mut server) = secured_pair(&with_records(TlsVersion::Tls13, records));
    let plain = vec![0; 200_000];
    let taken = client.encrypt(&plain, Time::ZERO);
    assert!(taken < plain.len());
    assert_eq!(client.encrypt(&plain[taken..], Time::ZERO), 0);
    let got = carry(&mut client, &mut server, usize::MAX).unwrap();
    assert_eq!(got[0].bytes.len(), 1_000);
    let much_later = Time::ZERO + Duration::from_secs(60);
    client.encrypt(&plain[taken..], much_later);
    let got = carry(&mut client, &mut server, usize::MAX).unwrap();
    assert_eq!(got[0].bytes.len(), 16_384);
}

#[test]
fn output_is_bounded_and_counted_in_whole_records() {
    let (mut client, _server) = secured_pair(&only(TlsVersion::Tls13));
    let plain = vec![0; 1_000_000];
    let taken = client.encrypt(&plain, Time::ZERO);
    assert_eq!(taken, 4 * 16_384);
    let record = 5 + 16_384 + 17;
    assert_eq!(client.output().len(), 4 * record);
    assert_eq!(client.advance_output(record - 1), 0);
    assert_eq!(client.plain_written(), 0);
    assert_eq!(client.advance_output(1), 16_384);
    assert_eq!(client.advance_output(2 * record + 1), 2 * 16_384);
    assert_eq!(client.plain_written(), 3 * 16_384);
    assert_eq!(client.advance_output(usize::MAX), 16_384);
    assert!(client.output().is_empty());
}

#[test]
fn both_sides_locate_every_byte_in_the_same_record() {
    for version in BOTH {
        let records = RecordSizes::Fixed(Bytes::new(1_000));
        let (mut client, mut server) = secured_pair(&with_records(version, records));
        for len in [10, 2_500, 1] {
            send(&mut client, &mut server, &vec![0; len], Time::ZERO);
            // The server's first record follows its tickets.
            send(&mut server, &mut client, &vec![0; len], Time::ZERO);
        }
        for (from, to) in [(&client, &server), (&server, &client)] {
            let mut wire_end = 0;
            for offset in 0..2_511 {
                let sent = from.locate(Way::Sent, offset).unwrap();
                assert_eq!(to.locate(Way::Received, offset).as_ref(), Some(&sent));
                let record = [0, 10, 1_010, 2_010, 2_510, u64::MAX]
                    .partition_point(|start| *start <= offset);
                assert_eq!(sent.record, record as u64 - 1);
                assert!(sent.wire.end >= wire_end);
                wire_end = sent.wire.end;
            }
            assert_eq!(from.locate(Way::Sent, 2_511), None);
            assert_eq!(to.locate(Way::Received, 2_511), None);
        }
        client.forget_before(Way::Sent, 1_010);
        assert_eq!(client.locate(Way::Sent, 1_009), None);
        assert_eq!(client.locate(Way::Sent, 1_010).unwrap().record, 2);
        client.encrypt(b"not yet written", Time::ZERO);
        client.forget_before(Way::Sent, u64::MAX);
        assert_eq!(client.locate(Way::Sent, 2_511).unwrap().record, 5);
    }
}

#[test]
fn ten_megabytes_are_transferred_each_way() {
    for version in BOTH {
        let (mut client, mut server) = secured_pair(&only(version));
        let plain: Vec<u8> = (0..10_000_000_u32).map(|at| (at / 7) as u8).collect();
        for _ in 0..2 {
            let mut at = 0;
            for got in send(&mut client, &mut server, &plain, Time::ZERO) {
                assert_eq!(got.bytes, plain[at..at + got.bytes.len()]);
                at += got.bytes.len();
            }
            assert_eq!(at, plain.len());
            assert_eq!(client.plain_written(), plain.len() as u64);
            std::mem::swap(&mut client, &mut server);
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    #[test]
    fn input_may_arrive_in_pieces_of_any_size(
        piece in 1_usize..2_000,
        size in 1_u64..3_000,
        len in 1_usize..20_000,
        is_tls13: bool,
    ) {
        let version = if is_tls13 { TlsVersion::Tls13 } else { TlsVersion::Tls12 };
        let settings = with_records(version, RecordSizes::Fixed(Bytes::new(size)));
        let (mut client, mut server) = pair(&settings);
        shake(&mut client, &mut server, piece).unwrap();
        let plain: Vec<u8> = (0..len).map(|at| at as u8).collect();
        for _ in 0..2 {
            let (from, to) = (&mut client, &mut server);
            let mut got = Vec::new();
            let mut rest = &plain[..];
            while !rest.is_empty() {
                rest = &rest[from.encrypt(rest, Time::ZERO)..];
                got.extend(carry(from, to, piece).unwrap());
            }
            let bytes: Vec<u8> = got.iter().flat_map(|got| got.bytes.clone()).collect();
            prop_assert_eq!(&bytes, &plain);
            prop_assert_eq!(from.plain_written(), len as u64);
            for (number, got) in got.iter().enumerate() {
                prop_assert_eq!(got.place.record, number as u64);
                prop_assert_eq!(got.start, number as u64 * size);
            }
            std::mem::swap(&mut client, &mut server);
        }
    }
}
