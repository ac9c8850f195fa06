//! One TCP connection of the server: a socket, an engine, and the exchanges on it.

use std::io;
use std::net::{Shutdown, SocketAddr, TcpStream};
use std::sync::Arc;

use squall_base::plan::{Protocol, SideSettings, Version};
use squall_base::{Duration, Time};
use squall_http::{
    CreateError, Inbox, Response, ServerConnection, ServerEvent, StreamId, Wants, tls,
};
use squall_linux::clock;
use squall_linux::reactor::Ready;
use squall_linux::socket;

use super::exchanges::{Exchanges, Responder, Service, Whose};
use crate::log;

/// Reads of one connection before others have their turn: 1 MiB.
const READS_A_TURN: usize = 16;
/// Writes of one connection before others have their turn: 1 MiB, if the client takes all that fast.
const WRITES_A_TURN: usize = 16;
/// An HTTP/1.1 client is not read from while so much of an echo waits. HTTP/2's windows do that by themselves.
const MAX_BACKLOG_BYTES: usize = 256 * 1024;
/// How long a client to which everything was said may take to close its side. Until then what it sends is thrown away:
/// to close a socket with unread bytes resets the connection, and the reset can destroy the last answer before the
/// client has read it (RFC 9112, section 9.6). As long as nginx waits (lingering_timeout).
const FAREWELL: Duration = Duration::from_secs(5);

pub(super) struct Peer {
    id: u32,
    stream: TcpStream,
    address: SocketAddr,
    engine: ServerConnection,
    /// How many bytes one call writes at most.
    write_at_most: usize,
    protocol: Option<Protocol>,
    exchanges: Exchanges,
    inbox: Inbox<ServerEvent>,
    /// There is more to read than was read.
    is_hungry: bool,
    /// There is more to write than was written.
    has_more: bool,
    /// The client will send nothing more, or broke the protocol: nothing more is read.
    is_ending: bool,
    /// The kernel has told that the client closed its side, which it tells once.
    expects_end: bool,
    /// The client closed its side.
    has_heard_end: bool,
    /// It closed its side in the middle of something: what is in the output is written, then it is over.
    is_cut: bool,
    /// Everything is said and this side closed; until when the client's side may stay open.
    farewell: Option<Time>,
    /// When a request or an answer last got on. What is said about the connection alone, such as PING, is no progress.
    last_progress: Time,
}

/// What a connection needs after a turn.
pub(super) enum After {
    /// Nothing until its socket or its answers' time says so.
    Wait,
    /// Another turn, when others had theirs.
    Again,
    /// Nothing ever.
    Gone,
}

/// How a listener's connections speak.
#[derive(Clone)]
pub(crate) enum Speaks {
    Plain(Version),
    Secure(tls::ServerContext),
}

