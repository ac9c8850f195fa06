//! The table of frames: frames.parquet.
//!
//! Only maps `FrameRecord` to columns and back; docs/RECORD.md defines the columns.

use arrow_array::types::{UInt8Type, UInt32Type};
use arrow_schema::DataType::{Int64, UInt8, UInt32};
use squall_base::record::{FrameFacts, FrameLayer, FrameRecord, Side, Way, frame_name};

use super::columns::{Columns, RequiredColumn, WordColumn};
use super::packing::{CellWriteError, RowGroup};
use super::schema::Column;
use super::sealed::Row;
use crate::RecordError;

const COLUMNS: &[Column] = &[
    Column::delta("time_ns", Int64),
    Column::delta("hop", UInt8),
    Column::words("side"),
    Column::delta("connection", UInt32),
    Column::words("way"),
    Column::words("layer"),
    Column::delta("kind", Int64),
    Column::words("name").or_null().derived(),
    Column::delta("flags", UInt8),
    Column::delta("stream", Int64).or_null(),
    Column::delta("offset", Int64).or_null(),
    Column::delta("length_bytes", Int64),
    Column::delta("packet", Int64).or_null(),
    Column::delta("value", Int64).or_null(),
    Column::delta("stream_window", Int64).or_null(),
    Column::delta("connection_window", Int64).or_null(),
];

/// Frame types of a layer that are found by index; the few named types above are searched for.
const LOW_KINDS: usize = 0x40;
/// The number of names that are found by index.
const LOW_NAMES: usize = FrameLayer::ALL.len() * LOW_KINDS;
/// The only named type above (RFC 9218, section 7.2).
const HIGH_NAME: (FrameLayer, u64) = (FrameLayer::Http3, 0xf_0700);

/// The names by number: the types of each layer follow those of the layer before.
const NAMES: [Option<&str>; LOW_NAMES + 1] = {
    let mut names = [None; LOW_NAMES + 1];
    let mut number = 0;
    while number < LOW_NAMES {
        let layer = FrameLayer::ALL[number / LOW_KINDS];
        names[number] = frame_name(layer, (number % LOW_KINDS) as u64);
        number += 1;
    }
    names[LOW_NAMES] = frame_name(HIGH_NAME.0, HIGH_NAME.1);
    names
};

/// The number of a frame's name, without comparing texts; `None` if it has no name.
fn number_of_name(&(layer, kind): &(FrameLayer, u64)) -> Option<u8> {
    let number = if kind < LOW_KINDS as u64 {
        layer as usize * LOW_KINDS + kind as usize
    } else if (layer, kind) == HIGH_NAME {
        LOW_NAMES
    } else {
        return None;
    };
    NAMES[number].map(|_| number as u8)
}

fn name_of_number(number: u8) -> &'static str {
    NAMES[usize::from(number)].expect("only names have numbers")
}

impl Row for FrameRecord {
    const TABLE: &'static str = "frames";

    fn columns() -> &'static [Column] {
        COLUMNS
    }

    fn encode(rows: &[Self], group: &mut RowGroup) -> Result<(), CellWriteError> {
        group.numbers(rows, |r| r.time.as_nanos())?;
        group.small(rows, |r| u32::from(r.hop));
        group.words(rows, &Side::ALL.map(Side::name), |r| r.side as usize);
        group.small(rows, |r| r.connection);
        group.words(rows, &Way::ALL.map(Way::name), |r| r.frame.way as usize);
        group.words(rows, &FrameLayer::ALL.map(FrameLayer::name), |r| {
            r.frame.layer as usize
        });
        group.numbers(rows, |r| r.frame.kind)?;
        group.optional_words(
            rows,
            |r| (r.frame.layer, r.frame.kind),
            number_of_name,
            name_of_number,
        );
        group.small(rows, |r| u32::from(r.frame.flags));
        group.optional_numbers(rows, |r| r.frame.stream)?;
        group.optional_numbers(rows, |r| r.frame.offset)?;
        group.numbers(rows, |r| r.frame.length)?;
        group.optional_numbers(rows, |r| r.frame.packet)?;
        group.optional_numbers(rows, |r| r.frame.value)?;
        group.optional_signed(rows, |r| r.frame.stream_window);
        group.optional_signed(rows, |r| r.frame.connection_window);
        Ok(())
    }

    fn rows<'a>(columns: &'a Columns<'a>) -> Result<impl FnMut(usize) -> Self + 'a, RecordError> {
        let time = columns.counts("time_ns")?;
        let hop = columns.small::<UInt8Type>("hop")?;
        let side = columns.words("side", &Side::ALL, Side::name)?;
        let connection = columns.small::<UInt32Type>("connection")?;
        let kinds = Kinds::of(columns)?;
        let flags = columns.small::<UInt8Type>("flags")?;
        let stream = columns.optional_counts("stream")?;
        let offset = columns.optional_counts("offset")?;
        let length = columns.counts("length_bytes")?;
        let packet = columns.optional_counts("packet")?;
        let value = columns.optional_counts("value")?;
        let stream_window = columns.optional_signed("stream_window")?;
        let connection_window = columns.optional_signed("connection_window")?;
        Ok(move |i| {
            let (way, layer, kind) = kinds.at(i);
            FrameRecord {
                time: time.at(i),
                hop: hop.at(i),
                side: side.at(i),
                connection: connection.at(i),
                frame: FrameFacts {
                    way,
                    layer,
                    kind,
                    flags: flags.at(i),
                    stream: stream.at(i),
                    offset: offset.at(i),
                    length: length.at(i),
                    packet: packet.at(i),
                    value: value.at(i),
                    stream_window: stream_window.at(i),
                    connection_window: connection_window.at(i),
                },
            }
        })
    }
}

/// The columns by which a reader selects frames: direction, layer and type.
pub(super) struct Kinds<'a> {
    way: WordColumn<'a, Way>,
    layer: WordColumn<'a, FrameLayer>,
    kind: RequiredColumn<'a, i64, u64>,
}

impl<'a> Kinds<'a> {
    pub(super) fn of(columns: &Columns<'a>) -> Result<Kinds<'a>, RecordError> {
        Ok(Kinds {
            way: columns.words("way", &Way::ALL, Way::name)?,
            layer: columns.words("layer", &FrameLayer::ALL, FrameLayer::name)?,
            kind: columns.counts("kind")?,
        })
    }

    /// The three cells of a row.
    pub(super) fn at(&self, row: usize) -> (Way, FrameLayer, u64) {
        (self.way.at(row), self.layer.at(row), self.kind.at(row))
    }
}
