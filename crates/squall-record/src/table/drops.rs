//! The table of drops: drops.parquet.
//!
//! Only maps `DropRecord` to columns and back, its lists as JSON in text columns; docs/RECORD.md defines the columns.

use arrow_array::types::{UInt8Type, UInt32Type};
use arrow_schema::DataType::{Int64, UInt8, UInt32, Utf8};
use serde::{Deserialize, Serialize};
use squall_base::record::{Cause, Direction, DropRecord, Fate, PacketRef, Repair, Victim};
use squall_base::{Duration, Time};

use super::columns::Columns;
use super::packing::{CellWriteError, RowGroup};
use super::schema::Column;
use super::sealed::Row;
use crate::RecordError;
use crate::error::CellFault;

const COLUMNS: &[Column] = &[
    Column::delta("hop", UInt8).added(),
    Column::words("direction"),
    Column::delta("index", Int64),
    Column::delta("dropped_at_ns", Int64),
    Column::words("fate"),
    Column::delta("connection", UInt32).or_null(),
    Column::delta("stream", Int64).or_null(),
    Column::delta("start", Int64).or_null(),
    Column::delta("end", Int64).or_null(),
    Column::dictionary("carried", Utf8).or_null(),
    Column::words("repair"),
    Column::delta("repaired_at_ns", Int64).or_null(),
    Column::delta("repaired_by", Int64).or_null(),
    Column::dictionary("victims", Utf8).or_null(),
    Column::delta("victims_count", Int64).derived(),
    Column::delta("delay_ns", Int64).derived(),
];

/// A victim in its JSON form.
#[derive(Serialize, Deserialize)]
struct VictimText {
    request: u64,
    cause: String,
    delay_ns: u64,
}

/// A list as JSON; `None` if it is empty.
fn json<T: Serialize>(list: &[T]) -> Option<String> {
    // Numbers and words can always be written as JSON.
    let text = (!list.is_empty()).then(|| serde_json::to_string(list));
    text.and_then(Result::ok)
}

fn victims_text(victims: &[Victim]) -> Option<String> {
    let texts: Vec<VictimText> = victims
        .iter()
        .map(|victim| VictimText {
            request: victim.request,
            cause: victim.cause.name().to_owned(),
            delay_ns: victim.delay.as_nanos(),
        })
        .collect();
    json(&texts)
}

fn read_victims(text: Option<&str>) -> Option<Vec<Victim>> {
    let Some(text) = text else {
        return Some(Vec::new());
    };
    let texts: Vec<VictimText> = serde_json::from_str(text).ok()?;
    let victim = |text: VictimText| {
        let cause = Cause::ALL.into_iter().find(|c| c.name() == text.cause)?;
        Some(Victim {
            request: text.request,
            cause,
            delay: Duration::from_nanos(text.delay_ns),
        })
    };
    texts.into_iter().map(victim).collect()
}

fn read_carried(text: Option<&str>) -> Option<Vec<u64>> {
    text.map_or(Some(Vec::new()), |text| serde_json::from_str(text).ok())
}

/// The sum of all delays, limited to what the column can hold.
fn delay_ns(row: &DropRecord) -> u64 {
    let sum = row.victims.iter().fold(0_u64, |sum, victim| {
        sum.saturating_add(victim.delay.as_nanos())
    });
    sum.min(i64::MAX as u64)
}

impl Row for DropRecord {
    const TABLE: &'static str = "drops";

    fn columns() -> &'static [Column] {
        COLUMNS
    }

    fn encode(rows: &[Self], group: &mut RowGroup) -> Result<(), CellWriteError> {
        group.small(rows, |r| u32::from(r.packet.hop));
        group.words(rows, &Direction::ALL.map(Direction::name), |r| {
            r.packet.direction as usize
        });
        group.numbers(rows, |r| r.packet.index)?;
        group.numbers(rows, |r| r.dropped_at.as_nanos())?;
        group.words(rows, &Fate::ALL.map(Fate::name), |r| r.fate as usize);
        group.optional_small(rows, |r| r.connection);
        group.optional_numbers(rows, |r| r.stream)?;
        group.optional_numbers(rows, |r| r.start)?;
        group.optional_numbers(rows, |r| r.end)?;
        let carried: Vec<_> = rows.iter().map(|r| json(&r.carried)).collect();
        group.texts(&carried, Option::as_deref);
        group.words(rows, &Repair::ALL.map(Repair::name), |r| r.repair as usize);
        group.optional_numbers(rows, |r| r.repaired_at.map(Time::as_nanos))?;
        group.optional_numbers(rows, |r| r.repaired_by)?;
        let victims: Vec<_> = rows.iter().map(|r| victims_text(&r.victims)).collect();
        group.texts(&victims, Option::as_deref);
        group.numbers(rows, |r| r.victims.len() as u64)?;
        group.numbers(rows, delay_ns)
    }

    fn rows<'a>(columns: &'a Columns<'a>) -> Result<impl FnMut(usize) -> Self + 'a, RecordError> {
        let hop = columns.small::<UInt8Type>("hop")?;
        let direction = columns.words("direction", &Direction::ALL, Direction::name)?;
        let index = columns.counts("index")?;
        let dropped_at = columns.counts("dropped_at_ns")?;
        let fate = columns.words("fate", &Fate::ALL, Fate::name)?;
        let connection = columns.optional_small::<UInt32Type>("connection")?;
        let stream = columns.optional_counts("stream")?;
        let start = columns.optional_counts("start")?;
        let end = columns.optional_counts("end")?;
        let carried = columns.texts("carried")?;
        let repair = columns.words("repair", &Repair::ALL, Repair::name)?;
        let repaired_at = columns.optional_counts("repaired_at_ns")?;
        let repaired_by = columns.optional_counts("repaired_by")?;
        let victims = columns.texts("victims")?;
        let mut rows: Vec<Self> = Vec::with_capacity(columns.rows());
        for i in 0..columns.rows() {
            let fault = |column| columns.fault(column, i, CellFault::UnknownWord);
            rows.push(DropRecord {
                packet: PacketRef {
                    hop: hop.at(i),
                    direction: direction.at(i),
                    index: index.at(i),
                },
                dropped_at: dropped_at.at(i),
                fate: fate.at(i),
                connection: connection.at(i),
                stream: stream.at(i),
                start: start.at(i),
                end: end.at(i),
                carried: read_carried(carried[i].as_deref()).ok_or_else(|| fault("carried"))?,
                repair: repair.at(i),
                repaired_at: repaired_at.at(i),
                repaired_by: repaired_by.at(i),
                victims: read_victims(victims[i].as_deref()).ok_or_else(|| fault("victims"))?,
            });
        }
        Ok(move |i: usize| rows[i].clone())
    }
}
