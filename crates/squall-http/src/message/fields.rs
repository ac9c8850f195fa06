//! Validates the header fields of a message, by the plan's rules or by those for relayed messages, and converts them to
//! the forms of HTTP/1.1 and nghttp2.

use bytes::Bytes;
use squall_base::plan::message::{
    MAX_HEADERS, MAX_HEADERS_BYTES, Reservation, fields_sent, header_bytes, is_header_name,
    is_header_value, reservation,
};
use squall_nghttp2::HeaderBlock;

use super::Body;
use crate::error::MessageError;
use crate::event::Field;
use crate::h1::CHUNKED_LINE;
use crate::section;

/// Checks every field of a request individually, then their number and total length.
pub(super) fn check_request(headers: &[(String, String)]) -> Result<(), MessageError> {
    check(headers, reservation)
}

/// Checks every field of a response in the same way. A response has no `te` (RFC 9110, section 10.1.4).
pub(super) fn check_response(headers: &[(String, String)]) -> Result<(), MessageError> {
    check(headers, |name, value| match name {
        "te" => Some(Reservation::Connection),
        _ => reservation(name, value),
    })
}

fn check(
    headers: &[(String, String)],
    reservation: impl Fn(&str, &str) -> Option<Reservation>,
) -> Result<(), MessageError> {
    for (name, value) in headers {
        if !is_header_name(name) {
            return Err(MessageError::HeaderName(name.clone()));
        }
        if let Some(reservation) = reservation(name, value) {
            let name = name.clone();
            return Err(MessageError::ReservedHeader { name, reservation });
        }
        if !is_header_value(value) {
            return Err(MessageError::HeaderValue(name.clone()));
        }
    }
    let count = fields_sent(headers);
    if count > MAX_HEADERS {
        return Err(MessageError::TooManyHeaders(count));
    }
    let bytes = headers
        .iter()
        .map(|(name, value)| header_bytes(name, value))
        .sum();
    if bytes > MAX_HEADERS_BYTES {
        return Err(MessageError::HeadersTooLong(bytes));
    }
    Ok(())
}

/// Checks every field of a relayed message. It may contain what a plan cannot, such as obs-text (RFC 9110, section 5.5)
/// and `te: trailers`, but nothing that another HTTP version would interpret differently.
pub(super) fn check_relayed(fields: &[Field]) -> Result<(), MessageError> {
    for field in fields {
        let (name, value) = (&*field.name, &*field.value);
        let words = || String::from_utf8_lossy(name).into_owned();
        if !is_name_in_lower_case(name) {
            return Err(MessageError::HeaderName(words()));
        }
        if !is_relayed_value(value) {
            return Err(MessageError::HeaderValue(words()));
        }
        if let Some(reservation) = relayed_reservation(name, value) {
            let name = words();
            return Err(MessageError::ReservedHeader { name, reservation });
        }
    }
    Ok(())
}

/// `is_header_name` as a table, because a proxy checks every field.
const IN_NAMES: [bool; 256] = {
    let mut table = [false; 256];
    let mut byte = 0;
    while byte < 256 {
        let b = byte as u8;
        table[byte] = matches!(b, b'a'..=b'z' | b'0'..=b'9' | b'!' | b'#'..=b'\'' | b'*' | b'+')
            || matches!(b, b'-' | b'.' | b'^'..=b'`' | b'|' | b'~');
        byte += 1;
    }
    table
};

/// Whether this is a field name in HTTP/2's and HTTP/3's form (RFC 9110, section 5.1).
pub(crate) fn is_name_in_lower_case(name: &[u8]) -> bool {
    let are_in = |all, b: &u8| all & IN_NAMES[usize::from(*b)];
    !name.is_empty() && name.iter().fold(true, are_in)
}

/// Whether this is a field value: no control characters, no white space at either end (RFC 9110, section 5.5).
pub(crate) fn is_relayed_value(value: &[u8]) -> bool {
    let is_blank = |b: Option<&u8>| matches!(b, Some(b' ' | b'\t'));
    // No early exit, so that the compiler can process 16 bytes or more at a time.
    let are_fine = value.iter().fold(true, |fine, b| {
        fine & ((*b >= b' ') & (*b != 0x7f) | (*b == b'\t'))
    });
    are_fine && !is_blank(value.first()) && !is_blank(value.last())
}

