//! From the columns of a file back to rows, one cell type at a time.
//!
//! It believes no cell before it has checked it: a whole column at once, so that its cells can be had without further
//! questions where they lie. A column that was not asked for has zeros, nulls and first words, which `reader` keeps from
//! everyone. Nothing here knows which columns a table has; the way from rows to columns is `packing`.

use std::marker::PhantomData;
use std::path::Path;

use arrow_array::types::{ArrowPrimitiveType, Int32Type, Int64Type};
use arrow_array::{Array, BooleanArray, DictionaryArray, PrimitiveArray, RecordBatch, StringArray};
use arrow_schema::DataType;
use squall_base::{Duration, Time};

use crate::RecordError;
use crate::error::CellFault;

/// Some consecutive rows of a file, as columns. Every access checks what the file may have wrong.
pub struct Columns<'a> {
    pub(super) path: &'a Path,
    /// The table's name.
    pub(super) table: &'static str,
    pub(super) batch: &'a RecordBatch,
    /// The columns that were asked for and are not in the batch, since they are null in every row.
    pub(super) nulls: &'a [&'static str],
    /// The place in the file of the first of these rows.
    pub(super) first_row: u64,
}

/// A cell as a row has it.
pub(super) trait FromCell<N> {
    fn from_cell(cell: N) -> Self;
}

impl<N> FromCell<N> for N {
    fn from_cell(cell: N) -> N {
        cell
    }
}

impl FromCell<i64> for u64 {
    /// Of a column of counts, which have none below zero.
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

/// A column with a `T` in every row, which lies there as an `N`; without cells if it was not asked for.
pub(super) struct Every<'a, N, T> {
    cells: &'a [N],
    meaning: PhantomData<T>,
}

impl<N: Copy + Default, T: FromCell<N>> Every<'_, N, T> {
    /// The cell of a row.
    pub(super) fn at(&self, row: usize) -> T {
        match self.cells.get(row) {
            Some(cell) => T::from_cell(*cell),
            None => T::from_cell(absent()),
        }
    }
}

/// The cell of a column that was not asked for. It is out of the way of the others: there are hundreds of millions of
/// them.
#[cold]
fn absent<N: Default>() -> N {
    N::default()
}

/// The same of a column that may be null; without cells too if all of them are.
pub(super) struct Perhaps<'a, P: ArrowPrimitiveType, T> {
    cells: &'a [P::Native],
    /// The same with what is null, if anything is.
    nulls: Option<&'a PrimitiveArray<P>>,
    meaning: PhantomData<T>,
}

impl<P: ArrowPrimitiveType, T: FromCell<P::Native>> Perhaps<'_, P, T> {
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

/// A column of yes and no; without cells too if all of them are no.
pub(super) struct Flags<'a>(Option<&'a BooleanArray>);

impl Flags<'_> {
    /// The cell of a row.
    pub(super) fn at(&self, row: usize) -> bool {
        self.0.is_some_and(|cells| cells.value(row))
    }
}

/// A column of words.
pub(super) struct Words<'a, T> {
    keys: &'a [i32],
    /// What each key stands for.
    meanings: Vec<T>,
    first: T,
}

impl<T: Copy> Words<'_, T> {
    /// The cell of a row.
    pub(super) fn at(&self, row: usize) -> T {
        let key = self.keys.get(row).copied().unwrap_or(-1);
        let place = usize::try_from(key).unwrap_or(usize::MAX);
        self.meanings.get(place).copied().unwrap_or(self.first)
    }
}

impl<'a> Columns<'a> {
    /// How many rows these are.
    pub(super) fn rows(&self) -> usize {
        self.batch.num_rows()
    }

    /// Whether a column was asked for.
    pub(super) fn has(&self, column: &str) -> bool {
        self.nulls.contains(&column) || self.batch.column_by_name(column).is_some()
    }

    /// A column of counts, times or durations.
    pub(super) fn counts<T>(&self, column: &'static str) -> Result<Every<'a, i64, T>, RecordError> {
        let array = self.unsigned(column)?;
        self.every(column, array)
    }

    /// A column of counts, times or durations that may be null.
    pub(super) fn optional_counts<T>(
        &self,
        column: &'static str,
    ) -> Result<Perhaps<'a, Int64Type, T>, RecordError> {
        Ok(perhaps(self.unsigned(column)?))
    }

