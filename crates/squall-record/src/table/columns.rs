//! From the columns of a file back to rows, one cell type at a time.
//!
//! It believes no cell before it has checked it. Nothing here knows which columns a table has; the way from rows to
//! columns is `packing`.

use std::path::Path;

use arrow_array::types::{ArrowPrimitiveType, Int64Type};
use arrow_array::{Array, BooleanArray, PrimitiveArray, RecordBatch, StringArray};
use arrow_schema::DataType;
use squall_base::Time;

use crate::RecordError;
use crate::error::CellFault;

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
