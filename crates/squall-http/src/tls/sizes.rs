//! Determines how much plaintext the next record holds, according to [`RecordSizes`].
//!
//! `Dynamic` does what nghttpx does (shrpx_connection.cc: get_tls_write_limit, update_tls_warmup_writelen). Sizes are
//! those of the plaintext; nothing is subtracted for headers and tags. Records are small until `warmup` bytes have been
//! sent, so the last small one may exceed it. After more than `idle` with nothing to send, the count restarts at 0.
//! nghttpx is idle from the moment the socket has taken everything. Here, encrypted plaintext waits for the socket, so
//! the idle time runs from the last record, unless plaintext was left over then or output is still waiting.

use squall_base::plan::RecordSizes;
use squall_base::time::Time;

use super::error::SetupError;

/// The record sizes of a connection, and the state they depend on.
#[derive(Debug)]
pub(super) struct RecordSizer {
    sizes: RecordSizes,
    /// Bytes sent since the connection began or was idle; only whether it has reached `warmup` matters.
    warm_bytes: u64,
    /// When the last record was made, if nothing was left to send then.
    idle_since: Option<Time>,
}

impl RecordSizer {
    /// For a new connection; the sizes must have passed [`check`].
    pub(super) fn new(sizes: RecordSizes) -> RecordSizer {
        RecordSizer {
            sizes,
            warm_bytes: 0,
            idle_since: None,
        }
    }

    /// Handles new plaintext while no output is waiting for the socket.
    pub(super) fn resume(&mut self, now: Time) {
        let RecordSizes::Dynamic { idle, .. } = self.sizes else {
            return;
        };
        if self.idle_since.is_some_and(|since| now.since(since) > idle) {
            self.warm_bytes = 0;
        }
    }

    /// The most plaintext that the next record may hold.
    pub(super) fn next(&self) -> usize {
        let size = match self.sizes {
            RecordSizes::Fixed(size) => size,
            RecordSizes::Dynamic { small, warmup, .. } if self.warm_bytes < warmup.get() => small,
            RecordSizes::Dynamic { .. } => RecordSizes::LARGEST,
        };
        usize::try_from(size.get()).unwrap_or(usize::MAX)
    }

    /// Counts a record with this much plaintext.
    pub(super) fn sent(&mut self, plain_len: usize) {
        self.warm_bytes = self.warm_bytes.saturating_add(plain_len as u64);
    }

    /// Records that everything has been sent.
    pub(super) fn mark_idle(&mut self, now: Time) {
        self.idle_since = Some(now);
    }

    /// Records that plaintext is left over.
    pub(super) fn mark_busy(&mut self) {
        self.idle_since = None;
    }
}

/// Refuses sizes that no record can have.
pub(super) fn check(sizes: RecordSizes) -> Result<(), SetupError> {
    let (RecordSizes::Fixed(size) | RecordSizes::Dynamic { small: size, .. }) = sizes;
    if size.get() == 0 || size > RecordSizes::LARGEST {
        return Err(SetupError::RecordSize(size.get()));
    }
    Ok(())
}
