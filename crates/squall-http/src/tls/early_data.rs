//! How much early data (0-RTT) a session allows, as stated by the server's ticket (RFC 8446, section 4.6.1).
//!
//! BoringSSL keeps that number in a session, and shows it only in the session's serialized form, which is DER. The grammar is
//! at the top of its ssl_asn1.cc. Early data is never sent.

/// `ticketMaxEarlyData [24] INTEGER OPTIONAL`.
const TICKET_MAX_EARLY_DATA: u8 = 0xb8;
/// A tag whose number takes further bytes. Only fields after the wanted one have such tags.
const LONG_TAG: u8 = 0x1f;

/// The bytes of early data that a serialized session allows; 0 if the server offers none. What follows the session is
/// ignored.
pub(crate) fn early_data_bytes(session: &[u8]) -> u32 {
    let Some((_, mut rest, _)) = element(session) else {
        return 0;
    };
    while let Some((tag, content, after)) = element(rest) {
        if tag == TICKET_MAX_EARLY_DATA {
            let octets = element(content)
                .into_iter()
                .flat_map(|(_, octets, _)| octets);
            return octets.fold(0, |value, octet| (value << 8) | u32::from(*octet));
        }
        rest = after;
    }
    0
}

/// The tag and the content of the first element, and what follows it.
fn element(der: &[u8]) -> Option<(u8, &[u8], &[u8])> {
    let (tag, rest) = der.split_first()?;
    if tag & LONG_TAG == LONG_TAG {
        return None;
    }
    let (first, rest) = rest.split_first()?;
    let (length, rest) = if *first < 0x80 {
        (usize::from(*first), rest)
    } else {
        let (octets, rest) = rest.split_at_checked(usize::from(first & 0x7f))?;
        if octets.len() > size_of::<u32>() {
            return None;
        }
        let octets = octets.iter();
        let length = octets.fold(0, |length, octet| (length << 8) | usize::from(*octet));
        (length, rest)
    };
    let (content, rest) = rest.split_at_checked(length)?;
    Some((*tag, content, rest))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A session with a ticket of 200 bytes and these elements after it.
    fn session(behind: &[u8]) -> Vec<u8> {
        let mut fields = vec![0x02, 0x01, 0x01, 0xaa, 0x81, 0xcb, 0x04, 0x81, 0xc8];
        fields.extend([7; 200]);
        fields.extend(behind);
        let length = u16::try_from(fields.len()).unwrap().to_be_bytes();
        [&[0x30, 0x82][..], &length[..], &fields[..]].concat()
    }

    #[test]
    fn early_data_of_a_session_is_found_after_other_fields() {
        let offered = [0xb8, 0x04, 0x02, 0x02, 0x40, 0x00];
        assert_eq!(early_data_bytes(&session(&offered)), 16_384);
        let unlimited = [0xb8, 0x07, 0x02, 0x05, 0x00, 0xff, 0xff, 0xff, 0xff];
        assert_eq!(early_data_bytes(&session(&unlimited)), u32::MAX);
        // quiche appends the transport parameters to the session.
        let followed = [session(&[]), offered.to_vec()].concat();
        assert_eq!(early_data_bytes(&followed), 0);
    }

    #[test]
    fn truncated_or_non_der_sessions_offer_no_early_data() {
        let whole = session(&[0xb8, 0x04, 0x02, 0x02, 0x40, 0x00]);
        for length in 0..whole.len() {
            assert_eq!(early_data_bytes(&whole[..length]), 0, "{length}");
        }
        assert_eq!(early_data_bytes(&[0x30, 0x85, 1, 1, 1, 1, 1]), 0);
        assert_eq!(early_data_bytes(&session(&[0xbf, 0x1f, 0x00])), 0);
    }
}
