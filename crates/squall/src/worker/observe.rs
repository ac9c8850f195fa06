//! What passes between stations one of which is not ours: packets of the link and of loopback devices, read along while
//! the trial runs.
//!
//! The link's thread hands over what crosses it; on a hop inside a host a tap is read every few milliseconds, which costs
//! the stations nothing but the kernel's copy. Reading along gives way to all others. What is read, and the rows of it,
//! is `observe_hop`'s. The capture of a trial's link is written here too, for it is the same packets.

use std::net::Ipv4Addr;
use std::sync::mpsc::{self, Receiver, Sender, SyncSender};
use std::thread::{self, JoinHandle};
use std::time::Duration;

use anyhow::{Context, Result, anyhow};
use squall_base::Time;
use squall_base::plan::Side;
use squall_base::record::WireCounts;
use squall_linux::host::Host;
use squall_linux::link_thread;
use squall_linux::scheduling;
use squall_linux::stop::StopSignal;
use squall_linux::tap::{PACKET_BYTES, Tap};
use squall_observe::{InArrivalOrder, SeenPacket};

use super::collect::StationSinks;
use super::observe_hop::{HopObserver, Watched};
use super::observe_link::{LinkCapture, read_link};
use super::observe_sockets::{CongestionControls, Sampler};
use super::place::{Hosts, NEAR_ADDRESS};

/// How often a tap is read. Its buffer holds some 10,000 short packets.
const READ_EVERY: Duration = Duration::from_millis(10);
/// Bytes that are handed on at once, about.
const CHUNK_BYTES: usize = 1 << 20;
/// Chunks that wait for who reads them: 64 MiB of a hop. Beyond that packets stay in the kernel's buffer, and beyond that
/// they are missed, and counted.
const CHUNKS_AT_MOST: usize = 64;
/// The kernel stamps packets on several processors, so they may come in another order than that of their times.
const DISORDER: squall_base::Duration = squall_base::Duration::from_millis(20);

/// What a thread that reads along has found.
pub(super) enum Found {
    /// Nothing by itself.
    Nothing,
    /// What packets say of this hop.
    Packets((u8, WireCounts)),
    /// What sockets on both sides of the link said.
    LinkSockets(CongestionControls),
}

/// Who reads along with a trial.
pub(super) struct Observers {
    waiting: Vec<HopObserver>,
    reading: Vec<JoinHandle<Result<Found>>>,
    failed: StopSignal,
    /// Asks those who read taps to end.
    stop: StopSignal,
}

/// For each of these hops that needs it, where secrets are to be sent, and where they come out.
pub(super) fn key_channels(watched: &[Watched]) -> (Vec<Sender<Vec<String>>>, Keys) {
    let with_tls = watched.iter().filter(|watched| watched.has_tls);
    let (senders, receivers): (Vec<_>, Vec<_>) = with_tls
        .map(|watched| {
            let (sender, receiver) = mpsc::channel();
            (sender, (watched.hop, receiver))
        })
        .unzip();
    (senders, receivers)
}

/// Lines of key logs, by hop.
pub(super) type Keys = Vec<(u8, Receiver<Vec<String>>)>;

impl Observers {
    /// Nothing is read yet.
    pub(super) fn new(
        watched: Vec<Watched>,
        mut keys: Keys,
        sinks: &StationSinks,
        failed: &StopSignal,
    ) -> Result<Observers> {
        let waiting = watched.into_iter().map(|watched| {
            let keys = keys.extract_if(.., |(hop, _)| *hop == watched.hop).next();
            let sinks = sinks.log(watched.hop.into(), Side::Client);
            HopObserver::new(watched, sinks, keys.map(|(_, receiver)| receiver))
        });
        Ok(Observers {
            waiting: waiting.collect(),
            reading: Vec::new(),
            failed: failed.clone(),
            stop: StopSignal::new()?,
        })
    }

    /// Reads along with the link, if its hop is to be watched or the link captured: where its packets are to be sent.
    pub(super) fn watch_link(
        &mut self,
        capture: Option<LinkCapture>,
        hosts: &Hosts,
    ) -> Result<Option<Sender<Vec<link_thread::SeenPacket>>>> {
        let mut hop = self.take(|watched| watched.across_link);
        if let Some(hop) = &mut hop {
            let sampler = Sampler::new(hop.watched(), [&hosts.near, &hosts.far], NEAR_ADDRESS)?;
            self.sample(sampler, hop, Found::LinkSockets)?;
        }
        if hop.is_none() && capture.is_none() {
            return Ok(None);
        }
        let (sender, packets) = mpsc::channel();
        let read = move || read_link(&packets, hop, capture);
        self.start("squall-observe", read)?;
        Ok(Some(sender))
    }

