//! The proxy's part of a client's TCP connection: the exchanges on its streams, and what waits there.
//!
//! `accept::tcp` moves the bytes and closes the socket.

use std::collections::VecDeque;
use std::io;

use squall_base::Time;
use squall_base::plan::{Protocol, Version};
use squall_http::{ConnectionError, Inbox, InboxOptions, ServerEvent, StreamId};

use super::open::OpenExchanges;
use crate::accept::{Drained, Received, TcpConnection, Written};
use crate::log::StationLog;
use crate::memory::max_backlog_bytes;
use crate::proxy::keys::ExchangeKey;

/// How many pipelined requests may wait before reading stops.
const MAX_WAITING: usize = 64;

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
    pub(in crate::proxy) tcp: TcpConnection,
    pub(in crate::proxy) open: OpenExchanges,
    /// HTTP/1.1: pipelined requests that wait for the responses to those before them.
    pub(in crate::proxy) waiting: VecDeque<ExchangeKey>,
    /// HTTP/1.1: the request that violated the protocol, to which the engine itself responds, last.
    pub(in crate::proxy) refused: Option<ExchangeKey>,
    /// HTTP/1.1: whether a request is being served.
    pub(in crate::proxy) is_serving: bool,
    pub(in crate::proxy) backlog_bytes: usize,
    /// What the connection held after it was last written to.
    pub(in crate::proxy) held_bytes: usize,
    pub(in crate::proxy) is_dirty: bool,
    /// A response that only the connection's end delimits was cut off, so the connection ends with a reset.
    pub(in crate::proxy) is_cut_off: bool,
}

impl TcpFront {
    pub(in crate::proxy) fn new(tcp: TcpConnection) -> TcpFront {
        TcpFront {
            tcp,
            open: OpenExchanges::default(),
            waiting: VecDeque::new(),
            refused: None,
            is_serving: false,
            backlog_bytes: 0,
            held_bytes: 0,
            is_dirty: false,
            is_cut_off: false,
        }
    }

    pub(in crate::proxy) fn protocol(&self) -> Protocol {
        self.tcp.protocol().unwrap_or(Protocol::H1)
    }

    pub(in crate::proxy) fn version(&self) -> Version {
        self.protocol().version()
    }

    /// Whether reading from the connection is paused, so that what waits here stays bounded; earlier while memory is
    /// scarce.
    fn is_paused(&self, is_scarce: bool) -> bool {
        self.backlog_bytes > max_backlog_bytes(self.version(), is_scarce)
            || self.waiting.len() > MAX_WAITING
    }

    /// Whether the connection has something to read and may be read from.
    pub(in crate::proxy) fn may_read(&self, is_scarce: bool) -> bool {
        self.tcp.has_unread && !self.tcp.is_ending && !self.is_paused(is_scarce)
    }

    /// Whether nothing is open except a request that still has to be refused.
    pub(in crate::proxy) fn is_idle(&self) -> bool {
        (self.open.streams.iter()).all(|(_, key)| self.refused == Some(*key))
    }

    /// Whether everything was sent, and only the client's end is awaited.
    pub(in crate::proxy) fn is_lingering(&self) -> bool {
        self.tcp.linger_until().is_some()
    }

    /// Ends reading, and takes what is open.
    pub(in crate::proxy) fn take_open(&mut self) -> Vec<(StreamId, ExchangeKey)> {
        self.tcp.is_ending = true;
        self.waiting.clear();
        self.open.streams.drain().collect()
    }

    /// Reads once.
    pub(in crate::proxy) fn read(
        &mut self,
        buffer: &mut [u8],
        inbox: &mut Inbox<ServerEvent>,
    ) -> (Time, ReadOutcome) {
        let (now, received) = self.tcp.read(buffer, inbox);
        let outcome = match received {
            // Reading continues after close_notify: only the end of TCP distinguishes a client that is gone from one
            // that waits for its response.
            Received::Bytes(Ok(())) | Received::Nothing | Received::Interrupted => {
                ReadOutcome::Open
            }
            // Whatever is open has lost its client: a half-closed connection cannot be told from a lost one.
            Received::End(_) | Received::Bytes(Err(ConnectionError::UnexpectedEnd)) => {
                ReadOutcome::ClosedByClient
            }
            Received::Bytes(Err(_)) => ReadOutcome::ProtocolViolation,
            Received::Failed(_) => ReadOutcome::Failed,
        };
        (now, outcome)
    }

    /// Writes once; `None` if there is nothing to write or no room. The inbox may get events in either case: a response
    /// that ends with the connection can be over without another byte.
    pub(in crate::proxy) fn write(
        &mut self,
        inbox: &mut Inbox<ServerEvent>,
    ) -> io::Result<Option<Time>> {
        Ok(match self.tcp.write(inbox)? {
            Written::Bytes(now) => Some(now),
            Written::Nothing => {
                self.tcp.engine.advance_output(0, inbox);
                None
            }
            Written::Full => None,
        })
    }

    /// Whether everything that will be written has been.
    pub(in crate::proxy) fn is_finished(&mut self) -> bool {
        !self.tcp.engine.is_open() && self.tcp.has_written_all()
    }

    /// Whether the connection must be reset: after a clean end, a client that still reads would take a cut response for a
    /// whole one.
    fn ends_abruptly(&self) -> bool {
        self.is_cut_off || self.tcp.engine.must_reset()
    }

    /// Closes this side, once everything was sent. True if there is nothing to wait for.
    pub(in crate::proxy) fn begin_lingering(
        &mut self,
        inbox: &mut Inbox<ServerEvent>,
        log: &mut StationLog,
    ) -> bool {
        if self.ends_abruptly() || self.tcp.has_received_end() {
            return true;
        }
        self.tcp.engine.close();
        while let Ok(Some(_)) = self.write(inbox) {}
        if !self.tcp.has_written_all() {
            return false;
        }
        self.tcp.record_end(log);
        self.tcp.linger();
        self.tcp.shut_down().is_err()
    }

    /// Discards what a client still sends after everything was sent to it; true once the connection is over.
    pub(in crate::proxy) fn drain(&self, buffer: &mut [u8]) -> bool {
        self.tcp.drain(buffer, usize::MAX) == Drained::Over
    }

    /// Announces the end of an idle connection, as far as the socket accepts it immediately.
    pub(in crate::proxy) fn announce_close(&mut self, inbox: &mut Inbox<ServerEvent>) {
        self.tcp.engine.shut_down();
        let _ = self.write(inbox);
        self.tcp.engine.close();
        let _ = self.write(inbox);
    }

    /// Closes the socket so that no client takes a response that was cut off for a complete one.
    pub(in crate::proxy) fn close(self) {
        if self.ends_abruptly() {
            self.tcp.close_abruptly();
        }
    }

    /// What the connection's inbox collects.
    pub(in crate::proxy) fn wants(log: &StationLog) -> InboxOptions {
        InboxOptions {
            fields: true,
            bodies: true,
            frames: log.wants_frames(),
        }
    }
}
