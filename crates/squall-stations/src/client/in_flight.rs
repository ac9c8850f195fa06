//! The requests in flight on one connection, and how its events change them.
//!
//! All events of one read or write get the time at which that call returned. A gRPC call has failed if its response says
//! so in a field, or if it is not gRPC at all; the response is complete nevertheless.

use squall_base::Time;
use squall_base::plan::{Protocol, Version};
use squall_base::record::{Beginning, ExchangeRecord, Outcome, RequestRecord, Side, Way};
use squall_http::values::grpc::GrpcStatus;
use squall_http::{ClientEvent, Field, Inbox, StreamId, Streams, WireExtent, h3};

use super::requests::{Recorder, RequestFailure};
use crate::exchange::MessageMarks;
use crate::log::StationLog;

/// REFUSED_STREAM (RFC 9113, section 7).
const HTTP2_REFUSED_STREAM: u64 = 0x7;

/// One request on its stream.
pub(crate) struct ClientExchange {
    request: RequestRecord,
    /// Whether the request is a gRPC call.
    is_call: bool,
    sent: MessageMarks,
    received: MessageMarks,
    /// The wake-up in which bytes of the body were last read.
    last_woken: Option<Time>,
    /// The gRPC status in the response's head, if it is a gRPC response and fields are wanted.
    call: Option<GrpcStatus>,
}

/// Why a gRPC call failed if something other than a gRPC server answered it.
const NOT_GRPC: &str = "the response's content-type is not application/grpc";

/// The trailers of messages that end in an inbox.
type TrailersOfStreams = [(StreamId, Vec<Field>)];

#[derive(Default)]
pub(crate) struct InFlightRequests {
    open: Streams<StreamId, Box<ClientExchange>>,
}

/// The context in which the events of a connection are applied.
pub(crate) struct EventContext<'a> {
    pub(crate) connection: u32,
    pub(crate) protocol: Protocol,
    pub(crate) now: Time,
    /// When the first read of this wake-up of the connection returned.
    pub(crate) woken: Time,
    pub(crate) recorder: &'a mut Recorder,
    pub(crate) log: &'a mut StationLog,
}

impl InFlightRequests {
    /// Adds a request that was submitted; `is_call` says whether it is a gRPC call.
    pub(crate) fn insert(&mut self, stream: StreamId, request: RequestRecord, is_call: bool) {
        let exchange = ClientExchange {
            request,
            is_call,
            sent: MessageMarks::default(),
            received: MessageMarks::default(),
            last_woken: None,
            call: None,
        };
        self.open.insert(stream, Box::new(exchange));
    }

    /// Whether the request of a stream has not ended.
    pub(crate) fn contains(&mut self, stream: StreamId) -> bool {
        self.open.find(stream).is_some()
    }

    /// Which of the load's requests is on a stream that has not ended.
    pub(crate) fn request_index(&mut self, stream: StreamId) -> Option<u32> {
        Some(self.open.find(stream)?.request.what)
    }

    /// Takes the request of a stream that has not ended; the caller ends it.
    pub(crate) fn take(&mut self, stream: StreamId) -> Option<RequestRecord> {
        Some(self.open.remove(stream)?.request)
    }

    /// When the oldest request was due.
    pub(crate) fn oldest_due(&self) -> Option<Time> {
        let open = self.open.iter();
        open.map(|(_, exchange)| exchange.request.intended).min()
    }

    /// The streams of requests that were due at `deadline` or before.
    pub(crate) fn due_until(&self, deadline: Time) -> Vec<StreamId> {
        let open = self.open.iter();
        open.filter(|(_, exchange)| exchange.request.intended <= deadline)
            .map(|(stream, _)| stream)
            .collect()
    }

    /// Requests that have not ended.
    pub(crate) fn take_unfinished(&mut self) -> Vec<RequestRecord> {
        self.open
            .drain()
            .map(|(_, exchange)| exchange.request)
            .collect()
    }

