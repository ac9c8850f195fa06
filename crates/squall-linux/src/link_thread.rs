//! The driver of a link: one thread that holds both TUN devices, reads packets, passes them through squall-link, and writes
//! them.
//!
//! One thread serves both directions, because two readers would reorder packets. It sleeps on an absolute timer until
//! shortly before the next release and spins for the rest; packets that arrive meanwhile are read. squall-link makes all
//! decisions; this file owns the order of work and the arrival times. What a device delivers per read, and when a packet
//! was actually written, is up to `port`.

use std::io;
use std::sync::mpsc::Sender;
use std::sync::{Arc, OnceLock};
use std::thread::{self, JoinHandle};

use squall_base::record::{Direction, LateSpan, LateSpans, PacketRecord};
use squall_base::{Duration, Time};
use squall_link::{Departure, Link, LinkSettings};

use crate::busy::{BusyMeter, FullTime};
use crate::clock;
use crate::error::SetupError;
use crate::port::Port;
use crate::reactor::Reactor;
use crate::scheduling::{self, Scheduling};
use crate::spans::DurationHistogram;
use crate::stop::StopSignal;
use crate::sys::returned;
use crate::tun::Tun;

/// Above the priority of stations with real-time scheduling, and low among real-time threads.
pub const PRIORITY: i32 = 2;
/// How long before a release the thread stops sleeping. A timer wakes a sleeping thread some 5 to 50 us late; spinning
/// reduces the measured lateness from 21 us to 4 us (p99).
const SPIN: Duration = Duration::from_micros(50);
/// Packets read from one device before the other device and the releases get a turn.
const READS_A_TURN: usize = 64;
/// Records handed on together.
const RECORDS_A_CHUNK: usize = 1024;
/// How often records are handed on even if they do not fill a chunk: the most of a slow link's records that is lost if
/// the process is killed.
const HAND_ON_EVERY: Duration = Duration::from_secs(1);
/// A thread that spins all the time would trip the kernel's guard against runaway real-time threads, which stops it for 50
/// ms (sched_rt_runtime_us). After this long without sleep, it sleeps until the release.
const MAX_SPIN_WITHOUT_SLEEP: Duration = Duration::from_millis(2);
/// How often the thread wakes up only to measure its lateness. An arriving packet wakes it in the same way, but the
/// packet's arrival time is known only from the thread's own clock reading; this lateness bounds the error.
const HEARTBEAT: Duration = Duration::from_millis(1);
/// How long, in addition to a round trip, the link waits at most for the hosts to fall silent after the stop request.
/// Sockets are reset by then, so nothing is retransmitted.
const MAX_SILENCE_WAIT: Duration = Duration::from_secs(3);
const WAKE: u64 = 2;

/// The two devices of a link, each in its host.
#[derive(Debug)]
pub struct LinkDevices {
    /// The device in the client's host.
    pub client: Tun,
    /// The device in the server's host.
    pub server: Tun,
}

/// How many times packets of one direction crossed the devices: once per packet, or fewer times with offloads. This matches the
/// kernel's counters of the devices.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Crossings {
    /// Reads, out of the sending host.
    pub read: u64,
    /// Writes, into the receiving host.
    pub written: u64,
}

/// What the thread reports when it has ended.
#[derive(Debug)]
pub struct LinkReport {
    /// How the thread was scheduled.
    pub scheduling: Scheduling,
    /// How long before a release it spun; zero on a single processor.
    pub spin: Duration,
    /// How late it woke up for its heartbeat; it was at most that late for packets.
    pub wakeups: DurationHistogram,
    /// When it woke up late for one or more heartbeats.
    pub late: LateSpans,
    /// Processor time that the thread has used.
    pub processor_time: Duration,
    /// When it worked without a pause, and what it carried meanwhile.
    pub full: FullTime,
    /// How much later than requested the link began, because its thread received the request too late.
    pub start_delay: Duration,
    /// Whether both hosts had fallen silent when it stopped, so that the kernel's counters are final.
    pub is_silent: bool,
    /// How many times packets crossed the devices, by direction.
    pub crossings: [Crossings; 2],
    /// The devices, still open: closing them would discard their counters.
    pub devices: LinkDevices,
}

