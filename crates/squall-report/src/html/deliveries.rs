//! What the link delivered over time, on the page: the throughput and the sizes of packets of each variant of a condition.
//!
//! Two small graphs for each variant, all with the axes of the largest. They are pure markup, so that they work without
//! scripts and on paper. Nothing is counted here: squall-analysis does that in `bulk.rs`.

use squall_analysis::{Delivery, figure};
use squall_base::Duration;
use squall_base::record::Direction;

use super::text::{SERIES, escaped, swatch};

/// The size of a graph, in units that the page scales to about a pixel.
const WIDTH: f64 = 400.0;
pub(super) const HEIGHT: f64 = 122.0;

/// The sides of the area within the axes.
pub(super) const LEFT: f64 = 44.0;
pub(super) const RIGHT: f64 = 384.0;
pub(super) const TOP: f64 = 20.0;
pub(super) const BOTTOM: f64 = 104.0;

/// A linear axis from zero.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Axis {
    top: f64,
    /// From one tick to the next: 1, 2 or 5 x 10^n, so that there are at most four.
    step: f64,
}

impl Axis {
    pub(super) fn up_to(top: f64) -> Axis {
        let mut steps = (-9..=15).flat_map(|n| [1.0, 2.0, 5.0].map(|digit| digit * 10f64.powi(n)));
        let step = steps.find(|step| *step >= top / 4.0).unwrap_or(top);
        Axis { top, step }
    }

    /// This axis with its top raised to a tick.
    pub(super) fn rounded_up(self) -> Axis {
        // Slightly less than the quotient, so that a rounding error does not add a step.
        let steps = (self.top / self.step - 1e-9).ceil();
        Axis {
            top: steps * self.step,
            ..self
        }
    }

    /// Where the ticks are, and their labels.
    pub(super) fn ticks(self) -> impl Iterator<Item = (f64, String)> {
        // Rounded, so that an error of binary fractions does not lose the last tick.
        let count = (self.top / self.step).round() as u32;
        (0..=count)
            .map(move |n| f64::from(n) * self.step)
            .filter(move |tick| *tick <= self.top * 1.000_001)
            // Without the rounding error of binary fractions: 0.3, not 0.30000000000000004.
            .map(|tick| (tick, ((tick * 1e9).round() / 1e9).to_string()))
    }

    /// The horizontal place of a value.
    pub(super) fn across(self, value: f64) -> f64 {
        LEFT + (RIGHT - LEFT) * value / self.top
    }

    /// The vertical place of a value.
    pub(super) fn height(self, value: f64) -> f64 {
        BOTTOM - (BOTTOM - TOP) * value / self.top
    }
}

/// The common axes of the graphs of a condition.
struct Axes {
    seconds: Axis,
    mbit_per_s: Axis,
    payload_bytes: Axis,
}

impl Axes {
    fn of(graphs: &[(usize, &Delivery)]) -> Axes {
        let largest = |value: fn(&Delivery) -> f64| {
            let values = graphs.iter().map(|(_, delivery)| value(delivery));
            Axis::up_to(values.fold(f64::MIN_POSITIVE, f64::max))
        };
        Axes {
            seconds: largest(|it| it.interval.as_secs_f64() * it.bytes.len() as f64),
            mbit_per_s: largest(|it| mbit_per_s(it).fold(0.0, f64::max)).rounded_up(),
            payload_bytes: largest(|it| it.payload_range().map_or(0.0, |(_, most)| most as f64))
                .rounded_up(),
        }
    }
}

/// Appends the graphs of one condition, each with the place of its variant; nothing if there are none.
pub(super) fn push(page: &mut String, graphs: &[(usize, &Delivery)]) {
    let Some((_, first)) = graphs.first() else {
        return;
    };
    page.push_str(&format!(
        "<p class=\"delivered\">Payload of TCP or QUIC that the link delivered over time, in intervals of {} ms, and \
         below it the size of single packets: of each interval the first, the last, the smallest and the largest. The \
         trial shown is the middle one of the variant’s valid trials by mean response time, from when its first \
         measured request had a connection.</p>\n<div class=\"multiples deliveries\">\n",
        first.interval.as_millis_f64(),
    ));
    let axes = Axes::of(graphs);
    for (variant, delivery) in graphs {
        push_figure(page, *variant, delivery, &axes);
    }
    page.push_str("</div>\n");
}

