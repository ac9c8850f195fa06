//! Clients that keep a rate: the rate they actually kept, how evenly, the latency they report, and what it cost.
//!
//! squall and k6 are open loops. h2load divides the rate among its connections, which wait for their responses; fortio
//! catches up instead of waiting. Every client defines lag differently, so all that log the start of each request are
//! measured alike: by how far the starts, in order, are from an even schedule of that rate.

use std::fs;
use std::path::Path;
use std::process::Command;

use anyhow::{Context, Result};
use serde_json::Value;

use crate::clients::{Client, Clients, Recording};
use crate::figures::quantile;
use crate::programs::{ProcessResult, find, run_on};

/// Number of connections, and of virtual users.
const CONNECTIONS: u64 = 16;
const SECONDS: u64 = 5;

/// The contenders.
const ALL: [Client; 4] = [
    Client::Squall(Recording::Everything),
    Client::H2load,
    Client::Fortio,
    Client::K6,
];

/// The clients at one rate.
pub(crate) struct Rates<'b> {
    clients: &'b Clients,
    rate: u64,
    body: &'b Path,
    url: &'b str,
}

/// The result of one run of a client; `None` for what it does not report.
struct RateResult {
    rate_per_s: f64,
    uneven_p99_us: Option<f64>,
    uneven_max_us: Option<f64>,
    p50_us: Option<f64>,
    p99_us: Option<f64>,
    cpu_s: f64,
}

/// Start and duration of a request, in microseconds.
type RequestTiming = (f64, f64);