/// A packet whose fate is final, with its bytes as they entered the link or, if the link altered it, as they left.
#[derive(Clone, Debug)]
pub struct RecordedPacket {
    /// Its record.
    pub record: PacketRecord,
    /// The IP packet.
    pub bytes: Vec<u8>,
}

/// Where a link sends its records, in chunks, with CLOCK_MONOTONIC times. The channels are unbounded, because a link must
/// never wait for a disk.
#[derive(Clone, Debug)]
pub struct Sinks {
    /// The hop of the path that crosses the link, for its records.
    pub hop: u8,
    /// One record per packet.
    pub records: Sender<Vec<PacketRecord>>,
    /// The packets themselves, if they are wanted: this costs a copy of each.
    pub packets: Option<Sender<Vec<RecordedPacket>>>,
}

/// When a link begins: the time from which its schedule, blackouts, weather and traces count. Set it once, a few
/// milliseconds ahead of that time, so that the link's thread sees it early enough.
#[derive(Clone, Debug, Default)]
pub struct LinkBeginning(Arc<OnceLock<Time>>);

impl LinkBeginning {
    /// Sets the time.
    pub fn set(&self, at: Time) {
        // It is set once; a second call changes nothing.
        let _ = self.0.set(at);
    }

    /// The time, once it is set.
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
    /// Starts a link over `devices`; the times in its settings count from now. If the thread fails, it signals `failed`
    /// at once; `stop` returns the reason.
    pub fn start(
        settings: &LinkSettings,
        devices: LinkDevices,
        sinks: Sinks,
        failed: StopSignal,
    ) -> Result<LinkThread, SetupError> {
        LinkThread::start_from(settings, devices, sinks, failed, clock::now())
    }

    /// As `start`, but the times in its settings count from `epoch`, which is not in the future.
    pub fn start_from(
        settings: &LinkSettings,
        devices: LinkDevices,
        sinks: Sinks,
        failed: StopSignal,
        epoch: Time,
    ) -> Result<LinkThread, SetupError> {
        let link = Link::new(settings, epoch);
        LinkThread::launch(link, settings.round_trip(), devices, sinks, failed, None)
    }

    /// As `start`, but the times in its settings count from `beginning` (see `squall_link::Link::waiting`).
    pub fn start_waiting(
        settings: &LinkSettings,
        devices: LinkDevices,
        sinks: Sinks,
        failed: StopSignal,
        beginning: LinkBeginning,
    ) -> Result<LinkThread, SetupError> {
        let link = Link::waiting(settings, clock::now());
        let round_trip = settings.round_trip();
        LinkThread::launch(link, round_trip, devices, sinks, failed, Some(beginning))
    }

    fn launch(
        link: Link,
        round_trip: Duration,
        devices: LinkDevices,
        sinks: Sinks,
        failed: StopSignal,
        beginning: Option<LinkBeginning>,
    ) -> Result<LinkThread, SetupError> {
        let stop = StopSignal::new()?;
        let reactor = Reactor::new()?;
        reactor.add(&devices.client, Direction::Up as u64)?;
        reactor.add(&devices.server, Direction::Down as u64)?;
        reactor.add(&stop, WAKE)?;
        let driver = Driver {
            beginning,
            silence: round_trip + Duration::from_millis(50),
            ..Driver::new(link, devices, sinks, reactor, stop.clone())
        };
        let handle = thread::Builder::new()
            .name("squall-link".to_owned())
            .spawn(move || failed.guard(|| driver.run()))
            .map_err(SetupError::system("start the link's thread"))?;
        Ok(LinkThread { handle, stop })
    }

    /// Waits until both hosts have been silent for slightly more than a round trip (a few seconds at most), ends the
    /// thread, and returns its report.
    pub fn stop(self) -> Result<LinkReport, SetupError> {
        self.stop.request()?;
        returned(self.handle.join())
    }
}

