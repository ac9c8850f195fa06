//! Attribution and the sums of deliveries read only the columns that their row types name. Read alone, they must produce the
//! same rows as all columns of the table do.
//!
//! A row type that used a column without naming it would find zeros there.

use std::fmt::Debug;

use proptest::prelude::*;
use squall_analysis::LinkPacket;
use squall_analysis::causes::{ExchangeCells, PacketCells, RequestCells, SocketCells};
use squall_base::record::Projection;
use squall_record::{TableRow, TableWriter, each_projected};

use crate::rows;

/// Enough rows for every optional cell to be both present and missing.
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
fn request_columns_alone_produce_the_rows_of_all_columns() {
    check::<RequestCells>(rows::request());
}

#[test]
fn packet_columns_alone_produce_the_rows_of_all_columns() {
    check::<PacketCells>(rows::packet());
    check::<LinkPacket>(rows::packet());
}

#[test]
fn exchange_columns_alone_produce_the_rows_of_all_columns() {
    check::<ExchangeCells>(rows::exchange());
}

#[test]
fn socket_columns_alone_produce_the_rows_of_all_columns() {
    check::<SocketCells>(rows::socket());
}
