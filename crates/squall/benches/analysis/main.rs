//! What analysing a trial costs, beside reading its files once: `cargo bench -p squall --bench analysis`.
//!
//! A trial of 2,000,000 requests and about 8,000,000 packets is made (`world`, `rows`). Then, in turns, squall attributes
//! its response times to causes from files to files, with the code of the trial's worker (`worker/causes.rs`), in a process
//! of its own, and DuckDB reads every column of the same files once, with one thread and with as many as it likes. All of
//! it again with a quarter of the requests, which shows whether time is linear in them. A busy machine slows both alike, so
//! the ratios hold better than the figures. Without DuckDB the bench says so, and has no ratios.
//!
//! Arguments: `--rounds=COUNT` (3), `--scale=FACTOR` for the number of requests (1).

#[path = "../../src/worker/causes.rs"]
mod causes;
mod contenders;
mod figures;
mod rows;
mod world;

use std::ffi::OsString;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result, bail};

/// As in the binary: what is measured is what a trial's worker needs.
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

const REQUESTS: f64 = 2_000_000.0;
const SEED: u64 = 1;

/// What the command line asks for.
enum Arguments {
    Compare {
        rounds: usize,
        scale: f64,
    },
    /// Of the process that is measured: the tables' folder, and the trial's.
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
    figures::say_how(rounds, &duck);
    let folder = tempfile::tempdir().context("cannot make a folder for the tables")?;
    let mut costs = Vec::new();
    for part in [1.0, 0.25] {
        let requests = (REQUESTS * scale * part) as u64;
        let tables = folder.path().join(requests.to_string());
        std::fs::create_dir(&tables)?;
        let counts = world::write(&tables, requests, SEED)?;
        figures::say_what(&counts, bytes_of(&tables)?);
        let measured = contenders::run(&tables, rounds, duck.is_ok())?;
        figures::print(&measured);
        costs.push((requests, measured));
        std::fs::remove_dir_all(&tables)?;
    }
    figures::print_growth(&costs);
    Ok(())
}

/// Bytes of all files in a folder.
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
