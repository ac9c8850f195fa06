//! The stations of a trial at work: started from the far end, so that each finds the next one listening; ended from the
//! near end, so that nobody is cut off who still answers.

use std::collections::{BTreeMap, BTreeSet};
use std::thread::{self, Scope, ScopedJoinHandle};

use anyhow::{Context, Result, anyhow};
use squall_base::Time;
use squall_base::plan::{Side, Trial};
use squall_base::record::{HopRecord, SideCounts, StationRecord};
use squall_linux::scheduling::Scheduling;
use squall_linux::stop::StopSignal;
use squall_stations::client::{Client, ClientReport, ClientSinks};
use squall_stations::server::Server;

use super::collect::StationSinks;
use super::embedded::Embedded;
use super::place::{self, Hosts};

/// What the stations found.
pub(super) struct PathReport {
    pub(super) load_start: Time,
    /// Requests of the schedule.
    pub(super) requests: u64,
    pub(super) connections_opened: u32,
    pub(super) hops: Vec<HopRecord>,
    pub(super) stations: Vec<StationRecord>,
    /// Congestion control of our own sockets on both sides of the link, as the kernel says.
    pub(super) congestion_controls: [BTreeSet<String>; 2],
    /// The worst of our own threads'.
    pub(super) scheduling: Scheduling,
    /// Connections that this machine could not even begin, by what the kernel said.
    pub(super) machine_errors: BTreeMap<String, u64>,
}

/// What one of our own stations counted as the server of the hop before it, and as the client of the hop behind it.
#[derive(Default)]
struct Counted {
    front: Option<SideReport>,
    back: Option<SideReport>,
    scheduling: Option<Scheduling>,
    machine_errors: BTreeMap<String, u64>,
}

struct SideReport {
    counts: SideCounts,
    congestion_controls: BTreeSet<String>,
}

/// A station that runs.
struct Running<'s> {
    place: usize,
    stop: StopSignal,
    thread: ScopedJoinHandle<'s, Result<Counted>>,
}

/// Runs all stations until the load is over.
pub(super) fn run(
    trial: &Trial,
    hosts: &Hosts,
    sinks: &StationSinks,
    failed: &StopSignal,
) -> Result<PathReport> {
    let variant = &trial.variant;
    let (_, across) = variant.link_hop();
    hosts.near.configure_tcp(&across.client.tcp)?;
    hosts.far.configure_tcp(&across.server.tcp)?;
    let embedded = Embedded {
        trial,
        identity: place::identity(variant)?,
    };
    thread::scope(|scope| {
        let starting = Starting {
            scope,
            embedded: &embedded,
            hosts,
            sinks,
            failed,
        };
        let mut running = Vec::new();
        let mut started = Ok(());
        for place in (1..variant.stations.len()).rev() {
            match starting.start(place) {
                Ok(station) => running.push(station),
                Err(error) => {
                    started = Err(error);
                    break;
                }
            }
        }
        let client = started.and_then(|()| run_client(&embedded, hosts, sinks, failed));
        let ended: Vec<(usize, Result<Counted>)> =
            running.into_iter().rev().map(Running::end).collect();
        conclude(trial, client, ended)
    })
}

/// What stations are started with.
struct Starting<'s, 'e> {
    scope: &'s Scope<'s, 'e>,
    embedded: &'e Embedded<'e>,
    hosts: &'e Hosts,
    sinks: &'e StationSinks,
    failed: &'e StopSignal,
}

impl<'s> Starting<'s, '_> {
    /// Starts the station of that place, which listens when this returns.
    fn start(&self, place: usize) -> Result<Running<'s>> {
        let variant = &self.embedded.trial.variant;
        let stop = StopSignal::new()?;
        let host = self.hosts.of(variant, place);
        let front = self.sinks.log(place, Side::Server);
        let settings = self.embedded.server(front)?;
        let server = host.run(|| Ok(Server::listen(settings, stop.clone())))??;
        let failed = self.failed.clone();
        let work = move || -> Result<Counted> {
            let report = failed.guard(|| server.run()).context("the server failed")?;
            Ok(Counted {
                front: Some(SideReport {
                    counts: report.counts,
                    congestion_controls: report.congestion_controls,
                }),
                scheduling: report.scheduling,
                ..Counted::default()
            })
        };
        let thread = thread::Builder::new()
            .name("squall-server".to_owned())
            .spawn_scoped(self.scope, work)
            .context("cannot start the server's thread")?;
        Ok(Running {
            place,
            stop,
            thread,
        })
    }
}

