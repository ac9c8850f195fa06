//! The embedded server: serves any of the protocols side by side on one thread, with the responses of its site.
//!
//! A misbehaving client loses its own connection and affects nothing else. Start at [`Server`]; `tcp` and `quic` are
//! its connections, `exchanges` is what is open on each, `site` decides on responses, `page` is a browser's page,
//! `query` parses queries, `access` is the access log.

mod access;
#[cfg(test)]
mod beside_abuse;
#[cfg(test)]
mod closed_windows;
mod exchanges;
mod page;
mod query;
mod quic;
#[cfg(test)]
mod refused;
mod site;
#[cfg(test)]
mod slow_heads;
mod source;
mod tcp;
#[cfg(test)]
mod tests;
#[cfg(test)]
mod tls_closing;

use std::collections::{BTreeMap, BTreeSet};
use std::io;
use std::net::SocketAddr;

use squall_base::plan::SideSettings;
use squall_base::record::{Side, SideCounts};
use squall_base::{Duration, Time};
use squall_http::InboxOptions;
use squall_linux::reactor::{Reactor, ReadyEvent};
use squall_linux::scheduling::{self, Scheduling};
use squall_linux::stop::StopSignal;
use squall_linux::{allocator, clock};

use crate::accept::{self, ACCEPT_PAUSE, Accepted, Bound, TcpAcceptor, TcpConnection};
pub use crate::accept::{Listener, ListenerProtocol};
use crate::error::StationError;
use crate::log::{LogSinks, StationLog};
use crate::memory::{self, HeldMemory};
use crate::quiet::QuietPeriods;
use crate::{Buffers, STATION_PRIORITY};
pub use access::AccessLog;
pub(crate) use access::{AccessEntry, flush_access};
use exchanges::Service;
pub use page::PageError;
pub use query::{Chunks, Delay, QueryError, QueryOptions};
use quic::QuicListener;
pub use site::Site;
use tcp::{Peer, TurnOutcome};

/// Tokens from here on are listeners, those below are connections.
const LISTENERS: u64 = 1 << 62;
const STOP: u64 = u64::MAX - 2;

/// How often connections are checked for inactivity.
const SWEEP_EVERY: Duration = Duration::from_secs(1);

/// What a server is to do.
pub struct ServerSettings {
    /// Where it listens.
    pub listeners: Vec<Listener>,
    /// Settings of the server side.
    pub side: SideSettings,
    /// What it serves.
    pub site: Site,
    /// Where its rows go.
    pub log: LogSinks,
    /// Its access log.
    pub access: Option<AccessLog>,
    /// How often sockets are sampled, if samples are wanted.
    pub sample_every: Duration,
    /// A connection that makes no progress for this long is closed: no request begins or is understood, and no part of
    /// a body moves. `None`: never, as in a trial. The head of a request may take 60 s, or forever if this is `None`.
    /// A QUIC connection without packets ends after [`squall_http::h3::IDLE_TIMEOUT`] in any case.
    pub idle_timeout: Option<Duration>,
    /// Seed of everything that is drawn at random: QUIC connection ids, and delays of the site.
    pub seed: u64,
    /// Whether its thread asks for real-time priority, as in a trial.
    pub is_realtime: bool,
}

/// What a server did.
#[derive(Clone, Debug, Default)]
pub struct ServerReport {
    /// Requests answered in full: the socket took the last byte.
    pub responses_written: u64,
    /// Congestion control of its sockets, as the kernel reports it.
    pub congestion_controls: BTreeSet<String>,
    /// Connections that this machine could not accept, by the kernel's message.
    pub machine_errors: BTreeMap<String, u64>,
    /// How its thread was scheduled; `None` before it has run.
    pub scheduling: Option<Scheduling>,
    /// Its counters.
    pub counts: SideCounts,
}

