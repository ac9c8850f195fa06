//! The two buffers between BoringSSL and the owner: the record being gathered, and the output.
//!
//! To BoringSSL this looks like a socket that never has more than one record to read, and that accepts everything
//! written to it.

use std::io::{Error, ErrorKind, Read, Result, Write};

use super::records::{HEADER_BYTES, record_len};

/// glibc copies 2 KiB and more with `rep movsb`. AMD's Zen runs that at a fraction of its speed if source and
/// destination have similar offsets within their pages, as large buffers do; it took a tenth of the total time over
/// TLS. Shorter pieces are copied with loads and stores.
const PIECE_BYTES: usize = 1024;

/// Taken output is removed from the buffer once there is this much of it.
const COMPACT_BYTES: usize = 64 * 1024;

/// The capacity of the output that is kept while nothing waits. Many connections are idle most of the time.
const KEPT_BYTES: usize = 16 * 1024;

/// The buffers of one connection.
#[derive(Debug, Default)]
pub(super) struct Wire {
    /// The record being gathered, or the last one gathered.
    input: Vec<u8>,
    /// How much of that record BoringSSL has read.
    read: usize,
    output: Vec<u8>,
    /// How much of `output` the socket has taken.
    taken: usize,
    /// How much the socket has taken in total.
    total_taken: u64,
}

/// The result of [`Wire::gather`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum RecordProgress {
    /// More bytes are needed.
    Partial,
    /// A record is complete.
    Whole,
    /// The header is not a TLS header, so record boundaries are unknown from here on.
    NoRecord,
}

impl Wire {
    /// Moves bytes from the front of `wire` into the record, up to the record's end.
    pub(super) fn gather(&mut self, wire: &mut &[u8]) -> RecordProgress {
        self.take_until(HEADER_BYTES, wire);
        let Some(header) = self.input.first_chunk() else {
            return RecordProgress::Partial;
        };
        let Some(len) = record_len(*header) else {
            return RecordProgress::NoRecord;
        };
        self.take_until(len, wire);
        if self.input.len() < len {
            RecordProgress::Partial
        } else {
            RecordProgress::Whole
        }
    }

    fn take_until(&mut self, len: usize, wire: &mut &[u8]) {
        let missing = len.saturating_sub(self.input.len()).min(wire.len());
        let (taken, rest) = wire.split_at(missing);
        self.input.reserve(taken.len());
        for piece in taken.chunks(PIECE_BYTES) {
            self.input.extend_from_slice(piece);
        }
        *wire = rest;
    }

    /// The length of the record gathered so far.
    pub(super) fn gathered_len(&self) -> usize {
        self.input.len()
    }

    /// Whether BoringSSL has read all of the gathered record.
    pub(super) fn is_read(&self) -> bool {
        self.read == self.input.len()
    }

    /// Makes room for the next record.
    pub(super) fn next_record(&mut self) {
        self.input.clear();
        self.read = 0;
    }

    /// The bytes for the socket.
    pub(super) fn output(&self) -> &[u8] {
        &self.output[self.taken..]
    }

    /// How many bytes were written in total, whether taken or not.
    pub(super) fn total_written(&self) -> u64 {
        self.total_taken + self.output().len() as u64
    }

    /// How many bytes the socket has taken in total.
    pub(super) fn total_taken(&self) -> u64 {
        self.total_taken
    }

    /// Records that the socket took `n` bytes, capped at the length of the output.
    pub(super) fn advance(&mut self, n: usize) {
        let n = n.min(self.output().len());
        self.taken += n;
        self.total_taken += n as u64;
        if self.taken == self.output.len() {
            self.output.clear();
            self.taken = 0;
        } else if self.taken >= COMPACT_BYTES {
            self.output.drain(..self.taken);
            self.taken = 0;
        }
    }

    /// Gives back the memory of output that has grown and was taken.
    pub(super) fn release(&mut self) {
        if self.output.is_empty() && self.output.capacity() > KEPT_BYTES {
            self.output = Vec::new();
        }
    }
}

impl Read for Wire {
    fn read(&mut self, buffer: &mut [u8]) -> Result<usize> {
        let rest = &self.input[self.read..];
        if rest.is_empty() {
            return Err(Error::from(ErrorKind::WouldBlock));
        }
        let n = rest.len().min(buffer.len());
        let pieces = rest[..n].chunks(PIECE_BYTES);
        for (place, piece) in buffer[..n].chunks_mut(PIECE_BYTES).zip(pieces) {
            place.copy_from_slice(piece);
        }
        self.read += n;
        Ok(n)
    }
}

impl Write for Wire {
    fn write(&mut self, bytes: &[u8]) -> Result<usize> {
        self.output.extend_from_slice(bytes);
        Ok(bytes.len())
    }

    fn flush(&mut self) -> Result<()> {
        Ok(())
    }
}
