//! The results of several probes behind different links, as text for a terminal and as Markdown: which version is ahead
//! where, a table for each measure with a line of bars for each version, and what each probe found.
//!
//! Nothing is compared here: squall-analysis' `probe::Sweep` does that.

use squall_analysis::figure;
use squall_analysis::probe::{Sweep, SweepMeasure};
use squall_base::Duration;

use super::facts::mbit;
use super::markdown::{escaped, table as push_table};
use super::{WIDTH_AT_MOST, table};
use crate::lang::{Language, Translator};
use crate::terminal::TerminalWriter;
use crate::text::{Colour, Style};

/// Stands for an unknown figure.
const UNKNOWN: &str = "-";

/// The results as text of at most `width` columns, or 80 if that is less, in a language.
pub fn sweep_text_in(language: Language, sweep: &Sweep, width: usize, colour: Colour) -> String {
    let translator = Translator::of_sweep(language, sweep);
    let writer = TerminalWriter::new(width.min(WIDTH_AT_MOST), colour).saying(translator.clone());
    let mut text = String::new();
    writer.paragraph(&mut text, Style::Bold, "", &sweep.crossover);
    if let Some(window) = &sweep.upload_window {
        writer.paragraph(&mut text, Style::Plain, "", window);
    }
    for measure in SweepMeasure::ALL {
        if !sweep.has(measure) {
            continue;
        }
        text.push('\n');
        writer.paragraph(&mut text, Style::Plain, "", title(measure));
        let mut rows = table_of(sweep, measure);
        rows.push(curves(sweep, measure));
        table(&mut text, &rows, &translator);
    }
    text.push('\n');
    for point in &sweep.points {
        let said = format!("{} {}: {}", sweep.condition, point.value, point.headline);
        writer.paragraph(&mut text, Style::Plain, "  ", &said);
    }
    text
}

/// The results as Markdown in a language.
pub fn sweep_markdown_in(language: Language, sweep: &Sweep) -> String {
    let translator = Translator::of_sweep(language, sweep);
    let mut text = format!(
        "**{}**\n\n{}\n\n",
        escaped(&translator.say(&sweep.crossover)),
        escaped(&sweep.url)
    );
    if let Some(window) = &sweep.upload_window {
        text += &format!("{}\n\n", escaped(&translator.say(window)));
    }
    for measure in SweepMeasure::ALL {
        if sweep.has(measure) {
            text += &format!("{}\n\n", translator.say(title(measure)));
            push_table(&mut text, &translator.rows(&table_of(sweep, measure)));
        }
    }
    for point in &sweep.points {
        let said = translator.labelled(&point.link, &point.headline);
        text += &format!("- {}\n", escaped(&said));
    }
    text
}

/// What a table shows, with its unit.
fn title(measure: SweepMeasure) -> &'static str {
    match measure {
        SweepMeasure::FirstByte => "First byte of a fresh connection",
        SweepMeasure::Download => "Downloads in Mbit/s",
        SweepMeasure::Upload => "Uploads in Mbit/s",
    }
}

/// A measure of all versions, with a heading and a row for each value.
pub(crate) fn table_of(sweep: &Sweep, measure: SweepMeasure) -> Vec<Vec<String>> {
    let versions = sweep.versions();
    let mut heading = vec![sweep.condition.clone()];
    heading.extend(versions.iter().map(|name| (*name).to_owned()));
    let mut rows = vec![heading];
    for point in &sweep.points {
        let mut row = vec![point.value.clone()];
        let figures = versions.iter().map(|name| point.figure(name, measure));
        row.extend(figures.map(|figure| figure.map_or_else(unknown, |it| words(measure, it))));
        rows.push(row);
    }
    rows
}

fn unknown() -> String {
    UNKNOWN.to_owned()
}

fn words(measure: SweepMeasure, figure: f64) -> String {
    match measure {
        SweepMeasure::FirstByte => {
            figure::time(Duration::from_nanos((figure * 1e9).round() as u64))
        }
        SweepMeasure::Download | SweepMeasure::Upload => mbit(figure),
    }
}

