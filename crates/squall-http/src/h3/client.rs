//! The client's side of an HTTP/3 connection: requests out, responses in, and the session for the next connection.
//!
//! It opens no socket and has no timer of its own; the owner calls [`Client::on_timeout`]. `connection` holds what both
//! sides share, `security` the configuration and the sessions; `server` is the other side.

use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Instant;

use squall_base::Duration;
use squall_base::record::{FrameFacts, QuicPath};

use super::code::{self, StreamError};
use super::connection::{Connection, ConnectionEnd, HeadKind, Mark, MessageEvent, Side};
use super::head;
use super::inbound::Role;
use super::security::{ClientContext, Sessions, SetupError};
use super::wire::STREAM_STEP;
use super::{Announcements, Batch, CloseReason, key_lines, path_record};
use crate::error::{ConnectionError, SubmitError};
use crate::event::{ClientEvent, StreamId};
use crate::h1::MAX_INTERIM_RESPONSES;
use crate::handshake::{HandshakeFacts, ServerTransport};
use crate::inbox::Inbox;
use crate::message::Request;
use crate::tls::{self, CertificateChain};

/// A client's connection.
pub struct Client {
    pub(super) connection: Connection,
    streams: OpenStreams,
    next_stream: u64,
    /// How many more requests the settings allow; `None`: any number.
    requests_left: Option<u32>,
    server_name: String,
    /// Where the session is stored once its ticket arrives.
    sessions: Option<Sessions>,
    /// The group of the key exchange, once the handshake is complete.
    group: Option<&'static str>,
    largest_datagram: usize,
}

#[derive(Default)]
struct OpenStreams {
    /// Exchanges that have neither completed nor failed.
    open: BTreeMap<u64, StreamState>,
    /// From GOAWAY: streams from this id on are not served.
    limit: Option<u64>,
    /// Streams that failed because of the GOAWAY.
    rejected: Vec<u64>,
}

struct StreamState {
    is_head: bool,
    /// Interim responses received.
    interims: u32,
}

impl Client {
    /// A new connection; its first output starts the handshake. The certificate must be for `server_name`, which is a
    /// name or an address, unless certificates are not checked.
    pub fn new(
        context: &mut ClientContext,
        server_name: &str,
        local: SocketAddr,
        peer: SocketAddr,
    ) -> Result<Client, SetupError> {
        let id = context.ids.next();
        // quiche itself would mistake an address for a name.
        let mut conn = quiche::connect_with_buffer_factory(
            None,
            &quiche::ConnectionId::from_ref(&id),
            local,
            peer,
            &mut context.config,
        )?;
        tls::set_server_name(conn.as_mut(), server_name)?;
        let session = context
            .sessions
            .as_ref()
            .and_then(|sessions| sessions.find(server_name));
        if let Some(session) = session {
            conn.set_session(&session)?;
        }
        Ok(Client {
            connection: Connection::new(conn, Role::Client, &context.settings, &context.buffers),
            streams: OpenStreams::default(),
            next_stream: 0,
            requests_left: context.settings.requests_per_connection,
            server_name: server_name.to_owned(),
            sessions: context.sessions.clone(),
            group: None,
            largest_datagram: 0,
        })
    }

    /// Whether a request submitted now would be sent immediately, as far as the congestion window allows: the handshake
    /// is complete and the server allows another stream.
    pub fn is_ready(&self) -> bool {
        self.is_open()
            && self.requests_left != Some(0)
            && self.connection.is_usable()
            && self.connection.quic().peer_streams_left_bidi() > 0
    }

    /// How many exchanges have neither completed nor failed.
    pub fn in_flight(&self) -> usize {
        self.streams.open.len()
    }

    /// Whether the client can still take a request. After the last request that the settings allow, this stays true until
    /// all requests have ended.
    pub fn is_open(&self) -> bool {
        let is_used_up = self.requests_left == Some(0) && self.in_flight() == 0;
        !is_used_up && self.streams.limit.is_none() && self.connection.closing().is_none()
    }

    /// Whether the handshake is complete.
    pub fn is_established(&self) -> bool {
        self.connection.quic().is_established()
    }

    /// Whether the handshake resumed an earlier session.
    pub fn is_resumed(&self) -> bool {
        self.connection.quic().is_resumed()
    }

    /// What the handshake showed of the server; `None` before it completes.
    pub fn handshake_facts(&self) -> Option<HandshakeFacts> {
        let quic = self.connection.quic();
        if !quic.is_established() {
            return None;
        }
        Some(HandshakeFacts {
            group: self.group,
            client_hello_bytes: None,
            certificates: quic.peer_cert_chain().map(CertificateChain::of_der),
            transport: quic.peer_transport_params().map(server_transport),
        })
    }

    /// Bytes of the largest UDP payload received.
    pub fn largest_datagram(&self) -> usize {
        self.largest_datagram
    }

