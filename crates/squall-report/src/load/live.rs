//! A load that runs: a screen of some ten lines to paint over the last one, or one plain line where there is no screen.
//!
//! It moves no cursor and remembers nothing: who paints it clears the lines of last time. The text of a load that is
//! over: `summary`.

use squall_analysis::figure;
use squall_analysis::load::{Generator, Interval, LoadTotals};
use squall_base::record::{Outcome, Phase};
use squall_base::{Duration, Time};

use super::summary::words_of;
use super::text::{Glyphs, Look, Style, aligned, clock, fit, known, percent, row, size};

/// What is known of a load at a moment.
#[derive(Clone, Copy, Debug)]
pub struct Live<'a> {
    /// The moment, counted as the times of the totals are.
    pub now: Time,
    /// Since the load's start.
    pub elapsed: Duration,
    /// How long requests are begun, the warm-up included, if that is known.
    pub duration: Option<Duration>,
    /// How many requests are begun in all, if that is known.
    pub requests: Option<u64>,
    /// The part of the load that runs now.
    pub phase: Phase,
    /// Requests begun so far, the warm-up's included.
    pub started: u64,
    /// Requests that have ended so far.
    pub ended: u64,
    /// Requests that have a connection and no end.
    pub in_flight: u64,
    /// Connections that are open.
    pub open_connections: u64,
    /// What came of the requests that ended since the last look.
    pub interval: &'a Interval,
    /// What came of the measured phase so far.
    pub totals: &'a LoadTotals,
    /// What its generator was asked and takes at present.
    pub generator: Generator,
}

