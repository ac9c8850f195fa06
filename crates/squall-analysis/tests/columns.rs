//! The columns that attribution reads are those that its rows are made of: read alone, they make the same rows as all
//! columns of the table do.
//!
//! A row type that took a cell of a column it does not name would hold zeros there.

use std::fmt::Debug;

use proptest::prelude::*;
use squall_analysis::causes::{ExchangeCells, PacketCells, RequestCells, SocketCells};
use squall_base::record::Projection;
use squall_record::{TableRow, TableWriter, each_projected};

#[allow(dead_code, reason = "frames are read whole")]
#[path = "../../squall-record/tests/rows/mod.rs"]
mod rows;

/// Enough that every optional cell is there and missing.
const ROWS: usize = 1_000;

fn check<P>(row: impl Strategy<Value = P::Row>)
where
    P: Projection<Row: TableRow + Debug> + PartialEq + Debug,
{
    let whole = rows::some(row, ROWS);
    let folder = tempfile::tempdir().expect("a temporary folder");
    let path = folder.path().join("table.parquet");
    let mut writer = TableWriter::<P::Row>::create(&path).expect("a table");
    writer.append(&whole).expect("rows");
    writer.finish().expect("a table");
    let mut read: Vec<P> = Vec::new();
    each_projected(&path, |row| read.push(row)).expect("the columns are the table's");
    assert_eq!(read.len(), whole.len());
    for (read, whole) in read.iter().zip(&whole) {
        assert_eq!(*read, P::of(whole));
    }
}

#[test]
fn columns_of_requests_make_their_rows() {
    check::<RequestCells>(rows::request());
}

#[test]
fn columns_of_packets_make_their_rows() {
    check::<PacketCells>(rows::packet());
}

#[test]
fn columns_of_exchanges_make_their_rows() {
    check::<ExchangeCells>(rows::exchange());
}

#[test]
fn columns_of_sockets_make_their_rows() {
    check::<SocketCells>(rows::socket());
}