    /// Whether the connection is over: it neither sends nor receives.
    pub fn is_closed(&self) -> bool {
        self.connection.quic().is_closed()
    }

    /// Why the connection is over, as soon as it exchanges nothing more except CONNECTION_CLOSE.
    pub fn closing(&self) -> Option<CloseReason> {
        self.connection.closing()
    }

    /// The settings that both sides announced, and counts of GOAWAYs and resets.
    pub fn announced(&self) -> Announcements {
        self.connection.announced()
    }

    /// Takes a request; only allowed when [`Client::is_ready`] returns true.
    pub fn submit(&mut self, request: &Arc<Request>) -> Result<StreamId, SubmitError> {
        if !self.is_open() {
            return Err(SubmitError::Closed);
        }
        let id = self.next_stream;
        let is_used_up = self.requests_left == Some(0);
        if is_used_up || !self.connection.is_usable() || !self.connection.open(id) {
            return Err(SubmitError::NotReady);
        }
        self.next_stream += STREAM_STEP;
        self.requests_left = self.requests_left.map(|left| left.saturating_sub(1));
        let is_head = request.is_head();
        let state = StreamState {
            is_head,
            interims: 0,
        };
        self.streams.open.insert(id, state);
        self.connection.send(id, |out| {
            out.push_message(head::encode(request.pairs()), request.body());
        });
        Ok(StreamId(id))
    }

    /// Takes a datagram that was sent from `from` to `to`, and decrypts it in place. An error ends the connection and
    /// all exchanges in flight. A clean end with nothing in flight is not an error, but [`Client::is_open`] then
    /// returns false.
    pub fn receive(
        &mut self,
        datagram: &mut [u8],
        from: SocketAddr,
        to: SocketAddr,
        inbox: &mut Inbox<ClientEvent>,
    ) -> Result<(), ConnectionError> {
        let mut side = Listener {
            streams: &mut self.streams,
            inbox,
        };
        self.largest_datagram = self.largest_datagram.max(datagram.len());
        self.connection.receive(datagram, from, to, &mut side);
        if self.group.is_none() && self.is_established() {
            self.group = self.connection.group();
        }
        for id in self.streams.rejected.drain(..) {
            self.connection.reset(id, code::REQUEST_CANCELLED);
        }
        self.store_session();
        self.state()
    }

    /// Fills `batch` with output; false if there is nothing to send. The marks in `inbox` belong to the batch: their time
    /// is when it leaves, [`Batch::delay`] after `now`. Until then, further calls return false.
    pub fn output(
        &mut self,
        now: Instant,
        batch: &mut Batch,
        inbox: &mut Inbox<ClientEvent>,
    ) -> bool {
        let mut side = Listener {
            streams: &mut self.streams,
            inbox,
        };
        self.connection.output(now, batch, &mut side)
    }

    /// How long after `now` to call [`Client::on_timeout`] and then [`Client::output`].
    pub fn timeout(&self, now: Instant) -> Option<Duration> {
        self.connection.next_timer().map(|at| until(at, now))
    }

    /// Runs the timers once [`Client::timeout`] has passed. Returns errors as [`Client::receive`] does.
    pub fn on_timeout(&mut self, now: Instant) -> Result<(), ConnectionError> {
        self.connection.on_timeout(now);
        self.state()
    }

    /// Ends the connection with an HTTP/3 code, [`code::NO_ERROR`] if there is no error; the next output tells the
    /// server.
    pub fn close(&mut self, code: u64) {
        self.connection.close(code, "");
    }

    /// Limits reading bodies to 64 KiB ahead of [`crate::StreamIo::consume`]. Unread bytes stay in the server's window.
    pub fn set_manual_consumption(&mut self) {
        self.connection.set_manual_consumption();
    }

    /// Lines of the key log since the last call.
    pub fn take_key_log(&mut self) -> Vec<String> {
        key_lines(&self.connection.take_key_log())
    }

    /// Path statistics from quiche.
    pub fn path(&self) -> QuicPath {
        path(&self.connection)
    }

    /// The end of a connection is an error if its code says so or if exchanges were lost.
    fn state(&self) -> Result<(), ConnectionError> {
        match self.connection.closing() {
            Some(closing) if self.in_flight() > 0 || !closing.is_clean() => Err(closing.into()),
            _ => Ok(()),
        }
    }

    /// Stores the session as soon as the server's ticket has arrived.
    fn store_session(&mut self) {
        if self.connection.quic().is_established()
            && let Some(session) = self.connection.quic().session()
            && let Some(sessions) = self.sessions.take()
        {
            sessions.store(&self.server_name, session);
        }
    }
}

impl ConnectionEnd for Client {
    fn connection(&self) -> &Connection {
        &self.connection
    }

    fn connection_mut(&mut self) -> &mut Connection {
        &mut self.connection
    }

