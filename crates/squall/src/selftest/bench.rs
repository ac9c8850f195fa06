//! Two hosts with a link between them, set up as `squall run` and `squall link` do it, and everything the link records.
//!
//! It sends nothing; `traffic` does. Records are kept in memory, because a measurement lasts only seconds.

use std::net::UdpSocket;
use std::sync::mpsc;
use std::thread::JoinHandle;

use anyhow::{Result, anyhow};
use squall_base::record::{Direction, PacketRecord};
use squall_base::{Duration, Time};
use squall_link::settings::Stretch;
use squall_link::{LaneSettings, LinkSettings};
use squall_linux::counters::HostCounters;
use squall_linux::host::Host;
use squall_linux::link_thread::{LinkDevices, LinkReport, LinkThread, Sinks};
use squall_linux::stop::StopSignal;
use squall_linux::tun::Offload;
use squall_linux::{SetupError, clock, datagrams};

use crate::background;
use crate::link::health::kernel_counters;
use crate::link::hosts::{self, CLIENT_ADDRESS, DEVICE, SERVER_ADDRESS};
use crate::link::totals::LinkTotals;

/// The default of most servers; the expected costs of a lost packet were measured with it.
const CONGESTION_CONTROL: &str = "cubic";
/// The seed of all links, so that random loss is the same in every run.
pub(super) const SEED: u64 = 1;

/// Which of the link's records to keep.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Retention {
    Records,
    TotalsOnly,
}

/// A running link between two hosts.
pub(super) struct Bench {
    pub(super) client: Host,
    pub(super) server: Host,
    link: LinkThread,
    collector: JoinHandle<LinkRecords>,
    /// The link's start.
    pub(super) started: Time,
}

struct LinkRecords {
    packets: Vec<PacketRecord>,
    totals: LinkTotals,
}

/// What a link recorded until its end, and what the kernel counted at both devices.
pub(super) struct LinkMeasurement {
    /// In order of arrival; empty unless records were kept.
    pub(super) packets: Vec<PacketRecord>,
    pub(super) totals: LinkTotals,
    pub(super) report: LinkReport,
    client: HostCounters,
    server: HostCounters,
}

impl Bench {
    /// A link with these lanes up and down.
    pub(super) fn start(
        [up, down]: [LaneSettings; 2],
        seed: u64,
        retention: Retention,
    ) -> Result<Bench> {
        let settings = LinkSettings {
            seed,
            stretches: vec![Stretch { up, down }],
            schedule: Vec::new(),
        };
        let ([client, server], devices) = hosts_with_devices()?;
        let (records, chunks) = mpsc::channel();
        let collector = background::start("squall-packets", move || collect(chunks, retention))?;
        let sinks = Sinks {
            hop: 1,
            records,
            packets: None,
        };
        let started = clock::now();
        let link = LinkThread::start_from(&settings, devices, sinks, StopSignal::new()?, started)?;
        Ok(Bench {
            client,
            server,
            link,
            collector,
            started,
        })
    }

    /// A link with the same lane in both directions that keeps all records.
    pub(super) fn symmetric(lane: LaneSettings) -> Result<Bench> {
        Bench::start([lane.clone(), lane], SEED, Retention::Records)
    }

    /// A UDP socket at each end, the client's first.
    pub(super) fn datagrams(&self, patience: Duration) -> Result<[UdpSocket; 2]> {
        datagrams_between([&self.client, &self.server], patience)
    }

    /// Stops the link once both hosts are silent.
    pub(super) fn end(self) -> Result<LinkMeasurement> {
        let report = self.link.stop()?;
        let records = background::join(self.collector);
        let LinkRecords {
            mut packets,
            totals,
        } = records.map_err(|_| anyhow!("a thread that keeps records panicked"))?;
        // A duplicate follows its original.
        packets.sort_by_key(|packet| (packet.direction, packet.index, packet.is_copy));
        Ok(LinkMeasurement {
            packets,
            totals,
            report,
            client: self.client.counters(DEVICE)?,
            server: self.server.counters(DEVICE)?,
        })
    }
}

/// Two hosts, the client first, each with its end of a link that does not run yet.
pub(super) fn hosts_with_devices() -> Result<([Host; 2], LinkDevices), SetupError> {
    hosts::make(CONGESTION_CONTROL, Offload::None)
}

/// A UDP socket in each host, the client's first.
pub(super) fn datagrams_between(
    [client, server]: [&Host; 2],
    patience: Duration,
) -> Result<[UdpSocket; 2]> {
    let ends = ((client, CLIENT_ADDRESS), (server, SERVER_ADDRESS));
    Ok(datagrams::pair(ends.0, ends.1, patience)?)
}

fn collect(chunks: mpsc::Receiver<Vec<PacketRecord>>, retention: Retention) -> LinkRecords {
    let mut records = LinkRecords {
        packets: Vec::new(),
        totals: LinkTotals::default(),
    };
    for chunk in chunks {
        chunk.iter().for_each(|packet| records.totals.add(packet));
        if retention == Retention::Records {
            records.packets.extend(chunk);
        }
    }
    records
}

impl LinkMeasurement {
    /// The packets of a direction, in order of arrival.
    pub(super) fn of(&self, direction: Direction) -> impl Iterator<Item = &PacketRecord> {
        self.packets
            .iter()
            .filter(move |packet| packet.direction == direction)
    }

    /// The number of packets of a direction on which the link's records and the kernel's counters disagree, or that
    /// were lost outside of the link.
    pub(super) fn unaccounted(&self, direction: Direction) -> u64 {
        let (sender, receiver) = match direction {
            Direction::Up => (&self.client, &self.server),
            Direction::Down => (&self.server, &self.client),
        };
        let link = self
            .totals
            .health(direction, kernel_counters(sender, receiver));
        let ends = link.delivered + link.dropped + link.write_errors + link.in_flight;
        (link.packets + link.copies).abs_diff(ends)
            + link.packets.abs_diff(link.kernel.device_sent)
            + link.delivered.abs_diff(link.kernel.device_received)
            + link.write_errors
            + link.kernel.device_dropped
            + link.kernel.device_receive_dropped
    }
}
