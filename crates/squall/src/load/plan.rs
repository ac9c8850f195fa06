//! Turns flags into a load: targets, requests, schedule and connections.
//!
//! Conflicts between flags are found here, before anything is sent.

use std::collections::BTreeMap;
use std::num::NonZeroU32;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use anyhow::Result;
use squall_base::Duration;
use squall_base::plan::{
    ClosedLoad, Connections, Mix, OpenLoad, Page, PageLoad, PoolOrder, PoolSettings, Protocol,
    Rounds, Script, ScriptBody, ScriptLoad, ScriptRequest, SideSettings, Spacing, Stage, Stages,
    Urgency, Version, Warmup, Workload, browser_connections,
};
use squall_http::{Body, MessageError, Scheme};
use squall_stations::client::{Target, TargetedRequest, Upload};

use super::arguments::Arguments;
use super::words::{Http, check_rate};
use crate::client::numbers::MAX_AT_ONCE;
use crate::client::{
    AddressBook, HttpUrl, Payload, PreparedRequest, ProtocolChoice, TlsCredentials, check_upload,
};
use crate::outcome::BadInput;
use crate::recordings::{self, read_page};
use crate::script_hosts::{self, HostChoice, RoutedScript};

/// The method and URL of each request of a load.
pub(super) type RequestNames = &'static [(String, String)];

/// One variant of a load, ready to run.
pub(super) struct Plan {
    pub(super) protocol: Protocol,
    pub(super) is_strict: bool,
    pub(super) side: SideSettings,
    pub(super) targets: Vec<Target>,
    pub(super) target_urls: Vec<HttpUrl>,
    pub(super) requests: Vec<TargetedRequest>,
    /// The source of each request's body, if it is not in memory.
    pub(super) uploads: Vec<Option<Arc<Upload>>>,
    /// The method and URL of each request.
    pub(super) names: Vec<(String, String)>,
    pub(super) workload: Workload,
    pub(super) connections: Connections,
    pub(super) pool: PoolSettings,
    pub(super) pool_per_user: bool,
    pub(super) threads: u32,
    /// Which requests of a script cannot be sent, in a line.
    pub(super) left_out: Option<String>,
}

/// What the user asked for: the arguments, which have been checked, and the files that are read once for all plans.
#[derive(Clone, Copy)]
pub(super) struct PlanInputs<'a> {
    pub(super) arguments: &'a Arguments,
    /// The requests of `--targets`.
    pub(super) targets: &'a [ScriptRequest],
    /// `--script`, after `script_hosts::route`.
    pub(super) script: Option<&'a Script>,
}

/// The requests and targets of a load, while they are collected.
struct PlanBuilder<'a> {
    arguments: &'a Arguments,
    http: Option<Http>,
    choice: ProtocolChoice,
    side: SideSettings,
    base: Option<HttpUrl>,
    address_book: &'a mut AddressBook,
    target_urls: Vec<HttpUrl>,
    targets: Vec<Target>,
    requests: Vec<TargetedRequest>,
    uploads: Vec<Option<Arc<Upload>>>,
    files: BTreeMap<PathBuf, Payload>,
    names: Vec<(String, String)>,
    left_out: Option<String>,
}

impl Plan {
    /// The plan for one version of HTTP; `address_book` chooses the addresses.
    pub(super) fn new(
        asked: PlanInputs<'_>,
        http: Option<Http>,
        address_book: &mut AddressBook,
    ) -> Result<Plan> {
        let PlanInputs {
            arguments,
            targets: described,
            script,
        } = asked;
        let first = match (arguments.urls.first(), script, described.first()) {
            (Some(url), ..) => HttpUrl::parse(url)?,
            (None, Some(script), _) if !script.requests.is_empty() => {
                HttpUrl::parse(&script.requests[0].url)?
            }
            (None, _, Some(request)) => HttpUrl::parse(&request.url)?,
            _ => return Err(BadInput::new("nothing to request: give a URL").into()),
        };
        let schemes = schemes(first.scheme, script);
        let scheme = schemes.first().copied().unwrap_or(first.scheme);
        let choice = arguments.connection.protocol(http, scheme)?;
        let mut possible = Vec::new();
        for scheme in schemes {
            let wanted = &arguments.comparison.http;
            possible.extend(arguments.connection.possible_protocols(wanted, scheme)?);
        }
        let windows = windows(arguments, &possible)?;
        let side = (arguments.connection).settings_with(choice.protocol, &possible, &windows)?;
        let mut builder = PlanBuilder {
            arguments,
            http,
            choice,
            side,
            base: arguments.urls.first().map(|_| first),
            address_book,
            target_urls: Vec::new(),
            targets: Vec::new(),
            requests: Vec::new(),
            uploads: Vec::new(),
            files: BTreeMap::new(),
            names: Vec::new(),
            left_out: None,
        };
        let warm = builder.warm()?;
        let workload = match script {
            Some(script) => builder.script(script)?,
            None => builder.workload(described)?,
        };
        Ok(builder.into_plan(workload, warm))
    }
}

