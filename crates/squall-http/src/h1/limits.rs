//! Limits on the number of fields and on the length of a head.
//!
//! The limits are only stated here: `head`, `fields` and `folds` enforce them.

/// The most header fields that are accepted.
pub const MAX_FIELDS: usize = 128;

/// The longest head that is accepted, the same as nghttp2's limit for HTTP/2.
pub const MAX_HEAD_BYTES: usize = 64 * 1024;
