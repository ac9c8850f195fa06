//! The requests in flight on one connection, and how its events change them.
//!
//! All events of one read or write get the time at which that call returned.

use squall_base::Time;
use squall_base::plan::Protocol;
use squall_base::record::{Beginning, ExchangeRecord, Outcome, RequestRecord, Side, Way};
use squall_http::{ClientEvent, Inbox, StreamId, Streams, WireExtent, h3};

use super::requests::{Failure, Recorder};
use crate::exchange::MessageMarks;
use crate::log::StationLog;

/// One request on its stream.
pub(crate) struct ClientExchange {
    request: RequestRecord,
    sent: MessageMarks,
    received: MessageMarks,
}

#[derive(Default)]
pub(crate) struct InFlightRequests {
    open: Streams<StreamId, Box<ClientExchange>>,
}

/// The context in which the events of a connection are applied.
pub(crate) struct EventContext<'a> {
    pub(crate) connection: u32,
    pub(crate) protocol: Protocol,
    pub(crate) now: Time,
    pub(crate) recorder: &'a mut Recorder,
    pub(crate) log: &'a mut StationLog,
}

impl InFlightRequests {
    pub(crate) fn insert(&mut self, stream: StreamId, request: RequestRecord) {
        let exchange = ClientExchange {
            request,
            sent: MessageMarks::default(),
            received: MessageMarks::default(),
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
            self.apply_event(event, &locate, context);
        }
        inbox.clear();
    }

    fn apply_event(
        &mut self,
        event: &ClientEvent,
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
            ClientEvent::ResponseHeaders { stream, status, .. } => {
                if let Some(exchange) = self.open.find(*stream) {
                    exchange.request.headers = Some(now);
                    exchange.request.status = Some(*status);
                }
            }
            ClientEvent::ResponseBody { stream, len } => {
                if let Some(exchange) = self.open.find(*stream) {
                    exchange.request.response_body_bytes += len;
                }
            }
            ClientEvent::ResponseEnd { stream, end } => {
                if let Some(mut exchange) = self.open.remove(*stream) {
                    let place = locate(Way::Received, end.saturating_sub(1));
                    exchange.received.end(now, *end, place);
                    exchange.log(*stream, None, context);
                    context.recorder.finish(exchange.request, now);
                }
            }
            ClientEvent::StreamReset { stream, code } => {
                let message = format!("the server reset the stream with error code {code}");
                let failure = Failure::new(Outcome::StreamReset, message);
                self.fail(*stream, Some(*code), &failure, context);
            }
            ClientEvent::ResponseRefused { stream, code } => {
                let words = h3::application_words(*code);
                let message = format!("the response was refused: {words} (HTTP/3 error {code:#x})");
                let failure = Failure::new(Outcome::ProtocolError, message);
                self.fail(*stream, Some(*code), &failure, context);
            }
            ClientEvent::RequestRefused { stream } => {
                let message = "the server's GOAWAY refused the request, unprocessed".to_owned();
                let failure = Failure::new(Outcome::StreamReset, message);
                self.fail(*stream, None, &failure, context);
            }
            ClientEvent::Switched { from, to } => {
                if let Some(exchange) = self.open.remove(*from) {
                    self.open.insert(*to, Box::new(exchange.moved_to(*to)));
                }
            }
            ClientEvent::GoAway { .. } | ClientEvent::Interim { .. } => {}
        }
    }

    /// Ends the request of a stream without a response. `reset` is the code with which either side reset the stream.
    fn fail(
        &mut self,
        stream: StreamId,
        reset: Option<u64>,
        failure: &Failure,
        context: &mut EventContext<'_>,
    ) {
        if let Some(exchange) = self.open.remove(stream) {
            exchange.log(stream, reset, context);
            (context.recorder).fail(exchange.request, failure, context.now);
        }
    }
}

impl ClientExchange {
    /// The exchange, moved to another stream.
    fn moved_to(mut self: Box<Self>, stream: StreamId) -> ClientExchange {
        self.request.stream = Some(stream.0);
        *self
    }

    /// Records it at its end, if exchanges are wanted.
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
