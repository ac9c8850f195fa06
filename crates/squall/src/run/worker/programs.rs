//! Third-party programs on a trial's path: what squall-peers is asked to start, and how the programs are supervised.
//!
//! A program that ends before the load does invalidates the trial: `early_exits` reports it, and the client is stopped.
//! `exits` says how such an end is recorded.

use std::collections::BTreeMap;
use std::io::ErrorKind;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use anyhow::{Context, Result};
use squall_base::plan::{self, Hop, Implementation, LoadKind, Protocol, Trial, Variant};
use squall_base::record::{PageRecord, Phase, RequestRecord, StationExit, StationRecord};
use squall_http::tls;
use squall_linux::clock;
use squall_linux::program::ProgramExit;
use squall_linux::scheduling::usable_processors;
use squall_peers::client::{Client, ClientError, ClientReport};
use squall_peers::{
    Certificate, ExitReport, FindError, InstalledProgram, Order, RunningStation, Station, Version,
};
use squall_record::{append_private, create_private_folder, write_json, write_private};

use super::assignment::Assignment;
use super::browser;
use super::exits::station_exit;
use super::place::{Hosts, SERVER_NAME, address_of};
use crate::run::programs::{self, ClientSetup, Program, StationSetup};

/// How long a program may take until it accepts connections.
const READY_WITHIN: Duration = Duration::from_secs(20);
/// How much longer than its load a load generator may run.
const CLIENT_GRACE: Duration = Duration::from_secs(30);

/// The running programs of a trial, and where their files are.
pub(super) struct Programs<'t> {
    trial: &'t Trial,
    assignment: &'t Assignment,
    hosts: &'t Hosts,
    folder: PathBuf,
    /// The origin of the trial's times.
    epoch: squall_base::Time,
    certificate: Option<Certificate>,
    /// The fingerprint of the certificate's key.
    pin: Option<String>,
    /// The processor that each pinned program is bound to, by place; the others may run on all.
    processors: BTreeMap<usize, usize>,
    running: Vec<StartedProgram>,
    /// How the load generator ended, if it failed.
    client_exit: Option<StationExit>,
}

