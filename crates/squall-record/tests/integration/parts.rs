//! Tables that are written in parts: what a killed writer leaves, and the table into which they are joined.
//!
//! A killed process is a writer that is dropped without `finish`.

use std::fs;
use std::iter::repeat_n;
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};

use proptest::collection::vec;
use proptest::prelude::*;
use squall_base::record::{FrameRecord, PacketRecord};
use squall_record::{PacketWriter, Rows, TableRow, TableWriter, parts_of, read_packets};

use crate::{common, rows};

const ROW_GROUP_ROWS: usize = 256 * 1024;
const PAGE_ROWS: usize = 8 * 1024;

/// The rows of a table's parts.
fn rows_of_parts<R: TableRow>(table: &Path) -> Vec<R> {
    let parts = parts_of(table).expect("its parts");
    let open = |part: &PathBuf| Rows::<R>::open(part).expect("a whole table");
    parts
        .iter()
        .flat_map(open)
        .collect::<Result<_, _>>()
        .expect("rows")
}

fn packets(count: usize) -> Vec<PacketRecord> {
    (0..count as u32).map(common::packet_number).collect()
}

/// The folder of a table's parts.
fn folder_of(table: &Path) -> PathBuf {
    table.with_extension("parquet.parts")
}

/// Short runs, and some that end in another page.
fn run_length() -> impl Strategy<Value = usize> {
    prop_oneof![6 => 1..400_usize, 1 => PAGE_ROWS - 300..PAGE_ROWS + 300]
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(32))]

    /// However rows are appended and saved, the parts have the saved rows, and the joined table is byte for byte the one that
    /// is written without parts: the same rows, schema and metadata.
    #[test]
    fn any_split_into_parts_gives_the_same_table(
        runs in vec((rows::frame(), run_length()), 1..8),
        steps in vec((prop_oneof![1..64_usize, 64..3_000_usize], any::<bool>()), 4..12),
    ) {
        let rows: Vec<FrameRecord> = (runs.into_iter())
            .flat_map(|(row, count)| repeat_n(row, count))
            .collect();
        let folder = tempfile::tempdir().unwrap();
        let [at_once, in_parts] =
            ["at_once", "in_parts"].map(|name| folder.path().join(name).with_extension("parquet"));
        let mut writer = TableWriter::<FrameRecord>::create(&at_once).unwrap();
        writer.append(&rows).unwrap();
        writer.finish().unwrap();
        let mut writer = TableWriter::<FrameRecord>::create_in_parts(&in_parts).unwrap();
        let mut rest = &rows[..];
        for (count, is_saved) in steps.into_iter().cycle() {
            if rest.is_empty() {
                break;
            }
            let (now, later) = rest.split_at(rest.len().min(count));
            writer.append(now).unwrap();
            rest = later;
            if is_saved {
                writer.save().unwrap();
                let saved: Vec<FrameRecord> = rows_of_parts(&in_parts);
                prop_assert!(saved == rows[..rows.len() - rest.len()]);
            }
        }
        prop_assert_eq!(writer.finish().unwrap(), rows.len() as u64);
        prop_assert!(!folder_of(&in_parts).exists());
        let files = [at_once, in_parts].map(|path| fs::read(path).unwrap());
        prop_assert!(files[0] == files[1], "the same bytes");
    }
}

#[test]
fn full_row_groups_are_joined_into_the_same_table() {
    let folder = tempfile::tempdir().unwrap();
    let [at_once, in_parts] =
        ["at_once.parquet", "in_parts.parquet"].map(|name| folder.path().join(name));
    let rows = packets(2 * ROW_GROUP_ROWS + 3_000);
    let mut writer = PacketWriter::create(&at_once).unwrap();
    writer.append(&rows).unwrap();
    writer.finish().unwrap();
    let mut writer = PacketWriter::create_in_parts(&in_parts).unwrap();
    for (step, piece) in rows.chunks(999).enumerate() {
        writer.append(piece).unwrap();
        if step % 200 == 0 {
            writer.save().unwrap();
        }
    }
    writer.save().unwrap();
    assert_eq!(parts_of(&in_parts).unwrap().len(), 3);
    assert!(rows_of_parts::<PacketRecord>(&in_parts) == rows);
    assert_eq!(writer.finish().unwrap(), rows.len() as u64);
    assert!(parts_of(&in_parts).unwrap().is_empty());
    let files = [at_once, in_parts].map(|path| fs::read(path).unwrap());
    assert!(files[0] == files[1], "the same bytes");
}

