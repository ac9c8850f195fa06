//! One connection on the page while the detailed requests were on it, and then over its whole life: for each direction its
//! sequence over time with acknowledgements and losses, the sizes of packets, the throughput, what was in flight, the windows
//! and the round-trip time.
//!
//! All charts of a direction share the axis of time; the figures are also in a table. Only places, and sums of what is shown,
//! are computed here; squall-analysis' `detail` computes the rest. `trial_markup` says where the markup goes.

use std::collections::{BTreeMap, BTreeSet};

use squall_analysis::causes::{DirectionTrace, TracePacket, TraceWindow};
use squall_analysis::detail::{ConnectionDetail, SenderRows, WindowLevel};
use squall_analysis::{Thinned, figure};
use squall_base::record::{Cause, Direction};
use squall_base::{Duration, Time};

use super::chart::{Chart, ChartTexts, TimeAxis, ValueAxis, area, band, crosses, dots, steps};
use super::links::Page;
use super::text::{SERIES, escaped};
use crate::palette::CauseLook;

/// The values of a quantity over time.
type Line = Vec<(Time, f64)>;

/// The most requests in the legend.
const NAMED: usize = 7;

/// Appends the connection.
pub(super) fn push(page: &mut String, detail: &ConnectionDetail, of: &Page<'_>) {
    let trace = &detail.trace;
    let transport = if trace.is_quic { "QUIC" } else { "TCP" };
    page.push_str(&format!(
        "<h2 tabindex=\"-1\">{transport} connection {}{}</h2>\n<p class=\"hint\">{}. Opened at {}. Times count from when the \
         first of the requests was due.</p>\n",
        trace.connection,
        of.context.of_hop(trace.hop),
        escaped(&of.title),
        of.context.time(trace.opened),
    ));
    for (window, senders) in trace.windows.iter().zip(&detail.senders) {
        let view = View {
            window,
            is_quic: trace.is_quic,
            origin: window.requests.first().map_or(window.from, |it| it.from),
            colours: Colours::of(window),
        };
        view.push_head(page, of);
        view.push_directions(page, senders);
    }
    if let Some(life) = &trace.life {
        let view = View {
            window: life,
            is_quic: trace.is_quic,
            origin: life.from,
            colours: Colours::of(life),
        };
        view.push_life_head(page);
        view.push_directions(page, &detail.life_senders);
    }
}

/// The colours of requests: those that are shown in detail have the first ones, others follow in the order of their first
/// packets.
struct Colours(Vec<u64>);

impl Colours {
    fn of(window: &TraceWindow) -> Colours {
        let mut seen = BTreeSet::new();
        let chosen = window.requests.iter().map(|it| it.request);
        let packets = window.directions.iter().flat_map(|it| &it.packets.kept);
        let others = packets.filter_map(|packet| packet.request);
        let all = chosen.chain(others);
        Colours(all.filter(|request| seen.insert(*request)).collect())
    }

    /// The number of a request's colour; `None` for bytes of no request.
    fn get(&self, request: Option<u64>) -> Option<usize> {
        let place = self.0.iter().position(|other| Some(*other) == request)?;
        Some(place % SERIES)
    }
}

/// The name of a direction: in words, and as part of the names of files.
#[derive(Clone, Copy, Debug)]
struct DirectionNames {
    words: &'static str,
    name: &'static str,
}

impl DirectionNames {
    /// The names for a view of the connection's whole life, or of one of its time windows.
    fn of(direction: Direction, is_life: bool) -> DirectionNames {
        let (words, life) = match direction {
            Direction::Up => ("From client to server", "life-up"),
            Direction::Down => ("From server to client", "life-down"),
        };
        let name = if is_life { life } else { direction.name() };
        DirectionNames { words, name }
    }

    fn texts<'a>(self, aspect: &str, title: &'a str, label: String) -> ChartTexts<'a> {
        ChartTexts {
            name: format!("{}-{aspect}", self.name),
            title,
            label,
        }
    }
}

