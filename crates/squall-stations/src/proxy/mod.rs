//! The embedded proxy: accepts any of the protocols from its clients and speaks any of them to its upstreams, on one
//! thread.
//!
//! It stores no bodies: data from one side waits only for room on the other. Memory stays bounded because the sender
//! gets no new window, or is not read from, until its data has left. Both sides are recorded, each in its own log. The
//! proxy caches nothing, changes no content and makes no tunnels (CONNECT, `upgrade`). It sends `100 (Continue)`
//! immediately to a client that asks; other interim responses are passed on.
//!
//! Start at [`Proxy`]. `front` is the client side, `back` the upstream side. `connections` reads and writes both, `relay`
//! passes messages from one to the other, `queue` decides which request gets the next connection, `ends` handles the ends of
//! exchanges, `saving` gives up what holds too much, `pace` what is too slow, `hold` delays responses, `headers` rewrites
//! header sections.

mod access;
mod back;
mod canned;
mod connections;
mod ends;
mod event_batch;
mod exchange;
mod front;
mod headers;
mod hold;
mod keys;
mod pace;
mod queue;
mod relay;
mod saving;
mod settings;
#[cfg(test)]
mod tests;
mod upload_pace;

use std::io;
use std::net::SocketAddr;

use squall_base::plan::{Protocol, SideSettings};
use squall_base::record::Side;
use squall_base::{Duration, Time};
use squall_http::{ClientEvent, Inbox, ServerEvent};
use squall_linux::reactor::{Reactor, ReadyEvent};
use squall_linux::stop::StopSignal;
use squall_linux::{allocator, clock, scheduling};

use crate::accept::{self, ACCEPT_PAUSE, Accepted, Bound, Listener, TcpAcceptor, TcpConnection};
use crate::dial::{Dial, Target};
use crate::error::StationError;
use crate::log::StationLog;
use crate::quiet::QuietPeriods;
use crate::server::flush_access;
use crate::{Buffers, CONNECT_AT_MOST, STATION_PRIORITY};
use back::Backs;
use canned::Canned;
use exchange::ProxyExchanges;
use front::{Fronts, QuicFront, TcpFront};
use headers::IdGenerator;
use hold::HeldResponses;
use keys::BackKey;
use relay::Relay;
pub use settings::{Balance, Failure, MinUploadRate, ProxyReport, ProxySettings, Timeouts};

/// The reactor's token for the stop signal.
const STOP: u64 = u64::MAX - 2;
/// The highest bits of a token distinguish listeners, client connections and upstream connections.
const KIND_SHIFT: u32 = 60;
const LISTENERS: u64 = 1;
const CLIENTS: u64 = 2;
const UPSTREAMS: u64 = 3;

/// How often timeouts are checked.
const SWEEP_EVERY: Duration = Duration::from_millis(100);

/// A proxy that is already listening.
pub struct Proxy {
    connections: Connections,
    reactor: Reactor,
    stop: StopSignal,
    listeners: Vec<BoundListener>,
    is_realtime: bool,
    sample_every: Duration,
    next_sample: Option<Time>,
    next_sweep: Option<Time>,
    quiet: QuietPeriods,
    /// When all listeners try again after one could not accept. They do so earlier if a socket is closed.
    accept_at: Option<Time>,
}

/// A listener that is bound.
enum BoundListener {
    Tcp(TcpAcceptor),
    /// By its index on the client side.
    Quic(u32),
}

/// What it takes to open a connection to an upstream.
struct UpstreamSettings {
    upstreams: Vec<Target>,
    protocol: Protocol,
    side: SideSettings,
}

/// The proxy's I/O: reads, writes, opens and closes the connections of both sides. Its methods are in `connections`.
struct Connections {
    relay: Relay,
    upstreams: UpstreamSettings,
    front_side: SideSettings,
    timeouts: Timeouts,
    min_upload_rate: Option<MinUploadRate>,
    buffers: Buffers,
    front_inbox: Inbox<ServerEvent>,
    back_inbox: Inbox<ClientEvent>,
    pending_listeners: Vec<u32>,
    /// A socket was closed, so there is a file descriptor for another.
    has_closed: bool,
}