    /// Reads along with the hop to the station of that place, if it is inside a host and to be watched. The station is
    /// ready, and the one before it has not been started: all that follows is of the path.
    pub(super) fn watch_hop(&mut self, place: usize, host: &Host) -> Result<()> {
        let is_it = |watched: &Watched| usize::from(watched.hop) == place && !watched.across_link;
        let Some(mut hop) = self.take(is_it) else {
            return Ok(());
        };
        let sampler = Sampler::new(hop.watched(), [host, host], Ipv4Addr::LOCALHOST)?;
        self.sample(sampler, &mut hop, |_| Found::Nothing)?;
        let tap = Tap::on_loopback(host, hop.watched().server.port())?;
        let (chunks, packets) = mpsc::sync_channel(CHUNKS_AT_MOST);
        let stop = self.stop.clone();
        self.start("squall-tap", move || {
            read_tap(&tap, &chunks, &stop).map(|()| Found::Nothing)
        })?;
        self.start("squall-observe", move || {
            Ok(Found::Packets(read_chunks(&packets, hop)))
        })
    }

    /// Samples the sockets of a hop's programs.
    fn sample(
        &mut self,
        sampler: Sampler,
        hop: &mut HopObserver,
        found: fn(CongestionControls) -> Found,
    ) -> Result<()> {
        let (samples, receiver) = mpsc::channel();
        hop.sample_from(receiver);
        let stop = self.stop.clone();
        self.start("squall-sockets", move || {
            sampler.run(&samples, &stop).map(found)
        })
    }

    fn take(&mut self, is_it: impl Fn(&Watched) -> bool) -> Option<HopObserver> {
        let found = self.waiting.iter().position(|hop| is_it(hop.watched()))?;
        Some(self.waiting.swap_remove(found))
    }

    fn start(
        &mut self,
        name: &str,
        read: impl FnOnce() -> Result<Found> + Send + 'static,
    ) -> Result<()> {
        let failed = self.failed.clone();
        let thread = thread::Builder::new()
            .name(name.to_owned())
            .spawn(move || failed.guard(read))
            .context("cannot start a thread that reads packets")?;
        self.reading.push(thread);
        Ok(())
    }

    /// Nothing more comes: the stations and the link have ended. What was found.
    pub(super) fn finish(self) -> Result<Vec<Found>> {
        self.stop.request()?;
        let join = |thread: JoinHandle<Result<Found>>| {
            let panicked = |_| anyhow!("a thread that reads packets panicked");
            thread.join().map_err(panicked)?
        };
        self.reading.into_iter().map(join).collect()
    }
}

/// Packets of a tap that are handed on at once, and how many were missed before them.
#[derive(Default)]
struct Chunk {
    packets: Vec<(Time, Vec<u8>)>,
    bytes: usize,
    missed: u64,
}

/// Empties a tap again and again, until it is told to stop and the tap is empty.
fn read_tap(tap: &Tap, chunks: &SyncSender<Chunk>, stop: &StopSignal) -> Result<()> {
    let mut buffer = vec![0; PACKET_BYTES];
    loop {
        let is_last = stop.is_requested();
        let mut chunk = Chunk::default();
        while let Some((time, packet)) = tap
            .next(&mut buffer)
            .context("cannot read a loopback device's packets")?
        {
            chunk.bytes += packet.len();
            chunk.packets.push((time, packet.to_vec()));
            if chunk.bytes >= CHUNK_BYTES {
                // Who reads them is gone only if it panicked, which is told elsewhere.
                let _ = chunks.send(std::mem::take(&mut chunk));
            }
        }
        chunk.missed = tap
            .missed()
            .context("cannot ask how many packets were missed")?;
        if !chunk.packets.is_empty() || chunk.missed > 0 {
            let _ = chunks.send(chunk);
        }
        if is_last {
            return Ok(());
        }
        thread::sleep(READ_EVERY);
    }
}

/// Reads what a tap gave. It has one point, so both sides have its times.
fn read_chunks(chunks: &Receiver<Chunk>, mut hop: HopObserver) -> (u8, WireCounts) {
    scheduling::make_background();
    let mut order = InArrivalOrder::default();
    let mut newest = Time::ZERO;
    for chunk in chunks {
        hop.take_news();
        hop.miss(chunk.missed);
        for (time, bytes) in chunk.packets {
            newest = newest.max(time);
            if let Some(direction) = hop.direction(&bytes) {
                order.push(time, Some(time), direction, bytes);
            }
        }
        let complete = newest.as_nanos().saturating_sub(DISORDER.as_nanos());
        order.hand_on(Time::from_nanos(complete), |packet: &SeenPacket<'_>| {
            hop.see(packet);
        });
    }
    order.finish(|packet| hop.see(packet));
    hop.finish()
}
