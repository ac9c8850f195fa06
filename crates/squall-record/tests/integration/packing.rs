//! The packing of tables in edge cases, checked with the parquet crate's own reader.
//!
//! Ordinary rows are in round_trip.rs. This file has extreme numbers, nulls in every pattern, and row groups that are
//! exactly full.

use std::fs::File;
use std::path::Path;

use arrow_array::cast::AsArray as _;
use arrow_array::types::{Int64Type, UInt32Type};
use arrow_array::{Array as _, RecordBatch};
use parquet::arrow::arrow_reader::ParquetRecordBatchReaderBuilder;
use parquet::basic::{Compression, Encoding};
use parquet::file::metadata::RowGroupMetaData;
use parquet::file::reader::{FileReader as _, SerializedFileReader};
use parquet::file::statistics::Statistics;
use proptest::collection::vec;
use proptest::prelude::*;
use squall_base::record::{FrameRecord, PacketRecord, RequestRecord};
use squall_base::{Duration, Time};
use squall_record::{Rows, TableRow, TableWriter};

use crate::{common, rows};

const ROW_GROUP_ROWS: usize = 256 * 1024;
const PAGE_ROWS: usize = 8 * 1024;

fn write<R: TableRow>(path: &Path, rows: &[R], piece: usize) {
    let mut writer = TableWriter::<R>::create(path).expect("a table");
    for piece in rows.chunks(piece) {
        writer.append(piece).expect("rows");
    }
    assert_eq!(writer.finish().expect("a table"), rows.len() as u64);
}

fn round_trips<R: TableRow + PartialEq>(rows: &[R], piece: usize) -> bool {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let path = folder.path().join("table.parquet");
    write(&path, rows, piece);
    let read: Vec<R> = Rows::open(&path)
        .expect("a table")
        .collect::<Result<_, _>>()
        .expect("rows");
    read == rows
}

fn row_groups(path: &Path) -> Vec<RowGroupMetaData> {
    let reader = SerializedFileReader::new(File::open(path).expect("a table")).expect("a table");
    reader.metadata().row_groups().to_vec()
}

fn batch(path: &Path) -> RecordBatch {
    let reader = ParquetRecordBatchReaderBuilder::try_new(File::open(path).expect("a table"));
    let reader = reader.expect("a table").with_batch_size(1 << 20).build();
    reader
        .expect("a table")
        .next()
        .expect("rows")
        .expect("rows")
}

/// Typical numbers of a column: extremes, small ones, multiples of a step, and arbitrary ones.
fn number() -> impl Strategy<Value = u64> {
    prop_oneof![
        Just(0),
        Just(i64::MAX as u64),
        0..16_u64,
        (0..1000_u64).prop_map(|steps| 1_000_000_000 + steps * 500_000),
        0..=i64::MAX as u64,
    ]
}

fn signed() -> impl Strategy<Value = i64> {
    prop_oneof![Just(i64::MIN), Just(i64::MAX), -16..16_i64, any::<i64>(),]
}

/// Short runs, and some that end in another page.
fn run_length() -> impl Strategy<Value = usize> {
    prop_oneof![8 => 1..400_usize, 1 => PAGE_ROWS - 300..PAGE_ROWS + 300]
}

prop_compose! {
    /// Runs of similar frames, so that there are constant blocks, runs of nulls and alternating nulls.
    fn runs_of_frames()(
        runs in vec((rows::frame(), number(), signed(), run_length(), 0..3_u8), 1..12),
    ) -> Vec<FrameRecord> {
        let mut frames = Vec::new();
        for (mut frame, number, signed, count, nulls) in runs {
            frame.time = Time::from_nanos(number);
            for i in 0..count {
                let is_some = match nulls {
                    0 => false,
                    1 => true,
                    _ => i % 2 == 0,
                };
                frame.frame.stream = is_some.then_some(number);
                frame.frame.stream_window = is_some.then_some(signed);
                frame.frame.connection_window = is_some.then(|| signed.wrapping_add(i as i64));
                frames.push(frame);
            }
        }
        frames
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    #[test]
    fn runs_and_extreme_numbers_round_trip(rows in runs_of_frames(), piece in 1..2000_usize) {
        prop_assert!(round_trips(&rows, piece));
    }

    /// The extremes in the file match the rows, so that readers may skip row groups.
    #[test]
    fn statistics_match_the_rows(rows in runs_of_frames()) {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("frames.parquet");
        write(&path, &rows, 1000);
        let group = &row_groups(&path)[0];
        let windows: Vec<i64> = rows.iter().filter_map(|row| row.frame.stream_window).collect();
        let times: Vec<i64> = rows.iter().map(|row| row.time.as_nanos() as i64).collect();
        for (column, cells) in [("stream_window", windows), ("time_ns", times)] {
            let chunk = group.columns().iter().find(|chunk| chunk.column_path().string() == column);
            let Some(Statistics::Int64(statistics)) = chunk.unwrap().statistics() else {
                panic!("{column} has statistics");
            };
            prop_assert_eq!(statistics.min_opt(), cells.iter().min());
            prop_assert_eq!(statistics.max_opt(), cells.iter().max());
            let nulls = (rows.len() - cells.len()) as u64;
            prop_assert_eq!(statistics.null_count_opt(), Some(nulls));
        }
    }
}

/// Exactly as many rows as a row group has, one fewer, one more, and several groups, in pieces that do not end where the groups
/// do.
#[test]
fn row_groups_are_filled_to_the_last_row() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("packets.parquet");
    for (count, groups) in [
        (1, 1),
        (ROW_GROUP_ROWS - 1, 1),
        (ROW_GROUP_ROWS, 1),
        (ROW_GROUP_ROWS + 1, 2),
        (3 * ROW_GROUP_ROWS, 3),
    ] {
        let rows: Vec<_> = (0..count as u32).map(common::packet_number).collect();
        write(&path, &rows, 999);
        let found = row_groups(&path);
        assert_eq!(found.len(), groups, "{count} rows");
        let full = &found[..groups - 1];
        assert!(
            full.iter()
                .all(|group| group.num_rows() == ROW_GROUP_ROWS as i64)
        );
        let read: Vec<PacketRecord> = Rows::open(&path).unwrap().map(Result::unwrap).collect();
        assert!(read == rows, "{count} rows");
    }
}

