//! One TCP connection of a client: a socket, an engine, and which streams are which exchanges.

use std::collections::VecDeque;
use std::io;
use std::net::{Shutdown, SocketAddr, TcpStream};

use squall_base::plan::{Protocol, SideSettings, Version};
use squall_base::{Duration, Time};
use squall_http::{
    ConnectionError, CreateError, Inbox, ServerConnection, ServerEvent, StreamId, Streams, Wants,
};
use squall_linux::clock;
use squall_linux::socket;

use crate::log::{self, Log};
use crate::proxy::exchange::Key;
use crate::server::Speaks;

/// An HTTP/1.1 client is not read from while so many bytes of its requests wait for upstreams.
const HTTP1_BACKLOG_BYTES: usize = 64 * 1024;
/// Nor is one of HTTP/2, whose windows hold it up before, unless they are set to be larger.
const HTTP2_BACKLOG_BYTES: usize = 4 * 1024 * 1024;
/// How many pipelined requests wait before no more are read.
const MAX_WAITING: usize = 64;
/// As the embedded server waits: see there.
const FAREWELL: Duration = Duration::from_secs(5);

/// What a read came to.
#[derive(Debug)]
pub(in crate::proxy) enum Ended {
    /// It goes on.
    No,
    /// The client closed its side.
    ByClient,
    /// The client broke the protocol: the engine may have a last word.
    Broken,
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
    /// How many bytes one call writes at most.
    write_at_most: usize,
    protocol: Option<Protocol>,
    pub(in crate::proxy) streams: Streams<StreamId, Key>,
    /// Exchanges whose answers wait for room.
    pub(in crate::proxy) blocked: Vec<Key>,
    /// HTTP/1.1: pipelined requests that wait for the answers of those before them.
    pub(in crate::proxy) waiting: VecDeque<Key>,
    /// HTTP/1.1: the one that broke the protocol, which the engine answers itself, as the last.
    pub(in crate::proxy) refused: Option<Key>,
    /// Whether one is being answered.
    pub(in crate::proxy) is_serving: bool,
    pub(in crate::proxy) backlog_bytes: usize,
    pub(in crate::proxy) is_dirty: bool,
    /// There is more to read than was read.
    pub(in crate::proxy) is_hungry: bool,
    /// Nothing more is read.
    pub(in crate::proxy) is_ending: bool,
    /// An answer was cut off whose end only the connection's can show: it ends with a reset.
    pub(in crate::proxy) is_cut: bool,
    has_heard_end: bool,
    /// The client has sent something.
    has_spoken: bool,
    /// The kernel has told that the client closed its side, which it tells once.
    pub(in crate::proxy) expects_end: bool,
    farewell: Option<Time>,
    /// When something last moved.
    pub(in crate::proxy) last_progress: Time,
}

