//! How the response times of a condition are distributed, and how its requests went over time: percentile curves, box plots,
//! and requests in flight. `heat` draws the heat maps between them. A load without trials has the same drawings.
//!
//! It is pure markup, with the same axes for all variants of a condition. Each trial has its own curve and box, so that
//! repetitions are side by side. squall-analysis' `shape` computes what is drawn.

use squall_analysis::{ConditionSummary, LoadCourse, PercentilePoint, Quantile, Quartiles, figure};

use super::deliveries::{Axis, Graph, LEFT as GRAPH_LEFT};
use super::heat;
use super::plot::{self, Area, LogAxis, WIDTH};
use super::text::{SERIES, escaped, swatch};
use crate::points::TrialPoints;

/// A trial with the place of its variant.
pub(super) type Drawn<'a> = (usize, &'a TrialPoints);

/// The captions and labels of the drawings.
pub(super) struct Words {
    curves: &'static str,
    curves_label: &'static str,
    boxes: &'static str,
    boxes_label: &'static str,
    pub(super) heat: &'static str,
    courses: &'static str,
}

static OF_TRIALS: Words = Words {
    curves: "Percentiles of the response time, a line for each valid trial. The axis stretches the tail: each step has a tenth \
             of the requests beyond the one before. Dashed: it took at least that long.",
    curves_label: "Response time by percentile, for each valid trial",
    boxes: "Response times of each trial: the box reaches from the 25th to the 75th percentile (IQR), the line in it is the \
            median, the whiskers reach from the 1st to the 99th percentile. Hatched: it took at least that long.",
    boxes_label: "Box plots of the response time, one for each trial",
    heat: "All requests of each variant’s valid trials together, warm-up included, by when they were due and by response time. \
           The stronger the colour, the more requests; the legend has the least number for each step.",
    courses: "Requests over time in the middle valid trial of each variant by mean response time: those that were due and had \
              not ended, and below it how many per second were due (line) and succeeded (area).",
};

static OF_LOAD: Words = Words {
    curves: "Percentiles of all requests; failed ones count as never answered. Each step has a tenth of the requests \
             beyond the one before. Dashed: it took at least that long.",
    curves_label: "Response time by percentile",
    boxes: "Response times of all requests: the box reaches from the 25th to the 75th percentile (IQR), the line in it is the \
            median, the whiskers reach from the 1st to the 99th percentile. Hatched: it took at least that long.",
    boxes_label: "Box plots of the response time",
    heat: "All requests, warm-up included, by when they were due and by response time. The stronger the colour, the more \
           requests; the legend has the least number for each step.",
    courses: "Requests over time: those that were due and had not ended, and below it how many per second were due (line) and \
              succeeded (area).",
};

/// Appends the drawings of one condition; nothing if no trial has enough requests. `plots` are the whole run's.
pub(super) fn push(page: &mut String, condition: &ConditionSummary, plots: &[TrialPoints]) {
    let place = |plot: &TrialPoints| {
        let mut cells = condition.cells.iter();
        cells.position(|cell| cell.variant == plot.variant)
    };
    let own = plots
        .iter()
        .filter(|plot| plot.condition == condition.condition);
    let mut trials: Vec<Drawn<'_>> = own.filter_map(|plot| Some((place(plot)?, plot))).collect();
    trials.sort_by_key(|(variant, plot)| (*variant, plot.repetition));
    let names: Vec<&str> = (condition.cells.iter())
        .map(|cell| cell.variant.as_str())
        .collect();
    push_all(
        page,
        &names,
        &trials,
        &middle(condition, &trials),
        &OF_TRIALS,
    );
}

/// Appends the drawings of a load; nothing without enough requests. Each of `plots` has a colour.
pub(super) fn push_of_load(page: &mut String, plots: &[TrialPoints]) {
    let trials: Vec<Drawn<'_>> = plots.iter().enumerate().collect();
    let names: Vec<&str> = plots.iter().map(|plot| plot.variant.as_str()).collect();
    push_all(page, &names, &trials, &trials, &OF_LOAD);
}

/// Appends the drawings of these trials; the drawings over time show only `chosen`. `names` are the names of the variants.
fn push_all(
    page: &mut String,
    names: &[&str],
    trials: &[Drawn<'_>],
    chosen: &[Drawn<'_>],
    words: &Words,
) {
    let values = trials.iter().flat_map(|(_, plot)| {
        let curve = plot.shape.percentiles.iter().map(|point| point.value);
        curve.chain(plot.shape.quartiles.into_iter().flat_map(ends))
    });
    let Some(axis) = LogAxis::of(values) else {
        return;
    };
    page.push_str("<div class=\"multiples shapes\">\n");
    push_curves(page, axis, trials, words);
    push_boxes(page, axis, trials, words);
    page.push_str("</div>\n");
    heat::push(page, names, trials, words);
    push_courses(page, chosen, words);
}

/// The middle trial of each variant.
fn middle<'a>(condition: &ConditionSummary, trials: &[Drawn<'a>]) -> Vec<Drawn<'a>> {
    let cells = condition.cells.iter().enumerate();
    let middle = cells.filter_map(|(variant, cell)| {
        let repetition = cell.middle_trial()?.repetition;
        let mut own = trials.iter();
        own.find(|(of, plot)| *of == variant && plot.repetition == repetition)
            .copied()
    });
    middle.collect()
}

