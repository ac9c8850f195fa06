//! nghttp2's errors as types.
//!
//! HTTP/2 error codes (RFC 9113, section 7) are plain `u32` and arrive through the handler.

use std::ffi::CStr;
use std::os::raw::c_int;

use libnghttp2_sys as ffi;
use thiserror::Error;

/// An error from nghttp2.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
pub enum Error {
    /// The peer did not begin with the HTTP/2 connection preface (RFC 9113, section 3.4).
    #[error("the peer did not begin with the HTTP/2 connection preface")]
    BadPreface,
    /// The peer makes us queue replies faster than it reads them, or sends endless CONTINUATION frames.
    #[error("the peer floods the connection ({})", describe(*.0))]
    Flooded(i32),
    /// No stream id is left on this connection (RFC 9113, section 5.1.1).
    #[error("no stream id is left on this connection")]
    StreamIdsExhausted,
    /// Any other error, by nghttp2's own code.
    #[error("nghttp2: {}", describe(*.0))]
    Library(i32),
}

/// A header field too long for nghttp2, which takes at most 2^31 - 1 bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
#[error("a header field of more than 2^31 - 1 bytes")]
pub struct HeaderTooLong;

impl Error {
    /// A value that nghttp2 does not accept.
    pub const INVALID_ARGUMENT: Error = Error::Library(ffi::NGHTTP2_ERR_INVALID_ARGUMENT);
    /// The peer makes us queue too much, as found by the session's owner.
    pub const FLOODED: Error = Error::Flooded(ffi::NGHTTP2_ERR_FLOODED);

    /// The error for a negative return code.
    pub(crate) fn from_code(code: c_int) -> Error {
        match code {
            ffi::NGHTTP2_ERR_BAD_CLIENT_MAGIC => Error::BadPreface,
            ffi::NGHTTP2_ERR_FLOODED | ffi::NGHTTP2_ERR_TOO_MANY_CONTINUATIONS => {
                Error::Flooded(code)
            }
            ffi::NGHTTP2_ERR_STREAM_ID_NOT_AVAILABLE => Error::StreamIdsExhausted,
            code => Error::Library(code),
        }
    }

    /// Turns a return code into a result: 0 and above are fine.
    pub(crate) fn check(code: c_int) -> Result<c_int, Error> {
        if code < 0 {
            Err(Error::from_code(code))
        } else {
            Ok(code)
        }
    }

    /// Like [`Error::check`], for functions that return a size.
    pub(crate) fn check_size(size: isize) -> Result<usize, Error> {
        usize::try_from(size).map_err(|_| Error::from_code(size as c_int))
    }
}

/// nghttp2's description of a code.
pub(crate) fn describe(code: i32) -> &'static str {
    // SAFETY: the function takes any code and returns a pointer to a static, NUL-terminated string.
    let text = unsafe { CStr::from_ptr(ffi::nghttp2_strerror(code)) };
    text.to_str().unwrap_or("unknown error")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_code_has_a_description() {
        for code in -1000..10 {
            assert!(!describe(code).is_empty());
            assert!(!Error::from_code(code).to_string().is_empty());
        }
    }
}