#[test]
fn snapshot_has_only_the_rows_from_before_it_was_taken() {
    let folder = tempfile::tempdir().unwrap();
    let table = folder.path().join("packets.parquet");
    let rows = packets(PAGE_ROWS + 1_000);
    let mut writer = PacketWriter::create_in_parts(&table).unwrap();
    writer.append(&rows[..1_000]).unwrap();
    let snapshot = writer.snapshot().unwrap().expect("rows");
    assert_eq!(snapshot.table(), table);
    assert!(writer.snapshot().unwrap().is_none(), "nothing is new");
    // A full page, which is compressed, and some rows of the next one.
    writer.append(&rows[1_000..]).unwrap();
    snapshot.write().unwrap();
    assert!(rows_of_parts::<PacketRecord>(&table) == rows[..1_000]);
    writer.save().unwrap();
    assert!(rows_of_parts::<PacketRecord>(&table) == rows);
    writer.finish().unwrap();
    assert!(read_packets(&table).unwrap() == rows);
}

#[test]
fn killed_writer_leaves_its_saved_rows_and_the_next_one_removes_them() {
    let folder = tempfile::tempdir().unwrap();
    let table = folder.path().join("packets.parquet");
    let rows = packets(1_500);
    let mut writer = PacketWriter::create_in_parts(&table).unwrap();
    writer.append(&rows[..1_000]).unwrap();
    writer.save().unwrap();
    writer.append(&rows[1_000..]).unwrap();
    drop(writer);
    assert!(read_packets(&table).is_err(), "it has no footer");
    assert!(rows_of_parts::<PacketRecord>(&table) == rows[..1_000]);

    // Killed while it wrote a part.
    fs::write(folder_of(&table).join("00002.new"), "PAR1").unwrap();
    assert_eq!(parts_of(&table).unwrap().len(), 1);

    let mut writer = PacketWriter::create_in_parts(&table).unwrap();
    assert!(parts_of(&table).unwrap().is_empty());
    writer.append(&rows[..7]).unwrap();
    writer.finish().unwrap();
    assert!(read_packets(&table).unwrap() == rows[..7]);
    assert!(!folder_of(&table).exists());
}

#[test]
fn parts_are_kept_if_they_cannot_be_joined() {
    let folder = tempfile::tempdir().unwrap();
    let table = folder.path().join("packets.parquet");
    let rows = packets(ROW_GROUP_ROWS + 1_000);
    let mut writer = PacketWriter::create_in_parts(&table).unwrap();
    for piece in rows.chunks(1_000) {
        writer.append(piece).unwrap();
    }
    let first = parts_of(&table).unwrap().remove(0);
    let gone = folder.path().join("gone");
    fs::rename(&first, &gone).unwrap();
    writer.finish().expect_err("a part is missing");
    fs::rename(&gone, &first).unwrap();
    assert!(rows_of_parts::<PacketRecord>(&table) == rows);
}

#[test]
fn foreign_files_among_the_parts_are_kept() {
    let folder = tempfile::tempdir().unwrap();
    let table = folder.path().join("packets.parquet");
    let notes = folder_of(&table).join("notes.parquet");
    fs::create_dir(folder_of(&table)).unwrap();
    fs::write(&notes, "mine").unwrap();
    let mut writer = PacketWriter::create_in_parts(&table).unwrap();
    writer.append(&packets(10)).unwrap();
    writer.save().unwrap();
    assert_eq!(parts_of(&table).unwrap().len(), 1);
    writer.finish().unwrap();
    assert!(parts_of(&table).unwrap().is_empty());
    assert_eq!(fs::read(&notes).unwrap(), b"mine");
}

#[test]
fn special_files_and_tables_whose_parts_folder_is_blocked_have_no_parts() {
    let folder = tempfile::tempdir().unwrap();
    let device = folder.path().join("device.parquet");
    symlink("/dev/null", &device).unwrap();
    let mut writer = PacketWriter::create_in_parts(&device).unwrap();
    writer.append(&packets(10)).unwrap();
    writer.save().unwrap();
    assert!(!folder_of(&device).exists());

    let table = folder.path().join("packets.parquet");
    fs::write(folder_of(&table), "a file").unwrap();
    let mut writer = PacketWriter::create_in_parts(&table).unwrap();
    writer.append(&packets(10)).unwrap();
    writer.save().unwrap();
    writer.finish().unwrap();
    assert_eq!(read_packets(&table).unwrap().len(), 10);
    assert_eq!(fs::read(folder_of(&table)).unwrap(), b"a file");
}
