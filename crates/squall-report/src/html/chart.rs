//! Axes and shapes of the drawings of single requests and connections: time in milliseconds across, any quantity upwards.
//!
//! Pure markup. It knows nothing of what is drawn; `request` and `connection` do.

use squall_base::Time;
use squall_base::record::Cause;

use super::text::escaped;

/// The width of a drawing, in units that the page scales to about a pixel, and the sides of the area within the axes.
pub(super) const WIDTH: f64 = 720.0;
pub(super) const LEFT: f64 = 96.0;
pub(super) const RIGHT: f64 = 708.0;

/// The height of a chart, and the ends of its vertical axis.
const HEIGHT: f64 = 150.0;
const TOP: f64 = 22.0;
const BOTTOM: f64 = 128.0;

/// The most ticks of an axis.
const TICKS_ACROSS: f64 = 8.0;
const TICKS_UP: f64 = 4.0;

/// A span of time as the horizontal axis.
#[derive(Clone, Copy, Debug)]
pub(super) struct TimeAxis {
    /// Labels count from here.
    origin: Time,
    from: Time,
    to: Time,
}

impl TimeAxis {
    pub(super) fn new(origin: Time, from: Time, to: Time) -> TimeAxis {
        TimeAxis { origin, from, to }
    }

    /// The horizontal place of a time; times outside are at the ends.
    pub(super) fn across(self, at: Time) -> f64 {
        let span = self.to.since(self.from).as_nanos().max(1) as f64;
        let share = at.since(self.from).as_nanos() as f64 / span;
        LEFT + (RIGHT - LEFT) * share.min(1.0)
    }

    /// The places of round times and their labels, without the unit.
    pub(super) fn ticks(self) -> Vec<(f64, String)> {
        let millis = |at: Time| since(self.origin, at);
        let (from, to) = (millis(self.from), millis(self.to));
        let place = |value: f64| LEFT + (RIGHT - LEFT) * (value - from) / (to - from).max(1e-9);
        let ticks = ticks(from, to, TICKS_ACROSS);
        ticks
            .map(|value| (place(value), tick_label(value)))
            .collect()
    }
}

/// Milliseconds from `origin` to `at`; negative if `at` is earlier.
pub(super) fn since(origin: Time, at: Time) -> f64 {
    let nanos = at.as_nanos().abs_diff(origin.as_nanos()) as f64;
    if at < origin {
        -nanos / 1e6
    } else {
        nanos / 1e6
    }
}

/// A quantity as the vertical axis.
#[derive(Clone, Copy, Debug)]
pub(super) struct ValueAxis {
    low: f64,
    high: f64,
}

impl ValueAxis {
    /// An axis with all of these values, and with zero if they are not negative.
    pub(super) fn of(values: impl Iterator<Item = f64>) -> ValueAxis {
        let (low, high) = values.fold((0.0_f64, 0.0_f64), |(low, high), value| {
            (low.min(value), high.max(value))
        });
        let high = if high > low { high } else { low + 1.0 };
        let step = round_step(high - low, TICKS_UP);
        ValueAxis {
            low: (low / step).floor() * step,
            high: (high / step - 1e-9).ceil() * step,
        }
    }

    /// The vertical place of a value.
    pub(super) fn height(self, value: f64) -> f64 {
        let share = (value - self.low) / (self.high - self.low);
        BOTTOM - (BOTTOM - TOP) * share.clamp(0.0, 1.0)
    }
}

/// The smallest of 1, 2 or 5 x 10^n that divides `span` into at most `most` steps.
fn round_step(span: f64, most: f64) -> f64 {
    let mut steps = (-9..=15).flat_map(|n| [1.0, 2.0, 5.0].map(|digit| digit * 10f64.powi(n)));
    steps.find(|step| *step >= span / most).unwrap_or(span)
}

/// The round values from `low` to `high`.
fn ticks(low: f64, high: f64, most: f64) -> impl Iterator<Item = f64> {
    let step = round_step((high - low).max(1e-9), most);
    let (first, last) = ((low / step - 1e-9).ceil(), (high / step + 1e-9).floor());
    (first as i64..=last as i64).map(move |n| n as f64 * step)
}

/// A number without the rounding error of binary fractions, and never `-0`.
fn tick_label(value: f64) -> String {
    ((value * 1e9).round() / 1e9 + 0.0).to_string()
}

/// The texts of a chart.
pub(super) struct ChartTexts<'a> {
    /// Names its files within the request or connection (assets/export.js).
    pub(super) name: String,
    /// What it shows, with the unit.
    pub(super) title: &'a str,
    /// A description of the drawing for screen readers.
    pub(super) label: String,
}

/// One chart.
pub(super) struct Chart<'a> {
    pub(super) texts: ChartTexts<'a>,
    pub(super) time: TimeAxis,
    pub(super) values: ValueAxis,
    /// The markup of everything between the axes.
    pub(super) shapes: String,
}

