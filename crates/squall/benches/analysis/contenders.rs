//! The contenders: squall's attribution, and DuckDB reading the same files. Each run is a separate process.

use std::path::Path;
use std::process::{Command, Stdio};
use std::time::Instant;

use anyhow::{Context, Result, ensure};
use nix::sys::resource::{UsageWho, getrusage};
use squall_base::plan::Trial;
use squall_record::PartialTrial;

use crate::causes;

/// The argument that makes this bench run as the attributing process.
pub(crate) const ATTRIBUTE: &str = "--attribute";

/// The tables that attribution reads: all that a trial's threads write.
const TABLES: [&str; 5] = ["requests", "packets", "exchanges", "frames", "sockets"];

const DUCK: &str = include_str!("duck.py");

/// A recipe for a trial like the simulated one.
const RECIPE: &str = r#"
name = "made"
question = "What does the analysis of a trial cost?"
[load]
rate = "20000/s"
duration = "100s"
[conditions]
delay = "25ms"
loss = "1%"
[[variant]]
name = "h2c"
path = "client ~h2c~> server"
"#;

/// The cost of one run.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Cost {
    pub(crate) wall_s: f64,
    pub(crate) cpu_s: f64,
    pub(crate) peak_bytes: f64,
}

/// All runs of one contender.
pub(crate) struct Series {
    pub(crate) name: &'static str,
    pub(crate) costs: Vec<Cost>,
}

/// DuckDB's version if Python with DuckDB is installed, otherwise the reason why not.
pub(crate) fn find_duck() -> Result<String, String> {
    let mut python = Command::new("python3");
    python.args(["-c", "import duckdb; print(duckdb.__version__)"]);
    let output = python
        .output()
        .map_err(|error| format!("python3 does not start: {error}"))?;
    if output.status.success() {
        return Ok(String::from_utf8_lossy(&output.stdout).trim().to_owned());
    }
    let said = String::from_utf8_lossy(&output.stderr);
    let why = said.trim().lines().last().unwrap_or("import duckdb failed");
    Err(why.to_owned())
}

/// Runs all contenders in turns, squall first.
pub(crate) fn run(tables: &Path, rounds: usize, has_duck: bool) -> Result<Vec<Series>> {
    let mut all = vec![Series::new("squall: attribution")];
    if has_duck {
        all.push(Series::new("DuckDB: one thread"));
        all.push(Series::new("DuckDB: its own choice"));
    }
    for _ in 0..rounds {
        let target = tables.join("trial");
        let mut attribution = Command::new(std::env::current_exe()?);
        attribution.arg(ATTRIBUTE).arg(tables).arg(&target);
        all[0].costs.push(measure(&mut attribution)?);
        for (series, threads) in all[1..].iter_mut().zip(["1", "0"]) {
            let mut duck = Command::new("python3");
            duck.args(["-c", DUCK]).arg(tables).arg(threads);
            series.costs.push(measure(duck.args(TABLES))?);
        }
    }
    Ok(all)
}

impl Series {
    fn new(name: &'static str) -> Series {
        let costs = Vec::new();
        Series { name, costs }
    }
}

/// Runs a process that prints its cost: seconds, seconds of processor time, peak memory in KiB.
fn measure(command: &mut Command) -> Result<Cost> {
    let command = command.stdin(Stdio::null()).stderr(Stdio::inherit());
    let output = command
        .output()
        .with_context(|| format!("cannot run {command:?}"))?;
    ensure!(output.status.success(), "{command:?}: {}", output.status);
    let printed = String::from_utf8_lossy(&output.stdout);
    let last = printed.lines().last().unwrap_or_default();
    let mut numbers = last.split(' ').map(str::parse::<f64>);
    let mut next = || numbers.next()?.ok();
    match (next(), next(), next()) {
        (Some(wall_s), Some(cpu_s), Some(peak_kib)) => Ok(Cost {
            wall_s,
            cpu_s,
            peak_bytes: peak_kib * 1024.0,
        }),
        _ => anyhow::bail!("{command:?} printed {printed:?}"),
    }
}

/// Attributes the trial with these tables, as the worker of `squall run` does, and prints its cost.
pub(crate) fn attribute(tables: &Path, target: &Path) -> Result<()> {
    let began = Instant::now();
    let trial = trial()?;
    let partial = PartialTrial::begin(target)?;
    for table in TABLES {
        let name = format!("{table}.parquet");
        std::fs::hard_link(tables.join(&name), partial.root().join(&name))?;
    }
    let attribution = causes::attribute_trial(&partial, &trial)?;
    let rows = (attribution.causes.len(), attribution.drops.len());
    drop(attribution);
    let usage = getrusage(UsageWho::RUSAGE_SELF)?;
    let seconds =
        |time: nix::sys::time::TimeVal| time.tv_sec() as f64 + time.tv_usec() as f64 / 1e6;
    println!("{} causes, {} drops", rows.0, rows.1);
    println!(
        "{} {} {}",
        began.elapsed().as_secs_f64(),
        seconds(usage.user_time()) + seconds(usage.system_time()),
        usage.max_rss()
    );
    Ok(())
}

fn trial() -> Result<Trial> {
    let recipe = squall_recipe::parse(RECIPE)?;
    let plan = recipe.plan(recipe.default_profile(), 1)?;
    plan.trials
        .into_iter()
        .next()
        .context("a plan of one trial")
}
