//! Records of requests on their way from being taken up to being handed on.

use squall_base::record::{Outcome, RequestRecord};
use squall_base::{Duration, Time};
use squall_http::{ClientEvent, Http2Announced, Inbox, Request, StreamId, h3};
use squall_load::{Arrival, Ended};

use crate::rows::{ROWS_A_CHUNK, RowSender};

/// Records are handed on so often at least, while any come.
const HAND_ON_EVERY: Duration = Duration::from_millis(100);

/// Sees everything that connections of a client learn, before it is forgotten: for those who show it.
pub trait Observer: Send {
    /// TCP has made a connection.
    fn connected(&mut self, _now: Time, _connection: u32) {}

    /// The TLS handshake of a connection is done, and ALPN has agreed on this, if on anything.
    fn secured(&mut self, _now: Time, _connection: u32, _alpn: Option<&str>) {}

    /// One read or write of a connection has returned.
    fn observe(&mut self, seen: Seen<'_>);
}

/// What one read or write of a connection has brought.
pub struct Seen<'a> {
    /// Which connection, by its number in the records.
    pub connection: u32,
    /// Events and frames.
    pub inbox: &'a Inbox<ClientEvent>,
    /// When it returned.
    pub now: Time,
    /// Of HTTP/2, what was announced.
    pub announced: Option<Http2Announced<'a>>,
    /// The same of HTTP/3.
    pub announced_http3: Option<h3::Announced>,
    /// Over HTTP/1.1, the head with which this connection sends the request that it took last, which must be given.
    pub sent_head: &'a dyn Fn(&Request) -> Option<Vec<u8>>,
    /// Which of the load's requests goes on a stream of this connection, while that has not ended.
    pub asked: &'a mut dyn FnMut(StreamId) -> Option<u32>,
}

/// Why requests ended without an answer.
#[derive(Clone, Debug)]
pub(crate) struct Failure {
    pub(crate) outcome: Outcome,
    /// What was said; empty if nothing was.
    pub(crate) error: String,
}

impl Failure {
    pub(crate) fn new(outcome: Outcome, error: String) -> Failure {
        Failure { outcome, error }
    }
}

/// Counts what is unfinished and hands on what has ended.
pub(crate) struct Recorder {
    /// What has ended since this was last emptied, and when.
    pub(crate) ended: Vec<(Ended, Time)>,
    /// When rows were last handed on.
    handed_on: Time,
    chunk: Vec<RequestRecord>,
    records: RowSender<RequestRecord>,
    observer: Option<Box<dyn Observer>>,
}

impl Recorder {
    pub(crate) fn new(
        records: RowSender<RequestRecord>,
        observer: Option<Box<dyn Observer>>,
    ) -> Recorder {
        Recorder {
            ended: Vec::new(),
            handed_on: Time::ZERO,
            chunk: Vec::with_capacity(ROWS_A_CHUNK),
            records,
            observer,
        }
    }

    /// Whether somebody wants to see what connections learn.
    pub(crate) fn has_observer(&self) -> bool {
        self.observer.is_some()
    }

    /// Shows what a connection has learned to whoever wants to see it.
    pub(crate) fn observe<'a>(&mut self, seen: impl FnOnce() -> Seen<'a>) {
        if let Some(observer) = &mut self.observer {
            observer.observe(seen());
        }
    }

    /// Shows that TCP has made a connection.
    pub(crate) fn connected(&mut self, now: Time, connection: u32) {
        if let Some(observer) = &mut self.observer {
            observer.connected(now, connection);
        }
    }

    /// Shows what TLS has come to.
    pub(crate) fn secured(&mut self, now: Time, connection: u32, alpn: Option<&str>) {
        if let Some(observer) = &mut self.observer {
            observer.secured(now, connection, alpn);
        }
    }

    /// Begins the record of a request.
    pub(crate) fn take_up(
        &mut self,
        arrival: Arrival,
        taken_up: Time,
        request_body_bytes: u64,
    ) -> RequestRecord {
        RequestRecord {
            request: arrival.request,
            phase: arrival.phase,
            user: arrival.user,
            what: arrival.what,
            intended: arrival.intended,
            taken_up,
            slot: None,
            connected: None,
            secured: None,
            written_first: None,
            written_last: None,
            answered_first: None,
            headers: None,
            end: arrival.intended,
            status: None,
            connection: None,
            stream: None,
            opened_connection: false,
            request_body_bytes,
            response_body_bytes: 0,
            outcome: Outcome::Censored,
            error: None,
        }
    }

    /// The request got its whole response at `end`.
    pub(crate) fn finish(&mut self, mut request: RequestRecord, end: Time) {
        request.outcome = Outcome::Answered;
        self.end(request, end);
    }

    /// The request ended otherwise.
    pub(crate) fn fail(&mut self, mut request: RequestRecord, failure: &Failure, end: Time) {
        request.outcome = failure.outcome;
        request.error = (!failure.error.is_empty()).then(|| failure.error.clone());
        self.end(request, end);
    }

    /// Hands on what has gathered for a while, so that who shows it does not wait for a full chunk.
    pub(crate) fn hand_on_by(&mut self, now: Time) {
        if !self.chunk.is_empty() && now.since(self.handed_on) >= HAND_ON_EVERY {
            self.hand_on();
            self.handed_on = now;
        }
    }

    /// Gives the receiver what has gathered. A receiver that is gone means that the trial has failed and
    /// says so itself.
    pub(crate) fn hand_on(&mut self) {
        self.records.send(&mut self.chunk);
    }

    fn end(&mut self, mut request: RequestRecord, end: Time) {
        request.end = end;
        let ended = Ended {
            request: request.request,
            user: request.user,
            succeeded: request.succeeded(),
        };
        self.ended.push((ended, end));
        self.chunk.push(request);
        if self.chunk.len() == ROWS_A_CHUNK {
            self.hand_on();
        }
    }
}
