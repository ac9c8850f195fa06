//! Reads integer columns from a file, in fewer instructions than the parquet crate takes.
//!
//! It decodes the pages that our own packer writes (`delta`, `levels`). At anything else in a chunk, the parquet crate
//! takes over from that point, so files of other writers are accepted or refused exactly as that crate does. It does
//! not decide which columns exist or whether a cell is valid (`reader`, `columns`).

mod delta;
mod levels;

use std::sync::Arc;

use arrow_array::builder::BooleanBufferBuilder;
use arrow_array::types::{Int64Type, UInt32Type};
use arrow_array::{ArrayRef, ArrowPrimitiveType, PrimitiveArray};
use arrow_schema::DataType;
use parquet::basic::{Encoding, Type};
use parquet::column::page::{Page, PageReader as _};
use parquet::column::reader::{ColumnReaderImpl, get_column_reader, get_typed_column_reader};
use parquet::data_type;
use parquet::errors::ParquetError;
use parquet::file::metadata::ParquetMetaData;
use parquet::file::reader::Length as _;
use parquet::file::serialized_reader::SerializedPageReader;

use delta::{Deltas, Number};
use levels::{Levels, Presence};

use super::positioned::PositionedFile;

/// A column that is read here, starting at its first row.
pub(super) enum Numbers {
    Wide(Box<Chunks<Wide>>),
    Narrow(Box<Chunks<Narrow>>),
}

impl Numbers {
    /// The column with this name and type, if its pages may be in our format.
    pub(super) fn of(
        file: &Arc<PositionedFile>,
        metadata: &Arc<ParquetMetaData>,
        name: &str,
        data_type: &DataType,
    ) -> Option<Numbers> {
        let schema = metadata.file_metadata().schema_descr();
        let mut columns = (0..schema.num_columns()).map(|index| (index, schema.column(index)));
        let (index, column) = columns.find(|(_, column)| column.path().parts() == [name])?;
        let is_known =
            |encoding: Encoding| [Encoding::DELTA_BINARY_PACKED, Encoding::RLE].contains(&encoding);
        let mut groups = metadata.row_groups().iter();
        if column.max_rep_level() > 0
            || column.max_def_level() > 1
            || !groups.all(|group| group.column(index).encodings().all(is_known))
        {
            return None;
        }
        // If a corrupt file had overlapping chunks, the same bytes would be read again and again.
        let all = (metadata.row_groups().iter()).try_fold(0_u64, |all, group| {
            all.checked_add(u64::try_from(group.column(index).compressed_size()).ok()?)
        })?;
        if all > file.len() {
            return None;
        }
        match (data_type, column.physical_type()) {
            (DataType::Int64, Type::INT64) => {
                Some(Numbers::Wide(Box::new(Chunks::new(file, metadata, index))))
            }
            (DataType::UInt32, Type::INT32) => Some(Numbers::Narrow(Box::new(Chunks::new(
                file, metadata, index,
            )))),
            _ => None,
        }
    }

    /// Called after the last row: an error if the column has more rows.
    pub(super) fn end(&mut self) -> Result<(), ParquetError> {
        let is_finished = match self {
            Numbers::Wide(chunks) => chunks.is_finished(),
            Numbers::Narrow(chunks) => chunks.is_finished(),
        };
        if is_finished { Ok(()) } else { Err(uneven()) }
    }

    /// The cells of the next `rows` rows.
    pub(super) fn next(&mut self, rows: usize) -> Result<ArrayRef, ParquetError> {
        match self {
            Numbers::Wide(chunks) => chunks.next(rows),
            Numbers::Narrow(chunks) => chunks.next(rows),
        }
    }
}

/// The width of a column: its types in Parquet, in Arrow and here.
pub(super) trait Width {
    type Parquet: data_type::DataType;
    type Arrow: ArrowPrimitiveType<Native: Number>;

    fn number(
        stored: &<Self::Parquet as data_type::DataType>::T,
    ) -> <Self::Arrow as ArrowPrimitiveType>::Native;
}

/// Signed 64-bit numbers.
pub(super) struct Wide;

impl Width for Wide {
    type Parquet = data_type::Int64Type;
    type Arrow = Int64Type;

    fn number(stored: &i64) -> i64 {
        *stored
    }
}

/// Unsigned 32-bit numbers.
pub(super) struct Narrow;

impl Width for Narrow {
    type Parquet = data_type::Int32Type;
    type Arrow = UInt32Type;

    fn number(stored: &i32) -> u32 {
        stored.cast_unsigned()
    }
}

type Native<W> = <<W as Width>::Arrow as ArrowPrimitiveType>::Native;

/// The chunks of a column, one per row group.
pub(super) struct Chunks<W: Width> {
    file: Arc<PositionedFile>,
    metadata: Arc<ParquetMetaData>,
    column: usize,
    /// The row group after the current one.
    next_group: usize,
    chunk: Option<Chunk<W>>,
    rows: usize,
    rows_left: usize,
}

