//! One TCP connection that a client opened: a socket with its engine, from the first byte to the end of lingering.
//!
//! It reads and writes once per call, and records the connection itself. Its owner (`server::tcp` or
//! `proxy::front::tcp`) decides how often to read and write, and what happens to the exchanges on it.

use std::collections::BTreeSet;
use std::io;
use std::net::{Shutdown, SocketAddr, TcpStream};

use squall_base::plan::{Protocol, SideSettings, Version};
use squall_base::{Duration, Time};
use squall_http::{
    ConnectionError, CreateError, Inbox, InboxOptions, ServerConnection, ServerEvent, tls,
};
use squall_linux::clock;
use squall_linux::socket;

use crate::log::{self, StationLog};

/// How long a client may take to close its side after everything was sent to it. Until then, what it sends is
/// discarded: closing a socket with unread bytes resets the connection, and the reset can destroy the last response
/// before the client has read it (RFC 9112, section 9.6). The same time as in nginx (lingering_timeout).
const LINGER_TIMEOUT: Duration = Duration::from_secs(5);

/// What the connections of a TCP listener speak.
pub(super) enum TcpProtocol {
    Plain(Version),
    Secure(tls::ServerContext),
}

/// The result of one read.
#[derive(Debug)]
pub(crate) enum Received {
    /// Bytes, and what the engine made of them.
    Bytes(Result<(), ConnectionError>),
    /// The end of the stream, and what the engine made of it.
    End(Result<(), ConnectionError>),
    /// Nothing now.
    Nothing,
    /// Nothing, because of a signal.
    Interrupted,
    /// The socket failed.
    Failed(io::Error),
}

/// The result of one write.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Written {
    /// Bytes, at this time.
    Bytes(Time),
    /// Nothing: there was nothing to write.
    Nothing,
    /// Nothing: the socket has no room.
    Full,
}

/// The result of discarding what the client still sends while the connection lingers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Drained {
    /// Nothing now.
    Nothing,
    /// Perhaps more.
    More,
    /// Nothing more: the client closed its side, or took too long.
    Over,
}

/// A connection.
pub(crate) struct TcpConnection {
    /// The connection's number in the records.
    pub(crate) number: u32,
    stream: TcpStream,
    pub(crate) address: SocketAddr,
    pub(crate) engine: ServerConnection,
    /// Most bytes that one call writes.
    write_at_most: usize,
    protocol: Option<Protocol>,
    /// There is more to read than was read.
    pub(crate) has_unread: bool,
    /// Reading has ended.
    pub(crate) is_ending: bool,
    /// The kernel has reported that the client closed its side. It reports this only once.
    pub(crate) expects_end: bool,
    /// The client has sent something.
    has_received_bytes: bool,
    /// The client closed its side.
    has_received_end: bool,
    /// Set once everything was sent and this side is closed: how long the client's side may stay open.
    linger_until: Option<Time>,
    /// When a request or a response last made progress. Connection-level frames, such as PING, are not progress.
    pub(crate) last_progress: Time,
}

impl TcpConnection {
    pub(super) fn new(
        number: u32,
        stream: TcpStream,
        address: SocketAddr,
        protocol: &TcpProtocol,
        side: &SideSettings,
        wants: InboxOptions,
    ) -> Result<TcpConnection, CreateError> {
        let mut engine = match protocol {
            TcpProtocol::Plain(version) => ServerConnection::plain(*version, side)?,
            TcpProtocol::Secure(context) => ServerConnection::secure(context, side)?,
        };
        if wants.bodies {
            engine.set_manual_consumption();
        }
        Ok(TcpConnection {
            number,
            stream,
            address,
            engine,
            write_at_most: side.tcp.write_at_most(),
            protocol: None,
            has_unread: false,
            is_ending: false,
            expects_end: false,
            has_received_bytes: false,
            has_received_end: false,
            linger_until: None,
            last_progress: clock::now(),
        })
    }

    pub(crate) fn socket(&self) -> &TcpStream {
        &self.stream
    }

    /// The protocol; `None` until it is known.
    pub(crate) fn protocol(&self) -> Option<Protocol> {
        self.protocol
    }

    /// Whether the client closed its side.
    pub(crate) fn has_received_end(&self) -> bool {
        self.has_received_end
    }

