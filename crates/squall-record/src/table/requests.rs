//! The table of requests: requests.parquet.
//!
//! Only how a `RequestRecord` becomes columns; what the columns mean is in docs/RECORD.md.

use arrow_array::types::{UInt16Type, UInt32Type};
use arrow_schema::DataType::{Boolean, Int64, UInt16, UInt32, Utf8};
use squall_base::record::{Outcome, Phase, RequestRecord};
use squall_base::{Duration, Time};

use super::columns::Columns;
use super::packing::{CellWriteError, RowGroup};
use super::schema::Column;
use super::sealed::Row;
use crate::RecordError;

const PHASES: [Phase; 2] = [Phase::Warmup, Phase::Measure];

const COLUMNS: &[Column] = &[
    Column::delta("request", Int64),
    Column::words("phase"),
    Column::delta("user", UInt32),
    Column::delta("what", UInt32),
    Column::delta("intended_ns", Int64),
    Column::delta("taken_up_ns", Int64),
    Column::delta("slot_ns", Int64).or_null(),
    Column::delta("connected_ns", Int64).or_null(),
    Column::delta("secured_ns", Int64).or_null(),
    Column::delta("written_first_ns", Int64).or_null(),
    Column::delta("written_last_ns", Int64).or_null(),
    Column::delta("answered_first_ns", Int64).or_null(),
    Column::delta("headers_ns", Int64).or_null(),
    Column::delta("end_ns", Int64),
    Column::delta("status", UInt16).or_null(),
    Column::delta("connection", UInt32).or_null(),
    Column::delta("stream", Int64).or_null(),
    Column::dictionary("opened_connection", Boolean),
    Column::delta("request_body_bytes", Int64),
    Column::delta("response_body_bytes", Int64),
    Column::words("outcome"),
    Column::dictionary("error", Utf8).or_null(),
    Column::delta("response_time_ns", Int64).derived(),
    Column::delta("service_time_ns", Int64).or_null().derived(),
];

impl Row for RequestRecord {
    const TABLE: &'static str = "requests";

    fn columns() -> &'static [Column] {
        COLUMNS
    }

    fn encode(rows: &[Self], group: &mut RowGroup) -> Result<(), CellWriteError> {
        group.numbers(rows, |r| r.request)?;
        group.words(rows, &PHASES.map(Phase::name), |r| r.phase as usize);
        group.small(rows, |r| r.user);
        group.small(rows, |r| r.what);
        group.numbers(rows, |r| r.intended.as_nanos())?;
        group.numbers(rows, |r| r.taken_up.as_nanos())?;
        group.optional_numbers(rows, |r| r.slot.map(Time::as_nanos))?;
        group.optional_numbers(rows, |r| r.connected.map(Time::as_nanos))?;
        group.optional_numbers(rows, |r| r.secured.map(Time::as_nanos))?;
        group.optional_numbers(rows, |r| r.written_first.map(Time::as_nanos))?;
        group.optional_numbers(rows, |r| r.written_last.map(Time::as_nanos))?;
        group.optional_numbers(rows, |r| r.answered_first.map(Time::as_nanos))?;
        group.optional_numbers(rows, |r| r.headers.map(Time::as_nanos))?;
        group.numbers(rows, |r| r.end.as_nanos())?;
        group.optional_small(rows, |r| r.status.map(u32::from));
        group.optional_small(rows, |r| r.connection);
        group.optional_numbers(rows, |r| r.stream)?;
        group.flags(rows, |r| r.opened_connection);
        group.numbers(rows, |r| r.request_body_bytes)?;
        group.numbers(rows, |r| r.response_body_bytes)?;
        group.words(rows, &Outcome::ALL.map(Outcome::name), |r| {
            r.outcome as usize
        });
        group.texts(rows, |r| r.error.as_deref());
        group.numbers(rows, |r| r.response_time().as_nanos())?;
        group.optional_numbers(rows, |r| r.service_time().map(Duration::as_nanos))
    }

    fn decode(columns: &Columns<'_>, rows: &mut Vec<Self>) -> Result<(), RecordError> {
        let request = columns.counts("request")?;
        let phase = columns.words("phase", |word| {
            PHASES.into_iter().find(|p| p.name() == word)
        })?;
        let user = columns.small::<UInt32Type>("user")?;
        let what = columns.small::<UInt32Type>("what")?;
        let intended = columns.times("intended_ns")?;
        let taken_up = columns.times("taken_up_ns")?;
        let slot = columns.optional_times("slot_ns")?;
        let connected = columns.optional_times("connected_ns")?;
        let secured = columns.optional_times("secured_ns")?;
        let written_first = columns.optional_times("written_first_ns")?;
        let written_last = columns.optional_times("written_last_ns")?;
        let answered_first = columns.optional_times("answered_first_ns")?;
        let headers = columns.optional_times("headers_ns")?;
        let end = columns.times("end_ns")?;
        let status = columns.optional_small::<UInt16Type>("status")?;
        let connection = columns.optional_small::<UInt32Type>("connection")?;
        let stream = columns.optional_counts("stream")?;
        let opened_connection = columns.flags("opened_connection")?;
        let request_body_bytes = columns.counts("request_body_bytes")?;
        let response_body_bytes = columns.counts("response_body_bytes")?;
        let outcome = columns.words("outcome", |word| {
            Outcome::ALL.into_iter().find(|o| o.name() == word)
        })?;
        let mut error = columns.texts("error")?;
        rows.extend((0..request.len()).map(|i| RequestRecord {
            request: request[i],
            phase: phase[i],
            user: user[i],
            what: what[i],
            intended: intended[i],
            taken_up: taken_up[i],
            slot: slot[i],
            connected: connected[i],
            secured: secured[i],
            written_first: written_first[i],
            written_last: written_last[i],
            answered_first: answered_first[i],
            headers: headers[i],
            end: end[i],
            status: status[i],
            connection: connection[i],
            stream: stream[i],
            opened_connection: opened_connection[i],
            request_body_bytes: request_body_bytes[i],
            response_body_bytes: response_body_bytes[i],
            outcome: outcome[i],
            error: error[i].take(),
        }));
        Ok(())
    }
}
