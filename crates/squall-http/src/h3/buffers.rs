//! Limits how much of streamed bodies is buffered: per stream, per connection, and for all connections of an endpoint.
//!
//! A peer that keeps its windows or its congestion window closed makes bodies wait, on each of its streams. The streams
//! of a connection share a fixed amount equally, so none of them waits for another one's share. Once all connections
//! together hold too much, or the owner says that memory is scarce, each stream gets only the least that keeps it moving.
//!
//! Bodies that are known as a whole are not counted: however many streams send one, it is in memory once.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

/// The most per stream: about one batch of datagrams.
const STREAM_BYTES: usize = 64 * 1024;

/// The least per stream: a few packets, so that a frame's overhead stays below 0.1 %.
const LEAST_BYTES: usize = 4 * 1024;

/// What the streams of a connection share: the maximum for 16 streams, or 10 KiB for each of the usual 100.
const CONNECTION_BYTES: usize = 1024 * 1024;

/// What all connections may hold before each stream gets only the least: 64 times [`CONNECTION_BYTES`].
const ENDPOINT_BYTES: usize = 64 * 1024 * 1024;

/// Counts the bytes that all connections of an endpoint hold. Clones share the count.
#[derive(Clone, Debug, Default)]
pub(super) struct EndpointBuffers(Arc<EndpointState>);

#[derive(Debug, Default)]
struct EndpointState {
    held: AtomicUsize,
    is_scarce: AtomicBool,
}

impl EndpointBuffers {
    /// The bytes that are held.
    pub(super) fn held_bytes(&self) -> usize {
        self.0.held.load(Ordering::Relaxed)
    }

    /// Sets whether the owner's memory is scarce.
    pub(super) fn set_scarce(&self, is_scarce: bool) {
        self.0.is_scarce.store(is_scarce, Ordering::Relaxed);
    }

    /// Whether each stream gets only the least.
    fn must_save(&self) -> bool {
        self.0.is_scarce.load(Ordering::Relaxed) || self.held_bytes() >= ENDPOINT_BYTES
    }

    /// The count for one more connection, which is included in this one.
    pub(super) fn connection(&self) -> ConnectionBuffers {
        ConnectionBuffers {
            endpoint: self.clone(),
            held: 0,
        }
    }
}

/// Counts the bytes that one connection holds; dropping it subtracts them from the endpoint's count.
#[derive(Debug)]
pub(super) struct ConnectionBuffers {
    endpoint: EndpointBuffers,
    held: usize,
}

impl ConnectionBuffers {
    /// Notes that a stream that held `before` bytes now holds `after`.
    pub(super) fn update(&mut self, before: usize, after: usize) {
        let added = after.saturating_sub(before);
        let removed = before.saturating_sub(after).min(self.held);
        self.held = self.held + added - removed;
        let endpoint = &self.endpoint.0.held;
        endpoint.fetch_add(added, Ordering::Relaxed);
        endpoint.fetch_sub(removed, Ordering::Relaxed);
    }

    /// The bytes that are held.
    pub(super) fn held_bytes(&self) -> usize {
        self.held
    }

    /// How much each of a connection's `streams` may hold now.
    pub(super) fn share(&self, streams: usize) -> usize {
        if self.endpoint.must_save() {
            return LEAST_BYTES;
        }
        (CONNECTION_BYTES / streams.max(1)).clamp(LEAST_BYTES, STREAM_BYTES)
    }
}

impl Drop for ConnectionBuffers {
    fn drop(&mut self) {
        self.update(self.held, 0);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn streams_share_what_a_connection_may_hold() {
        let connection = EndpointBuffers::default().connection();
        for (streams, expected) in [
            (0, STREAM_BYTES),
            (16, STREAM_BYTES),
            (32, STREAM_BYTES / 2),
            (1_000_000, LEAST_BYTES),
        ] {
            assert_eq!(connection.share(streams), expected, "{streams}");
        }
    }

    #[test]
    fn a_full_endpoint_limits_each_stream_to_the_minimum_until_a_connection_ends() {
        let endpoint = EndpointBuffers::default();
        let (mut large, small) = (endpoint.connection(), endpoint.connection());
        large.update(0, ENDPOINT_BYTES + 5);
        large.update(ENDPOINT_BYTES + 5, ENDPOINT_BYTES);
        assert_eq!(small.share(1), LEAST_BYTES);
        drop(large);
        assert_eq!((small.share(1), endpoint.held_bytes()), (STREAM_BYTES, 0));
    }

    #[test]
    fn streams_get_the_minimum_while_the_owners_memory_is_scarce() {
        let endpoint = EndpointBuffers::default();
        let connection = endpoint.connection();
        endpoint.set_scarce(true);
        assert_eq!(connection.share(1), LEAST_BYTES);
        endpoint.set_scarce(false);
        assert_eq!(connection.share(1), STREAM_BYTES);
    }
}
