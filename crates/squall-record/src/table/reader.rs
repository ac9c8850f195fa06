//! The streaming reader of a table.
//!
//! It trusts nothing in the file: first the metadata (is it ours, of this schema, this table), then the types
//! of the columns, then every cell (`columns`). Derived columns and columns that it does not know are not read.

use std::fs::File;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::{Path, PathBuf};
use std::vec;

use arrow_schema::Schema;
use parquet::arrow::ProjectionMask;
use parquet::arrow::arrow_reader::{
    ArrowReaderOptions, ParquetRecordBatchReader, ParquetRecordBatchReaderBuilder,
};
use parquet::file::metadata::FileMetaData;

use super::TableRow;
use super::columns::Columns;
use super::schema::{Role, SCHEMA_KEY, TABLE_KEY};
use crate::RecordError;

const BATCH_ROWS: usize = 8 * 1024;

/// The rows of a table, one by one in the order in which they were written. After an error there are no more.
pub struct Rows<R: TableRow> {
    path: PathBuf,
    /// `None` after the end or an error.
    batches: Option<ParquetRecordBatchReader>,
    rows_before_batch: u64,
    batch: vec::IntoIter<R>,
}

impl<R: TableRow> Rows<R> {
    /// Opens the file `path` and checks that it is this table, in this program's schema.
    pub fn open(path: impl AsRef<Path>) -> Result<Rows<R>, RecordError> {
        let path = path.as_ref();
        let file = File::open(path).map_err(|source| RecordError::Read {
            path: path.into(),
            source,
        })?;
        // The Arrow schema in the metadata is a convenience for others; what counts is Parquet's own.
        let options = ArrowReaderOptions::new().with_skip_arrow_metadata(true);
        let not_parquet = |source| RecordError::NotParquet {
            path: path.into(),
            source,
        };
        let builder = guarded(path, || {
            ParquetRecordBatchReaderBuilder::try_new_with_options(file, options)
        })?
        .map_err(not_parquet)?;
        check_metadata::<R>(path, builder.metadata().file_metadata())?;
        check_columns::<R>(path, builder.schema())?;
        let stored = R::columns()
            .iter()
            .filter(|column| column.role == Role::Stored);
        let mask =
            ProjectionMask::columns(builder.parquet_schema(), stored.map(|column| column.name));
        let builder = builder.with_projection(mask).with_batch_size(BATCH_ROWS);
        let batches = guarded(path, || builder.build())?.map_err(not_parquet)?;
        Ok(Rows {
            path: path.into(),
            batches: Some(batches),
            rows_before_batch: 0,
            batch: Vec::new().into_iter(),
        })
    }

    /// The rows of the next batch; `None` after the last.
    fn next_batch(
        &mut self,
        batches: &mut ParquetRecordBatchReader,
    ) -> Option<Result<Vec<R>, RecordError>> {
        let batch = match guarded(&self.path, || batches.next()) {
            Ok(next) => next?.map_err(|source| RecordError::Damaged {
                path: self.path.clone(),
                source,
            }),
            Err(undecodable) => Err(undecodable),
        };
        let batch = match batch {
            Ok(batch) => batch,
            Err(error) => return Some(Err(error)),
        };
        let columns = Columns {
            path: &self.path,
            batch: &batch,
            first_row: self.rows_before_batch,
        };
        let mut rows = Vec::with_capacity(batch.num_rows());
        let decoded = R::decode(&columns, &mut rows);
        self.rows_before_batch += batch.num_rows() as u64;
        Some(decoded.map(|()| rows))
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
            match self.next_batch(&mut batches)? {
                Ok(rows) => self.batch = rows.into_iter(),
                Err(error) => return Some(Err(error)),
            }
            self.batches = Some(batches);
        }
    }
}

/// Runs `decode`, a call into the Parquet crate, and turns a panic there into an error: version 60 asserts
/// on some numbers of a damaged file. Nothing that `decode` has touched is used after a panic.
fn guarded<T>(path: &Path, decode: impl FnOnce() -> T) -> Result<T, RecordError> {
    catch_unwind(AssertUnwindSafe(decode))
        .map_err(|_| RecordError::Undecodable { path: path.into() })
}

fn check_metadata<R: TableRow>(path: &Path, metadata: &FileMetaData) -> Result<(), RecordError> {
    let value = |key: &'static str| {
        let pairs = metadata.key_value_metadata().into_iter().flatten();
        let found = pairs
            .filter(|pair| pair.key == key)
            .find_map(|pair| pair.value.clone());
        found.ok_or_else(|| RecordError::NotOurs {
            path: path.into(),
            key,
        })
    };
    let schema = value(SCHEMA_KEY)?;
    if schema != crate::SCHEMA.to_string() {
        return Err(RecordError::OtherSchema {
            path: path.into(),
            found: schema,
        });
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

fn check_columns<R: TableRow>(path: &Path, schema: &Schema) -> Result<(), RecordError> {
    for column in R::columns()
        .iter()
        .filter(|column| column.role == Role::Stored)
    {
        let found = schema
            .field_with_name(column.name)
            .ok()
            .map(|field| field.data_type().clone());
        if found.as_ref() != Some(&column.data_type) {
            return Err(RecordError::Column {
                path: path.into(),
                column: column.name,
                expected: column.data_type.clone(),
                found,
            });
        }
    }
    Ok(())
}
