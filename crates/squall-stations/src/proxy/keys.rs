//! How the two sides name their connections.
//!
//! The connections themselves are in `front` and `back`; an exchange only knows their keys.

use crate::dial::ConnectionKey;

/// A client's connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum FrontKey {
    /// Over TCP, by its place.
    Tcp(u32),
    /// Over QUIC: the listener, and the connection's number there.
    Quic { listener: u32, connection: u32 },
}

/// One connection to one upstream; upstreams and pools have the same places.
pub(super) type BackKey = ConnectionKey;