/// The ends of a box and its whiskers.
fn ends(of: Quartiles) -> impl Iterator<Item = Quantile> + Clone {
    [of.p1, of.p25, of.median, of.p75].into_iter().chain(of.p99)
}

/// The percentile curves: a line for each valid trial.
fn push_curves(page: &mut String, axis: LogAxis, trials: &[Drawn<'_>], words: &Words) {
    const HEIGHT: f64 = 250.0;
    let area = Area {
        left: 58.0,
        right: WIDTH - 12.0,
        top: 8.0,
        bottom: HEIGHT - 20.0,
    };
    let valid = || trials.iter().filter(|(_, plot)| plot.valid);
    let points = valid().flat_map(|(_, plot)| &plot.shape.percentiles);
    let least = points.map(|point| point.beyond).fold(0.1, f64::min);
    // The decades that the curves reach, such as 3 for 99.9 %.
    let decades = -least.log10();
    page.push_str(&format!(
        "<figure>\n<figcaption>{}</figcaption>\n",
        words.curves
    ));
    plot::begin_named(page, HEIGHT, words.curves_label, "percentiles");
    plot::push_y_axis(page, axis, &area);
    plot::push_percentile_axis(page, decades, &area);
    for (variant, plot) in valid() {
        let at = |point: &PercentilePoint| {
            (
                area.across(-point.beyond.log10() / decades),
                area.height(axis.share(point.value)),
            )
        };
        push_curve(page, *variant, plot, at);
    }
    page.push_str("</svg>\n</figure>\n");
}

fn push_curve(
    page: &mut String,
    variant: usize,
    plot: &TrialPoints,
    at: impl Fn(&PercentilePoint) -> (f64, f64),
) {
    let points = &plot.shape.percentiles;
    let exact = points.iter().take_while(|it| it.value.exact().is_some());
    let exact = exact.count();
    let finite = points.iter().take_while(|it| it.value != Quantile::Never);
    let finite = finite.count();
    // The dashed part begins at the last known point.
    let parts = [
        ("curve", &points[..exact]),
        (
            "curve bound",
            &points[exact.saturating_sub(1).min(finite)..finite],
        ),
    ];
    for (class, part) in parts {
        if part.len() < 2 {
            continue;
        }
        let mut path = String::new();
        for point in part {
            let (x, y) = at(point);
            path += &format!("{}{x:.1} {y:.1}", if path.is_empty() { "M" } else { "L" });
        }
        page.push_str(&format!(
            "<path class=\"{class}\" style=\"--series: var(--series-{})\" d=\"{path}\"><title>{}</title></path>\n",
            variant % SERIES,
            escaped(&plot.title()),
        ));
    }
}

/// The box plots: a box for each trial.
fn push_boxes(page: &mut String, axis: LogAxis, trials: &[Drawn<'_>], words: &Words) {
    const ROW: f64 = 14.0;
    let boxes: Vec<(&Drawn<'_>, Quartiles)> = trials
        .iter()
        .filter_map(|drawn| Some((drawn, drawn.1.shape.quartiles?)))
        .collect();
    if boxes.is_empty() {
        return;
    }
    let height = 8.0 + ROW * boxes.len() as f64 + 20.0;
    let area = Area {
        left: 130.0,
        right: WIDTH - 12.0,
        top: 4.0,
        bottom: height - 20.0,
    };
    page.push_str(&format!(
        "<figure>\n<figcaption>{}</figcaption>\n",
        words.boxes
    ));
    plot::begin_named(page, height, words.boxes_label, "boxes");
    plot::push_x_axis(page, axis, &area);
    for (row, (drawn, quartiles)) in boxes.iter().enumerate() {
        let top = 6.0 + ROW * row as f64;
        push_box(page, drawn, *quartiles, top, |value| {
            area.across(axis.share(value))
        });
    }
    page.push_str("</svg>\n</figure>\n");
}

fn push_box(
    page: &mut String,
    (variant, plot): &Drawn<'_>,
    of: Quartiles,
    top: f64,
    x: impl Fn(Quantile) -> f64,
) {
    let words = [of.p1, of.p25, of.median, of.p75].map(figure::quantile);
    let p99 = of.p99.map_or_else(|| "n/a".to_owned(), figure::quantile);
    let (class, invalid) = if plot.valid {
        ("box", "")
    } else {
        ("box doubtful", ", invalid or doubtful")
    };
    let (middle, whisker) = (top + 5.0, of.p99.unwrap_or(of.p75));
    page.push_str(&format!(
        "<g class=\"{class}\" style=\"--series: var(--series-{})\"><title>{}{invalid}: p1 {} ms, p25 {} ms, median {} ms, \
         p75 {} ms, p99 {} ms</title><text class=\"of-y\" x=\"125\" y=\"{:.1}\">{}</text>\
         <path class=\"interval\" d=\"M{:.1} {middle:.1}H{:.1}\"/>",
        variant % SERIES,
        escaped(&plot.title()),
        escaped(&words[0]),
        escaped(&words[1]),
        escaped(&words[2]),
        escaped(&words[3]),
        escaped(&p99),
        top + 8.5,
        short_title(plot),
        x(of.p1),
        x(whisker),
    ));
    let (left, right) = (x(of.p25), x(of.p75));
    let hidden = if of.p75.exact().is_none() {
        "at-least"
    } else {
        "box-body"
    };
    page.push_str(&format!(
        "<rect class=\"{hidden}\" x=\"{left:.1}\" y=\"{top:.1}\" width=\"{:.1}\" height=\"10\"/>\
         <path class=\"box-median\" d=\"M{:.1} {top:.1}v10\"/></g>\n",
        (right - left).max(1.0),
        x(of.median),
    ));
}

/// A trial's name beside its box.
fn short_title(plot: &TrialPoints) -> String {
    if plot.is_load {
        return plot::short(&plot.variant, 18);
    }
    format!("{} {}", plot::short(&plot.variant, 16), plot.repetition + 1)
}

/// Requests in flight and rates over time.
fn push_courses(page: &mut String, trials: &[Drawn<'_>], words: &Words) {
    let chosen: Vec<Drawn<'_>> = (trials.iter())
        .filter(|(_, plot)| !plot.shape.course.in_flight.is_empty())
        .copied()
        .collect();
    if chosen.is_empty() {
        return;
    }
    let largest = |of: fn(&LoadCourse) -> f64| {
        let values = chosen.iter().map(|(_, plot)| of(&plot.shape.course));
        Axis::up_to(values.fold(f64::MIN_POSITIVE, f64::max))
    };
    let seconds = largest(|it| it.interval.as_secs_f64() * it.in_flight.len() as f64);
    let in_flight = largest(|it| {
        it.in_flight
            .iter()
            .fold(0.0, |most, of| (*of as f64).max(most))
    });
    let rate = largest(|it| {
        let both = it.due_per_s.iter().chain(&it.answered_per_s);
        both.copied().fold(0.0, f64::max)
    });
    page.push_str(&format!(
        "<p class=\"delivered\">{}</p>\n<div class=\"multiples courses\">\n",
        words.courses
    ));
    for (variant, plot) in chosen {
        let axes = [seconds, in_flight.rounded_up(), rate.rounded_up()];
        push_course(page, variant, plot, axes);
    }
    page.push_str("</div>\n");
}

/// `axes` has the axes of time, of requests and of rates.
fn push_course(page: &mut String, variant: usize, plot: &TrialPoints, axes: [Axis; 3]) {
    let [seconds, in_flight, rate] = axes;
    let course = &plot.shape.course;
    let name = &plot.variant;
    page.push_str(&format!(
        "<figure style=\"--series: var(--series-{})\">\n<h3>{}{}</h3>\n",
        variant % SERIES,
        swatch(variant),
        escaped(name),
    ));
    let interval = course.interval.as_secs_f64();
    let steps = |values: &mut dyn Iterator<Item = f64>, y: Axis| {
        let mut path = String::new();
        for (place, value) in (1_u32..).zip(values) {
            let until = seconds.across(f64::from(place) * interval);
            path += &format!("V{:.1}H{until:.1}", y.height(value));
        }
        path
    };
    let open = steps(
        &mut course.in_flight.iter().map(|count| *count as f64),
        in_flight,
    );
    let answered = steps(&mut course.answered_per_s.iter().copied(), rate);
    let due = steps(&mut course.due_per_s.iter().copied(), rate);
    let most = course.in_flight.iter().copied().max().unwrap_or(0);
    let bottom = in_flight.height(0.0);
    let upper = Graph {
        title: "Requests in flight",
        label: format!(
            "{name}: requests in flight over time, at most {}",
            figure::count(most)
        ),
        x: seconds,
        y: in_flight,
        shape: format!("<path class=\"area\" d=\"M{GRAPH_LEFT} {bottom}{open}V{bottom}Z\"/>\n"),
    };
    upper.push(page);
    let bottom = rate.height(0.0);
    let lower = Graph {
        title: "Requests per second",
        label: format!("{name}: requests per second over time, due and succeeded"),
        x: seconds,
        y: rate,
        shape: format!(
            "<path class=\"area\" d=\"M{GRAPH_LEFT} {bottom}{answered}V{bottom}Z\"/>\n\
             <path class=\"due\" d=\"M{GRAPH_LEFT} {bottom}{due}\"/>\n"
        ),
    };
    lower.push(page);
    if !plot.is_load {
        page.push_str(&format!(
            "<figcaption>Repetition {}</figcaption>\n",
            plot.repetition + 1
        ));
    }
    page.push_str("</figure>\n");
}
