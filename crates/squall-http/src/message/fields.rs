//! Validates the header fields of a message, by the plan's rules or by those for relayed messages, and converts them to
//! the forms of HTTP/1.1 and nghttp2.

use bytes::Bytes;
use squall_base::plan::message::{
    MAX_HEADERS, MAX_HEADERS_BYTES, header_bytes, is_header_name, is_header_value, reservation,
};
use squall_nghttp2::HeaderBlock;

use super::Body;
use crate::error::MessageError;
use crate::event::Field;
use crate::h1::CHUNKED_LINE;
use crate::section;

/// Checks every field individually, then their number and total length.
pub(super) fn check(headers: &[(String, String)]) -> Result<(), MessageError> {
    for (name, value) in headers {
        if !is_header_name(name) {
            return Err(MessageError::HeaderName(name.clone()));
        }
        if reservation(name).is_some() {
            return Err(MessageError::ReservedHeader(name.clone()));
        }
        if !is_header_value(value) {
            return Err(MessageError::HeaderValue(name.clone()));
        }
    }
    if headers.len() > MAX_HEADERS {
        return Err(MessageError::TooManyHeaders(headers.len()));
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
        if is_reserved(name) && !matches!((name, value), (b"te", b"trailers")) {
            return Err(MessageError::ReservedHeader(words()));
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

/// Whether the plan reserves the name; except `trailer`, which is relayed.
fn is_reserved(name: &[u8]) -> bool {
    matches!(
        name,
        b"content-length"
            | b"host"
            | b"transfer-encoding"
            | b"connection"
            | b"http2-settings"
            | b"keep-alive"
            | b"proxy-connection"
            | b"te"
            | b"upgrade"
    )
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
            let is_passed_on = name == "trailer" || reservation(name).is_none();
            assert_eq!(!is_reserved(name.as_bytes()), is_passed_on, "{name}");
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
