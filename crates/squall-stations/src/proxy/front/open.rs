//! What is open on a client's connection, over TCP and QUIC alike.
//!
//! Data only.

use squall_http::{StreamId, Streams};

use crate::proxy::keys::ExchangeKey;

/// The exchanges on a client's connection.
#[derive(Default)]
pub(in crate::proxy) struct OpenExchanges {
    pub(in crate::proxy) streams: Streams<StreamId, ExchangeKey>,
    /// Those whose responses wait for room.
    pub(in crate::proxy) blocked: Vec<ExchangeKey>,
}
