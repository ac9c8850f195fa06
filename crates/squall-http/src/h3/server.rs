//! An HTTP/3 server on one UDP socket: all its connections.
//!
//! Connections are numbered from 0 in the order in which they are accepted. Addresses are not validated by Retry: an
//! emulated link has no forged ones, and QUIC's limit of three times what came holds until the handshake proves the
//! address (RFC 9000, section 8.1). A datagram of no connection that cannot begin one leaves nothing behind.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Instant;

use quiche::{ConnectionId, Header, Type};
use squall_base::Duration;
use squall_base::plan::{Http3Settings, TlsSettings};
use squall_base::record::QuicPath;

use super::accepted::Accepted;
use super::client::{path, state, until};
use super::connection::Connection;
use super::inbound::Role;
use super::security::{ID_BYTES, Ids, SetupError, server_config};
use super::{Announced, Batch, Closing, key_lines};
use crate::error::{ConnectionError, RespondError};
use crate::event::{ServerEvent, StreamId};
use crate::inbox::Inbox;
use crate::message::{Interim, Response, Trailers};
use crate::tls::Identity;

/// A datagram with a client's first packet is at least so long (RFC 9000, section 14.1).
const MIN_INITIAL_BYTES: usize = 1_200;

/// More connections are not accepted; so many are more than one machine emulates.
const MAX_CONNECTIONS: usize = 65_536;

/// How many answers to clients of other versions wait at most.
const MAX_ANSWERS: usize = 16;

/// Who made a batch.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Sender {
    /// A connection, by its number.
    Connection(u32),
    /// The endpoint itself: a version negotiation.
    Endpoint,
}

/// A connection that is gone; all that was in flight on it is lost.
#[derive(Clone, Debug)]
pub struct Ended {
    /// Its number.
    pub connection: u32,
    /// Why.
    pub closing: Closing,
    /// What quiche had counted of it.
    pub path: QuicPath,
    /// What both sides had announced and given up.
    pub announced: Announced,
}

/// A server's end of all connections of a socket.
pub struct Server {
    config: quiche::Config,
    settings: Http3Settings,
    ids: Ids,
    is_manual: bool,
    next_number: u32,
    connections: BTreeMap<u32, Slot>,
    /// Connections by the ids that clients address them with.
    routes: BTreeMap<Vec<u8>, u32>,
    /// When each connection has something to do.
    timers: BTreeSet<(Instant, u32)>,
    /// Connections that may have something to send.
    busy: VecDeque<u32>,
    /// Version negotiations.
    answers: VecDeque<Answer>,
    ended: VecDeque<Ended>,
}

struct Slot {
    accepted: Accepted,
    /// The ids by which it is found.
    ids: [Vec<u8>; 2],
    timer: Option<Instant>,
    is_busy: bool,
}

struct Answer {
    datagram: Vec<u8>,
    from: SocketAddr,
    to: SocketAddr,
}

impl Server {
    /// A server without connections, whose connection ids come from `seed`.
    pub fn new(
        settings: &Http3Settings,
        tls: &TlsSettings,
        identity: &Identity,
        seed: u64,
    ) -> Result<Server, SetupError> {
        Ok(Server {
            config: server_config(settings, tls, identity)?,
            settings: *settings,
            ids: Ids::new(seed),
            is_manual: false,
            next_number: 0,
            connections: BTreeMap::new(),
            routes: BTreeMap::new(),
            timers: BTreeSet::new(),
            busy: VecDeque::new(),
            answers: VecDeque::new(),
            ended: VecDeque::new(),
        })
    }

    /// Takes a datagram that came from `from` to `to`, and decrypts it in place; returns whose it is. A number that
    /// was not seen before is a new connection's.
    pub fn receive(
        &mut self,
        datagram: &mut [u8],
        from: SocketAddr,
        to: SocketAddr,
        inbox: &mut Inbox<ServerEvent>,
    ) -> Option<u32> {
        let header = Header::from_slice(datagram, ID_BYTES).ok()?;
        let number = match self.routes.get(header.dcid.as_ref()) {
            Some(number) => *number,
            None => self.accept(&header, datagram.len(), from, to)?,
        };
        let slot = self.connections.get_mut(&number)?;
        slot.accepted.receive(datagram, from, to, inbox);
        self.settle(number);
        Some(number)
    }

    /// Fills `batch` with what one connection has to send and returns whose it is, `None` if there is nothing now.
    /// The marks in `inbox` are those of the batch: their time is when it leaves, [`Batch::delay`] after `now`. There
    /// may be other news of that connection beside them, such as more of a body after [`Server::consume`], and then
    /// the batch may be empty.
    pub fn output(
        &mut self,
        now: Instant,
        batch: &mut Batch,
        inbox: &mut Inbox<ServerEvent>,
    ) -> Option<Sender> {
        if let Some(answer) = self.answers.pop_front() {
            batch.hold(&answer.datagram, answer.from, answer.to);
            return Some(Sender::Endpoint);
        }
        while let Some(number) = self.busy.pop_front() {
            let Some(slot) = self.connections.get_mut(&number) else {
                continue;
            };
            slot.is_busy = false;
            let known = (inbox.events.len(), inbox.frames.len());
            let has_output = slot.accepted.output(now, batch, inbox);
            let has_news = known != (inbox.events.len(), inbox.frames.len());
            if has_output {
                slot.is_busy = true;
                self.busy.push_back(number);
            }
            self.settle_quiet(number);
            if has_output || has_news {
                return Some(Sender::Connection(number));
            }
        }
        None
    }

