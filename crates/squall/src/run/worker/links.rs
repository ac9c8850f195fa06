//! The links of a trial: for each, a device in both of its hosts and a thread, until the kernel's counters can be compared
//! with its log.
//!
//! It decides nothing: `conditions` has the settings of a link, `place` its hosts and addresses, `health` judges it.

use std::sync::mpsc::Sender;

use anyhow::{Context, Result};
use squall_base::plan::{Hop, Implementation, Side, Trial, Variant};
use squall_base::record::PacketRecord;
use squall_base::{Duration, Time};
use squall_linux::SetupError;
use squall_linux::counters::HostCounters;
use squall_linux::cwnd_cap;
use squall_linux::link_thread::{LinkBeginning, LinkDevices, LinkReport, LinkThread, Sinks};
use squall_linux::stop::StopSignal;
use squall_linux::tun::{Offload, RouteMetrics, Tun};
use squall_record::{PartialTrial, PcapngFile, add_secrets};

use super::assignment::{Assignment, LinkPackets};
use super::conditions;
use super::observe::Observers;
use super::observe_link::LinkCapture;
use super::place::{self, Hosts};

const PREFIX_LEN: u8 = 30;

/// What every link of a trial needs.
pub(super) struct LinkContext<'a> {
    pub(super) assignment: &'a Assignment,
    pub(super) hosts: &'a Hosts,
    /// When the times in the links' settings begin.
    pub(super) beginning: &'a LinkBeginning,
    pub(super) failed: &'a StopSignal,
}

/// The running links, in the order of the path.
pub(super) struct RunningLinks(Vec<RunningLink>);

struct RunningLink {
    hop: u8,
    /// Whether any setting depends on when the link's clock started.
    has_times: bool,
    /// Whether the devices exchange super-packets.
    is_fast: bool,
    thread: LinkThread,
}

pub(super) struct LinkResult {
    /// The hop that crosses it.
    pub(super) hop: u8,
    /// Whether its devices exchanged super-packets.
    pub(super) is_fast: bool,
    pub(super) report: LinkReport,
    /// How much later than the load the link's own clock started; zero if no setting depends on it.
    pub(super) times_late: Duration,
    /// The counters at its client's end and at its server's end.
    pub(super) counters: [HostCounters; 2],
}

impl RunningLinks {
    /// Starts all links. Their records go to `records`; `captures` has a file for each link whose packets are kept.
    pub(super) fn start(
        context: &LinkContext<'_>,
        records: &Sender<Vec<PacketRecord>>,
        captures: Vec<Option<PcapngFile>>,
        observers: &mut Observers,
    ) -> Result<RunningLinks> {
        let variant = &context.assignment.trial.variant;
        let mut running = Vec::new();
        for ((link, (hop, of)), file) in variant.link_hops().enumerate().zip(captures) {
            let settings = conditions::settings(context.assignment, link)?;
            let offload = offload(&context.assignment.trial, link);
            let devices = devices(context.hosts, link, variant, of, offload)?;
            let capture = file.map(|file| LinkCapture {
                file,
                settings: settings.clone(),
                beginning: context.beginning.clone(),
            });
            let (ends, client) = (context.hosts.ends(link), place::link_addresses(link)[0]);
            let sinks = Sinks {
                hop,
                records: records.clone(),
                packets: observers.watch_link(hop, ends, client, capture)?,
            };
            running.push(RunningLink {
                hop,
                has_times: settings.has_times(),
                is_fast: offload == Offload::Segments,
                thread: LinkThread::start_waiting(
                    &settings,
                    devices,
                    sinks,
                    context.failed.clone(),
                    context.beginning.clone(),
                )?,
            });
        }
        Ok(RunningLinks(running))
    }

    /// Waits until each link has fallen silent and ends it. Only then are the kernel's counters read.
    pub(super) fn stop(self, hosts: &Hosts) -> Result<Vec<LinkResult>> {
        let mut ended = Vec::new();
        for link in self.0 {
            let report = link.thread.stop()?;
            let times_late = if link.has_times {
                report.start_delay
            } else {
                Duration::ZERO
            };
            ended.push((link.hop, link.is_fast, times_late, report));
        }
        let result = |(link, (hop, is_fast, times_late, report))| {
            let [near, far] = hosts.ends(link);
            let name = place::device_name(link);
            Ok(LinkResult {
                hop,
                is_fast,
                times_late,
                report,
                counters: [near.counters(&name)?, far.counters(&name)?],
            })
        };
        ended.into_iter().enumerate().map(result).collect()
    }
}

/// The devices of a link in its two hosts.
fn devices(
    hosts: &Hosts,
    link: usize,
    variant: &Variant,
    hop: &Hop,
    offload: Offload,
) -> Result<LinkDevices, SetupError> {
    let [near, far] = hosts.ends(link);
    Ok(LinkDevices {
        client: near.run(|| device(link, variant, hop, offload, Side::Client))?,
        server: far.run(|| device(link, variant, hop, offload, Side::Server))?,
    })
}

/// What the hosts offload to the devices of a link.
fn offload(trial: &Trial, link: usize) -> Offload {
    if trial.is_fast(link) {
        Offload::Segments
    } else {
        Offload::None
    }
}

/// The link's device in the calling thread's host, with the route across it. Our own sockets set their congestion
/// control individually; those of programs get it from that route.
fn device(
    link: usize,
    variant: &Variant,
    hop: &Hop,
    offload: Offload,
    side: Side,
) -> Result<Tun, SetupError> {
    let [client, server] = place::link_addresses(link);
    let (tcp, own, peer) = match side {
        Side::Client => (&hop.client.tcp, client, server),
        Side::Server => (&hop.server.tcp, server, client),
    };
    if let Some(segments) = tcp.max_cwnd {
        cwnd_cap::remember(own, peer, segments)?;
    }
    let tun = Tun::create(&place::device_name(link), own, PREFIX_LEN, offload)?;
    let has_programs = variant
        .stations
        .iter()
        .any(|it| it.runs != Implementation::Embedded);
    tun.set_metrics(RouteMetrics {
        congestion_control: tcp.congestion_control.as_deref().filter(|_| has_programs),
        max_cwnd: tcp.max_cwnd,
    })?;
    Ok(tun)
}

/// A file for the packets of each link, if they are kept.
pub(super) fn captures(
    assignment: &Assignment,
    partial: &PartialTrial,
    epoch: Time,
    epoch_unix_ns: u64,
) -> Result<Vec<Option<PcapngFile>>> {
    let create = |link: usize| match assignment.packets {
        LinkPackets::Kept => {
            let file = PcapngFile::create(partial.capture_of(link), epoch, epoch_unix_ns)?;
            Ok(Some(file))
        }
        LinkPackets::Forgotten => Ok(None),
    };
    (0..assignment.trial.variant.links()).map(create).collect()
}

/// Adds the trial's TLS secrets to the captures, if there are any.
pub(super) fn add_secrets_to_captures(
    assignment: &Assignment,
    partial: &PartialTrial,
) -> Result<()> {
    if assignment.packets != LinkPackets::Kept || !partial.keylog().is_file() {
        return Ok(());
    }
    let secrets = std::fs::read_to_string(partial.keylog())
        .with_context(|| format!("cannot read {}", partial.keylog().display()))?;
    for link in 0..assignment.trial.variant.links() {
        add_secrets(&partial.capture_of(link), &secrets)?;
    }
    Ok(())
}
