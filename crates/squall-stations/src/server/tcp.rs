//! One TCP connection of the server: a socket, an engine, and the exchanges on it.

use std::io;
use std::net::{Shutdown, SocketAddr, TcpStream};

use squall_base::plan::{Protocol, SideSettings, Version};
use squall_base::{Duration, Time};
use squall_http::{CreateError, Inbox, InboxOptions, ServerConnection, ServerEvent, tls};
use squall_linux::clock;
use squall_linux::reactor::ReadyEvent;
use squall_linux::socket;

use super::exchanges::{ExchangeOwner, ServerExchanges, Service};
use crate::log;

/// Reads of one connection before others get their turn: 1 MiB.
const READS_A_TURN: usize = 16;
/// Writes of one connection before others get their turn: 1 MiB, if the client takes it that fast.
const WRITES_A_TURN: usize = 16;
/// The server stops reading from an HTTP/1.1 client while more of an echo than this waits. HTTP/2 has windows for that.
const MAX_BACKLOG_BYTES: usize = 256 * 1024;
/// How long a client may take to close its side after everything was sent to it. Until then, what it sends is
/// discarded: closing a socket with unread bytes resets the connection, and the reset can destroy the last response
/// before the client has read it (RFC 9112, section 9.6). The same time as in nginx (lingering_timeout).
const LINGER_TIMEOUT: Duration = Duration::from_secs(5);

pub(super) struct Peer {
    id: u32,
    stream: TcpStream,
    address: SocketAddr,
    engine: ServerConnection,
    /// Most bytes that one call writes.
    write_at_most: usize,
    protocol: Option<Protocol>,
    exchanges: ServerExchanges,
    inbox: Inbox<ServerEvent>,
    /// There is more to read than was read.
    has_unread: bool,
    /// There is more to write than was written.
    has_unwritten: bool,
    /// The client will send nothing more, or violated the protocol: reading has ended.
    is_ending: bool,
    /// The kernel has reported that the client closed its side. It reports this only once.
    expects_end: bool,
    /// The client closed its side.
    has_received_end: bool,
    /// The client closed its side in the middle of something: pending output is written, then the connection ends.
    is_cut_off: bool,
    /// Everything was sent and this side is closed; until when the client's side may stay open.
    linger_until: Option<Time>,
    /// When a request or a response last made progress. Frames about the connection alone, such as PING, are no
    /// progress.
    last_progress: Time,
}

/// What a connection needs after a turn.
pub(super) enum TurnOutcome {
    /// Nothing, until its socket or the timer of a response is ready.
    Wait,
    /// Another turn, after others had theirs.
    Again,
    /// Nothing: it is over.
    Gone,
}

/// What the connections of a listener speak.
#[derive(Clone)]
pub(crate) enum TcpProtocol {
    Plain(Version),
    Secure(tls::ServerContext),
}

impl Peer {
    pub(super) fn new(
        id: u32,
        (stream, address): (TcpStream, SocketAddr),
        protocol: &TcpProtocol,
        settings: &SideSettings,
        wants: InboxOptions,
    ) -> Result<Peer, CreateError> {
        let mut engine = match protocol {
            TcpProtocol::Plain(version) => ServerConnection::plain(*version, settings)?,
            TcpProtocol::Secure(context) => ServerConnection::secure(context, settings)?,
        };
        if wants.bodies {
            engine.set_manual_consumption();
        }
        Ok(Peer {
            id,
            stream,
            address,
            engine,
            write_at_most: settings.tcp.write_at_most(),
            protocol: None,
            exchanges: ServerExchanges::default(),
            inbox: Inbox::new(wants),
            has_unread: false,
            has_unwritten: false,
            is_ending: false,
            expects_end: false,
            has_received_end: false,
            is_cut_off: false,
            linger_until: None,
            last_progress: clock::now(),
        })
    }

    pub(super) fn socket(&self) -> &TcpStream {
        &self.stream
    }

    /// When a response of it is due, or its end.
    pub(super) fn next_due(&self) -> Option<Time> {
        self.linger_until.or_else(|| self.exchanges.next_due())
    }

