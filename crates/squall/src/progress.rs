//! The progress line of a run: which trial, what it found, how long the rest will take.
//!
//! On a terminal the line of the running trial is redrawn; elsewhere each trial prints one line when it
//! has ended. All of it goes to stderr.

use std::fmt::Display;
use std::io::IsTerminal;
use std::time::{Duration, Instant};

use squall_base::plan::Trial;

use crate::output::talk;

/// Set-up and clean-up of a trial, until the first one has been measured.
const OVERHEAD_GUESS: Duration = Duration::from_millis(500);

pub(crate) struct Progress {
    total: usize,
    done: usize,
    /// What the loads of trials that are still to come take at most.
    load_left: Duration,
    overhead: Duration,
    started: Instant,
    is_terminal: bool,
}

impl Progress {
    /// The progress of a run of `trials`.
    pub(crate) fn new<'a>(trials: impl ExactSizeIterator<Item = &'a Trial>) -> Progress {
        Progress {
            total: trials.len(),
            done: 0,
            load_left: trials
                .map(|trial| Duration::from(trial.load_time_at_most()))
                .sum(),
            overhead: OVERHEAD_GUESS,
            started: Instant::now(),
            is_terminal: std::io::stderr().is_terminal(),
        }
    }

    /// The run begins, in this folder.
    pub(crate) fn announce(&self, folder: &dyn Display) {
        talk(format_args!("{folder}: {}\n", self.size()));
    }

    /// How many trials there are, and how long they take.
    pub(crate) fn size(&self) -> String {
        let trials = if self.total == 1 { "trial" } else { "trials" };
        format!(
            "{} {trials}, about {} at most",
            self.total,
            clock(self.left())
        )
    }

    /// A trial begins.
    pub(crate) fn begin(&mut self, trial: &Trial) {
        self.started = Instant::now();
        self.redraw(trial);
    }

    /// A trial is running still.
    pub(crate) fn redraw(&self, trial: &Trial) {
        if self.is_terminal {
            let title = self.title(trial);
            talk(format_args!(
                "{}{title} ... {} left",
                self.erase(),
                clock(self.left())
            ));
        }
    }

    /// A trial has ended, with this to say of it.
    pub(crate) fn end(&mut self, trial: &Trial, said: &str) {
        let took = self.started.elapsed();
        let load = Duration::from(trial.load_time_at_most());
        // Trials end early when nothing is left to drain; what is beyond the load is overhead.
        self.overhead = took.saturating_sub(load).max(Duration::from_millis(100));
        let title = self.title(trial);
        self.done += 1;
        self.load_left = self.load_left.saturating_sub(load);
        self.started = Instant::now();
        talk(format_args!(
            "{}{title}: {said}; {} left\n",
            self.erase(),
            clock(self.left())
        ));
    }

    /// A trial was disturbed, so it begins again.
    pub(crate) fn repeat(&self, trial: &Trial, reason: &str) {
        talk(format_args!(
            "{}{}: disturbed ({reason}); trying again\n",
            self.erase(),
            self.title(trial)
        ));
    }

    /// The running trial was given up.
    pub(crate) fn given_up(&self) {
        talk(self.erase());
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

    /// At most so long for the rest, the running trial's elapsed time taken off.
    fn left(&self) -> Duration {
        let trials_left = (self.total - self.done) as u32;
        (self.load_left + self.overhead * trials_left).saturating_sub(self.started.elapsed())
    }
}

/// `1:05` or `0:07`, with hours where there are some.
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
    fn spans_read_like_a_clock() {
        assert_eq!(clock(Duration::from_secs(7)), "0:07");
        assert_eq!(clock(Duration::from_secs(65)), "1:05");
        assert_eq!(clock(Duration::from_secs(3_725)), "1:02:05");
    }
}
