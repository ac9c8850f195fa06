//! The table of exchanges: exchanges.parquet.
//!
//! Only maps `ExchangeRecord` to columns and back, six for each of its two extents; docs/RECORD.md defines the columns.

use arrow_array::types::{Int64Type, UInt8Type, UInt16Type, UInt32Type};
use arrow_schema::DataType::{Int64, UInt8, UInt16, UInt32};
use squall_base::Time;
use squall_base::plan::Protocol;
use squall_base::record::{Beginning, ExchangeRecord, Extent, Side};

use super::columns::{Columns, NullableColumn};
use super::packing::{CellWriteError, RowGroup};
use super::schema::Column;
use super::sealed::Row;
use crate::RecordError;
use crate::error::CellFault;

const COLUMNS: &[Column] = &[
    Column::delta("hop", UInt8),
    Column::words("side"),
    Column::delta("connection", UInt32),
    Column::delta("stream", Int64),
    Column::words("protocol"),
    Column::delta("request", Int64).or_null(),
    Column::delta("offered_ns", Int64).or_null(),
    Column::delta("slot_ns", Int64).or_null(),
    Column::delta("opened_ns", Int64).or_null(),
    Column::delta("connected_ns", Int64).or_null(),
    Column::delta("secured_ns", Int64).or_null(),
    Column::delta("request_first_ns", Int64).or_null(),
    Column::delta("request_last_ns", Int64).or_null(),
    Column::delta("response_first_ns", Int64).or_null(),
    Column::delta("response_last_ns", Int64).or_null(),
    extent_column(REQUEST.start),
    extent_column(REQUEST.end),
    extent_column(REQUEST.wire_start),
    extent_column(REQUEST.wire_end),
    extent_column(REQUEST.record_first),
    extent_column(REQUEST.record_last),
    extent_column(RESPONSE.start),
    extent_column(RESPONSE.end),
    extent_column(RESPONSE.wire_start),
    extent_column(RESPONSE.wire_end),
    extent_column(RESPONSE.record_first),
    extent_column(RESPONSE.record_last),
    Column::delta("request_body_bytes", Int64),
    Column::delta("response_body_bytes", Int64),
    Column::delta("status", UInt16).or_null(),
    Column::delta("reset", Int64).or_null(),
];

/// The columns of an extent.
struct ExtentColumns {
    start: &'static str,
    end: &'static str,
    wire_start: &'static str,
    wire_end: &'static str,
    record_first: &'static str,
    record_last: &'static str,
}

const REQUEST: ExtentColumns = ExtentColumns {
    start: "request_start",
    end: "request_end",
    wire_start: "request_wire_start",
    wire_end: "request_wire_end",
    record_first: "request_record_first",
    record_last: "request_record_last",
};

const RESPONSE: ExtentColumns = ExtentColumns {
    start: "response_start",
    end: "response_end",
    wire_start: "response_wire_start",
    wire_end: "response_wire_end",
    record_first: "response_record_first",
    record_last: "response_record_last",
};

const fn extent_column(name: &'static str) -> Column {
    Column::delta(name, Int64).or_null()
}

/// The cells of an extent's columns. In every row, `start` and `end` are both set or both null.
struct ExtentCells<'a> {
    start: NullableColumn<'a, Int64Type, u64>,
    end: NullableColumn<'a, Int64Type, u64>,
    wire_start: NullableColumn<'a, Int64Type, u64>,
    wire_end: NullableColumn<'a, Int64Type, u64>,
    record_first: NullableColumn<'a, Int64Type, u64>,
    record_last: NullableColumn<'a, Int64Type, u64>,
}

impl ExtentColumns {
    fn decode<'a>(&self, columns: &Columns<'a>) -> Result<ExtentCells<'a>, RecordError> {
        let cells = ExtentCells {
            start: columns.optional_counts(self.start)?,
            end: columns.optional_counts(self.end)?,
            wire_start: columns.optional_counts(self.wire_start)?,
            wire_end: columns.optional_counts(self.wire_end)?,
            record_first: columns.optional_counts(self.record_first)?,
            record_last: columns.optional_counts(self.record_last)?,
        };
        if cells.start.is_full() && cells.end.is_full() {
            return Ok(cells);
        }
        for row in 0..columns.rows() {
            let missing = match (cells.start.at(row), cells.end.at(row)) {
                (None, Some(_)) => self.start,
                (Some(_), None) => self.end,
                _ => continue,
            };
            return Err(columns.fault(missing, row, CellFault::Null));
        }
        Ok(cells)
    }
}

impl ExtentCells<'_> {
    fn at(&self, row: usize) -> Option<Extent> {
        Some(Extent {
            start: self.start.at(row)?,
            end: self.end.at(row)?,
            wire_start: self.wire_start.at(row),
            wire_end: self.wire_end.at(row),
            record_first: self.record_first.at(row),
            record_last: self.record_last.at(row),
        })
    }
}

