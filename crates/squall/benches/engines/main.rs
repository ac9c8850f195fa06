//! What a request costs squall's engines, compared with the programs that people use instead: `cargo bench -p squall
//! --bench engines`.
//!
//! Clients run in turns against one server, and servers in turns under one client. The server has one processor, the
//! client another. The figure is the processor time of the program under test, over all its threads, for a fixed number
//! of requests. The share of time in which the server was busy is printed: at 100 % the server set the pace and clients
//! waited for it, which costs a client more the faster it is. A busy machine slows all programs alike, so the ratios,
//! which are taken within rounds, are more reliable than the absolute figures; for final figures the machine should be
//! quiet. A missing program is reported and left out.
//!
//! `cases` has the cases; `clients`, `least_client`, `least_server`, `rates`, `replay`, `proxies` and `servers` have
//! what runs, `programs` measures, and `figures` prints.
//!
//! Arguments: words in the names of the cases to run (default: all), `--rounds=COUNT` (5), `--scale=FACTOR` for the
//! number of requests (1), `--squall=FILE` for another squall than this build's, `--awake` to keep idle processors
//! awake for all programs, which otherwise only squall load does for itself.

mod cases;
mod clients;
mod figures;
mod least_client;
mod least_server;
mod programs;
mod proxies;
mod rates;
mod replay;
mod servers;

use std::path::PathBuf;

use anyhow::{Context, Result, bail};
use squall_linux::awake::SleepInhibitor;

/// The arguments of the bench.
struct Arguments {
    rounds: usize,
    scale: f64,
    squall: PathBuf,
    keeps_awake: bool,
    words: Vec<String>,
}

fn main() -> Result<()> {
    let words: Vec<String> = std::env::args().skip(1).collect();
    match words
        .split_first()
        .map(|(first, rest)| (first.as_str(), rest))
    {
        Some((least_client::ARGUMENT, rest)) => return least_client::run(rest),
        Some((least_server::ARGUMENT, rest)) => return least_server::run(rest),
        _ => {}
    }
    let arguments = Arguments::read()?;
    let cores = programs::Cores::find()?;
    let bench = cases::Bench::begin(&arguments, cores)?;
    let _awake = if arguments.keeps_awake {
        Some(SleepInhibitor::acquire().context("cannot write /dev/cpu_dma_latency; root can")?)
    } else {
        None
    };
    figures::print_setup(arguments.rounds, cores, arguments.keeps_awake);
    for case in cases::ALL {
        let is_wanted = arguments.words.is_empty()
            || (arguments.words.iter()).any(|word| case.name().contains(word.as_str()));
        if is_wanted {
            bench.run(case)?;
        }
    }
    Ok(())
}

impl Arguments {
    fn read() -> Result<Arguments> {
        let mut arguments = Arguments {
            rounds: 5,
            scale: 1.0,
            squall: env!("CARGO_BIN_EXE_squall").into(),
            keeps_awake: false,
            words: Vec::new(),
        };
        // Cargo adds --bench.
        for argument in std::env::args().skip(1).filter(|word| word != "--bench") {
            match argument.split_once('=') {
                Some(("--rounds", count)) => {
                    arguments.rounds = count.parse().context("--rounds=COUNT")?;
                }
                Some(("--scale", factor)) => {
                    arguments.scale = factor.parse().context("--scale=FACTOR")?;
                }
                Some(("--squall", file)) => arguments.squall = file.into(),
                None if argument == "--awake" => arguments.keeps_awake = true,
                _ if argument.starts_with('-') => bail!("unknown argument {argument}"),
                _ => arguments.words.push(argument),
            }
        }
        Ok(arguments)
    }
}
