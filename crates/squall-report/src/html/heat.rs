//! Heat maps of a condition: how many requests were due at about the same time and took about as long, a map for each variant.
//!
//! A map has all requests of its variant's valid trials, whereas the plots of single requests may show only some of them. All
//! maps of a condition have the same axes and the same steps of one colour. The fewer requests, the closer it is to the
//! background, which may be light or dark. It is pure markup; squall-analysis' `heat` counts.

use squall_analysis::{HeatMap, HeatRow, Quantile, figure};

use super::deliveries::Axis;
use super::plot::{self, Area, LogAxis, WIDTH};
use super::shapes::{Drawn, Words};
use super::text::{escaped, swatch};

/// The steps of the colour, and how much weaker each is than the next.
const STEPS: u32 = 5;
const WEAKER: f64 = 0.18;

/// The heights of the legend, of a row of unfinished or failed requests, and of all rows with response times.
const LEGEND: f64 = 20.0;
const STRIP: f64 = 12.0;
const ROWS: f64 = 150.0;

/// From one entry of the legend to the next.
const ENTRY: f64 = 64.0;

/// The requests of a variant.
struct CellMap<'a> {
    variant: usize,
    name: &'a str,
    /// The number of valid trials; `None` for a load without trials.
    trials: Option<u64>,
    requests: HeatMap,
}

/// Adjacent fields of a row, with the same step of the colour.
struct Run {
    row: HeatRow,
    from: u32,
    length: u32,
    step: usize,
}

