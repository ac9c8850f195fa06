//! What is open on a client's connection, over TCP and QUIC alike.
//!
//! Data only: `tcp` and `quic` have the connections, `exchange` says what an exchange is.

use squall_http::{StreamId, Streams};

use crate::proxy::keys::ExchangeKey;

/// The exchanges on a client's connection.
#[derive(Default)]
pub(in crate::proxy) struct OpenExchanges {
    pub(in crate::proxy) streams: Streams<StreamId, ExchangeKey>,
    /// The exchanges whose responses wait for room on this connection.
    pub(in crate::proxy) blocked: Vec<ExchangeKey>,
}
