//! The server's side of an HTTP/1.1 connection: reads requests, writes their responses in order.
//!
//! Requests may be pipelined; a response may begin before its request's body has ended. It answers
//! nothing by itself but `Expect: 100-continue`.

use std::collections::VecDeque;
use std::sync::Arc;

use super::body::Body;
use super::head::{HeadBuffer, RequestHead, ToHead, parse_request};
use crate::error::{ConnectionError, RespondError};
use crate::event::{ServerEvent, StreamId, push_request_body};
use crate::message::{Response, Wire};

/// How many requests may wait for their answers; a bound of memory that no decent client reaches.
pub const MAX_PIPELINED: usize = 1024;

const CONTINUE: &[u8] = b"HTTP/1.1 100 Continue\r\n\r\n";

/// A server's connection.
#[derive(Debug)]
pub struct Server {
    next: StreamId,
    reading: Reading,
    head: HeadBuffer,
    /// Requests whose responses are not wholly written, oldest first.
    exchanges: VecDeque<Exchange>,
    failure: Option<ConnectionError>,
}

/// What the next byte from the client belongs to.
#[derive(Debug)]
enum Reading {
    /// The head of a request.
    Head,
    /// The body of a request, and whether another request may follow.
    Body {
        stream: StreamId,
        body: Body,
        then: Then,
    },
    /// Nothing: the client said or showed that this was all.
    Over,
}

/// What follows a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Then {
    Next,
    Close,
}

/// A request that waits for its response, or whose response is being written.
#[derive(Debug)]
struct Exchange {
    stream: StreamId,
    to_head: ToHead,
    then: Then,
    answer: Answer,
}

#[derive(Debug)]
enum Answer {
    /// None yet.
    Awaited,
    /// None yet, and the client waits for a 100 (Continue), of which so much is written.
    Continue { written: usize },
    /// The response, of which so much is written, after the rest of a 100 (Continue) that had begun.
    Response {
        continue_left: &'static [u8],
        response: Arc<Response>,
        written: usize,
    },
}

impl Default for Server {
    fn default() -> Self {
        Server::new()
    }
}

impl Server {
    /// A connection that has not been used.
    pub fn new() -> Server {
        Server {
            next: StreamId(0),
            reading: Reading::Head,
            head: HeadBuffer::default(),
            exchanges: VecDeque::new(),
            failure: None,
        }
    }

    /// See [`crate::ServerConnection::is_open`].
    pub fn is_open(&self) -> bool {
        let is_over = matches!(self.reading, Reading::Over) && self.exchanges.is_empty();
        self.failure.is_none() && !is_over
    }

    /// See [`crate::ServerConnection::respond`].
    pub fn respond(
        &mut self,
        stream: StreamId,
        response: &Arc<Response>,
    ) -> Result<(), RespondError> {
        let exchange = self
            .exchanges
            .iter_mut()
            .find(|exchange| exchange.stream == stream);
        let exchange = exchange.ok_or(RespondError::NotWaiting(stream))?;
        let continue_left = match exchange.answer {
            // A final response makes the interim one needless, unless it has begun.
            Answer::Awaited | Answer::Continue { written: 0 } => &[],
            Answer::Continue { written } => &CONTINUE[written..],
            Answer::Response { .. } => return Err(RespondError::NotWaiting(stream)),
        };
        let response = Arc::clone(response);
        exchange.answer = Answer::Response {
            continue_left,
            response,
            written: 0,
        };
        Ok(())
    }

    /// See [`crate::ServerConnection::receive`].
    pub fn receive(
        &mut self,
        bytes: &[u8],
        events: &mut Vec<ServerEvent>,
    ) -> Result<(), ConnectionError> {
        match &self.failure {
            Some(failure) => Err(failure.clone()),
            None => self.read(bytes, events).inspect_err(|error| {
                self.failure = Some(error.clone());
            }),
        }
    }

    fn read(
        &mut self,
        mut bytes: &[u8],
        events: &mut Vec<ServerEvent>,
    ) -> Result<(), ConnectionError> {
        while !bytes.is_empty() {
            let used = match &mut self.reading {
                Reading::Head => {
                    let (used, head) = self.head.take(bytes, parse_request)?;
                    if let Some(head) = head {
                        self.on_head(head, events)?;
                    }
                    used
                }
                Reading::Body { stream, body, then } => {
                    let (stream, then) = (*stream, *then);
                    let taken = body.take(bytes)?;
                    push_request_body(events, stream, taken.data);
                    if taken.is_done {
                        self.end_request(stream, then, events);
                    }
                    self.stop_waiting(stream);
                    taken.used
                }
                // What follows the last request is ignored (RFC 9112, section 9.6).
                Reading::Over => bytes.len(),
            };
            bytes = &bytes[used..];
        }
        Ok(())
    }