    /// A column of numbers that may be below zero, and may be null.
    pub(super) fn optional_signed(
        &self,
        column: &'static str,
    ) -> Result<Perhaps<'a, Int64Type, i64>, RecordError> {
        self.optional_small(column)
    }

    /// A column of small unsigned numbers.
    pub(super) fn small<P: ArrowPrimitiveType>(
        &self,
        column: &'static str,
    ) -> Result<Every<'a, P::Native, P::Native>, RecordError> {
        let array = self.array::<PrimitiveArray<P>>(column, &P::DATA_TYPE)?;
        self.every(column, array)
    }

    /// A column of small unsigned numbers that may be null.
    pub(super) fn optional_small<P: ArrowPrimitiveType>(
        &self,
        column: &'static str,
    ) -> Result<Perhaps<'a, P, P::Native>, RecordError> {
        Ok(perhaps(self.array(column, &P::DATA_TYPE)?))
    }

    /// A column of yes and no.
    pub(super) fn flags(&self, column: &'static str) -> Result<Flags<'a>, RecordError> {
        let cells: Option<&BooleanArray> = self.array(column, &DataType::Boolean)?;
        if let Some(cells) = cells {
            self.check_nulls(column, cells)?;
        }
        Ok(Flags(cells.filter(|cells| cells.values().has_true())))
    }

    /// A column of words: the names of `all`, of which there is at least one.
    pub(super) fn words<T: Copy>(
        &self,
        column: &'static str,
        all: &[T],
        name: impl Fn(T) -> &'static str,
    ) -> Result<Words<'a, T>, RecordError> {
        let first = all[0];
        let words = |keys, meanings| Words {
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
            // A dictionary may have more than the rows use.
            for (row, key) in cells.keys().values().iter().enumerate() {
                let place = usize::try_from(*key).unwrap_or(usize::MAX);
                if meanings.get(place).is_none_or(Option::is_none) {
                    let is_null = texts.len() > place && texts.is_null(place);
                    return Err(self.fault(
                        column,
                        row,
                        match is_null {
                            true => CellFault::Null,
                            false => CellFault::UnknownWord,
                        },
                    ));
                }
            }
        }
        let meanings = meanings.into_iter().map(|known| known.unwrap_or(first));
        Ok(words(cells.keys().values(), meanings.collect()))
    }

    /// A column of free text that may be null.
    pub(super) fn texts(&self, column: &'static str) -> Result<Vec<Option<String>>, RecordError> {
        let cells: Option<&StringArray> = self.array(column, &DataType::Utf8)?;
        Ok(match cells {
            Some(cells) => cells.iter().map(|cell| cell.map(str::to_owned)).collect(),
            None => vec![None; self.rows()],
        })
    }

    /// A column of 64 bits in which nothing is below zero.
    fn unsigned(
        &self,
        column: &'static str,
    ) -> Result<Option<&'a PrimitiveArray<Int64Type>>, RecordError> {
        let array: Option<&PrimitiveArray<Int64Type>> = self.array(column, &DataType::Int64)?;
        if let Some(cells) = array
            // The bits that all cells have together: whether one is below zero.
            && cells.values().iter().fold(0, |all, cell| all | cell) < 0
            && let Some(row) = cells.iter().position(|cell| cell.is_some_and(|cell| cell < 0))
        {
            return Err(self.fault(column, row, CellFault::Negative));
        }
        Ok(array)
    }

    fn every<P: ArrowPrimitiveType, T>(
        &self,
        column: &'static str,
        array: Option<&'a PrimitiveArray<P>>,
    ) -> Result<Every<'a, P::Native, T>, RecordError> {
        if let Some(cells) = array {
            self.check_nulls(column, cells)?;
        }
        Ok(Every {
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

    /// The column; `None` if it was not asked for: one that the file lacks was found out when it was opened.
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

fn perhaps<P: ArrowPrimitiveType, T>(cells: Option<&PrimitiveArray<P>>) -> Perhaps<'_, P, T> {
    // Where none is there, nobody has to ask for each of them.
    let cells = cells.filter(|cells| cells.null_count() < cells.len());
    Perhaps {
        cells: cells.map_or(&[], |cells| cells.values()),
        nulls: cells.filter(|cells| cells.null_count() > 0),
        meaning: PhantomData,
    }
}
