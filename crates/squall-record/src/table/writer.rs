//! The streaming writer of a table.
//!
//! Its memory is bounded: up to 1,024 rows as they came, and the encoded pages of one row group. It does not
//! rename: a table is written into a partial trial's folder (`folder`), where nobody reads it.

use std::fs::File;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use arrow_array::RecordBatch;
use arrow_schema::Schema;
use parquet::arrow::ArrowWriter;
use parquet::errors::ParquetError;

use super::TableRow;
use super::schema::{arrow_schema, properties};
use crate::RecordError;

/// Rows that are turned into columns at once: enough to make the cost per row small, few enough to stay in
/// the processor's cache.
const BATCH_ROWS: usize = 1024;

/// Writes a table row by row. A file whose writer was dropped without [`TableWriter::finish`] has no end, and
/// reading it is an error.
pub struct TableWriter<R: TableRow> {
    path: PathBuf,
    schema: Arc<Schema>,
    parquet: ArrowWriter<File>,
    pending: Vec<R>,
    rows: u64,
}

impl<R: TableRow> TableWriter<R> {
    /// Makes the file `path`, in place of what is there.
    pub fn create(path: impl AsRef<Path>) -> Result<TableWriter<R>, RecordError> {
        let path = path.as_ref().to_path_buf();
        let file = File::create(&path).map_err(|source| RecordError::Create {
            path: path.clone(),
            source,
        })?;
        let schema = arrow_schema::<R>();
        let parquet = properties::<R>()
            .and_then(|properties| ArrowWriter::try_new(file, schema.clone(), Some(properties)))
            .map_err(|source| RecordError::WriteTable {
                path: path.clone(),
                source,
            })?;
        Ok(TableWriter {
            path,
            schema,
            parquet,
            pending: Vec::with_capacity(BATCH_ROWS),
            rows: 0,
        })
    }

    /// Appends `rows`. Their times must already count from the trial's epoch. After an error the file is
    /// of no use.
    pub fn append(&mut self, rows: &[R]) -> Result<(), RecordError> {
        let mut rest = rows;
        while !rest.is_empty() {
            let (now, later) = rest.split_at(rest.len().min(BATCH_ROWS - self.pending.len()));
            self.pending.extend_from_slice(now);
            rest = later;
            if self.pending.len() == BATCH_ROWS {
                self.write_pending()?;
            }
        }
        Ok(())
    }

    /// Writes what is left and the file's end, and waits until the disk has it. Gives the number of rows.
    pub fn finish(mut self) -> Result<u64, RecordError> {
        self.write_pending()?;
        let TableWriter {
            path,
            parquet,
            rows,
            ..
        } = self;
        let file = parquet
            .into_inner()
            .map_err(|source| RecordError::WriteTable {
                path: path.clone(),
                source,
            })?;
        file.sync_all()
            .map_err(|source| RecordError::Write { path, source })?;
        Ok(rows)
    }

    fn write_pending(&mut self) -> Result<(), RecordError> {
        let columns = R::encode(&self.pending).map_err(|error| RecordError::TooLarge {
            path: self.path.clone(),
            column: error.column,
            value: error.value,
        })?;
        RecordBatch::try_new(self.schema.clone(), columns)
            .map_err(ParquetError::from)
            .and_then(|batch| self.parquet.write(&batch))
            .map_err(|source| RecordError::WriteTable {
                path: self.path.clone(),
                source,
            })?;
        self.rows += self.pending.len() as u64;
        self.pending.clear();
        Ok(())
    }
}
