//! One trial from its plan to its record: two hosts, a link, a server, a client, and who writes down what.
//!
//! Order matters at the end: the client is drained, then the server resets what is open, then the link
//! waits for silence, and only then are the kernel's counters read and held against our own.

use std::net::{Ipv4Addr, SocketAddrV4};
use std::sync::Arc;
use std::sync::mpsc::{self, Sender};
use std::thread;

use anyhow::{Context, Result, anyhow, bail};
use squall_base::Time;
use squall_base::plan::{Connections, Trial};
use squall_base::record::{Direction, Health, RequestRecord, TrialRecord, Used, Validity};
use squall_http::{Request, Response};
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
use squall_stations::client::{Client, ClientReport, ClientSettings};
use squall_stations::server::{Server, ServerReport, ServerSettings};

use super::collect::{self, MeasuredWindow, RequestTotals};
use super::health;
use crate::link_health;
use crate::link_totals::LinkTotals;

// 198.18.0.0/15 is set aside for benchmarks of networks (RFC 2544, appendix C.2.2).
const CLIENT_ADDRESS: Ipv4Addr = Ipv4Addr::new(198, 18, 0, 1);
const SERVER_ADDRESS: Ipv4Addr = Ipv4Addr::new(198, 18, 0, 2);
const PREFIX_LEN: u8 = 30;
const PORT: u16 = 8080;
/// The link's device, by this name in either host.
const DEVICE: &str = "squall0";

struct Hosts {
    client: Host,
    server: Host,
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
    let (request_sender, request_receiver) = mpsc::channel();
    let packets = collect::packets(partial.packets(), packet_receiver, epoch, failed.clone())?;
    let window = MeasuredWindow::of(trial);
    let requests = collect::requests(
        partial.requests(),
        request_receiver,
        window,
        epoch,
        failed.clone(),
    )?;

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
    let stations = run_stations(trial, hosts, request_sender, &failed);
    // In the order of cause and consequence: when any other part fails, the client gives up too.
    let link = link.stop()?;
    let packets = packets.finish()?;
    let requests = requests.finish()?;
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

/// Runs client and server until the load is over.
fn run_stations(
    trial: &Trial,
    hosts: &Hosts,
    records: Sender<Vec<RequestRecord>>,
    failed: &StopSignal,
) -> Result<(ClientReport, ServerReport)> {
    let stop = StopSignal::new()?;
    let server = Server::listen(&hosts.server, server_settings(trial)?, stop.clone())?;
    let settings = client_settings(trial)?;
    let (client, server) = thread::scope(|scope| {
        let server = named("squall-server").spawn_scoped(scope, || failed.guard(|| server.run()));
        let client = named("squall-client").spawn_scoped(scope, || {
            hosts.client.enter()?;
            Client::new(settings, records, failed.clone())?.run()
        });
        let client = client
            .context("cannot start the client's thread")
            .map(thread::ScopedJoinHandle::join);
        let stopped = stop.request();
        let server = server
            .context("cannot start the server's thread")
            .map(thread::ScopedJoinHandle::join);
        stopped.map(|()| (client, server))
    })?;
    let server = server?
        .map_err(|_| anyhow!("the server's thread panicked"))?
        .context("the server failed")?;
    let client = client?
        .map_err(|_| anyhow!("the client's thread panicked"))?
        .context("the client failed")?;
    Ok((client, server))
}

fn named(name: &str) -> thread::Builder {
    thread::Builder::new().name(name.to_owned())
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

fn server_settings(trial: &Trial) -> Result<ServerSettings> {
    let response = Response::new(
        trial.response.status,
        &[(
            "content-type".to_owned(),
            "application/octet-stream".to_owned(),
        )],
        body(trial.response.body.get()),
    )
    .context("cannot make the response")?;
    Ok(ServerSettings {
        address: SocketAddrV4::new(SERVER_ADDRESS, PORT),
        protocol: trial.variant.protocol,
        http2: trial.variant.http2,
        congestion_control: trial.variant.congestion_control.clone(),
        response: Arc::new(response),
    })
}

fn client_settings(trial: &Trial) -> Result<ClientSettings> {
    let request = Request::new(
        &trial.request.method,
        &format!("server:{PORT}"),
        &trial.request.target,
        &trial.request.headers,
        body(trial.request.body.get()),
    )
    .context("cannot make the request")?;
    Ok(ClientSettings {
        server: SocketAddrV4::new(SERVER_ADDRESS, PORT),
        protocol: trial.variant.protocol,
        http2: trial.variant.http2,
        connections: trial.variant.connections,
        congestion_control: trial.variant.congestion_control.clone(),
        load: trial.load,
        request: Arc::new(request),
    })
}

/// A body of `len` bytes, printable so that it can be read in a capture.
fn body(len: u64) -> Arc<[u8]> {
    (b'a'..=b'z').cycle().take(len as usize).collect()
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
