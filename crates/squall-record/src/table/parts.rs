//! The parts of a table that is being written: whole Parquet files in a folder beside it. A process that is killed leaves
//! them behind, and every reader of Parquet can read them.
//!
//! Each part has one row group. The last part is replaced, in one step, whenever its row group has grown; the others are
//! complete. At the end the bytes of the parts are copied into the table, without decoding, and the folder is removed. The
//! result is the same file as a table written without parts. `writer` decides when a part is written. Nothing is synced to disk
//! before the end: the kernel keeps what a killed process has written, but a machine without power does not.

use std::ffi::OsStr;
use std::fs::{self, File};
use std::io;
use std::path::{Path, PathBuf};

use parquet::column::writer::ColumnCloseResult;
use parquet::errors::ParquetError;
use parquet::file::metadata::RowGroupMetaData;
use parquet::file::writer::SerializedFileWriter;

use super::packing::RowGroup;
use super::schema::FileLayout;
use crate::RecordError;

/// The ending of a part.
const PART: &str = "parquet";
/// The ending of a part that is being written.
const NEW_PART: &str = "new";

/// A table whose rows are in parts.
pub(super) struct Parts {
    path: PathBuf,
    /// The file of the table; empty until the end.
    table: File,
    folder: PathBuf,
    layout: FileLayout,
    /// The row groups of the complete parts, with offsets into those parts.
    complete: Vec<RowGroupMetaData>,
    /// Whether there is a part, or will be when a snapshot is written.
    has_any: bool,
}

/// The rows of a table that are in no complete part, copied by [`crate::TableWriter::snapshot`].
pub struct TableSnapshot {
    table: PathBuf,
    part: PathBuf,
    layout: FileLayout,
    group: RowGroup,
}

impl TableSnapshot {
    /// The path of the table.
    pub fn table(&self) -> &Path {
        &self.table
    }

    /// Writes the rows into a part, so that they survive this process. It may take some milliseconds, in which the table may
    /// get rows. It must be written before the next snapshot, and before a row group is full ([`crate::TableWriter::room`]).
    /// After an error the table is unusable.
    pub fn write(mut self) -> Result<(), RecordError> {
        replace_part(&self.part, &mut self.group, &self.layout)?;
        Ok(())
    }
}

impl Parts {
    /// For the table `path`, whose empty file is `table`, with the folder from [`prepare_folder`].
    pub(super) fn new(path: PathBuf, table: File, folder: PathBuf, layout: FileLayout) -> Parts {
        Parts {
            path,
            table,
            folder,
            layout,
            complete: Vec::new(),
            has_any: false,
        }
    }

    /// Writes a full row group as a complete part, and begins the next row group.
    pub(super) fn add(&mut self, group: &mut RowGroup) -> Result<(), RecordError> {
        if !group.is_empty() {
            self.has_any = true;
            let written = replace_part(&self.next_part(), group, &self.layout)?;
            self.complete.extend(written);
        }
        Ok(())
    }

    /// A copy of a row group that is still being filled, to be written as its part.
    pub(super) fn snapshot(&mut self, group: &RowGroup) -> TableSnapshot {
        self.has_any = true;
        TableSnapshot {
            table: self.path.clone(),
            part: self.next_part(),
            layout: self.layout.clone(),
            group: group.copy(),
        }
    }

    /// The path of the part after the complete ones.
    fn next_part(&self) -> PathBuf {
        part(&self.folder, self.complete.len())
    }

    /// Writes all parts and the rows of `last` into the table, syncs it to disk, and removes the parts. `last` is the
    /// row group after the complete parts. If this fails, the parts stay.
    pub(super) fn finish(mut self, last: &mut RowGroup) -> Result<(), RecordError> {
        if self.has_any {
            // If the process is killed or the disk is full while the parts are joined, they have all rows.
            self.add(last)?;
        }
        let Parts {
            path,
            table,
            folder,
            layout,
            complete,
            ..
        } = self;
        let table = join(table, &layout, &folder, &complete, last)
            .map_err(|source| RecordError::WriteTable(path.clone(), source))?;
        table
            .sync_all()
            .map_err(|source| RecordError::Write(path, source))?;
        // The table is complete. Nothing reads parts that are left, and the next table of this name removes them.
        let _ = remove_parts(&folder);
        Ok(())
    }
}

/// Makes the folder for the parts of the table `path`, without the parts of an earlier table. `None` if it cannot be made,
/// for example because only the table itself is writable.
pub(super) fn prepare_folder(path: &Path) -> Result<Option<PathBuf>, RecordError> {
    let folder = folder_of(path);
    remove_parts(&folder)?;
    Ok(fs::create_dir_all(&folder).is_ok().then_some(folder))
}

