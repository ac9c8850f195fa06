//! The stations of a trial at work: started from the far end, so that each finds the next one listening; ended from the
//! near end, so that nobody is cut off who still answers.

use std::collections::{BTreeMap, BTreeSet};
use std::path::PathBuf;
use std::thread::{self, Scope, ScopedJoinHandle};

use anyhow::{Context, Result, anyhow};
use squall_base::Time;
use squall_base::plan::{Side, Trial};
use squall_base::record::{HopRecord, SideCounts, StationRecord};
use squall_linux::scheduling::Scheduling;
use squall_linux::stop::StopSignal;
use squall_stations::client::{Client, ClientReport, ClientSinks};
use squall_stations::proxy::{Proxy, ProxyReport};
use squall_stations::rows::ROWS_A_CHUNK;
use squall_stations::server::{Server, ServerReport};

use super::collect::StationSinks;
use super::embedded::Embedded;
use super::place::{self, Hosts};
use super::programs::{self, Programs};
use crate::programs::Program;

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
    /// What programs failed to do.
    pub(super) faults: Vec<String>,
}

/// How often programs are looked after while the client runs.
const LOOK_EVERY: std::time::Duration = std::time::Duration::from_millis(20);

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

/// One of our own stations that runs.
struct Running<'s> {
    place: usize,
    stop: StopSignal,
    thread: ScopedJoinHandle<'s, Result<Counted>>,
}

