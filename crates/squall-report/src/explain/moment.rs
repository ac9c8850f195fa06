//! One moment as text: what each request waited for, the connections, the link, the drops.
//!
//! Long lists are cut, with a note; the JSON of the same command is complete.

use squall_analysis::explain::{
    ConnectionState, LinkDirectionState, Moment, RequestInFlight, SideState,
};
use squall_analysis::figure;

use super::ExplanationContext;
use super::words::{self, millis, since};
use crate::text::{Colour, Style};

/// The most rows of a list.
const ROWS: usize = 20;

/// The moment as text, ending with a line feed.
pub fn moment(context: &ExplanationContext, moment: &Moment, colour: Colour) -> String {
    let at = context.time(moment.at);
    let in_flight = figure::counted(moment.in_flight.len() as u64, "request", "requests");
    let mut text = colour.styled(Style::Bold, &format!("{at}: {in_flight} in flight"));
    text.push('\n');
    push_waiting(&mut text, moment);
    push_list(&mut text, &moment.in_flight, "requests", |it| {
        request(it, moment)
    });
    push_list(&mut text, &moment.connections, "connections", |it| {
        connection(it, moment)
    });
    for both in moment.link.chunk_by(|one, next| one.hop == next.hop) {
        let of_hop = context.of_hop(both[0].hop);
        text.push_str(&if context.is_capture() {
            "the path between client and server:\n".to_owned()
        } else {
            format!("the link{of_hop}:\n")
        });
        for state in both {
            text.push_str(&format!("  {}\n", link(state, moment, context)));
        }
    }
    let around = millis(moment.around);
    if moment.drops.is_empty() {
        text.push_str(&format!(
            "no drops within {around} ms, and none before that was still missing\n"
        ));
    } else {
        text.push_str(&format!("drops within {around} ms, and those before that were still missing; times from this moment:\n"));
        push_list(&mut text, &moment.drops, "drops", |drop| {
            format!(
                "{:>10}  packet {}{} with {} {}; {}; it delayed {}",
                since(moment.at, drop.dropped_at),
                words::packet(drop.packet),
                context.of_hop(drop.packet.hop),
                words::contents(drop),
                words::fate(drop.fate),
                words::repaired(drop, moment.at),
                figure::counted(drop.victims as u64, "request", "requests"),
            )
        });
    }
    text
}

fn push_waiting(text: &mut String, moment: &Moment) {
    let known: usize = moment.waiting.iter().map(|it| it.requests).sum();
    if known == 0 {
        return;
    }
    let waiting = moment.waiting.iter();
    let words: Vec<String> = waiting
        .map(|it| format!("{} {}", figure::count(it.requests as u64), it.cause.name()))
        .collect();
    text.push_str(&format!("waiting for: {}\n", words.join(", ")));
}

fn push_list<T>(text: &mut String, all: &[T], what: &str, row: impl Fn(&T) -> String) {
    for it in all.iter().take(ROWS) {
        text.push_str(&format!("  {}\n", row(it)));
    }
    if all.len() > ROWS {
        text.push_str(&format!(
            "  and {} more {what}\n",
            figure::count((all.len() - ROWS) as u64)
        ));
    }
}

fn request(it: &RequestInFlight, moment: &Moment) -> String {
    let place = words::place(it.connection, it.stream);
    let stage = it.stage.map_or_else(String::new, |stage| {
        format!(
            "; {} since {} ms, for {} ms more",
            stage.cause.name(),
            millis(moment.at.since(stage.from)),
            millis(stage.to.since(moment.at)),
        )
    });
    format!(
        "request {} ({place}): due {} ms ago, over in {} ms{stage}",
        it.request,
        millis(moment.at.since(it.intended)),
        millis(it.end.since(moment.at)),
    )
}

fn connection(it: &ConnectionState, moment: &Moment) -> String {
    let requests = figure::counted(it.requests as u64, "request", "requests");
    let mut text = format!(
        "connection {}, {requests}; client: {}",
        it.connection,
        side(&it.client, moment)
    );
    if let Some(server) = &it.server {
        text.push_str(&format!("; server: {}", side(server, moment)));
    }
    text
}

fn side(state: &SideState, moment: &Moment) -> String {
    let mut facts = Vec::new();
    if let Some(window) = state.connection_window {
        facts.push(format!("connection window {window} bytes"));
    }
    if state.streams_without_window > 0 {
        let streams = figure::counted(state.streams_without_window as u64, "stream", "streams");
        facts.push(format!("{streams} without window"));
    }
    if let Some(engine) = state.engine {
        let cwnd = match (engine.cwnd_segments, engine.cwnd_bytes) {
            (Some(segments), _) => format!("cwnd {segments} segments"),
            (None, Some(bytes)) => format!("cwnd {} bytes", figure::count(bytes)),
            (None, None) => "cwnd not known".to_owned(),
        };
        let unacked = engine
            .unacknowledged_segments
            .map_or_else(String::new, |n| format!(", {n} in flight"));
        let rtt = engine
            .rtt
            .map_or_else(String::new, |rtt| format!(", rtt {} ms", millis(rtt)));
        let age = millis(moment.at.since(engine.at));
        facts.push(format!("{cwnd}{unacked}{rtt} (sampled {age} ms before)"));
    }
    if facts.is_empty() {
        return "nothing was recorded".to_owned();
    }
    facts.join(", ")
}

fn link(state: &LinkDirectionState, moment: &Moment, context: &ExplanationContext) -> String {
    let queue = match (state.queued_packets, state.queued_bytes) {
        (Some(packets), Some(bytes)) => format!(
            "{} of {} bytes waited for the rate",
            figure::counted(packets, "packet", "packets"),
            figure::count(bytes)
        ),
        _ if context.is_capture() => "queues are not seen".to_owned(),
        _ => "no queue, because no rate is set".to_owned(),
    };
    format!(
        "{:<4}  {queue}; {} inside; within {} ms {} came and {} were dropped",
        state.direction.name(),
        figure::count(state.inside_packets),
        millis(moment.around),
        figure::count(state.arrived_around),
        figure::count(state.dropped_around),
    )
}
