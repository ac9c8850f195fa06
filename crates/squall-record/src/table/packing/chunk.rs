//! A column's packed cells as the pages of a column chunk, compressed where it pays.
//!
//! The pages are made one by one as rows come, and stand after the chunk's dictionary if it has one, which is known when
//! the row group is full. What the bytes in the pages mean is `column`'s business; here they get their levels, zstd and the
//! metadata that says where they are.

use bytes::Bytes;
use parquet::basic::{Compression, Encoding, PageType, ZstdLevel};
use parquet::column::page::{CompressedPage, Page, PageWriter as _};
use parquet::column::writer::ColumnCloseResult;
use parquet::errors::ParquetError;
use parquet::file::metadata::{ColumnChunkMetaData, PageEncodingStats};
use parquet::file::writer::{SerializedPageWriter, TrackedWrite};
use parquet::schema::types::ColumnDescPtr;
use zstd::bulk::Compressor;
use zstd::zstd_safe::CParameter;

use super::column::Cells;

/// On tables of real loads (examples/repack.rs) it takes 0.5 to 0.9 of level 1's time, for 5 to 10 % more bytes. Packing
/// in whole bytes (`delta`) saves more than that where rows repeat.
const ZSTD_LEVEL: i32 = -1;
/// The places of earlier bytes, 2^12 of them, so that they stay in the processor's nearest cache.
const ZSTD_HASH_LOG: u32 = 12;

/// A page below this is that of a column that was always the same or null, and costs some 10 bytes more if it is compressed.
const SAYS_NOTHING_BYTES: usize = 1024;

/// How far back a page may be that is the same: a range's ends take turns with its starts.
const PAGES_BEFORE: usize = 2;

/// The pages of a column in a row group, as far as they are made.
#[derive(Default)]
pub(super) struct Chunk {
    pages: Vec<CompressedPage>,
    /// Whether its pages are compressed. All must be alike, and the first one decides: what does not pay in it is not tried
    /// again before the next row group. So small a one says nothing of those to come.
    is_pressed: bool,
    rows: usize,
    nulls: usize,
}

/// Makes pages. It keeps its memory from one to the next.
pub(super) struct Press {
    zstd: Compressor<'static>,
    page: Vec<u8>,
    pressed: Vec<u8>,
    /// The pages that were compressed before and what they came to, the last one first: a message that goes in one piece
    /// has its first and its last byte at the same time, so that columns repeat.
    before: [(Vec<u8>, Vec<u8>); PAGES_BEFORE],
}

impl Press {
    pub(super) fn new() -> Result<Press, ParquetError> {
        let mut zstd = Compressor::new(ZSTD_LEVEL)?;
        zstd.set_parameter(CParameter::HashLog(ZSTD_HASH_LOG))?;
        Ok(Press {
            zstd,
            page: Vec::new(),
            pressed: Vec::new(),
            before: Default::default(),
        })
    }

    /// Makes a page of all `cells`, the chunk's next one.
    pub(super) fn page(
        &mut self,
        chunk: &mut Chunk,
        cells: &mut Cells,
        may_be_null: bool,
    ) -> Result<(), ParquetError> {
        let (rows, nulls) = (
            cells.present().len(),
            cells.present().len() - cells.present().ones(),
        );
        self.page.clear();
        if may_be_null {
            put_levels(cells, &mut self.page);
        }
        let encoding = cells.put(&mut self.page);
        let size = self.page.len();
        if chunk.pages.is_empty() {
            self.press()?;
            chunk.is_pressed = self.pressed.len() < size || size < SAYS_NOTHING_BYTES;
        } else if chunk.is_pressed {
            self.press()?;
        }
        let data = if chunk.is_pressed {
            &self.pressed
        } else {
            &self.page
        };
        let page = Page::DataPage {
            buf: Bytes::copy_from_slice(data),
            num_values: rows as u32,
            encoding,
            def_level_encoding: Encoding::RLE,
            rep_level_encoding: Encoding::RLE,
            statistics: None,
        };
        chunk.pages.push(CompressedPage::new(page, size));
        chunk.rows += rows;
        chunk.nulls += nulls;
        Ok(())
    }

