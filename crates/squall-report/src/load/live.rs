//! A running load: a screen that is painted over the previous one, or one plain line if there is no screen.
//!
//! It moves no cursor and keeps no state: the caller clears the previous lines. `summary` has the text of a finished load.

use squall_analysis::figure;
use squall_analysis::load::{Generator, IntervalFigures, LoadTotals};
use squall_base::record::Phase;
use squall_base::{Duration, Time};

use super::chart::chart_within;
use super::summary::outcome_words;
use super::text::{Glyphs, Style, TextFormat, clock, fit, known, percent, row, size};
use crate::columns::width_of;

/// A threshold with its result.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CheckedThreshold {
    /// The result in a sentence.
    pub sentence: String,
    /// Whether it holds.
    pub holds: bool,
}

impl CheckedThreshold {
    /// The sentence, after a check mark or a cross unless only ASCII is wanted.
    pub fn marked(&self, glyphs: Glyphs) -> String {
        match (glyphs, self.holds) {
            (Glyphs::Unicode, true) => format!("\u{2713} {}", self.sentence),
            (Glyphs::Unicode, false) => format!("\u{2717} {}", self.sentence),
            (Glyphs::Ascii, _) => self.sentence.clone(),
        }
    }
}

/// The state of a load at one moment.
#[derive(Clone, Copy, Debug)]
pub struct LiveLoad<'a> {
    /// The moment, on the clock of the totals' times.
    pub now: Time,
    /// Time since the load's start.
    pub elapsed: Duration,
    /// How long requests are started, warm-up included, if known.
    pub duration: Option<Duration>,
    /// How many requests are started in total, if known.
    pub requests: Option<u64>,
    /// The current phase of the load.
    pub phase: Phase,
    /// Requests started so far, warm-up included.
    pub started: u64,
    /// Requests that have ended so far.
    pub ended: u64,
    /// Requests that have a connection and have not ended.
    pub in_flight: u64,
    /// Connections that are open.
    pub open_connections: u64,
    /// The requests that ended since the previous screen or line.
    pub interval: &'a IntervalFigures,
    /// The measured phase so far.
    pub totals: &'a LoadTotals,
    /// The thresholds, checked against it.
    pub thresholds: &'a [CheckedThreshold],
    /// The rate asked of its generator, and the generator's own health at present.
    pub generator: Generator,
}

impl LiveLoad<'_> {
    /// How much of the load is done, from 0 to 1: by time or by requests, whichever is further.
    fn done_share(&self) -> Option<f64> {
        let of_time = self
            .duration
            .filter(|duration| !duration.is_zero())
            .map(|duration| self.elapsed.as_secs_f64() / duration.as_secs_f64());
        let of_requests = self
            .requests
            .filter(|requests| *requests > 0)
            .map(|requests| self.ended as f64 / requests as f64);
        let done = of_time.into_iter().chain(of_requests).reduce(f64::max)?;
        Some(done.min(1.0))
    }

    fn overall_per_s(&self) -> Option<f64> {
        self.totals.achieved_per_s(self.now)
    }
}

/// The lines of a screen, none wider than the terminal, and at most `height` of them. The histogram gets the rows that are
/// left.
pub fn screen(live: &LiveLoad<'_>, format: &TextFormat, height: usize) -> Vec<String> {
    let mut lines = vec![progress(live, format)];
    lines.push(format.line(Style::Plain, &rates(live)));
    let mut rows = latencies(live);
    let mut latencies = format.aligned(&rows);
    if !fit(&latencies, format.columns()) {
        // Instead of cutting numbers off, leave out p90 and p99.9, which readers miss least.
        rows.iter_mut()
            .for_each(|row| drop((row.remove(4), row.remove(2))));
        latencies = format.aligned(&rows);
    }
    lines.extend(format.titled(&latencies));
    lines.push(format.line(Style::Plain, &counts(live)));
    lines.push(format.line(Style::Plain, &outcomes(live.totals)));
    lines.extend(failures(live.totals, format));
    lines.extend(generator(live).map(|line| format.line(Style::Plain, &line)));
    // Before the first request, thresholds would only show as failed, so they are left out.
    let has_begun = live.totals.requests() > 0;
    let thresholds = live.thresholds.iter().filter(|_| has_begun);
    lines.extend(thresholds.map(|threshold| {
        let style = if threshold.holds {
            Style::Plain
        } else {
            Style::Warning
        };
        format.line(style, &threshold.marked(format.glyphs))
    }));
    let left = height.saturating_sub(lines.len());
    lines.extend(chart_within(live.totals.response(), format, left));
    lines.truncate(height);
    lines
}