impl<'t> Programs<'t> {
    /// Starts nothing yet. Files of programs, certificates among them, go below `folder`. The trial's times count from
    /// `epoch`.
    pub(super) fn new(
        assignment: &'t Assignment,
        hosts: &'t Hosts,
        folder: &Path,
        epoch: squall_base::Time,
        identity: Option<&tls::Identity>,
    ) -> Result<Programs<'t>> {
        let trial = &assignment.trial;
        // Programs run with their own working directories, so the path must be absolute.
        let folder = std::path::absolute(folder)
            .with_context(|| format!("cannot find {}", folder.display()))?;
        let has_any = trial
            .variant
            .stations
            .iter()
            .any(|it| it.runs != Implementation::Embedded);
        let certificate = match identity.filter(|_| has_any) {
            Some(identity) => Some(write_certificate(&folder, identity)?),
            None => None,
        };
        Ok(Programs {
            trial,
            assignment,
            hosts,
            folder,
            epoch,
            certificate,
            pin: identity.map(tls::Identity::fingerprint).transpose()?,
            processors: processors(&trial.variant, &usable_processors()?),
            running: Vec::new(),
            client_exit: None,
        })
    }

    /// Starts the program at that place. It accepts connections when this returns. A program that is not ready in time, or
    /// has ended, is kept among the started ones.
    pub(super) fn start(&mut self, place: usize, installed: &StationProgram) -> Result<()> {
        let StationProgram { program, found } = installed;
        let station = &self.trial.variant.stations[place];
        let version = found.version.to_string();
        let order = self.order(place);
        make_stations_folder(&self.folder)?;
        if let Some(path) = &order.key_log {
            create_key_log(path)?;
        }
        let host = self.hosts.of(&self.trial.variant, place);
        let pinned_to = self.processors.get(&place).copied();
        let running = Station::new(program.driver(), found, order)
            .with_context(|| format!("station {}", station.name))?
            .pinned(pinned_to.into_iter().collect())
            .start(Some(host))?;
        let ready = running.wait_ready(Some(host), Instant::now() + READY_WITHIN);
        self.running.push(StartedProgram {
            place,
            running,
            file: found.path.clone(),
            version,
            processors: Vec::new(),
        });
        ready?;
        Ok(())
    }

    fn order(&self, place: usize) -> Order {
        let Trial {
            variant, response, ..
        } = self.trial;
        let next = variant.hops.get(place);
        let setup = StationSetup {
            listen: address_of(variant, place).into(),
            upstream: next.map(|_| address_of(variant, place + 1).into()),
            server_name: SERVER_NAME.to_owned(),
            certificate: self.certificate.clone(),
            folder: self.folder_of(place),
            key_log: key_log_of(self.trial, place, &self.folder),
        };
        let answers = (response, self.assignment.requests.as_slice());
        programs::station_order(variant, place, answers, setup)
    }

    fn folder_of(&self, place: usize) -> PathBuf {
        folder_of(self.trial, place, &self.folder)
    }

    pub(super) fn is_empty(&self) -> bool {
        self.running.is_empty()
    }

    /// The ends of programs that ended by themselves: of servers and proxies at any time, of a load generator if it failed.
    pub(super) fn early_exits(&self) -> Vec<StationExit> {
        let early_exit = |started: &StartedProgram| {
            let exit = started.running.has_ended()?;
            Some(self.station_exit(started.place, &started.file, exit))
        };
        let ended = self.running.iter().filter_map(early_exit);
        self.client_exit.iter().cloned().chain(ended).collect()
    }

    fn station_exit(&self, place: usize, program: &Path, exit: ExitReport) -> StationExit {
        station_exit(self.trial, place, program, exit, self.epoch)
    }

    /// Keeps these ends in `exits.json`: a trial that fails has no other record of them.
    pub(super) fn write_exits(&self, exits: &[StationExit]) -> Result<()> {
        if !exits.is_empty() {
            write_json(self.folder.join("exits.json"), &exits)?;
        }
        Ok(())
    }

    /// The versions of the started programs, by place.
    pub(super) fn versions(&self) -> impl Iterator<Item = (usize, &str)> {
        let started = self.running.iter();
        started.map(|program| (program.place, program.version.as_str()))
    }

    /// Ends the program at that place. If it is pinned, first reads which processors it could run on.
    pub(super) fn end(&mut self, place: usize) {
        let is_pinned = self.processors.contains_key(&place);
        for program in self.running.iter_mut().filter(|it| it.place == place) {
            if is_pinned {
                program.processors = program.running.processors().unwrap_or_default();
            }
            program.running.stop();
        }
    }

    /// The processors that pinned programs could run on at their end, as the kernel reports, by place.
    pub(super) fn processors(&self) -> BTreeMap<usize, Vec<usize>> {
        let started = self.running.iter();
        started
            .map(|program| (program.place, program.processors.clone()))
            .collect()
    }

    /// The fault to report if the pinned program at that place could run on `found`.
    pub(super) fn pinning_fault(&self, place: usize, found: &[usize]) -> Option<String> {
        let asked = self.processors.get(&place)?;
        let name = &self.trial.variant.stations[place].name;
        let numbers: Vec<String> = found.iter().map(usize::to_string).collect();
        match found {
            [only] if only == asked => None,
            [] => Some(format!(
                "station {place}, {name}, was pinned to processor {asked}, and /proc does not show where it could run"
            )),
            _ => Some(format!(
                "station {place}, {name}, was pinned to processor {asked}, but could run on {}: it chooses its processors \
                 itself",
                numbers.join(", ")
            )),
        }
    }

    /// Runs a load generator as the path's client. The times of its rows are those of CLOCK_MONOTONIC.
    pub(super) fn run_client(
        &mut self,
        installed: &StationProgram,
        rows: impl FnOnce(squall_base::Time, Vec<RequestRecord>),
    ) -> Result<ClientRun> {
        let trial = self.trial;
        let StationProgram { program, found } = installed;
        let length = trial.load.warmup + trial.load.duration;
        let order = programs::client_order(
            &trial.variant,
            &trial.load,
            &self.assignment.requests,
            ClientSetup {
                target: address_of(&trial.variant, 1).into(),
                server_name: SERVER_NAME.to_owned(),
                trust: self.certificate.as_ref().map(|it| it.chain.clone()),
                pin: self.pin.clone(),
                folder: self.folder_of(0),
            },
        )?;
        let pinned_to = self.processors.get(&0);
        make_stations_folder(&self.folder)?;
        let client = Client::new(program.client()?, found, order)?
            .pinned(pinned_to.copied().into_iter().collect());
        let run = client.start(Some(self.hosts.client()))?;
        let processors = match pinned_to {
            Some(_) => run.processors().unwrap_or_default(),
            None => Vec::new(),
        };
        let longest = Duration::from_nanos((length + trial.load.drain).as_nanos());
        let finished = run.finish(Instant::now() + longest + CLIENT_GRACE);
        self.client_exit = failed_exit(&finished)
            .cloned()
            .map(|exit| self.station_exit(0, &found.path, exit));
        let finished = finished?;
        let requests_of_a_page = match trial.load.kind {
            LoadKind::Pages { .. } => Some(self.assignment.requests.len() as u64),
            _ => None,
        };
        Ok(ClientRun::new(
            finished,
            trial.load.warmup,
            requests_of_a_page,
            found.version.to_string(),
            processors,
            rows,
        ))
    }
}

