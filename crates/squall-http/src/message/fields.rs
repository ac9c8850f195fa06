//! Checks the header fields of a message, by the rules of the plan or by those of messages that are passed on, and
//! brings them into the forms of HTTP/1.1 and nghttp2.

use squall_base::plan::message::{
    MAX_HEADERS, MAX_HEADERS_BYTES, header_bytes, is_header_name, is_header_value, reservation,
};
use squall_nghttp2::HeaderBlock;

use super::Body;
use crate::error::MessageError;
use crate::event::Field;
use crate::h1::CHUNKED_LINE;

/// Checks every field by itself, and all together.
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
        return Err(MessageError::HeadersTooLong { bytes });
    }
    Ok(())
}

/// Checks every field of a message that is passed on: it may hold what the plan does not send itself, such as obs-text (RFC
/// 9110, section 5.5) and `te: trailers`, but nothing that another version would read as something else.
pub(super) fn check_relayed(fields: &[Field]) -> Result<(), MessageError> {
    for field in fields {
        let words = || String::from_utf8_lossy(&field.name).into_owned();
        let is_name = std::str::from_utf8(&field.name).is_ok_and(is_header_name);
        if !is_name {
            return Err(MessageError::HeaderName(words()));
        }
        if !is_relayed_value(&field.value) {
            return Err(MessageError::HeaderValue(words()));
        }
        let is_allowed = match &*field.name {
            b"te" => &*field.value == b"trailers",
            b"trailer" => true,
            name => std::str::from_utf8(name).is_ok_and(|name| reservation(name).is_none()),
        };
        if !is_allowed {
            return Err(MessageError::ReservedHeader(words()));
        }
    }
    Ok(())
}

/// RFC 9110, section 5.5.
fn is_relayed_value(value: &[u8]) -> bool {
    let is_blank = |b: Option<&u8>| matches!(b, Some(b' ' | b'\t'));
    value
        .iter()
        .all(|b| matches!(b, b'\t' | b' '..=b'~' | 0x80..))
        && !is_blank(value.first())
        && !is_blank(value.last())
}

/// Fields as they are kept.
pub(super) fn kept(headers: &[(String, String)]) -> Vec<Field> {
    headers
        .iter()
        .map(|(name, value)| Field {
            name: name.as_bytes().into(),
            value: value.as_bytes().into(),
        })
        .collect()
}

/// The field that states a length.
pub(super) fn content_length(length: u64) -> Field {
    Field {
        name: (*b"content-length").into(),
        value: length.to_string().into_bytes().into(),
    }
}

/// `(name, value)` as the engines want it.
pub(super) fn pairs(fields: &[Field]) -> impl Iterator<Item = (&[u8], &[u8])> {
    fields.iter().map(|field| (&*field.name, &*field.value))
}

/// Adds the fields to an HTTP/1.1 head.
pub(super) fn write_lines(head: &mut Vec<u8>, fields: &[Field]) {
    for field in fields {
        for part in [&*field.name, b": ", &*field.value, b"\r\n"] {
            head.extend_from_slice(part);
        }
    }
}

/// The line of an HTTP/1.1 head that says where the body ends: that of its length, if the message states one.
pub(super) fn framing_line(length: Option<&Field>, body: &Body) -> Vec<u8> {
    let mut line = Vec::new();
    match length {
        Some(length) => write_lines(&mut line, std::slice::from_ref(length)),
        None if body.length().is_none() => line.extend_from_slice(CHUNKED_LINE.as_bytes()),
        None => {}
    }
    line
}

/// The header section of a message whose parts were checked.
pub(super) fn block<'a>(fields: impl Iterator<Item = (&'a [u8], &'a [u8])>) -> HeaderBlock {
    HeaderBlock::of_bytes(fields).expect("every field was checked to be shorter than 2 GiB")
}
