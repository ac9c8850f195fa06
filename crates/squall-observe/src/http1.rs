//! HTTP/1.1 as two byte streams: requests one way, responses the other, in the same order.
//!
//! squall-http reads the messages; here requests meet their responses. Pipelining is followed. A connection that was
//! found midway begins at the first request that is seen whole.

use std::collections::VecDeque;

use squall_base::Time;
use squall_base::plan::Protocol;
use squall_base::record::Way;
use squall_http::h1::{Answers, RequestPart, RequestReader, ResponsePart, ResponseReader};

use crate::connection_record::Opaque;
use crate::exchange::{Exchange, Sink, Trails};

/// More requests than anybody pipelines; beyond them, which takes a hostile peer, nothing more is told.
const MAX_PIPELINED: usize = 1 << 16;

/// A connection.
#[derive(Debug)]
pub(crate) struct Http1 {
    client: Way,
    protocol: Protocol,
    requests: RequestReader,
    responses: ResponseReader,
    /// Which request comes next.
    next: u64,
    /// Requests whose responses are not complete, oldest first.
    open: VecDeque<Open>,
}

#[derive(Debug)]
struct Open {
    stream: u64,
    exchange: Exchange,
    answers: Answers,
}

/// The connection goes on as HTTP/2, from these offsets.
#[derive(Debug)]
pub(crate) struct Upgrade {
    /// Of what the client sends.
    pub(crate) requests: u64,
    /// Of what the server does.
    pub(crate) responses: u64,
    /// The exchange that goes on as stream 1.
    pub(crate) exchange: Exchange,
    /// How many of the bytes that were given are still HTTP/1.1.
    pub(crate) used: usize,
}

impl Http1 {
    /// Requests begin at the first of these offsets, responses at the second.
    pub(crate) fn new(client: Way, protocol: Protocol, requests: u64, responses: u64) -> Http1 {
        Http1 {
            client,
            protocol,
            requests: RequestReader::at(requests),
            responses: ResponseReader::at(responses),
            next: 0,
            open: VecDeque::new(),
        }
    }

    /// How the client's bytes go.
    pub(crate) fn client(&self) -> Way {
        self.client
    }

    /// Takes what went `way`.
    pub(crate) fn feed(
        &mut self,
        way: Way,
        bytes: &[u8],
        trails: &Trails,
        sink: &mut Sink<'_>,
    ) -> Result<Option<Upgrade>, Opaque> {
        let mut rest = bytes;
        while !rest.is_empty() {
            let used = if way == self.client {
                self.request(rest, trails)?
            } else {
                match self.response(rest, trails, sink)? {
                    Ok(used) => used,
                    Err(mut upgrade) => {
                        upgrade.used += bytes.len() - rest.len();
                        return Ok(Some(upgrade));
                    }
                }
            };
            rest = rest.get(used.max(1)..).unwrap_or(&[]);
        }
        Ok(None)
    }

    fn request(&mut self, bytes: &[u8], trails: &Trails) -> Result<usize, Opaque> {
        let trail = trails.of(self.client);
        let Http1 {
            requests,
            next,
            open,
            ..
        } = self;
        if open.len() >= MAX_PIPELINED {
            return Err(Opaque::Unclear(
                "more requests are pipelined than anybody waits for".to_owned(),
            ));
        }
        let result = requests.step(bytes, |part| {
            if let RequestPart::Begins(_) = part {
                open.push_back(Open {
                    stream: *next,
                    exchange: Exchange::default(),
                    answers: Answers::Other,
                });
                *next += 1;
            }
            // A request whose response was complete before it is not here any more.
            let Some(last) = open.back_mut().filter(|last| last.stream + 1 == *next) else {
                return;
            };
            match part {
                RequestPart::Begins(offset) => last.exchange.request.begin(offset, trail),
                RequestPart::Head { is_head, request } => {
                    last.exchange.traced = request;
                    if is_head {
                        last.answers = Answers::Head;
                    }
                }
                RequestPart::Body(bytes) => last.exchange.request_body_bytes += bytes,
                RequestPart::Ends(end) => last.exchange.request.end(end, None, trail),
            }
        });
        result.map_err(|error| Opaque::of_http(self.next <= 1, &error))
    }

    /// How many bytes, or the connection goes on as HTTP/2.
    fn response(
        &mut self,
        bytes: &[u8],
        trails: &Trails,
        sink: &mut Sink<'_>,
    ) -> Result<Result<usize, Upgrade>, Opaque> {
        let trail = trails.of(crate::exchange::against(self.client));
        let Some(first) = self.open.front_mut() else {
            return Err(Opaque::Unclear(
                "a response came that no request asked for".to_owned(),
            ));
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
        let used = result.map_err(|error| Opaque::of_http(first.stream == 0, &error))?;
        match switch {
            None => {}
            Some(true) if self.open.len() == 1 && !self.requests.is_within() => {
                let exchange = self.open.pop_front().map(|open| open.exchange);
                return Ok(Err(Upgrade {
                    requests: self.requests.offset(),
                    responses: self.responses.offset(),
                    exchange: exchange.unwrap_or_default(),
                    used,
                }));
            }
            Some(_) => return Err(Opaque::Switched),
        }
        if has_ended {
            self.finish_first(sink);
        }
        Ok(Ok(used))
    }

    fn finish_first(&mut self, sink: &mut Sink<'_>) {
        if let Some(first) = self.open.pop_front() {
            sink.exchange(first.stream, self.protocol, &first.exchange, None);
        }
    }

    /// What goes `way` has ended in order, at `now`: that may end a response.
    pub(crate) fn end(&mut self, way: Way, now: Time, trails: &Trails, sink: &mut Sink<'_>) {
        if way == self.client {
            return;
        }
        if let Some(end) = self.responses.end()
            && let Some(first) = self.open.front_mut()
        {
            // Whoever reads knows only now that it is all; whoever writes knew before.
            let at = (way == Way::Received).then_some(now);
            first.exchange.response.end(end, at, trails.of(way));
            self.finish_first(sink);
        }
    }

    /// The connection is gone: writes down what was open.
    pub(crate) fn abandon(&mut self, sink: &mut Sink<'_>) {
        while !self.open.is_empty() {
            self.finish_first(sink);
        }
    }
}
