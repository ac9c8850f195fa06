//! The examples of RFC 9204, appendix B, in sequence, and input that a hostile encoder may send.

use proptest::collection::vec;
use proptest::prelude::*;

use super::*;

fn fields(decoder: &Decoder, block: &[u8]) -> Result<Vec<(String, String)>, QpackError> {
    let mut fields = Vec::new();
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    let section = decoder.section(block, |name, value| fields.push((text(name), text(value))))?;
    assert_eq!(section, SectionOutcome::Decoded);
    Ok(fields)
}

fn field(name: &str, value: &str) -> (String, String) {
    (name.to_owned(), value.to_owned())
}

#[test]
fn the_examples_of_rfc_9204_decode() {
    let mut decoder = Decoder::default();
    decoder.set_limit(220);
    // B.1: a literal with a name of the static table.
    let block = b"\x00\x00\x51\x0b/index.html";
    assert_eq!(
        fields(&decoder, block),
        Ok(vec![field(":path", "/index.html")])
    );
    // B.2: two insertions, and a section that refers to both by post-base index.
    let block = [0x03, 0x81, 0x10, 0x11];
    assert_eq!(
        decoder.section(&block, |_, _| ()),
        Ok(SectionOutcome::Blocked)
    );
    let inserts = b"\x3f\xbd\x01\xc0\x0fwww.example.com\xc1\x0c/sample/path";
    decoder.instructions(inserts).unwrap();
    assert_eq!(
        fields(&decoder, &block),
        Ok(vec![
            field(":authority", "www.example.com"),
            field(":path", "/sample/path")
        ])
    );
    // B.3: an insertion with a literal name.
    decoder
        .instructions(b"\x4a\x63ustom-key\x0ccustom-value")
        .unwrap();
    // B.4: a duplicate, and a section with an index of each kind.
    decoder.instructions(&[0x02]).unwrap();
    assert_eq!(
        fields(&decoder, &[0x05, 0x00, 0x80, 0xc1, 0x81]),
        Ok(vec![
            field(":authority", "www.example.com"),
            field(":path", "/"),
            field("custom-key", "custom-value")
        ])
    );
    // B.5: an insertion that evicts the oldest entry.
    decoder.instructions(b"\x81\x0dcustom-value2").unwrap();
    assert_eq!(decoder.table.inserted(), 5);
    assert!(decoder.table.get(0).is_none() && decoder.table.get(1).is_some());
    let newest = decoder.table.relative_to_newest(0).unwrap();
    assert_eq!(newest.1, b"custom-value2");
}

#[test]
fn a_huffman_coded_string_decodes() {
    // ":authority: www.example.com", as encoded in RFC 7541, appendix C.4.1.
    let block = b"\x00\x00\x50\x8c\xf1\xe3\xc2\xe5\xf2\x3a\x6b\xa0\xab\x90\xf4\xff";
    let decoder = Decoder::default();
    assert_eq!(
        fields(&decoder, block),
        Ok(vec![field(":authority", "www.example.com")])
    );
}

#[test]
fn instructions_may_be_cut_anywhere() {
    let bytes = b"\x3f\xbd\x01\xc0\x0fwww.example.com\xc1\x0c/sample/path";
    let mut decoder = Decoder::default();
    for byte in bytes {
        decoder.instructions(&[*byte]).unwrap();
    }
    assert_eq!(decoder.table.inserted(), 2);
}

#[test]
fn a_table_never_grows_beyond_its_limits() {
    let mut decoder = Decoder::default();
    decoder.set_limit(1 << 40);
    assert!(
        decoder
            .instructions(&[0x3f, 0xff, 0xff, 0xff, 0x7f])
            .is_err()
    );
    let mut decoder = Decoder::default();
    decoder.set_limit(100);
    assert!(decoder.instructions(&[0x3f, 0x80, 0x01]).is_err(), "159");
    decoder.instructions(&[0x3f, 0x45]).unwrap();
    for _ in 0..1_000 {
        decoder.instructions(b"\x41a\x01b").unwrap();
    }
    assert!(decoder.table.get(decoder.table.inserted() - 3).is_none());
    // An endless integer, and a string of a gigabyte.
    assert!(decoder.instructions(&[0x3f; 1]).is_ok());
    assert!(decoder.instructions(&[0xff; 12]).is_err());
    let mut decoder = Decoder::default();
    let long = [0x40 | 0x1f, 0xff, 0xff, 0xff, 0xff, 0x03];
    assert!(decoder.instructions(&long).is_err());
}

proptest! {
    #[test]
    fn any_bytes_are_decoded_or_refused(
        pieces in vec(vec(any::<u8>(), 0..40), 0..20),
        block in vec(any::<u8>(), 0..60),
        limit in 0_u64..5_000,
    ) {
        let mut decoder = Decoder::default();
        decoder.set_limit(limit);
        for piece in &pieces {
            let _ = decoder.section(&block, |_, _| ());
            if decoder.instructions(piece).is_err() {
                break;
            }
        }
    }
}