    fn on_head(
        &mut self,
        head: RequestHead,
        events: &mut Vec<ServerEvent>,
    ) -> Result<(), ConnectionError> {
        if self.exchanges.len() >= MAX_PIPELINED {
            return Err(ConnectionError::TooManyPipelined);
        }
        let stream = self.next;
        self.next = StreamId(stream.0.wrapping_add(1));
        let then = if head.keeps_alive {
            Then::Next
        } else {
            Then::Close
        };
        let body = Body::of(head.framing);
        let answer = if head.expects_continue && body.is_some() {
            Answer::Continue { written: 0 }
        } else {
            Answer::Awaited
        };
        let to_head = if head.method == "HEAD" {
            ToHead::Yes
        } else {
            ToHead::No
        };
        self.exchanges.push_back(Exchange {
            stream,
            to_head,
            then,
            answer,
        });
        let RequestHead { method, target, .. } = head;
        events.push(ServerEvent::RequestHead {
            stream,
            method,
            target,
        });
        match body {
            Some(body) => self.reading = Reading::Body { stream, body, then },
            None => self.end_request(stream, then, events),
        }
        Ok(())
    }

    fn end_request(&mut self, stream: StreamId, then: Then, events: &mut Vec<ServerEvent>) {
        self.reading = match then {
            Then::Next => Reading::Head,
            Then::Close => Reading::Over,
        };
        events.push(ServerEvent::RequestEnd { stream });
    }

    /// The client sends its body, so it does not wait for a 100 (Continue) any more.
    fn stop_waiting(&mut self, stream: StreamId) {
        if let Some(exchange) = self.exchanges.back_mut()
            && exchange.stream == stream
            && matches!(exchange.answer, Answer::Continue { written: 0 })
        {
            exchange.answer = Answer::Awaited;
        }
    }

    /// See [`crate::ServerConnection::receive_end`].
    pub fn receive_end(&mut self, _events: &mut Vec<ServerEvent>) -> Result<(), ConnectionError> {
        if let Some(failure) = &self.failure {
            return Err(failure.clone());
        }
        let is_between_requests = match self.reading {
            Reading::Head => self.head.is_empty(),
            Reading::Body { .. } => false,
            Reading::Over => true,
        };
        if is_between_requests {
            self.reading = Reading::Over;
            Ok(())
        } else {
            self.failure = Some(ConnectionError::UnexpectedEnd);
            Err(ConnectionError::UnexpectedEnd)
        }
    }

    /// See [`crate::ServerConnection::output`].
    pub fn output(&mut self) -> &[u8] {
        match self.exchanges.front() {
            Some(exchange) if self.failure.is_none() => exchange.output(),
            _ => &[],
        }
    }

    /// See [`crate::ServerConnection::advance_output`].
    pub fn advance_output(&mut self, n: usize, events: &mut Vec<ServerEvent>) {
        let n = n.min(self.output().len());
        let Some(exchange) = self.exchanges.front_mut() else {
            return;
        };
        if n > 0 && exchange.advance(n, events) == Progress::Done {
            self.exchanges.pop_front();
        }
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Progress {
    More,
    Done,
}

impl Exchange {
    /// The response in the form that this exchange sends, and its length.
    fn wire<'a>(&self, response: &'a Response) -> (&'a Wire, usize) {
        let wire = match self.then {
            Then::Next => response.h1_keep(),
            Then::Close => response.h1_close(),
        };
        match self.to_head {
            ToHead::Yes => (wire, wire.head_len()),
            ToHead::No => (wire, wire.len()),
        }
    }

    fn output(&self) -> &[u8] {
        match &self.answer {
            Answer::Awaited => &[],
            Answer::Continue { written } => &CONTINUE[*written..],
            Answer::Response { continue_left, .. } if !continue_left.is_empty() => continue_left,
            Answer::Response {
                response, written, ..
            } => {
                let (wire, len) = self.wire(response);
                let piece = wire.piece_from(*written);
                &piece[..piece.len().min(len - written)]
            }
        }
    }

    /// Counts `n` bytes of the output, more than none.
    fn advance(&mut self, n: usize, events: &mut Vec<ServerEvent>) -> Progress {
        let stream = self.stream;
        let len = match &self.answer {
            Answer::Response { response, .. } => self.wire(response).1,
            Answer::Awaited | Answer::Continue { .. } => 0,
        };
        match &mut self.answer {
            Answer::Awaited => {}
            Answer::Continue { written } => {
                *written += n;
                if *written == CONTINUE.len() {
                    self.answer = Answer::Awaited;
                }
            }
            Answer::Response { continue_left, .. } if !continue_left.is_empty() => {
                *continue_left = &continue_left[n..];
            }
            Answer::Response { written, .. } => {
                if *written == 0 {
                    events.push(ServerEvent::ResponseFirstByteWritten { stream });
                }
                *written += n;
                if *written == len {
                    events.push(ServerEvent::ResponseWritten { stream });
                    return Progress::Done;
                }
            }
        }
        Progress::More
    }
}
