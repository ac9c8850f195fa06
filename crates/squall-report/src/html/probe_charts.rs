//! The drawings of a probe's page: rates as bars, transfers over time with the spans in which a window was used up, and
//! first responses in round trips.
//!
//! They are pure markup. Only positions are computed here: `squall_analysis::probe` has the figures, `plot` the axes.

use squall_analysis::figure;
use squall_analysis::probe::{Endpoint, Opening, Transfer, TransferCourse};
use squall_base::Duration;

use super::deliveries::{Axis, BOTTOM, Graph, LEFT, TOP};
use super::plot::{self, Area};
use super::text::{escaped, swatch};
use crate::probe::facts;

/// The height of a row of bars.
const ROW: f64 = 20.0;
/// The most ticks of an axis in round trips.
const TICKS_AT_MOST: f64 = 8.0;
/// At shorter round trips, the processors at both ends determine how long a handshake takes.
const MILLISECOND: Duration = Duration::from_millis(1);
/// Spans that are closer than this are drawn as one, in units of the drawing.
const APART: f64 = 0.7;

/// Begins a drawing, which screen readers describe by `label`.
pub(super) fn begin(page: &mut String, height: f64, label: &str) {
    plot::begin(page, height, label);
    page.push_str(&format!("<title>{}</title>\n", escaped(label)));
}

/// Appends the middle rates of each version as bars; nothing if there are none.
pub(super) fn push_rates(page: &mut String, endpoint: &Endpoint) {
    let mut rows: Vec<(String, f64)> = Vec::new();
    for facts in &endpoint.versions {
        let rates = [
            ("download", facts.download.median()),
            ("six downloads", facts.download_six.median()),
            ("upload", facts.upload_rate()),
        ];
        for (name, rate) in rates {
            rows.extend(rate.map(|rate| (format!("{} {name}", facts.version), rate)));
        }
    }
    let most = rows.iter().map(|(_, rate)| *rate).fold(0.0, f64::max);
    if most <= 0.0 {
        return;
    }
    let area = Area {
        left: 142.0,
        right: plot::WIDTH - 84.0,
        top: 2.0,
        bottom: 2.0 + ROW * rows.len() as f64,
    };
    let figures: Vec<String> = rows
        .iter()
        .map(|(name, bytes_per_s)| format!("{name} {}", facts::rate(Some(*bytes_per_s))))
        .collect();
    page.push_str("<h2>Throughput</h2>\n<figure class=\"shapes\">\n");
    let label = format!("Throughput: {}", figures.join(", "));
    begin(page, area.bottom + 4.0, &label);
    for (place, (name, bytes_per_s)) in rows.iter().enumerate() {
        let top = area.top + ROW * place as f64;
        let end = area.across(bytes_per_s / most);
        page.push_str(&format!(
            "<text class=\"of-y\" x=\"{:.1}\" y=\"{:.1}\">{}</text>\
             <rect class=\"bar-value\" style=\"--series: var(--series-{})\" x=\"{:.1}\" y=\"{:.1}\" width=\"{:.1}\" \
             height=\"{:.1}\"/><text x=\"{:.1}\" y=\"{:.1}\">{}</text>\n",
            area.left - 6.0,
            top + 13.5,
            escaped(name),
            series_of(name),
            area.left,
            top + 2.0,
            (end - area.left).max(0.5),
            ROW - 4.0,
            end + 5.0,
            top + 13.5,
            facts::rate(Some(*bytes_per_s)),
        ));
    }
    page.push_str("</svg>\n</figure>\n");
}

/// The colour of a version, everywhere on the page.
pub(super) fn series_of(version: &str) -> usize {
    let versions = ["HTTP/1.1", "HTTP/2", "HTTP/3"];
    let found = versions.iter().position(|name| version.starts_with(name));
    found.unwrap_or(versions.len())
}

/// Appends the transfers over time; nothing if there are none.
pub(super) fn push_courses(page: &mut String, courses: &[TransferCourse]) {
    if courses.is_empty() {
        return;
    }
    page.push_str(
        "<h2>Transfers over time</h2>\n<p class=\"delivered\">Bytes of the body so far, in the middle round. Shaded: everything \
         that the server’s windows allow had been sent. Uploads over HTTP/1.1 are what was acknowledged.</p>\n\
         <div class=\"multiples courses\">\n",
    );
    for course in courses {
        push_course(page, course);
    }
    page.push_str("</div>\n");
}