impl TcpFront {
    pub(in crate::proxy) fn new(
        number: u32,
        (stream, address): (TcpStream, SocketAddr),
        speaks: &Speaks,
        settings: &SideSettings,
    ) -> Result<TcpFront, CreateError> {
        let mut engine = match speaks {
            Speaks::Plain(version) => ServerConnection::plain(*version, settings)?,
            Speaks::Secure(context) => ServerConnection::secure(context, settings)?,
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
            is_hungry: false,
            is_ending: false,
            is_cut: false,
            has_heard_end: false,
            has_spoken: false,
            expects_end: false,
            farewell: None,
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

    /// Whether more of it is not read for now, so that what waits here stays bounded.
    pub(in crate::proxy) fn is_paused(&self) -> bool {
        let most = match self.version() {
            Version::Http1 => HTTP1_BACKLOG_BYTES,
            _ => HTTP2_BACKLOG_BYTES,
        };
        self.backlog_bytes > most || self.waiting.len() > MAX_WAITING
    }

    /// Whether it has something to read and may be read from.
    pub(in crate::proxy) fn wants_to_go_on(&self) -> bool {
        self.is_hungry && !self.is_ending && !self.is_paused()
    }

    /// Whether nothing is open but what only has to be told that it is refused.
    pub(in crate::proxy) fn is_idle(&self) -> bool {
        (self.streams.iter()).all(|(_, key)| self.refused == Some(*key))
    }

    /// Whether everything was said, and only the client's end is waited for.
    pub(in crate::proxy) fn is_leaving(&self) -> bool {
        self.farewell.is_some()
    }

    /// Reads once.
    pub(in crate::proxy) fn read(
        &mut self,
        buffer: &mut [u8],
        inbox: &mut Inbox<ServerEvent>,
    ) -> (Time, Ended) {
        let read = socket::receive(&self.stream, buffer);
        let now = clock::now();
        let ended = match read {
            Ok(0) => {
                self.has_heard_end = true;
                self.is_hungry = false;
                // Whatever is open has lost its client: nobody could tell a half-closed connection from that.
                let _ = self.engine.receive_end(inbox);
                Ended::ByClient
            }
            Ok(count) => {
                self.has_spoken = true;
                // Less than there was room for is all that there was (epoll(7)), but for the end.
                self.is_hungry = count == buffer.len() || self.expects_end;
                let received = self.engine.receive(&buffer[..count], inbox);
                if !inbox.events.is_empty() {
                    self.last_progress = now;
                }
                match received {
                    // After close_notify it is read on: a client that waits for an answer and one that is gone differ
                    // in nothing but the end of TCP.
                    Ok(()) => Ended::No,
                    Err(ConnectionError::UnexpectedEnd) => Ended::ByClient,
                    Err(_) => Ended::Broken,
                }
            }
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => {
                self.is_hungry = false;
                Ended::No
            }
            Err(error) if error.kind() == io::ErrorKind::Interrupted => Ended::No,
            Err(_) => Ended::Failed,
        };
        (now, ended)
    }

    /// Writes once; `None` if there is nothing to write or no room. The inbox may have news in either case: an answer that
    /// goes to the connection's end can be over without a further byte.
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
                    // The engine does not know yet that it was taken.
                    if self.engine.holds_answer() {
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

    /// Whether everything was written that will be.
    pub(in crate::proxy) fn is_finished(&mut self) -> bool {
        !self.engine.is_open() && self.engine.output(clock::now()).is_empty()
    }

    /// To somebody who still reads, a proper end would complete an answer that was cut off.
    fn ends_abruptly(&self) -> bool {
        self.is_cut || self.engine.cuts_off()
    }

    /// Everything is said: says that too. True if nothing is to be waited for.
    pub(in crate::proxy) fn take_leave(
        &mut self,
        inbox: &mut Inbox<ServerEvent>,
        log: &mut Log,
    ) -> bool {
        if self.ends_abruptly() || self.has_heard_end {
            return true;
        }
        self.engine.close();
        while let Ok(Some(_)) = self.write(inbox) {}
        if !self.engine.output(clock::now()).is_empty() {
            return false;
        }
        self.record_end(log);
        self.farewell = Some(clock::now() + FAREWELL);
        self.stream.shutdown(Shutdown::Write).is_err()
    }

    /// Throws away what still comes from a client to which everything was said; true once it is over.
    pub(in crate::proxy) fn drain(&mut self, buffer: &mut [u8]) -> bool {
        if self.farewell.is_none_or(|until| until <= clock::now()) {
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

    /// Says that it is over because nothing was asked, as far as the socket takes it at once.
    pub(in crate::proxy) fn say_goodbye(&mut self, inbox: &mut Inbox<ServerEvent>) {
        self.engine.shut_down();
        let _ = self.write(inbox);
        self.engine.close();
        let _ = self.write(inbox);
    }

    /// Notes what is spoken, once that is known.
    pub(in crate::proxy) fn note_established(&mut self, log: &mut Log) {
        // On a connection without a byte nothing is spoken.
        if self.protocol.is_some() || !self.has_spoken {
            return;
        }
        log.keys(self.engine.take_key_log());
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

    pub(in crate::proxy) fn sample(&self, is_last: bool, log: &mut Log) {
        if log.wants_sockets() && self.farewell.is_none() {
            log.sample_tcp(self.number, is_last, &self.stream);
        }
    }

    /// Writes down what its end leaves, once.
    pub(in crate::proxy) fn record_end(&mut self, log: &mut Log) {
        if self.farewell.is_none() {
            self.sample(true, log);
            log::count_settings(self.engine.http2_settings(), &mut log.counts);
            log.keys(self.engine.take_key_log());
        }
    }

    /// Closes its socket, so that no client takes an answer that was cut off for a whole one.
    pub(in crate::proxy) fn close(self) {
        if self.ends_abruptly() {
            self.close_abruptly();
        }
    }

    /// With a reset: nothing stays in the kernel.
    pub(in crate::proxy) fn close_abruptly(self) {
        socket::close_abruptly(self.stream);
    }

    /// What its inbox takes.
    pub(in crate::proxy) fn wants(log: &Log) -> Wants {
        Wants {
            fields: true,
            bodies: true,
            frames: log.wants_frames(),
        }
    }
}
