//! The driver of a link: one thread that holds both TUN devices, reads, asks squall-link, and writes.
//!
//! One thread for both directions, because two readers reorder. It sleeps on an absolute timer until
//! shortly before the next release and spins for the rest; packets that arrive meanwhile are read. All
//! decisions are squall-link's; this file owns the turns and the time of arrival. What a device hands over at a
//! time, and when a packet was really written, is `port`'s.

use std::io;
use std::sync::mpsc::Sender;
use std::sync::{Arc, OnceLock};
use std::thread::{self, JoinHandle};

use squall_base::record::{Direction, PacketRecord};
use squall_base::{Duration, Time};
use squall_link::{Departure, Link, LinkSettings};

use crate::clock;
use crate::error::SetupError;
use crate::port::Port;
use crate::reactor::Reactor;
use crate::scheduling::{self, Scheduling};
use crate::spans::Spans;
use crate::stop::StopSignal;
use crate::tun::Tun;

/// Above the stations' priority, if they have any; low among real-time threads.
pub const PRIORITY: i32 = 2;
/// How long before a release the thread stops sleeping: a timer wakes a sleeping thread some 5 to 50 us
/// late, and measured lateness falls from 21 us to 4 us (p99) with it.
const SPIN: Duration = Duration::from_micros(50);
/// Packets read from one device before the other one and the releases have their turn.
const READS_A_TURN: usize = 64;
/// Records handed on at once.
const RECORDS_A_CHUNK: usize = 1024;
/// A thread that always spins would run into the kernel's guard against runaway real-time threads, which
/// stops it for 50 ms (sched_rt_runtime_us). After so long without sleep, it sleeps until the release.
const SPIN_WITHOUT_SLEEP_AT_MOST: Duration = Duration::from_millis(2);
/// How often the thread wakes up only to see how late it does. An arriving packet wakes it likewise, but
/// when that packet came, only its own reading of the clock can tell: this bounds the error.
const HEARTBEAT: Duration = Duration::from_millis(1);
/// How long after the request to stop the link waits at most for the hosts to fall silent, besides a round
/// trip. Sockets are reset then, so nothing is sent again.
const SILENCE_AT_MOST: Duration = Duration::from_secs(3);
const WAKE: u64 = 2;

/// The two devices of a link, each in its host.
#[derive(Debug)]
pub struct Ends {
    /// The client's host's.
    pub client: Tun,
    /// The server's host's.
    pub server: Tun,
}

/// How often one direction's packets crossed the devices: as often as there are packets, or less often if there are
/// offloads. This is what the kernel's counters of the devices count.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Crossings {
    /// Out of the sending host.
    pub read: u64,
    /// Into the receiving host.
    pub written: u64,
}

/// What the thread says of itself when it has ended.
#[derive(Debug)]
pub struct LinkReport {
    /// How it was scheduled.
    pub scheduling: Scheduling,
    /// How long before a release it span; zero on a single processor.
    pub spin: Duration,
    /// How late it woke up for its heartbeat, and so at most for packets.
    pub wakeups: Spans,
    /// Processor time that the thread has had.
    pub processor_time: Duration,
    /// How much later than it was told the link began: its thread heard of it too late.
    pub began_late: Duration,
    /// Whether both hosts had fallen silent when it stopped, so that the kernel's counters are final.
    pub silent: bool,
    /// How often packets crossed the devices, by direction.
    pub crossings: [Crossings; 2],
    /// The devices, still open: closing them takes their counters away.
    pub ends: Ends,
}

/// A packet whose fate is final, with its bytes as they entered the link or, if it was altered, as they left it.
#[derive(Clone, Debug)]
pub struct SeenPacket {
    /// Its record.
    pub record: PacketRecord,
    /// The IP packet.
    pub bytes: Vec<u8>,
}

/// Where a link's records go, in chunks, with times of CLOCK_MONOTONIC. The channels are unbounded, because a
/// link that waits for a disk is no link.
#[derive(Clone, Debug)]
pub struct Sinks {
    /// A record for each packet.
    pub records: Sender<Vec<PacketRecord>>,
    /// The packets themselves, if somebody wants them: it costs a copy of each.
    pub packets: Option<Sender<Vec<SeenPacket>>>,
}

/// When a link begins: the time from which its schedule, blackouts, weather and traces count. To be said once, ahead of
/// that time by a few milliseconds, for the link's thread to hear of it.
#[derive(Clone, Debug, Default)]
pub struct LinkBeginning(Arc<OnceLock<Time>>);

impl LinkBeginning {
    /// It is this.
    pub fn set(&self, at: Time) {
        // Said once; a second time has nothing new.
        let _ = self.0.set(at);
    }

    /// It, once it was said.
    pub fn get(&self) -> Option<Time> {
        self.0.get().copied()
    }
}

/// A running link.
#[derive(Debug)]
pub struct LinkThread {
    handle: JoinHandle<Result<LinkReport, SetupError>>,
    stop: StopSignal,
}

