//! Bytes that were made for the socket and wait until it takes them.

/// How much is gathered before it is given to the socket: as much as one HTTP/2 DATA frame holds.
pub(super) const GATHERED_BYTES: usize = 16 * 1024;

/// From so many bytes on that were taken, their memory is used again at the cost of moving those that were not.
const COMPACTED_BYTES: usize = 32 * 1024;

/// The last chunk, before the trailers.
const LAST_CHUNK: &[u8] = b"0\r\n";

/// A queue of bytes that lie in one piece.
#[derive(Debug)]
pub(super) struct Staged {
    bytes: Vec<u8>,
    taken: usize,
}

impl Staged {
    /// With the head of a message.
    pub(super) fn new(head: Vec<u8>) -> Staged {
        Staged {
            bytes: head,
            taken: 0,
        }
    }

    /// What waits.
    pub(super) fn pending(&self) -> &[u8] {
        &self.bytes[self.taken..]
    }

    /// Whether nothing waits.
    pub(super) fn is_empty(&self) -> bool {
        self.pending().is_empty()
    }

    /// The socket took the first `n` bytes.
    pub(super) fn take(&mut self, n: usize) {
        self.taken += n;
        if self.taken == self.bytes.len() {
            self.bytes.clear();
            self.taken = 0;
        }
    }

    /// Adds bytes as they are.
    pub(super) fn push(&mut self, bytes: &[u8]) {
        if self.taken >= COMPACTED_BYTES {
            self.bytes.drain(..self.taken);
            self.taken = 0;
        }
        self.bytes.extend_from_slice(bytes);
    }

    /// Adds a chunk of `data`, more than nothing.
    pub(super) fn push_chunk(&mut self, data: &[u8]) {
        self.push_chunk_size(data.len());
        self.push(data);
        self.push_chunk_end();
    }

    /// Adds what precedes the data of a chunk (RFC 9112, section 7.1).
    pub(super) fn push_chunk_size(&mut self, size: usize) {
        const HEX: &[u8; 16] = b"0123456789abcdef";
        let digits = (usize::BITS - size.leading_zeros()).div_ceil(4).max(1);
        for digit in (0..digits).rev() {
            self.push(&[HEX[size >> (4 * digit) & 0xf]]);
        }
        self.push_chunk_end();
    }

    /// Adds what follows the data of a chunk.
    pub(super) fn push_chunk_end(&mut self) {
        self.push(b"\r\n");
    }

    /// Adds the end of a chunked body, with these lines of trailers.
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
            let mut staged = Staged::new(Vec::new());
            staged.push_chunk_size(size);
            assert_eq!(staged.pending(), format!("{size:x}\r\n").as_bytes());
        }
    }

    #[test]
    fn what_was_taken_is_forgotten() {
        let mut staged = Staged::new(b"head".to_vec());
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
