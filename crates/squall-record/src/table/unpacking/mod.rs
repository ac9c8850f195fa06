//! Columns of whole numbers out of a file, in fewer instructions than the parquet crate takes.
//!
//! It reads the pages that our own packer writes (`delta`, `levels`). A chunk that has anything else is that crate's, from
//! where this came upon it: so files of others' making are read or refused as it reads or refuses them. It has no say in
//! which columns there are and what is wrong with a cell (`reader`, `columns`).

mod chunk_bytes;
mod delta;
mod levels;

use std::fs::File;
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
use parquet::file::serialized_reader::SerializedPageReader;

use chunk_bytes::ChunkBytes;
use delta::{Deltas, Number};
use levels::{Levels, Presence};

/// A column that is read here, from its first row on.
pub(super) enum Numbers {
    Wide(Box<Chunks<Wide>>),
    Narrow(Box<Chunks<Narrow>>),
}

impl Numbers {
    /// The column with this name and type, if its pages may be such as we write.
    pub(super) fn of(
        file: &Arc<File>,
        metadata: &Arc<ParquetMetaData>,
        name: &str,
        data_type: &DataType,
    ) -> Option<Numbers> {
        let schema = metadata.file_metadata().schema_descr();
        let mut columns = (0..schema.num_columns()).map(|place| (place, schema.column(place)));
        let (place, column) = columns.find(|(_, column)| column.path().parts() == [name])?;
        let is_ours =
            |encoding: Encoding| [Encoding::DELTA_BINARY_PACKED, Encoding::RLE].contains(&encoding);
        let mut groups = metadata.row_groups().iter();
        if column.max_rep_level() > 0
            || column.max_def_level() > 1
            || !groups.all(|group| group.column(place).encodings().all(is_ours))
        {
            return None;
        }
        // Chunks are read whole: where some overlap, that could be the same bytes again and again.
        let all = (metadata.row_groups().iter()).try_fold(0_u64, |all, group| {
            all.checked_add(u64::try_from(group.column(place).compressed_size()).ok()?)
        })?;
        if all > file.metadata().ok()?.len() {
            return None;
        }
        match (data_type, column.physical_type()) {
            (DataType::Int64, Type::INT64) => {
                Some(Numbers::Wide(Box::new(Chunks::new(file, metadata, place))))
            }
            (DataType::UInt32, Type::INT32) => Some(Numbers::Narrow(Box::new(Chunks::new(
                file, metadata, place,
            )))),
            _ => None,
        }
    }

    /// After the last row: an error if the column goes on.
    pub(super) fn end(&mut self) -> Result<(), ParquetError> {
        let is_over = match self {
            Numbers::Wide(chunks) => chunks.is_over(),
            Numbers::Narrow(chunks) => chunks.is_over(),
        };
        match is_over {
            true => Ok(()),
            false => Err(uneven()),
        }
    }

    /// The cells of the next `rows` rows.
    pub(super) fn next(&mut self, rows: usize) -> Result<ArrayRef, ParquetError> {
        match self {
            Numbers::Wide(chunks) => chunks.next(rows),
            Numbers::Narrow(chunks) => chunks.next(rows),
        }
    }
}

/// How wide a column is: in Parquet, in Arrow and here.
pub(super) trait Width {
    type Parquet: data_type::DataType;
    type Arrow: ArrowPrimitiveType<Native: Number>;

    fn number(
        stored: &<Self::Parquet as data_type::DataType>::T,
    ) -> <Self::Arrow as ArrowPrimitiveType>::Native;
}

/// Signed numbers of 64 bits.
pub(super) struct Wide;

impl Width for Wide {
    type Parquet = data_type::Int64Type;
    type Arrow = Int64Type;

    fn number(stored: &i64) -> i64 {
        *stored
    }
}

/// Unsigned numbers of 32 bits.
pub(super) struct Narrow;

impl Width for Narrow {
    type Parquet = data_type::Int32Type;
    type Arrow = UInt32Type;

    fn number(stored: &i32) -> u32 {
        stored.cast_unsigned()
    }
}

type Native<W> = <<W as Width>::Arrow as ArrowPrimitiveType>::Native;

/// The chunks of a column, one in each row group.
pub(super) struct Chunks<W: Width> {
    file: Arc<File>,
    metadata: Arc<ParquetMetaData>,
    column: usize,
    /// The row group after the one that is being read.
    next_group: usize,
    chunk: Option<Chunk<W>>,
    rows: usize,
    rows_left: usize,
}

enum Chunk<W: Width> {
    Ours(Box<Pages<Native<W>>>),
    Theirs(Box<ColumnReaderImpl<W::Parquet>>),
}

/// The pages of a chunk of ours.
struct Pages<N> {
    rest: SerializedPageReader<ChunkBytes>,
    may_be_null: bool,
    page: OurPage<N>,
}

impl<N: Number> Pages<N> {
    /// From the first page on; `None` if our packer does not write such.
    fn begin(mut pages: SerializedPageReader<ChunkBytes>, may_be_null: bool) -> Option<Pages<N>> {
        let page = pages.get_next_page().ok()??;
        Some(Pages {
            page: OurPage::of(page, may_be_null)?,
            rest: pages,
            may_be_null,
        })
    }

