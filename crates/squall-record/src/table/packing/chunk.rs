//! A column's packed cells as the pages of a column chunk, compressed where it pays.
//!
//! Each chunk has one data page, after its dictionary if it has one. What the bytes in the pages mean is `column`'s
//! business; here they get their levels, zstd and the metadata that says where they are.

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

/// How far back a page may be that is the same: a range's ends take turns with its starts.
const PAGES_BEFORE: usize = 2;

/// Makes column chunks. It keeps its memory from one to the next.
pub(super) struct Press {
    zstd: Compressor<'static>,
    page: Vec<u8>,
    pressed: Vec<u8>,
    /// The pages before in this row group and what they were pressed to, the last one first: a message that goes in one
    /// piece has its first and its last byte at the same time, so that columns repeat.
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

    /// The chunk of `cells`: its bytes, and what the file's end shall say of it, with places in these bytes.
    pub(super) fn chunk(
        &mut self,
        column: ColumnDescPtr,
        cells: &mut Cells,
    ) -> Result<(Bytes, ColumnCloseResult), ParquetError> {
        // What was pressed last is before this one now; the oldest gives its memory.
        self.before.rotate_right(1);
        std::mem::swap(&mut self.before[0].0, &mut self.page);
        std::mem::swap(&mut self.before[0].1, &mut self.pressed);
        self.page.clear();
        let rows = cells.present().len();
        if column.max_def_level() > 0 {
            put_levels(cells, &mut self.page);
        }
        let encoding = cells.put(&mut self.page);
        let is_pressed = self.press()?;
        let data = if is_pressed {
            &self.pressed
        } else {
            &self.page
        };
        let data = Page::DataPage {
            buf: Bytes::copy_from_slice(data),
            num_values: rows as u32,
            encoding,
            def_level_encoding: Encoding::RLE,
            rep_level_encoding: Encoding::RLE,
            statistics: None,
        };
        let data = CompressedPage::new(data, self.page.len());

        let mut sink = TrackedWrite::new(Vec::new());
        let mut pages = SerializedPageWriter::new(&mut sink);
        let mut encodings = vec![count_of(PageType::DATA_PAGE, encoding)];
        let mut uncompressed = 0;
        let mut dictionary_offset = None;
        if let Some(dictionary) = self.dictionary(cells, is_pressed)? {
            let written = pages.write_page(dictionary)?;
            uncompressed += written.uncompressed_size;
            dictionary_offset = Some(0);
            encodings.insert(0, count_of(PageType::DICTIONARY_PAGE, Encoding::PLAIN));
        }
        let written = pages.write_page(data)?;
        uncompressed += written.uncompressed_size;
        let bytes = Bytes::from(sink.into_inner()?);

        let mut metadata = ColumnChunkMetaData::builder(column)
            .set_compression(match is_pressed {
                true => Compression::ZSTD(ZstdLevel::default()),
                false => Compression::UNCOMPRESSED,
            })
            .set_encodings(
                encodings
                    .iter()
                    .map(|of| of.encoding)
                    .chain([Encoding::RLE])
                    .collect(),
            )
            .set_page_encoding_stats(encodings)
            .set_total_compressed_size(bytes.len() as i64)
            .set_total_uncompressed_size(uncompressed as i64)
            .set_num_values(rows as i64)
            .set_data_page_offset(written.offset as i64)
            .set_dictionary_page_offset(dictionary_offset);
        if let Some(statistics) = cells.statistics() {
            metadata = metadata.set_statistics(statistics);
        }
        let close = ColumnCloseResult {
            bytes_written: bytes.len() as u64,
            rows_written: rows as u64,
            metadata: metadata.build()?,
            bloom_filter: None,
            column_index: None,
            offset_index: None,
        };
        Ok((bytes, close))
    }

    /// Compresses the page; whether that pays. All pages of a chunk must be alike: the data's decides.
    fn press(&mut self) -> Result<bool, ParquetError> {
        match self.before.iter().find(|(page, _)| *page == self.page) {
            Some((_, pressed)) => self.pressed.clone_from(pressed),
            None => compress(&mut self.zstd, &self.page, &mut self.pressed)?,
        }
        Ok(self.pressed.len() < self.page.len())
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

fn count_of(page_type: PageType, encoding: Encoding) -> PageEncodingStats {
    PageEncodingStats {
        page_type,
        encoding,
        count: 1,
    }
}
