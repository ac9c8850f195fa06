//! A file that is read at offsets: one system call for each part. The parquet crate's own reader of files takes four,
//! because it duplicates the file and moves its position for each page and each page's header. Nothing is kept in memory
//! here.

use std::fs::File;
use std::io::{self, BufReader, Read};
use std::os::unix::fs::FileExt as _;
use std::sync::Arc;

use bytes::Bytes;
use parquet::errors::ParquetError;
use parquet::file::reader::{ChunkReader, Length};

/// Enough for the header of a page.
const HEADER_BYTES: usize = 256;

/// A file without a position.
#[derive(Clone)]
pub(super) struct PositionedFile {
    file: Arc<File>,
    bytes: u64,
}

impl PositionedFile {
    pub(super) fn new(file: File) -> PositionedFile {
        PositionedFile {
            bytes: Length::len(&file),
            file: Arc::new(file),
        }
    }

    fn from(&self, offset: u64) -> ReadFrom {
        let file = Arc::clone(&self.file);
        ReadFrom { file, offset }
    }
}

/// Reads on from an offset.
pub(super) struct ReadFrom {
    file: Arc<File>,
    offset: u64,
}

impl Read for ReadFrom {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let count = self.file.read_at(buffer, self.offset)?;
        self.offset += count as u64;
        Ok(count)
    }
}

impl Length for PositionedFile {
    fn len(&self) -> u64 {
        self.bytes
    }
}

impl ChunkReader for PositionedFile {
    type T = BufReader<ReadFrom>;

    fn get_read(&self, start: u64) -> Result<Self::T, ParquetError> {
        Ok(BufReader::with_capacity(HEADER_BYTES, self.from(start)))
    }

    fn get_bytes(&self, start: u64, length: usize) -> Result<Bytes, ParquetError> {
        let end = start.checked_add(length as u64);
        // A corrupt length must not allocate memory.
        if end.is_none_or(|end| end > self.bytes) {
            return Err(ParquetError::EOF("it ends beyond the file".to_owned()));
        }
        // Not zeroed first: these are all bytes of a table.
        let mut bytes = Vec::with_capacity(length);
        let mut part = self.from(start).take(length as u64);
        part.read_to_end(&mut bytes)?;
        if bytes.len() < length {
            return Err(ParquetError::EOF("the file became shorter".to_owned()));
        }
        Ok(bytes.into())
    }
}
