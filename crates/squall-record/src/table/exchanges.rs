//! The table of exchanges: exchanges.parquet.
//!
//! Only declares the columns of `ExchangeRecord`, six for each of its two extents; docs/RECORD.md defines them.

use squall_base::Time;
use squall_base::plan::Protocol;
use squall_base::record::{Beginning, ExchangeRecord, Extent, Side};

use super::cell::table;
use super::columns::{Columns, NullableColumn};
use crate::RecordError;
use crate::error::CellFault;

table! {
    "exchanges" of row: ExchangeRecord {
        Stored {
            hop: u8 = row.hop, Delta "hop";
            side: Side = row.side, Words "side";
            connection: u32 = row.connection, Delta "connection";
            stream: u64 = row.stream, Delta "stream";
            protocol: Protocol = row.protocol, Words "protocol";
            request: Option<u64> = row.request, Delta "request";
            offered: Option<Time> = row.beginning.offered, Delta "offered_ns";
            slot: Option<Time> = row.beginning.slot, Delta "slot_ns";
            opened: Option<Time> = row.beginning.opened, Delta "opened_ns";
            connected: Option<Time> = row.beginning.connected, Delta "connected_ns";
            secured: Option<Time> = row.beginning.secured, Delta "secured_ns";
            request_first: Option<Time> = row.request_first, Delta "request_first_ns";
            request_last: Option<Time> = row.request_last, Delta "request_last_ns";
            response_first: Option<Time> = row.response_first, Delta "response_first_ns";
            response_last: Option<Time> = row.response_last, Delta "response_last_ns";
            request_start: Option<u64> = row.request_extent.map(|it| it.start), Delta "request_start";
            request_end: Option<u64> = row.request_extent.map(|it| it.end), Delta "request_end";
            request_wire_start: Option<u64> = row.request_extent.and_then(|it| it.wire_start), Delta "request_wire_start";
            request_wire_end: Option<u64> = row.request_extent.and_then(|it| it.wire_end), Delta "request_wire_end";
            request_record_first: Option<u64> = row.request_extent.and_then(|it| it.record_first), Delta "request_record_first";
            request_record_last: Option<u64> = row.request_extent.and_then(|it| it.record_last), Delta "request_record_last";
            response_start: Option<u64> = row.response_extent.map(|it| it.start), Delta "response_start";
            response_end: Option<u64> = row.response_extent.map(|it| it.end), Delta "response_end";
            response_wire_start: Option<u64> = row.response_extent.and_then(|it| it.wire_start), Delta "response_wire_start";
            response_wire_end: Option<u64> = row.response_extent.and_then(|it| it.wire_end), Delta "response_wire_end";
            response_record_first: Option<u64> = row.response_extent.and_then(|it| it.record_first), Delta "response_record_first";
            response_record_last: Option<u64> = row.response_extent.and_then(|it| it.record_last), Delta "response_record_last";
            request_body_bytes: u64 = row.request_body_bytes, Delta "request_body_bytes";
            response_body_bytes: u64 = row.response_body_bytes, Delta "response_body_bytes";
            status: Option<u16> = row.status, Delta "status";
            reset: Option<u64> = row.reset, Delta "reset";
        }
    }
    check(columns) {
        check_extent(columns, ("request_start", &request_start), ("request_end", &request_end))?;
        check_extent(columns, ("response_start", &response_start), ("response_end", &response_end))?;
    }
    => ExchangeRecord {
        hop, side, connection, stream, protocol, request,
        beginning: Beginning { offered, slot, opened, connected, secured },
        request_first, request_last, response_first, response_last,
        request_extent: request_start.zip(request_end).map(|(start, end)| Extent {
            start,
            end,
            wire_start: request_wire_start,
            wire_end: request_wire_end,
            record_first: request_record_first,
            record_last: request_record_last,
        }),
        response_extent: response_start.zip(response_end).map(|(start, end)| Extent {
            start,
            end,
            wire_start: response_wire_start,
            wire_end: response_wire_end,
            record_first: response_record_first,
            record_last: response_record_last,
        }),
        request_body_bytes, response_body_bytes, status, reset,
    }
}

/// Checks that in every row, the first and the last byte of an extent are either both set or both null.
fn check_extent(
    columns: &Columns<'_>,
    (start_name, start): (&'static str, &NullableColumn<'_, u64>),
    (end_name, end): (&'static str, &NullableColumn<'_, u64>),
) -> Result<(), RecordError> {
    if start.is_full() && end.is_full() {
        return Ok(());
    }
    for row in 0..columns.rows() {
        let missing = match (start.at(row), end.at(row)) {
            (None, Some(_)) => start_name,
            (Some(_), None) => end_name,
            _ => continue,
        };
        return Err(columns.fault(missing, row, CellFault::Null));
    }
    Ok(())
}