fn push_course(page: &mut String, course: &TransferCourse) {
    let name = match course.transfer {
        Transfer::Download => "Download",
        Transfer::Upload => "Upload",
    };
    let (took, bytes) = course.end();
    let blocked = course.blocked_time();
    let caption = format!(
        "{} MB in {}{}",
        figure::three_digits(bytes as f64 / 1e6),
        figure::time(took),
        if blocked.is_zero() {
            String::new()
        } else {
            format!(", {} of it blocked by windows", figure::time(blocked))
        }
    );
    let label = format!("{name} over {}: {caption}", course.version);
    let seconds = Axis::up_to(took.as_secs_f64().max(1e-6));
    let megabytes = Axis::up_to((bytes as f64 / 1e6).max(1e-6)).rounded_up();
    let series = series_of(course.version);
    page.push_str(&format!(
        "<figure style=\"--series: var(--series-{series})\">\n<h3>{}{name} over {}</h3>\n",
        swatch(series),
        escaped(course.version),
    ));
    let graph = Graph {
        title: "Megabytes",
        shape: format!("<title>{}</title>\n", escaped(&label))
            + &shading(course, seconds)
            + &line(course, seconds, megabytes),
        label,
        x: seconds,
        y: megabytes,
    };
    graph.push(page);
    page.push_str(&format!(
        "<figcaption>{}</figcaption>\n</figure>\n",
        escaped(&caption)
    ));
}

/// The bytes so far: a line that keeps each value until the next one.
fn line(course: &TransferCourse, seconds: Axis, megabytes: Axis) -> String {
    let mut path = format!("M{LEFT} {:.1}", megabytes.height(0.0));
    for (at, bytes) in &course.points {
        path += &format!(
            "H{:.1}V{:.1}",
            seconds.across(at.as_secs_f64()),
            megabytes.height(*bytes as f64 / 1e6)
        );
    }
    format!("<path class=\"curve\" d=\"{path}\"/>\n")
}

/// The spans in which a window was used up, as bands over the whole height.
fn shading(course: &TransferCourse, seconds: Axis) -> String {
    let mut bands: Vec<(f64, f64)> = Vec::new();
    for (from, to) in &course.blocked {
        let [from, to] = [from, to].map(|at| seconds.across(at.as_secs_f64()));
        match bands.last_mut() {
            Some(last) if from - last.1 < APART => last.1 = to.max(last.1),
            _ => bands.push((from, to)),
        }
    }
    if bands.is_empty() {
        return String::new();
    }
    let path: String = bands
        .iter()
        .map(|(from, to)| format!("M{from:.1} {TOP}H{to:.1}V{BOTTOM}H{from:.1}Z"))
        .collect();
    format!("<path class=\"blocked\" d=\"{path}\"/>\n")
}

/// Appends the parts of each version's first response, in round trips where one takes long enough; nothing if there are none.
pub(super) fn push_openings(page: &mut String, openings: &[Opening], round_trip: Option<Duration>) {
    let longest = openings.iter().map(Opening::whole).max();
    let Some(longest) = longest.filter(|longest| !longest.is_zero()) else {
        return;
    };
    let unit = Unit::of(round_trip);
    let most = unit.count(longest);
    let area = Area {
        left: 62.0,
        right: plot::WIDTH - 112.0,
        top: 4.0,
        bottom: 4.0 + ROW * openings.len() as f64,
    };
    let said: Vec<String> = openings
        .iter()
        .map(|it| format!("{} {}", it.version, unit.words(it.whole())))
        .collect();
    page.push_str(&format!(
        "<h2>First response</h2>\n<figure class=\"shapes\">\n<figcaption>From the beginning of a fresh connection to the first \
         byte of its response, in {}. {}{}{}</figcaption>\n",
        unit.name(),
        key(0, "TCP handshake"),
        key(2, "TLS or QUIC handshake"),
        key(1, "request to first byte"),
    ));
    let label = format!("First response: {}", said.join(", "));
    begin(page, area.bottom + 18.0, &label);
    push_ticks(page, most, &area);
    for (place, opening) in openings.iter().enumerate() {
        push_opening(page, opening, unit, most, &area, place);
    }
    page.push_str("</svg>\n</figure>\n");
}

fn key(series: usize, name: &str) -> String {
    format!("<span class=\"key\">{}{name}</span>", swatch(series))
}