/// A server that is already listening.
pub struct Server {
    side: SideSettings,
    service: Service,
    wants: InboxOptions,
    sample_every: Duration,
    idle_timeout: Option<Duration>,
    is_realtime: bool,
    listeners: Vec<BoundListener>,
    reactor: Reactor,
    stop: StopSignal,
    /// By connection number; numbers only grow.
    peers: BTreeMap<u32, Box<Peer>>,
    next_peer: u32,
    /// Peers that want another turn.
    pending_turns: Vec<u32>,
    /// Peers with a timer: for a response, or for their end.
    delayed: BTreeSet<u32>,
    /// When all listeners try again after one could not accept.
    accept_at: Option<Time>,
    next_sample: Option<Time>,
    next_sweep: Option<Time>,
    quiet: QuietPeriods,
    buffers: Buffers,
    report: ServerReport,
}

/// A listener that is bound.
enum BoundListener {
    Tcp(TcpAcceptor),
    Quic(Box<QuicListener>),
}

impl Server {
    /// Listens, in the network namespace of the calling thread. Clients can connect from now on; `run` serves them.
    pub fn listen(settings: ServerSettings, stop: StopSignal) -> Result<Server, StationError> {
        let reactor = Reactor::new()?;
        reactor.add(&stop, STOP)?;
        let log = StationLog::new(Side::Server, settings.log);
        let wants = InboxOptions {
            // After the first hop, fields identify the request.
            fields: settings.site.needs_fields() || (log.wants_exchanges() && log.hop() > 1),
            bodies: settings.site.needs_bodies(),
            frames: log.wants_frames(),
        };
        let mut listeners = Vec::new();
        for (index, listener) in (0..).zip(settings.listeners) {
            let token = LISTENERS + index;
            let seed = settings.seed.wrapping_add(index);
            let bound = listener.bind(&settings.side, wants, seed, &reactor, token)?;
            listeners.push(match bound {
                Bound::Tcp(acceptor) => BoundListener::Tcp(acceptor),
                Bound::Quic(endpoint) => {
                    BoundListener::Quic(Box::new(QuicListener::new(*endpoint)))
                }
            });
        }
        Ok(Server {
            side: settings.side,
            wants,
            next_sample: log
                .wants_sockets()
                .then(|| clock::now() + settings.sample_every),
            service: Service {
                site: settings.site.seeded(settings.seed),
                log,
                access: settings.access,
                responses_written: 0,
                memory: HeldMemory::default(),
            },
            sample_every: settings.sample_every,
            next_sweep: settings.idle_timeout.map(|_| clock::now() + SWEEP_EVERY),
            idle_timeout: settings.idle_timeout,
            is_realtime: settings.is_realtime,
            listeners,
            reactor,
            stop,
            peers: BTreeMap::new(),
            next_peer: 0,
            pending_turns: Vec::new(),
            delayed: BTreeSet::new(),
            accept_at: None,
            quiet: QuietPeriods::default(),
            buffers: Buffers::new(),
            report: ServerReport::default(),
        })
    }

    /// The addresses its listeners are bound to, in the order of the settings.
    pub fn addresses(&self) -> io::Result<Vec<SocketAddr>> {
        self.listeners
            .iter()
            .map(|listener| match listener {
                BoundListener::Tcp(acceptor) => acceptor.address(),
                BoundListener::Quic(quic) => Ok(quic.address()),
            })
            .collect()
    }

    /// Serves until the stop signal, then resets what is still open.
    pub fn run(mut self) -> Result<ServerReport, StationError> {
        if self.is_realtime {
            self.report.scheduling = Some(scheduling::make_realtime(STATION_PRIORITY));
        }
        while !self.stop.is_requested() {
            self.turn()?;
        }
        self.end();
        Ok(self.report)
    }

    /// Waits once and handles everything that is ready.
    fn turn(&mut self) -> Result<(), StationError> {
        let now = clock::now();
        let turns = std::mem::take(&mut self.pending_turns);
        let deadline = if turns.is_empty() {
            flush_access(&mut self.service.access);
            self.next_deadline()
        } else {
            Some(now)
        };
        let ready: Vec<ReadyEvent> = self.reactor.wait(now, deadline)?.to_vec();
        for ready in ready {
            match ready.token {
                STOP => {}
                token if token >= LISTENERS => self.serve_listener((token - LISTENERS) as usize)?,
                token => self.serve(token as u32, Some(ready)),
            }
        }
        for id in turns {
            self.serve(id, None);
        }
        self.serve_due()?;
        self.save_memory();
        if !self.is_realtime && self.quiet.turn(now) {
            allocator::return_freed_memory();
        }
        self.sweep(clock::now());
        self.sample();
        self.accept_waiting()
    }

