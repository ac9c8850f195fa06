//! What a request costs our engines, beside the programs that people use instead: `cargo bench -p squall --bench engines`.
//!
//! Clients run in turns against one server, and servers in turns under one client: the server has one processor, the
//! client another, and what counts is the processor time of the program under test, all of its threads together, for a
//! fixed number of requests. How busy the server was is said: at 100 % it was the server that set the pace, and clients
//! waited for it, which costs the more the faster they are. A busy machine slows all alike, so the ratios, of the runs of
//! a round, hold better than the figures; for final ones it should be quiet. A program that is missing is said to be, and
//! left out. Cases are in `cases`, what runs in `clients`, `least_client`, `least_server`, `rates`, `replay`, `proxies` and
//! `servers`, how it is measured in `programs`, what is printed in `figures`.
//!
//! Arguments: words of the names of the cases to run (all without), `--rounds=COUNT` (5), `--scale=FACTOR` for the
//! number of requests (1), `--squall=FILE` for another squall than this build's, `--awake` to keep idle processors awake
//! for all programs, which squall load otherwise does for itself and the others do not.

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
use squall_linux::awake::Awake;

/// What the command line asks for.
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
    let _awake = match arguments.keeps_awake {
        true => Some(Awake::keep().context("cannot write /dev/cpu_dma_latency; root can")?),
        false => None,
    };
    figures::say_how(arguments.rounds, cores, arguments.keeps_awake);
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
