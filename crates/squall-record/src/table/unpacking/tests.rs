//! Compares this decoder with the parquet crate, on our own pages, intact and corrupted.

use std::fs::File;
use std::panic::{AssertUnwindSafe, catch_unwind};

use parquet::arrow::ArrowWriter;
use parquet::basic::{Compression, ZstdLevel};
use parquet::file::properties::{WriterProperties, WriterVersion};
use parquet::file::reader::{FileReader as _, SerializedFileReader};
use parquet::schema::types::ColumnDescPtr;
use proptest::collection::vec;
use proptest::prelude::*;
use squall_base::record::{Direction, Fate, PacketClass, PacketRecord};
use squall_base::{Duration, Time};

use arrow_array::{Array as _, Int64Array, RecordBatch};

use super::*;
use crate::PacketWriter;

/// A page with the descriptor of its column.
type Described = (Page, ColumnDescPtr);

/// A page reader that returns a single page.
struct Once(Option<Page>);

impl Iterator for Once {
    type Item = Result<Page, ParquetError>;

    fn next(&mut self) -> Option<Self::Item> {
        self.0.take().map(Ok)
    }
}

impl parquet::column::page::PageReader for Once {
    fn get_next_page(&mut self) -> Result<Option<Page>, ParquetError> {
        Ok(self.0.take())
    }

    fn peek_next_page(
        &mut self,
    ) -> Result<Option<parquet::column::page::PageMetadata>, ParquetError> {
        Ok(None)
    }

    fn skip_next_page(&mut self) -> Result<(), ParquetError> {
        self.0 = None;
        Ok(())
    }
}

fn packet(wide: u64, maybe: Option<u64>, narrow: u32) -> PacketRecord {
    PacketRecord {
        hop: 1,
        index: wide >> 1,
        direction: Direction::Up,
        flow: 0,
        client_port: 0,
        class: PacketClass::Data,
        class_index: narrow,
        length: 0,
        protocol: 0,
        seq: narrow,
        ack: 0,
        payload_len: 0,
        tcp_flags: 0,
        window_bytes: 1 << 20,
        arrived: Time::from_nanos(wide >> 1),
        queue_bytes: 0,
        queueing: Duration::ZERO,
        served: maybe.map(|nanos| Time::from_nanos(nanos >> 1)),
        planned: None,
        released: Some(Time::from_nanos(wide >> 2)),
        fate: Fate::Delivered,
        dropped_in: 0,
        is_marked: false,
        is_corrupted: false,
        is_copy: false,
    }
}

/// The pages of some columns of one of our tables: the 64-bit columns and the 32-bit ones.
fn pages(rows: &[PacketRecord]) -> (Vec<Described>, Vec<Described>) {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("packets.parquet");
    let mut writer = PacketWriter::create(&path).unwrap();
    writer.append(rows).unwrap();
    writer.finish().unwrap();
    let file = SerializedFileReader::new(File::open(&path).unwrap()).unwrap();
    let group = file.get_row_group(0).unwrap();
    let of = |names: &[&str]| {
        let page = |name: &&str| {
            let columns = group.metadata().columns();
            let place = columns
                .iter()
                .position(|c| c.column_path().parts() == [*name]);
            let mut pages = group.get_column_page_reader(place.unwrap()).unwrap();
            let page = pages.get_next_page().unwrap().unwrap();
            (page, columns[place.unwrap()].column_descr_ptr())
        };
        names.iter().map(page).collect()
    };
    (
        of(&[
            "index",
            "arrived_ns",
            "served_ns",
            "planned_ns",
            "released_ns",
        ]),
        of(&["seq", "class_index"]),
    )
}

fn altered(page: &Page, changes: &[(prop::sample::Index, u8)]) -> Page {
    let mut page = page.clone();
    let Page::DataPage { buf, .. } = &mut page else {
        panic!("our pages are of version 1");
    };
    let mut bytes = buf.to_vec();
    for (place, byte) in changes {
        let at = place.index(bytes.len());
        bytes[at] = *byte;
    }
    *buf = bytes.into();
    page
}