    fn next_deadline(&self) -> Option<Time> {
        let due = |id: &u32| self.peers.get(id)?.next_due();
        let delayed = self.delayed.iter().filter_map(due).min();
        let quic = self.listeners.iter().filter_map(|listener| match listener {
            BoundListener::Tcp(..) => None,
            BoundListener::Quic(quic) => quic.deadline(),
        });
        [
            delayed,
            self.next_sample,
            self.next_sweep,
            self.accept_at,
            quic.min(),
        ]
        .into_iter()
        .flatten()
        .min()
    }

    /// Serves every peer and listener with a response or a timer that is due.
    fn serve_due(&mut self) -> Result<(), StationError> {
        if !self.delayed.is_empty() {
            let now = clock::now();
            let is_due = |id: &u32| {
                let due = self.peers.get(id)?.next_due();
                due.filter(|due| *due <= now)
            };
            let due: Vec<u32> = (self.delayed.iter().copied())
                .filter(|id| is_due(id).is_some())
                .collect();
            for id in due {
                self.serve(id, None);
            }
        }
        for index in 0..self.listeners.len() {
            if let BoundListener::Quic(quic) = &self.listeners[index]
                && quic.deadline().is_some_and(|due| due <= clock::now())
            {
                self.serve_listener(index)?;
            }
        }
        Ok(())
    }

    fn serve_listener(&mut self, index: usize) -> Result<(), StationError> {
        match &mut self.listeners[index] {
            BoundListener::Tcp(..) => self.accept(index),
            BoundListener::Quic(quic) => {
                quic.serve(&mut self.buffers, &mut self.service);
                Ok(())
            }
        }
    }

    fn accept(&mut self, index: usize) -> Result<(), StationError> {
        loop {
            let BoundListener::Tcp(acceptor) = &self.listeners[index] else {
                return Ok(());
            };
            let errors = &mut self.report.machine_errors;
            let tcp = match acceptor.accept(&mut self.next_peer, &self.side, self.wants, errors)? {
                Accepted::Connection(tcp) => tcp,
                Accepted::Nothing => return Ok(()),
                Accepted::Later => {
                    self.accept_at = Some(clock::now() + ACCEPT_PAUSE);
                    return Ok(());
                }
            };
            self.admit(tcp);
        }
    }

    /// Serves a connection that was accepted. One that the reactor cannot watch is closed: nothing would report that it
    /// is ready.
    fn admit(&mut self, tcp: TcpConnection) {
        let id = tcp.number;
        let token = u64::from(id);
        if let Err(error) = self.reactor.add(tcp.socket(), token) {
            accept::note_failed(&mut self.report.machine_errors, &error);
            return;
        }
        tcp.record_accepted(&mut self.service.log, &mut self.report.congestion_controls);
        let peer = Peer::new(tcp, self.wants);
        self.peers.insert(id, Box::new(peer));
        self.serve(id, Some(accept::first_event(token)));
    }

    /// Gives a connection a turn, because of what the kernel reports or because it wants one.
    fn serve(&mut self, id: u32, ready: Option<ReadyEvent>) {
        let Some(peer) = self.peers.get_mut(&id) else {
            return;
        };
        let outcome = peer.serve(ready, self.buffers.stream(), &mut self.service);
        peer.count_held(&mut self.service.memory);
        match outcome {
            TurnOutcome::Wait => {}
            TurnOutcome::Again => self.pending_turns.push(id),
            TurnOutcome::Gone => {
                peer.record_end(&mut self.service);
                self.forget(id);
                return;
            }
        }
        if peer.next_due().is_some() {
            self.delayed.insert(id);
        } else if !self.delayed.is_empty() {
            self.delayed.remove(&id);
        }
    }

