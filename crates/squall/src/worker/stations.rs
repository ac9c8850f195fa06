//! The stations of a trial at work: started from the far end, so that each finds the next one listening; ended from the
//! near end, so that nobody is cut off who still answers.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;
use std::sync::mpsc;
use std::thread::{self, Scope, ScopedJoinHandle};

use anyhow::{Context, Result, anyhow};
use squall_base::plan::{Hop, LoadKind, Runs, Side, Station, Trial, Variant};
use squall_base::record::{HopRecord, PageRecord, SideCounts, StationRecord};
use squall_base::{Duration, Time};
use squall_linux::clock;
use squall_linux::link_thread::LinkBeginning;
use squall_linux::scheduling::Scheduling;
use squall_linux::stop::StopSignal;
use squall_stations::client::{Client, ClientReport, ClientSinks, Spin, StartLine};
use squall_stations::proxy::{Proxy, ProxyReport};
use squall_stations::rows::ROWS_A_CHUNK;
use squall_stations::server::{Server, ServerReport};

use super::Assignment;
use super::collect::StationSinks;
use super::embedded::Embedded;
use super::observe::{Found, Observers};
use super::place::{self, Hosts};
use super::programs::{self, Present, Programs};
use crate::pages;

/// What the stations found.
pub(super) struct PathReport {
    pub(super) load_start: Time,
    /// When the load was over.
    pub(super) load_end: Time,
    /// Requests of the schedule.
    pub(super) requests: u64,
    /// Those of our own client.
    pub(super) connections_opened: Option<u32>,
    /// Of a load of pages, what became of them.
    pub(super) pages: Option<PageRecord>,
    pub(super) hops: Vec<HopRecord>,
    pub(super) stations: Vec<StationRecord>,
    /// Congestion control of the sockets on both sides of the link, as the kernel says.
    pub(super) congestion_controls: [BTreeSet<String>; 2],
    /// The worst of our own threads'.
    pub(super) scheduling: Scheduling,
    /// Connections that this machine could not even begin, by what the kernel said.
    pub(super) machine_errors: BTreeMap<String, u64>,
    /// How long before a request is due our own client stops sleeping.
    pub(super) client_spin: Duration,
    /// What programs failed to do.
    pub(super) faults: Vec<String>,
}

impl PathReport {
    /// Adds what was found out about programs from outside.
    pub(super) fn add(&mut self, found: Found) {
        match found {
            Found::Nothing => {}
            Found::Packets((hop, counts)) => {
                let of_hop = self.hops.iter_mut().filter(|record| record.hop == hop);
                of_hop.for_each(|record| record.wire = Some(counts.clone()));
            }
            Found::LinkSockets(used) => {
                for (all, more) in self.congestion_controls.iter_mut().zip(used) {
                    all.extend(more);
                }
            }
        }
    }
}

/// How often programs are looked after while the client runs.
const LOOK_EVERY: std::time::Duration = std::time::Duration::from_millis(20);

