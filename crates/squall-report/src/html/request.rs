//! One request on the page, in full: what its time was spent on, hop by hop, with its frames, its packets and its windows, and
//! below that all of it in words.
//!
//! It is one drawing, whose rows share the axis of time. Everything is also in the tables and in the text of `squall explain`
//! below it, for readers who do not see the drawing. Nothing is computed here; squall-analysis' `detail` and `explain` do that.
//! `trial_markup` says where the markup goes.

use std::collections::BTreeSet;

use squall_analysis::causes::{MessagePacket, Passage, Stage};
use squall_analysis::detail::{FrameTick, RequestDetail};
use squall_analysis::explain::Explanation;
use squall_analysis::{Thinned, figure};
use squall_base::record::{Direction, Side, Way, frame_name};
use squall_base::{Duration, Time};

use super::chart::{self, LEFT, RIGHT, TimeAxis, since};
use super::links::{Page, places};
use super::text::escaped;
use crate::explain;
use crate::palette::CauseLook;
use crate::text::Colour;

/// The heights of rows.
const STAGES: f64 = 20.0;
const FRAMES: f64 = 18.0;
const LADDER: f64 = 86.0;
const GAP: f64 = 8.0;

/// A shape is invisible if it ends less than this after the previous one.
const VISIBLE: f64 = 0.4;

/// The most packets of a message that are drawn, and rows of the tables.
const PACKETS_DRAWN: usize = 300;
const ROWS: usize = 200;

/// The most requests that are named in a sentence.
const NAMED: usize = 12;

/// Appends the request.
pub(super) fn push(page: &mut String, detail: &RequestDetail, of: &Page<'_>) {
    let it = &detail.explanation;
    let text = explain::request(&of.context, it, Colour::Plain);
    let mut lines = text.lines();
    let title = lines.next().unwrap_or_default();
    page.push_str(&format!(
        "<h2 tabindex=\"-1\">{}</h2>\n<p class=\"hint\">{}.{}</p>\n",
        escaped(title),
        escaped(&of.title),
        escaped(&chosen_because(&detail.reasons)),
    ));
    push_places(page, it, of);
    push_legend(page, it);
    let drawing = Drawing::of(detail, of);
    page.push_str(
        "<div class=\"scroll\" role=\"group\" tabindex=\"0\" aria-label=\"Drawing of the request\">\n",
    );
    chart::begin(page, drawing.bottom + 18.0, &summary(it), "waterfall");
    page.push_str(&drawing.markup);
    chart::push_times(page, drawing.time, drawing.bottom + 14.0);
    page.push_str("</svg></div>\n");
    push_hint(page, detail);
    push_waited(page, detail, of);
    push_stages(page, it);
    push_frames(page, &detail.frames, it.intended);
    page.push_str("<details open><summary>All of it in words</summary>\n<pre tabindex=\"0\">");
    for line in lines {
        page.push_str(&escaped(line));
        page.push('\n');
    }
    page.push_str("</pre></details>\n");
}

/// ` Shown because it is the slowest of its variant and condition.`; empty without a reason.
fn chosen_because(reasons: &[String]) -> String {
    if reasons.is_empty() {
        return String::new();
    }
    format!(" Shown because it is {}.", reasons.join("; "))
}

/// Links to the connections that carried it.
fn push_places(page: &mut String, it: &Explanation, of: &Page<'_>) {
    let links = places(it).into_iter().filter_map(|(hop, number)| {
        let id = of.connection(hop, number)?;
        let of_hop = of.context.of_hop(hop);
        Some(format!(
            "<a href=\"#{id}\">connection {number}{of_hop} in that time</a>"
        ))
    });
    let links: Vec<String> = links.collect();
    if !links.is_empty() {
        page.push_str(&format!("<p>{}</p>\n", links.join(" · ")));
    }
}

/// The causes that it has, with their colours, letters and times.
fn push_legend(page: &mut String, it: &Explanation) {
    page.push_str("<p class=\"legend\">");
    for share in &it.causes {
        let name = share.cause.name();
        page.push_str(&format!(
            "<span class=\"key\"><span class=\"swatch cause-{name}\"></span>{} {name} {} ms</span> ",
            CauseLook::of(share.cause).letter,
            figure::millis(share.time),
        ));
    }
    page.push_str("</p>\n");
}

