//! The table of packets: packets.parquet.
//!
//! Only maps `PacketRecord` to columns and back; docs/RECORD.md defines the columns.

use arrow_array::types::{UInt8Type, UInt16Type, UInt32Type};
use arrow_schema::DataType::{Boolean, Int64, UInt8, UInt16, UInt32};
use squall_base::record::{Direction, Fate, PacketClass, PacketRecord};
use squall_base::{Duration, Time};

use super::columns::Columns;
use super::packing::{CellWriteError, RowGroup};
use super::schema::Column;
use super::sealed::Row;
use crate::RecordError;

const COLUMNS: &[Column] = &[
    Column::delta("hop", UInt8).added(),
    Column::delta("index", Int64),
    Column::words("direction"),
    Column::dictionary("flow", UInt32),
    Column::dictionary("client_port", UInt16),
    Column::words("class"),
    Column::delta("class_index", UInt32),
    Column::dictionary("length_bytes", UInt16),
    Column::dictionary("protocol", UInt8),
    Column::delta("seq", UInt32),
    Column::delta("ack", UInt32),
    Column::dictionary("payload_bytes", UInt16),
    Column::dictionary("tcp_flags", UInt8),
    Column::delta("window_bytes", UInt32),
    Column::delta("arrived_ns", Int64),
    Column::dictionary("queue_bytes", UInt32),
    Column::delta("queueing_ns", Int64),
    Column::delta("served_ns", Int64).or_null(),
    Column::delta("planned_ns", Int64).or_null(),
    Column::delta("released_ns", Int64).or_null(),
    Column::words("fate"),
    Column::dictionary("dropped_in", UInt8),
    Column::dictionary("marked", Boolean),
    Column::dictionary("corrupted", Boolean),
    Column::dictionary("copy", Boolean),
];

impl Row for PacketRecord {
    const TABLE: &'static str = "packets";

    fn columns() -> &'static [Column] {
        COLUMNS
    }

    fn encode(rows: &[Self], group: &mut RowGroup) -> Result<(), CellWriteError> {
        group.small(rows, |p| u32::from(p.hop));
        group.numbers(rows, |p| p.index)?;
        group.words(rows, &Direction::ALL.map(Direction::name), |p| {
            p.direction as usize
        });
        group.small(rows, |p| p.flow);
        group.small(rows, |p| u32::from(p.client_port));
        group.words(rows, &PacketClass::ALL.map(PacketClass::name), |p| {
            p.class as usize
        });
        group.small(rows, |p| p.class_index);
        group.small(rows, |p| u32::from(p.length));
        group.small(rows, |p| u32::from(p.protocol));
        group.small(rows, |p| p.seq);
        group.small(rows, |p| p.ack);
        group.small(rows, |p| u32::from(p.payload_len));
        group.small(rows, |p| u32::from(p.tcp_flags));
        group.small(rows, |p| p.window_bytes);
        group.numbers(rows, |p| p.arrived.as_nanos())?;
        group.small(rows, |p| p.queue_bytes);
        group.numbers(rows, |p| p.queueing.as_nanos())?;
        group.optional_numbers(rows, |p| p.served.map(Time::as_nanos))?;
        group.optional_numbers(rows, |p| p.planned.map(Time::as_nanos))?;
        group.optional_numbers(rows, |p| p.released.map(Time::as_nanos))?;
        group.words(rows, &Fate::ALL.map(Fate::name), |p| p.fate as usize);
        group.small(rows, |p| u32::from(p.dropped_in));
        group.flags(rows, |p| p.is_marked);
        group.flags(rows, |p| p.is_corrupted);
        group.flags(rows, |p| p.is_copy);
        Ok(())
    }

    fn rows<'a>(columns: &'a Columns<'a>) -> Result<impl FnMut(usize) -> Self + 'a, RecordError> {
        let hop = columns.small::<UInt8Type>("hop")?;
        let index = columns.counts("index")?;
        let direction = columns.words("direction", &Direction::ALL, Direction::name)?;
        let flow = columns.small::<UInt32Type>("flow")?;
        let client_port = columns.small::<UInt16Type>("client_port")?;
        let class = columns.words("class", &PacketClass::ALL, PacketClass::name)?;
        let class_index = columns.small::<UInt32Type>("class_index")?;
        let length = columns.small::<UInt16Type>("length_bytes")?;
        let protocol = columns.small::<UInt8Type>("protocol")?;
        let seq = columns.small::<UInt32Type>("seq")?;
        let ack = columns.small::<UInt32Type>("ack")?;
        let payload_len = columns.small::<UInt16Type>("payload_bytes")?;
        let tcp_flags = columns.small::<UInt8Type>("tcp_flags")?;
        let window_bytes = columns.small::<UInt32Type>("window_bytes")?;
        let arrived = columns.counts("arrived_ns")?;
        let queue_bytes = columns.small::<UInt32Type>("queue_bytes")?;
        let queueing = columns.counts("queueing_ns")?;
        let served = columns.optional_counts("served_ns")?;
        let planned = columns.optional_counts("planned_ns")?;
        let released = columns.optional_counts("released_ns")?;
        let fate = columns.words("fate", &Fate::ALL, Fate::name)?;
        let dropped_in = columns.small::<UInt8Type>("dropped_in")?;
        let is_marked = columns.flags("marked")?;
        let is_corrupted = columns.flags("corrupted")?;
        let is_copy = columns.flags("copy")?;
        Ok(move |i| PacketRecord {
            hop: hop.at(i),
            index: index.at(i),
            direction: direction.at(i),
            flow: flow.at(i),
            client_port: client_port.at(i),
            class: class.at(i),
            class_index: class_index.at(i),
            length: length.at(i),
            protocol: protocol.at(i),
            seq: seq.at(i),
            ack: ack.at(i),
            payload_len: payload_len.at(i),
            tcp_flags: tcp_flags.at(i),
            window_bytes: window_bytes.at(i),
            arrived: arrived.at(i),
            queue_bytes: queue_bytes.at(i),
            queueing: Duration::from_nanos(queueing.at(i)),
            served: served.at(i),
            planned: planned.at(i),
            released: released.at(i),
            fate: fate.at(i),
            dropped_in: dropped_in.at(i),
            is_marked: is_marked.at(i),
            is_corrupted: is_corrupted.at(i),
            is_copy: is_copy.at(i),
        })
    }
}