struct Driver {
    link: Link,
    /// `None` once the link knows when it begins.
    beginning: Option<LinkBeginning>,
    start_delay: Duration,
    /// The devices, indexed by the direction in which their hosts send.
    ports: [Port; 2],
    sinks: Sinks,
    records: Vec<PacketRecord>,
    packets: Vec<RecordedPacket>,
    reactor: Reactor,
    stop: StopSignal,
    /// When the stop request was first seen.
    stopping_since: Option<Time>,
    last_packet: Time,
    /// A silence of this length means that no packet of a conversation is still in flight.
    silence: Duration,
    spin: Duration,
    last_sleep: Time,
    next_heartbeat: Time,
    /// When the records are handed on, however few they are.
    next_hand_on: Time,
    wakeups: DurationHistogram,
    late: LateSpans,
    busy: BusyMeter,
    /// Packets that have just been read.
    arrived: Vec<Vec<u8>>,
    /// Packets whose fate is final, waiting to be logged.
    finished: Vec<Departure>,
    /// Buffers of finished packets, for reuse.
    buffers: Vec<Vec<u8>>,
    /// Whether a device may have packets to read, indexed by the direction in which its host sends.
    readable: [bool; 2],
}

impl Driver {
    fn new(
        link: Link,
        devices: LinkDevices,
        sinks: Sinks,
        reactor: Reactor,
        stop: StopSignal,
    ) -> Driver {
        let now = clock::now();
        Driver {
            link,
            beginning: None,
            start_delay: Duration::ZERO,
            ports: [devices.client, devices.server].map(Port::new),
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
            next_hand_on: now + HAND_ON_EVERY,
            wakeups: DurationHistogram::new(),
            late: LateSpans::default(),
            // The thread replaces this when it begins to run, because its processor time is its own.
            busy: BusyMeter::new(now, Duration::ZERO),
            arrived: Vec::new(),
            finished: Vec::new(),
            buffers: Vec::new(),
            readable: [true; 2],
        }
    }

    fn run(mut self) -> Result<LinkReport, SetupError> {
        let scheduling = scheduling::make_realtime(PRIORITY);
        self.busy = BusyMeter::new(clock::now(), clock::processor_time_of_thread());
        let is_silent = loop {
            self.record_heartbeats();
            self.begin_when_set();
            self.release_due();
            for direction in Direction::ALL {
                self.read_turn(direction)?;
            }
            if let Some(is_silent) = self.stopped() {
                break is_silent;
            }
            self.wait()?;
        };
        for departure in self.link.abandon() {
            self.log(departure);
        }
        self.flush_records();
        let crossings = Direction::ALL.map(|direction| Crossings {
            read: self.ports[direction as usize].reads(),
            written: self.ports[direction.opposite() as usize].writes(),
        });
        let [client, server] = self.ports.map(Port::into_device);
        Ok(LinkReport {
            scheduling,
            spin: self.spin,
            wakeups: self.wakeups,
            late: self.late,
            processor_time: clock::processor_time_of_thread(),
            full: self.busy.into_full(),
            start_delay: self.start_delay,
            is_silent,
            crossings,
            devices: LinkDevices { client, server },
        })
    }

    /// Begins a turn, and records the lateness of every heartbeat that is due; a long stall counts once for each heartbeat it
    /// delayed.
    fn record_heartbeats(&mut self) {
        let now = clock::now();
        self.busy.begin_turn(now, self.last_sleep);
        if self.next_heartbeat <= now {
            self.busy.judge(clock::processor_time_of_thread());
            self.hand_on_when_due(now);
        }
        self.late.add(LateSpan {
            from: self.next_heartbeat,
            until: now,
        });
        while self.next_heartbeat <= now {
            self.wakeups.add(now.since(self.next_heartbeat));
            self.next_heartbeat += HEARTBEAT;
        }
    }

    /// Starts the link's clock once its beginning has been set.
    fn begin_when_set(&mut self) {
        if let Some(at) = self.beginning.as_ref().and_then(LinkBeginning::get) {
            let begins = at.max(clock::now());
            self.link.begin(begins);
            self.start_delay = begins.since(at);
            self.beginning = None;
        }
    }