/// The drawing in one sentence.
fn summary(it: &Explanation) -> String {
    let causes = it.causes.iter().map(|share| {
        let time = figure::millis(share.time);
        format!("{} {time} ms", share.cause.name())
    });
    let causes: Vec<String> = causes.collect();
    format!(
        "What request {} waited for in {} ms: {}. The table below has each stage.",
        it.request,
        figure::millis(it.latency),
        causes.join(", ")
    )
}

/// The drawing, row below row.
struct Drawing {
    markup: String,
    time: TimeAxis,
    bottom: f64,
}

impl Drawing {
    fn of(detail: &RequestDetail, of: &Page<'_>) -> Drawing {
        let it = &detail.explanation;
        let to = it.end.max(it.intended + Duration::from_nanos(1));
        let mut drawing = Drawing {
            markup: String::new(),
            time: TimeAxis::new(it.intended, it.intended, to),
            bottom: 4.0,
        };
        drawing.push_lane("all hops", &it.course.stages);
        for hop in it.course.hops.iter().filter(|hop| !hop.stages.is_empty()) {
            drawing.push_lane(&format!("hop {}", hop.hop), &hop.stages);
        }
        drawing.push_frames(&detail.frames.kept);
        let passages = of.context.passages(&it.course);
        let hops: BTreeSet<u8> = passages.iter().map(|(hop, ..)| *hop).collect();
        for hop in hops {
            let own = passages.iter().filter(|(number, ..)| *number == hop);
            let own: Vec<(Direction, &Passage)> = own
                .map(|(_, direction, passage)| (*direction, *passage))
                .collect();
            drawing.push_windows(&own);
            drawing.push_ladder(&own, &of.context.of_hop(hop));
        }
        drawing
    }

    fn label(&mut self, y: f64, words: &str) {
        self.markup.push_str(&format!(
            "<text class=\"of-y\" x=\"{:.1}\" y=\"{y:.1}\">{}</text>\n",
            LEFT - 6.0,
            escaped(words)
        ));
    }

    /// A row of stages, each with the colour and, if there is room, the letter of its cause.
    fn push_lane(&mut self, name: &str, stages: &[Stage]) {
        let y = self.bottom;
        self.label(y + STAGES * 0.7, name);
        let mut drawn_to = LEFT - VISIBLE;
        for stage in stages {
            let (from, to) = (self.time.across(stage.from), self.time.across(stage.to));
            if to - drawn_to < VISIBLE {
                continue;
            }
            drawn_to = to;
            let (cause, width) = (stage.cause.name(), (to - from).max(VISIBLE));
            let length = figure::millis(stage.to.since(stage.from));
            self.markup.push_str(&format!(
                "<rect class=\"stage cause-{cause}\" x=\"{from:.1}\" y=\"{y:.1}\" width=\"{width:.1}\" height=\"{STAGES}\">\
                 <title>{cause}, {length} ms</title></rect>\n"
            ));
            if width >= 12.0 {
                self.markup.push_str(&format!(
                    "<text class=\"letter\" x=\"{:.1}\" y=\"{:.1}\">{}</text>\n",
                    f64::midpoint(from, to),
                    y + STAGES * 0.7,
                    CauseLook::of(stage.cause).letter
                ));
            }
        }
        self.bottom += STAGES + 3.0;
    }

    /// A row for each side that recorded frames: sent ones above the line, received ones below.
    fn push_frames(&mut self, frames: &[FrameTick]) {
        let sides: BTreeSet<(u8, Side)> = frames.iter().map(|it| (it.hop, it.side)).collect();
        let is_one_hop = sides.iter().all(|(hop, _)| *hop == 1);
        for (hop, side) in &sides {
            let (y, middle) = (self.bottom, self.bottom + FRAMES / 2.0);
            let name = if is_one_hop {
                format!("{} frames", side.name())
            } else {
                format!("{} frames, {hop}", side.name())
            };
            self.label(middle + 3.5, &name);
            let mut ticks = String::new();
            let own = frames
                .iter()
                .filter(|it| (it.hop, it.side) == (*hop, *side));
            for frame in own {
                let end = match frame.way {
                    Way::Sent => y + 1.0,
                    Way::Received => y + FRAMES - 1.0,
                };
                ticks += &format!("M{:.1} {middle:.1}V{end:.1}", self.time.across(frame.at));
            }
            let line = format!("M{LEFT} {middle:.1}H{RIGHT}");
            self.markup.push_str(&chart::path_of("grid", &line));
            self.markup.push_str(&chart::path_of("tick", &ticks));
            self.bottom += FRAMES + 2.0;
        }
    }

