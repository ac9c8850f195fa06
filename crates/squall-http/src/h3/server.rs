//! An HTTP/3 server on one UDP socket, with all its connections.
//!
//! Connections are numbered from 0 in the order in which they are accepted. A datagram that neither belongs to a
//! connection nor can begin one leaves no state behind.
//!
//! Addresses may be forged. An address is validated as soon as a client uses a connection id that was sent to it (RFC 9000,
//! section 8.1). Until then it gets at most three times the bytes that it sent (`unvalidated`), and its connection takes
//! datagrams from no other address. Once `MAX_UNVALIDATED` connections wait for validation, clients have to return a token
//! before a connection is made for them (Retry, section 8.1.2; `tokens`). Retry costs a round trip, so it is not used
//! earlier: an emulated link has no forged addresses.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::net::SocketAddr;
use std::time::Instant;

use quiche::{ConnectionId, Header, RetryConnectionIds, Type};
use squall_base::Duration;
use squall_base::plan::{Http3Settings, TlsSettings};
use squall_base::record::QuicPath;

use super::accepted::AcceptedConnection;
use super::buffers::EndpointBuffers;
use super::client::{path, until};
use super::connection::Connection;
use super::inbound::Role;
use super::pieces::Pieces;
use super::security::{ConnectionIds, ID_BYTES, SetupError, server_config};
use super::tokens::{RetryOwner, RetryTokens};
use super::{Announcements, Batch, CloseReason, key_lines};
use crate::event::ServerEvent;
use crate::inbox::Inbox;
use crate::tls::Identity;

/// Minimum length of a datagram with a client's first packet (RFC 9000, section 14.1).
const MIN_INITIAL_BYTES: usize = 1_200;

/// Limit on connections, more than one machine emulates.
const MAX_CONNECTIONS: usize = 65_536;

/// How many version negotiations may be queued.
const MAX_NEGOTIATIONS: usize = 16;

/// How many connections may wait for their addresses to be validated before clients get Retry. This many take some tens
/// of MB. Loads with fewer concurrent connections never see Retry.
const MAX_UNVALIDATED: usize = 1_000;

/// The maximum number of queued Retry packets: one for each client whose datagrams the owner may read in one turn.
const MAX_RETRIES: usize = 1_024;

/// What produced a batch.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum BatchSource {
    /// A connection, by its number.
    Connection(u32),
    /// The endpoint itself: a version negotiation or a Retry.
    Endpoint,
}

/// A connection that is gone; all its exchanges in flight are lost.
#[derive(Clone, Debug)]
pub struct EndedConnection {
    /// The connection's number.
    pub connection: u32,
    /// Why it ended.
    pub closing: CloseReason,
    /// The final path statistics from quiche.
    pub path: QuicPath,
    /// The settings that both sides announced, and counts of GOAWAYs and resets.
    pub announced: Announcements,
}

/// The server's side of all connections on a socket.
pub struct Server {
    pub(super) config: quiche::Config,
    settings: Http3Settings,
    ids: ConnectionIds,
    is_manual: bool,
    next_number: u32,
    connections: BTreeMap<u32, Slot>,
    /// Connections by the ids with which clients address them.
    routes: BTreeMap<Vec<u8>, u32>,
    /// When each connection next has something to do.
    timers: BTreeSet<(Instant, u32)>,
    /// Connections that may have output.
    busy: VecDeque<u32>,
    /// Queued version negotiations.
    negotiations: VecDeque<VersionNegotiation>,
    /// Clients that get Retry.
    retries: VecDeque<QueuedRetry>,
    tokens: RetryTokens,
    /// The first and the latest `now` that a caller passed in.
    times: Option<(Instant, Instant)>,
    /// How many connections wait for their addresses to be validated.
    pub(super) unvalidated: usize,
    /// Once this many connections wait for validation, clients get Retry.
    pub(super) max_unvalidated: usize,
    /// Counts the bytes that all connections hold.
    pub(super) buffers: EndpointBuffers,
    ended: VecDeque<EndedConnection>,
}

struct Slot {
    accepted: AcceptedConnection,
    /// The address of its client.
    client: SocketAddr,
    /// The ids in `routes` that lead to it.
    ids: [Vec<u8>; 2],
    timer: Option<Instant>,
    is_busy: bool,
}