    /// Appends the next `count` cells; `None` if it comes upon something else.
    fn take(&mut self, count: usize, cells: &mut Cells<N>) -> Option<()> {
        let mut left = count;
        while left > 0 {
            if self.page.rows == 0 {
                let page = self.rest.get_next_page().ok()??;
                self.page = OurPage::of(page, self.may_be_null)?;
            }
            let now = left.min(self.page.rows);
            self.page.take(now, cells)?;
            left -= now;
        }
        Some(())
    }
}

/// What is left of a page of ours.
struct OurPage<N> {
    /// Without them every cell is there.
    levels: Option<Levels>,
    deltas: Deltas<N>,
    rows: usize,
}

impl<N: Number> OurPage<N> {
    /// `None` if our packer does not write such.
    fn of(page: Page, may_be_null: bool) -> Option<OurPage<N>> {
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
        let (levels, values) = match may_be_null {
            true => {
                let (levels, values) = Levels::of(&buf)?;
                (Some(levels), values)
            }
            false => (None, buf),
        };
        let rows = usize::try_from(num_values).ok()?;
        (rows > 0).then_some(OurPage {
            levels,
            deltas: Deltas::of(values)?,
            rows,
        })
    }

    /// Appends the next `count` cells, which are at most as many as it has.
    fn take(&mut self, count: usize, cells: &mut Cells<N>) -> Option<()> {
        self.rows -= count;
        let Some(levels) = &mut self.levels else {
            self.deltas.take(count, &mut cells.numbers)?;
            cells.note_numbers();
            return Some(());
        };
        let (mut left, mut some) = (count, Vec::new());
        while left > 0 {
            let presence = levels.run(left)?;
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
            left -= presence.count();
        }
        Some(())
    }
}

/// Cells of some rows.
struct Cells<N> {
    numbers: Vec<N>,
    /// Which of them are there; `None`: all.
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

    /// Adds as many cells as `bits` are asked, the last bit first: a number for each that is 1.
    fn add_some(&mut self, bits: u64, count: usize, numbers: &[N]) {
        self.present()
            .append_packed_range(0..count, &bits.to_le_bytes());
        let mut next = 0;
        self.numbers.extend((0..count).map(|bit| {
            // A null has any number.
            let number = numbers.get(next).copied().unwrap_or_default();
            next += (bits >> bit & 1) as usize;
            number
        }));
    }

    /// After numbers were appended.
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
    fn new(file: &Arc<File>, metadata: &Arc<ParquetMetaData>, column: usize) -> Chunks<W> {
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

    fn is_over(&self) -> bool {
        let mut groups = self.metadata.row_groups()[self.next_group..].iter();
        self.rows_left == 0 && groups.all(|group| group.num_rows() == 0)
    }

    /// The chunk of the next row group.
    fn begin_chunk(&mut self) -> Result<(), ParquetError> {
        let Some(group) = self.metadata.row_groups().get(self.next_group) else {
            return Err(uneven());
        };
        self.rows = usize::try_from(group.num_rows()).map_err(|_| uneven())?;
        self.rows_left = self.rows;
        self.next_group += 1;
        self.chunk = None;
        let ours = self.our_chunk();
        self.chunk = Some(match ours {
            Some(chunk) => chunk,
            None => Chunk::Theirs(Box::new(self.their_chunk()?)),
        });
        Ok(())
    }

    /// The chunk as our packer writes it.
    fn our_chunk(&self) -> Option<Chunk<W>> {
        let group = self.metadata.row_group(self.next_group - 1);
        let chunk = group.column(self.column);
        if self.rows == 0 || usize::try_from(chunk.num_values()).ok()? != self.rows {
            return None;
        }
        let may_be_null = chunk.column_descr().max_def_level() > 0;
        let bytes = Arc::new(ChunkBytes::read(&self.file, chunk).ok()?);
        let pages = SerializedPageReader::new(bytes, chunk, self.rows, None).ok()?;
        let pages = Pages::begin(pages, may_be_null)?;
        Some(Chunk::Ours(Box::new(pages)))
    }

    fn their_chunk(&self) -> Result<ColumnReaderImpl<W::Parquet>, ParquetError> {
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
        if let Some(Chunk::Ours(pages)) = &mut self.chunk {
            if pages.take(count, cells).is_some() {
                return Ok(());
            }
            cells.truncate(before);
            let mut theirs = self.their_chunk()?;
            let gone = self.rows - self.rows_left;
            if theirs.skip_records(gone)? != gone {
                return Err(uneven());
            }
            self.chunk = Some(Chunk::Theirs(Box::new(theirs)));
        }
        match &mut self.chunk {
            Some(Chunk::Theirs(theirs)) => take_theirs::<W>(theirs, count, cells),
            _ => Err(uneven()),
        }
    }
}

fn take_theirs<W: Width>(
    theirs: &mut ColumnReaderImpl<W::Parquet>,
    count: usize,
    cells: &mut Cells<Native<W>>,
) -> Result<(), ParquetError> {
    let (mut levels, mut stored) = (Vec::new(), Vec::new());
    let mut left = count;
    while left > 0 {
        levels.clear();
        stored.clear();
        let (rows, numbers, _) = theirs.read_records(left, Some(&mut levels), None, &mut stored)?;
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
        left -= rows;
    }
    Ok(())
}

fn uneven() -> ParquetError {
    ParquetError::General("columns have different numbers of rows".to_owned())
}

#[cfg(test)]
mod tests;
