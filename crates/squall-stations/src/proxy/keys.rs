//! The keys by which the proxy's parts refer to connections and exchanges.
//!
//! The connections themselves are in `front` and `back`, the exchanges in `exchange`; others only know their keys.

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

/// Identifies an exchange, even after it is gone.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct ExchangeKey {
    /// Its place.
    pub(super) index: u32,
    /// How many exchanges were in that place before.
    pub(super) generation: u32,
}
