//! How long each step into a plot of `squall view` takes: `cargo bench -p squall --bench view`, on a quiet machine.
//!
//! The bench makes the folder of a run whose only trial has 2,000,000 requests and about 8,000,000 packets, by the simulation
//! of the `analysis` bench, and starts `squall view`. Then it asks what the page asks when a reader zooms in: all of a plot, a
//! second of it, 10 ms, the packets of these 10 ms and of the second, and one request in full, as text and as its dialog. A
//! time is from the question to the last byte of the answer, without what the browser does with it. The first question about a
//! trial's requests or packets reads their tables, and the first about one request in full checks all tables and reads how
//! connections began, so it has a column of its own. The verdict is about the medians of further questions: if any of them
//! misses the limit, the bench exits with 1.
//!
//! Arguments: `--rounds=COUNT` of further questions (9), `--scale=FACTOR` for the number of requests (1).

#[path = "../../src/run/worker/causes.rs"]
mod causes;
mod made;
#[path = "../analysis/rows.rs"]
mod rows;
mod viewer;
#[path = "../analysis/world.rs"]
mod world;

use std::time::Duration;

use anyhow::{Context, Result, bail};

use made::{MadeRun, MadeTrial};
use viewer::Viewer;
use world::Requests;

const REQUESTS: f64 = 2_000_000.0;

/// One trial.
const RECIPE: &str = r#"
name = "made"
question = "What does a step into two million requests take?"
repetitions = 1
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

/// The limit for a step: with the browser's drawing added, it still feels immediate to a reader.
const STEP_AT_MOST: Duration = Duration::from_millis(300);

/// The plot of a wide window on a screen with two device pixels for each CSS pixel (assets/live.js).
const PLOT: &str = "low_us=0&high_us=1000000&columns=1140&rows=280&scale=linear";

/// A question, and how many times it is asked after the first time.
struct Step {
    name: &'static str,
    path: String,
    rounds: usize,
}

fn main() -> Result<()> {
    let (rounds, scale) = read_arguments()?;
    let requests = Requests {
        simulated: (REQUESTS * scale) as u64,
        plain: 0,
    };
    let run = MadeRun::of(RECIPE, requests)?;
    let [trial] = run.trials() else {
        bail!("the run has {} trials instead of one", run.trials().len());
    };
    println!("{}", trial.contents());
    let viewer = Viewer::start(run.folder())?;
    println!(
        "URL printed after {:.2} s; medians of {rounds} further questions; load average {}",
        viewer.started_after().as_secs_f64(),
        load_average()
    );
    println!(
        "\n{:<34} {:>10} {:>10} {:>10} {:>10}",
        "", "first s", "further s", "worst s", "answer kB"
    );
    let steps = steps(trial, rounds);
    let mut missed = Vec::new();
    for step in &steps {
        if !measure(&viewer, step)? {
            missed.push(step.name);
        }
    }
    if let Some(mib) = viewer.peak_mib() {
        println!("\npeak memory of squall view: {mib} MiB");
    }
    if !missed.is_empty() {
        bail!(
            "{} of {} steps took more than {} s: {}. Repeat it on a quiet machine",
            missed.len(),
            steps.len(),
            STEP_AT_MOST.as_secs_f64(),
            missed.join(", ")
        );
    }
    Ok(())
}

/// The steps of a reader who zooms to a point about two fifths into the load, and asks for a request there.
fn steps(made: &MadeTrial, rounds: usize) -> Vec<Step> {
    let trial = format!("/runs/1/trials/{}", made.name);
    let (middle_us, request) = (made.span_us() / 5 * 2, made.requests() / 5 * 2);
    let time = |from_us: u64, length_us: u64| {
        format!("from_us={from_us}&to_us={}", from_us + length_us - 1)
    };
    let points = |name, time: String| Step {
        name,
        path: format!("{trial}/points?{time}&{PLOT}"),
        rounds,
    };
    vec![
        points("overview", time(0, made.span_us())),
        points("zoom to 1 s", time(middle_us, 1_000_000)),
        points("zoom to 10 ms", time(middle_us, 10_000)),
        Step {
            name: "packets of 10 ms",
            path: format!("{trial}/packets?{}", time(middle_us, 10_000)),
            rounds,
        },
        Step {
            name: "packets of 1 s",
            path: format!("{trial}/packets?{}", time(middle_us, 1_000_000)),
            rounds,
        },
        Step {
            name: "one request in full",
            path: format!("{trial}/requests/{request}"),
            rounds,
        },
        Step {
            name: "its dialog, with its connection",
            path: format!("{trial}/requests/{request}/full"),
            rounds,
        },
    ]
}

/// Asks and prints a line. Returns whether the limit is kept.
fn measure(viewer: &Viewer, step: &Step) -> Result<bool> {
    let ask = || {
        let asked = viewer.ask(&step.path);
        asked.with_context(|| step.name.to_owned())
    };
    let (first, bytes) = ask()?;
    let mut further = Vec::new();
    for _ in 0..step.rounds {
        further.push(ask()?.0);
    }
    further.sort();
    let (median, worst) = (further[further.len() / 2], further[further.len() - 1]);
    let is_kept = median <= STEP_AT_MOST;
    let verdict = if is_kept { "kept" } else { "MISSED" };
    println!(
        "{:<34} {:>10.4} {:>10.4} {:>10.4} {:>10.0}  at most {} s: {verdict}",
        step.name,
        first.as_secs_f64(),
        median.as_secs_f64(),
        worst.as_secs_f64(),
        bytes as f64 / 1e3,
        STEP_AT_MOST.as_secs_f64(),
    );
    Ok(is_kept)
}

fn load_average() -> String {
    let load = std::fs::read_to_string("/proc/loadavg").unwrap_or_default();
    load.split(' ').next().unwrap_or("unknown").to_owned()
}

/// The rounds and the scale.
fn read_arguments() -> Result<(usize, f64)> {
    let (mut rounds, mut scale) = (9, 1.0);
    // Cargo adds --bench.
    for word in std::env::args().skip(1).filter(|word| word != "--bench") {
        match word.split_once('=') {
            Some(("--rounds", count)) => rounds = count.parse().context("--rounds=COUNT")?,
            Some(("--scale", factor)) => scale = factor.parse().context("--scale=FACTOR")?,
            _ => bail!("unknown argument {word}"),
        }
    }
    if rounds == 0 {
        bail!("--rounds must be at least 1");
    }
    Ok((rounds, scale))
}