/// For each version, a line with a bar for each value. All bars have the scale of the largest figure.
fn curves(sweep: &Sweep, measure: SweepMeasure) -> Vec<String> {
    const BARS: [char; 8] = ['▁', '▂', '▃', '▄', '▅', '▆', '▇', '█'];
    let versions = sweep.versions();
    let of = |name: &&str| -> Vec<Option<f64>> {
        let points = sweep.points.iter();
        points.map(|point| point.figure(name, measure)).collect()
    };
    let all: Vec<Vec<Option<f64>>> = versions.iter().map(of).collect();
    let most = all.iter().flatten().flatten().copied().fold(0.0, f64::max);
    let bar = |figure: &Option<f64>| match figure {
        Some(figure) if most > 0.0 => {
            let eighths = (figure / most * 8.0).ceil().clamp(1.0, 8.0);
            BARS[eighths as usize - 1]
        }
        _ => '.',
    };
    let line = |figures: &Vec<Option<f64>>| figures.iter().map(bar).collect::<String>();
    let lines = all.iter().map(line);
    std::iter::once(String::new()).chain(lines).collect()
}

#[cfg(test)]
pub(crate) mod tests {
    use squall_analysis::probe::{SweepFigures, SweepPoint};

    use super::*;

    /// A sweep in which HTTP/2 overtakes HTTP/1.1, and whose last probe failed.
    pub(crate) fn sweep() -> Sweep {
        let point = |value: &str, first_ms: u64, rates: [f64; 2]| SweepPoint {
            value: value.to_owned(),
            link: format!("delay {value}, loss 1%"),
            headline: "Nothing is wrong".to_owned(),
            is_sound: true,
            round_trip: Some(Duration::from_millis(first_ms / 3)),
            largest_stream_bytes: Some(65_535),
            versions: (["HTTP/1.1", "HTTP/2"].into_iter().zip(rates))
                .map(|(version, rate)| SweepFigures {
                    version: version.to_owned(),
                    problem: None,
                    first_byte: Some(Duration::from_millis(first_ms)),
                    download_bytes_per_s: Some(rate),
                    upload_bytes_per_s: None,
                })
                .collect(),
        };
        let points = vec![
            point("10ms", 60, [10e6, 5e6]),
            point("100ms", 600, [1e6, 2e6]),
            SweepPoint::failed(
                "200ms".to_owned(),
                "delay 200ms, loss 1%".to_owned(),
                "No answer <b>".to_owned(),
            ),
        ];
        Sweep::of(
            "https://server/?token=sesame".to_owned(),
            "delay".to_owned(),
            points,
        )
    }

    #[test]
    fn crossover_comes_first_and_no_line_is_longer_than_80_columns() {
        let text = sweep_text_in(Language::En, &sweep(), 200, Colour::Plain);
        assert!(
            text.starts_with("Downloads: HTTP/1.1 is fastest at 10ms, HTTP/2 is fastest at"),
            "{text}"
        );
        assert!(text.contains("65,535 bytes at every delay."), "{text}");
        let is_narrow = text.lines().all(|line| line.chars().count() <= 80);
        assert!(is_narrow, "{text}");
        assert!(!text.contains("Uploads in"), "{text}");
        let has_row = |line: &str| line.starts_with("  10ms") && line.ends_with("40.0");
        assert!(text.lines().any(has_row), "{text}");
        assert!(text.contains("█▁."), "{text}");
        assert!(text.contains("  delay 200ms: No answer"), "{text}");
    }

    #[test]
    fn markdown_has_a_table_for_each_measure() {
        let text = sweep_markdown_in(Language::En, &sweep());
        assert!(text.starts_with("**Downloads: "), "{text}");
        assert!(text.contains("| delay | HTTP/1.1 | HTTP/2 |"), "{text}");
        assert!(text.contains("| 200ms | - | - |"), "{text}");
    }
}
