//! Computes and prints medians and ratios.

use crate::contenders::{Cost, Series};
use crate::rows::Counts;

/// Limit of attribution's processor time, as a multiple of what DuckDB needs to read the files.
const RATIO_AT_MOST: f64 = 3.0;
/// Limit of attribution's memory.
const PEAK_BELOW_BYTES: f64 = 1e9;

/// Prints how the cost is measured.
pub(crate) fn print_setup(rounds: usize, duck: &Result<String, String>) {
    let load = std::fs::read_to_string("/proc/loadavg").unwrap_or_default();
    println!(
        "Medians of {rounds} rounds; load average now: {}",
        load.split(' ').next().unwrap_or("unknown"),
    );
    match duck {
        Ok(version) => println!("DuckDB {version} reads every column of the same files once."),
        Err(why) => println!(
            "!!! DuckDB is LEFT OUT, there will be NO RATIOS: {why}\n\
             !!! To have it: python3 -m pip install duckdb"
        ),
    }
}

/// Prints the contents of the files.
pub(crate) fn print_contents(counts: &Counts, bytes: u64) {
    println!(
        "\n{} requests, {} packets, {} exchanges, {} frames, {} samples of sockets; {:.0} MB",
        counts.requests,
        counts.packets,
        counts.exchanges,
        counts.frames,
        counts.sockets,
        bytes as f64 / 1e6,
    );
}

/// Prints each contender, and the cost of the first divided by its own.
pub(crate) fn print(all: &[Series]) {
    println!(
        "  {:<24} {:>9} {:>9} {:>9} {:>14} {:>14}",
        "", "CPU s", "wall s", "peak MB", "squall / CPU", "squall / wall"
    );
    let Some(first) = all.first().map(Medians::of) else {
        return;
    };
    for series in all {
        let medians = Medians::of(series);
        println!(
            "  {:<24} {:>9.2} {:>9.2} {:>9.0} {:>14.2} {:>14.2}",
            series.name,
            medians.cpu_s,
            medians.wall_s,
            medians.peak_bytes / 1e6,
            first.cpu_s / medians.cpu_s,
            first.wall_s / medians.wall_s,
        );
    }
    let verdict = |is_kept: bool| if is_kept { "kept" } else { "MISSED" };
    if let Some(one_thread) = all.get(1).map(Medians::of) {
        let ratio = first.cpu_s / one_thread.cpu_s;
        println!(
            "  At most {RATIO_AT_MOST} times DuckDB's processor time: {ratio:.2}, {}",
            verdict(ratio <= RATIO_AT_MOST)
        );
    }
    println!(
        "  Peak memory below {:.0} MB: {:.0} MB, {}",
        PEAK_BELOW_BYTES / 1e6,
        first.peak_bytes / 1e6,
        verdict(first.peak_bytes < PEAK_BELOW_BYTES)
    );
}

/// Prints how time and memory grow with the number of requests.
pub(crate) fn print_growth(costs: &[(u64, Vec<Series>)]) {
    let [(many, of_many), (few, of_few)] = costs else {
        return;
    };
    let (Some(many_cost), Some(few_cost)) = (of_many.first(), of_few.first()) else {
        return;
    };
    let (many_cost, few_cost) = (Medians::of(many_cost), Medians::of(few_cost));
    println!(
        "\n{:.2} times the requests: squall takes {:.2} times the processor time and {:.2} times the memory",
        *many as f64 / *few as f64,
        many_cost.cpu_s / few_cost.cpu_s,
        many_cost.peak_bytes / few_cost.peak_bytes,
    );
}

/// The median of each figure.
struct Medians {
    wall_s: f64,
    cpu_s: f64,
    peak_bytes: f64,
}

impl Medians {
    fn of(series: &Series) -> Medians {
        let median = |figure: fn(&Cost) -> f64| {
            let mut sorted: Vec<f64> = series.costs.iter().map(figure).collect();
            sorted.sort_by(f64::total_cmp);
            match sorted.len() {
                0 => f64::NAN,
                count => (sorted[(count - 1) / 2] + sorted[count / 2]) / 2.0,
            }
        };
        Medians {
            wall_s: median(|cost| cost.wall_s),
            cpu_s: median(|cost| cost.cpu_s),
            peak_bytes: median(|cost| cost.peak_bytes),
        }
    }
}