impl LinkThread {
    /// Starts a link over `ends`; the times of its settings count from now. If the thread fails, it says so through
    /// `failed` at once; why, `stop` tells.
    pub fn start(
        settings: &LinkSettings,
        ends: Ends,
        sinks: Sinks,
        failed: StopSignal,
    ) -> Result<LinkThread, SetupError> {
        let link = Link::new(settings, clock::now());
        LinkThread::launch(link, settings.round_trip(), ends, sinks, (failed, None))
    }

    /// As `start`, but the times of its settings count from `beginning` (see `squall_link::Link::waiting`).
    pub fn start_waiting(
        settings: &LinkSettings,
        ends: Ends,
        sinks: Sinks,
        failed: StopSignal,
        beginning: LinkBeginning,
    ) -> Result<LinkThread, SetupError> {
        let link = Link::waiting(settings, clock::now());
        let heard = (failed, Some(beginning));
        LinkThread::launch(link, settings.round_trip(), ends, sinks, heard)
    }

    fn launch(
        link: Link,
        round_trip: Duration,
        ends: Ends,
        sinks: Sinks,
        (failed, beginning): (StopSignal, Option<LinkBeginning>),
    ) -> Result<LinkThread, SetupError> {
        let stop = StopSignal::new()?;
        let reactor = Reactor::new()?;
        reactor.add(&ends.client, Direction::Up as u64)?;
        reactor.add(&ends.server, Direction::Down as u64)?;
        reactor.add(&stop, WAKE)?;
        let driver = Driver {
            beginning,
            silence: round_trip + Duration::from_millis(50),
            ..Driver::new(link, ends, sinks, reactor, stop.clone())
        };
        let handle = thread::Builder::new()
            .name("squall-link".to_owned())
            .spawn(move || failed.guard(|| driver.run()))
            .map_err(|source| SetupError::System {
                action: "start the link's thread",
                source,
            })?;
        Ok(LinkThread { handle, stop })
    }

    /// Waits until both hosts have been silent for a round trip and a bit (a few seconds at most), ends the
    /// thread, and returns its report.
    pub fn stop(self) -> Result<LinkReport, SetupError> {
        self.stop.request()?;
        match self.handle.join() {
            Ok(report) => report,
            Err(panic) => std::panic::resume_unwind(panic),
        }
    }
}

struct Driver {
    link: Link,
    /// Until the link was told when it begins.
    beginning: Option<LinkBeginning>,
    began_late: Duration,
    /// The devices, by the direction in which their hosts send.
    ports: [Port; 2],
    sinks: Sinks,
    records: Vec<PacketRecord>,
    packets: Vec<SeenPacket>,
    reactor: Reactor,
    stop: StopSignal,
    /// When the stop was first seen.
    stopping_since: Option<Time>,
    last_packet: Time,
    /// Silence of this length means that nothing of a conversation is still under way.
    silence: Duration,
    spin: Duration,
    last_sleep: Time,
    next_heartbeat: Time,
    wakeups: Spans,
    /// Packets just read.
    arrived: Vec<Vec<u8>>,
    /// Packets whose fate is final, to be logged.
    ended: Vec<Departure>,
    /// Memory of packets that are gone, for others.
    buffers: Vec<Vec<u8>>,
    /// Whether a device may have packets to read, by direction of sending.
    readable: [bool; 2],
}

impl Driver {
    fn new(link: Link, ends: Ends, sinks: Sinks, reactor: Reactor, stop: StopSignal) -> Driver {
        let now = clock::now();
        Driver {
            link,
            beginning: None,
            began_late: Duration::ZERO,
            ports: [ends.client, ends.server].map(Port::new),
            sinks,
            records: Vec::with_capacity(RECORDS_A_CHUNK),
            packets: Vec::new(),
            reactor,
            stop,
            stopping_since: None,
            last_packet: now,
            silence: Duration::ZERO,
            spin: if scheduling::processors() > 1 {
                SPIN
            } else {
                Duration::ZERO
            },
            last_sleep: now,
            next_heartbeat: now + HEARTBEAT,
            wakeups: Spans::new(),
            arrived: Vec::new(),
            ended: Vec::new(),
            buffers: Vec::new(),
            readable: [true; 2],
        }
    }

    fn run(mut self) -> Result<LinkReport, SetupError> {
        let scheduling = scheduling::make_realtime(PRIORITY);
        let silent = loop {
            self.beat();
            self.hear_of_beginning();
            self.release_due();
            for direction in Direction::ALL {
                self.read_turn(direction)?;
            }
            if let Some(silent) = self.stopped() {
                break silent;
            }
            self.wait()?;
        };
        for departure in self.link.abandon() {
            self.end(departure);
        }
        self.hand_on();
        let crossings = Direction::ALL.map(|direction| Crossings {
            read: self.ports[direction as usize].reads(),
            written: self.ports[direction.opposite() as usize].writes(),
        });
        let [client, server] = self.ports.map(Port::into_device);
        Ok(LinkReport {
            scheduling,
            spin: self.spin,
            wakeups: self.wakeups,
            processor_time: clock::processor_time_of_thread(),
            began_late: self.began_late,
            silent,
            crossings,
            ends: Ends { client, server },
        })
    }