/// Reports flags that contradict each other, or that would have no effect.
pub(super) fn check(arguments: &Arguments) -> Result<(), BadInput> {
    check_effects(arguments)?;
    let outputs = &arguments.outputs;
    let printed = [("--json -", outputs.json.as_deref() == Some("-"))];
    outputs.exports.check_beside_markdown(&printed)?;
    let (amount, shape) = (&arguments.amount, &arguments.shape);
    let said = if shape.rate.is_some() && amount.duration.is_none() && amount.requests.is_none() {
        "--rate needs to know for how long: give -D TIME or -n COUNT"
    } else if amount.warm_up_time.is_some() && amount.duration.is_none() && shape.stages.is_none() {
        "--warm-up-time is the time before -D: give both"
    } else if !shape.weights.is_empty() && shape.weights.len() != arguments.urls.len() {
        "--weights gives one number for each URL"
    } else if arguments.request.data.as_deref() == Some("-") && arguments.outputs.verbose {
        "-v and -d - do not go together: stdin is read once"
    } else if arguments.request.data.as_deref() == Some("-") && arguments.comparison.http.len() > 1
    {
        "several versions and -d - do not go together: stdin is read once"
    } else if arguments.comparison.http.contains(&Http::Auto) && arguments.comparison.http.len() > 1
    {
        "--http auto chooses one version: give it alone, or the versions to compare"
    } else if arguments.comparison.http.contains(&Http::Auto)
        && arguments.request.data.as_deref() == Some("-")
    {
        "--http auto and -d - do not go together: stdin is read once"
    } else if arguments.request.has_message()
        && (shape.targets.is_some() || shape.script.is_some() || shape.page.is_some())
    {
        "methods and bodies are in the file: -X, -d, -F and the like are for URLs"
    } else if shape.targets.is_some() && !arguments.urls.is_empty() {
        "--targets already names the requests: do not give a URL as well"
    } else {
        return Ok(());
    };
    Err(BadInput::new(said))
}

/// Reports flags that would have no effect together with the others, as far as clap accepts them: it does not enforce
/// `requires` if the required flag conflicts with another one that is given.
fn check_effects(arguments: &Arguments) -> Result<(), BadInput> {
    let (amount, shape) = (&arguments.amount, &arguments.shape);
    let is_open = shape.rate.is_some() || shape.stages.is_some();
    let is_timed = is_open || shape.script.is_some() || amount.duration.is_some();
    let has_paths = shape.script.is_some() || shape.page.is_some();
    let has_one_url = has_paths || shape.tiles.is_some() || shape.hold.is_some();
    let said = if amount.drain.is_some() && !is_timed {
        "--drain follows a load of a given duration, but this one ends with its last response: give -D, or use --give-up \
         instead"
    } else if shape.script.is_none()
        && (shape.speed.is_some() || !shape.hosts.is_empty() || shape.keep_hosts)
    {
        "--speed, --hosts and --keep-hosts apply to a script: give --script"
    } else if shape.tile.is_some() && shape.tiles.is_none() {
        "--tile is the URL of the tiles: say how many with --tiles"
    } else if shape.arrivals.is_some() && !is_open {
        "--arrivals spaces the requests of a rate: give --rate or --stages"
    } else if arguments.comparison.rounds.is_some() && arguments.comparison.http.len() < 2 {
        "--rounds repeats a comparison: give several versions, such as --http 1.1,2"
    } else if has_one_url && arguments.urls.len() > 1 {
        "scripts and pages take one URL: give the others in the script or page"
    } else if shape.random && shape.targets.is_none() && arguments.urls.len() < 2 {
        "--random chooses among several URLs: give them, or --targets"
    } else {
        return Ok(());
    };
    Err(BadInput::new(said))
}

