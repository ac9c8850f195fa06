//! Rows are read back as they were written and in order, whatever the sizes of the pieces they were appended in.

use std::fs::File;

use arrow_array::StringArray;
use arrow_array::cast::AsArray as _;
use arrow_array::types::Int32Type;
use parquet::arrow::arrow_reader::ParquetRecordBatchReaderBuilder;
use proptest::collection::vec;
use proptest::prelude::*;
use squall_base::record::{
    ExchangeRecord, Fate, FrameLayer, FrameRecord, PacketRecord, Projection as _, RequestRecord,
    SocketRecord, SocketSample, TcpInfo, Way,
};
use squall_base::{Duration, Time, projection};
use squall_record::{
    FrameWriter, PacketWriter, RecordError, RequestWriter, Rows, TableRow, TableWriter,
    each_projected, read_frames, read_packets, read_requests,
};

use crate::{common, rows};

/// Writes `rows` in pieces of `piece` rows and reads them back.
fn through_a_file<R: TableRow>(rows: &[R], piece: usize) -> Result<Vec<R>, RecordError> {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let path = folder.path().join("table.parquet");
    let mut writer = TableWriter::<R>::create(&path)?;
    for piece in rows.chunks(piece) {
        writer.append(piece)?;
    }
    assert_eq!(writer.finish()?, rows.len() as u64);
    Rows::open(&path)?.collect()
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    #[test]
    fn requests_round_trip(rows in vec(rows::request(), 0..200), piece in 1_usize..100) {
        prop_assert_eq!(through_a_file(&rows, piece).unwrap(), rows);
    }

    #[test]
    fn packets_round_trip(rows in vec(rows::packet(), 0..200), piece in 1_usize..100) {
        prop_assert_eq!(through_a_file(&rows, piece).unwrap(), rows);
    }

    #[test]
    fn exchanges_round_trip(rows in vec(rows::exchange(), 0..200), piece in 1_usize..100) {
        prop_assert_eq!(through_a_file(&rows, piece).unwrap(), rows);
    }

    #[test]
    fn frames_round_trip(rows in vec(rows::frame(), 0..200), piece in 1_usize..100) {
        prop_assert_eq!(through_a_file(&rows, piece).unwrap(), rows);
    }

    #[test]
    fn sockets_round_trip(rows in vec(rows::socket(), 0..50), piece in 1_usize..100) {
        prop_assert_eq!(through_a_file(&rows, piece).unwrap(), rows);
    }
}

#[test]
fn many_rows_round_trip_in_order() {
    let rows: Vec<_> = (0..150_000).map(common::packet_number).collect();
    assert_eq!(through_a_file(&rows, 9_999).unwrap(), rows);
}

#[test]
fn empty_tables_can_be_read() {
    let folder = tempfile::tempdir().unwrap();
    let (requests, packets) = (folder.path().join("r"), folder.path().join("p"));
    assert_eq!(
        RequestWriter::create(&requests).unwrap().finish().unwrap(),
        0
    );
    assert_eq!(PacketWriter::create(&packets).unwrap().finish().unwrap(), 0);
    assert!(read_requests(&requests).unwrap().is_empty());
    assert!(read_packets(&packets).unwrap().is_empty());
    assert!(through_a_file::<ExchangeRecord>(&[], 1).unwrap().is_empty());
    assert!(through_a_file::<FrameRecord>(&[], 1).unwrap().is_empty());
    assert!(through_a_file::<SocketRecord>(&[], 1).unwrap().is_empty());
}

#[test]
fn time_too_large_for_its_column_is_refused() {
    let folder = tempfile::tempdir().unwrap();
    let mut writer = PacketWriter::create(folder.path().join("p")).unwrap();
    let mut packet = common::packet_number(0);
    packet.arrived = Time::from_nanos(1 << 63);
    writer.append(&[packet]).unwrap();
    match writer.finish() {
        Err(RecordError::TooLarge {
            column: "arrived_ns",
            value,
            ..
        }) => {
            assert_eq!(value, 1 << 63);
        }
        other => panic!("expected TooLarge, got {other:?}"),
    }
}

/// Frame names are for people who query the file: a word for a type that its RFC names, otherwise null.
#[test]
fn file_contains_frame_names() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("frames.parquet");
    let mut rows = rows::some(rows::frame(), 3);
    for (row, (layer, kind)) in rows.iter_mut().zip([
        (FrameLayer::Http2, 0x8),
        (FrameLayer::Http2, 0x7777),
        (FrameLayer::Quic, 0x0b),
    ]) {
        (row.frame.layer, row.frame.kind) = (layer, kind);
    }
    let mut writer = FrameWriter::create(&path).unwrap();
    writer.append(&rows).unwrap();
    writer.finish().unwrap();

    let reader = ParquetRecordBatchReaderBuilder::try_new(File::open(&path).unwrap()).unwrap();
    let batch = reader.build().unwrap().next().unwrap().unwrap();
    let names = batch
        .column_by_name("name")
        .unwrap()
        .as_dictionary::<Int32Type>();
    let names: Vec<_> = names
        .downcast_dict::<StringArray>()
        .unwrap()
        .into_iter()
        .collect();
    assert_eq!(names, [Some("WINDOW_UPDATE"), None, Some("STREAM")]);
    assert_eq!(read_frames(&path).unwrap(), rows);
}