    /// A row for the flow-control windows that held the request's messages back, if any did.
    fn push_windows(&mut self, passages: &[(Direction, &Passage)]) {
        let y = self.bottom;
        let held = passages.iter().flat_map(|(_, passage)| &passage.held);
        let mut bands = String::new();
        let mut drawn = BTreeSet::new();
        for stage in held {
            let (from, to) = (self.time.across(stage.from), self.time.across(stage.to));
            // Of several waits with the same cause in one place, only the first would be visible, so the others are not drawn.
            if !drawn.insert((stage.cause, (to / VISIBLE) as u64)) {
                continue;
            }
            let cause = stage.cause.name();
            bands += &format!(
                "<rect class=\"stage cause-{cause}\" x=\"{from:.1}\" y=\"{y:.1}\" width=\"{:.1}\" height=\"8\">\
                 <title>{cause}, {} ms</title></rect>\n",
                (to - from).max(0.5),
                figure::millis(stage.to.since(stage.from)),
            );
        }
        if bands.is_empty() {
            return;
        }
        self.label(y + 8.0, "windows shut");
        self.markup.push_str(&bands);
        self.bottom += 8.0 + GAP;
    }

    /// The packets between the client (above) and the server (below).
    fn push_ladder(&mut self, passages: &[(Direction, &Passage)], of_hop: &str) {
        self.bottom += GAP;
        let (top, bottom) = (self.bottom, self.bottom + LADDER);
        self.label(top + 3.5, &format!("client{of_hop}"));
        self.label(bottom + 3.5, &format!("server{of_hop}"));
        let ends = format!("M{LEFT} {top:.1}H{RIGHT}M{LEFT} {bottom:.1}H{RIGHT}");
        self.markup.push_str(&chart::path_of("grid", &ends));
        let (mut plain, mut again, mut lost) = (String::new(), String::new(), Vec::new());
        for (direction, passage) in passages {
            let (from, to) = match direction {
                Direction::Up => (top, bottom),
                Direction::Down => (bottom, top),
            };
            for packet in &drawn(&passage.packets).kept {
                let sent = self.time.across(packet.sent);
                let (x, y) = match packet.arrived {
                    Some(arrived) => (self.time.across(arrived), to),
                    None => (sent + 2.0, f64::midpoint(from, to)),
                };
                if packet.arrived.is_none() {
                    lost.push((x, y));
                }
                let path = if packet.is_again {
                    &mut again
                } else {
                    &mut plain
                };
                *path += &format!("M{sent:.1} {from:.1}L{x:.1} {y:.1}");
            }
        }
        self.markup.push_str(&chart::path_of("packet", &plain));
        self.markup
            .push_str(&chart::path_of("packet again", &again));
        self.markup
            .push_str(&chart::crosses("packet lost", lost.into_iter()));
        self.bottom += LADDER + GAP;
    }
}

fn drawn(packets: &[MessagePacket]) -> Thinned<MessagePacket> {
    Thinned::of(packets.to_vec(), PACKETS_DRAWN, |packet| {
        packet.is_again || packet.arrived.is_none()
    })
}

/// What the marks mean, and what was left out.
fn push_hint(page: &mut String, detail: &RequestDetail) {
    let course = &detail.explanation.course;
    let mut words = "Times count from when the request was due. A line between client and server is a packet with bytes of \
                     this request; dashed: sent again; a cross: lost. Frames are ticks: sent above the line, received below."
        .to_owned();
    let packets: Vec<(usize, u64)> = (course.passages())
        .map(|passage| drawn(&passage.packets))
        .map(|drawn| (drawn.kept.len(), drawn.all))
        .collect();
    let kept: usize = packets.iter().map(|(kept, _)| kept).sum();
    let all: u64 = packets.iter().map(|(_, all)| all).sum();
    for (kept, all, what) in [
        (kept, all, "packets"),
        (detail.frames.kept.len(), detail.frames.all, "frames"),
    ] {
        if (kept as u64) < all {
            words += &format!(
                " Of {} {what}, {} are shown: unusual ones first, then evenly spaced ones.",
                figure::count(all),
                figure::count(kept as u64),
            );
        }
    }
    page.push_str(&format!("<p class=\"hint\">{words}</p>\n"));
}

