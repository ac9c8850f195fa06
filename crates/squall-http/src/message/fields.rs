//! Checks the header fields of a message by the rules of the plan, and brings them into the forms of HTTP/1.1 and
//! nghttp2.

use squall_base::plan::message::{
    MAX_HEADERS, MAX_HEADERS_BYTES, header_bytes, is_header_name, is_header_value, reservation,
};
use squall_nghttp2::HeaderBlock;

use super::Body;
use crate::error::MessageError;
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
    let bytes = as_pairs(headers)
        .map(|(name, value)| header_bytes(name, value))
        .sum();
    if bytes > MAX_HEADERS_BYTES {
        return Err(MessageError::HeadersTooLong { bytes });
    }
    Ok(())
}

/// `(name, value)` as nghttp2 wants it.
pub(super) fn as_pairs(headers: &[(String, String)]) -> impl Iterator<Item = (&str, &str)> {
    headers
        .iter()
        .map(|(name, value)| (name.as_str(), value.as_str()))
}

/// Adds the fields to an HTTP/1.1 head.
pub(super) fn write_lines(head: &mut String, headers: &[(String, String)]) {
    for (name, value) in headers {
        for part in [name, ": ", value, "\r\n"] {
            head.push_str(part);
        }
    }
}

/// The line of an HTTP/1.1 head that says where the body ends: that of its length, if the message has one.
pub(super) fn framing_line(length: Option<(&str, &str)>, body: &Body) -> String {
    match length {
        Some((name, value)) => format!("{name}: {value}\r\n"),
        None if body.length().is_none() => CHUNKED_LINE.to_owned(),
        None => String::new(),
    }
}

/// The header section of a message whose parts were checked.
pub(super) fn block<'a>(fields: impl Iterator<Item = (&'a str, &'a str)>) -> HeaderBlock {
    HeaderBlock::new(fields).expect("every field was checked to be shorter than 2 GiB")
}