/// A rate without a limit, the kernel's default, does not overflow its column.
#[test]
fn socket_without_a_pacing_limit_round_trips() {
    let mut rows = rows::some(rows::socket(), 1);
    let mut bytes = [0; TcpInfo::SIZE];
    bytes[104..120].fill(0xFF);
    rows[0].sample = SocketSample::Tcp(TcpInfo::from_bytes(&bytes));
    assert_eq!(through_a_file(&rows, 1).unwrap(), rows);
}

projection! {
    /// When a packet left and what became of it.
    #[derive(Debug, PartialEq, Eq)]
    pub struct Departure of row: PacketRecord {
        index: u64 = row.index, "index";
        released: Option<Time> = row.released, "released_ns";
        fate: Fate = row.fate, "fate";
    }
}

projection! {
    /// Asks for a column that no packet has.
    #[derive(Debug)]
    pub struct Misnamed of row: PacketRecord {
        index: u64 = row.index, "number";
    }
}

projection! {
    /// Asks for a column that is derived from others and never read.
    #[derive(Debug)]
    pub struct Derived of row: RequestRecord {
        response_time: Duration = row.response_time(), "response_time_ns";
    }
}

#[test]
fn projection_equals_the_fields_of_whole_rows() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("packets.parquet");
    let packets = rows::some(rows::packet(), 5_000);
    let mut writer = PacketWriter::create(&path).unwrap();
    writer.append(&packets).unwrap();
    writer.finish().unwrap();
    let mut found: Vec<Departure> = Vec::new();
    each_projected(&path, |row| found.push(row)).unwrap();
    assert!(found.into_iter().eq(packets.iter().map(Departure::of)));
}

#[test]
fn unknown_column_is_an_error_even_without_rows() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("table.parquet");
    PacketWriter::create(&path).unwrap().finish().unwrap();
    let error = each_projected(&path, |row: Misnamed| panic!("{row:?}")).unwrap_err();
    let said = error.to_string();
    assert!(
        said.contains("\"packets\" has no column \"number\""),
        "{said}"
    );
    RequestWriter::create(&path).unwrap().finish().unwrap();
    let error = each_projected(&path, |row: Derived| panic!("{row:?}")).unwrap_err();
    let said = error.to_string();
    assert!(
        said.contains("\"requests\" has no column \"response_time_ns\""),
        "{said}"
    );
}

#[test]
fn rows_passed_by_reference_equal_rows_returned() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("packets.parquet");
    let packets = rows::some(rows::packet(), 5_000);
    let mut writer = PacketWriter::create(&path).unwrap();
    writer.append(&packets).unwrap();
    writer.finish().unwrap();
    // Starting from any row.
    for already in [0, 1, 2_048, 5_000] {
        let mut read = Rows::open(&path).unwrap();
        let mut found: Vec<PacketRecord> =
            read.by_ref().take(already).map(Result::unwrap).collect();
        read.each(|row| found.push(*row)).unwrap();
        assert_eq!(found.len(), packets.len());
        assert!(found == packets);
    }
}

#[test]
fn unwanted_frames_are_not_passed_on() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("frames.parquet");
    let frames = rows::some(rows::frame(), 5_000);
    let mut writer = FrameWriter::create(&path).unwrap();
    writer.append(&frames).unwrap();
    writer.finish().unwrap();
    let is_wanted = |way: Way, layer: FrameLayer, kind: u64| {
        way == Way::Sent && layer == FrameLayer::Http2 && kind.is_multiple_of(2)
    };
    for already in [0, 1, 2_049, 5_000] {
        let mut read = Rows::open(&path).unwrap();
        let mut found: Vec<FrameRecord> = read.by_ref().take(already).map(Result::unwrap).collect();
        read.each_wanted(is_wanted, |row| found.push(*row)).unwrap();
        let (first, rest) = frames.split_at(already);
        let wanted = rest
            .iter()
            .filter(|row| is_wanted(row.frame.way, row.frame.layer, row.frame.kind));
        let expected: Vec<FrameRecord> = first.iter().chain(wanted).copied().collect();
        assert!(already > 4_000 || expected.len() > already + 100);
        assert!(found == expected);
    }
}
