//! The client's side of an HTTP/3 connection.

use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Instant;

use squall_base::Duration;
use squall_base::record::{FrameFacts, QuicPath};

use super::connection::{Connection, Head, Heard, Mark, Refused, Side};
use super::head;
use super::inbound::Role;
use super::outbound::Outbound;
use super::security::{ClientContext, Sessions, SetupError};
use super::wire::STREAM_STEP;
use super::{Announced, Batch, Closing, code, key_lines, path_record};
use crate::error::{ConnectionError, SubmitError};
use crate::event::{ClientEvent, StreamId};
use crate::inbox::Inbox;
use crate::message::{Request, Trailers};
use crate::tls;

/// A client's connection.
pub struct Client {
    pub(super) connection: Connection,
    exchanges: Exchanges,
    next_stream: u64,
    server_name: String,
    /// Where the session goes when it has come.
    sessions: Option<Sessions>,
}

#[derive(Default)]
struct Exchanges {
    /// Those that have neither been answered nor failed.
    open: BTreeMap<u64, Exchange>,
    /// From GOAWAY: streams from here on are not served.
    limit: Option<u64>,
    /// Streams that failed because of it.
    rejected: Vec<u64>,
}

struct Exchange {
    is_head: bool,
}

impl Client {
    /// A connection that has not been used; its first output is the handshake's. The certificate must be for
    /// `server_name`, a name or an address, unless nobody checks.
    pub fn new(
        context: &mut ClientContext,
        server_name: &str,
        local: SocketAddr,
        peer: SocketAddr,
    ) -> Result<Client, SetupError> {
        let id = context.ids.next();
        // quiche itself would take an address for a name.
        let mut conn = quiche::connect_with_buffer_factory(
            None,
            &quiche::ConnectionId::from_ref(&id),
            local,
            peer,
            &mut context.config,
        )?;
        tls::name_server(conn.as_mut(), server_name)?;
        let session = context
            .sessions
            .as_ref()
            .and_then(|sessions| sessions.find(server_name));
        if let Some(session) = session {
            conn.set_session(&session)?;
        }
        Ok(Client {
            connection: Connection::new(conn, Role::Client, &context.settings),
            exchanges: Exchanges::default(),
            next_stream: 0,
            server_name: server_name.to_owned(),
            sessions: context.sessions.clone(),
        })
    }

    /// Whether a request submitted now would be sent at once, as far as the congestion window allows: the handshake
    /// is complete and the server allows another stream.
    pub fn is_ready(&self) -> bool {
        self.is_open()
            && self.connection.is_usable()
            && self.connection.quic().peer_streams_left_bidi() > 0
    }

    /// See [`crate::ClientConnection::gather`]: streams hold each other up in nothing but the congestion window.
    pub fn gather(&mut self) -> bool {
        self.is_ready()
    }

    /// How many exchanges have neither been answered nor failed.
    pub fn in_flight(&self) -> usize {
        self.exchanges.open.len()
    }

    /// False once it can never take another request.
    pub fn is_open(&self) -> bool {
        self.exchanges.limit.is_none() && self.connection.closing().is_none()
    }

    /// Whether the handshake is complete.
    pub fn is_established(&self) -> bool {
        self.connection.quic().is_established()
    }

    /// Whether the handshake resumed an earlier session.
    pub fn is_resumed(&self) -> bool {
        self.connection.quic().is_resumed()
    }

    /// Whether nothing will ever be sent or received again.
    pub fn is_closed(&self) -> bool {
        self.connection.quic().is_closed()
    }

    /// Why it is over, from the moment that it takes and gives nothing more but CONNECTION_CLOSE.
    pub fn closing(&self) -> Option<Closing> {
        self.connection.closing()
    }

    /// What both sides announced and gave up so far.
    pub fn announced(&self) -> Announced {
        self.connection.announced()
    }

    /// Takes a request, only when [`Client::is_ready`].
    pub fn submit(&mut self, request: &Arc<Request>) -> Result<StreamId, SubmitError> {
        if !self.is_open() {
            return Err(SubmitError::Closed);
        }
        let id = self.next_stream;
        if !self.connection.is_usable() || !self.connection.open(id) {
            return Err(SubmitError::NotReady);
        }
        self.next_stream += STREAM_STEP;
        let is_head = request.is_head();
        self.exchanges.open.insert(id, Exchange { is_head });
        self.connection.send(id, |out| {
            out.push_message(head::encode(request.pairs()), request.body());
        });
        Ok(StreamId(id))
    }

