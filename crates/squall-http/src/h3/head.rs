//! Header sections: conversion to and from QPACK (RFC 9204), and validation (RFC 9114, section 4.3).
//!
//! The dynamic table is never used: quiche's QPACK does not implement it, and our SETTINGS leave the peer's limit at
//! the protocol's default of zero.

use bytes::Bytes;
use quiche::h3::qpack::{Decoder, Encoder, Error};
use quiche::h3::{Header, NameValue};

use super::code::{self, StreamError};
use super::wire::{self, HEADERS, MAX_KEPT_BYTES};
use crate::event::Field;
use crate::message::{is_name_in_lower_case, is_relayed_value, parse_content_length};
use crate::section;

/// Upper bounds on what QPACK adds to a section and to each of its fields: a two-byte prefix, and three integers.
const SECTION_OVERHEAD_BYTES: usize = 2;
const FIELD_OVERHEAD_BYTES: usize = 30;

/// The header section of a request.
pub(super) struct RequestHead {
    pub(super) method: String,
    pub(super) target: String,
    pub(super) authority: Option<String>,
    pub(super) regular: RegularFields,
}

/// The header section of a response.
pub(super) struct ResponseHead {
    pub(super) status: u16,
    pub(super) regular: RegularFields,
}

/// The fields of a header section, without pseudo-header fields.
pub(super) struct RegularFields {
    pub(super) fields: Vec<Field>,
    /// The body's length according to content-length.
    pub(super) length: Option<u64>,
}

impl RegularFields {
    /// Whether a request's body, if it has one, may wait for a 100 (Continue) (RFC 9110, section 10.1.1).
    pub(super) fn expects_continue(&self) -> bool {
        let is_expected = |field: &Field| {
            *field.name == *b"expect" && field.value.eq_ignore_ascii_case(b"100-continue")
        };
        self.length != Some(0) && self.fields.iter().any(is_expected)
    }
}

/// The peer's header section is malformed (RFC 9114, section 4.1.2).
const MALFORMED: StreamError = StreamError(code::MESSAGE_ERROR);

/// A field in the form that quiche's encoder takes.
struct Pair<'a>(&'a [u8], &'a [u8]);

impl NameValue for Pair<'_> {
    fn name(&self) -> &[u8] {
        self.0
    }

    fn value(&self) -> &[u8] {
        self.1
    }
}

/// Encodes these fields as a HEADERS frame.
pub(super) fn encode<'a>(fields: impl Iterator<Item = (&'a [u8], &'a [u8])>) -> Bytes {
    let pairs: Vec<Pair<'_>> = fields.map(|(name, value)| Pair(name, value)).collect();
    // Huffman coding is only used where it makes text shorter.
    let most: usize = pairs
        .iter()
        .map(|Pair(name, value)| name.len() + value.len() + FIELD_OVERHEAD_BYTES)
        .sum();
    let mut block = vec![0; most + SECTION_OVERHEAD_BYTES];
    let len = Encoder::new()
        .encode(&pairs, &mut block)
        .expect("the block has room for every field uncompressed");
    wire::frame(HEADERS, &block[..len])
}

/// Decodes the fields of a HEADERS frame.
///
/// quiche's decoder reads the required insert count and the base but ignores them, and it reports broken Huffman codes
/// as a section that is too large.
pub(super) fn decode(block: &[u8]) -> Result<Vec<Header>, StreamError> {
    let failed = StreamError(code::QPACK_DECOMPRESSION_FAILED);
    // Refuses references to entries that were never inserted, and a negative base (RFC 9204, sections 4.5.1.1 and 4.5.1.2).
    if !matches!(block, [0, base, ..] if base & 0x80 == 0) {
        return Err(failed);
    }
    let decode = |most| Decoder::new().decode(block, most);
    match decode(MAX_KEPT_BYTES) {
        Ok(headers) => Ok(headers),
        // Decoding without a limit takes at most a few MB, only for the duration of the call.
        Err(Error::HeaderListTooLarge) if decode(u64::MAX).is_ok() => {
            Err(StreamError(code::EXCESSIVE_LOAD))
        }
        Err(_) => Err(failed),
    }
}