    /// Applies and empties the inbox. `locate` returns which bytes on the wire carried a byte of HTTP.
    pub(crate) fn apply(
        &mut self,
        inbox: &mut Inbox<ClientEvent>,
        locate: impl Fn(Way, u64) -> Option<WireExtent>,
        context: &mut EventContext<'_>,
    ) {
        if !inbox.frames.is_empty() {
            context
                .log
                .record_frames(context.connection, context.now, &inbox.frames);
        }
        for event in &inbox.events {
            self.apply_event(event, &inbox.trailers, &locate, context);
        }
        inbox.clear();
    }

    fn apply_event(
        &mut self,
        event: &ClientEvent,
        trailers: &TrailersOfStreams,
        locate: &impl Fn(Way, u64) -> Option<WireExtent>,
        context: &mut EventContext<'_>,
    ) {
        let now = context.now;
        match event {
            ClientEvent::RequestFirstByteWritten { stream, offset } => {
                if let Some(exchange) = self.open.find(*stream) {
                    exchange.request.written_first = Some(now);
                    let place = locate(Way::Sent, *offset);
                    exchange.sent.begin(now, *offset, place);
                }
            }
            ClientEvent::RequestWritten { stream, end } => {
                if let Some(exchange) = self.open.find(*stream) {
                    exchange.request.written_last = Some(now);
                    exchange
                        .sent
                        .end(now, *end, locate(Way::Sent, end.saturating_sub(1)));
                }
            }
            ClientEvent::ResponseFirstByte { stream, offset } => {
                if let Some(exchange) = self.open.find(*stream) {
                    exchange.request.answered_first = Some(now);
                    let place = locate(Way::Received, *offset);
                    exchange.received.begin(now, *offset, place);
                }
            }
            ClientEvent::ResponseHeaders {
                stream,
                status,
                fields,
            } => {
                if let Some(exchange) = self.open.find(*stream) {
                    exchange.request.headers = Some(now);
                    exchange.request.status = Some(*status);
                    exchange.call = GrpcStatus::of_head(fields);
                }
            }
            ClientEvent::ResponseBody { stream, len } => {
                if let Some(exchange) = self.open.find(*stream) {
                    exchange.note_body(*len, context);
                }
            }
            ClientEvent::ResponseEnd { stream, end } => {
                if let Some(mut exchange) = self.open.remove(*stream) {
                    let place = locate(Way::Received, end.saturating_sub(1));
                    exchange.received.end(now, *end, place);
                    exchange.finish(*stream, trailers, context);
                }
            }
            ClientEvent::StreamReset { stream, code } => self.on_reset(*stream, *code, context),
            ClientEvent::ResponseRefused { stream, code } => {
                let words = h3::application_words(*code);
                let message = format!("the response was refused: {words} (HTTP/3 error {code:#x})");
                let failure = RequestFailure::new(Outcome::ProtocolError, message);
                self.fail(*stream, Some(*code), &failure, context);
            }
            ClientEvent::RequestRefused { stream } => self.on_request_refused(*stream, context),
            ClientEvent::Switched { from, to } => {
                if let Some(exchange) = self.open.remove(*from) {
                    self.open.insert(*to, Box::new(exchange.moved_to(*to)));
                }
            }
            ClientEvent::GoAway { .. } | ClientEvent::Interim { .. } => {}
        }
    }

    /// Ends the request of a stream that the server reset.
    fn on_reset(&mut self, stream: StreamId, code: u64, context: &mut EventContext<'_>) {
        let message = format!("the server reset the stream with error code {code}");
        let failure = RequestFailure::new(Outcome::StreamReset, message);
        if is_unprocessed(code, context.protocol) {
            self.fail_unprocessed(stream, Some(code), &failure, context);
        } else {
            self.fail(stream, Some(code), &failure, context);
        }
    }

