//! Files that are damaged or not squall's: each one is an error that names it, never a panic. Intact files are in
//! `round_trip.rs`.

use std::fs;
use std::path::{Path, PathBuf};
use std::sync::{Arc, LazyLock};

use arrow_array::{Array as _, ArrayRef, Int64Array, RecordBatch, StringArray};
use arrow_schema::{Field, Schema};
use parquet::arrow::ArrowWriter;
use parquet::arrow::arrow_reader::ParquetRecordBatchReaderBuilder;
use parquet::file::metadata::KeyValue;
use parquet::file::properties::WriterProperties;
use proptest::prelude::*;
use squall_base::record::{Extent, PacketRecord, QuicPath, SocketSample};
use squall_record::{
    CellFault, PacketWriter, RecordError, Rows, TableRow, TableWriter, read_exchanges, read_frames,
    read_packets, read_requests, read_sockets,
};

use crate::{common, rows};

/// An intact packets.parquet of 300 rows.
fn sound(folder: &Path) -> PathBuf {
    let path = folder.join("packets.parquet");
    let mut writer = PacketWriter::create(&path).expect("a sound table");
    let rows: Vec<_> = (0..300).map(common::packet_number).collect();
    writer.append(&rows).expect("a sound table");
    writer.finish().expect("a sound table");
    path
}

/// A Parquet file of one column, with the metadata `pairs`.
fn foreign(folder: &Path, column: &str, pairs: &[(&str, &str)]) -> PathBuf {
    let path = folder.join("foreign.parquet");
    let cells: ArrayRef = Arc::new(Int64Array::from(vec![-1]));
    let batch = RecordBatch::try_from_iter([(column, cells)]).expect("a Parquet file");
    let pairs = pairs
        .iter()
        .map(|(k, v)| KeyValue::new((*k).to_owned(), (*v).to_owned()));
    let properties = WriterProperties::builder()
        .set_key_value_metadata(Some(pairs.collect()))
        .build();
    let file = fs::File::create(&path).expect("a Parquet file");
    let mut writer =
        ArrowWriter::try_new(file, batch.schema(), Some(properties)).expect("a Parquet file");
    writer.write(&batch).expect("a Parquet file");
    writer.close().expect("a Parquet file");
    path
}

/// An intact table of `rows`.
fn table<R: TableRow>(folder: &Path, rows: &[R]) -> PathBuf {
    let path = folder.join("table.parquet");
    let mut writer = TableWriter::<R>::create(&path).expect("a sound table");
    writer.append(rows).expect("a sound table");
    writer.finish().expect("a sound table");
    path
}

/// Replaces a column of one of our tables with `cells`.
fn exchange_column(path: &Path, column: &str, cells: ArrayRef) {
    let file = fs::File::open(path).expect("a sound table");
    let builder = ParquetRecordBatchReaderBuilder::try_new(file).expect("a sound table");
    let metadata = builder.metadata().file_metadata().key_value_metadata();
    let ours = metadata
        .into_iter()
        .flatten()
        .filter(|pair| pair.key.starts_with("squall."));
    let properties = WriterProperties::builder()
        .set_key_value_metadata(Some(ours.cloned().collect()))
        .build();
    let batch = builder.build().expect("a sound table").next();
    let batch = batch.expect("rows").expect("a sound table");

    let place = batch.schema().index_of(column).expect("the column");
    let mut fields: Vec<_> = batch.schema().fields().iter().cloned().collect();
    fields[place] = Arc::new(Field::new(column, cells.data_type().clone(), true));
    let mut columns = batch.columns().to_vec();
    columns[place] = cells;
    let batch =
        RecordBatch::try_new(Arc::new(Schema::new(fields)), columns).expect("a Parquet file");
    let file = fs::File::create(path).expect("a Parquet file");
    let mut writer =
        ArrowWriter::try_new(file, batch.schema(), Some(properties)).expect("a Parquet file");
    writer.write(&batch).expect("a Parquet file");
    writer.close().expect("a Parquet file");
}

/// Turns one of our tables into one of schema 8, by removing a column that schema 8 did not have.
fn as_schema_8(path: &Path, column: &str) {
    let file = fs::File::open(path).expect("a sound table");
    let builder = ParquetRecordBatchReaderBuilder::try_new(file).expect("a sound table");
    let pairs = builder.metadata().file_metadata().key_value_metadata();
    let pairs = pairs.into_iter().flatten();
    let mut ours: Vec<KeyValue> = pairs
        .filter(|pair| pair.key.starts_with("squall."))
        .cloned()
        .collect();
    for pair in ours.iter_mut().filter(|pair| pair.key == "squall.schema") {
        pair.value = Some("8".to_owned());
    }
    let properties = WriterProperties::builder()
        .set_key_value_metadata(Some(ours))
        .build();
    let batch = builder.build().expect("a sound table").next();
    let mut batch = batch.expect("rows").expect("a sound table");
    batch.remove_column(batch.schema().index_of(column).expect("the column"));
    let file = fs::File::create(path).expect("a Parquet file");
    let mut writer =
        ArrowWriter::try_new(file, batch.schema(), Some(properties)).expect("a Parquet file");
    writer.write(&batch).expect("a Parquet file");
    writer.close().expect("a Parquet file");
}

