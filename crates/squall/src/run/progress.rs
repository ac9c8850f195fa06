//! The progress line of a run: which trial is running, what the last one found, and how long the rest will take.
//!
//! On a terminal the line of the running trial is redrawn; otherwise each trial prints one line when it has ended.
//! Everything goes to stderr. The words are squall-report's.

use std::fmt::Display;
use std::time::{Duration, Instant};

use squall_base::plan::Trial;
use squall_report::{Language, ProgressLines};

use crate::display;
use crate::output::{draw, eprint};

/// Set-up and clean-up time of a trial, until the first one has been measured.
const OVERHEAD_GUESS: Duration = Duration::from_millis(500);

pub(crate) struct Progress {
    total: usize,
    done: usize,
    /// Attempts that had to be repeated.
    repeats: usize,
    /// The longest time that the loads of the remaining trials can take.
    load_time_left: Duration,
    overhead: Duration,
    started: Instant,
    is_terminal: bool,
    language: Language,
}

impl Progress {
    pub(crate) fn new<'a>(
        trials: impl ExactSizeIterator<Item = &'a Trial>,
        language: Language,
    ) -> Progress {
        Progress {
            total: trials.len(),
            done: 0,
            repeats: 0,
            load_time_left: trials
                .map(|trial| Duration::from(trial.load_time_at_most()))
                .sum(),
            overhead: OVERHEAD_GUESS,
            started: Instant::now(),
            is_terminal: display::can_redraw(),
            language,
        }
    }

    pub(crate) fn announce(&self, folder: &dyn Display) {
        let line = self.lines().labelled(&folder.to_string(), &self.size());
        eprint(line + "\n");
    }

    /// The number of trials and how long they take at most.
    pub(crate) fn size(&self) -> String {
        self.lines().size(self.total, self.time_left())
    }

    /// Marks the beginning of a trial.
    pub(crate) fn begin(&mut self, trial: &Trial) {
        self.started = Instant::now();
        self.redraw(trial);
    }

    pub(crate) fn redraw(&self, trial: &Trial) {
        if self.is_terminal {
            draw(self.erase());
            eprint(self.lines().running(&self.title(trial), self.time_left()));
        }
    }

    /// Marks the end of a trial and prints what it found, which is in English here.
    pub(crate) fn end(&mut self, trial: &Trial, found: &str) {
        let took = self.started.elapsed();
        let load = Duration::from(trial.load_time_at_most());
        // A trial ends early when no request is outstanding. Time beyond the load is overhead.
        self.overhead = took.saturating_sub(load).max(Duration::from_millis(100));
        let title = self.title(trial);
        self.done += 1;
        self.load_time_left = self.load_time_left.saturating_sub(load);
        self.started = Instant::now();
        draw(self.erase());
        eprint(self.lines().ended(&title, found, self.time_left()) + "\n");
    }

    /// Reports why a trial is being repeated: what happened, and why the attempt cannot be used as evidence. Both are
    /// in English here.
    pub(crate) fn repeat(&mut self, trial: &Trial, what: &str, reasons: &[String]) {
        self.repeats += 1;
        draw(self.erase());
        let line = self.lines().repeated(&self.title(trial), what, reasons);
        eprint(line + "\n");
    }

    /// Erases the line of a trial that was abandoned.
    pub(crate) fn abandon(&self) {
        draw(self.erase());
    }

    fn erase(&self) -> &'static str {
        if self.is_terminal { "\r\x1b[K" } else { "" }
    }

    /// How lines are written. The terminal may have changed its width.
    fn lines(&self) -> ProgressLines {
        ProgressLines {
            language: self.language,
            columns: self.is_terminal.then(|| display::redraw_size().0),
        }
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

    /// The longest time that the rest can take if trials are repeated as often as so far, minus what the running trial has
    /// already used.
    fn time_left(&self) -> Duration {
        let trials_left = (self.total - self.done) as u32;
        let attempts_per_trial = 1.0 + self.repeats as f64 / (self.done + 1) as f64;
        let left = self.load_time_left + self.overhead * trials_left;
        left.mul_f64(attempts_per_trial)
            .saturating_sub(self.started.elapsed())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn repeated_trials_count_in_the_time_left() {
        let mut progress = Progress {
            total: 4,
            done: 1,
            repeats: 0,
            load_time_left: Duration::from_secs(30),
            overhead: Duration::ZERO,
            started: Instant::now(),
            is_terminal: false,
            language: Language::En,
        };
        assert!(progress.time_left() <= Duration::from_secs(30));
        // As many attempts as trials, the running one included, failed.
        progress.repeats = 2;
        let left = progress.time_left().as_secs();
        assert!((50..=60).contains(&left), "{left} s");
    }
}
