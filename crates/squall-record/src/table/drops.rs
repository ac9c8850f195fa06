//! The table of drops: drops.parquet.
//!
//! Only declares the columns of `DropRecord`, two of which are lists as JSON; docs/RECORD.md defines them.

use std::cell::Cell;

use arrow_schema::DataType;
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};
use squall_base::record::{Cause, Direction, DropRecord, Fate, PacketRef, Repair, Victim};
use squall_base::{Duration, Time};

use super::cell::{ColumnResult, EncodeResult, ReadCell, WriteCell, table};
use super::columns::Columns;
use super::packing::RowGroup;
use crate::error::CellFault;

/// A victim in its JSON form.
#[derive(Serialize, Deserialize)]
struct VictimText {
    request: u64,
    cause: String,
    delay_ns: u64,
}

/// A list that a column stores as JSON; null if it is empty.
struct List<T>(Vec<T>);

/// An element of a list, and its JSON form.
trait Element: Clone {
    type Text: Serialize + DeserializeOwned;

    fn to_text(&self) -> Self::Text;

    /// `None` if there is no such element.
    fn from_text(text: Self::Text) -> Option<Self>;
}

impl Element for u64 {
    type Text = u64;

    fn to_text(&self) -> u64 {
        *self
    }

    fn from_text(number: u64) -> Option<u64> {
        Some(number)
    }
}

impl Element for Victim {
    type Text = VictimText;

    fn to_text(&self) -> VictimText {
        VictimText {
            request: self.request,
            cause: self.cause.name().to_owned(),
            delay_ns: self.delay.as_nanos(),
        }
    }

    fn from_text(text: VictimText) -> Option<Victim> {
        let cause = Cause::from_name(&text.cause)?;
        Some(Victim {
            request: text.request,
            cause,
            delay: Duration::from_nanos(text.delay_ns),
        })
    }
}

impl<T: Element> WriteCell for List<T> {
    const TYPE: DataType = DataType::Utf8;
    const IS_NULLABLE: bool = true;

    fn encode<R>(rows: &[R], group: &mut RowGroup, cell: impl Fn(&R) -> Self) -> EncodeResult {
        Option::<String>::encode(rows, group, |row| {
            let texts: Vec<T::Text> = cell(row).0.iter().map(T::to_text).collect();
            // Numbers and words can always be written as JSON.
            let json = (!texts.is_empty()).then(|| serde_json::to_string(&texts));
            json.and_then(Result::ok)
        })
    }
}

impl<T: Element> ReadCell for List<T> {
    type Column<'a> = Vec<Cell<Vec<T>>>;

    fn open<'a>(columns: &'a Columns<'a>, name: &'static str) -> ColumnResult<'a, Self> {
        let list = |(row, json): (usize, Option<String>)| {
            let Some(json) = json else {
                return Ok(Cell::default());
            };
            let texts: Option<Vec<T::Text>> = serde_json::from_str(&json).ok();
            let list = texts.and_then(|texts| texts.into_iter().map(T::from_text).collect());
            let fault = || columns.fault(name, row, CellFault::UnknownWord);
            list.map(Cell::new).ok_or_else(fault)
        };
        let texts = columns.texts(name)?;
        texts.into_iter().enumerate().map(list).collect()
    }

    fn at(column: &Self::Column<'_>, row: usize) -> Self {
        List(column[row].take())
    }

    fn absent() -> Self {
        List(Vec::new())
    }
}

/// The sum of all delays, limited to what the column can hold.
fn delay_ns(row: &DropRecord) -> u64 {
    let sum = row.victims.iter().fold(0_u64, |sum, victim| {
        sum.saturating_add(victim.delay.as_nanos())
    });
    sum.min(i64::MAX as u64)
}

table! {
    "drops" of row: DropRecord {
        Added {
            hop: u8 = row.packet.hop, Delta "hop";
        }
        Stored {
            direction: Direction = row.packet.direction, Words "direction";
            index: u64 = row.packet.index, Delta "index";
            dropped_at: Time = row.dropped_at, Delta "dropped_at_ns";
            fate: Fate = row.fate, Words "fate";
            connection: Option<u32> = row.connection, Delta "connection";
            stream: Option<u64> = row.stream, Delta "stream";
            start: Option<u64> = row.start, Delta "start";
            end: Option<u64> = row.end, Delta "end";
            carried: List<u64> = List(row.carried.clone()), Dictionary "carried";
            repair: Repair = row.repair, Words "repair";
            repaired_at: Option<Time> = row.repaired_at, Delta "repaired_at_ns";
            repaired_by: Option<u64> = row.repaired_by, Delta "repaired_by";
            victims: List<Victim> = List(row.victims.clone()), Dictionary "victims";
        }
        Derived {
            victims_count: u64 = row.victims.len() as u64, Delta "victims_count";
            delay: u64 = delay_ns(row), Delta "delay_ns";
        }
    }
    => DropRecord {
        packet: PacketRef { hop, direction, index },
        dropped_at, fate, connection, stream, start, end,
        carried: carried.0,
        repair, repaired_at, repaired_by,
        victims: victims.0,
    }
}
