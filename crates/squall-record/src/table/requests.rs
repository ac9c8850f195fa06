//! The table of requests: requests.parquet.
//!
//! Only declares the columns of `RequestRecord`; docs/RECORD.md defines them.

use squall_base::record::{BodyArrivals, Gap, Outcome, Phase, RequestRecord};
use squall_base::{Duration, Time};

use super::cell::table;

table! {
    "requests" of row: RequestRecord {
        Stored {
            request: u64 = row.request, Delta "request";
            phase: Phase = row.phase, Words "phase";
            user: u32 = row.user, Delta "user";
            what: u32 = row.what, Delta "what";
            intended: Time = row.intended, Delta "intended_ns";
            taken_up: Time = row.taken_up, Delta "taken_up_ns";
            slot: Option<Time> = row.slot, Delta "slot_ns";
            connected: Option<Time> = row.connected, Delta "connected_ns";
            secured: Option<Time> = row.secured, Delta "secured_ns";
            written_first: Option<Time> = row.written_first, Delta "written_first_ns";
            written_last: Option<Time> = row.written_last, Delta "written_last_ns";
            answered_first: Option<Time> = row.answered_first, Delta "answered_first_ns";
            headers: Option<Time> = row.headers, Delta "headers_ns";
            end: Time = row.end, Delta "end_ns";
            status: Option<u16> = row.status, Delta "status";
            connection: Option<u32> = row.connection, Delta "connection";
            stream: Option<u64> = row.stream, Delta "stream";
            opened_connection: bool = row.opened_connection, Dictionary "opened_connection";
            request_body_bytes: u64 = row.request_body_bytes, Delta "request_body_bytes";
            response_body_bytes: u64 = row.response_body_bytes, Delta "response_body_bytes";
        }
        Added {
            body_arrivals: u32 = row.arrivals.count, Delta "body_arrivals";
            body_first: Option<Time> = row.arrivals.first, Delta "body_first_ns";
            body_last: Option<Time> = row.arrivals.last, Delta "body_last_ns";
            gap: Option<Duration> = row.arrivals.longest_gap.map(|gap| gap.length), Delta "longest_gap_ns";
            gap_from: Option<Time> = row.arrivals.longest_gap.map(|gap| gap.from), Delta "longest_gap_from_ns";
        }
        Stored {
            outcome: Outcome = row.outcome, Words "outcome";
            error: Option<String> = row.error.clone(), Dictionary "error";
        }
        Derived {
            response_time: Duration = row.response_time(), Delta "response_time_ns";
            service_time: Option<Duration> = row.service_time(), Delta "service_time_ns";
        }
    }
    => RequestRecord {
        request, phase, user, what, intended, taken_up, slot, connected, secured, written_first, written_last,
        answered_first, headers, end, status, connection, stream, opened_connection, request_body_bytes,
        response_body_bytes, outcome, error,
        arrivals: BodyArrivals {
            count: body_arrivals,
            first: body_first,
            last: body_last,
            longest_gap: gap.zip(gap_from).map(|(length, from)| Gap { from, length }),
        },
    }
}
