//! One trial from its plan to its record: hosts, links, stations, and the threads that record them.
//!
//! Order matters at the end. The client is drained, then the server resets open connections, then the links wait for
//! silence. Only then are the kernel's counters read and compared with our own.

use std::sync::mpsc;

use anyhow::{Context, Result, bail};
use squall_base::plan::{Connections, Hop, Trial};
use squall_base::record::{
    Direction, DirectionHealth, EffectiveSettings, Health, LateSpans, Lateness,
    LinkCongestionControl, LinkThreadHealth, MachineHealth, TrialRecord, Validity,
};
use squall_base::{Duration, Time};
use squall_linux::link_thread::LinkBeginning;
use squall_linux::stop::StopSignal;
use squall_linux::user_namespace::Privilege;
use squall_linux::{clock, scheduling};
use squall_record::{PartialTrial, PcapngFile, SCHEMA};

use super::assignment::Assignment;
use super::collect::{self, KeyLogs, OwnTimes, PacketTotals, RequestTotals};
use super::health::{self, LinkThreadEvidence};
use super::links::{self, LinkContext, LinkResult, RunningLinks};
use super::machine_watch::MachineWatch;
use super::observe::{self, Observers};
use super::place::Hosts;
use super::programs;
use super::stations::{self, PathReport, worst_scheduling};
use super::watched::WatchedHop;
use crate::link::health::kernel_counters;
use crate::link::totals::LinkTotals;

/// The results of a trial before it is judged.
struct TrialResults {
    path: PathReport,
    links: Vec<LinkResult>,
    packets: PacketTotals,
    requests: RequestTotals,
    machine: MachineHealth,
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
    let hosts = Hosts::create(&trial.variant)?;
    let captures = links::captures(&assignment, partial, epoch, epoch_unix_ns)?;
    let results = measure(&assignment, &hosts, partial, captures, epoch)?;
    links::add_secrets_to_captures(&assignment, partial)?;
    let used = used(&hosts, &results, privilege)?;
    let health = judge(&assignment, &results, &used, epoch);
    Ok(TrialRecord {
        schema: SCHEMA,
        attempt,
        epoch_monotonic_ns: epoch.as_nanos(),
        epoch_unix_ns,
        load_start: results.path.load_start.since(epoch),
        requests: results.path.requests,
        connections_opened: connections_opened(&results.path),
        pages: results.path.pages,
        gaps: results.path.gaps,
        hops: results.path.hops,
        stations: results.path.stations,
        station_exits: results.path.station_exits,
        health,
        used,
        // The caller adds them when all are written.
        files: Vec::new(),
        trial: assignment.trial,
    })
}

/// Checks that enough files may be open. All of our own stations share this process, so each connection needs two files.
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
    captures: Vec<Option<PcapngFile>>,
    epoch: Time,
) -> Result<TrialResults> {
    let trial = &assignment.trial;
    let failed = StopSignal::new()?;
    let folder = partial.stations();
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
    let machine = MachineWatch::start(hosts)?;

    let beginning = LinkBeginning::default();
    let context = LinkContext {
        assignment,
        hosts,
        beginning: &beginning,
        failed: &failed,
    };
    let links = RunningLinks::start(&context, &packet_sender, captures, &mut observers)?;
    // The table of packets is complete when the last link has ended.
    drop(packet_sender);
    let path = stations::run(
        assignment,
        hosts,
        (folder.as_path(), epoch),
        &station_sinks,
        &mut observers,
        &beginning,
        &failed,
    );
    // The tables are complete when the last sender is dropped.
    drop(station_sinks);
    // Errors are returned in order of cause and effect: when any other part fails, the client gives up too.
    let links = links.stop(hosts)?;
    let packets = packets.finish()?;
    let observed = observers.finish();
    let requests = tables.finish()?;
    let mut machine = machine.finish(hosts)?;
    let mut path = path?;
    machine.other_programs = path.other_programs;
    observed?.into_iter().for_each(|report| path.add(report));
    Ok(TrialResults {
        path,
        links,
        packets,
        requests,
        machine,
    })
}

