//! The bytes of a column chunk, read at once: its pages are many, and each would be two reads of the file and more.

use std::fs::File;
use std::os::unix::fs::FileExt as _;

use bytes::{Buf as _, Bytes, buf};
use parquet::errors::ParquetError;
use parquet::file::metadata::ColumnChunkMetaData;
use parquet::file::reader::{ChunkReader, Length};

/// Where a chunk is in its file, and what stands there.
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
        // What a file says of itself is not believed before memory is asked for.
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

    /// From `start`, a place in the file, to the chunk's end.
    fn from(&self, start: u64) -> Result<Bytes, ParquetError> {
        let at = start.checked_sub(self.start).map(usize::try_from);
        match at {
            Some(Ok(at)) if at <= self.bytes.len() => Ok(self.bytes.slice(at..)),
            _ => Err(outside()),
        }
    }
}

impl Length for ChunkBytes {
    /// As if the file ended with the chunk.
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
        match length <= bytes.len() {
            true => Ok(bytes.slice(..length)),
            false => Err(outside()),
        }
    }
}

fn outside() -> ParquetError {
    ParquetError::EOF("a column chunk or a page of it is said to be outside of the file".to_owned())
}
