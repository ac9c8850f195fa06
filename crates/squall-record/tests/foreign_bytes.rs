//! Files that are not what they should be: every one gives an error that names it, none a panic.

mod common;

use std::fs;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use arrow_array::{ArrayRef, Int64Array, RecordBatch};
use parquet::arrow::ArrowWriter;
use parquet::file::metadata::KeyValue;
use parquet::file::properties::WriterProperties;
use proptest::prelude::*;
use squall_record::{PacketWriter, RecordError, read_packets, read_requests};

/// A sound packets.parquet of 300 rows.
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

#[test]
fn a_file_that_is_not_there_is_named() {
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
fn text_and_nothing_are_not_parquet() {
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
fn a_file_cut_short_anywhere_is_an_error() {
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

#[test]
fn a_writer_that_was_dropped_leaves_no_table() {
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
fn other_tables_schemas_and_programs_are_told_apart() {
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
        matches!(
            error,
            RecordError::NotOurs {
                key: "squall.schema",
                ..
            }
        ),
        "{error}"
    );

    let newer = [("squall.schema", "999"), ("squall.table", "packets")];
    let error = read_packets(foreign(folder.path(), "index", &newer)).unwrap_err();
    assert!(
        error
            .to_string()
            .contains("has schema \"999\", this squall reads schema 2"),
        "{error}"
    );
}

#[test]
fn missing_and_mistyped_columns_are_named() {
    let folder = tempfile::tempdir().unwrap();
    let ours = [("squall.schema", "2"), ("squall.table", "packets")];
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
            .contains("\"direction\" should be Utf8, but is missing")
    );
    let ours = [("squall.schema", "2"), ("squall.table", "requests")];
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

proptest! {
    #![proptest_config(ProptestConfig::with_cases(500))]

    /// Altered bytes give other rows or an error; either way the process lives.
    #[test]
    fn altered_bytes_never_panic(
        changes in proptest::collection::vec((any::<prop::sample::Index>(), any::<u8>()), 1..6),
        near_the_end in any::<bool>(),
    ) {
        let folder = tempfile::tempdir().unwrap();
        let path = sound(folder.path());
        let mut bytes = fs::read(&path).unwrap();
        let from = if near_the_end { bytes.len() * 2 / 3 } else { 0 };
        for (place, byte) in changes {
            let at = from + place.index(bytes.len() - from);
            bytes[at] = byte;
        }
        fs::write(&path, &bytes).unwrap();
        let _either = read_packets(&path);
    }
}