/// Validates a request's header section.
pub(super) fn request(headers: Vec<Header>) -> Result<RequestHead, StreamError> {
    let (pseudo, regular) = split(headers)?;
    let (mut method, mut target, mut scheme, mut authority) = (None, None, None, None::<String>);
    for header in pseudo {
        let place = match header.name() {
            b":method" => &mut method,
            b":path" => &mut target,
            b":scheme" => &mut scheme,
            b":authority" => &mut authority,
            _ => return Err(MALFORMED),
        };
        let value = String::from_utf8(header.value().to_vec()).map_err(|_| MALFORMED)?;
        if value.is_empty() || !is_visible(value.as_bytes()) || place.replace(value).is_some() {
            return Err(MALFORMED);
        }
    }
    check_authority(authority.as_deref(), &regular)?;
    let method = method.ok_or(MALFORMED)?;
    let target = match (method.as_str(), target, scheme) {
        // CONNECT requests a tunnel to an authority, and has no path (RFC 9114, section 4.4).
        ("CONNECT", None, None) if authority.is_some() => String::new(),
        ("CONNECT", ..) => return Err(MALFORMED),
        (_, Some(target), Some(_)) => target,
        _ => return Err(MALFORMED),
    };
    Ok(RequestHead {
        method,
        target,
        authority,
        regular,
    })
}

/// A request must state its authority, in `:authority`, `host`, or both with the same value (RFC 9114, section 4.3.1).
fn check_authority(authority: Option<&str>, regular: &RegularFields) -> Result<(), StreamError> {
    let mut hosts = regular
        .fields
        .iter()
        .filter(|field| &*field.name == b"host");
    let host = hosts.next().map(|field| &*field.value);
    let is_one = match (authority.map(str::as_bytes), host) {
        (Some(authority), Some(host)) => authority == host,
        (None, Some(host)) => !host.is_empty(),
        (Some(_), None) => true,
        (None, None) => false,
    };
    if is_one && hosts.next().is_none() {
        Ok(())
    } else {
        Err(MALFORMED)
    }
}

/// Validates a response's header section.
pub(super) fn response(headers: Vec<Header>) -> Result<ResponseHead, StreamError> {
    let (pseudo, regular) = split(headers)?;
    let [status] = pseudo.as_slice() else {
        return Err(MALFORMED);
    };
    let digits = status.value();
    if status.name() != b":status" || digits.len() != 3 || !digits.iter().all(u8::is_ascii_digit) {
        return Err(MALFORMED);
    }
    let status = digits
        .iter()
        .fold(0, |status, digit| status * 10 + u16::from(digit - b'0'));
    if !(100..=599).contains(&status) {
        return Err(MALFORMED);
    }
    Ok(ResponseHead { status, regular })
}

/// Validates a trailer section, which has no pseudo-header fields (RFC 9114, section 4.3).
pub(super) fn trailers(headers: Vec<Header>) -> Result<Vec<Field>, StreamError> {
    match split(headers)? {
        (pseudo, regular) if pseudo.is_empty() => Ok(regular.fields),
        _ => Err(MALFORMED),
    }
}

/// Separates pseudo-header fields, which must come first, from the others.
fn split(mut headers: Vec<Header>) -> Result<(Vec<Header>, RegularFields), StreamError> {
    let is_pseudo = |header: &Header| header.name().first() == Some(&b':');
    let n = headers
        .iter()
        .position(|header| !is_pseudo(header))
        .unwrap_or(headers.len());
    let others = headers.split_off(n);
    let mut length = None;
    for header in &others {
        let name = header.name();
        let is_fine = is_name_in_lower_case(name)
            && is_relayed_value(header.value())
            && !is_of_one_hop(name)
            && (name != b"te" || header.value() == b"trailers");
        if !is_fine {
            return Err(MALFORMED);
        }
        if name == b"content-length" {
            let value = parse_content_length(header.value()).ok_or(MALFORMED)?;
            if length.is_some_and(|length| length != value) {
                return Err(MALFORMED);
            }
            length = Some(value);
        }
    }
    let pairs = others.iter().map(|header| (header.name(), header.value()));
    let fields = section::build_section(pairs);
    Ok((headers, RegularFields { fields, length }))
}

/// Whether all characters are allowed between blanks in a line of HTTP/1.1.
fn is_visible(value: &[u8]) -> bool {
    value.iter().all(|b| *b > b' ' && *b != 0x7f)
}

