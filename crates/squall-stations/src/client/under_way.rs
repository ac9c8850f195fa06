//! The requests that are under way on one connection, and what its events make of them.
//!
//! All events of one read or write get the time at which that call had returned.

use squall_base::Time;
use squall_base::plan::Protocol;
use squall_base::record::{Beginning, ExchangeRecord, Outcome, RequestRecord, Side, Way};
use squall_http::{ClientEvent, Inbox, Place, StreamId, Streams, h3};

use super::requests::{Failure, Recorder};
use crate::exchange::Passage;
use crate::log::Log;

/// One request on its stream.
pub(crate) struct Exchange {
    request: RequestRecord,
    sent: Passage,
    received: Passage,
}

#[derive(Default)]
pub(crate) struct UnderWay {
    open: Streams<StreamId, Box<Exchange>>,
}

/// What the events of a connection are applied with.
pub(crate) struct Applied<'a> {
    pub(crate) connection: u32,
    pub(crate) protocol: Protocol,
    pub(crate) now: Time,
    pub(crate) recorder: &'a mut Recorder,
    pub(crate) log: &'a mut Log,
}

impl UnderWay {
    pub(crate) fn insert(&mut self, stream: StreamId, request: RequestRecord) {
        let exchange = Exchange {
            request,
            sent: Passage::default(),
            received: Passage::default(),
        };
        self.open.insert(stream, Box::new(exchange));
    }

    /// Whether a stream's request has not ended.
    pub(crate) fn has(&mut self, stream: StreamId) -> bool {
        self.open.find(stream).is_some()
    }

    /// Which of the load's requests goes on a stream that has not ended.
    pub(crate) fn what(&mut self, stream: StreamId) -> Option<u32> {
        Some(self.open.find(stream)?.request.what)
    }

    /// The request of a stream that has not ended, for whoever ends it.
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

    /// Applies and empties the inbox. `locate` says which bytes of the wire carried a byte of HTTP.
    pub(crate) fn apply(
        &mut self,
        inbox: &mut Inbox<ClientEvent>,
        locate: impl Fn(Way, u64) -> Option<Place>,
        with: &mut Applied<'_>,
    ) {
        if !inbox.frames.is_empty() {
            with.log.frames(with.connection, with.now, &inbox.frames);
        }
        for event in &inbox.events {
            self.apply_event(event, &locate, with);
        }
        inbox.clear();
    }

    fn apply_event(
        &mut self,
        event: &ClientEvent,
        locate: &impl Fn(Way, u64) -> Option<Place>,
        with: &mut Applied<'_>,
    ) {
        let now = with.now;
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
                    exchange.finish(*stream, &End::Answered, with);
                }
            }
            ClientEvent::StreamReset { stream, code } => {
                if let Some(exchange) = self.open.remove(*stream) {
                    exchange.finish(*stream, &End::Reset(*code), with);
                }
            }
            ClientEvent::ResponseRefused { stream, code } => {
                if let Some(exchange) = self.open.remove(*stream) {
                    exchange.finish(*stream, &End::RefusedByUs(*code), with);
                }
            }
            ClientEvent::RequestRefused { stream } => {
                if let Some(exchange) = self.open.remove(*stream) {
                    exchange.finish(*stream, &End::Refused, with);
                }
            }
            ClientEvent::Switched { from, to } => {
                if let Some(exchange) = self.open.remove(*from) {
                    self.open.insert(*to, Box::new(exchange.renamed(*to)));
                }
            }
            ClientEvent::GoAway { .. } | ClientEvent::Interim { .. } => {}
        }
    }
}

/// How an exchange ended.
enum End {
    Answered,
    /// By the server's reset with this code.
    Reset(u64),
    /// By ours, over HTTP/3: of the response.
    RefusedByUs(u64),
    /// By a GOAWAY.
    Refused,
}

impl Exchange {
    /// The same on another stream.
    fn renamed(mut self: Box<Self>, stream: StreamId) -> Exchange {
        self.request.stream = Some(stream.0);
        *self
    }

    fn finish(self: Box<Self>, stream: StreamId, end: &End, with: &mut Applied<'_>) {
        let now = with.now;
        if with.log.wants_exchanges() {
            let reset = match end {
                End::Reset(code) | End::RefusedByUs(code) => Some(*code),
                End::Answered | End::Refused => None,
            };
            with.log.exchange(self.record(stream, reset, with));
        }
        let (outcome, said) = match end {
            End::Answered => return with.recorder.finish(self.request, now),
            End::Reset(code) => (
                Outcome::StreamReset,
                format!("the server reset the stream with error code {code}"),
            ),
            End::RefusedByUs(code) => {
                let words = h3::application_words(*code);
                let said = format!("the response was refused: {words} (HTTP/3 error {code:#x})");
                (Outcome::ProtocolError, said)
            }
            End::Refused => (
                Outcome::StreamReset,
                "the server's GOAWAY refused the request, unprocessed".to_owned(),
            ),
        };
        let failure = Failure::new(outcome, said);
        with.recorder.fail(self.request, &failure, now);
    }

    fn record(&self, stream: StreamId, reset: Option<u64>, with: &Applied<'_>) -> ExchangeRecord {
        ExchangeRecord {
            hop: with.log.hop(),
            side: Side::Client,
            connection: with.connection,
            stream: stream.0,
            protocol: with.protocol,
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
        }
    }
}
