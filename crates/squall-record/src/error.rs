//! Errors of reading and writing a record, each with the file, the cause and what to try.
//!
//! The variants distinguish whose fault it is: the machine's (`Create`, `Write`, ...), the file's (`NotParquet`,
//! `Damaged`, ...), or the caller's (`TooLarge`, `Incomplete`, `Locked`). The binary maps them to exit codes, not this
//! module.

use std::io;
use std::path::{Path, PathBuf};

use parquet::errors::ParquetError;

/// Why a file of a record could not be written or read.
#[derive(Debug, thiserror::Error)]
pub enum RecordError {
    /// The operating system refused to create a file or folder.
    #[error("cannot create {path}: {1}; check that the folder above it exists and is writable", path = .0.display())]
    Create(PathBuf, #[source] io::Error),
    /// The operating system refused to write to a file that squall had created.
    #[error("cannot write {path}: {1}; check the space left on its disk", path = .0.display())]
    Write(PathBuf, #[source] io::Error),
    /// A table could not be encoded or its bytes could not be written.
    #[error("cannot write the table {path}: {1}; check the space left on its disk", path = .0.display())]
    WriteTable(PathBuf, #[source] ParquetError),
    /// The operating system refused to move a finished file or folder to its final name.
    #[error("cannot rename {} to {}: {source}; remove what is there, or check who may write to the folder", from.display(), to.display())]
    Rename {
        /// The temporary name.
        from: PathBuf,
        /// The final name.
        to: PathBuf,
        /// The error of the operating system.
        source: io::Error,
    },
    /// The operating system refused to open or read a file or folder.
    #[error("cannot read {path}: {1}; check the path: a run's folder has plan.json, recipe.toml, environment.json and the folder trials, and in it each trial's folder has trial.json and tables (docs/RECORD.md)", path = .0.display())]
    Read(PathBuf, #[source] io::Error),
    /// A leftover of an earlier attempt could not be removed.
    #[error("cannot remove {path}: {1}; remove it by hand", path = .0.display())]
    Remove(PathBuf, #[source] io::Error),
    /// Another process holds the lock of a run.
    #[error("another squall is working on the run {}; wait until it has ended, or end it", .0.display())]
    Locked(PathBuf),
    /// The operating system refused to lock a file.
    #[error("cannot lock {path}: {1}; does its file system have locks? copy the run to one that does", path = .0.display())]
    Lock(PathBuf, #[source] io::Error),
    /// The folder of a trial that was to be made already exists and is complete.
    #[error("{} is already complete; remove the folder to run this trial again", .0.display())]
    AlreadyComplete(PathBuf),
    /// A trial cannot become complete, because it has no trial.json.
    #[error("{} has no trial.json; a trial is complete only with one", .0.display())]
    Incomplete(PathBuf),
    /// A file is not Parquet, or its end is missing.
    #[error("{path} is not a whole Parquet file: {1}; it was cut short or is something else: remove that trial's folder and go on with `squall run --resume RUN`", path = .0.display())]
    NotParquet(PathBuf, #[source] ParquetError),
    /// A Parquet file begins and ends correctly, but its content cannot be decoded.
    #[error("{path} is damaged: {1}; restore it from a copy or remove that trial's folder and go on with `squall run --resume RUN`", path = .0.display())]
    Damaged(PathBuf, #[source] arrow_schema::ArrowError),
    /// A file of a trial has changed since it was written: its size, its checksum or, for trial.json, its form is not the
    /// recorded one. The text says in a sentence what shows that.
    #[error("{path} is damaged: {1}; restore it from a copy, or remove that trial's folder and go on with `squall run --resume RUN`", path = .0.display())]
    Altered(PathBuf, String),
    /// A table has more rows than fit into memory.
    #[error("{} has {rows} rows, which take {needed_bytes} bytes of memory, but {available_bytes} are available: read it on a larger machine; if squall did not write that many, the file is damaged", path.display())]
    TooManyRows {
        /// The file.
        path: PathBuf,
        /// How many rows the file says it has.
        rows: u64,
        /// The memory that the rows would take.
        needed_bytes: u64,
        /// The memory that the machine has left.
        available_bytes: u64,
    },
    /// A Parquet file is so damaged that its decoder panicked.
    #[error("{} is damaged beyond decoding; restore it from a copy or remove that trial's folder and go on with `squall run --resume RUN`", .0.display())]
    Undecodable(PathBuf),
    /// A Parquet file lacks this key of the metadata that marks squall's tables.
    #[error("{path} is Parquet, but not a squall table: it has no metadata {1:?}; read the file that squall wrote, not one saved again by another program", path = .0.display())]
    NotOurs(PathBuf, &'static str),
    /// A table has this schema version, which this program does not read.
    #[error("{path} has schema {1:?}, this squall reads schemas {from} to {to}; read it with the squall that wrote it", path = .0.display(), from = crate::READABLE_SCHEMAS.start(), to = crate::READABLE_SCHEMAS.end())]
    OtherSchema(PathBuf, String),
    /// A file holds another table than the one asked for.
    #[error("{} holds the table {found:?}, not {expected:?}; were files exchanged?", path.display())]
    OtherTable {
        /// The file.
        path: PathBuf,
        /// The table asked for.
        expected: &'static str,
        /// The table in the file.
        found: String,
    },
    /// A column is missing or has another type.
    #[error("{}: column {column:?} of the table {table:?} should be {expected}, but is {}; docs/RECORD.md has the schema, remove that trial's folder and go on with `squall run --resume RUN`", path.display(), found.as_ref().map_or_else(|| "missing".to_owned(), ToString::to_string))]
    Column {
        /// The file.
        path: PathBuf,
        /// The table.
        table: &'static str,
        /// The column.
        column: &'static str,
        /// The type in the schema.
        expected: arrow_schema::DataType,
        /// The type in the file; `None` if there is no such column.
        found: Option<arrow_schema::DataType>,
    },
    /// A reader asked for a column that the schema does not have.
    #[error("{}: the table {table:?} has no column {column:?}; this is a bug in squall", path.display())]
    NoSuchColumn {
        /// The file.
        path: PathBuf,
        /// The table.
        table: &'static str,
        /// The column.
        column: &'static str,
    },
    /// A cell holds a value that the schema does not allow there.
    #[error("{}: row {row}, column {column:?}: {fault}; the file was altered or is damaged: remove that trial's folder and go on with `squall run --resume RUN`", path.display())]
    Cell {
        /// The file.
        path: PathBuf,
        /// The column.
        column: &'static str,
        /// The row, from 0.
        row: u64,
        /// What is wrong with the cell.
        fault: CellFault,
    },
    /// A row to be written holds a number that the schema's signed columns cannot hold.
    #[error("{}: {value} is too large for column {column:?}; times must be relative to the trial's epoch", path.display())]
    TooLarge {
        /// The file.
        path: PathBuf,
        /// The column.
        column: &'static str,
        /// The number.
        value: u64,
    },
    /// A JSON file does not have the expected content.
    #[error("{path} does not have the expected content: {1}; it was altered, cut short, or written by another version", path = .0.display())]
    ReadJson(PathBuf, #[source] serde_json::Error),
    /// A value could not be expressed as JSON.
    #[error("cannot express {path} as JSON: {1}; this is a bug in squall", path = .0.display())]
    WriteJson(PathBuf, #[source] serde_json::Error),
}

/// For `map_err`: what the operating system refused, and with which path.
impl RecordError {
    pub(crate) fn create(path: &Path) -> impl Fn(io::Error) -> RecordError {
        move |source| RecordError::Create(path.into(), source)
    }

    pub(crate) fn write(path: &Path) -> impl Fn(io::Error) -> RecordError {
        move |source| RecordError::Write(path.into(), source)
    }

    pub(crate) fn read(path: &Path) -> impl Fn(io::Error) -> RecordError {
        move |source| RecordError::Read(path.into(), source)
    }

    pub(crate) fn rename(from: &Path, to: &Path) -> impl Fn(io::Error) -> RecordError {
        move |source| RecordError::Rename {
            from: from.into(),
            to: to.into(),
            source,
        }
    }
}

/// What is wrong with a cell of a table.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum CellFault {
    /// Null, where a value is required.
    #[error("it is null")]
    Null,
    /// A number below zero.
    #[error("it is negative")]
    Negative,
    /// A word that is not in the schema.
    #[error("it is not one of the schema's words")]
    UnknownWord,
}
