//! Packs rows into a Parquet row group, column by column.
//!
//! It writes the same format as the parquet crate in a fraction of the instructions: that crate hashes each word, and
//! its encoders take numbers one by one. Here every column is gathered directly from the rows (`column`), packed a
//! block at a time (`delta`, `runs`, `bits`), and passed to the parquet crate as finished pages (`chunk`). Pages are
//! made one column at a time, so that the caller can do other work in between. The parquet crate writes the file's
//! metadata and footer, and reads pages for `table::reader`.

mod bits;
mod chunk;
mod column;
mod delta;
mod runs;

use std::io::Write;

use parquet::errors::ParquetError;
use parquet::file::writer::SerializedFileWriter;

use self::chunk::{Chunk, PageCompressor};
use self::column::{Cells, Numbers};
use self::delta::RecentBlocks;
use super::schema::Column;

/// Rows per row group. The writer holds the packed columns of one group and the metadata of all earlier ones (about 1.3
/// kB per column), so smaller groups would make long loads need more memory.
pub(super) const ROW_GROUP_ROWS: usize = 256 * 1024;
/// Rows per page. The slow step, compression, works on one page of one column at a time (docs/METHOD.md, "writes in
/// time to spare"). A page costs some 40 bytes.
pub(super) const PAGE_ROWS: usize = 8 * 1024;
const _: () = assert!(ROW_GROUP_ROWS.is_multiple_of(PAGE_ROWS));
/// The largest page that compresses quickly; only pages of texts can be larger.
const SHORT_PAGE_BYTES: usize = 8 * PAGE_ROWS;
/// Rows packed at once: enough to keep the overhead per column small, and few enough to stay in the L1 cache while
/// every column reads them.
pub(super) const PIECE_ROWS: usize = 256;

/// A number that is too large for a signed column.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CellWriteError {
    pub(super) column: &'static str,
    pub(super) value: u64,
}

/// The row group being written. Rows fill its columns from first to last, in the table's order.
pub struct RowGroup {
    columns: &'static [Column],
    /// The page being filled, one element per column.
    cells: Vec<Cells>,
    /// The finished pages of each column.
    chunks: Vec<Chunk>,
    /// The index of the column to fill next.
    next: usize,
    /// Rows in the page being filled.
    rows: usize,
    /// How many columns of the full page have been made into pages.
    compressed_columns: usize,
    rows_before_page: usize,
    recent: RecentBlocks,
    compressor: PageCompressor,
}

impl RowGroup {
    pub(super) fn new(columns: &'static [Column]) -> RowGroup {
        RowGroup {
            columns,
            cells: columns.iter().map(Cells::new).collect(),
            chunks: columns.iter().map(|_| Chunk::default()).collect(),
            next: 0,
            rows: 0,
            compressed_columns: 0,
            rows_before_page: 0,
            recent: RecentBlocks::default(),
            compressor: PageCompressor::default(),
        }
    }

    /// How many rows the current page can still take; 0 if a page has to be compressed or the row group is full.
    pub(super) fn room(&self) -> usize {
        if self.is_full() {
            0
        } else {
            PAGE_ROWS - self.rows
        }
    }

    /// Whether the row group has no rows.
    pub(super) fn is_empty(&self) -> bool {
        self.rows == 0 && self.rows_before_page == 0
    }

    /// A copy of the rows so far, which can be written while this row group is filled further. It copies the page being filled
    /// and shares the finished ones.
    pub(super) fn copy(&self) -> RowGroup {
        RowGroup {
            columns: self.columns,
            cells: self.cells.clone(),
            chunks: self.chunks.iter().map(Chunk::copy).collect(),
            next: self.next,
            rows: self.rows,
            compressed_columns: self.compressed_columns,
            rows_before_page: self.rows_before_page,
            recent: RecentBlocks::default(),
            compressor: PageCompressor::default(),
        }
    }

    fn is_full(&self) -> bool {
        self.rows_before_page == ROW_GROUP_ROWS
    }

    /// Records that every column has received `rows` more rows.
    pub(super) fn add_rows(&mut self, rows: usize) {
        debug_assert_eq!(self.next, self.cells.len(), "a row fills every column");
        self.next = 0;
        self.rows += rows;
    }

    /// Whether the current page is full, so that one of its columns has to be compressed next.
    pub(super) fn is_page_full(&self) -> bool {
        self.rows == PAGE_ROWS
    }

    /// Whether compressing the next column takes little time.
    pub(super) fn is_next_short(&self) -> bool {
        self.cells[self.compressed_columns].text_bytes() <= SHORT_PAGE_BYTES
    }

    /// Makes the next column of the full page into a Parquet page and compresses it.
    pub(super) fn compress_next(&mut self) -> Result<(), ParquetError> {
        let column = self.compressed_columns;
        let may_be_null = self.columns[column].nullable;
        (self.compressor).page(
            &mut self.chunks[column],
            &mut self.cells[column],
            may_be_null,
        )?;
        self.compressed_columns += 1;
        if self.compressed_columns == self.columns.len() {
            self.rows_before_page += self.rows;
            (self.rows, self.compressed_columns) = (0, 0);
        }
        Ok(())
    }