    /// Ends the request of a stream that the server's GOAWAY excludes.
    fn on_request_refused(&mut self, stream: StreamId, context: &mut EventContext<'_>) {
        let message = "the server's GOAWAY refused the request, unprocessed".to_owned();
        let failure = RequestFailure::new(Outcome::StreamReset, message);
        self.fail_unprocessed(stream, None, &failure, context);
    }

    /// Ends the request of a stream without a response. `reset` is the code with which either side reset the stream.
    pub(crate) fn fail(
        &mut self,
        stream: StreamId,
        reset: Option<u64>,
        failure: &RequestFailure,
        context: &mut EventContext<'_>,
    ) {
        if let Some(exchange) = self.open.remove(stream) {
            exchange.log(stream, reset, context);
            (context.recorder).fail(exchange.request, failure, context.now);
        }
    }

    /// As [`InFlightRequests::fail`], for a request that the server has not processed: it may be retried, unless a response
    /// has begun all the same.
    fn fail_unprocessed(
        &mut self,
        stream: StreamId,
        reset: Option<u64>,
        failure: &RequestFailure,
        context: &mut EventContext<'_>,
    ) {
        let Some(exchange) = self.open.remove(stream) else {
            return;
        };
        exchange.log(stream, reset, context);
        let (version, now) = (context.protocol.version(), context.now);
        let has_begun = exchange.request.answered_first.is_some();
        if has_begun {
            context.recorder.fail(exchange.request, failure, now);
        } else {
            (context.recorder).fail_unprocessed(exchange.request, version, failure, now);
        }
    }
}

/// Whether a reset with this code states that the server has not processed the request (RFC 9113, section 8.7; RFC 9114,
/// section 4.1.1).
fn is_unprocessed(code: u64, protocol: Protocol) -> bool {
    match protocol.version() {
        Version::Http1 => false,
        Version::Http2 => code == HTTP2_REFUSED_STREAM,
        Version::Http3 => code == h3::code::REQUEST_REJECTED,
    }
}

impl ClientExchange {
    /// The exchange, moved to another stream.
    fn moved_to(mut self: Box<Self>, stream: StreamId) -> ClientExchange {
        self.request.stream = Some(stream.0);
        *self
    }

    /// Notes that `len` bytes of the response's body were read. All bytes read in one wake-up count as one arrival.
    fn note_body(&mut self, len: u64, context: &mut EventContext<'_>) {
        self.request.response_body_bytes += len;
        let is_new = self.last_woken.replace(context.woken) != Some(context.woken);
        let recorder = &mut *context.recorder;
        recorder.note_body(&mut self.request, context.now, is_new);
    }

    /// Ends the request after its complete response. `stream` selects the response's trailers. A gRPC call may have
    /// failed nevertheless: by its status, or because something other than a gRPC server responded.
    fn finish(
        mut self: Box<Self>,
        stream: StreamId,
        trailers: &TrailersOfStreams,
        context: &mut EventContext<'_>,
    ) {
        self.log(stream, None, context);
        if let Some(status) = self.call {
            let trailers = trailers.iter().find(|(of, _)| *of == stream);
            let fields = trailers.map(|(_, fields)| fields.as_slice());
            self.request.error = status.with_trailers(fields.unwrap_or_default()).failure();
        } else if self.is_call && self.request.status.is_some_and(|status| status < 400) {
            // An HTTP error status already says why the call failed.
            self.request.error = Some(NOT_GRPC.to_owned());
        }
        context.recorder.finish(self.request, context.now);
    }

