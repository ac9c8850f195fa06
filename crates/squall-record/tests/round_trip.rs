//! What is written is read again, row by row and in order, whatever the sizes of the pieces it came in.

mod common;
mod rows;

use std::fs::File;

use arrow_array::StringArray;
use arrow_array::cast::AsArray as _;
use arrow_array::types::Int32Type;
use parquet::arrow::arrow_reader::ParquetRecordBatchReaderBuilder;
use proptest::collection::vec;
use proptest::prelude::*;
use squall_base::record::{
    Direction, ExchangeRecord, Fate, FrameLayer, FrameRecord, PacketClass, PacketRecord,
    SocketRecord, SocketSample, TcpInfo, Way,
};
use squall_base::{Duration, Time};
use squall_record::{
    FrameWriter, PacketWriter, RecordError, RequestWriter, Rows, TableRow, TableWriter,
    read_frames, read_packets, read_requests,
};

/// Any time that a signed column holds.
fn time() -> impl Strategy<Value = Time> {
    (0..=i64::MAX as u64).prop_map(Time::from_nanos)
}

fn maybe_time() -> impl Strategy<Value = Option<Time>> {
    proptest::option::of(time())
}

prop_compose! {
    /// Any packet.
    fn packet()(
        index in 0..=i64::MAX as u64,
        direction in proptest::sample::select(Direction::ALL.to_vec()),
        class in proptest::sample::select(PacketClass::ALL.to_vec()),
        fate in proptest::sample::select(Fate::ALL.to_vec()),
        wide in any::<(u32, u32, u32, u32, u32)>(),
        narrow in any::<(u16, u16, u16, u8, u8, u8)>(),
        queueing in 0..=i64::MAX as u64,
        yes_or_no in any::<(bool, bool, bool)>(),
        arrived in time(),
        served in maybe_time(),
        planned in maybe_time(),
        released in maybe_time(),
    ) -> PacketRecord {
        PacketRecord {
            index,
            direction,
            flow: wide.0,
            client_port: narrow.0,
            class,
            class_index: wide.1,
            length: narrow.1,
            protocol: narrow.4,
            seq: wide.2,
            ack: wide.3,
            payload_len: narrow.2,
            tcp_flags: narrow.3,
            window_bytes: 1 << 20,
            arrived,
            queue_bytes: wide.4,
            queueing: Duration::from_nanos(queueing),
            served,
            planned,
            released,
            fate,
            dropped_in: narrow.5,
            is_marked: yes_or_no.0,
            is_corrupted: yes_or_no.1,
            is_copy: yes_or_no.2,
        }
    }
}

/// Writes `rows` in pieces of `piece` rows, reads them again.
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
    fn requests_come_back(rows in vec(rows::request(), 0..200), piece in 1_usize..100) {
        prop_assert_eq!(through_a_file(&rows, piece).unwrap(), rows);
    }

    #[test]
    fn packets_come_back(rows in vec(packet(), 0..200), piece in 1_usize..100) {
        prop_assert_eq!(through_a_file(&rows, piece).unwrap(), rows);
    }

    #[test]
    fn exchanges_come_back(rows in vec(rows::exchange(), 0..200), piece in 1_usize..100) {
        prop_assert_eq!(through_a_file(&rows, piece).unwrap(), rows);
    }

    #[test]
    fn frames_come_back(rows in vec(rows::frame(), 0..200), piece in 1_usize..100) {
        prop_assert_eq!(through_a_file(&rows, piece).unwrap(), rows);
    }

    #[test]
    fn sockets_come_back(rows in vec(rows::socket(), 0..50), piece in 1_usize..100) {
        prop_assert_eq!(through_a_file(&rows, piece).unwrap(), rows);
    }
}

#[test]
fn many_row_groups_come_back_in_order() {
    let rows: Vec<_> = (0..150_000).map(common::packet_number).collect();
    assert_eq!(through_a_file(&rows, 9_999).unwrap(), rows);
}

#[test]
fn empty_tables_are_tables() {
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
fn a_time_that_no_column_holds_is_refused_with_its_column() {
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

/// The names of frames are for those who query the file: a word for a type that its RFC names, else null.
#[test]
fn frames_have_their_names_in_the_file() {
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

/// A rate without a limit, as the kernel has it unless told otherwise, is no number too large for its column.
#[test]
fn a_socket_without_a_pacing_limit_comes_back() {
    let mut rows = rows::some(rows::socket(), 1);
    let mut bytes = [0; TcpInfo::SIZE];
    bytes[104..120].fill(0xFF);
    rows[0].sample = SocketSample::Tcp(TcpInfo::from_bytes(&bytes));
    assert_eq!(through_a_file(&rows, 1).unwrap(), rows);
}

#[test]
fn columns_that_are_not_asked_for_are_empty() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("packets.parquet");
    let packets = rows::some(packet(), 5_000);
    let mut writer = PacketWriter::create(&path).unwrap();
    writer.append(&packets).unwrap();
    writer.finish().unwrap();
    let columns = ["index", "released_ns", "fate", "no such column"];
    let mut found: Vec<PacketRecord> = Vec::new();
    let read = Rows::open_columns(&path, &columns).unwrap();
    read.each(|row| found.push(*row)).unwrap();
    let expected = packets.iter().map(|packet| PacketRecord {
        index: packet.index,
        released: packet.released,
        fate: packet.fate,
        direction: Direction::Up,
        flow: 0,
        client_port: 0,
        class: PacketClass::Syn,
        class_index: 0,
        length: 0,
        protocol: 0,
        seq: 0,
        ack: 0,
        payload_len: 0,
        tcp_flags: 0,
        window_bytes: 1 << 20,
        arrived: Time::ZERO,
        queue_bytes: 0,
        queueing: Duration::ZERO,
        served: None,
        planned: None,
        dropped_in: 0,
        is_marked: false,
        is_corrupted: false,
        is_copy: false,
    });
    assert!(found.into_iter().eq(expected));
}

#[test]
fn rows_are_the_same_where_they_lie() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("packets.parquet");
    let packets = rows::some(packet(), 5_000);
    let mut writer = PacketWriter::create(&path).unwrap();
    writer.append(&packets).unwrap();
    writer.finish().unwrap();
    // From anywhere on.
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
fn frames_that_are_not_wanted_make_no_rows() {
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