/// Connection-specific fields of HTTP/1.1, which HTTP/3 forbids (RFC 9114, section 4.2).
fn is_of_one_hop(name: &[u8]) -> bool {
    matches!(
        name,
        b"connection" | b"keep-alive" | b"proxy-connection" | b"transfer-encoding" | b"upgrade"
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    fn headers(pairs: &[(&str, &str)]) -> Vec<Header> {
        pairs
            .iter()
            .map(|(name, value)| Header::new(name.as_bytes(), value.as_bytes()))
            .collect()
    }

    #[test]
    fn fields_survive_encoding_and_decoding() {
        let fields: Vec<(String, String)> = [
            (":status", "200"),
            ("x", ""),
            ("content-length", "5"),
            ("x-long", &"~\u{e9}".repeat(5_000)),
        ]
        .iter()
        .map(|(name, value)| ((*name).to_owned(), (*value).to_owned()))
        .collect();
        let frame = encode(fields.iter().map(|(n, v)| (n.as_bytes(), v.as_bytes())));
        let (_, first) = wire::varint(&frame[1..]).unwrap();
        let head = response(decode(&frame[1 + first..]).unwrap()).unwrap();
        assert_eq!((head.status, head.regular.length), (200, Some(5)));
        assert_eq!(head.regular.fields.len(), 3);
    }

    #[test]
    fn malformed_sections_are_refused() {
        let fine = [
            (":method", "GET"),
            (":scheme", "https"),
            (":path", "/"),
            (":authority", "a"),
        ];
        for (right, added) in [
            (true, ("a", "b")),
            (true, ("a", "b \t\u{e9}")),
            (true, ("a", "")),
            (true, ("te", "trailers")),
            (true, ("host", "a")),
            (false, (":method", "GET")),
            (false, (":status", "200")),
            (false, ("connection", "close")),
            (false, ("Upper", "x")),
            (false, ("a b", "x")),
            (false, ("a:", "x")),
            (false, ("a", "x\r\nb: y")),
            (false, ("a", "x\rb: y")),
            (false, ("a", "x\nb: y")),
            (false, ("a\r", "x")),
            (false, ("a\n", "x")),
            (false, ("a", "\0")),
            (false, ("a", " b")),
            (false, ("a", "b\t")),
            (false, ("te", "gzip")),
            (false, ("host", "b")),
            (false, ("content-length", "-1")),
        ] {
            let mut pairs = fine.to_vec();
            pairs.push(added);
            assert_eq!(request(headers(&pairs)).is_ok(), right, "{added:?}");
            // Pseudo-header fields must come first.
            let mut pairs = vec![added];
            pairs.extend(fine);
            assert!(request(headers(&pairs)).is_err(), "{added:?}");
        }
        // No pseudo-header field may contain a line end of HTTP/1.1 either.
        for (place, (_, right)) in fine.iter().enumerate() {
            for end in ["\r", "\n", "\r\n"] {
                let value = format!("{right}{end}x:y");
                let mut pairs = fine.to_vec();
                pairs[place].1 = &value;
                assert!(request(headers(&pairs)).is_err(), "{:?}", pairs[place]);
            }
        }
        for status in ["", "20", "2000", "abc", "099", "600"] {
            assert!(
                response(headers(&[(":status", status)])).is_err(),
                "{status}"
            );
        }
    }

    #[test]
    fn a_request_must_have_exactly_one_authority() {
        let is_fine = |others: &[(&str, &str)]| {
            let mut pairs = vec![(":method", "GET"), (":scheme", "https"), (":path", "/")];
            pairs.extend(others);
            request(headers(&pairs)).is_ok()
        };
        assert!(is_fine(&[("host", "a")]));
        assert!(!is_fine(&[]) && !is_fine(&[("host", "")]) && !is_fine(&[(":authority", "")]));
        assert!(!is_fine(&[("host", "a"), ("host", "a")]));
        assert!(!is_fine(&[(":authority", "a b")]));
    }

    #[test]
    fn a_connect_request_has_only_an_authority() {
        let fine = [(":method", "CONNECT"), (":authority", "a:80")];
        let head = request(headers(&fine)).unwrap();
        assert_eq!(
            (head.method.as_str(), head.target.as_str()),
            ("CONNECT", "")
        );
        for added in [(":path", "/"), (":scheme", "https"), (":protocol", "x")] {
            let pairs = [&fine[..], &[added]].concat();
            assert!(request(headers(&pairs)).is_err(), "{added:?}");
        }
        let nobody = [(":method", "CONNECT"), ("host", "a:80")];
        assert!(request(headers(&nobody)).is_err());
    }

    #[test]
    fn undecodable_sections_differ_from_too_large_ones() {
        let failed = Some(StreamError(code::QPACK_DECOMPRESSION_FAILED));
        assert_eq!(decode(&[0, 0, 0xd1]).err(), None);
        for wrong in [
            &[][..],
            &[0],
            // A required insert count; a negative base.
            &[1, 0, 0xd1],
            &[0, 0x80, 0xd1],
            // The dynamic table, and an index past the end of the static one.
            &[0, 0, 0x80],
            &[0, 0, 0xff, 0x24],
            // A truncated value; one with the Huffman code of EOS.
            &[0, 0, 0x50, 2, b'a'],
            &[0, 0, 0x50, 0x84, 0xff, 0xff, 0xff, 0xff],
        ] {
            assert_eq!(decode(wrong).err(), failed, "{wrong:?}");
        }
        let large = [&[0, 0][..], &[0xd1; 2_000]].concat();
        assert_eq!(
            decode(&large).err(),
            Some(StreamError(code::EXCESSIVE_LOAD))
        );
    }
}