enum Chunk<W: Width> {
    Packed(Box<Pages<Native<W>>>),
    Fallback(Box<ColumnReaderImpl<W::Parquet>>),
}

/// The pages of a chunk in our format.
struct Pages<N> {
    rest: SerializedPageReader<PositionedFile>,
    may_be_null: bool,
    page: PackedPage<N>,
}

impl<N: Number> Pages<N> {
    /// Starts at the first page; `None` if it is not in our format.
    fn begin(
        mut pages: SerializedPageReader<PositionedFile>,
        may_be_null: bool,
    ) -> Option<Pages<N>> {
        let page = pages.get_next_page().ok()??;
        Some(Pages {
            page: PackedPage::of(page, may_be_null)?,
            rest: pages,
            may_be_null,
        })
    }

    /// Appends the next `count` cells; `None` if a page is not in our format.
    fn take(&mut self, count: usize, cells: &mut Cells<N>) -> Option<()> {
        let mut remaining = count;
        while remaining > 0 {
            if self.page.rows == 0 {
                let page = self.rest.get_next_page().ok()??;
                self.page = PackedPage::of(page, self.may_be_null)?;
            }
            let now = remaining.min(self.page.rows);
            self.page.take(now, cells)?;
            remaining -= now;
        }
        Some(())
    }
}

/// The rest of a page in our format.
struct PackedPage<N> {
    /// `None` if the column cannot have nulls.
    levels: Option<Levels>,
    deltas: Deltas<N>,
    rows: usize,
}

impl<N: Number> PackedPage<N> {
    /// Starts on a page; `None` if it is not in our format.
    fn of(page: Page, may_be_null: bool) -> Option<PackedPage<N>> {
        let Page::DataPage {
            buf,
            num_values,
            encoding: Encoding::DELTA_BINARY_PACKED,
            def_level_encoding: Encoding::RLE,
            ..
        } = page
        else {
            return None;
        };
        let (levels, values) = if may_be_null {
            let (levels, values) = Levels::of(&buf)?;
            (Some(levels), values)
        } else {
            (None, buf)
        };
        let rows = usize::try_from(num_values).ok()?;
        (rows > 0).then_some(PackedPage {
            levels,
            deltas: Deltas::of(values)?,
            rows,
        })
    }

    /// Appends the next `count` cells; the page must have that many left.
    fn take(&mut self, count: usize, cells: &mut Cells<N>) -> Option<()> {
        self.rows -= count;
        let Some(levels) = &mut self.levels else {
            self.deltas.take(count, &mut cells.numbers)?;
            cells.note_numbers();
            return Some(());
        };
        let (mut remaining, mut some) = (count, Vec::new());
        while remaining > 0 {
            let presence = levels.run(remaining)?;
            match presence {
                Presence::All(count) => {
                    self.deltas.take(count, &mut cells.numbers)?;
                    cells.note_numbers();
                }
                Presence::None(count) => cells.add_nulls(count),
                Presence::Some(bits, count) => {
                    some.clear();
                    self.deltas.take(bits.count_ones() as usize, &mut some)?;
                    cells.add_some(bits, count, &some);
                }
            }
            remaining -= presence.count();
        }
        Some(())
    }
}

/// The cells of some rows.
struct Cells<N> {
    numbers: Vec<N>,
    /// Which of them are not null; `None` means all.
    present: Option<BooleanBufferBuilder>,
}

impl<N: Number> Cells<N> {
    fn present(&mut self) -> &mut BooleanBufferBuilder {
        let before = self.numbers.len();
        self.present.get_or_insert_with(|| {
            let mut present = BooleanBufferBuilder::new(self.numbers.capacity());
            present.append_n(before, true);
            present
        })
    }

    fn add_nulls(&mut self, count: usize) {
        self.present().append_n(count, false);
        self.numbers
            .resize(self.numbers.len() + count, N::default());
    }

    /// Adds `count` cells, one per bit of `bits`, least significant first: the next number for each 1, a null for each
    /// 0.
    fn add_some(&mut self, bits: u64, count: usize, numbers: &[N]) {
        self.present()
            .append_packed_range(0..count, &bits.to_le_bytes());
        let mut next = 0;
        self.numbers.extend((0..count).map(|bit| {
            // The number of a null does not matter.
            let number = numbers.get(next).copied().unwrap_or_default();
            next += (bits >> bit & 1) as usize;
            number
        }));
    }

    /// Marks all numbers appended since the last call as not null.
    fn note_numbers(&mut self) {
        if let Some(present) = &mut self.present {
            present.append_n(self.numbers.len() - present.len(), true);
        }
    }

    fn truncate(&mut self, count: usize) {
        self.numbers.truncate(count);
        if let Some(present) = &mut self.present {
            present.truncate(count);
        }
    }
}