fn push_figure(page: &mut String, variant: usize, delivery: &Delivery, axes: &Axes) {
    let name = &delivery.variant;
    page.push_str(&format!(
        "<figure style=\"--series: var(--series-{})\">\n<h3>{}{}</h3>\n",
        variant % SERIES,
        swatch(variant),
        escaped(name),
    ));
    let most = mbit_per_s(delivery).fold(0.0, f64::max);
    let upper = Graph {
        title: "Throughput in Mbit/s",
        label: format!(
            "{name}: throughput over time, at most {} Mbit/s",
            figure::three_digits(most)
        ),
        x: axes.seconds,
        y: axes.mbit_per_s,
        shape: area(delivery, axes),
    };
    upper.push(page);
    let lower = Graph {
        title: "Payload of a packet in bytes",
        label: format!("{name}: payload of packets over time, {}", sizes(delivery)),
        x: axes.seconds,
        y: axes.payload_bytes,
        shape: dots(delivery, axes),
    };
    lower.push(page);
    page.push_str(&format!(
        "<figcaption>{}</figcaption>\n</figure>\n",
        escaped(&caption(delivery))
    ));
}

/// One graph.
pub(super) struct Graph {
    /// The title also names the graph's files, together with its variant (assets/export.js).
    pub(super) title: &'static str,
    /// What the graph shows, for screen readers.
    pub(super) label: String,
    pub(super) x: Axis,
    pub(super) y: Axis,
    /// The markup of everything between the axes.
    pub(super) shape: String,
}

impl Graph {
    pub(super) fn push(&self, page: &mut String) {
        page.push_str(&format!(
            "<svg viewBox=\"0 0 {WIDTH} {HEIGHT}\" role=\"img\" aria-label=\"{}\" data-plot=\"{title}\">\n\
             <text x=\"{LEFT}\" y=\"11\">{title}</text>\n",
            escaped(&self.label),
            title = self.title,
        ));
        for (tick, label) in self.y.ticks() {
            let at = self.y.height(tick);
            page.push_str(&format!(
                "<path class=\"grid\" d=\"M{LEFT} {at:.1}H{RIGHT}\"/>\
                 <text class=\"of-y\" x=\"{:.1}\" y=\"{:.1}\">{label}</text>\n",
                LEFT - 6.0,
                at + 3.5,
            ));
        }
        for (tick, label) in self.x.ticks() {
            page.push_str(&format!(
                "<text class=\"of-x\" x=\"{:.1}\" y=\"{:.1}\">{label} s</text>\n",
                self.x.across(tick),
                BOTTOM + 14.0,
            ));
        }
        page.push_str(&self.shape);
        page.push_str("</svg>\n");
    }
}

/// The throughput, with a step for each interval.
fn area(delivery: &Delivery, axes: &Axes) -> String {
    let seconds = delivery.interval.as_secs_f64();
    let mut path = format!("M{LEFT} {BOTTOM}");
    for (place, rate) in (1_u32..).zip(mbit_per_s(delivery)) {
        path += &format!(
            "V{:.1}H{:.1}",
            axes.mbit_per_s.height(rate),
            axes.seconds.across(f64::from(place) * seconds)
        );
    }
    format!("<path class=\"area\" d=\"{path}V{BOTTOM}Z\"/>\n")
}

/// A dot for each packet, drawn as a line of almost no length with round ends.
fn dots(delivery: &Delivery, axes: &Axes) -> String {
    let mut path = String::new();
    for sample in &delivery.samples {
        path += &format!(
            "M{:.1} {:.1}h.1",
            axes.seconds.across(sample.at.as_secs_f64()),
            axes.payload_bytes.height(sample.payload_bytes as f64)
        );
    }
    format!("<path class=\"dots\" d=\"{path}\"/>\n")
}

fn mbit_per_s(delivery: &Delivery) -> impl Iterator<Item = f64> {
    delivery.bytes_per_s().map(|bytes| bytes * 8.0 / 1e6)
}

/// `from 39 to 1,448 bytes`.
fn sizes(delivery: &Delivery) -> String {
    let (least, most) = delivery.payload_range().unwrap_or_default();
    format!(
        "from {} to {} bytes",
        figure::count(least),
        figure::count(most)
    )
}

/// Which trial it is, and the graphs in numbers.
fn caption(delivery: &Delivery) -> String {
    let direction = match delivery.direction {
        Direction::Up => "from client to server",
        Direction::Down => "from server to client",
    };
    let bytes: u64 = delivery.bytes.iter().sum();
    let idle = delivery.bytes.iter().filter(|bytes| **bytes == 0).count();
    let packets = figure::counted(delivery.packets, "packet", "packets");
    format!(
        "{}, hop {}, {direction}: {} MB in {}, nothing in {} of {}; {packets} {}, {} drawn",
        delivery.folder,
        delivery.hop,
        figure::three_digits(bytes as f64 / 1e6),
        seconds(delivery.span),
        figure::count(idle as u64),
        figure::counted(delivery.bytes.len() as u64, "interval", "intervals"),
        sizes(delivery),
        figure::count(delivery.samples.len() as u64),
    )
}