impl<'b> Rates<'b> {
    pub(crate) fn new(clients: &'b Clients, rate: u64, body: &'b Path, url: &'b str) -> Rates<'b> {
        Rates {
            clients,
            rate,
            body,
            url,
        }
    }

    /// Runs all clients in turns and prints the medians.
    pub(crate) fn run(&self, title: &str, rounds: usize) -> Result<()> {
        let there: Vec<Client> = ALL
            .into_iter()
            .filter(|it| self.clients.have(*it))
            .collect();
        let mut results: Vec<Vec<RateResult>> = there.iter().map(|_| Vec::new()).collect();
        for _ in 0..rounds {
            for (client, results) in there.iter().zip(&mut results) {
                results.push(self.once(*client).with_context(|| client.name())?);
            }
        }
        println!(
            "\n{title:<34} {:>10} {:>12} {:>12} {:>9} {:>9} {:>8}",
            "rate/s", "uneven p99", "uneven max", "p50 us", "p99 us", "CPU s"
        );
        for (client, results) in there.iter().zip(&results) {
            let cell = |of: fn(&RateResult) -> Option<f64>, decimals: usize| {
                let values: Option<Vec<f64>> = results.iter().map(of).collect();
                values.map_or_else(
                    || "not said".to_owned(),
                    |values| format!("{:.decimals$}", crate::figures::median(&values)),
                )
            };
            println!(
                "  {:<32} {:>10} {:>12} {:>12} {:>9} {:>9} {:>8}",
                client.name(),
                cell(|result| Some(result.rate_per_s), 1),
                cell(|result| result.uneven_p99_us, 0),
                cell(|result| result.uneven_max_us, 0),
                cell(|result| result.p50_us, 0),
                cell(|result| result.p99_us, 0),
                cell(|result| Some(result.cpu_s), 2),
            );
        }
        Ok(())
    }

    fn once(&self, client: Client) -> Result<RateResult> {
        let folder = tempfile::tempdir()?;
        let log = folder.path().join("log");
        let mut command = match client {
            Client::Squall(_) | Client::Records(_) => self.squall(folder.path()),
            Client::H2load => self.h2load(&log)?,
            Client::Fortio => self.fortio(&log)?,
            _ => self.k6(folder.path(), &log)?,
        };
        let done = run_on(self.clients.core(), &mut command)?;
        match client {
            Client::Squall(_) | Client::Records(_) => {
                let text = fs::read_to_string(folder.path().join("log.csv"))?;
                self.rate_result(
                    rows_of_squall(&text).context("no table of requests")?,
                    &done,
                )
            }
            Client::H2load => self.rate_result(lines_of_h2load(&fs::read_to_string(log)?), &done),
            Client::Fortio => from_fortio(&fs::read_to_string(log)?, &done),
            _ => self.rate_result(points_of_k6(&fs::read_to_string(log)?), &done),
        }
    }

    fn rate_result(
        &self,
        mut sent: Vec<RequestTiming>,
        done: &ProcessResult,
    ) -> Result<RateResult> {
        sent.sort_by(|a, b| a.0.total_cmp(&b.0));
        let (first, last) = (
            sent.first().context("no requests")?.0,
            sent[sent.len() - 1].0,
        );
        let step_us = 1e6 / self.rate as f64;
        let mut uneven: Vec<f64> = (sent.iter().enumerate())
            .map(|(n, (start, _))| start - first - n as f64 * step_us)
            .collect();
        // The first may itself be late, so starts are compared with the schedule that fits them best.
        let middle = crate::figures::median(&uneven);
        uneven.iter_mut().for_each(|by| *by = (*by - middle).abs());
        let mut took: Vec<f64> = sent.iter().map(|(_, took)| *took).collect();
        Ok(RateResult {
            rate_per_s: (sent.len() - 1) as f64 * 1e6 / (last - first),
            uneven_p99_us: Some(quantile(&mut uneven, 0.99)),
            uneven_max_us: Some(quantile(&mut uneven, 1.0)),
            p50_us: Some(quantile(&mut took, 0.5)),
            p99_us: Some(quantile(&mut took, 0.99)),
            cpu_s: done.cost.as_secs_f64(),
        })
    }

    /// With every table, and one of requests as text.
    fn squall(&self, folder: &Path) -> Command {
        let mut command = Command::new(self.clients.squall_file());
        command.args(["load", "--quiet", "--threads", "1", "--http", "1.1"]);
        command.args([
            "--rate",
            &self.rate.to_string(),
            "-D",
            &format!("{SECONDS}s"),
        ]);
        command
            .args(["-c", &CONNECTIONS.to_string(), "-d"])
            .arg(self.body);
        for (flag, file) in [
            ("--output", "log.csv"),
            ("--output", "requests.parquet"),
            ("--exchanges-to", "exchanges.parquet"),
            ("--sockets-to", "sockets.parquet"),
        ] {
            command.arg(flag).arg(folder.join(file));
        }
        command.arg(self.url);
        command
    }

    fn h2load(&self, log: &Path) -> Result<Command> {
        let mut command = Command::new(find("h2load").context("`have` is asked first")?);
        // h2load's --rps is per connection.
        let each = self.rate as f64 / CONNECTIONS as f64;
        command.args([
            "--h1",
            "--threads=1",
            "-c",
            &CONNECTIONS.to_string(),
            "-m",
            "1",
        ]);
        command.args([
            "-n",
            &(self.rate * SECONDS).to_string(),
            &format!("--rps={each}"),
        ]);
        command
            .arg("-d")
            .arg(self.body)
            .arg("--log-file")
            .arg(log)
            .arg(self.url);
        Ok(command)
    }

    fn fortio(&self, log: &Path) -> Result<Command> {
        let mut command = Command::new(find("fortio").context("`have` is asked first")?);
        command.env("GOMAXPROCS", "1");
        command.args(["load", "-quiet", "-qps", &self.rate.to_string(), "-uniform"]);
        command.args(["-c", &CONNECTIONS.to_string(), "-t", &format!("{SECONDS}s")]);
        command
            .args(["-p", "50,99", "-payload-file"])
            .arg(self.body);
        command.arg("-json").arg(log).arg(self.url);
        Ok(command)
    }

    fn k6(&self, folder: &Path, log: &Path) -> Result<Command> {
        let body = serde_json::to_string(&fs::read_to_string(self.body)?)?;
        let script = format!(
            "import http from 'k6/http';
             export const options = {{ discardResponseBodies: true, scenarios: {{ all: {{
                 executor: 'constant-arrival-rate', rate: {}, timeUnit: '1s', duration: '{SECONDS}s',
                 preAllocatedVUs: {} }} }} }};
             const body = {body};
             export default function () {{ http.post('{}', body); }}\n",
            self.rate,
            8 * CONNECTIONS,
            self.url
        );
        let file = folder.join("k6.js");
        fs::write(&file, script)?;
        let mut command = Command::new(find("k6").context("`have` is asked first")?);
        command.env("GOMAXPROCS", "1");
        command.args(["run", "--quiet", "--no-usage-report", "--no-color", "--out"]);
        command.arg(format!("json={}", log.display())).arg(file);
        Ok(command)
    }
}

/// When the first byte was written, and the time since the request was due: a late start is part of the latency.
fn rows_of_squall(text: &str) -> Option<Vec<RequestTiming>> {
    let rows = columns_us(text, ["written_first_ns", "response_time_ns"])?;
    Some(rows.into_iter().flatten().collect())
}

/// Two columns of squall's CSV in microseconds. A row without one of the values is `None`; the whole result is `None`
/// without the columns.
pub(crate) fn columns_us(csv: &str, names: [&str; 2]) -> Option<Vec<Option<(f64, f64)>>> {
    let mut lines = csv.lines();
    let known: Vec<&str> = lines.next()?.split(',').collect();
    let [one, other] = names.map(|name| known.iter().position(|of| *of == name));
    let (one, other) = (one?, other?);
    let row = |line: &str| {
        let cells: Vec<&str> = line.split(',').collect();
        let micros = |place: usize| Some(cells.get(place)?.parse::<f64>().ok()? / 1_000.0);
        Some((micros(one)?, micros(other)?))
    };
    Some(lines.map(row).collect())
}

/// "1418820010000000\t200\t532": start, status, duration, in microseconds.
fn lines_of_h2load(text: &str) -> Vec<RequestTiming> {
    let sent = |line: &str| {
        let mut words = line.split('\t');
        let start: f64 = words.next()?.parse().ok()?;
        let took: f64 = words.nth(1)?.parse().ok()?;
        Some((start, took))
    };
    text.lines().filter_map(sent).collect()
}

/// Points of `http_req_duration`, in ms, timestamped at the end of the request.
fn points_of_k6(text: &str) -> Vec<RequestTiming> {
    let sent = |line: &str| {
        let point: Value = serde_json::from_str(line).ok()?;
        let is_request = point["metric"] == "http_req_duration" && point["type"] == "Point";
        let took = point["data"]["value"].as_f64().filter(|_| is_request)? * 1_000.0;
        Some((micros(point["data"]["time"].as_str()?)? - took, took))
    };
    text.lines().filter_map(sent).collect()
}

/// Microseconds since midnight of "2026-11-22T10:25:05.123456789Z". A load that crosses midnight would come out wrong.
fn micros(time: &str) -> Option<f64> {
    let clock = time.split_once('T')?.1;
    let clock = clock.split(['Z', '+', '-']).next()?;
    let mut parts = clock.split(':').map(str::parse::<f64>);
    let mut part = || parts.next()?.ok();
    let (hours, minutes, seconds) = (part()?, part()?, part()?);
    Some(((hours * 60.0 + minutes) * 60.0 + seconds) * 1e6)
}

fn from_fortio(text: &str, done: &ProcessResult) -> Result<RateResult> {
    let said: Value = serde_json::from_str(text).context("fortio's result")?;
    let percentile = |wanted: f64| {
        let all = said["DurationHistogram"]["Percentiles"].as_array()?;
        let one = all.iter().find(|one| one["Percentile"] == wanted)?;
        Some(one["Value"].as_f64()? * 1e6)
    };
    Ok(RateResult {
        rate_per_s: said["ActualQPS"].as_f64().context("ActualQPS")?,
        uneven_p99_us: None,
        uneven_max_us: None,
        p50_us: percentile(50.0),
        p99_us: percentile(99.0),
        cpu_s: done.cost.as_secs_f64(),
    })
}
