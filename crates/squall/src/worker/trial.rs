//! One trial from its plan to its record: two hosts, a link, a server, a client, and who writes down what.
//!
//! Order matters at the end: the client is drained, then the server resets what is open, then the link
//! waits for silence, and only then are the kernel's counters read and held against our own.

use std::net::Ipv4Addr;
use std::sync::mpsc;

use anyhow::{Context, Result, bail};
use squall_base::Time;
use squall_base::plan::{Connections, Trial};
use squall_base::record::{Direction, Health, TrialRecord, Used, Validity};
use squall_link::settings::Loss;
use squall_link::{LaneSettings, LinkSettings};
use squall_linux::counters::HostCounters;
use squall_linux::host::Host;
use squall_linux::link_thread::{Ends, LinkReport, LinkThread, Sinks};
use squall_linux::scheduling::Scheduling;
use squall_linux::stop::StopSignal;
use squall_linux::tun::{Offload, Tun};
use squall_linux::user_namespace::Privilege;
use squall_linux::{clock, scheduling};
use squall_record::{PartialTrial, SCHEMA};
use squall_stations::client::ClientReport;
use squall_stations::server::ServerReport;

use super::collect::{self, RequestTotals};
use super::{health, stations};
use crate::link_health;
use crate::link_totals::LinkTotals;

// 198.18.0.0/15 is set aside for benchmarks of networks (RFC 2544, appendix C.2.2).
const CLIENT_ADDRESS: Ipv4Addr = Ipv4Addr::new(198, 18, 0, 1);
pub(super) const SERVER_ADDRESS: Ipv4Addr = Ipv4Addr::new(198, 18, 0, 2);
const PREFIX_LEN: u8 = 30;
pub(super) const PORT: u16 = 8080;
/// The link's device, by this name in either host.
const DEVICE: &str = "squall0";

pub(super) struct Hosts {
    pub(super) client: Host,
    pub(super) server: Host,
}

/// What a trial yields before it is judged.
struct Findings {
    client: ClientReport,
    server: ServerReport,
    link: LinkReport,
    client_counters: HostCounters,
    server_counters: HostCounters,
    packets: LinkTotals,
    requests: RequestTotals,
}

/// What `raise_open_files` must allow besides two sockets for each connection: devices, logs, epolls.
const OTHER_OPEN_FILES: u64 = 64;

/// Runs `trial`, writes its tables into `partial`, and returns its record.
pub(super) fn run(
    trial: Trial,
    attempt: u32,
    privilege: Privilege,
    partial: &PartialTrial,
) -> Result<TrialRecord> {
    check_open_files(trial.variant.connections)?;
    let (epoch, epoch_unix_ns) = (clock::now(), clock::unix_nanos());
    let hosts = Hosts {
        client: Host::create()?,
        server: Host::create()?,
    };
    let findings = conduct(&trial, &hosts, partial, epoch)?;
    let used = used(&hosts, &findings, privilege)?;
    let health = judge(&trial, &findings, &used);
    Ok(TrialRecord {
        schema: SCHEMA,
        attempt,
        epoch_monotonic_ns: epoch.as_nanos(),
        epoch_unix_ns,
        load_start: findings.client.load_start.since(epoch),
        requests: findings.client.requests,
        connections_opened: findings.client.connections_opened,
        client: findings.client.counts.clone(),
        server: findings.server.counts.clone(),
        health,
        used,
        trial,
    })
}

/// Client and server share this process, so each connection needs two files.
fn check_open_files(connections: Connections) -> Result<()> {
    let allowed = scheduling::raise_open_files().context("cannot raise the limit of open files")?;
    let (Connections::OnDemand { at_most } | Connections::Fixed(at_most)) = connections;
    let needed = 2 * u64::from(at_most) + OTHER_OPEN_FILES;
    if needed > allowed {
        bail!(
            "up to {at_most} connections need {needed} open files, and {allowed} are allowed. Raise the \
             hard limit (`ulimit -Hn`), or set fewer in the recipe: connections = {{ at_most = {} }}",
            allowed.saturating_sub(OTHER_OPEN_FILES) / 2
        );
    }
    Ok(())
}

