//! Causes and drops are read back as they were written. The other tables are in `round_trip.rs`.

use squall_base::record::{
    Cause, CauseSpans, CausesRecord, Direction, DropRecord, Fate, Repair, Victim,
};
use squall_base::{Duration, Time};
use squall_made::packet_ref;
use squall_record::{CausesWriter, DropWriter, read_causes, read_drops};

#[test]
fn causes_round_trip() {
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("causes.parquet");
    let rows: Vec<CausesRecord> = (0..1_000)
        .map(|request| {
            let mut spans = CauseSpans::default();
            for cause in Cause::ALL {
                spans[cause] = Duration::from_nanos(request * 1_000 + cause as u64);
            }
            let direction = Direction::ALL[request as usize % 2];
            CausesRecord {
                request,
                hop: (request % 4) as u8,
                spans,
                queue_roots: spans,
                responsible: (request % 3 == 0).then(|| packet_ref(direction, request * 7)),
            }
        })
        .collect();
    let mut writer = CausesWriter::create(&path).expect("a file");
    writer.append(&rows).expect("rows are written");
    assert_eq!(writer.finish().expect("an end"), 1_000);
    assert_eq!(read_causes(&path).expect("it is read"), rows);
}

#[test]
fn drops_round_trip() {
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("drops.parquet");
    let bare = squall_made::dropped(packet_ref(Direction::Up, 3), Time::from_nanos(5));
    let full = |repair| DropRecord {
        packet: packet_ref(Direction::Down, u64::MAX >> 1),
        fate: Fate::EarlyDrop,
        connection: Some(u32::MAX),
        stream: Some(1 << 62),
        start: Some(0),
        end: Some(1_448),
        carried: vec![0, 8],
        repair,
        repaired_at: Some(Time::from_nanos(9)),
        repaired_by: Some(77),
        victims: vec![
            Victim {
                request: 8,
                cause: Cause::Loss,
                delay: Duration::from_millis(40),
            },
            Victim {
                request: 9,
                cause: Cause::Hol,
                delay: Duration::from_nanos(1),
            },
        ],
        ..bare.clone()
    };
    let mut rows: Vec<DropRecord> = Repair::ALL.into_iter().map(full).collect();
    rows.push(bare.clone());
    let mut writer = DropWriter::create(&path).expect("a file");
    writer.append(&rows).expect("rows are written");
    writer.finish().expect("an end");
    assert_eq!(read_drops(&path).expect("it is read"), rows);
}