/// Cells as a list of numbers and nulls.
fn list<N: Number>(cells: Cells<N>) -> Vec<Option<N>> {
    let present = cells.present;
    if let Some(present) = &present {
        assert_eq!(present.len(), cells.numbers.len());
    }
    let is_there = |place| {
        present
            .as_ref()
            .is_none_or(|present| present.get_bit(place))
    };
    let numbers = cells.numbers.into_iter().enumerate();
    numbers
        .map(|(place, number)| is_there(place).then_some(number))
        .collect()
}

fn no_cells<N>() -> Cells<N> {
    Cells {
        numbers: Vec::new(),
        present: None,
    }
}

/// Decodes a page with our decoder, in pieces; `None` if it refuses.
fn by_us<W: Width>(
    (page, column): &Described,
    rows: usize,
    piece: usize,
) -> Option<Vec<Option<Native<W>>>> {
    let mut page = PackedPage::of(page.clone(), column.max_def_level() > 0)?;
    let mut cells = no_cells();
    let mut remaining = rows;
    while remaining > 0 {
        let count = remaining.min(piece);
        page.take(count, &mut cells)?;
        remaining -= count;
    }
    Some(list(cells))
}

/// Decodes a page with the parquet crate.
fn by_them<W: Width>((page, column): &Described, rows: usize) -> Option<Vec<Option<Native<W>>>> {
    let read = || {
        let reader = get_column_reader(Arc::clone(column), Box::new(Once(Some(page.clone()))));
        let mut fallback: ColumnReaderImpl<W::Parquet> = get_typed_column_reader(reader);
        let mut cells = no_cells();
        take_from_fallback::<W>(&mut fallback, rows, &mut cells).ok()?;
        Some(list(cells))
    };
    catch_unwind(AssertUnwindSafe(read)).ok()?
}

/// Checks that our decoder, if it accepts a page, returns what the parquet crate returns. Returns whether it accepts.
fn check<W: Width>(page: &Described, rows: usize, piece: usize) -> bool
where
    Native<W>: PartialEq + std::fmt::Debug,
{
    let ours = by_us::<W>(page, rows, piece);
    if ours.is_some() {
        assert_eq!(ours, by_them::<W>(page, rows));
    }
    ours.is_some()
}

/// Numbers of any width, close to each other or not.
fn number() -> impl Strategy<Value = u64> {
    prop_oneof![
        Just(7_u64),
        0..100_u64,
        (any::<u64>(), 0..64_u32).prop_map(|(number, bits)| number >> bits),
    ]
}

fn some_rows() -> impl Strategy<Value = Vec<PacketRecord>> {
    let row = (number(), proptest::option::of(number()), number())
        .prop_map(|(wide, maybe, narrow)| packet(wide, maybe, narrow as u32));
    let runs = vec((row, 1..90_usize), 1..12);
    runs.prop_map(|runs| {
        let runs = runs.into_iter().enumerate();
        let all = runs.flat_map(|(n, (row, count))| {
            // Steps of one size, or no steps at all.
            let step = u64::from(n % 3 > 0) * n as u64;
            (0..count as u64).map(move |i| PacketRecord {
                arrived: Time::from_nanos(row.arrived.as_nanos() ^ (i * step)),
                seq: row.seq.wrapping_add((i * step) as u32),
                ..row
            })
        });
        all.collect()
    })
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(300))]

    #[test]
    fn our_pages_are_decoded_here(rows in some_rows(), piece in 1..200_usize) {
        let (wide, narrow) = pages(&rows);
        let count = rows.len();
        assert!(wide.iter().all(|page| check::<Wide>(page, count, piece)));
        assert!(narrow.iter().all(|page| check::<Narrow>(page, count, piece)));
        let arrived = by_us::<Wide>(&wide[1], count, piece).unwrap();
        assert!(arrived.iter().zip(&rows).all(|(cell, row)| {
            *cell == Some(row.arrived.as_nanos().cast_signed())
        }));
    }

    /// A page that does not look like ours is left to the parquet crate; for any other, both decoders agree.
    #[test]
    fn corrupted_pages_decode_as_in_the_parquet_crate(
        rows in some_rows(),
        changes in vec((any::<prop::sample::Index>(), any::<u8>()), 1..5),
        piece in 1..200_usize,
    ) {
        let (wide, narrow) = pages(&rows);
        let count = rows.len();
        for (page, column) in wide {
            let front = [(changes[0].0, changes[0].1)];
            for changes in [&changes[..], &front] {
                check::<Wide>(&(altered(&page, changes), Arc::clone(&column)), count, piece);
            }
        }
        for (page, column) in narrow {
            check::<Narrow>(&(altered(&page, &changes), column), count, piece);
        }
    }
}