impl Proxy {
    /// Listens, in the network namespace of the calling thread. Clients can connect from now on; `run` serves them.
    ///
    /// # Panics
    /// If there are no upstreams.
    pub fn listen(settings: ProxySettings, stop: StopSignal) -> Result<Proxy, StationError> {
        assert!(!settings.upstreams.is_empty(), "a proxy has an upstream");
        let reactor = Reactor::new()?;
        reactor.add(&stop, STOP)?;
        let pools = back::pools_of(&settings);
        let front_log = StationLog::new(Side::Server, settings.front_log);
        let back_log = StationLog::new(Side::Client, settings.back_log);
        let samples = front_log.wants_sockets() || back_log.wants_sockets();
        let front_wants = TcpFront::wants(&front_log);
        let backs = Backs::new(
            back_log,
            pools,
            settings.protocol,
            settings.balance,
            settings.pool.streams_at_most,
        );
        let now = clock::now();
        let Timeouts {
            connect,
            answer,
            idle,
        } = settings.timeouts;
        let sweeps = [connect, answer, idle].iter().any(Option::is_some)
            || settings.min_upload_rate.is_some();
        let mut proxy = Proxy {
            connections: Connections {
                front_inbox: Inbox::new(front_wants),
                back_inbox: Inbox::new(backs.wants),
                relay: Relay {
                    fronts: Fronts::new(front_log),
                    backs,
                    exchanges: ProxyExchanges::default(),
                    holds: HeldResponses::new(settings.delay),
                    upstream_protocol: settings.protocol,
                    authority: authority(&settings.upstreams[0]),
                    ids: IdGenerator::new(settings.seed),
                    canned: Canned::new(),
                    access: settings.access,
                    report: ProxyReport::default(),
                    now,
                },
                upstreams: UpstreamSettings {
                    upstreams: settings.upstreams,
                    protocol: settings.protocol,
                    side: settings.back,
                },
                front_side: settings.front,
                timeouts: settings.timeouts,
                min_upload_rate: settings.min_upload_rate,
                buffers: Buffers::new(),
                pending_listeners: Vec::new(),
                has_closed: false,
            },
            reactor,
            stop,
            listeners: Vec::new(),
            is_realtime: settings.is_realtime,
            sample_every: settings.sample_every,
            next_sample: samples.then(|| now + settings.sample_every),
            next_sweep: sweeps.then(|| now + SWEEP_EVERY),
            quiet: QuietPeriods::default(),
            accept_at: None,
        };
        for (index, listener) in (0..).zip(settings.listeners) {
            proxy.bind(index, listener, settings.seed.wrapping_add(index))?;
        }
        Ok(proxy)
    }

    fn bind(&mut self, index: u64, listener: Listener, seed: u64) -> Result<(), StationError> {
        let token = LISTENERS << KIND_SHIFT | index;
        let wants = self.connections.front_inbox.wants();
        let side = &self.connections.front_side;
        let bound = match listener.bind(side, wants, seed, &self.reactor, token)? {
            Bound::Tcp(acceptor) => BoundListener::Tcp(acceptor),
            Bound::Quic(endpoint) => {
                let fronts = &mut self.connections.relay.fronts.quic;
                fronts.push(QuicFront::new(*endpoint));
                BoundListener::Quic(fronts.len() as u32 - 1)
            }
        };
        self.listeners.push(bound);
        Ok(())
    }

    /// The addresses its listeners are bound to, in the order of the settings.
    pub fn addresses(&self) -> io::Result<Vec<SocketAddr>> {
        let address_of = |listener: &BoundListener| match listener {
            BoundListener::Tcp(acceptor) => acceptor.address(),
            BoundListener::Quic(place) => {
                Ok(self.connections.relay.fronts.quic[*place as usize].local_address())
            }
        };
        self.listeners.iter().map(address_of).collect()
    }

    /// Passes requests on until the stop signal, then resets what is still open.
    pub fn run(self) -> Result<ProxyReport, StationError> {
        self.run_notifying(|| {})
    }

    /// [`Proxy::run`], but calls `on_open` once each connection that the pool opens in advance is open or has failed,
    /// or after 15 s. Requests are served before that, too.
    pub fn run_notifying(mut self, on_open: impl FnOnce()) -> Result<ProxyReport, StationError> {
        if self.is_realtime {
            self.connections.relay.report.scheduling =
                Some(scheduling::make_realtime(STATION_PRIORITY));
        }
        self.open_in_advance()?;
        let give_up = clock::now() + CONNECT_AT_MOST;
        while self.connections.relay.backs.is_opening()
            && clock::now() < give_up
            && !self.stop.is_requested()
        {
            self.turn(Some(give_up))?;
        }
        on_open();
        while !self.stop.is_requested() {
            self.turn(None)?;
        }
        Ok(self.connections.end())
    }

    /// Opens the connections to upstreams that the policy wants in advance.
    fn open_in_advance(&mut self) -> Result<(), StationError> {
        for upstream in 0..self.connections.relay.backs.pools.len() as u32 {
            let policy = &mut self.connections.relay.backs.pools.get_mut(upstream).policy;
            for connection in policy.open_in_advance() {
                let at = BackKey {
                    pool: upstream,
                    connection,
                };
                self.connections.open_back(at, None, &self.reactor)?;
            }
        }
        self.connections.settle_all(&self.reactor)
    }

