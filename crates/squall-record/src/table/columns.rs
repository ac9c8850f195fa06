//! Turns the columns of a file back into rows, one cell type at a time.
//!
//! Every cell is checked before it is used. The check covers a whole column at once, so that its cells can then be read
//! in place without further checks. A column that was not requested reads as zeros, nulls and first words, which
//! `reader` never returns to a caller. Nothing here knows which columns a table has; `packing` is the way from rows to
//! columns.

use std::marker::PhantomData;
use std::path::Path;

use arrow_array::types::{ArrowPrimitiveType, Int32Type, Int64Type};
use arrow_array::{Array, BooleanArray, DictionaryArray, PrimitiveArray, RecordBatch, StringArray};
use arrow_schema::DataType;
use squall_base::{Duration, Time};

use crate::RecordError;
use crate::error::CellFault;

/// Some consecutive rows of a file, as columns. Every access checks for possible faults of the file.
pub struct Columns<'a> {
    pub(super) path: &'a Path,
    /// The table's name.
    pub(super) table: &'static str,
    pub(super) batch: &'a RecordBatch,
    /// Requested columns that are not in the batch because they are null in every row.
    pub(super) nulls: &'a [&'static str],
    /// The index in the file of the first of these rows.
    pub(super) first_row: u64,
}

/// Converts a cell to the type that a row has.
pub(super) trait FromCell<N> {
    fn from_cell(cell: N) -> Self;
}

impl<N> FromCell<N> for N {
    fn from_cell(cell: N) -> N {
        cell
    }
}

impl FromCell<i64> for u64 {
    /// Only for columns of counts, which have no negative cells.
    fn from_cell(cell: i64) -> u64 {
        cell.cast_unsigned()
    }
}

impl FromCell<i64> for Time {
    fn from_cell(cell: i64) -> Time {
        Time::from_nanos(cell.cast_unsigned())
    }
}

impl FromCell<i64> for Duration {
    fn from_cell(cell: i64) -> Duration {
        Duration::from_nanos(cell.cast_unsigned())
    }
}

/// A column with a `T` in every row, stored as `N`; empty if it was not requested.
pub(super) struct RequiredColumn<'a, N, T> {
    cells: &'a [N],
    meaning: PhantomData<T>,
}

impl<N: Copy + Default, T: FromCell<N>> RequiredColumn<'_, N, T> {
    /// The cell of a row.
    pub(super) fn at(&self, row: usize) -> T {
        match self.cells.get(row) {
            Some(cell) => T::from_cell(*cell),
            None => T::from_cell(absent()),
        }
    }
}

/// The cell of a column that was not requested. Kept out of line, because the other path is taken hundreds of millions
/// of times.
#[cold]
fn absent<N: Default>() -> N {
    N::default()
}

/// A nullable column; empty if it was not requested or is null in every row.
pub(super) struct NullableColumn<'a, P: ArrowPrimitiveType, T> {
    cells: &'a [P::Native],
    /// The array with its null mask, if any cell is null.
    nulls: Option<&'a PrimitiveArray<P>>,
    meaning: PhantomData<T>,
}

impl<P: ArrowPrimitiveType, T: FromCell<P::Native>> NullableColumn<'_, P, T> {
    /// The cell of a row.
    pub(super) fn at(&self, row: usize) -> Option<T> {
        let cell = *self.cells.get(row)?;
        match self.nulls {
            Some(nulls) if nulls.is_null(row) => None,
            _ => Some(T::from_cell(cell)),
        }
    }

    /// Whether every row has a cell.
    pub(super) fn is_full(&self) -> bool {
        !self.is_empty() && self.nulls.is_none()
    }

    /// Whether no row has a cell.
    pub(super) fn is_empty(&self) -> bool {
        self.cells.is_empty()
    }
}

/// A column of flags; `None` if it was not requested or every flag is false.
pub(super) struct FlagColumn<'a>(Option<&'a BooleanArray>);

