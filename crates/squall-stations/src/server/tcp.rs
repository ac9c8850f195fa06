//! The server's part of a TCP connection: its turns, and the exchanges on it.
//!
//! `accept::tcp` moves the bytes and closes the socket.

use std::io;

use squall_base::plan::{Protocol, Version};
use squall_base::{Duration, Time};
use squall_http::{Inbox, InboxOptions, ServerEvent};
use squall_linux::clock;
use squall_linux::reactor::ReadyEvent;

use super::exchanges::{ExchangeOwner, ServerExchanges, Service};
use crate::accept::{Drained, Received, TcpConnection, Written};
use crate::buffers::READS_A_TURN;
use crate::memory::HeldMemory;

/// Writes of one connection before others get their turn: 1 MiB, if the client takes it that fast.
const WRITES_A_TURN: usize = 16;
/// The server stops reading from an HTTP/1.1 client while more of an echo than this waits. HTTP/2 has windows for that.
const MAX_BACKLOG_BYTES: usize = 256 * 1024;

pub(super) struct Peer {
    pub(super) tcp: TcpConnection,
    exchanges: ServerExchanges,
    inbox: Inbox<ServerEvent>,
    /// There is more to write than was written.
    has_unwritten: bool,
    /// The client closed its side in the middle of something: pending output is written, then the connection ends.
    is_cut_off: bool,
    /// What the connection held after its last turn.
    held_bytes: usize,
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

impl Peer {
    pub(super) fn new(tcp: TcpConnection, wants: InboxOptions) -> Peer {
        Peer {
            tcp,
            exchanges: ServerExchanges::default(),
            inbox: Inbox::new(wants),
            has_unwritten: false,
            is_cut_off: false,
            held_bytes: 0,
        }
    }

    /// What the connection held after its last turn.
    pub(super) fn held_bytes(&self) -> usize {
        self.held_bytes
    }

    /// Counts what the connection holds after a turn.
    pub(super) fn count_held(&mut self, memory: &mut HeldMemory) {
        let holds = self.tcp.engine.buffered_bytes() + self.exchanges.held_bytes();
        memory.update(&mut self.held_bytes, holds);
    }

    /// Subtracts all bytes that the connection holds from `memory`.
    pub(super) fn release_held(&mut self, memory: &mut HeldMemory) {
        memory.update(&mut self.held_bytes, 0);
    }

    /// When the connection's next response, or the next piece of one, is due; while it lingers, when it ends.
    pub(super) fn next_due(&self) -> Option<Time> {
        (self.tcp.linger_until()).or_else(|| self.exchanges.next_due())
    }

    /// Reads, responds and writes as much as one turn allows.
    pub(super) fn serve(
        &mut self,
        ready: Option<ReadyEvent>,
        buffer: &mut [u8],
        service: &mut Service,
    ) -> TurnOutcome {
        if self.tcp.linger_until().is_some() {
            return self.drain(buffer);
        }
        self.exchanges.set_scarce(service.memory.is_scarce());
        if self.exchanges.next_due().is_some() {
            let now = clock::now();
            (self.exchanges).respond_delayed(now, &mut self.tcp.engine.streams());
        }
        // Lingering discards what arrives after the end.
        self.tcp.has_unread |= !self.tcp.is_ending && ready.is_some_and(|ready| ready.readable);
        self.tcp.expects_end |= ready.is_some_and(|ready| ready.ended);
        if self.tcp.has_unread && self.read(buffer, service).is_err() {
            return TurnOutcome::Gone;
        }
        if self.write(service).is_err() {
            return TurnOutcome::Gone;
        }
        if self.tcp.has_written_all() && (self.is_cut_off || !self.tcp.engine.is_open()) {
            return self.end(buffer, service);
        }
        if self.has_unwritten || self.tcp.has_unread && !self.is_paused() {
            TurnOutcome::Again
        } else {
            TurnOutcome::Wait
        }
    }

    /// Closes this side, once everything was sent, and waits for the client to do the same.
    fn end(&mut self, buffer: &mut [u8], service: &mut Service) -> TurnOutcome {
        self.tcp.engine.close();
        if self.write(service).is_err() {
            return TurnOutcome::Gone;
        }
        if !self.tcp.has_written_all() {
            return if self.has_unwritten {
                TurnOutcome::Again
            } else {
                TurnOutcome::Wait
            };
        }
        if self.tcp.has_received_end()
            || self.tcp.engine.must_reset()
            || self.tcp.shut_down().is_err()
        {
            return TurnOutcome::Gone;
        }
        self.record_end(service);
        self.tcp.linger();
        self.drain(buffer)
    }