impl Chart<'_> {
    pub(super) fn push(&self, page: &mut String) {
        let ChartTexts { name, title, label } = &self.texts;
        begin(page, HEIGHT, label, name);
        page.push_str(&format!(
            "<text x=\"{LEFT}\" y=\"12\">{}</text>\n",
            escaped(title)
        ));
        for value in ticks(self.values.low, self.values.high, TICKS_UP) {
            let y = self.values.height(value);
            page.push_str(&format!(
                "<path class=\"grid\" d=\"M{LEFT} {y:.1}H{RIGHT}\"/><text class=\"of-y\" x=\"{:.1}\" y=\"{:.1}\">{}</text>\n",
                LEFT - 6.0,
                y + 3.5,
                tick_label(value),
            ));
        }
        push_times(page, self.time, BOTTOM + 14.0);
        page.push_str(&self.shapes);
        page.push_str("</svg>\n");
    }
}

/// Begins a drawing of this height; `label` is for screen readers, `name` names its files within the request or connection
/// (assets/export.js).
pub(super) fn begin(page: &mut String, height: f64, label: &str, name: &str) {
    page.push_str(&format!(
        "<svg class=\"drawing\" viewBox=\"0 0 {WIDTH} {height:.0}\" role=\"img\" aria-label=\"{}\" data-plot=\"{}\">\n",
        escaped(label),
        escaped(name)
    ));
}

/// The labels of the horizontal axis, at this height.
pub(super) fn push_times(page: &mut String, time: TimeAxis, y: f64) {
    for (x, label) in time.ticks() {
        page.push_str(&format!(
            "<text class=\"of-x\" x=\"{x:.1}\" y=\"{y:.1}\">{label} ms</text>\n"
        ));
    }
}

/// A dot for each place, drawn as a line of no length with round ends. `class` may be several classes.
pub(super) fn dots(class: &str, places: impl Iterator<Item = (f64, f64)>) -> String {
    let path: String = places.map(|(x, y)| format!("M{x:.1} {y:.1}h.1")).collect();
    path_of(class, &path)
}

/// A cross for each place.
pub(super) fn crosses(class: &str, places: impl Iterator<Item = (f64, f64)>) -> String {
    let cross = |(x, y): (f64, f64)| format!("M{:.1} {:.1}l6 6m0 -6l-6 6", x - 3.0, y - 3.0);
    let path: String = places.map(cross).collect();
    path_of(class, &path)
}

/// A line that keeps each value until the next one.
pub(super) fn steps(class: &str, places: impl Iterator<Item = (f64, f64)>) -> String {
    let mut path = String::new();
    for (x, y) in places {
        path += &if path.is_empty() {
            format!("M{x:.1} {y:.1}")
        } else {
            format!("H{x:.1}V{y:.1}")
        };
    }
    path_of(class, &path)
}

/// A path; nothing if it is empty.
pub(super) fn path_of(class: &str, path: &str) -> String {
    if path.is_empty() {
        return String::new();
    }
    format!("<path class=\"{class}\" d=\"{path}\"/>\n")
}

/// A span in which a sender had to wait, as a band over the whole height.
pub(super) fn band(cause: Cause, words: &str, (from, to): (f64, f64)) -> String {
    format!(
        "<rect class=\"held cause-{}\" x=\"{from:.1}\" y=\"{TOP}\" width=\"{:.1}\" height=\"{}\"><title>{}</title></rect>\n",
        cause.name(),
        (to - from).max(0.5),
        BOTTOM - TOP,
        escaped(words),
    )
}

/// The area below a line of steps that begins at `left`; each place is the end of a step.
pub(super) fn area(
    values: ValueAxis,
    places: impl Iterator<Item = (f64, f64)>,
    left: f64,
) -> String {
    let bottom = values.height(0.0);
    let mut path = format!("M{left:.1} {bottom:.1}");
    for (x, y) in places {
        path += &format!("V{y:.1}H{x:.1}");
    }
    format!("<path class=\"area\" d=\"{path}V{bottom:.1}Z\"/>\n")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(millis: u64) -> Time {
        Time::from_nanos(millis * 1_000_000)
    }

    #[test]
    fn times_count_from_the_origin() {
        let axis = TimeAxis::new(at(1_000), at(990), at(1_200));
        let labels: Vec<String> = axis.ticks().into_iter().map(|(_, label)| label).collect();
        assert_eq!(labels, ["0", "50", "100", "150", "200"]);
        assert_eq!(axis.across(at(990)), LEFT);
        assert_eq!(axis.across(at(1_200)), RIGHT);
        assert_eq!(axis.across(at(5_000)), RIGHT, "what is later is at the end");
    }

    #[test]
    fn values_begin_at_zero_unless_they_are_negative() {
        let axis = ValueAxis::of([30.0, 72.0].into_iter());
        assert_eq!((axis.low, axis.high), (0.0, 80.0));
        let axis = ValueAxis::of([-30.0, 72.0].into_iter());
        assert_eq!((axis.low, axis.high), (-50.0, 100.0));
        let empty = ValueAxis::of(std::iter::empty());
        assert!(empty.high > empty.low);
    }

    #[test]
    fn step_lines_keep_a_value_until_the_next_one() {
        let line = steps("line", [(1.0, 5.0), (2.0, 7.0)].into_iter());
        assert_eq!(line, "<path class=\"line\" d=\"M1.0 5.0H2.0V7.0\"/>\n");
        assert_eq!(steps("line", std::iter::empty()), "");
    }
}
