//! What the page's drawings of response times have in common: a logarithmic axis in milliseconds, and the pieces of SVG.
//!
//! Drawings are pure markup, so that they work without scripts and on paper. Only places are computed here.

use squall_analysis::Quantile;
use squall_base::Duration;

use super::text::escaped;

/// The width of a drawing, in units that the page scales to about a pixel.
pub(super) const WIDTH: f64 = 400.0;

/// A logarithmic axis, in milliseconds.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct LogAxis {
    low_ms: f64,
    high_ms: f64,
}

impl LogAxis {
    /// From the 1, 2 or 5 x 10^n below the smallest value to the one above the largest; `None` without a finite value.
    pub(super) fn of(values: impl Iterator<Item = Quantile> + Clone) -> Option<LogAxis> {
        let known = values.filter_map(millis);
        let (low, high) = (known.clone().reduce(f64::min)?, known.reduce(f64::max)?);
        let low_ms = LogAxis::round_numbers()
            .rfind(|&n| n <= low * 0.95)
            .unwrap_or(low);
        let high_ms = LogAxis::round_numbers()
            .find(|&n| n >= high * 1.05)
            .unwrap_or(high * 2.0);
        Some(LogAxis { low_ms, high_ms })
    }

    /// 0.001, 0.002, 0.005, 0.01 and so on to 5,000,000 ms.
    fn round_numbers() -> impl DoubleEndedIterator<Item = f64> {
        (-3..=6).flat_map(|exponent| [1.0, 2.0, 5.0].map(|n| n * 10f64.powi(exponent)))
    }

    /// Where a value lies, from 0 at the low end to 1 at the high end; a value that is never reached is at the high end.
    pub(super) fn share(self, value: Quantile) -> f64 {
        let bound = value.lower_bound().map(Duration::as_millis_f64);
        bound.map_or(1.0, |ms| self.share_of_ms(ms))
    }

    fn share_of_ms(self, ms: f64) -> f64 {
        let share = (ms / self.low_ms).ln() / (self.high_ms / self.low_ms).ln();
        share.clamp(0.0, 1.0)
    }

    /// The ticks: their shares and their labels. The powers of 10, or all 1, 2 and 5 x 10^n if there are fewer than two.
    pub(super) fn ticks(self) -> Vec<(f64, String)> {
        let within = |n: &f64| (self.low_ms..=self.high_ms).contains(n);
        let powers: Vec<f64> = (-3..=6)
            .map(|exponent| 10f64.powi(exponent))
            .filter(within)
            .collect();
        let ticks = if powers.len() >= 2 {
            powers
        } else {
            LogAxis::round_numbers().filter(within).collect()
        };
        let labelled = ticks.into_iter().map(|ms| {
            // Without the rounding error of binary fractions.
            let label = (ms * 1e6).round() / 1e6;
            (self.share_of_ms(ms), format!("{label} ms"))
        });
        labelled.collect()
    }
}

/// A value that can be an end of the axis; `None` for zero, and for one that is never reached.
fn millis(value: Quantile) -> Option<f64> {
    value
        .lower_bound()
        .filter(|bound| !bound.is_zero())
        .map(Duration::as_millis_f64)
}

/// Begins a drawing of this height; `label` is for screen readers.
pub(super) fn begin(page: &mut String, height: f64, label: &str) {
    page.push_str(&format!(
        "<svg viewBox=\"0 0 {WIDTH} {height:.0}\" role=\"img\" aria-label=\"{}\">\n",
        escaped(label)
    ));
}

/// Like [`begin`], for a drawing that readers can save: `name` names its files within its section (assets/export.js).
pub(super) fn begin_named(page: &mut String, height: f64, label: &str, name: &str) {
    page.push_str(&format!(
        "<svg viewBox=\"0 0 {WIDTH} {height:.0}\" role=\"img\" aria-label=\"{}\" data-plot=\"{}\">\n",
        escaped(label),
        escaped(name)
    ));
}