struct VersionNegotiation {
    datagram: Vec<u8>,
    from: SocketAddr,
    to: SocketAddr,
}

/// The first packet of a client that gets Retry.
struct QueuedRetry {
    version: u32,
    /// The connection ids that the client chose for itself and for the server.
    client_id: Vec<u8>,
    original_id: Vec<u8>,
    client: SocketAddr,
    server: SocketAddr,
}

impl Server {
    /// A server without connections, whose connection ids and Retry tokens are derived from `seed`. If addresses may be
    /// forged, the seed must be hard to guess.
    pub fn new(
        settings: &Http3Settings,
        tls: &TlsSettings,
        identity: &Identity,
        seed: u64,
    ) -> Result<Server, SetupError> {
        Ok(Server {
            config: server_config(settings, tls, identity)?,
            settings: *settings,
            ids: ConnectionIds::of_server(seed),
            is_manual: false,
            next_number: 0,
            connections: BTreeMap::new(),
            routes: BTreeMap::new(),
            timers: BTreeSet::new(),
            busy: VecDeque::new(),
            negotiations: VecDeque::new(),
            retries: VecDeque::new(),
            tokens: RetryTokens::new(seed),
            times: None,
            unvalidated: 0,
            max_unvalidated: MAX_UNVALIDATED,
            buffers: EndpointBuffers::default(),
            ended: VecDeque::new(),
        })
    }

    /// Notes the time, by which Retry tokens expire. [`Server::output`] does so too; call this before
    /// [`Server::receive`] if the last such call may have been long ago.
    pub fn note_time(&mut self, now: Instant) {
        let (first, _) = *self.times.get_or_insert((now, now));
        self.times = Some((first, now));
    }