/// Pieces of one row wait for more rows while long ones do not; their order must stay.
#[test]
fn short_and_long_pieces_stay_in_order() {
    let rows: Vec<_> = (0..5_000).map(common::packet_number).collect();
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("packets.parquet");
    let mut writer = TableWriter::<PacketRecord>::create(&path).unwrap();
    let mut rest = &rows[..];
    for piece in [1, 3, 700, 1, 255, 256, 257, 127, 128, 129, 2_000]
        .into_iter()
        .cycle()
    {
        let (now, later) = rest.split_at(rest.len().min(piece));
        writer.append(now).unwrap();
        rest = later;
        if rest.is_empty() {
            break;
        }
    }
    writer.finish().unwrap();
    let read: Vec<PacketRecord> = Rows::open(&path).unwrap().map(Result::unwrap).collect();
    assert!(read == rows);
}

/// A caller with other work appends as many rows as there is room for, and compresses a column when there is none.
#[test]
fn compressing_in_steps_writes_the_same_file() {
    let rows: Vec<_> = (0..ROW_GROUP_ROWS as u32 + 40_000)
        .map(common::packet_number)
        .collect();
    let folder = tempfile::tempdir().unwrap();
    let [at_once, in_steps] = ["at_once", "in_steps"].map(|name| folder.path().join(name));
    write(&at_once, &rows, rows.len());
    let mut writer = TableWriter::<PacketRecord>::create(&in_steps).unwrap();
    let (mut rest, mut steps, mut groups) = (&rows[..], 0, 0);
    for piece in [64, 3, 64, 200].into_iter().cycle() {
        if rest.is_empty() {
            break;
        }
        let mut count = piece.min(rest.len()).min(writer.room());
        if count == 0 {
            if writer.compress_some().unwrap() {
                steps += 1;
                continue;
            }
            groups += 1;
            count = 1;
        }
        writer.append(&rest[..count]).unwrap();
        rest = &rest[count..];
    }
    assert_eq!(groups, 1, "only a full row group cannot be had in steps");
    let pages = rows.len() / PAGE_ROWS;
    let columns = row_groups(&at_once)[0].num_columns();
    assert!(steps >= pages * columns, "{steps} of {pages} pages");
    writer.finish().unwrap();
    let read: Vec<PacketRecord> = Rows::open(&in_steps).unwrap().map(Result::unwrap).collect();
    assert!(read == rows);
    let files = [at_once, in_steps].map(|path| std::fs::read(path).unwrap());
    assert!(files[0] == files[1], "the same bytes");
}