/// Found by the test above: a count of 2^63 + 2 numbers, negative as a signed number.
#[test]
fn negative_count_is_refused() {
    let header = |last: u8| {
        let count = [0x82, 0x80, 0x80, 0x80, 0x80, 0x80, 0x80, 0x80, last];
        let bytes = [&[0x80, 2, 4][..], &count, &[1, 0]].concat();
        Deltas::<i64>::of(bytes.into()).is_some()
    };
    // The ninth byte of the count ends it, or is followed by a tenth.
    assert!(header(0x01));
    assert!(!header(0x80));
}

/// Every width has its own specialized function.
#[test]
fn numbers_of_every_width_round_trip() {
    for bits in 0..64 {
        let number = |i: u64| (i.wrapping_mul(0x9e37_79b9_7f4a_7c15)) >> (63 - bits);
        let rows: Vec<PacketRecord> = (0..700)
            .map(|i| packet(number(i), (i % 5 > 0).then(|| number(i)), number(i) as u32))
            .collect();
        let (wide, narrow) = pages(&rows);
        assert!(wide.iter().all(|page| check::<Wide>(page, 700, 100)));
        assert!(narrow.iter().all(|page| check::<Narrow>(page, 700, 4_096)));
    }
}

/// Pages of other writers and of older records: several pages in a chunk, version 2, other block sizes, plain values
/// after delta-encoded ones, zstd compression.
#[test]
fn columns_of_other_writers_are_read() {
    let cells: Vec<Option<i64>> = (0..3_000).map(|i| (i % 7 > 0).then_some(i * i)).collect();
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("theirs.parquet");
    for (version, compression) in [
        (WriterVersion::PARQUET_1_0, Compression::UNCOMPRESSED),
        (
            WriterVersion::PARQUET_1_0,
            Compression::ZSTD(ZstdLevel::default()),
        ),
        (WriterVersion::PARQUET_2_0, Compression::UNCOMPRESSED),
        (WriterVersion::PARQUET_2_0, Compression::LZ4_RAW),
    ] {
        for (page_rows, group_rows) in [(20_000, 1_024), (100, 1_024), (20_000, 5_000)] {
            let properties = WriterProperties::builder()
                .set_writer_version(version)
                .set_compression(compression)
                .set_dictionary_enabled(false)
                .set_encoding(Encoding::DELTA_BINARY_PACKED)
                .set_data_page_row_count_limit(page_rows)
                .set_write_batch_size(50)
                .set_max_row_group_row_count(Some(group_rows))
                .build();
            let array: ArrayRef = Arc::new(Int64Array::from(cells.clone()));
            let batch = RecordBatch::try_from_iter([("column", array)]).unwrap();
            let file = File::create(&path).unwrap();
            let mut writer = ArrowWriter::try_new(file, batch.schema(), Some(properties)).unwrap();
            writer.write(&batch).unwrap();
            writer.close().unwrap();

            let file = Arc::new(PositionedFile::new(File::open(&path).unwrap()));
            let metadata = SerializedFileReader::new(file.as_ref().clone()).unwrap();
            let metadata = Arc::new(metadata.metadata().clone());
            let mut column = Numbers::of(&file, &metadata, "column", &DataType::Int64).unwrap();
            let mut read = Vec::new();
            for rows in [1, 700, 1_000, 1_299] {
                assert!(column.end().is_err());
                let array = column.next(rows).unwrap();
                let array = array.as_any().downcast_ref::<Int64Array>().unwrap();
                read.extend(array.iter());
            }
            assert_eq!(read, cells);
            column.end().unwrap();
            assert!(column.next(1).is_err());
        }
    }
}

