//! Tables whose metadata claim more rows than they have.
//!
//! Damaged pages and cells are in foreign_bytes.rs.

use std::fs::{self, File};
use std::path::Path;

use parquet::file::metadata::{
    ParquetMetaData, ParquetMetaDataReader, ParquetMetaDataWriter, RowGroupMetaData,
};
use squall_base::record::PacketRecord;
use squall_record::{PacketWriter, RecordError, Rows, read_packets};

use crate::common::packet_number;

const ROWS: u32 = 10;

/// Replaces the footer of a table: each of its row groups claims this many rows.
fn claim(path: &Path, rows: i64) {
    let bytes = fs::read(path).expect("a table");
    let file = File::open(path).expect("a table");
    let metadata: ParquetMetaData = ParquetMetaDataReader::new()
        .parse_and_finish(&file)
        .expect("a table");
    let claiming = |group: &RowGroupMetaData| {
        let builder = group.clone().into_builder().set_num_rows(rows);
        builder.build().expect("a table")
    };
    let groups = metadata.row_groups().iter().map(claiming).collect();
    let metadata = metadata.into_builder().set_row_groups(groups).build();
    // A file ends with its footer, the footer's length in four bytes, and "PAR1".
    let (rest, length) = bytes[..bytes.len() - 4]
        .split_last_chunk::<4>()
        .expect("a table");
    let footer_bytes = u32::from_le_bytes(*length) as usize;
    let mut forged = rest[..rest.len() - footer_bytes].to_vec();
    ParquetMetaDataWriter::new(&mut forged, &metadata)
        .finish()
        .expect("a table");
    fs::write(path, forged).expect("a table");
}

#[test]
fn table_that_claims_too_many_rows_is_refused_before_memory_is_allocated() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("packets.parquet");
    let rows: Vec<_> = (0..ROWS).map(packet_number).collect();
    let mut writer = PacketWriter::create(&path).unwrap();
    writer.append(&rows).unwrap();
    assert_eq!(writer.finish().unwrap(), u64::from(ROWS));
    // A forged footer with the true number changes nothing.
    claim(&path, i64::from(ROWS));
    assert_eq!(read_packets(&path).unwrap(), rows);

    // More rows than fit into any machine's memory.
    let claimed = 1_u64 << 45;
    claim(&path, 1 << 45);
    match read_packets(&path) {
        Err(RecordError::TooManyRows {
            path: named,
            rows,
            needed_bytes,
            available_bytes,
        }) => {
            assert_eq!((named, rows), (path.clone(), claimed));
            assert!(needed_bytes >= 8 * claimed, "{needed_bytes}");
            assert!(available_bytes > 0 && available_bytes < needed_bytes);
        }
        other => panic!("{other:?}"),
    }
    let said = read_packets(&path).unwrap_err().to_string();
    assert!(
        said.contains("packets.parquet has 35184372088832 rows"),
        "{said}"
    );
    // A reader of single rows allocates nothing for rows that are only claimed.
    assert!(Rows::<PacketRecord>::open(&path).is_ok());
}
