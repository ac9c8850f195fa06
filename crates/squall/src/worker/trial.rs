//! One trial from its plan to its record: two hosts, a link, the stations, and the threads that record them.
//!
//! Order matters at the end. The client is drained, then the server resets open connections, then the link waits for
//! silence. Only then are the kernel's counters read and compared with our own.

use std::fs;
use std::net::Ipv4Addr;
use std::sync::mpsc;

use anyhow::{Context, Result, bail};
use squall_base::plan::{Connections, Hop, Implementation, Side, Trial};
use squall_base::record::{Direction, EffectiveSettings, Health, TrialRecord, Validity};
use squall_base::{Duration, Time};
use squall_linux::SetupError;
use squall_linux::counters::HostCounters;
use squall_linux::host::Host;
use squall_linux::link_thread::{LinkBeginning, LinkDevices, LinkReport, LinkThread, Sinks};
use squall_linux::stop::StopSignal;
use squall_linux::tun::{Offload, RouteMetrics, Tun};
use squall_linux::user_namespace::Privilege;
use squall_linux::{clock, cwnd_cap, scheduling};
use squall_record::{PartialTrial, PcapngFile, SCHEMA, add_secrets};

use super::Assignment;
use super::collect::{self, KeyLogs, RequestTotals};
use super::observe::{self, Observers};
use super::observe_hop::WatchedHop;
use super::observe_link::LinkCapture;
use super::place::{FAR_ADDRESS, Hosts, NEAR_ADDRESS};
use super::stations::{self, PathReport};
use super::{LinkPackets, conditions, health, programs};
use crate::link_health;
use crate::link_totals::LinkTotals;

const PREFIX_LEN: u8 = 30;
/// The name of the link's device in both hosts.
const DEVICE: &str = "squall0";

/// The results of a trial before it is judged.
struct TrialResults {
    path: PathReport,
    link: LinkReport,
    /// How much later than the load the link's own clock started; zero if no setting depends on it.
    times_late: Duration,
    near_counters: HostCounters,
    far_counters: HostCounters,
    packets: LinkTotals,
    requests: RequestTotals,
}

/// Open files that are needed in addition to two sockets per connection: devices, logs, epolls.
const OTHER_OPEN_FILES: u64 = 64;

/// Runs a trial, writes its tables into `partial`, and returns its record.
pub(super) fn run(
    assignment: Assignment,
    attempt: u32,
    privilege: Privilege,
    partial: &PartialTrial,
) -> Result<TrialRecord> {
    let trial = &assignment.trial;
    check_open_files(trial)?;
    let (epoch, epoch_unix_ns) = (clock::now(), clock::unix_nanos());
    let hosts = Hosts {
        near: Host::create()?,
        far: Host::create()?,
    };
    let packets = assignment.packets;
    let capture = match packets {
        LinkPackets::Kept => Some(PcapngFile::create(partial.capture(), epoch, epoch_unix_ns)?),
        LinkPackets::Forgotten => None,
    };
    let results = measure(&assignment, &hosts, partial, capture, epoch)?;
    if packets == LinkPackets::Kept && partial.keylog().is_file() {
        let secrets = fs::read_to_string(partial.keylog())
            .with_context(|| format!("cannot read {}", partial.keylog().display()))?;
        add_secrets(&partial.capture(), &secrets)?;
    }
    let used = used(&hosts, &results, privilege)?;
    let health = judge(trial, &results, &used);
    Ok(TrialRecord {
        schema: SCHEMA,
        attempt,
        epoch_monotonic_ns: epoch.as_nanos(),
        epoch_unix_ns,
        load_start: results.path.load_start.since(epoch),
        requests: results.path.requests,
        connections_opened: connections_opened(&results.path),
        pages: results.path.pages,
        hops: results.path.hops,
        stations: results.path.stations,
        health,
        used,
        trial: assignment.trial,
    })
}

/// All of our own stations share this process, so each connection needs two files.
fn check_open_files(trial: &Trial) -> Result<()> {
    let variant = &trial.variant;
    let allowed = scheduling::raise_open_files().context("cannot raise the limit of open files")?;
    let at_most = |hop: &Hop| match hop.connections {
        Connections::OnDemand { at_most } | Connections::Fixed(at_most) => u64::from(at_most),
    };
    // In some loads, each user has its own connections on the client's hop.
    let users = u64::from(trial.load.users_with_own_connections()).max(1);
    let further: u64 = variant.hops.iter().skip(1).map(at_most).sum();
    let connections = at_most(variant.first_hop()).saturating_mul(users) + further;
    let needed = 2 * connections + OTHER_OPEN_FILES;
    if needed > allowed {
        bail!(
            "up to {connections} connections need {needed} open files, and {allowed} are allowed. Raise the \
             hard limit (`ulimit -Hn`), or set fewer in the recipe: connections = {{ at_most = {} }}",
            allowed.saturating_sub(OTHER_OPEN_FILES) / 2 / (variant.hops.len() as u64 - 1 + users)
        );
    }
    Ok(())
}

/// Connections that the path's client opened: its own count or, for a load generator, the count from its packets.
fn connections_opened(path: &PathReport) -> u32 {
    let by_packets = || {
        let wire = path.hops.first()?.wire.as_ref()?;
        u32::try_from(wire.connections()).ok()
    };
    path.connections_opened.or_else(by_packets).unwrap_or(0)
}