    /// Ends a chunk and empties it: its bytes, and what the file's end shall say of it, with places in these bytes.
    pub(super) fn close(
        &mut self,
        chunk: &mut Chunk,
        cells: &mut Cells,
        column: ColumnDescPtr,
    ) -> Result<(Bytes, ColumnCloseResult), ParquetError> {
        let chunk = std::mem::take(chunk);
        let dictionary = match is_in_dictionary(&chunk) {
            true => self.dictionary(cells, chunk.is_pressed)?,
            false => None,
        };
        let dictionary_offset = dictionary.as_ref().map(|_| 0);
        let encodings = count_encodings(dictionary.iter().chain(&chunk.pages));
        let mut sink = TrackedWrite::new(Vec::new());
        let mut pages = SerializedPageWriter::new(&mut sink);
        let (mut uncompressed, mut data_offset) = (0, None);
        for page in dictionary.into_iter().chain(chunk.pages) {
            let is_data = page.page_type() == PageType::DATA_PAGE;
            let written = pages.write_page(page)?;
            uncompressed += written.uncompressed_size;
            if is_data {
                data_offset.get_or_insert(written.offset);
            }
        }
        let bytes = Bytes::from(sink.into_inner()?);
        let mut metadata = ColumnChunkMetaData::builder(column)
            .set_compression(match chunk.is_pressed {
                true => Compression::ZSTD(ZstdLevel::default()),
                false => Compression::UNCOMPRESSED,
            })
            .set_encodings(
                (encodings.iter().map(|of| of.encoding))
                    .chain([Encoding::RLE])
                    .collect(),
            )
            .set_page_encoding_stats(encodings)
            .set_total_compressed_size(bytes.len() as i64)
            .set_total_uncompressed_size(uncompressed as i64)
            .set_num_values(chunk.rows as i64)
            .set_data_page_offset(data_offset.unwrap_or(0) as i64)
            .set_dictionary_page_offset(dictionary_offset);
        if let Some(statistics) = cells.statistics(chunk.nulls as u64) {
            metadata = metadata.set_statistics(statistics);
        }
        cells.clear();
        let close = ColumnCloseResult {
            bytes_written: bytes.len() as u64,
            rows_written: chunk.rows as u64,
            metadata: metadata.build()?,
            bloom_filter: None,
            column_index: None,
            offset_index: None,
        };
        Ok((bytes, close))
    }

    /// Compresses the page.
    fn press(&mut self) -> Result<(), ParquetError> {
        match (self.before.iter()).find(|(page, _)| *page == self.page) {
            Some((_, pressed)) => self.pressed.clone_from(pressed),
            None => {
                compress(&mut self.zstd, &self.page, &mut self.pressed)?;
                // The oldest gives its memory.
                self.before.rotate_right(1);
                self.before[0].0.clone_from(&self.page);
                self.before[0].1.clone_from(&self.pressed);
            }
        }
        Ok(())
    }

    fn dictionary(
        &mut self,
        cells: &Cells,
        is_pressed: bool,
    ) -> Result<Option<CompressedPage>, ParquetError> {
        let Some((plain, values)) = cells.dictionary() else {
            return Ok(None);
        };
        let uncompressed = plain.len();
        let bytes = if is_pressed {
            let mut pressed = Vec::new();
            compress(&mut self.zstd, &plain, &mut pressed)?;
            Bytes::from(pressed)
        } else {
            Bytes::from(plain)
        };
        let page = Page::DictionaryPage {
            buf: bytes,
            num_values: values as u32,
            encoding: Encoding::PLAIN,
            is_sorted: false,
        };
        Ok(Some(CompressedPage::new(page, uncompressed)))
    }
}

fn is_in_dictionary(chunk: &Chunk) -> bool {
    let mut pages = chunk.pages.iter();
    pages.any(|page| page.encoding() == Encoding::RLE_DICTIONARY)
}

/// How many pages there are of each kind.
fn count_encodings<'a>(pages: impl Iterator<Item = &'a CompressedPage>) -> Vec<PageEncodingStats> {
    let mut counts: Vec<PageEncodingStats> = Vec::new();
    for page in pages {
        let (page_type, encoding) = (page.page_type(), page.encoding());
        let mut known = counts.iter_mut();
        match known.find(|of| of.page_type == page_type && of.encoding == encoding) {
            Some(of) => of.count += 1,
            None => counts.push(PageEncodingStats {
                page_type,
                encoding,
                count: 1,
            }),
        }
    }
    counts
}

/// Appends which cells are there: their definition levels, after the levels' length.
fn put_levels(cells: &Cells, page: &mut Vec<u8>) {
    let start = page.len();
    page.extend_from_slice(&[0; 4]);
    cells.present().put_runs(page);
    let bytes = (page.len() - start - 4) as u32;
    page[start..start + 4].copy_from_slice(&bytes.to_le_bytes());
}

fn compress(
    zstd: &mut Compressor<'_>,
    plain: &[u8],
    pressed: &mut Vec<u8>,
) -> Result<(), ParquetError> {
    pressed.clear();
    pressed.reserve(zstd::zstd_safe::compress_bound(plain.len()));
    zstd.compress_to_buffer(plain, pressed)?;
    Ok(())
}
