//! The progress line of a run: which trial is running, what the last one found, and how long the rest will take.
//!
//! On a terminal the line of the running trial is redrawn; otherwise each trial prints one line when it has ended.
//! Everything goes to stderr.

use std::fmt::Display;
use std::io::IsTerminal;
use std::time::{Duration, Instant};

use squall_base::plan::Trial;

use crate::output::{draw, eprint};

/// Set-up and clean-up time of a trial, until the first one has been measured.
const OVERHEAD_GUESS: Duration = Duration::from_millis(500);

pub(crate) struct Progress {
    total: usize,
    done: usize,
    /// The longest time that the loads of the remaining trials can take.
    load_time_left: Duration,
    overhead: Duration,
    started: Instant,
    is_terminal: bool,
}

impl Progress {
    /// Starts the progress of a run of `trials`.
    pub(crate) fn new<'a>(trials: impl ExactSizeIterator<Item = &'a Trial>) -> Progress {
        Progress {
            total: trials.len(),
            done: 0,
            load_time_left: trials
                .map(|trial| Duration::from(trial.load_time_at_most()))
                .sum(),
            overhead: OVERHEAD_GUESS,
            started: Instant::now(),
            is_terminal: std::io::stderr().is_terminal(),
        }
    }

    /// Announces the run and its folder.
    pub(crate) fn announce(&self, folder: &dyn Display) {
        eprint(format_args!("{folder}: {}\n", self.size()));
    }

    /// The number of trials and how long they take at most.
    pub(crate) fn size(&self) -> String {
        let trials = if self.total == 1 { "trial" } else { "trials" };
        format!(
            "{} {trials}, about {} at most",
            self.total,
            clock(self.time_left())
        )
    }

    /// Marks the beginning of a trial.
    pub(crate) fn begin(&mut self, trial: &Trial) {
        self.started = Instant::now();
        self.redraw(trial);
    }

    /// Redraws the line of the running trial.
    pub(crate) fn redraw(&self, trial: &Trial) {
        if self.is_terminal {
            let title = self.title(trial);
            draw(self.erase());
            eprint(format_args!("{title} ... {} left", clock(self.time_left())));
        }
    }

    /// Marks the end of a trial and prints its summary.
    pub(crate) fn end(&mut self, trial: &Trial, said: &str) {
        let took = self.started.elapsed();
        let load = Duration::from(trial.load_time_at_most());
        // A trial ends early when no request is outstanding. Time beyond the load is overhead.
        self.overhead = took.saturating_sub(load).max(Duration::from_millis(100));
        let title = self.title(trial);
        self.done += 1;
        self.load_time_left = self.load_time_left.saturating_sub(load);
        self.started = Instant::now();
        draw(self.erase());
        eprint(format_args!(
            "{title}: {said}; {} left\n",
            clock(self.time_left())
        ));
    }

    /// Reports why a trial is being repeated.
    pub(crate) fn repeat(&self, trial: &Trial, reason: &str) {
        draw(self.erase());
        eprint(format_args!(
            "{}: {reason}; trying again\n",
            self.title(trial)
        ));
    }

    /// Erases the line of a trial that was abandoned.
    pub(crate) fn abandon(&self) {
        draw(self.erase());
    }

    fn erase(&self) -> &'static str {
        if self.is_terminal { "\r\x1b[K" } else { "" }
    }

    fn title(&self, trial: &Trial) -> String {
        let width = self.total.to_string().len();
        format!(
            "[{:>width$}/{}] {}, {}",
            self.done + 1,
            self.total,
            trial.variant.name,
            trial.condition
        )
    }

    /// The longest time that the rest can take, minus what the running trial has already used.
    fn time_left(&self) -> Duration {
        let trials_left = (self.total - self.done) as u32;
        (self.load_time_left + self.overhead * trials_left).saturating_sub(self.started.elapsed())
    }
}

/// Minutes and seconds (`1:05`, `0:07`), with hours if there are any.
fn clock(span: Duration) -> String {
    let secs = span.as_secs();
    match secs / 3600 {
        0 => format!("{}:{:02}", secs / 60, secs % 60),
        hours => format!("{hours}:{:02}:{:02}", secs / 60 % 60, secs % 60),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn durations_are_formatted_like_a_clock() {
        assert_eq!(clock(Duration::from_secs(7)), "0:07");
        assert_eq!(clock(Duration::from_secs(65)), "1:05");
        assert_eq!(clock(Duration::from_secs(3_725)), "1:02:05");
    }
}