/// A server or proxy that was started.
struct StartedProgram {
    place: usize,
    running: RunningStation,
    /// The program's file.
    file: PathBuf,
    version: String,
    /// For a pinned program: the processors it could run on when it ended.
    processors: Vec<usize>,
}

/// The exit report of a load generator that ended with another code than 0.
fn failed_exit(finished: &Result<ClientReport, ClientError>) -> Option<&ExitReport> {
    let exit = match finished {
        Ok(report) => &report.exit,
        Err(ClientError::Conversation { exit, .. } | ClientError::Rows { exit, .. }) => exit,
        Err(ClientError::TooLong { .. }) => return None,
    };
    (exit.status != Some(ProgramExit::Code(0))).then_some(exit)
}

/// The processor of each pinned program, by place: assigned from the last usable one downwards, then starting over at the
/// last. The first is left to the link and to our own stations, unless it is the only one.
fn processors(variant: &Variant, usable: &[usize]) -> BTreeMap<usize, usize> {
    let choice = match usable {
        [_, others @ ..] if !others.is_empty() => others,
        all => all,
    };
    let stations = variant.stations.iter().enumerate();
    let pinned = stations.filter(|(_, station)| station.asked.is_pinned);
    pinned
        .map(|(place, _)| place)
        .zip(choice.iter().rev().copied().cycle())
        .collect()
}

/// The result of a load generator's run.
pub(super) struct ClientRun {
    pub(super) version: String,
    /// For a pinned program: the processors it could run on.
    pub(super) processors: Vec<usize>,
    pub(super) requests: u64,
    /// When its first request was due.
    pub(super) start: squall_base::Time,
    /// When its last one ended.
    pub(super) end: squall_base::Time,
    /// The outcome of a browser's pages.
    pub(super) pages: Option<PageRecord>,
    pub(super) fault: Option<String>,
}