    /// Takes a datagram that came from `from` to `to`, and decrypts it in place. An error ends the connection with
    /// all that is in flight; an end that hurts nobody is none, but [`Client::is_open`] is false.
    pub fn receive(
        &mut self,
        datagram: &mut [u8],
        from: SocketAddr,
        to: SocketAddr,
        inbox: &mut Inbox<ClientEvent>,
    ) -> Result<(), ConnectionError> {
        let mut side = Listener {
            exchanges: &mut self.exchanges,
            inbox,
        };
        self.connection.receive(datagram, from, to, &mut side);
        for id in self.exchanges.rejected.drain(..) {
            self.connection.reset(id, code::REQUEST_CANCELLED);
        }
        self.keep_session();
        self.state()
    }

    /// Fills `batch` with what is to be sent; false if there is nothing now. The marks in `inbox` are those of the
    /// batch: their time is when it leaves, [`Batch::delay`] after `now`. Until then nothing more is given out.
    pub fn output(
        &mut self,
        now: Instant,
        batch: &mut Batch,
        inbox: &mut Inbox<ClientEvent>,
    ) -> bool {
        let mut side = Listener {
            exchanges: &mut self.exchanges,
            inbox,
        };
        self.connection.output(now, batch, &mut side)
    }

    /// How long after `now` [`Client::on_timeout`] is to be called, and then [`Client::output`].
    pub fn timeout(&self, now: Instant) -> Option<Duration> {
        self.connection.wake_at().map(|at| until(at, now))
    }

    /// The time of [`Client::timeout`] has come. Errors are as of [`Client::receive`].
    pub fn on_timeout(&mut self, now: Instant) -> Result<(), ConnectionError> {
        self.connection.on_timeout(now);
        self.state()
    }

    /// Ends the connection with an HTTP/3 code, [`code::NO_ERROR`] for none; the next output says so to the server.
    pub fn close(&mut self, code: u64) {
        self.connection.close(code, "");
    }

    /// How many bytes of a streamed body would be taken now.
    pub fn body_room(&self, stream: StreamId) -> usize {
        self.connection.body_room(stream.0)
    }

    /// Takes some bytes of a streamed body and returns how many; none if the stream is gone.
    pub fn send_body(&mut self, stream: StreamId, bytes: &[u8]) -> usize {
        self.connection
            .send(stream.0, |out| out.push_some(bytes))
            .unwrap_or(0)
    }

    /// No more of a streamed body will come.
    pub fn end_body(&mut self, stream: StreamId) {
        self.connection.send(stream.0, Outbound::end_here);
    }

    /// The same with trailers behind the body.
    pub fn end_body_with(&mut self, stream: StreamId, trailers: &Trailers) {
        self.connection
            .send(stream.0, |out| out.push_trailers(trailers));
    }

    /// From now on bodies are read no further than 64 KiB ahead of [`Client::consume`]; what is not read stays in the
    /// server's window.
    pub fn set_manual_consumption(&mut self) {
        self.connection.set_manual_consumption();
    }

    /// The owner is done with `n` bytes of a body. The next call of `receive` or `output` may bring more of it.
    pub fn consume(&mut self, stream: StreamId, n: u64) {
        self.connection.consume(stream.0, n);
    }

    /// Gives up an exchange, with an HTTP/3 code.
    pub fn reset(&mut self, stream: StreamId, code: u64) {
        self.exchanges.open.remove(&stream.0);
        self.connection.reset(stream.0, code);
    }

    /// Lines of the key log since the last call.
    pub fn take_key_log(&mut self) -> Vec<String> {
        key_lines(&self.connection.take_key_log())
    }

    /// What quiche counts.
    pub fn path(&self) -> QuicPath {
        path(&self.connection)
    }

    fn state(&self) -> Result<(), ConnectionError> {
        state(&self.connection, self.in_flight())
    }

    /// Keeps the session as soon as the server's ticket has come.
    fn keep_session(&mut self) {
        if self.connection.quic().is_established()
            && let Some(session) = self.connection.quic().session()
            && let Some(sessions) = self.sessions.take()
        {
            sessions.keep(&self.server_name, session);
        }
    }
}

/// How long after `now` it is `at`.
pub(super) fn until(at: Instant, now: Instant) -> Duration {
    let nanos = at.saturating_duration_since(now).as_nanos();
    Duration::from_nanos(u64::try_from(nanos).unwrap_or(u64::MAX))
}

