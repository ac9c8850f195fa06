//! A column's packed cells as the pages of a column chunk, compressed where it pays.
//!
//! The pages are made one by one as rows come, and stand after the chunk's dictionary if it has one, which is known when
//! the row group is full. What the bytes in the pages mean is `column`'s business; here they get their levels, LZ4 and
//! the metadata that says where they are.

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
#[derive(Default)]
pub(super) struct Press {
    page: Vec<u8>,
    /// Room for whatever a page may come to.
    room: Vec<u8>,
    /// The pages that were compressed last, the very last one first: a message that goes in one piece has its first and its
    /// last byte at the same time, so that columns repeat.
    before: [Pressed; PAGES_BEFORE],
}

/// A page, and what it came to.
#[derive(Default)]
struct Pressed {
    plain: Vec<u8>,
    pressed: Vec<u8>,
}

impl Press {
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
        let is_first = chunk.pages.is_empty();
        let data = if is_first || chunk.is_pressed {
            let Pressed { plain, pressed } = self.press()?;
            if is_first {
                chunk.is_pressed = pressed.len() < size || size < SAYS_NOTHING_BYTES;
            }
            if chunk.is_pressed { pressed } else { plain }
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
                true => Compression::LZ4_RAW,
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

    /// Compresses the page, unless it is one of those before.
    fn press(&mut self) -> Result<&Pressed, ParquetError> {
        let mut before = self.before.iter();
        if let Some(same) = before.position(|known| known.plain == self.page) {
            return Ok(&self.before[same]);
        }
        // The oldest gives its memory.
        self.before.rotate_right(1);
        let newest = &mut self.before[0];
        std::mem::swap(&mut newest.plain, &mut self.page);
        compress(&newest.plain, &mut self.room, &mut newest.pressed)?;
        Ok(newest)
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
            compress(&plain, &mut self.room, &mut pressed)?;
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

/// Replaces what is in `pressed`. Beside zstd at its fast levels LZ4 takes half the time, for 1 % more bytes of tables whose
/// times differ, and a quarter to a half more of those that are small already (docs/METHOD.md, "What the engines cost").
fn compress(plain: &[u8], room: &mut Vec<u8>, pressed: &mut Vec<u8>) -> Result<(), ParquetError> {
    let enough = get_maximum_output_size(plain.len());
    if room.len() < enough {
        room.resize(enough, 0);
    }
    let used = compress_into(plain, room).map_err(|error| ParquetError::External(error.into()))?;
    pressed.clear();
    pressed.extend_from_slice(&room[..used]);
    Ok(())
}
