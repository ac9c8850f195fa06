//! What both sides of an HTTP/3 connection announced or abandoned: SETTINGS, GOAWAYs, and reset streams.
//!
//! It is recorded for reporting only; the engine does not act on it.

use squall_base::record::EndingCounts;

use super::code;
use super::inbound::{Violation, violation};
use super::wire;

/// Cap on stored settings. More than are registered, so only a flood of unknown ones reaches it.
const MAX_SETTINGS: usize = 64;

/// SETTINGS as identifiers and values, and counts of GOAWAYs and resets.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Announcements {
    /// Our SETTINGS; empty until they could be sent.
    pub sent: Vec<(u64, u64)>,
    /// The peer's SETTINGS, without reserved ones, which have no meaning (RFC 9114, section 7.2.4.1).
    pub received: Vec<(u64, u64)>,
    /// GOAWAYs and resets so far.
    pub endings: EndingCounts,
}

/// The name of a setting (RFC 9114, section 7.2.4.1, and its IANA registry).
pub const fn setting_name(id: u64) -> Option<&'static str> {
    Some(match id {
        0x1 => "SETTINGS_QPACK_MAX_TABLE_CAPACITY",
        0x6 => "SETTINGS_MAX_FIELD_SECTION_SIZE",
        0x7 => "SETTINGS_QPACK_BLOCKED_STREAMS",
        0x8 => "SETTINGS_ENABLE_CONNECT_PROTOCOL",
        0x33 => "SETTINGS_H3_DATAGRAM",
        _ => return None,
    })
}

/// Parses the payload of SETTINGS: pairs of integers, excluding HTTP/2's settings (RFC 9114, section 7.2.4.1).
pub(super) fn read_settings(mut payload: &[u8]) -> Result<Vec<(u64, u64)>, Violation> {
    let mut settings = Vec::new();
    while !payload.is_empty() {
        let Some((id, first)) = wire::varint(payload) else {
            return Err(violation(code::FRAME_ERROR, "malformed SETTINGS"));
        };
        let Some((value, second)) = wire::varint(&payload[first..]) else {
            return Err(violation(code::FRAME_ERROR, "malformed SETTINGS"));
        };
        if matches!(id, 0x2..=0x5) {
            return Err(violation(code::SETTINGS_ERROR, "a setting of HTTP/2"));
        }
        let is_reserved = id >= 0x21 && (id - 0x21).is_multiple_of(0x1f);
        if !is_reserved && settings.len() < MAX_SETTINGS {
            settings.push((id, value));
        }
        payload = &payload[first + second..];
    }
    Ok(settings)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reserved_settings_are_left_out() {
        // 0x40 is 0x21 + 0x1f, encoded in two bytes.
        let settings = read_settings(&[0x6, 0x41, 0x00, 0x40, 0x40, 0x7, 0x1, 0x0]);
        assert_eq!(settings, Ok(vec![(0x6, 0x100), (0x1, 0)]));
        assert_eq!(read_settings(&[]), Ok(vec![]));
    }

    #[test]
    fn broken_settings_are_refused() {
        let code = |payload: &[u8]| read_settings(payload).expect_err("it is broken").code;
        assert_eq!(code(&[0x6]), code::FRAME_ERROR);
        assert_eq!(code(&[0x6, 0x41]), code::FRAME_ERROR);
        assert_eq!(code(&[0x4, 0x1]), code::SETTINGS_ERROR);
    }

    #[test]
    fn a_flood_of_settings_is_capped() {
        let flood = [0x1, 0x0].repeat(10_000);
        assert_eq!(
            read_settings(&flood).map(|kept| kept.len()),
            Ok(MAX_SETTINGS)
        );
    }
}
