//! Turns the columns of a file back into rows, one cell type at a time.
//!
//! Every cell is checked before it is used. The check covers a whole column at once, so that its cells can then be read
//! in place without further checks. A column that was not requested reads as zeros, nulls and first words, which
//! `reader` never returns to a caller. Nothing here knows which columns a table has; `packing` is the way from rows to
//! columns.

use std::ops::Range;
use std::path::Path;

use arrow_array::types::{
    ArrowPrimitiveType, Int32Type, Int64Type, UInt8Type, UInt16Type, UInt32Type,
};
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
    /// The index of the first of these rows among those that are read.
    pub(super) first_row: u64,
    /// The places in the file of the rows that are read; empty if all rows are.
    pub(super) places: &'a [Range<u64>],
}

/// A type whose cells are numbers.
pub(super) trait Number: Copy {
    /// The Arrow type of its column.
    type Stored: ArrowPrimitiveType;
    /// Whether it is stored in 64 bits.
    const IS_WIDE: bool = size_of::<<Self::Stored as ArrowPrimitiveType>::Native>() == 8;
    /// Whether the column may hold negative numbers.
    const IS_SIGNED: bool = false;

    fn from_stored(cell: <Self::Stored as ArrowPrimitiveType>::Native) -> Self;

    fn to_bits(self) -> u64;
}

/// Implements [`Number`] for types that wrap a number.
macro_rules! numbers {
    ($($T:ty as $Stored:ty: $from:expr, $to:expr;)+) => {$(
        impl Number for $T {
            type Stored = $Stored;

            #[inline]
            fn from_stored(cell: <$Stored as ArrowPrimitiveType>::Native) -> $T {
                $from(cell)
            }

            #[inline]
            fn to_bits(self) -> u64 {
                $to(self)
            }
        }
    )+};
}

numbers! {
    u8 as UInt8Type: |cell| cell, u64::from;
    u16 as UInt16Type: |cell| cell, u64::from;
    u32 as UInt32Type: |cell| cell, u64::from;
    u64 as Int64Type: i64::cast_unsigned, |count| count;
    Time as Int64Type: |nanos: i64| Time::from_nanos(nanos.cast_unsigned()), Time::as_nanos;
    Duration as Int64Type: |nanos: i64| Duration::from_nanos(nanos.cast_unsigned()), Duration::as_nanos;
}

impl Number for i64 {
    type Stored = Int64Type;
    const IS_SIGNED: bool = true;

    #[inline]
    fn from_stored(cell: i64) -> i64 {
        cell
    }

    #[inline]
    fn to_bits(self) -> u64 {
        self.cast_unsigned()
    }
}

/// The Rust type of a column's cells.
type Native<T> = <<T as Number>::Stored as ArrowPrimitiveType>::Native;

/// A column with a `T` in every row; empty if it was not requested.
pub(super) struct RequiredColumn<'a, T: Number>(&'a [Native<T>]);

impl<T: Number> RequiredColumn<'_, T> {
    /// The cell of a row.
    #[inline]
    pub(super) fn at(&self, row: usize) -> T {
        match self.0.get(row) {
            Some(cell) => T::from_stored(*cell),
            None => T::from_stored(absent()),
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
pub(super) struct NullableColumn<'a, T: Number> {
    cells: &'a [Native<T>],
    /// The array with its null mask, if any cell is null.
    nulls: Option<&'a PrimitiveArray<T::Stored>>,
}

impl<T: Number> NullableColumn<'_, T> {
    /// The cell of a row.
    #[inline]
    pub(super) fn at(&self, row: usize) -> Option<T> {
        let cell = *self.cells.get(row)?;
        match self.nulls {
            Some(nulls) if nulls.is_null(row) => None,
            _ => Some(T::from_stored(cell)),
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
    pub(super) fn rows(&self) -> usize {
        self.batch.num_rows()
    }

    /// Whether a column was requested.
    pub(super) fn has(&self, column: &str) -> bool {
        self.nulls.contains(&column) || self.batch.column_by_name(column).is_some()
    }

    pub(super) fn numbers<T: Number>(
        &self,
        column: &'static str,
    ) -> Result<RequiredColumn<'a, T>, RecordError> {
        let Some(array) = self.primitive::<T>(column)? else {
            return Ok(RequiredColumn(&[]));
        };
        self.check_nulls(column, array)?;
        Ok(RequiredColumn(array.values()))
    }

    pub(super) fn optional_numbers<T: Number>(
        &self,
        column: &'static str,
    ) -> Result<NullableColumn<'a, T>, RecordError> {
        let array = self.primitive::<T>(column)?;
        // If every cell is null, the cells need not be looked at one by one.
        let array = array.filter(|cells| cells.null_count() < cells.len());
        Ok(NullableColumn {
            cells: array.map_or(&[], |cells| cells.values()),
            nulls: array.filter(|cells| cells.null_count() > 0),
        })
    }

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

    /// A column of numbers, none of them negative unless its type is signed.
    fn primitive<T: Number>(
        &self,
        column: &'static str,
    ) -> Result<Option<&'a PrimitiveArray<T::Stored>>, RecordError> {
        let array: Option<&PrimitiveArray<T::Stored>> =
            self.array(column, &T::Stored::DATA_TYPE)?;
        let wide =
            array.and_then(|array| array.as_any().downcast_ref::<PrimitiveArray<Int64Type>>());
        if let Some(cells) = wide.filter(|_| !T::IS_SIGNED)
            // The bitwise OR of all cells is negative if any cell is.
            && cells.values().iter().fold(0, |all, cell| all | cell) < 0
            && let Some(row) = cells.iter().position(|cell| cell.is_some_and(|cell| cell < 0))
        {
            return Err(self.fault(column, row, CellFault::Negative));
        }
        Ok(array)
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
            row: self.place(row),
            fault,
        }
    }

    /// The index of a row in the file.
    fn place(&self, row: usize) -> u64 {
        let mut left = self.first_row + row as u64;
        for places in self.places {
            let count = places.end - places.start;
            if left < count {
                return places.start + left;
            }
            left -= count;
        }
        left
    }
}
