//! What analysing a trial costs, compared with reading its files once: `cargo bench -p squall --bench analysis`.
//!
//! The bench generates a trial of 2,000,000 requests and about 8,000,000 packets (`world`, `rows`). Then two contenders
//! run in turns. squall attributes response times to causes, from files to files, with the code of the trial's worker
//! (`run/worker/causes.rs`), in a separate process. DuckDB reads every column of the same files once, with one thread
//! and with as many as it chooses. Everything is repeated with a quarter of the requests, which shows whether time is
//! linear in their number. A busy machine slows both alike, so the ratios are more reliable than the absolute figures.
//! Without DuckDB the bench says so and prints no ratios.
//!
//! Arguments: `--rounds=COUNT` (3), `--scale=FACTOR` for the number of requests (1).

#[path = "../../src/run/worker/causes.rs"]
mod causes;
mod contenders;
mod figures;
mod rows;
mod world;

use std::ffi::OsString;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result, bail};

use world::Requests;

/// As in the binary, because the bench measures what a trial's worker needs.
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

const REQUESTS: f64 = 2_000_000.0;
const SEED: u64 = 1;

/// The arguments of the bench.
enum Arguments {
    Compare {
        rounds: usize,
        scale: f64,
    },
    /// For the measured process: the folder of the tables, and the folder of the trial.
    Attribute(PathBuf, PathBuf),
}

fn main() -> Result<()> {
    match Arguments::read()? {
        Arguments::Compare { rounds, scale } => compare(rounds, scale),
        Arguments::Attribute(tables, trial) => contenders::attribute(&tables, &trial),
    }
}

fn compare(rounds: usize, scale: f64) -> Result<()> {
    let duck = contenders::find_duck();
    figures::print_setup(rounds, &duck);
    let folder = tempfile::tempdir().context("cannot make a folder for the tables")?;
    let mut costs = Vec::new();
    for part in [1.0, 0.25] {
        let requests = (REQUESTS * scale * part) as u64;
        let tables = folder.path().join(requests.to_string());
        std::fs::create_dir(&tables)?;
        let made = Requests {
            simulated: requests,
            plain: 0,
        };
        let counts = world::write(&tables, made, SEED)?;
        figures::print_contents(&counts, bytes_of(&tables)?);
        let measured = contenders::run(&tables, rounds, duck.is_ok())?;
        figures::print(&measured);
        costs.push((requests, measured));
        std::fs::remove_dir_all(&tables)?;
    }
    figures::print_growth(&costs);
    Ok(())
}

/// The total size of all files in a folder.
fn bytes_of(folder: &Path) -> Result<u64> {
    let mut bytes = 0;
    for file in std::fs::read_dir(folder)? {
        bytes += file?.metadata()?.len();
    }
    Ok(bytes)
}

impl Arguments {
    fn read() -> Result<Arguments> {
        let (mut rounds, mut scale) = (3, 1.0);
        // Cargo adds --bench.
        let mut words = std::env::args_os().skip(1).filter(|word| word != "--bench");
        while let Some(word) = words.next() {
            if word == contenders::ATTRIBUTE {
                let mut path = || words.next().map(PathBuf::from);
                let (Some(tables), Some(trial)) = (path(), path()) else {
                    bail!("{} takes two folders", contenders::ATTRIBUTE);
                };
                return Ok(Arguments::Attribute(tables, trial));
            }
            match split(&word) {
                Some(("--rounds", count)) => rounds = count.parse().context("--rounds=COUNT")?,
                Some(("--scale", factor)) => scale = factor.parse().context("--scale=FACTOR")?,
                _ => bail!("unknown argument {}", word.display()),
            }
        }
        Ok(Arguments::Compare { rounds, scale })
    }
}

fn split(word: &OsString) -> Option<(&str, &str)> {
    word.to_str()?.split_once('=')
}