/// `reservation` of a relayed field; `trailer` is relayed.
fn relayed_reservation(name: &[u8], value: &[u8]) -> Option<Reservation> {
    match name {
        b"te" if value == b"trailers" => None,
        b"te" => Some(Reservation::TransferCodings),
        b"content-length" | b"host" | b"transfer-encoding" => Some(Reservation::Engine),
        b"connection" | b"http2-settings" | b"keep-alive" | b"proxy-connection" | b"upgrade" => {
            Some(Reservation::Connection)
        }
        _ => None,
    }
}

/// Converts fields to their stored form.
pub(super) fn owned_fields(headers: &[(String, String)]) -> Vec<Field> {
    let pairs = headers
        .iter()
        .map(|(name, value)| (name.as_bytes(), value.as_bytes()));
    section::build_section(pairs)
}

/// The number in a content-length field (RFC 9110, section 8.6).
pub(crate) fn parse_content_length(value: &[u8]) -> Option<u64> {
    let is_number = value.iter().all(u8::is_ascii_digit);
    let text = std::str::from_utf8(value).ok().filter(|_| is_number)?;
    text.parse().ok()
}

/// The content-length field.
pub(super) fn content_length(length: u64) -> Field {
    Field {
        name: Bytes::from_static(b"content-length"),
        value: length.to_string().into(),
    }
}

/// The fields as `(name, value)` pairs for the engines.
pub(super) fn pairs(fields: &[Field]) -> impl Iterator<Item = (&[u8], &[u8])> + Clone {
    fields.iter().map(|field| (&*field.name, &*field.value))
}

/// Appends the fields to an HTTP/1.1 head.
pub(super) fn write_lines(head: &mut Vec<u8>, fields: &[Field]) {
    for field in fields {
        for part in [&*field.name, b": ", &*field.value, b"\r\n"] {
            head.extend_from_slice(part);
        }
    }
}

/// How many bytes [`write_lines`] appends.
pub(super) fn lines_len(fields: &[Field]) -> usize {
    let line = |field: &Field| field.name.len() + field.value.len() + 4;
    fields.iter().map(line).sum()
}

/// Appends the line of an HTTP/1.1 head that delimits the body: its length, or chunked if the length is unknown.
pub(super) fn write_framing(head: &mut Vec<u8>, length: Option<&Field>, body: &Body) {
    match length {
        Some(length) => write_lines(head, std::slice::from_ref(length)),
        None if body.length().is_none() => head.extend_from_slice(CHUNKED_LINE.as_bytes()),
        None => {}
    }
}

/// The header section of a message whose parts have been checked.
pub(super) fn block<'a>(fields: impl Iterator<Item = (&'a [u8], &'a [u8])> + Clone) -> HeaderBlock {
    HeaderBlock::of_bytes(fields, |_| false).expect(SHORT)
}

/// The header section of a relayed request. Its ids differ from request to request, so they are marked as such.
pub(super) fn relayed_block<'a>(
    fields: impl Iterator<Item = (&'a [u8], &'a [u8])> + Clone,
) -> HeaderBlock {
    let is_id = |name: &[u8]| matches!(name, b"traceparent" | b"x-request-id");
    HeaderBlock::of_bytes(fields, is_id).expect(SHORT)
}

const SHORT: &str = "every field was checked to be shorter than 2 GiB";

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn relayed_names_follow_the_rules_of_the_plan() {
        for byte in 0..=u8::MAX {
            let text = char::from(byte).to_string();
            let is_ascii_name = byte.is_ascii() && is_header_name(&text);
            assert_eq!(is_name_in_lower_case(&[byte]), is_ascii_name, "{byte}");
        }
        assert!(!is_name_in_lower_case(b""));
        for name in
            "content-length host trailer transfer-encoding connection http2-settings keep-alive \
                     proxy-connection te upgrade accept x"
                .split(' ')
        {
            for value in ["x", "trailers"] {
                let of_plan = reservation(name, value).filter(|_| name != "trailer");
                let of_relayed = relayed_reservation(name.as_bytes(), value.as_bytes());
                assert_eq!(of_relayed, of_plan, "{name}: {value}");
            }
        }
    }

    #[test]
    fn relayed_values_allow_blanks_only_inside() {
        let long = [b'x'; 100];
        for value in [&b""[..], b"a", b"a\t b", b"\xe9\xff", &long] {
            assert!(is_relayed_value(value), "{value:?}");
        }
        for bad in [
            &b" a"[..],
            b"a ",
            b"\ta",
            b"a\t",
            b"a\nb",
            b"\0",
            b"\x7f",
            b"a\rb",
        ] {
            assert!(!is_relayed_value(bad), "{bad:?}");
        }
        for at in 0..long.len() {
            let mut text = long;
            text[at] = b'\n';
            assert!(!is_relayed_value(&text), "{at}");
        }
    }
}
