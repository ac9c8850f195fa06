//! A recorded script replayed by many users at ten times its speed: how late each request was started, compared with a thread
//! that does nothing but sleep until the same times.
//!
//! Both run on the clients' processor, one after the other, with real-time scheduling if permitted. The thread's lateness is
//! caused by the machine. The machine delays squall just as much, and squall reports how much of each lag the machine caused
//! (docs/METHOD.md).

use std::fs;
use std::path::Path;
use std::process::Command;
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};
use serde_json::Value;
use squall_linux::scheduling::make_realtime;

use crate::clients::Clients;
use crate::figures::quantile;
use crate::programs::{on_processor, run_on};
use crate::rates::columns_us;

/// The reference script: its number of requests, its length, and the users who each replay all of it.
const REQUESTS: u64 = 1_083;
const MINUTES: u64 = 34;
const USERS: u64 = 91;
const SPEED: f64 = 10.0;
/// Every request should be started within this time.
const TARGET_US: f64 = 1_000.0;
/// The priority of squall's clients, and so of the thread they are compared with.
const PRIORITY: i32 = 1;

/// Lateness in microseconds; `None` where it is not reported.
struct LatenessFigures {
    requests: u64,
    above_target: Option<u64>,
    p50_us: Option<f64>,
    p99_us: Option<f64>,
    p999_us: Option<f64>,
    max_us: Option<f64>,
}

/// Replays the first `scale` of the script, has a thread sleep through the same times, and prints both.
pub(crate) fn run(title: &str, clients: &Clients, url: &str, scale: f64) -> Result<()> {
    let all_ms = times_ms();
    let count = ((REQUESTS as f64 * scale).max(1.0) as usize).min(all_ms.len());
    let times_ms = &all_ms[..count];
    let folder = tempfile::tempdir()?;
    let (lag, own) = replay(clients, folder.path(), times_ms, url)?;
    let slept = on_processor(clients.core(), || sleep(times_ms))?;
    println!(
        "\n{title:<44} {:>9} {:>8} {:>8} {:>8} {:>9} {:>9}",
        "requests", ">1 ms", "p50 us", "p99 us", "p99.9 us", "max us"
    );
    let rows = [
        ("squall load", lag),
        ("  without what the machine woke late", own),
        ("a thread that sleeps until the same times", slept),
    ];
    for (name, late) in rows {
        let count =
            |count: Option<u64>| count.map_or_else(|| "not said".into(), |it| it.to_string());
        let cell = |us: Option<f64>| us.map_or_else(|| "not said".into(), |us| format!("{us:.1}"));
        println!(
            "  {name:<42} {:>9} {:>8} {:>8} {:>8} {:>9} {:>9}",
            late.requests,
            count(late.above_target),
            cell(late.p50_us),
            cell(late.p99_us),
            cell(late.p999_us),
            cell(late.max_us)
        );
    }
    Ok(())
}

/// When the script's requests are due: the same in every run, as if drawn uniformly and then sorted.
fn times_ms() -> Vec<f64> {
    let mut state = 7_u64;
    let length_ms = (MINUTES * 60_000) as f64;
    let mut draw = || {
        // The generator of Knuth's MMIX; its upper bits are the better ones.
        state = state
            .wrapping_mul(6_364_136_223_846_793_005)
            .wrapping_add(1_442_695_040_888_963_407);
        (state >> 11) as f64 / (1_u64 << 53) as f64 * length_ms
    };
    let mut times: Vec<f64> = (0..REQUESTS).map(|_| draw()).collect();
    times.sort_by(f64::total_cmp);
    times
}

/// The lag of squall's requests, and the part of it that squall itself caused.
fn replay(
    clients: &Clients,
    folder: &Path,
    times_ms: &[f64],
    url: &str,
) -> Result<(LatenessFigures, LatenessFigures)> {
    let file = |name: &str| folder.join(name);
    let lines: String = times_ms
        .iter()
        .map(|time| format!("{time:.3}\t/\n"))
        .collect();
    fs::write(file("times.tsv"), lines)?;
    let mut import = Command::new(clients.squall_file());
    import.args(["import", "timing"]).arg(file("times.tsv"));
    run_on(clients.core(), import.arg("-o").arg(file("script.json")))?;
    let mut load = Command::new(clients.squall_file());
    load.args([
        "load",
        "--quiet",
        "--threads",
        "1",
        "--warm",
        "--stagger",
        "1s",
    ]);
    load.args([
        "--users",
        &USERS.to_string(),
        "--speed",
        &format!("{SPEED}x"),
    ]);
    load.arg("--script").arg(file("script.json"));
    load.arg("--output").arg(file("requests.csv"));
    load.arg("--json").arg(file("figures.json")).arg(url);
    run_on(clients.core(), &mut load)?;
    let figures: Value = serde_json::from_slice(&fs::read(file("figures.json"))?)?;
    let mut lags = lags_us(&fs::read_to_string(file("requests.csv"))?).context("no times")?;
    let asked = times_ms.len() as u64 * USERS;
    ensure!(
        lags.len() as u64 == asked,
        "{} of {asked} requests",
        lags.len()
    );
    Ok((
        LatenessFigures::of(&mut lags),
        LatenessFigures::reported(&figures["generator"]["punctuality"]["own_lag_ns"]),
    ))
}

fn lags_us(csv: &str) -> Option<Vec<f64>> {
    let rows = columns_us(csv, ["intended_ns", "taken_up_ns"])?;
    let lag = |row: Option<(f64, f64)>| row.map(|(intended, taken_up)| taken_up - intended);
    rows.into_iter().map(lag).collect()
}

/// Sleeps until each time at which any user is due to send a request.
fn sleep(times_ms: &[f64]) -> LatenessFigures {
    make_realtime(PRIORITY);
    let stagger_ms = |user: u64| user as f64 * 1_000.0;
    let mut due_ms: Vec<f64> = (0..USERS)
        .flat_map(|user| {
            times_ms
                .iter()
                .map(move |time| time / SPEED + stagger_ms(user))
        })
        .collect();
    due_ms.sort_by(f64::total_cmp);
    let start = Instant::now();
    let mut late_us: Vec<f64> = (due_ms.into_iter())
        .map(|due_ms| {
            let due = Duration::from_secs_f64(due_ms / 1_000.0);
            thread::sleep(due.saturating_sub(start.elapsed()));
            (start.elapsed().saturating_sub(due)).as_secs_f64() * 1e6
        })
        .collect();
    LatenessFigures::of(&mut late_us)
}

impl LatenessFigures {
    fn of(late_us: &mut [f64]) -> LatenessFigures {
        LatenessFigures {
            requests: late_us.len() as u64,
            above_target: Some(late_us.iter().filter(|late| **late > TARGET_US).count() as u64),
            p50_us: Some(quantile(late_us, 0.5)),
            p99_us: Some(quantile(late_us, 0.99)),
            p999_us: Some(quantile(late_us, 0.999)),
            max_us: Some(quantile(late_us, 1.0)),
        }
    }

    /// The lateness that squall reports. squall does not count requests above the target, but there are 0 if the maximum is
    /// below it.
    fn reported(figures: &Value) -> LatenessFigures {
        let micros = |name: &str| Some(figures[name].as_f64()? / 1_000.0);
        let max_us = micros("max");
        LatenessFigures {
            requests: figures["count"].as_u64().unwrap_or(0),
            above_target: max_us.filter(|max| *max <= TARGET_US).map(|_| 0),
            p50_us: micros("p50"),
            p99_us: micros("p99"),
            p999_us: micros("p99_9"),
            max_us,
        }
    }
}