impl ClientRun {
    fn new(
        finished: ClientReport,
        warmup: squall_base::Duration,
        requests_of_a_page: Option<u64>,
        version: String,
        processors: Vec<usize>,
        rows: impl FnOnce(squall_base::Time, Vec<RequestRecord>),
    ) -> ClientRun {
        let (now, unix) = (clock::now(), clock::unix_nanos());
        // Wall-clock time at the monotonic clock's origin.
        let origin = squall_base::Time::from_nanos(unix.saturating_sub(now.as_nanos()));
        let mut all = finished.rows;
        all.iter_mut().for_each(|row| row.count_from(origin));
        let start = all.iter().map(|row| row.intended).min().unwrap_or(now);
        let end = all.iter().map(|row| row.end).max().unwrap_or(now);
        // Load generators do not mark warm-up requests.
        for row in all.iter_mut().filter(|row| row.intended < start + warmup) {
            row.phase = Phase::Warmup;
        }
        let pages = requests_of_a_page
            .map(|count| browser::pages(&finished.readout.pages, &mut all, count));
        let told = all.len() as u64;
        let requests = finished.expected_requests.unwrap_or(told);
        let failed = finished.exit.status != Some(ProgramExit::Code(0));
        let fault = if failed {
            // `early_exits` reports it.
            None
        } else if let Some(page) = finished
            .readout
            .pages
            .iter()
            .find(|page| page.error.is_some())
        {
            let error = page.error.as_deref().unwrap_or_default();
            Some(format!("page {} could not be loaded: {error}", page.page))
        } else if told < requests {
            Some(format!(
                "the load generator reports {told} requests, but should have sent {requests}"
            ))
        } else {
            None
        };
        rows(start, all);
        ClientRun {
            version,
            processors,
            requests,
            start,
            end,
            pages,
            fault,
        }
    }
}

/// Creates the folder of all stations if it is missing. Only the owner may enter it: programs choose the modes of their own
/// files, and write secrets of requests into them, such as those in URLs.
fn make_stations_folder(folder: &Path) -> Result<()> {
    match create_private_folder(folder) {
        Err(error) if error.kind() == ErrorKind::AlreadyExists => Ok(()),
        made => made.with_context(|| format!("cannot make {}", folder.display())),
    }
}

fn write_certificate(folder: &Path, identity: &tls::Identity) -> Result<Certificate> {
    let [chain, key] = ["certificate.pem", "key.pem"].map(|name| folder.join(name));
    make_stations_folder(folder)?;
    let unwritten = |path: &Path| format!("cannot write {}", path.display());
    std::fs::write(&chain, identity.chain_pem()?).with_context(|| unwritten(&chain))?;
    write_private(&key, &identity.key_pem()?).with_context(|| unwritten(&key))?;
    Ok(Certificate { chain, key })
}

/// Creates the file that a program will append its TLS secrets to: a program would create it readable for everyone.
fn create_key_log(path: &Path) -> Result<()> {
    if let Some(folder) = path.parent() {
        std::fs::create_dir_all(folder)
            .with_context(|| format!("cannot make {}", folder.display()))?;
    }
    append_private(path).with_context(|| format!("cannot write {}", path.display()))?;
    Ok(())
}

/// The folder of a program's files, below the folder of all stations.
fn folder_of(trial: &Trial, place: usize, stations: &Path) -> PathBuf {
    let name = programs::folder_name(&trial.variant.stations[place].name);
    stations.join(format!("{place}-{name}"))
}

/// Where the program at that place writes its TLS secrets, if it has any and can log them. Envoy logs those of both
/// sides, but for HTTP/3 only those of its clients; Caddy logs those of its clients.
fn key_log_of(trial: &Trial, place: usize, stations: &Path) -> Option<PathBuf> {
    let Implementation::Program { program } = &trial.variant.stations[place].runs else {
        return None;
    };
    let hops = &trial.variant.hops;
    let front = place.checked_sub(1).and_then(|before| hops.get(before));
    let is_front_secure = front.is_some_and(|hop| hop.protocol.is_secure());
    let is_back_over_tcp = |hop: &Hop| matches!(hop.protocol, Protocol::H1s | Protocol::H2);
    let writes = match program.as_str() {
        "envoy" => is_front_secure || hops.get(place).is_some_and(is_back_over_tcp),
        "caddy" => is_front_secure,
        _ => false,
    };
    writes.then(|| folder_of(trial, place, stations).join("tls-keys.log"))
}

/// The files that programs of a trial write their TLS secrets to.
pub(super) fn key_logs(trial: &Trial, stations: &Path) -> Vec<PathBuf> {
    let places = 0..trial.variant.stations.len();
    places
        .filter_map(|place| key_log_of(trial, place, stations))
        .collect()
}