    /// Writes the row group if it has rows, and begins the next one.
    pub(super) fn write<W: Write + Send>(
        &mut self,
        file: &mut SerializedFileWriter<W>,
    ) -> Result<(), ParquetError> {
        while self.rows > 0 {
            self.compress_next()?;
        }
        if self.rows_before_page == 0 {
            return Ok(());
        }
        let columns = file.schema_descr().columns().to_vec();
        let mut group = file.next_row_group()?;
        for ((column, chunk), cells) in
            (columns.into_iter().zip(&mut self.chunks)).zip(&mut self.cells)
        {
            let (bytes, close) = self.compressor.close(chunk, cells, column)?;
            group.append_column(&bytes, close)?;
        }
        group.close()?;
        self.rows_before_page = 0;
        Ok(())
    }

    /// Fills a column of times or counts.
    pub(super) fn numbers<R>(
        &mut self,
        rows: &[R],
        cell: impl Fn(&R) -> u64,
    ) -> Result<(), CellWriteError> {
        let (cells, recent) = self.next_numbers();
        let bits = cells.gather(rows, &cell, recent);
        self.check_signed(bits, rows.iter().map(cell))
    }

    /// Fills a nullable column of times or counts.
    pub(super) fn optional_numbers<R>(
        &mut self,
        rows: &[R],
        cell: impl Fn(&R) -> Option<u64>,
    ) -> Result<(), CellWriteError> {
        let (cells, recent) = self.next_numbers();
        let bits = cells.gather_some(rows, &cell, recent);
        self.check_signed(bits, rows.iter().filter_map(cell))
    }

    /// Fills a nullable column of signed numbers.
    pub(super) fn optional_signed<R>(&mut self, rows: &[R], cell: impl Fn(&R) -> Option<i64>) {
        let (cells, recent) = self.next_numbers();
        cells.gather_some(rows, |row| cell(row).map(|number| number as u64), recent);
    }

    /// Fills a column of small unsigned numbers.
    pub(super) fn small<R>(&mut self, rows: &[R], cell: impl Fn(&R) -> u32) {
        match self.next_with_recent() {
            (Cells::Numbers(cells), recent) => {
                cells.gather(rows, |row| u64::from(cell(row)), recent);
            }
            (Cells::RepeatedNumbers(cells), recent) => cells.gather(rows, cell, recent),
            (other, _) => not_as_declared(other),
        }
    }

    /// Fills a column of flags.
    pub(super) fn flags<R>(&mut self, rows: &[R], cell: impl Fn(&R) -> bool) {
        match self.next() {
            Cells::Flags(cells) => cells.gather(rows, cell),
            other => not_as_declared(other),
        }
    }

    /// Fills a column of an enumeration's words. `place` returns the index of a row's word in `words`.
    pub(super) fn words<R>(
        &mut self,
        rows: &[R],
        words: &[&'static str],
        place: impl Fn(&R) -> usize,
    ) {
        match self.next() {
            Cells::Words(cells) => cells.gather(
                rows,
                |row| place(row) as u8,
                |place| words[usize::from(place)],
            ),
            other => not_as_declared(other),
        }
    }

    /// Fills a nullable column of words. A word depends on a row's `key`; `number` returns the number of the key's
    /// word, and `word` the word itself.
    pub(super) fn optional_words<R, K: PartialEq>(
        &mut self,
        rows: &[R],
        key: impl Fn(&R) -> K,
        number: impl Fn(&K) -> Option<u8>,
        word: impl Fn(u8) -> &'static str,
    ) {
        match self.next() {
            Cells::Words(cells) => cells.gather_some(rows, key, number, word),
            other => not_as_declared(other),
        }
    }

    /// Fills a nullable column of free text.
    pub(super) fn texts<R>(&mut self, rows: &[R], cell: impl Fn(&R) -> Option<String>) {
        match self.next() {
            Cells::Texts(cells) => cells.gather(rows, cell),
            other => not_as_declared(other),
        }
    }

    fn next(&mut self) -> &mut Cells {
        self.next_with_recent().0
    }

    fn next_with_recent(&mut self) -> (&mut Cells, &mut RecentBlocks) {
        self.next += 1;
        (&mut self.cells[self.next - 1], &mut self.recent)
    }

    fn next_numbers(&mut self) -> (&mut Numbers, &mut RecentBlocks) {
        match self.next_with_recent() {
            (Cells::Numbers(cells), recent) => (cells, recent),
            (other, _) => not_as_declared(other),
        }
    }

    /// Checks that the column just filled, a signed one, can hold all `cells`, whose bitwise OR is `bits`.
    fn check_signed(
        &self,
        bits: u64,
        mut cells: impl Iterator<Item = u64>,
    ) -> Result<(), CellWriteError> {
        let is_too_large = |number: &u64| i64::try_from(*number).is_err();
        if is_too_large(&bits)
            && let Some(value) = cells.find(is_too_large)
        {
            let column = self.columns[self.next - 1].name;
            return Err(CellWriteError { column, value });
        }
        Ok(())
    }
}

/// Unreachable, because a table's `encode` and its list of columns are in one file and are written together.
fn not_as_declared(cells: &Cells) -> ! {
    unreachable!("a row fills each column as its table declares it, not as {cells:?}")
}
