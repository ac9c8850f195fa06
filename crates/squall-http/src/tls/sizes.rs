//! How much plaintext the next record holds, by [`RecordSizes`].
//!
//! `Dynamic` does what nghttpx does (shrpx_connection.cc: get_tls_write_limit, update_tls_warmup_writelen): a size is
//! that of the plaintext, nothing is subtracted for headers and tags; a record is small as long as fewer than `warmup`
//! bytes were sent, so the last small one may go beyond; and after more than `idle` with nothing to send the count
//! begins at 0 again. nghttpx is idle from when the socket took everything; here, where plaintext waits encrypted for
//! the socket, from the last record, unless plaintext was left over then or output is still waiting.

use squall_base::plan::RecordSizes;
use squall_base::time::Time;

use super::error::SetupError;

/// The sizes of a connection's records, and what they depend on.
#[derive(Debug)]
pub(super) struct Sizes {
    sizes: RecordSizes,
    /// Bytes sent since the connection began or was idle; no further than `warmup` is of interest.
    warm_bytes: u64,
    /// When the last record was made, if nothing was left to send then.
    idle_since: Option<Time>,
}

impl Sizes {
    /// For a new connection, with sizes that passed [`check`].
    pub(super) fn new(sizes: RecordSizes) -> Sizes {
        Sizes {
            sizes,
            warm_bytes: 0,
            idle_since: None,
        }
    }

    /// Plaintext came to be sent while nothing was waiting for the socket.
    pub(super) fn wake(&mut self, now: Time) {
        let RecordSizes::Dynamic { idle, .. } = self.sizes else {
            return;
        };
        if self.idle_since.is_some_and(|since| now.since(since) > idle) {
            self.warm_bytes = 0;
        }
    }

    /// How much plaintext the next record holds at most.
    pub(super) fn next(&self) -> usize {
        let size = match self.sizes {
            RecordSizes::Fixed(size) => size,
            RecordSizes::Dynamic { small, warmup, .. } if self.warm_bytes < warmup.get() => small,
            RecordSizes::Dynamic { .. } => RecordSizes::LARGEST,
        };
        usize::try_from(size.get()).unwrap_or(usize::MAX)
    }

    /// A record with so much plaintext was made.
    pub(super) fn sent(&mut self, plain_len: usize) {
        self.warm_bytes = self.warm_bytes.saturating_add(plain_len as u64);
    }

    /// Everything that there was to send was sent.
    pub(super) fn rest(&mut self, now: Time) {
        self.idle_since = Some(now);
    }

    /// Not everything was.
    pub(super) fn stay_awake(&mut self) {
        self.idle_since = None;
    }
}

/// Refuses sizes that no record can have.
pub(super) fn check(sizes: RecordSizes) -> Result<(), SetupError> {
    let (RecordSizes::Fixed(size) | RecordSizes::Dynamic { small: size, .. }) = sizes;
    if size.get() == 0 || size > RecordSizes::LARGEST {
        return Err(SetupError::RecordSize { bytes: size.get() });
    }
    Ok(())
}
