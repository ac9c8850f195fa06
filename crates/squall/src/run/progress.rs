//! The progress line of a run: which trial is running, what the last one found, and how long the rest will take.
//!
//! On a terminal the line of the running trial is redrawn; otherwise each trial prints one line when it has ended.
//! Everything goes to stderr.

use std::fmt::Display;
use std::time::{Duration, Instant};

use squall_base::plan::Trial;
use squall_report::width_of;

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
}

impl Progress {
    pub(crate) fn new<'a>(trials: impl ExactSizeIterator<Item = &'a Trial>) -> Progress {
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
        }
    }

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

    pub(crate) fn redraw(&self, trial: &Trial) {
        if self.is_terminal {
            let rest = format!(" ... {} left", clock(self.time_left()));
            draw(self.erase());
            eprint(self.line(&self.title(trial), &rest));
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
        let rest = format!(": {said}; {} left", clock(self.time_left()));
        eprint(self.line(&title, &rest) + "\n");
    }

    /// Reports why a trial is being repeated.
    pub(crate) fn repeat(&mut self, trial: &Trial, reason: &str) {
        self.repeats += 1;
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

    /// `title` and `rest` on one line, if `rest` leaves room for a part of the title.
    fn line(&self, title: &str, rest: &str) -> String {
        if !self.is_terminal {
            return format!("{title}{rest}");
        }
        // A line that fills the last column may move the cursor to the next line.
        let (columns, _) = display::redraw_size();
        let room = columns.saturating_sub(1 + width_of(rest));
        whole_words(title, room) + rest
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

/// As many whole words of `text` as fit into `columns`, but at least one.
fn whole_words(text: &str, columns: usize) -> String {
    if width_of(text) <= columns {
        return text.to_owned();
    }
    let mut fitting = String::new();
    for word in text.split(' ') {
        // Room for a space before the word and a mark behind it.
        let length = width_of(&fitting) + width_of(word) + 2;
        if !fitting.is_empty() && length > columns {
            break;
        }
        if !fitting.is_empty() {
            fitting.push(' ');
        }
        fitting.push_str(word);
    }
    fitting.trim_end_matches(',').to_owned() + "…"
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
        };
        assert!(progress.time_left() <= Duration::from_secs(30));
        // As many attempts as trials, the running one included, failed.
        progress.repeats = 2;
        let left = progress.time_left().as_secs();
        assert!((50..=60).contains(&left), "{left} s");
    }

    #[test]
    fn a_long_title_loses_whole_words() {
        let title = "[ 1/12] two envoys h2c, delay 25ms, loss 3%";
        assert_eq!(whole_words(title, 80), title);
        assert_eq!(whole_words(title, 31), "[ 1/12] two envoys h2c, delay…");
        assert_eq!(whole_words(title, 25), "[ 1/12] two envoys h2c…");
    }

    #[test]
    fn a_chinese_character_takes_two_columns_of_the_line() {
        let title = "[1/2] 甲乙丙丁 测试, delay 25ms, loss 3%";
        assert_eq!(whole_words(title, 40), title);
        let cut = whole_words(title, 25);
        assert_eq!(cut, "[1/2] 甲乙丙丁 测试…");
        assert_eq!(width_of(&cut), 20);
    }
}