impl Live<'_> {
    /// How much of the load is done, from 0 to 1: of the time or of the requests, what is further.
    fn done(&self) -> Option<f64> {
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

/// The lines of a screen, none longer than the width.
pub fn screen(live: &Live<'_>, look: &Look) -> Vec<String> {
    let mut lines = vec![progress(live, look)];
    lines.push(look.line(Style::Plain, &rates(live)));
    let mut rows = latencies(live);
    let mut latencies = aligned(&rows);
    if !fit(&latencies, look.columns()) {
        // Half a number is worse than none: p90 and p99.9 are missed least.
        rows.iter_mut()
            .for_each(|row| drop((row.remove(4), row.remove(2))));
        latencies = aligned(&rows);
    }
    let styles = std::iter::once(Style::Faint).chain(std::iter::repeat(Style::Plain));
    lines.extend(
        latencies
            .iter()
            .zip(styles)
            .map(|(line, style)| look.line(style, line)),
    );
    lines.push(look.line(Style::Plain, &counts(live)));
    lines.push(look.line(Style::Plain, &outcomes(live.totals)));
    lines.extend(failures(live.totals, look));
    lines.extend(generator(live).map(|line| look.line(Style::Plain, &line)));
    lines
}

fn progress(live: &Live<'_>, look: &Look) -> String {
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
    let Some(done) = live.done() else {
        return look.line(Style::Bold, &words);
    };
    let columns = look
        .columns()
        .saturating_sub(words.chars().count() + 4)
        .min(60);
    let empty = match look.glyphs {
        Glyphs::Unicode => "░",
        Glyphs::Ascii => ".",
    };
    let filled = (done * columns as f64) as usize;
    let full = look.bar(1.0, filled);
    let bar = format!("[{full}{}]", empty.repeat(columns - filled));
    look.line(Style::Bold, &format!("{bar} {words}"))
}

fn rate(per_s: Option<f64>) -> String {
    per_s.map_or_else(|| "n/a".to_owned(), figure::rate)
}

/// `rate 998/s now, 999/s overall of 1,000/s asked, 12.3 MB/s in`.
fn rates(live: &Live<'_>) -> String {
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

fn latencies(live: &Live<'_>) -> [Vec<String>; 3] {
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
fn counts(live: &Live<'_>) -> String {
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

/// The three most frequent kinds of failure, a line each, so that the screen keeps its height.
fn failures(totals: &LoadTotals, look: &Look) -> Vec<String> {
    const SHOWN: usize = 3;
    let without_answer: u64 = Outcome::ALL
        .into_iter()
        .filter(|outcome| !matches!(outcome, Outcome::Answered | Outcome::Censored))
        .map(|outcome| totals.with_outcome(outcome))
        .sum();
    let kinds = totals.failures().kinds();
    let shown = &kinds[..kinds.len().min(SHOWN)];
    let mut lines: Vec<String> = shown
        .iter()
        .map(|kind| {
            let (count, what) = (figure::count(kind.count), words_of(kind.outcome));
            format!("  {count} {what}: {}", kind.text)
        })
        .collect();
    let others = without_answer - shown.iter().map(|kind| kind.count).sum::<u64>();
    if others > 0 {
        lines.push(format!(
            "  {} failed in further ways",
            figure::count(others)
        ));
    }
    lines
        .iter()
        .map(|line| look.line(Style::Warning, line))
        .collect()
}

fn generator(live: &Live<'_>) -> Option<String> {
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

/// The same in one line without colours, of the interval alone; failures are those of the measured phase, and now.
pub fn line(live: &Live<'_>) -> String {
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
    use crate::load::samples::{self, LOOK};

    fn live<'a>(totals: &'a LoadTotals, interval: &'a Interval) -> Live<'a> {
        Live {
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
            generator: Generator {
                rate_asked_per_s: Some(1_000.0),
                cpu_percent: Some(43.0),
                punctuality: None,
            },
        }
    }

    fn second() -> Interval {
        Interval {
            length: Duration::from_secs(1),
            succeeded: 998,
            failed: 2,
            body_bytes_in: 12_300_000,
            p50: Some(Duration::from_micros(1_020)),
            p90: Some(Duration::from_micros(1_200)),
            p99: Some(Duration::from_micros(31_000)),
            p999: None,
            max: Some(Duration::from_micros(81_000)),
            lag_max: Some(Duration::from_micros(85)),
        }
    }

    #[test]
    fn a_screen_shows_now_and_overall() {
        let (sample, interval) = (samples::mixed(), second());
        let live = live(&sample.totals, &interval);
        let text = screen(&live, &LOOK).join("\n");
        assert_eq!(text, include_str!("golden/live.txt").trim_end(), "\n{text}");
        let ascii = Look {
            glyphs: Glyphs::Ascii,
            width: 40,
            ..LOOK
        };
        let text = screen(&live, &ascii).join("\n");
        assert_eq!(
            text,
            include_str!("golden/live-40-ascii.txt").trim_end(),
            "\n{text}"
        );
    }

    #[test]
    fn a_line_says_the_same_in_short() {
        let (sample, interval) = (samples::mixed(), second());
        let live = live(&sample.totals, &interval);
        assert_eq!(
            line(&live),
            "0:12 998/s of 1,000/s, p50 1.02 ms, p99 31.0 ms, max 81.0 ms, 10 in flight on 4 connections, 15 failed (2 now)"
        );
        let warm = Live {
            phase: Phase::Warmup,
            interval: &Interval::default(),
            ..live
        };
        assert!(
            line(&warm).starts_with("0:12 warm-up n/a/s of 1,000/s, 10 in flight"),
            "{}",
            line(&warm)
        );
    }

    #[test]
    fn a_load_without_a_request_yet_has_a_screen() {
        let (sample, interval) = (samples::empty(), Interval::default());
        let live = Live {
            now: Time::ZERO,
            elapsed: Duration::ZERO,
            duration: None,
            requests: Some(0),
            generator: Generator::default(),
            ..live(&sample.totals, &interval)
        };
        let text = screen(&live, &LOOK).join("\n");
        assert!(
            text.starts_with("0:00, 12,335 of 0\nrate n/a/s now\n"),
            "{text}"
        );
        assert!(text.ends_with("0 succeeded (0 %)"), "{text}");
    }

    #[test]
    fn screens_keep_to_the_width_and_colour_only_if_asked() {
        let (sample, interval) = (samples::mixed(), second());
        for width in [40, 60, 80, 120, 200] {
            let lines = screen(&live(&sample.totals, &interval), &Look { width, ..LOOK });
            assert!(fit(&lines, width), "{lines:?}");
            assert!(
                lines.len() <= 12 && !lines.concat().contains('\x1b'),
                "{lines:?}"
            );
        }
        let ansi = Look {
            colour: crate::Colour::Ansi,
            ..LOOK
        };
        assert!(screen(&live(&sample.totals, &interval), &ansi)[0].starts_with("\x1b[1m["));
    }
}