/// The settings that `-w` and `-W` stand for, for every protocol that may be spoken, each with its flag.
fn windows(
    arguments: &Arguments,
    possible: &[Protocol],
) -> Result<Vec<(String, String)>, BadInput> {
    let speaks = |version| {
        possible
            .iter()
            .any(|protocol| protocol.version() == version)
    };
    let tables = [(Version::Http2, "http2"), (Version::Http3, "http3")];
    let mut found = Vec::new();
    for (letter, bits, key) in [
        ("-w", arguments.windows.window_bits, "stream_window"),
        (
            "-W",
            arguments.windows.connection_window_bits,
            "connection_window",
        ),
    ] {
        let Some(bits) = bits else {
            continue;
        };
        let flag = format!("{letter} {bits}");
        let before = found.len();
        for (_, table) in tables.iter().filter(|(version, _)| speaks(*version)) {
            let window_bytes = (1_u64 << bits) - 1;
            found.push((flag.clone(), format!("{table}.{key}={window_bytes}")));
        }
        if found.len() == before {
            return Err(BadInput::new(format!(
                "{flag}: HTTP/1.1 has no windows: expected HTTP/2 or HTTP/3 (--http 2 or --http 3)"
            )));
        }
    }
    Ok(found)
}

/// `--script`, with the hosts that the flags choose. Read once for all plans.
pub(super) fn read_script(arguments: &Arguments) -> Result<Option<RoutedScript>> {
    let shape = &arguments.shape;
    let Some(path) = shape.script.as_deref() else {
        return Ok(None);
    };
    let choice = HostChoice {
        url: arguments.urls.first().map(String::as_str),
        hosts: &shape.hosts,
        keeps_hosts: shape.keep_hosts,
    };
    Ok(Some(script_hosts::route(
        recordings::read_script(path)?,
        choice,
    )?))
}

/// The schemes of a load, https first. A script with both schemes uses the protocol for https, from which the client derives
/// that of requests in cleartext (`ClientSettings::protocol`). All other loads, and paths, have the scheme of the first URL.
fn schemes(first: Scheme, script: Option<&Script>) -> Vec<Scheme> {
    let Some(script) = script else {
        return vec![first];
    };
    let of = |url: &str| match url.split_once("://") {
        Some((scheme, _)) if scheme.eq_ignore_ascii_case("https") => Scheme::Https,
        Some((scheme, _)) if scheme.eq_ignore_ascii_case("http") => Scheme::Http,
        _ => first,
    };
    let has = |scheme| script.requests.iter().any(|it| of(&it.url) == scheme);
    let schemes = [Scheme::Https, Scheme::Http].into_iter();
    schemes.filter(|scheme| has(*scheme)).collect()
}

/// The requests of `--targets`. Read once for all plans, because stdin cannot be read again.
pub(super) fn read_targets(arguments: &Arguments) -> Result<Vec<ScriptRequest>> {
    match &arguments.shape.targets {
        None => Ok(Vec::new()),
        Some(path) => recordings::read_targets(path),
    }
}

