//! The versions of HTTP/1 that are spoken.
//!
//! What they differ in is said where it matters: `fields` and `outgoing`.

/// A version of the protocol.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Version {
    Http10,
    Http11,
}

impl Version {
    /// By the number behind the dot, of which httparse lets pass no other.
    pub(super) fn of(minor: Option<u8>) -> Version {
        match minor {
            Some(0) => Version::Http10,
            _ => Version::Http11,
        }
    }
}