impl Peer {
    pub(super) fn new(
        id: u32,
        (stream, address): (TcpStream, SocketAddr),
        speaks: &Speaks,
        settings: &SideSettings,
        wants: Wants,
    ) -> Result<Peer, CreateError> {
        let mut engine = match speaks {
            Speaks::Plain(version) => ServerConnection::plain(*version, settings)?,
            Speaks::Secure(context) => ServerConnection::secure(context, settings)?,
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
            exchanges: Exchanges::default(),
            inbox: Inbox::new(wants),
            is_hungry: false,
            has_more: false,
            is_ending: false,
            expects_end: false,
            has_heard_end: false,
            is_cut: false,
            farewell: None,
            last_progress: clock::now(),
        })
    }

    pub(super) fn socket(&self) -> &TcpStream {
        &self.stream
    }

    /// When an answer of it is due, or its end.
    pub(super) fn next_due(&self) -> Option<Time> {
        self.farewell.or_else(|| self.exchanges.next_due())
    }

    /// Reads, answers and writes as far as one turn goes.
    pub(super) fn serve(
        &mut self,
        ready: Option<Ready>,
        buffer: &mut [u8],
        service: &mut Service<'_>,
    ) -> After {
        if let Some(until) = self.farewell {
            return self.take_leave(until, buffer);
        }
        if self.exchanges.next_due().is_some() {
            let now = clock::now();
            self.exchanges.respond_waiting(now, &mut self.engine);
        }
        // What comes behind the end waits for the farewell.
        self.is_hungry |= !self.is_ending && ready.is_some_and(|ready| ready.readable);
        self.expects_end |= ready.is_some_and(|ready| ready.ended);
        if self.is_hungry && self.read(buffer, service).is_err() {
            return After::Gone;
        }
        if self.write(service).is_err() {
            return After::Gone;
        }
        let has_written_all = self.engine.output(clock::now()).is_empty();
        if has_written_all && (self.is_cut || !self.engine.is_open()) {
            return self.end(buffer, service);
        }
        if self.has_more || self.is_hungry && !self.is_paused() {
            After::Again
        } else {
            After::Wait
        }
    }

    /// Everything is said: says that too, and waits for the client to do the same.
    fn end(&mut self, buffer: &mut [u8], service: &mut Service<'_>) -> After {
        self.engine.close();
        if self.write(service).is_err() {
            return After::Gone;
        }
        if !self.engine.output(clock::now()).is_empty() {
            return if self.has_more {
                After::Again
            } else {
                After::Wait
            };
        }
        if self.has_heard_end
            || self.engine.cuts_off()
            || self.stream.shutdown(Shutdown::Write).is_err()
        {
            return After::Gone;
        }
        self.record_end(service);
        let until = clock::now() + FAREWELL;
        self.farewell = Some(until);
        self.take_leave(until, buffer)
    }

    /// Throws away what still comes, for as long as that may take.
    fn take_leave(&self, until: Time, buffer: &mut [u8]) -> After {
        if clock::now() >= until {
            return After::Gone;
        }
        for _ in 0..READS_A_TURN {
            match socket::receive(&self.stream, buffer) {
                Ok(0) => return After::Gone,
                Ok(_) => {}
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => return After::Wait,
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(_) => return After::Gone,
            }
        }
        After::Again
    }

    /// Whether no request has got on for so long. One whose answer waits for its time is not meant.
    pub(super) fn is_idle(&self, now: Time, timeout: Duration) -> bool {
        self.next_due().is_none() && self.last_progress + timeout <= now
    }

    /// Says that it is over, as far as the socket takes it at once.
    pub(super) fn say_goodbye(&mut self, service: &mut Service<'_>) {
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
                    self.has_heard_end = true;
                    self.is_ending = true;
                    let ended = self.engine.receive_end(&mut self.inbox);
                    self.is_cut = ended.is_err();
                    ended
                }
                Ok(count) => {
                    // Less than there was room for is all that there was (epoll(7)), but for the end.
                    self.is_hungry = count == buffer.len() || self.expects_end;
                    self.engine.receive(&buffer[..count], &mut self.inbox)
                }
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => {
                    self.is_hungry = false;
                    return Ok(());
                }
                Err(error) if error.kind() == io::ErrorKind::Interrupted => continue,
                Err(error) => return Err(error),
            };
            // On a connection that ends without a byte nothing is spoken.
            if !self.has_heard_end {
                self.note_established(service);
            }
            self.apply(now, service);
            // Also after an error: the engine may have a last word for the peer, such as GOAWAY.
            self.is_ending |= received.is_err() || self.engine.has_heard_end();
            if self.is_ending || !self.is_hungry {
                self.is_hungry = false;
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
        let whose = self.whose();
        let engine = &self.engine;
        let locate = |way, offset| engine.locate(way, offset);
        let answers = self
            .exchanges
            .apply(&mut self.inbox, now, whose, locate, service);
        self.exchanges.respond(answers, now, &mut self.engine);
    }

    fn whose(&self) -> Whose {
        Whose {
            connection: self.id,
            peer: self.address,
            protocol: self.protocol.unwrap_or(Protocol::H1),
        }
    }

    fn write(&mut self, service: &mut Service<'_>) -> io::Result<()> {
        self.has_more = false;
        for _ in 0..WRITES_A_TURN {
            if self.exchanges.is_streaming() {
                self.exchanges.stream(&mut self.engine);
            }
            let output = self.engine.output(clock::now());
            if output.is_empty() {
                return Ok(());
            }
            let part = &output[..output.len().min(self.write_at_most)];
            match socket::send(&self.stream, part) {
                Ok(count) => {
                    let now = clock::now();
                    // The engine does not know yet that it was taken.
                    if self.engine.holds_answer() {
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
        self.has_more = true;
        Ok(())
    }

    /// Notes what is spoken, once that is known.
    fn note_established(&mut self, service: &mut Service<'_>) {
        if self.protocol.is_some() {
            return;
        }
        service.log.keys(self.engine.take_key_log());
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
        if service.log.wants_sockets() && self.farewell.is_none() {
            service.log.sample_tcp(self.id, is_last, &self.stream);
        }
    }

    /// Writes down what its end leaves: with it, whatever was open on it has failed.
    pub(super) fn record_end(&mut self, service: &mut Service<'_>) {
        if self.farewell.is_some() {
            // It is written down.
            return;
        }
        self.sample(true, service);
        log::count_settings(self.engine.http2_settings(), &mut service.log.counts);
        service.log.keys(self.engine.take_key_log());
        self.exchanges.abandon(clock::now(), self.whose(), service);
    }

    /// Closes its socket, so that no client takes an answer that was cut off for a whole one.
    pub(super) fn close(self) {
        if self.engine.cuts_off() {
            self.close_abruptly();
        }
    }

    /// Closes as the end of a load does: with a reset, so that nothing stays in the kernel.
    pub(super) fn close_abruptly(self) {
        socket::close_abruptly(self.stream);
    }
}

impl Responder for ServerConnection {
    fn respond(&mut self, stream: StreamId, response: &Arc<Response>) {
        // Refused only if the client has reset the stream meanwhile.
        let _ = ServerConnection::respond(self, stream, response);
    }

    fn body_room(&self, stream: StreamId) -> usize {
        ServerConnection::body_room(self, stream)
    }

    fn send_body(&mut self, stream: StreamId, bytes: &[u8]) -> usize {
        ServerConnection::send_body(self, stream, bytes)
    }

    fn end_body(&mut self, stream: StreamId) {
        ServerConnection::end_body(self, stream);
    }

    fn consume(&mut self, stream: StreamId, n: u64) {
        ServerConnection::consume(self, stream, n);
    }

    fn reset(&mut self, stream: StreamId, code: u64) {
        ServerConnection::reset(self, stream, code);
    }
}
