//! Finds the rows of a table whose numbers lie in given ranges, so that a reader decodes no others.
//!
//! A row group is skipped if its statistics show that it has no such row. In the others, the columns of the ranges are
//! decoded to find the rows. `reader` then decodes the other columns of these rows only, and skips pages without any of
//! them. Rows of a trial are nearly in the order of time, so a span of time takes one or two row groups however many the
//! table has. Nothing is kept from one search to the next.

use std::ops::{Range, RangeInclusive};

use arrow_array::types::Int64Type;
use arrow_array::{Array as _, PrimitiveArray, RecordBatch};
use parquet::arrow::ProjectionMask;
use parquet::arrow::arrow_reader::{
    ArrowReaderMetadata, ParquetRecordBatchReaderBuilder, RowSelector,
};
use parquet::errors::ParquetError;
use parquet::file::metadata::RowGroupMetaData;
use parquet::file::statistics::Statistics;
use squall_base::Time;

use super::positioned::PositionedFile;

/// How many rows are searched at once.
const BATCH_ROWS: usize = 8 * 1024;

/// The rows whose cell in a column of times or counts lies in a range. Rows without that cell are not among them.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ColumnRange {
    pub(super) column: &'static str,
    range: RangeInclusive<u64>,
}

impl ColumnRange {
    /// The rows whose cell in `column` lies in `range`, in the unit of the column.
    pub fn new(column: &'static str, range: RangeInclusive<u64>) -> ColumnRange {
        ColumnRange { column, range }
    }

    /// The rows whose time in `column` is at or after `from`, and at or before `to`.
    pub fn of_time(column: &'static str, from: Time, to: Time) -> ColumnRange {
        ColumnRange::new(column, from.as_nanos()..=to.as_nanos())
    }

    fn has(&self, cells: &PrimitiveArray<Int64Type>, row: usize) -> bool {
        let cell = u64::try_from(cells.value(row));
        !cells.is_null(row) && cell.is_ok_and(|cell| self.range.contains(&cell))
    }

    /// Whether a row group can have such a row, according to its statistics.
    fn may_be_in(&self, group: &RowGroupMetaData) -> bool {
        let mut columns = group.columns().iter();
        let column = columns.find(|column| column.column_descr().name() == self.column);
        let Some(Statistics::Int64(of)) = column.and_then(|column| column.statistics()) else {
            return true;
        };
        let (Some(least), Some(greatest)) = (of.min_opt(), of.max_opt()) else {
            return true;
        };
        // A negative number is a fault of the file, which the reader of the row reports.
        let [least, greatest] = [least, greatest].map(|it| u64::try_from(*it).unwrap_or(0));
        *self.range.start() <= greatest && least <= *self.range.end()
    }
}

/// The rows that were found.
#[derive(Debug, Default)]
pub(super) struct FoundRows {
    /// The row groups that have any of them.
    pub(super) groups: Vec<usize>,
    /// Which rows of these row groups they are.
    pub(super) selectors: Vec<RowSelector>,
    /// Their places in the file.
    pub(super) places: Vec<Range<u64>>,
    /// How many rows were searched.
    pub(super) searched: u64,
}

impl FoundRows {
    /// Searches a table for the rows that lie in all of these ranges.
    pub(super) fn search(
        file: &PositionedFile,
        metadata: &ArrowReaderMetadata,
        ranges: &[ColumnRange],
    ) -> Result<FoundRows, ParquetError> {
        let mut found = FoundRows::default();
        let mut first_row = 0_u64;
        for (number, group) in metadata.metadata().row_groups().iter().enumerate() {
            if ranges.iter().all(|range| range.may_be_in(group)) {
                found.search_group(file, metadata, (number, first_row), ranges)?;
            }
            let rows = u64::try_from(group.num_rows()).unwrap_or(0);
            first_row = first_row.saturating_add(rows);
        }
        Ok(found)
    }

    /// How many rows were found.
    pub(super) fn count(&self) -> u64 {
        let counts = self.places.iter().map(|places| places.end - places.start);
        counts.sum()
    }

    /// Searches the row group with this number, whose first row is at this place in the file.
    fn search_group(
        &mut self,
        file: &PositionedFile,
        metadata: &ArrowReaderMetadata,
        (number, first_row): (usize, u64),
        ranges: &[ColumnRange],
    ) -> Result<(), ParquetError> {
        let builder =
            ParquetRecordBatchReaderBuilder::new_with_metadata(file.clone(), metadata.clone());
        let columns = ranges.iter().map(|range| range.column);
        let mask = ProjectionMask::columns(builder.parquet_schema(), columns);
        let batches = builder
            .with_row_groups(vec![number])
            .with_projection(mask)
            .with_batch_size(BATCH_ROWS)
            .build()?;
        let mut selectors: Vec<RowSelector> = Vec::new();
        let mut place = first_row;
        for batch in batches {
            for is_wanted in rows_within(&batch?, ranges) {
                match selectors.last_mut() {
                    Some(last) if last.skip != is_wanted => last.row_count += 1,
                    _ if is_wanted => selectors.push(RowSelector::select(1)),
                    _ => selectors.push(RowSelector::skip(1)),
                }
                if is_wanted {
                    self.add_place(place);
                }
                place += 1;
            }
        }
        self.searched += place - first_row;
        if selectors.iter().any(|selector| !selector.skip) {
            self.groups.push(number);
            self.selectors.append(&mut selectors);
        }
        Ok(())
    }

    fn add_place(&mut self, place: u64) {
        match self.places.last_mut() {
            Some(last) if last.end == place => last.end += 1,
            _ => self.places.push(place..place + 1),
        }
    }
}

/// Whether each row lies in all of the ranges.
fn rows_within(batch: &RecordBatch, ranges: &[ColumnRange]) -> Vec<bool> {
    let mut wanted = vec![true; batch.num_rows()];
    for range in ranges {
        let cells = batch.column_by_name(range.column);
        let cells: Option<&PrimitiveArray<Int64Type>> =
            cells.and_then(|cells| cells.as_any().downcast_ref());
        for (row, is_wanted) in wanted.iter_mut().enumerate() {
            *is_wanted &= cells.is_some_and(|cells| range.has(cells, row));
        }
    }
    wanted
}
