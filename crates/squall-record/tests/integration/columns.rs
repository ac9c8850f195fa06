//! The columns of every table match docs/RECORD.md: names, order, types, and which may be null. Their cells are tested
//! in `round_trip.rs`.

use std::fs::{self, File};
use std::path::Path;

use arrow_schema::DataType;
use parquet::arrow::arrow_reader::ParquetRecordBatchReaderBuilder;
use squall_base::record::{
    ExchangeRecord, FrameRecord, PacketRecord, RequestRecord, SocketRecord, TcpInfo,
};
use squall_record::{TableRow, TableWriter};

/// Name, type, and nullability.
type ColumnFacts = (String, String, bool);

/// The columns of a file of rows of type `R`.
fn written<R: TableRow>() -> Vec<ColumnFacts> {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let path = folder.path().join("table.parquet");
    let writer = TableWriter::<R>::create(&path).expect("a table");
    writer.finish().expect("a table");
    let file = File::open(&path).expect("a table");
    let reader = ParquetRecordBatchReaderBuilder::try_new(file).expect("a table");
    let fields = reader.schema().fields().iter();
    fields
        .map(|field| {
            let of_type = match field.data_type() {
                DataType::Int64 => "int64",
                DataType::UInt8 => "uint8",
                DataType::UInt16 => "uint16",
                DataType::UInt32 => "uint32",
                DataType::Boolean => "bool",
                DataType::Utf8 => "string",
                DataType::Dictionary(..) => "word",
                other => panic!("{}: {other}", field.name()),
            };
            (
                field.name().clone(),
                of_type.to_owned(),
                field.is_nullable(),
            )
        })
        .collect()
}

/// The columns that the section of `table` in docs/RECORD.md lists.
fn documented(table: &str) -> Vec<ColumnFacts> {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/RECORD.md");
    let text = fs::read_to_string(path).expect("docs/RECORD.md");
    let heading = format!("## {table}");
    let section = text.lines().skip_while(|line| *line != heading).skip(1);
    section
        .take_while(|line| !line.starts_with("## "))
        .filter(|line| line.starts_with("| ") && !line.starts_with("| column "))
        .map(|line| {
            let cells: Vec<&str> = line.split('|').map(str::trim).collect();
            assert_eq!(cells.len(), 7, "{line}");
            (
                cells[1].to_owned(),
                cells[2].to_owned(),
                cells[5] != "never",
            )
        })
        .collect()
}

#[test]
fn columns_match_the_documentation() {
    assert_eq!(
        written::<RequestRecord>(),
        documented("requests.parquet"),
        "requests"
    );
    assert_eq!(
        written::<PacketRecord>(),
        documented("packets.parquet"),
        "packets"
    );
    assert_eq!(
        written::<ExchangeRecord>(),
        documented("exchanges.parquet"),
        "exchanges"
    );
    assert_eq!(
        written::<FrameRecord>(),
        documented("frames.parquet"),
        "frames"
    );
    assert_eq!(
        written::<SocketRecord>(),
        documented("sockets.parquet"),
        "sockets"
    );
}

#[test]
fn every_field_of_tcp_info_has_a_column() {
    let columns = written::<SocketRecord>();
    let tcp = columns
        .iter()
        .map(|(name, ..)| name.as_str())
        .filter(|name| name.starts_with("tcpi_"));
    assert!(tcp.eq(TcpInfo::FIELDS.map(|field| field.name)));
}
