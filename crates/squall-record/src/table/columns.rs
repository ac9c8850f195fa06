//! From rows to columns and back, one cell type at a time.
//!
//! Times and counts are signed 64-bit columns: differences below zero are then plain numbers in SQL and
//! pandas, where unsigned ones overflow. A number that does not fit is refused, not cut. Nothing here knows
//! which columns a table has.

use std::path::Path;
use std::sync::Arc;

use arrow_array::types::{ArrowPrimitiveType, Int32Type, Int64Type};
use arrow_array::{
    Array, ArrayRef, BooleanArray, DictionaryArray, Int32Array, Int64Array, PrimitiveArray,
    RecordBatch, StringArray,
};
use arrow_schema::DataType;
use squall_base::Time;

use crate::RecordError;
use crate::error::CellFault;

/// A number that a signed column cannot hold.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CellWriteError {
    pub(super) column: &'static str,
    pub(super) value: u64,
}

/// A column of times or counts.
pub(super) fn numbers<R>(
    column: &'static str,
    rows: &[R],
    cell: impl Fn(&R) -> u64,
) -> Result<ArrayRef, CellWriteError> {
    let cells: Vec<i64> = rows
        .iter()
        .map(|row| signed(column, cell(row)))
        .collect::<Result<_, _>>()?;
    Ok(Arc::new(Int64Array::from(cells)))
}

/// A column of times or counts that may be null.
pub(super) fn optional_numbers<R>(
    column: &'static str,
    rows: &[R],
    cell: impl Fn(&R) -> Option<u64>,
) -> Result<ArrayRef, CellWriteError> {
    for value in rows.iter().filter_map(&cell) {
        signed(column, value)?;
    }
    Ok(optional_signed(rows, |row| {
        cell(row).map(|value| value as i64)
    }))
}

/// A column of numbers that may be below zero, and may be null.
pub(super) fn optional_signed<R>(rows: &[R], cell: impl Fn(&R) -> Option<i64>) -> ArrayRef {
    optional_small::<R, Int64Type>(rows, cell)
}

fn signed(column: &'static str, value: u64) -> Result<i64, CellWriteError> {
    i64::try_from(value).map_err(|_| CellWriteError { column, value })
}

/// A column of small unsigned numbers.
pub(super) fn small<R, T: ArrowPrimitiveType>(
    rows: &[R],
    cell: impl Fn(&R) -> T::Native,
) -> ArrayRef {
    Arc::new(PrimitiveArray::<T>::from_iter_values(rows.iter().map(cell)))
}

/// A column of small unsigned numbers that may be null. Mostly all are, or none is: Arrow then needs no bit for each.
pub(super) fn optional_small<R, T: ArrowPrimitiveType>(
    rows: &[R],
    cell: impl Fn(&R) -> Option<T::Native>,
) -> ArrayRef {
    let cells: Vec<T::Native> = rows.iter().map_while(&cell).collect();
    Arc::new(if cells.len() == rows.len() {
        PrimitiveArray::<T>::new(cells.into(), None)
    } else if cells.is_empty() && !rows.iter().any(|row| cell(row).is_some()) {
        PrimitiveArray::<T>::new_null(rows.len())
    } else {
        rows.iter().map(cell).collect()
    })
}

/// A column of yes and no.
pub(super) fn flags<R>(rows: &[R], cell: impl Fn(&R) -> bool) -> ArrayRef {
    Arc::new(
        rows.iter()
            .map(|row| Some(cell(row)))
            .collect::<BooleanArray>(),
    )
}

/// A column of an enumeration's words. `place` gives a row's place in `words`.
pub(super) fn words<R>(rows: &[R], words: &[&str], place: impl Fn(&R) -> usize) -> ArrayRef {
    let places = Int32Array::from_iter_values(rows.iter().map(|row| place(row) as i32));
    let words = StringArray::from_iter_values(words);
    Arc::new(DictionaryArray::new(places, Arc::new(words)))
}

/// A column of words that may be null, in a dictionary of those that occur.
pub(super) fn optional_words<R>(rows: &[R], cell: impl Fn(&R) -> Option<&'static str>) -> ArrayRef {
    let mut words: Vec<&'static str> = Vec::new();
    let mut place = |word| {
        let known = words.iter().position(|known| *known == word);
        known.unwrap_or_else(|| {
            words.push(word);
            words.len() - 1
        }) as i32
    };
    let places: Int32Array = rows.iter().map(|row| cell(row).map(&mut place)).collect();
    let words = StringArray::from_iter_values(words);
    Arc::new(DictionaryArray::<Int32Type>::new(places, Arc::new(words)))
}

/// A column of free text that may be null.
pub(super) fn texts<'a, R>(rows: &'a [R], cell: impl Fn(&'a R) -> Option<&'a str>) -> ArrayRef {
    Arc::new(rows.iter().map(cell).collect::<StringArray>())
}