    /// Takes a datagram that was sent from `from` to `to`, and decrypts it in place. Returns the number of its
    /// connection; a number not seen before is a new connection.
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
        self.check_address(number, &header, datagram.len(), from)?;
        let slot = self.connections.get_mut(&number)?;
        slot.accepted.receive(datagram, from, to, inbox);
        self.settle(number);
        Some(number)
    }

    /// Fills `batch` with one connection's output and returns what produced it; `None` if there is no output now. The
    /// marks in `inbox` belong to the batch: their time is when it leaves, [`Batch::delay`] after `now`. `inbox` may
    /// also hold other events of that connection, such as more of a body after a call of `consume`; then the batch may
    /// be empty.
    pub fn output(
        &mut self,
        now: Instant,
        batch: &mut Batch,
        inbox: &mut Inbox<ServerEvent>,
    ) -> Option<BatchSource> {
        self.note_time(now);
        if let Some(negotiation) = self.negotiations.pop_front() {
            batch.hold(&negotiation.datagram, negotiation.from, negotiation.to);
            return Some(BatchSource::Endpoint);
        }
        while let Some(retry) = self.retries.pop_front() {
            if let Some(datagram) = self.retry(&retry) {
                batch.hold(&datagram, retry.server, retry.client);
                return Some(BatchSource::Endpoint);
            }
        }
        while let Some(number) = self.busy.pop_front() {
            let Some(slot) = self.connections.get_mut(&number) else {
                continue;
            };
            slot.is_busy = false;
            let known = (inbox.events.len(), inbox.frames.len());
            let has_output = slot.accepted.output(now, batch, inbox);
            let has_events = known != (inbox.events.len(), inbox.frames.len());
            if has_output {
                slot.is_busy = true;
                self.busy.push_back(number);
            }
            self.update_timer(number);
            if has_output || has_events {
                return Some(BatchSource::Connection(number));
            }
        }
        None
    }

    /// How long after `now` to call [`Server::on_timeout`] and then [`Server::output`].
    pub fn timeout(&self, now: Instant) -> Option<Duration> {
        self.timers.first().map(|(at, _)| until(*at, now))
    }

    /// Serves one connection whose timer has expired and returns its number; call it until it returns `None`.
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

    /// The next connection that is gone. Call this after every other call.
    pub fn take_ended(&mut self) -> Option<EndedConnection> {
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

    /// A connection, which then gets a turn in [`Server::output`].
    pub(crate) fn accepted(&mut self, connection: u32) -> Option<&mut AcceptedConnection> {
        self.mark_busy(connection);
        let slot = self.connections.get_mut(&connection)?;
        Some(&mut slot.accepted)
    }

    /// Makes new connections read bodies at most 64 KiB ahead of [`crate::StreamIo::consume`]. Unread bytes stay in the
    /// client's window.
    pub fn set_manual_consumption(&mut self) {
        self.is_manual = true;
    }

    /// Sends GOAWAY: requests that have not arrived yet are not served on this connection.
    pub fn go_away(&mut self, connection: u32) {
        self.change(connection, AcceptedConnection::go_away);
    }

    /// Ends a connection with an HTTP/3 code, [`super::code::NO_ERROR`] if there is no error.
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

    /// A connection's path statistics from quiche; `None` if it is gone.
    pub fn path(&self, connection: u32) -> Option<QuicPath> {
        self.find(connection)
            .map(|accepted| path(&accepted.connection))
    }

    /// The settings that both sides of a connection announced, and counts of GOAWAYs and resets; `None` if it is gone.
    pub fn announced(&self, connection: u32) -> Option<Announcements> {
        self.find(connection)
            .map(|accepted| accepted.connection.announced())
    }

    /// How many bytes a connection holds: streamed bodies of responses, and incomplete heads of requests; 0 if it is
    /// gone.
    pub fn held_bytes(&self, connection: u32) -> usize {
        self.find(connection)
            .map_or(0, |accepted| accepted.connection.held_bytes())
    }

    /// Sets whether the owner's memory is scarce: then 4 KiB are buffered for each stream, of a response's body and,
    /// after [`Server::set_manual_consumption`], of a request's.
    pub fn set_scarce(&mut self, is_scarce: bool) {
        self.buffers.set_scarce(is_scarce);
    }

    /// How many bytes of responses a connection's windows have let through; 0 if it is gone.
    pub fn sent_bytes(&self, connection: u32) -> u64 {
        self.find(connection)
            .map_or(0, |accepted| accepted.connection.sent_bytes())
    }

    fn find(&self, connection: u32) -> Option<&AcceptedConnection> {
        self.connections.get(&connection).map(|slot| &slot.accepted)
    }

    fn change(&mut self, connection: u32, change: impl FnOnce(&mut AcceptedConnection)) {
        if let Some(slot) = self.connections.get_mut(&connection) {
            change(&mut slot.accepted);
            self.mark_busy(connection);
        }
    }

    /// Validates the client's address if a datagram shows that it receives there, or else counts the datagram. `None`
    /// if the datagram is to be dropped.
    fn check_address(
        &mut self,
        number: u32,
        header: &Header<'_>,
        len: usize,
        from: SocketAddr,
    ) -> Option<()> {
        let slot = self.connections.get_mut(&number)?;
        let connection = &mut slot.accepted.connection;
        let Some(address) = connection.unvalidated() else {
            return Some(());
        };
        // A client may not change its address before the handshake is confirmed (RFC 9000, section 9).
        if from != slot.client {
            return None;
        }
        let [own_id, _] = &slot.ids;
        if header.dcid.as_ref() == own_id.as_slice() {
            connection.set_validated();
            self.unvalidated = self.unvalidated.saturating_sub(1);
        } else {
            address.receive(len);
        }
        Some(())
    }

    /// Milliseconds from the first `now` to the latest: the clock of Retry tokens.
    fn now_ms(&self) -> u64 {
        let since = (self.times).map(|(first, last)| last.saturating_duration_since(first));
        u64::try_from(since.unwrap_or_default().as_millis()).unwrap_or(u64::MAX)
    }

    /// A Retry packet.
    fn retry(&mut self, to: &QueuedRetry) -> Option<Vec<u8>> {
        let id = self.ids.next();
        let owner = RetryOwner {
            client: to.client,
            source_id: &id,
        };
        let token = self.tokens.make(self.now_ms(), owner, &to.original_id)?;
        let mut datagram = vec![0; MIN_INITIAL_BYTES];
        let len = quiche::retry(
            &ConnectionId::from_ref(&to.client_id),
            &ConnectionId::from_ref(&to.original_id),
            &ConnectionId::from_ref(&id),
            &token,
            to.version,
            &mut datagram,
        );
        datagram.truncate(len.ok()?);
        Some(datagram)
    }

    /// Accepts a connection from a client's first packet, or answers one of another version.
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
            self.negotiate_version(header, from, to);
            return None;
        }
        if header.ty != Type::Initial || self.connections.len() >= MAX_CONNECTIONS {
            return None;
        }
        let owner = RetryOwner {
            client: from,
            source_id: &header.dcid,
        };
        let token = header.token.as_deref().unwrap_or_default();
        let original_id = self.tokens.original_id(self.now_ms(), owner, token);
        if original_id.is_none() && self.unvalidated >= self.max_unvalidated {
            self.queue_retry(header, from, to);
            return None;
        }
        let id = self.ids.next();
        let conn = self.connect(&id, header, original_id, from, to)?;
        let mut connection = Connection::new(conn, Role::Server, &self.settings, &self.buffers);
        if self.is_manual {
            connection.set_manual_consumption();
        }
        if original_id.is_none() {
            connection.set_unvalidated();
            self.unvalidated += 1;
        }
        let number = self.next_number;
        self.next_number += 1;
        // Until it hears from us, the client uses an id that it chose itself.
        let ids = [id.to_vec(), header.dcid.to_vec()];
        for id in &ids {
            self.routes.insert(id.clone(), number);
        }
        self.connections.insert(
            number,
            Slot {
                accepted: AcceptedConnection::new(connection),
                client: from,
                ids,
                timer: None,
                is_busy: false,
            },
        );
        Some(number)
    }

    /// quiche's connection with our id `id`; `original_id` is that of the client's packet before a Retry, if there was
    /// one.
    fn connect(
        &mut self,
        id: &[u8],
        header: &Header<'_>,
        original_id: Option<&[u8]>,
        from: SocketAddr,
        to: SocketAddr,
    ) -> Option<quiche::Connection<Pieces>> {
        let id = ConnectionId::from_ref(id);
        let Some(original_id) = original_id else {
            let conn = quiche::accept_with_buf_factory(&id, None, to, from, &mut self.config);
            return conn.ok();
        };
        let original_id = ConnectionId::from_ref(original_id);
        let retry_ids = RetryConnectionIds {
            original_destination_cid: &original_id,
            retry_source_cid: &header.dcid,
        };
        quiche::accept_with_retry(&id, retry_ids, to, from, &mut self.config).ok()
    }

    fn queue_retry(&mut self, header: &Header<'_>, from: SocketAddr, to: SocketAddr) {
        if self.retries.len() < MAX_RETRIES {
            self.retries.push_back(QueuedRetry {
                version: header.version,
                client_id: header.scid.to_vec(),
                original_id: header.dcid.to_vec(),
                client: from,
                server: to,
            });
        }
    }

    fn negotiate_version(&mut self, header: &Header<'_>, from: SocketAddr, to: SocketAddr) {
        if self.negotiations.len() >= MAX_NEGOTIATIONS {
            return;
        }
        let mut datagram = vec![0; MIN_INITIAL_BYTES];
        if let Ok(len) = quiche::negotiate_version(&header.scid, &header.dcid, &mut datagram) {
            datagram.truncate(len);
            // The reply goes in the opposite direction.
            self.negotiations.push_back(VersionNegotiation {
                datagram,
                from: to,
                to: from,
            });
        }
    }

    /// Updates a connection after something happened to it.
    fn settle(&mut self, number: u32) {
        self.mark_busy(number);
        self.update_timer(number);
    }

    /// Queues a connection that may have output.
    fn mark_busy(&mut self, number: u32) {
        if let Some(slot) = self.connections.get_mut(&number)
            && !slot.is_busy
        {
            slot.is_busy = true;
            self.busy.push_back(number);
        }
    }

    /// Resets a connection's timer, or removes the connection if it is over.
    fn update_timer(&mut self, number: u32) {
        let Some(slot) = self.connections.get_mut(&number) else {
            return;
        };
        let is_closed = slot.accepted.connection.quic().is_closed();
        let timer = slot.accepted.connection.next_timer().filter(|_| !is_closed);
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
            let mut connection = slot.accepted.connection;
            if connection.unvalidated().is_some() {
                self.unvalidated = self.unvalidated.saturating_sub(1);
            }
            if let Some(closing) = connection.closing() {
                self.ended.push_back(EndedConnection {
                    connection: number,
                    closing,
                    path: path(&connection),
                    announced: connection.announced(),
                });
            }
        }
    }
}
