//! The client's side of an HTTP/1.1 connection: one request, its response, the next request.
//!
//! It does not pipeline, and it does not wait for a 100 (Continue) before it sends a body.

use std::sync::Arc;

use super::body::Body;
use super::head::{HeadBuffer, ResponseHead, ToHead, parse_response};
use crate::error::{ConnectionError, SubmitError};
use crate::event::{ClientEvent, StreamId, push_response_body};
use crate::message::Request;

/// A client's connection.
#[derive(Debug)]
pub struct Client {
    next: StreamId,
    upload: Option<Upload>,
    reading: Reading,
    head: HeadBuffer,
    /// Whether the peer lets us use the connection again.
    is_kept_alive: bool,
    failure: Option<ConnectionError>,
}

/// A request on its way to the socket.
#[derive(Debug)]
struct Upload {
    stream: StreamId,
    request: Arc<Request>,
    written: usize,
}

/// What the next byte from the server belongs to.
#[derive(Debug)]
enum Reading {
    /// Nothing: no request is in flight.
    Idle,
    /// The head of the response, or of an interim one.
    Head {
        stream: StreamId,
        to_head: ToHead,
        has_begun: bool,
    },
    /// Its body.
    Body { stream: StreamId, body: Body },
}

impl Default for Client {
    fn default() -> Self {
        Client::new()
    }
}

impl Client {
    /// A connection that has not been used.
    pub fn new() -> Client {
        Client {
            next: StreamId(0),
            upload: None,
            reading: Reading::Idle,
            head: HeadBuffer::default(),
            is_kept_alive: true,
            failure: None,
        }
    }

    /// See [`crate::ClientConnection::is_ready`].
    pub fn is_ready(&self) -> bool {
        self.is_open() && self.upload.is_none() && matches!(self.reading, Reading::Idle)
    }

    /// See [`crate::ClientConnection::is_open`].
    pub fn is_open(&self) -> bool {
        self.is_kept_alive && self.failure.is_none()
    }

    /// See [`crate::ClientConnection::in_flight`]: 0 or 1.
    pub fn in_flight(&self) -> usize {
        usize::from(!matches!(self.reading, Reading::Idle))
    }

    /// See [`crate::ClientConnection::submit`].
    pub fn submit(&mut self, request: &Arc<Request>) -> Result<StreamId, SubmitError> {
        if !self.is_open() {
            return Err(SubmitError::Closed);
        }
        if !self.is_ready() {
            return Err(SubmitError::NotReady);
        }
        let stream = self.next;
        self.next = StreamId(stream.0.wrapping_add(1));
        self.upload = Some(Upload {
            stream,
            request: Arc::clone(request),
            written: 0,
        });
        let to_head = if request.is_head() {
            ToHead::Yes
        } else {
            ToHead::No
        };
        self.reading = Reading::Head {
            stream,
            to_head,
            has_begun: false,
        };
        Ok(stream)
    }

    /// See [`crate::ClientConnection::receive`].
    pub fn receive(
        &mut self,
        bytes: &[u8],
        events: &mut Vec<ClientEvent>,
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
        events: &mut Vec<ClientEvent>,
    ) -> Result<(), ConnectionError> {
        while !bytes.is_empty() {
            let used = match &mut self.reading {
                Reading::Idle => return Err(ConnectionError::UnexpectedBytes),
                Reading::Head {
                    stream,
                    to_head,
                    has_begun,
                } => {
                    let (stream, to_head) = (*stream, *to_head);
                    if self
                        .upload
                        .as_ref()
                        .is_some_and(|upload| upload.written == 0)
                    {
                        // It cannot be the answer to a request that has not left.
                        return Err(ConnectionError::UnexpectedBytes);
                    }
                    if !*has_begun {
                        *has_begun = true;
                        events.push(ClientEvent::ResponseFirstByte { stream });
                    }
                    let (used, head) = self
                        .head
                        .take(bytes, |bytes| parse_response(bytes, to_head))?;
                    if let Some(head) = head {
                        self.on_head(stream, head, events)?;
                    }
                    used
                }
                Reading::Body { stream, body } => {
                    let stream = *stream;
                    let taken = body.take(bytes)?;
                    push_response_body(events, stream, taken.data);
                    if taken.is_done {
                        self.end_response(stream, events);
                    }
                    taken.used
                }
            };
            bytes = &bytes[used..];
        }
        Ok(())
    }

    fn on_head(
        &mut self,
        stream: StreamId,
        head: ResponseHead,
        events: &mut Vec<ClientEvent>,
    ) -> Result<(), ConnectionError> {
        match head.status {
            101 => return Err(ConnectionError::UnexpectedUpgrade),
            100..=199 => return Ok(()),
            status => events.push(ClientEvent::ResponseHeaders { stream, status }),
        }
        self.is_kept_alive &= head.keeps_alive;
        match Body::of(head.framing) {
            Some(body) => self.reading = Reading::Body { stream, body },
            None => self.end_response(stream, events),
        }
        Ok(())
    }

    fn end_response(&mut self, stream: StreamId, events: &mut Vec<ClientEvent>) {
        self.reading = Reading::Idle;
        events.push(ClientEvent::ResponseEnd { stream });
    }

    /// See [`crate::ClientConnection::receive_end`].
    pub fn receive_end(&mut self, events: &mut Vec<ClientEvent>) -> Result<(), ConnectionError> {
        if let Some(failure) = &self.failure {
            return Err(failure.clone());
        }
        self.is_kept_alive = false;
        match self.reading {
            Reading::Idle => Ok(()),
            Reading::Body {
                stream,
                body: Body::UntilEnd,
            } => {
                self.end_response(stream, events);
                Ok(())
            }
            Reading::Head { .. } | Reading::Body { .. } => {
                self.failure = Some(ConnectionError::UnexpectedEnd);
                Err(ConnectionError::UnexpectedEnd)
            }
        }
    }

    /// See [`crate::ClientConnection::output`].
    pub fn output(&mut self) -> &[u8] {
        match &self.upload {
            Some(upload) if self.failure.is_none() => {
                upload.request.h1().piece_from(upload.written)
            }
            _ => &[],
        }
    }

    /// See [`crate::ClientConnection::advance_output`].
    pub fn advance_output(&mut self, n: usize, events: &mut Vec<ClientEvent>) {
        let n = n.min(self.output().len());
        let Some(upload) = &mut self.upload else {
            return;
        };
        if n == 0 {
            return;
        }
        let stream = upload.stream;
        if upload.written == 0 {
            events.push(ClientEvent::RequestFirstByteWritten { stream });
        }
        upload.written += n;
        if upload.written == upload.request.h1().len() {
            events.push(ClientEvent::RequestWritten { stream });
            self.upload = None;
        }
    }
}