/// When a dictionary of numbers fills up within a row group, differences replace it from that page to the end of the
/// group.
#[test]
fn numbers_that_overflow_a_dictionary_round_trip() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("packets.parquet");
    let mut rows: Vec<_> = (0..3 * ROW_GROUP_ROWS as u32)
        .map(common::packet_number)
        .collect();
    for (i, row) in rows.iter_mut().enumerate() {
        let different = (i as u32 % 5_000).wrapping_mul(858_993);
        row.queue_bytes = match i / ROW_GROUP_ROWS {
            0 => different,
            1 => i as u32 % 3,
            // The page after the first one overflows the dictionary.
            _ if i % ROW_GROUP_ROWS < PAGE_ROWS + 9 => 5 + i as u32 % 3,
            _ => different,
        };
        // The flag is set only in the second row group, and not in its first page.
        row.is_marked = i == ROW_GROUP_ROWS + PAGE_ROWS + 5;
    }
    write(&path, &rows, 1024);
    let encodings: Vec<Vec<Encoding>> = row_groups(&path)
        .iter()
        .map(|group| {
            let chunks = group.columns().iter();
            let mut chunks = chunks.filter(|chunk| chunk.column_path().string() == "queue_bytes");
            chunks.next().unwrap().encodings().collect()
        })
        .collect();
    for (group, rows) in row_groups(&path).iter().zip(rows.chunks(ROW_GROUP_ROWS)) {
        let of = |name: &str| {
            let mut chunks = group.columns().iter();
            let chunk = chunks.find(|chunk| chunk.column_path().string() == name);
            chunk.unwrap().statistics().cloned().unwrap()
        };
        let Statistics::Int32(statistics) = of("queue_bytes") else {
            panic!("numbers of 32 bits");
        };
        let found =
            [statistics.min_opt(), statistics.max_opt()].map(|bits| bits.map(|bits| *bits as u32));
        let numbers = || rows.iter().map(|row| row.queue_bytes);
        assert_eq!(found, [numbers().min(), numbers().max()]);
        let Statistics::Boolean(statistics) = of("marked") else {
            panic!("flags");
        };
        let flags = || rows.iter().map(|row| row.is_marked);
        assert_eq!(statistics.min_opt().copied(), flags().min());
        assert_eq!(statistics.max_opt().copied(), flags().max());
    }
    let has = |group: usize, encoding| encodings[group].contains(&encoding);
    assert!(has(0, Encoding::DELTA_BINARY_PACKED) && !has(0, Encoding::RLE_DICTIONARY));
    assert!(has(1, Encoding::RLE_DICTIONARY) && !has(1, Encoding::DELTA_BINARY_PACKED));
    assert!(has(2, Encoding::RLE_DICTIONARY) && has(2, Encoding::DELTA_BINARY_PACKED));
    let read: Vec<PacketRecord> = Rows::open(&path).unwrap().map(Result::unwrap).collect();
    assert!(read == rows);
}

/// A column of TCP samples is null for QUIC samples and vice versa, so most columns have irregular nulls.
#[test]
fn tcp_and_quic_samples_in_one_table_round_trip() {
    assert!(round_trips(&rows::some(rows::socket(), 600), 600));
}

/// Our reader does not read derived columns: here they are compared with the rows as any other reader sees them.
#[test]
fn derived_columns_follow_from_the_rows() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("requests.parquet");
    let rows: Vec<RequestRecord> = rows::some(rows::request(), 700);
    write(&path, &rows, 1024);
    let batch = batch(&path);
    let response = batch["response_time_ns"].as_primitive::<Int64Type>();
    let service = batch["service_time_ns"].as_primitive::<Int64Type>();
    let connection = batch["connection"].as_primitive::<UInt32Type>();
    let error = batch["error"].as_string::<i32>();
    for (i, row) in rows.iter().enumerate() {
        assert_eq!(response.value(i) as u64, row.response_time().as_nanos());
        let found = service.is_valid(i).then(|| service.value(i) as u64);
        assert_eq!(found, row.service_time().map(Duration::as_nanos));
        let found = connection.is_valid(i).then(|| connection.value(i));
        assert_eq!(found, row.connection);
        let found = error.is_valid(i).then(|| error.value(i));
        assert_eq!(found, row.error.as_deref());
    }
}

/// docs/RECORD.md, "What holds for all tables": a column is compressed if that makes its first page smaller.
#[test]
fn repeating_columns_are_compressed_and_noise_is_not() {
    // SplitMix64's final mixing, so that neighbours are unrelated.
    let noise = |i: u64| {
        let mixed = i.wrapping_mul(0x9e37_79b9_7f4a_7c15);
        let mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        mixed ^ (mixed >> 31)
    };
    let rows: Vec<PacketRecord> = (0..2 * PAGE_ROWS as u64)
        .map(|i| PacketRecord {
            arrived: Time::from_nanos(noise(i) >> 1),
            seq: (i / 8) as u32,
            ..common::packet_number(0)
        })
        .collect();
    let folder = tempfile::tempdir().expect("a temporary folder");
    let path = folder.path().join("table.parquet");
    write(&path, &rows, 1_000);
    let group = &row_groups(&path)[0];
    let compression = |name: &str| {
        let mut columns = group.columns().iter();
        let column = columns.find(|column| column.column_path().string() == name);
        column.expect("the column").compression()
    };
    assert_eq!(compression("arrived_ns"), Compression::UNCOMPRESSED);
    assert_eq!(compression("seq"), Compression::LZ4_RAW);
}
