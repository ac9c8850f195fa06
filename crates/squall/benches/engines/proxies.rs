//! Proxies from HTTP/1.1 to HTTP/2 without TLS, in front of one nghttpd: what a request costs each of them.
//!
//! Third-party proxies have the configuration that paths of recipes give them (squall-peers). The proxy runs on the
//! servers' processor. nghttpd and the client share the other one, and neither is counted.

use std::process::Command;
use std::time::{Duration, Instant};

use anyhow::{Context, Result};
use squall_base::plan::Protocol;
use squall_peers::{Order, RunningStation, SearchPath, Settings, Station, driver};

use crate::clients::{Client, Clients, Load, Recording};
use crate::figures::{Series, Unit};
use crate::programs::{Cores, Daemon, cost_of, free_port};
use crate::servers::{Http, Server, Site};

/// The contenders other than squall.
const REAL: [&str; 3] = ["nghttpx", "haproxy", "envoy"];
/// Not h2load: it treats a response without a reason phrase, which HAProxy sends, as missing.
const CLIENT: Client = Client::Squall(Recording::Nothing);
const READY_WITHIN: Duration = Duration::from_secs(20);

/// A running proxy.
enum Proxy {
    Own(Daemon),
    Real(Box<RunningStation>),
}

impl Proxy {
    fn cost(&self) -> Result<Duration> {
        match self {
            Proxy::Own(daemon) => daemon.cost(),
            Proxy::Real(running) => cost_of(running.id()),
        }
    }
}

/// Runs all proxies in turns under one client.
pub(crate) fn run(
    site: &Site,
    clients: &Clients,
    cores: Cores,
    load: &Load,
    rounds: usize,
) -> Result<Vec<Series>> {
    let Some(upstream) = site.start_on(cores.client, Server::Nghttpd, Http::H2c)? else {
        return Ok(Vec::new());
    };
    let port = upstream
        .url
        .rsplit(':')
        .next()
        .and_then(|rest| rest.trim_end_matches('/').parse().ok());
    let port: u16 = port.context("the upstream's port")?;
    let folder = tempfile::tempdir()?;
    let mut all: Vec<(Proxy, String, Series)> = Vec::new();
    all.push(own(clients, cores, port, folder.path())?);
    for name in REAL {
        all.extend(real(name, cores, port, folder.path())?);
    }
    for _ in 0..rounds {
        for (proxy, url, series) in &mut all {
            let before = proxy.cost()?;
            let run = clients.run(CLIENT, load, url)?;
            series
                .costs
                .push(Unit::Request.of(proxy.cost()? - before, run.answers));
        }
    }
    Ok(all.into_iter().map(|(_, _, series)| series).collect())
}

fn own(
    clients: &Clients,
    cores: Cores,
    upstream: u16,
    folder: &std::path::Path,
) -> Result<(Proxy, String, Series)> {
    let port = free_port()?;
    let mut command = Command::new(clients.squall_file());
    command.args(["proxy", "--h1", &port.to_string(), "--http", "2"]);
    command.args([
        "--to",
        &format!("http://127.0.0.1:{upstream}"),
        "--connections",
        "1",
    ]);
    let mut daemon = Daemon::start_on(cores.server, folder, "squall.log", &mut command)?;
    daemon.wait_for_port(port)?;
    let url = format!("http://127.0.0.1:{port}/");
    Ok((
        Proxy::Own(daemon),
        url,
        Series::new("squall proxy".to_owned()),
    ))
}

fn real(
    name: &str,
    cores: Cores,
    upstream: u16,
    folder: &std::path::Path,
) -> Result<Option<(Proxy, String, Series)>> {
    let driver = driver(name).context("squall-peers knows it")?;
    let search = SearchPath::usual().and_then([crate::programs::peers().join("bin")]);
    let found = match driver.find(&search) {
        Ok(found) => found,
        Err(missing) => {
            println!("LEFT OUT: {missing}");
            return Ok(None);
        }
    };
    let port = free_port()?;
    let order = Order {
        name: name.to_owned(),
        listen: ([127, 0, 0, 1], port).into(),
        front: Protocol::H1,
        upstreams: vec![([127, 0, 0, 1], upstream).into()],
        upstream_protocol: Some(Protocol::H2c),
        upstream_connections: None,
        certificate: None,
        trust: None,
        server_name: "server".to_owned(),
        answer: None,
        folder: folder.join(name),
        threads: 1,
        extra: None,
        settings: Settings::default(),
        key_log: None,
    };
    let running = Station::new(driver, &found, order)?
        .pinned(vec![cores.server])
        .start(None)?;
    running.wait_ready(None, Instant::now() + READY_WITHIN)?;
    let title = format!("{name} {}", found.version);
    Ok(Some((
        Proxy::Real(Box::new(running)),
        format!("http://127.0.0.1:{port}/"),
        Series::new(title),
    )))
}
