//! The keys by which the proxy's parts refer to connections and exchanges.
//!
//! The connections themselves are in `front` and `back`, the exchanges in `exchange`; others only know their keys.

use crate::dial::ConnectionKey;

/// A client's connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum FrontKey {
    /// Over TCP, by its index.
    Tcp(u32),
    /// Over QUIC: the listener, and the connection's number there.
    Quic { listener: u32, connection: u32 },
}

/// A connection to an upstream; an upstream and its pool have the same index.
pub(super) type BackKey = ConnectionKey;

/// Identifies an exchange, even after it is gone.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct ExchangeKey {
    /// The exchange's slot.
    pub(super) index: u32,
    /// How many exchanges were in that slot before.
    pub(super) generation: u32,
}