impl Running<'_> {
    /// Ends the station and waits for what it counted.
    fn end(self) -> (usize, Result<Counted>) {
        let stopped = self.stop.request();
        let counted = self.thread.join();
        let counted = counted.unwrap_or_else(|_| Err(anyhow!("a station's thread panicked")));
        (self.place, stopped.map_err(Into::into).and(counted))
    }
}

/// Runs the load, on a thread of its own in the near host.
fn run_client(
    embedded: &Embedded<'_>,
    hosts: &Hosts,
    sinks: &StationSinks,
    failed: &StopSignal,
) -> Result<ClientReport> {
    let settings = embedded.client()?;
    let sinks = ClientSinks {
        log: sinks.log(1, Side::Client),
        ..ClientSinks::new(sinks.requests.clone())
    };
    let work = || {
        hosts.near.enter()?;
        Client::new(settings, sinks, failed.clone(), StopSignal::new()?)?.run()
    };
    thread::scope(|scope| {
        let thread = thread::Builder::new()
            .name("squall-client".to_owned())
            .spawn_scoped(scope, work)
            .context("cannot start the client's thread")?;
        thread
            .join()
            .map_err(|_| anyhow!("the client's thread panicked"))?
            .context("the client failed")
    })
}

/// Puts together what the stations found. When one has failed, the client has given up too: the cause goes first.
fn conclude(
    trial: &Trial,
    client: Result<ClientReport>,
    ended: Vec<(usize, Result<Counted>)>,
) -> Result<PathReport> {
    let variant = &trial.variant;
    let (link_hop, _) = variant.link_hop();
    let mut hops: Vec<HopRecord> = (1..)
        .zip(&variant.hops)
        .map(|(hop, of)| HopRecord {
            hop,
            protocol: of.protocol,
            client: None,
            server: None,
        })
        .collect();
    let mut congestion_controls = [BTreeSet::new(), BTreeSet::new()];
    let mut schedulings = Vec::new();
    let mut machine_errors = BTreeMap::new();
    for (place, counted) in ended {
        let Counted {
            front,
            back,
            scheduling,
            machine_errors: errors,
        } = counted?;
        schedulings.extend(scheduling);
        machine_errors.extend(errors);
        if let Some(front) = front {
            let hop = &mut hops[place - 1];
            if hop.hop == link_hop {
                congestion_controls[1] = front.congestion_controls;
            }
            hop.server = Some(front.counts);
        }
        if let Some((back, hop)) = back.zip(hops.get_mut(place)) {
            if hop.hop == link_hop {
                congestion_controls[0] = back.congestion_controls;
            }
            hop.client = Some(back.counts);
        }
    }
    let client = client?;
    schedulings.push(client.scheduling);
    machine_errors.extend(client.machine_errors);
    if link_hop == 1 {
        congestion_controls[0] = client.congestion_controls;
    }
    hops[0].client = Some(client.counts);
    let is_fifo = schedulings.iter().all(|&it| it == Scheduling::Fifo);
    Ok(PathReport {
        load_start: client.load_start,
        requests: client.requests,
        connections_opened: client.connections_opened,
        hops,
        stations: stations_of(trial),
        congestion_controls,
        scheduling: if is_fifo {
            Scheduling::Fifo
        } else {
            Scheduling::Other
        },
        machine_errors,
    })
}

fn stations_of(trial: &Trial) -> Vec<StationRecord> {
    let station = |station: &squall_base::plan::Station| StationRecord {
        name: station.name.clone(),
        version: None,
    };
    trial.variant.stations.iter().map(station).collect()
}