    /// Records the exchange at its end, if exchanges are wanted.
    fn log(&self, stream: StreamId, reset: Option<u64>, context: &mut EventContext<'_>) {
        if !context.log.wants_exchanges() {
            return;
        }
        context.log.record_exchange(ExchangeRecord {
            hop: context.log.hop(),
            side: Side::Client,
            connection: context.connection,
            stream: stream.0,
            protocol: context.protocol,
            request: Some(self.request.request),
            beginning: Beginning::default(),
            request_first: self.sent.first,
            request_last: self.sent.last,
            response_first: self.received.first,
            response_last: self.received.last,
            request_extent: self.sent.extent(),
            response_extent: self.received.extent(),
            request_body_bytes: self.request.request_body_bytes,
            response_body_bytes: self.request.response_body_bytes,
            status: self.request.status,
            reset,
        });
    }
}

#[cfg(test)]
mod tests {
    use squall_base::plan::Urgency;
    use squall_base::record::Phase;
    use squall_http::InboxOptions;
    use squall_load::Arrival;

    use super::*;
    use crate::client::queued_request::QueuedRequest;
    use crate::log::LogSinks;
    use crate::rows::{self, Capacity};

    fn fields(pairs: &[(&str, &str)]) -> Vec<Field> {
        let field = |(name, value): &(&str, &str)| Field::new(name, value);
        pairs.iter().map(field).collect()
    }

    /// The records of requests on streams 1, 3, ... that end in one inbox. Each has its response's head and trailers.
    /// `are_calls`: whether the requests are gRPC calls.
    fn records(responses: &[(Vec<Field>, Vec<Field>)], are_calls: bool) -> Vec<RequestRecord> {
        let (sender, rows) = rows::queue(Capacity::Unbounded);
        let mut recorder = Recorder::new(sender, None);
        let mut log = StationLog::new(Side::Client, LogSinks::default());
        let mut requests = InFlightRequests::default();
        let mut inbox = Inbox::new(InboxOptions::default());
        for (number, (head, trailers)) in (0..).zip(responses) {
            let stream = StreamId(2 * number + 1);
            let arrival = Arrival {
                request: number,
                intended: Time::ZERO,
                phase: Phase::Measure,
                user: 0,
                what: 0,
                urgency: Urgency::default(),
            };
            let request = QueuedRequest::new(arrival, Time::ZERO, 0).record();
            requests.insert(stream, request, are_calls);
            inbox.events.extend([
                ClientEvent::ResponseHeaders {
                    stream,
                    status: 200,
                    fields: head.clone(),
                },
                ClientEvent::ResponseEnd { stream, end: 9 },
            ]);
            if !trailers.is_empty() {
                inbox.trailers.push((stream, trailers.clone()));
            }
        }
        let mut context = EventContext {
            connection: 0,
            protocol: Protocol::H2,
            now: Time::ZERO,
            woken: Time::ZERO,
            recorder: &mut recorder,
            log: &mut log,
        };
        requests.apply(&mut inbox, |_, _| None, &mut context);
        recorder.flush();
        drop(recorder);
        rows.flat_map(|mut chunk| std::mem::take(&mut *chunk))
            .collect()
    }

    #[test]
    fn grpc_calls_fail_by_their_status_and_other_requests_do_not() {
        let grpc = ("content-type", "application/grpc");
        let responses = [
            (fields(&[grpc]), fields(&[("grpc-status", "0")])),
            (fields(&[grpc]), fields(&[("grpc-status", "13")])),
            (fields(&[grpc, ("grpc-status", "5")]), fields(&[])),
            (fields(&[grpc]), fields(&[])),
            (fields(&[("content-type", "text/html")]), fields(&[])),
            (fields(&[]), fields(&[("grpc-status", "13")])),
        ];
        let rows = records(&responses, false);
        let became: Vec<_> = (rows.iter())
            .map(|row| (row.succeeded(), row.error.as_deref()))
            .collect();
        let expected = [
            (true, None),
            (false, Some("grpc-status 13 (INTERNAL)")),
            (false, Some("grpc-status 5 (NOT_FOUND)")),
            (false, Some("no grpc-status")),
            (true, None),
            (true, None),
        ];
        assert_eq!(became, expected);
        assert!(rows.iter().all(|row| row.outcome == Outcome::Answered));
        // As responses to gRPC calls, the last two are failures, too.
        let rows = records(&responses, true);
        for (row, (succeeded, error)) in rows.iter().zip(&expected[..4]) {
            assert_eq!(
                (row.succeeded(), row.error.as_deref()),
                (*succeeded, *error)
            );
        }
        for row in &rows[4..] {
            let became = (row.outcome, row.is_failed_call(), row.error.as_deref());
            assert_eq!(became, (Outcome::Answered, true, Some(NOT_GRPC)));
        }
    }

