//! A file that is read at offsets: one system call for each part. The parquet crate's own reader of files takes four,
//! because it duplicates the file and moves its position for each page and each page's header. Nothing is kept in memory
//! here.

use std::fs::File;
use std::io::{self, BufRead as _, BufReader, Read};
use std::os::unix::fs::FileExt as _;
use std::sync::Arc;

use bytes::Bytes;
use parquet::errors::ParquetError;
use parquet::file::reader::{ChunkReader, Length};

/// Enough for the header of a page.
const HEADER_BYTES: usize = 256;

/// The largest page that is read, decompressed. Our packer's pages have 8,192 rows, those of other writers usually about
/// 1 MiB. The parquet crate allocates whatever the header of a page claims, once for each column, and a corrupt header can
/// claim 2 GiB.
const MAX_PAGE_BYTES: u64 = 64 << 20;

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

/// Reads from an offset on.
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

    /// Reads from the header of a page on.
    fn get_read(&self, start: u64) -> Result<Self::T, ParquetError> {
        let mut read = BufReader::with_capacity(HEADER_BYTES, self.from(start));
        match claimed_bytes(read.fill_buf()?) {
            Some(bytes) if bytes > MAX_PAGE_BYTES => Err(ParquetError::General(format!(
                "a page claims to hold {bytes} bytes, of which at most {MAX_PAGE_BYTES} are read"
            ))),
            _ => Ok(read),
        }
    }

    fn get_bytes(&self, start: u64, length: usize) -> Result<Bytes, ParquetError> {
        let end = start.checked_add(length as u64);
        // A corrupt length must not allocate memory.
        if end.is_none_or(|end| end > self.bytes) {
            return Err(ParquetError::EOF("it ends beyond the file".to_owned()));
        }
        // The buffer is not zeroed first, because every byte of a table passes through here.
        let mut bytes = Vec::with_capacity(length);
        let mut part = self.from(start).take(length as u64);
        part.read_to_end(&mut bytes)?;
        if bytes.len() < length {
            return Err(ParquetError::EOF("the file became shorter".to_owned()));
        }
        Ok(bytes.into())
    }
}

/// The decompressed size that the header of a page claims: in Thrift's compact protocol, its second field, after the type of
/// the page. `None` if it does not look like a header; the parquet crate then decides.
fn claimed_bytes(header: &[u8]) -> Option<u64> {
    /// The next field, a 32-bit integer.
    const NEXT_I32: u8 = 0x15;
    let (_kind, rest) = varint(header.strip_prefix(&[NEXT_I32])?)?;
    let (bytes, _) = varint(rest.strip_prefix(&[NEXT_I32])?)?;
    // Zigzag: odd numbers are negative.
    (bytes % 2 == 0).then_some(bytes / 2)
}

/// A variable-length integer, and what follows it.
fn varint(bytes: &[u8]) -> Option<(u64, &[u8])> {
    let mut value = 0;
    for (place, byte) in bytes.iter().enumerate().take(9) {
        value |= u64::from(byte & 0x7f) << (7 * place);
        if byte & 0x80 == 0 {
            return Some((value, &bytes[place + 1..]));
        }
    }
    None
}

#[cfg(test)]
mod tests {
    use std::io::Write as _;

    use super::*;

    /// The beginning of the header of a data page with this size.
    fn header(bytes: u32) -> Vec<u8> {
        let mut header = vec![0x15, 0x00, 0x15];
        let mut zigzag = u64::from(bytes) * 2;
        while zigzag >= 0x80 {
            header.push((zigzag & 0x7f) as u8 | 0x80);
            zigzag >>= 7;
        }
        header.push(zigzag as u8);
        header
    }

    #[test]
    fn page_that_claims_too_much_is_refused_before_it_is_read() {
        let open = |bytes: &[u8]| {
            let mut file = tempfile::tempfile().unwrap();
            file.write_all(bytes).unwrap();
            PositionedFile::new(file).get_read(0).map(drop)
        };
        assert!(open(&header(64 << 20)).is_ok());
        let error = open(&header(i32::MAX as u32)).unwrap_err().to_string();
        assert!(error.contains("claims to hold 2147483647 bytes"), "{error}");
        // These bytes are not a header, so the decision is left to the parquet crate.
        assert!(open(b"").is_ok());
        assert!(open(&[0xff; 20]).is_ok());
    }
}