/// The lines and labels of the horizontal axis.
fn push_ticks(page: &mut String, most: f64, area: &Area) {
    let mut steps = (-3..=6).flat_map(|n| [1.0, 2.0, 5.0].map(|digit| digit * 10f64.powi(n)));
    let step = (steps.find(|step| most / step <= TICKS_AT_MOST)).unwrap_or(most);
    let count = (most / step).floor() as u32;
    for n in 0..=count {
        let value = f64::from(n) * step;
        let x = area.across(value / most);
        page.push_str(&format!(
            "<path class=\"grid\" d=\"M{x:.1} {}V{}\"/><text class=\"of-x\" x=\"{x:.1}\" y=\"{:.1}\">{}</text>\n",
            area.top,
            area.bottom,
            area.bottom + 13.0,
            (value * 1e6).round() / 1e6,
        ));
    }
}

fn push_opening(
    page: &mut String,
    opening: &Opening,
    unit: Unit,
    most: f64,
    area: &Area,
    place: usize,
) {
    let top = area.top + ROW * place as f64;
    page.push_str(&format!(
        "<text class=\"of-y\" x=\"{:.1}\" y=\"{:.1}\">{}</text>\n",
        area.left - 6.0,
        top + 13.5,
        escaped(opening.version),
    ));
    let mut begun = Duration::ZERO;
    for (series, part) in [
        (0, opening.connect),
        (2, opening.secure),
        (1, opening.answer),
    ] {
        let from = area.across(unit.count(begun) / most);
        begun = begun + part;
        let to = area.across(unit.count(begun) / most);
        if !part.is_zero() {
            page.push_str(&format!(
                "<rect class=\"bar-value\" style=\"--series: var(--series-{series})\" x=\"{from:.1}\" y=\"{:.1}\" \
                 width=\"{:.1}\" height=\"{:.1}\"/>\n",
                top + 2.0,
                (to - from).max(0.5),
                ROW - 4.0,
            ));
        }
    }
    page.push_str(&format!(
        "<text x=\"{:.1}\" y=\"{:.1}\">{}</text>\n",
        area.across(unit.count(begun) / most) + 5.0,
        top + 13.5,
        escaped(&unit.words(opening.whole())),
    ));
}

/// What first responses are measured in.
#[derive(Clone, Copy)]
enum Unit {
    RoundTrips(Duration),
    Milliseconds,
}

impl Unit {
    fn of(round_trip: Option<Duration>) -> Unit {
        match round_trip {
            Some(round_trip) if round_trip >= MILLISECOND => Unit::RoundTrips(round_trip),
            _ => Unit::Milliseconds,
        }
    }

    fn count(self, span: Duration) -> f64 {
        match self {
            Unit::RoundTrips(round_trip) => span.as_secs_f64() / round_trip.as_secs_f64(),
            Unit::Milliseconds => span.as_millis_f64(),
        }
    }

    fn name(self) -> String {
        match self {
            Unit::RoundTrips(round_trip) => {
                format!("round trips of {}", figure::time(round_trip))
            }
            Unit::Milliseconds => "milliseconds".to_owned(),
        }
    }

    fn words(self, span: Duration) -> String {
        match self {
            Unit::RoundTrips(_) => {
                format!("{:.1} ({})", self.count(span), figure::time(span))
            }
            Unit::Milliseconds => figure::time(span),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const fn ms(millis: u64) -> Duration {
        Duration::from_millis(millis)
    }

    #[test]
    fn bands_that_nearly_touch_are_merged() {
        let course = TransferCourse {
            version: "HTTP/2",
            transfer: Transfer::Upload,
            points: vec![(ms(1_000), 1)],
            blocked: vec![(ms(0), ms(100)), (ms(101), ms(200)), (ms(500), ms(600))],
        };
        let shape = shading(&course, Axis::up_to(1.0));
        assert_eq!(shape.matches('M').count(), 2, "{shape}");
    }

    #[test]
    fn first_response_is_drawn_in_round_trips_or_in_milliseconds() {
        let opening = Opening {
            version: "HTTP/1.1",
            connect: ms(30),
            secure: ms(30),
            answer: ms(30),
        };
        let mut page = String::new();
        push_openings(&mut page, std::slice::from_ref(&opening), Some(ms(30)));
        assert!(page.contains("in round trips of 30.0 ms"), "{page}");
        assert!(page.contains(">3.0 (90.0 ms)</text>"), "{page}");
        assert_eq!(page.matches("<rect").count(), 3, "{page}");
        let mut page = String::new();
        push_openings(&mut page, &[opening], None);
        assert!(page.contains("in milliseconds"), "{page}");
    }

    #[test]
    fn empty_data_draws_nothing() {
        let mut page = String::new();
        push_courses(&mut page, &[]);
        push_openings(&mut page, &[], None);
        assert_eq!(page, "");
    }
}