    /// Waits once, until `wake` at the latest, and handles everything that is ready. Writes happen at the end, all data
    /// of a connection together.
    fn turn(&mut self, wake: Option<Time>) -> Result<(), StationError> {
        let now = clock::now();
        let deadline = if self.connections.has_pending_reads() {
            Some(now)
        } else {
            flush_access(&mut self.connections.relay.access);
            self.next_deadline().into_iter().chain(wake).min()
        };
        let ready: Vec<ReadyEvent> = self.reactor.wait(now, deadline)?.to_vec();
        self.connections.relay.now = clock::now();
        let pending = self.connections.take_pending_reads();
        for ready in ready {
            self.on_ready(ready)?;
        }
        self.connections.resume_reads(pending);
        self.connections.run_timers();
        self.connections.relay.release_held();
        self.connections.settle_all(&self.reactor)?;
        if self.connections.save_memory() {
            self.connections.settle_all(&self.reactor)?;
        }
        if self
            .next_sweep
            .is_some_and(|due| due <= self.connections.relay.now)
        {
            self.connections.sweep();
            self.connections.end_slow_uploads();
            self.connections.settle_all(&self.reactor)?;
            self.next_sweep = Some(self.connections.relay.now + SWEEP_EVERY);
        }
        if self
            .next_sample
            .is_some_and(|due| due <= self.connections.relay.now)
        {
            self.connections.sample();
            self.next_sample = Some(self.connections.relay.now + self.sample_every);
        }
        if !self.is_realtime && self.quiet.turn(now) {
            allocator::return_freed_memory();
        }
        self.accept_waiting()
    }

    /// Accepts what could not be accepted before, once it is time or there is a file descriptor again.
    fn accept_waiting(&mut self) -> Result<(), StationError> {
        let has_closed = std::mem::take(&mut self.connections.has_closed);
        if (self.accept_at).is_none_or(|due| !has_closed && due > clock::now()) {
            return Ok(());
        }
        self.accept_at = None;
        for index in 0..self.listeners.len() {
            self.accept(index)?;
        }
        self.connections.settle_all(&self.reactor)
    }

    fn next_deadline(&self) -> Option<Time> {
        [
            self.connections.deadline(),
            self.next_sample,
            self.next_sweep,
            self.accept_at,
        ]
        .into_iter()
        .flatten()
        .min()
    }

    fn on_ready(&mut self, ready: ReadyEvent) -> Result<(), StationError> {
        let place = ready.token & ((1 << KIND_SHIFT) - 1);
        match ready.token >> KIND_SHIFT {
            LISTENERS => match self.listeners.get(place as usize) {
                Some(BoundListener::Quic(listener)) => self.connections.read_quic(*listener),
                Some(BoundListener::Tcp(..)) => self.accept(place as usize)?,
                None => {}
            },
            CLIENTS => self.connections.ready_front(place as u32, ready),
            UPSTREAMS => {
                self.connections.ready_back(BackKey::of_token(place), ready);
            }
            _ => {}
        }
        Ok(())
    }

    fn accept(&mut self, index: usize) -> Result<(), StationError> {
        loop {
            let Some(BoundListener::Tcp(acceptor)) = self.listeners.get(index) else {
                return Ok(());
            };
            let fronts = &mut self.connections.relay.fronts;
            let wants = self.connections.front_inbox.wants();
            let side = &self.connections.front_side;
            let report = &mut self.connections.relay.report;
            let errors = &mut report.machine_errors;
            let accepted = acceptor.accept(&mut fronts.accepted, side, wants, errors)?;
            let tcp = match accepted {
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
        let Relay { fronts, report, .. } = &mut self.connections.relay;
        tcp.record_accepted(&mut fronts.log, &mut report.front_congestion_controls);
        let id = fronts.next_place();
        let token = CLIENTS << KIND_SHIFT | u64::from(id);
        let watched = self.reactor.add(tcp.socket(), token);
        fronts.tcp[id as usize] = Some(Box::new(TcpFront::new(tcp)));
        if let Err(error) = watched {
            accept::note_failed(&mut report.machine_errors, &error);
            fronts.remove(id);
            return;
        }
        self.connections.ready_front(id, accept::first_event(token));
    }
}

impl UpstreamSettings {
    /// How to open a connection to this upstream.
    fn dial(&self, upstream: u32) -> Dial<'_> {
        Dial {
            target: &self.upstreams[upstream as usize],
            protocol: self.protocol,
            asks_for_http2: false,
            side: &self.side,
        }
    }
}

/// The authority for requests to this upstream that name none.
fn authority(upstream: &Target) -> String {
    let port = upstream.address.port();
    if upstream.server_name.contains(':') {
        format!("[{}]:{port}", upstream.server_name)
    } else {
        format!("{}:{port}", upstream.server_name)
    }
}