/// What the maps of a condition share.
struct Scale {
    axis: LogAxis,
    /// The first and the last row with response times.
    rows: (u32, u32),
    columns: u32,
    seconds: f64,
    /// The rows of unfinished and failed requests, if there are any, with their labels.
    strips: Vec<(HeatRow, &'static str)>,
    /// The least number of requests for each step of the colour, the weakest first.
    least: Vec<u64>,
    area: Area,
}

/// Appends the maps of these trials, one for each variant; `names` are the variants' names. Nothing if no request of a valid
/// trial succeeded.
pub(super) fn push(page: &mut String, names: &[&str], trials: &[Drawn<'_>], words: &Words) {
    let is_load = trials.iter().any(|(_, plot)| plot.is_load);
    let maps: Vec<CellMap<'_>> = (names.iter().enumerate())
        .filter_map(|(variant, name)| {
            let valid = trials
                .iter()
                .filter(|(of, plot)| *of == variant && plot.valid);
            let own: Vec<&HeatMap> = valid.map(|(_, plot)| &plot.shape.heat).collect();
            Some(CellMap {
                variant,
                name,
                trials: (!is_load).then_some(own.len() as u64),
                requests: HeatMap::sum(&own)?,
            })
        })
        .collect();
    let Some(scale) = Scale::of(&maps) else {
        return;
    };
    page.push_str(&format!(
        "<p class=\"delivered\">{}</p>\n<div class=\"multiples heat-maps\">\n",
        words.heat
    ));
    for map in &maps {
        push_map(page, map, &scale);
    }
    page.push_str("</div>\n");
}

impl CellMap<'_> {
    /// The row with the most successful requests.
    fn fullest(&self) -> Option<u32> {
        let rows = self.requests.counts.keys();
        let took = rows.filter_map(|(row, _)| numbered(*row));
        took.max_by_key(|row| self.requests.in_row(HeatRow::Took(*row)))
    }

    /// What the map shows, for screen readers.
    fn label(&self) -> String {
        let fullest = self.fullest().map(|row| {
            let [from, to] = [row, row + 1].map(|row| figure::millis(HeatRow::begins_at(row)));
            format!(", most often {from} to {to} ms")
        });
        format!(
            "{}: heat map of requests by start time and response time{}",
            self.name,
            fullest.unwrap_or_default()
        )
    }

    fn caption(&self) -> String {
        let mut caption = figure::counted(self.requests.total(), "request", "requests");
        if let Some(trials) = self.trials {
            caption += ", ";
            caption += &figure::counted(trials, "valid trial", "valid trials");
        }
        for (row, word) in STRIPS {
            let count = self.requests.in_row(row);
            if count > 0 {
                caption += &format!(", {} {word}", figure::count(count));
            }
        }
        caption
    }

    fn runs(&self, scale: &Scale) -> Vec<Run> {
        let mut runs: Vec<Run> = Vec::new();
        for ((row, column), count) in &self.requests.counts {
            let step = scale.step(*count);
            match runs.last_mut() {
                Some(last)
                    if last.row == *row
                        && last.step == step
                        && last.from + last.length == *column =>
                {
                    last.length += 1;
                }
                _ => runs.push(Run {
                    row: *row,
                    from: *column,
                    length: 1,
                    step,
                }),
            }
        }
        runs
    }
}

/// The rows of requests without a known response time, from the top.
const STRIPS: [(HeatRow, &str); 2] = [
    (HeatRow::Failed, "failed"),
    (HeatRow::Unfinished, "unfinished"),
];

/// The number of a row with response times.
fn numbered(row: HeatRow) -> Option<u32> {
    match row {
        HeatRow::Took(number) => Some(number),
        HeatRow::Unfinished | HeatRow::Failed => None,
    }
}

impl Scale {
    fn of(maps: &[CellMap<'_>]) -> Option<Scale> {
        let all = || maps.iter().map(|map| &map.requests);
        let rows = || all().flat_map(|map| map.counts.keys().map(|(row, _)| *row));
        let took = || rows().filter_map(numbered);
        let (low, high) = (took().min()?, took().max()?);
        let ends = [low, high + 1].map(|row| Quantile::Exact(HeatRow::begins_at(row)));
        let most = all().flat_map(|map| map.counts.values()).max()?;
        let mut least: Vec<u64> = (0..STEPS)
            .map(|step| (*most as f64).powf(f64::from(step) / f64::from(STEPS)))
            .map(|count| count.round() as u64)
            .collect();
        least.dedup();
        let strips: Vec<_> = STRIPS
            .into_iter()
            .filter(|(strip, _)| rows().any(|row| row == *strip))
            .collect();
        let columns = all().map(|map| map.columns).max()?;
        let interval = all().map(|map| map.interval).max()?;
        let top = LEGEND + STRIP * strips.len() as f64;
        Some(Scale {
            axis: LogAxis::of(ends.into_iter())?,
            rows: (low, high),
            columns,
            seconds: interval.as_secs_f64() * f64::from(columns),
            strips,
            least,
            area: Area {
                left: 66.0,
                right: WIDTH - 14.0,
                top,
                bottom: top + ROWS,
            },
        })
    }

    /// The step of the colour for this many requests.
    fn step(&self, count: u64) -> usize {
        let reached = self.least.partition_point(|least| *least <= count);
        reached.saturating_sub(1)
    }

    /// The opacity of a step of the colour.
    fn opacity(&self, step: usize) -> f64 {
        1.0 - WEAKER * (self.least.len() - 1 - step) as f64
    }

    /// The vertical place of the lower edge of a row.
    fn edge(&self, row: u32) -> f64 {
        let begin = Quantile::Exact(HeatRow::begins_at(row));
        self.area.height(self.axis.share(begin))
    }
}

fn push_map(page: &mut String, map: &CellMap<'_>, scale: &Scale) {
    let area = &scale.area;
    page.push_str(&format!(
        "<figure>\n<h3>{}{}</h3>\n",
        swatch(map.variant),
        escaped(map.name)
    ));
    plot::begin_named(page, area.bottom + 20.0, &map.label(), "heat map");
    push_legend(page, scale);
    plot::push_y_axis(page, scale.axis, area);
    for (second, label) in Axis::up_to(scale.seconds).ticks() {
        page.push_str(&format!(
            "<text class=\"of-x\" x=\"{:.1}\" y=\"{:.1}\">{label} s</text>\n",
            area.across(second / scale.seconds),
            area.bottom + 14.0,
        ));
    }
    let runs = map.runs(scale);
    let (low, high) = scale.rows;
    let top = scale.edge(high + 1);
    let height = (scale.edge(low) - top) / f64::from(high + 1 - low);
    push_rows(page, scale, &runs, top, height, |row| {
        numbered(row).map(|number| high - number)
    });
    for (place, (strip, label)) in scale.strips.iter().enumerate() {
        let top = LEGEND + STRIP * place as f64 - 3.0;
        page.push_str(&format!(
            "<text class=\"of-y\" x=\"{:.1}\" y=\"{:.1}\">{label}</text>\n",
            area.left - 5.0,
            top + 8.0,
        ));
        push_rows(page, scale, &runs, top, STRIP - 3.0, |row| {
            (row == *strip).then_some(0)
        });
    }
    page.push_str(&format!(
        "</svg>\n<figcaption>{}</figcaption>\n</figure>\n",
        map.caption()
    ));
}

/// The steps of the colour, each with its least number of requests.
fn push_legend(page: &mut String, scale: &Scale) {
    for (step, least) in scale.least.iter().enumerate() {
        let x = scale.area.left + ENTRY * step as f64;
        page.push_str(&format!(
            "<rect class=\"heat-key\" fill-opacity=\"{:.2}\" x=\"{x:.0}\" y=\"2\" width=\"10\" height=\"9\"/>\
             <text x=\"{:.0}\" y=\"10\">{}+</text>\n",
            scale.opacity(step),
            x + 14.0,
            figure::count(*least),
        ));
    }
}

/// Appends the rows for which `depth` returns their number, counted downwards from the uppermost row. The uppermost row begins
/// at `top`, and each row has this height. Each line of the path is a run of fields, in whole numbers of columns and rows,
/// which keeps pages small.
fn push_rows(
    page: &mut String,
    scale: &Scale,
    runs: &[Run],
    top: f64,
    height: f64,
    depth: impl Fn(HeatRow) -> Option<u32>,
) {
    let Area { left, right, .. } = scale.area;
    page.push_str(&format!(
        "<g shape-rendering=\"crispEdges\" transform=\"translate({left:.1} {:.2}) scale({:.4} {height:.4})\">\n",
        top + height / 2.0,
        (right - left) / f64::from(scale.columns),
    ));
    for step in 0..scale.least.len() {
        let mut path = String::new();
        for run in runs.iter().filter(|run| run.step == step) {
            if let Some(depth) = depth(run.row) {
                path += &format!("M{} {depth}h{}", run.from, run.length);
            }
        }
        if !path.is_empty() {
            page.push_str(&format!(
                "<path class=\"heat\" stroke-opacity=\"{:.2}\" d=\"{path}\"/>\n",
                scale.opacity(step)
            ));
        }
    }
    page.push_str("</g>\n");
}
