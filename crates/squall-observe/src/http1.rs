//! HTTP/1.1 as two byte streams: requests in one direction, responses in the other, in the same order.
//!
//! squall-http parses the messages; this module pairs responses with requests, including pipelined ones. It does not
//! judge what it reads. On a connection that was joined midway, it starts at the first request that is seen whole;
//! `plain` finds that.

use std::collections::VecDeque;

use squall_base::Time;
use squall_base::plan::Protocol;
use squall_base::record::Way;
use squall_http::h1::{AnsweredMethod, RequestPart, RequestReader, ResponsePart, ResponseReader};

use crate::connection_record::OpaqueReason;
use crate::exchange::{Exchange, Sink, Trails};

/// More outstanding requests than any real client pipelines. Only a hostile peer exceeds this; the connection then
/// becomes opaque.
const MAX_PIPELINED: usize = 1 << 16;

/// The HTTP/1.1 of one connection.
#[derive(Debug)]
pub(crate) struct Http1 {
    client: Way,
    protocol: Protocol,
    requests: RequestReader,
    responses: ResponseReader,
    /// The number of the next request.
    next: u64,
    /// Requests whose responses are not complete, oldest first.
    pending: VecDeque<PendingRequest>,
}

#[derive(Debug)]
struct PendingRequest {
    stream: u64,
    exchange: Exchange,
    answers: AnsweredMethod,
}

/// The connection continues as HTTP/2, from these offsets.
#[derive(Debug)]
pub(crate) struct Upgrade {
    /// In the client's bytes.
    pub(crate) requests: u64,
    /// In the server's bytes.
    pub(crate) responses: u64,
    /// The exchange that continues as stream 1.
    pub(crate) exchange: Exchange,
    /// How many of the bytes passed in are still HTTP/1.1.
    pub(crate) http1_bytes: usize,
}

impl Http1 {
    /// Starts reading requests at the offset `requests` and responses at the offset `responses`.
    pub(crate) fn new(client: Way, protocol: Protocol, requests: u64, responses: u64) -> Http1 {
        Http1 {
            client,
            protocol,
            requests: RequestReader::at(requests),
            responses: ResponseReader::at(responses),
            next: 0,
            pending: VecDeque::new(),
        }
    }

    /// The direction of the client's bytes.
    pub(crate) fn client(&self) -> Way {
        self.client
    }

    /// Reads the next bytes of a direction.
    pub(crate) fn feed(
        &mut self,
        way: Way,
        bytes: &[u8],
        trails: &Trails,
        sink: &mut Sink<'_>,
    ) -> Result<Option<Upgrade>, OpaqueReason> {
        let mut rest = bytes;
        while !rest.is_empty() {
            let used = if way == self.client {
                self.request(rest, trails)?
            } else {
                match self.response(rest, trails, sink)? {
                    Ok(used) => used,
                    Err(mut upgrade) => {
                        upgrade.http1_bytes += bytes.len() - rest.len();
                        return Ok(Some(upgrade));
                    }
                }
            };
            rest = rest.get(used.max(1)..).unwrap_or(&[]);
        }
        Ok(None)
    }

    fn request(&mut self, bytes: &[u8], trails: &Trails) -> Result<usize, OpaqueReason> {
        let trail = trails.of(self.client);
        let Http1 {
            requests,
            next,
            pending,
            ..
        } = self;
        if pending.len() >= MAX_PIPELINED {
            return Err(OpaqueReason::unclear(
                "more requests are pipelined than any real client sends",
            ));
        }
        let result = requests.step(bytes, |part| {
            if let RequestPart::Begins(_) = part {
                pending.push_back(PendingRequest {
                    stream: *next,
                    exchange: Exchange::default(),
                    answers: AnsweredMethod::Other,
                });
                *next += 1;
            }
            // A request whose response completed before the request did is no longer in `pending`.
            let Some(last) = pending.back_mut().filter(|last| last.stream + 1 == *next) else {
                return;
            };
            match part {
                RequestPart::Begins(offset) => last.exchange.request.begin(offset, trail),
                RequestPart::Head { is_head, request } => {
                    last.exchange.traced_request = request;
                    if is_head {
                        last.answers = AnsweredMethod::Head;
                    }
                }
                RequestPart::Body(bytes) => last.exchange.request_body_bytes += bytes,
                RequestPart::Ends(end) => last.exchange.request.end(end, None, trail),
            }
        });
        result.map_err(|error| {
            let is_newest = |last: &PendingRequest| last.stream + 1 == *next;
            if error.is_no_message() && pending.back().is_some_and(is_newest) {
                // The bytes after the last complete request turned out not to be a request.
                pending.pop_back();
            }
            OpaqueReason::of_http(&error)
        })
    }

    /// Returns how many bytes it read, or the upgrade if the connection continues as HTTP/2.
    fn response(
        &mut self,
        bytes: &[u8],
        trails: &Trails,
        sink: &mut Sink<'_>,
    ) -> Result<Result<usize, Upgrade>, OpaqueReason> {
        let trail = trails.of(self.client.opposite());
        let Some(first) = self.pending.front_mut() else {
            return Err(OpaqueReason::unclear("a response came without a request"));
        };
        let (mut has_ended, mut switch) = (false, None);
        let exchange = &mut first.exchange;
        let result = self
            .responses
            .step(bytes, first.answers, |part| match part {
                ResponsePart::Begins(offset) => exchange.response.begin(offset, trail),
                ResponsePart::Interim(_) => {}
                ResponsePart::Switches { to_h2c, .. } => switch = Some(to_h2c),
                ResponsePart::Head(status) => exchange.status = Some(status),
                ResponsePart::Body(bytes) => exchange.response_body_bytes += bytes,
                ResponsePart::Ends(end) => {
                    exchange.response.end(end, None, trail);
                    has_ended = true;
                }
            });
        let used = result.map_err(|error| OpaqueReason::of_http(&error))?;
        match switch {
            None => {}
            Some(true) if self.pending.len() == 1 && !self.requests.is_within() => {
                let exchange = self.pending.pop_front().map(|pending| pending.exchange);
                return Ok(Err(Upgrade {
                    requests: self.requests.offset(),
                    responses: self.responses.offset(),
                    exchange: exchange.unwrap_or_default(),
                    http1_bytes: used,
                }));
            }
            Some(_) => return Err(OpaqueReason::Switched),
        }
        if has_ended {
            self.finish_first(sink);
        }
        Ok(Ok(used))
    }

    fn finish_first(&mut self, sink: &mut Sink<'_>) {
        if let Some(first) = self.pending.pop_front() {
            sink.exchange(first.stream, self.protocol, &first.exchange, None);
        }
    }

    /// The direction `way` was closed in order at `now`, which may complete a response.
    pub(crate) fn end(&mut self, way: Way, now: Time, trails: &Trails, sink: &mut Sink<'_>) {
        if way == self.client {
            return;
        }
        if let Some(end) = self.responses.end()
            && let Some(first) = self.pending.front_mut()
        {
            // The receiver learns only now that the response is complete; the sender knew before.
            let at = (way == Way::Received).then_some(now);
            first.exchange.response.end(end, at, trails.of(way));
            self.finish_first(sink);
        }
    }

    /// The connection is gone: writes the rows of open exchanges.
    pub(crate) fn abandon(&mut self, sink: &mut Sink<'_>) {
        while !self.pending.is_empty() {
            self.finish_first(sink);
        }
    }
}