/// A span in seconds: `2.75 s`.
fn seconds(span: Duration) -> String {
    format!("{} s", figure::three_digits(span.as_secs_f64()))
}

#[cfg(test)]
mod tests {
    use squall_analysis::PacketSample;

    use super::*;

    /// A trial with these bytes in its intervals of 10 ms, and a packet at the start of each interval that has any bytes.
    fn delivery(variant: &str, bytes: &[u64]) -> Delivery {
        let packets = (0..).zip(bytes).filter(|(_, bytes)| **bytes > 0);
        let samples: Vec<PacketSample> = packets
            .map(|(place, bytes)| PacketSample {
                at: Duration::from_millis(10 * place),
                payload_bytes: (*bytes).min(1_448),
            })
            .collect();
        Delivery {
            folder: format!("0000-{variant}"),
            variant: variant.to_owned(),
            condition: squall_made::condition(25, 0.0),
            hop: 1,
            direction: Direction::Up,
            span: Duration::from_millis(10 * bytes.len() as u64),
            interval: Duration::from_millis(10),
            bytes: bytes.to_vec(),
            packets: 7_000,
            samples,
        }
    }

    fn page(graphs: &[(usize, &Delivery)]) -> String {
        let mut page = String::new();
        push(&mut page, graphs);
        page
    }

    #[test]
    fn graphs_of_a_condition_have_the_same_axes() {
        let fast = delivery("h1", &[125_000, 125_000]);
        let slow = delivery("h2", &[39, 0, 62_500, 0]);
        let page = page(&[(0, &fast), (1, &slow)]);
        // 125,000 bytes in 10 ms are 100 Mbit/s: all of the height, and 62,500 half of it. 40 ms are all of the width.
        assert!(
            page.contains("d=\"M44 104V20.0H129.0V20.0H214.0V104Z\""),
            "{page}"
        );
        assert!(
            page.contains("d=\"M44 104V104.0H129.0V104.0H214.0V62.0H299.0V104.0H384.0V104Z\""),
            "{page}"
        );
        // 1,448 of 1,500 bytes.
        assert!(page.contains("d=\"M44.0 22.9h.1M129.0 22.9h.1\""), "{page}");
        assert!(
            page.contains("d=\"M44.0 101.8h.1M214.0 22.9h.1\""),
            "{page}"
        );
        assert_eq!(page.matches(">100</text>").count(), 2, "{page}");
        assert_eq!(page.matches(">1500</text>").count(), 2, "{page}");
        assert_eq!(page.matches(">0.04 s</text>").count(), 4, "{page}");
        assert!(page.contains("<figure style=\"--series: var(--series-1)\">"));
    }

    #[test]
    fn captions_name_the_trial_and_say_what_the_graphs_show() {
        let page = page(&[(0, &delivery("h2", &[39, 0, 62_500, 0]))]);
        assert!(
            page.contains("in intervals of 10 ms, and below it"),
            "{page}"
        );
        let caption = "<figcaption>0000-h2, hop 1, from client to server: 0.063 MB in 0.040 s, nothing in 2 of 4 \
                       intervals; 7,000 packets from 39 to 1,448 bytes, 2 drawn</figcaption>";
        assert!(page.contains(caption), "{page}");
        let label = "aria-label=\"h2: throughput over time, at most 50.0 Mbit/s\"";
        assert!(page.contains(label), "{page}");
        let label = "aria-label=\"h2: payload of packets over time, from 39 to 1,448 bytes\"";
        assert!(page.contains(label), "{page}");
    }

    #[test]
    fn markup_in_names_is_escaped() {
        let page = page(&[(0, &delivery("<b>\"h1\"", &[100]))]);
        assert!(!page.contains("<b>") && !page.contains("\"h1\""), "{page}");
        assert!(
            page.contains("aria-label=\"&lt;b&gt;&quot;h1&quot;: throughput"),
            "{page}"
        );
    }

    #[test]
    fn condition_without_large_bodies_has_no_graphs() {
        assert_eq!(page(&[]), "");
    }

    #[test]
    fn axes_have_round_ticks() {
        let labels = |axis: Axis| -> Vec<String> { axis.ticks().map(|(_, label)| label).collect() };
        assert_eq!(labels(Axis::up_to(2.75)), ["0", "1", "2"]);
        assert_eq!(
            labels(Axis::up_to(1_448.0).rounded_up()),
            ["0", "500", "1000", "1500"]
        );
        assert_eq!(labels(Axis::up_to(0.3)), ["0", "0.1", "0.2", "0.3"]);
        assert_eq!(labels(Axis::up_to(100.0).rounded_up()), ["0", "50", "100"]);
    }
}
