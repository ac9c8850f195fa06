//! What is written is read again, row by row and in order, whatever the sizes of the pieces it came in.

mod common;

use proptest::collection::vec;
use proptest::prelude::*;
use squall_base::record::{
    Direction, Fate, Outcome, PacketClass, PacketRecord, Phase, RequestRecord,
};
use squall_base::{Duration, Time};
use squall_record::{
    PacketWriter, RecordError, RequestWriter, Rows, TableRow, TableWriter, read_packets,
    read_requests,
};

/// Any time that a signed column holds.
fn time() -> impl Strategy<Value = Time> {
    (0..=i64::MAX as u64).prop_map(Time::from_nanos)
}

fn maybe_time() -> impl Strategy<Value = Option<Time>> {
    proptest::option::of(time())
}

prop_compose! {
    /// Any request.
    fn request()(
        counts in vec(0..=i64::MAX as u64, 3),
        phase in prop_oneof![Just(Phase::Warmup), Just(Phase::Measure)],
        times in vec(time(), 3),
        maybe in vec(maybe_time(), 6),
        numbers in any::<(Option<u16>, Option<u32>, Option<u32>, bool)>(),
        outcome in proptest::sample::select(Outcome::ALL.to_vec()),
        error in any::<Option<String>>(),
    ) -> RequestRecord {
        RequestRecord {
            request: counts[0],
            phase,
            intended: times[0],
            taken_up: times[1],
            slot: maybe[0],
            connected: maybe[1],
            written_first: maybe[2],
            written_last: maybe[3],
            answered_first: maybe[4],
            headers: maybe[5],
            end: times[2],
            status: numbers.0,
            connection: numbers.1,
            stream: numbers.2,
            opened_connection: numbers.3,
            request_body_bytes: counts[1],
            response_body_bytes: counts[2],
            outcome,
            error,
        }
    }
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
    fn requests_come_back(rows in vec(request(), 0..200), piece in 1_usize..100) {
        prop_assert_eq!(through_a_file(&rows, piece).unwrap(), rows);
    }

    #[test]
    fn packets_come_back(rows in vec(packet(), 0..200), piece in 1_usize..100) {
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
