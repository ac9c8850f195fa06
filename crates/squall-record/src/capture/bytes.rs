//! Reads a capture's bytes and counts them, and decodes numbers of either byte order. `blocks` and `records` interpret
//! them.

use std::io::{self, Read};

use super::error::{CaptureError, CaptureFault};

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum ByteOrder {
    Little,
    Big,
}

impl ByteOrder {
    /// The 16-bit number at `at`; 0 if `bytes` ends before it does.
    pub(super) fn u16(self, bytes: &[u8], at: usize) -> u16 {
        let pair = bytes.get(at..at + 2).and_then(|pair| pair.try_into().ok());
        let pair = pair.unwrap_or([0; 2]);
        match self {
            ByteOrder::Little => u16::from_le_bytes(pair),
            ByteOrder::Big => u16::from_be_bytes(pair),
        }
    }

    /// The 32-bit number at `at`; 0 if `bytes` ends before it does.
    pub(super) fn u32(self, bytes: &[u8], at: usize) -> u32 {
        let four = bytes.get(at..at + 4).and_then(|four| four.try_into().ok());
        let four = four.unwrap_or([0; 4]);
        match self {
            ByteOrder::Little => u32::from_le_bytes(four),
            ByteOrder::Big => u32::from_be_bytes(four),
        }
    }
}

/// The source of a capture.
pub(super) struct Input<R> {
    from: R,
    /// Bytes read so far.
    at: u64,
    is_truncated: bool,
}

impl<R: Read> Input<R> {
    pub(super) fn new(from: R) -> Input<R> {
        Input {
            from,
            at: 0,
            is_truncated: false,
        }
    }

    pub(super) fn is_truncated(&self) -> bool {
        self.is_truncated
    }

    /// An error at the current position.
    pub(super) fn fault(&self, fault: CaptureFault) -> CaptureError {
        CaptureError::At { at: self.at, fault }
    }

    /// Reads `length` bytes; `None` if the capture ends before or within them.
    pub(super) fn bytes(&mut self, length: u32) -> Result<Option<Vec<u8>>, CaptureError> {
        // The length is untrusted: memory is allocated as bytes arrive.
        let mut bytes = Vec::new();
        self.from
            .by_ref()
            .take(u64::from(length))
            .read_to_end(&mut bytes)?;
        self.at += bytes.len() as u64;
        let is_whole = bytes.len() as u64 == u64::from(length);
        self.is_truncated |= !is_whole && !bytes.is_empty();
        Ok(is_whole.then_some(bytes))
    }

    /// Reads `length` bytes that must follow; if they do not, the capture was truncated.
    pub(super) fn rest(&mut self, length: u32) -> Result<Option<Vec<u8>>, CaptureError> {
        let bytes = self.bytes(length)?;
        self.is_truncated |= bytes.is_none();
        Ok(bytes)
    }

    /// Reads `N` bytes; `None` if the capture ends before or within them.
    pub(super) fn array<const N: usize>(&mut self) -> Result<Option<[u8; N]>, CaptureError> {
        let mut bytes = [0; N];
        let mut filled = 0;
        while filled < N {
            match self.from.read(&mut bytes[filled..]) {
                Ok(0) => break,
                Ok(read) => filled += read,
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => return Err(error.into()),
            }
        }
        self.at += filled as u64;
        self.is_truncated |= filled > 0 && filled < N;
        Ok((filled == N).then_some(bytes))
    }
}