    /// Reads once.
    pub(crate) fn read(
        &mut self,
        buffer: &mut [u8],
        inbox: &mut Inbox<ServerEvent>,
    ) -> (Time, Received) {
        let read = socket::receive(&self.stream, buffer);
        let now = clock::now();
        let received = match read {
            Ok(0) => {
                self.has_received_end = true;
                self.has_unread = false;
                Received::End(self.engine.receive_end(inbox))
            }
            Ok(count) => {
                self.has_received_bytes = true;
                // A short read means that nothing is left to read (epoll(7)), except for the end.
                self.has_unread = count == buffer.len() || self.expects_end;
                Received::Bytes(self.engine.receive(&buffer[..count], inbox))
            }
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => {
                self.has_unread = false;
                Received::Nothing
            }
            Err(error) if error.kind() == io::ErrorKind::Interrupted => Received::Interrupted,
            Err(error) => Received::Failed(error),
        };
        if !inbox.events.is_empty() {
            self.last_progress = now;
        }
        (now, received)
    }

    /// Writes once.
    pub(crate) fn write(&mut self, inbox: &mut Inbox<ServerEvent>) -> io::Result<Written> {
        loop {
            let output = self.engine.output(clock::now());
            if output.is_empty() {
                return Ok(Written::Nothing);
            }
            let part = &output[..output.len().min(self.write_at_most)];
            match socket::send(&self.stream, part) {
                Ok(count) => {
                    let now = clock::now();
                    // Ask before the engine learns that the bytes were taken.
                    if self.engine.holds_response() {
                        self.last_progress = now;
                    }
                    self.engine.advance_output(count, inbox);
                    return Ok(Written::Bytes(now));
                }
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => {
                    return Ok(Written::Full);
                }
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => return Err(error),
            }
        }
    }

    /// Whether nothing is left to write.
    pub(crate) fn has_written_all(&mut self) -> bool {
        self.engine.output(clock::now()).is_empty()
    }

    /// Closes this side, once everything was sent. Fails if the connection is already gone.
    pub(crate) fn shut_down(&self) -> io::Result<()> {
        self.stream.shutdown(Shutdown::Write)
    }

    /// From now on, only waits for the client to close its side, for a limited time.
    pub(crate) fn linger(&mut self) {
        self.linger_until = Some(clock::now() + LINGER_TIMEOUT);
    }

    /// Until when the connection lingers, if it does.
    pub(crate) fn linger_until(&self) -> Option<Time> {
        self.linger_until
    }

    /// Discards what still arrives while the connection lingers, in at most this many reads.
    pub(crate) fn drain(&self, buffer: &mut [u8], reads: usize) -> Drained {
        if self.linger_until.is_none_or(|until| until <= clock::now()) {
            return Drained::Over;
        }
        for _ in 0..reads {
            match socket::receive(&self.stream, buffer) {
                Ok(0) => return Drained::Over,
                Ok(_) => {}
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => return Drained::Nothing,
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(_) => return Drained::Over,
            }
        }
        Drained::More
    }

    /// Counts the connection as accepted.
    pub(crate) fn record_accepted(
        &self,
        log: &mut StationLog,
        congestion_controls: &mut BTreeSet<String>,
    ) {
        log.counts.tcp_connections += 1;
        congestion_controls.extend(socket::congestion_control(&self.stream).ok());
    }

    /// Records the protocol, once it is known.
    pub(crate) fn note_established(&mut self, log: &mut StationLog) {
        // Without a received byte, a connection has no protocol.
        if self.protocol.is_some() || !self.has_received_bytes {
            return;
        }
        log.record_keys(self.engine.take_key_log());
        let Some(protocol) = self.engine.protocol() else {
            return;
        };
        self.protocol = Some(protocol);
        let counts = &mut log.counts;
        *counts.protocols.entry(protocol.to_string()).or_default() += 1;
        if let Some(secured) = self.engine.secured() {
            log::count_tls(secured, counts);
        }
    }

    pub(crate) fn sample(&self, is_last: bool, log: &mut StationLog) {
        if log.wants_sockets() && self.linger_until.is_none() {
            log.sample_tcp(self.number, is_last, &self.stream);
        }
    }

    /// Records the connection's final state, once.
    pub(crate) fn record_end(&mut self, log: &mut StationLog) {
        if self.linger_until.is_none() {
            self.sample(true, log);
            log::count_settings(self.engine.http2_settings(), &mut log.counts);
            log.record_keys(self.engine.take_key_log());
        }
    }

    /// Closes with a reset, so that nothing stays in the kernel.
    pub(crate) fn close_abruptly(self) {
        socket::close_abruptly(self.stream);
    }
}