fn progress(live: &LiveLoad<'_>, format: &TextFormat) -> String {
    let elapsed = clock(live.elapsed);
    let phase = match live.phase {
        Phase::Warmup => ", warm-up",
        Phase::Measure => "",
    };
    let words = match (live.duration, live.requests) {
        (Some(duration), _) => format!("{elapsed} of {}{phase}", clock(duration)),
        (None, Some(requests)) => {
            let (ended, all) = (figure::count(live.ended), figure::count(requests));
            format!("{elapsed}, {ended} of {all}{phase}")
        }
        (None, None) => format!("{elapsed}{phase}"),
    };
    let words = format.say(&words);
    let Some(done) = live.done_share() else {
        return format.said_line(Style::Bold, &words);
    };
    let columns = format
        .columns()
        .saturating_sub(width_of(&words) + 4)
        .min(60);
    let empty = match format.glyphs {
        Glyphs::Unicode => "░",
        Glyphs::Ascii => ".",
    };
    let filled = (done * columns as f64) as usize;
    let full = format.bar(1.0, filled);
    let bar = format!("[{full}{}]", empty.repeat(columns - filled));
    format.said_line(Style::Bold, &format!("{bar} {words}"))
}

fn rate(per_s: Option<f64>) -> String {
    per_s.map_or_else(|| "n/a".to_owned(), figure::rate)
}

/// `rate 998/s now, 999/s overall of 1,000/s asked, 12.3 MB/s in`.
fn rates(live: &LiveLoad<'_>) -> String {
    let mut text = format!("rate {}/s now", rate(live.interval.rate_per_s()));
    if let Some(overall) = live.overall_per_s() {
        text += &format!(", {}/s overall", figure::rate(overall));
    }
    if let Some(asked) = live.generator.rate_asked_per_s {
        text += &format!(", {}/s asked", figure::rate(asked));
    }
    if live.interval.body_bytes_in > 0 && !live.interval.length.is_zero() {
        let per_s = live.interval.body_bytes_in as f64 / live.interval.length.as_secs_f64();
        text += &format!(", {}/s of bodies in", size(per_s));
    }
    text
}

fn latencies(live: &LiveLoad<'_>) -> [Vec<String>; 3] {
    let (now, overall) = (live.interval, live.totals.response());
    let figures = |name: &str, spans: [Option<Duration>; 5]| {
        std::iter::once(name.to_owned())
            .chain(spans.map(known))
            .collect()
    };
    [
        row(["latency", "p50", "p90", "p99", "p99.9", "max"]),
        figures("now", [now.p50, now.p90, now.p99, now.p999, now.max]),
        figures(
            "overall",
            [
                overall.quantile(0.5),
                overall.quantile(0.9),
                overall.quantile(0.99),
                overall.quantile(0.999),
                overall.max(),
            ],
        ),
    ]
}

/// `12,000 begun, 11,990 ended, 10 in flight on 4 connections`.
fn counts(live: &LiveLoad<'_>) -> String {
    format!(
        "{} begun, {} ended, {} in flight on {}",
        figure::count(live.started),
        figure::count(live.ended),
        figure::count(live.in_flight),
        figure::counted(live.open_connections, "connection", "connections"),
    )
}

