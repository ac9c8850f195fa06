//! Medians, ranges and ratios, and how they are printed.

use std::time::Duration;

use crate::programs::Cores;

/// What one contender's runs cost, each in microseconds for a request or in seconds for a gigabyte.
pub(crate) struct Series {
    pub(crate) name: String,
    pub(crate) costs: Vec<f64>,
    /// Of clients: the share of each run for which their server had its processor.
    pub(crate) server_busy: Vec<f64>,
}

impl Series {
    /// One without a run.
    pub(crate) fn new(name: String) -> Series {
        Series {
            name,
            costs: Vec::new(),
            server_busy: Vec::new(),
        }
    }
}

/// What costs are counted in.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Unit {
    /// Microseconds for each request.
    Request,
    /// Seconds for each 10^9 bytes of a body.
    Gigabyte,
}

impl Unit {
    /// A cost in this unit.
    pub(crate) fn of(self, cost: Duration, count: u64) -> f64 {
        match self {
            Unit::Request => cost.as_secs_f64() * 1e6 / count as f64,
            Unit::Gigabyte => cost.as_secs_f64() * 1e9 / count as f64,
        }
    }

    const fn name(self) -> &'static str {
        match self {
            Unit::Request => "CPU us/request",
            Unit::Gigabyte => "CPU s/GB",
        }
    }
}

/// Says what is measured how.
pub(crate) fn say_how(rounds: usize, cores: Cores, keeps_awake: bool) {
    let load = std::fs::read_to_string("/proc/loadavg").unwrap_or_default();
    println!(
        "Medians of {rounds} rounds (least .. most); servers on processor {}, clients on {}; idle processors {}; load \
         average now: {}",
        cores.server,
        cores.client,
        match keeps_awake {
            true => "awake for all",
            false => "as each program has them",
        },
        load.split(' ').next().unwrap_or("unknown"),
    );
}

/// Prints one case: each contender, and what the first costs in comparison to it, round by round: the machine's speed
/// drifts, and less within a round than over all.
pub(crate) fn print(title: &str, unit: Unit, contenders: &[Series]) {
    let are_clients = contenders
        .iter()
        .any(|series| !series.server_busy.is_empty());
    println!(
        "\n{title:<48} {:>14} {:>22} {:>13}{}",
        unit.name(),
        "range",
        "first / this",
        if are_clients { "   server busy" } else { "" },
    );
    let Some(first) = contenders.first() else {
        return;
    };
    for series in contenders {
        let range = format!(
            "{:.3} .. {:.3}",
            series.costs.iter().copied().fold(f64::INFINITY, f64::min),
            series.costs.iter().copied().fold(0.0, f64::max),
        );
        let cost = median(&series.costs);
        let both = first.costs.iter().zip(&series.costs);
        let ratios: Vec<f64> = both.map(|(first, this)| first / this).collect();
        let busy = match series.server_busy.as_slice() {
            [] => String::new(),
            shares => format!("{:>12.0} %", median(shares) * 100.0),
        };
        println!(
            "  {:<46} {cost:>14.3} {range:>22} {:>13.2}{busy}",
            series.name,
            median(&ratios),
        );
    }
}

/// The smallest value that so large a share of them does not exceed.
pub(crate) fn quantile(values: &mut [f64], share: f64) -> f64 {
    values.sort_by(f64::total_cmp);
    let place = (values.len() as f64 * share).ceil() as usize;
    values[place.clamp(1, values.len()) - 1]
}

/// The middle one, or the mean of both.
pub(crate) fn median(costs: &[f64]) -> f64 {
    let mut sorted = costs.to_vec();
    sorted.sort_by(f64::total_cmp);
    match sorted.len() {
        0 => f64::NAN,
        count => (sorted[(count - 1) / 2] + sorted[count / 2]) / 2.0,
    }
}
