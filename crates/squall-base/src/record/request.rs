//! The record of one request: its times, its place on a connection, and its outcome.
//!
//! Every request of the schedule has exactly one row, including those that failed or never finished. What the times
//! mean, and where each is taken: docs/METHOD.md.

use serde::{Deserialize, Serialize};

use super::BodyArrivals;
use crate::time::{Duration, Time};

crate::words! {
    /// The part of the load to which a request belongs.
    #[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
    #[serde(rename_all = "snake_case")]
    pub enum Phase {
        /// Before the measurement; not part of any statistic.
        Warmup = "warmup",
        /// Measured.
        Measure = "measure",
    }
}

crate::words! {
    /// The outcome of a request.
    #[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
    #[serde(rename_all = "snake_case")]
    pub enum Outcome {
        /// A complete response arrived. Its status may still be an error, and the gRPC call may still have failed.
        Answered = "answered",
        /// The load's drain time ended before the response did: the true latency is longer than the row shows.
        Censored = "censored",
        /// No connection could be made for it (the `error` column says why).
        ConnectFailed = "connect_failed",
        /// The TLS or QUIC handshake failed, or negotiated a protocol other than the requested one.
        TlsFailed = "tls_failed",
        /// Its connection ended before the response did.
        ConnectionClosed = "connection_closed",
        /// The peer reset its stream (RST_STREAM, RFC 9113 section 6.4), or its GOAWAY refused the request (section
        /// 6.8).
        StreamReset = "stream_reset",
        /// The peer violated the protocol.
        ProtocolError = "protocol_error",
        /// The client cancelled it, because it took longer than the time limit of a request.
        #[serde(rename = "timeout")]
        TimedOut = "timeout",
    }
}

/// One request, as the client saw it. Times of events that never happened are `None`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RequestRecord {
    /// Its place in the schedule, from 0.
    pub request: u64,
    /// The part of the load.
    pub phase: Phase,
    /// The virtual client that sent it; 0 in an open load, which has no virtual clients.
    pub user: u32,
    /// Which of the load's requests it is a copy of: the index in the list `requests` of plan.json, from 0.
    pub what: u32,
    /// When it was due by the schedule.
    pub intended: Time,
    /// When the generator started to handle it; `taken_up - intended` is the generator's own lag.
    pub taken_up: Time,
    /// When a connection and, for HTTP/2 and HTTP/3, a stream was assigned to it.
    pub slot: Option<Time>,
    /// When the TCP handshake of its connection completed.
    pub connected: Option<Time>,
    /// When the TLS or QUIC handshake completed; `None` in cleartext.
    pub secured: Option<Time>,
    /// When the socket had accepted its first byte.
    pub written_first: Option<Time>,
    /// When the socket had accepted its last byte.
    pub written_last: Option<Time>,
    /// When the first byte of its response was read from the socket.
    pub answered_first: Option<Time>,
    /// When its response's header section was complete.
    pub headers: Option<Time>,
    /// When the last byte of its response was read; without a complete response, when it was given up.
    pub end: Time,
    /// The status code of the response.
    pub status: Option<u16>,
    /// The connection, from 0 in this client's order of opening.
    pub connection: Option<u32>,
    /// HTTP/2 and HTTP/3: the stream id, of up to 62 bits. HTTP/1.1: the number of the exchange on its connection, from
    /// 0.
    pub stream: Option<u64>,
    /// Whether its connection was opened for this request, which is the first on it.
    pub opened_connection: bool,
    /// Bytes of the request's body.
    pub request_body_bytes: u64,
    /// Bytes of the response's body that arrived.
    pub response_body_bytes: u64,
    /// When they arrived; empty if the client does not record it.
    pub arrivals: BodyArrivals,
    /// Its outcome.
    pub outcome: Outcome,
    /// The error reported by the operating system or the peer, if the outcome is a failure. If the outcome is
    /// [`Outcome::Answered`]: how the gRPC call failed, if it did.
    pub error: Option<String>,
}

impl RequestRecord {
    /// A measured request that was due at `intended` and started immediately. Nothing else has happened to it yet.
    #[inline]
    pub fn due(request: u64, intended: Time) -> RequestRecord {
        RequestRecord {
            request,
            phase: Phase::Measure,
            user: 0,
            what: 0,
            intended,
            taken_up: intended,
            slot: None,
            connected: None,
            secured: None,
            written_first: None,
            written_last: None,
            answered_first: None,
            headers: None,
            end: intended,
            status: None,
            connection: None,
            stream: None,
            opened_connection: false,
            request_body_bytes: 0,
            response_body_bytes: 0,
            arrivals: BodyArrivals::default(),
            outcome: Outcome::Censored,
            error: None,
        }
    }

    /// Converts all of its times to count from `epoch` instead of their clock's origin.
    pub fn count_from(&mut self, epoch: Time) {
        for time in [&mut self.intended, &mut self.taken_up, &mut self.end] {
            *time = time.relative_to(epoch);
        }
        // Converted one by one: an array of references to the times took 12 of the 614 ns of a bare POST over HTTP/2 (perf).
        let from_epoch = |mark: Option<Time>| mark.map(|time| time.relative_to(epoch));
        self.slot = from_epoch(self.slot);
        self.connected = from_epoch(self.connected);
        self.secured = from_epoch(self.secured);
        self.written_first = from_epoch(self.written_first);
        self.written_last = from_epoch(self.written_last);
        self.answered_first = from_epoch(self.answered_first);
        self.headers = from_epoch(self.headers);
        if self.arrivals.count > 0 {
            self.arrivals = self.arrivals.relative_to(epoch);
        }
    }

    /// Response time: from when it should have been sent until its end. A lower bound if it is censored.
    pub fn response_time(&self) -> Duration {
        self.end.since(self.intended)
    }

    /// Service time: from when a connection was assigned to it until its end.
    pub fn service_time(&self) -> Option<Duration> {
        self.slot.map(|slot| self.end.since(slot))
    }

    /// True if it was answered completely with a status below 400, and it is not a gRPC call that failed.
    pub fn succeeded(&self) -> bool {
        self.has_good_status() && self.error.is_none()
    }

    /// True if it is a gRPC call that failed although it was answered completely with a status below 400.
    pub fn is_failed_call(&self) -> bool {
        self.has_good_status() && self.error.is_some()
    }

    fn has_good_status(&self) -> bool {
        self.outcome == Outcome::Answered && self.status.is_some_and(|s| s < 400)
    }
}