/// A view of the connection over a time window, or over its whole life.
struct View<'a> {
    window: &'a TraceWindow,
    is_quic: bool,
    origin: Time,
    colours: Colours,
}

impl View<'_> {
    fn time(&self) -> TimeAxis {
        TimeAxis::new(self.origin, self.window.from, self.window.to)
    }

    /// Whether the view shows the whole life, which names no particular requests.
    fn is_life(&self) -> bool {
        self.window.requests.is_empty()
    }

    /// Says what the view of a whole life leaves out, and what its colours and times mean.
    fn push_life_head(&self, page: &mut String) {
        let length = figure::millis(self.window.to.since(self.window.from));
        page.push_str(&format!(
            "<h3>Over its whole life of {length} ms</h3>\n<p class=\"hint\">Times count from its first packet. \
             Several requests share a colour. For each interval, the lines show the smallest window and the last \
             sample.</p>\n"
        ));
    }

    /// Says which requests the time window is about, and which colours requests have.
    fn push_head(&self, page: &mut String, of: &Page<'_>) {
        let links = self.window.requests.iter().map(|it| {
            let (id, request) = (of.request(it.request), it.request);
            format!("<a href=\"#{id}\">request {request}</a>")
        });
        let links: Vec<String> = links.collect();
        page.push_str(&format!(
            "<h3>While {} was in flight, from {}</h3>\n<p class=\"legend\">",
            links.join(" and "),
            of.context.time(self.window.from),
        ));
        for (place, request) in self.colours.0.iter().take(NAMED).enumerate() {
            let is_above = self.window.requests.iter().any(|it| it.request == *request);
            let name = if is_above {
                format!("request {request}")
            } else {
                format!(
                    "<a href=\"#{}\">request {request}</a>",
                    of.request(*request)
                )
            };
            page.push_str(&format!(
                "<span class=\"key\"><i class=\"swatch\" style=\"--series: var(--series-{})\"></i>{name}</span> ",
                place % SERIES
            ));
        }
        if self.colours.0.len() > NAMED {
            let more = figure::count((self.colours.0.len() - NAMED) as u64);
            page.push_str(&format!("and {more} more, which share the colours"));
        }
        page.push_str("</p>\n");
    }

    fn push_directions(&self, page: &mut String, senders: &[SenderRows; 2]) {
        for direction in Direction::ALL {
            let place = direction as usize;
            let trace = &self.window.directions[place];
            self.push_direction(page, direction, trace, &senders[place]);
        }
    }

    fn push_direction(
        &self,
        page: &mut String,
        direction: Direction,
        trace: &DirectionTrace,
        senders: &SenderRows,
    ) {
        let of = DirectionNames::of(direction, self.is_life());
        let words = of.words;
        page.push_str(&format!("<h4>{words}</h4>\n"));
        if trace.packets.kept.is_empty() {
            page.push_str("<p class=\"hint\">No packet with payload.</p>\n");
            return;
        }
        page.push_str(&format!(
            "<div class=\"scroll\" role=\"group\" tabindex=\"0\" aria-label=\"Charts: {words}\">\n"
        ));
        self.push_sequence(page, of, trace);
        self.push_sizes(page, of, trace);
        self.push_throughput(page, of, trace);
        self.push_in_flight(page, of, trace, senders);
        self.push_windows(page, of, trace, senders);
        self.push_round_trips(page, of, senders);
        page.push_str("</div>\n");
        push_marks(page, trace, senders);
        push_figures(page, of, trace);
    }

    fn push_sequence(&self, page: &mut String, of: DirectionNames, trace: &DirectionTrace) {
        let label = format!(
            "{}: packets over time, {} of them lost, {} with repeated bytes",
            of.words,
            figure::count(trace.lost),
            figure::count(trace.repeated)
        );
        if !self.is_quic {
            let base = first_byte(&trace.packets);
            let title = format!(
                "Sequence: kB from byte {}; line: acknowledged",
                figure::count(base)
            );
            let acks = acks(trace, |to| kilobytes(to.saturating_sub(base)));
            let values = |packet: &TracePacket| kilobytes(packet.end.saturating_sub(base));
            let texts = of.texts("sequence", &title, label);
            self.push_packets(page, texts, &trace.packets, values, &acks);
            return;
        }
        let base = trace.numbers.kept.iter().map(|it| it.start).min();
        let base = base.unwrap_or(0) as f64;
        let title = format!("Packet numbers from {base}; line: largest acknowledged");
        let acks = acks(trace, |to| to as f64 - 1.0 - base);
        let number = |packet: &TracePacket| packet.start as f64 - base;
        let texts = of.texts("packet-numbers", &title, label.clone());
        self.push_packets(page, texts, &trace.numbers, number, &acks);
        let texts = of.texts("stream-offsets", "Offset in its stream in kB", label);
        let offset = |packet: &TracePacket| kilobytes(packet.end);
        self.push_packets(page, texts, &trace.packets, offset, &[]);
    }

    /// A chart with a mark for each packet, and a line below them.
    fn push_packets(
        &self,
        page: &mut String,
        texts: ChartTexts<'_>,
        packets: &Thinned<TracePacket>,
        value: impl Fn(&TracePacket) -> f64,
        line: &[(Time, f64)],
    ) {
        let time = self.time();
        let all = packets.kept.iter().map(&value);
        let values = ValueAxis::of(all.chain(line.iter().map(|(_, value)| *value)));
        let place = |at: Time, value: f64| (time.across(at), values.height(value));
        let mut by_colour: BTreeMap<Option<usize>, Vec<(f64, f64)>> = BTreeMap::new();
        let (mut again, mut lost) = (Vec::new(), Vec::new());
        for packet in &packets.kept {
            let at = place(packet.sent, value(packet));
            match (packet.is_lost, packet.is_again) {
                (true, _) => lost.push(at),
                (false, true) => again.push(at),
                (false, false) => {
                    let colour = self.colours.get(packet.request);
                    by_colour.entry(colour).or_default().push(at);
                }
            }
        }
        let mut shapes = steps("ack", line.iter().map(|(at, value)| place(*at, *value)));
        for (colour, places) in by_colour {
            let class = colour.map_or_else(|| "dots".to_owned(), |n| format!("dots series-{n}"));
            shapes += &dots(&class, places.into_iter());
        }
        shapes += &dots("dots again", again.into_iter());
        shapes += &crosses("packet lost", lost.into_iter());
        let chart = Chart {
            texts,
            time,
            values,
            shapes,
        };
        chart.push(page);
    }

    fn push_sizes(&self, page: &mut String, of: DirectionNames, trace: &DirectionTrace) {
        let sizes = trace.packets.kept.iter().map(|it| it.end - it.start);
        let most = sizes.max().unwrap_or(0);
        let label = format!(
            "{}: payload of packets, at most {} bytes",
            of.words,
            figure::count(most)
        );
        let size = |packet: &TracePacket| (packet.end - packet.start) as f64;
        let texts = of.texts("packet-sizes", "Payload of a packet in bytes", label);
        self.push_packets(page, texts, &trace.packets, size, &[]);
    }

    fn push_throughput(&self, page: &mut String, of: DirectionNames, trace: &DirectionTrace) {
        let seconds = trace.interval.as_secs_f64().max(1e-9);
        let rate = |bytes: u64| bytes as f64 * 8.0 / 1e6 / seconds;
        let rates: Vec<f64> = trace.delivered.iter().map(|bytes| rate(*bytes)).collect();
        let values = ValueAxis::of(rates.iter().copied());
        let time = self.time();
        let end = |n: u64| {
            let since = trace.interval.as_nanos().saturating_mul(n);
            time.across(self.window.from + Duration::from_nanos(since))
        };
        let places = (1..).zip(&rates);
        let places = places.map(|(n, rate)| (end(n), values.height(*rate)));
        let most = rates.iter().copied().fold(0.0, f64::max);
        let title = format!(
            "Payload that arrived in Mbit/s, in intervals of {} ms",
            figure::millis(trace.interval)
        );
        let label = format!(
            "{}: throughput, at most {} Mbit/s",
            of.words,
            figure::three_digits(most)
        );
        let chart = Chart {
            texts: of.texts("throughput", &title, label),
            time,
            values,
            shapes: area(values, places, end(0)),
        };
        chart.push(page);
    }

    fn push_in_flight(
        &self,
        page: &mut String,
        of: DirectionNames,
        trace: &DirectionTrace,
        senders: &SenderRows,
    ) {
        let in_flight = trace.in_flight.kept.iter();
        let in_flight: Line = in_flight.map(|it| (it.at, kilobytes(it.bytes))).collect();
        let samples = senders.samples.kept.iter();
        let windows: Line = samples
            .filter_map(|it| Some((it.at, kilobytes(it.cwnd_bytes?))))
            .collect();
        let most = in_flight.iter().map(|(_, value)| *value);
        let most = most.fold(0.0, f64::max);
        let causes = [
            Cause::Cwnd,
            Cause::WindowReceive,
            Cause::Pacing,
            Cause::SendBuffer,
            Cause::Loss,
        ];
        let title = "In flight in kB; dashed: congestion window; shaded: the sender had to wait";
        let label = format!(
            "{}: bytes in flight, at most {} kB",
            of.words,
            figure::three_digits(most)
        );
        let lines = [("line", in_flight), ("line limit", windows)];
        let bands = self.bands(trace, &causes);
        self.push_lines(page, of.texts("in-flight", title, label), &lines, bands);
    }

    fn push_windows(
        &self,
        page: &mut String,
        of: DirectionNames,
        trace: &DirectionTrace,
        senders: &SenderRows,
    ) {
        let levels = &senders.levels.kept;
        let line =
            |stream: Option<u64>| window_line(levels.iter().filter(move |it| it.stream == stream));
        let bands = self.bands(trace, &[Cause::WindowConnection, Cause::WindowStream]);
        if levels.is_empty() && bands.is_empty() {
            return;
        }
        let mut lines = vec![("line limit", line(None))];
        for request in self.window.requests.iter().filter(|it| it.stream.is_some()) {
            lines.push(("line", line(request.stream)));
        }
        let mut title = "Flow-control windows in kB; dashed: connection; lines: streams; shaded: nothing was left";
        if self.is_life() {
            let of_any = levels.iter().filter(|it| it.stream.is_some());
            lines.push(("line", window_line(of_any)));
            title = "Flow-control windows in kB; dashed: connection; line: the least of all streams; shaded: nothing was left";
        }
        let label = format!("{}: what flow control let the sender send", of.words);
        self.push_lines(page, of.texts("windows", title, label), &lines, bands);
    }

    fn push_round_trips(&self, page: &mut String, of: DirectionNames, senders: &SenderRows) {
        let samples = senders.samples.kept.iter();
        let times: Line = samples
            .filter_map(|it| Some((it.at, it.rtt?.as_millis_f64())))
            .collect();
        if times.is_empty() {
            return;
        }
        let label = format!("{}: round-trip time", of.words);
        let texts = of.texts("round-trips", "Smoothed round-trip time in ms", label);
        self.push_lines(page, texts, &[("line", times)], String::new());
    }

    /// A chart with lines of steps over shaded times.
    fn push_lines(
        &self,
        page: &mut String,
        texts: ChartTexts<'_>,
        lines: &[(&str, Line)],
        bands: String,
    ) {
        let time = self.time();
        let all = lines.iter().flat_map(|(_, line)| line);
        let values = ValueAxis::of(all.map(|(_, value)| *value));
        let mut shapes = bands;
        for (class, line) in lines {
            let places = line.iter();
            let places = places.map(|(at, value)| (time.across(*at), values.height(*value)));
            shapes += &steps(class, places);
        }
        let chart = Chart {
            texts,
            time,
            values,
            shapes,
        };
        chart.push(page);
    }

    /// When the sender had to wait because of these causes.
    fn bands(&self, trace: &DirectionTrace, causes: &[Cause]) -> String {
        let time = self.time();
        let held = trace.held.iter().filter(|it| causes.contains(&it.cause));
        held.map(|it| {
            let length = figure::millis(it.to.since(it.from));
            let words = format!("{} {length} ms", it.cause.name());
            band(it.cause, &words, (time.across(it.from), time.across(it.to)))
        })
        .collect()
    }
}