    /// Reads, responds and writes as much as one turn allows.
    pub(super) fn serve(
        &mut self,
        ready: Option<ReadyEvent>,
        buffer: &mut [u8],
        service: &mut Service<'_>,
    ) -> TurnOutcome {
        if let Some(until) = self.linger_until {
            return self.linger(until, buffer);
        }
        if self.exchanges.next_due().is_some() {
            let now = clock::now();
            (self.exchanges).respond_delayed(now, &mut self.engine.streams());
        }
        // Lingering discards what arrives after the end.
        self.has_unread |= !self.is_ending && ready.is_some_and(|ready| ready.readable);
        self.expects_end |= ready.is_some_and(|ready| ready.ended);
        if self.has_unread && self.read(buffer, service).is_err() {
            return TurnOutcome::Gone;
        }
        if self.write(service).is_err() {
            return TurnOutcome::Gone;
        }
        let has_written_all = self.engine.output(clock::now()).is_empty();
        if has_written_all && (self.is_cut_off || !self.engine.is_open()) {
            return self.end(buffer, service);
        }
        if self.has_unwritten || self.has_unread && !self.is_paused() {
            TurnOutcome::Again
        } else {
            TurnOutcome::Wait
        }
    }

    /// Closes this side, once everything was sent, and waits for the client to do the same.
    fn end(&mut self, buffer: &mut [u8], service: &mut Service<'_>) -> TurnOutcome {
        self.engine.close();
        if self.write(service).is_err() {
            return TurnOutcome::Gone;
        }
        if !self.engine.output(clock::now()).is_empty() {
            return if self.has_unwritten {
                TurnOutcome::Again
            } else {
                TurnOutcome::Wait
            };
        }
        if self.has_received_end
            || self.engine.must_reset()
            || self.stream.shutdown(Shutdown::Write).is_err()
        {
            return TurnOutcome::Gone;
        }
        self.record_end(service);
        let until = clock::now() + LINGER_TIMEOUT;
        self.linger_until = Some(until);
        self.linger(until, buffer)
    }

    /// Discards what still arrives, until the time is up.
    fn linger(&self, until: Time, buffer: &mut [u8]) -> TurnOutcome {
        if clock::now() >= until {
            return TurnOutcome::Gone;
        }
        for _ in 0..READS_A_TURN {
            match socket::receive(&self.stream, buffer) {
                Ok(0) => return TurnOutcome::Gone,
                Ok(_) => {}
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => {
                    return TurnOutcome::Wait;
                }
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(_) => return TurnOutcome::Gone,
            }
        }
        TurnOutcome::Again
    }

    /// Whether no request has made progress for `timeout`. A delayed response does not count.
    pub(super) fn is_idle(&self, now: Time, timeout: Duration) -> bool {
        self.next_due().is_none() && self.last_progress + timeout <= now
    }

    /// Announces the end of the connection, as far as the socket accepts it immediately.
    pub(super) fn announce_close(&mut self, service: &mut Service<'_>) {
        self.engine.shut_down();
        let _ = self.write(service);
        self.engine.close();
        let _ = self.write(service);
    }

    fn is_paused(&self) -> bool {
        let is_http1 = self.protocol.map(Protocol::version) == Some(Version::Http1);
        is_http1 && self.exchanges.backlog_bytes() > MAX_BACKLOG_BYTES
    }