    /// How long after `now` [`Server::on_timeout`] is to be called, and then [`Server::output`].
    pub fn timeout(&self, now: Instant) -> Option<Duration> {
        self.timers.first().map(|(at, _)| until(*at, now))
    }

    /// Serves one connection whose time has come and returns which; call it until there is none.
    pub fn on_timeout(&mut self, now: Instant) -> Option<u32> {
        let (at, number) = *self.timers.first()?;
        if at > now {
            return None;
        }
        let slot = self.connections.get_mut(&number)?;
        slot.accepted.connection.on_timeout(now);
        self.settle(number);
        Some(number)
    }

    /// The next connection that is gone. Ask after every other call.
    pub fn take_ended(&mut self) -> Option<Ended> {
        self.ended.pop_front()
    }

    /// How many connections there are.
    pub fn len(&self) -> usize {
        self.connections.len()
    }

    /// Whether there is no connection.
    pub fn is_empty(&self) -> bool {
        self.connections.is_empty()
    }

    /// Whether a connection is fit for more, and why not: an error if it is over with exchanges in flight or by a
    /// fault. A connection that is gone has no state.
    pub fn state(&self, connection: u32) -> Result<(), ConnectionError> {
        self.find(connection).map_or(Ok(()), |accepted| {
            state(&accepted.connection, accepted.in_flight())
        })
    }

    /// Answers a request whose head has come, once.
    ///
    /// # Errors
    /// [`RespondError::NotWaiting`] is no fault of the caller's if the client has cancelled or is gone.
    pub fn respond(
        &mut self,
        connection: u32,
        stream: StreamId,
        response: &Arc<Response>,
    ) -> Result<(), RespondError> {
        let slot = self
            .connections
            .get_mut(&connection)
            .ok_or(RespondError::NotWaiting(stream))?;
        slot.accepted.respond(stream, response)?;
        self.wake(connection);
        Ok(())
    }

    /// Sends an interim response before the final one. A stream that is gone or answered gets none. One for which there
    /// is no room, because the client does not read, is dropped.
    pub fn inform(&mut self, connection: u32, stream: StreamId, interim: &Interim) {
        self.change(connection, |accepted| accepted.inform(stream, interim));
    }

    /// How many bytes of a streamed body would be taken now.
    pub fn body_room(&self, connection: u32, stream: StreamId) -> usize {
        self.find(connection)
            .map_or(0, |accepted| accepted.connection.body_room(stream.0))
    }

    /// Takes some bytes of a streamed body and returns how many; none if the stream is gone.
    pub fn send_body(&mut self, connection: u32, stream: StreamId, bytes: &[u8]) -> usize {
        self.change(connection, |accepted| accepted.send_body(stream, bytes))
            .unwrap_or(0)
    }

    /// No more of a streamed body will come.
    pub fn end_body(&mut self, connection: u32, stream: StreamId) {
        self.change(connection, |accepted| accepted.end_body(stream));
    }

    /// The same with trailers behind the body.
    pub fn end_body_with(&mut self, connection: u32, stream: StreamId, trailers: &Trailers) {
        self.change(connection, |accepted| {
            accepted.end_body_with(stream, trailers);
        });
    }

    /// From now on new connections read bodies no further than 64 KiB ahead of [`Server::consume`]; what is not read
    /// stays in the client's window.
    pub fn set_manual_consumption(&mut self) {
        self.is_manual = true;
    }

    /// The owner is done with `n` bytes of a body. The next call of `receive` or `output` for the connection may bring
    /// more of it.
    pub fn consume(&mut self, connection: u32, stream: StreamId, n: u64) {
        self.change(connection, |accepted| {
            accepted.connection.consume(stream.0, n);
        });
    }

    /// Gives up an exchange, with an HTTP/3 code.
    pub fn reset(&mut self, connection: u32, stream: StreamId, code: u64) {
        self.change(connection, |accepted| accepted.reset(stream, code));
    }

    /// Says GOAWAY: requests that have not come yet are not served on this connection.
    pub fn go_away(&mut self, connection: u32) {
        self.change(connection, Accepted::go_away);
    }

    /// Ends a connection with an HTTP/3 code, [`super::code::NO_ERROR`] for none.
    pub fn close(&mut self, connection: u32, code: u64) {
        self.change(connection, |accepted| accepted.connection.close(code, ""));
    }

