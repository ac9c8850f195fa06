//! Captures of every format are read back as they were written, and garbage results in an error or an early end.

// The helpers panic on the first surprise, as the tests themselves do.
#![allow(clippy::unwrap_used)]

use std::io::Cursor;

use proptest::prelude::*;
use squall_record::PcapngWriter;
use squall_record::capture::{
    CaptureEntry, CaptureError, CaptureNotes, CaptureReader, UnreadProtocol,
};

/// A minimal IPv4 packet of TCP; the reader looks only at its IP header.
const IP: [u8; 24] = [
    0x45, 0, 0, 24, 0, 0, 0, 0, 64, 6, 0, 0, 10, 0, 0, 1, 10, 0, 0, 2, 1, 2, 3, 4,
];

fn ethernet() -> Vec<u8> {
    [&[2; 12][..], &[0x08, 0x00], &IP].concat()
}

/// All entries, and whether the capture was truncated.
fn entries(bytes: &[u8]) -> Result<(Vec<CaptureEntry>, bool), CaptureError> {
    let mut reader = CaptureReader::new(Cursor::new(bytes))?;
    let mut entries = Vec::new();
    while let Some(entry) = reader.next_entry()? {
        entries.push(entry);
    }
    Ok((entries, reader.is_truncated()))
}

fn packet(time_unix_ns: u64) -> CaptureEntry {
    CaptureEntry::Packet {
        time_unix_ns,
        bytes: IP.to_vec(),
    }
}

fn pcapng() -> Vec<u8> {
    let mut writer = PcapngWriter::new(Vec::new(), "a test", &[("up", ""), ("down", "")]).unwrap();
    writer
        .packet(
            0,
            1_700_000_000_123_456_789,
            None,
            &ethernet(),
            Some("a comment"),
        )
        .unwrap();
    writer.secrets("CLIENT_RANDOM 00 11\n").unwrap();
    writer
        .packet(1, 1_700_000_001_000_000_000, None, &[0; 60], None)
        .unwrap();
    writer.finish().unwrap()
}

#[test]
fn our_own_pcapng_is_read_back() {
    let secrets = CaptureEntry::Secrets("CLIENT_RANDOM 00 11\n".to_owned());
    let expected = [
        packet(1_700_000_000_123_456_789),
        secrets,
        CaptureEntry::Other,
    ];
    let bytes = pcapng();
    assert_eq!(entries(&bytes).unwrap(), (expected.to_vec(), false));
    // A second section follows, as `mergecap -a` leaves it.
    let twice = [&bytes[..], &bytes].concat();
    assert_eq!(
        entries(&twice).unwrap().0,
        [expected.clone(), expected].concat()
    );
}

/// A big-endian pcapng block.
fn big_block(kind: u32, body: &[u8]) -> Vec<u8> {
    let length = (body.len() as u32 + 12).to_be_bytes();
    [&kind.to_be_bytes()[..], &length, body, &length].concat()
}

#[test]
fn big_endian_pcapng_in_microseconds_is_read() {
    let section = [
        &0x1A2B_3C4D_u32.to_be_bytes()[..],
        &[0, 1, 0, 0],
        &[0xff; 8],
    ]
    .concat();
    // LINKTYPE_RAW without options, so times are in microseconds.
    let interface = [0, 101, 0, 0, 0, 0, 0, 0];
    let time = 1_700_000_000_000_001_u64;
    let fields = [0, (time >> 32) as u32, time as u32, 24, 24]
        .map(u32::to_be_bytes)
        .concat();
    let bytes = [
        big_block(0x0A0D_0D0A, &section),
        big_block(1, &interface),
        big_block(6, &[&fields[..], &IP].concat()),
        big_block(0x0BAD, &[1, 2, 3, 4]),
    ]
    .concat();
    let (entries, is_truncated) = entries(&bytes).unwrap();
    assert_eq!((entries, is_truncated), (vec![packet(time * 1_000)], false));
}