    /// Writes every packet that is due, and logs those that the link dropped.
    fn release_due(&mut self) {
        let mut now = clock::now();
        while let Some(departure) = self.link.take(now) {
            self.busy.work();
            if departure.is_release() {
                let receiver = departure.record.direction.opposite();
                self.ports[receiver as usize].write(departure, &mut self.finished);
                self.log_written();
                now = now.max(self.last_packet);
            } else {
                self.log(departure);
            }
        }
        for port in &mut self.ports {
            port.write_held(&mut self.finished);
        }
        self.log_written();
    }

    /// Logs the packets that have just been written.
    fn log_written(&mut self) {
        let mut finished = std::mem::take(&mut self.finished);
        for departure in finished.drain(..) {
            self.last_packet = departure.record.released.unwrap_or(self.last_packet);
            let PacketRecord {
                direction, length, ..
            } = departure.record;
            self.busy.write(direction, u64::from(length));
            self.log(departure);
        }
        self.finished = finished;
    }

    /// Reads packets of one direction until none is left or its turn is over.
    fn read_turn(&mut self, direction: Direction) -> Result<(), SetupError> {
        if !self.readable[direction as usize] {
            return Ok(());
        }
        let mut packets = 0;
        while packets < READS_A_TURN {
            let port = &mut self.ports[direction as usize];
            match port.read(&mut self.buffers, &mut self.arrived) {
                Ok(()) => self.busy.work(),
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => {
                    self.readable[direction as usize] = false;
                    return Ok(());
                }
                Err(error) => return Err(SetupError::system("read from a TUN device")(error)),
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

    /// `None` while the link must go on; otherwise whether the hosts have fallen silent.
    fn stopped(&mut self) -> Option<bool> {
        if !self.stop.is_requested() {
            return None;
        }
        let now = clock::now();
        let since = *self.stopping_since.get_or_insert(now);
        let is_silent = self.link.next_departure().is_none()
            && now >= self.last_packet + self.silence
            && self.readable == [false; 2];
        let waited_enough = now >= since + MAX_SILENCE_WAIT + self.silence;
        (is_silent || waited_enough).then_some(is_silent)
    }

    /// Sleeps until shortly before there is something to do; close to a release it polls instead.
    fn wait(&mut self) -> Result<(), SetupError> {
        if self.readable != [false; 2] {
            return Ok(());
        }
        let now = clock::now();
        let mut deadline = self.next_heartbeat;
        if let Some(due) = self.link.next_departure() {
            let may_spin = now <= self.last_sleep + MAX_SPIN_WITHOUT_SLEEP;
            let spin = if may_spin { self.spin } else { Duration::ZERO };
            if due <= now + spin {
                // Polling both devices costs less than a wake-up.
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

    /// Logs a packet whose fate is final, and keeps its buffer for reuse.
    fn log(&mut self, departure: Departure) {
        let Departure { packet, mut record } = departure;
        record.hop = self.sinks.hop;
        self.records.push(record);
        if self.sinks.packets.is_some() {
            let bytes = packet.clone();
            self.packets.push(RecordedPacket { record, bytes });
        }
        self.buffers.push(packet);
        if self.records.len() == RECORDS_A_CHUNK {
            self.flush_records();
        }
    }

    /// Hands on the records of the last second, at the first heartbeat after it.
    fn hand_on_when_due(&mut self, now: Time) {
        if self.next_hand_on <= now {
            self.next_hand_on = now + HAND_ON_EVERY;
            if !self.records.is_empty() {
                self.flush_records();
            }
        }
    }

    fn flush_records(&mut self) {
        // If the receiver is gone, the trial has failed and reports that itself.
        let records = std::mem::replace(&mut self.records, Vec::with_capacity(RECORDS_A_CHUNK));
        let _ = self.sinks.records.send(records);
        if let Some(packets) = &self.sinks.packets {
            let _ = packets.send(std::mem::take(&mut self.packets));
        }
    }
}