/// What flow control let a sender send, in kB.
fn window_line<'a>(levels: impl Iterator<Item = &'a WindowLevel>) -> Line {
    levels.map(|it| (it.at, it.bytes as f64 / 1e3)).collect()
}

fn kilobytes(bytes: u64) -> f64 {
    bytes as f64 / 1e3
}

fn first_byte(packets: &Thinned<TracePacket>) -> u64 {
    let starts = packets.kept.iter().map(|packet| packet.start);
    starts.min().unwrap_or(0)
}

fn acks(trace: &DirectionTrace, value: impl Fn(u64) -> f64) -> Line {
    let all = trace.acks.kept.iter();
    all.map(|ack| (ack.at, value(ack.to))).collect()
}

/// What the marks mean, and what was left out.
fn push_marks(page: &mut String, trace: &DirectionTrace, senders: &SenderRows) {
    let mut words =
        "A dot is a packet, in the colour of its request; a large pale one: with bytes that had been sent before; a cross: lost."
            .to_owned();
    let lists = [
        (trace.packets.kept.len(), trace.packets.all, "packets"),
        (trace.acks.kept.len(), trace.acks.all, "acknowledgements"),
        (
            senders.levels.kept.len(),
            senders.levels.all,
            "changes of windows",
        ),
        (senders.samples.kept.len(), senders.samples.all, "samples"),
    ];
    for (kept, all, what) in lists {
        if (kept as u64) < all {
            words += &format!(
                " Of {} {what}, {} are shown, evenly spaced and in order.",
                figure::count(all),
                figure::count(kept as u64),
            );
        }
    }
    page.push_str(&format!("<p class=\"hint\">{words}</p>\n"));
}

