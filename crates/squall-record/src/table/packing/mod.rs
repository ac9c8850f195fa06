//! Rows into a row group of Parquet, column by column.
//!
//! It writes what the parquet crate would, in a fraction of the instructions: that one hashes each word, and its
//! encoders take numbers one by one. Here every column is gathered straight from the rows (`column`), packed a block at
//! a time (`delta`, `runs`, `bits`), and handed to the parquet crate as finished pages (`chunk`), which are made a column
//! at a time, for those who have other things to do meanwhile. The file's metadata and end are that crate's business. Reading is `table::reader`'s; `unpacking` is the way back for differences.

mod bits;
mod chunk;
mod column;
mod delta;
mod runs;

use std::io::Write;

use parquet::errors::ParquetError;
use parquet::file::writer::SerializedFileWriter;

use self::chunk::{Chunk, Press};
use self::column::{Cells, Numbers};
use self::delta::RecentBlocks;
use super::schema::Column;

/// Rows of a row group: the writer holds the packed columns of one at a time, and the description of every one before it
/// (about 1.3 kB a column), so fewer rows would make files of long loads cost memory.
pub(super) const ROW_GROUP_ROWS: usize = 256 * 1024;
/// Rows of a page: what takes long, pressing, is done a page of a column at a time (docs/METHOD.md, "Writing in time to
/// spare"); a page costs some 40 bytes.
pub(super) const PAGE_ROWS: usize = 8 * 1024;
const _: () = assert!(ROW_GROUP_ROWS.is_multiple_of(PAGE_ROWS));
/// The most bytes of a page that are pressed in a short time: only texts can be more.
const SHORT_PAGE_BYTES: usize = 8 * PAGE_ROWS;
/// Rows that are packed at once: enough to make the cost per column small, few enough for the processor's nearest cache
/// to hold them while every column looks at them.
pub(super) const PIECE_ROWS: usize = 256;

/// A number that a signed column cannot hold.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CellWriteError {
    pub(super) column: &'static str,
    pub(super) value: u64,
}

/// The row group that is being written. A row fills its columns from the first to the last, in the table's order.
pub struct RowGroup {
    columns: &'static [Column],
    /// Of the page that is being filled, a column each.
    cells: Vec<Cells>,
    /// The pages before it.
    chunks: Vec<Chunk>,
    /// The place of the column that comes next.
    next: usize,
    /// Rows of the page that is being filled.
    rows: usize,
    /// Columns of the page, once it is full, of which pages are made.
    pressed: usize,
    rows_before_page: usize,
    recent: RecentBlocks,
    press: Press,
}

impl RowGroup {
    pub(super) fn new(columns: &'static [Column]) -> RowGroup {
        RowGroup {
            columns,
            cells: columns.iter().map(Cells::new).collect(),
            chunks: columns.iter().map(|_| Chunk::default()).collect(),
            next: 0,
            rows: 0,
            pressed: 0,
            rows_before_page: 0,
            recent: RecentBlocks::default(),
            press: Press::default(),
        }
    }

    /// Rows that its page can still take; 0 if that is to be pressed, or the row group is full.
    pub(super) fn room(&self) -> usize {
        match self.is_full() {
            true => 0,
            false => PAGE_ROWS - self.rows,
        }
    }

    fn is_full(&self) -> bool {
        self.rows_before_page == ROW_GROUP_ROWS
    }

    /// Says that every column now has `rows` more rows.
    pub(super) fn took(&mut self, rows: usize) {
        debug_assert_eq!(self.next, self.cells.len(), "a row fills every column");
        self.next = 0;
        self.rows += rows;
    }

    /// Whether its page is full, a column of which is to be pressed then.
    pub(super) fn is_page_full(&self) -> bool {
        self.rows == PAGE_ROWS
    }

    /// Whether to press the next column takes a short time.
    pub(super) fn is_next_short(&self) -> bool {
        self.cells[self.pressed].text_bytes() <= SHORT_PAGE_BYTES
    }