impl FlagColumn<'_> {
    /// The cell of a row.
    pub(super) fn at(&self, row: usize) -> bool {
        self.0.is_some_and(|cells| cells.value(row))
    }
}

/// A column of words.
pub(super) struct WordColumn<'a, T> {
    keys: &'a [i32],
    /// The meaning of each key.
    meanings: Vec<T>,
    first: T,
}

impl<T: Copy> WordColumn<'_, T> {
    /// The cell of a row.
    pub(super) fn at(&self, row: usize) -> T {
        let key = self.keys.get(row).copied().unwrap_or(-1);
        let place = usize::try_from(key).unwrap_or(usize::MAX);
        self.meanings.get(place).copied().unwrap_or(self.first)
    }
}

impl<'a> Columns<'a> {
    /// The number of rows.
    pub(super) fn rows(&self) -> usize {
        self.batch.num_rows()
    }

    /// Whether a column was requested.
    pub(super) fn has(&self, column: &str) -> bool {
        self.nulls.contains(&column) || self.batch.column_by_name(column).is_some()
    }

    /// A column of counts, times or durations.
    pub(super) fn counts<T>(
        &self,
        column: &'static str,
    ) -> Result<RequiredColumn<'a, i64, T>, RecordError> {
        let array = self.unsigned(column)?;
        self.required(column, array)
    }

    /// A nullable column of counts, times or durations.
    pub(super) fn optional_counts<T>(
        &self,
        column: &'static str,
    ) -> Result<NullableColumn<'a, Int64Type, T>, RecordError> {
        Ok(nullable(self.unsigned(column)?))
    }

    /// A nullable column of signed numbers.
    pub(super) fn optional_signed(
        &self,
        column: &'static str,
    ) -> Result<NullableColumn<'a, Int64Type, i64>, RecordError> {
        self.optional_small(column)
    }

    /// A column of small unsigned numbers.
    pub(super) fn small<P: ArrowPrimitiveType>(
        &self,
        column: &'static str,
    ) -> Result<RequiredColumn<'a, P::Native, P::Native>, RecordError> {
        let array = self.array::<PrimitiveArray<P>>(column, &P::DATA_TYPE)?;
        self.required(column, array)
    }

    /// A nullable column of small unsigned numbers.
    pub(super) fn optional_small<P: ArrowPrimitiveType>(
        &self,
        column: &'static str,
    ) -> Result<NullableColumn<'a, P, P::Native>, RecordError> {
        Ok(nullable(self.array(column, &P::DATA_TYPE)?))
    }

    /// A column of flags.
    pub(super) fn flags(&self, column: &'static str) -> Result<FlagColumn<'a>, RecordError> {
        let cells: Option<&BooleanArray> = self.array(column, &DataType::Boolean)?;
        if let Some(cells) = cells {
            self.check_nulls(column, cells)?;
        }
        Ok(FlagColumn(cells.filter(|cells| cells.values().has_true())))
    }

    /// A column of words: the names of `all`, which must not be empty.
    pub(super) fn words<T: Copy>(
        &self,
        column: &'static str,
        all: &[T],
        name: impl Fn(T) -> &'static str,
    ) -> Result<WordColumn<'a, T>, RecordError> {
        let first = all[0];
        let words = |keys, meanings| WordColumn {
            keys,
            meanings,
            first,
        };
        let cells: Option<&DictionaryArray<Int32Type>> = self.array(column, &DataType::Utf8)?;
        let Some(cells) = cells else {
            return Ok(words(&[], Vec::new()));
        };
        self.check_nulls(column, cells.keys())?;
        let texts = cells.values().as_any().downcast_ref::<StringArray>();
        let texts = texts.ok_or_else(|| RecordError::Column {
            path: self.path.into(),
            table: self.table,
            column,
            expected: DataType::Utf8,
            found: Some(cells.values().data_type().clone()),
        })?;
        let meaning = |text: Option<&str>| {
            let mut all = all.iter().copied();
            all.find(|meaning| Some(name(*meaning)) == text)
        };
        let meanings: Vec<Option<T>> = texts.iter().map(meaning).collect();
        if meanings.iter().any(Option::is_none) {
            // A dictionary may contain words that no row uses.
            for (row, key) in cells.keys().values().iter().enumerate() {
                let place = usize::try_from(*key).unwrap_or(usize::MAX);
                if meanings.get(place).is_none_or(Option::is_none) {
                    let is_null = texts.len() > place && texts.is_null(place);
                    return Err(self.fault(
                        column,
                        row,
                        if is_null {
                            CellFault::Null
                        } else {
                            CellFault::UnknownWord
                        },
                    ));
                }
            }
        }
        let meanings = meanings.into_iter().map(|known| known.unwrap_or(first));
        Ok(words(cells.keys().values(), meanings.collect()))
    }

    /// A nullable column of free text.
    pub(super) fn texts(&self, column: &'static str) -> Result<Vec<Option<String>>, RecordError> {
        let cells: Option<&StringArray> = self.array(column, &DataType::Utf8)?;
        Ok(match cells {
            Some(cells) => cells.iter().map(|cell| cell.map(str::to_owned)).collect(),
            None => vec![None; self.rows()],
        })
    }

    /// A 64-bit column without negative numbers.
    fn unsigned(
        &self,
        column: &'static str,
    ) -> Result<Option<&'a PrimitiveArray<Int64Type>>, RecordError> {
        let array: Option<&PrimitiveArray<Int64Type>> = self.array(column, &DataType::Int64)?;
        if let Some(cells) = array
            // The bitwise OR of all cells is negative if any cell is.
            && cells.values().iter().fold(0, |all, cell| all | cell) < 0
            && let Some(row) = cells.iter().position(|cell| cell.is_some_and(|cell| cell < 0))
        {
            return Err(self.fault(column, row, CellFault::Negative));
        }
        Ok(array)
    }

    fn required<P: ArrowPrimitiveType, T>(
        &self,
        column: &'static str,
        array: Option<&'a PrimitiveArray<P>>,
    ) -> Result<RequiredColumn<'a, P::Native, T>, RecordError> {
        if let Some(cells) = array {
            self.check_nulls(column, cells)?;
        }
        Ok(RequiredColumn {
            cells: array.map_or(&[], |cells| cells.values()),
            meaning: PhantomData,
        })
    }

    fn check_nulls(&self, column: &'static str, cells: &dyn Array) -> Result<(), RecordError> {
        if cells.null_count() == 0 {
            return Ok(());
        }
        match (0..cells.len()).find(|row| cells.is_null(*row)) {
            Some(row) => Err(self.fault(column, row, CellFault::Null)),
            None => Ok(()),
        }
    }

    /// The column; `None` if it was not requested. A column missing from the file was detected when the file was
    /// opened.
    fn array<A: Array + 'static>(
        &self,
        column: &'static str,
        expected: &DataType,
    ) -> Result<Option<&'a A>, RecordError> {
        let Some(array) = self.batch.column_by_name(column) else {
            return Ok(None);
        };
        match array.as_any().downcast_ref() {
            Some(array) => Ok(Some(array)),
            None => Err(RecordError::Column {
                path: self.path.into(),
                table: self.table,
                column,
                expected: expected.clone(),
                found: Some(array.data_type().clone()),
            }),
        }
    }

    pub(super) fn fault(&self, column: &'static str, row: usize, fault: CellFault) -> RecordError {
        RecordError::Cell {
            path: self.path.into(),
            column,
            row: self.first_row + row as u64,
            fault,
        }
    }
}

fn nullable<P: ArrowPrimitiveType, T>(
    cells: Option<&PrimitiveArray<P>>,
) -> NullableColumn<'_, P, T> {
    // If every cell is null, the cells need not be looked at one by one.
    let cells = cells.filter(|cells| cells.null_count() < cells.len());
    NullableColumn {
        cells: cells.map_or(&[], |cells| cells.values()),
        nulls: cells.filter(|cells| cells.null_count() > 0),
        meaning: PhantomData,
    }
}