    /// Lines of a connection's key log since the last call.
    pub fn take_key_log(&mut self, connection: u32) -> Vec<String> {
        self.find(connection).map_or_else(Vec::new, |accepted| {
            key_lines(&accepted.connection.take_key_log())
        })
    }

    /// Whether a connection's handshake is complete.
    pub fn is_established(&self, connection: u32) -> bool {
        self.find(connection)
            .is_some_and(|accepted| accepted.connection.quic().is_established())
    }

    /// Whether a connection's handshake resumed an earlier session.
    pub fn is_resumed(&self, connection: u32) -> bool {
        self.find(connection)
            .is_some_and(|accepted| accepted.connection.quic().is_resumed())
    }

    /// What quiche counts of a connection, `None` if it is gone.
    pub fn path(&self, connection: u32) -> Option<QuicPath> {
        self.find(connection)
            .map(|accepted| path(&accepted.connection))
    }

    /// What both sides of a connection announced and gave up so far, `None` if it is gone.
    pub fn announced(&self, connection: u32) -> Option<Announced> {
        self.find(connection)
            .map(|accepted| accepted.connection.announced())
    }

    /// How many bytes of responses a connection's windows have let go, 0 if it is gone.
    pub fn sent_bytes(&self, connection: u32) -> u64 {
        self.find(connection)
            .map_or(0, |accepted| accepted.connection.sent_bytes())
    }

    fn find(&self, connection: u32) -> Option<&Accepted> {
        self.connections.get(&connection).map(|slot| &slot.accepted)
    }

    fn change<T>(&mut self, connection: u32, change: impl FnOnce(&mut Accepted) -> T) -> Option<T> {
        let slot = self.connections.get_mut(&connection)?;
        let result = change(&mut slot.accepted);
        self.wake(connection);
        Some(result)
    }

    /// Makes a connection of a client's first packet, or answers one of another version.
    fn accept(
        &mut self,
        header: &Header<'_>,
        len: usize,
        from: SocketAddr,
        to: SocketAddr,
    ) -> Option<u32> {
        if len < MIN_INITIAL_BYTES || matches!(header.ty, Type::Short | Type::VersionNegotiation) {
            return None;
        }
        if !quiche::version_is_supported(header.version) {
            self.answer_version(header, from, to);
            return None;
        }
        if header.ty != Type::Initial || self.connections.len() >= MAX_CONNECTIONS {
            return None;
        }
        let id = self.ids.next();
        let scid = ConnectionId::from_ref(&id);
        let conn = quiche::accept_with_buf_factory(&scid, None, to, from, &mut self.config).ok()?;
        let mut connection = Connection::new(conn, Role::Server, &self.settings);
        if self.is_manual {
            connection.set_manual_consumption();
        }
        let number = self.next_number;
        self.next_number += 1;
        // Until the client has heard from us it uses an id of its own.
        let ids = [id.to_vec(), header.dcid.to_vec()];
        for id in &ids {
            self.routes.insert(id.clone(), number);
        }
        self.connections.insert(
            number,
            Slot {
                accepted: Accepted::new(connection),
                ids,
                timer: None,
                is_busy: false,
            },
        );
        Some(number)
    }

    fn answer_version(&mut self, header: &Header<'_>, from: SocketAddr, to: SocketAddr) {
        if self.answers.len() >= MAX_ANSWERS {
            return;
        }
        let mut datagram = vec![0; MIN_INITIAL_BYTES];
        if let Ok(len) = quiche::negotiate_version(&header.scid, &header.dcid, &mut datagram) {
            datagram.truncate(len);
            // What came from the client goes back to it.
            self.answers.push_back(Answer {
                datagram,
                from: to,
                to: from,
            });
        }
    }

    /// Something happened to a connection.
    fn settle(&mut self, number: u32) {
        self.wake(number);
        self.settle_quiet(number);
    }

    /// It may have something to send.
    fn wake(&mut self, number: u32) {
        if let Some(slot) = self.connections.get_mut(&number)
            && !slot.is_busy
        {
            slot.is_busy = true;
            self.busy.push_back(number);
        }
    }

    /// Sets its timer anew, or removes it if it is over.
    fn settle_quiet(&mut self, number: u32) {
        let Some(slot) = self.connections.get_mut(&number) else {
            return;
        };
        let is_closed = slot.accepted.connection.quic().is_closed();
        let timer = slot.accepted.connection.wake_at().filter(|_| !is_closed);
        if timer != slot.timer {
            if let Some(at) = slot.timer.take() {
                self.timers.remove(&(at, number));
            }
            if let Some(at) = timer {
                self.timers.insert((at, number));
            }
            slot.timer = timer;
        }
        if is_closed && let Some(slot) = self.connections.remove(&number) {
            for id in &slot.ids {
                self.routes.remove(id);
            }
            let connection = slot.accepted.connection;
            if let Some(closing) = connection.closing() {
                self.ended.push_back(Ended {
                    connection: number,
                    closing,
                    path: path(&connection),
                    announced: connection.announced(),
                });
            }
        }
    }
}
