//! Runs the stations of a trial. They are started from the far end, so that each finds the next one listening, and
//! ended from the near end, so that no station is cut off while it still answers.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;
use std::sync::mpsc;
use std::thread::{self, Scope, ScopedJoinHandle};

use anyhow::{Context, Result, anyhow};
use squall_base::plan::{Hop, Implementation, LoadKind, Side, Station, Trial, Variant};
use squall_base::record::{
    GapFigures, HopRecord, OtherPrograms, PageRecord, SideCounts, StationExit, StationRecord,
};
use squall_base::{Duration, Time};
use squall_linux::clock;
use squall_linux::link_thread::LinkBeginning;
use squall_linux::scheduling::Scheduling;
use squall_linux::spans::DurationHistogram;
use squall_linux::stop::StopSignal;
use squall_stations::client::{Client, ClientReport, ClientSinks, START_AFTER, Spin, StartBarrier};
use squall_stations::proxy::{Proxy, ProxyReport};
use squall_stations::rows::ROWS_A_CHUNK;
use squall_stations::server::{Server, ServerReport};

use super::assignment::Assignment;
use super::collect::StationSinks;
use super::embedded::EmbeddedStations;
use super::exits;
use super::machine_watch::ProcessorWatch;
use super::observe::Observers;
use super::place::{self, Hosts};
use super::programs::{self, Programs, StationProgram};
use super::watched::{CongestionControls, ObserverReport};
use crate::pages;

/// What the stations reported.
pub(super) struct PathReport {
    pub(super) load_start: Time,
    pub(super) load_end: Time,
    /// The number of requests in the schedule.
    pub(super) requests: u64,
    /// Connections that our own client opened.
    pub(super) connections_opened: Option<u32>,
    /// The outcome of the pages, for a load of pages.
    pub(super) pages: Option<PageRecord>,
    /// The gaps that our own client saw in streamed responses, if there were any.
    pub(super) gaps: Option<GapFigures>,
    pub(super) hops: Vec<HopRecord>,
    pub(super) stations: Vec<StationRecord>,
    /// Congestion controls of the sockets on both sides of each link, as the kernel reports them, by hop.
    pub(super) congestion_controls: BTreeMap<u8, CongestionControls>,
    /// The worst scheduling of our own threads.
    pub(super) scheduling: Scheduling,
    /// Connections that this machine failed to open, by error.
    pub(super) machine_errors: BTreeMap<String, u64>,
    /// How early our own client stops sleeping before a request is due.
    pub(super) client_spin: Duration,
    /// What programs outside of the run used of the processors while the client ran.
    pub(super) other_programs: Option<OtherPrograms>,
    /// Third-party programs that ended by themselves.
    pub(super) station_exits: Vec<StationExit>,
    /// Failures of third-party programs, including these.
    pub(super) faults: Vec<String>,
}

impl PathReport {
    /// Adds what was observed of programs from outside.
    pub(super) fn add(&mut self, report: ObserverReport) {
        match report {
            ObserverReport::Nothing => {}
            ObserverReport::Packets((hop, counts)) => {
                let of_hop = self.hops.iter_mut().filter(|record| record.hop == hop);
                of_hop.for_each(|record| record.wire = Some(counts.clone()));
            }
            ObserverReport::LinkSockets((hop, used)) => {
                let of_hop = self.congestion_controls.entry(hop).or_default();
                for (all, more) in of_hop.iter_mut().zip(used) {
                    all.extend(more);
                }
            }
        }
    }
}

/// How the worst of several threads is scheduled.
pub(super) fn worst_scheduling(mut all: impl Iterator<Item = Scheduling>) -> Scheduling {
    if all.all(|it| it == Scheduling::Fifo) {
        Scheduling::Fifo
    } else {
        Scheduling::Other
    }
}

/// How often programs are checked while the client runs.
const LOOK_EVERY: std::time::Duration = std::time::Duration::from_millis(20);

/// What one of our own stations counted, as the server of the hop before it and as the client of the hop after it.
#[derive(Default)]
struct StationCounts {
    front: Option<SideReport>,
    back: Option<SideReport>,
    scheduling: Option<Scheduling>,
    machine_errors: BTreeMap<String, u64>,
}

struct SideReport {
    counts: SideCounts,
    congestion_controls: BTreeSet<String>,
}

/// A running station of our own.
struct RunningStation<'s> {
    place: usize,
    stop: StopSignal,
    thread: ScopedJoinHandle<'s, Result<StationCounts>>,
}