    /// Closes a connection's socket.
    fn forget(&mut self, id: u32) {
        if let Some(mut peer) = self.peers.remove(&id) {
            peer.release_held(&mut self.service.memory);
            peer.close();
        }
        self.delayed.remove(&id);
        if self.accept_at.is_some() {
            self.accept_at = Some(clock::now());
        }
    }

    /// Closes the connections that hold the most, while all of them hold too much.
    fn save_memory(&mut self) {
        while self.service.memory.is_exceeded() {
            let tcp = (self.peers.iter()).max_by_key(|(_, peer)| peer.held_bytes());
            let tcp = tcp.map(|(id, peer)| (*id, peer.held_bytes()));
            let quic = self.listeners.iter_mut().filter_map(|listener| {
                let BoundListener::Quic(quic) = listener else {
                    return None;
                };
                let (connection, held_bytes) = quic.largest()?;
                Some((quic, connection, held_bytes))
            });
            let quic = quic.max_by_key(|(_, _, held_bytes)| *held_bytes);
            let largest_tcp = tcp.map_or(0, |(_, held_bytes)| held_bytes);
            match (quic, tcp) {
                (Some((quic, connection, held_bytes)), _) if held_bytes > largest_tcp => {
                    quic.give_up(connection, &mut self.service);
                }
                (_, Some((id, _))) => {
                    if let Some(peer) = self.peers.get_mut(&id) {
                        peer.record_end(&mut self.service);
                    }
                    self.forget(id);
                }
                _ => return,
            }
            let errors = &mut self.report.machine_errors;
            *errors.entry(memory::CLOSED.to_owned()).or_default() += 1;
        }
    }

    /// Ends requests whose heads take too long, and connections that have made no progress for too long.
    fn sweep(&mut self, now: Time) {
        let Some(timeout) = self.idle_timeout else {
            return;
        };
        if self.next_sweep.is_none_or(|due| due > now) {
            return;
        }
        self.next_sweep = Some(now + SWEEP_EVERY);
        let (mut idle, mut refused) = (Vec::new(), Vec::new());
        for (id, peer) in &mut self.peers {
            let is_slow = peer.has_slow_head(now);
            if is_slow && peer.time_out_head() {
                refused.push(*id);
            } else if is_slow || peer.is_idle(now, timeout) {
                peer.announce_close(&mut self.service);
                peer.record_end(&mut self.service);
                idle.push(*id);
            }
        }
        for listener in &mut self.listeners {
            if let BoundListener::Quic(quic) = listener {
                quic.sweep(now, timeout, &mut self.service);
            }
        }
        for id in idle {
            self.forget(id);
        }
        for id in refused {
            self.serve(id, None);
        }
    }

    /// Accepts what could not be accepted before, once it is time.
    fn accept_waiting(&mut self) -> Result<(), StationError> {
        if self.accept_at.is_none_or(|due| due > clock::now()) {
            return Ok(());
        }
        self.accept_at = None;
        for index in 0..self.listeners.len() {
            self.accept(index)?;
        }
        Ok(())
    }

    fn sample(&mut self) {
        let now = clock::now();
        if self.next_sample.is_none_or(|due| due > now) {
            return;
        }
        for peer in self.peers.values() {
            peer.tcp.sample(false, &mut self.service.log);
        }
        for listener in &self.listeners {
            if let BoundListener::Quic(quic) = listener {
                quic.sample(&mut self.service);
            }
        }
        self.next_sample = Some(now + self.sample_every);
    }

    fn end(&mut self) {
        for mut peer in std::mem::take(&mut self.peers).into_values() {
            peer.record_end(&mut self.service);
            peer.tcp.close_abruptly();
        }
        for listener in self.listeners.drain(..) {
            if let BoundListener::Quic(mut quic) = listener {
                quic.end(&mut self.service);
            }
        }
        self.service.log.flush();
        self.report.responses_written = self.service.responses_written;
        self.report.counts = std::mem::take(&mut self.service.log.counts);
        flush_access(&mut self.service.access);
    }
}
