//! Bytes produced for the socket that wait until it takes them.

/// How much to gather before offering it to the socket: as much as fits into one HTTP/2 DATA frame.
pub(super) const GATHERED_BYTES: usize = 16 * 1024;

/// Once this many bytes have been taken, their memory is reclaimed at the cost of moving the rest.
const COMPACTED_BYTES: usize = 32 * 1024;

/// The last chunk, before the trailers.
const LAST_CHUNK: &[u8] = b"0\r\n";

/// A queue of bytes in one contiguous buffer.
#[derive(Debug)]
pub(super) struct StagedOutput {
    bytes: Vec<u8>,
    taken: usize,
}

impl StagedOutput {
    /// A queue that starts with the head of a message.
    pub(super) fn new(head: Vec<u8>) -> StagedOutput {
        StagedOutput {
            bytes: head,
            taken: 0,
        }
    }

    /// The waiting bytes.
    pub(super) fn pending(&self) -> &[u8] {
        &self.bytes[self.taken..]
    }

    /// Whether no bytes are waiting.
    pub(super) fn is_empty(&self) -> bool {
        self.pending().is_empty()
    }

    /// Records that the socket took the first `n` bytes.
    pub(super) fn take(&mut self, n: usize) {
        self.taken += n;
        if self.taken == self.bytes.len() {
            self.bytes.clear();
            self.taken = 0;
        }
    }

    /// Appends bytes unchanged.
    pub(super) fn push(&mut self, bytes: &[u8]) {
        if self.taken >= COMPACTED_BYTES {
            self.bytes.drain(..self.taken);
            self.taken = 0;
        }
        self.bytes.extend_from_slice(bytes);
    }

    /// Appends a chunk of `data`, which must not be empty.
    pub(super) fn push_chunk(&mut self, data: &[u8]) {
        self.push_chunk_size(data.len());
        self.push(data);
        self.push_chunk_end();
    }

    /// Appends the size line of a chunk (RFC 9112, section 7.1).
    pub(super) fn push_chunk_size(&mut self, size: usize) {
        const HEX: &[u8; 16] = b"0123456789abcdef";
        let digits = (usize::BITS - size.leading_zeros()).div_ceil(4).max(1);
        for digit in (0..digits).rev() {
            self.push(&[HEX[size >> (4 * digit) & 0xf]]);
        }
        self.push_chunk_end();
    }

    /// Appends what follows the data of a chunk.
    pub(super) fn push_chunk_end(&mut self) {
        self.push(b"\r\n");
    }

    /// Appends the end of a chunked body, with these trailer lines.
    pub(super) fn push_last_chunk(&mut self, trailers: &[u8]) {
        self.push(LAST_CHUNK);
        self.push(trailers);
        self.push_chunk_end();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn chunks_begin_with_their_size() {
        for size in [1, 9, 10, 15, 16, 255, 256, 65_535, 1 << 20, usize::MAX] {
            let mut staged = StagedOutput::new(Vec::new());
            staged.push_chunk_size(size);
            assert_eq!(staged.pending(), format!("{size:x}\r\n").as_bytes());
        }
    }

    #[test]
    fn memory_of_taken_bytes_is_reclaimed() {
        let mut staged = StagedOutput::new(b"head".to_vec());
        for _ in 0..1_000 {
            staged.push(&[0; 1_000]);
            staged.take(999);
        }
        assert_eq!(staged.pending().len(), 1_004);
        assert!(staged.bytes.len() < 2 * COMPACTED_BYTES);
        staged.take(1_004);
        assert!(staged.is_empty() && staged.bytes.is_empty());
    }
}