/// The requests that it waited for, and those that waited with it, with links to them.
fn push_waited(page: &mut String, detail: &RequestDetail, of: &Page<'_>) {
    let mut seen = BTreeSet::new();
    let blockers = detail.explanation.waited_for.iter();
    let waits = blockers
        .filter(|it| seen.insert((it.cause, it.request)))
        .map(|it| (it.request, format!(" ({})", it.cause.name())));
    push_named(page, "It waited for", waits.collect(), of);
    let delayed = detail.delayed_with.iter();
    let delayed = delayed.map(|request| (*request, String::new()));
    let words = "The lost packets that delayed it also delayed";
    push_named(page, words, delayed.collect(), of);
}

/// A sentence that names requests, each with what to say about it; nothing without requests.
fn push_named(page: &mut String, words: &str, requests: Vec<(u64, String)>, of: &Page<'_>) {
    if requests.is_empty() {
        return;
    }
    let more = match requests.len().saturating_sub(NAMED) {
        0 => String::new(),
        more => format!(" and {} more", figure::count(more as u64)),
    };
    let named = requests.into_iter().take(NAMED).map(|(request, about)| {
        let id = of.request(request);
        format!("<a href=\"#{id}\">request {request}</a>{about}")
    });
    let named: Vec<String> = named.collect();
    page.push_str(&format!("<p>{words} {}{more}.</p>\n", named.join(", ")));
}

/// The stages as a table: first those of the whole path, then those of each hop.
fn push_stages(page: &mut String, it: &Explanation) {
    page.push_str(
        "<details><summary>Stages as a table</summary>\n<table class=\"numbers\" data-name=\"stages\"><thead><tr>\
         <th scope=\"col\">hop</th><th scope=\"col\">from ms</th><th scope=\"col\">to ms</th><th scope=\"col\">ms</th><th scope=\"col\">cause</th>\
         </tr></thead>\n<tbody>\n",
    );
    let whole = it
        .course
        .stages
        .iter()
        .map(|stage| ("all".to_owned(), stage));
    let hops = it.course.hops.iter();
    let hops = hops.flat_map(|hop| {
        let stages = hop.stages.iter();
        stages.map(|stage| (hop.hop.to_string(), stage))
    });
    let rows: Vec<(String, &Stage)> = whole.chain(hops).collect();
    for (hop, stage) in rows.iter().take(ROWS) {
        let cells = [
            ("from ms", moment(it.intended, stage.from)),
            ("to ms", moment(it.intended, stage.to)),
            ("ms", moment(stage.from, stage.to)),
            (
                "cause",
                format!(
                    "{} {}",
                    CauseLook::of(stage.cause).letter,
                    stage.cause.name()
                ),
            ),
        ];
        page.push_str(&format!("<tr><th scope=\"row\">{hop}</th>"));
        for (title, text) in cells {
            page.push_str(&format!("<td data-label=\"{title}\">{text}</td>"));
        }
        page.push_str("</tr>\n");
    }
    page.push_str("</tbody></table>\n");
    if rows.len() > ROWS {
        let more = figure::count((rows.len() - ROWS) as u64);
        page.push_str(&format!("<p class=\"hint\">and {more} more</p>\n"));
    }
    page.push_str("</details>\n");
}

/// The frames as a table, if there are any.
fn push_frames(page: &mut String, frames: &Thinned<FrameTick>, origin: Time) {
    if frames.kept.is_empty() {
        return;
    }
    page.push_str(
        "<details><summary>Frames as a table</summary>\n<table class=\"numbers\" data-name=\"frames\"><thead><tr>\
         <th scope=\"col\">ms</th><th scope=\"col\">hop</th><th scope=\"col\">side</th><th scope=\"col\">frame</th><th scope=\"col\">bytes</th>\
         </tr></thead>\n<tbody>\n",
    );
    for frame in frames.kept.iter().take(ROWS) {
        let name = frame_name(frame.layer, frame.kind)
            .map_or_else(|| format!("type {}", frame.kind), str::to_owned);
        let (side, way) = (frame.side.name(), frame.way.name());
        page.push_str(&format!(
            "<tr><th scope=\"row\">{}</th><td data-label=\"hop\">{}</td><td data-label=\"side\">{side} {way}</td>\
             <td data-label=\"frame\">{name}</td><td data-label=\"bytes\">{}</td></tr>\n",
            moment(origin, frame.at),
            frame.hop,
            figure::count(frame.length),
        ));
    }
    page.push_str("</tbody></table></details>\n");
}

/// Milliseconds to the microsecond.
fn moment(origin: Time, at: Time) -> String {
    format!("{:.3}", since(origin, at))
}
