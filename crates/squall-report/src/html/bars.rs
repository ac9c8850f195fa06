//! Bars on a logarithmic axis: a statistic of each variant's response time as the median over trials or rounds, with its
//! interval and the value of each trial or round.
//!
//! All statistics share one axis. Scripts show one at a time (assets/switches.js); without them, and on paper, all are visible.
//! It computes nothing; `comparison` has the bars of a run, `load_requests` those of a load.

use squall_analysis::{Quantile, Spread, figure};

use super::plot::{self, Area, LogAxis, WIDTH};
use super::text::{SERIES, escaped};

/// The height of a group's name, of a bar, and of what is above and below the bars.
const NAME_HEIGHT: f64 = 17.0;
const BAR_HEIGHT: f64 = 13.0;
const TOP: f64 = 4.0;
const BOTTOM: f64 = 20.0;

/// A bar.
pub(super) struct Bar<'a> {
    pub(super) name: &'a str,
    /// The number of its colour.
    pub(super) colour: usize,
    /// Words after its value if that is doubtful, otherwise empty.
    pub(super) doubt: &'static str,
    pub(super) spread: Option<Spread<Quantile>>,
    /// The values whose median the bar shows.
    pub(super) dots: Vec<Quantile>,
}

/// Bars below a name, or without one.
pub(super) struct Group<'a> {
    pub(super) name: Option<&'a str>,
    pub(super) bars: Vec<Bar<'a>>,
}

/// The bars of a statistic.
pub(super) struct Drawing<'a> {
    pub(super) statistic: &'static str,
    pub(super) caption: String,
    /// What the drawing shows, for screen readers.
    pub(super) label: String,
    pub(super) groups: Vec<Group<'a>>,
}

/// Appends the drawings, of which only the one of the statistic `usual` is visible at first; nothing without a value.
pub(super) fn push(page: &mut String, usual: &str, drawings: &[Drawing<'_>]) {
    let groups = drawings.iter().flat_map(|drawing| &drawing.groups);
    let spreads = groups
        .flat_map(|group| &group.bars)
        .filter_map(|bar| bar.spread);
    let values: Vec<Quantile> = spreads.flat_map(ends).collect();
    let Some(axis) = LogAxis::of(values.into_iter()) else {
        return;
    };
    page.push_str(&format!("<div class=\"bars\" data-default=\"{usual}\">\n"));
    for drawing in drawings {
        page.push_str(&format!(
            "<figure data-statistic=\"{}\">\n<figcaption>{}</figcaption>\n",
            drawing.statistic, drawing.caption
        ));
        push_drawing(page, drawing, axis);
        page.push_str("</figure>\n");
    }
    page.push_str("</div>\n");
}

/// Every value that a bar shows, apart from its dots, which are within its range.
fn ends(spread: Spread<Quantile>) -> impl Iterator<Item = Quantile> {
    let interval = spread.interval.into_iter();
    let interval = interval.flat_map(|interval| [interval.low, interval.high]);
    [spread.median, spread.low, spread.high]
        .into_iter()
        .chain(interval)
}

fn push_drawing(page: &mut String, drawing: &Drawing<'_>, axis: LogAxis) {
    let groups = drawing.groups.iter();
    let heights = groups.map(|group| {
        let name = group.name.map_or(0.0, |_| NAME_HEIGHT);
        name + BAR_HEIGHT * group.bars.len() as f64
    });
    let height = TOP + BOTTOM + heights.sum::<f64>();
    let area = Area {
        left: 104.0,
        right: WIDTH - 8.0,
        top: TOP,
        bottom: height - BOTTOM,
    };
    let name = format!("response-time-{}", drawing.statistic);
    plot::begin_named(page, height, &drawing.label, &name);
    plot::push_x_axis(page, axis, &area);
    let mut y = TOP;
    for group in &drawing.groups {
        if let Some(name) = group.name {
            page.push_str(&format!(
                "<text class=\"group\" x=\"0\" y=\"{:.1}\">{}</text>\n",
                y + 12.0,
                plot::short(name, 64)
            ));
            y += NAME_HEIGHT;
        }
        for bar in &group.bars {
            let place = BarPosition {
                statistic: drawing.statistic,
                axis,
                area,
                y,
            };
            place.push(page, bar);
            y += BAR_HEIGHT;
        }
    }
    page.push_str("</svg>\n");
}

/// The position of one bar.
struct BarPosition {
    statistic: &'static str,
    axis: LogAxis,
    area: Area,
    y: f64,
}

impl BarPosition {
    fn push(&self, page: &mut String, bar: &Bar<'_>) {
        let value = bar.spread.map_or_else(
            || "n/a".to_owned(),
            |spread| format!("{} ms", figure::quantile(spread.median)),
        );
        let class = if bar.doubt.is_empty() {
            "bar-row"
        } else {
            "bar-row doubtful"
        };
        page.push_str(&format!(
            "<g class=\"{class}\" style=\"--series: var(--series-{})\"><title>{}: {} {}{}</title>\
             <text class=\"of-y\" x=\"{:.1}\" y=\"{:.1}\">{}</text>",
            bar.colour % SERIES,
            escaped(bar.name),
            self.statistic,
            escaped(&value),
            bar.doubt,
            self.area.left - 5.0,
            self.y + 9.5,
            plot::short(bar.name, 17),
        ));
        if let Some(spread) = bar.spread {
            self.push_shapes(page, spread, &bar.dots);
        }
        page.push_str("</g>\n");
    }

    fn x(&self, value: Quantile) -> f64 {
        self.area.across(self.axis.share(value))
    }

    fn push_shapes(&self, page: &mut String, spread: Spread<Quantile>, dots: &[Quantile]) {
        let (left, y) = (self.area.left, self.y);
        let end = self.x(spread.median);
        page.push_str(&format!(
            "<rect class=\"bar-value\" x=\"{left}\" y=\"{:.1}\" width=\"{:.1}\" height=\"{:.1}\"/>",
            y + 1.5,
            (end - left).max(0.5),
            BAR_HEIGHT - 3.0,
        ));
        if spread.median.exact().is_none() {
            page.push_str(&format!(
                "<rect class=\"at-least\" x=\"{end:.1}\" y=\"{:.1}\" width=\"{:.1}\" height=\"{:.1}\"/>",
                y + 1.5,
                (self.area.right - end).max(0.5),
                BAR_HEIGHT - 3.0,
            ));
        }
        let middle = y + BAR_HEIGHT / 2.0;
        let (low, high) = match spread.interval {
            Some(interval) => (interval.low, interval.high),
            None => (spread.low, spread.high),
        };
        let (low, high) = (self.x(low), self.x(high));
        page.push_str(&format!(
            "<path class=\"interval\" d=\"M{low:.1} {middle:.1}H{high:.1}M{low:.1} {0:.1}v6M{high:.1} {0:.1}v6\"/>",
            middle - 3.0
        ));
        for value in dots {
            let class = match value.exact() {
                Some(_) => "dot",
                None => "dot open",
            };
            page.push_str(&format!(
                "<circle class=\"{class}\" cx=\"{:.1}\" cy=\"{middle:.1}\" r=\"2\"/>",
                self.x(*value)
            ));
        }
    }
}