/// A pcap file. Its magic number selects the time unit, and its byte order is the file's.
fn pcap(magic: u32, to_bytes: fn(u32) -> [u8; 4], link_type: u32, frame: &[u8]) -> Vec<u8> {
    let version = u32::from_ne_bytes([2, 0, 4, 0]);
    let length = frame.len() as u32;
    let header = [magic, version, 0, 0, 65_535, link_type]
        .map(to_bytes)
        .concat();
    let record = [7, 9, length, length].map(to_bytes).concat();
    [header, record, frame.to_vec()].concat()
}

#[test]
fn pcap_of_either_byte_order_and_time_unit_is_read() {
    for (magic, ns) in [(0xA1B2_C3D4, 7_000_009_000), (0xA1B2_3C4D, 7_000_000_009)] {
        for to_bytes in [u32::to_le_bytes, u32::to_be_bytes] {
            let bytes = pcap(magic, to_bytes, 1, &ethernet());
            assert_eq!(entries(&bytes).unwrap(), (vec![packet(ns)], false));
        }
    }
}

#[test]
fn truncated_capture_ends_early_and_is_reported() {
    for bytes in [
        pcapng(),
        pcap(0xA1B2_C3D4, u32::to_le_bytes, 1, &ethernet()),
    ] {
        let (whole, _) = entries(&bytes).unwrap();
        for length in 40..bytes.len() {
            if let Ok((entries, is_truncated)) = entries(&bytes[..length]) {
                assert!(whole.starts_with(&entries), "{length}");
                assert!(is_truncated || whole.len() > entries.len(), "{length}");
            }
        }
    }
}

fn notes(bytes: &[u8]) -> CaptureNotes {
    let mut reader = CaptureReader::new(Cursor::new(bytes)).unwrap();
    while reader.next_entry().unwrap().is_some() {}
    reader.notes().clone()
}

#[test]
fn shortened_frames_and_unread_protocols_are_noted() {
    let whole = pcap(0xA1B2_C3D4, u32::to_le_bytes, 1, &ethernet());
    assert_eq!(notes(&whole), CaptureNotes::default());
    let mut short = whole;
    // The original length of the only record.
    short[36..40].copy_from_slice(&1_500_u32.to_le_bytes());
    let seen = notes(&short);
    assert_eq!((seen.shortened, seen.shortened_to), (1, 38));
    let lldp = [&[2; 12][..], &[0x88, 0xCC], &[0; 46]].concat();
    let seen = notes(&pcap(0xA1B2_C3D4, u32::to_be_bytes, 1, &lldp));
    let lldp = UnreadProtocol::Named("LLDP");
    assert_eq!(seen.unread.get(&lldp), Some(&1));
}

#[test]
fn errors_about_unreadable_captures_say_what_to_do() {
    let said = |bytes: &[u8]| entries(bytes).unwrap_err().to_string();
    assert!(said(&[0x1f, 0x8b, 8, 0, 0]).contains("neither pcap nor pcapng"));
    let radio = pcap(0xA1B2_C3D4, u32::to_le_bytes, 127, &[0; 40]);
    assert!(said(&radio).contains("link type 127"));
    let mut long = pcap(0xA1B2_C3D4, u32::to_le_bytes, 1, &ethernet());
    long[32..36].copy_from_slice(&u32::MAX.to_le_bytes());
    assert!(said(&long).contains("byte 40: a block has an impossible length of 4294967295 bytes"));
    let mut stray = pcapng();
    let at = stray
        .windows(4)
        .position(|bytes| bytes == [6, 0, 0, 0])
        .unwrap();
    stray[at + 8] = 9;
    assert!(said(&stray).contains("interface 9"));
}

proptest! {
    #[test]
    fn damaged_captures_never_panic(at in 0_usize..300, byte: u8, length in 0_usize..400) {
        for mut bytes in [pcapng(), pcap(0xA1B2_C3D4, u32::to_le_bytes, 1, &ethernet())] {
            let at = at % bytes.len();
            bytes[at] = byte;
            bytes.truncate(length);
            let _ = entries(&bytes);
        }
    }
}