    fn forget(&mut self, stream: u64) {
        self.streams.open.remove(&stream);
    }
}

fn server_transport(parameters: &quiche::TransportParams) -> ServerTransport {
    // The server may announce any number.
    let millis = |millis: u64| Duration::from_nanos(millis.saturating_mul(1_000_000));
    ServerTransport {
        max_idle_timeout: millis(parameters.max_idle_timeout),
        initial_max_data_bytes: parameters.initial_max_data,
        initial_max_stream_data_bytes: parameters.initial_max_stream_data_bidi_remote,
        initial_max_streams_bidi: parameters.initial_max_streams_bidi,
        max_udp_payload_bytes: parameters.max_udp_payload_size,
        ack_delay_exponent: parameters.ack_delay_exponent,
        max_ack_delay: millis(parameters.max_ack_delay),
        active_connection_id_limit: parameters.active_conn_id_limit,
        disables_active_migration: parameters.disable_active_migration,
        used_retry: parameters.retry_source_connection_id.is_some(),
    }
}

/// The time from `now` until `at`.
pub(super) fn until(at: Instant, now: Instant) -> Duration {
    let nanos = at.saturating_duration_since(now).as_nanos();
    Duration::from_nanos(u64::try_from(nanos).unwrap_or(u64::MAX))
}

pub(super) fn path(connection: &Connection) -> QuicPath {
    let path = connection.quic().path_stats().find(|path| path.active);
    path_record(&connection.quic().stats(), path.as_ref())
}

/// Turns what happens on this connection into the client's events.
struct Listener<'a> {
    streams: &'a mut OpenStreams,
    inbox: &'a mut Inbox<ClientEvent>,
}

impl Side for Listener<'_> {
    fn head(&mut self, id: u64, block: &[u8]) -> Result<HeadKind, StreamError> {
        let head = head::response(head::decode(block)?)?;
        if head.status < 200 {
            if let Some(state) = self.streams.open.get_mut(&id) {
                state.interims += 1;
                if state.interims > MAX_INTERIM_RESPONSES {
                    return Err(StreamError(code::EXCESSIVE_LOAD));
                }
            }
            if self.inbox.wants().fields {
                self.inbox.push(ClientEvent::Interim {
                    stream: StreamId(id),
                    status: head.status,
                    fields: head.regular.fields,
                });
            }
            return Ok(HeadKind::Interim);
        }
        // In these cases the length is not that of this message (RFC 9110, section 8.6).
        let is_bodyless = matches!(head.status, 204 | 304)
            || self.streams.open.get(&id).is_some_and(|e| e.is_head);
        let fields = if self.inbox.wants().fields {
            head.regular.fields
        } else {
            Vec::new()
        };
        self.inbox.push(ClientEvent::ResponseHeaders {
            stream: StreamId(id),
            status: head.status,
            fields,
        });
        Ok(HeadKind::Final(
            head.regular.length.filter(|_| !is_bodyless),
        ))
    }

    fn trailers(&mut self, id: u64, block: &[u8]) -> Result<(), StreamError> {
        let fields = head::trailers(head::decode(block)?)?;
        self.inbox.push_trailers(StreamId(id), fields);
        Ok(())
    }

    fn on_event(&mut self, id: u64, event: MessageEvent<'_>) {
        let stream = StreamId(id);
        match event {
            MessageEvent::FirstByte => self
                .inbox
                .push(ClientEvent::ResponseFirstByte { stream, offset: 0 }),
            MessageEvent::Body(bytes) => self.inbox.push_body(stream, bytes),
            MessageEvent::End(end) => {
                self.streams.open.remove(&id);
                self.inbox.push(ClientEvent::ResponseEnd { stream, end });
            }
            MessageEvent::Reset(code) => {
                if self.streams.open.remove(&id).is_some() {
                    self.inbox.push(ClientEvent::StreamReset { stream, code });
                }
            }
            MessageEvent::Rejected(code) => {
                if self.streams.open.remove(&id).is_some() {
                    self.inbox
                        .push(ClientEvent::ResponseRefused { stream, code });
                }
            }
            // The response may still come (RFC 9114, section 4.1).
            MessageEvent::Stopped(_) => {}
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
        self.streams.limit = Some(self.streams.limit.map_or(id, |limit| limit.min(id)));
        for stream in self.streams.open.split_off(&id).into_keys() {
            self.streams.rejected.push(stream);
            self.inbox.push(ClientEvent::RequestRefused {
                stream: StreamId(stream),
            });
        }
    }

    fn unanswered(&self) -> Vec<u64> {
        Vec::new()
    }

    fn accepts(&mut self, _: u64) -> Result<(), StreamError> {
        Err(StreamError(code::STREAM_CREATION_ERROR))
    }

    fn frames(&mut self) -> Option<&mut Vec<FrameFacts>> {
        self.inbox.wanted_frames()
    }
}