/// From the client being ready to its first request, where it would be late for it otherwise.
const START_AFTER: Duration = Duration::from_millis(10);

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
    assignment: &Assignment,
    hosts: &Hosts,
    folder: &Path,
    sinks: &StationSinks,
    observers: &mut Observers,
    link: &LinkBeginning,
    failed: &StopSignal,
) -> Result<PathReport> {
    let trial = &assignment.trial;
    let variant = &trial.variant;
    let (number, across) = variant.link_hop();
    let near = usize::from(number) - 1;
    for (host, settings, station) in [
        (&hosts.near, &across.client.tcp, near),
        (&hosts.far, &across.server.tcp, near + 1),
    ] {
        host.configure_tcp(settings)?;
        if variant.stations[station].runs != Runs::Embedded {
            host.configure_program_buffers(settings)?;
        }
    }
    let embedded = Embedded {
        trial,
        assignment,
        identity: place::identity(variant)?,
    };
    let present = programs::of(trial)?;
    let mut programs = Programs::new(assignment, hosts, folder, embedded.identity.as_ref())?;
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
                match &present[place] {
                    Some(program) => programs.start(place, program)?,
                    None => running.push(starting.start(place)?),
                }
                observers.watch_hop(place, hosts.of(variant, place))?;
            }
            Ok(())
        };
        let started = start_all();
        let client = started.and_then(|()| match &present[0] {
            Some(program) => run_program(&programs, program, sinks, link),
            None => run_client(&embedded, hosts, (sinks, link), &programs, failed),
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
    /// Starts our own station of that place. When this returns it listens, and a proxy has opened the connections that it
    /// opens in advance: a SYN that the link loses delays the load's start, not its first requests.
    fn start(&self, place: usize) -> Result<Running<'s>> {
        let variant = &self.embedded.trial.variant;
        let host = self.hosts.of(variant, place);
        let front = self.sinks.log(place, Side::Server);
        let (stop, failed) = (StopSignal::new()?, self.failed.clone());
        let (ready, is_ready) = mpsc::channel::<()>();
        let (name, work): (_, Work) = if place + 1 < variant.stations.len() {
            let back = self.sinks.log(place + 1, Side::Client);
            let settings = self.embedded.proxy(place, front, back)?;
            let proxy = host.run(|| Ok(Proxy::listen(settings, stop.clone())))??;
            let work = move || {
                // Its connections to the next station are opened from here.
                let report = failed.guard(|| proxy.run_and_tell(|| drop(ready)));
                let report = report.context("a proxy failed")?;
                Ok(Counted::of_proxy(report))
            };
            ("squall-proxy", Box::new(work))
        } else {
            let settings = self.embedded.server(front)?;
            let server = host.run(|| Ok(Server::listen(settings, stop.clone())))??;
            drop(ready);
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
        // Nothing is ever sent: the wait ends when the sender is gone, also if the station failed.
        let _ = is_ready.recv();
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
    fn of_client(report: ClientReport) -> Counted {
        Counted {
            back: Some(SideReport {
                counts: report.counts,
                congestion_controls: report.congestion_controls,
            }),
            scheduling: Some(report.scheduling),
            machine_errors: report.machine_errors,
            ..Counted::default()
        }
    }

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
    load_end: Time,
    requests: u64,
    /// Of our own client.
    own: Option<ClientReport>,
    pages: Option<PageRecord>,
    spin: Spin,
    /// Of a load generator: its version, where it could run if it was held, and what is wrong with its load.
    version: Option<String>,
    processors: Vec<usize>,
    fault: Option<String>,
}

/// Runs a load generator. The link's times begin with its process, because when its load begins is known only afterwards.
fn run_program(
    programs: &Programs<'_>,
    program: &Present,
    sinks: &StationSinks,
    link: &LinkBeginning,
) -> Result<Driven> {
    // Ahead of that time, as for our own client, so that the link's thread has heard of it.
    link.set(clock::now() + START_AFTER);
    thread::sleep(START_AFTER.into());
    let run = programs.run_client(program, |start, rows| {
        sinks.start.set(start);
        for chunk in rows.chunks(ROWS_A_CHUNK) {
            sinks.requests.send(&mut chunk.to_vec());
        }
    })?;
    Ok(Driven {
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

/// Runs the load, on a thread of its own in the near host. Programs that end meanwhile end it too.
fn run_client(
    embedded: &Embedded<'_>,
    hosts: &Hosts,
    (sinks, link): (&StationSinks, &LinkBeginning),
    programs: &Programs<'_>,
    failed: &StopSignal,
) -> Result<Driven> {
    let (settings, uploads) = embedded.client()?;
    let spin = settings.spin;
    let (pages_sender, pages) = mpsc::channel();
    let mut places = StartLine::places(2);
    let own_place = places.pop().context("a place was made for this thread")?;
    let start = sinks.start.clone();
    let sinks = ClientSinks {
        log: sinks.log(1, Side::Client),
        start_line: places.pop(),
        pages: Some(pages_sender),
        ..ClientSinks::new(sinks.requests.clone())
    };
    let enough = StopSignal::new()?;
    let stop = enough.clone();
    let work = || {
        hosts.near.enter()?;
        Client::new(settings, sinks, failed.clone(), stop)?
            .with_uploads(uploads)
            .run()
    };
    let report = thread::scope(|scope| {
        let thread = thread::Builder::new()
            .name("squall-client".to_owned())
            .spawn_scoped(scope, work)
            .context("cannot start the client's thread")?;
        // A client that fails before leaves the line.
        let at = own_place.wait(|| clock::now() + START_AFTER);
        start.set(at);
        link.set(at);
        while !programs.is_empty() && !thread.is_finished() {
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

/// What is gathered of the stations, side by side.
struct Gathered {
    link_hop: u8,
    hops: Vec<HopRecord>,
    congestion_controls: [BTreeSet<String>; 2],
    schedulings: Vec<Scheduling>,
    machine_errors: BTreeMap<String, u64>,
}

impl Gathered {
    fn new(variant: &Variant) -> Gathered {
        let hop = |(hop, of): (u8, &Hop)| HopRecord {
            hop,
            protocol: of.protocol,
            client: None,
            server: None,
            wire: None,
        };
        Gathered {
            link_hop: variant.link_hop().0,
            hops: (1..).zip(&variant.hops).map(hop).collect(),
            congestion_controls: [BTreeSet::new(), BTreeSet::new()],
            schedulings: Vec::new(),
            machine_errors: BTreeMap::new(),
        }
    }

    /// Adds one of our own stations: the server of the hop before it, the client of the hop behind it.
    fn add(&mut self, place: usize, counted: Counted) {
        self.schedulings.extend(counted.scheduling);
        self.machine_errors.extend(counted.machine_errors);
        let fronts = place
            .checked_sub(1)
            .and_then(|before| self.hops.get_mut(before));
        if let Some((front, hop)) = counted.front.zip(fronts) {
            if hop.hop == self.link_hop {
                self.congestion_controls[1] = front.congestion_controls;
            }
            hop.server = Some(front.counts);
        }
        if let Some((back, hop)) = counted.back.zip(self.hops.get_mut(place)) {
            if hop.hop == self.link_hop {
                self.congestion_controls[0] = back.congestion_controls;
            }
            hop.client = Some(back.counts);
        }
    }
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
    let mut gathered = Gathered::new(variant);
    for (place, counted) in ended {
        gathered.add(place, counted?);
    }
    let client = client?;
    let connections_opened = client.own.as_ref().map(|own| own.connections_opened);
    if let Some(own) = client.own {
        gathered.add(0, Counted::of_client(own));
    }
    let is_fifo = |&it: &Scheduling| it == Scheduling::Fifo;
    let scheduling = match gathered.schedulings.iter().all(is_fifo) {
        true => Scheduling::Fifo,
        false => Scheduling::Other,
    };
    let versions: BTreeMap<usize, &str> = programs.versions().collect();
    let mut processors = programs.processors();
    if client.version.is_some() {
        processors.insert(0, client.processors);
    }
    let strayed = processors
        .iter()
        .filter_map(|(&place, found)| programs.strayed(place, found));
    let faults = lost.into_iter().chain(client.fault).chain(strayed);
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
        client_spin: client.spin.time,
        stations: variant
            .stations
            .iter()
            .enumerate()
            .map(&mut station)
            .collect(),
        hops: gathered.hops,
        congestion_controls: gathered.congestion_controls,
        scheduling,
        machine_errors: gathered.machine_errors,
        faults,
    })
}
