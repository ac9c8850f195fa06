//! The table of requests: requests.parquet.
//!
//! Only maps `RequestRecord` to columns and back; docs/RECORD.md defines the columns.

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

    fn rows<'a>(columns: &'a Columns<'a>) -> Result<impl FnMut(usize) -> Self + 'a, RecordError> {
        let request = columns.counts("request")?;
        let phase = columns.words("phase", &PHASES, Phase::name)?;
        let user = columns.small::<UInt32Type>("user")?;
        let what = columns.small::<UInt32Type>("what")?;
        let intended = columns.counts("intended_ns")?;
        let taken_up = columns.counts("taken_up_ns")?;
        let slot = columns.optional_counts("slot_ns")?;
        let connected = columns.optional_counts("connected_ns")?;
        let secured = columns.optional_counts("secured_ns")?;
        let written_first = columns.optional_counts("written_first_ns")?;
        let written_last = columns.optional_counts("written_last_ns")?;
        let answered_first = columns.optional_counts("answered_first_ns")?;
        let headers = columns.optional_counts("headers_ns")?;
        let end = columns.counts("end_ns")?;
        let status = columns.optional_small::<UInt16Type>("status")?;
        let connection = columns.optional_small::<UInt32Type>("connection")?;
        let stream = columns.optional_counts("stream")?;
        let opened_connection = columns.flags("opened_connection")?;
        let request_body_bytes = columns.counts("request_body_bytes")?;
        let response_body_bytes = columns.counts("response_body_bytes")?;
        let outcome = columns.words("outcome", &Outcome::ALL, Outcome::name)?;
        let mut error = columns.texts("error")?;
        Ok(move |i| RequestRecord {
            request: request.at(i),
            phase: phase.at(i),
            user: user.at(i),
            what: what.at(i),
            intended: intended.at(i),
            taken_up: taken_up.at(i),
            slot: slot.at(i),
            connected: connected.at(i),
            secured: secured.at(i),
            written_first: written_first.at(i),
            written_last: written_last.at(i),
            answered_first: answered_first.at(i),
            headers: headers.at(i),
            end: end.at(i),
            status: status.at(i),
            connection: connection.at(i),
            stream: stream.at(i),
            opened_connection: opened_connection.at(i),
            request_body_bytes: request_body_bytes.at(i),
            response_body_bytes: response_body_bytes.at(i),
            outcome: outcome.at(i),
            error: error[i].take(),
        })
    }
}
