//! The progress display of a running load, on stderr: a screen on a terminal, otherwise a line every few seconds.
//!
//! It reads gauges and sums; squall-report formats them.

use std::sync::Arc;
use std::thread::{self, JoinHandle};

use squall_analysis::Threshold;
use squall_analysis::load::{Generator, IntervalFigures};
use squall_base::plan::Workload;
use squall_base::record::Phase;
use squall_base::{Duration, Rate, Time};
use squall_linux::clock;
use squall_linux::stop::StopSignal;
use squall_report::load::{Glyphs, LiveLoad, TextFormat, line, screen};
use squall_stations::client::{Gauge, GaugeReading};

use super::arguments::{Arguments, Outputs};
use super::plan::Plan;
use super::tables::{Epoch, SharedSums};
use super::thresholds::checked;
use crate::display;
use crate::output::{draw, eprint};

/// How often a terminal is redrawn, and how often a line is printed otherwise.
const REDRAW_EVERY: Duration = Duration::from_millis(500);
const LINE_EVERY: Duration = Duration::from_secs(5);
/// How often to check whether the load is over.
const LOOK_EVERY: Duration = Duration::from_millis(10);

/// Width, colour, glyphs and language for the output of `squall load` on this stream.
pub(super) fn text_format(outputs: &Outputs, is_terminal: bool) -> TextFormat {
    let has_utf8 = ["LC_ALL", "LC_CTYPE", "LANG"]
        .iter()
        .find_map(|name| std::env::var(name).ok().filter(|value| !value.is_empty()))
        .is_none_or(|value| value.to_ascii_lowercase().replace('-', "").contains("utf8"));
    TextFormat {
        width: display::width(),
        colour: outputs.colour.for_stream(is_terminal),
        glyphs: if has_utf8 {
            Glyphs::Unicode
        } else {
            Glyphs::Ascii
        },
        language: outputs.language(),
    }
}

pub(super) struct Screen {
    title: String,
    start: Time,
    epoch: Epoch,
    gauges: Vec<Arc<Gauge>>,
    duration: Option<Duration>,
    requests: Option<u64>,
    warmup: Duration,
    rate_asked_per_s: Option<f64>,
    is_quiet: bool,
    is_terminal: bool,
    /// How the screen looks; its width may change, because a terminal can be resized.
    format: TextFormat,
    thresholds: Vec<Threshold>,
}

impl Screen {
    pub(super) fn new(
        arguments: &Arguments,
        plan: &Plan,
        title: &str,
        (start, epoch): (Time, Epoch),
        gauges: Vec<Arc<Gauge>>,
        (warmup, duration): (Duration, Option<Duration>),
    ) -> Screen {
        let requests = match &plan.workload {
            Workload::Closed(load) => load.requests,
            _ => None,
        };
        let rate_asked_per_s = match &plan.workload {
            Workload::Open(load) => match load.stages.as_slice() {
                [stage] => stage.from.map(Rate::per_second),
                _ => None,
            },
            _ => None,
        };
        Screen {
            title: title.to_owned(),
            start,
            epoch,
            gauges,
            duration,
            requests,
            warmup,
            rate_asked_per_s,
            is_quiet: arguments.outputs.is_quiet(),
            is_terminal: display::can_redraw(),
            format: text_format(&arguments.outputs, true),
            thresholds: arguments.outputs.threshold.clone(),
        }
    }

    /// Shows the load until all clients have ended.
    pub(super) fn watch<T>(
        &self,
        clients: &[JoinHandle<T>],
        shared: &SharedSums,
        stop: &StopSignal,
    ) {
        let every = if self.is_terminal {
            REDRAW_EVERY
        } else {
            LINE_EVERY
        };
        let mut seen = clock::now();
        let mut drawn = 0;
        while !clients.iter().all(JoinHandle::is_finished) {
            thread::sleep(LOOK_EVERY.into());
            for said in shared.failed_files.take_unsaid() {
                erase(&mut drawn);
                eprint(said);
            }
            let now = clock::now();
            if self.is_quiet || now.since(seen) < every {
                continue;
            }
            let interval = shared.lock().take_interval(now.since(seen));
            if let Some(interval) = interval {
                self.draw(now, &interval, shared, &mut drawn, stop);
            }
            seen = now;
        }
        // The summary replaces the screen.
        erase(&mut drawn);
    }

    fn draw(
        &self,
        now: Time,
        interval: &IntervalFigures,
        shared: &SharedSums,
        drawn: &mut usize,
        stop: &StopSignal,
    ) {
        let mut gauge = GaugeReading::default();
        for reading in self.gauges.iter().map(|gauge| gauge.read()) {
            gauge.started += reading.started;
            gauge.ended += reading.ended;
            gauge.connections += reading.connections;
        }
        let elapsed = now.since(self.start);
        let sums = shared.lock();
        let now = now.relative_to(self.epoch.time);
        let thresholds = checked(&self.thresholds, &sums.totals, now);
        let live = LiveLoad {
            now,
            elapsed,
            duration: self.duration,
            requests: self.requests,
            phase: if elapsed < self.warmup {
                Phase::Warmup
            } else {
                Phase::Measure
            },
            started: gauge.started,
            ended: gauge.ended,
            in_flight: gauge.started.saturating_sub(gauge.ended),
            open_connections: gauge.connections,
            interval,
            totals: &sums.totals,
            thresholds: &thresholds,
            generator: Generator {
                rate_asked_per_s: self.rate_asked_per_s,
                cpu_percent: None,
                punctuality: None,
            },
        };
        if !self.is_terminal {
            let said = format!("{}: {}", self.title, line(&live));
            eprint(format_args!("{}\n", self.format.say(&said)));
            return;
        }
        let (width, rows) = display::redraw_size();
        let format = TextFormat {
            width,
            ..self.format
        };
        // The last row stays empty, for the cursor. Lines that scroll off the screen can no longer be erased.
        let mut lines = screen(&live, &format, rows.saturating_sub(2));
        lines.push(if stop.is_requested() {
            format.fitting("ending")
        } else {
            format.fitting(&format!("{}; Ctrl-C ends it early", self.title))
        });
        let up = match *drawn {
            0 => String::new(),
            lines => erasure(lines),
        };
        *drawn = lines.len();
        draw(format_args!("{up}{}\n", lines.join("\n")));
    }
}

fn erase(drawn: &mut usize) {
    if *drawn > 0 {
        draw(erasure(*drawn));
        *drawn = 0;
    }
}

/// The control sequence that erases the lines above the cursor. Terminals echo keys, such as ^C, so the cursor may have left
/// the first column.
fn erasure(lines: usize) -> String {
    format!("\r\x1b[{lines}A\x1b[J")
}