/// The lines and labels of a vertical axis between these places.
pub(super) fn push_y_axis(page: &mut String, axis: LogAxis, place: &Area) {
    for (share, label) in axis.ticks() {
        let y = place.height(share);
        page.push_str(&format!(
            "<path class=\"grid\" d=\"M{} {y:.1}H{}\"/><text class=\"of-y\" x=\"{:.1}\" y=\"{:.1}\">{label}</text>\n",
            place.left,
            place.right,
            place.left - 5.0,
            y + 3.5,
        ));
    }
}

/// The lines and labels of a horizontal axis.
pub(super) fn push_x_axis(page: &mut String, axis: LogAxis, place: &Area) {
    for (share, label) in axis.ticks() {
        let x = place.across(share);
        page.push_str(&format!(
            "<path class=\"grid\" d=\"M{x:.1} {}V{}\"/><text class=\"of-x\" x=\"{x:.1}\" y=\"{:.1}\">{label}</text>\n",
            place.top,
            place.bottom,
            place.bottom + 12.0,
        ));
    }
}

/// The lines and labels of a horizontal axis of percentiles. It reaches over `decades`, such as 3 for 99.9 %.
pub(super) fn push_percentile_axis(page: &mut String, decades: f64, place: &Area) {
    for (decade, label) in ["0", "90", "99", "99.9", "99.99", "99.999", "99.9999"]
        .iter()
        .enumerate()
        .take_while(|(decade, _)| *decade as f64 <= decades + 1e-9)
    {
        let x = place.across(decade as f64 / decades);
        page.push_str(&format!(
            "<path class=\"grid\" d=\"M{x:.1} {}V{}\"/><text class=\"of-x\" x=\"{x:.1}\" y=\"{:.1}\">{label} %</text>\n",
            place.top,
            place.bottom,
            place.bottom + 13.0
        ));
    }
}

/// The area within the axes.
#[derive(Clone, Copy, Debug)]
pub(super) struct Area {
    pub(super) left: f64,
    pub(super) right: f64,
    pub(super) top: f64,
    pub(super) bottom: f64,
}

impl Area {
    /// The horizontal place of a share.
    pub(super) fn across(&self, share: f64) -> f64 {
        self.left + (self.right - self.left) * share
    }

    /// The vertical place of a share.
    pub(super) fn height(&self, share: f64) -> f64 {
        self.bottom - (self.bottom - self.top) * share
    }
}

/// A name, cut to the room beside a drawing.
pub(super) fn short(name: &str, chars: usize) -> String {
    if name.chars().count() <= chars {
        return escaped(name);
    }
    let cut: String = name.chars().take(chars - 1).chain(['…']).collect();
    escaped(&cut)
}

/// The hatching for values that are only lower bounds; other drawings refer to it by `url(#at-least)`.
pub(super) const HATCHING: &str = "<svg class=\"defs\" width=\"0\" height=\"0\" aria-hidden=\"true\" focusable=\"false\"><defs>\
     <pattern id=\"at-least\" width=\"5\" height=\"5\" patternUnits=\"userSpaceOnUse\" patternTransform=\"rotate(45)\">\
     <path d=\"M0 0V5\" stroke=\"#808080\" stroke-width=\"2\"/></pattern></defs></svg>\n";

#[cfg(test)]
mod tests {
    use super::*;

    fn ms(n: u64) -> Quantile {
        Quantile::Exact(Duration::from_millis(n))
    }

    #[test]
    fn both_ends_of_an_axis_are_round_numbers() {
        let axis = LogAxis::of([ms(30), ms(700), Quantile::Never].into_iter()).unwrap();
        assert_eq!((axis.low_ms, axis.high_ms), (20.0, 1_000.0));
        assert_eq!(axis.share(Quantile::Never), 1.0);
        assert_eq!([axis.share(ms(1)), axis.share(ms(0))], [0.0, 0.0]);
        let labels: Vec<String> = axis.ticks().into_iter().map(|(_, label)| label).collect();
        assert_eq!(labels, ["100 ms", "1000 ms"]);
        assert_eq!(LogAxis::of([Quantile::Never].into_iter()), None);
    }

    #[test]
    fn long_names_are_cut() {
        assert_eq!(short("h2c x1", 8), "h2c x1");
        assert_eq!(short("a very long name", 6), "a ver…");
        assert_eq!(short("<b>", 6), "&lt;b&gt;");
    }
}
