//! The streaming writer of a table.
//!
//! Its memory is bounded: up to 256 pending rows, and the packed columns of one row group (`packing`). It does not
//! rename: a table is written into the folder of a partial trial (`folder`), which nobody reads.

use std::fs::File;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use parquet::errors::ParquetError;
use parquet::file::writer::SerializedFileWriter;

use super::TableRow;
use super::packing::{PIECE_ROWS, RowGroup};
use super::schema::{parquet_schema, properties};
use crate::RecordError;

/// A piece smaller than this waits for more rows: packing a piece costs each column as much as a few dozen rows.
const FEW_ROWS: usize = PIECE_ROWS / 4;

/// Writes a table row by row. If the writer is dropped without [`TableWriter::finish`], the file has no footer and
/// reading it is an error.
pub struct TableWriter<R: TableRow> {
    path: PathBuf,
    file: SerializedFileWriter<File>,
    group: RowGroup,
    pending: Vec<R>,
    rows: u64,
}

impl<R: TableRow> TableWriter<R> {
    /// Creates the file `path`, replacing an existing one.
    pub fn create(path: impl AsRef<Path>) -> Result<TableWriter<R>, RecordError> {
        let path = path.as_ref().to_path_buf();
        let file = File::create(&path).map_err(RecordError::create(&path))?;
        let begin = || {
            let properties = Arc::new(properties::<R>());
            SerializedFileWriter::new(file, parquet_schema::<R>()?, properties)
        };
        let file = begin()
            .map_err(|source: ParquetError| RecordError::WriteTable(path.clone(), source))?;
        Ok(TableWriter {
            path,
            file,
            group: RowGroup::new(R::columns()),
            pending: Vec::with_capacity(PIECE_ROWS),
            rows: 0,
        })
    }

    /// Appends `rows`. Their times must count from the trial's epoch. After an error the file is unusable.
    pub fn append(&mut self, rows: &[R]) -> Result<(), RecordError> {
        while self.room() == 0 {
            self.compress_or_write()?;
        }
        let mut rest = rows;
        while !rest.is_empty() {
            if self.pending.is_empty() && rest.len() >= FEW_ROWS {
                let (now, later) = rest.split_at(rest.len().min(PIECE_ROWS));
                self.write(now)?;
                rest = later;
            } else {
                let (now, later) = rest.split_at(rest.len().min(PIECE_ROWS - self.pending.len()));
                self.pending.extend_from_slice(now);
                rest = later;
                if self.pending.len() == PIECE_ROWS {
                    self.write_pending()?;
                }
            }
        }
        Ok(())
    }

    /// How many rows can be appended within some microseconds; after that a page has to be compressed, or a row group
    /// written.
    pub fn room(&self) -> usize {
        self.group.room().saturating_sub(self.pending.len())
    }

    /// Does one step of the work that has to precede further rows, if that step is short (docs/METHOD.md, "Writing in
    /// time to spare"). Returns whether it did; [`TableWriter::append`] does whatever remains.
    pub fn compress_some(&mut self) -> Result<bool, RecordError> {
        if self.group.is_page_full() && !self.group.is_next_short() {
            return Ok(false);
        }
        self.compress_any()
    }

    /// Does one step, however long it takes. If it returns false and there is no room, a row group has to be written.
    fn compress_any(&mut self) -> Result<bool, RecordError> {
        if self.group.is_page_full() {
            let compressed = self.group.compress_next();
            compressed.map_err(|source| self.failed(source))?;
            return Ok(true);
        }
        let room = self.group.room();
        if room == 0 || room > self.pending.len() {
            return Ok(false);
        }
        let mut pending = std::mem::take(&mut self.pending);
        self.encode(&pending[..room])?;
        pending.drain(..room);
        self.pending = pending;
        Ok(true)
    }

    /// Appends this many rows. `make` turns the row that it is given, which is `blank` or a row made before, into the one
    /// of that number: a row of many columns takes longer to move than to make.
    pub fn append_made(
        &mut self,
        rows: usize,
        blank: R,
        mut make: impl FnMut(usize, &mut R),
    ) -> Result<(), RecordError>
    where
        R: Clone,
    {
        self.write_pending()?;
        let mut piece = vec![blank; rows.min(PIECE_ROWS)];
        for first in (0..rows).step_by(PIECE_ROWS) {
            let piece = &mut piece[..(rows - first).min(PIECE_ROWS)];
            for (number, row) in (first..).zip(&mut *piece) {
                make(number, row);
            }
            self.write(piece)?;
        }
        Ok(())
    }

    /// Writes the remaining rows and the footer, and syncs the file to disk. Returns the number of rows.
    pub fn finish(mut self) -> Result<u64, RecordError> {
        self.write_pending()?;
        self.write_group()?;
        let TableWriter {
            path, file, rows, ..
        } = self;
        let file = file
            .into_inner()
            .map_err(|source| RecordError::WriteTable(path.clone(), source))?;
        file.sync_all()
            .map_err(|source| RecordError::Write(path, source))?;
        Ok(rows)
    }

    fn write_pending(&mut self) -> Result<(), RecordError> {
        let mut pending = std::mem::take(&mut self.pending);
        self.write(&pending)?;
        pending.clear();
        self.pending = pending;
        Ok(())
    }

    /// Packs up to `PIECE_ROWS` rows, into as many pages and row groups as they touch.
    fn write(&mut self, rows: &[R]) -> Result<(), RecordError> {
        let mut rest = rows;
        while !rest.is_empty() {
            while self.group.room() == 0 {
                self.compress_or_write()?;
            }
            let (now, later) = rest.split_at(rest.len().min(self.group.room()));
            self.encode(now)?;
            rest = later;
        }
        Ok(())
    }

    /// Packs rows into the current page, which must have room for them.
    fn encode(&mut self, rows: &[R]) -> Result<(), RecordError> {
        R::encode(rows, &mut self.group).map_err(|error| RecordError::TooLarge {
            path: self.path.clone(),
            column: error.column,
            value: error.value,
        })?;
        self.group.add_rows(rows.len());
        self.rows += rows.len() as u64;
        Ok(())
    }

    fn compress_or_write(&mut self) -> Result<(), RecordError> {
        if !self.compress_any()? {
            self.write_group()?;
        }
        Ok(())
    }

    fn write_group(&mut self) -> Result<(), RecordError> {
        let written = self.group.write(&mut self.file);
        written.map_err(|source| self.failed(source))
    }

    fn failed(&self, source: ParquetError) -> RecordError {
        RecordError::WriteTable(self.path.clone(), source)
    }
}
