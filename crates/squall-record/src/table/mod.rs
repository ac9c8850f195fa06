//! Tables as Parquet: a writer and a reader for any row type that has a schema.
//!
//! `schema` describes a column and its packing, and `cell` how a table is declared. `packing` turns rows into columns of a
//! file; `columns` turns them back cell by cell, and `within` finds the rows of a range. `parts` keeps the rows of a table that
//! is not finished, and `guarded` catches panics of the parquet crate. The tables are `requests`, `exchanges`, `frames`,
//! `packets`, `sockets`, `causes` and `drops`. Nothing here interprets a row.

mod causes;
mod cell;
mod columns;
mod drops;
mod exchanges;
mod frames;
mod guarded;
mod packets;
mod packing;
mod parts;
mod positioned;
mod reader;
mod requests;
mod schema;
mod sockets;
mod within;
mod writer;

use std::path::Path;

use squall_base::record::{
    CausesRecord, DropRecord, ExchangeRecord, FrameRecord, PacketRecord, RequestRecord,
    SocketRecord,
};

use crate::{RecordError, memory};
pub use parts::{TableSnapshot, parts_of};
pub use reader::{Rows, each_projected, each_projected_within};
pub use within::ColumnRange;
pub use writer::TableWriter;

/// Writes requests.parquet.
pub type RequestWriter = TableWriter<RequestRecord>;

/// Writes packets.parquet.
pub type PacketWriter = TableWriter<PacketRecord>;

/// Writes exchanges.parquet.
pub type ExchangeWriter = TableWriter<ExchangeRecord>;

/// Writes frames.parquet.
pub type FrameWriter = TableWriter<FrameRecord>;

/// Writes sockets.parquet.
pub type SocketWriter = TableWriter<SocketRecord>;

/// Writes causes.parquet.
pub type CausesWriter = TableWriter<CausesRecord>;

/// Writes drops.parquet.
pub type DropWriter = TableWriter<DropRecord>;

/// Reads all rows of a requests.parquet, in the order in which they were written.
pub fn read_requests(path: impl AsRef<Path>) -> Result<Vec<RequestRecord>, RecordError> {
    all(path.as_ref())
}

/// Reads all rows of a packets.parquet, in the order in which they were written. A trial can have millions, of about 80
/// bytes each in memory; [`Rows`] returns them one by one.
pub fn read_packets(path: impl AsRef<Path>) -> Result<Vec<PacketRecord>, RecordError> {
    all(path.as_ref())
}

/// Reads all rows of an exchanges.parquet, in the order in which they were written.
pub fn read_exchanges(path: impl AsRef<Path>) -> Result<Vec<ExchangeRecord>, RecordError> {
    all(path.as_ref())
}

/// Reads all rows of a frames.parquet, in the order in which they were written. There can be as many as packets;
/// [`Rows`] returns them one by one.
pub fn read_frames(path: impl AsRef<Path>) -> Result<Vec<FrameRecord>, RecordError> {
    all(path.as_ref())
}

/// Reads all rows of a sockets.parquet, in the order in which they were written. Each takes about 600 bytes in memory;
/// [`Rows`] returns them one by one.
pub fn read_sockets(path: impl AsRef<Path>) -> Result<Vec<SocketRecord>, RecordError> {
    all(path.as_ref())
}

/// Reads all rows of a causes.parquet, in the order in which they were written.
pub fn read_causes(path: impl AsRef<Path>) -> Result<Vec<CausesRecord>, RecordError> {
    all(path.as_ref())
}

/// Reads all rows of a drops.parquet, in the order in which they were written.
pub fn read_drops(path: impl AsRef<Path>) -> Result<Vec<DropRecord>, RecordError> {
    all(path.as_ref())
}

/// Reads all rows of a table into memory, if the number of rows that the file declares fits there.
fn all<R: TableRow>(path: &Path) -> Result<Vec<R>, RecordError> {
    let rows = Rows::<R>::open(path)?;
    let needed = rows.declared_rows().saturating_mul(size_of::<R>() as u64);
    match memory::available_bytes() {
        Some(available) if needed > available => Err(RecordError::TooManyRows {
            path: path.into(),
            rows: rows.declared_rows(),
            needed_bytes: needed,
            available_bytes: available,
        }),
        _ => rows.collect(),
    }
}

/// A row that squall-record can write and read: [`RequestRecord`], [`PacketRecord`], [`ExchangeRecord`],
/// [`FrameRecord`], [`SocketRecord`], [`CausesRecord`] and [`DropRecord`], and no other.
pub trait TableRow: sealed::Row {}

impl<R: sealed::Row> TableRow for R {}

mod sealed {
    use super::cell::Selection;
    use super::columns::Columns;
    use super::packing::{CellWriteError, RowGroup};
    use super::schema::Column;
    use crate::RecordError;

    /// The schema of a row type and its conversions. In a private module, so that no other crate can add a table.
    pub trait Row: Clone {
        /// The table's name, which is in the file's metadata.
        const TABLE: &'static str;

        /// The table's columns, in the order in which `encode` fills them.
        fn columns() -> &'static [Column];

        /// Appends `rows` to every column of `group`.
        fn encode(rows: &[Self], group: &mut RowGroup) -> Result<(), CellWriteError>;

        /// Returns a function that makes each row of `columns` once, by index. Fields without a selected column are zero.
        fn rows<'a, S: Selection>(
            columns: &'a Columns<'a>,
        ) -> Result<impl FnMut(usize) -> Self + 'a, RecordError>;
    }
}