    /// Presses the next column of its page.
    pub(super) fn press_next(&mut self) -> Result<(), ParquetError> {
        let place = self.pressed;
        let may_be_null = self.columns[place].nullable;
        (self.press).page(&mut self.chunks[place], &mut self.cells[place], may_be_null)?;
        self.pressed += 1;
        if self.pressed == self.columns.len() {
            self.rows_before_page += self.rows;
            (self.rows, self.pressed) = (0, 0);
        }
        Ok(())
    }

    /// Writes the row group, if it has rows, and begins the next one.
    pub(super) fn write<W: Write + Send>(
        &mut self,
        file: &mut SerializedFileWriter<W>,
    ) -> Result<(), ParquetError> {
        while self.rows > 0 {
            self.press_next()?;
        }
        if self.rows_before_page == 0 {
            return Ok(());
        }
        let columns = file.schema_descr().columns().to_vec();
        let mut group = file.next_row_group()?;
        for ((column, chunk), cells) in
            (columns.into_iter().zip(&mut self.chunks)).zip(&mut self.cells)
        {
            let (bytes, close) = self.press.close(chunk, cells, column)?;
            group.append_column(&bytes, close)?;
        }
        group.close()?;
        self.rows_before_page = 0;
        Ok(())
    }

    /// A column of times or counts.
    pub(super) fn numbers<R>(
        &mut self,
        rows: &[R],
        cell: impl Fn(&R) -> u64,
    ) -> Result<(), CellWriteError> {
        let (cells, recent) = self.next_numbers();
        let bits = cells.gather(rows, &cell, recent);
        self.check_signed(bits, rows.iter().map(cell))
    }

    /// A column of times or counts that may be null.
    pub(super) fn optional_numbers<R>(
        &mut self,
        rows: &[R],
        cell: impl Fn(&R) -> Option<u64>,
    ) -> Result<(), CellWriteError> {
        let (cells, recent) = self.next_numbers();
        let bits = cells.gather_some(rows, &cell, recent);
        self.check_signed(bits, rows.iter().filter_map(cell))
    }

    /// A column of numbers that may be below zero, and may be null.
    pub(super) fn optional_signed<R>(&mut self, rows: &[R], cell: impl Fn(&R) -> Option<i64>) {
        let (cells, recent) = self.next_numbers();
        cells.gather_some(rows, |row| cell(row).map(|number| number as u64), recent);
    }

    /// A column of small unsigned numbers.
    pub(super) fn small<R>(&mut self, rows: &[R], cell: impl Fn(&R) -> u32) {
        match self.next_with_recent() {
            (Cells::Numbers(cells), recent) => {
                cells.gather(rows, |row| u64::from(cell(row)), recent);
            }
            (Cells::RepeatedNumbers(cells), recent) => cells.gather(rows, cell, recent),
            (other, _) => not_as_declared(other),
        }
    }

    /// A column of small unsigned numbers that may be null.
    pub(super) fn optional_small<R>(&mut self, rows: &[R], cell: impl Fn(&R) -> Option<u32>) {
        let (cells, recent) = self.next_numbers();
        cells.gather_some(rows, |row| cell(row).map(u64::from), recent);
    }

    /// A column of yes and no.
    pub(super) fn flags<R>(&mut self, rows: &[R], cell: impl Fn(&R) -> bool) {
        match self.next() {
            Cells::Flags(cells) => cells.gather(rows, cell),
            other => not_as_declared(other),
        }
    }

    /// A column of an enumeration's words. `place` gives a row's place in `words`.
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

    /// A column of words that may be null: they follow from a row's `key`; `number` gives each a number, and `word` says
    /// which one that is.
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

    /// A column of free text that may be null.
    pub(super) fn texts<R>(&mut self, rows: &[R], cell: impl Fn(&R) -> Option<&str>) {
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

    /// Whether a signed column holds all `cells` of the column before the next, whose bits together are `bits`.
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

/// A table's `encode` and its list of columns are of one file and are written together.
fn not_as_declared(cells: &Cells) -> ! {
    unreachable!("a row fills each column as its table declares it, not as {cells:?}")
}