fn conduct(trial: &Trial, hosts: &Hosts, partial: &PartialTrial, epoch: Time) -> Result<Findings> {
    let failed = StopSignal::new()?;
    let (packet_sender, packet_receiver) = mpsc::channel();
    let packets = collect::packets(partial.packets(), packet_receiver, epoch, failed.clone())?;
    let (station_sinks, tables) = collect::stations(partial, trial, epoch, &failed)?;

    let ends = Ends {
        client: hosts
            .client
            .run(|| Tun::create(DEVICE, CLIENT_ADDRESS, PREFIX_LEN, Offload::None))?,
        server: hosts
            .server
            .run(|| Tun::create(DEVICE, SERVER_ADDRESS, PREFIX_LEN, Offload::None))?,
    };
    let sinks = Sinks {
        records: packet_sender,
        packets: None,
    };
    let link = LinkThread::start(&link_settings(trial)?, ends, sinks, failed.clone())?;
    let stations = stations::run(trial, hosts, station_sinks, &failed);
    // In the order of cause and consequence: when any other part fails, the client gives up too.
    let link = link.stop()?;
    let packets = packets.finish()?;
    let requests = tables.finish()?;
    let (client, server) = stations?;
    Ok(Findings {
        client,
        server,
        client_counters: hosts.client.counters(DEVICE)?,
        server_counters: hosts.server.counters(DEVICE)?,
        link,
        packets,
        requests,
    })
}

fn link_settings(trial: &Trial) -> Result<LinkSettings> {
    let mut lane = LaneSettings {
        delay: trial.condition.delay,
        loss: Loss::Independent(trial.condition.loss),
        ..LaneSettings::default()
    };
    let mut no_traces = |_: &str| Err("a recipe names no trace".to_owned());
    let further = squall_link::text::settings(&trial.condition.link, &mut no_traces)
        .context("cannot understand the link of the trial")?;
    further.iter().for_each(|setting| lane.apply(setting));
    Ok(LinkSettings::symmetric(lane, trial.seed))
}

fn used(hosts: &Hosts, findings: &Findings, privilege: Privilege) -> Result<Used> {
    Ok(Used {
        kernel: squall_linux::sysctl::read("kernel.osrelease")?,
        client_congestion_control: findings
            .client
            .congestion_controls
            .iter()
            .cloned()
            .collect(),
        server_congestion_control: findings
            .server
            .congestion_controls
            .iter()
            .cloned()
            .collect(),
        sysctls: hosts.client.sysctls()?.into_iter().collect(),
        link_scheduling: findings.link.scheduling.name().to_owned(),
        station_scheduling: station_scheduling(findings).name().to_owned(),
        link_spin: findings.link.spin,
        user_namespace: privilege == Privilege::UserNamespace,
    })
}

/// The worse of both stations'.
fn station_scheduling(findings: &Findings) -> Scheduling {
    match (findings.client.scheduling, findings.server.scheduling) {
        (Scheduling::Fifo, Some(Scheduling::Fifo)) => Scheduling::Fifo,
        _ => Scheduling::Other,
    }
}

fn judge(trial: &Trial, findings: &Findings, used: &Used) -> Health {
    let direction = |direction, sender: &HostCounters, receiver: &HostCounters| {
        findings
            .packets
            .direction(direction, link_health::kernel_counters(sender, receiver))
    };
    let (client, server) = (&findings.client_counters, &findings.server_counters);
    let measured_s = trial.load.duration.as_secs_f64();
    let mut health = Health {
        schedule_lag: findings.requests.schedule_lag(),
        link_wakeup: findings.link.wakeups.lateness(),
        rate_asked_per_s: findings.requests.asked as f64 / measured_s,
        rate_achieved_per_s: findings.requests.achieved as f64 / measured_s,
        link: vec![
            direction(Direction::Up, client, server),
            direction(Direction::Down, server, client),
        ],
        validity: Validity::Valid,
    };
    health.validity = health::judge(&health::Evidence {
        trial,
        health: &health,
        used,
        link_scheduling: findings.link.scheduling,
        median_latency: findings.requests.median_latency(),
        is_silent: findings.link.silent,
        machine_errors: &findings.client.machine_errors,
        listen_dropped: server.listen_dropped,
    });
    health
}