    /// Discards what still arrives, until the time is up.
    fn drain(&self, buffer: &mut [u8]) -> TurnOutcome {
        match self.tcp.drain(buffer, READS_A_TURN) {
            Drained::Nothing => TurnOutcome::Wait,
            Drained::More => TurnOutcome::Again,
            Drained::Over => TurnOutcome::Gone,
        }
    }

    /// Whether no request has made progress for `timeout`. While a response is delayed, the connection is not idle.
    pub(super) fn is_idle(&self, now: Time, timeout: Duration) -> bool {
        self.next_due().is_none() && self.tcp.last_progress + timeout <= now
    }

    /// Whether a request's head has been arriving for too long at `now`, although everything that arrived was read.
    pub(super) fn has_slow_head(&self, now: Time) -> bool {
        !self.tcp.is_ending && !self.tcp.has_unread && !self.exchanges.slow_heads(now).is_empty()
    }

    /// Answers a request with a slow head with an error in the next turn, after which the connection ends. False if the
    /// connection can only be closed.
    pub(super) fn time_out_head(&mut self) -> bool {
        self.tcp.is_ending = self.tcp.engine.time_out_head();
        self.tcp.is_ending
    }

    /// Announces the end of the connection, as far as the socket accepts it immediately.
    pub(super) fn announce_close(&mut self, service: &mut Service) {
        self.tcp.engine.shut_down();
        let _ = self.write(service);
        self.tcp.engine.close();
        let _ = self.write(service);
    }

    fn is_paused(&self) -> bool {
        let is_http1 = self.tcp.protocol().map(Protocol::version) == Some(Version::Http1);
        is_http1 && self.exchanges.backlog_bytes() > MAX_BACKLOG_BYTES
    }

    fn read(&mut self, buffer: &mut [u8], service: &mut Service) -> io::Result<()> {
        for _ in 0..READS_A_TURN {
            if self.is_paused() {
                return Ok(());
            }
            let (now, received) = self.tcp.read(buffer, &mut self.inbox);
            let received = match received {
                Received::Bytes(received) => received,
                Received::End(ended) => {
                    self.tcp.is_ending = true;
                    self.is_cut_off = ended.is_err();
                    ended
                }
                Received::Nothing => return Ok(()),
                Received::Interrupted => continue,
                Received::Failed(error) => return Err(error),
            };
            self.tcp.note_established(&mut service.log);
            self.apply(now, service);
            // Also after an error: the engine may still have something to send, such as GOAWAY.
            self.tcp.is_ending |= received.is_err() || self.tcp.engine.has_received_end();
            if self.tcp.is_ending || !self.tcp.has_unread {
                self.tcp.has_unread = false;
                return Ok(());
            }
            self.write(service)?;
        }
        Ok(())
    }

    fn apply(&mut self, now: Time, service: &mut Service) {
        if self.inbox.events.is_empty() && self.inbox.frames.is_empty() {
            return;
        }
        if !self.inbox.events.is_empty() {
            self.tcp.last_progress = now;
        }
        let owner = self.owner();
        let engine = &self.tcp.engine;
        let locate = |way, offset| engine.locate(way, offset);
        let answers = self
            .exchanges
            .apply(&mut self.inbox, now, owner, locate, service);
        (self.exchanges).respond(answers, now, &mut self.tcp.engine.streams());
    }

    fn owner(&self) -> ExchangeOwner {
        ExchangeOwner {
            connection: self.tcp.number,
            peer: self.tcp.address,
            protocol: self.tcp.protocol().unwrap_or(Protocol::H1),
        }
    }

    fn write(&mut self, service: &mut Service) -> io::Result<()> {
        self.has_unwritten = false;
        for _ in 0..WRITES_A_TURN {
            if self.exchanges.is_streaming() {
                self.exchanges.stream(&mut self.tcp.engine.streams());
            }
            match self.tcp.write(&mut self.inbox)? {
                Written::Bytes(now) => self.apply(now, service),
                Written::Nothing | Written::Full => return Ok(()),
            }
        }
        self.has_unwritten = true;
        Ok(())
    }

    /// Records the connection's final state. Whatever was open on it has failed.
    pub(super) fn record_end(&mut self, service: &mut Service) {
        if self.tcp.linger_until().is_none() {
            self.tcp.record_end(&mut service.log);
            (self.exchanges).abandon(clock::now(), self.owner(), service);
        }
    }

    /// Closes the socket so that no client takes a response that was cut off for a complete one.
    pub(super) fn close(self) {
        if self.tcp.engine.must_reset() {
            self.tcp.close_abruptly();
        }
    }
}
