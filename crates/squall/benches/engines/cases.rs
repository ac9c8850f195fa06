//! The cases: which clients against which server, and which servers under which client.

use anyhow::Result;

use crate::Arguments;
use crate::clients::{Client, Clients, Load, Recording};
use crate::figures::{self, Series, Unit};
use crate::programs::Cores;
use crate::proxies;
use crate::rates::Rates;
use crate::replay;
use crate::servers::{Http, RunningServer, Server, Site, UPLOAD_BYTES};

/// One table.
pub(crate) enum Case {
    /// Clients against one server.
    Clients(Shape, Server, &'static [Client]),
    /// Servers under one client.
    Servers(Shape, Client, &'static [Server]),
    /// Proxies in front of one server.
    Proxies(Shape),
    /// POSTs of 1 KiB at this rate per second, by every client that can keep a rate.
    Rate(u64),
    /// A recorded script at ten times its speed.
    Replay,
    /// Uploads of 65 MB over TLS: cost of the client, and of the server.
    Bulk(&'static [Client]),
}

/// A load without its number of requests.
pub(crate) struct Shape {
    name: &'static str,
    http: Http,
    connections: u32,
    streams: u32,
    does_upload: bool,
    window_bits: u32,
}

/// h2load's default windows.
const H2LOAD_WINDOW_BITS: u32 = 30;
/// The default windows of RFC 9113, section 6.9.2, and of `squall load`: 65,535 bytes, which 100 responses exceed.
const RFC_WINDOW_BITS: u32 = 16;

const fn get(name: &'static str, http: Http, connections: u32, streams: u32) -> Shape {
    Shape {
        name,
        http,
        connections,
        streams,
        does_upload: false,
        window_bits: H2LOAD_WINDOW_BITS,
    }
}

const fn post(name: &'static str, http: Http, connections: u32, streams: u32) -> Shape {
    let mut shape = get(name, http, connections, streams);
    shape.does_upload = true;
    shape
}

const fn in_small_windows(mut shape: Shape) -> Shape {
    shape.window_bits = RFC_WINDOW_BITS;
    shape
}

const RECORDED: Client = Client::Squall(Recording::Everything);
const BARE: Client = Client::Squall(Recording::Nothing);
const H2: &[Client] = &[RECORDED, BARE, Client::H2load];
const H1: &[Client] = &[RECORDED, BARE, Client::Wrk, Client::H2load, Client::Least];
const H2_SERVERS: &[Server] = &[Server::Squall, Server::Nginx, Server::Nghttpd];
/// Enough requests that a client spends less than 1 % of its run on starting and connecting, which take a few milliseconds.
const REQUESTS: f64 = 200_000.0;
/// For clients under test. Each run has to request its memory from the kernel anew, at most as much as 200,000 requests
/// fill. With this many requests, that is a small part of the cost.
const CLIENT_REQUESTS: f64 = 1_000_000.0;
const UPLOADS: f64 = 8.0;

/// All cases.
pub(crate) const ALL: &[Case] = &[
    Case::Clients(
        get("client h2c GET 4x16", Http::H2c, 4, 16),
        Server::Least,
        &[RECORDED, BARE, Client::H2load, Client::Fortio],
    ),
    Case::Clients(
        post("client h2c POST 1 KiB 4x16", Http::H2c, 4, 16),
        Server::Least,
        H2,
    ),
    Case::Clients(
        get("client h2c GET 1x100", Http::H2c, 1, 100),
        Server::Least,
        H2,
    ),
    Case::Clients(
        in_small_windows(get(
            "client h2c GET 1x100, windows of 65,535",
            Http::H2c,
            1,
            100,
        )),
        Server::Least,
        H2,
    ),
    Case::Clients(
        get("client h2c GET 4x16", Http::H2c, 4, 16),
        Server::Nghttpd,
        H2,
    ),
    Case::Clients(
        post("client h2c POST 1 KiB 4x16", Http::H2c, 4, 16),
        Server::Nghttpd,
        H2,
    ),
    Case::Clients(
        get("client h2c GET 1x100", Http::H2c, 1, 100),
        Server::Nghttpd,
        H2,
    ),
    Case::Clients(
        get("client h2 TLS GET 4x16", Http::H2, 4, 16),
        Server::Nghttpd,
        &[
            RECORDED,
            BARE,
            Client::H2load,
            Client::Hey,
            Client::Fortio,
            Client::K6,
        ],
    ),
    Case::Clients(
        get("client h1 GET 16 connections", Http::H1, 16, 1),
        Server::Least,
        &[
            RECORDED,
            BARE,
            Client::Wrk,
            Client::H2load,
            Client::Hey,
            Client::Fortio,
            Client::K6,
            Client::Least,
        ],
    ),
    Case::Clients(
        get("client h1 GET 16 conn. from memory", Http::H1, 16, 1),
        Server::Nginx,
        H1,
    ),
    Case::Clients(
        get("client h1 GET 16 conn. from a file", Http::H1, 16, 1),
        Server::NginxFile,
        H1,
    ),
    Case::Clients(
        get("client h3 GET 1x32", Http::H3, 1, 32),
        Server::Squall,
        &[RECORDED, BARE, Client::Quinn],
    ),
    Case::Servers(
        get("server h2c GET 4x16", Http::H2c, 4, 16),
        Client::H2load,
        H2_SERVERS,
    ),
    Case::Servers(
        post("server h2c POST 1 KiB 4x16", Http::H2c, 4, 16),
        Client::H2load,
        H2_SERVERS,
    ),
    Case::Servers(
        get("server h2c GET 1x100", Http::H2c, 1, 100),
        Client::H2load,
        H2_SERVERS,
    ),
    Case::Servers(
        get("server h2 TLS GET 4x16", Http::H2, 4, 16),
        Client::H2load,
        H2_SERVERS,
    ),
    Case::Servers(
        get("server h1 GET 16 connections", Http::H1, 16, 1),
        Client::H2load,
        &[Server::Squall, Server::Nginx],
    ),
    Case::Servers(
        get("server h3 GET 1x32", Http::H3, 1, 32),
        Client::Quinn,
        &[Server::Squall, Server::Caddy],
    ),
    Case::Proxies(get("proxy h1 to h2c GET 16 connections", Http::H1, 16, 1)),
    Case::Proxies(post(
        "proxy h1 to h2c POST 1 KiB 16 connections",
        Http::H1,
        16,
        1,
    )),
    Case::Rate(1_000),
    Case::Rate(10_000),
    Case::Replay,
    Case::Bulk(&[
        Client::Records("16KiB"),
        Client::Records("4KiB"),
        Client::Records("1300"),
        Client::H2load,
    ]),
];

impl Case {
    pub(crate) fn name(&self) -> &'static str {
        match self {
            Case::Clients(shape, ..) | Case::Servers(shape, ..) | Case::Proxies(shape) => {
                shape.name
            }
            Case::Rate(1_000) => "rate 1,000/s h1 POST 1 KiB",
            Case::Rate(_) => "rate 10,000/s h1 POST 1 KiB",
            Case::Replay => "script of 1,083 requests at 10x by 91 users",
            Case::Bulk(_) => "bulk upload h2 TLS 65 MB",
        }
    }
}

/// Everything that cases need.
pub(crate) struct Bench {
    cores: Cores,
    site: Site,
    clients: Clients,
    rounds: usize,
    scale: f64,
}

impl Bench {
    pub(crate) fn begin(arguments: &Arguments, cores: Cores) -> Result<Bench> {
        Ok(Bench {
            cores,
            site: Site::make(&arguments.squall, cores.server)?,
            clients: Clients::find(&arguments.squall, cores.client),
            rounds: arguments.rounds,
            scale: arguments.scale,
        })
    }

    /// Runs a case and prints its table.
    pub(crate) fn run(&self, case: &Case) -> Result<()> {
        match case {
            Case::Clients(shape, server, clients) => {
                let load = self.load(shape, CLIENT_REQUESTS);
                let (costs, _) = self.clients(&load, *server, clients, Unit::Request)?;
                let title = format!("{} on {}", shape.name, server.name());
                figures::print(&title, Unit::Request, &costs);
            }
            Case::Servers(shape, client, servers) => {
                let costs = self.servers(&self.load(shape, REQUESTS), *client, servers)?;
                figures::print(shape.name, Unit::Request, &costs);
            }
            Case::Proxies(shape) => {
                let load = self.load(shape, REQUESTS);
                let costs =
                    proxies::run(&self.site, &self.clients, self.cores, &load, self.rounds)?;
                figures::print(shape.name, Unit::Request, &costs);
            }
            Case::Rate(rate) => {
                if let Some(running) = self.site.start(Server::Nginx, Http::H1)? {
                    let body = self.site.small_body();
                    let rates = Rates::new(&self.clients, *rate, &body, &running.url);
                    rates.run(case.name(), self.rounds)?;
                }
            }
            Case::Replay => {
                if let Some(running) = self.site.start(Server::Nginx, Http::H1)? {
                    replay::run(case.name(), &self.clients, &running.url, self.scale)?;
                }
            }
            Case::Bulk(clients) => {
                let load = Load {
                    http: Http::H2,
                    requests: self.count(UPLOADS),
                    connections: 1,
                    streams: 1,
                    upload: Some(self.site.large_body()),
                    window_bits: H2LOAD_WINDOW_BITS,
                };
                let (sent, received) =
                    self.clients(&load, Server::Sink, clients, Unit::Gigabyte)?;
                figures::print(case.name(), Unit::Gigabyte, &sent);
                figures::print(
                    "  its server, squall serve --sink",
                    Unit::Gigabyte,
                    &received,
                );
            }
        }
        Ok(())
    }

    fn count(&self, usual: f64) -> u64 {
        (usual * self.scale).max(1.0) as u64
    }

    fn load(&self, shape: &Shape, requests: f64) -> Load {
        Load {
            http: shape.http,
            requests: self.count(requests),
            connections: shape.connections,
            streams: shape.streams,
            upload: shape.does_upload.then(|| self.site.small_body()),
            window_bits: shape.window_bits,
        }
    }

    /// Runs clients in turns; returns their costs, and what they cost the server.
    fn clients(
        &self,
        load: &Load,
        server: Server,
        clients: &[Client],
        unit: Unit,
    ) -> Result<(Vec<Series>, Vec<Series>)> {
        let Some(running) = self.site.start(server, load.http)? else {
            return Ok((Vec::new(), Vec::new()));
        };
        let there: Vec<Client> = (clients.iter().copied())
            .filter(|client| self.clients.have(*client))
            .collect();
        let empty = || -> Vec<Series> {
            there
                .iter()
                .map(|client| Series::new(client.name()))
                .collect()
        };
        let (mut costs, mut server_costs) = (empty(), empty());
        for _ in 0..self.rounds {
            for (index, client) in there.iter().enumerate() {
                let before = running.daemon.cost()?;
                let run = self
                    .clients
                    .run(*client, &client.share_of(load), &running.url)?;
                let count = match unit {
                    Unit::Request => run.answers,
                    Unit::Gigabyte => run.answers * UPLOAD_BYTES,
                };
                let served = running.daemon.cost()? - before;
                let busy = served.as_secs_f64() / run.took.as_secs_f64();
                costs[index].costs.push(unit.of(run.cost, count));
                costs[index].server_busy.push(busy);
                server_costs[index].costs.push(unit.of(served, count));
            }
        }
        Ok((costs, server_costs))
    }

    /// Runs one client against servers in turns; returns the servers' costs.
    fn servers(&self, load: &Load, client: Client, servers: &[Server]) -> Result<Vec<Series>> {
        if !self.clients.have(client) {
            return Ok(Vec::new());
        }
        let mut all: Vec<(RunningServer, Series)> = Vec::new();
        for server in servers {
            if let Some(running) = self.site.start(*server, load.http)? {
                all.push((running, Series::new(server.name().to_owned())));
            }
        }
        for _ in 0..self.rounds {
            for (running, series) in &mut all {
                let before = running.daemon.cost()?;
                let run = self.clients.run(client, load, &running.url)?;
                let served = running.daemon.cost()? - before;
                series.costs.push(Unit::Request.of(served, run.answers));
            }
        }
        Ok(all.into_iter().map(|(_, series)| series).collect())
    }
}
