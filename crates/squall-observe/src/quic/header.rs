//! Packet headers of QUIC versions 1 and 2: long and short headers, header protection, packet numbers (RFC 9000,
//! sections 12 and 17; RFC 9369, section 3).
//!
//! Only the fields needed for decryption are parsed. `keys` computes the masks; `frames` parses the payload.

use octets::Octets;

/// The longest connection ID (RFC 9000, section 17.2).
pub(crate) const MAX_CID_BYTES: usize = 20;

/// Bytes of ciphertext that header protection samples (RFC 9001, section 5.4.2).
pub(crate) const SAMPLE_BYTES: usize = 16;

/// The sample begins this many bytes after the start of the packet number, however long the number is.
const SAMPLE_OFFSET: usize = 4;

/// Set in the first byte of long headers.
const LONG_FORM: u8 = 0x80;

/// Set in every packet of these versions.
const FIXED_BIT: u8 = 0x40;

/// The key phase bit of a short header.
const KEY_PHASE: u8 = 0x04;

/// A supported QUIC version.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Version {
    /// RFC 9000.
    V1,
    /// RFC 9369.
    V2,
}

impl Version {
    fn of(number: u32) -> Option<Version> {
        match number {
            0x0000_0001 => Some(Version::V1),
            0x6b33_43cf => Some(Version::V2),
            _ => None,
        }
    }
}

/// The type of a packet with a long header.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum LongType {
    Initial,
    ZeroRtt,
    Handshake,
    Retry,
}

impl LongType {
    fn of(version: Version, first: u8) -> LongType {
        let number = (first >> 4) & 0x03;
        // Version 2 shifts every type up by one (RFC 9369, section 3.2).
        let number = match version {
            Version::V1 => number,
            Version::V2 => number.wrapping_sub(1) & 0x03,
        };
        match number {
            0 => LongType::Initial,
            1 => LongType::ZeroRtt,
            2 => LongType::Handshake,
            _ => LongType::Retry,
        }
    }
}

/// A packet with a long header.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct LongPacket<'a> {
    pub(crate) version: Version,
    pub(crate) kind: LongType,
    pub(crate) destination: &'a [u8],
    pub(crate) source: &'a [u8],
    /// The whole packet; a Retry fills its datagram.
    pub(crate) bytes: &'a [u8],
    /// Where the packet number begins; meaningless for a Retry.
    pub(crate) number_at: usize,
}

/// A packet in a datagram.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Packet<'a> {
    Long(LongPacket<'a>),
    /// Always the datagram's last packet, because a short header has no length. It does not say where its connection ID
    /// ends either.
    Short(&'a [u8]),
}

/// Splits off the first packet in the rest of a datagram; also returns what follows it. `None` if nothing more can be
/// read there: padding after the last packet, another version, or bytes that are not a packet.
pub(crate) fn next_packet(datagram: &[u8]) -> Option<(Packet<'_>, &[u8])> {
    let first = *datagram.first()?;
    if first & FIXED_BIT == 0 {
        return None;
    }
    if first & LONG_FORM == 0 {
        return Some((Packet::Short(datagram), &[]));
    }
    let mut fields = Octets::with_slice(datagram);
    fields.skip(1).ok()?;
    let version = Version::of(fields.get_u32().ok()?)?;
    let kind = LongType::of(version, first);
    let destination = fields.get_bytes_with_u8_length().ok()?.buf();
    let source = fields.get_bytes_with_u8_length().ok()?.buf();
    if destination.len() > MAX_CID_BYTES || source.len() > MAX_CID_BYTES {
        return None;
    }
    if kind == LongType::Initial {
        fields.get_bytes_with_varint_length().ok()?;
    }
    let (number_at, end) = if kind == LongType::Retry {
        (datagram.len(), datagram.len())
    } else {
        let length = usize::try_from(fields.get_varint().ok()?).ok()?;
        let number_at = fields.off();
        (number_at, number_at.checked_add(length)?)
    };
    let (bytes, rest) = datagram.split_at_checked(end)?;
    let packet = LongPacket {
        version,
        kind,
        destination,
        source,
        bytes,
        number_at,
    };
    Some((Packet::Long(packet), rest))
}

/// The sample for header protection, if the packet is long enough to have one.
pub(crate) fn sample(packet: &[u8], number_at: usize) -> Option<&[u8; SAMPLE_BYTES]> {
    packet
        .get(number_at.checked_add(SAMPLE_OFFSET)?..)?
        .first_chunk()
}

/// A header without its protection.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Header {
    /// As authenticated by the AEAD.
    pub(crate) bytes: Vec<u8>,
    /// The packet number.
    pub(crate) number: u64,
    /// The key phase, for short headers only.
    pub(crate) key_phase: bool,
}