impl<W: Width> Chunks<W> {
    fn new(
        file: &Arc<PositionedFile>,
        metadata: &Arc<ParquetMetaData>,
        column: usize,
    ) -> Chunks<W> {
        Chunks {
            file: Arc::clone(file),
            metadata: Arc::clone(metadata),
            column,
            next_group: 0,
            chunk: None,
            rows: 0,
            rows_left: 0,
        }
    }

    fn next(&mut self, rows: usize) -> Result<ArrayRef, ParquetError> {
        let mut cells = Cells {
            numbers: Vec::with_capacity(rows),
            present: None,
        };
        while cells.numbers.len() < rows {
            if self.rows_left == 0 {
                self.begin_chunk()?;
            }
            let count = self.rows_left.min(rows - cells.numbers.len());
            self.take(count, &mut cells)?;
            self.rows_left -= count;
        }
        let nulls = cells.present.map(|mut present| present.finish().into());
        let array = PrimitiveArray::<W::Arrow>::new(cells.numbers.into(), nulls);
        Ok(Arc::new(array))
    }

    fn is_finished(&self) -> bool {
        let mut groups = self.metadata.row_groups()[self.next_group..].iter();
        self.rows_left == 0 && groups.all(|group| group.num_rows() == 0)
    }

    /// Opens the chunk of the next row group.
    fn begin_chunk(&mut self) -> Result<(), ParquetError> {
        let Some(group) = self.metadata.row_groups().get(self.next_group) else {
            return Err(uneven());
        };
        self.rows = usize::try_from(group.num_rows()).map_err(|_| uneven())?;
        self.rows_left = self.rows;
        self.next_group += 1;
        self.chunk = None;
        let packed = self.packed_chunk();
        self.chunk = Some(match packed {
            Some(chunk) => chunk,
            None => Chunk::Fallback(Box::new(self.fallback_chunk()?)),
        });
        Ok(())
    }

    /// The chunk, if it is in our format.
    fn packed_chunk(&self) -> Option<Chunk<W>> {
        let group = self.metadata.row_group(self.next_group - 1);
        let chunk = group.column(self.column);
        if self.rows == 0 || usize::try_from(chunk.num_values()).ok()? != self.rows {
            return None;
        }
        let may_be_null = chunk.column_descr().max_def_level() > 0;
        let file = Arc::clone(&self.file);
        let pages = SerializedPageReader::new(file, chunk, self.rows, None).ok()?;
        let pages = Pages::begin(pages, may_be_null)?;
        Some(Chunk::Packed(Box::new(pages)))
    }

    fn fallback_chunk(&self) -> Result<ColumnReaderImpl<W::Parquet>, ParquetError> {
        let group = self.metadata.row_group(self.next_group - 1);
        let chunk = group.column(self.column);
        let file = Arc::clone(&self.file);
        let pages = SerializedPageReader::new(file, chunk, self.rows, None)?;
        let reader = get_column_reader(chunk.column_descr_ptr(), Box::new(pages));
        Ok(get_typed_column_reader(reader))
    }

    /// Appends the next `count` cells of the chunk.
    fn take(&mut self, count: usize, cells: &mut Cells<Native<W>>) -> Result<(), ParquetError> {
        let before = cells.numbers.len();
        if let Some(Chunk::Packed(pages)) = &mut self.chunk {
            if pages.take(count, cells).is_some() {
                return Ok(());
            }
            cells.truncate(before);
            let mut fallback = self.fallback_chunk()?;
            let consumed = self.rows - self.rows_left;
            if fallback.skip_records(consumed)? != consumed {
                return Err(uneven());
            }
            self.chunk = Some(Chunk::Fallback(Box::new(fallback)));
        }
        match &mut self.chunk {
            Some(Chunk::Fallback(fallback)) => take_from_fallback::<W>(fallback, count, cells),
            _ => Err(uneven()),
        }
    }
}

fn take_from_fallback<W: Width>(
    fallback: &mut ColumnReaderImpl<W::Parquet>,
    count: usize,
    cells: &mut Cells<Native<W>>,
) -> Result<(), ParquetError> {
    let (mut levels, mut stored) = (Vec::new(), Vec::new());
    let mut remaining = count;
    while remaining > 0 {
        levels.clear();
        stored.clear();
        let (rows, numbers, _) =
            fallback.read_records(remaining, Some(&mut levels), None, &mut stored)?;
        if rows == 0 {
            return Err(uneven());
        }
        let mut stored = stored.iter();
        if levels.is_empty() && numbers == rows {
            cells.numbers.extend(stored.map(W::number));
            cells.note_numbers();
        } else {
            for level in &levels {
                if *level == 0 {
                    cells.add_nulls(1);
                    continue;
                }
                cells.numbers.extend(stored.next().map(W::number));
                cells.note_numbers();
            }
        }
        remaining -= rows;
    }
    Ok(())
}

fn uneven() -> ParquetError {
    ParquetError::General("columns have different numbers of rows".to_owned())
}

#[cfg(test)]
mod tests;