/// Some consecutive rows of a file, as columns. Every access checks what the file may have wrong.
pub struct Columns<'a> {
    pub(super) path: &'a Path,
    pub(super) batch: &'a RecordBatch,
    /// The place in the file of the first of these rows.
    pub(super) first_row: u64,
}

impl Columns<'_> {
    /// A column of counts.
    pub(super) fn counts(&self, column: &'static str) -> Result<Vec<u64>, RecordError> {
        self.every(column, self.optional_counts(column)?)
    }

    /// A column of counts that may be null.
    pub(super) fn optional_counts(
        &self,
        column: &'static str,
    ) -> Result<Vec<Option<u64>>, RecordError> {
        let unsigned = |(row, cell): (usize, Option<i64>)| {
            cell.map(|value| {
                u64::try_from(value).map_err(|_| self.fault(column, row, CellFault::Negative))
            })
            .transpose()
        };
        self.primitives::<Int64Type>(column)?
            .iter()
            .enumerate()
            .map(unsigned)
            .collect()
    }

    /// A column of numbers that may be below zero, and may be null.
    pub(super) fn optional_signed(
        &self,
        column: &'static str,
    ) -> Result<Vec<Option<i64>>, RecordError> {
        self.optional_small::<Int64Type>(column)
    }

    /// A column of times.
    pub(super) fn times(&self, column: &'static str) -> Result<Vec<Time>, RecordError> {
        Ok(self
            .counts(column)?
            .into_iter()
            .map(Time::from_nanos)
            .collect())
    }

    /// A column of times that may be null.
    pub(super) fn optional_times(
        &self,
        column: &'static str,
    ) -> Result<Vec<Option<Time>>, RecordError> {
        let cells = self.optional_counts(column)?;
        Ok(cells
            .into_iter()
            .map(|cell| cell.map(Time::from_nanos))
            .collect())
    }

    /// A column of small unsigned numbers.
    pub(super) fn small<T: ArrowPrimitiveType>(
        &self,
        column: &'static str,
    ) -> Result<Vec<T::Native>, RecordError> {
        self.every(column, self.optional_small::<T>(column)?)
    }

    /// A column of small unsigned numbers that may be null.
    pub(super) fn optional_small<T: ArrowPrimitiveType>(
        &self,
        column: &'static str,
    ) -> Result<Vec<Option<T::Native>>, RecordError> {
        Ok(self.primitives::<T>(column)?.iter().collect())
    }

    /// A column of yes and no.
    pub(super) fn flags(&self, column: &'static str) -> Result<Vec<bool>, RecordError> {
        let cells: &BooleanArray = self.array(column, &DataType::Boolean)?;
        self.every(column, cells.iter().collect())
    }

    /// A column of words; `meaning` says what each stands for.
    pub(super) fn words<T>(
        &self,
        column: &'static str,
        meaning: impl Fn(&str) -> Option<T>,
    ) -> Result<Vec<T>, RecordError> {
        let cells: &StringArray = self.array(column, &DataType::Utf8)?;
        let word = |(row, cell): (usize, Option<&str>)| {
            let cell = cell.ok_or_else(|| self.fault(column, row, CellFault::Null))?;
            meaning(cell).ok_or_else(|| self.fault(column, row, CellFault::UnknownWord))
        };
        cells.iter().enumerate().map(word).collect()
    }

    /// A column of free text that may be null.
    pub(super) fn texts(&self, column: &'static str) -> Result<Vec<Option<String>>, RecordError> {
        let cells: &StringArray = self.array(column, &DataType::Utf8)?;
        Ok(cells.iter().map(|cell| cell.map(str::to_owned)).collect())
    }

    fn primitives<T: ArrowPrimitiveType>(
        &self,
        column: &'static str,
    ) -> Result<&PrimitiveArray<T>, RecordError> {
        self.array(column, &T::DATA_TYPE)
    }

    fn array<A: Array + 'static>(
        &self,
        column: &'static str,
        expected: &DataType,
    ) -> Result<&A, RecordError> {
        let array = self.batch.column_by_name(column);
        array
            .and_then(|array| array.as_any().downcast_ref())
            .ok_or_else(|| RecordError::Column {
                path: self.path.into(),
                column,
                expected: expected.clone(),
                found: array.map(|array| array.data_type().clone()),
            })
    }

    fn every<T>(&self, column: &'static str, cells: Vec<Option<T>>) -> Result<Vec<T>, RecordError> {
        let some = |(row, cell): (usize, Option<T>)| {
            cell.ok_or_else(|| self.fault(column, row, CellFault::Null))
        };
        cells.into_iter().enumerate().map(some).collect()
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
