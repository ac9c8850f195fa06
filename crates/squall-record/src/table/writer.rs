//! The streaming writer of a table.
//!
//! Its memory is bounded: up to 256 rows as they came, and the packed columns of one row group (`packing`). It does not
//! rename: a table is written into a partial trial's folder (`folder`), where nobody reads it.

use std::fs::File;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use parquet::errors::ParquetError;
use parquet::file::writer::SerializedFileWriter;

use super::TableRow;
use super::packing::{PIECE_ROWS, RowGroup};
use super::schema::{parquet_schema, properties};
use crate::RecordError;

/// Rows of a piece that is small enough to wait for more: a column's cost per piece is that of a few dozen rows.
const FEW_ROWS: usize = PIECE_ROWS / 4;

/// Writes a table row by row. A file whose writer was dropped without [`TableWriter::finish`] has no end, and
/// reading it is an error.
pub struct TableWriter<R: TableRow> {
    path: PathBuf,
    file: SerializedFileWriter<File>,
    group: RowGroup,
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
        let begin = || {
            let properties = Arc::new(properties::<R>());
            SerializedFileWriter::new(file, parquet_schema::<R>()?, properties)
        };
        let file = begin().map_err(|source: ParquetError| RecordError::WriteTable {
            path: path.clone(),
            source,
        })?;
        Ok(TableWriter {
            path,
            file,
            group: RowGroup::new(R::columns()),
            pending: Vec::with_capacity(PIECE_ROWS),
            rows: 0,
        })
    }

    /// Appends `rows`. Their times must already count from the trial's epoch. After an error the file is
    /// of no use.
    pub fn append(&mut self, rows: &[R]) -> Result<(), RecordError> {
        while self.room() == 0 {
            self.press_or_write()?;
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

    /// Rows that can be appended in some microseconds: after that a page is to be pressed, or a row group written.
    pub fn room(&self) -> usize {
        self.group.room().saturating_sub(self.pending.len())
    }

    /// Does a step of what is to be done before there is room, if that is short (docs/METHOD.md, "Writing in time to spare").
    /// Gives whether it has; what else is to be done, [`TableWriter::append`] does.
    pub fn press_some(&mut self) -> Result<bool, RecordError> {
        if self.group.is_page_full() && !self.group.is_next_short() {
            return Ok(false);
        }
        self.press_any()
    }

    /// The same, however long it takes: if there is nothing to do and no room, a row group is to be written.
    fn press_any(&mut self) -> Result<bool, RecordError> {
        if self.group.is_page_full() {
            let pressed = self.group.press_next();
            pressed.map_err(|source| self.failed(source))?;
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

    /// Writes what is left and the file's end, and waits until the disk has it. Gives the number of rows.
    pub fn finish(mut self) -> Result<u64, RecordError> {
        self.write_pending()?;
        self.write_group()?;
        let TableWriter {
            path, file, rows, ..
        } = self;
        let file = file
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
                self.press_or_write()?;
            }
            let (now, later) = rest.split_at(rest.len().min(self.group.room()));
            self.encode(now)?;
            rest = later;
        }
        Ok(())
    }

    /// Packs as many rows as there is room for in the page.
    fn encode(&mut self, rows: &[R]) -> Result<(), RecordError> {
        R::encode(rows, &mut self.group).map_err(|error| RecordError::TooLarge {
            path: self.path.clone(),
            column: error.column,
            value: error.value,
        })?;
        self.group.took(rows.len());
        self.rows += rows.len() as u64;
        Ok(())
    }

    fn press_or_write(&mut self) -> Result<(), RecordError> {
        if !self.press_any()? {
            self.write_group()?;
        }
        Ok(())
    }

    fn write_group(&mut self) -> Result<(), RecordError> {
        let written = self.group.write(&mut self.file);
        written.map_err(|source| self.failed(source))
    }

    fn failed(&self, source: ParquetError) -> RecordError {
        RecordError::WriteTable {
            path: self.path.clone(),
            source,
        }
    }
}