    fn read(&mut self, buffer: &mut [u8], service: &mut Service<'_>) -> io::Result<()> {
        for _ in 0..READS_A_TURN {
            if self.is_paused() {
                return Ok(());
            }
            let read = socket::receive(&self.stream, buffer);
            let now = clock::now();
            let received = match read {
                Ok(0) => {
                    self.has_received_end = true;
                    self.is_ending = true;
                    let ended = self.engine.receive_end(&mut self.inbox);
                    self.is_cut_off = ended.is_err();
                    ended
                }
                Ok(count) => {
                    // A short read means that nothing is left to read (epoll(7)), except for the end.
                    self.has_unread = count == buffer.len() || self.expects_end;
                    self.engine.receive(&buffer[..count], &mut self.inbox)
                }
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => {
                    self.has_unread = false;
                    return Ok(());
                }
                Err(error) if error.kind() == io::ErrorKind::Interrupted => continue,
                Err(error) => return Err(error),
            };
            // A connection that ends without a byte has no protocol.
            if !self.has_received_end {
                self.note_established(service);
            }
            self.apply(now, service);
            // Also after an error: the engine may still have something to send, such as GOAWAY.
            self.is_ending |= received.is_err() || self.engine.has_received_end();
            if self.is_ending || !self.has_unread {
                self.has_unread = false;
                return Ok(());
            }
            self.write(service)?;
        }
        Ok(())
    }

    fn apply(&mut self, now: Time, service: &mut Service<'_>) {
        if self.inbox.events.is_empty() && self.inbox.frames.is_empty() {
            return;
        }
        if !self.inbox.events.is_empty() {
            self.last_progress = now;
        }
        let owner = self.owner();
        let engine = &self.engine;
        let locate = |way, offset| engine.locate(way, offset);
        let answers = self
            .exchanges
            .apply(&mut self.inbox, now, owner, locate, service);
        (self.exchanges).respond(answers, now, &mut self.engine.streams());
    }

    fn owner(&self) -> ExchangeOwner {
        ExchangeOwner {
            connection: self.id,
            peer: self.address,
            protocol: self.protocol.unwrap_or(Protocol::H1),
        }
    }

    fn write(&mut self, service: &mut Service<'_>) -> io::Result<()> {
        self.has_unwritten = false;
        for _ in 0..WRITES_A_TURN {
            if self.exchanges.is_streaming() {
                self.exchanges.stream(&mut self.engine.streams());
            }
            let output = self.engine.output(clock::now());
            if output.is_empty() {
                return Ok(());
            }
            let part = &output[..output.len().min(self.write_at_most)];
            match socket::send(&self.stream, part) {
                Ok(count) => {
                    let now = clock::now();
                    // Ask before the engine learns that the bytes were taken.
                    if self.engine.holds_response() {
                        self.last_progress = now;
                    }
                    self.engine.advance_output(count, &mut self.inbox);
                    self.apply(now, service);
                }
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => return Ok(()),
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => return Err(error),
            }
        }
        self.has_unwritten = true;
        Ok(())
    }

    /// Records the protocol, once it is known.
    fn note_established(&mut self, service: &mut Service<'_>) {
        if self.protocol.is_some() {
            return;
        }
        service.log.record_keys(self.engine.take_key_log());
        let Some(protocol) = self.engine.protocol() else {
            return;
        };
        self.protocol = Some(protocol);
        let counts = &mut service.log.counts;
        *counts.protocols.entry(protocol.to_string()).or_default() += 1;
        if let Some(secured) = self.engine.secured() {
            log::count_tls(secured, counts);
        }
    }

    pub(super) fn sample(&self, is_last: bool, service: &mut Service<'_>) {
        if service.log.wants_sockets() && self.linger_until.is_none() {
            service.log.sample_tcp(self.id, is_last, &self.stream);
        }
    }

    /// Records its final state. Whatever was open on it has failed.
    pub(super) fn record_end(&mut self, service: &mut Service<'_>) {
        if self.linger_until.is_some() {
            // Already recorded.
            return;
        }
        self.sample(true, service);
        log::count_settings(self.engine.http2_settings(), &mut service.log.counts);
        service.log.record_keys(self.engine.take_key_log());
        self.exchanges.abandon(clock::now(), self.owner(), service);
    }

    /// Closes its socket so that no client takes a response that was cut off for a complete one.
    pub(super) fn close(self) {
        if self.engine.must_reset() {
            self.close_abruptly();
        }
    }

    /// Closes with a reset, as at the end of a load, so that nothing stays in the kernel.
    pub(super) fn close_abruptly(self) {
        socket::close_abruptly(self.stream);
    }
}