fn used(hosts: &Hosts, results: &TrialResults, privilege: Privilege) -> Result<EffectiveSettings> {
    let mut links = results.path.congestion_controls.iter().map(|(hop, used)| {
        let [client, server] = used.clone().map(|names| names.into_iter().collect());
        LinkCongestionControl {
            hop: *hop,
            client,
            server,
        }
    });
    let first = links.next().context("a path crosses a link")?;
    let spins = results.links.iter().map(|link| link.report.spin);
    let schedulings = results.links.iter().map(|link| link.report.scheduling);
    Ok(EffectiveSettings {
        kernel: squall_linux::sysctl::read("kernel.osrelease")?,
        client_congestion_control: first.client,
        server_congestion_control: first.server,
        next_links: links.collect(),
        sysctls: hosts.client().sysctls()?.into_iter().collect(),
        link_scheduling: worst_scheduling(schedulings).name().to_owned(),
        station_scheduling: results.path.scheduling.name().to_owned(),
        link_spin: spins.max().unwrap_or_default(),
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

/// Both directions of a link.
fn directions(link: &LinkResult, packets: &LinkTotals) -> [DirectionHealth; 2] {
    let [near, far] = &link.counters;
    let ends = [(Direction::Up, near, far), (Direction::Down, far, near)];
    ends.map(|(direction, sender, receiver)| DirectionHealth {
        hop: link.hop,
        ..packets.health(direction, kernel_counters(sender, receiver))
    })
}

/// What is recorded of a link's thread.
fn link_thread(link: &LinkResult) -> LinkThreadHealth {
    LinkThreadHealth {
        hop: link.hop,
        fast: link.is_fast,
        full: link.report.full.length(),
        carried_bit_per_s: link.report.full.carried_bit_per_s(),
    }
}

fn judge(
    assignment: &Assignment,
    results: &TrialResults,
    used: &EffectiveSettings,
    epoch: Time,
) -> Health {
    let trial = &assignment.trial;
    let nothing = LinkTotals::default();
    let totals = |hop: u8| results.packets.links.get(&hop).unwrap_or(&nothing);
    let links = || results.links.iter();
    let threads: Vec<LinkThreadEvidence> = links()
        .map(|link| LinkThreadEvidence {
            hop: link.hop,
            wakeup: link.report.wakeups.lateness(),
            scheduling: link.report.scheduling,
            offload_crossings: link.is_fast.then_some(link.report.crossings),
        })
        .collect();
    let wakeups = threads.iter().map(|thread| thread.wakeup);
    let woke_late = links().flat_map(|link| link.report.late.iter());
    let late = LateSpans::of(woke_late.chain(results.packets.late()).collect(), epoch);
    let own_times = OwnTimes {
        late,
        full: links()
            .map(|link| LateSpans::of(link.report.full.spans.iter().collect(), epoch))
            .collect(),
    };
    let response = results.requests.response_times(&own_times, epoch);
    let measured_s = measured_time(trial, &results.path).as_secs_f64();
    let mut health = Health {
        schedule_lag: results.requests.schedule_lag(),
        link_wakeup: latest(wakeups),
        link_late: Some(own_times.late),
        rate_asked_per_s: results.requests.measured as f64 / measured_s,
        rate_achieved_per_s: results.requests.achieved as f64 / measured_s,
        link: links()
            .flat_map(|link| directions(link, totals(link.hop)))
            .collect(),
        links: links().map(link_thread).collect(),
        machine: results.machine,
        validity: Validity::Valid,
    };
    // Each host but the first is at the server's end of one link.
    let first = links().next().map(|link| link.counters[0].listen_dropped);
    let others = links().map(|link| link.counters[1].listen_dropped);
    health.validity = health::judge(&health::Evidence {
        trial,
        health: &health,
        used,
        links: &threads,
        response: &response,
        is_silent: links().all(|link| link.report.is_silent),
        times_late: links()
            .map(|link| link.times_late)
            .max()
            .unwrap_or_default(),
        has_awake_processors: assignment.has_awake_processors,
        machine_errors: &results.path.machine_errors,
        listen_dropped: first.into_iter().chain(others).sum(),
        hops: &results.path.hops,
        answered: results.requests.answered(),
        faults: &results.path.faults,
    });
    health
}

/// Of several links, the lateness of the one whose thread woke up latest at the 99.9th percentile.
fn latest(wakeups: impl Iterator<Item = Lateness>) -> Lateness {
    wakeups.max_by_key(|it| it.p999).unwrap_or_default()
}
