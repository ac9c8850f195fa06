//! Reading the rows within ranges returns exactly these rows, and searches no more of the table than is needed.

use std::path::{Path, PathBuf};

use squall_base::record::PacketRecord;
use squall_record::{ColumnRange, PacketWriter, RecordError, Rows};
use tempfile::TempDir;

use crate::common::packet_number;

const ROW_GROUP_ROWS: u32 = 256 * 1024;
/// The time between two packets of `common`.
const GAP: u64 = 20_000;

/// A table of this many packets, and its folder.
fn written(count: u32) -> (TempDir, PathBuf) {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let path = folder.path().join("packets.parquet");
    let mut writer = PacketWriter::create(&path).expect("a table");
    for first in (0..count).step_by(4_096) {
        let rows: Vec<_> = (first..count.min(first + 4_096))
            .map(packet_number)
            .collect();
        writer.append(&rows).expect("rows");
    }
    writer.finish().expect("a table");
    (folder, path)
}

/// The rows within the ranges, and how many rows were searched for them.
fn read(path: &Path, ranges: &[ColumnRange]) -> (Vec<PacketRecord>, u64) {
    let rows = Rows::<PacketRecord>::open_within(path, ranges).expect("a table");
    let searched = rows.searched_rows();
    (rows.map(|row| row.expect("a row")).collect(), searched)
}

fn arrived(from: u32, to: u32) -> ColumnRange {
    ColumnRange::new("arrived_ns", u64::from(from) * GAP..=u64::from(to) * GAP)
}

fn packets(from: u32, to: u32) -> Vec<PacketRecord> {
    (from..=to).map(packet_number).collect()
}

#[test]
fn searching_a_time_span_costs_the_same_in_short_and_long_tables() {
    let groups = u64::from(ROW_GROUP_ROWS);
    let (short, long) = (
        written(2 * ROW_GROUP_ROWS + 7),
        written(5 * ROW_GROUP_ROWS + 7),
    );
    for (_folder, path) in [&short, &long] {
        for ((from, to), searched) in [
            ((300_000, 300_999), groups),
            // Within one page, and at the edges of pages.
            ((270_336, 270_336), groups),
            ((270_335, 278_528), groups),
            // Across two row groups.
            ((ROW_GROUP_ROWS - 5, ROW_GROUP_ROWS + 5), 2 * groups),
        ] {
            let found = read(path, &[arrived(from, to)]);
            assert!(found.0 == packets(from, to), "{from} to {to}");
            assert_eq!(found.1, searched, "{from} to {to}");
        }
    }
    let end = 5 * ROW_GROUP_ROWS + 6;
    assert_eq!(read(&long.1, &[arrived(end, end)]), (packets(end, end), 7));
    assert_eq!(
        read(&long.1, &[arrived(end + 1, u32::MAX)]),
        (Vec::new(), 0)
    );
}

#[test]
fn rows_must_lie_in_every_range_and_missing_cells_lie_in_none() {
    let (_folder, path) = written(1_000);
    let index = ColumnRange::new("index", 100..=250);
    let (found, _) = read(&path, &[index.clone(), arrived(200, 300)]);
    assert!(found == packets(200, 250));
    // Lost packets were not released: 97 and 194.
    let released = ColumnRange::new("released_ns", 0..=u64::MAX);
    let (found, _) = read(&path, &[released, arrived(95, 195)]);
    let indices: Vec<u64> = found.iter().map(|row| row.index).collect();
    let expected = (95..=195).filter(|index| index % 97 != 0);
    assert_eq!(indices, expected.collect::<Vec<u64>>());
    // No row lies in both ranges.
    let (found, _) = read(&path, &[index, arrived(300, 400)]);
    assert!(found.is_empty());
    assert_eq!(read(&path, &[]).0.len(), 1_000);
}

#[test]
fn only_columns_of_64_bit_numbers_can_have_ranges() {
    let (_folder, path) = written(1);
    for column in ["flow", "fate", "nowhere"] {
        let range = ColumnRange::new(column, 0..=1);
        let error = Rows::<PacketRecord>::open_within(&path, &[range]).err();
        assert!(
            matches!(error, Some(RecordError::NoSuchColumn { .. })),
            "{column}: {error:?}"
        );
    }
}
