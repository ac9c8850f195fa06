//! A capture's bytes, counted, and numbers of either byte order.

use std::io::{self, Read};

use super::error::{CaptureError, CaptureFault};

/// How numbers are written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Order {
    Little,
    Big,
}

impl Order {
    /// Two bytes of `bytes`; 0 where there are none.
    pub(super) fn u16(self, bytes: &[u8], at: usize) -> u16 {
        let pair = bytes.get(at..at + 2).and_then(|pair| pair.try_into().ok());
        let pair = pair.unwrap_or([0; 2]);
        match self {
            Order::Little => u16::from_le_bytes(pair),
            Order::Big => u16::from_be_bytes(pair),
        }
    }

    /// Four bytes of `bytes`; 0 where there are none.
    pub(super) fn u32(self, bytes: &[u8], at: usize) -> u32 {
        let four = bytes.get(at..at + 4).and_then(|four| four.try_into().ok());
        let four = four.unwrap_or([0; 4]);
        match self {
            Order::Little => u32::from_le_bytes(four),
            Order::Big => u32::from_be_bytes(four),
        }
    }
}

/// Where a capture comes from.
pub(super) struct Input<R> {
    from: R,
    /// Bytes read so far.
    at: u64,
    was_cut: bool,
}

impl<R: Read> Input<R> {
    pub(super) fn new(from: R) -> Input<R> {
        Input {
            from,
            at: 0,
            was_cut: false,
        }
    }

    pub(super) fn was_cut(&self) -> bool {
        self.was_cut
    }

    /// What is wrong with the bytes that were read last.
    pub(super) fn fault(&self, fault: CaptureFault) -> CaptureError {
        CaptureError::At { at: self.at, fault }
    }

    /// So many bytes; `None` if the capture ends before, or within them.
    pub(super) fn bytes(&mut self, length: u32) -> Result<Option<Vec<u8>>, CaptureError> {
        // A length may be a lie: memory is taken as bytes come.
        let mut bytes = Vec::new();
        self.from
            .by_ref()
            .take(u64::from(length))
            .read_to_end(&mut bytes)?;
        self.at += bytes.len() as u64;
        let is_whole = bytes.len() as u64 == u64::from(length);
        self.was_cut |= !is_whole && !bytes.is_empty();
        Ok(is_whole.then_some(bytes))
    }

    /// So many bytes that must follow what was read, or else it was cut.
    pub(super) fn rest(&mut self, length: u32) -> Result<Option<Vec<u8>>, CaptureError> {
        let bytes = self.bytes(length)?;
        self.was_cut |= bytes.is_none();
        Ok(bytes)
    }

    /// A few bytes; `None` if the capture ends before, or within them.
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
        self.was_cut |= filled > 0 && filled < N;
        Ok((filled == N).then_some(bytes))
    }
}