/// The parts of the table `path` that a killed process has left behind, or that a running one has written so far, in the
/// order of their rows. Each is a table of its own. Empty if there are none.
///
/// If the table is complete, its parts are not needed: they may be left over from when it was completed.
///
/// # Errors
/// [`RecordError::Read`] if the operating system refused to list their folder.
pub fn parts_of(path: impl AsRef<Path>) -> Result<Vec<PathBuf>, RecordError> {
    let folder = folder_of(path.as_ref());
    let mut parts = list(&folder).map_err(RecordError::read(&folder))?;
    parts.retain(|(_, path)| path.extension() == Some(OsStr::new(PART)));
    parts.sort();
    Ok(parts.into_iter().map(|(_, path)| path).collect())
}

/// The folder for the parts of the table `path`.
fn folder_of(path: &Path) -> PathBuf {
    let mut folder = path.as_os_str().to_owned();
    folder.push(".parts");
    PathBuf::from(folder)
}

/// The path of a part, by the number of parts before it.
fn part(folder: &Path, before: usize) -> PathBuf {
    folder.join(format!("{:05}.{PART}", before + 1))
}

/// The number of a part, whole or not, from its path; `None` for any other file.
fn number(path: &Path) -> Option<u64> {
    let is_ours = [PART, NEW_PART]
        .iter()
        .any(|ending| path.extension() == Some(OsStr::new(ending)));
    let stem = path.file_stem()?.to_str()?;
    stem.parse().ok().filter(|_| is_ours)
}

/// The parts in a folder, whole or not, with their numbers, in any order. Empty if there is no such folder.
fn list(folder: &Path) -> io::Result<Vec<(u64, PathBuf)>> {
    let entries = match fs::read_dir(folder) {
        Err(error) if is_no_folder(&error) => return Ok(Vec::new()),
        entries => entries?,
    };
    let mut parts = Vec::new();
    for entry in entries {
        let path = entry?.path();
        parts.extend(number(&path).map(|number| (number, path)));
    }
    Ok(parts)
}

/// Removes the parts in a folder, and the folder unless something else is in it.
fn remove_parts(folder: &Path) -> Result<(), RecordError> {
    let remove = || -> io::Result<()> {
        for (_, path) in list(folder)? {
            fs::remove_file(path)?;
        }
        fs::remove_dir(folder)
    };
    remove().or_else(|error: io::Error| {
        if is_no_folder(&error) || error.kind() == io::ErrorKind::DirectoryNotEmpty {
            Ok(())
        } else {
            Err(RecordError::Remove(folder.into(), error))
        }
    })
}

/// Whether an operation on a folder failed because the folder does not exist.
fn is_no_folder(error: &io::Error) -> bool {
    matches!(
        error.kind(),
        io::ErrorKind::NotFound | io::ErrorKind::NotADirectory
    )
}

/// Writes a row group as the part `path`, and replaces an earlier version of that part. Returns the metadata of what it wrote.
fn replace_part(
    path: &Path,
    group: &mut RowGroup,
    layout: &FileLayout,
) -> Result<Vec<RowGroupMetaData>, RecordError> {
    let new = path.with_extension(NEW_PART);
    let file = File::create(&new).map_err(RecordError::create(&new))?;
    let written = write_part(file, group, layout)
        .map_err(|source| RecordError::WriteTable(path.into(), source))
        .and_then(|groups| {
            fs::rename(&new, path).map_err(RecordError::rename(&new, path))?;
            Ok(groups)
        });
    if written.is_err() {
        // Frees space on a full disk. The error above says what is wrong.
        let _ = fs::remove_file(&new);
    }
    written
}

/// Writes a file with this row group. Returns the metadata of what it wrote.
fn write_part(
    file: File,
    group: &mut RowGroup,
    layout: &FileLayout,
) -> Result<Vec<RowGroupMetaData>, ParquetError> {
    let mut writer = layout.begin(file)?;
    group.write(&mut writer)?;
    let groups = writer.flushed_row_groups().to_vec();
    writer.into_inner()?;
    Ok(groups)
}

/// Writes the row groups of these parts and `last` into `table`.
fn join(
    table: File,
    layout: &FileLayout,
    folder: &Path,
    complete: &[RowGroupMetaData],
    last: &mut RowGroup,
) -> Result<File, ParquetError> {
    let mut table = layout.begin(table)?;
    for (before, group) in complete.iter().enumerate() {
        copy_group(&part(folder, before), group, &mut table)?;
    }
    last.write(&mut table)?;
    table.into_inner()
}

/// Appends a part's row group to a table.
fn copy_group(
    part: &Path,
    group: &RowGroupMetaData,
    table: &mut SerializedFileWriter<File>,
) -> Result<(), ParquetError> {
    let part = File::open(part)?;
    let mut copy = table.next_row_group()?;
    for column in group.columns() {
        let close = ColumnCloseResult {
            bytes_written: column.compressed_size() as u64,
            rows_written: group.num_rows() as u64,
            metadata: column.clone(),
            bloom_filter: None,
            column_index: None,
            offset_index: None,
        };
        copy.append_column(&part, close)?;
    }
    copy.close()?;
    Ok(())
}