/// Removes header protection (RFC 9001, section 5.4.1). `largest` is the largest packet number so far in that packet
/// number space.
pub(crate) fn unprotect(
    packet: &[u8],
    number_at: usize,
    mask: [u8; 5],
    largest: Option<u64>,
) -> Option<Header> {
    let first = *packet.first()?;
    let protected = if first & LONG_FORM != 0 { 0x0f } else { 0x1f };
    let first = first ^ (mask[0] & protected);
    let number_bytes = usize::from(first & 0x03) + 1;
    let mut bytes = packet.get(..number_at.checked_add(number_bytes)?)?.to_vec();
    bytes[0] = first;
    let mut truncated = 0;
    for (byte, mask) in bytes[number_at..].iter_mut().zip(&mask[1..]) {
        *byte ^= mask;
        truncated = truncated << 8 | u64::from(*byte);
    }
    Some(Header {
        number: decode_number(largest, truncated, 8 * number_bytes as u32),
        key_phase: first & (LONG_FORM | KEY_PHASE) == KEY_PHASE,
        bytes,
    })
}

/// Expands a truncated packet number to the one closest to the expected number (RFC 9000, appendix A.3).
fn decode_number(largest: Option<u64>, truncated: u64, bits: u32) -> u64 {
    let expected = largest.map_or(0, |largest| largest + 1);
    let window = 1_u64 << bits;
    let half = window / 2;
    let candidate = (expected & !(window - 1)) | truncated;
    if candidate + half <= expected && candidate + window < 1 << 62 {
        candidate + window
    } else if candidate > expected + half && candidate >= window {
        candidate - window
    } else {
        candidate
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn packet_numbers_decode_as_in_rfc_9000() {
        // Appendix A.3.
        assert_eq!(decode_number(Some(0xa82f_30ea), 0x9b32, 16), 0xa82f_9b32);
        assert_eq!(decode_number(None, 0, 8), 0);
        assert_eq!(decode_number(Some(254), 0, 8), 256);
        assert_eq!(decode_number(Some(256), 0xff, 8), 255);
    }

    #[test]
    fn coalesced_packets_are_split_by_their_length() {
        let mut datagram = vec![0xe0, 0, 0, 0, 1, 2, 7, 8, 1, 9, 3, 1, 2, 3];
        datagram.extend([0x40, 7, 8, 5, 5]);
        let Some((Packet::Long(long), rest)) = next_packet(&datagram) else {
            panic!("no long header");
        };
        assert_eq!(long.kind, LongType::Handshake);
        assert_eq!((long.destination, long.source), (&[7, 8][..], &[9][..]));
        assert_eq!((long.bytes.len(), long.number_at), (14, 11));
        assert_eq!(next_packet(rest), Some((Packet::Short(rest), &[][..])));
    }

    #[test]
    fn version_2_numbers_packet_types_differently() {
        for (bits, v1, v2) in [
            (0, LongType::Initial, LongType::Retry),
            (1, LongType::ZeroRtt, LongType::Initial),
            (2, LongType::Handshake, LongType::ZeroRtt),
            (3, LongType::Retry, LongType::Handshake),
        ] {
            assert_eq!(LongType::of(Version::V1, bits << 4), v1);
            assert_eq!(LongType::of(Version::V2, bits << 4), v2);
        }
    }

    #[test]
    fn truncated_datagram_has_no_packet() {
        let datagram = [0xe0, 0, 0, 0, 1, 2, 7, 8, 1, 9, 3, 1, 2, 3];
        for end in 0..datagram.len() {
            assert_eq!(next_packet(&datagram[..end]), None, "{end}");
        }
        let unknown = [0xe0, 0, 0, 0, 9, 2, 7, 8, 1, 9, 3, 1, 2, 3];
        assert_eq!(next_packet(&unknown), None);
    }
}