impl PlanBuilder<'_> {
    /// Parses a URL. It may be a path on the server of the first URL.
    fn parse_url(&self, text: &str) -> Result<HttpUrl> {
        let mut url = match &self.base {
            Some(base) if text.starts_with('/') => base.with_target(text),
            _ => HttpUrl::parse(text)?,
        };
        url.alternative = self.address_book.alternative(&url.authority).cloned();
        Ok(url)
    }

    fn add(&mut self, method: &str, url: &HttpUrl, prepared: PreparedRequest) -> Result<u32> {
        let PreparedRequest { request, upload } = prepared;
        check_upload(&self.arguments.connection, upload.is_some())?;
        let is_known =
            |known: &HttpUrl| (known.scheme, &known.authority) == (url.scheme, &url.authority);
        let target = match self.target_urls.iter().position(is_known) {
            Some(target) => target,
            None => {
                let flags = &self.arguments.connection;
                let choice = flags.protocol(self.http, url.scheme)?;
                if choice.protocol != self.choice.protocol && self.arguments.shape.script.is_none()
                {
                    let said = "all URLs of a load are http, or all are https: give each scheme a command of its own, or use --script";
                    return Err(BadInput::new(said).into());
                }
                let target =
                    TlsCredentials::target(flags, url, choice, &self.side, self.address_book)?;
                self.targets.push(target);
                self.target_urls.push(url.clone());
                self.target_urls.len() - 1
            }
        };
        self.names.push((method.to_owned(), url.to_text()));
        self.uploads.push(upload);
        self.requests.push(TargetedRequest {
            request,
            target: target as u32,
        });
        Ok(self.requests.len() as u32 - 1)
    }

    /// Adds the request that the flags describe, for a URL.
    fn add_url(&mut self, url: &str) -> Result<u32> {
        let url = self.parse_url(url)?;
        let request = self.arguments.request.request(&url)?;
        self.add(self.arguments.request.method(), &url, request)
    }

    /// Adds a request that a file describes.
    fn add_described(&mut self, described: &ScriptRequest, folder: &Path) -> Result<u32> {
        let url = self.parse_url(&described.url)?;
        let payload = match &described.body {
            ScriptBody::Empty => Body::EMPTY.into(),
            ScriptBody::Text(text) => Body::from(text.clone().into_bytes()).into(),
            ScriptBody::Binary(bytes) => Body::from(bytes.clone()).into(),
            ScriptBody::File(path) => self.file(folder.join(path))?,
            ScriptBody::Size(size) => Payload::generated(*size)?,
        };
        let (method, headers) = (&described.method, &described.headers);
        let prepared = (self.arguments.request).request_of(method, &url, headers, payload)?;
        self.add(method, &url, prepared)
    }

    /// The content of a file. Several requests of a script may share it.
    fn file(&mut self, path: PathBuf) -> Result<Payload> {
        if let Some(known) = self.files.get(&path) {
            return Ok(known.clone());
        }
        let payload = Payload::file(&path)?;
        self.files.insert(path, payload.clone());
        Ok(payload)
    }

    /// Replays a script without the requests that no engine can send.
    fn script(&mut self, script: &Script) -> Result<Workload> {
        let folder = folder_of(self.arguments.shape.script.as_deref());
        let mut places = Vec::with_capacity(script.requests.len());
        let mut refusal = None;
        for request in &script.requests {
            match self.add_described(request, &folder) {
                Ok(place) => places.push(Some(place)),
                Err(error) if error.downcast_ref::<MessageError>().is_some() => {
                    places.push(None);
                    refusal.get_or_insert(error);
                }
                Err(error) => return Err(error),
            }
        }
        let steps = script_hosts::remapped(&script.steps, &places);
        if let Some(error) = refusal {
            if steps.is_empty() {
                return Err(error);
            }
            let count = script_hosts::counted(script.steps.len() - steps.len());
            let reason = error.root_cause();
            let said = format!("left out: {count} that cannot be sent; the first: {reason}\n");
            self.left_out = Some(said);
        }
        let (amount, shape) = (&self.arguments.amount, &self.arguments.shape);
        Ok(Workload::Script(ScriptLoad {
            steps,
            clients: shape.users.unwrap_or(1),
            stagger: shape.stagger,
            speed: shape.speed.unwrap_or_default(),
            rounds: Rounds::Once,
            duration: self.duration(),
            warmup: self.warmup(),
            drain: amount.drain(),
        }))
    }

    fn workload(&mut self, described: &[ScriptRequest]) -> Result<Workload> {
        let shape = &self.arguments.shape;
        if let Some(path) = &shape.page {
            return self.page(path);
        }
        let first = self.arguments.urls.first().cloned();
        if let (Some(count), Some(url)) = (shape.tiles, &first) {
            return self.tiles(count, url);
        }
        if let (Some(second), Some(url)) = (&shape.hold, &first) {
            return self.hold(url, second);
        }
        let folder = folder_of(shape.targets.as_deref());
        for request in described {
            self.add_described(request, &folder)?;
        }
        for url in &self.arguments.urls {
            self.add_url(url)?;
        }
        self.open_or_closed(self.mix()?)
    }

    /// What each request asks for: the URLs or targets in turn, unless flags ask for a random choice.
    fn mix(&self) -> Result<Mix, BadInput> {
        let shape = &self.arguments.shape;
        if !shape.weights.is_empty() {
            let mix = Mix::new(shape.weights.clone());
            return mix.ok_or_else(|| BadInput::new("all --weights are 0"));
        }
        let count = u32::try_from(self.requests.len()).ok();
        let count = count.and_then(NonZeroU32::new);
        let count =
            count.ok_or_else(|| BadInput::new("expected 1 to 4294967295 URLs or targets"))?;
        Ok(if shape.random {
            Mix::new(vec![1; self.requests.len()]).unwrap_or_default()
        } else {
            Mix::InOrder(count)
        })
    }

    fn open_or_closed(&self, mix: Mix) -> Result<Workload> {
        let (amount, shape) = (&self.arguments.amount, &self.arguments.shape);
        let warmup = self.warmup();
        let stages = match (&shape.rate, &shape.stages) {
            (_, Some(stages)) => Some(checked(stages)?.clone()),
            (Some(rate), None) => {
                // The load lasts as long as this many requests take. The next one would be due at its end.
                let length = match (amount.duration, amount.requests) {
                    (Some(duration), None) => warmup + duration,
                    (None, Some(count)) => rate.0.offset_of(count),
                    (Some(duration), Some(count)) => {
                        (warmup + duration).min(rate.0.offset_of(count))
                    }
                    (None, None) => Duration::ZERO,
                };
                let stages = Stages::new(vec![Stage::constant(rate.0, length)]);
                Some(stages.map_err(|error| BadInput::new(format!("--rate: {error}")))?)
            }
            (None, None) => None,
        };
        if let Some(stages) = stages {
            return Ok(Workload::Open(OpenLoad {
                stages,
                spacing: shape.arrivals.map(Spacing::from).unwrap_or_default(),
                warmup,
                drain: amount.drain(),
                mix,
                seed: amount.seed,
            }));
        }
        let at_once = u64::from(self.connections()) * u64::from(self.streams());
        let users = match shape.users {
            Some(users) => users,
            None => users_at_once(at_once)?,
        };
        Ok(Workload::Closed(ClosedLoad {
            users,
            think: shape.think,
            starts_over: shape.stagger,
            requests: amount.requests.or(amount.duration.is_none().then_some(1)),
            duration: self.duration(),
            warmup: Warmup::Time(warmup),
            drain: amount.drain(),
            mix,
            seed: amount.seed,
        }))
    }

    fn page(&mut self, path: &Path) -> Result<Workload> {
        let mut nodes = Vec::new();
        for written in read_page(path)? {
            let described = ScriptRequest {
                method: "GET".to_owned(),
                url: written.url.clone(),
                headers: written.urgency.map(Urgency::field).into_iter().collect(),
                body: ScriptBody::Empty,
            };
            nodes.push(written.node(self.add_described(&described, Path::new(""))?));
        }
        let page = Page::new(nodes)
            .map_err(|error| BadInput::new(format!("{}: {error}", path.display())))?;
        Ok(self.pages(page))
    }

    fn tiles(&mut self, count: u32, url: &str) -> Result<Workload> {
        let document = self.add_url(url)?;
        let template = self.arguments.shape.tile.as_deref().unwrap_or(url);
        let first_tile = document + 1;
        for tile in 0..count {
            self.add_url(&template.replace("{}", &tile.to_string()))?;
        }
        Ok(self.pages(Page::tiles(document, first_tile, count)))
    }

    fn hold(&mut self, held: &str, quick: &str) -> Result<Workload> {
        let held = self.add_url(held)?;
        let quick = self.add_url(quick)?;
        Ok(self.pages(Page::hold(held, quick, Page::HOLD_FOR)))
    }

    fn pages(&self, page: Page) -> Workload {
        let (amount, shape) = (&self.arguments.amount, &self.arguments.shape);
        Workload::Pages(PageLoad {
            page,
            users: shape.users.unwrap_or(1),
            think: shape.think,
            starts_over: shape.stagger,
            pages: amount.requests.or(amount.duration.is_none().then_some(1)),
            duration: self.duration(),
            warmup: Warmup::Time(self.warmup()),
            drain: amount.drain(),
            seed: amount.seed,
        })
    }

    fn warmup(&self) -> Duration {
        (self.arguments.amount.warm_up_time).unwrap_or(Duration::ZERO)
    }

    /// How long requests are started, including the warm-up.
    fn duration(&self) -> Option<Duration> {
        let duration = self.arguments.amount.duration?;
        Some(self.warmup() + duration)
    }

    fn connections(&self) -> u32 {
        let shape = &self.arguments.shape;
        let is_browser = shape.page.is_some() || shape.tiles.is_some() || shape.script.is_some();
        let usual = match self.choice.protocol.version() {
            version if is_browser => browser_connections(version),
            // Without multiplexing each user needs a connection. `--hold` tests multiplexing, on a single one.
            Version::Http1 if shape.hold.is_none() => shape.users.unwrap_or(1),
            _ => 1,
        };
        self.arguments.amount.connections.unwrap_or(usual)
    }

    /// How many connections to open before the load, if the flags set it.
    fn warm(&self) -> Result<Option<u32>, BadInput> {
        let most = self.connections();
        let warm = self.arguments.amount.warm;
        warm.map(|warm| warm.resolve(most, "-c")).transpose()
    }

    /// Concurrent requests per connection, for closed loads.
    fn streams(&self) -> u32 {
        self.arguments.amount.streams.unwrap_or(1)
    }

    fn into_plan(self, workload: Workload, warm: Option<u32>) -> Plan {
        let pool_per_user = workload.has_own_connections();
        let count = self.connections();
        let amount = &self.arguments.amount;
        let is_on_demand = pool_per_user || amount.on_demand;
        let connections = if is_on_demand {
            Connections::OnDemand { at_most: count }
        } else {
            Connections::Fixed(count)
        };
        let warm = match warm {
            _ if amount.cold => 0,
            Some(warm) => warm,
            None if is_on_demand => 0,
            None => count,
        };
        let is_closed = matches!(workload, Workload::Closed(_));
        let by_default = is_closed && self.arguments.shape.users.is_none();
        // Each thread knows only its own connections, so these flags need a single pool.
        let is_one_pool = !pool_per_user && (amount.on_demand || amount.order.is_some());
        let asked = amount.threads.or(is_one_pool.then_some(1));
        let threads = threads(asked, &workload, count);
        Plan {
            protocol: self.choice.protocol,
            is_strict: self.choice.is_strict,
            side: self.side,
            targets: self.targets,
            target_urls: self.target_urls,
            requests: self.requests,
            uploads: self.uploads,
            names: self.names,
            workload,
            connections,
            pool: PoolSettings {
                order: amount.order.unwrap_or(PoolOrder::LeastBusy),
                streams_at_most: match self.arguments.amount.streams {
                    None if by_default => Some(1),
                    streams => streams,
                },
                warm,
            },
            pool_per_user,
            threads,
            left_out: self.left_out,
        }
    }
}

