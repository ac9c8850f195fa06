//! One TCP connection of a client: a socket, an engine, and the exchanges on its streams.

use std::collections::VecDeque;
use std::io;
use std::net::{Shutdown, SocketAddr, TcpStream};

use squall_base::plan::{Protocol, SideSettings, Version};
use squall_base::{Duration, Time};
use squall_http::{
    ConnectionError, CreateError, Inbox, InboxOptions, ServerConnection, ServerEvent, StreamId,
    Streams,
};
use squall_linux::clock;
use squall_linux::socket;

use crate::log::{self, StationLog};
use crate::proxy::exchange::ExchangeKey;
use crate::server::TcpProtocol;

/// The proxy stops reading from an HTTP/1.1 client while more bytes than this wait for upstreams.
const HTTP1_BACKLOG_BYTES: usize = 64 * 1024;
/// The limit for HTTP/2. Windows stop such a client earlier, unless they are set to be larger.
const HTTP2_BACKLOG_BYTES: usize = 4 * 1024 * 1024;
/// How many pipelined requests may wait before reading stops.
const MAX_WAITING: usize = 64;
/// How long a client may take to close its side, as in the embedded server (`server::tcp`).
const LINGER_TIMEOUT: Duration = Duration::from_secs(5);

/// The result of a read.
#[derive(Debug)]
pub(in crate::proxy) enum ReadOutcome {
    /// The connection goes on.
    Open,
    /// The client closed its side.
    ClosedByClient,
    /// The client violated the protocol; the engine may still have something to send.
    ProtocolViolation,
    /// The socket failed.
    Failed,
}

/// A client's connection over TCP.
pub(in crate::proxy) struct TcpFront {
    /// Its number in the records.
    pub(in crate::proxy) number: u32,
    stream: TcpStream,
    pub(in crate::proxy) address: SocketAddr,
    pub(in crate::proxy) engine: ServerConnection,
    /// Most bytes that one call writes.
    write_at_most: usize,
    protocol: Option<Protocol>,
    pub(in crate::proxy) streams: Streams<StreamId, ExchangeKey>,
    /// Exchanges whose responses wait for room.
    pub(in crate::proxy) blocked: Vec<ExchangeKey>,
    /// HTTP/1.1: pipelined requests that wait for the responses to those before them.
    pub(in crate::proxy) waiting: VecDeque<ExchangeKey>,
    /// HTTP/1.1: the request that violated the protocol, to which the engine itself responds, last.
    pub(in crate::proxy) refused: Option<ExchangeKey>,
    /// HTTP/1.1: whether a request is being served.
    pub(in crate::proxy) is_serving: bool,
    pub(in crate::proxy) backlog_bytes: usize,
    pub(in crate::proxy) is_dirty: bool,
    /// There is more to read than was read.
    pub(in crate::proxy) has_unread: bool,
    /// Reading has ended.
    pub(in crate::proxy) is_ending: bool,
    /// A response was cut off whose end only the connection's end can show, so the connection ends with a reset.
    pub(in crate::proxy) is_cut_off: bool,
    has_received_end: bool,
    /// The client has sent something.
    has_received_bytes: bool,
    /// The kernel has reported that the client closed its side. It reports this only once.
    pub(in crate::proxy) expects_end: bool,
    linger_until: Option<Time>,
    /// When something last moved.
    pub(in crate::proxy) last_progress: Time,
}

impl TcpFront {
    pub(in crate::proxy) fn new(
        number: u32,
        (stream, address): (TcpStream, SocketAddr),
        protocol: &TcpProtocol,
        settings: &SideSettings,
    ) -> Result<TcpFront, CreateError> {
        let mut engine = match protocol {
            TcpProtocol::Plain(version) => ServerConnection::plain(*version, settings)?,
            TcpProtocol::Secure(context) => ServerConnection::secure(context, settings)?,
        };
        engine.set_manual_consumption();
        Ok(TcpFront {
            number,
            stream,
            address,
            engine,
            write_at_most: settings.tcp.write_at_most(),
            protocol: None,
            streams: Streams::default(),
            blocked: Vec::new(),
            waiting: VecDeque::new(),
            refused: None,
            is_serving: false,
            backlog_bytes: 0,
            is_dirty: false,
            has_unread: false,
            is_ending: false,
            is_cut_off: false,
            has_received_end: false,
            has_received_bytes: false,
            expects_end: false,
            linger_until: None,
            last_progress: clock::now(),
        })
    }

    pub(in crate::proxy) fn socket(&self) -> &TcpStream {
        &self.stream
    }

    pub(in crate::proxy) fn protocol(&self) -> Protocol {
        self.protocol.unwrap_or(Protocol::H1)
    }

    pub(in crate::proxy) fn version(&self) -> Version {
        self.protocol().version()
    }

    /// Whether reading from it is paused, so that what waits here stays bounded.
    pub(in crate::proxy) fn is_paused(&self) -> bool {
        let most = match self.version() {
            Version::Http1 => HTTP1_BACKLOG_BYTES,
            _ => HTTP2_BACKLOG_BYTES,
        };
        self.backlog_bytes > most || self.waiting.len() > MAX_WAITING
    }

    /// Whether it has something to read and may be read from.
    pub(in crate::proxy) fn may_read(&self) -> bool {
        self.has_unread && !self.is_ending && !self.is_paused()
    }

    /// Whether nothing is open except a request that still has to be refused.
    pub(in crate::proxy) fn is_idle(&self) -> bool {
        (self.streams.iter()).all(|(_, key)| self.refused == Some(*key))
    }