/// Runs all stations until the load is over. Files of programs go below `folder`; the trial's times count from `epoch`.
pub(super) fn run(
    assignment: &Assignment,
    hosts: &Hosts,
    (folder, epoch): (&Path, Time),
    sinks: &StationSinks,
    observers: &mut Observers,
    link: &LinkBeginning,
    failed: &StopSignal,
) -> Result<PathReport> {
    let trial = &assignment.trial;
    let variant = &trial.variant;
    configure_hosts(hosts, variant)?;
    let embedded = EmbeddedStations {
        trial,
        assignment,
        identity: place::identity(variant)?,
    };
    let installed = programs::station_programs(assignment)?;
    let identity = embedded.identity.as_ref();
    let mut programs = Programs::new(assignment, hosts, folder, epoch, identity)?;
    thread::scope(|scope| {
        let starter = StationStarter {
            scope,
            embedded: &embedded,
            hosts,
            sinks,
            failed,
        };
        let mut running = Vec::new();
        let mut start_all = || -> Result<()> {
            for place in (1..variant.stations.len()).rev() {
                match &installed[place] {
                    Some(program) => programs.start(place, program)?,
                    None => running.push(starter.start(place)?),
                }
                observers.watch_hop(place, hosts.of(variant, place))?;
            }
            Ok(())
        };
        let started = start_all();
        let processors = ProcessorWatch::start();
        let client = started.and_then(|()| match &installed[0] {
            Some(program) => run_program(&mut programs, program, sinks, link),
            None => run_client(&embedded, hosts, sinks, link, &programs, failed),
        });
        let other_programs = processors.finish();
        if client.is_err() {
            // The client may have noticed the end of a program before the program's supervisor did.
            thread::sleep(LOOK_EVERY);
        }
        let early_exits = programs.early_exits();
        let kept = programs.write_exits(&early_exits);
        // From the near end, so that no station is cut off while it still answers.
        let mut ended = Vec::new();
        for place in 1..variant.stations.len() {
            programs.end(place);
            let own = running.extract_if(.., |station| station.place == place);
            ended.extend(own.map(RunningStation::end));
        }
        let report = conclude(trial, client, ended, &programs, early_exits)?;
        kept?;
        Ok(PathReport {
            other_programs,
            ..report
        })
    })
}

/// Applies the settings of hosts at both ends of each link.
fn configure_hosts(hosts: &Hosts, variant: &Variant) -> Result<()> {
    for (link, (number, hop)) in variant.link_hops().enumerate() {
        let client = usize::from(number) - 1;
        let sides = [(&hop.client.tcp, client), (&hop.server.tcp, client + 1)];
        for (host, (settings, station)) in hosts.ends(link).into_iter().zip(sides) {
            host.configure_tcp(settings)?;
            if variant.stations[station].runs != Implementation::Embedded {
                host.configure_program_buffers(settings)?;
            }
        }
    }
    Ok(())
}

struct StationStarter<'s, 'e> {
    scope: &'s Scope<'s, 'e>,
    embedded: &'e EmbeddedStations<'e>,
    hosts: &'e Hosts,
    sinks: &'e StationSinks,
    failed: &'e StopSignal,
}

impl<'s> StationStarter<'s, '_> {
    /// Starts our own station at that place. When this returns, the station listens and a proxy has opened the
    /// connections that it opens in advance. A SYN lost on the link therefore delays the start of the load rather than
    /// its first requests.
    fn start(&self, place: usize) -> Result<RunningStation<'s>> {
        let variant = &self.embedded.trial.variant;
        let host = self.hosts.of(variant, place);
        let front = self.sinks.log(place, Side::Server);
        let (stop, failed) = (StopSignal::new()?, self.failed.clone());
        let (ready, is_ready) = mpsc::channel::<()>();
        let (name, work): (_, StationWork) = if place + 1 < variant.stations.len() {
            let back = self.sinks.log(place + 1, Side::Client);
            let settings = self.embedded.proxy(place, front, back)?;
            let proxy = host.run(|| Ok(Proxy::listen(settings, stop.clone())))??;
            let work = move || {
                // Its connections to the next station are opened on this thread.
                let report = failed.guard(|| proxy.run_notifying(|| drop(ready)));
                let report = report.context("a proxy failed")?;
                Ok(StationCounts::of_proxy(report))
            };
            ("squall-proxy", Box::new(work))
        } else {
            let settings = self.embedded.server(front)?;
            let server = host.run(|| Ok(Server::listen(settings, stop.clone())))??;
            drop(ready);
            let work = move || {
                let report = failed.guard(|| server.run()).context("the server failed")?;
                Ok(StationCounts::of_server(report))
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
        // Nothing is ever sent: the wait ends when the sender is dropped, which also happens if the station fails.
        let _ = is_ready.recv();
        Ok(RunningStation {
            place,
            stop,
            thread,
        })
    }
}

/// What a station's thread does.
type StationWork = Box<dyn FnOnce() -> Result<StationCounts> + Send>;

