//! The clients: their command lines, and how many responses they report.
//!
//! A run in which some requests were not answered is invalid and ends the bench.

use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use anyhow::{Context, Result, bail, ensure};

use crate::least_client;
use crate::programs::{find, run_on};
use crate::servers::Http;

/// A client program.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Client {
    /// squall load, with every table that it can write, or with none.
    Squall(Recording),
    /// squall load with this much application data per TLS record.
    Records(&'static str),
    H2load,
    Wrk,
    Hey,
    Fortio,
    K6,
    /// The bench's own client on quinn and h3: benches/h3-client.
    Quinn,
    /// The bench's own client, which only waits, reads and writes: `least_client`.
    Least,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Recording {
    Everything,
    Nothing,
}

impl Client {
    pub(crate) fn name(self) -> String {
        match self {
            Client::Squall(Recording::Everything) => "squall load, all recorded".to_owned(),
            Client::Squall(Recording::Nothing) => "squall load, nothing recorded".to_owned(),
            Client::Records(size) => format!("squall load, records of {size}"),
            Client::H2load => "h2load".to_owned(),
            Client::Wrk => "wrk".to_owned(),
            Client::Hey => "hey".to_owned(),
            Client::Fortio => "fortio".to_owned(),
            Client::K6 => "k6".to_owned(),
            Client::Quinn => "quinn and h3".to_owned(),
            Client::Least => "the least client".to_owned(),
        }
    }

    /// The part of a load that this client gets: clients that take ten times as long per request get a fifth of the requests.
    pub(crate) fn share_of(self, load: &Load) -> Load {
        let mut load = load.clone();
        if matches!(self, Client::Hey | Client::Fortio | Client::K6) {
            load.requests = load.requests.div_ceil(5);
        }
        load
    }
}

/// The load to generate.
#[derive(Clone, Debug)]
pub(crate) struct Load {
    pub(crate) http: Http,
    pub(crate) requests: u64,
    pub(crate) connections: u32,
    pub(crate) streams: u32,
    /// The body to send; `None` for GET.
    pub(crate) upload: Option<PathBuf>,
    /// The client's HTTP/2 windows, of streams and of the connection, are 2 to this power, minus 1.
    pub(crate) window_bits: u32,
}

/// What a run cost, how long it took, and how many requests were answered.
pub(crate) struct Run {
    pub(crate) cost: Duration,
    pub(crate) took: Duration,
    pub(crate) answers: u64,
}

/// The installed clients.
pub(crate) struct Clients {
    squall: PathBuf,
    quinn: Option<PathBuf>,
    core: usize,
}

/// How long wrk runs: it is limited by time, not by requests.
const WRK_RUNS: &str = "3s";

impl Clients {
    pub(crate) fn find(squall: &Path, core: usize) -> Clients {
        // Built by `make bench`. It is not a member of the workspace, because nothing else needs its dependencies.
        let quinn = std::env::var_os("SQUALL_H3_CLIENT").map(PathBuf::from);
        Clients {
            squall: squall.to_path_buf(),
            quinn: quinn.filter(|file| file.is_file()),
            core,
        }
    }

    /// The squall to measure.
    pub(crate) fn squall_file(&self) -> &Path {
        &self.squall
    }

    /// The clients' processor.
    pub(crate) const fn core(&self) -> usize {
        self.core
    }

    /// Whether a client is installed; prints a warning if not.
    pub(crate) fn have(&self, client: Client) -> bool {
        let (name, is_there) = match client {
            Client::Squall(_) | Client::Records(_) | Client::Least => return true,
            Client::H2load => ("h2load", find("h2load").is_some()),
            Client::Wrk => ("wrk", find("wrk").is_some()),
            Client::Hey => ("hey", find("hey").is_some()),
            Client::Fortio => ("fortio", find("fortio").is_some()),
            Client::K6 => ("k6", find("k6").is_some()),
            Client::Quinn => ("the client on quinn and h3", self.quinn.is_some()),
        };
        if !is_there {
            println!("LEFT OUT: {name} is missing; make bench and scripts/peers have it");
        }
        is_there
    }

    /// Runs a client once.
    pub(crate) fn run(&self, client: Client, load: &Load, url: &str) -> Result<Run> {
        let folder = tempfile::tempdir()?;
        let mut command = match client {
            Client::Squall(recording) => self.squall(load, recording, folder.path()),
            Client::Records(size) => {
                let mut command = self.squall(load, Recording::Nothing, folder.path());
                command.args(["--set", &format!("tls.records={size}")]);
                command
            }
            Client::H2load => h2load(load)?,
            Client::Wrk => wrk(load)?,
            Client::Hey => hey(load)?,
            Client::Fortio => fortio(load)?,
            Client::K6 => k6(load, url, folder.path())?,
            Client::Quinn => self.quinn(load)?,
            Client::Least => least(load)?,
        };
        // k6 has the URL in its script.
        if client != Client::K6 {
            command.arg(url);
        }
        let done = run_on(self.core, &mut command)?;
        let answers = answers(client, &done.printed)
            .with_context(|| format!("no count of answers in: {}", done.printed))?;
        let asked = match client {
            // hey sends the same number from each of its workers.
            Client::Hey => {
                load.requests - load.requests % u64::from(load.connections * load.streams)
            }
            _ => load.requests,
        };
        let is_all = client == Client::Wrk || answers == asked;
        ensure!(
            is_all,
            "{command:?}: not all were answered:\n{}",
            done.printed
        );
        Ok(Run {
            cost: done.cost,
            took: done.took,
            answers,
        })
    }

    fn squall(&self, load: &Load, recording: Recording, folder: &Path) -> Command {
        let mut command = Command::new(&self.squall);
        command.args(["load", "--quiet", "--insecure", "--threads", "1", "--http"]);
        command.arg(match load.http {
            Http::H1 => "1.1",
            Http::H2c | Http::H2 => "2",
            Http::H3 => "3",
        });
        amount(&mut command, load);
        windows(&mut command, load);
        if recording == Recording::Everything {
            let flags = ["--output", "--frames-to", "--exchanges-to", "--sockets-to"];
            for (flag, table) in flags
                .iter()
                .zip(["requests", "frames", "exchanges", "sockets"])
            {
                command.arg(flag);
                command.arg(folder.join(table).with_extension("parquet"));
            }
        }
        command
    }

    fn quinn(&self, load: &Load) -> Result<Command> {
        let mut command = Command::new(self.quinn.as_ref().context("`have` is asked first")?);
        amount(&mut command, load);
        Ok(command)
    }
}

/// The flags that all clients but wrk share.
fn amount(command: &mut Command, load: &Load) {
    command
        .args(["-n", &load.requests.to_string()])
        .args(["-c", &load.connections.to_string()])
        .args(["-m", &load.streams.to_string()]);
    if let Some(upload) = &load.upload {
        command.arg("-d").arg(upload);
    }
}

/// Sets the same windows for all compared clients: each time a window is used up, the client pays for a WINDOW_UPDATE and a
/// wait.
fn windows(command: &mut Command, load: &Load) {
    if matches!(load.http, Http::H2c | Http::H2) {
        let bits = load.window_bits.to_string();
        command.args(["-w", &bits, "-W", &bits]);
    }
}

fn h2load(load: &Load) -> Result<Command> {
    let mut command = Command::new(find("h2load").context("`have` is asked first")?);
    match load.http {
        Http::H1 => command.arg("--h1"),
        Http::H2c | Http::H2 => &mut command,
        Http::H3 => bail!("Debian's h2load has no HTTP/3"),
    };
    command.arg("--threads=1");
    amount(&mut command, load);
    windows(&mut command, load);
    Ok(command)
}

fn wrk(load: &Load) -> Result<Command> {
    let mut command = Command::new(find("wrk").context("`have` is asked first")?);
    command
        .args(["--threads", "1", "--duration", WRK_RUNS])
        .args(["--connections", &load.connections.to_string()]);
    Ok(command)
}

fn least(load: &Load) -> Result<Command> {
    ensure!(load.http == Http::H1, "the least client speaks HTTP/1.1");
    let mut command = Command::new(std::env::current_exe()?);
    command.arg(least_client::ARGUMENT);
    amount(&mut command, load);
    Ok(command)
}

/// As many workers as concurrent requests: over HTTP/1.1 each has a connection, over HTTP/2 all share one.
fn hey(load: &Load) -> Result<Command> {
    let mut command = Command::new(find("hey").context("`have` is asked first")?);
    let workers = load.connections * load.streams;
    command.args(["-cpus", "1", "-n", &load.requests.to_string()]);
    command.args(["-c", &workers.to_string()]);
    match load.http {
        Http::H1 => &mut command,
        Http::H2 => command.arg("-h2"),
        Http::H2c | Http::H3 => bail!("hey speaks neither h2c nor HTTP/3"),
    };
    if let Some(upload) = &load.upload {
        command.args(["-m", "POST", "-D"]).arg(upload);
    }
    Ok(command)
}

/// Like hey, but each worker has its own connection.
fn fortio(load: &Load) -> Result<Command> {
    let mut command = Command::new(find("fortio").context("`have` is asked first")?);
    let workers = load.connections * load.streams;
    command.env("GOMAXPROCS", "1");
    command.args(["load", "-quiet", "-k", "-qps", "0", "-json", "-"]);
    command.args(["-n", &load.requests.to_string(), "-c", &workers.to_string()]);
    match load.http {
        Http::H1 => &mut command,
        Http::H2c | Http::H2 => command.args(["-stdclient", "-h2"]),
        Http::H3 => bail!("fortio has no HTTP/3"),
    };
    if let Some(upload) = &load.upload {
        command.arg("-payload-file").arg(upload);
    }
    Ok(command)
}

/// Like fortio.
fn k6(load: &Load, url: &str, folder: &Path) -> Result<Command> {
    let workers = load.connections * load.streams;
    let body = match &load.upload {
        Some(upload) => serde_json::to_string(&std::fs::read_to_string(upload)?)?,
        None => "null".to_owned(),
    };
    let method = if load.upload.is_some() { "POST" } else { "GET" };
    let script = format!(
        "import http from 'k6/http';
         export const options = {{
             insecureSkipTLSVerify: true, discardResponseBodies: true,
             scenarios: {{ all: {{ executor: 'shared-iterations', vus: {workers},
                                  iterations: {}, maxDuration: '10m' }} }},
         }};
         const body = {body};
         export default function () {{ http.request('{method}', '{url}', body); }}\n",
        load.requests
    );
    let file = folder.join("k6.js");
    std::fs::write(&file, script)?;
    let mut command = Command::new(find("k6").context("`have` is asked first")?);
    command.env("GOMAXPROCS", "1");
    command
        .args(["run", "--quiet", "--no-usage-report", "--no-color"])
        .arg(file);
    Ok(command)
}

fn answers(client: Client, printed: &str) -> Option<u64> {
    match client {
        // "200,000 succeeded (100 %), ...".
        Client::Squall(_) | Client::Records(_) => {
            let line = printed.lines().find(|line| line.contains(" succeeded ("))?;
            line.split(' ').next()?.replace(',', "").parse().ok()
        }
        // "succeeded 1000, ..."; wrk: "  12345 requests in 1.00s, ...".
        Client::Quinn | Client::Least => {
            let line = printed
                .lines()
                .find_map(|line| line.strip_prefix("succeeded "))?;
            line.split(',').next()?.trim().parse().ok()
        }
        // "requests: 100 total, 100 started, 100 done, 100 succeeded, ...".
        Client::H2load => {
            let line = printed
                .lines()
                .find(|line| line.starts_with("requests: "))?;
            let count = line
                .split(", ")
                .find_map(|part| part.strip_suffix(" succeeded"))?;
            count.parse().ok()
        }
        // "  [200]\t1000 responses".
        Client::Hey => {
            let line = printed
                .lines()
                .find_map(|line| line.trim().strip_prefix("[200]"))?;
            line.trim().split(' ').next()?.parse().ok()
        }
        // JSON; its messages go to stderr.
        Client::Fortio => {
            let said: serde_json::Value = serde_json::from_str(printed).ok()?;
            said["RetCodes"]["200"].as_u64()
        }
        // "    http_reqs......................: 1000   4981.1/s", "    http_req_failed...: 0.00%  0 out of 1000".
        Client::K6 => {
            let value = |name: &str| {
                let line = printed
                    .lines()
                    .find_map(|line| line.trim().strip_prefix(name))?;
                Some(line.trim_start_matches(['.', ':', ' ']).to_owned())
            };
            let is_fine = value("http_req_failed")?.starts_with("0.00%");
            is_fine.then(|| value("http_reqs")?.split(' ').next()?.parse().ok())?
        }
        Client::Wrk => {
            let is_fine = !printed.contains("Socket errors") && !printed.contains("Non-2xx");
            let line = printed
                .lines()
                .find_map(|line| line.split_once(" requests in "))?;
            is_fine.then(|| line.0.trim().parse().ok())?
        }
    }
}
