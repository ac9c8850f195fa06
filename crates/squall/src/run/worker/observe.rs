//! Observes traffic of hops where at least one station is not ours: packets of links and of loopback devices, read
//! while the trial runs.
//!
//! A link's thread hands over the packets that cross it. On a hop inside a host, a tap is read every few
//! milliseconds, which costs the stations only the kernel's copy. Observing threads run at background priority.
//! `observe_hop` interprets the packets and produces rows. The capture of a link is written here too, because it
//! needs the same packets.

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
use squall_observe::{ObservedPacket, ReorderBuffer};

use super::collect::StationSinks;
use super::observe_hop::HopObserver;
use super::observe_link::{LinkCapture, read_link};
use super::observe_sockets::Sampler;
use super::watched::{CongestionControls, ObserverReport, WatchedHop};
use crate::background;

/// How often a tap is read. Its buffer holds about 10,000 short packets.
const READ_EVERY: Duration = Duration::from_millis(10);
/// Approximate bytes per chunk.
const CHUNK_BYTES: usize = 1 << 20;
/// Chunks that may be queued for the reader: 64 MiB per hop. Beyond that, packets stay in the kernel's buffer; when
/// that is full, they are missed and counted.
const CHUNKS_AT_MOST: usize = 64;
/// The kernel timestamps packets on several processors, so they may arrive out of order by up to this.
const DISORDER: squall_base::Duration = squall_base::Duration::from_millis(20);

pub(super) struct Observers {
    waiting: Vec<HopObserver>,
    reading: Vec<JoinHandle<Result<ObserverReport>>>,
    failed: StopSignal,
    /// Tells the threads that read taps and sockets to stop.
    stop: StopSignal,
}