#[test]
fn packets_of_schema_8_are_read_without_their_hop() {
    let folder = tempfile::tempdir().unwrap();
    let mut rows: Vec<PacketRecord> = (0..20).map(common::packet_number).collect();
    let path = table(folder.path(), &rows);
    as_schema_8(&path, "hop");
    for row in &mut rows {
        row.hop = PacketRecord::ONLY_LINK;
    }
    assert_eq!(read_packets(&path).unwrap(), rows);
}

#[test]
fn missing_file_is_named() {
    let error = read_requests("nowhere/requests.parquet").unwrap_err();
    assert!(matches!(error, RecordError::Read { .. }));
    assert!(
        error
            .to_string()
            .starts_with("cannot read nowhere/requests.parquet: "),
        "{error}"
    );
}

#[test]
fn text_and_empty_files_are_not_parquet() {
    let folder = tempfile::tempdir().unwrap();
    for content in ["", "PAR1", "request,end_ns\n1,2\n", "PAR1\0\0\0\0PAR1"] {
        let path = folder.path().join("requests.parquet");
        fs::write(&path, content).unwrap();
        let error = read_requests(&path).unwrap_err();
        assert!(
            matches!(error, RecordError::NotParquet { .. }),
            "{content:?}: {error}"
        );
        assert!(
            error
                .to_string()
                .contains("requests.parquet is not a whole Parquet file")
        );
    }
}

#[test]
fn file_truncated_anywhere_is_an_error() {
    let folder = tempfile::tempdir().unwrap();
    let path = sound(folder.path());
    let bytes = fs::read(&path).unwrap();
    for length in 0..bytes.len() {
        fs::write(&path, &bytes[..length]).unwrap();
        assert!(
            read_packets(&path).is_err(),
            "cut to {length} of {} bytes",
            bytes.len()
        );
    }
}

/// Truncates a table of `rows` at every eleventh byte.
fn cut_short<R: TableRow>(rows: &[R]) {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let path = table(folder.path(), rows);
    let bytes = fs::read(&path).expect("a sound table");
    for length in (0..bytes.len()).step_by(11) {
        fs::write(&path, &bytes[..length]).expect("a cut table");
        let read: Result<Vec<R>, RecordError> = Rows::open(&path).and_then(Iterator::collect);
        assert!(read.is_err(), "cut to {length} of {} bytes", bytes.len());
    }
}

#[test]
fn truncated_exchanges_frames_and_sockets_are_errors() {
    cut_short(&rows::some(rows::exchange(), 50));
    cut_short(&rows::some(rows::frame(), 50));
    cut_short(&rows::some(rows::socket(), 10));
}

/// The column and the fault of an error about a cell in the first row.
fn first_cell<T: std::fmt::Debug>(read: Result<T, RecordError>) -> (&'static str, CellFault) {
    match read {
        Err(RecordError::Cell {
            column,
            row: 0,
            fault,
            ..
        }) => (column, fault),
        other => panic!("expected a fault of a cell, got {other:?}"),
    }
}

#[test]
fn invalid_cells_are_named() {
    let folder = tempfile::tempdir().unwrap();
    let nulls = |rows: usize| -> ArrayRef { Arc::new(Int64Array::new_null(rows)) };

    let mut rows = rows::some(rows::exchange(), 2);
    for row in &mut rows {
        row.request_extent = Some(Extent::default());
        row.response_extent = Some(Extent::default());
    }
    let path = table(folder.path(), &rows);
    exchange_column(&path, "request_end", nulls(2));
    let found = first_cell(read_exchanges(&path));
    assert_eq!(found, ("request_end", CellFault::Null));
    let path = table(folder.path(), &rows);
    exchange_column(&path, "response_start", nulls(2));
    let found = first_cell(read_exchanges(&path));
    assert_eq!(found, ("response_start", CellFault::Null));

    let path = table(folder.path(), &rows::some(rows::frame(), 2));
    exchange_column(&path, "kind", Arc::new(Int64Array::from(vec![-1, 0])));
    let found = first_cell(read_frames(&path));
    assert_eq!(found, ("kind", CellFault::Negative));
    let path = table(folder.path(), &rows::some(rows::frame(), 2));
    let words = StringArray::from(vec!["http9", "http2"]);
    exchange_column(&path, "layer", Arc::new(words));
    let found = first_cell(read_frames(&path));
    assert_eq!(found, ("layer", CellFault::UnknownWord));

    let mut rows = rows::some(rows::socket(), 2);
    for row in &mut rows {
        row.sample = SocketSample::Quic(QuicPath::default());
    }
    let path = table(folder.path(), &rows);
    exchange_column(&path, "quic_rtt_ns", nulls(2));
    let found = first_cell(read_sockets(&path));
    assert_eq!(found, ("quic_rtt_ns", CellFault::Null));
}

