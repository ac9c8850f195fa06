//! The supported versions of HTTP/1.
//!
//! Their differences are handled in `fields` and `outgoing`.

/// A version of the protocol.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Version {
    Http10,
    Http11,
}

impl Version {
    /// From the minor version; httparse accepts only 0 and 1.
    pub(super) fn of(minor: Option<u8>) -> Version {
        match minor {
            Some(0) => Version::Http10,
            _ => Version::Http11,
        }
    }
}