/// The program that runs as a station, as it is installed on this machine.
pub(super) struct StationProgram {
    program: Program,
    found: InstalledProgram,
}

/// The program of each place; `None` for our own stations. Finding a program's version runs it, so call this before the
/// trial's first station starts. A program that reports no version now is configured for the one it reported before the run.
pub(super) fn station_programs(assignment: &Assignment) -> Result<Vec<Option<StationProgram>>> {
    let stations = assignment.trial.variant.stations.iter();
    let installed = |station: &plan::Station| -> Result<Option<StationProgram>> {
        let Some(program) = programs::program_of(&station.name, &station.runs)? else {
            return Ok(None);
        };
        let found = match program.found() {
            Err(FindError::Broken { path, .. }) => InstalledProgram {
                path,
                version: unreported_version(&assignment.versions, &station.runs),
            },
            found => found?,
        };
        Ok(Some(StationProgram { program, found }))
    };
    stations
        .map(|station| installed(station).with_context(|| format!("station {}", station.name)))
        .collect()
}

/// What is recorded as the version of a program that does not report it. Its numbers, which decide how the program is
/// configured, are those that the program reported before the run: `versions`, by program.
fn unreported_version(versions: &BTreeMap<String, [u32; 3]>, runs: &Implementation) -> Version {
    let before = match runs {
        Implementation::Program { program } => versions.get(program),
        Implementation::Embedded | Implementation::Own(_) => None,
    };
    Version {
        text: StationRecord::UNKNOWN_VERSION.to_owned(),
        numbers: before.copied().unwrap_or_default(),
    }
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt;

    use squall_recipe::{NoFiles, StationMode, parse_with};

    use super::*;
    use crate::environment::certificate_validity;

    #[test]
    fn only_the_owner_may_read_the_key_and_what_programs_write() {
        let folder = tempfile::tempdir().unwrap();
        let identity = tls::Identity::self_signed(&["server"], certificate_validity()).unwrap();
        let stations = folder.path().join("stations");
        let written = write_certificate(&stations, &identity).unwrap();
        let key_log = stations.join("1-envoy/tls-keys.log");
        create_key_log(&key_log).unwrap();
        for (path, expected) in [(written.key, 0o600), (key_log, 0o600), (stations, 0o700)] {
            let found = std::fs::metadata(&path).unwrap();
            let mode = found.permissions().mode();
            assert_eq!(mode & 0o777, expected, "{}", path.display());
        }
    }

    #[test]
    fn program_that_reports_no_version_is_configured_for_the_one_before_the_run() {
        let versions = BTreeMap::from([("nginx".to_owned(), [1, 29, 4])]);
        let numbers = |program: &str| {
            let program = program.to_owned();
            let version = unreported_version(&versions, &Implementation::Program { program });
            assert_eq!(version.to_string(), "unknown");
            version.numbers
        };
        assert_eq!(numbers("nginx"), [1, 29, 4]);
        assert_eq!(numbers("envoy"), [0, 0, 0], "no version was ever reported");
    }

    #[test]
    fn last_processors_are_assigned_first_and_the_first_is_spared() {
        let text = "name = \"x\"\nquestion = \"?\"\nload = { rate = \"1/s\", duration = \"1s\" }\n[[variant]]\n\
                    name = \"v\"\npath = \"client -h1-> envoy ~h1~> haproxy -h1-> nginx\"\npinned = true\n";
        let recipe = parse_with(text, StationMode::Real, &NoFiles).unwrap();
        let given = |usable: &[usize]| {
            let given = processors(&recipe.variants()[0], usable);
            given.into_iter().collect::<Vec<_>>()
        };
        assert_eq!(given(&[0, 1, 2, 7]), [(1, 7), (2, 2), (3, 1)]);
        assert_eq!(given(&[0, 1, 2]), [(1, 2), (2, 1), (3, 2)]);
        assert_eq!(given(&[0, 1]), [(1, 1), (2, 1), (3, 1)]);
        assert_eq!(given(&[5]), [(1, 5), (2, 5), (3, 5)]);
    }
}
