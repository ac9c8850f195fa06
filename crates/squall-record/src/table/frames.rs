//! The table of frames: frames.parquet.
//!
//! Only how a `FrameRecord` becomes columns; what the columns mean is in docs/RECORD.md.

use arrow_array::ArrayRef;
use arrow_array::types::{UInt8Type, UInt32Type};
use arrow_schema::DataType::{Int64, UInt8, UInt32};
use squall_base::record::{FrameFacts, FrameLayer, FrameRecord, Side, Way, frame_name};

use super::columns::{
    CellWriteError, Columns, numbers, optional_numbers, optional_signed, optional_words, small,
    words,
};
use super::schema::Column;
use super::sealed::Row;
use crate::RecordError;

const COLUMNS: &[Column] = &[
    Column::delta("time_ns", Int64),
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

impl Row for FrameRecord {
    const TABLE: &'static str = "frames";

    fn columns() -> &'static [Column] {
        COLUMNS
    }

    fn encode(rows: &[Self]) -> Result<Vec<ArrayRef>, CellWriteError> {
        Ok(vec![
            numbers("time_ns", rows, |r| r.time.as_nanos())?,
            words(rows, &Side::ALL.map(Side::name), |r| r.side as usize),
            small::<_, UInt32Type>(rows, |r| r.connection),
            words(rows, &Way::ALL.map(Way::name), |r| r.frame.way as usize),
            words(rows, &FrameLayer::ALL.map(FrameLayer::name), |r| {
                r.frame.layer as usize
            }),
            numbers("kind", rows, |r| r.frame.kind)?,
            optional_words(rows, |r| frame_name(r.frame.layer, r.frame.kind)),
            small::<_, UInt8Type>(rows, |r| r.frame.flags),
            optional_numbers("stream", rows, |r| r.frame.stream)?,
            optional_numbers("offset", rows, |r| r.frame.offset)?,
            numbers("length_bytes", rows, |r| r.frame.length)?,
            optional_numbers("packet", rows, |r| r.frame.packet)?,
            optional_numbers("value", rows, |r| r.frame.value)?,
            optional_signed(rows, |r| r.frame.stream_window),
            optional_signed(rows, |r| r.frame.connection_window),
        ])
    }

    fn decode(columns: &Columns<'_>, rows: &mut Vec<Self>) -> Result<(), RecordError> {
        let time = columns.times("time_ns")?;
        let side = columns.words("side", |word| {
            Side::ALL.into_iter().find(|s| s.name() == word)
        })?;
        let connection = columns.small::<UInt32Type>("connection")?;
        let way = columns.words("way", |word| {
            Way::ALL.into_iter().find(|w| w.name() == word)
        })?;
        let layer = columns.words("layer", |word| {
            FrameLayer::ALL.into_iter().find(|l| l.name() == word)
        })?;
        let kind = columns.counts("kind")?;
        let flags = columns.small::<UInt8Type>("flags")?;
        let stream = columns.optional_counts("stream")?;
        let offset = columns.optional_counts("offset")?;
        let length = columns.counts("length_bytes")?;
        let packet = columns.optional_counts("packet")?;
        let value = columns.optional_counts("value")?;
        let stream_window = columns.optional_signed("stream_window")?;
        let connection_window = columns.optional_signed("connection_window")?;
        rows.extend((0..time.len()).map(|i| FrameRecord {
            time: time[i],
            side: side[i],
            connection: connection[i],
            frame: FrameFacts {
                way: way[i],
                layer: layer[i],
                kind: kind[i],
                flags: flags[i],
                stream: stream[i],
                offset: offset[i],
                length: length[i],
                packet: packet[i],
                value: value[i],
                stream_window: stream_window[i],
                connection_window: connection_window[i],
            },
        }));
        Ok(())
    }
}
