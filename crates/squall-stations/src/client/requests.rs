//! Records of requests, from their end until they are handed on, and a client's observer. `queued_request` begins the records.

use std::net::SocketAddr;

use squall_base::plan::{SideSettings, Version};
use squall_base::record::{Outcome, Phase, RequestRecord};
use squall_base::{Duration, Time};
use squall_http::{ClientEvent, HandshakeFacts, Http2Announcements, Inbox, Request, StreamId, h3};
use squall_linux::spans::DurationHistogram;
use squall_load::RequestEnd;

use super::queued_request::QueuedRequest;
use super::retry::Retries;
use crate::rows::{ROWS_A_CHUNK, RowSender};

/// Records are handed on at least this often while there are any.
const FLUSH_EVERY: Duration = Duration::from_millis(100);

/// Observes everything that a client's connections learn, before it is discarded. For live display.
pub trait Observer: Send {
    /// A connection is being opened over TCP, or otherwise over UDP, from this address of the client.
    fn opened(&mut self, _from: SocketAddr, _is_tcp: bool) {}

    /// TCP has connected.
    fn connected(&mut self, _now: Time, _connection: u32) {}

    /// The TLS handshake of a connection has completed, and ALPN agreed on `alpn`, if on anything.
    fn secured(&mut self, _now: Time, _connection: u32, _alpn: Option<&str>) {}

    /// A connection has ended before the load did: the server ended it, or it failed.
    fn ended(&mut self, _now: Time, _connection: u32) {}

    /// One read or write of a connection has returned.
    fn observe(&mut self, observation: Observation<'_>);
}

/// The result of one read or write of a connection.
pub struct Observation<'a> {
    /// The connection, by its number in the records.
    pub connection: u32,
    /// Events and frames.
    pub inbox: &'a Inbox<ClientEvent>,
    /// When the call returned.
    pub now: Time,
    /// Over HTTP/2: what was announced.
    pub announced: Option<Http2Announcements<'a>>,
    /// Over HTTP/3: what was announced.
    pub announced_http3: Option<h3::Announcements>,
    /// What the handshake showed of the server, if it is complete; costs as much as reading the certificates.
    pub handshake: &'a dyn Fn() -> Option<HandshakeFacts>,
    /// Over HTTP/3: bytes of the largest UDP payload received; 0 over TCP.
    pub largest_datagram: usize,
    /// For TLS over TCP: the records of application data of the last read, which need not be this call. Each has its number on
    /// the connection, from 0, and the length of its plaintext in bytes.
    pub received_records: &'a dyn Fn() -> Vec<(u64, u64)>,
    /// Over HTTP/1.1: the head that this connection sends for the request it took last, which must be the argument.
    pub sent_head: &'a dyn Fn(&Request) -> Option<Vec<u8>>,
    /// Which of the load's requests is on a stream of this connection, until that request ends.
    pub request_index: &'a mut dyn FnMut(StreamId) -> Option<u32>,
}

/// Why requests ended without a response.
#[derive(Clone, Debug)]
pub(crate) struct RequestFailure {
    pub(crate) outcome: Outcome,
    /// The error message; empty if there is no message.
    pub(crate) error: String,
}

impl RequestFailure {
    pub(crate) fn new(outcome: Outcome, error: String) -> RequestFailure {
        RequestFailure { outcome, error }
    }
}

/// Records requests as they end, and hands the records on.
pub(crate) struct Recorder {
    /// Requests that have ended since this was last drained, and when.
    pub(crate) ended: Vec<(RequestEnd, Time)>,
    /// The gaps between arrivals of the bodies of measured responses.
    pub(crate) gaps: DurationHistogram,
    /// When rows were last handed on.
    last_flush: Time,
    chunk: Vec<RequestRecord>,
    records: RowSender<RequestRecord>,
    observer: Option<Box<dyn Observer>>,
    retries: Retries,
}

impl Recorder {
    pub(crate) fn new(
        records: RowSender<RequestRecord>,
        observer: Option<Box<dyn Observer>>,
    ) -> Recorder {
        Recorder {
            ended: Vec::new(),
            gaps: DurationHistogram::new(),
            last_flush: Time::ZERO,
            chunk: Vec::with_capacity(ROWS_A_CHUNK),
            records,
            observer,
            retries: Retries::default(),
        }
    }

