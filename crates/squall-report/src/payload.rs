//! The data for the page's scripts: a manifest in JSON, and each trial's points as compressed columns.
//!
//! The columns of a trial follow each other, all little-endian: request number and start in microseconds, both as u32
//! differences (modulo 2^32) from the previous row, which are almost constant and so compress to next to nothing; latency in
//! microseconds as u32; the code of the mark as u8; the dominant cause as u8 (0: unknown). After them come the times of dropped
//! packets in microseconds, as u32 differences too. All of it is deflated with a zlib header (RFC 1950) and encoded in base64.
//! A trial is not decoded until its plot comes into view. assets/data.js is the reader. This module only decides how many
//! points fit; `points` chooses them.

use serde::Serialize;
use squall_analysis::{ConditionSummary, RunSummary};
use squall_base::Duration;
use squall_base::record::{Cause, Outcome, Phase};

use crate::deflate::deflated;
use crate::points::{DRAWN_AT_MOST, DrawnTrial, Point, PointMark, TrialPoints};

/// The fewest points of a trial that are drawn, however little room there is.
const DRAWN_AT_LEAST: usize = 400;

/// If a linear axis reaches up to this multiple of the smallest median, that median is still visible: in a small plot of 150
/// pixels it is 5 pixels above the bottom, about the size of a point.
const LINEAR_UP_TO: f64 = 30.0;

/// The manifest of assets/data.js.
#[derive(Serialize)]
struct Manifest<'a> {
    /// Where a live page asks for more: the path of the run, with a slash at its end.
    #[serde(skip_serializing_if = "Option::is_none")]
    source: Option<&'a str>,
    /// Whether it is a load without trials and without a link.
    is_load: bool,
    marks: Vec<&'static str>,
    /// In the order of their codes, which count from 1.
    causes: Vec<&'static str>,
    variants: &'a [String],
    conditions: Vec<ConditionEntry>,
}

#[derive(Serialize)]
struct ConditionEntry {
    /// Whether its plots start with a logarithmic latency axis.
    starts_logarithmic: bool,
    trials: Vec<TrialEntry>,
}

#[derive(Serialize)]
struct TrialEntry {
    /// Index into `variants`.
    variant: usize,
    repetition: u32,
    valid: bool,
    /// Whether its points can be coloured by their causes.
    has_causes: bool,
    warmup_s: f64,
    end_s: f64,
    /// Smallest and largest latency of the points that are drawn at their latency; failures are not.
    latency_range_ms: Option<(f64, f64)>,
    count: usize,
    /// How many of the first points belong to the warm-up.
    warmup_count: usize,
    /// How many drops follow the points.
    drop_count: usize,
    caption: String,
    /// The trial's folder.
    trial: String,
    /// Its position in the order of the run, by which addresses name its requests.
    index: u32,
    /// The id of the element that holds the columns.
    element: String,
}

/// A trial that is drawn.
struct PlottedTrial<'a> {
    /// Its place among all that are drawn.
    index: usize,
    /// The place of its variant.
    variant: usize,
    points: &'a TrialPoints,
}

/// What the plots of one condition draw.
struct PlottedCondition<'a> {
    trials: Vec<PlottedTrial<'a>>,
    /// The smallest median of its variants, in milliseconds.
    least_median_ms: Option<f64>,
}

/// What the plots of a page draw.
struct Plotted<'a> {
    variants: &'a [String],
    conditions: Vec<PlottedCondition<'a>>,
    source: Option<&'a str>,
    is_load: bool,
}

/// The script elements with the manifest and the points of a run, in at most `room` characters. If all points together take
/// more, all trials get the same limit. `source` is where a live page asks for more.
pub(crate) fn elements(
    summary: &RunSummary,
    plots: &[TrialPoints],
    room: usize,
    source: Option<&str>,
) -> String {
    let conditions = summary.conditions.iter().map(|condition| {
        let own = plots.iter().enumerate();
        let own = own.filter(|(_, plot)| plot.condition == condition.condition);
        PlottedCondition {
            trials: own
                .filter_map(|trial| PlottedTrial::of(trial, &summary.variants))
                .collect(),
            least_median_ms: least_median_ms(condition),
        }
    });
    let plotted = Plotted {
        variants: &summary.variants,
        conditions: conditions.collect(),
        source,
        is_load: false,
    };
    plotted.elements(room)
}