/// All cells of a column, read the way the table reader does.
fn column(path: &std::path::Path, name: &str, rows: usize) -> Option<Vec<Option<i64>>> {
    let read = || {
        let file = Arc::new(PositionedFile::new(File::open(path).unwrap()));
        let reader = SerializedFileReader::new(file.as_ref().clone()).ok()?;
        let metadata = Arc::new(reader.metadata().clone());
        let mut column = Numbers::of(&file, &metadata, name, &DataType::Int64)?;
        let mut read = Vec::new();
        for piece in (0..rows).step_by(4_096) {
            let array = column.next(4_096.min(rows - piece)).ok()?;
            let array = array.as_any().downcast_ref::<Int64Array>().unwrap();
            read.extend(array.iter());
        }
        column.end().ok()?;
        Some(read)
    };
    catch_unwind(AssertUnwindSafe(read)).ok()?
}

/// All cells of a column, read by the parquet crate.
fn column_by_them(path: &std::path::Path, name: &str, rows: usize) -> Option<Vec<Option<i64>>> {
    let read = || {
        let reader = SerializedFileReader::new(File::open(path).unwrap()).ok()?;
        let group = reader.get_row_group(0).unwrap();
        let columns = group.metadata().columns();
        let place = columns
            .iter()
            .position(|c| c.column_path().parts() == [name]);
        let reader = group.get_column_reader(place.unwrap()).ok()?;
        let mut fallback: ColumnReaderImpl<data_type::Int64Type> = get_typed_column_reader(reader);
        let mut cells = no_cells();
        take_from_fallback::<Wide>(&mut fallback, rows, &mut cells).ok()?;
        Some(list(cells))
    };
    catch_unwind(AssertUnwindSafe(read)).ok()?
}

/// A fault in a later page of a chunk is detected there, and the cells read before it stay valid.
#[test]
fn corrupted_chunks_of_several_pages_decode_as_in_the_parquet_crate() {
    const ROWS: usize = 50_000;
    let mixed = |i: u64| i.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 20;
    let rows: Vec<PacketRecord> = (0..ROWS as u64)
        .map(|i| packet(mixed(i), (i % 5 > 0).then(|| mixed(i)), i as u32))
        .collect();
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("packets.parquet");
    let mut writer = PacketWriter::create(&path).unwrap();
    writer.append(&rows).unwrap();
    writer.finish().unwrap();
    let sound = std::fs::read(&path).unwrap();
    let reader = SerializedFileReader::new(File::open(&path).unwrap()).unwrap();
    let (mut read, mut refused) = (0, 0);
    for (name, cell) in [
        (
            "arrived_ns",
            (|row| Some(row.arrived)) as fn(&PacketRecord) -> Option<Time>,
        ),
        ("served_ns", |row| row.served),
    ] {
        let cells: Vec<_> = (rows.iter())
            .map(|row| cell(row).map(|time| time.as_nanos().cast_signed()))
            .collect();
        std::fs::write(&path, &sound).unwrap();
        assert!(column(&path, name, ROWS) == Some(cells));
        let columns = reader.metadata().row_group(0).columns();
        let chunk = columns.iter().find(|c| c.column_path().parts() == [name]);
        let (start, length) = chunk.unwrap().byte_range();
        // Corrupts bytes across the chunk, and a dense range of them so that page headers are hit too.
        for at in (0..length).step_by(997).chain(length / 4..length / 4 + 60) {
            let mut altered = sound.clone();
            altered[(start + at) as usize] ^= 0x55;
            std::fs::write(&path, &altered).unwrap();
            let ours = column(&path, name, ROWS);
            assert!(
                ours == column_by_them(&path, name, ROWS),
                "{name}, byte {at}"
            );
            match ours {
                Some(_) => read += 1,
                None => refused += 1,
            }
        }
    }
    assert!(read > 0 && refused > 0, "{read} read, {refused} refused");
}