    /// Whether everything was sent, and only the client's end is awaited.
    pub(in crate::proxy) fn is_lingering(&self) -> bool {
        self.linger_until.is_some()
    }

    /// Reads once.
    pub(in crate::proxy) fn read(
        &mut self,
        buffer: &mut [u8],
        inbox: &mut Inbox<ServerEvent>,
    ) -> (Time, ReadOutcome) {
        let read = socket::receive(&self.stream, buffer);
        let now = clock::now();
        let outcome = match read {
            Ok(0) => {
                self.has_received_end = true;
                self.has_unread = false;
                // Whatever is open has lost its client: a half-closed connection cannot be told from a lost one.
                let _ = self.engine.receive_end(inbox);
                ReadOutcome::ClosedByClient
            }
            Ok(count) => {
                self.has_received_bytes = true;
                // A short read means that nothing is left to read (epoll(7)), except for the end.
                self.has_unread = count == buffer.len() || self.expects_end;
                let received = self.engine.receive(&buffer[..count], inbox);
                if !inbox.events.is_empty() {
                    self.last_progress = now;
                }
                match received {
                    // Reading continues after close_notify: only the end of TCP distinguishes a client that is gone
                    // from one that waits for its response.
                    Ok(()) => ReadOutcome::Open,
                    Err(ConnectionError::UnexpectedEnd) => ReadOutcome::ClosedByClient,
                    Err(_) => ReadOutcome::ProtocolViolation,
                }
            }
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => {
                self.has_unread = false;
                ReadOutcome::Open
            }
            Err(error) if error.kind() == io::ErrorKind::Interrupted => ReadOutcome::Open,
            Err(_) => ReadOutcome::Failed,
        };
        (now, outcome)
    }

    /// Writes once; `None` if there is nothing to write or no room. The inbox may get events in either case: a response
    /// that ends with the connection can be over without another byte.
    pub(in crate::proxy) fn write(
        &mut self,
        inbox: &mut Inbox<ServerEvent>,
    ) -> Result<Option<Time>, io::Error> {
        loop {
            let output = self.engine.output(clock::now());
            if output.is_empty() {
                self.engine.advance_output(0, inbox);
                return Ok(None);
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
                    return Ok(Some(now));
                }
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => return Ok(None),
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => return Err(error),
            }
        }
    }

    /// Whether everything that will be written has been.
    pub(in crate::proxy) fn is_finished(&mut self) -> bool {
        !self.engine.is_open() && self.engine.output(clock::now()).is_empty()
    }

    /// A client that still reads would take a clean end for the end of a response that was cut off.
    fn ends_abruptly(&self) -> bool {
        self.is_cut_off || self.engine.must_reset()
    }

    /// Closes this side, once everything was sent. True if there is nothing to wait for.
    pub(in crate::proxy) fn begin_lingering(
        &mut self,
        inbox: &mut Inbox<ServerEvent>,
        log: &mut StationLog,
    ) -> bool {
        if self.ends_abruptly() || self.has_received_end {
            return true;
        }
        self.engine.close();
        while let Ok(Some(_)) = self.write(inbox) {}
        if !self.engine.output(clock::now()).is_empty() {
            return false;
        }
        self.record_end(log);
        self.linger_until = Some(clock::now() + LINGER_TIMEOUT);
        self.stream.shutdown(Shutdown::Write).is_err()
    }

    /// Discards what a client still sends after everything was sent to it; true once the connection is over.
    pub(in crate::proxy) fn drain(&mut self, buffer: &mut [u8]) -> bool {
        if self.linger_until.is_none_or(|until| until <= clock::now()) {
            return true;
        }
        loop {
            match socket::receive(&self.stream, buffer) {
                Ok(0) => return true,
                Ok(_) => {}
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => return false,
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(_) => return true,
            }
        }
    }

    /// Announces the end of an idle connection, as far as the socket accepts it immediately.
    pub(in crate::proxy) fn announce_close(&mut self, inbox: &mut Inbox<ServerEvent>) {
        self.engine.shut_down();
        let _ = self.write(inbox);
        self.engine.close();
        let _ = self.write(inbox);
    }

    /// Records the protocol, once it is known.
    pub(in crate::proxy) fn note_established(&mut self, log: &mut StationLog) {
        // A connection without a byte has no protocol.
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

    pub(in crate::proxy) fn sample(&self, is_last: bool, log: &mut StationLog) {
        if log.wants_sockets() && self.linger_until.is_none() {
            log.sample_tcp(self.number, is_last, &self.stream);
        }
    }

    /// Records its final state, once.
    pub(in crate::proxy) fn record_end(&mut self, log: &mut StationLog) {
        if self.linger_until.is_none() {
            self.sample(true, log);
            log::count_settings(self.engine.http2_settings(), &mut log.counts);
            log.record_keys(self.engine.take_key_log());
        }
    }

    /// Closes its socket so that no client takes a response that was cut off for a complete one.
    pub(in crate::proxy) fn close(self) {
        if self.ends_abruptly() {
            self.close_abruptly();
        }
    }

    /// Closes with a reset, so that nothing stays in the kernel.
    pub(in crate::proxy) fn close_abruptly(self) {
        socket::close_abruptly(self.stream);
    }

    /// What its inbox collects.
    pub(in crate::proxy) fn wants(log: &StationLog) -> InboxOptions {
        InboxOptions {
            fields: true,
            bodies: true,
            frames: log.wants_frames(),
        }
    }
}
