//! The embedded proxy: ends any of the protocols towards its clients and speaks any of them to its upstreams, on one
//! thread.
//!
//! It keeps no bodies: what one side sends waits only for room on the other, and memory stays bounded because the sender
//! gets no new window, or is not read from, until it has left. Both sides are recorded, each in its own log. It caches
//! nothing, changes no content and makes no tunnels (CONNECT, `upgrade`). `100 (Continue)` is said at once to a client
//! that asks; other interim responses are passed on.
//!
//! Start at [`Proxy`]. `front` is the side of the clients, `back` that of the upstreams, `relay` passes from one to the
//! other, `ends` says how exchanges end, `hold` how responses are
//! delayed, `headers` what becomes of header sections.

mod access;
mod back;
mod canned;
mod ends;
mod exchange;
mod front;
mod headers;
mod hold;
mod relay;
mod settings;
#[cfg(test)]
mod tests;
mod turns;

use std::io;
use std::net::{SocketAddr, TcpListener};

use squall_base::plan::{Protocol, SideSettings};
use squall_base::record::Side;
use squall_base::{Duration, Time};
use squall_http::{ClientEvent, Inbox, Interim, ServerEvent};
use squall_linux::reactor::{Reactor, Ready};
use squall_linux::stop::StopSignal;
use squall_linux::{clock, scheduling, socket};
use squall_load::ConnectionId;

use crate::client::Target;
use crate::client::transport::Dial;
use crate::error::StationError;
use crate::log::Log;
use crate::server::{Access, Speaks, Spoken, accept_failed, is_out_of_files};
use crate::{Buffers, CONNECT_AT_MOST, STATION_PRIORITY};
use back::{At, Backs};
use canned::Canned;
use exchange::Exchanges;
use front::{Fronts, QuicFront, TcpFront};
use headers::Ids;
use hold::Holds;
pub use settings::{Balance, Failure, ProxyReport, ProxySettings, Timeouts};

/// The reactor's token of the signal to stop.
const STOP: u64 = u64::MAX - 2;
/// Tokens of listeners, of clients' connections and of those to upstreams are told apart by their highest bits.
const KIND_SHIFT: u32 = 60;
const LISTENERS: u64 = 1;
const CLIENTS: u64 = 2;
const UPSTREAMS: u64 = 3;

/// How often timeouts are looked at.
const SWEEP_EVERY: Duration = Duration::from_millis(100);

/// A proxy that listens already.
pub struct Proxy {
    core: Core,
    reactor: Reactor,
    stop: StopSignal,
    listeners: Vec<Bound>,
    is_realtime: bool,
    sample_every: Duration,
    next_sample: Option<Time>,
    next_sweep: Option<Time>,
    /// A listener could not accept because files ran out: try again when one is closed.
    is_full: bool,
}

/// A listener that listens.
enum Bound {
    Tcp(TcpListener, Speaks),
    /// By its place among those of the clients' side.
    Quic(u32),
}

/// What a connection to an upstream is begun with.
struct Dialled {
    upstreams: Vec<Target>,
    protocol: Protocol,
    side: SideSettings,
    /// What a request is for that does not say so.
    authority: String,
}

/// Both sides, and what is between them.
struct Core {
    fronts: Fronts,
    backs: Backs,
    exchanges: Exchanges,
    dialled: Dialled,
    front_side: SideSettings,
    timeouts: Timeouts,
    holds: Holds,
    ids: Ids,
    canned: Canned,
    /// 100 (Continue).
    go_on: Interim,
    access: Option<Access>,
    report: ProxyReport,
    buffers: Buffers,
    front_inbox: Inbox<ServerEvent>,
    back_inbox: Inbox<ClientEvent>,
    hungry_listeners: Vec<u32>,
    /// A socket was closed: there is a file for another one.
    has_closed: bool,
    /// When this turn began.
    now: Time,
}

