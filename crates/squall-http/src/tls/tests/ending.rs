//! How connections end: announced, truncated, or with input that is not TLS.

use proptest::prelude::*;
use squall_base::plan::{TlsSettings, TlsVersion};
use squall_base::time::Time;

use super::*;

#[test]
fn an_end_is_truncation_unless_it_was_announced() {
    for version in BOTH {
        let (mut client, mut server) = secured_pair(&only(version));
        client.encrypt(b"last", Time::ZERO);
        client.close_notify();
        client.close_notify();
        assert_eq!(client.encrypt(b"more", Time::ZERO), 0);
        let got = carry(&mut client, &mut server, 7).unwrap();
        assert_eq!(got[0].bytes, b"last");
        assert!(server.received_close_notify());
        assert_eq!(server.receive_end(), Ok(()));
        assert_eq!(server.receive(b"ignored", |_, _| {}), Ok(()));
        // The other direction stays open.
        let got = send(&mut server, &mut client, b"answer", Time::ZERO);
        assert_eq!(got[0].bytes, b"answer");
        assert!(!client.received_close_notify());
        assert_eq!(client.receive_end(), Err(TlsError::Truncated));
        assert_eq!(client.receive(b"more", |_, _| {}), Err(TlsError::Truncated));
    }
    let (mut client, mut server) = pair(&TlsSettings::default());
    client.close_notify();
    assert_eq!(client.receive_end(), Err(TlsError::Truncated));
    assert_eq!(server.receive_end(), Err(TlsError::Truncated));
}

#[test]
fn peers_that_do_not_speak_tls_are_recognised() {
    let (mut client, mut server) = pair(&TlsSettings::default());
    let request = b"GET / HTTP/1.1\r\nhost: server.test\r\n\r\n";
    assert_eq!(server.receive(request, |_, _| {}), Err(TlsError::NotTls));
    let response = b"HTTP/1.1 400 Bad Request\r\n\r\n";
    assert_eq!(client.receive(response, |_, _| {}), Err(TlsError::NotTls));
    // A hello of SSL 2.0, whose first bytes cannot be a header of anything else.
    let (_client, mut server) = pair(&TlsSettings::default());
    let hello = [0x80, 0x2e, 1, 3, 1, 0, 0x15, 0, 0, 0, 0x10];
    assert_eq!(server.receive(&hello, |_, _| {}), Err(TlsError::NotTls));
}

#[test]
fn a_record_that_is_too_long_is_refused_at_its_header() {
    let (mut client, mut server) = secured_pair(&only(TlsVersion::Tls13));
    assert_eq!(
        server.receive(&[23, 3, 3, 0xff, 0xff], |_, _| {}),
        Err(TlsError::RecordTooLong)
    );
    // The alert record_overflow is the last output.
    assert_eq!(
        carry(&mut server, &mut client, usize::MAX),
        Err(TlsError::Alert(Alert(22)))
    );
}

#[test]
fn endless_handshake_messages_are_refused() {
    let (_client, mut server) = pair(&TlsSettings::default());
    // A ClientHello of 16 MiB, in records of 16 KiB.
    let mut record = vec![22, 3, 1, 0x40, 0, 1, 0xff, 0xff, 0xff];
    record.resize(5 + 16_384, 0);
    let error = (0..100).find_map(|_| server.receive(&record, |_, _| {}).err());
    assert!(matches!(error, Some(TlsError::Protocol(_))), "{error:?}");
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    #[test]
    fn bits_flipped_in_transit_cause_an_error_not_a_panic(at: prop::sample::Index, bit in 0_u8..8, is_tls13: bool) {
        let version = if is_tls13 { TlsVersion::Tls13 } else { TlsVersion::Tls12 };
        let (mut client, mut server) = secured_pair(&only(version));
        client.encrypt(&[7; 40_000], Time::ZERO);
        let mut wire = client.output().to_vec();
        let at = at.index(wire.len());
        wire[at] ^= 1 << bit;
        let mut good = 0;
        let received = server.receive(&wire, |_, record| {
            assert!(record.bytes.iter().all(|byte| *byte == 7));
            good += record.bytes.len();
        });
        // With a longer length, the last record stays incomplete.
        prop_assert!(received.is_err() || server.receive_end() == Err(TlsError::Truncated));
        prop_assert!(good < 40_000);
        prop_assert_eq!(server.encrypt(b"more", Time::ZERO), 0);
        prop_assert!(server.receive(&wire, |_, _| panic!("after an error")).is_err());
    }

    #[test]
    fn garbage_causes_an_error_not_a_panic(garbage: Vec<u8>, piece in 1_usize..40) {
        let (mut client, mut server) = pair(&TlsSettings::default());
        for session in [&mut client, &mut server] {
            for piece in garbage.chunks(piece) {
                let _ = session.receive(piece, |_, _| panic!("plaintext of garbage"));
            }
            prop_assert!(session.receive_end().is_err());
            prop_assert!(!session.is_secured());
        }
    }

    #[test]
    fn a_modified_handshake_never_panics(flight in 0_usize..3, at: prop::sample::Index, byte: u8, is_tls13: bool) {
        let version = if is_tls13 { TlsVersion::Tls13 } else { TlsVersion::Tls12 };
        let (mut client, mut server) = pair(&only(version));
        for number in 0..4 {
            let (from, to) = if number % 2 == 0 {
                (&mut client, &mut server)
            } else {
                (&mut server, &mut client)
            };
            let mut wire = from.output().to_vec();
            from.advance_output(wire.len());
            if number == flight {
                let at = at.index(wire.len());
                wire[at] ^= byte;
            }
            if to.receive(&wire, |_, _| {}).is_err() {
                prop_assert!(number >= flight);
                break;
            }
        }
    }
}