/// The script elements of a load without trials, whose `plots` have the names in `variants`. All of them are drawn as condition
/// 0. Plots without requests are left out.
pub(crate) fn elements_of_load(variants: &[String], plots: &[TrialPoints], room: usize) -> String {
    let with_points = plots
        .iter()
        .enumerate()
        .filter(|(_, plot)| !plot.is_empty());
    let trials: Vec<PlottedTrial<'_>> = with_points
        .filter_map(|trial| PlottedTrial::of(trial, variants))
        .collect();
    let quartiles = plots.iter().filter_map(|plot| plot.shape.quartiles);
    let medians = quartiles.filter_map(|of| of.median.lower_bound());
    let plotted = Plotted {
        variants,
        conditions: vec![PlottedCondition {
            trials,
            least_median_ms: medians.map(Duration::as_millis_f64).reduce(f64::min),
        }],
        source: None,
        is_load: true,
    };
    plotted.elements(room)
}

impl<'a> PlottedTrial<'a> {
    /// A trial with its place among all; `None` if its variant is not one of `variants`.
    fn of(
        (index, points): (usize, &'a TrialPoints),
        variants: &[String],
    ) -> Option<PlottedTrial<'a>> {
        let variant = variants.iter().position(|name| *name == points.variant)?;
        Some(PlottedTrial {
            index,
            variant,
            points,
        })
    }
}

impl Plotted<'_> {
    /// The script elements, in at most `room` characters.
    fn elements(&self, room: usize) -> String {
        let trials = self
            .conditions
            .iter()
            .flat_map(|condition| &condition.trials);
        let lengths: Vec<usize> = trials.map(|trial| trial.points.len()).collect();
        let mut at_most = DRAWN_AT_MOST;
        loop {
            let made = self.elements_with(at_most);
            if made.len() <= room || at_most <= DRAWN_AT_LEAST {
                return made;
            }
            let share = room as f64 / made.len() as f64;
            at_most = fewer(&lengths, at_most, share).max(DRAWN_AT_LEAST);
        }
    }

    /// The elements with at most this many points of each trial.
    fn elements_with(&self, at_most: usize) -> String {
        let mut columns = String::new();
        let mut conditions = Vec::with_capacity(self.conditions.len());
        for condition in &self.conditions {
            let mut trials: Vec<TrialEntry> = Vec::new();
            for trial in &condition.trials {
                let element = format!("points-{}", trial.index);
                columns.push_str(&format!("<script type=\"text/plain\" id=\"{element}\">"));
                let drawn = trial.points.drawn(at_most);
                columns.push_str(&packed(&drawn.points, &drawn.drops));
                columns.push_str("</script>\n");
                trials.push(entry(&drawn, trial.variant, element));
            }
            conditions.push(ConditionEntry {
                starts_logarithmic: starts_logarithmic(condition.least_median_ms, &trials),
                trials,
            });
        }
        let manifest = Manifest {
            source: self.source,
            is_load: self.is_load,
            marks: PointMark::all().map(|mark| self.words(mark)).collect(),
            causes: Cause::ALL.map(Cause::name).to_vec(),
            variants: self.variants,
            conditions,
        };
        let json = serde_json::to_string(&manifest)
            .expect("a manifest has only string keys and finite numbers");
        // Names are foreign text: without `<`, none of them can end the element (HTML, section 4.12.1.3).
        let json = json.replace('<', "\\u003c");
        format!("<script type=\"application/json\" id=\"manifest\">{json}</script>\n{columns}")
    }

    fn words(&self, mark: PointMark) -> &'static str {
        match mark {
            PointMark::Outcome(Outcome::Censored) if self.is_load => {
                "unfinished when the load ended"
            }
            mark => mark.words(),
        }
    }
}

/// A limit below `at_most` with which trials of these lengths keep this share of their points, or a little less.
fn fewer(lengths: &[usize], at_most: usize, share: f64) -> usize {
    let drawn = |at_most: usize| -> usize { lengths.iter().map(|&len| len.min(at_most)).sum() };
    // The fewer points, the more bytes each takes, because they are less alike.
    let wanted = drawn(at_most) as f64 * share * 0.95;
    let (mut low, mut high) = (0, at_most - 1);
    while low < high {
        let middle = low + (high - low).div_ceil(2);
        if drawn(middle) as f64 <= wanted {
            low = middle;
        } else {
            high = middle - 1;
        }
    }
    low
}

/// The smallest median of a condition's variants, in milliseconds.
fn least_median_ms(condition: &ConditionSummary) -> Option<f64> {
    let medians = condition.cells.iter().filter_map(|cell| cell.median);
    medians
        .filter_map(|spread| spread.median.lower_bound())
        .map(Duration::as_millis_f64)
        .reduce(f64::min)
}

/// True if a linear axis that includes the slowest request would squeeze the fastest variant's band into a line at the
/// bottom.
fn starts_logarithmic(least_median_ms: Option<f64>, trials: &[TrialEntry]) -> bool {
    let largest = trials
        .iter()
        .filter_map(|trial| trial.latency_range_ms)
        .map(|(_, largest)| largest)
        .reduce(f64::max);
    largest
        .zip(least_median_ms)
        .is_some_and(|(largest, median)| largest > LINEAR_UP_TO * median)
}