/// For each hop that needs TLS secrets, a channel for them: the senders and the receivers.
pub(super) fn key_channels(watched: &[WatchedHop]) -> (Vec<Sender<Vec<String>>>, KeyReceivers) {
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
pub(super) type KeyReceivers = Vec<(u8, Receiver<Vec<String>>)>;

impl Observers {
    /// Creates the observers. None of them reads yet.
    pub(super) fn new(
        watched: Vec<WatchedHop>,
        mut keys: KeyReceivers,
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

    /// Observes the link of a hop, with its hosts and its client's address, if the hop must be watched or its packets
    /// captured; returns where to send its packets.
    pub(super) fn watch_link(
        &mut self,
        number: u8,
        hosts: [&Host; 2],
        client: Ipv4Addr,
        capture: Option<LinkCapture>,
    ) -> Result<Option<Sender<Vec<link_thread::RecordedPacket>>>> {
        let mut hop = self.take(|watched| watched.hop == number);
        if let Some(hop) = &mut hop {
            let sampler = Sampler::new(hop.watched(), hosts, client)?;
            self.sample(sampler, hop, move |used| {
                ObserverReport::LinkSockets((number, used))
            })?;
        }
        if hop.is_none() && capture.is_none() {
            return Ok(None);
        }
        let (sender, packets) = mpsc::channel();
        let read = move || read_link(&packets, hop, capture);
        self.start("squall-observe", read)?;
        Ok(Some(sender))
    }

    /// Observes the hop to the station at that place, if it is inside a host and must be watched. Call it when the
    /// station is ready and the one before it has not been started, so that all further traffic belongs to the path.
    pub(super) fn watch_hop(&mut self, place: usize, host: &Host) -> Result<()> {
        let is_wanted =
            |watched: &WatchedHop| usize::from(watched.hop) == place && !watched.across_link;
        let Some(mut hop) = self.take(is_wanted) else {
            return Ok(());
        };
        let sampler = Sampler::new(hop.watched(), [host, host], Ipv4Addr::LOCALHOST)?;
        self.sample(sampler, &mut hop, |_| ObserverReport::Nothing)?;
        let tap = Tap::on_loopback(host, hop.watched().server.port())?;
        let (chunks, packets) = mpsc::sync_channel(CHUNKS_AT_MOST);
        let stop = self.stop.clone();
        self.start("squall-tap", move || {
            read_tap(&tap, &chunks, &stop).map(|()| ObserverReport::Nothing)
        })?;
        self.start("squall-observe", move || {
            Ok(ObserverReport::Packets(read_chunks(&packets, hop)))
        })
    }

    /// Samples the sockets of a hop's programs.
    fn sample(
        &mut self,
        sampler: Sampler,
        hop: &mut HopObserver,
        found: impl FnOnce(CongestionControls) -> ObserverReport + Send + 'static,
    ) -> Result<()> {
        let (samples, receiver) = mpsc::channel();
        hop.sample_from(receiver);
        let stop = self.stop.clone();
        self.start("squall-sockets", move || {
            sampler.run(&samples, &stop).map(found)
        })
    }

    fn take(&mut self, is_wanted: impl Fn(&WatchedHop) -> bool) -> Option<HopObserver> {
        let found = self
            .waiting
            .iter()
            .position(|hop| is_wanted(hop.watched()))?;
        Some(self.waiting.swap_remove(found))
    }

    fn start(
        &mut self,
        name: &str,
        read: impl FnOnce() -> Result<ObserverReport> + Send + 'static,
    ) -> Result<()> {
        let failed = self.failed.clone();
        let thread = thread::Builder::new()
            .name(name.to_owned())
            .spawn(move || failed.guard(read))
            .context("cannot start a thread that reads packets")?;
        self.reading.push(thread);
        Ok(())
    }

    /// Waits for the observers after the stations and the link have ended; returns their results.
    pub(super) fn finish(self) -> Result<Vec<ObserverReport>> {
        self.stop.request()?;
        let join = |thread: JoinHandle<Result<ObserverReport>>| {
            let panicked = |_| anyhow!("a thread that reads packets panicked");
            background::join(thread).map_err(panicked)?
        };
        self.reading.into_iter().map(join).collect()
    }
}

/// Packets of a tap that are handed over together, and how many were missed before them.
#[derive(Default)]
struct TapChunk {
    packets: Vec<(Time, Vec<u8>)>,
    bytes: usize,
    missed: u64,
}

/// Empties a tap periodically, until asked to stop and the tap is empty.
fn read_tap(tap: &Tap, chunks: &SyncSender<TapChunk>, stop: &StopSignal) -> Result<()> {
    let mut buffer = vec![0; PACKET_BYTES];
    loop {
        let is_last = stop.is_requested();
        let mut chunk = TapChunk::default();
        while let Some((time, packet)) = tap
            .next(&mut buffer)
            .context("cannot read a loopback device's packets")?
        {
            chunk.bytes += packet.len();
            chunk.packets.push((time, packet.to_vec()));
            if chunk.bytes >= CHUNK_BYTES {
                // The receiver is gone only if it panicked, which is reported elsewhere.
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

/// Reads the packets of a tap. A tap is a single point, so both sides get its times.
fn read_chunks(chunks: &Receiver<TapChunk>, mut hop: HopObserver) -> (u8, WireCounts) {
    scheduling::make_background();
    let mut order = ReorderBuffer::default();
    let mut newest = Time::ZERO;
    for chunk in chunks {
        hop.take_inputs();
        hop.count_missed(chunk.missed);
        for (time, bytes) in chunk.packets {
            newest = newest.max(time);
            if let Some(direction) = hop.direction(&bytes) {
                order.push(time, Some(time), direction, bytes);
            }
        }
        let complete = newest.as_nanos().saturating_sub(DISORDER.as_nanos());
        order.deliver_until(Time::from_nanos(complete), |packet: &ObservedPacket<'_>| {
            hop.observe(packet);
        });
    }
    order.finish(|packet| hop.observe(packet));
    hop.finish()
}
