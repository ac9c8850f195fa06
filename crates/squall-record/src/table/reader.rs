//! The streaming reader of a table: whole rows, or a projection of them; all rows, or those within some ranges.
//!
//! It does not trust the file. It checks the metadata first (written by squall, this schema, this table), then the
//! types of the columns, then every cell (`columns`). Derived and unknown columns are not read. `within` finds the rows of
//! a range. The parquet crate decodes pages.

use std::fs::File;
use std::ops::Range;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::vec;

use arrow_array::RecordBatch;
use arrow_schema::{ArrowError, DataType, Field, Schema};
use parquet::arrow::ProjectionMask;
use parquet::arrow::arrow_reader::{
    ArrowReaderMetadata, ArrowReaderOptions, ParquetRecordBatchReader,
    ParquetRecordBatchReaderBuilder, RowSelection,
};
use parquet::errors::ParquetError;
use parquet::file::metadata::{FileMetaData, ParquetMetaData};
use parquet::file::statistics::Statistics;
use squall_base::record::{FrameLayer, FrameRecord, Projection, Way};

use super::TableRow;
use super::cell::{Every, Only, Selection};
use super::columns::Columns;
use super::frames::Kinds;
use super::guarded::guarded;
use super::positioned::PositionedFile;
use super::schema::{Column, Role, SCHEMA_KEY, TABLE_KEY, dictionary};
use super::sealed::Row;
use super::within::{ColumnRange, FoundRows};
use crate::RecordError;

/// Few enough that their cells stay in the processor's private cache.
const BATCH_ROWS: usize = 4 * 1024;

/// The rows of a table, one by one in the order in which they were written. After an error there are no more rows.
pub struct Rows<R: TableRow> {
    path: PathBuf,
    /// `None` after the end or an error.
    batches: Option<ParquetRecordBatchReader>,
    rows_before_batch: u64,
    batch: vec::IntoIter<R>,
    /// Requested columns that need not be read because they are null in every row.
    nulls: Vec<&'static str>,
    /// How many rows there are, according to the file.
    declared_rows: u64,
    /// Where in the file the rows are; empty if they are all of its rows.
    places: Vec<Range<u64>>,
    /// How many rows were searched for those within ranges.
    searched_rows: u64,
}

impl<R: TableRow> Rows<R> {
    /// Opens the file `path` and checks that it is this table, in this program's schema.
    pub fn open(path: impl AsRef<Path>) -> Result<Rows<R>, RecordError> {
        Rows::begin(path.as_ref(), |_| true, &[])
    }

    /// Opens the file like [`Rows::open`], for the rows that lie in all of `ranges`; with no range, for all rows. Row groups
    /// without any such row are not read. Rows outside the ranges are not checked.
    ///
    /// # Errors
    /// Those of [`Rows::open`], and [`RecordError::NoSuchColumn`] if the table has no such column of 64-bit numbers.
    pub fn open_within(
        path: impl AsRef<Path>,
        ranges: &[ColumnRange],
    ) -> Result<Rows<R>, RecordError> {
        Rows::begin(path.as_ref(), |_| true, ranges)
    }