fn entry(drawn: &DrawnTrial<'_>, variant: usize, element: String) -> TrialEntry {
    let plot = drawn.trial;
    let at_their_latency = drawn
        .points
        .iter()
        .filter(|point| !point.mark.is_failure())
        .map(|point| point.latency.as_millis_f64());
    TrialEntry {
        variant,
        repetition: plot.repetition,
        valid: plot.valid,
        has_causes: plot.has_causes(),
        warmup_s: plot.warmup.as_secs_f64(),
        end_s: plot.span.as_secs_f64(),
        latency_range_ms: at_their_latency.fold(None, |range, ms| {
            let (least, largest) = range.unwrap_or((ms, ms));
            Some((ms.min(least), ms.max(largest)))
        }),
        count: drawn.points.len(),
        warmup_count: drawn
            .points
            .iter()
            .take_while(|point| point.phase == Phase::Warmup)
            .count(),
        drop_count: drawn.drops.len(),
        caption: drawn.caption(),
        trial: plot.folder.clone(),
        index: plot.index,
        element,
    }
}

/// The columns of `points` and the times of `drops`, compressed, as text.
fn packed(points: &[Point], drops: &[Duration]) -> String {
    let mut columns = Vec::with_capacity(points.len() * 14 + drops.len() * 4);
    extend_numbers(&mut columns, points.iter().map(|point| point.request));
    extend_differences(
        &mut columns,
        points.iter().map(|point| point.start.as_nanos() / 1_000),
    );
    for point in points {
        columns.extend(saturated(point.latency.as_nanos() / 1_000).to_le_bytes());
    }
    columns.extend(points.iter().map(|point| mark_code(point.mark)));
    columns.extend(points.iter().map(|point| cause_code(point.cause)));
    extend_differences(&mut columns, drops.iter().map(|at| at.as_nanos() / 1_000));
    deflated(&columns)
}

/// Appends each number's difference from the previous one, modulo 2^32; for the first, from zero. Several threads of a load
/// number their requests independently, so a number may be below the one before.
fn extend_numbers(columns: &mut Vec<u8>, numbers: impl Iterator<Item = u64>) {
    let mut previous = 0_u32;
    for number in numbers.map(saturated) {
        columns.extend(number.wrapping_sub(previous).to_le_bytes());
        previous = number;
    }
}

/// Appends each value's difference from the previous one; for the first, from zero.
fn extend_differences(columns: &mut Vec<u8>, values: impl Iterator<Item = u64>) {
    let mut previous = 0;
    for value in values {
        columns.extend(saturated(value.saturating_sub(previous)).to_le_bytes());
        previous = value;
    }
}

/// Latencies past 71 minutes are drawn at 71 minutes.
pub(crate) fn saturated(value: u64) -> u32 {
    u32::try_from(value).unwrap_or(u32::MAX)
}

/// The place of a mark among the manifest's marks.
pub(crate) fn mark_code(mark: PointMark) -> u8 {
    let place = PointMark::all().position(|other| other == mark);
    place.unwrap_or_default() as u8
}

/// 0 if the cause is unknown, otherwise one more than its place among the manifest's causes.
pub(crate) fn cause_code(cause: Option<Cause>) -> u8 {
    cause.map_or(0, |cause| cause as u8 + 1)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn request_numbers_may_decrease_from_one_row_to_the_next() {
        let mut columns = Vec::new();
        extend_numbers(&mut columns, [5, 2, u64::MAX, 3].into_iter());
        let mut number = 0_u32;
        let numbers: Vec<u32> = (columns.chunks(4))
            .map(|bytes| {
                let difference = u32::from_le_bytes(bytes.try_into().unwrap());
                number = number.wrapping_add(difference);
                number
            })
            .collect();
        assert_eq!(numbers, [5, 2, u32::MAX, 3]);
    }

    #[test]
    fn limit_keeps_the_share_of_points_and_falls_with_every_attempt() {
        // Only the long trial has more points than a limit may leave.
        let lengths = [100, 100, 10_000];
        let limit = fewer(&lengths, DRAWN_AT_MOST, 0.5);
        assert!((4_500..=4_750).contains(&limit), "{limit}");
        let mut at_most = DRAWN_AT_MOST;
        for _ in 0..100 {
            let next = fewer(&lengths, at_most.max(2), 0.999);
            assert!(next < at_most || at_most <= 2, "{next} after {at_most}");
            at_most = next;
        }
    }
}