/// A direction in numbers: its packets, and how long its sender had to wait for what.
fn push_figures(page: &mut String, of: DirectionNames, trace: &DirectionTrace) {
    let mut rows = vec![
        ("packets".to_owned(), figure::count(trace.packets.all)),
        ("lost".to_owned(), figure::count(trace.lost)),
        (
            "with repeated bytes".to_owned(),
            figure::count(trace.repeated),
        ),
        (
            "bytes that arrived".to_owned(),
            figure::count(trace.delivered.iter().sum()),
        ),
    ];
    let mut waits: BTreeMap<Cause, Duration> = BTreeMap::new();
    for stage in &trace.held {
        let wait = waits.entry(stage.cause).or_insert(Duration::ZERO);
        *wait = *wait + stage.to.since(stage.from);
    }
    rows.extend(waits.into_iter().map(|(cause, wait)| {
        let name = format!("{} {}, ms", CauseLook::of(cause).letter, cause.name());
        (name, figure::millis(wait))
    }));
    page.push_str(&format!(
        "<table class=\"numbers\" data-name=\"{}-figures\"><tbody>\n",
        of.name
    ));
    for (name, value) in rows {
        page.push_str(&format!(
            "<tr><th scope=\"row\">{name}</th><td>{value}</td></tr>\n"
        ));
    }
    page.push_str("</tbody></table>\n");
}