impl Proxy {
    /// Listens, in the network namespace of the calling thread. From now on clients can connect; they are answered when
    /// `run` is called.
    ///
    /// # Panics
    /// If there are no upstreams.
    pub fn listen(settings: ProxySettings, stop: StopSignal) -> Result<Proxy, StationError> {
        assert!(!settings.upstreams.is_empty(), "a proxy has an upstream");
        let reactor = Reactor::new()?;
        reactor.add(&stop, STOP)?;
        let front_log = Log::new(Side::Server, settings.front_log);
        let back_log = Log::new(Side::Client, settings.back_log);
        let samples = front_log.wants_sockets() || back_log.wants_sockets();
        let front_wants = TcpFront::wants(&front_log);
        let backs = Backs::new(
            back_log,
            settings.upstreams.len(),
            settings.protocol,
            (settings.connections, settings.pool),
            settings.balance,
            settings.seed,
        );
        let now = clock::now();
        let Timeouts {
            connect,
            answer,
            idle,
        } = settings.timeouts;
        let sweeps = [connect, answer, idle].iter().any(Option::is_some);
        let mut proxy = Proxy {
            core: Core {
                fronts: Fronts::new(front_log),
                exchanges: Exchanges::default(),
                dialled: Dialled {
                    authority: authority(&settings.upstreams[0]),
                    upstreams: settings.upstreams,
                    protocol: settings.protocol,
                    side: settings.back,
                },
                front_side: settings.front,
                timeouts: settings.timeouts,
                holds: Holds::new(settings.delay),
                ids: Ids::new(settings.seed),
                canned: Canned::new(),
                go_on: canned::go_on(),
                access: settings.access,
                report: ProxyReport::default(),
                buffers: Buffers::new(),
                front_inbox: Inbox::new(front_wants),
                back_inbox: Inbox::new(backs.wants),
                backs,
                hungry_listeners: Vec::new(),
                has_closed: false,
                now,
            },
            reactor,
            stop,
            listeners: Vec::new(),
            is_realtime: settings.is_realtime,
            sample_every: settings.sample_every,
            next_sample: samples.then(|| now + settings.sample_every),
            next_sweep: sweeps.then(|| now + SWEEP_EVERY),
            is_full: false,
        };
        for (index, listener) in settings.listeners.into_iter().enumerate() {
            proxy.bind(index, listener.address, listener.speaks, settings.seed)?;
        }
        Ok(proxy)
    }

    fn bind(
        &mut self,
        index: usize,
        address: SocketAddr,
        speaks: Spoken,
        seed: u64,
    ) -> Result<(), StationError> {
        let token = LISTENERS << KIND_SHIFT | index as u64;
        let side = &self.core.front_side;
        let speaks = match speaks {
            Spoken::Plain(version) => Speaks::Plain(version),
            Spoken::Secure(context) => Speaks::Secure(context),
            Spoken::Quic(identity) => {
                let wants = self.core.front_inbox.wants();
                let seed = seed.wrapping_add(index as u64);
                let quic = QuicFront::bind(address, &identity, side, seed, wants)?;
                quic.watch(&self.reactor, token)?;
                let fronts = &mut self.core.fronts.quic;
                self.listeners.push(Bound::Quic(fronts.len() as u32));
                fronts.push(Some(Box::new(quic)));
                return Ok(());
            }
        };
        let listener = socket::start_listening(address, &side.tcp)?;
        self.reactor.add(&listener, token)?;
        self.listeners.push(Bound::Tcp(listener, speaks));
        Ok(())
    }

    /// Where its listeners really listen, in the order of the settings.
    pub fn addresses(&self) -> io::Result<Vec<SocketAddr>> {
        let of = |listener: &Bound| match listener {
            Bound::Tcp(listener, _) => listener.local_addr(),
            Bound::Quic(place) => {
                let quic = self.core.fronts.quic[*place as usize].as_ref();
                quic.map(|quic| quic.local_address())
                    .ok_or_else(|| io::Error::other("the listener is gone"))
            }
        };
        self.listeners.iter().map(of).collect()
    }

    /// Passes requests on until the stop signal, then resets what is still open.
    pub fn run(self) -> Result<ProxyReport, StationError> {
        self.run_and_tell(|| {})
    }

    /// [`Proxy::run`], which calls `on_open` once each connection that the pool opens in advance is open or has failed, or
    /// after 15 s. It serves requests before that, too.
    pub fn run_and_tell(mut self, on_open: impl FnOnce()) -> Result<ProxyReport, StationError> {
        if self.is_realtime {
            self.core.report.scheduling = Some(scheduling::make_realtime(STATION_PRIORITY));
        }
        self.open_in_advance()?;
        let give_up = clock::now() + CONNECT_AT_MOST;
        while self.core.backs.is_opening() && clock::now() < give_up && !self.stop.is_requested() {
            self.turn(Some(give_up))?;
        }
        on_open();
        while !self.stop.is_requested() {
            self.turn(None)?;
        }
        Ok(self.core.end())
    }

    /// Opens the connections to upstreams that the policy wants in advance.
    fn open_in_advance(&mut self) -> Result<(), StationError> {
        for lane in 0..self.core.backs.lanes.len() as u32 {
            let of = &mut self.core.backs.lanes[lane as usize];
            for connection in of.pool.open_in_advance() {
                self.core
                    .open_back(At { lane, connection }, None, &self.reactor)?;
            }
        }
        self.core.settle_all(&self.reactor)
    }

