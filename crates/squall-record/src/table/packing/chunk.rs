//! Turns a column's packed cells into the pages of a column chunk, compressed where that pays.
//!
//! Pages are made one by one as rows come. In the file they follow the chunk's dictionary, if it has one, which is
//! complete only when the row group is. `column` determines the bytes in a page; this module adds the definition
//! levels, LZ4 and the metadata that locates the pages.

use bytes::Bytes;
use lz4_flex::block::{compress_into, get_maximum_output_size};
use parquet::basic::{Compression, Encoding, PageType};
use parquet::column::page::{CompressedPage, Page, PageWriter as _};
use parquet::column::writer::ColumnCloseResult;
use parquet::errors::ParquetError;
use parquet::file::metadata::{ColumnChunkMetaData, PageEncodingStats};
use parquet::file::writer::{SerializedPageWriter, TrackedWrite};
use parquet::schema::types::ColumnDescPtr;

use super::column::Cells;

/// A page smaller than this comes from a column that was constant or null so far; compressing it costs some 10 bytes.
const INCONCLUSIVE_BYTES: usize = 1024;

/// How many pages back an identical page is looked for: the columns for the ends of a range alternate with those for
/// its starts.
const PAGES_BEFORE: usize = 2;

/// The pages of a column in a row group made so far.
#[derive(Default)]
pub(super) struct Chunk {
    pages: Vec<CompressedPage>,
    /// Whether its pages are compressed, which must be the same for all of them. The first page decides: if compression
    /// does not pay there, it is not tried again before the next row group. A very small first page says nothing about
    /// later ones, so the chunk is then compressed.
    is_compressed: bool,
    rows: usize,
    nulls: usize,
}

impl Chunk {
    /// A copy, which shares the bytes of the pages.
    pub(super) fn copy(&self) -> Chunk {
        let copy = |page: &CompressedPage| {
            CompressedPage::new(page.compressed_page().clone(), page.uncompressed_size())
        };
        Chunk {
            pages: self.pages.iter().map(copy).collect(),
            is_compressed: self.is_compressed,
            rows: self.rows,
            nulls: self.nulls,
        }
    }
}

/// Makes pages, reusing its buffers.
#[derive(Default)]
pub(super) struct PageCompressor {
    page: Vec<u8>,
    /// Output buffer, large enough for any compressed page.
    room: Vec<u8>,
    /// The last compressed pages, newest first. Columns repeat: a message that is sent in one piece has its first and
    /// its last byte at the same time.
    before: [PageBytes; PAGES_BEFORE],
}

/// A page before and after compression.
#[derive(Default)]
struct PageBytes {
    plain: Vec<u8>,
    compressed: Vec<u8>,
}

impl PageCompressor {
    /// Makes the chunk's next page from all `cells`.
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
        let is_first = chunk.pages.is_empty();
        let data = if is_first || chunk.is_compressed {
            let PageBytes { plain, compressed } = self.compress_page()?;
            if is_first {
                chunk.is_compressed = compressed.len() < size || size < INCONCLUSIVE_BYTES;
            }
            if chunk.is_compressed {
                compressed
            } else {
                plain
            }
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

    /// Ends a chunk and empties it. Returns its bytes and its metadata, with offsets into these bytes.
    pub(super) fn close(
        &mut self,
        chunk: &mut Chunk,
        cells: &mut Cells,
        column: ColumnDescPtr,
    ) -> Result<(Bytes, ColumnCloseResult), ParquetError> {
        let chunk = std::mem::take(chunk);
        let dictionary = if is_in_dictionary(&chunk) {
            self.dictionary(cells, chunk.is_compressed)?
        } else {
            None
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
            .set_compression(if chunk.is_compressed {
                Compression::LZ4_RAW
            } else {
                Compression::UNCOMPRESSED
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

    /// Compresses the page, unless it equals a recent one.
    fn compress_page(&mut self) -> Result<&PageBytes, ParquetError> {
        let mut before = self.before.iter();
        if let Some(same) = before.position(|known| known.plain == self.page) {
            return Ok(&self.before[same]);
        }
        // Reuses the buffers of the oldest page.
        self.before.rotate_right(1);
        let newest = &mut self.before[0];
        std::mem::swap(&mut newest.plain, &mut self.page);
        compress(&newest.plain, &mut self.room, &mut newest.compressed)?;
        Ok(newest)
    }

    fn dictionary(
        &mut self,
        cells: &Cells,
        is_compressed: bool,
    ) -> Result<Option<CompressedPage>, ParquetError> {
        let Some((plain, values)) = cells.dictionary() else {
            return Ok(None);
        };
        let uncompressed = plain.len();
        let bytes = if is_compressed {
            let mut compressed = Vec::new();
            compress(&plain, &mut self.room, &mut compressed)?;
            Bytes::from(compressed)
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

/// Appends the definition levels, which mark the cells that are not null, after their length.
fn put_levels(cells: &Cells, page: &mut Vec<u8>) {
    let start = page.len();
    page.extend_from_slice(&[0; 4]);
    cells.present().put_runs(page);
    let bytes = (page.len() - start - 4) as u32;
    page[start..start + 4].copy_from_slice(&bytes.to_le_bytes());
}

/// Compresses `plain` into `compressed`, replacing its content. Compared with zstd at its fast levels, LZ4 takes half
/// the time; it needs 1 % more bytes for tables whose times differ, and a quarter to a half more for tables that are
/// small anyway (benches/RESULTS.md, "Writers").
fn compress(
    plain: &[u8],
    room: &mut Vec<u8>,
    compressed: &mut Vec<u8>,
) -> Result<(), ParquetError> {
    let enough = get_maximum_output_size(plain.len());
    if room.len() < enough {
        room.resize(enough, 0);
    }
    let used = compress_into(plain, room).map_err(|error| ParquetError::External(error.into()))?;
    compressed.clear();
    compressed.extend_from_slice(&room[..used]);
    Ok(())
}