    /// The record of one request and its number of gaps. Each pair in `at` holds two times in milliseconds: when a piece
    /// of the response's body arrives, and when the wake-up that reads it began.
    fn arrived(at: &[(u64, u64)], phase: Phase, is_whole: bool) -> (RequestRecord, u64) {
        let ms = |ms: u64| Time::from_nanos(ms * 1_000_000);
        let (sender, rows) = rows::queue(Capacity::Unbounded);
        let mut recorder = Recorder::new(sender, None);
        let mut log = StationLog::new(Side::Client, LogSinks::default());
        let mut requests = InFlightRequests::default();
        let mut inbox = Inbox::new(InboxOptions::default());
        let stream = StreamId(1);
        let arrival = Arrival {
            request: 0,
            intended: Time::ZERO,
            phase,
            user: 0,
            what: 0,
            urgency: Urgency::default(),
        };
        let request = QueuedRequest::new(arrival, Time::ZERO, 0).record();
        requests.insert(stream, request, false);
        for &(now, woken) in at {
            let mut context = EventContext {
                connection: 0,
                protocol: Protocol::H2,
                now: ms(now),
                woken: ms(woken),
                recorder: &mut recorder,
                log: &mut log,
            };
            inbox
                .events
                .push(ClientEvent::ResponseBody { stream, len: 10 });
            requests.apply(&mut inbox, |_, _| None, &mut context);
        }
        let request = requests.take(stream).expect("it is open");
        if is_whole {
            recorder.finish(request, ms(500));
        } else {
            let failure = RequestFailure::new(Outcome::Censored, String::new());
            recorder.fail(request, &failure, ms(500));
        }
        recorder.flush();
        let gaps = recorder.gaps.lateness().count;
        drop(recorder);
        let mut all = rows.flat_map(|mut chunk| std::mem::take(&mut *chunk));
        (all.next().expect("a row"), gaps)
    }

    #[test]
    fn gaps_are_measured_between_wake_ups_that_read_body_bytes() {
        let at = [(10, 10), (11, 10), (61, 61), (91, 90)];
        let (row, gaps) = arrived(&at, Phase::Measure, true);
        let ms = |ms: u64| Time::from_nanos(ms * 1_000_000);
        let arrivals = row.arrivals;
        assert_eq!((arrivals.count, gaps, row.response_body_bytes), (3, 2, 40));
        assert_eq!(
            (arrivals.first, arrivals.last),
            (Some(ms(10)), Some(ms(91)))
        );
        let longest = arrivals.longest_gap.expect("a gap");
        assert_eq!((longest.from, longest.to()), (ms(11), ms(61)));
        // Pieces that one wake-up reads have no gap, and the warm-up's gaps are in no histogram.
        assert_eq!(arrived(&at[..2], Phase::Measure, true).1, 0);
        assert_eq!(arrived(&at, Phase::Warmup, true).1, 0);
    }

    #[test]
    fn silence_before_a_censored_end_is_a_gap() {
        let (row, gaps) = arrived(&[(10, 10), (30, 30)], Phase::Measure, false);
        assert_eq!((row.arrivals.count, gaps), (2, 2));
        let longest = row.arrivals.longest_gap.expect("a gap");
        assert_eq!(longest.length, squall_base::Duration::from_millis(470));
    }
}