fn measure(
    assignment: &Assignment,
    hosts: &Hosts,
    partial: &PartialTrial,
    capture: Option<PcapngFile>,
    epoch: Time,
) -> Result<TrialResults> {
    let trial = &assignment.trial;
    let failed = StopSignal::new()?;
    let folder = partial.root().join("stations");
    let (packet_sender, packet_receiver) = mpsc::channel();
    let packets = collect::packets(partial.packets(), packet_receiver, epoch, failed.clone())?;
    let watched = WatchedHop::of(trial);
    let (readers, keys) = observe::key_channels(&watched);
    let key_logs = KeyLogs {
        files: programs::key_logs(trial, &folder),
        readers,
    };
    let (station_sinks, tables) = collect::stations(partial, trial, epoch, key_logs, &failed)?;
    let mut observers = Observers::new(watched, keys, &station_sinks, &failed)?;

    let devices = LinkDevices {
        client: hosts
            .near
            .run(|| device(trial, [NEAR_ADDRESS, FAR_ADDRESS], Side::Client))?,
        server: hosts
            .far
            .run(|| device(trial, [FAR_ADDRESS, NEAR_ADDRESS], Side::Server))?,
    };
    let settings = conditions::settings(assignment)?;
    let beginning = LinkBeginning::default();
    let capture = capture.map(|file| LinkCapture {
        file,
        settings: settings.clone(),
        beginning: beginning.clone(),
    });
    let sinks = Sinks {
        records: packet_sender,
        packets: observers.watch_link(capture, hosts)?,
    };
    let link =
        LinkThread::start_waiting(&settings, devices, sinks, failed.clone(), beginning.clone())?;
    let path = stations::run(
        assignment,
        hosts,
        &folder,
        &station_sinks,
        &mut observers,
        &beginning,
        &failed,
    );
    // The tables are complete when the last sender is dropped.
    drop(station_sinks);
    // In order of cause and effect: when any other part fails, the client gives up too.
    let link = link.stop()?;
    let packets = packets.finish()?;
    let observed = observers.finish();
    let requests = tables.finish()?;
    let mut path = path?;
    observed?.into_iter().for_each(|report| path.add(report));
    Ok(TrialResults {
        path,
        near_counters: hosts.near.counters(DEVICE)?,
        far_counters: hosts.far.counters(DEVICE)?,
        times_late: if settings.has_times() {
            link.start_delay
        } else {
            Duration::ZERO
        },
        link,
        packets,
        requests,
    })
}

/// The link's device in the calling thread's host, with the route across it. Our own sockets set their congestion
/// control individually; those of programs get it from that route.
fn device(trial: &Trial, [own, peer]: [Ipv4Addr; 2], side: Side) -> Result<Tun, SetupError> {
    let variant = &trial.variant;
    let (_, hop) = variant.link_hop();
    let tcp = match side {
        Side::Client => &hop.client.tcp,
        Side::Server => &hop.server.tcp,
    };
    if let Some(segments) = tcp.max_cwnd {
        cwnd_cap::remember(own, peer, segments)?;
    }
    let tun = Tun::create(DEVICE, own, PREFIX_LEN, Offload::None)?;
    let has_programs = variant
        .stations
        .iter()
        .any(|it| it.runs != Implementation::Embedded);
    tun.set_metrics(RouteMetrics {
        congestion_control: has_programs.then_some(&tcp.congestion_control),
        max_cwnd: tcp.max_cwnd,
    })?;
    Ok(tun)
}

fn used(hosts: &Hosts, results: &TrialResults, privilege: Privilege) -> Result<EffectiveSettings> {
    let [near, far] = &results.path.congestion_controls;
    Ok(EffectiveSettings {
        kernel: squall_linux::sysctl::read("kernel.osrelease")?,
        client_congestion_control: near.iter().cloned().collect(),
        server_congestion_control: far.iter().cloned().collect(),
        sysctls: hosts.near.sysctls()?.into_iter().collect(),
        link_scheduling: results.link.scheduling.name().to_owned(),
        station_scheduling: results.path.scheduling.name().to_owned(),
        link_spin: results.link.spin,
        client_spin: results.path.client_spin,
        user_namespace: privilege == Privilege::UserNamespace,
    })
}

/// The length of the measured phase: what the recipe says, unless the load ended earlier.
fn measured_time(trial: &Trial, path: &PathReport) -> Duration {
    let load = &trial.load;
    if !load.may_end_early() {
        return load.duration;
    }
    let measured = path.load_end.since(path.load_start + load.warmup);
    measured.clamp(Duration::from_nanos(1), load.duration)
}

fn judge(trial: &Trial, results: &TrialResults, used: &EffectiveSettings) -> Health {
    let direction = |direction, sender: &HostCounters, receiver: &HostCounters| {
        results
            .packets
            .health(direction, link_health::kernel_counters(sender, receiver))
    };
    let (near, far) = (&results.near_counters, &results.far_counters);
    let measured_s = measured_time(trial, &results.path).as_secs_f64();
    let mut health = Health {
        schedule_lag: results.requests.schedule_lag(),
        link_wakeup: results.link.wakeups.lateness(),
        rate_asked_per_s: results.requests.measured as f64 / measured_s,
        rate_achieved_per_s: results.requests.achieved as f64 / measured_s,
        link: vec![
            direction(Direction::Up, near, far),
            direction(Direction::Down, far, near),
        ],
        validity: Validity::Valid,
    };
    health.validity = health::judge(&health::Evidence {
        trial,
        health: &health,
        used,
        link_scheduling: results.link.scheduling,
        median_latency: results.requests.median_latency(),
        is_silent: results.link.is_silent,
        times_late: results.times_late,
        machine_errors: &results.path.machine_errors,
        listen_dropped: near.listen_dropped + far.listen_dropped,
        hops: &results.path.hops,
        answered: results.requests.achieved,
        faults: &results.path.faults,
    });
    health
}