/// The stages, if a client can send at their rates.
fn checked(stages: &Stages) -> Result<&Stages, BadInput> {
    let rates = stages.as_slice().iter();
    let rates = rates.flat_map(|stage| [stage.from, stage.to]).flatten();
    match rates.map(check_rate).find_map(Result::err) {
        Some(said) => Err(BadInput::new(format!("--stages: {said}"))),
        None => Ok(stages),
    }
}

/// The users of a closed load that keeps `-c` times `-m` requests in flight.
fn users_at_once(at_once: u64) -> Result<u32, BadInput> {
    let users = u32::try_from(at_once).ok();
    users.filter(|users| *users <= MAX_AT_ONCE).ok_or_else(|| {
        BadInput::new(format!(
            "-c times -m is {at_once} requests at once: expected at most {MAX_AT_ONCE}, because each takes memory from \
             the start"
        ))
    })
}

/// The number of threads: by default half of the processors, so that a server on the same machine has some too. Never
/// more than there are connections or users.
fn threads(asked: Option<u32>, workload: &Workload, connections: u32) -> u32 {
    let spare = || {
        let all = std::thread::available_parallelism().map_or(1, |count| count.get() as u32);
        (all / 2).max(1)
    };
    let useful = match workload {
        Workload::Open(_) => connections,
        Workload::Closed(load) => connections.min(load.users),
        Workload::Script(load) => load.clients,
        Workload::Pages(load) => load.users,
    };
    asked.unwrap_or_else(spare).min(useful).max(1)
}

fn folder_of(file: Option<&Path>) -> PathBuf {
    file.and_then(Path::parent)
        .map(Path::to_path_buf)
        .unwrap_or_default()
}