    /// Counts how late each heartbeat is that has come by now; a long stall counts for each that it held up.
    fn beat(&mut self) {
        let now = clock::now();
        while self.next_heartbeat <= now {
            self.wakeups.add(now.since(self.next_heartbeat));
            self.next_heartbeat += HEARTBEAT;
        }
    }

    /// Tells the link when it begins, once that was said.
    fn hear_of_beginning(&mut self) {
        if let Some(at) = self.beginning.as_ref().and_then(LinkBeginning::get) {
            let begins = at.max(clock::now());
            self.link.begin(begins);
            self.began_late = begins.since(at);
            self.beginning = None;
        }
    }

    /// Writes every packet that is due, and logs those that the link dropped.
    fn release_due(&mut self) {
        let mut now = clock::now();
        while let Some(departure) = self.link.take(now) {
            if departure.is_release() {
                let receiver = departure.record.direction.opposite();
                self.ports[receiver as usize].write(departure, &mut self.ended);
                self.end_written();
                now = now.max(self.last_packet);
            } else {
                self.end(departure);
            }
        }
        for port in &mut self.ports {
            port.write_held(&mut self.ended);
        }
        self.end_written();
    }

    /// Logs the packets that have just been written.
    fn end_written(&mut self) {
        let mut ended = std::mem::take(&mut self.ended);
        for departure in ended.drain(..) {
            self.last_packet = departure.record.released.unwrap_or(self.last_packet);
            self.end(departure);
        }
        self.ended = ended;
    }

    /// Reads packets of one direction until there are none, or its turn is over.
    fn read_turn(&mut self, direction: Direction) -> Result<(), SetupError> {
        if !self.readable[direction as usize] {
            return Ok(());
        }
        let mut packets = 0;
        while packets < READS_A_TURN {
            let port = &mut self.ports[direction as usize];
            match port.read(&mut self.buffers, &mut self.arrived) {
                Ok(()) => {}
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => {
                    self.readable[direction as usize] = false;
                    return Ok(());
                }
                Err(source) => {
                    return Err(SetupError::System {
                        action: "read from a TUN device",
                        source,
                    });
                }
            }
            let now = clock::now();
            self.last_packet = now;
            packets += self.arrived.len();
            for packet in self.arrived.drain(..) {
                self.link.offer(now, direction, packet);
            }
        }
        Ok(())
    }

    /// `None` while the link is needed; then whether the hosts have fallen silent.
    fn stopped(&mut self) -> Option<bool> {
        if !self.stop.is_requested() {
            return None;
        }
        let now = clock::now();
        let since = *self.stopping_since.get_or_insert(now);
        let is_silent = self.link.next_departure().is_none()
            && now >= self.last_packet + self.silence
            && self.readable == [false; 2];
        let waited_enough = now >= since + SILENCE_AT_MOST + self.silence;
        (is_silent || waited_enough).then_some(is_silent)
    }

    /// Sleeps until shortly before there is something to do; near a release, only looks.
    fn wait(&mut self) -> Result<(), SetupError> {
        if self.readable != [false; 2] {
            return Ok(());
        }
        let now = clock::now();
        let mut deadline = self.next_heartbeat;
        if let Some(due) = self.link.next_departure() {
            let may_spin = now <= self.last_sleep + SPIN_WITHOUT_SLEEP_AT_MOST;
            let spin = if may_spin { self.spin } else { Duration::ZERO };
            if due <= now + spin {
                // Looking at both devices costs less than a wake-up.
                self.readable = [true; 2];
                return Ok(());
            }
            deadline = deadline.min(Time::from_nanos(due.as_nanos() - spin.as_nanos()));
        }
        self.last_sleep = now;
        let deadline = Some(deadline);
        for ready in self.reactor.wait(now, deadline)? {
            if let Some(readable) = self.readable.get_mut(ready.token as usize) {
                *readable |= ready.readable;
            }
        }
        Ok(())
    }

    /// Logs a packet whose fate is final, and keeps its buffer for another.
    fn end(&mut self, departure: Departure) {
        let Departure { packet, record } = departure;
        self.records.push(record);
        if self.sinks.packets.is_some() {
            let bytes = packet.clone();
            self.packets.push(SeenPacket { record, bytes });
        }
        self.buffers.push(packet);
        if self.records.len() == RECORDS_A_CHUNK {
            self.hand_on();
        }
    }

    fn hand_on(&mut self) {
        // A receiver that is gone means that the trial has failed and says so itself.
        let records = std::mem::replace(&mut self.records, Vec::with_capacity(RECORDS_A_CHUNK));
        let _ = self.sinks.records.send(records);
        if let Some(packets) = &self.sinks.packets {
            let _ = packets.send(std::mem::take(&mut self.packets));
        }
    }
}