#[test]
fn socket_column_of_another_type_is_refused() {
    let folder = tempfile::tempdir().unwrap();
    let path = table(folder.path(), &rows::some(rows::socket(), 2));
    let texts = StringArray::from(vec!["1", "2"]);
    exchange_column(&path, "tcpi_rtt", Arc::new(texts));
    let error = read_sockets(&path).unwrap_err();
    assert!(
        error
            .to_string()
            .contains("\"tcpi_rtt\" of the table \"sockets\" should be Int64, but is Utf8"),
        "{error}"
    );
}

#[test]
fn dropped_writer_leaves_no_valid_table() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("packets.parquet");
    let mut writer = PacketWriter::create(&path).unwrap();
    let rows: Vec<_> = (0..100_000).map(common::packet_number).collect();
    writer.append(&rows).unwrap();
    drop(writer);
    assert!(matches!(
        read_packets(&path),
        Err(RecordError::NotParquet { .. })
    ));
}

#[test]
fn other_tables_schemas_and_programs_are_distinguished() {
    let folder = tempfile::tempdir().unwrap();
    let error = read_requests(sound(folder.path())).unwrap_err();
    assert!(
        matches!(
            error,
            RecordError::OtherTable {
                expected: "requests",
                ..
            }
        ),
        "{error}"
    );

    let error = read_packets(foreign(folder.path(), "index", &[])).unwrap_err();
    assert!(
        matches!(error, RecordError::NotOurs(_, "squall.schema")),
        "{error}"
    );

    let newer = [("squall.schema", "999"), ("squall.table", "packets")];
    let error = read_packets(foreign(folder.path(), "index", &newer)).unwrap_err();
    assert!(
        error
            .to_string()
            .contains("has schema \"999\", this squall reads schemas 8 to 10"),
        "{error}"
    );
}

#[test]
fn missing_and_mistyped_columns_are_named() {
    let folder = tempfile::tempdir().unwrap();
    let ours = [("squall.schema", "8"), ("squall.table", "packets")];
    let missing = read_packets(foreign(folder.path(), "index", &ours)).unwrap_err();
    assert!(
        matches!(
            missing,
            RecordError::Column {
                column: "direction",
                found: None,
                ..
            }
        ),
        "{missing}"
    );
    assert!(
        missing
            .to_string()
            .contains("\"direction\" of the table \"packets\" should be Utf8, but is missing")
    );
    let ours = [("squall.schema", "8"), ("squall.table", "requests")];
    let error = read_requests(foreign(folder.path(), "request", &ours)).unwrap_err();
    assert!(
        matches!(
            error,
            RecordError::Column {
                column: "phase",
                ..
            }
        ),
        "{error}"
    );
}

/// Changes some bytes of `sound`, anywhere or near the end, where the metadata is.
fn altered(sound: &[u8], changes: &[(prop::sample::Index, u8)], near_the_end: bool) -> Vec<u8> {
    let mut bytes = sound.to_vec();
    let from = if near_the_end { bytes.len() * 2 / 3 } else { 0 };
    for (place, byte) in changes {
        let at = from + place.index(bytes.len() - from);
        bytes[at] = *byte;
    }
    bytes
}

/// Intact tables of exchanges, frames and socket samples.
fn sound_tables() -> [Vec<u8>; 3] {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let bytes = |path| fs::read(path).expect("a sound table");
    [
        bytes(table(folder.path(), &rows::some(rows::exchange(), 50))),
        bytes(table(folder.path(), &rows::some(rows::frame(), 50))),
        bytes(table(folder.path(), &rows::some(rows::socket(), 10))),
    ]
}

static SOUND_TABLES: LazyLock<[Vec<u8>; 3]> = LazyLock::new(sound_tables);

proptest! {
    #![proptest_config(ProptestConfig::with_cases(500))]

    /// Corrupted bytes result in other rows or an error; either way the process survives.
    #[test]
    fn corrupted_bytes_never_panic(
        changes in proptest::collection::vec((any::<prop::sample::Index>(), any::<u8>()), 1..6),
        near_the_end in any::<bool>(),
    ) {
        let folder = tempfile::tempdir().unwrap();
        let path = sound(folder.path());
        let bytes = altered(&fs::read(&path).unwrap(), &changes, near_the_end);
        fs::write(&path, &bytes).unwrap();
        let _either = read_packets(&path);
    }
    /// As above, for the other tables.
    #[test]
    fn corrupted_bytes_of_other_tables_never_panic(
        changes in proptest::collection::vec((any::<prop::sample::Index>(), any::<u8>()), 1..6),
        near_the_end in any::<bool>(),
    ) {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("table.parquet");
        let write = |sound: &[u8]| fs::write(&path, altered(sound, &changes, near_the_end)).unwrap();
        write(&SOUND_TABLES[0]);
        let _either = read_exchanges(&path);
        write(&SOUND_TABLES[1]);
        let _either = read_frames(&path);
        write(&SOUND_TABLES[2]);
        let _either = read_sockets(&path);
    }
}
