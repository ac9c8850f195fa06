//! Computes and prints medians, ranges and ratios.

use std::time::Duration;

use crate::programs::Cores;

/// The costs of one contender's runs, in microseconds per request or in seconds per gigabyte.
pub(crate) struct Series {
    pub(crate) name: String,
    pub(crate) costs: Vec<f64>,
    /// For clients: the share of each run in which the server used its processor.
    pub(crate) server_busy: Vec<f64>,
}

impl Series {
    /// A series without runs.
    pub(crate) fn new(name: String) -> Series {
        Series {
            name,
            costs: Vec::new(),
            server_busy: Vec::new(),
        }
    }
}

/// The unit of costs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Unit {
    /// Microseconds per request.
    Request,
    /// Seconds per 10^9 bytes of body.
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

/// Prints how the cases are measured.
pub(crate) fn print_setup(rounds: usize, cores: Cores, keeps_awake: bool) {
    let load = std::fs::read_to_string("/proc/loadavg").unwrap_or_default();
    println!(
        "Medians of {rounds} rounds (least .. most); servers on processor {}, clients on {}; idle processors {}; load \
         average now: {}",
        cores.server,
        cores.client,
        if keeps_awake {
            "awake for all"
        } else {
            "as each program has them"
        },
        load.split(' ').next().unwrap_or("unknown"),
    );
}

/// Prints one case: each contender, and the cost of the first divided by its own. The ratio is taken within each round,
/// because the machine's speed drifts less within a round than over all of them.
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

/// The smallest value that at least this share of the values does not exceed.
pub(crate) fn quantile(values: &mut [f64], share: f64) -> f64 {
    values.sort_by(f64::total_cmp);
    let place = (values.len() as f64 * share).ceil() as usize;
    values[place.clamp(1, values.len()) - 1]
}

/// The middle value, or the mean of the two middle ones.
pub(crate) fn median(costs: &[f64]) -> f64 {
    let mut sorted = costs.to_vec();
    sorted.sort_by(f64::total_cmp);
    match sorted.len() {
        0 => f64::NAN,
        count => (sorted[(count - 1) / 2] + sorted[count / 2]) / 2.0,
    }
}