    /// Waits once, until `wake` at the latest, and deals with everything that is ready. What is to be said is said at the
    /// end, each connection's at once.
    fn turn(&mut self, wake: Option<Time>) -> Result<(), StationError> {
        let now = clock::now();
        let deadline = if self.core.is_hungry() {
            Some(now)
        } else {
            self.core.flush_access();
            self.next_deadline().into_iter().chain(wake).min()
        };
        let ready: Vec<Ready> = self.reactor.wait(now, deadline)?.to_vec();
        self.core.now = clock::now();
        let hungry = self.core.take_hungry();
        for ready in ready {
            self.on_ready(ready)?;
        }
        self.core.feed(hungry);
        self.core.on_time();
        self.core.release_held();
        self.core.settle_all(&self.reactor)?;
        if self.next_sweep.is_some_and(|due| due <= self.core.now) {
            self.core.sweep();
            self.core.settle_all(&self.reactor)?;
            self.next_sweep = Some(self.core.now + SWEEP_EVERY);
        }
        if self.next_sample.is_some_and(|due| due <= self.core.now) {
            self.core.sample();
            self.next_sample = Some(self.core.now + self.sample_every);
        }
        if std::mem::take(&mut self.core.has_closed) && std::mem::take(&mut self.is_full) {
            for index in 0..self.listeners.len() {
                self.accept(index)?;
            }
        }
        Ok(())
    }

    fn next_deadline(&self) -> Option<Time> {
        [self.core.deadline(), self.next_sample, self.next_sweep]
            .into_iter()
            .flatten()
            .min()
    }

    fn on_ready(&mut self, ready: Ready) -> Result<(), StationError> {
        let place = ready.token & ((1 << KIND_SHIFT) - 1);
        match ready.token >> KIND_SHIFT {
            LISTENERS => match self.listeners.get(place as usize) {
                Some(Bound::Quic(listener)) => self.core.read_quic(*listener),
                Some(Bound::Tcp(..)) => self.accept(place as usize)?,
                None => {}
            },
            CLIENTS => self.core.ready_front(place as u32, ready),
            UPSTREAMS => {
                let at = At {
                    lane: (place >> 32) as u32,
                    connection: ConnectionId(place as u32),
                };
                self.core.ready_back(at, ready);
            }
            _ => {}
        }
        Ok(())
    }

    fn accept(&mut self, index: usize) -> Result<(), StationError> {
        loop {
            let Some(Bound::Tcp(listener, speaks)) = self.listeners.get(index) else {
                return Ok(());
            };
            let stream = match socket::accept(listener) {
                Ok(Some(stream)) => stream,
                Ok(None) => return Ok(()),
                // A connection that died in the queue is the client's matter (accept(2), ECONNABORTED).
                Err(error) if error.kind() == io::ErrorKind::ConnectionAborted => continue,
                Err(error) if is_out_of_files(&error) => {
                    self.is_full = true;
                    return Ok(());
                }
                Err(error) => return Err(accept_failed(listener, error)),
            };
            let Ok(address) = stream.peer_addr() else {
                continue;
            };
            let fronts = &mut self.core.fronts;
            fronts.log.counts.tcp_connections += 1;
            let report = &mut self.core.report;
            report
                .front_congestion_controls
                .extend(socket::congestion_control(&stream).ok());
            let number = fronts.accepted;
            fronts.accepted = number.wrapping_add(1);
            let front = TcpFront::new(number, (stream, address), speaks, &self.core.front_side)?;
            let id = fronts.next_place();
            let token = CLIENTS << KIND_SHIFT | u64::from(id);
            self.reactor.add(front.socket(), token)?;
            fronts.tcp[id as usize] = Some(Box::new(front));
            let ready = Ready {
                token,
                readable: true,
                writable: true,
                ended: false,
            };
            self.core.ready_front(id, ready);
        }
    }
}

impl Dialled {
    /// How a connection to this upstream begins.
    fn dial(&self, lane: u32) -> Dial<'_> {
        Dial {
            target: &self.upstreams[lane as usize],
            protocol: self.protocol,
            asks_for_http2: false,
            side: &self.side,
        }
    }
}

/// What an upstream is called in requests that do not say whom they are for.
fn authority(upstream: &Target) -> String {
    let port = upstream.address.port();
    match upstream.server_name.contains(':') {
        true => format!("[{}]:{port}", upstream.server_name),
        false => format!("{}:{port}", upstream.server_name),
    }
}