/// Runs all stations until the load is over. Files of programs go below `folder`.
pub(super) fn run(
    trial: &Trial,
    hosts: &Hosts,
    folder: PathBuf,
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
    let kinds = programs::of(trial)?;
    let mut programs = Programs::new(trial, hosts, folder, embedded.identity.as_ref())?;
    thread::scope(|scope| {
        let starting = Starting {
            scope,
            embedded: &embedded,
            hosts,
            sinks,
            failed,
        };
        let mut running = Vec::new();
        let mut start_all = || -> Result<()> {
            for place in (1..variant.stations.len()).rev() {
                match &kinds[place] {
                    Some(program) => programs.start(place, program)?,
                    None => running.push(starting.start(place)?),
                }
            }
            Ok(())
        };
        let started = start_all();
        let client = started.and_then(|()| match &kinds[0] {
            Some(program) => run_program(&programs, program, sinks),
            None => run_client(&embedded, hosts, sinks, &programs, failed),
        });
        // From the near end on, so that nobody is cut off who still answers.
        let lost = programs.lost();
        let mut ended = Vec::new();
        for place in 1..variant.stations.len() {
            programs.end(place);
            let own = running.extract_if(.., |station| station.place == place);
            ended.extend(own.map(Running::end));
        }
        conclude(trial, client, ended, &programs, lost)
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
    /// Starts our own station of that place, which listens when this returns.
    fn start(&self, place: usize) -> Result<Running<'s>> {
        let variant = &self.embedded.trial.variant;
        let host = self.hosts.of(variant, place);
        let front = self.sinks.log(place, Side::Server);
        let (stop, failed) = (StopSignal::new()?, self.failed.clone());
        let (name, work): (_, Work) = if place + 1 < variant.stations.len() {
            let back = self.sinks.log(place + 1, Side::Client);
            let settings = self.embedded.proxy(place, front, back)?;
            let proxy = host.run(|| Ok(Proxy::listen(settings, stop.clone())))??;
            let work = move || {
                // Its connections to the next station are opened from here.
                let report = failed.guard(|| proxy.run()).context("a proxy failed")?;
                Ok(Counted::of_proxy(report))
            };
            ("squall-proxy", Box::new(work))
        } else {
            let settings = self.embedded.server(front)?;
            let server = host.run(|| Ok(Server::listen(settings, stop.clone())))??;
            let work = move || {
                let report = failed.guard(|| server.run()).context("the server failed")?;
                Ok(Counted::of_server(report))
            };
            ("squall-server", Box::new(work))
        };
        let hosts = self.hosts;
        let thread = thread::Builder::new()
            .name(name.to_owned())
            .spawn_scoped(self.scope, move || {
                hosts.of(variant, place).enter()?;
                work()
            })
            .context("cannot start a station's thread")?;
        Ok(Running {
            place,
            stop,
            thread,
        })
    }
}

/// What a station's thread does.
type Work = Box<dyn FnOnce() -> Result<Counted> + Send>;

impl Counted {
    fn of_server(report: ServerReport) -> Counted {
        Counted {
            front: Some(SideReport {
                counts: report.counts,
                congestion_controls: report.congestion_controls,
            }),
            scheduling: report.scheduling,
            ..Counted::default()
        }
    }

    fn of_proxy(report: ProxyReport) -> Counted {
        Counted {
            front: Some(SideReport {
                counts: report.front,
                congestion_controls: report.front_congestion_controls,
            }),
            back: Some(SideReport {
                counts: report.back,
                congestion_controls: report.back_congestion_controls,
            }),
            scheduling: report.scheduling,
            machine_errors: report.machine_errors,
        }
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

/// What the path's client has done, whoever that was.
struct Driven {
    load_start: Time,
    requests: u64,
    /// Of our own client.
    own: Option<ClientReport>,
    /// Of a load generator: its version, and what is wrong with its load.
    version: Option<String>,
    fault: Option<String>,
}

/// Runs a load generator.
fn run_program(programs: &Programs<'_>, program: &Program, sinks: &StationSinks) -> Result<Driven> {
    let run = programs.run_client(program, |rows| {
        for chunk in rows.chunks(ROWS_A_CHUNK) {
            sinks.requests.send(&mut chunk.to_vec());
        }
    })?;
    Ok(Driven {
        load_start: run.start,
        requests: run.requests,
        own: None,
        version: Some(run.version),
        fault: run.fault,
    })
}

/// Runs the load, on a thread of its own in the near host. Programs that end meanwhile end it too.
fn run_client(
    embedded: &Embedded<'_>,
    hosts: &Hosts,
    sinks: &StationSinks,
    programs: &Programs<'_>,
    failed: &StopSignal,
) -> Result<Driven> {
    let settings = embedded.client()?;
    let sinks = ClientSinks {
        log: sinks.log(1, Side::Client),
        ..ClientSinks::new(sinks.requests.clone())
    };
    let enough = StopSignal::new()?;
    let stop = enough.clone();
    let work = || {
        hosts.near.enter()?;
        Client::new(settings, sinks, failed.clone(), stop)?.run()
    };
    let report = thread::scope(|scope| {
        let thread = thread::Builder::new()
            .name("squall-client".to_owned())
            .spawn_scoped(scope, work)
            .context("cannot start the client's thread")?;
        while !thread.is_finished() {
            thread::sleep(LOOK_EVERY);
            if !programs.lost().is_empty() {
                enough.request()?;
            }
        }
        thread
            .join()
            .map_err(|_| anyhow!("the client's thread panicked"))?
            .context("the client failed")
    })?;
    Ok(Driven {
        load_start: report.load_start,
        requests: report.requests,
        own: Some(report),
        version: None,
        fault: None,
    })
}

/// Puts together what the stations found. When one has failed, the client has given up too: the cause goes first.
fn conclude(
    trial: &Trial,
    client: Result<Driven>,
    ended: Vec<(usize, Result<Counted>)>,
    programs: &Programs<'_>,
    lost: Vec<String>,
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
    let mut connections_opened = 0;
    if let Some(own) = client.own {
        schedulings.push(own.scheduling);
        machine_errors.extend(own.machine_errors);
        connections_opened = own.connections_opened;
        if link_hop == 1 {
            congestion_controls[0] = own.congestion_controls;
        }
        hops[0].client = Some(own.counts);
    }
    let is_fifo = schedulings.iter().all(|&it| it == Scheduling::Fifo);
    let versions: BTreeMap<usize, &str> = programs.versions().collect();
    let stations = variant
        .stations
        .iter()
        .enumerate()
        .map(|(place, station)| StationRecord {
            name: station.name.clone(),
            version: match place {
                0 => client.version.clone(),
                _ => versions.get(&place).map(|&version| version.to_owned()),
            },
        });
    Ok(PathReport {
        load_start: client.load_start,
        requests: client.requests,
        connections_opened,
        stations: stations.collect(),
        hops,
        congestion_controls,
        scheduling: if is_fifo {
            Scheduling::Fifo
        } else {
            Scheduling::Other
        },
        machine_errors,
        faults: lost.into_iter().chain(client.fault).collect(),
    })
}
