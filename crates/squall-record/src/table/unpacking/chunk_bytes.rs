//! The bytes of a column chunk, read in one call: a chunk has many pages, and reading each from the file would take two
//! calls or more. The pages are not interpreted here.

use std::fs::File;
use std::os::unix::fs::FileExt as _;

use bytes::{Buf as _, Bytes, buf};
use parquet::errors::ParquetError;
use parquet::file::metadata::ColumnChunkMetaData;
use parquet::file::reader::{ChunkReader, Length};

/// The bytes of a chunk, and their offset in the file.
pub(super) struct ChunkBytes {
    start: u64,
    bytes: Bytes,
}

impl ChunkBytes {
    pub(super) fn read(
        file: &File,
        chunk: &ColumnChunkMetaData,
    ) -> Result<ChunkBytes, ParquetError> {
        let (start, length) = chunk.byte_range();
        let end = start.checked_add(length);
        // A corrupt length must not allocate memory, so it is checked against the file first.
        if end.is_none_or(|end| end > Length::len(file)) {
            return Err(outside());
        }
        let mut bytes = vec![0; usize::try_from(length).map_err(|_| outside())?];
        file.read_exact_at(&mut bytes, start)?;
        Ok(ChunkBytes {
            start,
            bytes: bytes.into(),
        })
    }

    /// The bytes from `start`, an offset in the file, to the end of the chunk.
    fn from(&self, start: u64) -> Result<Bytes, ParquetError> {
        let at = start.checked_sub(self.start).map(usize::try_from);
        match at {
            Some(Ok(at)) if at <= self.bytes.len() => Ok(self.bytes.slice(at..)),
            _ => Err(outside()),
        }
    }
}

impl Length for ChunkBytes {
    /// The length of the file if it ended with the chunk.
    fn len(&self) -> u64 {
        self.start + self.bytes.len() as u64
    }
}

impl ChunkReader for ChunkBytes {
    type T = buf::Reader<Bytes>;

    fn get_read(&self, start: u64) -> Result<buf::Reader<Bytes>, ParquetError> {
        Ok(self.from(start)?.reader())
    }

    fn get_bytes(&self, start: u64, length: usize) -> Result<Bytes, ParquetError> {
        let bytes = self.from(start)?;
        if length <= bytes.len() {
            Ok(bytes.slice(..length))
        } else {
            Err(outside())
        }
    }
}

fn outside() -> ParquetError {
    ParquetError::EOF("a column chunk or a page of it is said to be outside of the file".to_owned())
}