/// `11,980 succeeded (99.9 %), status 200 11,980, 503 5`.
fn outcomes(totals: &LoadTotals) -> String {
    let share = percent(totals.succeeded() as f64, totals.requests() as f64);
    let mut text = format!("{} succeeded ({share})", figure::count(totals.succeeded()));
    for class in 1..=5 {
        let count = totals.status_class(class);
        if count > 0 {
            text += &format!(", {class}xx {}", figure::count(count));
        }
    }
    text
}

/// The three most frequent kinds of failure, one line each, which limits the height of the screen.
fn failures(totals: &LoadTotals, format: &TextFormat) -> Vec<String> {
    const SHOWN: usize = 3;
    // Failures with an error status are already counted by status.
    let failed = totals.failed() - totals.error_statuses();
    let kinds = totals.failures().kinds();
    let shown = &kinds[..kinds.len().min(SHOWN)];
    let mut lines: Vec<String> = shown
        .iter()
        .map(|kind| {
            let (count, what) = (figure::count(kind.count), outcome_words(kind.outcome));
            format!("  {count} {what}: {}", kind.text)
        })
        .collect();
    let others = failed - shown.iter().map(|kind| kind.count).sum::<u64>();
    if others > 0 {
        lines.push(format!("  {} failed in other ways", figure::count(others)));
    }
    // Messages of peers stay as they are.
    let foreign = shown.iter().map(|kind| kind.text.clone());
    let translator = format.translator().keeping(foreign);
    lines
        .iter()
        .map(|line| format.said_line(Style::Warning, &translator.indented(line)))
        .collect()
}

fn generator(live: &LiveLoad<'_>) -> Option<String> {
    let lag = live.totals.lag();
    let mut words = Vec::new();
    if lag.max().is_some_and(|lag| !lag.is_zero()) {
        let now = known(live.interval.lag_max);
        words.push(format!(
            "lag p99 {}, max {}, now {now}",
            known(lag.quantile(0.99)),
            known(lag.max())
        ));
    }
    if let Some(cpu) = live.generator.cpu_percent {
        words.push(format!("CPU {cpu:.0} %"));
    }
    (!words.is_empty()).then(|| format!("generator {}", words.join("; ")))
}

