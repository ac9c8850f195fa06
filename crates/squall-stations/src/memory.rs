//! How many bytes the connections of one station hold for their peers, and when that is too many.
//!
//! Windows and buffers bound each stream; a peer can still open many streams on many connections. So a station counts
//! what all its connections hold. It only counts: `server` and `proxy` act on it.

use squall_base::plan::Version;

/// While all connections hold less than this, each stream may fill its buffer of 64 KiB: enough for 2,048 such streams.
const AMPLE_BYTES: usize = 128 << 20;

/// Once all connections hold this much, the one that holds the most is closed.
pub(crate) const MAX_BYTES: usize = 1 << 30;

/// How much of a body is prepared for each stream while memory is scarce.
pub(crate) const SCARCE_BYTES: usize = 1024;

/// How many bytes of a connection may wait for their other side before a proxy stops reading from it. Windows stop peers
/// over HTTP/2 and HTTP/3 earlier, unless they are set to be larger.
pub(crate) fn max_backlog_bytes(version: Version, is_scarce: bool) -> usize {
    match version {
        _ if is_scarce => SCARCE_BYTES,
        Version::Http1 => 64 << 10,
        Version::Http2 | Version::Http3 => 4 << 20,
    }
}

/// The message about a connection that is closed because of [`MAX_BYTES`].
pub(crate) const CLOSED: &str =
    "closed to save memory: the connections held 1 GiB of requests and responses";

/// The bytes that all connections of a station hold.
#[derive(Debug)]
pub(crate) struct HeldMemory {
    bytes: usize,
    ample_bytes: usize,
    max_bytes: usize,
}

impl Default for HeldMemory {
    fn default() -> HeldMemory {
        HeldMemory::of_limits(AMPLE_BYTES, MAX_BYTES)
    }
}

impl HeldMemory {
    /// With these limits in place of [`AMPLE_BYTES`] and [`MAX_BYTES`].
    pub(crate) fn of_limits(ample_bytes: usize, max_bytes: usize) -> HeldMemory {
        HeldMemory {
            bytes: 0,
            ample_bytes,
            max_bytes,
        }
    }

    /// Replaces what one connection held by what it holds now.
    pub(crate) fn update(&mut self, held: &mut usize, now_holds: usize) {
        self.bytes = self.bytes.saturating_sub(*held).saturating_add(now_holds);
        *held = now_holds;
    }

    /// Whether each stream should hold only [`SCARCE_BYTES`].
    pub(crate) fn is_scarce(&self) -> bool {
        self.bytes >= self.ample_bytes
    }

    /// Whether a connection must be closed.
    pub(crate) fn is_exceeded(&self) -> bool {
        self.bytes >= self.max_bytes
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bytes_of_all_connections_are_added_up() {
        let mut memory = HeldMemory::default();
        let (mut first, mut second) = (0, 0);
        memory.update(&mut first, AMPLE_BYTES - 1);
        assert!(!memory.is_scarce());
        memory.update(&mut second, 1);
        assert!(memory.is_scarce() && !memory.is_exceeded());
        memory.update(&mut second, MAX_BYTES);
        assert!(memory.is_exceeded());
        memory.update(&mut second, 0);
        memory.update(&mut first, 10);
        assert_eq!((memory.bytes, first, second), (10, 10, 0));
        assert!(!memory.is_scarce());
    }
}