impl StationCounts {
    fn of_client(report: ClientReport) -> StationCounts {
        StationCounts {
            back: Some(SideReport {
                counts: report.counts,
                congestion_controls: report.congestion_controls,
            }),
            scheduling: Some(report.scheduling),
            machine_errors: report.machine_errors,
            ..StationCounts::default()
        }
    }

    fn of_server(report: ServerReport) -> StationCounts {
        StationCounts {
            front: Some(SideReport {
                counts: report.counts,
                congestion_controls: report.congestion_controls,
            }),
            scheduling: report.scheduling,
            machine_errors: report.machine_errors,
            ..StationCounts::default()
        }
    }

    fn of_proxy(report: ProxyReport) -> StationCounts {
        StationCounts {
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

impl RunningStation<'_> {
    /// Stops the station and waits for its counts.
    fn end(self) -> (usize, Result<StationCounts>) {
        let stopped = self.stop.request();
        let counts = self.thread.join();
        let counts = counts.unwrap_or_else(|_| Err(anyhow!("a station's thread panicked")));
        (self.place, stopped.map_err(Into::into).and(counts))
    }
}

/// The result of the path's client, either ours or a load generator.
struct ClientOutcome {
    load_start: Time,
    load_end: Time,
    requests: u64,
    /// The report, for our own client.
    own: Option<ClientReport>,
    pages: Option<PageRecord>,
    spin: Spin,
    /// For a load generator: its version, the processors it could run on if it was pinned, and the fault of its load.
    version: Option<String>,
    processors: Vec<usize>,
    fault: Option<String>,
}

/// Runs a load generator. The link's times count from the start of its process, because the start of its load is known
/// only afterwards.
fn run_program(
    programs: &mut Programs<'_>,
    program: &StationProgram,
    sinks: &StationSinks,
    link: &LinkBeginning,
) -> Result<ClientOutcome> {
    // Set in advance, as for our own client, so that the link's thread has it in time.
    link.set(clock::now() + START_AFTER);
    thread::sleep(START_AFTER.into());
    let run = programs.run_client(program, |start, rows| {
        sinks.start.set(start);
        for chunk in rows.chunks(ROWS_A_CHUNK) {
            sinks.requests.send(&mut chunk.to_vec());
        }
    })?;
    Ok(ClientOutcome {
        load_start: run.start,
        load_end: run.end,
        requests: run.requests,
        own: None,
        pages: run.pages,
        spin: Spin::default(),
        version: Some(run.version),
        processors: run.processors,
        fault: run.fault,
    })
}

/// Runs our own client on its own thread in its host. If a program ends meanwhile, the load ends too.
fn run_client(
    embedded: &EmbeddedStations<'_>,
    hosts: &Hosts,
    sinks: &StationSinks,
    link: &LinkBeginning,
    programs: &Programs<'_>,
    failed: &StopSignal,
) -> Result<ClientOutcome> {
    let (settings, uploads) = embedded.client()?;
    let spin = settings.spin;
    let (pages_sender, pages) = mpsc::channel();
    let (start, beginning) = (sinks.start.clone(), link.clone());
    // Usually runs on the client's thread, which a busy machine delays less than this one. The time is set in advance, even for
    // a closed load, so that the link's thread has it in time.
    let decide = move || {
        let at = clock::now() + START_AFTER;
        beginning.set(at);
        start.set(at);
        at
    };
    let mut places = StartBarrier::places(2, decide);
    let own_place = places.pop().context("a place was made for this thread")?;
    let sinks = ClientSinks {
        log: sinks.log(1, Side::Client),
        start_barrier: places.pop(),
        pages: Some(pages_sender),
        ..ClientSinks::new(sinks.requests.clone())
    };
    let early_stop = StopSignal::new()?;
    let stop = early_stop.clone();
    let work = || {
        hosts.client().enter()?;
        Client::new(settings, sinks, failed.clone(), stop)?
            .with_uploads(uploads)
            .run()
    };
    let report = thread::scope(|scope| {
        let thread = thread::Builder::new()
            .name("squall-client".to_owned())
            .spawn_scoped(scope, work)
            .context("cannot start the client's thread")?;
        // A client that fails earlier leaves the barrier, so this does not wait for it.
        own_place.wait();
        while !programs.is_empty() && !thread.is_finished() {
            thread::sleep(LOOK_EVERY);
            if !programs.early_exits().is_empty() {
                early_stop.request()?;
            }
        }
        thread
            .join()
            .map_err(|_| anyhow!("the client's thread panicked"))?
            .context("the client failed")
    })?;
    Ok(ClientOutcome {
        load_start: report.load_start,
        load_end: report.load_end,
        requests: report.requests,
        pages: matches!(embedded.trial.load.kind, LoadKind::Pages { .. }).then(|| {
            let ended: Vec<_> = pages.into_iter().flatten().collect();
            pages::record(&ended, report.unfinished_pages.len() as u64)
        }),
        spin,
        own: Some(report),
        version: None,
        processors: Vec::new(),
        fault: None,
    })
}

/// What is collected from all stations.
struct PathCounts {
    hops: Vec<HopRecord>,
    congestion_controls: BTreeMap<u8, CongestionControls>,
    schedulings: Vec<Scheduling>,
    machine_errors: BTreeMap<String, u64>,
}

impl PathCounts {
    fn new(variant: &Variant) -> PathCounts {
        let hop = |(hop, of): (u8, &Hop)| HopRecord {
            hop,
            protocol: of.protocol,
            client: None,
            server: None,
            wire: None,
        };
        PathCounts {
            hops: (1..).zip(&variant.hops).map(hop).collect(),
            congestion_controls: variant
                .link_hops()
                .map(|(hop, _)| (hop, CongestionControls::default()))
                .collect(),
            schedulings: Vec::new(),
            machine_errors: BTreeMap::new(),
        }
    }

    /// Adds one of our own stations: the server of the hop before it, the client of the hop after it.
    fn add(&mut self, place: usize, counts: StationCounts) {
        self.schedulings.extend(counts.scheduling);
        for (error, count) in counts.machine_errors {
            *self.machine_errors.entry(error).or_default() += count;
        }
        let fronts = place
            .checked_sub(1)
            .and_then(|before| self.hops.get_mut(before));
        if let Some((front, hop)) = counts.front.zip(fronts) {
            if let Some([_, server]) = self.congestion_controls.get_mut(&hop.hop) {
                *server = front.congestion_controls;
            }
            hop.server = Some(front.counts);
        }
        if let Some((back, hop)) = counts.back.zip(self.hops.get_mut(place)) {
            if let Some([client, _]) = self.congestion_controls.get_mut(&hop.hop) {
                *client = back.congestion_controls;
            }
            hop.client = Some(back.counts);
        }
    }
}

/// Combines what the stations reported. If a station has failed, the client has given up too: the cause is reported
/// first.
fn conclude(
    trial: &Trial,
    client: Result<ClientOutcome>,
    ended: Vec<(usize, Result<StationCounts>)>,
    programs: &Programs<'_>,
    station_exits: Vec<StationExit>,
) -> Result<PathReport> {
    let variant = &trial.variant;
    let mut path = PathCounts::new(variant);
    for (place, counts) in ended {
        path.add(place, counts?);
    }
    let client = client?;
    let connections_opened = client.own.as_ref().map(|own| own.connections_opened);
    let gaps = client.own.as_ref().and_then(|own| gap_figures(&own.gaps));
    if let Some(own) = client.own {
        path.add(0, StationCounts::of_client(own));
    }
    let versions: BTreeMap<usize, &str> = programs.versions().collect();
    let mut processors = programs.processors();
    if client.version.is_some() {
        processors.insert(0, client.processors);
    }
    let pinning_faults = processors
        .iter()
        .filter_map(|(&place, found)| programs.pinning_fault(place, found));
    let faults = (station_exits.iter().map(exits::fault))
        .chain(client.fault)
        .chain(pinning_faults);
    let faults: Vec<String> = faults.collect();
    let mut station = |(place, station): (usize, &Station)| StationRecord {
        name: station.name.clone(),
        version: match place {
            0 => client.version.clone(),
            _ => versions.get(&place).map(|&version| version.to_owned()),
        },
        processors: processors.remove(&place).unwrap_or_default(),
    };
    Ok(PathReport {
        load_start: client.load_start,
        load_end: client.load_end,
        requests: client.requests,
        connections_opened,
        pages: client.pages,
        gaps,
        client_spin: client.spin.time,
        stations: variant
            .stations
            .iter()
            .enumerate()
            .map(&mut station)
            .collect(),
        hops: path.hops,
        congestion_controls: path.congestion_controls,
        scheduling: worst_scheduling(path.schedulings.into_iter()),
        machine_errors: path.machine_errors,
        // `run` adds it.
        other_programs: None,
        station_exits,
        faults,
    })
}

/// The figures of all gaps; `None` if there were none.
fn gap_figures(gaps: &DurationHistogram) -> Option<GapFigures> {
    let whole = gaps.lateness();
    (whole.count > 0).then(|| GapFigures {
        count: whole.count,
        mean: gaps.mean(),
        p25: gaps.quantile(0.25),
        p50: whole.p50,
        p75: gaps.quantile(0.75),
        p90: gaps.quantile(0.9),
        p95: gaps.quantile(0.95),
        p99: whole.p99,
        p999: whole.p999,
        max: whole.max,
    })
}
