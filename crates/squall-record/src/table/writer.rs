//! The streaming writer of a table.
//!
//! Its memory is bounded: up to 256 pending rows, and the packed columns of one row group (`packing`). It does not
//! rename: a table is written into the folder of a partial trial (`folder`), which no reader opens. A table that must survive
//! its process is written in `parts`.

use std::fs::File;
use std::path::{Path, PathBuf};

use parquet::errors::ParquetError;
use parquet::file::writer::SerializedFileWriter;

use super::TableRow;
use super::packing::{PIECE_ROWS, RowGroup};
use super::parts::{Parts, TableSnapshot, prepare_folder};
use super::schema::FileLayout;
use crate::RecordError;

/// A piece smaller than this waits for more rows: packing a piece costs each column as much as a few dozen rows.
const FEW_ROWS: usize = PIECE_ROWS / 4;

/// Writes a table row by row. If the writer is dropped without [`TableWriter::finish`], the file has no footer and
/// reading it is an error; its parts remain, if it has any ([`TableWriter::create_in_parts`]).
pub struct TableWriter<R: TableRow> {
    path: PathBuf,
    output: Output,
    group: RowGroup,
    pending: Vec<R>,
    rows: u64,
    /// The number of rows when they were last saved.
    saved_rows: u64,
}

/// Where row groups are written.
enum Output {
    Table(SerializedFileWriter<File>),
    Parts(Parts),
}

impl<R: TableRow> TableWriter<R> {
    /// Creates the file `path`, replacing an existing one.
    pub fn create(path: impl AsRef<Path>) -> Result<TableWriter<R>, RecordError> {
        let path = path.as_ref();
        let file = File::create(path).map_err(RecordError::create(path))?;
        TableWriter::begin(path, |layout| Ok(Output::Table(layout.begin(file)?)))
    }

    /// Creates the file `path`, replacing an existing one, for a table whose rows must survive this process if it is
    /// killed. The rows that [`TableWriter::save`] has saved, and those of full row groups, are then in parts
    /// ([`crate::parts_of`]). [`TableWriter::finish`] joins the parts, which takes the space of the table a second time.
    ///
    /// Parts that an earlier process left are removed. The table is written without parts if it is not an ordinary file,
    /// such as a pipe, or if no folder can be made beside it.
    pub fn create_in_parts(path: impl AsRef<Path>) -> Result<TableWriter<R>, RecordError> {
        let path = path.as_ref();
        // The file is emptied only after the old parts are removed: they must never look like parts of this table.
        let mut options = File::options();
        options.write(true).create(true).truncate(false);
        let file = options.open(path).map_err(RecordError::create(path))?;
        let metadata = file.metadata().map_err(RecordError::create(path))?;
        let folder = if metadata.is_file() {
            let folder = prepare_folder(path)?;
            file.set_len(0).map_err(RecordError::write(path))?;
            folder
        } else {
            None
        };
        TableWriter::begin(path, |layout| {
            Ok(match folder {
                Some(folder) => Output::Parts(Parts::new(path.into(), file, folder, layout)),
                None => Output::Table(layout.begin(file)?),
            })
        })
    }

    fn begin(
        path: &Path,
        output: impl FnOnce(FileLayout) -> Result<Output, ParquetError>,
    ) -> Result<TableWriter<R>, RecordError> {
        let output = FileLayout::of::<R>()
            .and_then(output)
            .map_err(|source| RecordError::WriteTable(path.into(), source))?;
        Ok(TableWriter {
            path: path.into(),
            output,
            group: RowGroup::new(R::columns()),
            pending: Vec::with_capacity(PIECE_ROWS),
            rows: 0,
            saved_rows: 0,
        })
    }

    /// Appends `rows`. Their times must count from the trial's epoch. After an error the file is unusable.
    pub fn append(&mut self, rows: &[R]) -> Result<(), RecordError> {
        while self.room() == 0 {
            self.compress_or_write()?;
        }
        let mut rest = rows;
        // Waiting rows have to be copied, so only a few may wait. Those that already wait are packed first, to keep the order.
        if rest.len() >= FEW_ROWS || self.pending.len() + rest.len() > PIECE_ROWS {
            self.write_pending()?;
        }
        while rest.len() >= FEW_ROWS {
            let (now, later) = rest.split_at(rest.len().min(PIECE_ROWS));
            self.write(now)?;
            rest = later;
        }
        self.pending.extend_from_slice(rest);
        Ok(())
    }

    /// How many rows can be appended within some microseconds; after that a page has to be compressed, or a row group
    /// written.
    pub fn room(&self) -> usize {
        self.group.room().saturating_sub(self.pending.len())
    }

    /// Does one step of the work that has to precede further rows, if that step is short (docs/METHOD.md, "writes in
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

    /// Appends this many rows. `make` gets the number of a row and an earlier row (`blank` at first), which it turns into that
    /// row: a row of many columns takes longer to move than to make.
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

    /// Writes the rows since the last row group into a part, so that they survive this process. It copies and writes up to
    /// a whole row group, so it may take some milliseconds. Does nothing for a table without parts, or if there are no new
    /// rows. After an error the file is unusable.
    pub fn save(&mut self) -> Result<(), RecordError> {
        let snapshot = self.snapshot()?;
        snapshot.map_or(Ok(()), TableSnapshot::write)
    }

    /// Copies the rows since the last row group, for a part: [`TableWriter::save`] in two steps, of which only this one, the
    /// shorter one, needs the writer. `None` for a table without parts, or if there are no new rows.
    pub fn snapshot(&mut self) -> Result<Option<TableSnapshot>, RecordError> {
        if matches!(self.output, Output::Table(_)) || self.rows_appended() == self.saved_rows {
            return Ok(None);
        }
        self.write_pending()?;
        self.saved_rows = self.rows;
        let Output::Parts(parts) = &mut self.output else {
            return Ok(None);
        };
        Ok((!self.group.is_empty()).then(|| parts.snapshot(&self.group)))
    }

    /// Writes the remaining rows and the footer, and syncs the file to disk. Returns the number of rows.
    pub fn finish(mut self) -> Result<u64, RecordError> {
        self.write_pending()?;
        let TableWriter {
            path,
            output,
            mut group,
            rows,
            ..
        } = self;
        match output {
            Output::Parts(parts) => parts.finish(&mut group)?,
            Output::Table(mut file) => {
                let file = (group.write(&mut file))
                    .and_then(|()| file.into_inner())
                    .map_err(|source| RecordError::WriteTable(path.clone(), source))?;
                file.sync_all()
                    .map_err(|source| RecordError::Write(path, source))?;
            }
        }
        Ok(rows)
    }

    fn rows_appended(&self) -> u64 {
        self.rows + self.pending.len() as u64
    }

    fn write_pending(&mut self) -> Result<(), RecordError> {
        let mut pending = std::mem::take(&mut self.pending);
        self.write(&pending)?;
        pending.clear();
        self.pending = pending;
        Ok(())
    }

    /// Packs up to `PIECE_ROWS` rows, which may end pages and row groups.
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
        match &mut self.output {
            Output::Parts(parts) => parts.add(&mut self.group),
            Output::Table(file) => {
                let written = self.group.write(file);
                written.map_err(|source| self.failed(source))
            }
        }
    }

    fn failed(&self, source: ParquetError) -> RecordError {
        RecordError::WriteTable(self.path.clone(), source)
    }
}
