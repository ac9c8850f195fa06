//! Test bodies in which any misplaced byte shows, and a checksum that a page's script can also compute.

use std::sync::LazyLock;

/// Non-repeating bytes that depend only on the length; bodies of different lengths differ from the start.
pub(crate) fn content(len: usize) -> Vec<u8> {
    // xorshift64 (Marsaglia 2003); the state is never zero.
    let mut state = 0x9E37_79B9_7F4A_7C15 ^ (len as u64);
    let mut bytes = Vec::with_capacity(len + 8);
    while bytes.len() < len {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        bytes.extend_from_slice(&state.to_le_bytes());
    }
    bytes.truncate(len);
    bytes
}

/// Larger than any window or buffer on the path: curl 7.88 gives each HTTP/2 stream 32 MiB (`HTTP2_HUGE_WINDOW_SIZE`).
pub(crate) const LARGE_BYTES: usize = 35_000_000;

/// A body of [`LARGE_BYTES`], generated once.
pub(crate) fn large() -> &'static [u8] {
    static LARGE: LazyLock<Vec<u8>> = LazyLock::new(|| content(LARGE_BYTES));
    &LARGE
}

/// For Chromium, whose script takes long to sum up a body: larger than the windows that it gives each connection of HTTP/2
/// and HTTP/3, of 15 MiB (`kSpdySessionMaxRecvWindowSize` and `kQuicSessionMaxRecvWindowSize`).
pub(crate) const LARGE_BYTES_IN_CHROMIUM: usize = 17_000_000;

/// 32-bit FNV-1a (draft-eastlake-fnv), as in chromium.html.
pub(crate) fn checksum(bytes: &[u8]) -> u32 {
    bytes.iter().fold(0x811c_9dc5, |hash: u32, byte| {
        (hash ^ u32::from(*byte)).wrapping_mul(0x0100_0193)
    })
}