/// One line without colours that covers only the interval, except that failures are also counted over the measured phase.
pub fn line(live: &LiveLoad<'_>) -> String {
    let mut text = clock(live.elapsed);
    if live.phase == Phase::Warmup {
        text += " warm-up";
    }
    text += &format!(" {}/s", rate(live.interval.rate_per_s()));
    if let Some(asked) = live.generator.rate_asked_per_s {
        text += &format!(" of {}/s", figure::rate(asked));
    }
    let interval = live.interval;
    for (name, value) in [
        ("p50", interval.p50),
        ("p99", interval.p99),
        ("max", interval.max),
    ] {
        if let Some(value) = value {
            text += &format!(", {name} {}", super::text::span(value));
        }
    }
    text += &format!(
        ", {} in flight on {}",
        figure::count(live.in_flight),
        figure::counted(live.open_connections, "connection", "connections")
    );
    if live.totals.failed() + interval.failed > 0 {
        let (all, now) = (live.totals.failed(), interval.failed);
        text += &format!(
            ", {} failed ({} now)",
            figure::count(all),
            figure::count(now)
        );
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::load::samples::{self, FORMAT};

    fn live<'a>(totals: &'a LoadTotals, interval: &'a IntervalFigures) -> LiveLoad<'a> {
        LiveLoad {
            now: Time::ZERO + Duration::from_millis(12_345),
            elapsed: Duration::from_millis(12_345),
            duration: Some(Duration::from_secs(30)),
            requests: None,
            phase: Phase::Measure,
            started: 12_345,
            ended: 12_335,
            in_flight: 10,
            open_connections: 4,
            interval,
            totals,
            thresholds: &[],
            generator: Generator {
                rate_asked_per_s: Some(1_000.0),
                cpu_percent: Some(43.0),
                punctuality: None,
            },
        }
    }

    #[test]
    fn screen_shows_the_interval_and_the_whole_load() {
        let (sample, interval) = (samples::mixed(), samples::second());
        let live = live(&sample.totals, &interval);
        let text = screen(&live, &FORMAT, 12).join("\n");
        assert_eq!(text, include_str!("golden/live.txt").trim_end(), "\n{text}");
        let ascii = TextFormat {
            glyphs: Glyphs::Ascii,
            width: 40,
            ..FORMAT
        };
        let text = screen(&live, &ascii, 12).join("\n");
        assert_eq!(
            text,
            include_str!("golden/live-40-ascii.txt").trim_end(),
            "\n{text}"
        );
    }

    #[test]
    fn screen_has_marked_thresholds_and_a_histogram_in_the_rows_that_are_left() {
        let (sample, interval) = (samples::mixed(), samples::second());
        let thresholds = [("p(50)<50: holds", true), ("p(99)<50: FAILED", false)];
        let thresholds = thresholds.map(|(sentence, holds)| CheckedThreshold {
            sentence: sentence.to_owned(),
            holds,
        });
        let live = LiveLoad {
            thresholds: &thresholds,
            ..live(&sample.totals, &interval)
        };
        let lines = screen(&live, &FORMAT, 20);
        let text = lines.join("\n");
        assert!(
            text.contains("\n\u{2713} p(50)<50: holds\n\u{2717} p(99)<50: FAILED\nresponse time "),
            "{text}"
        );
        assert_eq!(lines.len(), 20, "{text}");
        assert_eq!(screen(&live, &FORMAT, 5).len(), 5);
    }

    #[test]
    fn line_summarises_the_interval() {
        let (sample, interval) = (samples::mixed(), samples::second());
        let live = live(&sample.totals, &interval);
        assert_eq!(
            line(&live),
            "0:12 998/s of 1,000/s, p50 1.02 ms, p99 31.0 ms, max 81.0 ms, 10 in flight on 4 connections, 15 failed (2 now)"
        );
        let warm = LiveLoad {
            phase: Phase::Warmup,
            interval: &IntervalFigures::default(),
            ..live
        };
        assert!(
            line(&warm).starts_with("0:12 warm-up n/a/s of 1,000/s, 10 in flight"),
            "{}",
            line(&warm)
        );
    }

    #[test]
    fn failed_grpc_calls_are_on_the_screen() {
        let (sample, interval) = (samples::grpc(), samples::second());
        let text = screen(&live(&sample.totals, &interval), &FORMAT, 12).join("\n");
        for line in [
            "  2 answered with a gRPC error: grpc-status 13 (INTERNAL)",
            "  1 failed in other ways",
        ] {
            assert!(text.lines().any(|found| found == line), "{line}\n{text}");
        }
    }

    #[test]
    fn load_without_requests_has_a_screen() {
        let (sample, interval) = (samples::empty(), IntervalFigures::default());
        let live = LiveLoad {
            now: Time::ZERO,
            elapsed: Duration::ZERO,
            duration: None,
            requests: Some(0),
            generator: Generator::default(),
            ..live(&sample.totals, &interval)
        };
        let text = screen(&live, &FORMAT, 12).join("\n");
        assert!(
            text.starts_with("0:00, 12,335 of 0\nrate n/a/s now\n"),
            "{text}"
        );
        assert!(text.ends_with("0 succeeded (0 %)"), "{text}");
    }

    #[test]
    fn screens_fit_the_width_and_are_coloured_only_if_asked() {
        let (sample, interval) = (samples::mixed(), samples::second());
        for width in [40, 60, 80, 120, 200] {
            let lines = screen(
                &live(&sample.totals, &interval),
                &TextFormat { width, ..FORMAT },
                12,
            );
            assert!(fit(&lines, width), "{lines:?}");
            assert!(
                lines.len() <= 12 && !lines.concat().contains('\x1b'),
                "{lines:?}"
            );
        }
        let ansi = TextFormat {
            colour: crate::Colour::Ansi,
            ..FORMAT
        };
        assert!(screen(&live(&sample.totals, &interval), &ansi, 12)[0].starts_with("\x1b[1m["));
    }
}