    /// Makes the recorder keep unprocessed requests for a retry, if the settings say so.
    #[must_use]
    pub(crate) fn retrying(self, side: &SideSettings) -> Recorder {
        Recorder {
            retries: Retries::of(side),
            ..self
        }
    }

    /// Whether anything observes what connections learn.
    pub(crate) fn has_observer(&self) -> bool {
        self.observer.is_some()
    }

    /// Shows the observer what a connection has learned.
    pub(crate) fn observe<'a>(&mut self, observation: impl FnOnce() -> Observation<'a>) {
        if let Some(observer) = &mut self.observer {
            observer.observe(observation());
        }
    }

    /// Tells the observer the address from which a connection is being opened, if it is known.
    pub(crate) fn opened(&mut self, from: impl FnOnce() -> Option<SocketAddr>, is_tcp: bool) {
        if let Some(observer) = &mut self.observer
            && let Some(from) = from()
        {
            observer.opened(from, is_tcp);
        }
    }

    /// Shows the observer that TCP has connected.
    pub(crate) fn connected(&mut self, now: Time, connection: u32) {
        if let Some(observer) = &mut self.observer {
            observer.connected(now, connection);
        }
    }

    /// Shows the observer the result of a TLS handshake.
    pub(crate) fn secured(&mut self, now: Time, connection: u32, alpn: Option<&str>) {
        if let Some(observer) = &mut self.observer {
            observer.secured(now, connection, alpn);
        }
    }

    /// Shows the observer that a connection has ended.
    pub(crate) fn ended(&mut self, now: Time, connection: u32) {
        if let Some(observer) = &mut self.observer {
            observer.ended(now, connection);
        }
    }

    /// Ends a request that got its whole response at `end`.
    pub(crate) fn finish(&mut self, mut request: RequestRecord, end: Time) {
        request.outcome = Outcome::Answered;
        self.end(request, end);
    }

    /// Ends a request that failed at `end`.
    pub(crate) fn fail(&mut self, mut request: RequestRecord, failure: &RequestFailure, end: Time) {
        request.outcome = failure.outcome;
        request.error = (!failure.error.is_empty()).then(|| failure.error.clone());
        self.end(request, end);
    }

    /// Ends a request that the server has not processed over this version, unless it is retried.
    pub(crate) fn fail_unprocessed(
        &mut self,
        request: RequestRecord,
        version: Version,
        failure: &RequestFailure,
        end: Time,
    ) {
        if !self.retries.keep(&request, version) {
            self.fail(request, failure, end);
        }
    }

    /// Takes the requests that are to be retried.
    pub(crate) fn take_retries(&mut self) -> Vec<QueuedRequest> {
        self.retries.take()
    }

    /// Hands on records after a while, so that a live display need not wait for a full chunk.
    pub(crate) fn flush_if_due(&mut self, now: Time) {
        if !self.chunk.is_empty() && now.since(self.last_flush) >= FLUSH_EVERY {
            self.flush();
            self.last_flush = now;
        }
    }

    /// Hands the collected records to the receiver. A dropped receiver means that the trial has failed, which is
    /// reported elsewhere.
    pub(crate) fn flush(&mut self) {
        self.records.send(&mut self.chunk);
    }

    /// Notes that bytes of a response's body were read at `now`: a new arrival, or more of the last one.
    pub(crate) fn note_body(&mut self, request: &mut RequestRecord, now: Time, is_new: bool) {
        let gap = request.arrivals.note(now, is_new);
        self.add_gap(request.phase, gap);
    }

    fn add_gap(&mut self, phase: Phase, gap: Option<Duration>) {
        if let Some(gap) = gap.filter(|_| phase == Phase::Measure) {
            self.gaps.add(gap);
        }
    }

    fn end(&mut self, mut request: RequestRecord, end: Time) {
        request.end = end;
        if request.outcome != Outcome::Answered {
            let gap = request.arrivals.note_cut_off(end);
            self.add_gap(request.phase, gap);
        }
        self.retries.ended(request.request);
        let ended = RequestEnd {
            request: request.request,
            user: request.user,
            succeeded: request.succeeded(),
        };
        self.ended.push((ended, end));
        self.chunk.push(request);
        if self.chunk.len() == ROWS_A_CHUNK {
            self.flush();
        }
    }
}