/// Appends the six columns of an extent, in the order of `ExtentColumns`.
fn encode_extent(
    rows: &[ExchangeRecord],
    group: &mut RowGroup,
    extent: impl Fn(&ExchangeRecord) -> Option<&Extent>,
) -> Result<(), CellWriteError> {
    group.optional_numbers(rows, |r| extent(r).map(|e| e.start))?;
    group.optional_numbers(rows, |r| extent(r).map(|e| e.end))?;
    group.optional_numbers(rows, |r| extent(r)?.wire_start)?;
    group.optional_numbers(rows, |r| extent(r)?.wire_end)?;
    group.optional_numbers(rows, |r| extent(r)?.record_first)?;
    group.optional_numbers(rows, |r| extent(r)?.record_last)
}

impl Row for ExchangeRecord {
    const TABLE: &'static str = "exchanges";

    fn columns() -> &'static [Column] {
        COLUMNS
    }

    fn encode(rows: &[Self], group: &mut RowGroup) -> Result<(), CellWriteError> {
        group.small(rows, |r| u32::from(r.hop));
        group.words(rows, &Side::ALL.map(Side::name), |r| r.side as usize);
        group.small(rows, |r| r.connection);
        group.numbers(rows, |r| r.stream)?;
        group.words(rows, &Protocol::ALL.map(Protocol::name), |r| {
            r.protocol as usize
        });
        group.optional_numbers(rows, |r| r.request)?;
        group.optional_numbers(rows, |r| r.beginning.offered.map(Time::as_nanos))?;
        group.optional_numbers(rows, |r| r.beginning.slot.map(Time::as_nanos))?;
        group.optional_numbers(rows, |r| r.beginning.opened.map(Time::as_nanos))?;
        group.optional_numbers(rows, |r| r.beginning.connected.map(Time::as_nanos))?;
        group.optional_numbers(rows, |r| r.beginning.secured.map(Time::as_nanos))?;
        group.optional_numbers(rows, |r| r.request_first.map(Time::as_nanos))?;
        group.optional_numbers(rows, |r| r.request_last.map(Time::as_nanos))?;
        group.optional_numbers(rows, |r| r.response_first.map(Time::as_nanos))?;
        group.optional_numbers(rows, |r| r.response_last.map(Time::as_nanos))?;
        encode_extent(rows, group, |r| r.request_extent.as_ref())?;
        encode_extent(rows, group, |r| r.response_extent.as_ref())?;
        group.numbers(rows, |r| r.request_body_bytes)?;
        group.numbers(rows, |r| r.response_body_bytes)?;
        group.optional_small(rows, |r| r.status.map(u32::from));
        group.optional_numbers(rows, |r| r.reset)
    }

    fn rows<'a>(columns: &'a Columns<'a>) -> Result<impl FnMut(usize) -> Self + 'a, RecordError> {
        let hop = columns.small::<UInt8Type>("hop")?;
        let side = columns.words("side", &Side::ALL, Side::name)?;
        let connection = columns.small::<UInt32Type>("connection")?;
        let stream = columns.counts("stream")?;
        let protocol = columns.words("protocol", &Protocol::ALL, Protocol::name)?;
        let request = columns.optional_counts("request")?;
        let offered = columns.optional_counts("offered_ns")?;
        let slot = columns.optional_counts("slot_ns")?;
        let opened = columns.optional_counts("opened_ns")?;
        let connected = columns.optional_counts("connected_ns")?;
        let secured = columns.optional_counts("secured_ns")?;
        let request_first = columns.optional_counts("request_first_ns")?;
        let request_last = columns.optional_counts("request_last_ns")?;
        let response_first = columns.optional_counts("response_first_ns")?;
        let response_last = columns.optional_counts("response_last_ns")?;
        let request_extent = REQUEST.decode(columns)?;
        let response_extent = RESPONSE.decode(columns)?;
        let request_body_bytes = columns.counts("request_body_bytes")?;
        let response_body_bytes = columns.counts("response_body_bytes")?;
        let status = columns.optional_small::<UInt16Type>("status")?;
        let reset = columns.optional_counts("reset")?;
        Ok(move |i| ExchangeRecord {
            hop: hop.at(i),
            side: side.at(i),
            connection: connection.at(i),
            stream: stream.at(i),
            protocol: protocol.at(i),
            request: request.at(i),
            beginning: Beginning {
                offered: offered.at(i),
                slot: slot.at(i),
                opened: opened.at(i),
                connected: connected.at(i),
                secured: secured.at(i),
            },
            request_first: request_first.at(i),
            request_last: request_last.at(i),
            response_first: response_first.at(i),
            response_last: response_last.at(i),
            request_extent: request_extent.at(i),
            response_extent: response_extent.at(i),
            request_body_bytes: request_body_bytes.at(i),
            response_body_bytes: response_body_bytes.at(i),
            status: status.at(i),
            reset: reset.at(i),
        })
    }
}