pub(super) fn path(connection: &Connection) -> QuicPath {
    let path = connection.quic().path_stats().find(|path| path.active);
    path_record(&connection.quic().stats(), path.as_ref())
}

/// An end is an error if it is one by its code, or if exchanges are lost by it.
pub(super) fn state(connection: &Connection, in_flight: usize) -> Result<(), ConnectionError> {
    match connection.closing() {
        Some(closing) if in_flight > 0 || !closing.is_clean() => Err(closing.into()),
        _ => Ok(()),
    }
}

/// The client while something arrives.
struct Listener<'a> {
    exchanges: &'a mut Exchanges,
    inbox: &'a mut Inbox<ClientEvent>,
}

impl Side for Listener<'_> {
    fn head(&mut self, id: u64, block: &[u8]) -> Result<Head, Refused> {
        let headers = head::decode(block)?;
        let head = head::response(headers).map_err(|_| Refused(code::MESSAGE_ERROR))?;
        if head.status < 200 {
            if self.inbox.wants().fields {
                self.inbox.push(ClientEvent::Interim {
                    stream: StreamId(id),
                    status: head.status,
                    fields: head.rest.fields,
                });
            }
            return Ok(Head::Interim);
        }
        // Lengths that say nothing about this message (RFC 9110, section 8.6).
        let is_bodyless = matches!(head.status, 204 | 304)
            || self.exchanges.open.get(&id).is_some_and(|e| e.is_head);
        let fields = match self.inbox.wants().fields {
            true => head.rest.fields,
            false => Vec::new(),
        };
        self.inbox.push(ClientEvent::ResponseHeaders {
            stream: StreamId(id),
            status: head.status,
            fields,
        });
        Ok(Head::Final(head.rest.length.filter(|_| !is_bodyless)))
    }

    fn trailers(&mut self, id: u64, block: &[u8]) -> Result<(), Refused> {
        let fields =
            head::trailers(head::decode(block)?).map_err(|_| Refused(code::MESSAGE_ERROR))?;
        if self.inbox.wants().fields {
            self.inbox.push_trailers(StreamId(id), fields);
        }
        Ok(())
    }

    fn heard(&mut self, id: u64, heard: Heard<'_>) {
        let stream = StreamId(id);
        match heard {
            Heard::FirstByte => self
                .inbox
                .push(ClientEvent::ResponseFirstByte { stream, offset: 0 }),
            Heard::Body(bytes) => self.inbox.push_body(stream, bytes),
            Heard::End(end) => {
                self.exchanges.open.remove(&id);
                self.inbox.push(ClientEvent::ResponseEnd { stream, end });
            }
            Heard::Reset(code) => {
                if self.exchanges.open.remove(&id).is_some() {
                    self.inbox.push(ClientEvent::StreamReset { stream, code });
                }
            }
            Heard::Refused(code) => {
                if self.exchanges.open.remove(&id).is_some() {
                    self.inbox
                        .push(ClientEvent::ResponseRefused { stream, code });
                }
            }
            // The response may still come (RFC 9114, section 4.1).
            Heard::Stopped(_) => {}
        }
    }

    fn mark(&mut self, mark: Mark) {
        self.inbox.push(match mark {
            Mark::First(id) => ClientEvent::RequestFirstByteWritten {
                stream: StreamId(id),
                offset: 0,
            },
            Mark::Last(id, end) => ClientEvent::RequestWritten {
                stream: StreamId(id),
                end,
            },
        });
    }

    fn go_away(&mut self, id: u64) {
        // GOAWAY names the first stream that is not served, and has no code (RFC 9114, section 5.2).
        self.inbox.push(ClientEvent::GoAway {
            last_stream: StreamId(id.saturating_sub(STREAM_STEP)),
            code: code::NO_ERROR,
        });
        self.exchanges.limit = Some(self.exchanges.limit.map_or(id, |limit| limit.min(id)));
        for stream in self.exchanges.open.split_off(&id).into_keys() {
            self.exchanges.rejected.push(stream);
            self.inbox.push(ClientEvent::RequestRefused {
                stream: StreamId(stream),
            });
        }
    }

    fn unanswered(&self) -> Vec<u64> {
        Vec::new()
    }

    fn accepts(&mut self, _: u64) -> Result<(), Refused> {
        Err(Refused(code::STREAM_CREATION_ERROR))
    }

    fn frames(&mut self) -> Option<&mut Vec<FrameFacts>> {
        let wants = self.inbox.wants();
        wants.frames.then_some(&mut self.inbox.frames)
    }
}