    /// Opens the file for these columns only. All other fields of the rows are zero, so only a projection of the rows
    /// may leave this module.
    fn open_columns(
        path: &Path,
        columns: &[&'static str],
        ranges: &[ColumnRange],
    ) -> Result<Rows<R>, RecordError> {
        let is_known = |name: &&str| R::columns().iter().any(|column| column.is_stored_as(name));
        if let Some(column) = columns.iter().find(|name| !is_known(name)) {
            return Err(RecordError::NoSuchColumn {
                path: path.into(),
                table: R::TABLE,
                column,
            });
        }
        Rows::begin(path, |column| columns.contains(&column.name), ranges)
    }

    fn begin(
        path: &Path,
        is_wanted: impl Fn(&Column) -> bool,
        ranges: &[ColumnRange],
    ) -> Result<Rows<R>, RecordError> {
        check_ranges::<R>(path, ranges)?;
        let file = File::open(path).map_err(RecordError::read(path))?;
        let not_parquet = |source| RecordError::NotParquet(path.into(), source);
        // The Arrow schema in the metadata is for other readers; the Parquet schema is the one that counts.
        let options = || ArrowReaderOptions::new().with_skip_arrow_metadata(true);
        let metadata =
            guarded(path, || ArrowReaderMetadata::load(&file, options()))?.map_err(not_parquet)?;
        check_metadata::<R>(path, metadata.metadata().file_metadata())?;
        check_columns::<R>(path, metadata.schema())?;
        let schema = Arc::new(with_words::<R>(metadata.schema()));
        let metadata = guarded(path, || {
            let options = options().with_schema(schema);
            ArrowReaderMetadata::try_new(Arc::clone(metadata.metadata()), options)
        })?
        .map_err(not_parquet)?;
        let has = |column: &&Column| metadata.schema().field_with_name(column.name).is_ok();
        let (nulls, stored): (Vec<&Column>, Vec<&Column>) = R::columns()
            .iter()
            .filter(|column| column.is_read() && is_wanted(column))
            .filter(has)
            .partition(|column| is_all_null(metadata.metadata(), column));
        let file = PositionedFile::new(file);
        let found = match ranges {
            [] => None,
            ranges => {
                let found = guarded(path, || FoundRows::search(&file, &metadata, ranges))?;
                Some(found.map_err(damaged(path))?)
            }
        };
        let batches = guarded(path, || {
            batches_of(file, metadata.clone(), &stored, found.as_ref())
        })?;
        let batches = batches.map_err(not_parquet)?;
        let all_rows = (metadata.metadata().row_groups().iter())
            .map(|group| u64::try_from(group.num_rows()).unwrap_or(0))
            .fold(0, u64::saturating_add);
        Ok(Rows {
            path: path.into(),
            // If no row was found, there is nothing to read.
            batches: Some(batches)
                .filter(|_| found.as_ref().is_none_or(|found| !found.groups.is_empty())),
            rows_before_batch: 0,
            batch: Vec::new().into_iter(),
            nulls: nulls.into_iter().map(|column| column.name).collect(),
            declared_rows: found.as_ref().map_or(all_rows, FoundRows::count),
            searched_rows: found.as_ref().map_or(0, |found| found.searched),
            places: found.map_or_else(Vec::new, |found| found.places),
        })
    }

    /// How many rows there are to read, according to the file.
    pub(super) fn declared_rows(&self) -> u64 {
        self.declared_rows
    }

    /// How many rows [`Rows::open_within`] searched: those of the row groups that could have rows within the ranges.
    pub fn searched_rows(&self) -> u64 {
        self.searched_rows
    }

    /// Passes every remaining row to `take` as soon as it is decoded, because a row of many columns is expensive to
    /// move.
    pub fn each(mut self, mut take: impl FnMut(&R)) -> Result<(), RecordError> {
        for row in std::mem::take(&mut self.batch) {
            take(&row);
        }
        self.each_selected::<Every>(take)
    }

    /// Passes every row to `take`, with only the selected columns.
    fn each_selected<S: Selection>(self, mut take: impl FnMut(&R)) -> Result<(), RecordError> {
        self.each_batch(|columns| {
            let mut row = R::rows::<S>(columns)?;
            for place in 0..columns.rows() {
                take(&row(place));
            }
            Ok(())
        })
    }

    /// The next batch; `None` after the last one.
    fn next_batch(
        &self,
        batches: &mut ParquetRecordBatchReader,
    ) -> Option<Result<RecordBatch, RecordError>> {
        match guarded(&self.path, || batches.next()) {
            Ok(next) => Some(next?.map_err(damaged(&self.path))),
            Err(undecodable) => Some(Err(undecodable)),
        }
    }

    /// Passes every remaining batch to `take`, as columns.
    fn each_batch(
        mut self,
        mut take: impl FnMut(&Columns<'_>) -> Result<(), RecordError>,
    ) -> Result<(), RecordError> {
        let Some(mut batches) = self.batches.take() else {
            return Ok(());
        };
        while let Some(batch) = self.next_batch(&mut batches) {
            let batch = batch?;
            take(&Columns {
                path: &self.path,
                table: R::TABLE,
                batch: &batch,
                nulls: &self.nulls,
                first_row: self.rows_before_batch,
                places: &self.places,
            })?;
            self.rows_before_batch += batch.num_rows() as u64;
        }
        Ok(())
    }
}

/// Passes every row of the table in the file `path` to `take`, reading only the projection's columns.
pub fn each_projected<P>(path: impl AsRef<Path>, take: impl FnMut(P)) -> Result<(), RecordError>
where
    P: Projection<Row: TableRow>,
{
    each_projected_within(path, &[], take)
}

/// Passes the rows of the table in the file `path` that lie in all of `ranges` to `take`, as [`Rows::open_within`] finds
/// them, reading only the projection's columns.
pub fn each_projected_within<P>(
    path: impl AsRef<Path>,
    ranges: &[ColumnRange],
    mut take: impl FnMut(P),
) -> Result<(), RecordError>
where
    P: Projection<Row: TableRow>,
{
    let rows = Rows::<P::Row>::open_columns(path.as_ref(), P::COLUMNS, ranges)?;
    rows.each_selected::<Only<P>>(|row| take(P::of(row)))
}

impl Rows<FrameRecord> {
    /// Passes the remaining rows whose direction, layer and type are wanted to `take`. A reader typically needs few
    /// frames, and a row takes time to decode. The cells of the other rows are still checked.
    pub fn each_wanted(
        mut self,
        is_wanted: impl Fn(Way, FrameLayer, u64) -> bool,
        mut take: impl FnMut(&FrameRecord),
    ) -> Result<(), RecordError> {
        for row in std::mem::take(&mut self.batch) {
            if is_wanted(row.frame.way, row.frame.layer, row.frame.kind) {
                take(&row);
            }
        }
        self.each_batch(|columns| {
            let kinds = Kinds::of(columns)?;
            let mut row = FrameRecord::rows::<Every>(columns)?;
            for place in 0..columns.rows() {
                let (way, layer, kind) = kinds.at(place);
                if is_wanted(way, layer, kind) {
                    take(&row(place));
                }
            }
            Ok(())
        })
    }
}

impl<R: TableRow> Iterator for Rows<R> {
    type Item = Result<R, RecordError>;

    fn next(&mut self) -> Option<Self::Item> {
        loop {
            if let Some(row) = self.batch.next() {
                return Some(Ok(row));
            }
            let mut batches = self.batches.take()?;
            let batch = match self.next_batch(&mut batches)? {
                Ok(batch) => batch,
                Err(error) => return Some(Err(error)),
            };
            let columns = Columns {
                path: &self.path,
                table: R::TABLE,
                batch: &batch,
                nulls: &self.nulls,
                first_row: self.rows_before_batch,
                places: &self.places,
            };
            let rows: Vec<R> = match R::rows::<Every>(&columns) {
                Ok(row) => (0..columns.rows()).map(row).collect(),
                Err(error) => return Some(Err(error)),
            };
            self.rows_before_batch += rows.len() as u64;
            self.batch = rows.into_iter();
            self.batches = Some(batches);
        }
    }
}

/// The batches of a file, with these columns only, and only with the rows that were found, if any were searched for.
fn batches_of(
    file: PositionedFile,
    metadata: ArrowReaderMetadata,
    columns: &[&Column],
    found: Option<&FoundRows>,
) -> Result<ParquetRecordBatchReader, ParquetError> {
    let builder = ParquetRecordBatchReaderBuilder::new_with_metadata(file, metadata);
    let names = columns.iter().map(|column| column.name);
    let mask = ProjectionMask::columns(builder.parquet_schema(), names);
    let mut builder = builder.with_projection(mask).with_batch_size(BATCH_ROWS);
    if let Some(found) = found {
        builder = builder
            .with_row_groups(found.groups.clone())
            .with_row_selection(RowSelection::from(found.selectors.clone()));
    }
    builder.build()
}

/// The error of a file whose pages cannot be decoded.
fn damaged<E: Into<ArrowError>>(path: &Path) -> impl Fn(E) -> RecordError {
    move |source| RecordError::Damaged(path.into(), source.into())
}

/// Whether a nullable column is null in every row according to the file's statistics, so that it need not be read.
fn is_all_null(metadata: &ParquetMetaData, column: &Column) -> bool {
    let schema = metadata.file_metadata().schema_descr();
    let place = (0..schema.num_columns()).find(|&place| schema.column(place).name() == column.name);
    let Some(place) = place.filter(|_| column.nullable) else {
        return false;
    };
    metadata.row_groups().iter().all(|group| {
        let chunk = group.column(place);
        let nulls = chunk.statistics().and_then(Statistics::null_count_opt);
        nulls.is_some_and(|nulls| u64::try_from(chunk.num_values()) == Ok(nulls))
    })
}

fn check_metadata<R: TableRow>(path: &Path, metadata: &FileMetaData) -> Result<(), RecordError> {
    let value = |key: &'static str| {
        let pairs = metadata.key_value_metadata().into_iter().flatten();
        let found = pairs
            .filter(|pair| pair.key == key)
            .find_map(|pair| pair.value.clone());
        found.ok_or_else(|| RecordError::NotOurs(path.into(), key))
    };
    let schema = value(SCHEMA_KEY)?;
    if !crate::READABLE_SCHEMAS
        .clone()
        .any(|readable| readable.to_string() == schema)
    {
        return Err(RecordError::OtherSchema(path.into(), schema));
    }
    let table = value(TABLE_KEY)?;
    if table != R::TABLE {
        return Err(RecordError::OtherTable {
            path: path.into(),
            expected: R::TABLE,
            found: table,
        });
    }
    Ok(())
}

/// The file's schema, with word columns as dictionaries.
fn with_words<R: TableRow>(schema: &Schema) -> Schema {
    let field = |field: &Arc<Field>| {
        let mut columns = R::columns().iter();
        let column = columns.find(|column| column.name == field.name());
        match column.filter(|column| column.is_read_as_words()) {
            Some(column) => {
                let data_type = dictionary(&column.data_type);
                Arc::new(field.as_ref().clone().with_data_type(data_type))
            }
            None => Arc::clone(field),
        }
    };
    Schema::new(schema.fields().iter().map(field).collect::<Vec<_>>())
}

/// Checks that each of these ranges is of a stored column of 64-bit numbers.
fn check_ranges<R: TableRow>(path: &Path, ranges: &[ColumnRange]) -> Result<(), RecordError> {
    let is_known = |range: &&ColumnRange| {
        let mut columns = R::columns().iter();
        columns.any(|it| it.is_stored_as(range.column) && it.data_type == DataType::Int64)
    };
    match ranges.iter().find(|range| !is_known(range)) {
        Some(range) => Err(RecordError::NoSuchColumn {
            path: path.into(),
            table: R::TABLE,
            column: range.column,
        }),
        None => Ok(()),
    }
}

fn check_columns<R: TableRow>(path: &Path, schema: &Schema) -> Result<(), RecordError> {
    for column in R::columns().iter().filter(|column| column.is_read()) {
        let found = schema
            .field_with_name(column.name)
            .ok()
            .map(|field| field.data_type().clone());
        if found.is_none() && column.role == Role::Added {
            continue;
        }
        if found.as_ref() != Some(&column.data_type) {
            return Err(RecordError::Column {
                path: path.into(),
                table: R::TABLE,
                column: column.name,
                expected: column.data_type.clone(),
                found,
            });
        }
    }
    Ok(())
}
